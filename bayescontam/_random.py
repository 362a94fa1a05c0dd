"""Random streams by name: the same seed and name give the same numbers."""

import hashlib
import secrets

import numpy as np

from bayescontam._text import printable
from bayescontam.errors import UsageError


def fresh_seed() -> int:
    """Return a new seed from the operating system, small enough to be typed again."""
    return secrets.randbelow(2**31)


def check_seed(seed: object, name: str = "seed") -> int:
    """Return a seed that can be used."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        shown = printable(repr(seed), 60)
        raise UsageError(f"{name}: got {shown}; allowed is a whole number, 0 or more")
    if seed < 0:
        raise UsageError(f"{name}: got {seed}; allowed is 0 or more")
    return int(seed)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of a named stream.

    Streams of different names are independent, and adding one never moves another.

    >>> float(stream(1, "a").random()) == float(stream(1, "a").random())
    True
    >>> float(stream(1, "a").random()) == float(stream(1, "b").random())
    False
    """
    key = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    words = np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))
