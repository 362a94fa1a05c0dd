"""Judgements of pairs of item and document as index arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import PAIR, run_of, sort_of
from bayescontam.evidence.kinds import FIRST, Split, split_of

UNIT = ["benchmark", "item", "source", "document", "lead"]
"""Columns that name an item and a document, which its nearest chunk represents."""
SAME_COSINE = 1e-6
"""Difference of cosines that are the same."""
MOST_PAIRS, WIDTH = 2_000, 0.02
"""Pairs from which on like ones are pooled, and the width of cosines that are alike."""


@dataclass(frozen=True, eq=False)
class Reported:
    """What a trained judge reported of each pair, and of the nearest document of each item."""

    # 1 a duplicate, -1 none, 0 nothing; and on what share of pairs with this cosine it is that
    sign: FloatArray
    share: FloatArray
    sign_open: FloatArray
    share_open: FloatArray


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Pairs of item and document that were judged, and the verdicts on them.

    A document has the cosine of its chunk nearest to the item: its further chunks would count as
    duplicates of their own, and lift the curve where thousands of other documents are.
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
    # what was said of the pair: 0 no duplicate, 1 one, and from 2 on one of a class of `split`
    called: IntArray
    further: NDArray[np.bool_]  # whether another chunk of the document was judged than the nearest
    kinds: tuple[str, ...] = ()  # kinds of duplicates that count; none: all
    count: IntArray | None = None  # like pairs that each pair stands for; none: one
    reported: Reported | None = None  # by a trained judge that is a predictor

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
        } | ({"namer": [self.judges[judge] for judge in self.namers]} if self.namers.size else {})

    @cached_property
    def split(self) -> Split:
        """Classes of kinds that make a difference."""
        return split_of(self.kinds, any(sort_of(judge) == "rules" for judge in self.judges))

    @property
    def nearest(self) -> NDArray[np.bool_]:
        """Which pairs are those of the nearest documents of their items."""
        return self.cosine >= self.best[self.item] - SAME_COSINE

    @property
    def by_rule(self) -> NDArray[np.bool_]:
        """Which verdicts are those of a rule."""
        rules = np.array([sort_of(judge) == "rules" for judge in self.judges], dtype=bool)
        return rules[self.judge] if len(self.judge) else np.zeros(0, dtype=bool)

    @property
    def namers(self) -> IntArray:
        """Positions of the judges who name kinds."""
        return np.unique(self.judge[self.called >= FIRST]) if len(self.split) else self.judge[:0]


def first_runs(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one verdict of each judge on a pair, of those that were not left open."""
    given = judged[judged["is_duplicate"].notna()]
    runs = [run_of(judge) for judge in given["judge"]]
    given = given.assign(judge=[name for name, _ in runs], run=[run for _, run in runs])
    given = given.sort_values("run", kind="stable").drop_duplicates([*PAIR, "judge"])
    return given.sort_index().drop(columns="run")


def with_leads(judged: pd.DataFrame) -> pd.DataFrame:
    """Return judgements with ``lead``, ``lead_cosine`` and ``place``: by default their own."""
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
    judged: pd.DataFrame,
    benchmarks: Sequence[str],
    sources: Sequence[str],
    kinds: tuple[str, ...] = (),
    informs: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> Verdicts:
    """Return judgements as arrays; of the chosen kinds of duplicates, or of any.

    `informs` adds ``sign``, ``share``, ``sign_open`` and ``share_open`` to documents, if a trained
    judge is a predictor: `Predictor.informs`.
    """
    rows = with_leads(first_runs(judged)).sort_values([*UNIT, "chunk", "judge"])
    pair, _ = pd.factorize(pd.MultiIndex.from_frame(rows[UNIT]))
    first = np.unique(pair, return_index=True)[1]
    pairs = rows.iloc[first]
    judge, judges = pd.factorize(rows["judge"], sort=True)
    item, items = pd.factorize(pd.MultiIndex.from_frame(pairs[["benchmark", "item"]]))
    benchmark = _positions(pairs["benchmark"], benchmarks)
    sample = np.unique(item, return_index=True)[1]
    split = split_of(kinds, any(sort_of(name) == "rules" for name in judges))
    reported = None
    if informs is not None:
        known = informs(pairs[[*UNIT, "lead_cosine", "best"]])
        sign, share, *of_nearest = (
            known[name].to_numpy(float) for name in ("sign", "share", "sign_open", "share_open")
        )
        reported = Reported(sign, share, *(values[sample] for values in of_nearest))
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
        split.codes(rows),
        (rows["chunk"] != rows["lead"]).to_numpy(),
        kinds,
        reported=reported,
    )


def pooled(verdicts: Verdicts, width: float = WIDTH, most: int = MOST_PAIRS) -> Verdicts:
    """Return verdicts with like pairs of an item as one, if there are more than `most` pairs.

    Pairs are alike if their documents are of one source, have cosines within `width`, and the
    same verdicts by the same judges, predictors included. One stands for all, with their mean
    cosine and the geometric mean of their places: along a line the log likelihood is then right
    to first order.
    """
    if len(verdicts) <= most:
        return verdicts
    rows = pd.DataFrame({name: getattr(verdicts, name) for name in ("judge", "called", "further")})
    code, _ = pd.factorize(pd.MultiIndex.from_frame(rows))
    order = np.lexsort((code, verdicts.pair))
    starts = np.unique(verdicts.pair[order], return_index=True)[1]
    numbers: dict[bytes, int] = {}
    named = [
        numbers.setdefault(own.tobytes(), len(numbers)) for own in np.split(code[order], starts[1:])
    ]
    alike = pd.MultiIndex.from_arrays(
        [
            verdicts.item,
            verdicts.source,
            np.floor(verdicts.cosine / width),
            named,
            np.zeros(len(verdicts)) if verdicts.reported is None else verdicts.reported.sign,
            verdicts.nearest,
        ]
    )
    of, _ = pd.factorize(alike)  # numbered as they appear, so that `first` rises
    _, first, count = np.unique(of, return_index=True, return_counts=True)
    means = pd.DataFrame({"cosine": verdicts.cosine, "log_place": np.log(verdicts.place)})
    if verdicts.reported is not None:
        means["share"] = verdicts.reported.share
    means = means.groupby(of).mean()
    own, reported = np.isin(verdicts.pair, first), verdicts.reported
    if reported is not None:
        share = means["share"].to_numpy()
        reported = replace(reported, sign=reported.sign[first], share=share)
    return replace(
        verdicts,
        benchmark=verdicts.benchmark[first],
        source=verdicts.source[first],
        item=verdicts.item[first],
        cosine=means["cosine"].to_numpy(),
        place=np.exp(means["log_place"].to_numpy()),
        pair=np.searchsorted(first, verdicts.pair[own]),
        judge=verdicts.judge[own],
        called=verdicts.called[own],
        further=verdicts.further[own],
        count=count,
        reported=reported,
    )


def _positions(names: "pd.Series[str]", order: Sequence[str]) -> IntArray:
    found = pd.Index(list(order)).get_indexer(pd.Index(names)).astype(np.int64)
    assert (found >= 0).all()
    return found
