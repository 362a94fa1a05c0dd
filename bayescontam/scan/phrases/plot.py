"""Plots: problems told in several ways, with slots for names, things and numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

type Slots = Mapping[str, Any]


@dataclass(frozen=True)
class Plot:
    """A kind of problem."""

    subject: str  # what it is about: `"math"`, `"code"` or `"facts"`
    question: str  # how the benchmark tells it; white space does not count
    retold: tuple[str, ...]  # the same problem in other words
    answer: Callable[[Slots], str]  # gives the answer from what the slots are filled with


def told(text: str, slots: Slots) -> str:
    """Return a text with its slots filled, on one line.

    >>> told("How many {goods}    are left?", {"goods": "planks"})
    'How many planks are left?'
    """
    return " ".join(text.format_map(slots).split())
