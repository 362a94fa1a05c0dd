"""What follows from the draws: computed at the same time, it is what it is one after another."""

import threading
import time

import pytest

import bayescontam
from bayescontam.inference import pipeline
from tests.support.made_fit import drawn_from_prior
from tests.support.simulated_responses import simulate


def test_threads_report_what_one_core_reports():
    table = simulate(seed=3, models=4, items=12).responses
    options = {"seed": 2, "draws": 50, "tune": 50, "chains": 2}
    with drawn_from_prior():
        alone = bayescontam.fit(table, **options, cores=1)
        together = bayescontam.fit(table, **options, cores=2)
    groups = set(alone.data.groups) - {"/record"}
    assert groups == set(together.data.groups) - {"/record"}
    assert {"/estimands", "/curves", "/loo", "/item_fit", "/predictive"} <= groups
    for name in groups:
        assert alone.data[name].to_dataset().equals(together.data[name].to_dataset()), name
    assert alone.record["checks"] == together.record["checks"]


@pytest.mark.parametrize("cores", [1, 2])
def test_jobs_are_named(cores):
    assert pipeline._results({"a": lambda: 1, "b": lambda: None}, cores) == {"a": 1, "b": None}


def test_jobs_run_at_the_same_time():
    both = threading.Barrier(2, timeout=60)
    found = pipeline._results({"a": both.wait, "b": both.wait}, 2)
    assert sorted(found.values()) == [0, 1]


def test_what_waits_is_dropped_where_a_job_fails():
    started = []

    def broken() -> None:
        raise ValueError("no such number")

    def waiting() -> None:
        started.append(1)
        time.sleep(0.02)

    jobs = {"broken": broken} | {f"waiting {k}": waiting for k in range(2000)}
    with pytest.raises(ValueError, match="no such number"):
        pipeline._results(jobs, 2)
    assert len(started) < 2000
