"""What earlier versions stored under the names of the total effect is read under its own."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescontam
from bayescontam.calibration.storage import Shards, StudyTask, read_rows
from bayescontam.calibration.study import plan_of
from bayescontam.specs.registry import load_study, shipped_folder
from tests.golden.stored import FITS

WITH = {name for name, stored in FITS.items() if stored.model.contamination.form != "none"}
OLD = {"genuine_ability", "overfitting", "overfitting_fraction"}


def as_written(path: Path, group: str) -> xr.Dataset:
    """Return a group of a file as it is."""
    with xr.open_datatree(path, engine="netcdf4") as tree:
        return tree[group].to_dataset().load()


@pytest.mark.parametrize("name", sorted(WITH - {"spillover"}))
def test_the_direct_effect_has_its_own_names(stored: Path, name: str) -> None:
    path = stored / f"{name}.nc"
    fit = bayescontam.Fit.from_netcdf(path)
    for group in ("estimands", "prior_estimands"):
        before, now = as_written(path, group), fit.data[group].to_dataset()
        assert set(before.data_vars) > OLD
        assert not OLD & set(now.data_vars)
        for old in OLD:
            np.testing.assert_array_equal(now[f"{old}_direct"], before[old])
    names = {str(name) for name in fit.data["sensitivity"].data_vars}
    assert {"overfitting_direct_prior", "genuine_ability_direct_likelihood"} <= names
    assert not {f"{old}_prior" for old in OLD} & names


def test_the_parts_of_a_total_effect_are_computed(stored: Path, tmp_path: Path) -> None:
    path = stored / "spillover.nc"
    fit = bayescontam.Fit.from_netcdf(path)
    for group in ("estimands", "prior_estimands"):
        before, now = as_written(path, group), fit.data[group].to_dataset()
        for name in OLD:
            np.testing.assert_array_equal(now[name], before[name])
        np.testing.assert_array_equal(now["overfitting_spillover"], before["spillover"])
        direct = before["overfitting"] - before["spillover"]
        np.testing.assert_allclose(now["overfitting_direct"], direct)
        np.testing.assert_allclose(now["genuine_ability_direct"], before["accuracy"] - direct)
        assert "spillover" not in now
    assert "spillover" in fit.data["posterior"]  # the coefficient
    fit.to_netcdf(tmp_path / "again.nc")
    again = bayescontam.Fit.from_netcdf(tmp_path / "again.nc")
    xr.testing.assert_identical(*(f.data["estimands"].to_dataset() for f in (fit, again)))


def test_rows_of_a_study_are_read_under_their_own_names(stored: Path, tmp_path: Path) -> None:
    folder = stored / "study" / "bootstrap" / "finished"
    rows = read_rows(folder)
    written = pd.concat([pd.read_parquet(path) for path in (folder / "rows").glob("*.parquet")])
    assert set(written["quantity"]) >= OLD
    known = set(rows["quantity"])
    assert {f"{name}_direct" for name in OLD} | {"overfitting_direct_nominal"} <= known
    assert not OLD & known
    assert len(rows) == len(written)


def test_rows_with_an_effect_of_spillover_stay_of_the_total(tmp_path: Path) -> None:
    columns = pd.read_parquet(next((Path(__file__).parent / "files/study").rglob("*.parquet")))
    names = [("overfitting", "m | b"), ("spillover", "m | b"), ("spillover", "")]
    made = pd.concat([columns.head(1)] * 3, ignore_index=True)
    made[["quantity", "where"]] = names
    made["estimator"] = "spilled"
    (tmp_path / "rows").mkdir()
    made.to_parquet(tmp_path / "rows" / "old.parquet")
    found = read_rows(tmp_path)
    assert set(found["quantity"]) == {"overfitting", "overfitting_spillover", "spillover"}


def test_rows_of_today_are_read_as_they_are_named(tmp_path: Path) -> None:
    shipped = load_study("recovery")
    assert isinstance(shipped, bayescontam.StudySpec)
    plan = plan_of(shipped, Path(shipped_folder("studies")))
    old = pd.read_parquet(next((Path(__file__).parent / "files/study").rglob("*.parquet")))
    (tmp_path / "rows").mkdir()
    with Shards(tmp_path, plan) as shards:
        shards.add(StudyTask(0, 0), old.head(1).assign(quantity="overfitting"))
    assert read_rows(tmp_path)["quantity"].tolist() == ["overfitting"]
