"""Pairs of an item and a chunk: those of a scan, and those that judgements are of."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.data.validation import format_value
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.results import Scan, refuse_best_only

SAME_TEXT = 0.005
"""Largest difference of two cosines of one pair of texts: devices and precisions differ by less."""

_ITEM = ["benchmark", "item"]
_KEYS = list(PAIR)
LEAD = ["lead", "lead_cosine", "place"]
"""Columns that say which chunk of a document is the nearest to the item, and which place the
document has among those of the item."""
COLUMNS = [
    *_KEYS, "chunk_id", "cosine", "stratum", "copies", "start", "end", "listed",
]  # fmt: skip
"""Columns of the pairs of a scan, before those of `LEAD`."""


def scan_pairs(scan: Scan) -> pd.DataFrame:
    """Return the distinct pairs of a scan: its best matches and its tail sample."""
    refuse_best_only(scan)
    tables = [scan.matches.assign(listed=True), scan.tail.assign(listed=False)]
    pairs = pd.concat([table[COLUMNS] for table in tables], ignore_index=True)
    pairs = pairs.drop_duplicates([*_KEYS, "chunk_id"])
    items = pd.MultiIndex.from_frame(scan.items[_ITEM])
    place = items.get_indexer(pd.MultiIndex.from_frame(pairs[_ITEM]))
    order = [place, -pairs["cosine"].to_numpy(), pairs["chunk_id"].to_numpy()]
    # Last comes what matters only where one text stands in several documents.
    names = [pd.factorize(pairs[name], sort=True)[0] for name in ("source", "document", "chunk")]
    pairs = pairs.iloc[np.lexsort([*names[::-1], *order[::-1]])].reset_index(drop=True)
    first = pairs.groupby([*_ITEM, "source", "document"], sort=False, observed=True)
    lead = first[["chunk", "cosine"]].transform("first")
    # Of ready vectors it is not known which belong to one document.
    strata = scan.record.get("strata") or []
    alone = pairs["source"].isin([row["source"] for row in strata if "documents" not in row])
    pairs = pairs.assign(
        lead=lead["chunk"].where(~alone, pairs["chunk"]),
        lead_cosine=lead["cosine"].where(~alone, pairs["cosine"]),
    )
    return pairs.assign(place=_places(pairs, scan))


def _places(pairs: pd.DataFrame, scan: Scan) -> FloatArray:
    """Return the place of each pair's document among those of the item, from 1."""
    keys = [*_ITEM, "source", "document", "lead"]
    nearest = pairs["chunk"] == pairs["lead"]
    listed = nearest & pairs["listed"]
    # In the order of falling cosines: of listed documents the place is their number.
    number = listed.groupby([pairs[name] for name in _ITEM], sort=False, observed=True).cumsum()
    place = number.to_numpy(float)
    unlisted = _unlisted(pairs, scan, nearest if scan.by_source else nearest & ~pairs["listed"])
    if scan.by_source:
        # Where the list of one source ends, unlisted matches stand between those of the others.
        place[listed] += unlisted[listed]
    for _, rows in pairs[nearest & ~pairs["listed"]].groupby(_ITEM, sort=False, observed=True):
        at = rows.index.to_numpy()
        place[at] += 1 + np.maximum(unlisted[at], np.arange(len(rows)))
    # Documents of one name may hold several nearest chunks of the same number.
    table = pairs[keys].assign(place=place, own=nearest)
    found = table[table["own"]].drop_duplicates(keys)[[*keys, "place"]]
    result: FloatArray = pairs[keys].merge(found, on=keys, how="left")["place"].to_numpy(float)
    return result


def _unlisted(pairs: pd.DataFrame, scan: Scan, chosen: "pd.Series[bool]") -> FloatArray:
    """Return how many occurrences with a higher cosine than that of a pair are not listed."""
    result = np.zeros(len(pairs))
    if not chosen.any():
        return result
    # Each list of best matches ends at a cosine of its own, above which all are listed.
    of_list = [*_ITEM, "source"] if scan.by_source else _ITEM
    counted = scan.histogram.groupby(of_list, sort=False, observed=True).indices
    cosines, counts = (scan.histogram[name].to_numpy() for name in ("cosine", "count"))
    known = pairs[pairs["listed"]].groupby(of_list, sort=False, observed=True)["copies"].sum()
    lists: dict[Any, list[Any]] = {}
    keys: list[Any] = list(counted)
    for key in keys:
        lists.setdefault(key[: len(_ITEM)], []).append(key)
    for item, rows in pairs[chosen].groupby(_ITEM, sort=False, observed=True):
        own, at = rows["cosine"].to_numpy(float), rows.index.to_numpy()
        for key in lists[item]:
            bins = counted[key][np.argsort(cosines[counted[key]], kind="stable")]
            above = np.append(counts[bins][::-1].cumsum()[::-1], 0)
            beyond = above[np.searchsorted(cosines[bins], own, side="right")]
            left = beyond - known.get(key, 0)
            result[at] += np.maximum(left, 0) if scan.by_source else left
    return result


def positions_in_scan(
    judgements: Judgements, scan: Scan, *, missing: Literal["error", "drop"] = "error"
) -> pd.DataFrame:
    """Return judgements with what the scan shows about their pairs."""
    if missing not in ("error", "drop"):
        raise UsageError(f"missing={missing!r}: allowed are 'error' and 'drop'")
    pairs = scan_pairs(scan).drop_duplicates(_KEYS).reset_index(drop=True)
    frame = judgements.frame.reset_index(drop=True)
    at, several = _positions(frame, pairs)
    _refuse(several, frame, judgements.source, "stands in several sources; name one", "")
    lost: BoolArray = (at < 0) & ~several
    if missing == "error":
        advice = (
            f"{lost.sum():,} judgements are of pairs that {printable(str(scan.folder))} lacks; "
            "remove them, or give the scan that they were made for"
        )
        _refuse(lost, frame, judgements.source, "is no pair of this scan", advice)
    matched = frame[~lost].reset_index(drop=True)
    known = pairs.iloc[at[~lost]].reset_index(drop=True)
    matched["source"] = known["source"]
    result = matched.join(known.drop(columns=_KEYS))
    again = result.duplicated([*_KEYS, "judge"]).to_numpy()
    problem = "is judged twice by one judge once its source is filled in; keep one"
    _refuse(again, matched, judgements.source, problem, "")
    return result


def of_these_texts(judged: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the judged pairs without those whose texts in this scan are others of the same name.

    Judgements may come from another corpus, whose documents are numbered alike. A pair that was
    judged at another cosine than it has in this scan was a pair of other texts.
    """
    here = pairs[[*_KEYS, "cosine"]].drop_duplicates(_KEYS).rename(columns={"cosine": "here"})
    known = judged[_KEYS].merge(here, on=_KEYS, how="left")["here"].to_numpy()
    other = np.abs(known - judged["cosine"].to_numpy(float)) > SAME_TEXT
    return judged[~other].reset_index(drop=True)


def _positions(frame: pd.DataFrame, pairs: pd.DataFrame) -> tuple[IntArray, BoolArray]:
    """Return the position of each row's pair or -1, and whether it could be any of several."""
    bare = [name for name in _KEYS if name != "source"]
    first = pairs.drop_duplicates(bare)
    whole, part = (_lookup(table, frame, keys) for table, keys in ((pairs, _KEYS), (first, bare)))
    bare_only = (whole < 0) & (frame["source"] == "").to_numpy() & (part >= 0)
    unclear = pairs.duplicated(bare, keep=False).to_numpy()[first.index]
    several: BoolArray = bare_only & unclear[part]
    return np.where(bare_only & ~several, first.index.to_numpy()[part], whole), several


def _lookup(table: pd.DataFrame, rows: pd.DataFrame, keys: list[str]) -> IntArray:
    return pd.MultiIndex.from_frame(table[keys]).get_indexer(pd.MultiIndex.from_frame(rows[keys]))


def _refuse(bad: BoolArray, frame: pd.DataFrame, source: str, problem: str, advice: str) -> None:
    """Raise a `DataError` that lists the rows in `bad`, if there are any."""
    rows = frame[bad]
    faults = [
        Fault(
            source, ", ".join(f"{name} {format_value(row[name])}" for name in _KEYS) + f" {problem}"
        )
        for row in rows.to_dict("records")
    ]
    if faults:
        raise DataError(faults, advice)
