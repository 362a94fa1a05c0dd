"""Shifted: how much each draw counts if a prior had other locations."""

from dataclasses import dataclass

import numpy as np
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.inference.priors import distribution
from bayescontam.specs.priors import Logistic, Normal, StudentT

Located = Normal | Logistic | StudentT
"""Priors with a location that can be moved."""
_STEPS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
STEPS = np.array([*(-step for step in reversed(_STEPS)), 0.0, *_STEPS])
"""Locations that are looked at, in scales of the prior from its own location."""
MOST_K = 0.7
"""Largest Pareto k of weights that are trusted."""


def locations_around(prior: Located) -> FloatArray:
    """Return the locations to look at: around the prior's own, densest there, and 0."""
    scale = float(distribution(prior).ppf(norm.cdf(1)) - prior.mu)
    locations: FloatArray = prior.mu + scale * STEPS
    if locations[0] < 0 < locations[-1] and np.abs(locations).min() > 1e-6 * scale:
        locations = np.sort([*locations, 0.0])
    return locations


def log_ratios(draws: FloatArray, prior: Located, locations: FloatArray) -> FloatArray:
    """Return the log density of draws at other locations less that at the prior's own.

    Dims (location, parameter, draw).
    """
    density = distribution(prior).logpdf
    # Moving the prior up is moving the draws down; at the own location this is exactly zero.
    moved = draws - (locations - prior.mu)[:, None, None]
    return (density(moved) - density(draws)).transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class ShiftedWeights:
    """Pareto-smoothed weights of draws at each location of a prior.

    Vehtari, Simpson, Gelman, Yao & Gabry (2024), arXiv:1507.02646.
    """

    share: FloatArray  # dims (location, parameter, draw): they sum to one over draws
    # dims (location, parameter): shape of the tail of the weights; 0 if all are equal
    pareto_k: FloatArray

    @classmethod
    def of(cls, ratios: FloatArray) -> "ShiftedWeights":
        """Smooth log ratios, dims (location, parameter, draw)."""
        log_weights, pareto_k = np.zeros(ratios.shape), np.zeros(ratios.shape[:2])
        moving = np.ptp(ratios, axis=2) > 0  # a tail of equal weights has no shape
        if moving.any():
            smoothed = array_stats.psislw(-ratios[moving], r_eff=1, axis=-1)
            log_weights[moving], pareto_k[moving] = smoothed
        return cls(softmax(log_weights, axis=2), pareto_k)

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Whether k is at most min(0.7, 1 - 1 / log10(draws)), dims (location, parameter)."""
        return self.pareto_k <= min(MOST_K, 1 - 1 / np.log10(self.share.shape[2]))

    def repeated(self, times: int) -> "ShiftedWeights":
        """Return the weights of one parameter as those of several."""
        return ShiftedWeights(*(np.repeat(v, times, axis=1) for v in vars(self).values()))


def within_reach(good: NDArray[np.bool_], own: int) -> NDArray[np.bool_]:
    """Return which locations are good, as are all between them and the prior's own.

    >>> within_reach(np.array([True, False, True, False, True, True]), 3).tolist()
    [False, False, True, True, True, True]
    """
    good = good.copy()
    good[own] = True
    below = np.logical_and.accumulate(good[own::-1])[::-1]
    return np.concatenate([below[:-1], np.logical_and.accumulate(good[own:])])
