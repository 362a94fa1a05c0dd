"""What a paraphrase has to share with its text: names, numbers and what they count."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bayescontam._text import printable
from bayescontam.duplicates.items import DuplicateError

_NUMBER = (
    r"(?:(?<![\w)\]}])[-−])?(?<!\w)[^\W\d_]*\d+(?:[.,:]\d+)*\w*[%°]?"
    r"|(?i:\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    r"|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
    r"|hundred|thousand|million|billion|dozen)\b)"
)
"""A number with its sign and the letters around it, or in words."""
_NAMES = re.compile(
    r"`[^`\n]+`"  # in backticks
    r'|(?<!")"(?!")[^"\n]{1,80}"(?!")'  # quoted
    r"|(?<!\w)'[^'\n]{1,80}'(?!\w)"
    r"|\b[A-Za-z]\w*_\w+|\b\w+(?=\()|\b[a-z]+[A-Z]\w*"  # identifiers
    rf"|{_NUMBER}"
    r"|(?<=[a-z,;] )[A-Z][\w'-]+"  # capitalised within a sentence
)
_NUMBERS = re.compile(_NUMBER)
_SENTENCE_END = re.compile(r"[.?!;](?:\s|$)")
_COUNTED = re.compile(r"[\s-]+(?:(?:of|the|more|fewer|less|other)\s+)*([^\W\d_]+)")
_WITHIN = 4
"""Words after a number among which the one that it counts may stand."""
_COUNTS_NOTHING = {
    "a", "about", "above", "after", "all", "also", "an", "and", "are", "as", "at", "be",
    "because", "been", "before", "below", "but", "by", "can", "could", "did", "do", "does",
    "for", "from", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is",
    "it", "its", "less", "may", "more", "must", "nor", "not", "of", "on", "or", "other", "our",
    "over", "per", "she", "should", "so", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "under", "until", "up", "was", "we", "were", "what",
    "when", "where", "whether", "which", "while", "who", "whose", "why", "will", "with",
    "would", "you", "your",
}  # fmt: skip
"""Words that may change after a number."""


class _Number(NamedTuple):
    """A number in a text."""

    number: str
    counts: str  # the stem of the word that it counts, as of its unit; empty if there is none
    near: frozenset[str]  # stems of the words after it


def names_in(text: str) -> list[str]:
    """Return names and numbers, which a paraphrase of a text has to hold as they are."""
    return [*dict.fromkeys(_NAMES.findall(text))]


def check_paraphrase(text: str, before: str, names: Sequence[str]) -> None:
    """Raise a DuplicateError unless a text has the names and numbers of another.

    No number is new, none is there less often, and each counts the same.
    """
    if not text.strip():
        raise DuplicateError("its text is empty")
    if lost := [name for name in names if not _has(text, name.strip("`\"'"))]:
        raise DuplicateError("a name or number is lost", printable(", ".join(lost), 120))
    ours, theirs = [*_numbers(text)], [*_numbers(before)]
    new, old = (Counter(each.number for each in part) for part in (ours, theirs))
    if odd := [number for number in {*new, *old} if not 0 < old[number] <= new[number]]:
        detail = printable(", ".join(sorted(odd)), 120)
        raise DuplicateError("a number is new, or there less often", detail)
    near: dict[str, set[str]] = defaultdict(set)
    for each in ours:
        near[each.number] |= each.near
    if odd := [
        f"{each.number} {each.counts}…"
        for each in theirs
        if each.counts and each.counts not in near[each.number]
    ]:
        detail = printable(", ".join(dict.fromkeys(odd)), 120)
        raise DuplicateError("a number no longer stands before what it counts", detail)


def _numbers(text: str) -> Iterator[_Number]:
    hits = [*_NUMBERS.finditer(text)]
    ends = [*(hit.start() for hit in hits[1:]), len(text)]
    for hit, end in zip(hits, ends, strict=False):  # of no number there is an end still
        after = _SENTENCE_END.split(text[hit.end() : end], maxsplit=1)[0]
        counted = _COUNTED.match(after)
        word = counted[1].lower() if counted else ""
        yield _Number(
            hit[0].lower().replace("−", "-"),
            "" if word in _COUNTS_NOTHING else _stem(word),
            frozenset(map(_stem, re.findall(r"[^\W\d_]+", after.lower())[:_WITHIN])),
        )


def _stem(word: str) -> str:
    """Return what the singular and the plural of a noun share, as a rule."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3:
        word = word.removesuffix("e")
    return f"{word[:-1]}i" if word.endswith("y") else word


def _has(text: str, name: str) -> bool:
    """Return whether a text has a name as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None
