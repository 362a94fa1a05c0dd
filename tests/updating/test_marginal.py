"""Densities with effects summed out, against numerical integration."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from bayescontam.inference.predictive import Rows
from bayescontam.updating.new_model import Marginal

COUNTS = [(0, 10), (10, 10), (4, 10), (1, 2), (250, 300)]
SCALES = np.array([0.02, 0.3, 1.1, 2.7])


@pytest.mark.parametrize("guess", [0.0, 0.25])
def test_table_agrees_with_integration(guess):
    k, n = np.array(COUNTS, dtype=float).T
    rows = Rows(k, n, np.full(len(k), guess))
    marginal = Marginal.of(rows, 0, SCALES).at(SCALES)
    eta = np.random.default_rng(1).uniform(-2, 2, (len(SCALES), len(k)))
    density = marginal.log_density(eta)
    for s, scale in enumerate(SCALES):
        for r in range(len(k)):

            def integrand(z: float, s: int = s, r: int = r) -> float:
                p = guess + (1 - guess) * expit(eta[s, r] + SCALES[s] * z)
                return stats.binom(n[r], p).pmf(k[r]) * stats.norm.pdf(z)

            peak = np.clip((np.log((k[r] + 0.5) / (n[r] - k[r] + 0.5)) - eta[s, r]) / scale, -8, 8)
            exact = integrate.quad(integrand, -9, 9, points=[peak], limit=200)[0]
            # Counts that cannot happen have no weight whatever their logarithm is.
            if exact > 1e-12:
                assert density[s, r] == pytest.approx(np.log(exact), abs=0.005)


def test_single_responses_among_repeated_ones_have_no_effect():
    rows = Rows(np.array([1.0, 0.0, 3.0]), np.array([1.0, 1.0, 5.0]), np.zeros(3))
    marginal = Marginal.of(rows, 2, SCALES).at(SCALES)
    eta = np.linspace(-2, 2, 24).reshape(len(SCALES), 3, 2)
    density = marginal.log_density(eta)
    assert density[:, 0] == pytest.approx(np.log(expit(eta[:, 0])))
    assert density[:, 1] == pytest.approx(np.log(expit(-eta[:, 1])))
    assert density[:, 2] == pytest.approx(marginal[np.array([2])].log_density(eta[:, 2:])[:, 0])
