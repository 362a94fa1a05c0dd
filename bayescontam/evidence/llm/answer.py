"""Answer: what a language model answers about a pair, read strictly."""

import json
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

type Kind = Literal["exact", "equivalent", "subset", "superset", "related", "unrelated"]

_ALWAYS = {"exact": True, "equivalent": True, "unrelated": False}
_SHOWN = 200


class Answer(BaseModel):
    """Verdict on one pair.

    The reasoning comes first, so that a model writes it before it decides.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    reasoning: str
    kind: Kind  # one of the six kinds
    is_duplicate: bool  # agrees with `kind`: exact and equivalent are duplicates, unrelated is none
    confidence: float  # from 0 to 1

    @field_validator("reasoning")
    @classmethod
    def _storable(cls, text: str) -> str:
        # JSON can spell half a character, which no file can hold.
        return text.encode("utf-8", "replace").decode()

    # Checked here, not by a limit on the field: endpoints refuse schemas that hold limits.
    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence is {self.confidence:g}, not from 0 to 1")
        if _ALWAYS.get(self.kind, self.is_duplicate) != self.is_duplicate:
            raise ValueError(f"kind '{self.kind}' contradicts is_duplicate={self.is_duplicate}")
        return self


def read_answer(text: str) -> Answer:
    """Find the answer in what a model wrote.

    >>> read_answer('```{"reasoning": "Same task.", "kind": "exact", '
    ...             '"is_duplicate": true, "confidence": 1}```').kind
    'exact'
    """
    found: list[Answer] = []
    problem = f"no JSON object in '{text[:_SHOWN]}'"
    for data in _objects(text):
        try:
            found.append(Answer.model_validate(data))
        except ValidationError as error:
            problem = "; ".join(_spelled(dict(fault)) for fault in error.errors())
    if not found:
        raise ValueError(problem)
    if any(answer != found[0] for answer in found):
        raise ValueError(f"{len(found)} answers that differ")
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Give the outermost JSON objects in a text."""
    decoder = json.JSONDecoder(object_pairs_hook=_unrepeated)
    at = text.find("{")
    while at >= 0:
        try:
            data, end = decoder.raw_decode(text, at)
            yield data
        except ValueError:
            end = at + 1
        except RecursionError:
            return  # no answer is so deep, and what is inside would be tried again and again
        at = text.find("{", end)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field comes twice")
    return dict(pairs)


def _spelled(fault: dict[str, Any]) -> str:
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])
