"""Ranks, places and simultaneous intervals from joint draws."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayescontam._types import FloatArray


def shared_ranks(ability: FloatArray) -> FloatArray:
    """Return ranks within each draw, 1 for the largest; equal models share their mean rank.

    Dims (draw, model).

    >>> shared_ranks(np.array([[0.2, 0.9, 0.2], [0.3, 0.2, 0.1]])).tolist()
    [[2.5, 1.0, 2.5], [1.0, 2.0, 3.0]]
    """
    ranks: FloatArray = rankdata(-ability, method="average", axis=1)
    return ranks


def p_best(ranks: FloatArray) -> FloatArray:
    """Return which part of the first place each model has, of the shape of `ranks`.

    Models that share it have equal parts, which add up to 1; NaN where a model has no rank.

    >>> p_best(np.array([[1.5], [3.0], [1.5]])).ravel().tolist()
    [0.5, 0.0, 0.5]
    >>> p_best(np.array([[np.nan, np.nan], [1.0, np.nan]])).tolist()
    [[nan, nan], [1.0, nan]]
    """
    first = ranks == np.fmin.reduce(ranks, axis=-2, keepdims=True)
    parts: FloatArray = first / np.maximum(first.sum(axis=-2, keepdims=True), 1)
    return np.where(np.isnan(ranks), np.nan, parts)


def p_superior(ability: FloatArray) -> FloatArray:
    """Return the share of draws in which a model is better than another.

    Dims (model, other).

    One model is compared at a time: memory grows with draws and models, never with their
    pairs in every draw.

    >>> p_superior(np.array([[0.5, 0.4], [0.5, 0.6], [0.5, 0.5], [0.5, 0.1]])).tolist()
    [[nan, 0.625], [0.375, nan]]
    """
    columns = np.ascontiguousarray(ability.T)
    count, draws = columns.shape
    wins = np.full((count, count), np.nan)
    for model in range(count - 1):
        others = columns[model + 1 :]
        above = np.count_nonzero(columns[model] > others, axis=1)
        below = np.count_nonzero(columns[model] < others, axis=1)
        ties = draws - above - below
        wins[model, model + 1 :] = above + ties / 2
        wins[model + 1 :, model] = below + ties / 2
    return wins / draws


def p_first(ability: FloatArray) -> FloatArray:
    """Return how probably each model is the best, dims (model,).

    A draw in which several are equally good counts for each by its share, so that all
    sum to 1.

    >>> p_first(np.array([[0.5, 0.5, 0.1], [0.2, 0.3, 0.1]])).tolist()
    [0.25, 0.75, 0.0]
    """
    first = ability == ability.max(axis=1, keepdims=True)
    shares: FloatArray = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def p_all_differences(ability: FloatArray, above: NDArray[np.bool_]) -> float:
    """Return the share of draws in which every one of some orders holds.

    >>> said = np.array([[False, True, True], [False, False, False], [False, False, False]])
    >>> p_all_differences(np.array([[0.5, 0.4, 0.1], [0.5, 0.6, 0.1]]), said)
    0.5
    """
    columns = np.ascontiguousarray(ability.T)
    holds = np.ones(columns.shape[1], dtype=bool)
    for model, others in enumerate(above):
        holds &= (columns[model] > columns[others]).all(axis=0)
    return float(holds.mean())


def simultaneous_intervals(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return intervals that hold all columns at once in a share `level` of the draws.

    Dims (column,).

    Each column's interval lies between its k-th smallest and its k-th largest draw, with
    the smallest k for which enough draws lie inside in every column.

    Besag, Green, Higdon & Mengersen (1995), section 6.3, doi:10.1214/ss/1177010123.

    >>> draws = np.array([[1, 2], [1, 2], [1, 2], [2, 1]])
    >>> [ends.tolist() for ends in simultaneous_intervals(draws, 0.75)]
    [[1, 2], [1, 2]]
    """
    count = len(values)
    # Of equal draws the position that lies inside the narrower interval.
    from_below = rankdata(values, method="min", axis=0)
    from_above = count + 1 - rankdata(values, method="max", axis=0)
    outermost = np.maximum(from_below, from_above).max(axis=1)
    k = int(np.sort(outermost)[int(np.ceil(level * count - 1e-9)) - 1])
    ordered = np.sort(values, axis=0)
    return ordered[count - k], ordered[k - 1]
