"""Exact search: vectors of chunks against those of all items."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescontam._files import on_disk, sha256
from bayescontam._optional import require
from bayescontam._runs import append_line
from bayescontam.errors import DataError, Fault
from bayescontam.scan.chunking import ChunkedDocuments, TextShard, divided
from bayescontam.scan.embedders import Embedder, shared_embedder
from bayescontam.scan.execution import LOG, Execution, one_thread, stage_folder, task_name
from bayescontam.scan.items import CorpusListing, EmbeddedItems
from bayescontam.scan.served import ServedEmbedder, replies_folder
from bayescontam.scan.sketch import (
    BINS,
    CANDIDATE,
    ENTRY,
    Chunks,
    Sketch,
    SketchMerger,
    Stratum,
    count_block,
    flush,
    place_all,
    split_places,
)
from bayescontam.scan.stored_vectors import VECTORS, Precision, StoredShard, VectorStore
from bayescontam.scan.vectors import VectorFile, VectorShard
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Embedding

BUFFER = 2048
"""New candidates of a query for which there is room."""
_ROOM = 1024
BLOCK = 512
"""Chunks scored at once on a CPU: so few that their scores stay in its cache."""
SCORES = 2**27
"""Cosines that Torch scores at once elsewhere; each takes about 40 bytes."""
_LENGTHS = 1e-15, 1e15
"""Between these, the square of a length is safe in fp32."""
GROUP = 512
"""Most queries that a thread scores at once."""
PIECE = 8192
"""Vectors that are taken at once: so few that they stay in the cache of a CPU."""
_VECTORS = 512
"""Ready vectors are searched so much faster than texts that their shards are larger."""


class Candidates:
    """Matches stored of each query, and new candidates behind them."""

    def __init__(self, queries: int, keep: int) -> None:
        self._torch = require("torch", "scan")
        self._keep = keep
        self.matches = np.empty((queries, 2 * BUFFER + BLOCK), CANDIDATE)
        self.filled = np.zeros(queries, np.int32)
        self.sizes = np.zeros(queries, np.int32)
        self.cuts = np.full((queries, BINS), np.iinfo(np.uint32).max, np.uint32)
        self.splits = np.zeros(queries, np.int32)
        self.levels = np.zeros(queries, np.uint32)

    def make_room(self, ids: NDArray[np.uint64]) -> bool:
        """Make room for a block more of each query; return whether cuts have changed."""
        if self.filled.max(initial=0) + BLOCK <= self.matches.shape[1]:
            return False
        # Those that have half of the room filled come along: they would be next.
        self._flush(BUFFER // 2, ids)
        short = int(self.filled.max()) + BUFFER + BLOCK - self.matches.shape[1]
        if short > 0:
            more = np.empty((len(self.filled), short), CANDIDATE)
            self.matches = np.concatenate([self.matches, more], axis=1)
        return True

    def top_matches(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return how many matches each query keeps, and all of these in a row."""
        self._flush(0, ids)
        inside = np.arange(self.matches.shape[1]) < self.sizes[:, None]
        return self.sizes, self.matches[inside]

    def _flush(self, limit: int, ids: NDArray[np.uint64]) -> None:
        # At this level about as many matches pass the coarse cut by bin as by priority.
        level = np.uint32((2**32 - 1) * min(1.0, self._keep / max(1, len(ids))) ** 0.5)
        flush(
            limit,
            self._keep,
            level,
            ids,
            self.matches,
            self.filled,
            self.sizes,
            self.cuts,
            self.splits,
            self.levels,
        )


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


@dataclass(frozen=True)
class SimilarityBlock:
    """Chunks to be scored."""

    # vectors, scales: see `scaled`
    vectors: Any
    scales: Any
    hashes: NDArray[np.uint32]  # low halves of their hashes
    weights: NDArray[np.int64]  # occurrences of each
    first: int  # column of the first chunk, among all that the searcher keeps
    live: bool  # whether they can be matches, or are only counted


class CompiledScores(Candidates):
    """Scores on a CPU: matrix products by Torch, everything else in compiled loops.

    Products have one shape, whatever stands where there is nothing, so that the rounding of
    a cosine does not depend on how many chunks there are.
    """

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        super().__init__(len(keys), keep)
        self._queries, self._keys = queries, keys
        self._counts = np.zeros((len(keys), BINS), np.int64)
        self._padded = self._torch.zeros(BLOCK, queries.shape[1])
        self._room = self._torch.empty(len(queries), BLOCK)

    def add(self, block: SimilarityBlock, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        scales = block.scales.numpy()
        for at in range(0, len(block.vectors), BLOCK):
            end = min(at + BLOCK, len(block.vectors))
            vectors = block.vectors[at:end]
            if len(vectors) < BLOCK:
                self._padded[: len(vectors)] = vectors
                vectors = self._padded
            self._torch.mm(self._queries, vectors.T, out=self._room)
            count_block(
                self._room.numpy()[: len(self._keys), : end - at],
                scales[at:end],
                block.first + at,
                block.hashes[at:end],
                block.weights[at:end],
                self._keys,
                block.live,
                self._counts,
                self.cuts,
                self.splits,
                self.levels,
                self.matches,
                self.filled,
            )
            self.make_room(ids[: block.first + end])

    def histogram(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call."""
        counts, self._counts = self._counts, np.zeros_like(self._counts)
        return counts


class TorchScores(Candidates):
    """Scores on any device by operations of Torch, a few large blocks at a time."""

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        super().__init__(len(keys), keep)
        torch, n = self._torch, len(keys)
        self._queries, self._device = queries[:n], queries.device
        self._width = max(BLOCK, SCORES // max(1, n))
        # Torch has no arithmetic of unsigned integers, so 64 bits hold the 32.
        self._keys = torch.from_numpy(keys.astype(np.int64)).to(self._device)[:, None]
        self._counts = torch.zeros((n, BINS), dtype=torch.int64, device=self._device)
        self._sharpen()

    def add(self, block: SimilarityBlock, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        torch, at = self._torch, 0
        hashes = torch.from_numpy(block.hashes.astype(np.int64)).to(self._device)
        weights = torch.from_numpy(block.weights).to(self._device)
        while at < len(block.vectors):
            # Blocks grow with what was seen, else most of a first large one would be candidates.
            part = slice(at, at + min(self._width, max(BLOCK, block.first + at)))
            cosines = _products(torch, self._queries, block.vectors[part])
            cosines.mul_(block.scales[part]).clamp_(-1, 1)
            bins = (cosines * 1000.0 + 1000.0).to(torch.int64).clamp_(0, BINS - 1)
            self._counts.scatter_add_(1, bins, weights[part].expand_as(bins))
            if block.live:
                self._offer(cosines, bins, hashes[part], block.first + at, ids)
            at = part.stop

    def _offer(
        self, cosines: Any, bins: Any, hashes: Any, first: int, ids: NDArray[np.uint64]
    ) -> None:
        priorities = _priorities(hashes, self._keys)
        rows, columns = (priorities <= self._cuts.gather(1, bins)).nonzero(as_tuple=True)
        values = {
            "cosine": cosines[rows, columns].cpu().numpy(),
            "column": (columns + first).cpu().numpy(),
            "priority": priorities[rows, columns].cpu().numpy(),
        }
        self._buffer(rows.cpu().numpy(), values, ids)

    def _buffer(
        self,
        rows: NDArray[np.int64],
        values: dict[str, NDArray[Any]],
        ids: NDArray[np.uint64],
    ) -> None:
        """Buffer candidates, at most `BLOCK` of each query at a time; rows are in order."""
        changed = False
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        for turn in range(0, int(place.max(initial=-1)) + 1, BLOCK):
            now = (place >= turn) & (place < turn + BLOCK)
            to = rows[now], self.filled[rows[now]] + place[now] - turn
            for name, value in values.items():
                self.matches[name][to] = value[now]
            self.filled += np.bincount(rows[now], minlength=len(self.filled)).astype(np.int32)
            changed |= self.make_room(ids)
        if changed:
            self._sharpen()

    def _sharpen(self) -> None:
        cuts = self.cuts.astype(np.int64)
        self._cuts = self._torch.from_numpy(cuts).to(self._device)

    def histogram(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call."""
        counts = self._counts.cpu().numpy().copy()
        self._counts.zero_()
        return counts


def _products(torch: Any, queries: Any, vectors: Any) -> Any:
    """Return the products of all pairs in fp32, whatever the precision of `vectors`."""
    if vectors.dtype == torch.float32:
        return queries @ vectors.T
    return torch.mm(queries.to(vectors.dtype), vectors.T, out_dtype=torch.float32)


def _priorities(chunks: Any, keys: Any) -> Any:
    """Return the priorities of all pairs, as `bayescontam.scan.sketch.priority_of` does."""
    low = 0xFFFFFFFF
    x = chunks ^ keys
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & low
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & low
    return x ^ (x >> 16)


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
        vectors, scales = self._take(queries.vectors, np.arange(len(queries.keys)), "query")
        self._scores = [
            kind(group, queries.keys[rows], keep)
            for rows, group in _groups(self._torch, vectors.float() * scales[:, None])
        ]
        self._strata: dict[Stratum, NDArray[np.int64]] = {}
        self._chunks: dict[Stratum, int] = {}
        self._counts = np.zeros((len(queries.keys), BINS), np.int64)
        self._known = ChunkIndex()

    def add(self, chunks: Chunks) -> None:
        """Score chunks of one stratum."""
        start = self._known.size
        new = self._known.update(chunks)
        with workers(self._torch, self._threads) as pool:
            for live, rows in ((True, np.flatnonzero(new)), (False, np.flatnonzero(~new))):
                for at in range(0, len(rows), PIECE):
                    block = self._block(chunks, rows, at, start + at, live)
                    ids, blocks = repeat(self._known.ids), repeat(block)
                    # Made a list, so that an error in a thread is raised.
                    list(pool.map(self._kind.add, self._scores, blocks, ids))
        self._book(chunks)

    def _take(self, vectors: NDArray[Any], rows: NDArray[np.int64], what: str) -> tuple[Any, Any]:
        """Return vectors on the device, and their scales; see `scaled`."""
        native = np.require(vectors, vectors.dtype.newbyteorder("="), ["C", "W"])
        return scaled(self._torch, self._torch.from_numpy(native).to(self._device), rows, what)

    def _block(
        self, chunks: Chunks, rows: NDArray[np.int64], at: int, first: int, live: bool
    ) -> SimilarityBlock:
        piece = rows[at : at + PIECE]
        whole = len(rows) == len(chunks.hashes)
        vectors = chunks.vectors[at : at + PIECE] if whole else chunks.vectors[piece]
        return SimilarityBlock(
            *self._take(vectors, piece, "vector"),
            chunks.hashes[piece].astype(np.uint32),
            chunks.copies[piece],
            first,
            live,
        )

    def _book(self, chunks: Chunks) -> None:
        counts = np.concatenate([scores.histogram() for scores in self._scores])
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


type Shard = TextShard | VectorShard | StoredShard
"""A part of the corpus that is searched as one task."""


@dataclass(frozen=True)
class SearchStage:
    """Shards of the corpus to sketches."""

    folder: Path
    log: Path  # a line is appended for each shard
    queries: Queries
    keep: int  # see the head of `bayescontam.scan.sketch`
    embedding: Embedding | None  # none where all shards hold vectors
    device: str
    store: VectorStore | None  # where vectors of texts are stored, if they are
    replies: Path | None = None  # where replies of an endpoint are stored
    searcher: type[AnySearcher] = Searcher

    def __call__(self) -> Callable[[tuple[int, Shard]], None]:
        """Load the embedder; return the function of one task."""
        embedder = None
        if self.embedding is not None:
            embedder = shared_embedder(self.embedding, self.device, self.replies)
        return lambda task: self.search(embedder, *task)

    def search(self, embedder: Embedder | None, number: int, shard: Shard) -> None:
        """Embed and search a shard."""
        start = time.perf_counter()
        searcher = self.searcher(self.queries, self.keep, self.device)
        path = self.folder / f"{task_name(number)}.npz"
        with on_disk(path):
            # As in workers beside others, so that their number changes no rounding.
            with one_thread(require("torch", "scan")):
                for chunks in self._chunks(number, shard, embedder):
                    self._add(searcher, chunks, shard)
            searcher.sketch(number).save(path)
            # After the result: what the log lists is done, and not done again.
            seconds = time.perf_counter() - start
            append_line(self.log, f"shard {number}: {shard.size} chunks in {seconds:.1f} s")
        if isinstance(embedder, ServedEmbedder):
            embedder.forget()

    def _chunks(self, number: int, shard: Shard, embedder: Embedder | None) -> Iterator[Chunks]:
        if self.store is None or not isinstance(shard, TextShard):
            return shard.chunks(number, embedder)
        table, vectors = shard.embedded(embedder)
        self.store.write(number, table, vectors)
        return divided(table, vectors, number)

    def _add(self, searcher: AnySearcher, chunks: Chunks, shard: Shard) -> None:
        there, wanted = chunks.vectors.shape[1], self.queries.vectors.shape[1]
        if there != wanted:
            problem = f"has {there} dimensions, the items have {wanted}; use one embedder for both"
            raise DataError([Fault(shard.name, problem)])
        try:
            searcher.add(chunks)
        except ValueError as error:
            # The row is looked for only now: to look through all vectors first takes long.
            odd = ~np.isfinite(chunks.vectors).all(axis=1)
            if not odd.any():
                raise
            row = int(split_places(chunks.places)[1][odd][0])
            fault = Fault(shard.name, "the vector is not finite", row=row + 1)
            raise DataError([fault]) from error


def vector_shards(corpus: CorpusListing) -> list[Shard]:
    """Return the shards of the inputs that hold ready vectors."""
    rows = corpus.manifest.search.shard_chunks * _VECTORS
    return [
        VectorShard(item.source, file, item.path, start, stop)
        for item in corpus.vector_inputs
        for file in [VectorFile(item.location, corpus.sources[item.source].vector)]
        for start, stop in file.shards(rows)
    ]


def queries_of(corpus: CorpusListing, embedded: EmbeddedItems) -> Queries:
    """Return the items as queries."""
    items, seed = corpus.items, corpus.manifest.seed
    names = list(dict.fromkeys(item.benchmark for item in items))
    return Queries(
        embedded.vectors,
        np.array([item.key(seed) for item in items], np.uint32),
        np.array([names.index(item.benchmark) for item in items], np.int64),
    )


def search_shards(
    corpus: CorpusListing,
    embedded: EmbeddedItems,
    chunked: ChunkedDocuments,
    shards: Sequence[Shard],
    out: Path,
    execution: Execution,
    precision: Precision | None = None,
    searcher: type[AnySearcher] = Searcher,
) -> tuple[Sketch, VectorStore | None]:
    """Compare all items with all chunks, and store the vectors of texts in a precision."""
    manifest, items = corpus.manifest, corpus.items
    vectors, seed = embedded.vectors, manifest.seed
    keep = max(manifest.search.top_k, manifest.search.tail_size if searcher.bins else 1)
    queries = queries_of(corpus, embedded)
    folder = stage_folder(
        out, "search", seed, keep, execution.device, content_of(manifest.embedding),
        embedded.about, chunked.folder.name, [asdict(item) for item in corpus.vector_inputs],
        len(shards), sha256(vectors.tobytes()), [asdict(item) for item in items],
        # Only where there are any: what earlier versions began is resumed.
        *([list(corpus.stored.values()), precision] if corpus.stored or precision else []),
        *([] if searcher.bins else ["without counts"]),
    )  # fmt: skip
    texts = any(isinstance(shard, TextShard) for shard in shards)
    embedding = manifest.embedding if texts else None
    store = VectorStore(folder / VECTORS, precision) if precision else None
    stage = SearchStage(
        folder, out / LOG, queries, keep, embedding, execution.device, store,
        replies_folder(out, manifest.embedding), searcher,
    )  # fmt: skip
    merging = SketchMerger.resume(folder, Sketch.empty(len(items), keep, searcher.bins))
    left = [i for i in range(len(shards)) if i not in merging.sketch.shards]
    tasks = {task_name(i): (i, shards[i]) for i in left}
    for key, _ in execution.run("search", stage, tasks, lambda task: task[1].size, "chunks"):
        merging.take(key)
    merging.save()
    return merging.sketch, store
