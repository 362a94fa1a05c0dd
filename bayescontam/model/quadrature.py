"""Quadrature rules under Normal and Beta distributions, and moments of the logistic-normal."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, logsumexp

from bayescontam._types import FloatArray

KNOWN = 1e-6  # standard deviation of a contamination below which it counts as known
WIDEST = 0.9  # largest standard deviation, as a share of that of a yes-or-no event of the same mean
_STEPS = 30
STEPS = 2  # steps that move the nodes to the density; they start near it


def normal_weights(z: FloatArray) -> FloatArray:
    """Return weights, summing to one, of evenly spaced nodes under a standard Normal."""
    density: FloatArray = np.exp(-(z**2) / 2)
    return density / density.sum()


def log_weights(z: FloatArray) -> FloatArray:
    """Return the logarithms of the same weights, also of nodes far out."""
    density = -0.5 * z**2
    result: FloatArray = density - logsumexp(density)
    return result


def normal_trapezoid(reach: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes of the trapezoid rule under a standard Normal, and normalised log weights."""
    # Of a smooth function it errs by about exp(-19) where nodes are as far apart as it is wide.
    z = np.linspace(-reach, reach, count)
    log_weight = -(z**2) / 2
    return z, log_weight - np.log(np.exp(log_weight).sum())


def normal_gauss_hermite(count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes of Gauss-Hermite quadrature under a standard Normal, and their weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def gauss_hermite_at(
    center: FloatArray, width: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights for functions about Normal(center, width), dims (…, node)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    # The weights hold exp(-nodes²/2), which the function replaces.
    log_weight = np.log(weights) + nodes**2 / 2 + np.log(width)[..., None]
    return center[..., None] + width[..., None] * nodes, log_weight


def beta_quadrature(mean: FloatArray, sd: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss quadrature of Beta distributions of given means and deviations."""
    # Dims (group, node). Eigenvalues of the tridiagonal matrix of the recurrence of Jacobi
    # polynomials, whose coefficients are written in the mean and a + b so that both limits exist;
    # `scipy.special.roots_jacobi` overflows near the first. Golub & Welsch (1969),
    # doi:10.1090/S0025-5718-69-99647-1.
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


_Z = np.linspace(-6.0, 6.0, 49)
_WEIGHT = normal_weights(_Z)


def logit_normal(mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return location and scale of logit-normal distributions of given moments.

    By bisection. To first order the scale is ``sd / (mean (1 - mean))``; near 0 and 1, where
    deviations are not small beside that, it is far less.

    >>> location, scale = logit_normal(np.array([0.5]), np.array([0.01]))
    >>> abs(location).round(6).tolist(), scale.round(3).tolist()
    ([0.0], [0.04])
    """
    wanted = np.minimum(sd, WIDEST * np.sqrt(mean * (1 - mean))) ** 2
    low, high = np.zeros(mean.shape), np.full(mean.shape, 40.0)
    for _ in range(_STEPS):
        scale = (low + high) / 2
        p = expit(logit_location(mean, scale)[..., None] + scale[..., None] * _Z)
        less = (p - mean[..., None]) ** 2 @ _WEIGHT < wanted
        low, high = np.where(less, scale, low), np.where(less, high, scale)
    scale = np.where(sd > 0, (low + high) / 2, 0.0)
    return logit_location(mean, scale), scale


def logit_location(mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the location at which distributions of these scales have these means."""
    low, high = logit(mean) - 6 * scale, logit(mean) + 6 * scale
    for _ in range(_STEPS):
        location = (low + high) / 2
        less = expit(location[..., None] + scale[..., None] * _Z) @ _WEIGHT < mean
        low, high = np.where(less, location, low), np.where(less, high, location)
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class Nodes:
    """Positions of nodes and log weights that sum to one, dims (…, node)."""

    position: FloatArray
    log_weight: FloatArray


def place_nodes(
    log_density: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    width: FloatArray,
    widest: FloatArray,
    count: int,
    steps: int = STEPS,
) -> Nodes:
    """Return adaptive Gauss-Hermite nodes of many one-dimensional densities."""
    center = np.broadcast_to(start, widest.shape)
    width = np.minimum(np.broadcast_to(width, widest.shape), widest)
    three = np.array([-1.0, 0.0, 1.0])
    for _ in range(steps):
        low, middle, high = np.moveaxis(
            log_density(center[..., None] + 0.7 * width[..., None] * three), -1, 0
        )
        curvature = (2 * middle - low - high) / (0.7 * width) ** 2
        narrow = 1 / np.sqrt(np.maximum(curvature, 1 / widest**2))
        move = (high - low) / (1.4 * width) * narrow**2
        center = center + np.clip(move, -3 * width, 3 * width)
        width = narrow
    position, log_weight = gauss_hermite_at(center, width, count)
    log_weight = log_weight + log_density(position)
    return Nodes(position, log_weight - logsumexp(log_weight, axis=-1, keepdims=True))
