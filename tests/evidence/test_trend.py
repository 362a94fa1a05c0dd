"""The trend of duplicates on a column: known answers, what is unknown of items, and coverage."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.trend import draw_lines, prevalence_trend, trend_lines
from tests.support.made_weighed import make_weighed, simulate_trend


def trend(p: np.ndarray, x: Any, **options: Any) -> pd.Series:
    weighed = make_weighed(p)
    items = weighed.items.assign(elo=x)
    return prevalence_trend(weighed, items, "elo", **options).iloc[0]


def test_of_known_items_it_is_a_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(1500, 300, 1500)
    true = rng.random(1500) < expit(0.5 - 0.002 * (x - 1500))
    reported = trend(np.tile(true, (50, 1)).astype(float), x)
    z = (x - x.mean()) / x.std()

    def loss(line: np.ndarray) -> float:
        eta = line[0] + line[1] * z
        return -float((true * log_expit(eta) + ~true * log_expit(-eta)).sum())

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8})
    pi = expit(best.x[0] + best.x[1] * z)
    design = np.stack([np.ones_like(z), z], axis=1)
    error = np.sqrt(np.linalg.inv(design.T @ (design * (pi * (1 - pi))[:, None]))[1, 1])
    assert reported["median"] == pytest.approx(best.x[1], abs=0.15 * error)
    assert reported["ci_high"] - reported["ci_low"] == pytest.approx(3.92 * error, rel=0.15)
    assert reported["sd"] == pytest.approx(x.std())
    for name in ("", "_low", "_high"):
        old = {"": "median", "_low": "ci_low", "_high": "ci_high"}[name]
        assert reported[f"per_unit{name}"] == pytest.approx(reported[old] / x.std())
    assert reported["p_rises"] == 0.0


def test_a_posterior_is_that_of_a_grid() -> None:
    """Of few items the posterior is skewed, where a Normal approximation would be off."""
    rng = np.random.default_rng(2)
    p, x = simulate_trend(rng, 12, 1.5, 2.0, draws=1)
    ratio = p[0] / p[0].mean(), (1 - p[0]) / (1 - p[0].mean())
    a, b = np.meshgrid(np.linspace(-12, 12, 481), np.linspace(-14, 20, 681), indexing="ij")
    pi = expit(a[..., None] + b[..., None] * x)
    log_p = np.log(pi * ratio[0] + (1 - pi) * ratio[1]).sum(axis=-1)
    log_p += (log_expit(a) + log_expit(-a) + log_expit(b) + log_expit(-b)) / 2
    mass = np.exp(log_p - log_p.max()).sum(axis=0)
    below = mass.cumsum() / mass.sum()
    drawn = draw_lines(np.tile(p, (2000, 1)), x, rng)[:, 1]
    for q in (0.025, 0.25, 0.5, 0.75, 0.975):
        exact = b[0][np.searchsorted(below, q)]
        assert (drawn <= exact).mean() == pytest.approx(q, abs=0.015)


def test_a_column_that_separates_items_has_an_interval() -> None:
    x = np.arange(20.0)
    reported = trend(np.tile(x > 9, (20, 1)).astype(float), x)
    assert 1 < reported["ci_low"] < reported["median"] < reported["ci_high"] < 30
    assert reported["p_rises"] == 1.0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_where_all_items_are_alike_the_trend_is_unknown(share: float) -> None:
    reported = trend(np.full((20, 50), share), np.arange(50.0))
    assert reported["ci_low"] < -0.3
    assert reported["ci_high"] > 0.3


def test_nothing_known_of_items_is_no_trend_of_zero() -> None:
    reported = trend(np.full((50, 300), 0.4), np.arange(300.0))
    assert reported["ci_low"] < -5
    assert reported["ci_high"] > 5


def test_what_is_unknown_of_items_does_not_shrink_a_slope() -> None:
    rng = np.random.default_rng(3)
    p, x = simulate_trend(rng, 20_000, 1.0, 1.5, draws=8)
    assert trend(p, x)["median"] == pytest.approx(1.0, abs=0.15)
    drawn = (rng.random(p.shape) < p).astype(float)
    assert trend(drawn, x)["median"] < 0.7  # as if the drawn ones were known


def test_intervals_cover() -> None:
    """95 % intervals of 200 sets: fewer than 179 cover with a probability below 1e-4."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p, x = simulate_trend(rng, 120, 0.6, 2.0, draws=20)
        reported = trend(p, x, seed=seed)
        covered += reported["ci_low"] <= 0.6 <= reported["ci_high"]
    assert 179 <= covered <= 200


def test_the_line_is_that_of_the_slope() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=800)
    true = rng.random(800) < expit(1.0 * x - 0.5)
    lines = trend_lines(np.tile(true, (30, 1)).astype(float), x, np.array([-1.0, 0.0, 2.0]), 0)
    assert lines.shape == (30 * 20, 3)
    np.testing.assert_allclose(lines.mean(axis=0), expit([-1.5, -0.5, 1.5]), atol=0.07)


def test_kinds_and_benchmarks_have_rows_of_their_own() -> None:
    p = np.tile(np.arange(40) % 2, (20, 1)).astype(float)
    weighed = make_weighed(p)
    weighed = replace(
        weighed, none_by_kind=weighed.none_by_kind[:, ::-1],
        items=weighed.items.assign(benchmark=np.repeat(["quiz", "exam"], 20)),
    )  # fmt: skip
    items = weighed.items.assign(elo=[*range(20), *[7] * 20])
    table = prevalence_trend(weighed, items, "elo", kinds=["exact"])
    assert table[["benchmark", "kind"]].to_numpy().tolist() == [
        ["quiz", ""], ["quiz", "exact"], ["exam", ""], ["exam", "exact"],
    ]  # fmt: skip
    assert table["median"].notna().tolist() == [True, True, False, False]
    assert table["per_unit"].notna().tolist() == [True, True, False, False]
    assert table.loc[0, "median"] * table.loc[1, "median"] < 0
    assert table.loc[2:, "sd"].eq(0).all()


def test_columns_that_have_no_trend_are_refused() -> None:
    weighed = make_weighed(np.full((2, 2), 0.5))
    with pytest.raises(UsageError, match=r"^by: column 'topic' holds words; a trend needs numbers"):
        prevalence_trend(weighed, weighed.items.assign(topic="a"), "topic")
    with pytest.raises(UsageError, match=r"holds words"):
        prevalence_trend(weighed, weighed.items.assign(hard=[True, False]), "hard")
    with pytest.raises(UsageError, match=r"^items: no column 'eloo' \(did you mean 'elo'\?\)$"):
        prevalence_trend(weighed, weighed.items.assign(elo=1), "eloo")
    with pytest.raises(DataError, match=r"has no value for items of the scan: 'i1'"):
        prevalence_trend(weighed, weighed.items.assign(elo=[1.0, np.nan]), "elo")
    with pytest.raises(UsageError, match=r"^kinds: no kind 'same'"):
        prevalence_trend(weighed, weighed.items.assign(elo=[1, 2]), "elo", kinds=["same"])
    with pytest.raises(UsageError, match=r"^level: got 0\.3"):
        prevalence_trend(weighed, weighed.items.assign(elo=[1, 2]), "elo", level=0.3)
