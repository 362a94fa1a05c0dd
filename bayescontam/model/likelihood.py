"""From log-odds to responses, for PyMC and for NumPy alike; effects of repeated trials."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import shared
from pytensor.gradient import disconnected_grad
from scipy.ndimage import spline_filter1d
from scipy.special import gammaln

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.priors import Tensor, spread
from bayescontam.model.quadrature import normal_weights
from bayescontam.model.terms import Terms
from bayescontam.model.transforms import rough_logits
from bayescontam.specs.model import ModelSpec

Kernel = Callable[[Any, Any, Any, Any], Any]  # log density of (counts, log-odds, trials, guessing)
STEP, REACH = 0.25, 24.0
"""Step of the table along centres, in units of sqrt(1 + spread²), and its half-width."""
SPREAD_STEP, WIDEST = 0.125, 400.0
"""Step along asinh(spread × `Repeats.finer`), and the largest spread; of larger ones the
density as a function of centre / spread has stopped changing."""
GHOSTS = 8  # points on either side from which splines start, so that how they start does not matter
MOST_NUMBERS = 4_000_000  # largest table: up to 300 pairs of counts; with more, effects are sampled
_FINE = 10
"""Trials up to which the density changes with the spread no faster than the table is made for."""
_UNDERFLOW = 1e-250


def add_model_by_item(
    design: Design, predictor: Tensor, spreads: tuple[Tensor, IntArray] | None
) -> Tensor:
    """Add ``eta``, dims (repeated,), log-odds around the predictor, and return those of all."""
    if spreads is None:
        return predictor
    transform, mean = rough_logits(design).transform(), predictor[design.n_single :]
    scale = spreads[0][spreads[1]]
    eta = pm.Normal("eta", mean, scale, dims="repeated", default_transform=transform)
    return pt.concatenate([predictor[: design.n_single], eta]) if design.n_single else eta


def has_own_spreads(spec: ModelSpec) -> bool:
    """Return whether each pair of model and benchmark has a spread of model-by-item effects."""
    return spec.ability.pooling == "none" and spec.likelihood.model_by_item != "shared"


def spreads_of_repeats(spec: ModelSpec, design: Design) -> tuple[Tensor, IntArray]:
    """Add ``sigma_eps``; return its values, and which is that of each repeated response."""
    repeated = design.model_benchmark[design.n_single :]
    if not has_own_spreads(spec):
        return spread("sigma_eps", spec.priors.sigma_eps)[None], np.zeros_like(repeated)
    scale = spread("sigma_eps", spec.priors.sigma_eps, dims=("model", "benchmark"))
    return scale.ravel(), repeated


def add_responses(
    design: Design, counts: Tensor, eta: Tensor, guess: FloatArray | Tensor
) -> Tensor:
    """Add ``n_correct``, dims (response,), observed."""
    # On the logit scale, which is several times faster than a Binomial of a probability,
    # and as a distribution with a random method, so that predictive draws work.
    options: dict[str, Any] = {
        "observed": counts, "dims": "response", "dist": _binomial,
    }  # fmt: skip
    kernel = log_kernel(design, guess)
    if (design.n_trials == 1).all():
        return pm.CustomDist("n_correct", eta, 1, guess, logp=kernel, **options)
    constant = log_choose(design.n_trials, design.n_correct)

    def logp(value: Any, eta: Any, n: Any, guess: Any) -> Any:
        return kernel(value, eta, n, guess) + constant

    return pm.CustomDist("n_correct", eta, design.n_trials, guess, logp=logp, **options)


def log_kernel(design: Design, guess: FloatArray | Tensor) -> Kernel:
    """Return the log density of counts without the binomial coefficient, at its cheapest."""
    if not isinstance(guess, np.ndarray) or guess.any():
        return _guessed
    return _bernoulli if (design.n_trials == 1).all() else _logit


def _bernoulli(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    return value * eta - pt.softplus(eta)


def _logit(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    return value * eta - n * pt.softplus(eta)


def _guessed(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    right = pt.log(guess + (1 - guess) * pt.sigmoid(eta))
    wrong = pt.log1p(-guess) - pt.softplus(eta)
    return value * right + (n - value) * wrong


def _binomial(eta: Any, n: Any, guess: Any, size: Any) -> Any:
    return pm.Binomial.dist(n=n, p=guess + (1 - guess) * pt.sigmoid(eta), size=size)


def log_sum(values: Tensor) -> Tensor:
    """Return log(sum(exp)) over the last axis, with a gradient that cannot overflow."""
    top = disconnected_grad(values.max(axis=-1, keepdims=True))
    return pt.log(pt.exp(values - top).sum(axis=-1)) + top[..., 0]


def accuracy(eta: FloatArray, guess: FloatArray | float) -> FloatArray:
    """Return the probability of a correct answer, of the shape of `eta`."""
    p = logistic(eta)
    return guess + (1 - guess) * p if np.any(guess) else p


def log_likelihood(eta: FloatArray, k: FloatArray, n: FloatArray, guess: FloatArray) -> FloatArray:
    """Return log P(k of n correct | eta) without the binomial coefficient."""
    if not np.any(guess):
        # Single trials are many, and their product with 1 need not be made.
        shared = softplus(eta) if np.all(n == 1) else n * softplus(eta)
        return k * eta - shared
    right = np.log(guess + (1 - guess) * logistic(eta))
    return k * right + (n - k) * (np.log1p(-guess) - softplus(eta))


def logistic(eta: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(−eta)), of the shape of `eta`."""
    # As exact as `scipy.special.expit`, which takes three times as long; in place, since arrays of
    # a million numbers are slow to make.
    result = np.empty(np.shape(eta))
    np.negative(eta, out=result)
    with np.errstate(over="ignore"):  # where the result is 0
        np.exp(result, out=result)
    result += 1
    return np.reciprocal(result, out=result)


def softplus(eta: FloatArray) -> FloatArray:
    """Return log(1 + exp(eta)), of the shape of `eta`."""
    # As exact as `numpy.logaddexp(0, eta)`, which takes three times as long.
    result: FloatArray = np.log1p(np.exp(-np.abs(eta)))
    return result + np.maximum(eta, 0.0)


def log_sum_exp(values: FloatArray, axis: int) -> FloatArray:
    """Return log(sum(exp)) over an axis; -inf where all values are."""
    # As exact as `scipy.special.logsumexp`, which takes twice as long
    # (``benchmarks/test_psis.py``).
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        sums: FloatArray = np.log(np.exp(values - top).sum(axis=axis))
    return sums + np.squeeze(top, axis)


def log_choose(n: Any, k: Any) -> FloatArray:
    """Return the log of the binomial coefficient."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


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
        # Spreads below zero are there for the splines alone; centres are in units of sqrt(1 + s²).
        largest = int(np.ceil(np.arcsinh(WIDEST * finer) / SPREAD_STEP)) + GHOSTS
        spreads = np.sinh(np.arange(-GHOSTS, largest) * SPREAD_STEP) / finer
        most = int(REACH / STEP) + GHOSTS
        centers = np.arange(-most, most + 1) * STEP
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
        at, weights = _places(pt.arcsinh(spread * self.finer) / SPREAD_STEP, spreads, pt)
        columns = (weight[:, None, None] * table[at + q] for q, weight in enumerate(weights))
        flat = sum(columns, start=pt.zeros(())).ravel()
        scaled = center / pt.sqrt(1 + spread**2)[slot]
        at, weights = _places((scaled + REACH) / STEP, size, pt)
        at = at + ((slot * pairs + self.first) + pt.cast(k, "int64")) * size
        parts = (weight * flat[at + q] for q, weight in enumerate(weights))
        return sum(parts, start=pt.zeros(()))

    def log_densities(
        self, rows: IntArray, k: IntArray, center: FloatArray, spread: FloatArray
    ) -> FloatArray:
        """Return `log_density` of rows in NumPy, dims (draw, row); `spread` is (draw, row or 1)."""
        spreads, _, size = self.coefficients.shape
        row, result = self.first[rows] + k, np.zeros(center.shape)
        for d, (middle, own) in enumerate(zip(center, spread, strict=True)):
            layers = _places(np.arcsinh(own * self.finer) / SPREAD_STEP, spreads, np)
            at, weights = _places((middle / np.sqrt(1 + own**2) + REACH) / STEP, size, np)
            if len(own) == 1:  # of which the table is interpolated once
                near = self.coefficients[int(layers[0][0]) : int(layers[0][0]) + 4]
                table, at = np.tensordot(np.ravel(layers[1]), near, 1).ravel(), at + row * size
                for q, weight in enumerate(weights):
                    result[d] += weight * table[at + q]
                continue
            for p, layer in enumerate(layers[1]):
                for q, weight in enumerate(weights):
                    result[d] += layer * weight * self.coefficients[layers[0] + p, row, at + q]
        return result


def _places(place: Any, size: int, xp: Any) -> tuple[Any, list[Any]]:
    """Return the first of the four coefficients around places of a spline, and their weights."""
    # `xp` is PyTensor's module of tensors, or NumPy.
    place = xp.clip(place + GHOSTS, 1.0, size - 2.001)
    cell = xp.floor(place)
    x = place - cell
    y = 1 - x
    xx, yy = x * x, y * y
    weights = [yy * y, 4 - 3 * xx * (2 - x), 4 - 3 * yy * (2 - y), xx * x]
    return cell.astype("int64") - 1, [weight / 6 for weight in weights]


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
        effects = center[:, None] + spread * z
        log_density = log_likelihood(effects, counts[:, :, None], trials, floor)
        top = log_density.max(axis=-1, keepdims=True)
        result: FloatArray = np.log(np.exp(log_density - top) @ normal_weights(z)) + top[..., 0]
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
            # Trials of responses that are held out are 0.
            known = kernel(
                value[:single], center[:single], design.n_trials[:single], guess[:single]
            )
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
