"""Display names and values that users chose: escaped, shortened, listed.

Names come from users' files and may hold anything: control characters,
markup, ten thousand letters. Data keep them as they are; whatever is shown
in a terminal, a message or a picture goes through here.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from os import PathLike

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(name: str | PathLike[str], width: int = 160, size: Callable[[str], int] = len) -> str:
    """Return `name` on one line, control characters escaped, cut to `width`.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    >>> printable("a" * 20, width=9)
    'aaaa…aaaa'
    """
    name = str(name)
    # Only the ends can be shown, so only they are escaped: names may be huge.
    if len(name) > 2 * width:
        name = name[:width] + "…" + name[-width:]
    text = "".join(_escaped(char) for char in name)
    if size(text) <= width:
        return text
    head = width // 2
    start, end = text[:head], text[len(text) - (width - head - 1) :]
    while size(start) > head:
        start = start[:-1]
    while size(end) > width - head - 1:
        end = end[1:]
    return f"{start}…{end}"


def _escaped(char: str) -> str:
    if unicodedata.category(char) in _HIDDEN:
        return char.encode("unicode_escape").decode("ascii")
    return char


def short_labels(names: Sequence[str], width: int, size: Callable[[str], int] = len) -> list[str]:
    """Return labels of at most `width` characters, distinct for distinct names.

    >>> short_labels(["alpha-one-beta", "alpha-two-beta", "gamma"], width=9)
    ['alph…#1', 'alph…#2', 'gamma']
    """
    labels = whole = [printable(name, width, size) for name in names]
    # More than once: a name may look like a label that was shortened and numbered.
    while crowded := {label for label, count in Counter(labels).items() if count > 1}:
        labels = [
            _numbered(name, i, width, size) if label in crowded else label
            for i, (name, label) in enumerate(zip(whole, labels, strict=True), start=1)
        ]
    return labels


def _numbered(name: str, number: int, width: int, size: Callable[[str], int]) -> str:
    end = f"…#{number}"
    start = name[: width - len(end) - 2]
    while start and size(start) > width - len(end):
        start = start[:-1]
    return start + end


def join_list(names: Iterable[str], most: int = 8) -> str:
    """Return names as a quoted, comma-separated list, cut after `most`.

    >>> join_list(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    text = ", ".join(f"'{printable(name, 60)}'" for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def characters(*categories: str) -> str:
    """Return the characters of Unicode categories as ranges for a class of a regular expression.

    Those of the Basic Multilingual Plane, without ASCII.

    >>> characters("Sm")[:6]
    '¬-¬±-±'
    """
    points = [c for c in range(0x80, 0x10000) if unicodedata.category(chr(c)) in categories]
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Ranges of scripts that put no spaces between words: Han and kana."""
MARKS = characters("Mn", "Mc")
"""Ranges of marks, such as vowel signs of Indic scripts, which are parts of words."""
