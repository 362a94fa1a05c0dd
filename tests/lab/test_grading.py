"""Grades of replies against answers worked out by hand, and programs that are run."""

from typing import Any

import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.lab.grading import (
    Grades,
    counted_answer,
    grade_exact,
    grade_number,
    grade_regex,
    grade_replies,
    grade_tests,
)
from bayescontam.specs.lab import Answers
from bayescontam.specs.registry import load_recipe
from tests.support.sandboxed import sandbox

__all__ = ["sandbox"]


def counts(grades: Grades) -> list[list[int]]:
    return [part.tolist() for part in grades]


REPLIES = [["7 .", " 7", "seven", "17 ."], ["-2 apples", "1,000.50 ."]]


def test_exact_replies_are_the_answer_but_for_space_and_a_full_stop() -> None:
    assert counts(grade_exact(REPLIES, ["7", "1,000.50"])) == [[2, 1], [2, 1]]
    assert counts(grade_exact([["a  b.\n", "a b ..", ""]], ["a b"])) == [[1], [2]]


def test_the_last_number_counts() -> None:
    assert counts(grade_number(REPLIES, ["7.0", "1000.5"])) == [[2, 1], [2, 1]]
    assert grade_number([["3 - 5 = -2 ."]], ["it is -2"]).right.tolist() == [1]
    assert counts(grade_number([["", "no number"]], ["0"])) == [[0], [2]]
    with pytest.raises(DataError, match="answers: row 2: 'none' has no number"):
        grade_number(REPLIES, ["7", "none"])


def test_numbers_count_by_their_value() -> None:
    replies = [["−5", "- 5", "5"], ["0.5", ".5", "\\frac{1}{2}", "3/2"], ["5 m2", "10-7"]]
    assert counts(grade_number(replies, ["-5", "1/2", "5"])) == [[2, 3, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("12:30", "has 2 numbers"), ("2024-05-12", "has 3 numbers"), ("B12", "has no number")],
)
def test_an_answer_is_one_number(answer: str, problem: str) -> None:
    with pytest.raises(DataError, match=f"answers: row 2: '{answer}' {problem}; needed is one"):
        grade_number([["7"], ["30"]], ["7", answer])


def test_emphasis_and_code_marks_do_not_count() -> None:
    right = [
        "ANSWER: B",
        "**ANSWER:** B",
        "ANSWER: `B`",
        "ANSWER: **B**.",
        "*ANSWER*: B",
        "ANSWER: B.**",
    ]
    wrong = ["ANSWER: **C**", "ANSWER:", "ANSWER: ..."]
    found = grade_regex([right + wrong], ["B"], "ANSWER: (.+)")
    assert counts(found) == [[len(right)], [len(wrong)]]
    # What is searched first is the reply as it is.
    assert grade_regex([["f: a * b", "f: a b"]], ["a * b"], "f: (.+)").right.tolist() == [1]


def test_json_counts_by_its_values() -> None:
    replies = ['{"a": 1.0}', '`{"a":1}`.', '{"a": true}', '{"a": 1.5}', "[" * 100_000]
    found = grade_regex([replies], ['{"a": 1}'], "(?s)(.+)")
    assert counts(found) == [[2], [3]]


def test_a_pattern_finds_the_answer() -> None:
    replies = [["A is (B).", "(A) or (B)", "B", "(b)"], ["( C. )", "(C) (D)", "()", ""]]
    assert counts(grade_regex(replies, ["B", "C"], r"\((.*?)\)")) == [[1, 2], [3, 2]]
    # A solution as answer: the pattern finds what counts.
    worked = ["4 + 3 = 7\n#### 7"]
    assert counts(grade_regex([["#### 7", "7", "#### 8"]], worked, "#### (.+)")) == [[1], [2]]


def test_a_reply_without_a_match_is_never_right() -> None:
    table, spaced = '{"rows":[["1","Ann"]]}', '{ "rows": [ ["1", "Ann"] ] }'
    assert counts(grade_regex([[f"A: {spaced}", "A: {]"]], [table], "A: (.*)")) == [[1], [1]]
    assert counts(grade_regex([["**A: Ann**", "**A:** Ann."]], ["Ann"], r"A:(.*)")) == [[2], [0]]
    assert counts(grade_regex([["none", "x="]], [""], "x=(.*)")) == [[1], [1]]
    assert counts(grade_regex([["ac", "abc"]], ["b"], "a(b)?c")) == [[1], [1]]


def test_a_pattern_needs_a_group() -> None:
    with pytest.raises(UsageError, match=r"pattern: '\[0-9\]' has no group for the answer"):
        grade_regex([["7"]], ["7"], "[0-9]")


ITEMS: list[dict[str, Any]] = [{"answer": "7"}, {"answer": 12}]


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        (Answers(grade="exact"), [1, 0]),
        (Answers(grade="number"), [2, 1]),
        (Answers(grade="regex", pattern="is ([0-9]+)"), [1, 1]),
    ],
)
def test_the_spec_names_the_grade(answers: Answers, right: list[int]) -> None:
    replies = [["7.", "it is 7"], ["it is 12 .", "8"]]
    assert grade_replies(replies, ITEMS, answers).right.tolist() == right


MBPP: dict[str, Any] = {
    "task_id": 1, "prompt": "Write a function that doubles a number.",
    "code": "def twice(n):\n    return 2 * n", "test_list": ["assert twice(3) == 6"],
    "test_imports": [],
}  # fmt: skip
FENCED = "So:\n```python\ndef twice(n):\n    return n + n\n```\nwhich adds."
HUMAN_EVAL: dict[str, Any] = {
    "task_id": "h/1", "prompt": 'def half(n):\n    """Halve a number."""\n',
    "canonical_solution": "    return n / 2\n", "entry_point": "half",
    "test": "def check(candidate):\n    assert candidate(4) == 2\n",
}  # fmt: skip


def test_programs_are_run_against_the_tests_of_their_items(sandbox: None) -> None:
    replies = [
        [FENCED, "def twice(n): return n * 2", "def twice(n): return n", "def twise(n): return 6"],
        [FENCED, "", "import os\nos._exit(0)", "while True: pass"],
    ]
    found = grade_tests(replies, [MBPP, MBPP], load_recipe("mbpp"), seconds=1)
    assert counts(found) == [[2, 1], [2, 3]]


def test_replies_continue_a_beginning_or_begin_anew(sandbox: None) -> None:
    replies = [
        ["    return n * 0.5", "def half(n):\n    return n / 2", "    return n", "return n"],
        ["    return n * 2", FENCED],
        ["    return n / 2", ""],
    ]
    items = [
        {"recipe": "humaneval", "record": HUMAN_EVAL}, {"recipe": "mbpp", "record": MBPP},
        {"recipe": "humaneval", "record": HUMAN_EVAL},
    ]  # fmt: skip
    found = grade_replies(replies, items, Answers(grade="tests"))
    assert counts(found) == [[2, 1, 1], [2, 1, 1]]


BEGINNING = '''import math
from typing import List

def total(xs: List[int]) -> int:
    return sum(xs)

def mean(xs: List[int]) -> float:
    """ Return the mean. """
'''
MEAN: dict[str, Any] = {
    "task_id": "h/2", "prompt": BEGINNING, "entry_point": "mean",
    "canonical_solution": "    return total(xs) / len(xs)\n",
    "test": "def check(mean):\n    assert mean([1, 3]) == 2\n    assert total([1]) == 1\n",
}  # fmt: skip


def test_what_precedes_a_function_is_there_where_it_is_written_anew(sandbox: None) -> None:
    anew = "def mean(xs: List[int]) -> float:\n    return total(xs) / len(xs)\n"
    replies = [
        anew, f"```python\n{anew}```", "```\n    return total(xs) / len(xs)\n```",
        "```\nif xs:\n    return total(xs) / len(xs)\n```", "    return math.fsum(xs) / len(xs)",
        f"from __future__ import annotations\n\n{anew}",
        "return 2", "```\nreturn 3\n```", anew.replace("/", "*"),
    ]  # fmt: skip
    found = grade_tests([replies], [MEAN], load_recipe("humaneval"))
    assert counts(found) == [[6], [3]]


@pytest.mark.parametrize(
    "start",
    [
        "# The mean.\nfrom __future__ import annotations\n",
        '"""The mean."""\n\nfrom __future__ import annotations  # noqa\n',
        "from __future__ import (\n    annotations,\n    division,\n)\n",
        "from __future__ import annotations; from __future__ import division; import math\n",
        "'é'; from __future__ import annotations\r\n",
    ],
)
@pytest.mark.parametrize("above", ["", "'A task.'\nfrom __future__ import division\n"])
def test_imports_from_the_future_stay_first(sandbox: None, start: str, above: str) -> None:
    anew = f"{start}def mean(xs: List[int]) -> float:\n    return total(xs) / len(xs)\n"
    late = f"import os\n{anew}"
    record = {**MEAN, "prompt": above + BEGINNING}
    assert counts(grade_tests([[anew, late]], [record], load_recipe("humaneval"))) == [[1], [1]]


def test_what_cannot_be_run_is_named(sandbox: None) -> None:
    wrong = {**MBPP, "code": "def twice(n): return n"}
    message = "items: row 2: its own solution is faulty: its code fails its tests"
    with pytest.raises(DataError, match=message):
        grade_tests([["x"], ["y"]], [MBPP, wrong], load_recipe("mbpp"))
    items = [{"recipe": "humaneval", "record": HUMAN_EVAL}, {"recipe": "mbpp", "record": wrong}]
    with pytest.raises(DataError, match=message):
        grade_replies([["x"], ["y"]], items, Answers(grade="tests"))


def test_tests_need_a_recipe_of_programs() -> None:
    with pytest.raises(UsageError, match="recipe 'musr': is for no programs"):
        grade_tests([["x"]], [MBPP], load_recipe("musr"))


def test_groups_of_three_digits_are_one_number_in_replies_and_answers() -> None:
    replies = ["The total is 125 500.", "125,500", "500"]
    for answer in ("125500", "125 500"):
        assert counts(grade_number([replies], [answer])) == [[2], [1]]


def test_the_answer_of_a_solution_of_gsm8k_follows_its_signs() -> None:
    solution = "She has 3 + 4 = <<3+4=7>>7 eggs, and sells 5.\n#### 1,072"
    assert counts(grade_number([["So 1072.", "7"]], [solution])) == [[1], [1]]
    assert counted_answer(solution, Answers(grade="number")) == "1072"
    with pytest.raises(DataError, match="numbers; needed is one"):
        grade_number([["7"]], [solution.replace("####", "thus")])
