"""Outcomes: which numbers of a log count as correct."""

import math
from typing import Any, Literal

import numpy as np

from bayescontam._types import BoolArray, FloatArray
from bayescontam.columns import shown
from bayescontam.errors import UsageError

type Errors = Literal["leave-out", "incorrect"]
"""What becomes of items at which a run failed."""


def check_errors(errors: Errors) -> None:
    """Raise a `UsageError` unless it is known what becomes of errors."""
    if errors not in ("leave-out", "incorrect"):
        raise UsageError(f"errors={errors!r}: allowed are 'leave-out' and 'incorrect'")


def error_notes(count: int, unit: str) -> list[str]:
    """Note how many errors count as incorrect, if any do.

    >>> error_notes(2, "sample")
    ['2 samples with an error count as incorrect']
    """
    return [f"{count:,} {unit}s with an error count as incorrect"] if count else []


def scores(
    values: FloatArray, threshold: float | None, *, lower_better: bool = False
) -> tuple[FloatArray, BoolArray]:
    """Return values as 0 and 1 (NaN where missing), and which of them are neither."""
    missing = np.isnan(values)
    if threshold is None:
        return values, ~missing & ~np.isin(values, (0.0, 1.0))
    passed = values <= threshold if lower_better else values >= threshold
    return np.where(missing, np.nan, passed.astype(float)), np.zeros(len(values), dtype=bool)


def check_threshold(threshold: float | None) -> None:
    """Refuse a threshold that no answer, or every answer, would pass."""
    if threshold is not None and not math.isfinite(threshold):
        raise UsageError(
            f"threshold: got {threshold}; allowed is a finite number, from which on an answer is "
            "correct (--threshold)"
        )


def number(value: Any) -> float:
    """Return a number, true or false of a log; NaN for None."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise TypeError(f"is {shown(value)}, which is no number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_nan(value: Any) -> bool:
    """Return whether a value of a log is NaN, whatever else it may be."""
    return isinstance(value, float) and math.isnan(value)
