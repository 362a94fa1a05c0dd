"""Search of an index for the items of benchmarks: best matches found, all cosines estimated.

What FAISS finds is compared exactly. How often each cosine occurs among all other texts is
estimated from the index's uniform sample of occurrences, each of which stands for as many.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam.errors import DataError, Fault
from bayescontam.parallel import usable_cores
from bayescontam.scan.search import Queries
from bayescontam.scan.sketch import (
    BINS,
    CANDIDATE,
    Sketch,
    Stratum,
    bins_of,
    count_block,
    priority_of,
)
from bayescontam.scan.vector_index import Ids, Matrix, VectorIndex, candidates, units
from bayescontam.specs.corpus import Search

_GROUP = 256
"""Queries that FAISS searches at once, between two states of the progress bar."""
_PIECE = 8192
"""Sampled occurrences that are compared with all queries at once."""
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
    ids, cosines = _nearest(index, unit, candidates(keep, index.weight), progress)
    counts, offsets, matches = _matches(index, ids, cosines)
    sketch = SampledSketch(
        keep, counts, offsets, matches, _strata(index, ids, cosines, queries.benchmarks),
        _chunks(index), frozenset(), {"texts": len(index.texts)}, index=index,
        estimated=np.zeros_like(counts),
    )  # fmt: skip
    with progress_bar(progress, "sample", len(index.sample_rows), "chunks") as advance:
        for stratum, first, last in _segments(index):
            known, sampled = _in_sample(index, ids, first, last), np.zeros_like(counts)
            for at in range(first, last, _PIECE):
                rows = slice(at, min(at + _PIECE, last))
                _add_sampled(sampled, index, unit, rows, known)
                advance(rows.stop - at)
            sampled *= index.weight
            sketch.estimated += sampled
            for benchmark in np.unique(queries.benchmarks):
                own = sampled[queries.benchmarks == benchmark].sum(axis=0)
                sketch.strata[stratum][benchmark] += own
    sketch.counts += sketch.estimated
    # What is nearer than the last of the best matches was to be found.
    best = ids[:, : search.top_k]
    least = cosines[:, search.top_k - 1] if ids.shape[1] >= search.top_k else np.full(len(ids), -2)
    lowest = np.array([sketch.threshold(q, search.tail_share) for q in range(len(ids))])
    sketch.found = int(np.isin(best, index.sample_rows["text"]).sum())
    sketch.tails, sketch.missed = _tails(index, unit, queries.keys, lowest, ids, least)
    return sketch


def _add_sampled(
    counts: NDArray[np.int64],
    index: VectorIndex,
    unit: Matrix,
    rows: slice,
    known: tuple[Ids, Ids],
) -> None:
    """Count the cosines of sampled rows, except with the queries that found them (`known`)."""
    # In one piece, as those of a pass over all vectors are: Numba compiles the loop once for both.
    hits = np.ascontiguousarray(index.sample_rows["copies"][rows])
    scores = _counted(unit, units(index.sample[rows]), hits, counts)
    here = (known[1] >= rows.start) & (known[1] < rows.stop)
    query, column = known[0][here], known[1][here] - rows.start
    np.subtract.at(counts, (query, bins_of(scores[query, column])), hits[column])


def _nearest(index: VectorIndex, unit: Matrix, size: int, progress: bool) -> tuple[Ids, Matrix]:
    parts = []
    with progress_bar(progress, "search", len(unit), "items") as advance:
        for at in range(0, len(unit), _GROUP):
            parts.append(index.nearest(unit[at : at + _GROUP], size))
            advance(len(parts[-1][0]))
    ids, cosines = (np.concatenate(both) for both in zip(*parts, strict=True))
    return ids, cosines


def _matches(
    index: VectorIndex, ids: Ids, cosines: Matrix
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
    index: VectorIndex, ids: Ids, cosines: Matrix, benchmarks: NDArray[np.int64]
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


def _ranges(first: Ids, last: Ids) -> Ids:
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


def _in_sample(
    index: VectorIndex, ids: Ids, first: int = 0, last: int | None = None
) -> tuple[Ids, Ids]:
    """Return the queries whose texts are among some rows of the sample, and these rows."""
    text = np.asarray(index.sample_rows["text"][first:last])
    order = np.argsort(text, kind="stable")
    left = np.searchsorted(text[order], ids.ravel(), "left")
    right = np.searchsorted(text[order], ids.ravel(), "right")
    query = np.repeat(np.arange(ids.size) // max(1, ids.shape[1]), right - left)
    return query, order[_ranges(left, right)] + first


def _counted(
    unit: Matrix, vectors: Matrix, hits: NDArray[np.int64], counts: NDArray[np.int64]
) -> Matrix:
    """Add the cosines of all queries with sampled vectors to `counts`; return them."""
    n, width = len(unit), len(vectors)
    scores, none = _products(unit, vectors), np.zeros(n, np.uint32)
    ones, cuts = np.ones(width, np.float32), np.zeros((n, BINS), np.uint32)
    nothing, low = np.empty((n, 0), CANDIDATE), np.zeros(width, np.uint32)

    def count(at: int) -> None:
        of = slice(at, at + step)
        count_block(
            scores[of], ones, 0, low, hits, none[of], False, counts[of], cuts[of],
            none[of].astype(np.int32), none[of], nothing[of], none[of].astype(np.int32),
        )  # fmt: skip

    step = max(1, -(-n // usable_cores()))
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(count, range(0, n, step)))  # a list, so that an error is raised
    return scores


def _tails(
    index: VectorIndex,
    unit: Matrix,
    keys: NDArray[np.uint32],
    lowest: NDArray[np.int64],
    ids: Ids,
    least: NDArray[Any],
) -> tuple[list[NDArray[Any]], int]:
    """Return tails of all queries, in random order, and how many sampled texts were not found.

    A text of c occurrences is sampled with probability min(1, c / weight), and stays with the
    inverse of min(c, weight): whatever it is, its chance is 1 / weight.
    """
    text, row = np.unique(np.asarray(index.sample_rows["text"]), return_index=True)
    entries = index.entries(text)
    low = (entries["chunk"] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    stays = _priorities(low, np.uint32(0)) < 2**32 / np.minimum(entries["copies"], index.weight)
    floor = ((lowest - BINS // 2) / (BINS // 2) - _CLOSE).astype(np.float32)
    least = (least + _CLOSE).astype(np.float32)
    bound = np.minimum(floor, least)[:, None]
    missed, parts = 0, []
    for at in range(0, len(row), _PIECE):
        here = slice(at, at + _PIECE)
        scores = _products(unit, units(index.sample[row[here]]))
        query, column = (scores >= bound).nonzero()
        found = scores[query, column]
        near = found > least[query]
        others = ids[query[near]] != text[at + column[near], None]
        missed += int(others.all(axis=1).sum())
        inside = stays[at + column] & (found >= floor[query])
        query, column, found = query[inside], column[inside], found[inside]
        matches = entries[at + column]
        matches["cosine"] = found
        matches["priority"] = _priorities(low[at + column], keys[query])
        parts.append((query, matches))
    query, matches = (np.concatenate(both) for both in zip(*parts, strict=True))
    order = np.lexsort((matches["priority"], query))
    ends = np.searchsorted(query[order], np.arange(len(unit) + 1))
    matches = matches[order]
    return [matches[a:b] for a, b in pairwise(ends)], missed


def _priorities(chunks: NDArray[np.uint32], keys: Any) -> NDArray[np.uint32]:
    """Return the priorities of pairs, as `priority_of` does of one."""
    result: NDArray[np.uint32] = priority_of.py_func(chunks, keys)
    return result


def _products(unit: Matrix, vectors: Matrix) -> Matrix:
    """Return the cosines of all pairs, dims (query, vector)."""
    torch = require("torch", "scan")
    scores: Matrix = (torch.from_numpy(unit) @ torch.from_numpy(vectors).T).numpy()
    return scores.clip(-1, 1, out=scores)
