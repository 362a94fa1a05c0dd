"""Verdicts: judgements of pairs as the index arrays that a curve is built from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import FloatArray, IntArray
from bayescontam.judgements import PAIR, run_of

UNIT = ["benchmark", "item", "source", "document", "lead"]
"""Columns that name an item and a document, which its nearest chunk represents."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Pairs of item and document that were judged, and the verdicts on them.

    A document represents all its chunks, at the cosine of the one nearest to the item: else
    the further chunks of one duplicate would count as duplicates of their own, and, with
    their low cosines, lift the curve where thousands of other documents are.
    """

    # benchmarks, sources: all of the scan, also those without judgements
    benchmarks: tuple[str, ...]
    sources: tuple[str, ...]
    # judges, items: judges; items with judged pairs, as `benchmark/item`
    judges: tuple[str, ...]
    items: tuple[str, ...]
    # benchmark, source, item: positions in the labels
    benchmark: IntArray
    source: IntArray
    item: IntArray
    # cosine, place: cosine of the document, and its place among those of the item, from 1
    cosine: FloatArray
    place: FloatArray
    best: FloatArray  # cosine of its best match
    benchmark_of_item: IntArray
    # pair, judge: positions of the pair and of the judge
    pair: IntArray
    judge: IntArray
    called: IntArray  # 1 where the pair was called a duplicate, else 0
    further: NDArray[np.bool_]  # whether another chunk of the document was judged than the nearest

    def __len__(self) -> int:
        return len(self.cosine)

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of the dims that the model uses."""
        return {
            "benchmark": list(self.benchmarks),
            "source": list(self.sources),
            "judge": list(self.judges),
            "item": list(self.items),
            "pair": np.arange(len(self)),
            "verdict": np.arange(len(self.called)),
        }


def is_model(judge: str) -> bool:
    """Return whether a judge is a language model.

    >>> is_model("llm:some-model"), is_model("Ada")
    (True, False)
    """
    return judge.startswith("llm:")


def first_runs(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one verdict of each judge on a pair, of those that were not left open."""
    given = judged[judged["is_duplicate"].notna()]
    runs = [run_of(judge) for judge in given["judge"]]
    given = given.assign(judge=[name for name, _ in runs], run=[run for _, run in runs])
    given = given.sort_values("run", kind="stable").drop_duplicates([*PAIR, "judge"])
    return given.sort_index().drop(columns="run")


def with_leads(judged: pd.DataFrame) -> pd.DataFrame:
    """Return judgements with ``lead``, ``lead_cosine`` and ``place``.

    By default they are those of the pair itself, and the first place.
    """
    more = [name for name in ("lead", "lead_cosine", "place") if name not in judged.columns]
    known = judged.assign(**dict.fromkeys(more, np.nan))
    lead = known["lead"].fillna(known["chunk"]).astype("int64")
    cosine = known["lead_cosine"].fillna(known["cosine"])
    return known.assign(lead=lead, lead_cosine=cosine, place=known["place"].fillna(1.0))


def seen(
    hit: FloatArray,
    clear: FloatArray,
    share_further: FloatArray | float,
    further: NDArray[np.bool_],
) -> FloatArray:
    """Return P(called a duplicate) of verdicts on documents that hold one."""
    less = share_further * hit + (1 - share_further) * (1 - clear)
    return np.where(further, less, hit)


def make_verdicts(
    judged: pd.DataFrame, benchmarks: Sequence[str], sources: Sequence[str]
) -> Verdicts:
    """Return judgements as arrays."""
    rows = with_leads(first_runs(judged)).sort_values([*UNIT, "chunk", "judge"])
    pair, _ = pd.factorize(pd.MultiIndex.from_frame(rows[UNIT]))
    first = np.unique(pair, return_index=True)[1]
    pairs = rows.iloc[first]
    judge, judges = pd.factorize(rows["judge"], sort=True)
    item, items = pd.factorize(pd.MultiIndex.from_frame(pairs[["benchmark", "item"]]))
    benchmark = _positions(pairs["benchmark"], benchmarks)
    sample = np.unique(item, return_index=True)[1]
    return Verdicts(
        tuple(benchmarks),
        tuple(sources),
        tuple(judges),
        tuple(map("/".join, items)),
        benchmark,
        _positions(pairs["source"], sources),
        item.astype(np.int64),
        pairs["lead_cosine"].to_numpy(float),
        pairs["place"].to_numpy(float),
        pairs["best"].to_numpy(float)[sample],
        benchmark[sample],
        pair.astype(np.int64),
        judge.astype(np.int64),
        rows["is_duplicate"].to_numpy(np.int64),
        (rows["chunk"] != rows["lead"]).to_numpy(),
    )


def _positions(names: "pd.Series[str]", order: Sequence[str]) -> IntArray:
    found = pd.Index(list(order)).get_indexer(pd.Index(names)).astype(np.int64)
    assert (found >= 0).all()
    return found
