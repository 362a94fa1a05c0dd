"""Word problems: a number of things that changes step by step, and what is left of it.

New ones are made of ``word_problems.toml``. Their answers are whole numbers, as are all numbers on
the way.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayescontam._text import join_list, printable
from bayescontam.duplicates.items import DuplicateError
from bayescontam.errors import UsageError

FEWEST_STEPS, MOST_STEPS = 2, 6
_LOWEST, _HIGHEST = 2, 2000
"""Numbers of things on the way: never one, which wordings have no singular for."""
_TRIES = 20
"""Draws of numbers before another operation is tried."""
_WORDS = {"twice": 2, "half": 2}
_LINE = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")


class Line(NamedTuple):
    """A line of a solution."""

    left: int
    sign: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right} = {self.result}"


@cache
def known_material() -> Mapping[str, Any]:
    """Return what new problems are made of."""
    path = Path(__file__).with_name("word_problems.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def check_steps(steps: int) -> None:
    """Refuse numbers of steps that are not made."""
    if not FEWEST_STEPS <= steps <= MOST_STEPS:
        got = printable(str(steps), 40)
        raise UsageError(f"steps: got {got}; allowed are {FEWEST_STEPS} to {MOST_STEPS}")


def new_problem(rng: np.random.Generator, steps: int = 2) -> dict[str, Any]:
    """Return a new word problem with its answer and its solution.

    Parameters
    ----------
    rng : numpy.random.Generator
        What it depends on.
    steps : int, default 2
        Things that happen before the question, 2 to 6. Some take two lines of arithmetic.

    Returns
    -------
    dict
        ``text``, ``answer`` (a whole number, as text), ``solution`` (lines such as
        ``12 * 3 = 36``) and ``steps``.

    Raises
    ------
    UsageError
        For another number of steps.

    Examples
    --------
    >>> problem = new_problem(np.random.default_rng(1))
    >>> check_problem(problem)
    >>> problem["solution"].splitlines()[-1].endswith(f" = {problem['answer']}")
    True
    """
    check_steps(steps)
    known = known_material()
    setting = known["settings"][int(rng.integers(len(known["settings"])))]
    people = rng.permutation(known["names"])
    number = int(rng.integers(known["start"][0], known["start"][1] + 1))
    slots = {**setting, "name": str(people[0]), "n": number}
    sentences = [_one(known["beginnings"], rng).format(**slots)]
    question, previous = _one(known["endings"], rng), ""
    connectors = rng.permutation(known["connectors"])
    lines: list[Line] = []
    for step in range(steps):
        operation, new, worked = _draw_step(number, previous, step == steps - 1, rng)
        slots |= {**new, "other": str(people[step + 1])}
        words = connectors[step] + _one(operation["wordings"], rng).format(**slots)
        sentences.append(words[0].upper() + words[1:])
        question, previous = operation.get("question", question), operation["name"]
        lines += worked
        number = worked[-1].result
    return {
        "text": " ".join([*sentences, question.format(**slots)]), "answer": f"{number}",
        "solution": "\n".join(map(str, lines)), "steps": steps,
    }  # fmt: skip


def _one(values: Sequence[str], rng: np.random.Generator) -> str:
    """Return one of several texts at random."""
    return values[int(rng.integers(len(values)))]


def _draw_step(
    number: int, previous: str, last: bool, rng: np.random.Generator
) -> tuple[Mapping[str, Any], dict[str, int], list[Line]]:
    """Return an operation with its new numbers and its lines, other than the one before."""
    operations = [
        each
        for each in known_material()["operations"]
        if each["name"] != previous and (last or "question" not in each)
    ]
    # Few things can be added to and many can be taken from, so the search ends.
    while True:
        operation = operations[int(rng.integers(len(operations)))]
        for _ in range(_TRIES):
            ranges = {slot: operation[slot] for slot in "np" if slot in operation}
            new = {slot: int(rng.integers(low, high + 1)) for slot, (low, high) in ranges.items()}
            worked = _work(operation["lines"], {"q": number, **new})
            if all(_LOWEST <= line.result <= _HIGHEST for line in worked):
                return operation, new, worked


def _work(lines: Sequence[str], values: dict[str, int]) -> list[Line]:
    """Return the arithmetic of an operation; where it leaves a fraction, the result is 0."""
    worked = []
    for line in lines:
        left, sign, right = line.split()
        a, b = (values[part] if part in values else int(part) for part in (left, right))
        values["r"] = result = _result(a, sign, b)
        worked.append(Line(a, sign, b, result))
    return worked


def _result(a: int, sign: str, b: int) -> int:
    """Return the result of two numbers, or 0 for a fraction."""
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case _:
            return a // b if b and a % b == 0 else 0


def check_problem(record: Mapping[str, Any]) -> None:
    """Raise a DuplicateError unless the solution of a problem leads from its text to its answer."""
    texts = str(record.get("solution", "")).splitlines()
    found = [_LINE.fullmatch(text) for text in texts]
    lines = [Line(int(m[1]), m[2], int(m[3]), int(m[4])) for m in found if m]
    if not lines or len(lines) < len(texts):
        unread = [text for text, match in zip(texts, found, strict=True) if not match]
        raise DuplicateError(
            "a line of its solution is no sum such as 12 * 3 = 36", join_list(unread)
        )
    text = str(record.get("text", ""))
    given = {int(digits) for digits in re.findall(r"\d+", text)}
    given |= {number for word, number in _WORDS.items() if word in text.split()}
    for at, line in enumerate(lines):
        earlier = {each.result for each in lines[:at]}
        if line.result != _result(line.left, line.sign, line.right) or line.result <= 0:
            raise DuplicateError("a line of its solution is wrong", str(line))
        if not {line.left, line.right} <= given | earlier:
            raise DuplicateError("a number of its solution is not in its text", str(line))
    for at, line in enumerate(lines[:-1]):
        # An operation of two lines needs the number before it in its second line only.
        if not any(line.result in (after.left, after.right) for after in lines[at + 1 : at + 3]):
            raise DuplicateError("a line of its solution leads nowhere", str(line))
    if record.get("answer") != f"{lines[-1].result}":
        reason = "its answer is not what its solution leads to"
        raise DuplicateError(reason, printable(str(record.get("answer")), 40))
    steps = record.get("steps")
    if not isinstance(steps, int) or not FEWEST_STEPS <= steps <= len(lines) <= 2 * steps:
        reason = "its number of steps is not that of its solution"
        raise DuplicateError(reason, printable(str(steps), 40))
