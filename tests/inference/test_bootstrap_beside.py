"""The published bootstrap beside a fit: at the fit's reference, stored with it, and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import minimize
from typer.testing import CliRunner

from bayescontam._random import stream
from bayescontam.cli.app import app
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.bootstrap import QUANTITIES, RESAMPLES
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.tables import beside_bootstrap
from bayescontam.model.likelihood import logistic
from bayescontam.report.fit_page import bootstrap_section, render, whole_tables
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import Parsed, undrawn

__all__ = ["undrawn"]

ITEMS = 30


def table() -> pd.DataFrame:
    """Two models on two benchmarks, whose items are as contaminated as 0.1 to 0.9."""
    rng = np.random.default_rng(4)
    dose = {"quiz": np.linspace(0.1, 0.9, ITEMS), "code": np.linspace(0.2, 0.6, ITEMS)}
    rows = [
        (model, name, f"{name} {i}", int(rng.random() < 0.2 + 0.5 * d), d)
        for model in ("a", "b")
        for name, doses in dose.items()
        for i, d in enumerate(doses)
        if (model, name) != ("b", "code")
    ]
    return pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct", "contamination"])


def fitted(frame: pd.DataFrame, spec: str = "hierarchical", **options: Any) -> Fit:
    sampling = Sampling(draws=100, chains=2)
    with drawn_from_prior():
        return fit_responses(
            Responses.from_frame(frame), load_model(spec),
            Options(seed=1, sampling=sampling, **{"bootstrap": True} | options),
        )  # fmt: skip


def test_numbers_of_numpy_are_stored_as_numbers(tmp_path: Path) -> None:
    """As in ``for seed in np.arange(5)``: a fit must not end where it is stored."""
    sampling = Sampling(draws=np.int64(100), chains=np.int64(2), tune=np.int32(700))
    options = {
        "item_draws": np.int64(5), "population": np.True_, "reference": np.float32(0.25),
        "level": np.float32(0.5),
    }  # fmt: skip
    with drawn_from_prior():
        made = fit_responses(
            Responses.from_frame(table()), load_model("hierarchical"),
            Options(seed=np.int64(1), sampling=sampling, **options),  # type: ignore[arg-type]
        )  # fmt: skip
    assert made.record["seed"] == 1
    made.to_netcdf(tmp_path / "fit.nc")
    assert Fit.from_netcdf(tmp_path / "fit.nc").record == made.record


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted(table())


def alone(correct: np.ndarray, dose: np.ndarray, level: float) -> tuple[float, float]:
    """Return slope and genuine ability of one penalised regression, by a general optimiser."""

    def loss(at: np.ndarray) -> float:
        eta = at[0] + at[1] * dose
        return float((np.logaddexp(0, eta) - correct * eta).sum() + at[1] ** 2 / 2)

    found = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-8}).x
    return float(found[1]), float(logistic(found[0] + found[1] * level))


@pytest.mark.parametrize("reference", ["min_observed", "zero", 0.5])
def test_each_resample_is_a_regression_at_the_reference_of_the_fit(reference: Any) -> None:
    fit, frame = fitted(table(), reference=reference), table()
    known = fit.data["bootstrap"].to_dataset()
    assert known.sizes == {"resample": RESAMPLES, "model": 2, "benchmark": 2}
    assert bool(known["slope"].sel(model="b", benchmark="code").isnull().all())
    # The pairs are resampled in the order of the table of responses, each 1,000 times.
    rng, least = stream(1, "published bootstrap"), {"quiz": 0.1, "code": 0.2}
    order = fit.responses().frame[["model", "benchmark"]].drop_duplicates().to_numpy()
    for model, benchmark in order:
        weights = rng.multinomial(ITEMS, np.full(ITEMS, 1 / ITEMS), size=RESAMPLES)
        own = frame[(frame["model"] == model) & (frame["benchmark"] == benchmark)]
        own = own.set_index("item")
        at = {"zero": 0.0, 0.5: 0.5}.get(reference, least[benchmark])
        for k in (0, 7, RESAMPLES - 1):
            stored = fit.responses().frame
            items = stored[(stored["model"] == model) & (stored["benchmark"] == benchmark)]["item"]
            rows = own.loc[items.repeat(weights[k])]
            slope, genuine = alone(*(rows[n].to_numpy() for n in ("correct", "contamination")), at)
            cell = known.sel(model=model, benchmark=benchmark).isel(resample=k)
            accuracy = rows["correct"].mean()
            # Stored numbers are rounded to 16 binary digits.
            assert float(cell["accuracy"]) == pytest.approx(accuracy, abs=1e-4)
            assert float(cell["slope"]) == pytest.approx(slope, abs=1e-3)
            assert float(cell["genuine_ability_direct"]) == pytest.approx(genuine, abs=1e-3)
            gap = max(accuracy - genuine, 0.0)
            assert float(cell["overfitting_direct"]) == pytest.approx(gap, abs=1e-3)


def test_the_table_has_percentiles_beside_the_estimands(fit: Fit, tmp_path: Path) -> None:
    fit.to_netcdf(tmp_path / "fit.nc")
    fit = Fit.from_netcdf(tmp_path / "fit.nc")
    known = fit.data["bootstrap"].to_dataset()
    rows = fit.bootstrap(0.8).set_index(["model", "benchmark", "quantity"])
    assert len(rows) == 3 * len(QUANTITIES)
    values = known["slope"].sel(model="a", benchmark="quiz").to_numpy()
    row = rows.loc[("a", "quiz", "slope")]
    assert row["mean"] == pytest.approx(values.mean())
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(np.quantile(values, [0.1, 0.9]))
    both = beside_bootstrap(fit)
    assert list(both["method"]) == ["this fit", "bootstrap"] * 3
    own = fit.estimands().set_index(["model", "benchmark", "quantity"])
    for row in both[both["method"] == "this fit"].itertuples():
        for name in QUANTITIES:
            wanted = own.loc[(row.model, row.benchmark, name)]
            assert getattr(row, name) == wanted["mean"]
            assert getattr(row, f"{name}_low") == pytest.approx(wanted["ci_low"], nan_ok=True)


@pytest.mark.usefixtures("undrawn")
def test_the_page_shows_it_and_what_it_lacks(fit: Fit) -> None:
    page = Parsed(render(fit))
    assert any(attrs.get("id") == "bootstrap" for _, attrs in page.tags)
    text = " ".join(page.text.split())
    assert "held genuine ability in 78 % and the overfitting fraction in 65 %" in text
    assert "1,000 resamples of the items that the model answered" in text
    # As many as are stored.
    few = {
        name: data.isel(resample=slice(250)) if name == "/bootstrap" else data
        for name, data in fit.data.to_dict().items()
    }
    part = bootstrap_section(Fit(xr.DataTree.from_dict(few)), fit.estimands())
    assert part is not None
    assert "250 resamples of the items" in part["lacks"]
    assert "smallest contamination of each resample" in part["lacks"]
    row = beside_bootstrap(fit).iloc[1]
    assert f"{row['genuine_ability_direct']:.3f}" in text
    assert len(whole_tables(fit, fit.estimands())["bootstrap"]) == 6


def test_summary_prints_it_at_the_level_that_is_given(fit: Fit, tmp_path: Path) -> None:
    path, runner = tmp_path / "fit.nc", CliRunner(env={"COLUMNS": "200"})
    fit.to_netcdf(path)
    done = runner.invoke(app, ["summary", str(path), "--level", "0.8"])
    assert done.exit_code == 0
    assert "held genuine ability in 78 %" in " ".join(done.stdout.split())
    row = beside_bootstrap(fit, level=0.8).iloc[1]
    name = "genuine_ability_direct"
    assert f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]" in done.stdout
    # The hint is a command, with the file.
    narrow = CliRunner(env={"COLUMNS": "60"}).invoke(app, ["summary", str(path)])
    assert f"bayescontam summary {path} --format json" in " ".join(narrow.stdout.split())
    content = json.loads(runner.invoke(app, ["summary", str(path), "-f", "json"]).stdout)
    assert [each["method"] for each in content["bootstrap"]] == ["this fit", "bootstrap"] * 3


def test_without_it_there_is_nothing() -> None:
    fit = fitted(table(), bootstrap=False)
    assert "bootstrap" not in fit.data
    assert fit.bootstrap().empty
    assert beside_bootstrap(fit).empty


def test_a_fit_with_spillover_is_held_against_the_direct_effect() -> None:
    frame = table()
    frame.loc[frame["model"] == "b", "contamination"] *= 0.5
    both = beside_bootstrap(fitted(frame, "spillover"))
    own = both[both["method"] == "this fit"]
    assert own["genuine_ability_direct"].notna().all()
    assert own["overfitting_fraction_direct"].isna().all()


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        ("ability", {}, "does not model contamination"),
        ("aggregated", {"n_correct": 10, "n_trials": 20}, "count different items together"),
    ],
)
def test_what_has_no_bootstrap_is_refused(spec: str, change: dict, message: str) -> None:
    frame = table().assign(**change)
    if change:
        frame = frame.drop(columns="correct")
    with pytest.raises(UsageError, match=message):
        fitted(frame, spec)


def test_contamination_that_is_a_probability_is_refused() -> None:
    frame = table().rename(columns={"contamination": "p_duplicate"})
    with pytest.raises(UsageError, match="no column 'contamination'"):
        fitted(frame, "latent_duplicate")
