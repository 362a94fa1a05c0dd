"""Levels: probabilities of intervals, as users may give them."""

from bayescontam.errors import UsageError


def check_level(level: float, name: str = "level") -> None:
    """Refuse a probability that is none of an interval worth reporting.

    Parameters
    ----------
    level : float
        Probability of an equal-tailed interval.
    name : str, default "level"
        What the user calls it.

    Raises
    ------
    UsageError
        If it is not in [0.5, 1).

    Examples
    --------
    >>> check_level(0.95)
    >>> check_level(95)
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: level: got 95; allowed is 0.5 up to but not 1
    """
    if not 0.5 <= level < 1:
        raise UsageError(f"{name}: got {level}; allowed is 0.5 up to but not 1")
