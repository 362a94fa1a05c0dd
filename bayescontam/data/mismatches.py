"""Why names of one table are not found in another: the likely cause."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bayescontam._text import join_list, printable

type Change = Callable[[str], str]

_NOT_IN_R = re.compile(r"[^\w.]")
_NEEDS_X = re.compile(r"[^\W\d_]|\.(?!\d)")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
    rf"\d{{1,2}}[-/. ]({_MONTHS})[a-z]*([-/. ]\d{{2,4}})?|({_MONTHS})[a-z]*[-/. ]\d{{1,4}}"
    r"|\d{4}-\d{2}-\d{2}([ T]00:00(:00)?)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}",
    re.IGNORECASE,
)
_FLOAT = re.compile(r"([+-]?\d+)\.0+")
_POWER = re.compile(r"\d(\.\d+)?E\+?\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Mismatch:
    """A likely reason."""

    count: int  # names that it explains
    total: int  # names that were not found
    sentence: str  # what differs and what to do, after "n of m names"
    # a name that was not found, and the one that is likely meant ("" if that is not known)
    example: tuple[str, str]

    def __str__(self) -> str:
        names = f"all {self.total:,}" if self.count == self.total else f"{self.count:,}"
        of = "" if self.count == self.total else f" of {self.total:,}"
        here, there = self.example
        meant = f" ('{here}' here, '{there}' there)" if there else f" ('{here}')"
        return f"{names}{of} unmatched names {self.sentence}{meant}"


def likely_mismatch(lost: Iterable[str], known: Iterable[str]) -> Mismatch | None:
    """Return why names are not among the known ones; None if nothing explains half of them.

    >>> print(likely_mismatch(["X1", "X12"], ["1", "12"]))
    all 2 unmatched names differ by an 'X' or dots that R puts into names of columns; in R: \
read.csv(…, check.names = FALSE), or rename one side ('X1' here, '1' there)
    """
    lost, known = list(dict.fromkeys(lost)), list(dict.fromkeys(known))
    found = [_by_change(lost, known, change, sentence) for change, sentence in _CHANGES]
    found += [_by_dates(lost, known), _by_prefix(lost, known)]
    likely = [reason for reason in found if reason is not None and 2 * reason.count >= len(lost)]
    return max(likely, key=lambda reason: reason.count, default=None)


def mismatch_reasons(
    what: str, missed: Iterable[str], others: Iterable[str], source: str
) -> list[str]:
    """Return why names of responses and of another table miss each other, if the names show it."""
    missed, others = sorted(missed), sorted(others)
    if reason := likely_mismatch(missed, others):
        return [f"{what}: {reason}"]
    # Of a table of few names, such as a list of what was found, most names must be explained.
    if reason := likely_mismatch(others, missed):
        return [f"{what}, of {printable(source)}: {reason}"]
    return []


def without_partner(
    what: str, missed: Iterable[str], others: Iterable[str], source: str
) -> list[str]:
    """Return a sentence if names match nothing on both sides; see `mismatch_reasons`."""
    missed, others = sorted(missed), sorted(others)
    if not missed or not others:
        return []
    return [
        f"{what}: no response matches {join_list(others)} of {printable(source)}, and no row "
        f"matches {join_list(missed)}; if some are the same, write both alike"
    ]


def _by_change(lost: list[str], known: list[str], change: Change, sentence: str) -> Mismatch | None:
    changed: dict[str, str] = {}
    for name in known:
        changed.setdefault(change(name), name)
    matches = [(name, changed[change(name)]) for name in lost if change(name) in changed]
    return Mismatch(len(matches), len(lost), sentence, matches[0]) if matches else None


def _of_r(name: str) -> str:
    """Return a name as R writes it at the top of a column."""
    name = _NOT_IN_R.sub(".", name)
    return name if _NEEDS_X.match(name) else f"X{name}"


def _of_number(name: str) -> str:
    whole = _FLOAT.fullmatch(name.strip())
    if whole:
        return whole[1]
    return f"{float(name):.0f}" if _POWER.fullmatch(name.strip()) else name.strip()


_CHANGES: tuple[tuple[Change, str], ...] = (
    (str.strip, "differ by blanks at their ends; write both alike"),
    (str.casefold, "differ by upper and lower case; write both alike"),
    (lambda name: name.lstrip("0"), "differ by leading zeros, which spreadsheets drop; keep the "
     "column as text"),
    (_of_number, "are whole numbers stored as floats or powers in one table; store them as whole "
     "numbers or text"),
    (_of_r, "differ by an 'X' or dots that R puts into names of columns; in R: "
     "read.csv(…, check.names = FALSE), or rename one side"),
    (lambda name: re.sub(r"[\W_]+", "", name).casefold(), "differ by case, blanks or punctuation;"
     " write both alike"),
)  # fmt: skip


def _by_dates(lost: list[str], known: list[str]) -> Mismatch | None:
    """Find names that a spreadsheet has taken for dates, such as 2-3 or MARCH1, on either side."""
    sentence = (
        "look like dates that a spreadsheet made of names such as 2-3 or MAR1; format the column "
        "as text before the names go in"
    )
    dates = [name for name in lost if _DATE.fullmatch(name.strip())]
    if dates and not any(_DATE.fullmatch(name.strip()) for name in known):
        return Mismatch(len(dates), len(lost), sentence, (dates[0], ""))
    there = [name for name in known if _DATE.fullmatch(name.strip())]
    if there and not dates and len(there) >= len(lost) / 2:
        return Mismatch(
            min(len(there), len(lost)),
            len(lost),
            f"may be among {len(there):,} names there that {sentence}",
            (lost[0], there[0]),
        )
    return None


def _by_prefix(lost: list[str], known: list[str]) -> Mismatch | None:
    """Find one text that stands before all names of one side."""
    best = None
    for names, others, where in ((lost, known, "here"), (known, lost, "there")):
        among = set(others)
        for name in names[:20]:
            ends = [name[at:] for at in range(1, len(name)) if _is_seam(name, at, among)]
            for end in ends:
                prefix = name[: len(name) - len(end)]
                matches = [n for n in names if n.startswith(prefix) and n[len(prefix) :] in among]
                pair = (matches[0], matches[0][len(prefix) :])
                example = pair if where == "here" else pair[::-1]
                sentence = (
                    f"differ by {join_list([prefix])} before the names {where}; rename one side"
                )
                if best is None or len(matches) > best.count:
                    best = Mismatch(min(len(matches), len(lost)), len(lost), sentence, example)
    return best


def _is_seam(name: str, at: int, among: set[str]) -> bool:
    # 7 is no end of 17, and ale none of scale.
    before, after = name[at - 1], name[at]
    within = (before.isdigit() and after.isdigit()) or (before.isalpha() and after.isalpha())
    return name[at:] in among and not within
