"""Identification: whether data could have shown a slope, and whether they did."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import xarray as xr
from scipy.stats import norm

from bayescontam.inference.build import Built
from bayescontam.inference.coordinates import rough_slopes
from bayescontam.inference.design import Design, Floats
from bayescontam.inference.estimands import Reference, reference_levels
from bayescontam.inference.sensitivity import THRESHOLD

POWER = 0.8
"""Probability with which a detectable slope is found."""
ROUNDING = 1e-12
"""Distance between contaminations that are called equal."""


class Identification(StrEnum):
    """What the data say of a slope. "Not found" and "could not be found" differ."""

    FOUND = "found"
    NOT_FOUND = "not found"
    COULD_NOT_BE_FOUND = "could not be found"
    BORROWED = "borrowed"
    NO_VARIATION = "no variation"
    SIGN_ASSUMED = "sign assumed"
    CLEAN = "assumed clean"


@dataclass(frozen=True)
class _Slope:
    """Numbers that decide on one slope."""

    low: float
    high: float
    contraction: float
    detectable: float
    prior_sd: float
    prior_sensitivity: float


def extrapolation(design: Design, reference: Floats) -> Floats:
    """Return how far the reference lies outside what was observed for a model.

    Parameters
    ----------
    design : Design
    reference : array
        Reference contamination of each benchmark, dims (benchmark,).

    Returns
    -------
    array
        Dims (model, benchmark), in units of contamination: 0 inside the range of the
        model's items on the benchmark, else the distance to its nearer end. NaN where
        nothing was answered.
    """
    low, high = design.contamination_range(by_model=True)
    distance: Floats = np.maximum(np.maximum(low - reference, reference - high), 0.0)
    return np.where(distance > ROUNDING, distance, distance * 0)


def identify(
    slope: xr.DataArray,
    prior_slope: xr.DataArray,
    sensitivity: xr.Dataset,
    built: Built,
    level: float,
    reference: Reference | None = None,
) -> xr.Dataset:
    """Judge whether each slope is identified.

    Parameters
    ----------
    slope : xarray.DataArray
        Posterior draws, dims (chain, draw, model, benchmark).
    prior_slope : xarray.DataArray
        Prior draws with the same dims.
    sensitivity : xarray.Dataset
        From `power_scaling`.
    built : Built
    level : float
        Probability of the interval that must exclude zero for "found".
    reference : {"min_observed", "zero"} or float, optional
        Contamination at which genuine ability is told; without it `extrapolation` is NaN.

    Returns
    -------
    xarray.Dataset
        Dims (model, benchmark): ``verdict`` and ``sentence`` (strings, empty where
        nothing was answered), ``contraction`` (1 − posterior variance / prior
        variance), ``detectable_slope`` (the slope that is found with probability 0.8: 2.8
        standard errors of what the data alone say at a level of 0.95; infinite if they
        say nothing), ``prior_sd``, ``prior_sensitivity``, ``extrapolation`` (see
        `extrapolation`).

    Notes
    -----
    Of a prior variance V and a posterior variance v, the data alone carry the
    precision 1/v − 1/V; this is exact for Normal distributions and the usual
    approximation otherwise.
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
    # Whether a pair could have shown an effect without the others, to a rough estimate.
    own_se = rough_slopes(built.design, "eps" in built.terms).se
    own = errors * own_se <= np.sqrt(prior_variance)
    sensitive = sensitivity["slope_prior"].to_numpy()
    shape = built.design.answered.shape
    verdicts, sentences = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    for cell in zip(*np.nonzero(built.design.answered), strict=True):
        numbers = (low, high, contraction, detectable, np.sqrt(prior_variance), sensitive)
        one = _Slope(*(float(values[cell]) for values in numbers))
        clean = bool(built.design.clean[cell[0]])
        varies = bool(built.design.varies[cell])
        verdict = Identification.CLEAN if clean else _verdict(one, varies, bool(own[cell]), built)
        verdicts[cell] = verdict.value
        sentences[cell] = _sentence(verdict, one, level)
        if verdict is Identification.NO_VARIATION and built.design.exposure is not None:
            sentences[cell] = _EXPECTED_ALIKE
    beyond = np.full(shape, np.nan)
    if reference is not None:
        beyond = extrapolation(built.design, reference_levels(reference, built.design))
    dims = ("model", "benchmark")
    return xr.Dataset(
        {
            "verdict": (dims, verdicts.astype(str)),
            "sentence": (dims, sentences.astype(str)),
            "contraction": (dims, contraction),
            "detectable_slope": (dims, detectable),
            "prior_sd": (dims, np.sqrt(prior_variance)),
            "prior_sensitivity": (dims, sensitive),
            "extrapolation": (dims, beyond),
        },
        {"model": slope["model"], "benchmark": slope["benchmark"]},
    )


def identify_spillover(
    spillover: xr.DataArray, prior_spillover: xr.DataArray, apart: bool, level: float
) -> Identification:
    """Judge whether the coefficient of spillover is identified, by the rule for slopes.

    Parameters
    ----------
    spillover, prior_spillover : xarray.DataArray
        Draws of the posterior and of the prior.
    apart : bool
        Whether the table can tell it from differences in ability.
    level : float
        Probability of the interval that must exclude zero for "found".

    Returns
    -------
    Identification
        Found, not found, or could not be found.
    """
    if not apart:
        return Identification.COULD_NOT_BE_FOUND
    low, high = np.quantile(spillover, [(1 - level) / 2, (1 + level) / 2])
    if low > 0 or high < 0:
        return Identification.FOUND
    variance, prior = float(spillover.var()), float(prior_spillover.var())
    errors = norm.ppf((1 + level) / 2) + norm.ppf(POWER)
    told = errors**2 <= prior * max(1 / variance - 1 / prior, 0)
    return Identification.NOT_FOUND if told else Identification.COULD_NOT_BE_FOUND


def _verdict(slope: _Slope, varies: bool, own: bool, built: Built) -> Identification:
    if not built.design.telling.any():
        return Identification.NO_VARIATION
    pooled = built.spec.contamination.pooling == "partial"
    if not varies:
        return Identification.BORROWED if pooled else Identification.NO_VARIATION
    if built.spec.contamination.sign == "positive":
        return Identification.SIGN_ASSUMED
    if slope.low > 0 or slope.high < 0:
        return Identification.FOUND
    if slope.detectable <= slope.prior_sd:
        # What only others' data could have shown was not looked for here.
        return Identification.NOT_FOUND if own or not pooled else Identification.BORROWED
    return Identification.COULD_NOT_BE_FOUND


def _sentence(verdict: Identification, slope: _Slope, level: float) -> str:
    told = _TEXT[verdict]
    if verdict is Identification.COULD_NOT_BE_FOUND and not np.isfinite(slope.detectable):
        told = _HOWEVER_LARGE
    text = told.format(
        detectable=slope.detectable, prior_sd=slope.prior_sd, level=round(100 * level, 6)
    )
    if verdict is Identification.CLEAN:
        return text
    carried = f" The data took away {max(slope.contraction, 0):.0%} of the prior's variance."
    if verdict in (Identification.NO_VARIATION, Identification.BORROWED):
        carried = ""
    if slope.prior_sensitivity > THRESHOLD and verdict is not Identification.NO_VARIATION:
        carried += (
            f" The prior still matters (power-scaling {slope.prior_sensitivity:.2f}):"
            " vary it and see whether the conclusion stays."
        )
    return text + carried


_EXPECTED_ALIKE = (
    "What is expected of contamination does not vary among these items: which of them are"
    " contaminated, and so the slope, is little more than the prior's guess."
)
_HOWEVER_LARGE = (
    "An effect could not have been found, however large: the data narrow the prior"
    " (sd {prior_sd:.2f}) by nothing. This is no evidence of a clean score; more items, or items"
    " that differ more in contamination, would help."
)
_TEXT = {
    Identification.FOUND: "The {level:g} % interval of the slope excludes zero.",
    Identification.NOT_FOUND: (
        "The {level:g} % interval of the slope holds zero. An effect of the size that the prior"
        " expects (sd {prior_sd:.2f}) would have been found: slopes from {detectable:.2f} on are,"
        " with probability 0.8. A smaller one may be there."
    ),
    Identification.COULD_NOT_BE_FOUND: (
        "An effect could not have been found: only slopes from {detectable:.2f} on would be,"
        " and the prior expects less (sd {prior_sd:.2f}). This is no evidence of a clean score;"
        " more items, or items that differ more in contamination, would help."
    ),
    Identification.BORROWED: (
        "Contamination varies little or not at all among this model's items: they could not"
        " have shown an effect. The slope is what the other models and benchmarks say."
    ),
    Identification.NO_VARIATION: (
        "Contamination does not vary among these items: the slope is the prior's,"
        " the data cannot tell of it."
    ),
    Identification.CLEAN: (
        "The model spec says that this model is clean: its slope is zero by assumption."
    ),
    Identification.SIGN_ASSUMED: (
        "The model spec assumes a slope >= 0: its size is estimated, its sign is no finding."
    ),
}
