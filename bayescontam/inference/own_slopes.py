"""What a pair's own responses show about its slope, whatever other pairs do."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.inference.posterior import Draws, expand_to_items, predictor, response_guess
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.likelihood import logistic
from bayescontam.model.quadrature import normal_gauss_hermite

MOST_DRAWS = 200
"""Draws from which difficulties are taken, evenly spaced."""
NODES = 31
"""Nodes over what a response's log-odds differ by; enough for a standard deviation of 6."""
_STEPS, _LARGEST, _CLOSE = 40, 2.0, 1e-7
"""Scoring steps at most, the largest change of one, and the change at which they end."""
_ABILITY_SD = 3.0
"""Standard deviation of the prior of a pair's ability around where the fit has it."""
_SMALL = 1e-12
"""Variance below which a difficulty is known."""


@dataclass(frozen=True, eq=False)
class OwnSlopes:
    """Slopes estimated from each pair's own responses, dims (model, benchmark)."""

    # slope, sd: mean and standard deviation, log-odds, under the prior of the slope alone: no other
    # pair's slope enters. NaN where nothing was answered.
    slope: FloatArray
    sd: FloatArray
    # what the responses show about the slope: their expected information on it, times the prior
    # variance. At 1 they say as much as the prior, and halve its variance; 0 where contamination
    # does not vary.
    information: FloatArray

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the equal-tailed interval of each slope."""
        reach = norm.ppf((1 + level) / 2) * self.sd
        return self.slope - reach, self.slope + reach


def own_slopes(draws: Draws, built: BuiltModel, prior_sd: FloatArray) -> OwnSlopes:
    """Estimate each slope from the pair's own responses.

    How hard items are is what the *other* models say: from the posterior of each response's
    difficulty its own contribution is taken out (the cavity distribution of expectation
    propagation; Minka 2001, arXiv:1301.2294). The pair's ability and slope are then fitted
    by quasi-likelihood to its responses, whose mean and variance are those of a logistic
    Normal: unknown difficulties and model-by-item effects are integrated out. What is
    uncertain about difficulties of all items together, such as how much easier contaminated
    items are, is added to the variance.
    """
    design = built.design
    thinned = expand_to_items(draws.thinned(MOST_DRAWS), built.lattice)
    x = _doses(thinned, design)
    rows = _PairRows.of(thinned, built, x)
    b, inverse, weight = _fit(rows, design, prior_sd)
    total = _sums(weight, design)
    mean = _sums(weight * x, design) / np.where(total > 0, total, 1.0)
    within = x - mean[design.model_benchmark]
    square = _sums(weight * within**2, design)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_row = np.where(square[design.model_benchmark] > 0, weight * within, 0.0)
        per_row = per_row / np.where(square > 0, square, 1.0)[design.model_benchmark]
    together = _variance_together(thinned, design, per_row, rows.mean)
    prior = prior_sd.ravel()
    data_share = square * prior**2 / (1 + square * prior**2)
    variance = inverse + data_share**2 * together
    shape = design.answered.shape
    unanswered = ~design.answered.ravel()
    values = [b, np.sqrt(variance), square * prior**2]
    slope, sd, information = (np.where(unanswered, np.nan, v).reshape(shape) for v in values)
    return OwnSlopes(slope, sd, information)


@dataclass(frozen=True, eq=False)
class _PairRows:
    """What is known of each response before its own slope is."""

    # posterior mean of what its log-odds are above those of its pair, without the slope
    mean: FloatArray
    # offset, spread: the same as other responses say it, and the standard deviation of what it is
    # not known
    offset: FloatArray
    spread: FloatArray
    level: FloatArray  # one for each pair: posterior mean of its log-odds without the slope
    # share, trials, guess, x: share of correct trials, number of trials, accuracy of guessing, dose
    share: FloatArray
    trials: FloatArray
    guess: FloatArray
    x: FloatArray

    @classmethod
    def of(cls, draws: Draws, built: BuiltModel, x: FloatArray) -> "_PairRows":
        design = built.design
        cell, size = design.model_benchmark, design.answered.size
        count = np.maximum(np.bincount(cell, minlength=size), 1)
        first, second = np.zeros(len(design)), np.zeros(len(design))
        level, eta = np.zeros(size), np.zeros(len(design))
        for part in draws.chunks(design):
            plain = replace(part, eta=None)
            for own, whole in zip(
                _without_slope(part, design), predictor(plain, design), strict=True
            ):
                center = np.bincount(cell, own, minlength=size) / count
                above = own - center[cell]
                first, second, level = first + above, second + above**2, level + center
                eta += whole
        mean, level, eta = first / len(draws), level / len(draws), eta / len(draws)
        variance = np.maximum(second / len(draws) - mean**2, 0.0)
        effect = _effect_variance(draws, design)
        guess = response_guess(draws, built.spec, design)
        guess = guess.mean(axis=0) if guess.ndim == 2 else guess
        offset, variance = _cavity(
            mean, variance, eta, effect, built, _prior_variance(draws, design)
        )
        trials = np.maximum(design.n_trials, 1)
        spread = np.sqrt(variance + effect)
        return cls(mean, offset, spread, level, design.n_correct / trials, trials * 1.0, guess, x)


def _doses(draws: Draws, design: Design) -> FloatArray:
    """Return what the slope is multiplied by, one for each response."""
    if draws.increments is None:
        return design.dose
    dose: FloatArray = design.reach_dose @ draws.increments.mean(axis=0)
    return dose


def _without_slope(draws: Draws, design: Design) -> FloatArray:
    """Return log-odds as if the slope were zero, without model-by-item effects."""
    assert draws.beta is not None
    return predictor(replace(draws, beta=np.zeros_like(draws.beta), eta=None), design)


def _effect_variance(draws: Draws, design: Design) -> FloatArray:
    """Return the variance of each response's model-by-item effect."""
    variance = np.zeros(len(design))
    if draws.sigma_eps is not None:
        variance[design.n_single :] = (draws.sigma_eps**2).mean(axis=0)
    return variance


def _prior_variance(draws: Draws, design: Design) -> FloatArray | None:
    """Return the variance of an item's difficulty given its benchmark; None without any."""
    if draws.delta is None:
        return None
    if draws.sigma_delta is not None:
        of_benchmark: FloatArray = (draws.sigma_delta**2).mean(axis=0)
    else:
        of_item = draws.delta.var(axis=0) + draws.delta.mean(axis=0) ** 2
        size = len(design.benchmarks)
        count = np.bincount(design.benchmark_of_item, minlength=size)
        of_benchmark = np.bincount(design.benchmark_of_item, of_item, minlength=size) / count
    return of_benchmark[design.benchmark]


def _cavity(
    mean: FloatArray,
    variance: FloatArray,
    eta: FloatArray,
    effect: FloatArray,
    built: BuiltModel,
    prior: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of difficulties as the responses of other models say them."""
    if prior is None:
        return np.zeros(len(mean)), np.zeros(len(mean))
    design = built.design
    p, n = logistic(eta), design.n_trials
    own = n * p * (1 - p)
    score, information = (v / (1 + own * effect) for v in (design.n_correct - n * p, own))
    known = variance > _SMALL
    least = 1 / np.maximum(prior, np.maximum(variance, _SMALL))
    precision = np.maximum(1 / np.where(known, variance, 1.0) - information, least)
    offset = np.where(known, mean - score / precision, mean)
    return offset, np.where(known, 1 / precision, 0.0)


def _fit(
    rows: _PairRows, design: Design, prior_sd: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the slope of each pair, its variance, and the weight of each response."""
    cell, size = design.model_benchmark, design.answered.size
    ridge = 1 / _ABILITY_SD**2, 1 / np.maximum(prior_sd.ravel(), 1e-6) ** 2
    a, b = rows.level.copy(), np.zeros(size)
    widest = float(rows.spread.max(initial=0.0))
    nodes, weights = normal_gauss_hermite(1 if widest == 0 else NODES if widest > 1.5 else 9)
    for _ in range(_STEPS):
        score, weight = _scores(rows, a[cell] + b[cell] * rows.x, nodes, weights)
        first, crossed, second = (_sums(weight * rows.x**power, design) for power in range(3))
        first, second = first + ridge[0], second + ridge[1]
        up = _sums(score, design) - ridge[0] * (a - rows.level)
        along = _sums(score * rows.x, design) - ridge[1] * b
        determinant = first * second - crossed**2
        step_a = (second * up - crossed * along) / determinant
        step_b = (first * along - crossed * up) / determinant
        largest = np.maximum(np.abs(step_a), np.abs(step_b))
        shorter = np.minimum(1.0, _LARGEST / np.maximum(largest, _SMALL))
        a, b = a + shorter * step_a, b + shorter * step_b
        if largest.max() < _CLOSE:
            break
    return b, first / determinant, weight


def _scores(
    rows: _PairRows, center: FloatArray, nodes: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the quasi-score of each response's log-odds, and its expected information."""
    p, square, slope = (np.zeros(len(center)) for _ in range(3))
    for z, weight in zip(nodes, weights, strict=True):
        at = logistic(center + rows.offset + z * rows.spread)
        p, square, slope = p + weight * at, square + weight * at**2, slope + weight * at * (1 - at)
    g = rows.guess
    square = g**2 + 2 * g * (1 - g) * p + (1 - g) ** 2 * square
    p, slope = g + (1 - g) * p, (1 - g) * slope
    between = np.maximum(square - p**2, 0.0)
    variance = p * (1 - p) / rows.trials + (1 - 1 / rows.trials) * between
    variance = np.maximum(variance, 1e-300)
    return slope * (rows.share - p) / variance, slope**2 / variance


def _variance_together(
    draws: Draws, design: Design, per_row: FloatArray, mean: FloatArray
) -> FloatArray:
    """Return the variance over draws of the slope that difficulties have along doses."""
    cell, size = design.model_benchmark, design.answered.size
    slopes = [
        np.bincount(cell, per_row * (own - mean), minlength=size)
        for part in draws.chunks(design)
        for own in _without_slope(part, design)
    ]
    variance: FloatArray = np.var(slopes, axis=0)
    return variance


def _sums(values: FloatArray, design: Design) -> Any:
    return np.bincount(design.model_benchmark, values, minlength=design.answered.size)
