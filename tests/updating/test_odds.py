"""Products of odds against sums of log densities, one answer at a time."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

from bayescontam.inference.predictive import Rows
from bayescontam.model.quadrature import Nodes
from bayescontam.updating import new_model as odds
from bayescontam.updating.new_model import (
    MAX_LOG_ODDS,
    BernoulliMixture,
    ItemBlock,
    ItemDifficulties,
    Marginal,
    _log_joint,
    log_joint,
    near,
)

RNG = np.random.default_rng(8)


def one_by_one(k: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
    """Return log densities of single answers, whose last axis but one is the answer."""
    return stats.logistic.logcdf(np.where(k[:, None] == 1, log_odds, -log_odds))


@pytest.mark.parametrize(("center", "position"), [(2.0, 1.0), (40.0, 10.0), (90.0, 60.0)])
def test_products_are_sums_of_logs(center: float, position: float) -> None:
    """Far out the product of an item's 40 answers would overflow, and is made in runs."""
    item = np.repeat(np.arange(7), [1, 40, 3, 7, 0, 40, 2])
    k = RNG.integers(0, 2, len(item)) * 1.0
    centers = np.clip(RNG.normal(0, center, (5, len(item))), -MAX_LOG_ODDS, MAX_LOG_ODDS)
    at = np.clip(RNG.normal(0, position, (5, 7, 3)), -MAX_LOG_ODDS, MAX_LOG_ODDS)
    each = one_by_one(k, centers[..., None] - at[:, item])
    exact = np.stack([each[:, item == i].sum(axis=1) for i in range(7)], axis=1)
    np.testing.assert_allclose(log_joint(k, centers, at, item), exact, rtol=1e-11, atol=1e-11)


def test_items_without_answers_say_nothing() -> None:
    nothing = log_joint(np.zeros(0), np.zeros((2, 0)), np.ones((2, 3, 4)), np.zeros(0, int))
    np.testing.assert_array_equal(nothing, np.zeros((2, 3, 4)))


def test_the_farthest_does_not_overflow() -> None:
    item, k = np.zeros(50, int), np.zeros(50)
    with np.errstate(all="raise"):
        found = log_joint(
            k, np.full((1, 50), MAX_LOG_ODDS), np.full((1, 1, 1), -MAX_LOG_ODDS), item
        )
    assert found[0, 0, 0] == pytest.approx(-50 * 2 * MAX_LOG_ODDS)


def test_what_lies_too_far_or_nowhere_is_not_near() -> None:
    assert near(np.array([-MAX_LOG_ODDS, MAX_LOG_ODDS]), np.zeros(0))
    for far in (1.01 * MAX_LOG_ODDS, -1.01 * MAX_LOG_ODDS, np.inf, np.nan):
        assert not near(np.zeros(3), np.array([0.0, far]))


def mixed(count: int, farthest: float) -> tuple[np.ndarray, ...]:
    k, center = RNG.integers(0, 2, 30) * 1.0, RNG.uniform(-farthest, farthest, (4, 30))
    position = RNG.uniform(-farthest, farthest, (4, 30, count))
    log_weight = np.log(RNG.dirichlet(np.full(count, 0.3), (4, 30)) + 1e-12)
    return k, center, position, log_weight - logsumexp(log_weight, axis=-1, keepdims=True)


@pytest.mark.parametrize("farthest", [3.0, 50.0, MAX_LOG_ODDS])
def test_difficulties_are_summed_out(farthest: float) -> None:
    k, center, position, log_weight = mixed(7, farthest)
    each = one_by_one(k, center[..., None] - position)
    exact = logsumexp(log_weight + each, axis=-1)
    found = BernoulliMixture.of(k, position, log_weight).log_density(center)
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-14)


def marginal(k: np.ndarray, guess: float = 0.0, n: int = 1) -> Marginal:
    rows = Rows(k, np.full(len(k), 1.0 * n), np.full(len(k), guess))
    return Marginal(rows, np.full(len(k), -1))


def difficulties(own: Marginal, position: np.ndarray, log_weight: np.ndarray) -> ItemDifficulties:
    none, whole = np.zeros(0, int), np.arange(position.shape[1])
    items = ItemBlock(
        whole, whole, none, none, 0 * whole, whole == whole, 0.0 * whole, whole + 1.0, 7
    )
    return ItemDifficulties(items, own, Nodes(position, log_weight))


def test_both_ways_agree_and_the_longer_one_is_for_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    k, center, position, log_weight = mixed(7, 5.0)
    item = np.repeat(np.arange(10), 3)

    def both(answers: Marginal) -> list[np.ndarray]:
        known = difficulties(answers, position, log_weight)
        return [
            known.log_density(center),
            _log_joint(answers, center, position[:, :11], item),
        ]

    quick = both(marginal(k))
    monkeypatch.setattr(odds, "MAX_LOG_ODDS", 0.0)
    for one, other in zip(quick, both(marginal(k)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    for unlike in (marginal(k, guess=0.25), marginal(k, n=2)):
        assert not unlike.are_single.any()
        monkeypatch.setattr(odds, "MAX_LOG_ODDS", 300.0)
        near_by = both(unlike)
        monkeypatch.setattr(odds, "MAX_LOG_ODDS", 0.0)
        for one, other in zip(near_by, both(unlike), strict=True):
            np.testing.assert_array_equal(one, other)


def test_answers_of_both_kinds_to_one_item() -> None:
    """Single ones, repeated ones and guessed ones, against densities of SciPy's Binomial."""
    item = np.repeat([0, 1, 3, 4], [3, 10, 7, 20])  # nothing to the third
    n = RNG.choice([1, 1, 1, 4], len(item)) * 1.0
    k, guess = RNG.binomial(n.astype(int), 0.6) * 1.0, RNG.choice([0.0, 0.0, 0.25], len(item))
    answers = Marginal(Rows(k, n, guess), np.full(len(k), -1))
    assert 0 < answers.are_single.sum() < len(item)
    center, position = RNG.normal(0, 2, (6, len(item))), RNG.normal(0, 1, (6, 5, 3))
    p = guess[:, None] + (1 - guess[:, None]) * expit(center[..., None] - position[:, item])
    each = stats.binom.logpmf(k[:, None], n[:, None], p)
    exact = np.stack([each[:, item == i].sum(axis=1) for i in range(5)], axis=1)
    found = _log_joint(answers, center, position, item)
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)
