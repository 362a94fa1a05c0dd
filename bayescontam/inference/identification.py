"""Whether data identify a slope, and how small a slope they could have shown."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.inference.estimands import Reference, reference_levels
from bayescontam.inference.own_slopes import OwnSlopes
from bayescontam.inference.sensitivity import THRESHOLD
from bayescontam.inference.verdicts import INFORMED, Identification
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design

POWER = 0.8
"""Probability with which a detectable slope is shown."""
ROUNDING = 1e-12
"""Distance between contaminations that are called equal."""
_WITHOUT_DATA = (
    Identification.CLEAN, Identification.NO_CONTAMINATION, Identification.NO_VARIATION,
)  # fmt: skip
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
_TEXT = {
    Identification.SHOWN: (
        "The {level:g} % interval excludes zero, also from this model's own responses alone"
        " ([{own_low:.2f}, {own_high:.2f}])."
    ),
    Identification.INCONCLUSIVE: (
        "The {level:g} % interval holds zero. Slopes from {detectable:.2f} on would be shown with"
        " probability 0.8; the prior expects slopes of size {prior_sd:.2f}. More items, or items"
        " that differ more in contamination, would help."
    ),
    Identification.BORROWED: (
        "This model's own responses hold little information on the slope ({information:.2g} of"
        " what the prior holds): the estimate rests on the other models and benchmarks."
    ),
    Identification.NO_VARIATION: (
        "All items of this model have the same contamination: its responses hold no information"
        " on the slope."
    ),
    Identification.NO_CONTAMINATION: (
        "No item is contaminated for this model: its responses hold no information on the slope,"
        " and no part of its score is overfitting."
    ),
    Identification.CLEAN: "The model is declared clean: its slope is zero by assumption.",
    Identification.SIGN_ASSUMED: (
        "The model spec assumes a slope of at least 0: its size is estimated, its sign is no"
        " finding. This model's own responses give [{own_low:.2f}, {own_high:.2f}]."
    ),
}


def extrapolation(design: Design, reference: FloatArray) -> FloatArray:
    """Return how far the reference lies outside what was observed for a model.

    Dims (model, benchmark).
    """
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
    """Judge whether each slope is identified.

    Dims (model, benchmark).

    Of a prior variance V and a posterior variance v, the data alone carry the
    precision 1/v − 1/V; this is exact for Normal distributions and the usual
    approximation otherwise.

    An effect is shown only where the pooled posterior and the pair's own responses both say
    so. Pooling alone lends the effect of others to models without one; own responses alone
    exclude zero of those at the nominal rate at most.
    """
    # Cells without answers are NaN; they get no verdict, and must raise no warning.
    slope, prior_slope = slope.fillna(0.0), prior_slope.fillna(0.0)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = slope.quantile(tails, ("chain", "draw")).to_numpy()
    variance = slope.var(("chain", "draw")).to_numpy()
    prior_variance = prior_slope.var(("chain", "draw")).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        contraction = 1 - variance / prior_variance
        precision = np.maximum(1 / variance - 1 / prior_variance, 0)
        errors = norm.ppf((1 + level) / 2) + norm.ppf(POWER)
        detectable = errors / np.sqrt(precision)
    own_low, own_high = own.interval(level)
    numbers = {
        "low": low, "high": high, "own_low": own_low, "own_high": own_high,
        "information": own.information, "contraction": contraction, "detectable": detectable,
        "prior_sd": np.sqrt(prior_variance), "sensitive": sensitivity["slope_prior"].to_numpy(),
    }  # fmt: skip
    found = _verdicts(numbers, built)
    shape = found.shape
    verdicts, sentences = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    for cell in zip(*np.nonzero(built.design.answered), strict=True):
        verdict = Identification(found[cell])
        verdicts[cell] = verdict.value
        sentences[cell] = _sentence(
            verdict, {name: float(values[cell]) for name, values in numbers.items()}, level
        )
        if verdict is Identification.NO_VARIATION and built.design.exposure is not None:
            sentences[cell] = _EXPECTED_EQUAL
    beyond = np.full(shape, np.nan)
    if reference is not None:
        beyond = extrapolation(built.design, reference_levels(reference, built.design))
    dims = ("model", "benchmark")
    return xr.Dataset(
        {
            "verdict": (dims, verdicts.astype(str)),
            "sentence": (dims, sentences.astype(str)),
            "own_slope": (dims, own.slope),
            "own_sd": (dims, own.sd),
            "own_information": (dims, own.information),
            "contraction": (dims, contraction),
            "detectable_slope": (dims, detectable),
            "prior_sd": (dims, numbers["prior_sd"]),
            "prior_sensitivity": (dims, numbers["sensitive"]),
            "extrapolation": (dims, beyond),
        },
        {"model": slope["model"], "benchmark": slope["benchmark"]},
    )


def _verdicts(numbers: Mapping[str, FloatArray], built: BuiltModel) -> NDArray[np.object_]:
    """Return the verdict on each slope, dims (model, benchmark)."""
    design = built.design
    clean = np.broadcast_to(design.clean[:, None], design.varies.shape)
    contaminated = design.contamination_range(by_model=True)[1] > 0
    # Signs of the slope, and of what the pair's own responses give, where zero is excluded.
    sign = (numbers["low"] > 0).astype(int) - (numbers["high"] < 0)
    own_sign = (numbers["own_low"] > 0).astype(int) - (numbers["own_high"] < 0)
    others = built.spec.contamination.pooling == "partial" and design.informative.sum() > 1
    positive = built.spec.contamination.sign == "positive"
    rules = (
        (clean, Identification.CLEAN),
        (~design.varies & contaminated, Identification.NO_VARIATION),
        (~design.varies, Identification.NO_CONTAMINATION),
        (others & ~(numbers["information"] >= INFORMED), Identification.BORROWED),
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
    if verdict is Identification.BORROWED and numbers["information"] >= INFORMED:
        text = _OWN_HOLDS_ZERO
    if verdict is Identification.INCONCLUSIVE and not np.isfinite(numbers["detectable"]):
        text = _UNINFORMED
    text = text.format(level=round(100 * level, 6), **numbers)
    if verdict in _WITHOUT_DATA:
        return text
    if verdict is not Identification.BORROWED:
        text += (
            f" The posterior variance is {max(numbers['contraction'], 0):.0%} below the prior's."
        )
    if numbers["sensitive"] > THRESHOLD:
        text += (
            f" The prior still matters (power-scaling {numbers['sensitive']:.2f}):"
            " vary it and see whether the conclusion stays."
        )
    return text
