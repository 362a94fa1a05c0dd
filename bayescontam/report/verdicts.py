"""Verdicts: what may be said of a fit and of each overfitting, in words that differ."""

from collections import Counter
from enum import StrEnum

import pandas as pd

from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.identification import Identification


class Overfitting(StrEnum):
    """What the data say of the overfitting of a model on a benchmark."""

    SHOWN = "shown"
    OPPOSITE = "opposite sign"
    UNSETTLED = "unsettled"
    NOT_FOUND = "not found"
    COULD_NOT_BE_FOUND = "could not be found"
    BORROWED = "borrowed"
    SIGN_ASSUMED = "sign assumed"
    CLEAN = "assumed clean"
    NONE = "zero by definition"


EXPLAINED = {
    Overfitting.SHOWN: (
        "Scores rise with contamination: the intervals of overfitting and of the slope (or of"
        " spillover) exclude zero."
    ),
    Overfitting.OPPOSITE: (
        "Scores fall with contamination. Memory does not do that: contaminated items may be the"
        " harder ones, which this model spec takes for an effect of contamination."
    ),
    Overfitting.UNSETTLED: (
        "Slope (or spillover) and overfitting are not both told from zero, or the reference lies"
        " above the contamination of most items and turns the sign of overfitting."
    ),
    Overfitting.NOT_FOUND: (
        "The interval holds zero. An effect of the size that the prior expects would have been"
        " found; a smaller one may be there."
    ),
    Overfitting.COULD_NOT_BE_FOUND: (
        "No effect was found, and these data could not have shown one of the size that the prior"
        " expects, or all items are equally contaminated. This is no evidence of a clean score."
    ),
    Overfitting.BORROWED: (
        "Contamination does not vary among this model's items here: what is said of it comes"
        " from the other models and benchmarks."
    ),
    Overfitting.SIGN_ASSUMED: (
        "The model spec assumes that contamination does not lower scores: that overfitting is"
        " positive is no finding, its size is."
    ),
    Overfitting.CLEAN: (
        "The model spec says that the model is clean: its slope is zero by assumption, no finding."
    ),
    Overfitting.NONE: (
        "Every item is surely clean (contamination 0), so that no part of the score is overfitting."
    ),
}
"""A sentence for each verdict, for legends."""

_COUNTED = {
    Overfitting.SHOWN: "is shown in {}",
    Overfitting.NOT_FOUND: (
        "was not found in {} (one of the size that the prior expects would have been)"
    ),
    Overfitting.COULD_NOT_BE_FOUND: "could not have been found in {}",
    Overfitting.BORROWED: "is borrowed from other pairs in {}",
    Overfitting.SIGN_ASSUMED: "has an assumed sign in {}",
    Overfitting.OPPOSITE: "has the opposite sign in {}",
    Overfitting.UNSETTLED: "is unsettled in {}",
    Overfitting.CLEAN: "is taken to be none in {} (models known to be clean)",
    Overfitting.NONE: "is zero by definition in {} (only clean items)",
}


def overfitting_verdict(
    slope_verdict: str,
    low: float,
    high: float,
    reference: float = 0.0,
    slope: float = 1.0,
    lift: Identification | None = None,
) -> Overfitting:
    """Return what may be said of an overfitting.

    Parameters
    ----------
    slope_verdict : str
        Value of `Identification` of the slope.
    low, high : float
        Interval of the overfitting.
    reference : float, default 0
        Reference contamination of the benchmark. Where all items have it, overfitting
        is zero: for clean items by definition, for others because it cannot be told.
    slope : float, default 1
        Mean of the slope, with spillover of the sum of both, for its sign: with a reference
        above the items' contamination overfitting has the opposite one.
    lift : Identification, optional
        Of spillover, from `bayescontam.inference.identification.identify_spillover`, where it
        is a part of overfitting: the slope alone does not decide then.

    Returns
    -------
    Overfitting

    Examples
    --------
    >>> overfitting_verdict("not found", -0.01, 0.02).value
    'not found'
    >>> overfitting_verdict("found", 0.01, 0.05).value
    'shown'
    """
    if slope_verdict == Identification.CLEAN:
        return Overfitting.CLEAN
    if low == high == 0:
        return Overfitting.NONE if reference == 0 else Overfitting.COULD_NOT_BE_FOUND
    away = low > 0 or high < 0
    match _with_lift(Identification(slope_verdict), lift):
        # Without "found", two parts together, or slopes that depend on difficulty.
        case Identification.FOUND | Identification.NOT_FOUND if low > 0 and slope > 0:
            return Overfitting.SHOWN
        case Identification.FOUND | Identification.NOT_FOUND if high < 0 and slope < 0:
            return Overfitting.OPPOSITE
        case Identification.NOT_FOUND if not away:
            return Overfitting.NOT_FOUND
        case Identification.BORROWED:
            return Overfitting.BORROWED
        case Identification.SIGN_ASSUMED if low >= 0:
            return Overfitting.SIGN_ASSUMED
        case Identification.COULD_NOT_BE_FOUND | Identification.NO_VARIATION if not away:
            return Overfitting.COULD_NOT_BE_FOUND
        case _:
            return Overfitting.UNSETTLED


def _with_lift(slope: Identification, lift: Identification | None) -> Identification:
    """Return what is known of slope and spillover together."""
    if lift is None or slope is Identification.SIGN_ASSUMED:
        return slope
    if Identification.FOUND in (slope, lift):
        return Identification.FOUND
    return lift if slope is Identification.NOT_FOUND else slope


def checks_sentence(checks: tuple[Check, ...]) -> str:
    """Return whether the checks hold, and which do not; without a full stop."""
    failed = [check.name for check in checks if check.outcome is Outcome.FAILED]
    cautions = [check.name for check in checks if check.outcome is Outcome.CAUTION]
    known = f"{_count(len(cautions), 'caution')} ({', '.join(cautions)})" if cautions else ""
    if failed:
        text = f"Do not rely on this fit yet: {len(failed)} of {len(checks)} checks failed"
        text += f" ({', '.join(failed)})"
        return f"{text}, {known}" if known else text
    if cautions:
        return f"No check failed, {known}, of {len(checks)} checks"
    return f"All {len(checks)} checks passed"


def overfitting_sentence(headline: pd.DataFrame) -> str:
    """Return in how many pairs overfitting is shown, not found, or could not be found."""
    counts = Counter(headline["overfitting_verdict"])
    parts = [text.format(counts[kind]) for kind, text in _COUNTED.items() if counts[kind]]
    if not counts[Overfitting.SHOWN]:
        parts = ["is shown in none", *parts]
    if len(headline) == 1:
        return f"for the one pair of model and benchmark, overfitting {parts[-1]}".replace(
            " in 1", ""
        )
    return f"of {len(headline)} pairs of model and benchmark, overfitting {_joined(parts)}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
