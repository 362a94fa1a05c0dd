"""Quadrature: a few values with probabilities, in place of a Beta distribution."""

import numpy as np

from bayescontam._types import FloatArray

KNOWN = 1e-6
"""Standard deviation of a contamination below which it counts as known."""


def beta_quadrature(mean: FloatArray, sd: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss quadrature of Beta distributions of given means and deviations.

    Dims (group, node).

    Eigenvalues of the tridiagonal matrix of the recurrence of Jacobi polynomials, whose
    coefficients are written in the mean and a + b so that both limits exist;
    `scipy.special.roots_jacobi` overflows near the first.

    Golub & Welsch (1969), doi:10.1090/S0025-5718-69-99647-1.
    """
    variance = mean * (1 - mean)
    known = (sd < KNOWN) | (variance < KNOWN**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(known, 1.0, np.maximum(variance / sd**2 - 1, 0.0))  # a + b
    size, lean = size[:, None], 2 * mean[:, None] - 1
    a, b = size * mean[:, None], size * (1 - mean[:, None])
    # The coefficients of n = 0 and 1, in which factors of a + b cancel, then all others.
    n = np.arange(2, count)
    matrix = np.zeros((len(mean), count, count))
    matrix[:, 0, 0] = lean[:, 0]
    matrix[:, 1, 0] = 2 * np.sqrt(variance / (size[:, 0] + 1))
    matrix[:, 1, 1] = (lean * (size - 2) / (size + 2))[:, 0]
    matrix[:, n, n] = lean * size * (size - 2) / ((2 * n - 2 + size) * (2 * n + size))
    top = 4 * n * (n - 1 + a) * (n - 1 + b) * (n - 2 + size)
    bottom = (2 * n - 1 + size) * (2 * n - 3 + size) * (2 * n - 2 + size) ** 2
    matrix[:, n, n - 1] = np.sqrt(top / bottom)
    roots, vectors = np.linalg.eigh(matrix)
    nodes, weights = np.clip((roots + 1) / 2, 0, 1), vectors[:, 0] ** 2
    nodes[known], weights[known] = mean[known, None], np.eye(count)[0]
    weights = np.where(weights < 1e-14, 0.0, weights)
    order = np.argsort(-weights, axis=1, kind="stable")
    nodes, weights = np.take_along_axis(nodes, order, 1), np.take_along_axis(weights, order, 1)
    needed = (weights > 0).any(axis=0)
    weights = weights[:, needed] / weights.sum(axis=1, keepdims=True)
    return nodes[:, needed], weights
