"""Odds: log densities of single answers, without guessing, by products of their odds.

The odds of an answer are those on an average item times the exponential of an ease, so that
one exponential serves all answers to an item; and one logarithm of a product serves them all.
"""

from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray, IntArray

FARTHEST = 300.0
"""Largest log-odds, and difficulty, whose odds are multiplied; farther out they overflow."""
_LARGEST = 700.0
"""Largest logarithm of a product of odds; that of the largest float is 709."""


def near(*log_odds: FloatArray) -> bool:
    """Return whether all log-odds are such that their odds can be multiplied."""
    return all(np.abs(x).max(initial=0.0) <= FARTHEST for x in log_odds)


def log_joint(
    k: FloatArray, center: FloatArray, position: FloatArray, item: IntArray
) -> FloatArray:
    """Return log densities of all answers to each item together.

    Dims (draw, item, node).
    """
    right = np.bincount(item, k, minlength=position.shape[1])
    result: FloatArray = -right[:, None] * position
    if not len(item):
        return result
    where, starts = np.unique(item, return_index=True)
    result[:, where] += np.add.reduceat(k * center, starts, axis=1)[..., None]
    reach = np.abs(center).max() + np.abs(position).max()
    longest = int(_LARGEST / (reach + 1))  # factors, each at most 1 + exp(reach), of a product
    within_item = np.arange(len(item)) - np.repeat(starts, np.diff(starts, append=len(item)))
    runs = np.flatnonzero(within_item % longest == 0)
    starts_of_runs = np.searchsorted(runs, starts)
    odds, ease = np.exp(center), np.exp(-position)
    for node in range(position.shape[-1]):
        factor = odds * ease[:, item, node]
        factor += 1
        log_product = np.log(np.multiply.reduceat(factor, runs, axis=1))
        result[:, where, node] -= np.add.reduceat(log_product, starts_of_runs, axis=1)
    return result


@dataclass(frozen=True, eq=False)
class Mixture:
    """Answers whose difficulties are known at nodes."""

    sign: FloatArray  # dims (answer,): 1 if right, -1 if wrong
    # share, hardness: dims (draw, answer, node): weights of nodes, which sum to one, and the
    # factors by which they multiply the odds of any other answer
    share: FloatArray
    hardness: FloatArray

    @classmethod
    def of(cls, k: FloatArray, position: FloatArray, log_weight: FloatArray) -> "Mixture":
        """Take answers, (answer,), at nodes that are `near`, (draw, answer, node)."""
        sign = 2 * k - 1
        return cls(sign, np.exp(log_weight), np.exp(sign[:, None] * position))

    def log_density(self, center: FloatArray) -> FloatArray:
        """Return log densities, difficulty summed out, for `near` log-odds, (draw, answer)."""
        against = self.hardness * np.exp(-self.sign * center)[..., None]
        against += 1
        density: FloatArray = np.divide(self.share, against, out=against).sum(axis=-1)
        return np.log(density)
