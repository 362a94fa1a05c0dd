"""Responses with several trials, their model-by-item effect integrated out."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import shared
from scipy.ndimage import spline_filter1d

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.likelihood import log_choose, log_kernel, log_likelihood
from bayescontam.model.priors import Tensor
from bayescontam.model.terms import Terms

STEP, REACH = 0.25, 24.0
"""Step of the table along centres, in units of sqrt(1 + spread²), and its half-width."""
SPREAD_STEP, WIDEST = 0.125, 400.0
"""Step along asinh(spread × `Repeats.finer`), and the largest spread; of larger ones the
density as a function of centre / spread has stopped changing."""
GHOSTS = 8
"""Points on either side from which splines start, so that how they start does not matter."""
MOST_NUMBERS = 4_000_000
"""Largest table: up to 300 pairs of counts; with more, effects are sampled."""
_FINE = 10
"""Trials up to which the density changes with the spread no faster than the table is made for."""
_UNDERFLOW = 1e-250


@dataclass(frozen=True, eq=False)
class Repeats:
    """The log density of counts as a table over the centre and the spread of their log-odds."""

    # For k of n correct, log-odds Normal(centre, spread) and blind guessing g, the density
    # integrated over log-odds depends on centre and spread alone, and a table of responses has
    # few pairs (n, g). It is computed once on a grid, and interpolated by cubic splines, at about
    # the cost of a likelihood whose log-odds are known: the sampler moves through thousands of
    # dimensions fewer, without the funnel between the spread and effects of extreme responses.

    coefficients: FloatArray  # of the splines, dims (spread, pair, centre)
    first: IntArray  # dims (response,): position of 0 correct among the pairs (k, n, g)
    finer: float  # factor of spreads, for many trials

    @cached_property
    def _shared(self) -> Tensor:
        """The coefficients as data of a model: compilers take no constants of megabytes."""
        return shared(self.coefficients, name="repeats", borrow=True)

    @classmethod
    def of(cls, n_trials: IntArray, guess: FloatArray) -> "Repeats | None":
        """Compute the table for some responses; None if it would be too large."""
        known, which = np.unique(np.stack([n_trials, guess]), axis=1, return_inverse=True)
        kinds = [(int(n), float(g)) for n, g in known.T]
        finer = float(np.sqrt(max(max(n for n, _ in kinds) / _FINE, 1.0)))
        sizes = np.array([n + 1 for n, _ in kinds])
        spreads, centers = _spreads(finer), _centers()
        if sizes.sum() * len(spreads) * len(centers) > MOST_NUMBERS:
            return None
        slices = {
            size: np.concatenate([log_densities(n, g, size, centers) for n, g in kinds])
            for size in np.unique(np.abs(spreads))  # an even function of the spread
        }
        values = np.stack([slices[size] for size in np.abs(spreads)])
        for axis in (0, 2):
            values = spline_filter1d(values, axis=axis, mode="mirror")
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return cls(values, first[which.ravel()], finer)

    def log_density(self, k: Tensor, center: Tensor, spread: Tensor, slot: IntArray) -> Tensor:
        """Return the log density of each response without its binomial coefficient."""
        table = self._shared
        spreads, pairs, size = self.coefficients.shape
        at, weights = _places(pt.arcsinh(spread * self.finer) / SPREAD_STEP, spreads)
        columns = (weight[:, None, None] * table[at + q] for q, weight in enumerate(weights))
        flat = sum(columns, start=pt.zeros(())).ravel()
        scaled = center / pt.sqrt(1 + spread**2)[slot]
        at, weights = _places((scaled + REACH) / STEP, size)
        at = at + ((slot * pairs + self.first) + pt.cast(k, "int64")) * size
        parts = (weight * flat[at + q] for q, weight in enumerate(weights))
        return sum(parts, start=pt.zeros(()))


def _places(place: Tensor, size: int) -> tuple[Tensor, list[Tensor]]:
    """Return the first of the four coefficients around places of a spline, and their weights."""
    place = pt.clip(place + GHOSTS, 1.0, size - 2.001)
    cell = pt.floor(place)
    x = place - cell
    y = 1 - x
    xx, yy = x * x, y * y
    weights = [yy * y, 4 - 3 * xx * (2 - x), 4 - 3 * yy * (2 - y), xx * x]
    return pt.cast(cell, "int64") - 1, [weight / 6 for weight in weights]


def _centers() -> FloatArray:
    """Return centres of the table, in units of sqrt(1 + spread²)."""
    count = int(REACH / STEP) + GHOSTS
    return np.arange(-count, count + 1) * STEP


def _spreads(finer: float) -> FloatArray:
    """Return spreads of the table; those below zero are there for the splines alone."""
    return np.sinh(np.arange(-GHOSTS, _count(finer)) * SPREAD_STEP) / finer


def _count(finer: float) -> int:
    return int(np.ceil(np.arcsinh(WIDEST * finer) / SPREAD_STEP)) + GHOSTS


def log_densities(n: int, guess: float, spread: float, centers: FloatArray) -> FloatArray:
    """Return log densities of counts of n trials over their log-odds, dims (count, centre)."""
    # By the trapezoid rule, whose error falls exponentially with the step where the integrand
    # is smooth. Small spreads: evenly spaced in the effect. Others: nodes that all centres
    # share, dense where the likelihood bends, and elsewhere as wide as the spreads allow.
    counts = np.arange(n + 1.0)[:, None]
    trials, floor = np.array(float(n)), np.array(guess)
    center = centers * np.sqrt(1 + spread**2)
    if spread < 0.5:
        z = np.linspace(-8.5, 8.5, 33 + int(9 * spread * np.sqrt(n)))
        weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
        effects = center[:, None] + spread * z
        log_density = log_likelihood(effects, counts[:, :, None], trials, floor)
        top = log_density.max(axis=-1, keepdims=True)
        result: FloatArray = np.log(np.exp(log_density - top) @ weights) + top[..., 0]
        return result
    step, near = 0.015, min(0.45, 1.2 / np.sqrt(max(n, 1)))
    reach = abs(center).max() + 9 * spread
    t = np.arange(0.0, np.arcsinh(reach * step / near) + step, step)
    t = np.concatenate([-t[:0:-1], t])
    eta = near / step * np.sinh(t)
    log_density = log_likelihood(eta, counts, trials, floor)
    top = log_density.max(axis=-1, keepdims=True)
    z = (eta[:, None] - center) / spread
    log_weights = np.log(near * np.cosh(t) / (spread * np.sqrt(2 * np.pi)))[:, None] - z**2 / 2
    density = np.exp(log_density - top) @ np.exp(log_weights)
    with np.errstate(divide="ignore"):
        result = np.log(density) + top
    for k, at in zip(*np.nonzero(density < _UNDERFLOW), strict=True):
        each = log_density[k] + log_weights[:, at]
        result[k, at] = np.log(np.exp(each - each.max()).sum()) + each.max()
    return result


def plan_repeats(design: Design, terms: Terms, guess: FloatArray | Tensor) -> Repeats | None:
    """Return what integrates effects of repeated trials out; None where they are sampled."""
    # They are where contamination is not known exactly, where the accuracy of blind guessing is
    # estimated, and where the table would be too large, with hundreds of different counts.
    if "eps" not in terms or design.exposure is not None or not isinstance(guess, np.ndarray):
        return None
    repeated = slice(design.n_single, None)
    return Repeats.of(design.n_trials[repeated], guess[repeated])


def add_repeats(
    design: Design,
    counts: Tensor,
    center: Tensor,
    spreads: tuple[Tensor, IntArray],
    guess: FloatArray | Tensor,
    table: Repeats,
) -> None:
    """Add ``n_correct``, dims (response,), observed, effects of repeated trials integrated out."""
    spread, slot = spreads
    single = design.n_single
    kernel = log_kernel(design, guess)
    constant = log_choose(design.n_trials, design.n_correct)

    def logp(value: Any, center: Any, spread: Any) -> Any:
        density = table.log_density(value[single:], center[single:], spread, slot)
        if single:
            known = kernel(value[:single], center[:single], 1, guess[:single])
            density = pt.concatenate([known, density])
        return (density + constant).sum()

    def draw(center: Any, spread: Any, size: Any) -> Any:
        effect = spread[slot] * pm.Normal.dist(shape=len(slot))
        eta = center + pt.concatenate([pt.zeros(single), effect]) if single else center + effect
        return pm.Binomial.dist(n=design.n_trials, p=guess + (1 - guess) * pt.sigmoid(eta))

    pm.CustomDist(
        "n_correct", center, spread, logp=logp, dist=draw, signature="(r),(s)->(r)",
        observed=counts, dims="response",
    )  # fmt: skip
