"""Estimands against loops written out, one draw and one item at a time."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import estimands, reference_levels
from bayescontam.inference.posterior import Draws
from bayescontam.inference.predictive import posterior_checks
from bayescontam.inference.summary import ranks, summarise
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate

CHAINS, DRAWS = 2, 6


@pytest.fixture(scope="module")
def built():
    """3 models × 2 benchmarks; model-2 answers only one benchmark, and some items once."""
    frame = simulate(2, models=3, benchmarks=2, items=7, trials=3).responses
    frame = frame[~((frame["model"] == "model-2") & (frame["benchmark"] == "bench-1"))]
    once = frame["item"].isin(["item-0-1", "item-1-3"])
    frame.loc[once, ["n_correct", "n_trials"]] = [1, 1]
    return build(load_model("hierarchical"), Responses.from_frame(frame))


@pytest.fixture(scope="module")
def draws(built):
    rng = np.random.default_rng(0)
    size, d = CHAINS * DRAWS, built.design
    repeated = len(d) - d.n_single
    return Draws(
        theta=rng.normal(size=(size, 6)),
        beta=rng.normal(1, 1, (size, 6)),
        delta=rng.normal(size=(size, len(d.items))),
        eta=rng.normal(size=(size, repeated)),
        sigma_eps=np.ones((size, 1)),
    )


def by_hand(draws: Draws, built, draw: int, model: int, benchmark: int, contamination) -> float:
    """Mean accuracy over a model's items at a contamination (None: the observed)."""
    d = built.design
    of_benchmark = d.benchmark == benchmark
    center = d.contamination[of_benchmark].mean()
    total, count = 0.0, 0
    for row in range(len(d)):
        if d.model[row] != model or d.benchmark[row] != benchmark:
            continue
        slope = draws.beta[draw, model * 2 + benchmark]
        observed = d.contamination[row]
        if row < d.n_single:
            eta = draws.theta[draw, model * 2 + benchmark] + slope * (observed - center)
            eta -= draws.delta[draw, d.item[row]]
        else:  # the response's own log-odds, difficulty and own effect included
            eta = draws.eta[draw, row - d.n_single]
        level = observed if contamination is None else contamination
        total += expit(eta + slope * (level - observed))
        count += 1
    return total / count if count else np.nan


@pytest.mark.parametrize("reference", ["min_observed", "zero", 0.4])
def test_estimands_are_standardised_over_items(built, draws, reference):
    result = estimands(draws, built, (CHAINS, DRAWS), reference)["estimands"]
    d = built.design
    for b in range(2):
        observed = d.contamination[d.benchmark == b]
        level = {"min_observed": observed.min(), "zero": 0.0}.get(reference, reference)
        for m in range(3):
            for s in range(CHAINS * DRAWS):
                at = {"chain": s // DRAWS, "draw": s % DRAWS, "model": m, "benchmark": b}
                cell = result.isel(at)
                accuracy = by_hand(draws, built, s, m, b, None)
                genuine = by_hand(draws, built, s, m, b, level)
                gap = by_hand(draws, built, s, m, b, observed.max()) - by_hand(
                    draws, built, s, m, b, observed.min()
                )
                expected = {
                    "accuracy": accuracy,
                    "genuine_ability_direct": genuine,
                    "overfitting_direct": accuracy - genuine,
                    "overfitting_fraction_direct": (accuracy - genuine) / accuracy,
                    "novelty_gap": gap,
                }
                for name, value in expected.items():
                    np.testing.assert_allclose(cell[name], value, rtol=1e-10)


def test_parts_of_the_draws_change_nothing(built, draws, monkeypatch):
    whole = estimands(draws, built, (CHAINS, DRAWS), "zero")["estimands"]
    monkeypatch.setattr("bayescontam.inference.estimands.CACHED", 2 * len(built.design))
    parts = estimands(draws, built, (CHAINS, DRAWS), "zero")["estimands"]
    assert CHAINS * DRAWS > 4
    assert parts.identical(whole)


def test_cells_without_answers_are_missing(built, draws):
    result = estimands(draws, built, (CHAINS, DRAWS), "min_observed")["estimands"]
    missing = result.sel(model="model-2", benchmark="bench-1")
    assert all(bool(missing[name].isnull().all()) for name in result.data_vars)
    assert not bool(result.sel(model="model-2", benchmark="bench-0").to_array().isnull().any())
    # The two others share the ranks 1 and 2.
    others = result["rank"].sel(benchmark="bench-1").isel(model=[0, 1])
    assert set(np.unique(others)) == {1.0, 2.0}


def test_ranks_put_the_largest_first():
    ability = np.array([[0.2], [0.9], [0.5]])
    assert ranks(ability).ravel().tolist() == [3, 1, 2]


def test_equal_models_share_their_mean_rank():
    ability = np.array([[0.9, 0.2], [0.9, 0.4], [0.5, 0.2], [0.9, 0.2]])
    assert ranks(ability).T.tolist() == [[2, 2, 4, 2], [3, 1, 3, 3]]


@pytest.mark.parametrize("reference", ["minimum", 1.2, -0.1, float("nan"), "0.5x"])
def test_reference_must_be_in_range(built, reference):
    with pytest.raises(UsageError, match="allowed are 'min_observed', 'zero' or a number"):
        reference_levels(reference, built.design)


def test_summary_is_tidy_and_knows_constants(built, draws):
    result = estimands(draws, built, (CHAINS, DRAWS), "min_observed")["estimands"]
    result["overfitting_direct"][:, :, 0, 0] = 0.0
    table = summarise(result, level=0.8)
    assert list(table.columns)[:6] == ["model", "benchmark", "quantity", "mean", "sd", "ci_low"]
    pairs = table[["model", "benchmark"]].drop_duplicates()
    assert len(pairs) == 5
    constant = table[
        (table["quantity"] == "overfitting_direct")
        & (table["model"] == "model-0")
        & (table["benchmark"] == "bench-0")
    ]
    assert constant["r_hat"].isna().all()
    assert constant[["mean", "sd", "ci_low", "ci_high"]].to_numpy().tolist() == [[0, 0, 0, 0]]
    accuracy = result["accuracy"].sel(model="model-1", benchmark="bench-1").to_numpy().ravel()
    row = table[
        (table["quantity"] == "accuracy")
        & (table["model"] == "model-1")
        & (table["benchmark"] == "bench-1")
    ].iloc[0]
    assert row["mean"] == pytest.approx(accuracy.mean())
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(np.quantile(accuracy, [0.1, 0.9]))


def test_p_best_is_the_share_of_first_ranks(built, draws):
    result = estimands(draws, built, (CHAINS, DRAWS), "min_observed")["estimands"]
    table = summarise(result)
    best = table[table["quantity"] == "p_best"]
    share = (result["rank"] == 1).mean(("chain", "draw"))
    for row in best.itertuples():
        assert row.mean == float(share.sel(model=row.model, benchmark=row.benchmark))
    assert best.groupby("benchmark")["mean"].sum().tolist() == [1.0, 1.0]


def test_rows_of_different_items_weigh_by_their_number():
    """A printed table: 30 of 40 items in one half, 10 of 20 in the other, is 40 of 60."""
    rows = {"model": "m", "benchmark": "b", "item": ["seen", "unseen"]}
    counts = {"n_correct": [30, 10], "n_trials": [40, 20], "contamination": [1.0, 0.0]}
    b = build(load_model("aggregated"), Responses.from_frame(pd.DataFrame(rows | counts)))
    assert b.design.centring.responses.tolist() == [pytest.approx(2 / 3)]
    draws = Draws(np.array([[0.3]]), np.array([[1.2]]), None, None, None)
    cell = estimands(draws, b, (1, 1), "zero")["estimands"].squeeze()
    seen, unseen = expit(0.3 + 1.2 * (1 - 2 / 3)), expit(0.3 - 1.2 * 2 / 3)
    assert float(cell["accuracy"]) == pytest.approx((40 * seen + 20 * unseen) / 60)
    assert float(cell["genuine_ability_direct"]) == pytest.approx(unseen)
    checks = posterior_checks(draws, b, np.random.default_rng(0))
    assert float(checks["score"].squeeze()) == pytest.approx(40 / 60)
