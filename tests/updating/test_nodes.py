"""Adaptive quadrature against moments that are known."""

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from bayescontam.model.quadrature import place_nodes


def test_moments_of_skewed_densities():
    """The logarithm of a Gamma variable: its mean and variance are known."""
    shape = np.array([2.0, 5.0, 40.0])

    def log_density(x: np.ndarray) -> np.ndarray:
        return shape[:, None] * x - np.exp(x)

    start, width = np.log(shape) + np.array([0.8, -0.5, 0.1]), np.array([1.0, 0.3, 0.3])
    nodes = place_nodes(log_density, start, width, np.full(3, 2.0), 15, steps=3)
    weight = np.exp(nodes.log_weight)
    mean = (weight * nodes.position).sum(axis=1)
    variance = (weight * nodes.position**2).sum(axis=1) - mean**2
    assert weight.sum(axis=1) == pytest.approx(1)
    assert mean == pytest.approx(digamma(shape), abs=0.002)
    assert variance == pytest.approx(polygamma(1, shape), rel=0.02)


def test_a_prior_without_data_keeps_its_moments():
    nodes = place_nodes(
        lambda x: -0.5 * (x / 0.7) ** 2, np.array([0.4]), np.array([np.inf]), np.array([0.7]), 7
    )
    weight = np.exp(nodes.log_weight)
    for power, exact in ((1, 0.0), (2, 0.49), (4, 3 * 0.7**4)):
        assert (weight * nodes.position**power).sum() == pytest.approx(exact, abs=1e-6)
