"""Verb ``summary``: what JSON holds beside the estimands."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.inference.findings import verdict_line
from bayescontam.inference.result import Fit
from tests.cli.conftest import Done, Made

Run = Callable[..., Done]
FIGURES = (
    "own_slope", "own_sd", "own_information",
    "contraction", "detectable_slope", "prior_sd", "prior_sensitivity", "extrapolation",
)  # fmt: skip


def test_json_holds_the_identification_of_every_slope(run: Run, made: Made) -> None:
    done = run("summary", made.path, "--format", "json")
    assert done.status == 0, done.err
    rows = json.loads(done.out)["identification"]
    known = made.fit.data["identification"].to_dataset()
    assert len(rows) == known.sizes["model"] * known.sizes["benchmark"]
    for row in rows:
        assert set(row) == {"model", "benchmark", "verdict", "sentence", *FIGURES}
        cell = known.sel(model=row["model"], benchmark=row["benchmark"])
        assert row["verdict"] == cell["verdict"].item()
        assert row["sentence"] == cell["sentence"].item()
        for name in (name for name in FIGURES if name in cell):
            value = cell[name].item()
            wanted = pytest.approx(value, rel=1e-12) if math.isfinite(value) else None
            assert row[name] == wanted


def test_identification_does_not_hang_on_the_level(run: Run, made: Made) -> None:
    options = ("summary", made.path, "--format", "json")
    usual, narrow = (json.loads(run(*options, *more).out) for more in ((), ("--level", "0.5")))
    assert narrow["level"] == 0.5
    assert narrow["identification"] == usual["identification"]
    assert narrow["estimands"] != usual["estimands"]


def test_without_contamination_there_is_none(run: Run, made: Made, tmp_path: Path) -> None:
    tree = Fit.from_netcdf(made.path).data.copy()
    for name in ("identification", "sensitivity", "curves"):
        del tree[name]
    Fit(tree).to_netcdf(tmp_path / "plain.nc")
    done = run("summary", tmp_path / "plain.nc", "--format", "json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["identification"] == []


def test_intervals_have_their_level_and_verdicts_that_of_the_fit(
    run: Run, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    narrow = run("summary", made.path, "--level", "0.5").out
    assert "Intervals (50 %) are for these items" in narrow
    assert "Verdicts are based on 95 % intervals." in narrow
    assert "Verdicts are based" not in run("summary", made.path).out
    for kind in ("markdown", "latex"):
        text = run("summary", made.path, "--level", "0.5", "--format", kind).out.replace("\\%", "%")
        assert "Intervals (50 %) are" in text
        assert "Verdicts are based on 95 % intervals." in text
    fit = made.fit
    assert verdict_line(fit, 0.5) in narrow
    assert verdict_line(fit, 0.5) in run("rank", made.path, "--level", "0.5").out
    fit.to_netcdf(tmp_path / "same.nc")
    both = run("summary", made.path, tmp_path / "same.nc", "--level", "0.5").out
    assert "Intervals: 50 %.\nVerdicts are based on 95 % intervals." in both
    assert fit.estimands(0.5)["verdict"].tolist() == fit.estimands()["verdict"].tolist()


def test_fits_of_other_levels_and_responses_are_not_mixed(
    run: Run, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    changed = Fit.from_netcdf(made.path)
    record = dict(changed.record) | {"level": 0.5}
    record["data"] = record["data"] | {"hash": "other"}
    changed.data["record"]["json"] = json.dumps(record)
    Fit(changed.data).to_netcdf(tmp_path / "other.nc")
    done = run("summary", made.path, tmp_path / "other.nc")
    assert done.status == 0, done.err
    assert (
        "Intervals: 95 %.\nVerdicts are based on intervals of the level of their fit: fit (95 %),"
        " other (50 %)." in done.out
    )
    assert done.out.count("These fits are not all of the same responses") == 1
    table = run("summary", made.path, tmp_path / "other.nc", "--format", "csv")
    rows = pd.read_csv(io.StringIO(table.out))
    low = rows.pivot_table(index=["model", "benchmark", "quantity"], columns="fit", values="ci_low")
    assert (low.iloc[:, 0] == low.iloc[:, 1]).all()
    Fit.from_netcdf(made.path).to_netcdf(tmp_path / "same.nc")
    same = run("summary", made.path, tmp_path / "same.nc")
    assert same.status == 0, same.err
    assert "same responses" not in same.out
    assert "Verdicts are based" not in same.out
