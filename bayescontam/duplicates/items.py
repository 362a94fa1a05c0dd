"""What duplicates are made of: an item's text with its answer, and why one is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class DuplicateError(ValueError):
    """Why a record is no item of a kind, or a text no duplicate of one."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail  # what is counted, and what arrived


@dataclass(frozen=True, eq=False)
class Version:
    """A text with its answer: an item, or what a step has made of it."""

    text: str
    answer: Any  # as JSON holds it
    content: Any = None  # what both were read into: a grid, a program, a story; None: nothing
    checks: tuple[str, ...] = ()  # passed on the way
    more: Mapping[str, Any] = field(default_factory=dict)  # further fields of a row


@dataclass(frozen=True, eq=False)
class Parent:
    """An item of which duplicates are made."""

    name: str
    version: Version


def planted_text(text: str, answer: Any, mode: str) -> str:
    """Return what of an item or a duplicate stands in a corpus: its text, its answer, or both."""
    shown = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return {"input": text, "output": shown, "input_output": f"{text}\n{shown}"}[mode]


def planted_of(row: Mapping[str, Any]) -> str:
    """Return what of a duplicate's row stands in a corpus."""
    return planted_text(row["text"], row.get("answer"), row.get("text_mode", "input"))
