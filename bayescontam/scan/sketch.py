"""All cosines of a search in a form that merges: top matches, histogram, tail.

A candidate of a query is stored if fewer than `keep` others have both a larger cosine and a
lower priority. That is an all-distances sketch: from it the `keep` largest cosines, and a
random sample of `keep` matches above *any* threshold, can be read exactly.

All loops that Numba compiles are in this file: Numba takes a compiled function from its cache
unless the file that holds it has changed, whatever has become of those that it calls.
"""

import json
import os
import time
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk

BINS = 2001
"""Bins of cosines, 0.001 wide, from -1; the last one holds 1 alone."""

CANDIDATE = np.dtype([("cosine", "<f4"), ("column", "<i4"), ("priority", "<u4")])
"""A match of a chunk that is known by its column."""
Stratum = tuple[str, str]
"""Source, and stratum within it."""

ENTRY = np.dtype(
    [
        ("chunk", "<u8"),
        ("first", "<u8"),
        ("where", "<i8"),
        ("copies", "<i8"),
        ("cosine", "<f4"),
        ("priority", "<u4"),
    ]
)
"""A match; `Sketch` says what its fields are."""
_SCALE = np.float32(1000.0)
_LEAST, _MOST = np.float32(-1), np.float32(1)
_OPEN = 2**32 - 1
# Multipliers of MurmurHash3's finalizer, which mixes every bit into every other.
_MIX_1, _MIX_2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_MERGED = "merged.npz"
_SECONDS = 20.0
"""Least time between two savings of what is merged."""
_SHARE = 0.05
"""Largest share of time that goes into saving: a sketch of many items is large."""
ROW_BITS = 32

fast = numba.njit(cache=True, boundscheck=False, nogil=True)


@fast
def bin_of(cosine: Any) -> Any:
    """Return the bin of a cosine (float32)."""
    place = np.int32(cosine * _SCALE + _SCALE)
    return min(max(place, np.int32(0)), np.int32(BINS - 1))


@fast
def priority_of(chunk: Any, key: Any) -> Any:
    """Return the priority (uint32) of a chunk for a query: uniform, and the same anywhere."""
    x = np.uint32(np.uint32(chunk) ^ np.uint32(key))
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(16))) * _MIX_1)
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(13))) * _MIX_2)
    return np.uint32(x ^ (x >> np.uint32(16)))


@fast
def bins_of(cosines: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the bins of cosines."""
    bins = np.empty(len(cosines), np.int32)
    for i in range(len(cosines)):
        bins[i] = bin_of(cosines[i])
    return bins


@fast
def slot_of(slots: NDArray[np.int64], ids: NDArray[np.uint64], chunk: Any) -> Any:
    """Return the slot that leads to a chunk's place in `ids`, or a free one (-1)."""
    # A hash table with open addressing, of a power of two; chunks are hashes.
    last = len(slots) - 1
    slot = np.int64(chunk & np.uint64(last))
    while slots[slot] >= 0 and ids[slots[slot]] != chunk:
        slot = (slot + 1) & last
    return slot


@fast
def place_all(
    chunks: NDArray[np.uint64], ids: NDArray[np.uint64], size: int, slots: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the places of chunks in `ids`; new ones are appended to its first `size`."""
    places = np.empty(len(chunks), np.int64)
    for i in range(len(chunks)):
        slot = slot_of(slots, ids, chunks[i])
        if slots[slot] < 0:
            slots[slot], ids[size] = size, chunks[i]
            size += 1
        places[i] = slots[slot]
    return places


@fast
def count_block(
    scores: NDArray[np.float32],
    scales: NDArray[np.float32],
    first: int,
    chunks: NDArray[np.uint32],
    weights: NDArray[np.int64],
    keys: NDArray[np.uint32],
    live: bool,
    counts: NDArray[np.int64],
    cuts: NDArray[np.uint32],
    splits: NDArray[np.int32],
    levels: NDArray[np.uint32],
    matches: NDArray[Any],
    filled: NDArray[np.int32],
) -> None:
    """Count a block of cosines and buffer those that may have to be stored."""
    queries, width = scores.shape
    bins, ranks = np.empty(width, np.int32), np.empty(width, np.uint32)
    words = np.zeros((width + 7) // 8, np.uint64)
    maybe = words.view(np.uint8)
    for q in range(queries):
        row, key, split, level = scores[q], keys[q], splits[q], levels[q]
        # Loops of their own, so that the compiler vectorises the first.
        for j in range(width):
            row[j] = min(max(row[j] * scales[j], _LEAST), _MOST)
            bins[j] = bin_of(row[j])
            ranks[j] = priority_of(chunks[j], key)
            maybe[j] = (bins[j] >= split) | (ranks[j] <= level)
        for j in range(width):
            counts[q, bins[j]] += weights[j]
        if not live:
            continue
        n = filled[q]
        for word in range(len(words)):
            if words[word] == 0:
                continue
            for j in range(8 * word, min(8 * word + 8, width)):
                if ranks[j] <= cuts[q, bins[j]]:
                    match = matches[q, n]
                    match["cosine"], match["column"] = row[j], first + j
                    match["priority"] = ranks[j]
                    n += 1
        filled[q] = n


@fast
def admit(heap: NDArray[np.int64], priority: Any) -> Any:
    """Put a priority in place of the highest of the lowest ones; return whether it is lower."""
    if priority >= heap[0]:
        return False
    place, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap):
            # Added, not branched on: which child is higher cannot be predicted.
            child += int(heap[child + 1] > heap[child])
        if heap[child] <= priority:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = priority
    return True


@fast
def open_heap(keep: int) -> NDArray[np.int64]:
    """Return the heap for `admit` of the `keep` lowest priorities, before any has come."""
    return np.full(keep, _OPEN + 1)


@fast
def _key(cosine: Any) -> Any:
    """Return a number (uint32) that is lower the larger the cosine is."""
    # The bits of floats are in the order of their sizes, for each sign.
    bits = np.float32(cosine).view(np.uint32)
    return bits if bits >> np.uint32(31) else np.uint32(~bits & np.uint32(0x7FFFFFFF))


@fast
def _by_cosine(row: NDArray[Any]) -> NDArray[np.int32]:
    """Return the order of matches, largest first: a radix sort, as comparisons are slower."""
    n = len(row)
    keys, order = np.empty(n, np.uint32), np.empty(n, np.int32)
    new_keys, new_order = np.empty_like(keys), np.empty_like(order)
    for i in range(n):
        keys[i], order[i] = _key(row[i]["cosine"]), i
    for shift in (0, 11, 22):
        starts = np.zeros(2049, np.int32)
        for i in range(n):
            starts[1 + ((keys[i] >> np.uint32(shift)) & np.uint32(2047))] += 1
        for digit in range(2048):
            starts[digit + 1] += starts[digit]
        for i in range(n):
            digit = (keys[i] >> np.uint32(shift)) & np.uint32(2047)
            new_keys[starts[digit]], new_order[starts[digit]] = keys[i], order[i]
            starts[digit] += 1
        keys, new_keys, order, new_order = new_keys, keys, new_order, order
    return order


@fast
def _in_order(row: NDArray[Any], ids: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the order of matches: largest cosine first, ties by chunk."""
    order, start = _by_cosine(row), 0
    for i in range(1, len(order) + 1):
        if i == len(order) or row[order[i]]["cosine"] != row[order[start]]["cosine"]:
            if i - start > 1:
                tied = order[start:i].copy()
                chunks = np.empty(len(tied), np.uint64)
                for j in range(len(tied)):
                    chunks[j] = ids[row[tied[j]]["column"]]
                order[start:i] = tied[np.argsort(chunks)]
            start = i
    return order


@fast
def _choose(keep: int, order: NDArray[np.int32], row: NDArray[Any], cut: NDArray[np.uint32]) -> int:
    """Move the matches to be stored to the front, in order; return their number."""
    old, heap, size, above = row.copy(), open_heap(keep), 0, BINS
    for i in order:
        place = bin_of(old[i]["cosine"])
        if place < above:
            # What precedes a bin is what is in those above it.
            cut[place:above] = np.uint32(min(heap[0], _OPEN))
            above = place
        if admit(heap, old[i]["priority"]):
            row[size] = old[i]
            size += 1
    cut[:above] = np.uint32(min(heap[0], _OPEN))
    return size


@fast
def flush(
    limit: int,
    keep: int,
    level: Any,
    ids: NDArray[np.uint64],
    matches: NDArray[Any],
    filled: NDArray[np.int32],
    sizes: NDArray[np.int32],
    cuts: NDArray[np.uint32],
    splits: NDArray[np.int32],
    levels: NDArray[np.uint32],
) -> None:
    """Drop what need not be stored of all queries that have more than `limit` new candidates."""
    for q in range(len(filled)):
        n = filled[q]
        if n - sizes[q] <= limit:
            continue
        row = matches[q, :n]
        sizes[q] = filled[q] = _choose(keep, _in_order(row, ids), row, cuts[q])
        splits[q], levels[q] = np.searchsorted(cuts[q], level, side="right"), level


@fast
def merge_matches(
    keep: int,
    offsets: NDArray[np.int64],
    matches: NDArray[Any],
    other_offsets: NDArray[np.int64],
    other_matches: NDArray[Any],
    room: NDArray[Any],
    sizes: NDArray[np.int64],
) -> None:
    """Merge the matches of two sketches into `room`, one query after the other."""
    start = 0
    for q in range(len(sizes)):
        one = matches[offsets[q] : offsets[q + 1]]
        other = other_matches[other_offsets[q] : other_offsets[q + 1]]
        heap, own, size = open_heap(keep), room[start:], 0
        for i in range(_interleave(one, other, own)):
            if admit(heap, own[i]["priority"]):
                own[size] = own[i]
                size += 1
        sizes[q] = size
        start += size


@fast
def _precedes(cosine: Any, chunk: Any, other_cosine: Any, other_chunk: Any) -> Any:
    """Return whether a match comes first: the larger cosine, or the lower chunk of equal ones."""
    return cosine > other_cosine or (cosine == other_cosine and chunk < other_chunk)


@fast
def _interleave(one: Any, other: Any, room: Any) -> Any:
    """Join two ordered lists in order, copies of one chunk as one match; return the length."""
    size = 1
    while size < 2 * (len(one) + len(other)):
        size *= 2
    slots, chunks = np.full(size, -1, np.int64), room["chunk"]
    i, j, n = 0, 0, 0
    while i < len(one) or j < len(other):
        if j == len(other) or (
            i < len(one)
            and _precedes(one[i]["cosine"], one[i]["chunk"], other[j]["cosine"], other[j]["chunk"])
        ):
            match = one[i]
            i += 1
        else:
            match = other[j]
            j += 1
        slot = slot_of(slots, chunks, match["chunk"])
        if slots[slot] < 0:
            slots[slot] = n
            room[n] = match
            n += 1
        else:
            # Rounding may have moved a cosine between shards: the larger one came first.
            seen = room[slots[slot]]
            seen["copies"] += match["copies"]
            # Documents of one name have the same first: then the place decides.
            if match["first"] < seen["first"] or (
                match["first"] == seen["first"] and match["where"] < seen["where"]
            ):
                seen["first"], seen["where"] = match["first"], match["where"]
    return n


@numba.njit(cache=True, boundscheck=False, nogil=True, fastmath={"reassoc", "contract"})
def compare_halves(
    halves: NDArray[np.uint16],
    rows: NDArray[np.int64],
    queries: NDArray[np.float32],
    owners: NDArray[np.int64],
    cosines: NDArray[np.float32],
) -> None:
    """Write the cosine of each row, the bits of numbers in 16 bits, with the query that owns it.

    Of rows that are not finite it is NaN. Read where they are, each once: to copy rows and widen
    the copies takes several times as long.
    """
    bits = np.empty(queries.shape[1], np.uint32)
    numbers = bits.view(np.float32)
    # An exponent of 16 bits is less by 112 than the same one of 32 bits.
    scale = np.float32(2.0**112)
    for i in range(len(rows)):
        row, query, odd = halves[rows[i]], queries[owners[i]], np.uint32(0)
        for j in range(len(bits)):
            half = np.uint32(row[j])
            sign = np.uint32(half & np.uint32(0x8000)) << np.uint32(16)
            bits[j] = sign | np.uint32(half & np.uint32(0x7FFF)) << np.uint32(13)
            odd |= np.uint32((half & np.uint32(0x7C00)) + np.uint32(0x0400))
        product = square = np.float32(0)
        for j in range(len(bits)):
            number = numbers[j] * scale
            product += number * query[j]
            square += number * number
        if odd & np.uint32(0x8000):
            cosines[i] = np.nan
        elif square > 0:
            cosines[i] = min(max(product / np.sqrt(square), _LEAST), _MOST)
        else:
            cosines[i] = 0


@dataclass(frozen=True)
class Chunks:
    """Chunks of one stratum."""

    stratum: Stratum  # source and stratum
    hashes: NDArray[np.uint64]  # identity of their texts, each once
    firsts: NDArray[np.uint64]  # lowest hash of the occurrences of each
    places: NDArray[np.int64]  # where that occurrence is found again
    copies: NDArray[np.int64]  # number of occurrences of each
    vectors: NDArray[Any]  # only directions count; zeros have cosine 0 with everything


def places(number: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of rows of a shard."""
    return (np.int64(number) << ROW_BITS) | rows.astype(np.int64)


def split_places(where: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the shards and rows of places."""
    return where >> ROW_BITS, where & (2**ROW_BITS - 1)


@dataclass
class Sketch:
    """Mergeable record of the cosines of all queries with all chunks seen.

    Merging is associative and commutative. The matches of lowest priority above a threshold
    are a uniform random sample that depends on no order: priorities are hashes of chunk and query.

    Cohen (2015), All-Distances Sketches, Revisited: HIP Estimators for Massive Graphs
    Analysis. https://doi.org/10.1109/TKDE.2015.2411606
    """

    keep: int  # matches of a query that can be requested
    # occurrences of chunks by cosine; bins are 0.001 wide and start at -1
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]  # where the matches of each query start in `matches`
    # largest cosine first, ties by chunk. `chunk` is the hash of a text, `copies` how often it
    # occurs, `first` the lowest hash of its occurrences, `where` the place of that one.
    matches: NDArray[Any]
    # occurrences by cosine of each stratum, summed over the items of a benchmark
    strata: dict[Stratum, NDArray[np.int64]] = field(default_factory=dict)
    chunks: dict[Stratum, int] = field(default_factory=dict)  # occurrences of chunks seen
    # shards of the corpus that were seen. Sketches that share one are not merged.
    shards: frozenset[int] = frozenset()
    tallies: dict[str, int] = field(default_factory=dict)  # whatever else was counted on the way

    @classmethod
    def empty(cls, queries: int, keep: int, bins: int = BINS) -> Self:
        """Return the sketch of no chunks at all; without bins it holds best matches alone."""
        return cls(
            keep,
            np.zeros((queries, bins), np.int64),
            np.zeros(queries + 1, np.int64),
            np.empty(0, ENTRY),
        )

    @property
    def total(self) -> int:
        """Occurrences of chunks seen."""
        return sum(self.chunks.values())

    def merge(self, other: "Sketch") -> "Sketch":
        """Return the sketch of all chunks that either has seen."""
        if self.keep != other.keep or len(self.counts) != len(other.counts):
            raise ValueError("sketches of different searches cannot be merged")
        if self.shards & other.shards:
            raise ValueError(f"shards would count twice: {sorted(self.shards & other.shards)}")
        room = np.empty(len(self.matches) + len(other.matches), ENTRY)
        sizes = np.zeros(len(self.counts), np.int64)
        merge_matches(
            self.keep, self.offsets, self.matches, other.offsets, other.matches, room, sizes
        )
        return Sketch(
            self.keep,
            self.counts + other.counts,
            np.concatenate([[0], np.cumsum(sizes)]),
            room[: sizes.sum()].copy(),
            _added(self.strata, other.strata),
            _added(self.chunks, other.chunks),
            self.shards | other.shards,
            _added(self.tallies, other.tallies),
        )

    def of(self, query: int) -> NDArray[Any]:
        """Return the matches stored of a query, largest cosine first."""
        return self.matches[self.offsets[query] : self.offsets[query + 1]]

    def top(self, query: int, size: int) -> NDArray[Any]:
        """Return the `size` best matches of a query; fewer if there are fewer chunks."""
        return self.of(query)[: self._within(size)]

    def threshold(self, query: int, share: float) -> int:
        """Return the highest bin with at least `share` of all cosines at or above it (none: 0)."""
        above = np.cumsum(self.counts[query][::-1])[::-1]
        # Divided, since 0.07 * 100 is above 7, but 7 / 100 is not below 0.07.
        return int(np.flatnonzero(above / max(1, above[0]) >= share).max(initial=0))

    def tail(self, query: int, lowest: int, size: int) -> NDArray[Any]:
        """Return a uniform random sample of a query's distinct matches."""
        matches = self.of(query)
        matches = matches[bins_of(matches["cosine"]) >= lowest]
        return matches[np.argsort(matches["priority"], kind="stable")][: self._within(size)]

    def _within(self, size: int) -> int:
        if size > self.keep:
            raise ValueError(f"{size} matches requested, but only {self.keep} are exact")
        return size

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file (NumPy's ``.npz`` in Zstandard), whole or not at all."""
        names = sorted(self.chunks)
        about = {
            "keep": self.keep,
            "strata": [[*name, self.chunks[name]] for name in names],
            "shards": sorted(self.shards),
            "tallies": self.tallies,
        }
        # Ten times as fast as the compression of NumPy, and smaller.
        with atomic_path(path) as temporary, pa.output_stream(temporary, "zstd") as file:
            np.savez(
                file,
                about=np.frombuffer(json.dumps(about).encode(), np.uint8),
                counts=self.counts,
                offsets=self.offsets,
                matches=self.matches,
                strata=np.array([self.strata[name] for name in names], np.int64),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        with pa.input_stream(path, "zstd") as packed:
            content = BytesIO(packed.read())
        with np.load(content) as file:
            about = json.loads(file["about"].tobytes())
            names = [(source, stratum) for source, stratum, _ in about["strata"]]
            return cls(
                about["keep"],
                file["counts"],
                file["offsets"],
                file["matches"],
                dict(zip(names, file["strata"], strict=True)),
                {name: row[2] for name, row in zip(names, about["strata"], strict=True)},
                frozenset(about["shards"]),
                about["tallies"],
            )


def _added[KeyT, ValueT: (int, NDArray[np.int64])](
    one: dict[KeyT, ValueT], other: dict[KeyT, ValueT]
) -> dict[KeyT, ValueT]:
    both = dict(one)
    for name, value in other.items():
        both[name] = both[name] + value if name in both else value
    return both


class SketchMerger:
    """Sketches of shards, merged as they arrive; the merged one is saved now and then.

    A sketch says which shards it has seen, so that none counts twice after an interruption.
    """

    def __init__(self, folder: Path, sketch: Sketch) -> None:
        self.sketch = sketch
        self._folder, self._path = folder, folder / _MERGED
        self._waiting: list[Path] = []
        self._next = time.monotonic() + _SECONDS

    @classmethod
    def resume(cls, folder: Path, empty: Sketch) -> Self:
        """Merge what a folder holds already."""
        path = folder / _MERGED
        merger = cls(folder, Sketch.load(path) if path.exists() else empty)
        for shard in sorted(folder.glob("[0-9]*.npz")):
            merger.take(shard.stem)
        return merger

    def take(self, key: str) -> None:
        """Merge the sketch of a shard."""
        path = self._folder / f"{key}.npz"
        if int(key) not in self.sketch.shards:
            self.sketch = self.sketch.merge(Sketch.load(path))
        self._waiting.append(path)
        if time.monotonic() > self._next:
            self.save()

    def save(self) -> None:
        """Write what is merged, then remove what it was merged from."""
        start = time.monotonic()
        with on_disk(self._path):
            self.sketch.save(self._path)
            for path in self._waiting:
                path.unlink(missing_ok=True)
        self._waiting, now = [], time.monotonic()
        self._next = now + max(_SECONDS, (now - start) / _SHARE)
