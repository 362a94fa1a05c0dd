"""From a model spec with a prior of kappa, through a sampled fit, to the page."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import bayescontam
from bayescontam.inference.result import Fit
from bayescontam.report.fit_page import confounding_section, render, sign_table
from bayescontam.specs.model import ModelSpec
from tests.support.pages import Parsed
from tests.support.simulated_responses import simulate

SPEC = """
summary = "x"
[contamination]
confounding = "sensitivity"
[priors]
kappa = { family = "normal", mu = 0.4, sigma = 0.8 }
"""


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> bayescontam.Fit:
    """Written to a file and read again."""
    table = simulate(4, models=3, benchmarks=2, items=80, slope=2.5).responses
    table["model"] = table["model"].replace("model-2", "<b>long</b>" + "m" * 100)
    table["benchmark"] = table["benchmark"].replace("bench-1", "qu\0iz")
    path = tmp_path_factory.mktemp("fit") / "fit.nc"
    table = table[~((table["model"] == "model-0") & (table["benchmark"] == "qu\0iz"))]
    spec = ModelSpec.parse(SPEC, "mine")
    bayescontam.fit(table, spec, seed=1, draws=1500, tune=400, chains=2, cores=2).to_netcdf(path)
    return bayescontam.Fit.from_netcdf(path)


def test_curves_are_weighted_means_of_the_fit(fit: bayescontam.Fit) -> None:
    """By plain weights, without smoothing, from the stored draws."""
    table = fit.confounding()
    posterior, estimands = fit.data["posterior"], fit.data["estimands"]
    kappa = posterior["kappa"].stack(s=("chain", "draw")).to_numpy()
    shift = stats.norm.logpdf(kappa, 0.88, 0.8) - stats.norm.logpdf(kappa, 0.4, 0.8)
    weights = {"all": np.exp(shift.sum(axis=0)), "own": np.exp(shift[1])}
    for changed, weight in weights.items():
        rows = table[(table["changed"] == changed) & (table["benchmark"] == "qu\0iz")]
        row = rows[(rows["model"] == "model-1") & np.isclose(rows["location"], 0.88)].iloc[0]
        for name in ("genuine_ability_direct", "overfitting_direct", "slope"):
            draws = estimands[name].sel(model="model-1", benchmark="qu\0iz")
            draws = draws.stack(s=("chain", "draw")).to_numpy()
            expected = (weight * draws).sum() / weight.sum()
            assert row[name] == pytest.approx(expected, abs=0.05 * draws.std())
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    assert "own" in set(table["changed"])
    assert len(table.groupby(["changed", "model", "benchmark"])) == 2 * 5  # one was not answered


def test_assuming_harder_items_means_more_overfitting(fit: bayescontam.Fit) -> None:
    """What contaminated items have in difficulty, the slope must make up for."""
    for _, rows in fit.confounding().query("changed == 'all'").groupby(["model", "benchmark"]):
        reported = rows.dropna(subset="overfitting_direct").sort_values("location")
        assert len(reported) >= 7
        assert reported["location"].is_unique
        ends = reported.iloc[[0, -1]]
        rise = np.diff(ends["slope"])[0] / np.diff(ends["location"])[0]
        assert 0.5 < rise < 1.3  # near one: only slope less kappa is identified by the data
        assert reported["overfitting_direct"].is_monotonic_increasing
        assert reported["genuine_ability_direct"].is_monotonic_decreasing
        outside = rows[rows["overfitting_direct"].isna()]["location"]
        assert not outside.between(
            reported["reach_low"].iloc[0], reported["reach_high"].iloc[0]
        ).any()


def test_the_table_of_signs_holds_the_specs_location_and_zero(fit: bayescontam.Fit) -> None:
    table = sign_table(fit)
    assert len(table) == 5
    overfitting = fit.estimands().query("quantity == 'overfitting_direct'")
    both = table.merge(overfitting, on=["model", "benchmark"])
    np.testing.assert_allclose(both["overfitting_direct"], both["mean"], rtol=1e-5)  # as stored
    np.testing.assert_allclose(both["overfitting_direct_low"], both["ci_low"], atol=0.003)
    rows = fit.confounding().query("changed == 'all' and location == 0")
    both = table.merge(rows, on=["model", "benchmark"], suffixes=("", "_at"))
    np.testing.assert_array_equal(both["zero"], both["overfitting_direct_at"])
    assert (both["zero"] < both["overfitting_direct"]).all()


@pytest.mark.usefixtures("undrawn")
def test_the_page_shows_curves_and_signs(fit: bayescontam.Fit) -> None:
    html = render(fit)
    page = Parsed(html)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert ids.count("confounding") == 1
    assert {"picture-confounding-a", "picture-confounding-b"} <= set(ids)
    assert ("a", {"href": "#confounding"}) in page.tags
    text = " ".join(page.text.split())
    for row in sign_table(fit).itertuples():
        assert row.sign in text
        assert row.sign_own in text
    assert "about 0.40 log-odds" in text
    assert "95 % interval of overfitting (direct) is on one side of zero" in text
    assert "<b>long</b>" not in html


def test_pictures_are_drawn_and_described(fit: bayescontam.Fit) -> None:
    section = confounding_section(fit)
    assert section is not None
    for picture, models in zip(section["pictures"], ("3 models", "2 models"), strict=True):
        assert picture.image.count(b"<path") > 20
        assert models in picture.alt
        assert "nan" not in picture.alt
        assert len(picture.alt) + len(picture.caption) < 1500
        assert picture.caption.endswith(".")
    assert section["pictures"][1].title.startswith("qu\\x00iz: ")
    assert section["several"]
    assert section["note"] == ""


def test_a_fit_that_reaches_nowhere_else_is_drawn_too(fit: bayescontam.Fit) -> None:
    curves = fit.data["confounding"].to_dataset()
    own = curves["location"] == curves["own_location"]
    figures = [name for name in curves.data_vars if curves[name].dtype.kind == "f"]
    lines = {n: curves[n].where(own) for n in figures if "location" in curves[n].dims}
    ends = {n: curves[n].where(curves[n].isnull(), 0.4) for n in ("reach_low", "reach_high")}
    one = curves.assign(**lines, **ends).isel(model=[1])
    tree = fit.data.copy()
    tree["confounding"] = xr.DataTree(one)
    section = confounding_section(Fit(tree))
    assert section is not None
    rows = section["table"]["rows"]
    assert [row["zero"] for row in rows] == pytest.approx([np.nan] * 2, nan_ok=True)
    assert "overfitting (direct) of 1 model on" in section["pictures"][0].alt


@pytest.mark.usefixtures("undrawn")
def test_a_page_without_curves_says_why(fit: bayescontam.Fit) -> None:
    tree = fit.data.copy()
    tree["confounding"] = xr.DataTree(xr.Dataset({"reason": "Nothing <differs>."}))
    html = render(Fit(tree))
    assert "There are no curves along it: Nothing &lt;differs&gt;." in html
    assert "picture-confounding" not in html
    assert bayescontam.Fit(tree).confounding().empty


def test_other_fits_have_no_such_section(hostile: Fit) -> None:
    assert confounding_section(hostile) is None
    assert bayescontam.Fit(hostile.data).confounding().empty
