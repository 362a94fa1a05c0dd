"""What the data show about slopes, and about overfitting against a smallest effect."""

from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescontam.errors import UsageError

SMALLEST_EFFECT = 0.02
"""Overfitting of this size is the smallest that matters, unless users say otherwise."""


INFORMED = 1.0
"""Own information from which a verdict may rest on it: the responses say as much as the prior."""


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
    BY_REFERENCE = "depends on reference"
    SIGN_ASSUMED = "sign assumed"
    NO_VARIATION = "no variation"
    CLEAN = "assumed clean"
    NONE = "no contamination"


EXPLAINED = {
    Overfitting.SHOWN: (
        "Scores rise with contamination: the interval of overfitting excludes zero, and so does"
        " that of the slope that this model's own responses give."
    ),
    Overfitting.AT_MOST_SMALL: (
        "The whole interval of overfitting is smaller than the smallest effect of interest."
    ),
    Overfitting.INCONCLUSIVE: (
        "The interval holds zero and effects that matter: neither shown nor ruled out. This is no"
        " evidence of a clean score."
    ),
    Overfitting.BORROWED: (
        "This model's own responses neither show nor rule out an effect, since they hold too little"
        " information or their own interval holds zero: the interval rests on other models and"
        " benchmarks."
    ),
    Overfitting.OPPOSITE: (
        "Scores fall with contamination, which memory does not explain: contaminated items may be"
        " harder or have wrong keys, and this model spec takes that for an effect of contamination."
    ),
    Overfitting.BY_REFERENCE: (
        "The reference lies above the contamination of most items and turns the sign of"
        " overfitting: choose a lower one."
    ),
    Overfitting.SIGN_ASSUMED: (
        "The model spec assumes that contamination does not lower scores: that overfitting is"
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
        " score is overfitting."
    ),
}
"""A sentence for each verdict."""


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
    """
    if slope is Identification.CLEAN:
        return Overfitting.CLEAN
    if slope is Identification.NO_CONTAMINATION:
        return Overfitting.NONE
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
