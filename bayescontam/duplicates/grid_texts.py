"""Texts of logic grids: read, and held against the grids that they are duplicates of."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from bayescontam._text import join_list, printable
from bayescontam._types import IntArray
from bayescontam.duplicates.grids import (
    CLUES,
    COUNTS,
    ORDINALS,
    Attribute,
    Category,
    Clue,
    Grid,
    Relation,
    known_categories,
    other_introductions,
    other_sentences,
    plain,
    refuse_unsolved,
)
from bayescontam.duplicates.items import DuplicateError

_STOPS = (
    "not never no none nor neither or either and but if unless except without true false untrue"
    " wrong maybe perhaps left right next beside besides between opposite across near nearby above"
    " below behind before after front far directly immediately somewhere adjacent apart distance"
    r" neighbou?rs? neighbou?r['’]s neighbou?ring same other another different than cannot person"
    " people someone somebody anyone nobody man woman one friend"
)


_INNER = "|".join([*_STOPS.split(), *ORDINALS, r"lives?(?! in )", r"\w+n['’]t"])


_OUTER = rf"{_INNER}|is|are|was|has|does|do|in|of|to"


_END = r"(?![\w'’-])"


_BEFORE = rf"(?: (?!(?:{_INNER}){_END})[\w'’-]+)"


_WORDS_AFTER = rf"(?: (?!(?:{_OUTER}){_END})[\w'’-]+){{0,3}}"


_AFTER = rf"(?:['’]s?|-[\w-]+)?{_WORDS_AFTER}"


_PERSON = (
    r"(?:\|"  # a name
    rf"|(?:the|an?) \|(?:-[\w-]+)?(?: (?:person|one|man|woman)|{_WORDS_AFTER})"
    rf"|(?:the|an?) (?:person|one|man|woman)(?:['’]s)?{_BEFORE}{{1,8}} \|{_AFTER})"
)
"""How clues speak of a person: by one value, with few words around it that name no relation."""


_ONE, _TWO, _ORDINAL = rf"(?P<one>{_PERSON})", rf"(?P<two>{_PERSON})", r"(?P<ordinal>\w+)"


_WORDED: tuple[tuple[Relation, str], ...] = (
    ("not in", rf"{_ONE} (?:is not|does not live) in the {_ORDINAL} house"),
    ("not in", rf"the {_ORDINAL} house is not the home of {_ONE}"),
    ("in", rf"{_ONE} (?:is|lives) in the {_ORDINAL} house"),
    ("in", rf"the {_ORDINAL} house is the home of {_ONE}"),
    ("apart", rf"there (?:is|are) (?P<count>\w+) houses? between {_ONE} and {_TWO}"),
    ("apart", rf"between {_ONE} and {_TWO} (?:is|are) (?P<count>\w+) houses?"),
    (
        "next left",
        rf"{_ONE} (?:is|lives) (?:directly|immediately) (?:to the )?(?P<side>left|right) of {_TWO}",
    ),
    ("left", rf"{_ONE} (?:is|lives) (?:somewhere )?to the (?P<side>left|right) of {_TWO}"),
    ("beside", rf"{_ONE} and {_TWO} are (?:next to each other|neighbours)"),
    ("beside", rf"{_ONE} lives next door to {_TWO}"),
    ("same", rf"{_ONE} and {_TWO} are the same person"),
    ("same", rf"{_ONE} lives in the same house as {_TWO}"),
    ("same", rf"{_ONE} is {_TWO}"),
)
"""How relations are worded, with a bar in place of each value; nothing else may stand in a clue."""


_SYMMETRIC = frozenset({"same", "beside", "apart"})


_LONG = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june",
    "jul": "july", "aug": "august", "sep": "september", "sept": "september", "oct": "october",
    "nov": "november", "dec": "december", "swede": "swedish", "brit": "british",
    "dane": "danish",
}  # fmt: skip
"""What clues of ZebraLogic have for values that are short for it."""


_LIST = re.compile(
    r"\s*[-*•]?\s*(?P<intro>[^`]*?):\s*(?P<values>`[^`]+`(?:,? (?:and )?`[^`]+`)+)\.?\s*"
)


_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def read_grid(text: str, solution: Mapping[str, Any]) -> Grid:
    """Read a grid from its text and its solution.

    Lists of values stand on lines of their own, in backticks; clues are numbered lines, and no
    others follow.

    Parameters
    ----------
    text : str
        The puzzle: this package's wording or that of ZebraLogic.
    solution : mapping
        ``header`` (the first is the house, then a name for each list) and ``rows``.

    Raises
    ------
    DuplicateError
        Where a list, a clue or the solution cannot be read.
    """
    try:
        header, rows = _HEADER.validate_python(solution.get("header")), solution.get("rows")
        rows = _ROWS.validate_python(rows)
    except ValidationError as error:
        raise DuplicateError(
            "its solution has no header and rows", str(error.errors()[0]["msg"])
        ) from None
    preamble, lists, numbered = _parts(text)
    values, names = [own for _, own in lists], header[1:]
    sizes = sorted({*map(len, values)})
    if not values or len(names) != len(values) or len(sizes) != 1:
        raise DuplicateError(
            f"it has no lists of values in backticks before a line {CLUES!r}, one for each column"
            " of the solution, all of one length",
            f"{len(values)} lists, of {join_list(map(str, sizes)) or 'no'} values, and"
            f" {len(names)} columns",
        )
    if len({plain(value) for own in values for value in own}) < sizes[0] * len(values):
        raise DuplicateError("a value occurs twice")
    found = tuple(
        Category(name, intro, "{}", own) for name, (intro, own) in zip(names, lists, strict=True)
    )
    house = _houses(found, rows)
    _check_introduction(preamble, found, strict=True)
    clues = tuple(_clue(line, found) for line in numbered)
    _check_names(clues, found)
    return Grid(found, clues, house, preamble)


_HEADER, _ROWS = TypeAdapter(list[str]), TypeAdapter(list[list[str | int]])


def _parts(text: str) -> tuple[str, list[tuple[str, tuple[str, ...]]], list[str]]:
    """Return what stands before the clues, the lists in it with their headings, and the clues."""
    preamble, marker, body = text.partition(CLUES)
    found = [_LIST.fullmatch(line) for line in preamble.splitlines() if line.count("`") >= 4]
    lists = [
        (each["intro"].strip(), tuple(re.findall(r"`([^`]+)`", each["values"])))
        for each in found if each
    ]  # fmt: skip
    if not marker or len(lists) < len(found):
        raise DuplicateError(
            f"it has no lists of values in backticks before a line {CLUES!r}",
            f"{len(lists)} lists, and {len(found) - len(lists)} with other words between values",
        )
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    numbered = [re.fullmatch(r"\d+[.)]\s+(.+)", line) for line in lines]
    if not numbered:
        raise DuplicateError("it has no numbered clues, each on a line")
    if None in numbered:
        raise DuplicateError(
            "after its clues there is a line that is none", printable(lines[numbered.index(None)])
        )
    return preamble + marker, lists, [each[1] for each in numbered if each]


def _check_introduction(preamble: str, found: Sequence[Category], *, strict: bool) -> None:
    """Refuse other numbers of houses, another order, and hints; `strict`: text after the lists."""
    lines = preamble.removesuffix(CLUES).splitlines()
    places = [at for at, line in enumerate(lines) if line.count("`") >= 4]
    within = lines[places[0] : places[-1] + 1]
    after = [line for line in lines[places[-1] + 1 :] if line.strip()]
    if strict and (after or len([line for line in within if line.strip()]) > len(places)):
        raise DuplicateError("there is more than the lists of values before its clues")
    free = " ".join(line.split("`")[0] for line in lines)
    if _mentions(free, found)[0]:
        raise DuplicateError("its introduction names values outside their lists")
    size = len(found[0].values)
    counted = re.findall(
        r"\b(\d+|[a-z]+) (?:different )?(?:houses|homes|neighbou?rs)\b|\b1 to (\d+)\b", free.lower()
    )
    words = [word for pair in counted for word in pair if word]
    numbers = [_NUMBERS.index(word) if word in _NUMBERS else word for word in words]
    if any(str(number).isdigit() and int(number) != size for number in numbers):
        raise DuplicateError("its introduction has another number of houses than its lists")
    if re.search(
        r"\bright(?: |-)to(?: |-)(?:the )?left\b|\bfrom the (?:far )?right\b"
        r"|\bright\b[^.;,]*\bnumber 1\b",
        free.lower(),
    ):
        raise DuplicateError("its introduction counts the houses from the right")


def _check_names(clues: Iterable[Clue], found: Sequence[Category]) -> None:
    """Refuse values that stand alone as a rule, as names do, where one is part of more words.

    "The brother of Ana" is not Ana.
    """
    alone: dict[int, list[bool]] = {}
    for clue in clues:
        for at, phrase in zip((clue.a, clue.b), clue.phrases, strict=True):
            if at is not None:
                value = found[at[0]].values[at[1]]
                alone.setdefault(at[0], []).append(plain(phrase) == plain(value))
    if any(len(ways) / 2 < sum(ways) < len(ways) for ways in alone.values()):
        raise DuplicateError("a name stands alone in most clues, and for others in one")


def _houses(found: tuple[Category, ...], rows: Sequence[Sequence[str | int]]) -> IntArray:
    """Return the house of each value, dims (category, value)."""
    size = len(found[0].values)
    house = np.full((len(found), size), -1)
    for h, row in enumerate(rows):
        for c, value in enumerate(row[1:]):
            if c < len(found) and value in found[c].values:
                house[c, found[c].values.index(str(value))] = h
    whole = all(len(row) == len(found) + 1 for row in rows)
    if not whole or len(rows) != size or (np.sort(house, axis=1) != np.arange(size)).any():
        raise DuplicateError("its solution does not place each value in one house")
    return house


def _clue(line: str, found: tuple[Category, ...]) -> Clue:
    """Read a clue from its words."""
    named, hits, barred = _mentions(line, found)
    for relation, pattern in _WORDED:
        match = re.fullmatch(rf"{pattern}\.?", barred, re.IGNORECASE)
        if match is None or barred.count("|") != len(named):
            continue
        words = match.groupdict()
        parts = [words[part] for part in ("one", "two") if part in words]
        if len(named) != len(parts):
            break
        phrases = [
            _within(part, hit, found[at[0]].values[at[1]])
            for part, hit, at in zip(parts, hits, named, strict=True)
        ]
        if len(parts) == 1:
            ordinals = ORDINALS[: len(found[0].values)]
            if (ordinal := words["ordinal"].lower()) in ordinals:
                number = ordinals.index(ordinal)
                return Clue(relation, named[0], None, number, line, (phrases[0], ""))
            break
        between = (words.get("count") or COUNTS[0]).lower()
        if between not in COUNTS:
            break
        if (words.get("side") or "").lower() == "right":
            named, phrases = named[::-1], phrases[::-1]
        return Clue(relation, named[0], named[1], COUNTS.index(between), line, tuple(phrases))
    raise DuplicateError(
        "a clue has no known relation of two values, or of one and a house",
        f"{printable(line, 120)!r}, in which {len(named)} values were found",
    )


def _within(part: str, hit: str, value: str) -> str:
    """Return how a clue speaks of a person, as it stands within a sentence."""
    if part == "|":  # a name; one that begins a sentence may be small within
        return value if plain(hit) == plain(value) else hit
    article, space, rest = part.partition(" ")
    return article.lower() + space + rest.replace("|", hit)


def _mentions(line: str, found: Sequence[Category]) -> tuple[list[Attribute], list[str], str]:
    """Return the values that a clue names, how it writes them, and the clue with bars for them."""
    spelt = {
        spelling: (c, v)
        for c, each in enumerate(found)
        for v, value in enumerate(each.values)
        for spelling in (_LONG.get(plain(value)), plain(value))
        if spelling
    }
    # Longer ones come before their parts.
    longest = sorted(spelt, key=len, reverse=True)
    # Hyphens may stand in any place of a word, and an s at its end.
    pattern = "|".join(
        "(" + "-?".join(map(re.escape, spelling)) + (")s?" if len(spelling) > 2 else ")")
        for spelling in longest
    )
    hits = [*re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", line, re.IGNORECASE)]
    named = [spelt[longest[(hit.lastindex or 1) - 1]] for hit in hits]
    words = [hit[0] for hit in hits]
    barred, end = [], 0
    for hit in hits:
        barred += [line[end : hit.start()], "|"]
        end = hit.end()
    return named, words, "".join([*barred, line[end:]])


def same_clues(one: Sequence[Clue], other: Sequence[Clue]) -> bool:
    """Return whether two lists hold the same clues, in any order."""
    return sorted(map(_key, one)) == sorted(map(_key, other))


def _key(clue: Clue) -> tuple[str, str, str, int]:
    ends = [str(clue.a), str(clue.b)]
    if clue.relation in _SYMMETRIC:
        ends.sort()
    return clue.relation, *ends, clue.number  # type: ignore[return-value]


def check_duplicate(
    parent: Grid,
    text: str,
    answer: Mapping[str, Any],
    *,
    substituted: bool,
    reworded: bool = False,
) -> None:
    """Raise a DuplicateError unless a text is what the package makes of a grid.

    Parameters
    ----------
    parent : Grid
        The item.
    text : str
        What is said to be its duplicate.
    answer : mapping
        Its solution.
    substituted : bool
        Whether it has other categories and values. Without, it has those of the item.
    reworded : bool, default False
        Whether it has other sentences. Without, they are those of the item, or of new grids where
        values were substituted.

    Raises
    ------
    DuplicateError
        Where the text or the solution is anything else.
    """
    found = read_grid(text, answer)
    placed = np.array_equal(found.house, parent.house)
    values, before = _values(found.categories), _values(parent.categories)
    faults = {
        "its answer is not that of its item after mapping": not placed,
        "its clues are not those of its item": not same_clues(found.clues, parent.clues),
        "a value of its item is still there": substituted and bool(values & before),
        "its values are not those of its item": not substituted and values != before,
    }
    for reason, holds in faults.items():
        if holds:
            raise DuplicateError(reason)
    base = _substituted(parent, found) if substituted else parent
    introductions = other_introductions(base) if reworded else [_introduction(base)]
    if found.preamble not in introductions:
        raise DuplicateError("its introduction is not one that its steps make")
    sentences = [
        {*(other_sentences(base, clue) if reworded else [base.sentence(clue)])}
        for clue in base.clues
    ]
    if not _can_pair([[line.words in own for own in sentences] for line in found.clues]):
        raise DuplicateError("a clue is worded as none of its steps does")
    columns, names = ([each.name for each in of.categories] for of in (base, found))
    if text.strip() != found.text or found.solution != {**answer} or columns != names:
        raise DuplicateError("its text or its answer has another form than its steps make")
    refuse_unsolved(found)


def _introduction(grid: Grid) -> str:
    """Return what stands before the clues of a grid."""
    return grid.preamble or grid.introduction()


def _substituted(parent: Grid, found: Grid) -> Grid:
    """Return a grid with the categories of another, as the package knows these."""
    known = {each.name: each for each in known_categories()}
    if not all(
        {*own.values} <= {*known[own.name].values} if own.name in known else False
        for own in found.categories
    ):
        raise DuplicateError("its categories or values are not those that its steps know")
    new = tuple(replace(known[own.name], values=own.values) for own in found.categories)
    clues = tuple(replace(clue, words="", phrases=()) for clue in parent.clues)
    return Grid(new, clues, found.house)


def _can_pair(fits: Sequence[Sequence[bool]]) -> bool:
    """Return whether each row can have a column of its own that fits, dims (row, column)."""
    paired = maximum_bipartite_matching(csr_matrix(np.array(fits, dtype=bool)), "column")
    return bool((paired >= 0).all())


def check_paraphrased(before: Grid, text: str) -> bool:
    """Return whether all clues of a paraphrase can be read; those that can are those of its item.

    Parameters
    ----------
    before : Grid
        What was paraphrased.
    text : str
        The paraphrase: values in the same lists, and as many numbered clues. A clue that cannot be
        read names the values of one of the clues that are left.

    Raises
    ------
    DuplicateError
        Where lists, the number of clues, or a clue is not that of the grid before.
    """
    preamble, lists, numbered = _parts(text)
    own = sorted(sorted(each.values) for each in before.categories)
    if sorted(sorted(values) for _, values in lists) != own:
        raise DuplicateError("its lists of values are not those of its item")
    if len(numbered) != len(before.clues):
        raise DuplicateError("it has another number of clues", f"{len(numbered)}")
    _check_introduction(preamble, before.categories, strict=False)
    fits, whole = [], True
    for line in numbered:
        try:
            key = _key(_clue(line, before.categories))
            fits.append([_key(clue) == key for clue in before.clues])
        except DuplicateError:  # in words that only a person, or a model, understands
            whole, named = False, {*_mentions(line, before.categories)[0]}
            fits.append([{clue.a, clue.b} - {None} == named for clue in before.clues])
    if not _can_pair(fits):
        raise DuplicateError("its clues are not those of its item")
    return whole


def _values(of: Iterable[Category]) -> set[str]:
    return {value.lower() for each in of for value in each.values}
