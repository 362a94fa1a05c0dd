"""Slopes by the responses of each pair of model and benchmark alone."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.blocks import BLOCK, blocks_of_benchmarks, responses_of
from bayescontam.inference.posterior import CACHED, Draws, predictor, response_guess
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.likelihood import logistic
from bayescontam.model.quadrature import normal_gauss_hermite

MOST_DRAWS = 200
"""Draws from which difficulties are taken, evenly spaced."""
_MOST_NUMBERS, _FEWEST_DRAWS = 40_000_000, 40
"""Difficulties that are held at once, 320 MB, and the fewest draws of them."""
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
    # expected information of the responses on the slope, times the prior variance: at 1 they halve
    # that variance; 0 where contamination does not vary
    information: FloatArray
    # the responses' likelihood of log-odds without contamination and slope, as a Normal: its
    # precision, and the precision times its mean, dims (model, benchmark, 2, 2) and
    # (model, benchmark, 2)
    precision: FloatArray
    pull: FloatArray
    prior_sd: FloatArray  # of each slope
    spread: float  # standard deviation of slopes among the fit's pairs


def normal_interval(
    mean: FloatArray, sd: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the equal-tailed interval of each of some Normals."""
    reach = norm.ppf((1 + level) / 2) * sd
    return mean - reach, mean + reach


def own_slopes(draws: Draws, built: BuiltModel, prior_sd: FloatArray) -> OwnSlopes:
    """Estimate each slope from the pair's own responses, whatever other pairs' slopes are."""
    # How hard items are is what the *other* models say: from the posterior of each response's
    # difficulty its own contribution is taken out (the cavity distribution of expectation
    # propagation; Minka 2001, arXiv:1301.2294). The pair's ability and slope are then fitted by
    # quasi-likelihood to its responses, whose mean and variance are those of a logistic Normal:
    # unknown difficulties and model-by-item effects are integrated out. What is uncertain about
    # difficulties of all items together, such as how much easier contaminated items are, is added
    # to the variance.
    design = built.design
    most = min(MOST_DRAWS, max(_FEWEST_DRAWS, _MOST_NUMBERS // len(design.items)))
    thinned = draws.thinned(most)
    effect = np.zeros(len(design))  # variance of each response's model-by-item effect
    if thinned.sigma_eps is not None:
        effect[design.n_single :] = (thinned.sigma_eps**2).mean(axis=0)
    pairs = design.answered.size
    found = [np.full((pairs, *shape), np.nan) for shape in ((), (), (), (2, 2), (2,))]
    for rows in blocks_of_benchmarks(design):
        own = _slopes_of(thinned, built, rows, effect[rows], prior_sd.ravel())
        answered = np.bincount(design.model_benchmark[rows], minlength=pairs) > 0
        for values, part in zip(found, own, strict=True):
            values[answered] = part[answered]
    slope, sd, information, precision, pull = (
        values.reshape(*design.answered.shape, *values.shape[1:]) for values in found
    )
    assert thinned.beta is not None
    differ = design.varies.ravel()
    spread = np.sqrt(thinned.beta[:, differ].var(axis=1).mean()) if differ.any() else 0.0
    return OwnSlopes(slope, sd, information, precision, pull, prior_sd, float(spread))


def _slopes_of(
    draws: Draws, built: BuiltModel, at: IntArray, effect: FloatArray, prior_sd: FloatArray
) -> tuple[FloatArray, ...]:
    """Return slope, sd, information, precision and pull of pairs, all of whose responses these are.

    Dims (model × benchmark, …); of no use for pairs without a response.
    """
    draws, design = responses_of(draws, built, at)
    x = design.dose
    if draws.increments is not None:
        x = design.reach_dose @ draws.increments.mean(axis=0)
    guess = response_guess(draws, built.spec, design)
    rows = _PairRows.of(draws, design, x, effect, guess.mean(axis=0) if guess.ndim == 2 else guess)
    a, b, inverse, weight = _fit(rows, design, prior_sd)
    total = _sums(weight, design)
    mean = _sums(weight * x, design) / np.where(total > 0, total, 1.0)
    within = x - mean[design.model_benchmark]
    square = _sums(weight * within**2, design)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_row = np.where(square[design.model_benchmark] > 0, weight * within, 0.0)
        per_row = per_row / np.where(square > 0, square, 1.0)[design.model_benchmark]
    together = np.var(  # over draws, of the slope that difficulties have along doses
        [
            _sums(per_row * (own - rows.mean), design)
            for part in draws.chunks(design, CACHED)
            for own in _without_slope(part, design)
        ],
        axis=0,
    )
    data_share = square * prior_sd**2 / (1 + square * prior_sd**2)
    variance = inverse + data_share**2 * together
    normal = _without_priors(rows, design, _dose_from_zero(draws, design), (a, b), weight, prior_sd)
    return b, np.sqrt(variance), square * prior_sd**2, *normal


def _dose_from_zero(draws: Draws, design: Design) -> FloatArray:
    """Return what slopes multiply, counted from no contamination."""
    assert design.contamination is not None
    if draws.increments is None:
        return design.contamination
    return design.reach(design.contamination) @ draws.increments.mean(axis=0)


def _without_priors(
    rows: "_PairRows",
    design: Design,
    dose: FloatArray,
    mode: tuple[FloatArray, FloatArray],
    weight: FloatArray,
    prior_sd: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return precision, and precision times mean, of each pair's log-odds and slope."""
    (a, b), cell = mode, design.model_benchmark
    first, crossed, second = (_sums(weight * dose**power, design) for power in range(3))
    precision = np.stack([first, crossed, crossed, second], axis=-1).reshape(-1, 2, 2)
    # The mode is where the priors of the fit pull as hard as the responses do.
    shift = np.zeros(len(a))  # one for each pair: how far its doses are from those from zero
    shift[cell] = dose - rows.x
    up = (a - rows.level) / _ABILITY_SD**2
    along = b / np.maximum(prior_sd, 1e-6) ** 2 + shift * up
    center = np.stack([a - b * shift, b], axis=-1)
    return precision, np.einsum("pij,pj->pi", precision, center) + np.stack([up, along], axis=-1)


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
    share: FloatArray  # of correct trials
    trials: FloatArray
    guess: FloatArray
    x: FloatArray  # dose

    @classmethod
    def of(
        cls, draws: Draws, design: Design, x: FloatArray, effect: FloatArray, guess: FloatArray
    ) -> "_PairRows":
        """Summarise draws; `effect` is the variance of each response's model-by-item effect."""
        cell, size = design.model_benchmark, design.answered.size
        count = np.maximum(np.bincount(cell, minlength=size), 1)
        first, second, level, eta = (
            np.zeros(len(x)),
            np.zeros(len(x)),
            np.zeros(size),
            np.zeros(len(x)),
        )
        for part in draws.chunks(design, CACHED):
            for own in _without_slope(part, design):
                center = _sums(own, design) / count
                above = own - center[cell]
                first, second, level = first + above, second + above**2, level + center
            eta += predictor(part, design).sum(axis=0)
        mean, level = first / len(draws), level / len(draws)
        variance = np.maximum(second / len(draws) - mean**2, 0.0)
        offset, known = _cavity(mean, variance, eta / len(draws), effect, guess, draws, design)
        trials = np.maximum(design.n_trials, 1)
        share = design.n_correct / trials
        return cls(mean, offset, np.sqrt(known + effect), level, share, trials * 1.0, guess, x)


def _without_slope(draws: Draws, design: Design) -> FloatArray:
    """Return log-odds as if the slope were zero, without model-by-item effects."""
    assert draws.beta is not None
    return predictor(replace(draws, beta=np.zeros_like(draws.beta)), design)


def _cavity(
    mean: FloatArray,
    variance: FloatArray,
    eta: FloatArray,
    effect: FloatArray,
    guess: FloatArray,
    draws: Draws,
    design: Design,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of difficulties as the responses of other models say them."""
    if draws.delta is None:
        return np.zeros(len(mean)), np.zeros(len(mean))
    if draws.sigma_delta is not None:
        prior: FloatArray = (draws.sigma_delta**2).mean(axis=0)
    else:
        of_item = draws.delta.var(axis=0) + draws.delta.mean(axis=0) ** 2
        size = len(design.benchmarks)
        count = np.bincount(design.benchmark_of_item, minlength=size)
        prior = np.bincount(design.benchmark_of_item, of_item, minlength=size) / count
    solved, n = logistic(eta), design.n_trials
    p = guess + (1 - guess) * solved
    # The share of right answers that were no guesses: others say nothing of the difficulty.
    share = np.divide(solved, p, out=np.ones_like(p), where=p > 0)
    score = (design.n_correct - n * p) * share
    own = n * solved * (1 - solved) * (1 - guess) * share
    score, information = (value / (1 + own * effect) for value in (score, own))
    known = variance > _SMALL
    least = 1 / np.maximum(prior[design.benchmark], np.maximum(variance, _SMALL))
    precision = np.maximum(1 / np.where(known, variance, 1.0) - information, least)
    offset = np.where(known, mean - score / precision, mean)
    return offset, np.where(known, 1 / precision, 0.0)


def _fit(
    rows: _PairRows, design: Design, prior_sd: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return log-odds and slope of each pair, the slope's variance, and responses' weights."""
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
    return a, b, first / determinant, weight


def _scores(
    rows: _PairRows, center: FloatArray, nodes: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the quasi-score of each response's log-odds, and its expected information."""
    # Where nearly all are right, what is wrong is no difference from 1: that would be rounding.
    p, q, both, right, wrong = means = np.zeros((5, len(center)))
    for start in range(0, len(center), BLOCK):
        some = slice(start, start + BLOCK)
        middle, spread = center[some] + rows.offset[some], rows.spread[some]
        for z, weight in zip(nodes, weights, strict=True):
            eta = middle + z * spread
            at, off = logistic(eta), logistic(-eta)
            for mean, values in zip(means, (at, off, at * off, at**2, off**2), strict=True):
                mean[some] += weight * values
    g = rows.guess
    between = (1 - g) ** 2 * np.maximum(np.where(p < q, right - p**2, wrong - q**2), 0.0)
    p, q, slope = g + (1 - g) * p, (1 - g) * q, (1 - g) * both
    variance = p * q / rows.trials + (1 - 1 / rows.trials) * between
    variance = np.maximum(variance, 1e-300)
    return slope * (rows.share - p) / variance, slope**2 / variance


def _sums(values: FloatArray, design: Design) -> Any:
    return np.bincount(design.model_benchmark, values, minlength=design.answered.size)
