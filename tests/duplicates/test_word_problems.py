"""Word problems: made, worked by another parser, and checked."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.word_problems import (
    check_problem,
    check_steps,
    known_material,
    new_problem,
)
from bayescontam.errors import UsageError

# What sentences do to the number of things: by their words, and their numbers in order.
MEANINGS: list[tuple[str, Callable[..., Fraction]]] = [
    (r"gets (\d+) more [\w ]+ on each of the following (\d+) days", lambda q, n, p: q + n * p),
    (r"for (\d+) days in a row, \w+ adds (\d+) ", lambda q, p, n: q + n * p),
    (r"gets (\d+) more|brings \w+ (\d+) more|finds another (\d+)", lambda q, n: q + n),
    (r"hands in (\d+) broken [\w ]+ and gets (\d+) new", lambda q, n, p: q - n + p),
    (r"takes (\d+) of the [\w ]+ and brings \w+ (\d+) others", lambda q, n, p: q - n + p),
    (r"(\d+) \w+ come by, and each of them takes (\d+) ", lambda q, p, n: q - n * p),
    (r"gives away (\d+) of|takes (\d+) [\w ]+ from \w+\.$", lambda q, n: q - n),
    (r"hands over (\d+) ", lambda q, n: q - n),
    (r"twice as many", lambda q: 2 * q),
    (r"(\d+) times as many", lambda q, n: q * n),
    (r"half of the", lambda q: q / 2),
    (r"so that each of (\d+) people|into (\d+) equal heaps", lambda q, n: q / n),
    (r"buys (\d+) packs of (\d+)|leaves (\d+) bags for \w+, with (\d+)", lambda q, p, n: q + n * p),
    (r"gives (\d+) [\w ]+ to each of (\d+)", lambda q, n, p: q - n * p),
    (r"sells all of the [\w ]+ for (\d+) coins|pays (\d+) coins for each", lambda q, n: q * n),
    (r"with (\d+) in each|always (\d+) together", lambda q, n: q / n),
]


def worked(text: str) -> tuple[Fraction, int]:
    """Return the answer of a problem and its number of steps, by its sentences alone."""
    first, *steps, question = re.split(r"(?<=[.?]) ", text)
    assert question.endswith("?")
    [start] = re.findall(r"\d+", first)
    number = Fraction(start)
    for sentence in steps:
        for pattern, meaning in MEANINGS:
            if match := re.search(pattern, sentence, re.IGNORECASE):
                number = meaning(number, *(int(part) for part in match.groups() if part))
                break
        else:
            raise AssertionError(sentence)
        assert number > 0
        assert number.denominator == 1
    return number, len(steps)


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 6])
def test_answers_follow_from_the_texts(steps: int) -> None:
    for seed in range(200):
        problem = new_problem(np.random.default_rng(seed), steps)
        assert worked(problem["text"]) == (Fraction(problem["answer"]), steps)
        check_problem(problem)
        assert problem["steps"] == steps
        assert not re.search(r"[{}]|  | 1 ", problem["text"])


def test_all_operations_and_settings_occur_and_problems_differ() -> None:
    problems = [new_problem(np.random.default_rng(seed), 2 + seed % 5) for seed in range(1500)]
    texts = [problem["text"] for problem in problems]
    assert len({*texts}) == len(texts)
    known = known_material()
    assert len(known["settings"]) >= 12
    assert len([each for each in known["operations"] if "question" not in each]) >= 8
    for setting in known["settings"]:
        assert any(setting["place"] in text and setting["things"] in text for text in texts)
    for operation in known["operations"]:
        assert len(operation["wordings"]) >= 2
        for wording in operation["wordings"]:
            words = re.sub(r"\\\{\w+\\\}", r"[\\w ]+", re.escape(wording))
            assert any(re.search(words, text, re.IGNORECASE) for text in texts)


def test_there_are_more_than_a_million_problems_of_two_steps() -> None:
    # Of one setting, one beginning, one ending, and no wording but the first: starts, and pairs
    # of gains and gifts; times settings and names.
    known = known_material()
    low, high = known["start"]
    sizes = {each["name"]: each["n"][1] - each["n"][0] + 1 for each in known["operations"]
             if "n" in each}  # fmt: skip
    pairs = (high - low + 1) * sizes["gain"] * sizes["give"] // 2
    assert pairs * len(known["settings"]) * len(known["names"]) > 10**6


def test_problems_depend_on_the_seed_alone() -> None:
    one, same, other = (new_problem(np.random.default_rng(seed), 4) for seed in (5, 5, 6))
    assert one == same != other


PROBLEM: dict[str, Any] = {
    "text": "Ada has 12 pens. She has twice as many soon. 3 friends bring 4 pens each. How many?",
    "answer": "36", "solution": "12 * 2 = 24\n3 * 4 = 12\n24 + 12 = 36", "steps": 2,
}  # fmt: skip


def test_a_right_problem_passes() -> None:
    check_problem(PROBLEM)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answer": "35"}, "its answer is not what its solution leads to: 35"),
        ({"answer": 36}, "its answer is not what its solution leads to"),
        ({"solution": ""}, "is no sum such as"),
        ({"solution": "12 * 2 = 24\nso 36"}, "is no sum such as.*'so 36'"),
        (
            {"solution": "12 * 2 = 25\n25 + 12 = 37"},
            r"a line of its solution is wrong: 12 \* 2 = 25",
        ),
        ({"solution": "3 - 12 = 9\n9 + 12 = 21"}, "is wrong: 3 - 12 = 9"),
        ({"solution": "12 - 12 = 0\n0 + 12 = 12"}, "is wrong: 12 - 12 = 0"),
        ({"solution": "4 / 3 = 1\n1 + 12 = 13"}, "is wrong: 4 / 3 = 1"),
        ({"solution": "4 / 0 = 0\n0 + 12 = 12"}, "is wrong: 4 / 0 = 0"),
        ({"solution": "12 * 2 = 24\n24 + 17 = 41"}, "is not in its text: 24"),
        ({"solution": "12 * 2 = 24\n3 * 4 = 12\n3 + 4 = 7"}, "leads nowhere: 12"),
        ({"solution": "12 * 2 = 24"}, "its answer is not what its solution leads to"),
        ({"solution": "12 * 3 = 36"}, "its number of steps is not that of its solution: 2"),
        ({"steps": 4}, "its number of steps is not that of its solution: 4"),
        ({"steps": None}, "its number of steps is not that of its solution: None"),
        ({"text": PROBLEM["text"].replace("twice", "thrice")}, "is not in its text: 12"),
    ],
)
def test_faults_are_found(change: dict[str, object], reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        check_problem(PROBLEM | change)


@pytest.mark.parametrize("steps", [1, 7, 0, -3])
def test_other_numbers_of_steps_are_refused(steps: int) -> None:
    with pytest.raises(UsageError, match="allowed are 2 to 6"):
        check_steps(steps)
    with pytest.raises(UsageError, match="allowed are 2 to 6"):
        new_problem(np.random.default_rng(1), steps)
