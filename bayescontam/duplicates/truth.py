"""The truth of what was planted, and which pairs of a scan hold it."""

import os

import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.validation import format_value
from bayescontam.duplicates.forms import AS_MADE, WRAPPED
from bayescontam.duplicates.planting import ABSENT, ALONE, COLUMNS, INSIDE
from bayescontam.errors import DataError, Fault
from bayescontam.scan.results import Scan

KEYS = ["benchmark", "item"]
GROUP = ["kind", "level"]
_TEXTS = (
    "benchmark", "item", "duplicate", "kind", "level", "document", "place", "form", "text_sha256",
)  # fmt: skip
_ADVICE = "Give the file that 'bayescontam duplicates plant' wrote."


def read_truth(given: pd.DataFrame | str | os.PathLike[str]) -> pd.DataFrame:
    """Return a truth with texts as texts and places as numbers, or refuse it."""
    if isinstance(given, pd.DataFrame):
        table, source = given, "truth"
    else:
        source = str(given)
        try:
            # Items and levels may be named NA, and a level may be blank.
            table = pd.read_csv(given, dtype=str, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise DataError(
                [Fault(source, f"cannot be read ({printable(str(error), 80)})")]
            ) from error
    # Truths of earlier versions have no forms: all was planted as it was made. Nor do they say
    # which texts are the same.
    for name, value in (("form", AS_MADE), ("text_sha256", "")):
        table = table if name in table else table.assign(**{name: value})
    if missing := [name for name in COLUMNS if name not in table]:
        raise DataError(
            [Fault(source, f"has no column {join_list(missing)}; give the file that 'plant' wrote")]
        )
    known = table.reset_index(drop=True).assign(
        **{name: table[name].astype(object).fillna("").astype(str).array for name in _TEXTS},
        **{name: pd.to_numeric(table[name].array, errors="coerce") for name in ("start", "end")},
    )
    faults = list(_faults(known, table.reset_index(drop=True), source))
    if faults:
        raise DataError(faults, _ADVICE)
    if (known["place"] == ABSENT).all():
        raise DataError([Fault(source, "holds no planted duplicate")], _ADVICE)
    return known


def _faults(known: pd.DataFrame, given: pd.DataFrame, source: str) -> list[Fault]:
    """Return the rows that are of no place that planting knows."""
    odd = ~known["place"].isin([ALONE, INSIDE, ABSENT])
    placed = ~odd & (known["place"] != ABSENT)
    nowhere = placed & ~((known["start"] >= 0) & (known["end"] > known["start"]))
    faults = [
        Fault(
            source, f"got {format_value(given['place'][at])}, allowed is {ALONE}, {INSIDE} or"
            f" {ABSENT}", row=at + 1, column="place",
        )
        for at in odd[odd].index
    ]  # fmt: skip
    return faults + [
        Fault(
            source, f"got {format_value(given['start'][at])} to {format_value(given['end'][at])},"
            " allowed are whole numbers, the second larger", row=at + 1, column="start, end",
        )
        for at in nowhere[nowhere].index
    ]  # fmt: skip


def planted_rows(known: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of what was planted, without the items of which nothing was."""
    return known[known["place"] != ABSENT]


def check_items(known: pd.DataFrame, scan: Scan) -> None:
    """Refuse a truth about items that the scan lacks: it could not find their duplicates."""
    items = scan.items[KEYS].astype(str).drop_duplicates()
    ours = known[KEYS].drop_duplicates()
    shared = ours.merge(items)
    if shared.empty:
        named = (join_list(table["benchmark"].unique()[:3]) for table in (known, items))
        ours_named, theirs_named = named
        problem = f"is about items of {ours_named}; the scan is about items of {theirs_named}"
        raise DataError([Fault("truth", problem)])
    if len(shared) < len(ours):
        lost = ours.merge(items, how="left", indicator=True)
        lost = lost[lost["_merge"] == "left_only"]
        raise DataError(
            [Fault("truth", f"is about {len(lost):,} items that the scan lacks:"
                   f" {join_list(lost['item'], 5)}")],
            "Scan all items of the truth, or give the rows of those that were scanned.",
        )  # fmt: skip


def overlaps(placed: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return ``row, pair``: which duplicates of an item which of its pairs hold a part of.

    `placed` and `pairs` have an index of their own, which these are of.
    """
    where = ["document", "start", "end"]
    known = placed[[*KEYS, *where]].assign(row=placed.index)
    known = known.astype(dict.fromkeys((*KEYS, "document"), "str"))
    named = pairs[[*KEYS, *where, "copies"]].assign(pair=pairs.index)
    named = named.astype(dict.fromkeys((*KEYS, "document"), "str"))
    own = known.merge(named, on=[*KEYS, "document"], suffixes=("", "_chunk"))
    both = pd.concat([own, _through_copies(placed, known, named)], ignore_index=True)
    over = (both["start_chunk"] < both["end"]) & (both["end_chunk"] > both["start"])
    return both.loc[over, ["row", "pair"]].drop_duplicates(ignore_index=True)


def _through_copies(placed: pd.DataFrame, known: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    """Return duplicates that are documents, with pairs that name another document of their text.

    A scan names one of the documents that hold a text, whichever duplicate, and of whichever item,
    that is.
    """
    text = placed["text_sha256"].where(placed["text_sha256"] != "", _by_name(placed))
    alone = known.assign(text=text)[(placed["place"] == ALONE) & (text != "")]
    holders = alone[["document", "text"]].drop_duplicates()
    through = named[named["copies"] > 1].merge(holders, on="document")
    return alone.drop(columns="document").merge(
        through, on=[*KEYS, "text"], suffixes=("", "_chunk")
    )


def _by_name(placed: pd.DataFrame) -> "pd.Series[str]":
    """Return what copies of a duplicate share, for truths that do not know their texts.

    Nothing where lines were wrapped anew: at different widths texts are different.
    """
    same = placed.groupby([*KEYS, "duplicate", "form", "start", "end"]).ngroup()
    return same.astype(str).where(placed["form"] != WRAPPED, "")
