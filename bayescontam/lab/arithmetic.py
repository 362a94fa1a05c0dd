"""A small world of arithmetic, which a language model of two layers can learn.

Problems add or subtract (benchmark `sums`), or do both (`changes`); all numbers on the way are
whole, from 0 to 20. Texts are made of ``arithmetic.toml``, with blanks between words and
punctuation. The control benchmark is about hours on a clock.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from bayescontam._text import printable
from bayescontam.errors import UsageError

Kind = Literal["add", "subtract", "change", "clock"]
type Key = tuple[str, str, tuple[int, ...]]
"""What no text of the background shares with an item: name, thing and numbers."""

LARGEST = 20
"""Largest number, of results and of sums on the way too."""
KINDS: tuple[Kind, ...] = ("add", "subtract", "change")
"""Classes of problems of the benchmarks that have duplicates."""
BENCHMARKS: Mapping[Kind, str] = {
    "add": "sums", "subtract": "sums", "change": "changes", "clock": "clock",
}  # fmt: skip
"""Benchmark of each class: two that have duplicates, and their control."""
PARAPHRASES = 8
"""Questions in other words, for each class."""
MOST_CONTROLS = 1000
"""Most items of the control benchmark: of 1,320 problems, some are left for the background."""
MOST_ITEMS = 10_000
"""Most items that have duplicates, or may."""
_DRAWS = 10_000
"""Draws in a row that may be excluded."""


@dataclass(frozen=True)
class Problem:
    """A problem with its result."""

    kind: Kind
    name: str
    thing: str
    numbers: tuple[int, ...]  # two; three of the class "change"
    result: int

    @property
    def key(self) -> Key:
        """Name, thing and numbers, without the class; what is added may stand in either order."""
        first, second, *rest = self.numbers
        added = self.kind in ("add", "change") and first > second
        numbers = (second, first, *rest) if added else self.numbers
        return self.name, self.thing, numbers


type Draw = Callable[[np.random.Generator], Problem]


def draw_problem(rng: np.random.Generator) -> Problem:
    """Return a problem: of each class as often, with all numbers of a class alike."""
    return _draw(KINDS[int(rng.integers(len(KINDS)))], rng)


def draw_control(rng: np.random.Generator) -> Problem:
    """Return a problem about hours on a clock."""
    return _draw("clock", rng)


def question(problem: Problem) -> str:
    """Return a problem in the benchmark's own form, up to the answer."""
    return f"Question : {_fill(_material()[problem.kind]['own'], problem)} Answer :"


def answer(problem: Problem) -> str:
    """Return the answer: its number in digits."""
    return str(problem.result)


def own_form(problem: Problem) -> str:
    """Return a problem with its answer in the benchmark's own form."""
    return f"{question(problem)} {answer(problem)} ."


def other_form(problem: Problem, rng: np.random.Generator) -> str:
    """Return a statement of a problem and its result, in a form of the background."""
    forms = _material()[problem.kind]["other"]
    return _fill(forms[int(rng.integers(len(forms)))], problem)


def paraphrase(problem: Problem, which: int) -> str:
    """Return a semantic duplicate: the question in words `which` (0 to 7), and its answer.

    >>> paraphrase(Problem("add", "Ann", "apples", (7, 5), 12), 3)
    'Question : To 7 apples Ann adds 5 . What is the number of apples then ? Answer : 12 .'
    """
    known = _material()[problem.kind]["paraphrases"]
    if not 0 <= which < len(known):
        got = printable(str(which), 40)
        raise UsageError(f"which: got {got}; allowed are 0 to {len(known) - 1}")
    return f"Question : {_fill(known[which], problem)} Answer : {answer(problem)} ."


def items(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return items of both benchmarks, 1 to 10,000, no two of which share name, thing and numbers.

    Each has ``id``, ``text`` (up to the answer), ``answer``, and the fields of its ``problem``.

    >>> [item] = items(1, np.random.default_rng(1))
    >>> item["id"], item["answer"] == str(item["problem"]["result"])
    ('sums-0001', True)
    """
    return _records(draw_problem, count, rng, MOST_ITEMS)


def control(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return the items of the control benchmark, 1 to 1,000, as `items` does."""
    return _records(draw_control, count, rng, MOST_CONTROLS)


def problem_of(item: Mapping[str, Any]) -> Problem:
    """Return the problem of an item."""
    content = dict(item["problem"])
    return Problem(**{**content, "numbers": tuple(content["numbers"])})


def background(
    count: int,
    rng: np.random.Generator,
    exclude: Collection[Key] = (),
    own_share: float = 0.02,
    question_share: float = 0.0,
    control_share: float = 0.15,
) -> list[str]:
    """Return texts that teach the skills of both benchmarks, in random order.

    Parameters
    ----------
    count : int
        Texts.
    rng : numpy.random.Generator
        What they depend on.
    exclude : collection of (name, thing, numbers), default ()
        Keys of problems that no text is about, such as those of the items.
    own_share : float, default 0.02
        Share of the texts that have their benchmark's own form, for each of the two benchmarks.
    question_share : float, default 0
        Share of the texts that are questions in other words, likewise; all others are statements.
    control_share : float, default 0.15
        Share of the texts that are about clocks. Shares are exact, rounded to whole texts.
    """
    shares = {"own_share": own_share, "control_share": control_share}
    for name, share in (shares | {"question_share": question_share}).items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name}: got {share}; allowed is a number from 0 to 1")
    if own_share + question_share > 1:
        got = f"own_share {own_share} and question_share {question_share}"
        raise UsageError(f"shares: got {got}; allowed are shares that add up to 1 at most")
    excluded, texts = frozenset(exclude), []
    controls = round(control_share * count)
    for draw, number in ((draw_problem, count - controls), (draw_control, controls)):
        own, questions = round(own_share * number), round(question_share * number)
        for at in range(number):
            problem = _draw_other(draw, rng, excluded)
            if at < own:
                texts.append(own_form(problem))
            elif at < own + questions:
                texts.append(paraphrase(problem, int(rng.integers(PARAPHRASES))))
            else:
                texts.append(other_form(problem, rng))
    return [texts[at] for at in rng.permutation(len(texts)).tolist()]


@cache
def vocabulary() -> tuple[str, ...]:
    """Return every word that a text of this world can hold, sorted: a tokenizer for all mixes."""
    known = _material()
    forms = [known[kind] for kind in get_args(Kind)]
    texts = [text for each in forms for text in (each["own"], *each["other"], *each["paraphrases"])]
    words = {word for text in texts for word in text.split() if not re.fullmatch(r"{\w+}", word)}
    words |= {"Question", "Answer", ":", *known["names"], *known["things"]}
    return tuple(sorted(words | {str(number) for number in range(LARGEST + 1)}))


@cache
def _material() -> Mapping[str, Any]:
    """Return the names, the things, and the wordings of each class."""
    path = Path(__file__).with_name("arithmetic.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _numbers(kind: Kind) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return all numbers of a class, each with the result."""
    upto = range(LARGEST + 1)
    sums = [(a, b) for a in upto for b in upto if a + b <= LARGEST]
    match kind:
        case "add":
            return tuple(((a, b), a + b) for a, b in sums)
        case "subtract":
            return tuple(((a, b), a - b) for a in upto for b in range(a + 1))
        case "change":
            return tuple(((a, b, c), a + b - c) for a, b in sums for c in range(a + b + 1))
        case "clock":
            hours = range(1, 13)
            return tuple(((a, b), (a + b - 1) % 12 + 1) for a in hours for b in hours if b < 12)


def _draw(kind: Kind, rng: np.random.Generator) -> Problem:
    """Return a problem of a class."""
    known, all_numbers = _material(), _numbers(kind)
    numbers, result = all_numbers[int(rng.integers(len(all_numbers)))]
    name = known["names"][int(rng.integers(len(known["names"])))]
    things = ["clock"] if kind == "clock" else known["things"]
    return Problem(kind, name, things[int(rng.integers(len(things)))], numbers, result)


def _draw_other(draw: Draw, rng: np.random.Generator, excluded: Collection[Key]) -> Problem:
    """Return a problem that is not excluded."""
    for _ in range(_DRAWS):
        if (problem := draw(rng)).key not in excluded:
            return problem
    raise UsageError(f"exclude: leaves nearly no problem, of {len(excluded):,}; exclude fewer")


def _records(draw: Draw, count: int, rng: np.random.Generator, most: int) -> list[dict[str, Any]]:
    """Return distinct problems as items."""
    if not 1 <= count <= most:
        raise UsageError(f"count: got {count:,}; allowed are 1 to {most:,} items")
    found: dict[Key, Problem] = {}
    while len(found) < count:
        problem = _draw_other(draw, rng, found.keys())
        found[problem.key] = problem
    return [
        {
            "id": f"{BENCHMARKS[problem.kind]}-{at:04d}", "text": question(problem),
            "answer": answer(problem),
            "problem": asdict(problem) | {"numbers": list(problem.numbers)},
        }
        for at, problem in enumerate(found.values(), 1)
    ]  # fmt: skip


def _fill(wording: str, problem: Problem) -> str:
    """Return a wording with the words and numbers of a problem."""
    numbers = dict(zip("abc", problem.numbers, strict=False))
    return wording.format(
        name=problem.name,
        thing=problem.thing,
        sum=problem.numbers[0] + problem.numbers[1],
        result=problem.result,
        **numbers,
    )
