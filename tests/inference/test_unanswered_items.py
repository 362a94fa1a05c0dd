"""Estimands and verdicts of models that answered few items, or items of one contamination."""

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.posterior import accuracy
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.given_fits import changed
from tests.support.made_fit import drawn_from_prior

ITEMS = 60
DOSE = np.where(np.arange(ITEMS) < ITEMS // 2, 0.0, 1.0)
NARROW = {"family": "half_normal", "sigma": 0.05}
PRIORS = {
    "beta_bar": {"family": "normal", "mu": 2.0, "sigma": 0.1},
    "sigma_bm": NARROW, "sigma_bmb": NARROW,
}  # fmt: skip


def fit_of(extra: list[tuple[str, int, float]], **options: object) -> Fit:
    """Fit four models that answered all items, and others: model, item and contamination."""
    rng = np.random.default_rng(0)
    rows = [(model, item, DOSE[item]) for model in "ABCD" for item in range(ITEMS)] + extra
    table = pd.DataFrame(rows, columns=["model", "item", "contamination"])
    right = (rng.random(len(table)) < 0.4 + 0.3 * table["contamination"]).astype(int)
    table = table.assign(item="i" + table["item"].astype(str), benchmark="b", correct=right)
    spec = changed(load_model("hierarchical"), priors=PRIORS)
    made = Options(seed=1, sampling=Sampling(draws=100, chains=2), **options)  # type: ignore[arg-type]
    with drawn_from_prior():
        return fit_responses(Responses.from_frame(table), spec, made)


def overfitting(fit: Fit) -> pd.DataFrame:
    table = fit.estimands()
    return table[table["quantity"] == "overfitting_direct"].set_index("model")


def test_an_effect_on_items_that_others_answered_is_borrowed() -> None:
    found = overfitting(fit_of([("E", item, 0.0) for item in range(20)])).loc["E"]
    assert found["ci_low"] > 0
    assert found["verdict"] == Overfitting.BORROWED


@pytest.mark.parametrize(("reference", "verdict"), [(0.5, "depends on reference"), (0.0, "none")])
def test_a_reference_above_a_model_without_contamination(reference: float, verdict: str) -> None:
    fit = fit_of([("E", item, 0.0) for item in range(ITEMS)], reference=reference)
    found = overfitting(fit).loc["E"]
    if reference:
        assert found["ci_high"] < 0
        assert found["verdict"] == verdict
    else:
        assert found["mean"] == 0
        assert found["verdict"] == Overfitting.NONE


def test_one_answered_item_does_not_stand_for_all() -> None:
    clean = [("E", item, 0.0) for item in range(ITEMS)]
    fit = fit_of([*clean, ("F", 40, 1.0), ("G", 40, 1.0), ("G", 3, 0.0), ("H", 41, 0.0)])
    means = overfitting(fit)["mean"]
    assert means["F"] == pytest.approx(means["G"], rel=0.15)
    assert means["F"] < 1.2 * means["A"]
    assert means["H"] == means["E"] == 0  # others are contaminated on its item: it is clean


@pytest.mark.parametrize("count", [20, 2000])
def test_a_row_of_many_items_is_a_sample_of_as_many(count: int) -> None:
    rows = [
        (model, b, f"half {half}", count // 2, count, float(half))
        for model in "ABCD"
        for b in "xy"
        for half in (0, 1)
    ]
    columns = ["model", "benchmark", "item", "n_correct", "n_trials", "contamination"]
    built = build(
        load_model("aggregated"), Responses.from_frame(pd.DataFrame(rows, columns=columns))
    )
    drawn, _ = prior_draws(built, 50, np.random.default_rng(3))
    same = drawn[np.zeros(20_000, int)]  # one draw, so that all differences are of the items
    found = estimands(same, built, (1, 20_000), "zero", "all", np.random.default_rng(1), True)
    sd = found["estimands"]["accuracy"].std(("chain", "draw")).transpose("model", "benchmark")
    p, cell = accuracy(drawn[:1], built)[0], built.design.model_benchmark
    gap = np.array([np.ptp(p[cell == k]) for k in range(8)])
    # The share of a row is Beta(n, n). The error of a standard deviation is 0.5 %.
    share = 1 / (2 * np.sqrt(2 * count + 1))
    np.testing.assert_allclose(sd.to_numpy().ravel(), gap * share, rtol=0.03, atol=1e-12)
