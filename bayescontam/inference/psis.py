"""Pareto-smoothed importance sampling of many sets of weights at a time."""

import numpy as np

from bayescontam._types import FloatArray

GOOD_K = 0.7
"""Pareto k up to which importance sampling by many draws can be trusted."""
_EQUAL = 1e-9
"""Range of log ratios that differ by rounding, or not at all."""
_CELLS = 500_000
"""Numbers that are computed together: they fit into a processor's cache."""


def psis_weights(log_ratios: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Pareto-smoothed log weights along the last axis, which sum to one, and Pareto k."""
    # Vehtari, Simpson, Gelman, Yao & Gabry (2024), arXiv:1507.02646. A tail of equal weights has no
    # shape: its k is 0. ArviZ's psislw takes one set after the other, and seven times as long for
    # sets of 1,000 draws (benchmarks/test_psis.py). The weights are the same but for rounding.
    shape, draws = log_ratios.shape, log_ratios.shape[-1]
    weights = np.full(shape, -np.log(draws)).reshape(-1, draws)
    pareto_k = np.zeros(shape[:-1]).reshape(-1)
    flat = log_ratios.reshape(-1, draws)
    tail = int(3 * draws**0.5) if draws > 225 else draws // 5
    rows = np.flatnonzero(np.ptp(flat, axis=-1) > _EQUAL)
    step = max(1, _CELLS // draws)
    for some in np.split(rows, range(step, len(rows), step)):
        weights[some], pareto_k[some] = _smoothed(flat[some], tail)
    return weights.reshape(shape), pareto_k.reshape(shape[:-1])


def max_pareto_k(draws: int) -> float:
    """Return the largest Pareto k with which weights of so many draws can be trusted."""
    return float(min(1 - 1 / np.log10(draws), GOOD_K))


def _smoothed(log_ratios: FloatArray, tail: int) -> tuple[FloatArray, FloatArray]:
    """Return log weights (set, draw) whose largest are smoothed, and k."""
    values = log_ratios - log_ratios.max(axis=1, keepdims=True)
    place = np.argpartition(values, -tail - 1, axis=1)[:, -tail - 1 :]
    largest = np.take_along_axis(values, place, axis=1)
    order = np.argsort(largest, axis=1)
    place = np.take_along_axis(place, order, axis=1)[:, 1:]
    largest = np.exp(np.take_along_axis(largest, order, axis=1))
    cutoff, excess = largest[:, :1], largest[:, 1:] - largest[:, :1]
    k, scale = _fitted(excess)
    p = (np.arange(tail) + 0.5) / tail
    with np.errstate(invalid="ignore", divide="ignore"):
        slow = -np.log1p(-p)
        rise = np.where(k[:, None] == 0, slow, np.expm1(k[:, None] * slow) / k[:, None])
        smooth = np.minimum(np.log(cutoff + scale[:, None] * rise), 0.0)
    usable = np.isfinite(k) & (scale > 0)
    here = np.flatnonzero(usable)[:, None]
    values[here, place[usable]] = smooth[usable]
    # The largest is near 0, so that nothing overflows.
    values -= np.log(np.exp(values).sum(axis=1, keepdims=True))
    return values, np.where(np.ptp(largest[:, 1:], axis=1) > 0, k, 0.0)


def _fitted(excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit generalised Pareto distributions to ordered excesses (set, draw): shape and scale."""
    # Zhang & Stephens (2009), doi:10.1198/tech.2009.08017, with the prior on the shape of
    # arXiv:1507.02646. Not a number where a quarter of a tail is equal.
    sets, size = excess.shape
    grid = 30 + int(size**0.5)
    shape, scale = np.full(sets, np.nan), np.full(sets, np.nan)
    quarter = excess[:, int(size / 4 + 0.5) - 1] if size >= 2 else excess[:, 0]
    rows = np.flatnonzero(quarter > excess[:, 0])
    step = max(1, _CELLS // (grid * size))
    points = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    for some in np.split(rows, range(step, len(rows), step)):
        x = excess[some]
        at = points / (3 * quarter[some, None]) + 1 / x[:, -1:]
        k = np.log1p(-at[:, :, None] * x[:, None, :]).mean(axis=2)
        height = size * (np.log(-at / k) - k - 1)
        weight = np.exp(height - height.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        weight[weight < 10 * np.finfo(float).eps] = 0.0
        mean = (weight * at).sum(axis=1) / weight.sum(axis=1)
        own = np.log1p(-mean[:, None] * x).mean(axis=1)
        scale[some] = -own / mean
        shape[some] = (size * own + 5.0) / (size + 10)
    return shape, scale
