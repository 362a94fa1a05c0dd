"""Verdicts: what may be said of a fit and of each overfitting, in words that differ."""

from collections import Counter

import pandas as pd

from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.verdicts import Overfitting

_COUNTED = {
    Overfitting.SHOWN: "is shown in {}",
    Overfitting.AT_MOST_SMALL: "is at most small (below {smallest:g}) in {}",
    Overfitting.INCONCLUSIVE: "is inconclusive in {}",
    Overfitting.BORROWED: "is borrowed from other pairs in {}",
    Overfitting.SIGN_ASSUMED: "has an assumed sign in {}",
    Overfitting.OPPOSITE: "has the opposite sign in {}",
    Overfitting.BY_REFERENCE: "depends on the reference in {}",
    Overfitting.NO_VARIATION: "cannot be estimated in {} (contamination does not vary)",
    Overfitting.CLEAN: "is zero by assumption in {} (models declared clean)",
    Overfitting.NONE: "is zero in {} (no contaminated items)",
}


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


def overfitting_sentence(headline: pd.DataFrame, smallest: float) -> str:
    """Return in how many pairs overfitting has each verdict."""
    counts = Counter(headline["overfitting_verdict"])
    parts = [
        text.format(counts[kind], smallest=smallest)
        for kind, text in _COUNTED.items()
        if counts[kind]
    ]
    if not counts[Overfitting.SHOWN] and len(headline) > 1:
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
