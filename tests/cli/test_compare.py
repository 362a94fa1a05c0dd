"""What `compare` promises where fits are made again."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Made

Run = Callable[..., Done]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--leave-out item --refit", "error: compare: refit is for single responses without folds"),
        ("--refit --folds 3", "error: compare: refit is for single responses without folds"),
        ("--refit", "error: compare: give at least two fits"),
        ("--leave-out item --folds 1", "error: folds: got 1; at least 2 are needed"),
        ("--leave-out model --jobs 0", "error: jobs is 0; give 1 or more"),
        ("--leave-out item --seed -1", "error: seed: got -1; allowed is 0 or more"),
        ("--leave-out item --jobs 1 --cache responses.jsonl", "responses.jsonl: cannot be made"),
    ],
)
def test_options_that_cannot_be_used(
    made: Made, run: Run, monkeypatch: pytest.MonkeyPatch, options: str, message: str
) -> None:
    monkeypatch.chdir(made.path.parent)
    done = run("compare", "fit.nc", *options.split())
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_what_is_left_out_is_one_of_three(made: Made, run: Run) -> None:
    done = run("compare", made.path, "--leave-out", "benchmark")
    assert done.status == 2
    assert "'response', 'item', 'model'" in done.err


@pytest.mark.slow
def test_a_second_run_reads_what_the_first_one_kept(made: Made, run: Run, tmp_path: Path) -> None:
    arguments = ("compare", made.path, "--leave-out", "model", "--folds", 2, "--jobs", 1)
    arguments = (*arguments, "--cache", tmp_path / "folds")
    first = run(*arguments, "--format", "csv")
    assert first.status == 0
    assert "100 %" in first.err
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "folds").iterdir()}
    assert len(files) == 2
    again = run(*arguments, "--format", "csv")
    assert again == Done(0, first.out, "")
    assert {path: path.stat().st_mtime_ns for path in files} == files
    (row,) = csv.DictReader(io.StringIO(first.out))
    assert (row["fit"], row["left_out"], row["refits"], row["weight"]) == (
        "fit",
        "model",
        "2",
        "1.0",
    )
    assert "Only 6 models were left out: standard errors say little." in row["verdict"]
    # The models of this table differ in nothing: left out, they are predicted a little worse.
    in_sample = float(made.fit.data["loo"]["log_density"].sum())
    assert 1.5 * in_sample < float(row["elpd"]) < in_sample
    (from_json,) = json.loads(run(*arguments, "--format", "json").out)
    assert from_json["p_loo"] is None
    assert from_json["elpd"] == pytest.approx(float(row["elpd"]))
    assert "fit: nothing to compare it with." in run(*arguments).out
