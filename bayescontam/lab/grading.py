"""Which replies are right: the answer itself, its number, what a pattern finds, or passed tests."""

import ast
import contextlib
import json
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

import numpy as np

from bayescontam._text import printable
from bayescontam._types import IntArray
from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.kinds import Code, kind_of
from bayescontam.duplicates.programs import Program, check_tests, code_in_reply
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.numbers import numbers_in
from bayescontam.specs.lab import Answers
from bayescontam.specs.recipe import Recipe
from bayescontam.specs.registry import load_recipe

_MARKS = re.compile("[*`]")
"""Marks of emphasis and code in Markdown."""

type Replies = Sequence[Sequence[str]]
"""Replies to each question."""


class Grades(NamedTuple):
    """Numbers of right and of wrong replies to each question, (questions,) each."""

    right: IntArray
    wrong: IntArray


def grade_replies(replies: Replies, items: Sequence[Mapping[str, Any]], answers: Answers) -> Grades:
    """Count right and wrong replies, as the spec of a lab has them graded.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    items : sequence of mapping
        Items of a lab: their ``answer``; where tests decide, their ``record``, and the name of the
        ``recipe`` by which it is read.
    answers : Answers
        Block ``answers`` of a lab's spec, which names the grade.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Raises
    ------
    DataError
        If an item cannot be graded.

    Examples
    --------
    >>> spec = Answers(grade="regex", pattern="is ([0-9]+)")
    >>> grade_replies([["It is 7.", "7"]], [{"answer": "7"}], spec).right.tolist()
    [1]
    """
    if answers.grade == "tests":
        right, wrong = np.zeros((2, len(items)), np.int64)
        for name in dict.fromkeys(item["recipe"] for item in items):
            rows = [row for row, item in enumerate(items) if item["recipe"] == name]
            records = [items[row]["record"] for row in rows]
            try:
                own = grade_tests([replies[row] for row in rows], records, load_recipe(name))
            except DataError as error:  # of a row of these
                faults = [
                    replace(fault, row=rows[(fault.row or 1) - 1] + 1) for fault in error.faults
                ]
                raise DataError(faults, error.advice) from error
            right[rows], wrong[rows] = own
        return Grades(right, wrong)
    wanted = [str(item["answer"]) for item in items]
    if answers.grade == "regex":
        return grade_regex(replies, wanted, answers.pattern)
    return (grade_number if answers.grade == "number" else grade_exact)(replies, wanted)


def counted_answer(answer: str, answers: Answers) -> str:
    """Return what of an answer counts: its number, what the pattern finds, or all of it.

    >>> counted_answer("It is 1,007 .", Answers(grade="number"))
    '1007'
    """
    if answers.grade == "number":
        return next((number.text for number in numbers_in(_final(answer))), answer)
    found = re.search(answers.pattern, answer) if answers.grade == "regex" else None
    return found[1] if found and found[1] else answer


def grade_exact(replies: Replies, answers: Sequence[str]) -> Grades:
    """Count replies that are the answer, but for white space and a full stop at the end.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    answers : sequence of str
        Right answer of each question.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Examples
    --------
    >>> right, wrong = grade_exact([["7 .", "7", "8 ."]], ["7"])
    >>> right.tolist(), wrong.tolist()
    ([2], [1])
    """
    return _grade(replies, [_plain(answer) for answer in answers], _plain)


def grade_number(replies: Replies, answers: Sequence[str]) -> Grades:
    """Count replies whose last number has the value of the answer's; see `numbers_in`.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    answers : sequence of str
        Right answer of each question, which has one number, or one fraction; of a solution that
        ends in ``#### 72``, as those of GSM8K do, what follows the signs.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Raises
    ------
    DataError
        If an answer has no number, or several, of which none is known to be the answer.

    Examples
    --------
    >>> grade_number([["so 3 + 4 = 7 .", "none"]], ["7.0"]).right.tolist()
    [1]
    """
    wanted, faults = [], []
    for row, answer in enumerate(answers, start=1):
        own = [number.value for number in numbers_in(_final(answer))]
        wanted.append(own[-1] if own else None)
        if len(own) != 1:
            shown = f"'{printable(answer, 60)}'"
            cause = f"{{}} has {f'{len(own):,} numbers' if own else 'no number'}; needed is one"
            faults.append(
                Fault("answers", cause.replace("{}", shown), row, cause=cause, value=shown)
            )
    if faults:
        advice = "Give the answer as one number, or grade by a pattern ('regex') that finds it."
        raise DataError(faults, advice)
    return _grade(replies, wanted, _last_number)


def grade_regex(replies: Replies, answers: Sequence[str], pattern: str) -> Grades:
    """Count replies in which a pattern finds the answer.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    answers : sequence of str
        Right answer of each question, or a solution in which the pattern finds it.
    pattern : str
        Regular expression. Of its first match in a reply, the first group is held against the
        answer as `grade_exact` does, but for the marks of emphasis and code around it, and JSON
        by its values. Where nothing matches, the reply without all such marks is searched; a
        reply without a match is wrong.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Examples
    --------
    >>> replies = [["2 + 5 = 7 #### 7", "7"], ["#### 8"]]
    >>> grade_regex(replies, ["7", "3 + 5 = 8 #### 8"], "#### (.+)").right.tolist()
    [1, 1]
    """
    found = re.compile(pattern)
    if not found.groups:
        raise UsageError(f"pattern: '{printable(pattern, 60)}' has no group for the answer")

    def read(text: str) -> str | None:
        match = found.search(text) or found.search(_MARKS.sub("", text))
        return _found(match[1] or "") if match else None

    # An answer that is empty would make every reply right in which the group is.
    return _grade(replies, [read(answer) or _found(answer) for answer in answers], read)


def grade_tests(
    replies: Replies,
    items: Sequence[Mapping[str, Any]],
    recipe: Recipe,
    *,
    seconds: float = 5.0,
    megabytes: int = 512,
) -> Grades:
    """Count replies whose program passes the tests of its item, in the sandbox of `duplicates/`.

    Of a reply with code in fences the last block counts that defines the function under test;
    else all of it. Where the text of an item begins the program, as in HumanEval, a reply that
    does not define the function continues it; one that does stands in its place, after what
    precedes the function there.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    items : sequence of mapping
        Records of programming tasks, with the fields that the recipe names.
    recipe : Recipe
        Of the kind ``"code"``, such as ``load_recipe("mbpp")``.
    seconds, megabytes : float, default 5 and 512
        Limits of time and memory for each program.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Raises
    ------
    DataError
        If a record is no task, or its own solution does not pass its tests.
    MissingExtraError
        Where there is no sandbox: then nothing is run.

    Examples
    --------
    >>> from bayescontam.specs.registry import load_recipe
    >>> task = {"prompt": "Double n.", "code": "def twice(n): return 2 * n"}
    >>> task["test_list"] = ["assert twice(2) == 4"]
    >>> replies = [["def twice(n): return n + n", "def twice(n): return n"]]
    >>> grade_tests(replies, [task], load_recipe("mbpp")).right  # doctest: +SKIP
    array([1])
    """
    kind = kind_of(recipe)
    if not isinstance(kind, Code):
        raise UsageError(f"recipe '{printable(recipe.name, 60)}': is for no programs; choose one")
    tasks, faults = [], []
    for row, item in enumerate(items, start=1):
        try:
            version = kind.read(item)
            tasks.append((version.content, version.text if recipe.fields.begins else ""))
        except DuplicateError as error:
            faults.append(Fault("items", printable(str(error), 400), row))
    if faults:
        raise DataError(faults, "programs are graded by tests that a right one passes")

    def passes(program: Program, code: str) -> bool:
        try:
            check_tests(program, code, seconds=seconds, megabytes=megabytes)
        except DuplicateError:
            return False
        return True

    right = []
    for (program, beginning), own in zip(tasks, replies, strict=True):
        known = cache(partial(passes, program))  # replies may be alike
        right.append(sum(known(_program(reply, program, beginning)) for reply in own))
    return _grades(right, replies)


def _program(reply: str, program: Program, beginning: str) -> str:
    """Return the program that a reply is, or that it is the end of."""
    code = code_in_reply(reply, program.function)
    name = rf"(?:async\s+)?def\s+{re.escape(program.function)}\b"
    if not beginning:
        return code
    if re.search(rf"^\s*{name}", code, re.MULTILINE):
        # What stands before the function, such as imports and helpers, the reply may rely on.
        before = re.search(rf"^(?:@.*\n)*{name}", beginning, re.MULTILINE)
        above, own = map(_without_futures, (beginning[: before.start()] if before else "", code))
        # Python wants these first.
        return "\n".join([*above.futures, *own.futures, above.rest, own.rest])
    if code is reply:
        return beginning + code
    # Of fences, without its indentation: that of the function's body.
    indents = re.findall(rf"^{name}.*\n(?:\s*\n)*([ \t]+)\S", beginning, re.MULTILINE)
    return f"{beginning.rstrip()}\n{textwrap.indent(code, indents[-1] if indents else ' ' * 4)}"


class _Parts(NamedTuple):
    """A program in two parts."""

    futures: list[str]  # imports from __future__ with which it begins
    rest: str


def _without_futures(code: str) -> _Parts:
    """Return the imports from __future__ with which a program begins, and the program without."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of escapes in strings
            statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Parts([], code)
    documented = ast.get_docstring(ast.Module(statements, [])) is not None
    found = [*takewhile(_is_future, statements[1:] if documented else statements)]
    rest = code.encode()
    starts = [0, *accumulate(map(len, rest.splitlines(keepends=True)))]
    for each in reversed(found):
        start = starts[each.lineno - 1] + each.col_offset
        end = starts[(each.end_lineno or each.lineno) - 1] + (each.end_col_offset or 0)
        rest = rest[:start] + b"pass" + rest[end:]
    return _Parts([*map(ast.unparse, found)], rest.decode())


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _grade(replies: Replies, wanted: Sequence[object], read: Callable[[str], object]) -> Grades:
    """Count the replies that read as what is wanted."""
    pairs = zip(replies, wanted, strict=True)
    return _grades([sum(read(reply) == want for reply in own) for own, want in pairs], replies)


def _grades(right: Sequence[int], replies: Replies) -> Grades:
    """Return grades where so many replies to each question are right."""
    counts = np.array(right, np.int64)
    return Grades(counts, np.array([len(own) for own in replies], np.int64) - counts)


def _plain(text: str) -> str:
    """Return a text with single spaces, and without a full stop at the end."""
    return " ".join(text.split()).removesuffix(".").rstrip()


def _found(text: str) -> str:
    """Return what a pattern found without marks around it and a full stop; JSON by its values."""
    plain = " ".join(text.split())
    inside = re.sub(r"^[\s*`]+|[\s*`.]+$", "", plain)
    if inside.startswith(("{", "[")):
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(json.loads(inside, parse_float=_json_number), sort_keys=True)
    return inside or plain


def _json_number(text: str) -> float | int:
    """Return a number of JSON with decimals, as a whole number if it is one."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _final(answer: str) -> str:
    """Return the final answer of a solution as GSM8K writes it, or all of an answer."""
    return answer.rpartition("####")[2]


def _last_number(text: str) -> Fraction | None:
    """Return the value of the last number of a text."""
    values = [number.value for number in numbers_in(text)]
    return values[-1] if values else None
