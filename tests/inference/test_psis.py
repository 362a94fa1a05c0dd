"""Pareto-smoothed weights of many sets at a time, against ArviZ's of one."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from bayescontam.inference.psis import psis_weights


@pytest.mark.parametrize("draws", [30, 225, 226, 1000])
@pytest.mark.parametrize("spread", [0.05, 1.0, 4.0])
def test_weights_are_those_of_arviz(draws: int, spread: float) -> None:
    rng = np.random.default_rng(draws)
    ratios = spread * np.stack([rng.normal(size=(5, draws)), rng.standard_t(3, size=(5, draws))])
    log_weights, pareto_k = psis_weights(ratios)
    expected, expected_k = array_stats.psislw(-ratios, r_eff=1, axis=-1)
    np.testing.assert_allclose(log_weights, expected, atol=1e-10)
    np.testing.assert_allclose(pareto_k, expected_k, atol=1e-10)
    np.testing.assert_allclose(np.exp(log_weights).sum(axis=-1), 1.0)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = np.random.default_rng(1).normal(size=(37, 300))
    whole = psis_weights(ratios)
    monkeypatch.setattr("bayescontam.inference.psis._CELLS", 1000)
    for one, other in zip(psis_weights(ratios), whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_tails_without_a_shape() -> None:
    draws = 400
    equal = np.full(draws, -3.0)
    step = np.where(np.arange(draws) < 200, 0.0, 1.0)  # all the largest are equal
    quarter = np.append(np.zeros(draws - 20), np.linspace(0.1, 2, 20))  # most of the tail is equal
    log_weights, pareto_k = psis_weights(np.stack([equal, step, quarter]))
    np.testing.assert_allclose(log_weights[0], -np.log(draws))
    np.testing.assert_allclose(log_weights[1], step - np.log(np.exp(step).sum()))
    np.testing.assert_allclose(log_weights[2], quarter - np.log(np.exp(quarter).sum()))
    assert pareto_k[:2].tolist() == [0.0, 0.0]
    assert np.isnan(pareto_k[2])  # a quarter of the tail is equal: no such fit, so no trust
