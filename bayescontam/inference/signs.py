"""Signs: where along a line of assumptions the sign of a quantity is certain."""

import numpy as np

from bayescontam._types import FloatArray

_WORDS = ("negative", "uncertain", "positive")


def sign_along(
    locations: FloatArray, p_positive: FloatArray, own: float, level: float
) -> tuple[float, str]:
    """Return where the sign becomes certain or uncertain, and say it in words.

    >>> sign_along(np.array([-1.0, 0.0, 1.0]), np.array([0.5, 0.95, 1.0]), 0.0, 0.95)
    (0.5, 'uncertain below 0.50, positive above')
    """
    tails = (1 - level) / 2, (1 + level) / 2
    changes = sorted(
        (float(at), int(rises))
        for tail in tails
        for at, rises in zip(*_crossings(locations, p_positive - tail), strict=True)
    )
    state = int(np.searchsorted(tails, p_positive[0]))
    if not changes:
        return np.nan, f"{_WORDS[state]} throughout"
    parts = [f"{_WORDS[state]} below {_number(changes[0][0])}"]
    for i, (at, rises) in enumerate(changes, start=1):
        state += rises
        if i == len(changes):
            parts.append(f"{_WORDS[state]} above{'' if i == 1 else f' {_number(at)}'}")
        else:
            parts.append(f"{_WORDS[state]} to {_number(changes[i][0])}")
    nearest = min((at for at, _ in changes), key=lambda at: abs(at - own))
    return nearest, ", ".join(parts)


def _crossings(locations: FloatArray, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where a line through points crosses zero, and 1 where it rises or -1."""
    above = excess > 0
    left = np.flatnonzero(above[1:] != above[:-1])
    part = excess[left] / (excess[left] - excess[left + 1])
    at = locations[left] + part * (locations[left + 1] - locations[left])
    return at, np.where(above[left + 1], 1, -1)


def _number(value: float) -> str:
    """Return a location with two decimals and a true minus; never minus zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
