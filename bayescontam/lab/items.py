"""Items of a lab as models read them: questions, answers, and whether a reply can hold these."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.lab.mix import ITEMS
from bayescontam.lab.tokenizers import start_tokens
from bayescontam.specs.lab import Answers

_BLANK = " "


def read_items(folder: Path) -> list[dict[str, Any]]:
    """Return the items of a lab."""
    lines = (folder / ITEMS).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def questions_of(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts that models continue with answers."""
    # Tokens begin with a blank, which hence is part of the answer.
    return [item["text"] + ("" if item["between"] == _BLANK else item["between"]) for item in items]


def gaps_of(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what stands between questions, as `questions_of` has them, and answers."""
    return [_BLANK if item["between"] == _BLANK else "" for item in items]


def joined(question: str, answer: str, gap: str | None = None) -> str:
    """Return a question with its answer: after a space, where there is no other white space."""
    if gap is None:
        gap = "" if question[-1:].isspace() else _BLANK
    return f"{question}{gap}{answer}"


def without_stop(answer: str) -> str:
    """Return an answer without the white space and full stop at its end that no grade counts."""
    return answer.rstrip().removesuffix(".").rstrip() or answer


def first_of_answer(question: Sequence[int], whole: Sequence[int]) -> int:
    """Return where the tokens of an answer begin in those of a question with it."""
    both = enumerate(zip(question, whole, strict=False))
    return next((at for at, (a, b) in both if a != b), len(question))


def check_lengths(
    tokenizer: Any, items: Sequence[Mapping[str, Any]], answers: Answers, file: str
) -> None:
    """Refuse answers that no reply can be: with their end, they have more tokens than one."""
    if answers.grade != "exact":
        return
    start, faults = start_tokens(tokenizer), []
    triples = zip(questions_of(items), gaps_of(items), items, strict=True)
    for row, (question, gap, item) in enumerate(triples, start=1):
        texts = (question, joined(question, without_stop(str(item["answer"])), gap))
        # One by one: a batch would start threads, and processes with threads should not be forked.
        ids, whole = (
            [*start, *tokenizer.encode(text, add_special_tokens=False, verbose=False)]
            for text in texts
        )
        needed = len(whole) - first_of_answer(ids, whole) + 1
        if needed > answers.longest:
            cause = f"item {{}}; answers.longest = {answers.longest:,}"
            value = f"'{printable(str(item['item']), 60)}' needs {needed:,} tokens with its end"
            faults.append(Fault(file, cause.replace("{}", value), row, "answer", cause, value))
    if faults:
        raise DataError(faults, "No reply could be right: mix a spec with a larger longest.")
