"""What `fit` promises: statuses, files, seeds, and an end on Ctrl-C."""

import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.data.responses import read_responses
from bayescontam.inference import sampling as engines
from bayescontam.inference.checks import Outcome
from bayescontam.inference.result import Fit
from bayescontam.parallel import usable_cores
from tests.cli.conftest import FEW_DRAWS, Done, Made, environment, hostile_table
from tests.support.made_fit import drawn_from_prior
from tests.support.simulated_responses import simulate

Run = Callable[..., Done]

INTERRUPTED = """
import os, signal, threading
import nutpie

def sample(*arguments, **options):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return nutpie_sample(*arguments, **options)

nutpie_sample, nutpie.sample = nutpie.sample, sample
from bayescontam.__main__ import main
main()
"""


def test_strict_exits_3_and_keeps_the_file(made: Made) -> None:
    assert made.done.returncode == 3
    failed = [c for c in made.fit.checks() if c.outcome is Outcome.FAILED]
    assert any("ESS" in check.name for check in failed)


def test_failed_checks_are_printed(made: Made) -> None:
    out = made.done.stdout.decode()
    assert "Do not rely on this fit yet" in out
    for check in made.fit.checks():
        figure = "" if math.isnan(check.value) else r" \(.*, allowed .*\)"
        line = rf"^failed: {re.escape(check.name)}{figure}: {re.escape(check.sentence)}$"
        assert bool(re.search(line, out, re.M)) is (check.outcome is Outcome.FAILED)
    assert out.endswith("Seed 7. Saved fit.nc.\n")


def test_the_record_says_what_was_done(made: Made) -> None:
    record = made.fit.record
    assert record["command"] == shlex.join(["bayescontam", *made.arguments])
    assert record["seed"] == 7
    assert record["versions"].keys() >= {"python", "bayescontam", "pymc", "nutpie", "numpy"}
    assert record["spec"]["name"] == "single"
    responses = read_responses(made.path.parent / "responses.jsonl")
    assert record["data"]["hash"] == responses.data_hash
    assert record["sampling"] == {
        "engine": "nutpie", "draws": 200, "tune": 200, "chains": 2,
        "cores": min(2, usable_cores()), "target_accept": 0.9, "difficulties": "auto",
    }  # fmt: skip


def test_only_the_fit_is_left_in_the_folder(made: Made) -> None:
    assert sorted(path.name for path in made.path.parent.iterdir()) == [
        "fit.nc",
        "responses.jsonl",
    ]


def test_what_a_spec_was_chosen_for_and_cannot_have_is_reported(run: Run, tmp_path: Path) -> None:
    """Else the fit would be one of another spec under this one's name."""
    table = simulate(1, models=2, benchmarks=1, items=20).responses
    table["contamination"] = np.tile(table["contamination"].to_numpy()[:20], 2)
    table.to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "fit.nc"
    with drawn_from_prior():
        done = run("fit", tmp_path / "a.csv", "-m", "spillover", "-o", out, "--seed", 1, *FEW_DRAWS)
    assert done.status == 0
    assert "Left out of 'spillover': spillover: " in done.out


@pytest.mark.slow
def test_a_seed_repeats_a_fit_and_another_does_not(
    made: Made, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Any] = []

    def compile_once(model: Any, progress: bool) -> Any:
        """Compile the one model, which both fits have."""
        if not compiled:
            compiled.append(compile_model(model, progress))
        return compiled[0]

    compile_model = engines.compile_model
    monkeypatch.setattr(engines, "compile_model", compile_once)
    table = made.path.parent / "responses.jsonl"
    estimands = [made.fit.estimands()]
    for seed in (7, 8):
        path = tmp_path / f"{seed}.nc"
        done = run("fit", table, "-m", "single", "-o", path, "--seed", seed, "-q", *FEW_DRAWS)
        # Checks failed here too, but nobody requested --strict.
        assert done == Done(0, "", "")
        estimands.append(Fit.from_netcdf(path).estimands())
    pd.testing.assert_frame_equal(estimands[0], estimands[1])
    assert (estimands[0]["mean"] != estimands[2]["mean"]).mean() > 0.8
    compared = run("compare", tmp_path / "7.nc", tmp_path / "8.nc", "--format", "csv")
    assert compared.status == 0
    assert compared.out.splitlines()[0].startswith("fit,elpd,se,p_loo,elpd_diff,diff_se,weight")
    assert "best" in run("compare", tmp_path / "7.nc", tmp_path / "8.nc").out


def test_fits_of_other_responses_are_not_compared(made: Made, run: Run, tmp_path: Path) -> None:
    table = pd.read_json(made.path.parent / "responses.jsonl", lines=True)
    table.query("model in ['Case', 'case']").to_csv(tmp_path / "a.csv", index=False)
    other = tmp_path / "other.nc"
    with drawn_from_prior():
        done = run("fit", tmp_path / "a.csv", "-m", "single", "-o", other, "-q", *FEW_DRAWS)
    assert done.status == 0
    done = run("compare", made.path, other)
    assert done.status == 2
    assert done.err.startswith("error: compare: 'other' and 'fit' are fits of different responses;")


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["--draws", "--tune"])
def test_ctrl_c_while_sampling_leaves_nothing(tmp_path: Path, phase: str) -> None:
    table = hostile_table(tmp_path / "responses.jsonl")
    counts = {"--draws": "200", "--tune": "200", "--chains": "2"} | {phase: "1000000"}
    options = [part for pair in counts.items() for part in pair]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            INTERRUPTED,
            "fit",
            table.name,
            "-m",
            "single",
            "-o",
            "o.nc",
            *options,
        ],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.endswith("interrupted; no file was left half written\n")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [table]


def engine_returns(monkeypatch: pytest.MonkeyPatch, x: np.ndarray) -> Callable[[int], Any]:
    """Let PyMC return draws `x` of one parameter; give a function that asks for some."""
    names = ("diverging", "energy", "tree_depth", "n_steps")
    statistics = {name: (("chain", "draw"), np.zeros(x.shape)) for name in names}
    groups = {"posterior": xr.Dataset({"x": (("chain", "draw"), x)})}
    tree = xr.DataTree.from_dict(groups | {"sample_stats": xr.Dataset(statistics)})
    monkeypatch.setattr(engines.pm, "sample", lambda *_, **__: tree)
    model: Any = None
    return lambda draws: engines.sample_model(
        model, engines.Sampling(engine="pymc", draws=draws), 1, False
    )


def test_whole_chains_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, _ = engine_returns(monkeypatch, np.ones((2, 10)))(10)
    assert posterior.sizes == {"chain": 2, "draw": 10}


@pytest.mark.parametrize(("kept", "asked"), [(10, 11), (0, 10)])
def test_fewer_draws_are_an_interruption(
    monkeypatch: pytest.MonkeyPatch, kept: int, asked: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        engine_returns(monkeypatch, np.ones((2, kept)))(asked)
