"""Gauss quadrature of Beta distributions against their moments."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import roots_jacobi

from bayescontam.model.quadrature import beta_quadrature

KEPT = 5


def beta_moment(mean: float, sd: float, power: int) -> float:
    """E[x^power] of a Beta distribution as a product of ratios."""
    size = mean * (1 - mean) / sd**2 - 1
    ratios = [(size * mean + r) / (size + r) for r in range(power)]
    return float(np.prod(ratios))


class TestBetaQuadrature:
    """Gauss quadrature of Beta distributions, also where they are hardly one."""

    @pytest.mark.parametrize("mean", [0.01, 0.3, 0.5, 0.9])
    @pytest.mark.parametrize("share", [1e-5, 0.01, 0.3, 0.7, 0.99, 0.999999])
    def test_nine_moments_are_exact(self, mean, share):
        """`share` is of the largest possible standard deviation."""
        sd = share * np.sqrt(mean * (1 - mean))
        nodes, weights = beta_quadrature(np.array([mean]), np.array([sd]), KEPT)
        for power in range(1, 2 * KEPT):
            expected = beta_moment(mean, sd, power)
            assert (weights[0] * nodes[0] ** power).sum() == pytest.approx(expected, rel=1e-9)

    def test_agrees_with_scipy(self):
        a, b = 0.8, 2.5
        mean, sd = stats.beta(a, b).mean(), stats.beta(a, b).std()
        nodes, weights = beta_quadrature(np.array([mean]), np.array([sd]), KEPT)
        x, w = roots_jacobi(KEPT, b - 1, a - 1)
        order = np.argsort(nodes[0])
        np.testing.assert_allclose(nodes[0][order], (x + 1) / 2, atol=1e-12)
        np.testing.assert_allclose(weights[0][order], w / w.sum(), atol=1e-12)

    def test_largest_deviation_is_the_event(self):
        mean = np.array([0.2, 0.5, 0.7])
        nodes, weights = beta_quadrature(mean, np.sqrt(mean * (1 - mean)), KEPT)
        assert nodes.shape == (3, 2)
        one = nodes > 0.5
        np.testing.assert_allclose(nodes, one * 1.0, atol=1e-12)
        np.testing.assert_allclose((weights * one).sum(axis=1), mean, atol=1e-12)

    def test_known_is_one_node(self):
        mean = np.array([0.0, 0.3, 1.0, 0.4])
        nodes, weights = beta_quadrature(mean, np.array([0.0, 0.0, 0.0, 0.2]), KEPT)
        np.testing.assert_array_equal(nodes[:3, 0], mean[:3])
        np.testing.assert_array_equal(weights[:3], [[1, 0, 0, 0, 0]] * 3)

    def test_nodes_and_weights_are_probabilities(self):
        rng = np.random.default_rng(1)
        mean = rng.random(500)
        sd = rng.random(500) * np.sqrt(mean * (1 - mean) * 1.01)
        nodes, weights = beta_quadrature(mean, sd, KEPT)
        assert ((nodes >= 0) & (nodes <= 1)).all()
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1)
