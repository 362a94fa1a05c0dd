"""Scores of Inspect: which there are in a sample, and what counts as correct."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayescontam.columns import shown
from bayescontam.errors import UsageError
from bayescontam.importers.outcomes import check_threshold, number

type Partial = Literal["error", "correct", "incorrect", "leave-out"]
"""What becomes of partial credit ("P")."""
type NoAnswer = Literal["incorrect", "leave-out"]
"""What becomes of refusals and other lacking answers ("N")."""

_SPELLED = {"P": "partial credit (P)", "N": "no answer (N)"}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


@dataclass(frozen=True)
class Scoring:
    """How scores are read."""

    partial: Partial = "error"  # what becomes of partial credit ("P")
    no_answer: NoAnswer = "incorrect"  # what becomes of lacking answers ("N")
    # number from which on an answer is correct. Default: numbers must be 0 or 1.
    threshold: float | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("partial", self.partial, ("error", "correct", "incorrect", "leave-out")),
            ("no_answer", self.no_answer, ("incorrect", "leave-out")),
        ):
            if value not in allowed:
                words = ", ".join(map(repr, allowed))
                raise UsageError(f"{name}={value!r}: allowed are {words}")
        check_threshold(self.threshold)

    def read(self, value: Any) -> float | str:
        """Return 1 (correct) or 0, or why there is none."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "unscored"
        if isinstance(value, bool):
            return float(value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float):
            return self._number(number(value))
        raise ValueError(f"is {shown(repr(value))}; allowed is one number or text")

    def _text(self, value: str) -> float | str:
        if value in ("C", "I"):
            return float(value == "C")
        if value == "P":
            if self.partial == "error":
                raise ValueError(
                    "is partial credit (P); say what it counts as (partial, --partial)"
                )
            return self._taken("P", self.partial)
        if value == "N":
            return self._taken("N", self.no_answer)
        if value.strip().lower() in _WORDS:
            return _WORDS[value.strip().lower()]
        try:
            spelled = float(value)
        except ValueError:
            raise ValueError(f"is {shown(value)}; allowed are C, I, P, N, yes, no") from None
        return "unscored" if math.isnan(spelled) else self._number(spelled)

    def _taken(self, letter: str, choice: str) -> float | str:
        return _SPELLED[letter] if choice == "leave-out" else float(choice == "correct")

    def _number(self, value: float) -> float:
        if self.threshold is not None:
            return float(value >= self.threshold)
        if value not in (0.0, 1.0):
            raise ValueError(
                f"is {value:g}, neither 0 nor 1; give the value from which an answer is correct "
                "(threshold, --threshold)"
            )
        return value

    def notes(self, values: Iterable[Any]) -> list[str]:
        """Say how many of the values taken are letters that were counted as an answer."""
        counts = Counter(value for value in values if isinstance(value, str))
        choices = {"P": self.partial, "N": self.no_answer}
        return [
            f"{counts[letter]:,} trials with {_SPELLED[letter]} count as {choice}"
            for letter, choice in choices.items()
            if counts[letter] and choice != "leave-out"
        ]


def named_values(scores: dict[str, Any] | None) -> Iterator[tuple[str, Any, str | None]]:
    """Give name, value and answer of each score of a sample; of a dictionary its entries."""
    for name, score in (scores or {}).items():
        value = score.value
        if isinstance(value, dict):
            for key, entry in value.items():
                yield f"{name}.{key}", entry, score.answer
        else:
            yield name, value, score.answer


def as_array(read: list[float | str]) -> np.ndarray:
    """Return what was read as numbers, NaN where there is no score."""
    return np.array([np.nan if isinstance(value, str) else value for value in read], dtype=float)
