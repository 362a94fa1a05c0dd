"""Leave-one-out against numerical integration and exact refits."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from bayescontam.inference.loo import _left_out, _log_density, _Rows

GUESSES = [0.0, 0.25]


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (4, 10), (1, 2), (250, 300)])
@pytest.mark.parametrize(("center", "scale"), [(0.0, 0.3), (2.0, 1.5), (-1.0, 6.5)])
def test_effect_is_integrated_out(k, n, center, scale, guess):
    def integrand(eta: float) -> float:
        p = guess + (1 - guess) * expit(eta)
        return stats.binom(n, p).pmf(k) * stats.norm(center, scale).pdf(eta)

    points = np.linspace(center - 9 * scale, center + 9 * scale, 40)
    exact = sum(
        integrate.quad(integrand, a, b, epsabs=1e-14)[0] for a, b in itertools.pairwise(points)
    )
    rows = _Rows(np.array([k * 1.0]), np.array([n * 1.0]), np.array([guess]))
    density = _log_density(rows, np.array([[center]]), np.array([[scale]]))
    assert density[0, 0] == pytest.approx(np.log(exact), abs=0.007)


def test_weights_leave_one_response_out():
    """Normal mean with known variance: the left-out predictive density is known."""
    rng = np.random.default_rng(3)
    y = rng.normal(0.4, 1, 30)
    mean, sd = y.sum() / (len(y) + 1), np.sqrt(1 / (len(y) + 1))  # prior Normal(0, 1)
    draws = rng.normal(mean, sd, 4000)
    log_density = stats.norm(draws[:, None], 1).logpdf(y)
    below = stats.norm(draws[:, None], 1).cdf(y)
    result = _left_out(log_density, below, np.zeros_like(below), rng)
    for i in range(len(y)):
        rest = np.delete(y, i)
        predictive = stats.norm(rest.sum() / (len(y)), np.sqrt(1 + 1 / len(y)))
        assert result["elpd"][i] == pytest.approx(predictive.logpdf(y[i]), abs=0.02)
        assert result["pit"][i] == pytest.approx(predictive.cdf(y[i]), abs=0.02)
    assert result["pareto_k"].max() < 0.7
    joint = result["log_density"]
    assert joint == pytest.approx(stats.norm(mean, np.sqrt(1 + sd**2)).logpdf(y), abs=0.02)
