"""The matches of each item of a scan: documents one by one, and the rest in bins of cosine.

A document counts once for an item, at the cosine of its nearest chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.judged_documents import by_document, likelihoods
from bayescontam.evidence.pairs import LEAD, of_these_texts, scan_pairs
from bayescontam.evidence.sampled_counts import SampledCounts
from bayescontam.evidence.verdicts import UNIT, first_runs
from bayescontam.scan.results import Scan
from bayescontam.scan.sketch import BINS, bins_of

_KEYS = ["benchmark", "item"]
_PAIR = list(PAIR)
BIN = 0.01  # width of the bins of cosine
Columns = dict[str, NDArray[Any]]
"""Columns of a table as arrays: pandas takes as long for the rows of an item as all else."""


def columns_of(table: pd.DataFrame) -> Columns:
    """Return the columns of a table as arrays."""
    return {str(name): table[name].to_numpy() for name in table}


def taken(columns: Columns, rows: Any) -> Columns:
    """Return some rows of a table."""
    at = np.asarray(rows, dtype=np.int64)
    return {name: values[at] for name, values in columns.items()}


@dataclass(frozen=True, eq=False)
class Matched:
    """The documents that match one item: some one by one, and the rest in bins."""

    benchmark: int  # position of the benchmark
    # number of documents with a chunk among the best matches; they come first, best first. Judged
    # documents of the tail sample follow.
    listed: int
    # cosine, source: of each single document: of its chunk nearest to the item
    cosine: FloatArray
    source: IntArray
    copies: IntArray  # occurrences of that chunk's text in each source, dims (match, source)
    best: float  # cosine of the best match
    judged: np.ndarray  # which of these were judged
    # log likelihood of the verdicts of judged matches if they are duplicates, and if not; dims (2,
    # draw, judged match)
    called: FloatArray
    kind: IntArray  # position in `KINDS` of the kind that most judges gave; -1 where none
    place: FloatArray  # place of each document among those of the item, the nearest being the first
    # rest_cosine, rest_source, rest_count: occurrences of all chunks that are not listed, in bins
    # of cosine and source; each counts as a document of its own
    rest_cosine: FloatArray
    rest_source: IntArray
    rest_count: FloatArray
    rest_place: FloatArray  # place of those in the middle of the bin
    # what `rest_count` is the mean of, by bin, where a sample of chunks (a search by an index) and
    # not a count stands behind it
    rest_sample: SampledCounts | None = None
    # how many of those listed are the nearest of the whole corpus, one after the other: not all
    # where each source has a list of its own
    ranked: int | None = None
    # what a trained judge reported of each match, and how often it does: see `Predictor.joined`
    sign: FloatArray | None = None
    share: FloatArray | None = None
    # share of duplicates that count, given the kinds that were named of judged matches, (draw,
    # judged match); none where all duplicates count
    counted: FloatArray | None = None


class Matches:
    """The matches of a scan, item by item."""

    def __init__(self, scan: Scan, curve: Curve, floor: float, draws: int) -> None:
        self.benchmarks, self.sources = curve.benchmarks, curve.sources
        self._items = scan.items[_KEYS]
        self._floor = floor
        pairs = scan_pairs(scan).drop_duplicates(_PAIR)
        self.predictor = curve.predictor
        judged = of_these_texts(first_runs(curve.outcomes), pairs)
        # The nearest chunk of a document is that which this scan knows.
        known = judged[_PAIR].merge(pairs[[*_PAIR, *LEAD]], on=_PAIR, how="left")["lead"]
        lead = known.fillna(judged["lead"].reset_index(drop=True)).to_numpy(np.int64)
        judged = judged.assign(lead=lead)
        self.verdicts = by_document(judged, curve.kinds)
        """Judged documents: `UNIT`, ``verdict`` (position in likelihoods) and ``kind``."""
        matches = self._single(pairs)
        self._groups = matches.groupby(_KEYS, sort=False, observed=True).indices
        self._matches, self._columns = matches, columns_of(matches.drop(columns="document"))
        shared = matches.assign(copies=1) if scan.by_source else matches
        self._copies = _copies(shared, scan.strata, self.sources)
        if scan.by_source:  # each is counted in the list of its own source
            self._copies *= matches["copies"].to_numpy()[:, None]
        self.likelihoods, self.counted_share = likelihoods(curve, judged, self.verdicts, draws)
        """Log likelihoods of the verdicts on each of these, if it is a duplicate, and if not; and
        what share of duplicates counts (None: all)."""
        further = self._counted(pairs, matches)
        self._further = columns_of(
            further[["source", "cosine", "copies", "chunk", "lead", "listed"]]
        )
        self._further_groups = further.groupby(_KEYS, sort=False, observed=True).indices
        searched = scan.record.get("search") or {}
        self._weight = int(searched.get("index", {}).get("weight", 1))
        self._histogram = self._coarse(_with_found(scan.histogram))
        self._missed = self._mean_missed() if self._weight > 1 else 0.0
        self._by_source = scan.by_source
        self._shares = _source_shares(self._coarse(scan.strata), self.benchmarks, self.sources)
        self._ends = _ends(scan)

    def _single(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return listed documents and judged ones of the tail, with the positions of verdicts."""
        nearest = pairs[pairs["chunk"] == pairs["lead"]]
        order = ["listed", "cosine"]
        nearest = nearest.sort_values(order, ascending=False, kind="stable")
        documents = nearest[[*UNIT, "chunk", "cosine", "copies", "listed", "place"]]
        documents = documents.merge(self.verdicts, on=UNIT, how="left", validate="one_to_one")
        if self.predictor is not None:
            known = documents.assign(lead_cosine=documents["cosine"].astype(float))
            documents = self.predictor.joined(known).drop(columns="lead_cosine")
        # What was judged counts, whatever its cosine.
        counted = documents["listed"] & (documents["cosine"] >= self._floor)
        documents = documents[counted | documents["verdict"].notna()].reset_index(drop=True)
        documents["source"] = pd.Index(self.sources).get_indexer(pd.Index(documents["source"]))
        return documents.fillna({"verdict": -1, "kind": -1}).astype({"verdict": int, "kind": int})

    def _counted(self, pairs: pd.DataFrame, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the pairs that the rest of their items leaves out: documents and their chunks."""
        sources = np.array(self.sources, dtype=object)[documents["source"]]
        known = documents[UNIT].assign(source=sources)
        counted = pairs[pairs["cosine"] >= self._floor].merge(known, on=UNIT)
        own = counted["listed"] | (counted["chunk"] == counted["lead"])
        return counted[own].reset_index(drop=True)

    def _coarse(self, counts: pd.DataFrame) -> pd.DataFrame:
        """Return cosine counts at or above the floor, with the position of a coarse bin."""
        # Lower edges are multiples of 0.001, up to rounding.
        steps = np.round(counts["cosine"].to_numpy() * 1000).astype(int)
        above = counts.assign(bin=steps // 10)[steps >= round(self._floor * 1000)]
        return above[above["count"] > 0]

    def _mean_missed(self) -> float:
        """Return how many chunks an index misses of an item, among those that it was to find."""
        steps = (self._histogram["cosine"] * 1000).round()
        above = self._histogram["estimated"][steps > self._histogram["found"]]
        # Half a sampled one more, as none of few items says that hardly any are missed.
        return float(above.sum() + self._weight / 2) / max(1, len(self._items))

    def __len__(self) -> int:
        return len(self._items)

    def listed(self, item: tuple[str, str]) -> pd.DataFrame:
        """Return `PAIR` of the listed documents of an item, in the order of `Matched`."""
        rows = self._matches.iloc[self._groups.get(item, [])]
        rows = rows[rows["listed"]]
        return rows[_PAIR].assign(source=[self.sources[place] for place in rows["source"]])

    def __iter__(self) -> Iterator[Matched]:
        codes = {name: position for position, name in enumerate(self.benchmarks)}
        bins = self._histogram.groupby(_KEYS, sort=False, observed=True).indices
        histogram = columns_of(self._histogram)
        for key in self._items.itertuples(index=False, name=None):
            at = np.asarray(self._groups.get(key, []), dtype=np.int64)
            further = self._further_groups.get(key)
            counted = None if further is None else taken(self._further, further)
            yield self._item(codes[key[0]], at, counted, taken(histogram, bins.get(key, [])))

    def _item(
        self, benchmark: int, at: IntArray, counted: Columns | None, counts: Columns
    ) -> Matched:
        rows, copies = taken(self._columns, at), self._copies[at]
        judged = rows["verdict"] >= 0
        verdicts = rows["verdict"][judged]
        called, share = self.likelihoods[:, :, verdicts], self.counted_share
        return Matched(
            benchmark,
            int(rows["listed"].sum()),
            rows["cosine"].astype(float),
            rows["source"].astype(np.int64),
            copies,
            float(rows["cosine"].max()) if len(at) else 0.0,
            judged,
            called,
            rows["kind"].astype(np.int64),
            rows["place"].astype(float),
            *self._rest(benchmark, rows if counted is None else counted, counts),
            self._ranked(rows),
            rows["sign"].astype(float) if "sign" in rows else None,
            rows["share"].astype(float) if "share" in rows else None,
            None if share is None else share[:, verdicts],
        )

    def _ranked(self, rows: Columns) -> int | None:
        """Return how many of an item's documents precede all that are not listed."""
        if not self._by_source or not len(rows["item"]):
            return None
        end = self._ends.get((rows["benchmark"][0], rows["item"][0]), -1.0)
        return int((rows["listed"] & (rows["cosine"] >= end)).sum())

    def _rest(
        self, benchmark: int, rows: Columns, counts: Columns
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, SampledCounts | None]:
        """Return occurrences outside the listed documents: by bin and source, place, sample."""
        top = 101
        place = (_steps(rows["cosine"].astype(np.float32)) // 10).clip(0, top - 1)
        nearest = rows["chunk"] == rows["lead"]
        sample = None
        if self._by_source:
            rest = self._left_by_source(rows, place, counts)
            left: FloatArray = rest.sum(axis=1)
        else:
            if self._weight > 1:
                sample = self._sampled(counts, rows, place, top)
                left = sample.mean
            else:
                all_ = np.bincount(counts["bin"].clip(0, top - 1), counts["count"], minlength=top)
                left = np.maximum(all_ - np.bincount(place, rows["copies"], minlength=top), 0.0)
            rest = left[:, None] * self._shares[self.benchmarks[benchmark]]
        # Before those in the middle of a bin: all above, and half of the bin.
        documents = left + np.bincount(place[nearest], minlength=top)
        before = documents[::-1].cumsum()[::-1] - left / 2
        at, source = np.nonzero(rest > 0)
        return (at + 0.5) * BIN, source, rest[at, source], np.maximum(before[at], 1.0), sample

    def _sampled(self, counts: Columns, rows: Columns, place: IntArray, top: int) -> SampledCounts:
        """Return the counts of an item, of which a part was sampled, without those of `rows`."""
        copies = rows["copies"].astype(float)
        # Judged texts of the tail are among the sampled, with a part of their copies.
        sampled = np.clip(np.round(copies / self._weight), 1, copies)
        listed = np.bincount(place, np.where(rows["listed"], copies, sampled), minlength=top)
        steps = np.round(counts["cosine"] * 1000).astype(np.int64)
        found = SampledCounts.of(
            steps.clip(0, 10 * len(listed) - 1),
            counts["count"].astype(float),
            counts["estimated"].astype(float),
            found=int(counts["found"].max()) if len(steps) else -BINS,
            lowest=max(0, round(self._floor * 1000)),
            missed=self._missed,
            weight=self._weight,
            bins=len(listed),
        )
        return replace(found, fixed=np.maximum(found.fixed - listed, 0.0))

    def _left_by_source(self, rows: Columns, place: IntArray, counts: Columns) -> FloatArray:
        """Return the occurrences that are not listed, each source's own, dims (bin, source)."""
        names = pd.Index(self.sources)
        known, total = np.zeros((101, len(names))), np.zeros((101, len(names)))
        of_row = rows["source"]
        if of_row.dtype.kind not in "iu":  # else positions already
            of_row = names.get_indexer(pd.Index(of_row))
        np.add.at(known, (place, of_row), rows["copies"])
        own = names.get_indexer(pd.Index(counts["source"]))
        np.add.at(total, (counts["bin"].clip(0, 100), own), counts["count"])
        left: FloatArray = np.maximum(total - known, 0.0)
        return left


def _with_found(histogram: pd.DataFrame) -> pd.DataFrame:
    """Return a histogram with the step down to which all chunks of an item were found."""
    if "estimated" not in histogram:
        return histogram
    counted = histogram[histogram["count"] > histogram["estimated"]]
    lowest = counted.groupby(_KEYS, sort=False, observed=True)["cosine"].min() * 1000
    steps = lowest.round().astype(np.int64).rename("found")
    return histogram.merge(steps, left_on=_KEYS, right_index=True, how="left")


def _ends(scan: Scan) -> dict[tuple[str, str], float]:
    """Return for each item the cosine above which no source has matches that are not listed."""
    if not scan.by_source:
        return {}
    of_list = scan.matches.groupby([*_KEYS, "source"], sort=False, observed=True)["cosine"]
    ends = of_list.min()[of_list.size() >= scan.record["search"]["top_k"]]
    highest: dict[tuple[str, str], float] = ends.groupby(_KEYS).max().to_dict()
    return highest


def _steps(cosines: NDArray[np.float32]) -> IntArray:
    """Return the steps of 0.001 that cosines are in, as the scan counts them."""
    return bins_of(cosines).astype(np.int64) - BINS // 2


def _copies(matches: pd.DataFrame, strata: pd.DataFrame, sources: tuple[str, ...]) -> IntArray:
    """Share the copies of each document over sources, dims (match, source).

    A scan says where a text stands first and how often in all. Further copies are shared as
    the benchmark's cosines of the same step of 0.001 are: near a cosine of 1 these are
    hardly any others.
    """
    copies = np.zeros((len(matches), len(sources)), dtype=np.int64)
    own = matches["source"].to_numpy()
    several = np.flatnonzero((matches["copies"] > 1) & (len(sources) > 1))
    if len(several):
        steps = np.round(strata["cosine"].to_numpy() * 1000).astype(int)
        counts = strata.assign(step=steps).pivot_table(
            index=["benchmark", "step"], columns="source", values="count", aggfunc="sum"
        )
        counts = counts.reindex(columns=list(sources)).fillna(0.0)
        chosen = matches.iloc[several]
        steps = _steps(chosen["cosine"].to_numpy(np.float32))
        keys = pd.MultiIndex.from_arrays([chosen["benchmark"].to_numpy(), steps])
        weight = counts.reindex(keys).fillna(0.0).to_numpy()
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
        further = chosen["copies"].to_numpy()[:, None] - 1
        copies[several] = np.floor(further * weight / total + 0.5)
        copies[several, own[several]] = 0
    copies[np.arange(len(matches)), own] = np.maximum(matches["copies"] - copies.sum(axis=1), 1)
    return copies


def _source_shares(
    counts: pd.DataFrame, benchmarks: tuple[str, ...], sources: tuple[str, ...]
) -> dict[str, FloatArray]:
    """Return for each benchmark how cosines of a bin are shared over sources, (bin, source)."""
    shares = {}
    for name in benchmarks:
        part = counts[counts["benchmark"] == name]
        source = pd.Index(sources).get_indexer(pd.Index(part["source"]))
        total = np.zeros((101, len(sources)))
        np.add.at(total, (part["bin"].clip(0, 100), source), part["count"])
        sums = total.sum(axis=1, keepdims=True)
        shares[name] = np.divide(total, sums, out=np.zeros_like(total), where=sums > 0)
    return shares
