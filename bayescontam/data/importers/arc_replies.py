"""Grids in the replies of language models: read, or unreadable with the reason."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from bayescontam.data.importers.arc import Grid, grid_problem
from bayescontam.replies import unfinished_thought, without_thoughts

_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_ANSWER = re.compile(
    r"\b(?:final|answers?|outputs?|results?|solution|predict(?:ion|ed)|attempt)\b", re.IGNORECASE
)
_INPUT = re.compile(r"\binputs?\b", re.IGNORECASE)
_IS_INPUT = re.compile(
    r"\W*(?:(?:the|test|example|training)\s+)*inputs?(?:\s+grid)?\s*\d*\s*(?:is|was|are|:|=|\W*$)",
    re.IGNORECASE,
)
_OF_EXAMPLES = re.compile(r"\b(?:examples?|training|train|demonstrations?)\b", re.IGNORECASE)
_ANSWER_LINE = re.compile(
    r"[\s*_#>`-]*(?:(?:so|and|the|my|final|test|predicted|correct)\s+)*"
    r"(?:output|answer|result|solution|prediction)(?:\s+grid)?(?:\s+is)?[\s*_`]*[:=][\s*_`]*"
    r"(?:(?P<row>\d(?:[\s,]*\d)*),?|[\[(]\s*(?P<list>\d(?:[\s,]*\d)*),?\s*[\])],?)[\s*_`.]*",
    re.IGNORECASE,
)
"""A label and a row in one line."""
_APPLIED = re.compile(
    r"\bappl(?:ying|ied)\b[^.:]*\b(?:to|on)\b[^.:]*\binputs?(?:\s+grid)?(?:\s+\d+)?"
    r"(?:,?\s+(?:(?:this|that|it|which|we|I)\s+)?(?:gives?|yields?|produces?|get|obtain))?"
    r"[\s*_`]*:[\s*_`]*",
    re.IGNORECASE,
)
"""A label such as "Applying the rule to the test input:", below which the answer may be."""
_NOT_THIS = re.compile(r"\b(?:following|next)\b", re.IGNORECASE)
_LONGEST_LABEL = 200  # characters
_BETWEEN = re.compile(r"\n|;|(?<=[\])}])[ \t]*,?[ \t]*(?=[\[({])")
"""What ends a row: the end of a line, a semicolon, or brackets that close and open."""
_REMARK = re.compile(
    r"\betc\b|\band so on\b|\bremaining\b|\brest\b|\brepeat|\bsame\b"
    r"|\b(?:first|second|third|fourth|fifth|last|next|other)\s+rows?\b",
    re.IGNORECASE,
)
"""Words beside a grid after which it may not be whole."""
_NESTED = re.compile(r"[\[(]\s*[\[(]")
_PIPED = re.compile(r"(?<!\S)\|(?:\d+\|)+(?![^\s.,])")
_LABEL = re.compile(r"\s*(?:(?:row|line|r)\s*)?(\d+)\s*[:.)]\s+(?=\S)", re.IGNORECASE)
_ROW = re.compile(r"[\s\[\](){}|,'\"]*\d[\d\s\[\](){}|,'\"]*\.?\s*")
_FRAME = re.compile(r"[\s\[\](){},]+|[\s|+:=-]*[-=][\s|+:=-]*")
_DOTS = re.compile(r"\.\.\.|…")
_DIGITS, _WORD = re.compile(r"\d+"), re.compile(r"[^\W\d_]+")
_GAP = 3  # spaces between two grids, side by side
_SIZE = re.compile(r"\d+\s*(?:[x×]|by)\s*\d+", re.IGNORECASE)
_DEEPEST = 4  # brackets in one another from which on nothing is read
_FEW_WORDS = 2  # words before a list that need not call it the answer
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
    separators, labels and code fences, or ``|012|345|``, with prose around them; one row may
    stand beside its label at the end (``Output: [2 1 0]``). What a model thought before
    (``<think>``) does not count, nor do grids that are labelled as input, unless the reply ends
    with one below words such as "Applying the rule to the test input:". Among several grids the
    one after the last word such as "output" or "answer" counts. Several grids without such a
    word, two side by side, rows of different lengths, a line among the rows that is none, a
    remark such as "and so on" below, or an end within the grid make a reply unreadable.

    Parameters
    ----------
    text : str

    Returns
    -------
    Reply
        ``grid``, a list of rows of colours from 0 to 9, or None with a ``reason``.

    Raises
    ------
    TypeError
        If it is no text.

    Examples
    --------
    >>> from bayescontam.data.importers.arc_replies import read_reply
    >>> read_reply("The output is:\n[2 1 0]\n[0 0 7]").grid
    [[2, 1, 0], [0, 0, 7]]
    >>> read_reply("0 1\n1").reason
    'has rows of 2 lengths; all must be as long'
    """
    if not isinstance(text, str):
        raise TypeError(f"got {type(text).__name__}; a reply is text")
    text = "\n".join(unicodedata.normalize("NFKC", text).lstrip("\ufeff").splitlines())
    if "\n" not in text.strip() and "\\n" in text:
        text = text.replace("\\n", "\n")
    text = without_thoughts(text)
    if mark := unfinished_thought(text):
        return Reply(None, f"ends within {mark}")
    if sum(bool(_FENCE.match(line)) for line in text.split("\n")) % 2:
        return Reply(None, "ends within a code fence")
    found = _blocks(text)
    blocks = [block for block in found if not _is_input(text, block)] or _at_end(text, found)
    if not blocks:
        return Reply(None, "holds no grid, or none but inputs")
    marks = [
        mark.start()
        for mark in _ANSWER.finditer(text)
        if mark.start() < blocks[-1].start and not _OF_EXAMPLES.search(_clause(text, mark.start()))
    ]
    after = [block for block in blocks if not marks or block.start > marks[-1]]
    # The same grid twice is one answer, unless only blank lines divide the two.
    apart = all(_WORD.search(text[a.end : b.start]) for a, b in pairwise(after))
    if len({json.dumps(block.grid) for block in after}) > 1 or not apart:
        return Reply(None, f"holds {len(after)} grids; it is not clear which is the answer")
    return Reply(after[0].grid, after[0].problem)


def _at_end(text: str, found: list[_Block]) -> list[_Block]:
    """Return the answer with which a reply ends, if its label alone makes that likely.

    It counts only where no other grid of the reply can be the answer.
    """
    lines = [line for line in _split(text) if re.search(r"\w", line.text)]
    if not lines:
        return []
    *above, last = [line for line in lines if not _FENCE.match(line.text)] or lines
    if row := _ANSWER_LINE.fullmatch(last.text):
        numbers = _DIGITS.findall(row["row"] or row["list"])
        if re.search(r"\d\d", row["row"] or row["list"]):  # a number such as 2024, or colours
            return []
        others = filter(None, (_ANSWER_LINE.fullmatch(line.text) for line in above))
        if any(_DIGITS.findall(each["row"] or each["list"]) != numbers for each in others):
            return []
        heads = [line.text for line in above[-2:]]
        restated = heads and _INPUT.search(heads[-1]) and not re.search(r"(?i)\btest\b", heads[-1])
        if restated or any(map(_OF_EXAMPLES.search, heads)):
            return []
        # From behind the label on, which is then the last word for the answer.
        start = last.start + max(row.start("row"), row.start("list"))
        return [_checked(start, last.end, [numbers])]
    if not found or re.search(r"\w", text[found[-1].end :]):
        return []
    label = _label(text, found[-1])
    applied = len(label) <= _LONGEST_LABEL and _APPLIED.search(label)
    if not applied or applied.end() < len(label) or _NOT_THIS.search(label):
        return []
    restated = any(block.grid == found[-1].grid for block in found[:-1])
    return [] if restated or _OF_EXAMPLES.search(label) else found[-1:]


def _clause(text: str, at: int) -> str:
    """Return the sentence, or the line, in which a place of a text is."""
    start = max(text.rfind(end, 0, at) for end in ("\n", ". ")) + 1
    ends = [place for end in ("\n", ". ") if (place := text.find(end, at)) >= 0]
    return text[start : min(ends, default=len(text))]


def _is_input(text: str, block: _Block) -> bool:
    """Return whether the last words before a grid call it an input, and not an answer to one."""
    label = _label(text, block)
    if _IS_INPUT.match(label):
        return True
    return bool(_INPUT.search(label)) and not _ANSWER.search(label)


def _label(text: str, block: _Block) -> str:
    """Return the last sentence, or line, before a grid."""
    lines = [line for line in text[: block.start].split("\n") if _WORD.search(line)]
    return lines[-1].rsplit(". ", 1)[-1] if lines else ""


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
        depth = deepest = 0
        for done in range(match.start(), len(text)):
            depth += (text[done] in "[(") - (text[done] in "])")
            deepest = max(deepest, depth)
            if not depth:
                break
        done += 1
        part = text[match.start() : done]
        if _DIGITS.search(part):
            yield _of_nested(text, match.start(), done, depth, deepest)


def _of_nested(text: str, start: int, end: int, depth: int, deepest: int) -> _Block:
    """Return the grid that a nested list is, if it is one."""
    part = text[start:end]
    problem = ""
    if depth:
        problem = "ends within the grid"
    elif deepest > _DEEPEST:
        problem = "is no grid: a list of rows, each a list of colours"
    elif text[end:].lstrip()[:1] in ("*", "+"):
        problem = "is multiplied, or added to something"
    elif re.match(r"\[\s*\(", part):
        problem = "may be a list of cells: rows in round brackets in a list"
    elif not _called_answer(text, start):
        problem = "stands in a sentence that does not call it the answer"
    if problem:
        return _Block(start, end, None, problem)
    # As JSON with all numbers as text, which may begin with 0.
    plain = re.sub(r"\b(?:np\.)?array\b|\bdtype=\w+", "", part).translate(_BRACKETS)
    plain = re.sub(r"(?<=[\d\]])\s+(?=[\d\[])", ",", plain)
    plain = re.sub(r",\s*(?=\])", "", re.sub(r"['\"]", "", plain))
    try:
        value = json.loads(re.sub(r"\d+", r'"\g<0>"', plain))
    except ValueError:
        value = None
    return _of_value(value, start, end)


def _called_answer(text: str, start: int) -> bool:
    """Return whether words before a list in its line, if there are any, call it an answer."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    words = _WORD.findall(before)
    return (
        len(words) <= _FEW_WORDS
        or before.rstrip()[-1:] in (":", "=")
        or bool(_ANSWER.search(before) or _INPUT.search(before) or re.search(r"\bgrid", before))
    )


_BRACKETS = str.maketrans("()", "[]")


def _of_value(value: Any, start: int, end: int) -> _Block:
    """Return the grid of a nested list, which may be a list of one grid."""
    while isinstance(value, list) and len(value) == 1 and _depth(value) > 2:
        value = value[0]
    if isinstance(value, list) and _depth(value) == 2 and all(_is_row(row) for row in value):
        return _checked(start, end, value)
    problem = "is no grid: a list of rows, each a list of colours"
    if isinstance(value, list) and _depth(value) == 3:
        problem = f"is a list of {len(value)} grids, of which one is needed"
    return _Block(start, end, None, problem)


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
        return bool(_ROW.fullmatch(_unlabelled(self.text)))

    @property
    def is_frame(self) -> bool:
        """Whether it holds brackets alone, or is the line below the head of a table."""
        return not self.blank and bool(_FRAME.fullmatch(self.text))

    def is_spoilt(self, row: list[str]) -> bool:
        """Return whether it may be a row like this one, but cannot be read as one."""
        if _ANSWER_LINE.fullmatch(self.text):
            return True
        if _FENCE.match(self.text) or self.is_frame or self.is_row:
            return False
        text = _SIZE.sub("", self.text)
        numbers, words = len(_DIGITS.findall(text)), len(_WORD.findall(text))
        cells = re.split(r"[\s,|]+", self.text.strip(" \t,|[](){}"))
        last = re.search(r"\d(?:[\s,]+\d)+\s*$", text)
        return (
            (len(cells) == len(row) and _like(cells, row))
            or (numbers >= _MANY and words < numbers)
            or (not words and bool(numbers or _DOTS.search(text)))
            or bool(last and len(_DIGITS.findall(last[0])) >= len(row))
        )

    @property
    def is_double(self) -> bool:
        """Whether it holds rows of two grids, side by side."""
        parts = [part for part in self.text.split("|") if _DIGITS.search(part)]
        if len(parts) > 1 and all(len(_DIGITS.findall(part)) > 1 for part in parts):
            return True
        gaps = [len(gap) for gap in re.findall(r"(?<=\d)[ \t]+(?=\d)", self.text)]
        return bool(gaps) and max(gaps) >= _GAP and min(gaps) < max(gaps)


def _unlabelled(text: str) -> str:
    """Return a line without the number of the row with which it begins."""
    label = _LABEL.match(text)
    return text[label.end() :] if label else text


def _like(cells: list[str], row: list[str]) -> bool:
    """Return whether cells of a line look like a row of as many."""
    if len(row) > 1:
        return any(map(_DIGITS.fullmatch, cells)) or all(len(cell) == 1 for cell in cells)
    same = len(cells[0]) == len(row[0]) and not cells[0].isalpha()
    return same or bool(_DIGITS.search(cells[0]))


def _split(text: str) -> list[_Line]:
    lines, start = [], 0
    for end in (*_BETWEEN.finditer(text), None):
        lines.append(_Line(start, text[start : end.start() if end else len(text)]))
        start = end.end() if end else start
    return lines


def _lines(text: str) -> Iterator[_Block]:
    """Find rows of digits, one a line; a semicolon ends a line too."""
    lines = _split(text)
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
    rows = [_DIGITS.findall(_unlabelled(each)) for each in texts]
    above = next((line.text for line in reversed(lines[:first]) if not line.blank), "")
    labelled = bool(_ANSWER.search(above)) and above.rstrip(" *_").endswith(":")
    bare = len(run) == 1 and len(rows[0]) == 1 and "[" not in texts[0]
    if bare and not (whole or fenced or labelled):
        return  # a number on a line of its own, as of a list
    block = _checked(lines[first].start, lines[last].end, rows)
    numbers = [int(label[1]) for label in labels if label]
    sides = (reversed(lines[:first]), lines[last + 1 :])
    beside = [line for side in sides if (line := next((x for x in side if not x.blank), None))]
    problem = ""
    if numbers and (len(numbers) < len(run) or _gaps(numbers)):
        problem = "has rows of which some are numbered and some are not"
    elif any(line.is_spoilt(rows[0]) for line in beside) or _cut(first, last, lines):
        problem = "has a line among its rows that is none"
    elif any(_REMARK.search(line.text) for line in lines[last + 1 : last + 2]):
        problem = "has a remark below, after which it may not be whole"
    elif any(lines[k].is_double for k in run) or (
        _INPUT.search(above) and _ANSWER.search(above) and not _WORD.search(_plain(above))
    ):
        problem = "has two grids side by side"
    elif any(lines[k].is_frame and "|" in lines[k].text for k in range(first, last)) and _counts(
        rows[0]
    ):
        problem = "is a table whose head may number its columns"
    yield replace(block, grid=None, problem=problem) if problem else block


def _plain(head: str) -> str:
    """Return the head of a table without the words input and output."""
    return _INPUT.sub("", _ANSWER.sub("", head))


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
