"""Search of an index for the items of benchmarks: best matches found, all cosines estimated.

What FAISS finds is compared exactly. How often each cosine occurs among all other texts is
estimated from the index's uniform sample of occurrences, each of which stands for as many.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._types import IntArray, Matrix
from bayescontam.errors import DataError, Fault
from bayescontam.parallel import usable_cores
from bayescontam.scan.search import GROUP, Queries, workers
from bayescontam.scan.sketch import (
    BINS,
    CANDIDATE,
    Sketch,
    Stratum,
    bins_of,
    count_block,
    priority_of,
)
from bayescontam.scan.vector_index import VectorIndex, candidates, units, with_scales
from bayescontam.specs.corpus import Search

_PIECE = 2048
"""Sampled occurrences that a thread compares with its queries at once."""
_CLOSE = 1e-6
"""Rounding of a cosine."""


@dataclass
class SampledSketch(Sketch):
    """A sketch whose counts are in part estimated from a sample.

    Cochran (1977), Sampling Techniques, chapter 8, on systematic samples; the population is in
    the random order of hashes, so that the sample's error is that of a simple random one.
    """

    index: VectorIndex = field(kw_only=True)
    # occurrences by cosine that are estimated, among `counts`
    estimated: NDArray[np.int64] = field(kw_only=True)
    # matches of each query in the sample, from a bin on, in random order
    tails: list[NDArray[Any]] = field(default_factory=list)
    found: int = 0  # sampled texts among the best matches that the index found
    missed: int = 0  # sampled texts that are nearer than the last of these, and were not found

    def tail(self, query: int, lowest: int, size: int) -> NDArray[Any]:
        """Return a uniform random sample of a query's distinct matches, of those in the sample."""
        rows = self.tails[query]
        return rows[bins_of(rows["cosine"].copy()) >= lowest][: self._within(size)]

    @property
    def recall(self) -> tuple[float, float, float] | None:
        """Share of the best matches that were found, and its 95 % interval (Jeffreys).

        None where no best match is in the sample.
        """
        if not self.found + self.missed:
            return None
        low, high = beta.ppf([0.025, 0.975], self.found + 0.5, self.missed + 0.5)
        return self.found / (self.found + self.missed), float(low), float(high)


def search_index(
    index: VectorIndex, queries: Queries, search: Search, progress: bool
) -> SampledSketch:
    """Search an index for all items."""
    there, wanted = index.about["dims"], queries.vectors.shape[1]
    if there != wanted:
        problem = f"has {there} dimensions, the items have {wanted}; use one embedder for both"
        raise DataError([Fault(str(index.folder), problem)])
    unit, keep = units(queries.vectors), max(search.top_k, search.tail_size)
    with progress_bar(progress, "search", len(unit), "items") as advance:
        ids, cosines = index.nearest(unit, candidates(keep, index.weight), advance=advance)
    counts, offsets, matches = _matches(index, ids, cosines)
    sketch = SampledSketch(
        keep, counts, offsets, matches, _strata(index, ids, cosines, queries.benchmarks),
        _chunks(index), frozenset(), {"texts": len(index.texts)}, index=index,
        estimated=np.zeros_like(counts),
    )  # fmt: skip
    # What is nearer than the last of the best matches was to be found.
    best = ids[:, : search.top_k]
    least = cosines[:, search.top_k - 1] if ids.shape[1] >= search.top_k else np.full(len(ids), -2)
    sketch.found = int(np.isin(best, index.sample_rows["text"]).sum())
    comparison = _SampleComparison(index, queries, unit, ids, least, sketch, search.tail_share)
    with progress_bar(progress, "sample", len(unit), "items") as advance:
        for stratum, benchmark, added in comparison.run(advance):
            sketch.strata[stratum][benchmark] += added
    return sketch


@dataclass
class _SampleComparison:
    """Comparison of items with the sample: all cosines are counted, and tails drawn.

    A thread has a part of the items and takes the sample piece by piece, so that none waits for
    another. Of a piece only those cosines stay that may lie in the tail, or above the last of the
    best matches. Counts only grow, so that the tail's threshold by those so far is never too high.
    """

    index: VectorIndex
    queries: Queries
    unit: Matrix
    ids: IntArray  # what was found, dims (query, text)
    least: NDArray[Any]  # cosine of the last of the best matches of each query
    sketch: SampledSketch  # its counts, estimates and tails are added to
    tail_share: float

    def run(self, advance: Callable[[int], None]) -> Iterator[tuple[Stratum, int, Any]]:
        """Fill the sketch; give what is added to the counts of a stratum and benchmark."""
        torch, n, threads = require("torch", "scan"), len(self.unit), usable_cores()
        step = max(1, min(GROUP, -(-n // threads)))
        parts = [slice(at, min(at + step, n)) for at in range(0, n, step)]
        _ = self._rows, self._texts, self._known  # once, before threads
        self.sketch.tails = []

        def compare(part: slice) -> Any:
            found = self._compare(part)
            advance(part.stop - part.start)
            return found

        with workers(torch, threads) as pool:
            for part, (added, tails, missed) in zip(parts, pool.map(compare, parts), strict=True):
                self.sketch.tails += tails
                self.sketch.missed += missed
                benchmarks = self.queries.benchmarks[part]
                for stratum, counts in added.items():
                    for benchmark in np.unique(benchmarks).tolist():
                        yield stratum, benchmark, counts[benchmarks == benchmark].sum(axis=0)

    @cached_property
    def _rows(self) -> NDArray[Any]:
        return np.asarray(self.index.sample_rows)

    @cached_property
    def _texts(self) -> tuple[NDArray[Any], IntArray, NDArray[np.bool_]]:
        """Sampled texts as matches, the place of each row's text, and which rows stay in tails.

        A text of c occurrences is sampled with probability min(1, c / weight), and stays with the
        inverse of min(c, weight): whatever it is, its chance is 1 / weight. Of a text in several
        rows the first counts.
        """
        text, first, place = np.unique(self._rows["text"], return_index=True, return_inverse=True)
        entries = self.index.entries(text)
        chance = 2**32 / np.minimum(entries["copies"], self.index.weight)
        stays = _priorities(_low(entries), np.uint32(0)) < chance
        return entries, place, stays[place] & (first[place] == np.arange(len(place)))

    @cached_property
    def _known(self) -> tuple[IntArray, IntArray]:
        """Queries whose texts are in the sample, and the rows of these, in order of rows."""
        query, row = _in_sample(self._rows["text"], self.ids)
        order = np.argsort(row, kind="stable")
        return query[order], row[order]

    def _compare(self, part: slice) -> tuple[dict[Stratum, Any], list[NDArray[Any]], int]:
        """Return counts of a part of the queries by stratum, their tails, and how many missed."""
        weight, counts = self.index.weight, self.sketch.counts[part]
        most = counts.sum(axis=1) + weight * int(self._rows["copies"].sum())
        least = (self.least[part] + _CLOSE).astype(np.float32)
        bound = np.full(len(counts), -2, np.float32)
        added: dict[Stratum, Any] = {}
        parts, seen, again = [], 0, 0
        for stratum, start, end in _segments(self.index):
            own = added[stratum] = np.zeros_like(counts)
            for at in range(start, end, _PIECE):
                rows = slice(at, min(at + _PIECE, end))
                scores = self._count(part, rows, own)
                seen += rows.stop - at
                if seen >= again:
                    # Seldom, as it takes about as long as a piece.
                    so_far, again = counts + weight * sum(added.values()), 2 * seen
                    floor = _cosine(_thresholds(so_far, most, self.tail_share))
                    bound = np.minimum(floor, least)
                query, column = (scores >= bound[:, None]).nonzero()
                parts.append((query, column + at, scores[query, column]))
            own *= weight
        estimated = sum(added.values(), np.zeros_like(counts))
        self.sketch.estimated[part] = estimated
        counts += estimated  # a view: those of the sketch
        query, row, cosines = (np.concatenate(every) for every in zip(*parts, strict=True))
        return added, *self._chosen(part, query, row, cosines, least)

    def _count(self, part: slice, rows: slice, counts: NDArray[np.int64]) -> Matrix:
        """Count the cosines of queries with rows, but with those that found them; return all."""
        hits = np.ascontiguousarray(self._rows["copies"][rows])
        vectors, scales = with_scales(self.index.sample[rows])
        torch, n, width = require("torch", "scan"), part.stop - part.start, len(hits)
        scores: Matrix = (torch.from_numpy(self.unit[part]) @ vectors.T).numpy()
        none, nothing = np.zeros(n, np.uint32), np.empty((n, 0), CANDIDATE)
        # By the loop that counts cosines with all vectors: Numba compiles it once for both.
        count_block(
            scores, scales.numpy(), 0, np.zeros(width, np.uint32), hits, none, False, counts,
            self._cuts[:n], none.astype(np.int32), none, nothing, none.astype(np.int32),
        )  # fmt: skip
        known, places = self._known
        here = slice(*np.searchsorted(places, [rows.start, rows.stop]))
        inside = (known[here] >= part.start) & (known[here] < part.stop)
        query, column = known[here][inside] - part.start, places[here][inside] - rows.start
        np.subtract.at(counts, (query, bins_of(scores[query, column])), hits[column])
        return scores

    @cached_property
    def _cuts(self) -> NDArray[np.uint32]:
        return np.zeros((GROUP, BINS), np.uint32)

    def _chosen(
        self, part: slice, query: IntArray, row: IntArray, cosines: Matrix, least: Matrix
    ) -> tuple[list[NDArray[Any]], int]:
        """Return tails of queries, in random order, and how many sampled texts were not found."""
        counts = self.sketch.counts[part]
        floor = _cosine(_thresholds(counts, counts.sum(axis=1), self.tail_share))
        entries, place, stays = self._texts
        near = np.flatnonzero(cosines > least[query])
        # Of a text in several rows each finds the same: it counts once.
        pairs = np.unique(np.stack([query[near], self._rows["text"][row[near]]]), axis=1)
        missed = int((self.ids[part][pairs[0]] != pairs[1][:, None]).all(axis=1).sum())
        inside = stays[row] & (cosines >= floor[query])
        query, row, cosines = query[inside], row[inside], cosines[inside]
        matches = entries[place[row]]
        matches["cosine"] = cosines
        matches["priority"] = _priorities(_low(matches), self.queries.keys[part][query])
        order = np.lexsort((matches["priority"], query))
        ends = np.searchsorted(query[order], np.arange(len(counts) + 1))
        matches = matches[order]
        return [matches[a:b] for a, b in pairwise(ends)], missed


def _thresholds(
    counts: NDArray[np.int64], total: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """Return for each query what `Sketch.threshold` does, given the number of all cosines."""
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] / np.maximum(1, total)[:, None]
    enough = above >= share
    enough[:, 0] = True
    last: NDArray[np.int64] = BINS - 1 - enough[:, ::-1].argmax(axis=1)
    return last


def _cosine(bins: NDArray[np.int64]) -> Matrix:
    """Return the least cosines in bins, with some room for rounding."""
    return ((bins - BINS // 2) / (BINS // 2) - _CLOSE).astype(np.float32)


def _low(matches: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the low halves of hashes, which decide priorities."""
    return (matches["chunk"] & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _matches(
    index: VectorIndex, ids: IntArray, cosines: Matrix
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return the counts of what was found, and matches with their offsets as in a sketch."""
    inside = ids >= 0
    query = np.repeat(np.arange(len(ids)), inside.sum(axis=1))
    rows = index.entries(ids[inside])
    rows["cosine"] = cosines[inside]
    counts = np.zeros((len(ids), BINS), np.int64)
    np.add.at(counts, (query, bins_of(rows["cosine"].copy())), rows["copies"])
    return counts, np.concatenate([[0], np.cumsum(inside.sum(axis=1))]), rows


def _strata(
    index: VectorIndex, ids: IntArray, cosines: Matrix, benchmarks: NDArray[np.int64]
) -> dict[Stratum, NDArray[np.int64]]:
    """Return the counts of what was found by stratum, dims (benchmark, bin) each."""
    inside = ids >= 0
    query, text = np.nonzero(inside)[0], ids[inside]
    bins = bins_of(cosines[inside])
    starts = np.append(index.texts["start"], len(index.occurrences))
    first, last = starts[text], starts[text + 1]
    pair = np.repeat(np.arange(len(text)), last - first)
    row = index.occurrences[_ranges(first, last)]
    shape = (len(index.strata), int(benchmarks.max(initial=-1)) + 1, BINS)
    table = np.zeros(shape, np.int64)
    np.add.at(table, (row["stratum"], benchmarks[query[pair]], bins[pair]), row["copies"])
    return dict(zip(index.strata, table, strict=True))


def _ranges(first: IntArray, last: IntArray) -> IntArray:
    """Return the numbers of all ranges, one after the other.

    >>> _ranges(np.array([3, 9]), np.array([5, 10]))
    array([3, 4, 9])
    """
    sizes = last - first
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) + np.repeat(first - (ends - sizes), sizes)


def _chunks(index: VectorIndex) -> dict[Stratum, int]:
    """Return the occurrences in each stratum."""
    rows = index.occurrences
    sizes = np.bincount(rows["stratum"], rows["copies"], minlength=len(index.strata))
    return dict(zip(index.strata, sizes.astype(np.int64).tolist(), strict=True))


def _segments(index: VectorIndex) -> Iterator[tuple[Stratum, int, int]]:
    """Give each stratum and its rows of the sample."""
    stratum = np.asarray(index.sample_rows["stratum"])
    ends = np.searchsorted(stratum, np.arange(len(index.strata) + 1))
    for number, name in enumerate(index.strata):
        if ends[number + 1] > ends[number]:
            yield name, int(ends[number]), int(ends[number + 1])


def _in_sample(text: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return the queries whose texts are among those of sampled rows, and these rows."""
    order = np.argsort(text, kind="stable")
    left = np.searchsorted(text[order], ids.ravel(), "left")
    right = np.searchsorted(text[order], ids.ravel(), "right")
    query = np.repeat(np.arange(ids.size) // max(1, ids.shape[1]), right - left)
    return query, order[_ranges(left, right)]


def _priorities(chunks: NDArray[np.uint32], keys: Any) -> NDArray[np.uint32]:
    """Return the priorities of pairs, as `priority_of` does of one."""
    result: NDArray[np.uint32] = priority_of.py_func(chunks, keys)
    return result
