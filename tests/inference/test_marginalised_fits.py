"""Fits with item difficulties integrated out: what they keep, and what can be done with them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

import bayescontam
from bayescontam.calibration.posterior_sbc import Observed
from bayescontam.cli import compare, fit, report
from bayescontam.cli import compare as rank
from bayescontam.cli import fit as update
from bayescontam.cli import report as summary
from bayescontam.errors import UsageError
from bayescontam.inference import loo
from bayescontam.inference import pipeline as fitting
from bayescontam.inference.checks import Outcome
from bayescontam.inference.pipeline import Options
from bayescontam.inference.result import Fit
from bayescontam.updating.update import _options
from tests.support.made_fit import drawn_as, drawn_from_prior
from tests.support.pages import undrawn as undrawn
from tests.support.simulated_responses import simulate

pytestmark = pytest.mark.slow

SAMPLER = {"draws": 800, "tune": 300, "chains": 2, "seed": 3}
FLAGS = ("--draws", "800", "--tune", "300", "--chains", "2", "--seed", "3", "--quiet")


def call(*arguments: object) -> Result:
    app = typer.Typer()
    for verb in (
        fit.fit,
        compare.compare,
        rank.rank,
        report.report,
        summary.summary,
        update.update,
    ):
        app.command()(verb)
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold a table, a newcomer's, and two fits of the first."""
    path = tmp_path_factory.mktemp("marginalised")
    whole = simulate(2, models=7, benchmarks=2, items=50).responses
    new = whole["model"] == "model-6"
    whole[new].to_csv(path / "new.csv", index=False)
    whole[~new].to_csv(path / "table.csv", index=False)
    reported = ("--difficulties", "marginalised", "--item-draws", 10_000)
    done = call("fit", path / "table.csv", "-o", path / "fit.nc", *reported, *FLAGS)
    assert done.exit_code == 0, done.output
    bayescontam.fit(path / "table.csv", difficulties="sampled", **SAMPLER).to_netcdf(
        path / "other.nc"
    )
    return path


@pytest.fixture(scope="module")
def own(folder: Path) -> Fit:
    return Fit.from_netcdf(folder / "fit.nc")


@pytest.fixture(scope="module")
def other(folder: Path) -> Fit:
    return Fit.from_netcdf(folder / "other.nc")


def test_the_record_says_what_was_done(own, other):
    assert own.record["difficulties"] == "marginalised"
    assert own.record["sampling"]["difficulties"] == "marginalised"
    assert own.record["item_draws"] == 10_000
    assert other.record["difficulties"] == "sampled"
    assert "delta" in own.record["entered"]
    assert "delta" not in own.data["posterior"]
    assert own.joint_posterior().equals(own.data["posterior"].to_dataset())
    assert other.joint_posterior()["delta"].equals(other.data["item_effects"]["delta"])


def test_means_of_items_are_those_of_their_draws(own):
    items = own.data["item_effects"].to_dataset()
    assert items.sizes == {"chain": 2, "draw": 800, "item": 100}
    sample = ("chain", "draw")
    np.testing.assert_allclose(items["mean"], items["delta"].mean(sample), atol=1e-4)
    np.testing.assert_allclose(items["sd"], items["delta"].std(sample), atol=1e-4)


def test_difficulties_are_those_that_are_sampled(own, other):
    delta = other.data["item_effects"]["delta"].stack(sample=("chain", "draw"))
    items = own.data["item_effects"].to_dataset().sel(item=delta["item"])
    # Means of 1,600 draws each, of which a third at least count.
    error = np.sqrt((items["sd"] ** 2 + delta.std("sample") ** 2) / 500)
    assert float((np.abs(items["mean"] - delta.mean("sample")) / error).max()) < 4.5
    ratio = items["sd"] / delta.std("sample")
    assert float(np.abs(ratio - 1).max()) < 0.25


def test_estimands_are_those_of_sampled_difficulties(own, other):
    keys = ["model", "benchmark", "quantity"]
    a, b = (f.estimands().set_index(keys) for f in (own, other))
    assert list(a.index) == list(b.index)
    reported = a["mcse_mean"].notna().to_numpy()
    error = np.hypot(a["mcse_mean"], b["mcse_mean"])[reported]
    assert (np.abs(a["mean"] - b["mean"])[reported] < 4.5 * error).all()


def test_checks_and_sensitivity_are_there(own):
    check = {check.name: check for check in own.checks()}["Difficulties integrated out"]
    assert check.outcome is Outcome.PASSED
    assert check.value < 1e-3
    scaled = own.data["sensitivity"].to_dataset()
    for kind in ("prior", "likelihood"):
        assert bool(np.isfinite(scaled[f"slope_{kind}"]).all())
    assert float(scaled["accuracy_likelihood"].min()) > float(scaled["accuracy_prior"].max())


def test_fits_that_differ_in_this_only_predict_alike(own, other):
    table = bayescontam.compare({"own": own, "other": other}).set_index("fit")
    assert table["elpd_diff"].max() < 2
    # Each has a standard error of about 1 in 70.
    assert table.loc["own", "p_loo"] == pytest.approx(table.loc["other", "p_loo"], rel=0.12)
    assert "as good as the best" in table.sort_values("elpd_diff")["verdict"].iloc[-1]


def test_pooled_leave_one_out_predicts_alike(own, monkeypatch):
    """Pooling is for larger tables; here it must report the same."""
    monkeypatch.setattr(loo, "can_pool", lambda built: built.lattice is not None)
    with drawn_as(own):
        pooled = bayescontam.fit(own.responses(), difficulties="marginalised", **SAMPLER)
    pair = bayescontam.compare({"plain": own, "pooled": pooled}).set_index("fit")
    assert pair["elpd_diff"].max() < 2
    assert pair.loc["pooled", "p_loo"] == pytest.approx(pair.loc["plain", "p_loo"], rel=0.05)
    assert not pooled.data["loo"]["elpd"].equals(own.data["loo"]["elpd"])  # worked out anew


def test_folds_can_be_left_out(own):
    with drawn_from_prior():
        table = bayescontam.compare({"own": own}, leave_out="item", folds=2)
    assert table["refits"].tolist() == [2]
    assert np.isfinite(table["elpd"]).all()


@pytest.mark.usefixtures("undrawn")
def test_summary_rank_and_report_are_made(folder):
    path = folder / "fit.nc"
    assert "accuracy" in call("summary", path).output
    assert "model-0" in call("rank", path).output
    page = folder / "report.html"
    assert call("report", path, "--out", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "item difficulties integrated out, and drawn afterwards" in text
    assert "Difficulties integrated out" in text
    assert "Item difficulties were not sampled: they are drawn given these" in text
    assert call("report", folder / "other.nc", "--out", page).exit_code == 0
    assert "integrated out" not in page.read_text(encoding="utf-8")


def test_an_update_says_what_one_of_sampled_difficulties_says(folder):
    tables = []
    for name in ("fit.nc", "other.nc"):
        done = call("update", folder / name, folder / "new.csv", "--seed", 1, "--format", "csv",
                    "--refit", "never")  # fmt: skip
        assert done.exit_code == 0, done.output
        rows = [line.split(",") for line in done.stdout.splitlines()]
        table = pd.DataFrame(rows[1:], columns=rows[0])
        tables.append(table.set_index(["benchmark", "quantity"])[["mean", "sd"]].replace("", "nan"))
    own, other = (table.astype(float) for table in tables)
    for quantity in ("accuracy", "genuine_ability_direct", "slope"):
        a, b = (t.xs(quantity, level="quantity") for t in (own, other))
        assert (np.abs(a["mean"] - b["mean"]) < 0.3 * b["sd"]).all(), quantity
        np.testing.assert_allclose(a["sd"], b["sd"], rtol=0.3)


def test_a_joint_fit_integrates_where_its_table_allows(own):
    sampling = _options(own, None, None, 1).sampling
    assert sampling.difficulties == "auto"
    assert sampling.draws == 800


def test_no_responses_are_simulated_without_difficulties(folder):
    with pytest.raises(UsageError, match=r"fit\.nc: its item difficulties were integrated out.*"):
        Observed.load(folder / "fit.nc")
    assert len(Observed.load(folder / "other.nc").responses.frame) == 600


def test_names_are_checked_before_anything_is_built(folder, monkeypatch):
    monkeypatch.setattr(fitting, "sample", None)
    table = folder / "table.csv"
    with pytest.raises(UsageError, match=r"difficulties: got 'marginal'.*'marginalised'"):
        bayescontam.fit(table, difficulties="marginal")
    with pytest.raises(UsageError, match=r"item_draws: got -1; allowed is 0 or more"):
        Options(seed=1, item_draws=-1)
    with pytest.raises(UsageError, match=r"got 'marginalised', but items differ in discrimination"):
        bayescontam.fit(table, "two_parameter", difficulties="marginalised")
    done = call("fit", table, "-o", folder / "no.nc", "--difficulties", "marginal")
    assert done.exit_code == 2
    assert not (folder / "no.nc").exists()
