"""Verdicts: whether the checks of a fit or a curve hold, in one sentence."""

from bayescontam.inference.checks import Check, Outcome


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


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
