"""Levels: probabilities of intervals, as users may give them."""

from bayescontam.errors import UsageError


def check_level(level: float, name: str = "level") -> None:
    """Refuse a probability that is none of an interval worth reporting."""
    if not 0.5 <= level < 1:
        raise UsageError(f"{name}: got {level}; allowed is 0.5 up to but not 1")
