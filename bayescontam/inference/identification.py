"""What the data show about slopes, and about overfitting against a smallest effect."""

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
from bayescontam.inference.own_slopes import OwnSlopes, normal_interval
from bayescontam.inference.sensitivity import THRESHOLD
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design

SMALLEST_EFFECT = 0.02
"""Overfitting of this size is the smallest that matters, unless users say otherwise."""
INFORMED = 1.0
"""Own information from which a verdict may rest on it: the responses say as much as the prior."""
POWER = 0.8
"""Probability with which a detectable slope is shown."""
ROUNDING = 1e-12
"""Distance between contaminations that are called equal."""


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
