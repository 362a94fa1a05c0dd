"""Ranks, pairs and joint intervals against counting, integrals and known distributions."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bayescontam.inference.summary import (
    DrawWeights,
    p_all_differences,
    p_best,
    p_superior,
    ranks,
    simultaneous_intervals,
    summarise,
)

COUNTS = [(12, 20), (15, 20), (15, 21), (40, 80)]
"""Right answers of a number of questions."""
DRAWS = 40_000


@st.composite
def tied_draws(draw: st.DrawFn) -> np.ndarray:
    """Give abilities that are often equal, dims (draw, model)."""
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    values = st.integers(0, 3)
    size = shape[0] * shape[1]
    cells = draw(st.lists(values, min_size=size, max_size=size))
    return np.array(cells, dtype=float).reshape(shape) / 4


def first_places(ability: np.ndarray) -> np.ndarray:
    """Return how probably each model is the best, dims (model,)."""
    return p_best(ranks(ability, axis=1)[..., None]).mean(axis=0)[:, 0]


@given(tied_draws())
def test_ranks_pairs_and_first_places_are_counted(ability: np.ndarray) -> None:
    draws, models = ability.shape
    placed, better, first = ranks(ability, axis=1), p_superior(ability), first_places(ability)
    for a in range(models):
        share = 0.0
        for d in range(draws):
            above = sum(ability[d, b] > ability[d, a] for b in range(models))
            equal = sum(ability[d, b] == ability[d, a] for b in range(models))
            assert placed[d, a] == 1 + above + (equal - 1) / 2
            share += (above == 0) / equal / draws
        assert first[a] == pytest.approx(share)
        for b in range(models):
            if a == b:
                assert np.isnan(better[a, b])
                continue
            wins = sum(float(row[a] > row[b]) + 0.5 * float(row[a] == row[b]) for row in ability)
            assert better[a, b] == wins / draws
    # An expected rank is one more than how often others are expected to be better.
    np.testing.assert_allclose(placed.mean(axis=0), 1 + np.nansum(better, axis=0))


def test_beta_posteriors_are_ordered_as_integrals_say() -> None:
    """Posteriors of accuracies under uniform priors, on a fine grid."""
    posteriors, rng = [stats.beta(k + 1, n - k + 1) for k, n in COUNTS], np.random.default_rng(1)
    ability = np.stack([p.rvs(DRAWS, random_state=rng) for p in posteriors], axis=1)
    better, first = p_superior(ability), first_places(ability)
    x = np.linspace(0, 1, 20_001)
    below = np.array([p.cdf(x) for p in posteriors])
    for a, one in enumerate(posteriors):
        others = np.delete(below, a, axis=0).prod(axis=0)
        assert_share(first[a], integrate.simpson(one.pdf(x) * others, x=x))
        for b in (b for b in range(len(posteriors)) if b != a):
            assert_share(better[a, b], integrate.simpson(one.pdf(x) * below[b], x=x))


def assert_share(found: float, expected: float) -> None:
    """Hold a share of draws against a probability, within four standard errors."""
    assert abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / DRAWS)


def test_correlated_normals_are_compared_within_draws() -> None:
    """Abilities that move together are distinguished by far smaller differences."""
    mean, cov = [0.5, 0.48], 0.05**2 * np.array([[1, 0.95], [0.95, 1]])
    ability = np.random.default_rng(2).multivariate_normal(mean, cov, DRAWS)
    sd = np.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
    expected = stats.norm.cdf((mean[0] - mean[1]) / sd)
    assert_share(p_superior(ability)[0, 1], expected)
    apart = stats.norm.cdf(0.02 / np.sqrt(2 * 0.05**2))
    assert expected > 0.89
    assert apart < 0.62


def smallest_band(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Widen the band by one position at both ends until it holds enough draws."""
    ordered = np.sort(values, axis=0)
    for k in range((len(values) + 1) // 2, len(values) + 1):
        low, high = ordered[len(values) - k], ordered[k - 1]
        if ((values >= low) & (values <= high)).all(axis=1).mean() >= level - 1e-9:
            return low, high
    raise AssertionError


@given(tied_draws(), st.sampled_from([0.5, 0.75, 0.8, 0.95]))
def test_joint_intervals_are_the_narrowest_band_that_holds(
    ability: np.ndarray, level: float
) -> None:
    found, wanted = simultaneous_intervals(ability, level), smallest_band(ability, level)
    np.testing.assert_array_equal(found, wanted)
    inside = ((ability >= found[0]) & (ability <= found[1])).all(axis=1).mean()
    assert inside >= level - 1e-9


def test_joint_intervals_of_independent_columns_have_the_known_width() -> None:
    """Of d independent columns each interval must hold level ** (1 / d)."""
    columns, level = 6, 0.9
    values = np.random.default_rng(3).normal(size=(DRAWS, columns))
    low, high = simultaneous_intervals(values, level)
    each = level ** (1 / columns)
    np.testing.assert_allclose(high, stats.norm.ppf((1 + each) / 2), atol=0.06)
    np.testing.assert_allclose(low, stats.norm.ppf((1 - each) / 2), atol=0.06)


def test_all_orders_hold_as_often_as_all_draws_have_them() -> None:
    """Of three independent normals with one mean, a named order of all has chance 1/6."""
    ability = np.random.default_rng(4).normal(size=(DRAWS, 3))
    said = np.triu(np.ones((3, 3), dtype=bool), 1)
    assert_share(p_all_differences(ability, said), 1 / 6)
    assert p_all_differences(ability, np.zeros((3, 3), dtype=bool)) == 1


def test_first_places_are_shared_by_equal_models() -> None:
    rng = np.random.default_rng(1)
    ability = rng.integers(0, 3, (200, 5)).astype(float)
    parts = p_best(ranks(ability, axis=1)[:, :, None])[..., 0]
    np.testing.assert_allclose(parts.sum(axis=1), 1)
    first = ability == ability.max(axis=1, keepdims=True)
    np.testing.assert_allclose(parts, first / first.sum(axis=1, keepdims=True))
    placed = np.array([[1.5], [np.nan], [1.5]])
    np.testing.assert_array_equal(p_best(placed), [[0.5], [np.nan], [0.5]])


@pytest.mark.parametrize("weighted", [False, True])
def test_ends_of_ranks_are_ranks(weighted: bool) -> None:
    """Of 30 draws one is second and one is fourth: quantiles between draws would be 2.725."""
    rank = np.full((1, 30, 1, 1), 3.0)
    rank[0, 0], rank[0, 1] = 2.0, 4.0
    dims = ("chain", "draw", "model", "benchmark")
    coords = {"model": ["m"], "benchmark": ["b"]}
    values = {"accuracy": (dims, rank / 8), "rank": (dims, rank)}
    weights = DrawWeights(np.full(30, 1 / 30), np.arange(30), (1, 30)) if weighted else None
    table = summarise(xr.Dataset(values, coords), 0.95, weights).set_index("quantity")
    assert tuple(table.loc["rank", ["ci_low", "ci_high"]]) == (2.0, 4.0)
    low, _ = np.quantile(rank / 8, [0.025, 0.975])
    assert table.loc["accuracy", "ci_low"] == pytest.approx(low)
