"""Forms in which a duplicate is planted: as it was made, with lines wrapped anew, or a table."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

AS_MADE, WRAPPED, TABLE = "as made", "wrapped", "table"
NARROWEST, WIDEST = 40, 100
"""Widths at which lines are wrapped, in characters."""
_FENCE = re.compile(r"\s*(```|~~~)")
_SET = re.compile(
    r"""\s*$ | \s                                           # blank, or indented
    | [-*+•]\s | [-=*_~]{3,}\s*$ | \#{1,6}\s | >            # list, rule, heading, quotation
    | \|  | .*\s\|\s | <[a-zA-Z/!] | \$\$ | \\              # table, markup, formula
    | \(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})(?:[.):]|\s-)\s  # numbered or lettered
    """,
    re.VERBOSE,
)
"""Lines that mean something as they stand: no others are joined or broken."""
_LABEL = re.compile(
    r" {0,3}(?:\((?P<inner>\d{1,2}|[A-Za-z])\)|(?P<outer>\d{1,2}|[A-Za-z])(?:[.):]| -))"
    r"\s+(?P<text>\S.*)"
)
_INLINE = re.compile(r"(?<!\S)\(?([A-Z])\)\s+(?=\S)")
_BULLET = re.compile(r"\s*(?:[-*+•]\s+)?")
_OF_OPTIONS = re.compile(
    r"\b(?:options?|choices?|choose|pick|select|alternatives?|answers?|which of)\b", re.IGNORECASE
)
_OF_OTHERS = re.compile(
    r"\b(?:clues?|hints?|rules?|facts?|premises?|steps?|conditions?|constraints?)\b", re.IGNORECASE
)
type _Run = tuple[int, list[tuple[str, str]]]
"""Where options begin among the lines of a text, and the label and text of each."""


def wrap_anew(text: str, width: int) -> str:
    """Return a text whose paragraphs of prose longer than `width` are filled at it.

    Code, indented lines, lists, headings, quotations, formulas and tables stay as they are.

    >>> print(wrap_anew("- a list that is longer than so\\nA sentence longer than this.", 20))
    - a list that is longer than so
    A sentence longer
    than this.
    """
    lines: list[str] = []
    for is_prose, rows in groupby(_marked(text.split("\n")), lambda row: row[0]):
        run = [line for _, line in rows]
        parts = _paragraphs(run) if is_prose else []
        lines += [line for part in parts for line in _filled(part, width)] if is_prose else run
    return "\n".join(lines)


def _marked(lines: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield each line with whether it is prose: outside fences, and of no form of its own."""
    for is_code, line in _fenced(lines):
        yield not (is_code or _SET.match(line)), line


def _paragraphs(run: list[str]) -> list[list[str]]:
    """Return lines as one paragraph if they look like one that was filled, else each alone."""
    longest = max(map(len, run))
    pairs = list(pairwise(run))
    # Filled lines end where the next word had no room, mostly in the middle of a sentence; those
    # of a poem, of fields or of one statement each do not.
    full = all(len(line) + 1 + len(after.split()[0]) > longest for line, after in pairs)
    hard = any(line.endswith(("  ", "\\")) for line, _ in pairs)
    within = sum(
        line.rstrip()[-1] not in ".!?:;" and not after[0].isupper() for line, after in pairs
    )
    if longest >= NARROWEST and full and not hard and 2 * within > len(pairs):
        return [run]
    return [[line] for line in run]


def _filled(paragraph: list[str], width: int) -> list[str]:
    """Return a paragraph filled at a width; as it is where that is not exceeded."""
    text = " ".join(map(str.strip, paragraph))
    if len(text) <= width:
        return paragraph
    # A line that began with "1." or "-" would read as one of a list.
    widths = range(min(width, NARROWEST), max(width, WIDEST) + 1)
    for near in sorted(widths, key=lambda other: abs(other - width)):
        lines = textwrap.wrap(text, near, break_long_words=False, break_on_hyphens=False)
        if not any(map(_SET.match, lines[1:])):
            return lines
    return paragraph


def with_table(text: str, choices: Sequence[str] = ()) -> str:
    """Return a text whose options are a Markdown table; the same where it has none.

    Options are the last lines in a row that are labelled in order (``A.``, ``(B)``, ``3)``), or
    that are the `choices`; choices that do not stand on lines of their own follow the text.

    >>> print(with_table("Why?\\nA. So.\\nB. Not so."))
    Why?
    <BLANKLINE>
    | Option | Text |
    | --- | --- |
    | A | So. |
    | B | Not so. |
    """
    lines = text.split("\n")
    if found := _listed(lines, choices) or _labelled(lines):
        at, options = found
        before, after = lines[:at], lines[at + len(options) :]
        gap_before = [""] if before and before[-1].strip() else []
        gap_after = [""] if after and after[0].strip() else []
        return "\n".join([*before, *gap_before, *_table(options), *gap_after, *after])
    if choices:
        return "\n".join([text.rstrip(), "", *_table(_with_labels(choices))])
    return text


@dataclass(frozen=True)
class Option:
    """An option of a text."""

    label: str
    text: str
    line: str  # as it stands in the text, with its label


def labelled_options(text: str) -> list[Option]:
    """Return the options of a text that are labelled in order: on lines, or else ``(A) … (B) …``.

    >>> [option.text for option in labelled_options("Why? (A) So. (B) Not so.")]
    ['So.', 'Not so.']
    """
    lines = text.split("\n")
    if found := _labelled(lines):
        at, options = found
        return [
            Option(label, option, line.strip())
            for (label, option), line in zip(options, lines[at : at + len(options)], strict=True)
        ]
    best: list[Option] = []
    for line in lines:
        marks: list[re.Match[str]] = []
        for mark in _INLINE.finditer(line):
            if mark[1] == (_next(marks[-1][1]) if marks else "A"):
                marks.append(mark)
        ends = [*(mark.start() for mark in marks[1:]), len(line)]
        if len(marks) > 1:
            best = [
                Option(mark[1], line[mark.end() : end].strip(), line[mark.start() : end].strip())
                for mark, end in zip(marks, ends, strict=True)
            ]
    return best


def _table(options: Sequence[tuple[str, str]]) -> list[str]:
    cells = (" ".join(text.split()).replace("|", "\\|") for _, text in options)
    rows = (f"| {label} | {cell} |" for (label, _), cell in zip(options, cells, strict=True))
    return ["| Option | Text |", "| --- | --- |", *rows]


def _with_labels(choices: Sequence[str]) -> list[tuple[str, str]]:
    lettered = len(choices) <= 26
    return [(chr(65 + at) if lettered else f"{at + 1}", text) for at, text in enumerate(choices)]


def _listed(lines: Sequence[str], choices: Sequence[str]) -> _Run | None:
    """Return where lines are the choices one by one, without labels."""
    bare = [_BULLET.sub("", line, count=1).strip() for line in lines]
    wanted = [" ".join(text.split()) for text in choices]
    for at in range(len(lines) - len(wanted), -1, -1) if wanted else ():
        if bare[at : at + len(wanted)] == wanted:
            return at, _with_labels(wanted)
    return None


def _labelled(lines: Sequence[str]) -> _Run | None:
    """Return the last run of lines that are labelled in order and are options."""
    last, run, start, heading = None, list[tuple[str, str]](), 0, ""
    for at, (is_code, line) in enumerate(_fenced([*lines, ""])):
        found = None if is_code else _LABEL.match(line)
        label = (found["inner"] or found["outer"]) if found else ""
        if run and label != _next(run[-1][0]):
            if len(run) > 1 and _are_options(heading, run):
                last = start, run
            heading, run = "", []
        if found and (run or label in ("A", "a", "1")):
            if not run:
                start = at
                heading = next((row for row in reversed(lines[:at]) if row.strip()), "")
            run = [*run, (label, found["text"].strip())]
    return last


def _fenced(lines: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield each line with whether it stands in a fence."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if found and fence in ("", found[1]):
            fence = "" if fence else found[1]
        yield bool(fence or found), line


def _next(label: str) -> str:
    return str(int(label) + 1) if label.isdecimal() else chr(ord(label) + 1)


def _are_options(heading: str, run: Sequence[tuple[str, str]]) -> bool:
    """Return whether labelled lines are options, not clues or steps, by the line before them."""
    if _OF_OTHERS.search(heading):
        return False
    if not run[0][0].isdecimal() or _OF_OPTIONS.search(heading):
        return True
    # After a question numbers may be options or clues; clues are sentences.
    return heading.rstrip().endswith("?") and not any(text.endswith(".") for _, text in run)
