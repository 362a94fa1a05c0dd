"""Plots: problems told in several ways, with slots for names, things and numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

type Slots = Mapping[str, Any]


@dataclass(frozen=True)
class Plot:
    """A kind of problem.

    Attributes
    ----------
    subject : str
        What it is about: ``"math"``, ``"code"`` or ``"facts"``.
    question : str
        How the benchmark tells it; white space does not count.
    retold : tuple of str
        The same problem in other words.
    answer : callable
        Gives the answer from what the slots are filled with.
    """

    subject: str
    question: str
    retold: tuple[str, ...]
    answer: Callable[[Slots], str]


def told(text: str, slots: Slots) -> str:
    """Return a text with its slots filled, on one line.

    Examples
    --------
    >>> told("How many {goods}    are left?", {"goods": "planks"})
    'How many planks are left?'
    """
    return " ".join(text.format_map(slots).split())
