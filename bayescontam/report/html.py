"""Templates, and texts of a corpus made safe to read on a page."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from bayescontam import _format
from bayescontam._text import join_list, printable
from bayescontam.model.effect_names import effect_head, effect_words

SHOWN, UNFOLDED = 600, 5_000
"""Characters of a text that are seen at once, and that are on the page at all."""
_PER_LINE = 25
"""Characters for which a line is allowed, so that empty lines do not fill the page."""
_LOOK_BACK = 40
"""Characters given up at most, so that a cut falls between words."""


@dataclass(frozen=True)
class Script:
    """The script of a page."""

    text: str  # as it stands between its tags
    source: str  # what allows this text, and no other, in a content security policy


@cache
def script() -> Script:
    """Return the script that sorts and filters tables."""
    path = files("bayescontam.report") / "templates" / "tables.js"
    # Without indentation, which pages need not carry: no string of the script has several lines.
    text = "\n".join(map(str.lstrip, path.read_text(encoding="utf-8").splitlines()))
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return Script(text, f"sha256-{digest}")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("bayescontam.report", "templates"),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        _format.number, _format.probability, _format.percent, _format.interval, _format.measured,
        _format.place, _format.raw, _format.from_half, _format.level_text, printable, join_list,
        effect_words, effect_head,
    )  # fmt: skip
    environment.filters |= {each.__name__: each for each in filters}
    environment.globals["script"] = script()
    return environment


def fill(name: str, content: Mapping[str, Any]) -> str:
    """Return the page template `name` filled with `content`."""
    return _templates().get_template(name).render(content)


def sentences(name: str, **content: Any) -> list[str]:
    """Return the lines of the text template `name`, which are not escaped for HTML."""
    lines = _templates().get_template(f"{name}.txt").render(content).split("\n")
    return [line for line in map(str.strip, lines) if line]


@dataclass(frozen=True)
class Excerpt:
    """The beginning of a text, in two parts."""

    # what is seen at once. Characters that would be hidden stand as their escapes in `<i>`, which
    # distinguishes them from a text that spells out an escape.
    head: Markup
    rest: Markup  # what can be unfolded; empty where `head` is all
    more: int  # characters of the text that `rest` shows
    left_out: int  # characters of the text that are shown nowhere


def excerpt(text: str, shown: int = SHOWN, unfolded: int = UNFOLDED) -> Excerpt:
    """Return the beginning of a text, escaped; line breaks and tabs stay.

    >>> excerpt("a <b>\\u202e").head
    Markup('a &lt;b&gt;<i>\\\\u202e</i>')
    >>> cut = excerpt("one two three four", shown=8, unfolded=13)
    >>> str(cut.head), str(cut.rest), cut.more, cut.left_out
    ('one two ', 'three', 5, 5)
    """
    text = text.replace("\r\n", "\n")
    whole = shown + shown // 6  # a few characters are not worth unfolding
    # A character is shown as one at least, so that no more of them can be needed.
    pieces = [_piece(char) for char in text[: max(unfolded, whole) + 1]]
    first = _between_words(pieces, _fitting(pieces, shown))
    if _fitting(pieces, whole) == len(pieces):
        first = len(pieces)
    last = max(_fitting(pieces, unfolded), first) if unfolded > shown else first
    head, rest = _markup(text[:first], pieces), _markup(text[first:last], pieces[first:])
    return Excerpt(head, rest, last - first, len(text) - last)


def _piece(char: str) -> str:
    """Return what a character is shown as."""
    return char if char.isprintable() or char in "\n\t" else printable(char)


def _fitting(pieces: Sequence[str], most: int) -> int:
    """Return how many pieces fit into `most` characters, and into the lines for them."""
    lengths = accumulate(map(len, pieces))
    breaks = accumulate(piece == "\n" for piece in pieces)
    for i, (length, broken) in enumerate(zip(lengths, breaks, strict=True)):
        if length > most or broken >= max(most // _PER_LINE, 1):
            return i
    return len(pieces)


def _between_words(pieces: Sequence[str], end: int) -> int:
    """Return `end`, or the end of the last word before it, if that is near."""
    if end == len(pieces):
        return end
    gaps = (i for i in range(end, max(end - _LOOK_BACK, 0), -1) if pieces[i - 1].isspace())
    return next(gaps, end)


def _markup(text: str, pieces: Sequence[str]) -> Markup:
    """Return the text as HTML; what is shown as an escape is marked."""
    result = []
    pairs = zip(text, pieces, strict=False)
    for changed, group in groupby(pairs, lambda pair: pair[0] != pair[1]):
        shown = escape("".join(piece for _, piece in group))
        result.append(Markup("<i>{}</i>").format(shown) if changed else shown)
    return Markup().join(result)
