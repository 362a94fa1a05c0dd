"""Pairs of an item and a chunk, chosen for judging and found again."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from bayescontam._random import stream
from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.data.validation import format_value
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.results import Scan

BINS = 10
"""Bins of cosine, of equal width, over which chosen pairs are spread."""

_ITEM = ["benchmark", "item"]
_KEYS = list(PAIR)
LEAD = ["lead", "lead_cosine", "place"]
"""Columns that say which chunk of a document is the nearest to the item, and which place the
document has among those of the item."""
_COLUMNS = [
    *_KEYS, "chunk_id", "cosine", "stratum", "copies", "start", "end", "listed",
]  # fmt: skip


def scan_pairs(scan: Scan) -> pd.DataFrame:
    """Return the distinct pairs of a scan: its best matches and its tail sample."""
    tables = [scan.matches.assign(listed=True), scan.tail.assign(listed=False)]
    pairs = pd.concat([table[_COLUMNS] for table in tables], ignore_index=True)
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
    alone = pairs["source"].isin(_sources_of_vectors(scan))
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
    of_item = dict(iter(scan.histogram.groupby(_ITEM, sort=False, observed=True)))
    known = pairs[pairs["listed"]].groupby(_ITEM, sort=False, observed=True)["copies"].sum()
    for key, rows in pairs[nearest & ~pairs["listed"]].groupby(_ITEM, sort=False, observed=True):
        counts = of_item[key]
        above = rows["cosine"].to_numpy()[:, None] < counts["cosine"].to_numpy()
        unlisted = (above * counts["count"].to_numpy()).sum(axis=1) - known.get(key, 0)
        at = rows.index.to_numpy()
        place[at] += 1 + np.maximum(unlisted, np.arange(len(rows)))
    # Documents of one name may hold several nearest chunks of the same number.
    table = pairs[keys].assign(place=place, own=nearest)
    found = table[table["own"]].drop_duplicates(keys)[[*keys, "place"]]
    result: FloatArray = pairs[keys].merge(found, on=keys, how="left")["place"].to_numpy(float)
    return result


def _sources_of_vectors(scan: Scan) -> list[str]:
    return [row["source"] for row in scan.record.get("strata") or [] if "documents" not in row]


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
        )
        advice += "remove them, or give the scan that they were made for"
        _refuse(lost, frame, judgements.source, "is no pair of this scan", advice)
    matched = frame[~lost].reset_index(drop=True)
    known = pairs.iloc[at[~lost]].reset_index(drop=True)
    matched["source"] = known["source"]
    result = matched.join(known.drop(columns=_KEYS))
    again = result.duplicated([*_KEYS, "judge"]).to_numpy()
    problem = "is judged twice by one judge once its source is filled in; keep one"
    _refuse(again, matched, judgements.source, problem, "")
    return result


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


def choose_pairs(
    scan: Scan,
    count: int,
    seed: int,
    *,
    exclude: pd.DataFrame | None = None,
    benchmarks: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Choose pairs for judging at random, spread over all cosines.

    Of a document in several chunks, only the one nearest to the item can be chosen: documents
    count, not chunks. Benchmarks get equal parts of `count`. In each, the pairs are put into
    10 bins of cosine of equal width, and taken from all bins in turn; in a bin, each pair is
    as likely as any other. Turns of items would prefer items with few near documents, of
    which more are duplicates, and the curve would be too high. A smaller count with the same
    seed chooses the first of the same pairs.
    """
    pairs = _candidates(scan, count, "pairs", benchmarks)
    pairs = pairs.sort_values(_KEYS, ignore_index=True)
    draw = stream(seed, "pairs").permutation(len(pairs))
    pairs = _without(pairs.assign(draw=draw, bin=_bins(pairs)), exclude).sort_values("draw")
    for part in (["benchmark", "bin"], ["benchmark"]):
        turn = pairs.groupby(part, observed=True).cumcount()
        pairs = pairs.assign(turn=turn).sort_values(["turn", "draw"])
    return _with_texts(pairs.head(count), scan)


def top_pairs(
    scan: Scan,
    per_item: int,
    *,
    exclude: pd.DataFrame | None = None,
    benchmarks: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Choose the pairs of each item with the highest cosines, one of each document."""
    pairs = _candidates(scan, per_item, "pairs of an item", benchmarks)
    turn = pairs.groupby(_ITEM, sort=False, observed=True).cumcount()
    pairs = pairs.assign(turn=turn).sort_values("turn", kind="stable")
    return _with_texts(_without(pairs[pairs["turn"] < per_item], exclude), scan)


def _candidates(
    scan: Scan, count: int, what: str, benchmarks: Sequence[str] | None
) -> pd.DataFrame:
    """Return the pairs that can be judged."""
    if count < 1:
        raise UsageError(f"got {count} {what} to choose; allowed is 1 or more")
    known = scan.items["benchmark"].unique().tolist()
    wanted = known if benchmarks is None else list(benchmarks)
    if unknown := [name for name in wanted if name not in known]:
        raise UsageError(
            f"no benchmark {join_list(unknown)} in this scan; it has {join_list(known)}"
        )
    pairs = scan_pairs(scan).drop_duplicates(_KEYS)
    pairs = pairs[pairs["chunk"] == pairs["lead"]]
    readable = pairs["chunk_id"].isin(scan.texts["chunk_id"])
    if not readable.any():
        problem = "holds no texts of chunks (vectors without texts?), so that none can be judged"
        raise DataError([Fault(str(scan.folder), problem)])
    return pairs[readable & pairs["benchmark"].isin(wanted)]


def _bins(pairs: pd.DataFrame) -> IntArray:
    """Return the bin of cosine of each pair, within the range of its benchmark."""
    cosine = pairs["cosine"].astype(float)
    low, high = (cosine.groupby(pairs["benchmark"]).transform(end) for end in ("min", "max"))
    share = ((cosine - low) / (high - low).where(high > low, 1.0)).to_numpy()
    return np.minimum(share * BINS, BINS - 1).astype(np.int64)


def _without(pairs: pd.DataFrame, exclude: pd.DataFrame | None) -> pd.DataFrame:
    if exclude is None:
        return pairs
    return pairs[_lookup(exclude.drop_duplicates(_KEYS), pairs, _KEYS) < 0]


def _with_texts(pairs: pd.DataFrame, scan: Scan) -> pd.DataFrame:
    if pairs.empty:
        raise DataError([Fault(str(scan.folder), "has no pair left to choose: all are excluded")])
    texts = scan.texts.rename(columns={"text": "chunk_text"})
    items = scan.items[[*_ITEM, "text"]]
    result = pairs[_COLUMNS].merge(items, on=_ITEM, how="left", validate="many_to_one")
    return result.merge(texts, on="chunk_id", how="left", validate="many_to_one")
