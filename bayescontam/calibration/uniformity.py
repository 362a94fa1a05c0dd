"""Uniformity: whether numbers are draws from Uniform(0, 1), and how they are not."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtr, chdtr, chdtrc, chdtri, ndtr, ndtri
from scipy.stats import binom, norm

from bayescontam._types import FloatArray
from bayescontam.seeds import stream

_POINTS = 100
"""Most points at which distribution functions are compared."""
_SIMULATED = 10_000
_REACH, _NODES = 30.0, 3001
"""Distance from zero up to which, and nodes at which, normal scores of truths are integrated."""
_MOST_FACTOR = 6.0
"""Excess of spread up to which is estimated how much would be found."""


@dataclass(frozen=True)
class Uniformity:
    """What three tests show about numbers that should be uniform."""

    p_value: float  # smallest of the three p-values, times three
    # smallest two-sided binomial tail probability of the empirical distribution function at any
    # point: how far it leaves the diagonal
    gamma: float
    p_ecdf: float  # P-value of `gamma`: against departures of any kind
    # shift, p_shift: mean of the normal quantiles of the numbers, 0 if uniform, and its two-sided
    # p-value: against numbers that are too high or too low
    shift: float
    p_shift: float
    # spread, p_spread: standard deviation of the same, 1 if uniform, and its two-sided p-value:
    # against too many numbers at both ends, or in the middle
    spread: float
    p_spread: float


def uniformity(values: FloatArray) -> Uniformity:
    """Test whether numbers are independent draws from Uniform(0, 1).

    Three tests, corrected by Bonferroni: the simultaneous envelope of the empirical
    distribution function [1]_, which has power against anything and is what the pictures
    show; and the tests of mean and variance of normal quantiles, which are exact, and stronger
    against the two ways in which intervals are commonly wrong: off to one side, and too narrow
    or too wide.

    .. [1] Säilynoja, Bürkner & Vehtari (2022). Graphical test for discrete uniformity and its
       applications in goodness-of-fit evaluation and multiple sample comparison.
       doi:10.1007/s11222-022-10090-6
    """
    n = len(values)
    gamma = _gamma(values)
    p_ecdf = _p_gamma(gamma, n)
    scores = ndtri(np.clip(values, 1e-12, 1 - 1e-12))
    shift, variance = float(scores.mean()), float(scores.var(ddof=1))
    p_shift = 2 * float(ndtr(-abs(shift) * np.sqrt(n)))
    squares = (n - 1) * variance  # chi-square with n - 1 degrees of freedom
    p_spread = 2 * float(min(chdtr(n - 1, squares), chdtrc(n - 1, squares)))
    return Uniformity(
        p_value=min(1.0, 3 * min(p_ecdf, p_shift, p_spread)),
        gamma=gamma,
        p_ecdf=p_ecdf,
        shift=shift,
        p_shift=p_shift,
        spread=float(np.sqrt(variance)),
        p_spread=p_spread,
    )


def detectable(n: int, draws: int, p_value: float, probability: float = 0.8) -> tuple[float, float]:
    """Return what is found by `n` ranks: the least shift, and the least excess of spread.

    Of Normal posteriors. Ranks among few draws show less: how far outside of all of them a
    truth lies is not known.
    """
    shift = float(ndtri(1 - p_value / 2) + ndtri(probability)) / np.sqrt(n)
    square = float(chdtri(n - 1, p_value / 2) / chdtri(n - 1, probability))
    return (
        _least(lambda by: _moments(draws, by, 1.0)[0] - shift, 0.0),
        _least(lambda by: _moments(draws, 0.0, by)[1] - square, 1.0),
    )


def _least(excess: Callable[[float], float], start: float) -> float:
    """Return where an increasing function is zero, infinity if that is too far off."""
    return float(brentq(excess, start, _MOST_FACTOR)) if excess(_MOST_FACTOR) > 0 else np.inf


def _moments(draws: int, shift: float, factor: float) -> tuple[float, float]:
    """Return mean and mean square of normal scores of ranks, where posteriors are off."""
    nodes, first, second = _scores(draws)
    weights = norm.pdf(nodes, shift, factor)
    weights /= weights.sum()
    return float(weights @ first), float(weights @ second)


@lru_cache(maxsize=16)
def _scores(draws: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean and mean square of a rank's normal score, given the truth's own, dims (node,).

    A rank is Binomial given the truth, and spread evenly over its share of (0, 1).
    """
    edges = ndtri(np.arange(draws + 2) / (draws + 1))
    density = norm.pdf(edges)
    moved = np.where(np.isfinite(edges), edges, 0.0) * density
    first, second = -np.diff(density) * (draws + 1), 1 - np.diff(moved) * (draws + 1)
    nodes = np.linspace(-_REACH, _REACH, _NODES)
    chances = binom.pmf(np.arange(draws + 1), draws, ndtr(nodes)[:, None])
    return nodes, chances @ first, chances @ second


def points(n: int) -> FloatArray:
    """Return where the distribution function of `n` numbers is compared, inside (0, 1)."""
    count = max(min(n, _POINTS), 2)
    return np.arange(1, count) / count


def envelope_probability(n: int, level: float) -> float:
    """Return the pointwise probability of bands that hold a uniform ECDF everywhere."""
    return 1 - float(np.quantile(_null(n), 1 - level))


def _gamma(values: FloatArray) -> float:
    z = points(len(values))
    counts = np.searchsorted(np.sort(values), z, side="right")
    return float(_tails(len(values))[counts, np.arange(len(z))].min())


def _p_gamma(gamma: float, n: int) -> float:
    """Return how often uniform numbers leave the diagonal as far, by simulation.

    Beyond what was simulated, the sum of the probabilities at single points is a bound.
    """
    null = _null(n)
    simulated = (1 + np.searchsorted(null, gamma, side="right")) / (1 + len(null))
    return float(min(simulated, gamma * len(points(n)), 1.0))


@lru_cache(maxsize=64)
def _tails(n: int) -> FloatArray:
    """Return two-sided tail probabilities of each count at each point, dims (count, point)."""
    z = points(n)
    below = bdtr(np.arange(n + 1)[:, None], n, z)
    above = 1 - np.vstack([np.zeros(len(z)), below[:-1]])
    tails: FloatArray = np.minimum(2 * np.minimum(below, above), 1.0)
    return tails


@lru_cache(maxsize=64)
def _null(n: int) -> FloatArray:
    """Return sorted values of gamma of `n` uniform numbers."""
    z, tails = points(n), _tails(n)
    rng = stream(0, "uniformity", n)
    cells = rng.multinomial(n, np.full(len(z) + 1, 1 / (len(z) + 1)), size=_SIMULATED)
    counts = cells.cumsum(axis=1)[:, :-1]
    return np.sort(tails[counts, np.arange(len(z))].min(axis=1))
