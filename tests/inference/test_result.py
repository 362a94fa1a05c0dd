"""A fit survives its file, whatever its names; what is not a fit is refused."""

import json
import subprocess
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescontam
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.pipeline import _text
from bayescontam.inference.result import Fit
from bayescontam.specs.model import restored_spec
from tests.support.real_data import HOSTILE

NAMES = [*HOSTILE[:40], "nul\0here", "nul\0there", "\\x00"]


def small_table(models: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "model": np.repeat(models, 6),
            "benchmark": "b\0b",
            "item": [f"i{i}" for i in range(6)] * len(models),
            "correct": rng.integers(0, 2, 6 * len(models)),
            "contamination": np.tile(rng.random(6), len(models)),
        }
    )


@pytest.fixture(scope="module")
def fit() -> bayescontam.Fit:
    return bayescontam.fit(
        small_table(NAMES), "single", seed=1, draws=50, tune=100, chains=2, command="the command"
    )


@pytest.fixture(scope="module")
def loaded(fit, tmp_path_factory) -> bayescontam.Fit:
    path = tmp_path_factory.mktemp("fits") / "fit.nc"
    fit.to_netcdf(path)
    return bayescontam.Fit.from_netcdf(path)


class TestRoundTrip:
    def test_everything_comes_back(self, fit, loaded):
        assert set(loaded.data.groups) == set(fit.data.groups)
        for group in fit.data.groups[1:]:
            xr.testing.assert_identical(
                loaded.data[group].to_dataset(), fit.data[group].to_dataset()
            )

    def test_names_come_back(self, loaded):
        table = loaded.estimands()
        assert list(dict.fromkeys(table["model"])) == NAMES
        assert set(table["benchmark"]) == {"b\0b"}

    def test_estimands_and_checks_come_back(self, fit, loaded):
        pd.testing.assert_frame_equal(loaded.estimands(), fit.estimands())
        assert loaded.checks() == fit.checks() or any(np.isnan(c.value) for c in fit.checks())
        assert [c.sentence for c in loaded.checks()] == [c.sentence for c in fit.checks()]

    def test_record_reports_how_to_do_it_again(self, loaded):
        record = loaded.record
        assert record["seed"] == 1
        assert record["command"] == "the command"
        assert record["versions"]["pymc"]
        assert loaded.spec == bayescontam.load_model("single")
        assert record["spec"]["text"] == bayescontam.load_model("single").text
        assert (
            record["data"]["hash"] == bayescontam.Responses.from_frame(small_table(NAMES)).data_hash
        )

    def test_raw_accuracy_is_the_mean_score(self, loaded):
        expected = small_table(NAMES).groupby("model", sort=False)["correct"].mean()
        np.testing.assert_allclose(loaded.raw_accuracy().squeeze(), expected[NAMES])

    def test_p_better_is_reported_for_every_pair(self, loaded):
        better = loaded.p_better().isel(benchmark=0).to_numpy()
        assert np.isnan(np.diag(better)).all()
        off = ~np.eye(len(NAMES), dtype=bool)
        np.testing.assert_allclose((better + better.T)[off], 1.0)

    def test_other_levels_give_other_intervals(self, loaded):
        wide, narrow = loaded.estimands(0.99), loaded.estimands(0.5)
        rows = wide["quantity"] == "accuracy"
        assert (wide["ci_low"][rows] < narrow["ci_low"][rows]).all()

    def test_loading_neither_builds_nor_compiles(self, fit, tmp_path):
        path = tmp_path / "fit.nc"
        fit.to_netcdf(path)
        code = (
            "import bayescontam, pytensor, pymc\n"
            "def refuse(*a, **k): raise AssertionError('compiled')\n"
            "pytensor.function = pymc.compile = pymc.Model.__init__ = refuse\n"
            f"fit = bayescontam.Fit.from_netcdf({str(path)!r})\n"
            "print(len(fit.estimands()), len(fit.checks()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        rows, checks = map(int, done.stdout.split())
        assert rows == len(fit.estimands())
        assert checks == len(fit.checks())


@pytest.mark.parametrize("level", [90, 0.05, -1, 1.0])
def test_levels_that_are_none_are_refused(fit, level):
    with pytest.raises(UsageError, match=r"level: got .*; allowed is 0\.5 up to but not 1"):
        fit.estimands(level)


def test_missing_file_is_named():
    with pytest.raises(FitError, match=r"no-such.nc: no such file"):
        Fit.from_netcdf("no-such.nc")


@pytest.mark.parametrize("content", [b"", b"not netCDF at all", b"CDF\x01 broken"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "other.nc"
    path.write_bytes(content)
    with pytest.raises(FitError, match=r"other.nc: is not a fit of bayescontam"):
        Fit.from_netcdf(path)


def test_any_name_of_a_file_will_do(fit, tmp_path):
    path = tmp_path / r"back\slash [1]#mode=zarr?x=%20.nc"
    fit.to_netcdf(path)
    assert Fit.from_netcdf(path).record == fit.record


def test_other_netcdf_is_refused(tmp_path):
    path = tmp_path / "other.nc"
    xr.Dataset({"x": ("a", [1, 2])}).to_netcdf(path)
    lacks = r"is not a fit of bayescontam \(it has no group 'record'\); give a file that"
    with pytest.raises(FitError, match=lacks):
        Fit.from_netcdf(path)


@pytest.mark.parametrize("part", [0.0001, 0.5, 0.95])
def test_a_file_that_is_cut_off_is_damaged(part, fit, tmp_path):
    path = tmp_path / "fit.nc"
    fit.to_netcdf(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(FitError, match=r"fit.nc: is damaged or cut off; copy it again, or"):
        Fit.from_netcdf(path)


def test_other_format_is_refused(fit, tmp_path):
    record = fit.record | {"format": 99}
    tree = fit.data.copy()
    tree["record"] = xr.DataTree(xr.Dataset({"json": json.dumps(record)}))
    Fit(tree).to_netcdf(tmp_path / "later.nc")
    with pytest.raises(FitError, match="has format 99, this version of bayescontam reads format 2"):
        Fit.from_netcdf(tmp_path / "later.nc")


def test_nothing_is_left_of_a_failed_save(fit, tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        fit.to_netcdf(tmp_path / "no" / "folder.nc")
    assert list(tmp_path.iterdir()) == []


def test_the_text_of_a_spec_with_keys_that_are_refused_by_now_stays():
    text = (
        'summary = "x"\n[contamination]\nsign = "positive"\ninteraction = "difficulty"\n'
        '[priors]\nbeta_bar = { family = "half_normal", sigma = 1.0 }\n'
    )
    old = restored_spec(tomllib.loads(text), "old", text)
    assert _text(old) == text
    other = old.model_copy(update={"summary": "y"})
    assert json.loads(_text(other))["summary"] == "y"
