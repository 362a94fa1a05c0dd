"""The rule that finds word-for-word copies: an item that a chunk contains is an exact duplicate."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import pandas as pd

from bayescontam._progress import progress_bar
from bayescontam._text import MARKS, UNSPACED, characters
from bayescontam.data.judgements import PAIR, RULE, Judgements
from bayescontam.errors import DataError, Fault, UsageError

JUDGE = f"{RULE}verbatim"
"""Name of the rule as a judge."""
MIN_WORDS = 8
"""Words of the shortest item that is judged; with 8-grams PaLM looked for contamination."""
SHARE = 0.8
"""Share of an item's words that a chunk must hold where its edge cuts the item."""
_BATCH = 5_000
"""Pairs between two states of the progress bar."""
_LIST = 2
"""Entries of the shortest list whose order does not count."""

_UNIFIED = str.maketrans(dict.fromkeys("‐‑−", "-") | {"ʼ": "'", "⁄": "/"})
_RANGE = re.compile(r"(?<=\d)[‒–](?=\d)")
_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_RAISED = re.compile("[⁰¹²³⁴-⁹]+|[¼-¾⅐-⅞]")
"""Exponents and fractions, which NFKC would join to the number before them."""
_MARK = r"(?:[-*+•‣▪◦·]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)]|\(?[ivxIVX]{1,4}[.)])"
_LEAD = re.compile(rf"[ \t]*(?:(?:>|#{{1,6}})[ \t]+)*(?P<mark>(?:{_MARK}[ \t]+)*)")
"""What stands before a line: signs of quotation and headings, then bullets, 1. (2) C) iv."""
_INLINE = re.compile(r"(?:^|(?<=\s))\(?([A-J])[.)](?=\s)")
"""Letters of options that stand in one line."""
_TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)+"  # numbers whole: 1,000 and 3.14
    rf"|[{UNSPACED}]|[^\W_{UNSPACED}](?:[^\W_{UNSPACED}]|[{MARKS}])*"
    rf"|[=<>^%+/&~{characters('Sm')}]+"
    # A sign or a product, and no hyphen, bullet or emphasis: 3-5, -5, x -y, a - b, 2*3, 2 * 3.
    r"|(?<!\w)-(?=\d)|(?<=\s)-(?=\w)|(?<=\d)-(?=\d)|(?<=\s)[-*](?=\s)|(?<=\w)\*{1,2}(?=\w)"
)


def normalised(text: str) -> str:
    """Return the words of a text as the rule compares them, one space between two.

    Compatible characters are one (NFKC), and so are upper and lower case, apostrophes and
    dashes. White space, punctuation, and what numbers or marks a line do not count. Numbers,
    and signs that are part of a formula, do.

    >>> normalised("1. The cat's **hat** costs 3.50.\\n2) Is x-1 < 2 - y?")
    'the cat s hat costs 3.50 is x 1 < 2 - y'
    """
    return " ".join(filter(None, map(_plain_line, _compatible(text).splitlines())))


def _compatible(text: str) -> str:
    """Return a text in compatible characters; exponents as ^2, fractions apart from numbers.

    >>> _compatible("3½ ﬁsh, 10⁶")
    '3 1/2 fish, 10^6'
    """
    text = _RAISED.sub(lambda found: f"{'^' if found[0][0] in _DIGITS else ' '}{found[0]}", text)
    return _RANGE.sub("-", unicodedata.normalize("NFKC", text).translate(_UNIFIED))


def _plain_line(line: str) -> str:
    return " ".join(_TOKEN.findall(_LEAD.sub("", line, count=1).casefold()))


def _is_entry(line: str) -> bool:
    found = _LEAD.match(line)
    return found is not None and found["mark"] != ""


@dataclass(frozen=True)
class _Text:
    """A text, and what the rule sees of it."""

    text: str
    share: float = SHARE

    @cached_property
    def words(self) -> str:
        """The words of the text between spaces, so that a part of a word is not contained."""
        return f" {normalised(self.text)} "

    @cached_property
    def count(self) -> int:
        return len(self.words.split())

    @cached_property
    def ends(self) -> tuple[str, str]:
        """The share of the words that must be there, from the first and up to the last."""
        words = self.words.split()
        least = math.ceil(self.share * len(words))
        return f" {' '.join(words[:least])} ", f" {' '.join(words[-least:])} "

    @cached_property
    def parts(self) -> "tuple[list[str], list[Counter[str]]]":
        """What stands outside lists, and the entries of each list."""
        outside, lists = [], []
        lines = _options_on_lines(_compatible(self.text)).splitlines()
        rows = [(_is_entry(line), _plain_line(line)) for line in lines if line.strip()]
        for listed, block in groupby(rows, key=lambda row: row[0]):
            entries = [words for _, words in block if words]
            if listed and len(entries) >= _LIST:
                lists.append(Counter(entries))
            elif entries:
                outside.append(f" {' '.join(entries)} ")
        return outside, lists


def _options_on_lines(text: str) -> str:
    """Return a text with options A, B, C, … of one line on lines of their own."""
    starts, due = [], "A"
    for found in _INLINE.finditer(text):
        if found[1] == due:
            starts.append(found.start())
            due = chr(ord(due) + 1)
    if len(starts) <= _LIST:  # a single letter, as of a name, is no option
        return text
    pieces = [text[a:b] for a, b in zip([0, *starts], [*starts, None], strict=True)]
    return "\n".join(pieces)


def _holds(item: _Text, chunk: _Text, min_words: int) -> bool | None:
    """Return whether a chunk holds an item; None where it is a part too small to decide by."""
    if item.words in chunk.words:
        return True
    if chunk.count >= min_words and chunk.words in item.words:
        return True if chunk.count >= item.share * item.count else None
    return _cut(item, chunk) or _reordered(item, chunk)


def _cut(item: _Text, chunk: _Text) -> bool:
    """Return whether an edge of the chunk cuts the item, and enough of it is there."""
    head, tail = item.ends
    at = chunk.words.rfind(head)
    if at >= 0 and item.words.startswith(chunk.words[at:]):
        return True
    at = chunk.words.find(tail)
    return at >= 0 and item.words.endswith(chunk.words[: at + len(tail)])


def _reordered(item: _Text, chunk: _Text) -> bool:
    """Return whether the chunk holds the item with its lists in another order."""
    outside, lists = item.parts
    if not lists or not all(part in chunk.words for part in outside):
        return False
    there = chunk.parts[1]
    return all(entries in there for entries in lists)


def verbatim_judgements(
    pairs: pd.DataFrame,
    *,
    min_words: int = MIN_WORDS,
    share: float = SHARE,
    progress: bool = False,
) -> Judgements:
    """Judge which pairs are word-for-word copies; this takes no person and no model.

    A pair is a duplicate of kind ``exact`` if the chunk contains the item. Case, white space,
    punctuation, forms of characters (NFKC) and the numbering of lines do not count; numbers and
    signs of formulas do. It also holds if the order of the clues or options differs: every list
    (of 2 numbered, lettered or marked lines or more) has the same entries as a list of the
    chunk, and the chunk contains what stands between the lists. Where an edge of the chunk cuts
    the item, `share` of its words must be there, without a gap.

    Any other pair gets the verdict 0 with no kind, which means "not verbatim": the rule finds no
    duplicate in other words. Pairs of items with fewer than `min_words` words, which a text may
    hold by chance, are unjudged, and so are chunks of as many words or more that lie whole inside
    an item and hold less than `share` of it: the item may be longer than a chunk can be.

    Parameters
    ----------
    pairs : pandas.DataFrame
        ``benchmark``, ``item``, ``source``, ``document``, ``chunk``, and the texts ``text`` (of
        the item) and ``chunk_text``.
    min_words : int, default 8
        Words of the shortest item that is judged, 1 or more. Of 8 words are the n-grams by which
        PaLM looked for contamination [1]_.
    share : float, default 0.8
        Share of the words of an item, above 1/2 up to 1. Items that share their beginning, such
        as several questions on one passage, need a higher one.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    Judgements
        Of the judge ``rule:verbatim``; the notes count what is unjudged.

    Raises
    ------
    UsageError
        If `min_words` or `share` is out of range.
    DataError
        If there are no pairs, or columns are absent.

    References
    ----------
    .. [1] Chowdhery et al. (2022), PaLM: Scaling language modeling with pathways.
       arXiv:2204.02311

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = pd.DataFrame({
    ...     "benchmark": "quiz", "item": "q1", "source": "web", "document": ["d1", "d2"],
    ...     "chunk": 0, "text": "How many legs do six spiders and two birds have together?",
    ...     "chunk_text": ["Q: how many legs do six spiders and two birds have TOGETHER", "Legs."],
    ... })
    >>> verbatim_judgements(pairs).frame[["document", "is_duplicate", "kind"]].values.tolist()
    [['d1', 1, 'exact'], ['d2', 0, '']]
    """
    if min_words < 1:
        raise UsageError(f"min_words: got {min_words}; allowed is 1 or more")
    if not 0.5 < share <= 1:
        raise UsageError(f"share: got {share:g}; allowed is above 0.5, up to 1")
    needed = [*PAIR, "text", "chunk_text"]
    if absent := [name for name in needed if name not in pairs.columns]:
        raise DataError([Fault("pairs", f"lacks {', '.join(absent)}")])
    if pairs.empty:
        raise DataError([Fault("pairs", "no rows; give at least one pair")])
    items = {text: _Text(text, share) for text in pairs["text"].unique()}
    short = {text for text, item in items.items() if item.count < min_words}
    verdicts: list[bool | None] = [None] * len(pairs)
    # One chunk is mostly near to several items. After its last pair its words are not needed.
    order = np.argsort(pd.factorize(pairs["chunk_text"])[0], kind="stable")
    texts = list(zip(pairs["text"], pairs["chunk_text"], strict=True))
    chunk = _Text("")
    with progress_bar(progress, "verbatim", len(pairs), "pairs") as advance:
        for number, row in enumerate(order.tolist(), start=1):
            text, chunk_text = texts[row]
            chunk = chunk if chunk.text == chunk_text else _Text(chunk_text)
            if text not in short:
                verdicts[row] = _holds(items[text], chunk, min_words)
            if number % _BATCH == 0:
                advance(_BATCH)
        advance(len(pairs) % _BATCH)
    return _judgements(pairs, verdicts, pairs["text"].isin(short).tolist(), min_words, share)


def _judgements(
    pairs: pd.DataFrame,
    verdicts: Sequence[bool | None],
    short: Sequence[bool],
    min_words: int,
    share: float,
) -> Judgements:
    reasons = {
        True: f"the item has fewer than {min_words} words",
        False: f"the chunk lies inside the item and holds less than {share:.0%} of it",
    }
    comments = [
        f"unjudged: {reasons[few]}" if verdict is None else ""
        for verdict, few in zip(verdicts, short, strict=True)
    ]
    table = pairs[list(PAIR)].reset_index(drop=True)
    table = table.assign(
        judge=JUDGE,
        is_duplicate=pd.array([None if v is None else int(v) for v in verdicts], dtype="Int8"),
        kind=["exact" if verdict else "" for verdict in verdicts],
        comment=comments,
    )
    made = Judgements.from_frame(table, source=JUDGE)
    counted = Counter(filter(None, comments))
    notes = [f"{count:,} pairs are {comment}" for comment, count in sorted(counted.items())]
    return Judgements(made.frame, made.source, (*made.notes, *notes))
