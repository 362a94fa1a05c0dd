"""What a paraphrase has to share with its text: names, numbers and what they count."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
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
_COUNTED = re.compile(
    r"[\s-]+(?:(?:of|the|more|fewer|less|other)\s+)*([^\W\d_]+(?:[\s-]+[^\W\d_]+)*)"
)
_STATED = re.compile(r"\s+(?:is|are|was|were|has|have|had)\s+(?:the\s+)?([^\W\d_]+)")
"""What is stated of a number that no noun follows: "4 are injured"."""
_BEFORE = re.compile(
    r"\bof\s+(?:(?:all|the)\s+)*([^\W\d_]+),?\s*$|([^\W\d_]+)\s*[:=]\s*$", re.IGNORECASE
)
"""What a number counts that stands before it: "of the apples 5", "apples: 5"."""
_AGED = re.compile(r"\bage[ds]?\s+(?:(?:of|is|was|are|were)\s+)?$", re.IGNORECASE)
"""Before a number of years that need not be named."""
_CLAUSE_END = re.compile(r"[,:]|\b(?:and|or)\b")
_SHARING = re.compile(r"\W*(?:(?:and|or|to|of|out of)\s+(?:(?:all|the)\s+)?)?\W*")
"""Between two numbers that count the same: "5 and 3 km", "12 of 20 students"."""
_OUT_OF = re.compile(r"\bout of\s+(?:(?:all|the)\s+)?$")
"""Before a number that counts what the one before does: "12 students out of 20"."""
_PART = re.compile(r"\s*(?:out\s+)?of\s+(?:(?:all|the)\s+)*")
"""Between a number and that of which it is a part: "4 of the 12"."""
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_BEFORE_YEAR = re.compile(
    r"\b(?:in|since|until|till|by|from|of|to|before|after|during|around|year|january|february"
    r"|march|april|may|june|july|august|september|october|november|december),?\s+$",
    re.IGNORECASE,
)
_WITHIN = 4
"""Words after a number among which the one that it counts may stand."""
_COUNTS_NOTHING = {
    "a", "about", "above", "after", "all", "also", "an", "and", "are", "as", "at", "be",
    "because", "been", "before", "below", "but", "by", "can", "could", "did", "do", "does",
    "for", "from", "had", "has", "have", "he", "her", "his", "how", "if", "in", "into", "is",
    "it", "its", "less", "may", "more", "must", "nor", "not", "of", "on", "or", "other", "our",
    "over", "per", "plus", "she", "should", "so", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "under", "until", "up", "was", "we", "were", "what",
    "when", "where", "whether", "which", "while", "who", "whose", "why", "will", "with",
    "would", "you", "your",
}  # fmt: skip
"""Words that may change after a number."""
_SAME_UNITS = """
mm millimetre millimeter, cm centimetre centimeter, m metre meter, km kilometre kilometer,
inch, ft foot feet, yd yard, mi mile mph, mg milligram, g gram gramme, kg kilo kilogram kilogramme,
t ton tonne, oz ounce, lb lbs pound £, ml millilitre milliliter, cl centilitre centiliter,
l litre liter, gallon, pint, cup, s sec second, min minute, h hr hrs hour, day, week, month,
year yr yrs, decade, century, degree, celsius, fahrenheit, kelvin, percent, dollar $ usd, cent,
euro € eur, yen ¥, rupee ₹, yuan, franc, watt, kilowatt, volt, joule, calorie, byte, kilobyte kb,
megabyte mb, gigabyte gb, acre, hectare
"""


class _Number(NamedTuple):
    """A number in a text."""

    number: str
    counts: str  # the stem of the word that it counts, or its unit; empty if there is none
    phrase: set[str]  # stems of the words that may be what it counts
    near: set[str]  # stems of the words after it
    whole: str  # the number of which it is a part, if any
    aged: bool  # whether it is an age whose unit may go unnamed


def names_in(text: str) -> list[str]:
    """Return names and numbers, which a paraphrase of a text has to hold as they are."""
    return [*dict.fromkeys(_NAMES.findall(text))]


def check_paraphrase(text: str, before: str, names: Sequence[str]) -> None:
    """Raise a DuplicateError unless a text has the names and numbers of another.

    No number is new, none is there less often (in words: is lost), each has its unit, and none
    counts what another one did, as far as words that stand next to numbers show.
    """
    if not text.strip():
        raise DuplicateError("its text is empty")
    if lost := [name for name in names if not _has(text, name.strip("`\"'"))]:
        raise DuplicateError("a name or number is lost", printable(", ".join(lost), 120))
    ours, theirs = _numbers(text), _numbers(before)
    new, old = (Counter(each.number for each in part) for part in (ours, theirs))
    least = {number: 1 if number.isalpha() else old[number] for number in old}
    if odd := [each for each in {*new, *old} if each not in old or new[each] < least[each]]:
        detail = printable(", ".join(sorted(odd)), 120)
        raise DuplicateError("a number is new, or there less often", detail)
    if odd := [*_misplaced(ours, theirs)]:
        detail = printable(", ".join(dict.fromkeys(odd)), 120)
        raise DuplicateError("a number no longer stands before what it counts", detail)


def _misplaced(ours: Sequence[_Number], theirs: Sequence[_Number]) -> Iterator[str]:
    """Yield numbers of an earlier text that lost their unit, or what they count to another one."""
    near, phrases = (_by_number(ours, field) for field in ("near", "phrase"))
    was_near, counted = _by_number(theirs, "near"), defaultdict[str, set[str]](set)
    for each in theirs:
        counted[each.number].add(each.counts)
    parts = {(each.number, each.whole) for each in theirs}
    for number, whole in {(each.number, each.whole) for each in ours} - parts:
        if (whole, number) in parts:
            yield f"{whole} of {number}"
    for number, word, *_ in theirs:
        others = counted.keys() - {number}
        if not word or word in near[number]:
            continue
        if word in _UNITS.values():
            # The unit may stand once for several numbers, and years of age may go unnamed.
            shared = any(word in counted[each] and word in near[each] for each in others)
            aged = word == _UNITS["year"] and any(e.aged for e in ours if e.number == number)
            wrong = not (shared or aged) or not near[number].isdisjoint(_UNITS.values())
        else:
            # One that still counts what it did may stand before more: "12 wear", "12 boys wear".
            wrong = any(
                word in phrases[each] - was_near[each] and counted[each].isdisjoint(phrases[each])
                for each in others
            )
        if wrong:
            yield f"{number} {word}…"


def _by_number(found: Sequence[_Number], field: str) -> defaultdict[str, set[str]]:
    """Return all words of a field for each number."""
    words = defaultdict[str, set[str]](set)
    for each in found:
        words[each.number] |= getattr(each, field)
    return words


def _numbers(text: str) -> list[_Number]:
    hits = [*_NUMBERS.finditer(text)]
    starts = [0, *(hit.end() for hit in hits)]
    ends = [*(hit.start() for hit in hits), len(text)]
    between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    found, aged = list[_Number](), False
    for at, hit in enumerate(hits):
        before, after = between[at], _SENTENCE_END.split(between[at + 1], maxsplit=1)[0]
        run = _COUNTED.match(after)
        words = re.split(r"[\s-]+", run[1]) if run else []
        words = [*takewhile(lambda word: word.lower() not in _COUNTS_NOTHING, words)]
        stems = [*map(_stem, words[:_WITHIN])]
        if sign := before[-1:] if before[-1:] in _UNITS else "":
            stems.insert(0, _UNITS[sign])
        units = [stem for stem in stems[:2] if stem in _UNITS.values()]
        # A verb says what is counted where no noun does, and so does a word before.
        others = [_STATED.match(after)] * (not stems) + [_BEFORE.search(before)]
        phrase = stems + [_stem(each[each.lastindex or 1]) for each in others if each]
        aged = bool(_AGED.search(before)) or (aged and _SHARING.fullmatch(before) is not None)
        name = not words or words[0][0].isupper()
        year = name and _YEAR.fullmatch(hit[0]) and _BEFORE_YEAR.search(before)
        near = re.findall(r"[^\W\d_]+", _CLAUSE_END.split(after, maxsplit=1)[0])[:_WITHIN]
        whole = hits[at + 1][0] if _PART.fullmatch(between[at + 1]) and hit is not hits[-1] else ""
        found.append(
            _Number(
                _plain(hit[0]),
                "" if year else next(iter([*units, *phrase]), ""),
                {*phrase},
                {*phrase, *map(_stem, near)},
                _plain(whole),
                aged,
            )
        )
    for at in range(len(found) - 1, 0, -1):
        if _SHARING.fullmatch(between[at]):
            found[at - 1].near.update(found[at].near)
        elif _OUT_OF.search(between[at]):
            found[at].phrase.update(found[at - 1].phrase)
            found[at].near.update(found[at - 1].near)
    return found


def _plain(number: str) -> str:
    """Return a number as it is compared."""
    return number.lower().replace("−", "-")


def _stem(word: str) -> str:
    """Return what the singular and the plural of a noun share, as a rule, or the unit it is."""
    stem = _singular(word.lower())
    return _UNITS.get(stem, stem)


def _singular(word: str) -> str:
    """Return a word without the ending of a plural, and what may change before it."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3:
        word = word.removesuffix("e")
    return f"{word[:-1]}i" if word.endswith("y") else word


def _has(text: str, name: str) -> bool:
    """Return whether a text has a name as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


_UNITS = {
    _singular(word): _singular(words.split()[0])
    for words in _SAME_UNITS.split(",")
    for word in words.split()
}
"""Each unit and currency, and the first one of those that are the same."""
