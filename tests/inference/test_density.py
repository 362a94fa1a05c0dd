"""Densities of single responses against numerical integration."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from bayescontam.inference.predictive import Rows, log_density

GUESSES = [0.0, 0.25]


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (4, 10), (1, 2), (250, 300)])
@pytest.mark.parametrize(("center", "scale"), [(0.0, 0.3), (2.0, 1.5), (-1.0, 6.5)])
def test_effect_is_integrated_out(k, n, center, scale, guess):
    def integrand(eta: np.ndarray) -> np.ndarray:
        p = guess + (1 - guess) * expit(eta)
        return stats.binom(n, p).pmf(k) * stats.norm(center, scale).pdf(eta)

    points = np.linspace(center - 9 * scale, center + 9 * scale, 40)
    # The narrowest likelihood, of 300 trials, is wider than ten nodes of the longest piece.
    exact = sum(
        integrate.fixed_quad(integrand, a, b, n=200)[0] for a, b in itertools.pairwise(points)
    )
    rows = Rows(np.array([k * 1.0]), np.array([n * 1.0]), np.array([guess]))
    density = log_density(rows, np.array([[center]]), np.array([[scale]]))
    assert density[0, 0] == pytest.approx(np.log(exact), abs=0.007)
