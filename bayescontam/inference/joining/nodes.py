"""Nodes: quadrature of unknown quantities, each placed where its own density lies."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray

STEPS = 2
"""Steps that move the nodes to the density; they start near it."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Positions of nodes and log weights that sum to one, dims (…, node)."""

    position: FloatArray
    log_weight: FloatArray


def log_mean(log_values: FloatArray) -> FloatArray:
    """Return the log of the sum of exponentials along the last axis, (…)."""
    top = log_values.max(axis=-1)
    total: FloatArray = np.log(np.exp(log_values - top[..., None]).sum(axis=-1)) + top
    return total


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
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    position = center[..., None] + width[..., None] * nodes
    # The weights hold exp(-nodes²/2), which the density replaces.
    log_weight = log_density(position) + np.log(weights) + nodes**2 / 2
    return Nodes(position, log_weight - log_mean(log_weight)[..., None])
