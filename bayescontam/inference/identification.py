"""What the data show about slopes, and about overfitting against a smallest effect."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Reference, reference_levels
from bayescontam.inference.posterior import Draws, expand_to_items, predictor, response_guess
from bayescontam.inference.sensitivity import THRESHOLD
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.likelihood import logistic
from bayescontam.model.quadrature import normal_gauss_hermite

SMALLEST_EFFECT = 0.02
"""Overfitting of this size is the smallest that matters, unless users say otherwise."""
INFORMED = 1.0
"""Own information from which a verdict may rest on it: the responses say as much as the prior."""
POWER = 0.8
"""Probability with which a detectable slope is shown."""
ROUNDING = 1e-12
"""Distance between contaminations that are called equal."""
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


class Identification(StrEnum):
    """What the data show about a slope."""

    SHOWN = "shown"
    INCONCLUSIVE = "inconclusive"
    BORROWED = "borrowed"
    NO_VARIATION = "no variation"
    NO_CONTAMINATION = "no contamination"
    SIGN_ASSUMED = "sign assumed"
    CLEAN = "assumed clean"


class Overfitting(StrEnum):
    """What the data show about the overfitting of a model on a benchmark."""

    SHOWN = "shown"
    AT_MOST_SMALL = "at most small"
    INCONCLUSIVE = "inconclusive"
    BORROWED = "borrowed"
    OPPOSITE = "opposite sign"
    LOWERED = "lowered"
    BY_REFERENCE = "depends on reference"
    SIGN_ASSUMED = "sign assumed"
    NO_VARIATION = "no variation"
    CLEAN = "assumed clean"
    NONE = "no contamination"


EXPLAINED = {
    Overfitting.SHOWN: (
        "Scores rise with contamination: the interval of the effect excludes zero, and so does"
        " that of the slope that this model's own responses give (with spillover: or that of its"
        " coefficient)."
    ),
    Overfitting.AT_MOST_SMALL: (
        "The whole interval of the effect lies within ± the smallest effect of interest, and this"
        " model's own responses inform the slope at least as much as its prior does (with"
        " spillover: its coefficient is shown)."
    ),
    Overfitting.INCONCLUSIVE: (
        "Neither shown nor ruled out: the interval of the effect holds zero and effects that"
        " matter, or this model's own responses (with spillover: its coefficient) do not confirm"
        " what it excludes. This is no evidence of a clean score."
    ),
    Overfitting.BORROWED: (
        "This model's own responses neither show nor rule out an effect, since they hold too little"
        " information, or their own interval holds zero or lies on its other side: the interval"
        " rests on other models and benchmarks, or on priors."
    ),
    Overfitting.OPPOSITE: (
        "Scores fall with contamination, which memory does not explain: contaminated items may be"
        " harder or have wrong keys, and this model spec takes that for an effect of contamination."
    ),
    Overfitting.LOWERED: (
        "The score is lower than it would be without contamination: the intervals of the total"
        " effect and of what the model's own relatives show lie below zero. Training on these"
        " duplicates did harm."
    ),
    Overfitting.BY_REFERENCE: (
        "The reference lies above the contamination of most items and turns the sign of the"
        " effect: choose a lower one."
    ),
    Overfitting.SIGN_ASSUMED: (
        "The model spec assumes that contamination does not lower scores: that the effect is"
        " positive is no finding, its size is."
    ),
    Overfitting.NO_VARIATION: (
        "All items of this model have the same contamination, which is not zero: nothing in the"
        " data distinguishes an effect. This is no evidence of a clean score."
    ),
    Overfitting.CLEAN: (
        "The model is declared clean: its slope is zero by assumption, not a finding."
    ),
    Overfitting.NONE: (
        "Every item is surely clean (contamination 0) for this model, so that no part of the"
        " score is due to contamination."
    ),
}
"""A sentence for each verdict on an effect of items' own contamination."""
EXPLAINED_TOTAL = EXPLAINED | {
    Overfitting.SHOWN: (
        "The score is higher than it would be without contamination: the interval of the total"
        " effect excludes zero, so does that of what models of the same base show by themselves,"
        " and controls set it apart from what training changes anyway."
    ),
    Overfitting.AT_MOST_SMALL: (
        "The whole interval of the total effect lies within ± the smallest effect of interest, and"
        " models of the same base by themselves inform it at least as much as its prior does."
    ),
    Overfitting.INCONCLUSIVE: (
        "Neither shown nor ruled out: the interval of the total effect holds zero and effects that"
        " matter. This is no evidence of a clean score."
    ),
    Overfitting.BORROWED: (
        "Models of the same base by themselves neither show nor rule out an effect, since they do"
        " not differ in exposure, or too little, or their own interval holds zero or lies on its"
        " other side, or no control sets it apart from what training changes anyway: the interval"
        " rests on other bases and benchmarks, or on priors."
    ),
}
"""The same for total effects of models with a lineage."""

_EXPECTED_EQUAL = (
    "Expected contamination does not vary among these items: which of them are contaminated, and"
    " so the slope, is little more than the prior's guess."
)
_UNINFORMED = (
    "The data hold no information on this slope: its posterior is the prior (sd {prior_sd:.2f})."
    " More items, or items that differ more in contamination, would help."
)
_OWN_HOLDS_ZERO = (
    "The {level:g} % interval excludes zero only with the help of other models and benchmarks:"
    " this model's own responses give [{own_low:.2f}, {own_high:.2f}]."
)
_OWN_AT_THE_BORDER = (
    "The {level:g} % interval excludes zero, but that of this model's own responses does not"
    " ([{own_low:.2f}, {own_high:.2f}]): the slope is at the border of what they show. More items"
    " would decide."
)
_OWN_ON_THE_OTHER_SIDE = (
    "The {level:g} % interval excludes zero, and so does that of this model's own responses, but on"
    " the other side ([{own_low:.2f}, {own_high:.2f}]): the sign of the slope is open. More items"
    " would decide."
)
_TEXT = {
    Identification.SHOWN: (
        "The {level:g} % interval excludes zero, also from this model's own responses alone"
        " ([{own_low:.2f}, {own_high:.2f}])."
    ),
    Identification.INCONCLUSIVE: (
        "The {level:g} % interval holds zero. Slopes from {detectable_slope:.2f} on would be shown"
        " with probability 0.8; the prior expects slopes of size {prior_sd:.2f}. More items, or"
        " items that differ more in contamination, would help."
    ),
    Identification.BORROWED: (
        "This model's own responses hold little information on the slope ({own_information:.2g} of"
        " what the prior holds): the estimate rests on the other models and benchmarks."
    ),
    Identification.NO_VARIATION: (
        "All items of this model have the same contamination: its responses hold no information"
        " on the slope."
    ),
    Identification.NO_CONTAMINATION: (
        "No item that this model answered is contaminated: its responses hold no information on the"
        " slope, and no part of its score is overfitting."
    ),
    Identification.CLEAN: "The model is declared clean: its slope is zero by assumption.",
    Identification.SIGN_ASSUMED: (
        "The model spec assumes a slope of at least 0: its size is estimated, its sign is no"
        " finding. This model's own responses give [{own_low:.2f}, {own_high:.2f}]."
    ),
}


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
    thinned = expand_to_items(draws.thinned(most), built.lattice)
    x = design.dose
    if thinned.increments is not None:
        x = design.reach_dose @ thinned.increments.mean(axis=0)
    rows = _PairRows.of(thinned, built, x)
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
            for part in thinned.chunks(design)
            for own in _without_slope(part, design)
        ],
        axis=0,
    )
    prior = prior_sd.ravel()
    data_share = square * prior**2 / (1 + square * prior**2)
    variance = inverse + data_share**2 * together
    values = b, np.sqrt(variance), square * prior**2
    shape, answered = design.answered.shape, design.answered.ravel()
    slope, sd, information = (np.where(answered, v, np.nan).reshape(shape) for v in values)
    normal = _without_priors(rows, design, _dose_from_zero(thinned, design), (a, b), weight, prior)
    precision, pull = (each.reshape(*shape, *each.shape[1:]) for each in normal)
    assert thinned.beta is not None
    differ = design.varies.ravel()
    spread = np.sqrt(thinned.beta[:, differ].var(axis=1).mean()) if differ.any() else 0.0
    return OwnSlopes(slope, sd, information, precision, pull, prior_sd, float(spread))


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
    def of(cls, draws: Draws, built: BuiltModel, x: FloatArray) -> "_PairRows":
        design = built.design
        cell, size = design.model_benchmark, design.answered.size
        count = np.maximum(np.bincount(cell, minlength=size), 1)
        first, second, level, eta = (
            np.zeros(len(x)),
            np.zeros(len(x)),
            np.zeros(size),
            np.zeros(len(x)),
        )
        for part in draws.chunks(design):
            for own in _without_slope(part, design):
                center = _sums(own, design) / count
                above = own - center[cell]
                first, second, level = first + above, second + above**2, level + center
            eta += predictor(part, design).sum(axis=0)
        mean, level = first / len(draws), level / len(draws)
        variance = np.maximum(second / len(draws) - mean**2, 0.0)
        effect = np.zeros(len(x))  # variance of each response's model-by-item effect
        if draws.sigma_eps is not None:
            effect[design.n_single :] = (draws.sigma_eps**2).mean(axis=0)
        guess = response_guess(draws, built.spec, design)
        guess = guess.mean(axis=0) if guess.ndim == 2 else guess
        offset, known = _cavity(mean, variance, eta / len(draws), effect, draws, design)
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
    p, n = logistic(eta), design.n_trials
    own = n * p * (1 - p)
    score, information = (v / (1 + own * effect) for v in (design.n_correct - n * p, own))
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
    p, q, both, right, wrong = np.zeros((5, len(center)))
    for z, weight in zip(nodes, weights, strict=True):
        eta = center + rows.offset + z * rows.spread
        at, off = logistic(eta), logistic(-eta)
        p, q, both = p + weight * at, q + weight * off, both + weight * at * off
        right, wrong = right + weight * at**2, wrong + weight * off**2
    g = rows.guess
    between = (1 - g) ** 2 * np.maximum(np.where(p < q, right - p**2, wrong - q**2), 0.0)
    p, q, slope = g + (1 - g) * p, (1 - g) * q, (1 - g) * both
    variance = p * q / rows.trials + (1 - 1 / rows.trials) * between
    variance = np.maximum(variance, 1e-300)
    return slope * (rows.share - p) / variance, slope**2 / variance


def _sums(values: FloatArray, design: Design) -> Any:
    return np.bincount(design.model_benchmark, values, minlength=design.answered.size)


def extrapolation(design: Design, reference: FloatArray) -> FloatArray:
    """Return how far the reference lies outside what was observed, dims (model, benchmark)."""
    low, high = design.contamination_range(by_model=True)
    distance: FloatArray = np.maximum(np.maximum(low - reference, reference - high), 0.0)
    return np.where(distance > ROUNDING, distance, distance * 0)


def identify(
    slope: xr.DataArray,
    prior_slope: xr.DataArray,
    sensitivity: xr.Dataset,
    built: BuiltModel,
    own: OwnSlopes,
    level: float,
    reference: Reference | None = None,
) -> xr.Dataset:
    """Judge whether each slope is identified, dims (model, benchmark)."""
    # Of a prior variance V and a posterior variance v, the data alone carry the precision
    # 1/v − 1/V; this is exact for Normal distributions and the usual approximation otherwise.
    # Cells without answers are NaN; they get no verdict, and must raise no warning.
    slope, prior_slope = slope.fillna(0.0), prior_slope.fillna(0.0)
    design, dims = built.design, ("model", "benchmark")
    tails = [(1 - level) / 2, (1 + level) / 2]
    variance, prior_variance = (s.var(("chain", "draw")).to_numpy() for s in (slope, prior_slope))
    with np.errstate(divide="ignore", invalid="ignore"):
        contraction = 1 - variance / prior_variance
        precision = np.maximum(1 / variance - 1 / prior_variance, 0)
        detectable = (norm.ppf((1 + level) / 2) + norm.ppf(POWER)) / np.sqrt(precision)
    beyond = np.full(variance.shape, np.nan)
    if reference is not None:
        beyond = extrapolation(design, reference_levels(reference, design))
    figures = {
        "own_slope": own.slope,
        "own_sd": own.sd,
        "own_information": own.information,
        "contraction": contraction,
        "detectable_slope": detectable,
        "prior_sd": np.sqrt(prior_variance),
        "prior_sensitivity": sensitivity["slope_prior"].to_numpy(),
        "extrapolation": beyond,
    }
    ends = slope.quantile(tails, ("chain", "draw")).to_numpy()
    own_ends = normal_interval(own.slope, own.sd, level)
    verdicts = _verdicts(_excluded(*ends), _excluded(*own_ends), own.information, built)
    numbers = figures | dict(zip(("own_low", "own_high"), own_ends, strict=True))
    numbers |= {"sign": _excluded(*ends), "own_sign": _excluded(*own_ends)}
    sentences = np.full(verdicts.shape, "", dtype=object)
    for cell in zip(*np.nonzero(design.answered), strict=True):
        verdict = Identification(verdicts[cell])  # NumPy made it a plain text
        of_cell = {name: float(values[cell]) for name, values in numbers.items()}
        sentences[cell] = _sentence(verdict, of_cell, level)
        if verdict is Identification.NO_VARIATION and design.exposure is not None:
            sentences[cell] = _EXPECTED_EQUAL
    verdicts[~design.answered] = ""
    texts = {"verdict": verdicts.astype(str), "sentence": sentences.astype(str)}
    data = {name: (dims, values) for name, values in (texts | figures).items()}
    return xr.Dataset(data, {dim: slope[dim] for dim in dims})


def _excluded(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the signs of slopes whose intervals exclude zero; 0 of others."""
    return (low > 0) * 1.0 - (high < 0)


def _verdicts(
    sign: FloatArray, own_sign: FloatArray, information: FloatArray, built: BuiltModel
) -> NDArray[np.object_]:
    """Return the verdict on each slope, dims (model, benchmark)."""
    # An effect is shown only where the pooled posterior and the pair's own responses both say so.
    # Pooling alone lends the effect of others to models without one; own responses alone exclude
    # zero of those at the nominal rate at most.
    design = built.design
    contaminated = design.contamination_range(by_model=True)[1] > 0
    others = built.spec.contamination.pooling == "partial" and design.informative.sum() > 1
    positive = built.spec.contamination.sign == "positive"
    rules = (
        (np.broadcast_to(design.clean[:, None], sign.shape), Identification.CLEAN),
        (~design.varies & contaminated, Identification.NO_VARIATION),
        (~design.varies, Identification.NO_CONTAMINATION),
        (others & ~(information >= INFORMED), Identification.BORROWED),
        ((sign != 0) & (sign == own_sign), Identification.SHOWN),
        (np.full(sign.shape, positive), Identification.SIGN_ASSUMED),
        (others & (sign != 0), Identification.BORROWED),
    )
    found = np.full(sign.shape, Identification.INCONCLUSIVE, dtype=object)
    for holds, verdict in reversed(rules):  # the first rule that holds decides
        found[holds] = verdict
    return found


def _sentence(verdict: Identification, numbers: dict[str, float], level: float) -> str:
    text = _TEXT[verdict]
    if verdict is Identification.BORROWED and numbers["own_information"] >= INFORMED:
        text = _OWN_HOLDS_ZERO
    if verdict is Identification.INCONCLUSIVE and not np.isfinite(numbers["detectable_slope"]):
        text = _UNINFORMED
    elif verdict is Identification.INCONCLUSIVE and numbers["sign"]:
        text = _OWN_ON_THE_OTHER_SIDE if numbers["own_sign"] else _OWN_AT_THE_BORDER
    text = text.format(level=round(100 * level, 6), **numbers)
    if verdict in (
        Identification.CLEAN, Identification.NO_CONTAMINATION, Identification.NO_VARIATION,
    ):  # fmt: skip
        return text
    if verdict is not Identification.BORROWED:
        gained = max(numbers["contraction"], 0)
        text += f" The posterior variance is {gained:.0%} below the prior's."
    if numbers["prior_sensitivity"] > THRESHOLD:
        text += (
            f" The prior still matters (power-scaling {numbers['prior_sensitivity']:.2f}):"
            " vary it and see whether the conclusion stays."
        )
    return text


def overfitting_verdict(
    slope: Identification,
    low: float,
    high: float,
    smallest: float = SMALLEST_EFFECT,
    *,
    informed: bool = True,
    rises: bool = True,
    lift: Identification | None = None,
) -> Overfitting:
    """Return the verdict on an overfitting.

    >>> overfitting_verdict(Identification.INCONCLUSIVE, -0.01, 0.012).value
    'at most small'
    >>> overfitting_verdict(Identification.SHOWN, 0.01, 0.05).value
    'shown'
    >>> overfitting_verdict(Identification.INCONCLUSIVE, -0.01, 0.05).value
    'inconclusive'
    >>> overfitting_verdict(Identification.NO_CONTAMINATION, 0.0, 0.0).value
    'no contamination'
    >>> overfitting_verdict(Identification.NO_CONTAMINATION, 0.04, 0.23).value
    'borrowed'
    """
    if slope is Identification.CLEAN:
        return Overfitting.CLEAN
    if slope is Identification.NO_CONTAMINATION:
        # An average over items that others answered, or a reference above, can be an effect.
        if not (low < 0 or high > 0):
            return Overfitting.NONE
        turned = not low <= 0 <= high and (low > 0) is not rises
        return Overfitting.BY_REFERENCE if turned else Overfitting.BORROWED
    lifted = lift is Identification.SHOWN
    if slope is Identification.NO_VARIATION and not lifted:
        return Overfitting.NO_VARIATION
    if slope is Identification.BORROWED and not (informed or lifted):
        return Overfitting.BORROWED
    known = lifted or (informed and lift is None)
    if known and -smallest < low and high < smallest:
        return Overfitting.AT_MOST_SMALL
    if low <= 0 <= high:
        return Overfitting.INCONCLUSIVE
    if (low > 0) is not rises:
        return Overfitting.BY_REFERENCE
    if slope is Identification.SHOWN or lifted:
        return Overfitting.SHOWN if rises else Overfitting.OPPOSITE
    if slope is Identification.SIGN_ASSUMED:
        return Overfitting.SIGN_ASSUMED
    if slope is Identification.BORROWED:
        return Overfitting.BORROWED
    return Overfitting.INCONCLUSIVE


def check_smallest_effect(value: float, name: str = "smallest_effect") -> None:
    """Refuse a smallest effect that no overfitting could have."""
    if not (np.isfinite(value) and 0 < value < 1):
        raise UsageError(
            f"{name}: got {value:g}; allowed is a difference of accuracies above 0 and below 1,"
            " such as 0.02"
        )


def identify_spillover(
    spillover: NDArray[Any], distinguished: bool, level: float
) -> Identification:
    """Judge whether the coefficient of spillover is identified."""
    low, high = np.quantile(spillover, [(1 - level) / 2, (1 + level) / 2])
    shown = distinguished and (low > 0 or high < 0)
    return Identification.SHOWN if shown else Identification.INCONCLUSIVE


def overfitting_verdicts(
    tree: xr.DataTree, spilled: Identification | None, table: pd.DataFrame, smallest: float
) -> "pd.Series[str]":
    """Return the verdict on the overfitting of each pair."""
    known = tree["identification"].to_dataset()
    effect = tree["estimands"]["slope"].mean(("chain", "draw"))
    if spilled is not None:
        effect = effect + tree["posterior"]["spillover"].mean()
    # Fits of earlier versions have no own information, and no verdict rests on it.
    own = known["own_information"] if "own_information" in known else known["contraction"] * np.nan
    facts = (
        each.transpose("model", "benchmark").to_series().reindex(table.index)
        for each in (known["verdict"], own, effect)
    )
    found = [
        overfitting_verdict(
            Identification(str(verdict)), low, high, smallest,
            informed=bool(informed >= INFORMED), rises=bool(rises > 0), lift=spilled,
        ).value
        for low, high, verdict, informed, rises in zip(
            table["ci_low"], table["ci_high"], *facts, strict=True
        )
    ]  # fmt: skip
    return pd.Series(found, index=table.index, dtype=object)
