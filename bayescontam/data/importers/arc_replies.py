"""Grids in the replies of language models: read, or unreadable with the reason."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from bayescontam.data.importers.arc import Grid, grid_problem

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNFINISHED = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_ANSWER = re.compile(
    r"\b(?:final|answers?|outputs?|results?|solution|predict(?:ion|ed)|attempt)\b", re.IGNORECASE
)
_INPUT = re.compile(r"\binputs?\b", re.IGNORECASE)
_NESTED = re.compile(r"[\[(]\s*[\[(]")
_PIPED = re.compile(r"(?<!\S)\|(?:\d+\|)+(?![^\s.,])")
_LABEL = re.compile(r"\s*(?:row|line|r)?\s*(\d+)\s*[:.)]\s+(?=\S)", re.IGNORECASE)
_ROW = re.compile(r"[\s\[\](){}|,'\"]*\d[\d\s\[\](){}|,'\"]*\.?\s*")
_FRAME = re.compile(r"[\s\[\](){},]+|[\s|+:=-]*[-=][\s|+:=-]*")
_DOTS = re.compile(r"\.\.\.|…")
_DIGITS, _WORD = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
_SIZE = re.compile(r"\d+\s*(?:[x×]|by)\s*\d+", re.IGNORECASE)
_MANY = 2  # numbers from which on a line beside a grid may be a row of it with a remark


@dataclass(frozen=True)
class Reply:
    """What a reply answers: a grid, or why none can be read."""

    grid: Grid | None
    reason: str = ""


@dataclass(frozen=True)
class _Block:
    """A part of a text that looks like a grid."""

    start: int
    end: int
    grid: Grid | None
    problem: str = ""


def read_reply(text: str) -> Reply:
    r"""Read the grid that a reply answers with.

    Grids may be nested lists with or without commas, rows of digits with or without brackets,
    separators, labels and code fences, or ``|012|345|``, with prose around them. What a model
    thought before (``<think>``) does not count, nor do grids that are labelled as input. Among
    several grids the one after the last word such as "output" or "answer" counts. Nothing is
    guessed: several grids without such a word, rows of different lengths, a line among the rows
    that is none, or an end within the grid make a reply unreadable.

    Parameters
    ----------
    text : str

    Returns
    -------
    Reply
        ``grid``, a list of rows of colours from 0 to 9, or None with a ``reason``.

    Examples
    --------
    >>> from bayescontam.data.importers.arc_replies import read_reply
    >>> read_reply("The output is:\n[2 1 0]\n[0 0 7]").grid
    [[2, 1, 0], [0, 0, 7]]
    >>> read_reply("0 1\n1").reason
    'has rows of 2 lengths; all must be as long'
    """
    text = unicodedata.normalize("NFKC", text).replace("\r\n", "\n").replace("\r", "\n")
    if "\n" not in text.strip() and "\\n" in text:
        text = text.replace("\\n", "\n")
    text = _THINKING.sub("\n", text)
    if open_ := _UNFINISHED.search(text):
        return Reply(None, f"ends within {open_[0]}")
    if sum(bool(_FENCE.match(line)) for line in text.split("\n")) % 2:
        return Reply(None, "ends within a code fence")
    blocks = [block for block in _blocks(text) if not _is_input(text, block)]
    if not blocks:
        return Reply(None, "holds no grid")
    marks = [mark.start() for mark in _ANSWER.finditer(text) if mark.start() < blocks[-1].start]
    after = [block for block in blocks if not marks or block.start > marks[-1]]
    # The same grid twice is one answer, unless only blank lines divide the two.
    apart = all(_WORD.search(text[a.end : b.start]) for a, b in pairwise(after))
    if len({json.dumps(block.grid) for block in after}) > 1 or not apart:
        return Reply(None, f"holds {len(after)} grids; it is not clear which is the answer")
    return Reply(after[0].grid, after[0].problem)


def _is_input(text: str, block: _Block) -> bool:
    """Return whether the last words before a grid call it an input."""
    lines = [line for line in text[: block.start].split("\n") if _WORD.search(line)]
    label = lines[-1] if lines else ""
    said = [(mark.start(), True) for mark in _INPUT.finditer(label)]
    said += [(mark.start(), False) for mark in _ANSWER.finditer(label)]
    return bool(said) and max(said)[1]


def _blocks(text: str) -> list[_Block]:
    """Return all that looks like a grid, in order."""
    found: list[_Block] = []
    for reader in (_nested, _piped, _lines):
        found += reader(text)
        for block in found:  # which no other reader is to find again
            text = text[: block.start] + "\0" * (block.end - block.start) + text[block.end :]
    return sorted(found, key=lambda block: block.start)


def _checked(start: int, end: int, rows: list[list[str]]) -> _Block:
    """Return a block of rows of numbers: colours, or one number of as many digits a row."""
    if all(len(row) == 1 for row in rows):
        rows = [list(row[0]) for row in rows]
    grid = [[int(number[:3]) for number in row] for row in rows]
    problem = grid_problem(grid)
    return _Block(start, end, None if problem else grid, problem)


def _nested(text: str) -> Iterator[_Block]:
    """Find nested lists, also without commas, and lists of them."""
    done = 0
    for match in _NESTED.finditer(text):
        if match.start() < done:
            continue
        depth = 0
        for done in range(match.start(), len(text)):
            depth += (text[done] in "[(") - (text[done] in "])")
            if not depth:
                break
        done += 1
        part = text[match.start() : done]
        if not _DIGITS.search(part):
            continue
        if depth:
            yield _Block(match.start(), done, None, "ends within the grid")
            continue
        # As JSON with all numbers as text, which may begin with 0.
        plain = re.sub(r"\b(?:np\.)?array\b|\bdtype=\w+", "", part).translate(_BRACKETS)
        plain = re.sub(r"(?<=[\d\]])\s+(?=[\d\[])", ",", plain)
        plain = re.sub(r",\s*(?=\])", "", re.sub(r"['\"]", "", plain))
        try:
            value = json.loads(re.sub(r"\d+", r'"\g<0>"', plain))
        except ValueError:
            value = None
        yield from _values(value, match.start(), done)


_BRACKETS = str.maketrans("()", "[]")


def _values(value: Any, start: int, end: int) -> Iterator[_Block]:
    """Give the grids of a nested list, which may be a list of grids."""
    if isinstance(value, list) and len(value) == 1 and _depth(value) > 2:
        yield from _values(value[0], start, end)
    elif isinstance(value, list) and _depth(value) == 2 and all(_is_row(row) for row in value):
        yield _checked(start, end, value)
    elif isinstance(value, list) and _depth(value) == 3:
        yield _Block(start, end, None, f"is a list of {len(value)} grids, of which one is needed")
    else:
        yield _Block(start, end, None, "is no grid: a list of rows, each a list of colours")


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _piped(text: str) -> Iterator[_Block]:
    """Find ``|012|345|``; with one digit between bars it is a row of a table."""
    for match in _PIPED.finditer(text):
        rows = _DIGITS.findall(match[0])
        if any(len(row) > 1 for row in rows):
            yield _checked(match.start(), match.end(), [[row] for row in rows])


@dataclass(frozen=True)
class _Line:
    """A line of a text."""

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def blank(self) -> bool:
        return not self.text.strip()

    @property
    def is_row(self) -> bool:
        return bool(_ROW.fullmatch(_LABEL.sub("", self.text, count=1)))

    @property
    def is_frame(self) -> bool:
        """Whether it holds brackets alone, or is the line below the head of a table."""
        return not self.blank and bool(_FRAME.fullmatch(self.text))

    def is_spoilt(self, width: int) -> bool:
        """Return whether it may be a row of a grid of this width, but cannot be read as one."""
        if _FENCE.match(self.text) or self.is_frame or self.is_row:
            return False
        text = _SIZE.sub("", self.text)
        numbers, words = len(_DIGITS.findall(text)), len(_WORD.findall(text))
        cells = re.split(r"[\s,|]+", self.text.strip(" \t,|[](){}"))
        holds = _DIGITS.search if width == 1 else _DIGITS.fullmatch  # rows of digits in one
        like_row = len(cells) == width and any(map(holds, cells))
        remark = numbers >= _MANY and words < numbers
        return like_row or remark or (not words and bool(numbers or _DOTS.search(text)))


def _lines(text: str) -> Iterator[_Block]:
    """Find rows of digits, one a line; a semicolon ends a line too."""
    lines, start = [], 0
    for part in text.replace(";", "\n").split("\n"):
        lines.append(_Line(start, part))
        start += len(part) + 1
    runs: list[list[int]] = []  # numbers of the lines of each run of rows
    for number, line in enumerate(lines):
        if line.is_row:
            if runs and all(lines[k].is_frame for k in range(runs[-1][-1] + 1, number)):
                runs[-1].append(number)
            else:
                runs.append([number])
    for run in _joined(runs, lines):
        yield from _of_run(run, lines)


def _joined(runs: list[list[int]], lines: list[_Line]) -> list[list[int]]:
    """Join rows that all have blank lines between them, as of a text with double spacing."""
    groups: list[list[list[int]]] = []
    for run in runs:
        between = range(groups[-1][-1][-1] + 1, run[0]) if groups else range(0)
        if groups and all(lines[k].blank or lines[k].is_frame for k in between):
            groups[-1].append(run)
        else:
            groups.append([run])
    alone = [all(len(run) == 1 for run in group) for group in groups]
    return [
        run
        for group, joined in zip(groups, alone, strict=True)
        for run in ([list(chain.from_iterable(group))] if joined else group)
    ]


def _of_run(run: list[int], lines: list[_Line]) -> Iterator[_Block]:
    """Give the grid of lines that are rows, if they are one."""
    first, last = run[0], run[-1]
    whole = not any(_WORD.search(line.text) for line in lines)
    fenced = first > 0 and bool(_FENCE.match(lines[first - 1].text))
    texts = [lines[k].text for k in run]
    labels = [_LABEL.match(each) for each in texts]
    rows = [_DIGITS.findall(_LABEL.sub("", each, count=1)) for each in texts]
    bare = len(run) == 1 and len(rows[0]) == 1 and "[" not in texts[0]
    if bare and not (whole or fenced):
        return  # a number on a line of its own, as of a list
    block = _checked(lines[first].start, lines[last].end, rows)
    numbers = [int(label[1]) for label in labels if label]
    sides = (reversed(lines[:first]), lines[last + 1 :])
    beside = [line for side in sides if (line := next((x for x in side if not x.blank), None))]
    problem = ""
    if numbers and (len(numbers) < len(run) or _gaps(numbers)):
        problem = "has rows of which some are numbered and some are not"
    elif any(line.is_spoilt(len(rows[0])) for line in beside) or _cut(first, last, lines):
        problem = "has a line among its rows that is none"
    elif any(lines[k].is_frame and "|" in lines[k].text for k in range(first, last)) and _counts(
        rows[0]
    ):
        problem = "is a table whose head may number its columns"
    yield replace(block, grid=None, problem=problem) if problem else block


def _cut(first: int, last: int, lines: list[_Line]) -> bool:
    """Return whether a code fence around rows goes on with something else."""
    above = [k for k in range(first) if _FENCE.match(lines[k].text)]
    if len(above) % 2 == 0:
        return False
    for line in lines[last + 1 :]:
        if _FENCE.match(line.text):
            break
        if not (line.blank or line.is_frame):
            return True
    return False


def _gaps(numbers: list[int]) -> bool:
    return any(b != a + 1 for a, b in pairwise(numbers))


def _counts(row: list[str]) -> bool:
    """Return whether a row counts from 0 or 1 on."""
    numbers = [int(number[:3]) for number in row]
    return len(numbers) > 1 and numbers[0] in (0, 1) and not _gaps(numbers)
