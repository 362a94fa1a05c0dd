"""Which pairs of a scan to judge: at random, the best of each item, or by earlier verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescontam._random import stream
from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, IntArray
from bayescontam.data.judgements import KINDS, PAIR, Judgements
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.pairs import COLUMNS, positions_in_scan, scan_pairs
from bayescontam.evidence.verdicts import SAME_COSINE
from bayescontam.scan.results import Scan

BINS = 10
"""Bins of cosine, of equal width, over which chosen pairs are spread."""
UNSURE = 0.7
"""Confidence below which a judge is unsure, unless another limit is given."""
STRATA = ("benchmark", "verdict", "kind")
"""What judged pairs can be divided by."""
SAID = ("duplicate", "not-duplicate", "kind=KIND", "disagree", "unsure", "unsure=CONFIDENCE")
"""What pairs can be chosen by."""

_ITEM = ["benchmark", "item"]
_OF_SOURCE = [*_ITEM, "source"]
_KEYS = list(PAIR)


def choose_pairs(
    scan: Scan,
    count: int,
    seed: int,
    *,
    exclude: pd.DataFrame | None = None,
    benchmarks: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Choose pairs for judging at random, spread over all cosines, of each document the nearest.

    Benchmarks get equal parts of `count`. In each, pairs are taken in turn from 10 bins of cosine
    of equal width, of which the documents that are nearest to their item are bins of their own:
    whether an item has any duplicate is learnt from these, and among all documents of items of a
    popular subject they are few. In each bin all pairs are as likely. Turns of items would prefer
    items with few near documents, of which more are duplicates. A smaller count with the same
    seed chooses the first of the same pairs.
    """
    pairs = candidates(scan, count, "pairs", benchmarks)
    pairs = pairs.sort_values(_KEYS, ignore_index=True)
    best = pairs.groupby(_ITEM, sort=False, observed=True)["cosine"].transform("max")
    pairs = pairs.assign(nearest=pairs["cosine"] >= best - SAME_COSINE)
    draw = stream(seed, "pairs").permutation(len(pairs))
    pairs = _without(pairs.assign(draw=draw, bin=_bins(pairs)), exclude).sort_values("draw")
    for part in (["benchmark", "bin", "nearest"], ["benchmark"]):
        turn = pairs.groupby(part, observed=True).cumcount()
        pairs = pairs.assign(turn=turn).sort_values(["turn", "draw"])
    return with_texts(pairs.head(count), scan)


def top_pairs(
    scan: Scan,
    per_item: int,
    *,
    exclude: pd.DataFrame | None = None,
    benchmarks: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Choose the pairs of each item with the highest cosines, one of each document.

    Sources do not count here: of a scan by source they are the nearest of all.
    """
    pairs = candidates(scan, per_item, "pairs of an item", benchmarks)
    turn = pairs.groupby(_ITEM, sort=False, observed=True).cumcount()
    pairs = pairs.assign(turn=turn).sort_values("turn", kind="stable")
    return with_texts(_without(pairs[pairs["turn"] < per_item], exclude), scan)


def all_pairs(
    scan: Scan, *, further: bool = False, benchmarks: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return all pairs whose texts the scan holds, of each document the nearest.

    With `further`, also those of the other chunks of a document.
    """
    return with_texts(candidates(scan, 1, "pairs", benchmarks, nearest=not further), scan)


@dataclass(frozen=True, eq=False)
class JudgedChoice:
    """Pairs that were chosen by earlier verdicts on them."""

    pairs: pd.DataFrame  # as of `choose_pairs`
    # `STRATA`, ``chosen`` and ``of``: how many pairs there are of each verdict and kind among
    # those that were called as requested, and how many of them were chosen
    strata: pd.DataFrame


def choose_judged(
    scan: Scan,
    judgements: Judgements,
    said: Sequence[str] = (),
    *,
    judge: str | None = None,
    count: int | None = None,
    per_item: int | None = None,
    strata: Sequence[str] = (),
    seed: int = 1,
    benchmarks: Sequence[str] | None = None,
) -> JudgedChoice:
    """Choose pairs to judge again by earlier verdicts on them.

    A pair is chosen if any judge (or `judge`) called it any of `said`: ``"duplicate"``,
    ``"not-duplicate"``, ``"kind=KIND"``, ``"unsure"`` (no verdict, or a confidence below 0.7;
    ``"unsure=0.9"`` for another limit), or if judges disagree on it (``"disagree"``). By default
    all judged pairs are. Of these `count` are drawn at random, from `strata` (of ``"benchmark"``,
    ``"verdict"`` and ``"kind"``) in turn, so that each gives as many; or the `per_item` with the
    highest cosines of each item. A smaller count with the same seed chooses the first of the same
    pairs.
    """
    if unknown := [name for name in strata if name not in STRATA]:
        raise UsageError(f"strata: no {join_list(unknown)}; allowed are {join_list(STRATA)}")
    limits = [limit for limit in (count, per_item) if limit is not None]
    pairs = candidates(scan, min(limits, default=1), "pairs", benchmarks, nearest=False)
    judged = positions_in_scan(judgements, scan)
    found = _called(judged, said, judge, judgements.source)
    pairs = pairs.merge(found, on=_KEYS).sort_values(_KEYS, ignore_index=True)
    if pairs.empty:
        of = "" if benchmarks is None else f" of {join_list(benchmarks)}"
        whose = "" if judge is None else f" by '{printable(judge)}'"
        called = f"was called {', '.join(said)}" if said else "has a verdict"
        yes, no = (int((judged["is_duplicate"] == verdict).sum()) for verdict in (1, 0))
        advice = f"Its verdicts: {yes:,} duplicate, {no:,} not-duplicate."
        raise DataError([Fault(judgements.source, f"no pair{of} {called}{whose}")], advice)
    pairs["draw"] = stream(seed, "judged pairs").permutation(len(pairs))
    by = [name for name in STRATA if name in strata] if count is not None else []
    pairs = pairs.sort_values("draw")
    turn = pairs.groupby(by).cumcount() if by else pd.Series(0, index=pairs.index)
    chosen = pairs.assign(turn=turn).sort_values(["turn", "draw"])
    if count is not None:
        chosen = chosen.head(count)
    if per_item is not None:
        chosen = pairs.sort_values("cosine", ascending=False, kind="stable")
        chosen = chosen[chosen.groupby(_ITEM, observed=True).cumcount() < per_item]
    sizes = [part.groupby(list(STRATA)).size() for part in (chosen, pairs)]
    table = pd.concat(sizes, axis=1, keys=["chosen", "of"]).fillna(0).astype(int).sort_index()
    return JudgedChoice(with_texts(chosen, scan), table.reset_index())


def _called(
    judged: pd.DataFrame, said: Sequence[str], judge: str | None, source: str
) -> pd.DataFrame:
    """Return the pairs that were called so, with ``verdict`` and ``kind`` of their judges."""
    of_pair = judged.groupby(_KEYS, sort=False)["is_duplicate"]
    judged = judged.assign(disagree=of_pair.transform("nunique") > 1)
    own = judged if judge is None else judged[judged["judge"] == judge]
    if own.empty and judge is not None:
        known = join_list(judged["judge"].unique())
        raise UsageError(f"{printable(source)}: no judge '{printable(judge)}'; it has {known}")
    if said:
        calls = [_says(own, word) for word in said]
        own = own.assign(chosen=np.any(calls, axis=0))
    else:
        own = own.assign(chosen=own["is_duplicate"].notna())
    own = own[own.groupby(_KEYS, sort=False)["chosen"].transform("any")]
    grouped = own.groupby(_KEYS, sort=False)
    share = grouped["is_duplicate"].mean().astype("float64")
    verdicts = np.select(
        [share == 1, share == 0, share.notna()], ["duplicate", "not duplicate", "disagree"],
        "unjudged",
    )  # fmt: skip
    table = pd.DataFrame({"verdict": verdicts}, index=share.index).reset_index()
    # The kind that most judges gave; of several the one that stands first in `KINDS`.
    counts = own[own["kind"] != ""].groupby([*_KEYS, "kind"]).size().rename("size").reset_index()
    counts["order"] = counts["kind"].map({kind: place for place, kind in enumerate(KINDS)})
    counts = counts.sort_values(["size", "order"], ascending=[False, True])
    kinds = counts.drop_duplicates(_KEYS)[[*_KEYS, "kind"]]
    return table.merge(kinds, on=_KEYS, how="left").fillna({"kind": ""})


def _says(judged: pd.DataFrame, word: str) -> BoolArray:
    """Return which judgements say so."""
    name, _, value = word.partition("=")
    verdict = judged["is_duplicate"]
    if word in ("duplicate", "not-duplicate"):
        said = verdict == int(word == "duplicate")
    elif word == "disagree":
        said = judged["disagree"]
    elif name == "kind" and value in KINDS:
        said = judged["kind"] == value
    elif word == "unsure" or (name == "unsure" and (limit := _share(value)) is not None):
        said = verdict.isna() | (judged["confidence"] < (UNSURE if word == "unsure" else limit))
    else:
        raise UsageError(
            f"said '{printable(word)}': allowed are {', '.join(SAID)}; kinds are"
            f" {', '.join(KINDS)}; a confidence is a number from 0 to 1"
        )
    return said.fillna(False).to_numpy(bool)


def _share(text: str) -> float | None:
    """Return a number from 0 to 1, or None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def candidates(
    scan: Scan, count: int, what: str, benchmarks: Sequence[str] | None, *, nearest: bool = True
) -> pd.DataFrame:
    """Return the pairs that can be judged; of each document the nearest, or all."""
    if count < 1:
        raise UsageError(f"got {count} {what} to choose; allowed is 1 or more")
    known = scan.items["benchmark"].unique().tolist()
    wanted = known if benchmarks is None else list(benchmarks)
    if unknown := [name for name in wanted if name not in known]:
        raise UsageError(
            f"no benchmark {join_list(unknown)} in this scan; it has {join_list(known)}"
        )
    pairs = scan_pairs(scan).drop_duplicates(_KEYS)
    if nearest:
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
    known = pd.MultiIndex.from_frame(exclude[_KEYS])
    return pairs[~pd.MultiIndex.from_frame(pairs[_KEYS]).isin(known)]


def with_texts(pairs: pd.DataFrame, scan: Scan) -> pd.DataFrame:
    """Return pairs with the texts of their item and their chunk."""
    if pairs.empty:
        raise DataError([Fault(str(scan.folder), "has no pair left to choose: all are excluded")])
    texts = scan.texts.rename(columns={"text": "chunk_text"})
    items = scan.item_texts[[*_OF_SOURCE, "text"]]
    result = pairs[COLUMNS].merge(items, on=_OF_SOURCE, how="left", validate="many_to_one")
    return result.merge(texts, on="chunk_id", how="left", validate="many_to_one")
