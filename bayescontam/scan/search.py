"""Exact search: vectors of chunks against those of all items."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescontam._optional import require
from bayescontam.scan.execution import one_thread
from bayescontam.scan.scores import CompiledScores, SimilarityBlock, TorchScores
from bayescontam.scan.sketch import (
    BINS,
    ENTRY,
    Chunks,
    Sketch,
    Stratum,
    place_all,
)
from bayescontam.scan.uploads import Uploads

_ROOM = 1024
_LENGTHS = 1e-15, 1e15
"""Between these, the square of a length is safe in fp32."""
GROUP = 512
"""Most queries that a thread scores at once."""
PIECE = 8192
"""Vectors that are taken at once: so few that they stay in the cache of a CPU."""


class ChunkIndex:
    """Chunks with different texts; the column of each counts how many came before it."""

    def __init__(self) -> None:
        self.size = 0
        self._ids = np.empty(_ROOM, np.uint64)
        self._rows = np.empty(_ROOM, [("first", "<u8"), ("where", "<i8"), ("copies", "<i8")])
        self._slots = np.full(2 * _ROOM, -1, np.int64)

    @property
    def ids(self) -> NDArray[np.uint64]:
        """Hashes by column."""
        return self._ids[: self.size]

    def update(self, chunks: "Chunks") -> NDArray[np.bool_]:
        """Add chunks, all different; return which are new. Of the others count the copies."""
        self._make_room(len(chunks.hashes))
        columns = place_all(chunks.hashes, self._ids, self.size, self._slots)
        new = columns >= self.size
        self.size += int(new.sum())
        self._rows["copies"][columns[new]] = 0
        self._rows["copies"][columns] += chunks.copies
        better = new | (chunks.firsts < self._rows["first"][columns])
        self._rows["first"][columns[better]] = chunks.firsts[better]
        self._rows["where"][columns[better]] = chunks.places[better]
        return new

    def matches(self, found: NDArray[Any]) -> NDArray[Any]:
        """Return candidates as entries of a sketch."""
        matches, columns = np.empty(len(found), ENTRY), found["column"]
        matches["cosine"], matches["priority"] = found["cosine"], found["priority"]
        matches["chunk"] = self._ids[columns]
        for name in ("first", "where", "copies"):
            matches[name] = self._rows[name][columns]
        return matches

    def _make_room(self, more: int) -> None:
        spare = self.size + more - len(self._ids)
        if spare <= 0:
            return
        # At least twice the room, so that what is copied in all stays a few times the whole.
        size = max(self.size + more, 2 * len(self._ids))
        ids, rows = np.empty(size, np.uint64), np.empty(size, self._rows.dtype)
        ids[: self.size], rows[: self.size] = self.ids, self._rows[: self.size]
        self._ids, self._rows = ids, rows
        self._slots = np.full(2 << (size - 1).bit_length(), -1, np.int64)
        place_all(self.ids.copy(), self._ids, 0, self._slots)


@contextmanager
def workers(torch: Any, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Give threads that work at once, with Torch limited to one in each of them and in this one."""
    # Threads do not take the setting over from each other.
    keep_to_one = partial(torch.set_num_threads, 1)
    with one_thread(torch), ThreadPoolExecutor(threads, initializer=keep_to_one) as pool:
        yield pool


def scaled(torch: Any, vectors: Any, rows: NDArray[np.int64], what: str) -> tuple[Any, Any]:
    """Return vectors as they are multiplied, and the scales that make products cosines."""
    precise = torch.promote_types(vectors.dtype, torch.float32)
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=precise)
    odd = ~((lengths > _LENGTHS[0]) & (lengths < _LENGTHS[1]))
    if odd.any():
        peaks = vectors[odd].abs().amax(1, keepdim=True).double()
        if not peaks.isfinite().all():
            row = rows[odd.cpu().numpy()][(~peaks.isfinite()).flatten().cpu().numpy()][0]
            raise ValueError(f"{what} {row} is not finite")
        peaks[peaks == 0] = 1
        vectors = vectors.clone()
        vectors[odd] = (vectors[odd] / peaks).to(vectors.dtype)
        lengths[odd] = torch.linalg.vector_norm(vectors[odd], dim=1, dtype=precise)
    scales = torch.where(lengths > 0, 1 / lengths, 0).float()
    half = vectors.is_cuda and vectors.dtype in (torch.float16, torch.bfloat16)
    return (vectors if half else vectors.float()), scales


@dataclass(frozen=True)
class Queries:
    """What is looked for."""

    vectors: NDArray[np.float32]  # only directions count; zeros have cosine 0 with everything
    keys: NDArray[np.uint32]  # decide the random sample of each query: hashes of seed and item
    benchmarks: NDArray[np.int64]  # number of the benchmark that each query belongs to, from 0


class AnySearcher(Protocol):
    """What compares chunks with queries."""

    bins: ClassVar[int]
    """Bins of the cosines that are counted; 0 if none are."""

    @property
    def dims(self) -> int:
        """Dimensions of the queries."""

    def __init__(self, queries: Queries, keep: int, device: str) -> None: ...

    def add(self, chunks: Chunks) -> None:
        """Compare chunks of one stratum."""

    def sketch(self, shard: int) -> Sketch:
        """Return what was found, as the sketch of a shard of this number."""


class Searcher:
    """Scores chunks against all queries and keeps what a `Sketch` needs."""

    bins: ClassVar[int] = BINS

    def __init__(
        self,
        queries: Queries,
        keep: int,
        device: str = "cpu",
        threads: int = 1,
        compiled: bool = True,
    ) -> None:
        self._torch = require("torch", "scan")
        self._queries, self._keep, self._device, self._threads = queries, keep, device, threads
        kind = self._kind = CompiledScores if device == "cpu" and compiled else TorchScores
        self._uploads = Uploads(self._torch, device)
        (vectors,) = self._uploads([queries.vectors])
        vectors, scales = scaled(self._torch, vectors, np.arange(len(queries.keys)), "query")
        self._scores = [
            kind(group, queries.keys[rows], keep)
            for rows, group in _groups(self._torch, vectors.float() * scales[:, None])
        ]
        self._strata: dict[Stratum, NDArray[np.int64]] = {}
        self._chunks: dict[Stratum, int] = {}
        self._counts = np.zeros((len(queries.keys), BINS), np.int64)
        self._known = ChunkIndex()

    @property
    def dims(self) -> int:
        """Dimensions of the queries."""
        return self._queries.vectors.shape[1]

    def add(self, chunks: Chunks) -> None:
        """Score chunks of one stratum."""
        start = self._known.size
        new = self._known.update(chunks)
        with workers(self._torch, self._threads) as pool:
            for live, rows in ((True, np.flatnonzero(new)), (False, np.flatnonzero(~new))):
                for block in self._blocks(chunks, rows, start, live):
                    ids, blocks = repeat(self._known.ids), repeat(block)
                    # Made a list, so that an error in a thread is raised.
                    list(pool.map(self._kind.add, self._scores, blocks, ids))
        self._book(chunks)

    def _blocks(
        self, chunks: Chunks, rows: NDArray[np.int64], start: int, live: bool
    ) -> Iterator[SimilarityBlock]:
        whole = len(rows) == len(chunks.hashes)
        pieces = [rows[at : at + PIECE] for at in range(0, len(rows), PIECE)]
        # Of all rows slices, which are no copies.
        parts = (
            chunks.vectors[p[0] : p[0] + PIECE] if whole else chunks.vectors[p] for p in pieces
        )
        first = start
        for piece, vectors in zip(pieces, self._uploads(parts), strict=True):
            yield SimilarityBlock(
                *scaled(self._torch, vectors, piece, "vector"),
                chunks.hashes[piece].astype(np.uint32),
                chunks.copies[piece],
                first,
                live,
            )
            first += len(piece)

    def _book(self, chunks: Chunks) -> None:
        counts = np.concatenate([scores.histogram() for scores in self._scores])
        self._counts += counts
        last = int(self._queries.benchmarks.max(initial=-1)) + 1
        table = np.zeros((last, BINS), np.int64)
        for benchmark in range(last):
            # Of one benchmark alone without a copy, as there are many counts.
            own = counts if last == 1 else counts[self._queries.benchmarks == benchmark]
            table[benchmark] = own.sum(axis=0)
        stratum = chunks.stratum
        self._strata[stratum] = self._strata.get(stratum, 0) + table
        self._chunks[stratum] = self._chunks.get(stratum, 0) + int(chunks.copies.sum())

    def sketch(self, shard: int = 0) -> Sketch:
        """Return the sketch of everything added so far, as that of a shard of this number."""
        stored = [scores.top_matches(self._known.ids) for scores in self._scores]
        sizes, found = (np.concatenate(parts) for parts in zip(*stored, strict=True))
        return Sketch(
            self._keep,
            self._counts.copy(),
            np.concatenate([[0], np.cumsum(sizes)]),
            self._known.matches(found),
            dict(self._strata),
            dict(self._chunks),
            frozenset({shard}),
            {"texts": self._known.size},
        )


def _groups(torch: Any, units: Any) -> Iterator[tuple[slice, Any]]:
    """Give queries that are scored together, with zeros below them up to one height."""
    n = len(units)
    number = max(1, -(-n // GROUP)) if units.device.type == "cpu" else 1
    # Some libraries multiply few rows in another order than many: the height depends on the number
    # of queries alone, so that the rounding of a cosine does not depend on the number of threads.
    height = 8 * max(1, -(-n // (8 * number)))
    for at in range(0, max(1, n), height):
        rows = slice(at, min(at + height, n))
        yield rows, torch.nn.functional.pad(units[rows], (0, 0, 0, at + height - rows.stop))
