"""Leave-one-out against predictive densities that are known."""

import numpy as np
import pytest
from scipy import stats

from bayescontam.inference.loo import MIN_DRAWS, _left_out
from bayescontam.inference.psis import psis_weights


def test_weights_leave_one_response_out():
    """Normal mean with known variance: the left-out predictive density is known."""
    rng = np.random.default_rng(3)
    y = rng.normal(0.4, 1, 30)
    mean, sd = y.sum() / (len(y) + 1), np.sqrt(1 / (len(y) + 1))  # prior Normal(0, 1)
    draws = rng.normal(mean, sd, 4000)
    density = stats.norm(draws[:, None], 1).logpdf(y)
    below = stats.norm(draws[:, None], 1).cdf(y)
    result = _left_out(density, below, np.zeros_like(below), rng)
    for i in range(len(y)):
        rest = np.delete(y, i)
        predictive = stats.norm(rest.sum() / (len(y)), np.sqrt(1 + 1 / len(y)))
        assert result["elpd"][i] == pytest.approx(predictive.logpdf(y[i]), abs=0.02)
        assert result["pit"][i] == pytest.approx(predictive.cdf(y[i]), abs=0.02)
    assert result["pareto_k"].max() < 0.7
    joint = result["log_density"]
    assert joint == pytest.approx(stats.norm(mean, np.sqrt(1 + sd**2)).logpdf(y), abs=0.02)


def test_the_fewest_draws_of_a_fit_are_the_fewest_of_which_pareto_k_can_be_reported() -> None:
    density = np.random.default_rng(5).normal(size=(MIN_DRAWS, 50))
    assert np.isfinite(psis_weights(density.T)[1]).all()
    assert np.isnan(psis_weights(density[1:].T)[1]).all()
