"""Runs: the same rows whatever the workers, blocks and interruptions; nothing lost or redone."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import numpy as np
import pandas as pd
import pytest

from bayescontam.calibration import runner
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.runner import ReplicateRunner, run_study
from bayescontam.calibration.storage import PATIENCE, Shards, StudyTask, audits, read_rows, tasks_of
from bayescontam.errors import SpecError, TaskError, UsageError
from bayescontam.parallel import shared_workers
from bayescontam.specs.study import StudySpec
from tests.support.forks import forking
from tests.support.processes import running
from tests.support.ray_cluster import cluster
from tests.support.small_studies import BOOTSTRAP, SINGLE, planned
from tests.support.workers import actors

__all__ = ["cluster"]

STUDY = StudySpec.parse(BOOTSTRAP, "small.toml")


AUDITED = SINGLE.replace("audit = 0.0", "audit = 0.5").replace("replicates = 4", "replicates = 12")
"""Streams follow the texts of study and model specs: of 12 tables, some and not all are audited."""


def rows(folder: Path, study: StudySpec = STUDY, **options: object) -> pd.DataFrame:
    """Run a study and return its rows without what a clock says."""
    return run_study(study, folder, **options).rows().drop(columns="seconds")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Return the rows of an uninterrupted run in one process."""
    return rows(tmp_path_factory.mktemp("runs") / "whole", jobs=1)


@pytest.fixture(scope="module")
def processes() -> Iterator[None]:
    """Let runs share their workers: otherwise those of each import for seconds."""
    with shared_workers("local"):
        yield


def shards(folder: Path) -> dict[str, int]:
    """Return the shards of a run with the times of their last change."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "rows").glob("*.parquet")}


def test_every_planned_fit_is_there_once(whole: pd.DataFrame) -> None:
    keys = whole[["cell", "replicate"]].drop_duplicates()
    assert len(keys) == 24
    assert set(keys["cell"]) == {"boost=0", "boost=0.3"}
    assert not whole.duplicated(["cell", "replicate", "estimator", "quantity", "where"]).any()
    truth = whole[whole["quantity"] == "novelty_gap"]
    assert truth.empty  # the bootstrap does not report it
    assert (
        whole.query("quantity == 'overfitting_direct' and cell == 'boost=0'")["truth"] == 0
    ).all()


@pytest.mark.parametrize("block", [1, 5])
def test_larger_shards_change_nothing(whole: pd.DataFrame, tmp_path: Path, block: int) -> None:
    assert rows(tmp_path / "out", jobs=1, block=block).equals(whole)
    assert len(shards(tmp_path / "out")) == {1: 24, 5: 6}[block]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "engine"),
    [("jax", "local"), pytest.param("nutpie", "ray", marks=pytest.mark.ray)],
)
def test_other_engines_and_workers_give_the_same_compiled_fits(
    request: pytest.FixtureRequest, tmp_path: Path, sampler: str, engine: str
) -> None:
    pytest.importorskip("blackjax" if sampler == "jax" else "ray")
    request.getfixturevalue("processes" if engine == "local" else "cluster")
    sampling = f'sampling = {{ engine = "{sampler}",'
    text = AUDITED if sampler == "jax" else SINGLE
    study = StudySpec.parse(text.replace("sampling = {", sampling), "small.toml")
    one = rows(tmp_path / "one", study, jobs=1)
    assert set(one.loc[~one["audit"], "engine"]) == {sampler}
    for row in audits(one).to_dict("records"):
        assert (row["engines"], row["far"]) == ("jax, pymc", 0)
        assert 0.3 < row["rms"] < 2
    assert one["audit"].any() == (sampler == "jax")
    first = one[one["replicate"] < 4].reset_index(drop=True)
    assert rows(tmp_path / "two", study, jobs=2, block=1, replicates=4, engine=engine).equals(first)


def test_more_replicates_leave_the_first_alone(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = rows(out, jobs=1, replicates=5, block=3)
    assert few.equals(whole[whole["replicate"] < 5].reset_index(drop=True))
    before = shards(out)
    assert rows(out, jobs=1).equals(whole)
    assert before.items() <= shards(out).items()
    settled = shards(out)
    assert rows(out, jobs=1, replicates=2).equals(whole)  # fewer than there are: nothing to do
    assert shards(out) == settled
    assert len(json.loads((out / "study.json").read_text())["runs"]) == 3


def test_a_missing_shard_alone_is_made_anew(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows(out, jobs=1, block=4)
    before = shards(out)
    victim = sorted(before)[2]
    (out / "rows" / victim).unlink()
    assert rows(out, jobs=1, block=3).equals(whole)
    after = shards(out)
    assert {name for name in after if after[name] != before.get(name)} >= {victim}
    assert {name: after[name] for name in before if name != victim} == {
        name: at for name, at in before.items() if name != victim
    }


RUN = """
import os, sys
from bayescontam.calibration.runner import run_study

def run(replicates, block, jobs):
    os.setpgid(0, 0)  # a group of its own, to be killed with its workers
    numbers = {"replicates": int(replicates), "block": int(block), "jobs": int(jobs)}
    run_study(sys.argv[1], sys.argv[2], **numbers)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL")
def test_a_run_that_is_killed_three_times_ends_with_the_same_rows(tmp_path: Path) -> None:
    """At random moments, and once before any row."""
    path, out, rng = tmp_path / "small.toml", tmp_path / "killed", random.Random(1)
    path.write_text(BOOTSTRAP)
    with forking(RUN, str(path), str(out)) as run:
        for turn in range(3):
            before = len(shards(out))
            child, wanted = run.start("24", "2", "1"), before + (turn > 0) * rng.randint(1, 2)
            while running(child) and (len(shards(out)) < wanted or not out.exists()):
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.05))
            os.killpg(child, signal.SIGKILL)
            assert run.ended() == -signal.SIGKILL, "it ended before it could be killed"
            assert turn == 0 or len(shards(out)) > before
    finished = run_study(path, out, replicates=24, jobs=1)
    assert len(finished.record["runs"]) >= 2
    assert list(out.rglob("*.part")) == []
    wanted_rows = rows(tmp_path / "whole", replicates=24, jobs=1)
    assert finished.rows().drop(columns="seconds").equals(wanted_rows)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL")
def test_compiled_fits_of_killed_workers_and_of_one_process_are_the_same(tmp_path: Path) -> None:
    """Each worker compiles for itself; audits come from the other engine.

    Workers are killed with their run, while they import or compile and among their fits.
    """
    path, out, rng = tmp_path / "small.toml", tmp_path / "killed", random.Random(2)
    path.write_text(AUDITED)
    with forking(RUN, str(path), str(out)) as run:
        for wanted in (0, 6):
            child = run.start("12", "1", "2")
            while running(child) and len(shards(out)) < wanted:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.05) if wanted else rng.uniform(1, 4))
            os.killpg(child, signal.SIGKILL)
            assert run.ended() == -signal.SIGKILL, "it ended before it could be killed"
    assert 6 <= len(shards(out)) < 12
    study = StudySpec.parse(AUDITED, "small.toml")
    one = rows(tmp_path / "whole", study, jobs=1)
    assert rows(out, study, jobs=1).equals(one)
    assert 0 < one["audit"].sum() < len(one) / 2
    assert set(one.loc[one["audit"], "engine"]) == {"pymc"}
    compared = audits(one)
    assert compared["fits"][0] == one.loc[one["audit"], "replicate"].nunique()
    assert compared["far"][0] == 0
    assert 0.3 < compared["rms"][0] < 2
    record = json.loads((out / "study.json").read_text())
    assert record["audits"][0]["engines"] == "nutpie, pymc"
    assert sum(record["fits"].values()) == 12


TERMINATED = """
import sys
from bayescontam.calibration.storage import Shards
add = Shards.add
def told(self, *arguments):
    add(self, *arguments)
    print("added", flush=True)
Shards.add = told
sys.argv = ["bayescontam", "study", "run", sys.argv[1], "--out", sys.argv[2], "-n", "40", "-j1"]
from bayescontam.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGTERM")
def test_a_run_that_is_terminated_writes_what_is_finished(tmp_path: Path) -> None:
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(BOOTSTRAP)
    with subprocess.Popen(
        [sys.executable, "-c", TERMINATED, str(path), str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["added\n"] * 3
        assert shards(out) == {}
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished fits are stored: run the same command again to resume" in errors
    assert "Traceback" not in errors
    assert 3 <= len(read_rows(out).drop_duplicates(["cell", "replicate"])) < 80
    assert list(out.rglob("*.part")) == []


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_of_ray_changes_nothing(
    whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, taken, killed = Shards.add, 0, 0

    def killing(self: Shards, task: StudyTask, own: pd.DataFrame) -> None:
        nonlocal taken, killed
        add(self, task, own)
        taken += 1
        if taken in (2, 9):
            os.kill(actors()[0], signal.SIGKILL)
            killed += 1

    monkeypatch.setattr(Shards, "add", killing)
    assert rows(tmp_path / "out", engine="ray", jobs=2, block=4).equals(whole)
    assert (taken, killed) == (24, 2)


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_two_workers_one_of_which_is_killed_change_nothing(
    whole: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, killed = Shards.add, 0

    def killing(self: Shards, task: StudyTask, own: pd.DataFrame) -> None:
        nonlocal killed
        add(self, task, own)
        if not killed:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
            killed += 1

    monkeypatch.setattr(Shards, "add", killing)
    assert rows(tmp_path / "out", jobs=2, block=4).equals(whole)
    assert killed == 1


def test_another_study_is_kept_out_of_the_folder(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows(out, jobs=1, replicates=2)
    before = (out / "study.json").read_bytes()
    other = StudySpec.parse(BOOTSTRAP.replace("= 30", "= 31"), "other.toml")
    with pytest.raises(UsageError, match=r"holds a run of the study 'small' .*'other'"):
        run_study(other, out, jobs=1)
    assert (out / "study.json").read_bytes() == before
    more = StudySpec.parse(
        BOOTSTRAP.replace("= 12", "= 3").replace("Nothing", "None"), "renamed.toml"
    )
    assert rows(out, more, jobs=1).equals(whole[whole["replicate"] < 3].reset_index(drop=True))


def test_a_study_that_failed_before_its_first_row_can_be_mended_in_place(tmp_path: Path) -> None:
    wrong = SINGLE.replace("audit", "quantities = ['acuracy']\naudit")
    with pytest.raises(SpecError, match=r"nothing is called 'acuracy' here \(did you mean"):
        run_study(StudySpec.parse(wrong, "wrong.toml"), tmp_path / "out", jobs=1)
    assert len(rows(tmp_path / "out", jobs=1, replicates=1))


def test_what_is_wrong_in_the_last_cell_is_reported_before_the_first_is_fitted(
    tmp_path: Path,
) -> None:
    gap = "grid.models = [3, 2, 1]\nexpressions.gap = 'theta[1, 0] - theta[0, 0]'\n"
    wrong = gap + SINGLE.replace("single", "hierarchical")
    with pytest.raises(SpecError, match=r"expressions\.gap: .*out of bounds"):
        run_study(StudySpec.parse(wrong, "late.toml"), tmp_path / "out", jobs=1)
    assert shards(tmp_path / "out") == {}
    assert StudyResults.load(tmp_path / "out").done == 0  # and a report can be made
    # No row was made, so that the folder is good for the study once it is fixed.
    assert len(rows(tmp_path / "out", jobs=1, replicates=1))


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"mine": 1}')
    (tmp_path / "study.toml").write_text("mine")
    with pytest.raises(UsageError, match="holds files, and no run of this study"):
        run_study(STUDY, tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "study.json": '{"mine": 1}', "study.toml": "mine",
    }  # fmt: skip


def test_a_copy_without_its_hidden_lock_is_taken_up(whole: pd.DataFrame, tmp_path: Path) -> None:
    rows(tmp_path / "out", jobs=1, replicates=3)
    shutil.copytree(tmp_path / "out", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    before = shards(tmp_path / "copy")
    assert rows(tmp_path / "copy", jobs=1).equals(whole)
    assert before.items() <= shards(tmp_path / "copy").items()


def test_a_record_without_its_rows_keeps_what_it_says_of_earlier_runs(tmp_path: Path) -> None:
    rows(tmp_path / "out", jobs=1, replicates=1)
    earlier = json.loads((tmp_path / "out" / "study.json").read_text())["runs"]
    (tmp_path / "copy").mkdir()
    for name in ("study.json", "study.toml"):
        shutil.copy(tmp_path / "out" / name, tmp_path / "copy" / name)
    rows(tmp_path / "copy", jobs=1, replicates=1)
    runs = json.loads((tmp_path / "copy" / "study.json").read_text())["runs"]
    assert (runs[:1], len(runs)) == (earlier, 2)


def test_two_runs_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    lock = filelock.FileLock(tmp_path / ".lock")
    with lock, pytest.raises(UsageError, match="another run works in this folder"):
        run_study(STUDY, tmp_path)


@pytest.mark.parametrize("name", ["replicates", "block"])
def test_numbers_out_of_range_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: got 0; allowed is 1 to 1,000,000"):
        run_study(STUDY, tmp_path / "out", **{name: 0})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_rows_without_a_record_are_not_added_to(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    (tmp_path / "study.json").unlink()
    with pytest.raises(UsageError, match=r"holds rows of a study, and no study\.json that states"):
        run_study(STUDY, tmp_path, jobs=1)


def test_a_plan_can_be_lowered_to_what_is_done(tmp_path: Path) -> None:
    def planned_now() -> int:
        return int(json.loads((tmp_path / "study.json").read_text())["replicates"])

    rows(tmp_path, jobs=1, replicates=3)
    record = json.loads((tmp_path / "study.json").read_text())
    # As a run of 100 leaves it that was stopped after three.
    (tmp_path / "study.json").write_text(json.dumps(record | {"replicates": 100}))
    rows(tmp_path, jobs=1, replicates=2)
    assert planned_now() == 3
    rows(tmp_path, jobs=1, replicates=4)
    assert planned_now() == 4


def test_a_shard_that_lacks_a_column_is_reported_before_anything_is_fitted(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    before = shards(tmp_path)
    victim = sorted((tmp_path / "rows").glob("*.parquet"))[0]
    pd.read_parquet(victim).drop(columns="mcse").to_parquet(victim)
    with pytest.raises(UsageError, match=f"{victim.name}: is no shard of a study, it lacks mcse"):
        run_study(STUDY, tmp_path, jobs=1, replicates=5)
    assert set(shards(tmp_path)) == set(before)


def test_a_damaged_shard_is_reported_by_name(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    victim = sorted((tmp_path / "rows").glob("*.parquet"))[0]
    victim.write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=f"{victim.name}: cannot be read .*; remove it and run"):
        run_study(STUDY, tmp_path, jobs=1, replicates=1)


def test_what_is_left_to_do_is_what_is_planned_and_not_done() -> None:
    plan, _ = planned("published", "single", "grid.boost = [0.1, 0.2]")
    done = {("boost=0.1", r) for r in range(0, 90, 2)}
    tasks = tasks_of(plan, 100, done)
    left = [(plan.cells[task.cell].name, task.replicate) for task in tasks.values()]
    every = {(name, r) for name in ("boost=0.1", "boost=0.2") for r in range(100)}
    assert len(left) == len(set(left))
    assert set(left) == every - done
    assert left == sorted(left)  # a worker goes through one cell after the other
    assert "cell 'boost=0.2', replicate 3" in tasks


def test_rows_wait_for_a_full_shard_or_for_some_seconds(tmp_path: Path) -> None:
    """A slow study writes what it has; a fast one does not write a file for every fit."""
    plan, _ = planned("published", "single", "grid.boost = [0.1, 0.2]")
    (tmp_path / "rows").mkdir()
    now = 0.0
    table = pd.DataFrame(
        {"cell": "x", "replicate": 0, "estimator": ["a", "b"], "audit": False, "seconds": 0.1}
    )
    with Shards(tmp_path, plan, size=3, clock=lambda: now) as kept:
        counts = []
        for cell, replicate in ((0, 4), (0, 2), (1, 0), (0, 3), (1, 1)):
            kept.add(StudyTask(cell, replicate), table.assign(replicate=replicate))
            counts.append(len(shards(tmp_path)))
        assert counts == [0, 0, 0, 1, 1]
        now += PATIENCE
        kept.add(StudyTask(0, 7), table.assign(replicate=7))
        assert len(shards(tmp_path)) == 3
        kept.add(StudyTask(0, 8), table.assign(replicate=8))
        assert len(shards(tmp_path)) == 3
        # Fits of many workers that end together: what would be lost counts, not the clock.
        kept.add(StudyTask(1, 8), table.assign(replicate=8, seconds=[PATIENCE / 2, PATIENCE / 2]))
        assert len(shards(tmp_path)) == 5
        kept.add(StudyTask(1, 9), table.assign(replicate=9))
        assert len(shards(tmp_path)) == 5
    assert len(shards(tmp_path)) == 6
    first = pd.read_parquet(tmp_path / "rows" / f"{plan.cells[0].hash}-000002.parquet")
    assert first["replicate"].tolist() == [2, 2, 3, 3, 4, 4]


def test_what_is_done_is_kept_when_a_replicate_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ReplicateRunner.rows

    def failing(self: ReplicateRunner, replicate: int) -> pd.DataFrame:
        if replicate == 5:
            raise ZeroDivisionError("a mistake")
        return made(self, replicate)

    with monkeypatch.context() as patch:
        patch.setattr(ReplicateRunner, "rows", failing)
        with pytest.raises(TaskError, match=r"'cell 'boost=0', replicate 5': ZeroDivisionError"):
            run_study(STUDY, tmp_path / "out", jobs=1)
    assert sorted(set(read_rows(tmp_path / "out")["replicate"])) == [0, 1, 2, 3, 4]


def test_progress_moves_with_every_replicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: dict[tuple[object, ...], list[float]] = {}

    @contextlib.contextmanager
    def bar(*given: object) -> Iterator[Callable[[float], None]]:
        yield moves.setdefault(given[:4], []).append

    monkeypatch.setattr(runner, "progress_bar", bar)
    run_study(STUDY, tmp_path / "out", jobs=1, progress=True)
    assert moves == {
        (True, "checking", 2, "cells"): [1] * 2,
        (True, "fitting", 24, "fits"): [1] * 24,
    }


def test_audits_are_counted_in_monte_carlo_errors() -> None:
    """Means that differ by a known number of errors."""
    first = pd.DataFrame(
        {
            "cell": "", "replicate": [0, 0, 1], "estimator": "a", "quantity": ["x", "y", "x"],
            "where": "", "mean": [1.0, 2.0, 3.0], "mcse": [0.2, 0.0, 0.2],
            "engine": "nutpie", "audit": False,
        }
    )  # fmt: skip
    error = (0.2**2 + 0.2**2) ** 0.5
    second = first.assign(mean=[1.0 + 5 * error, 2.0, 3.0 - error], engine="pymc", audit=True)
    found = audits(pd.concat([first, second])).iloc[0]
    assert (found["fits"], found["quantities"], found["of"]) == (2, 2, "x")
    assert found["engines"] == "nutpie, pymc"
    assert (found["far"], found["largest"]) == (0.5, pytest.approx(5))
    assert found["rms"] == pytest.approx(13**0.5)
    # The mean squares of the two fits are 25 (of one mean that counts) and 1: their standard
    # error is 12, and that of the root 12 / (2 * 13**0.5).
    assert found["rms_mc_se"] == pytest.approx(12 / (2 * 13**0.5))
    one = second[second["replicate"] == 1]
    assert np.isnan(audits(pd.concat([first, one])).iloc[0]["rms_mc_se"])
    assert audits(first).empty
