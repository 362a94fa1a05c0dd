"""Search: vectors of chunks against those of all queries, into a sketch."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam.optional import require
from bayescontam.scan.kernels import BINS
from bayescontam.scan.known import Known
from bayescontam.scan.scores import Block, CompiledScores, TorchScores, scaled, workers
from bayescontam.scan.sketch import ENTRY, Sketch, Stratum

GROUP = 512
"""Most queries that a thread scores at once."""
PIECE = 8192
"""Vectors that are taken at once: so few that they stay in the cache of a CPU."""


@dataclass(frozen=True)
class Queries:
    """What is looked for."""

    vectors: NDArray[np.float32]  # only directions count; zeros have cosine 0 with everything
    keys: NDArray[np.uint32]  # decide the random sample of each query: hashes of seed and item
    benchmarks: NDArray[np.int64]  # number of the benchmark that each query belongs to, from 0


@dataclass(frozen=True)
class Chunks:
    """Chunks of one stratum."""

    stratum: Stratum  # source and stratum
    hashes: NDArray[np.uint64]  # identity of their texts, each once
    firsts: NDArray[np.uint64]  # lowest hash of the occurrences of each
    places: NDArray[np.int64]  # where that occurrence is found again
    copies: NDArray[np.int64]  # number of occurrences of each
    vectors: NDArray[Any]  # only directions count; zeros have cosine 0 with everything


class Searcher:
    """Scores chunks against all queries and keeps what a `Sketch` needs."""

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
        kind = CompiledScores if device == "cpu" and compiled else TorchScores
        vectors, scales = self._take(queries.vectors, np.arange(len(queries.keys)), "query")
        self._scores = [
            kind(group, queries.keys[rows], keep)
            for rows, group in _groups(self._torch, vectors.float() * scales[:, None])
        ]
        self._strata: dict[Stratum, NDArray[np.int64]] = {}
        self._chunks: dict[Stratum, int] = {}
        self._counts = np.zeros((len(queries.keys), BINS), np.int64)
        self._known = Known()

    def add(self, chunks: Chunks) -> None:
        """Score chunks of one stratum."""
        start = self._known.size
        new = self._known.learn(chunks.hashes, chunks.firsts, chunks.places, chunks.copies)
        with workers(self._torch, self._threads) as pool:
            for live, rows in ((True, np.flatnonzero(new)), (False, np.flatnonzero(~new))):
                for at in range(0, len(rows), PIECE):
                    block = self._block(chunks, rows, at, start + at, live)
                    self._score(block, pool)
        self._book(chunks)

    def _take(self, vectors: NDArray[Any], rows: NDArray[np.int64], what: str) -> tuple[Any, Any]:
        """Return vectors on the device, and their scales; see `scaled`."""
        native = np.require(vectors, vectors.dtype.newbyteorder("="), ["C", "W"])
        return scaled(self._torch, self._torch.from_numpy(native).to(self._device), rows, what)

    def _block(
        self, chunks: Chunks, rows: NDArray[np.int64], at: int, first: int, live: bool
    ) -> Block:
        piece = rows[at : at + PIECE]
        whole = len(rows) == len(chunks.hashes)
        vectors = chunks.vectors[at : at + PIECE] if whole else chunks.vectors[piece]
        return Block(
            *self._take(vectors, piece, "vector"),
            chunks.hashes[piece].astype(np.uint32),
            chunks.copies[piece],
            first,
            live,
        )

    def _score(self, block: Block, pool: ThreadPoolExecutor) -> None:
        # Made a list, so that an error in a thread is raised.
        list(pool.map(lambda scores: scores.add(block, self._known.ids), self._scores))

    def _book(self, chunks: Chunks) -> None:
        counts = np.concatenate([scores.counted() for scores in self._scores])
        self._counts += counts
        last = int(self._queries.benchmarks.max(initial=-1)) + 1
        table = np.zeros((last, BINS), np.int64)
        for benchmark in range(last):
            table[benchmark] = counts[self._queries.benchmarks == benchmark].sum(axis=0)
        stratum = chunks.stratum
        self._strata[stratum] = self._strata.get(stratum, 0) + table
        self._chunks[stratum] = self._chunks.get(stratum, 0) + int(chunks.copies.sum())

    def sketch(self, shard: int = 0) -> Sketch:
        """Return the sketch of everything added so far, as that of a shard of this number."""
        stored = [scores.kept(self._known.ids) for scores in self._scores]
        sizes, found = (np.concatenate(parts) for parts in zip(*stored, strict=True))
        matches = np.empty(len(found), ENTRY)
        matches["cosine"], matches["priority"] = found["cosine"], found["priority"]
        for name, values in self._known.tell(found["column"]).items():
            matches[name] = values
        return Sketch(
            self._keep,
            self._counts.copy(),
            np.concatenate([[0], np.cumsum(sizes)]),
            matches,
            dict(self._strata),
            dict(self._chunks),
            frozenset({shard}),
            {"texts": self._known.size},
        )


def _groups(torch: Any, units: Any) -> Iterator[tuple[slice, Any]]:
    """Give queries that are scored together, with zeros below them up to one height.

    The height depends on the number of queries alone, so that the rounding of a cosine does
    not depend on the number of threads.
    """
    n = len(units)
    number = max(1, -(-n // GROUP)) if units.device.type == "cpu" else 1
    # Some libraries multiply few rows in another order than many.
    height = 8 * max(1, -(-n // (8 * number)))
    for at in range(0, max(1, n), height):
        rows = slice(at, min(at + height, n))
        yield rows, torch.nn.functional.pad(units[rows], (0, 0, 0, at + height - rows.stop))
