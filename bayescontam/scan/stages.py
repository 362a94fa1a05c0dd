"""Stages: the tasks of a scan, each from files on disk to files on disk.

Every stage is a frozen object that is sent to a worker, called there once to load what is
expensive, and then given its tasks one after the other. A task writes its results to a
temporary name and renames them. What it counted is written last, beside them, and marks the
task as done; of a search, the sketch itself does.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam.errors import DataError, Fault
from bayescontam.optional import require
from bayescontam.scan.chunk import Chunk, Chunker, occurrence_hash, text_hash
from bayescontam.scan.disk import on_disk
from bayescontam.scan.embed import Embedder, shared_embedder
from bayescontam.scan.queries import Meter
from bayescontam.scan.read import Document, Input
from bayescontam.scan.sample import Cutoffs, sample_input, sampled
from bayescontam.scan.scores import one_thread
from bayescontam.scan.search import Chunks, Queries, Searcher
from bayescontam.scan.shards import CHUNK_SCHEMA, Shard, split_places
from bayescontam.scan.workplace import append_line, read_json, write_json
from bayescontam.specs.corpus import Chunking, Embedding, Reading, Source
from bayescontam.storage import atomic_path

Report = dict[str, Any]
LENGTHS = ("documents", "short", "short_pieces", "tokens", "short_tokens")
"""What the chunk stage counts of each source."""
_DOCUMENTS = 256
"""Documents that are chunked at once."""


def name_of(number: int) -> str:
    """Return the name of the files of a task."""
    return f"{number:06d}"


def is_done(folder: Path, number: int) -> bool:
    """Return whether a task is done."""
    return (folder / f"{name_of(number)}.json").exists()


def is_chunked(folder: Path, number: int) -> bool:
    """Return whether a task of the chunk stage is done, with its counts of short texts.

    Earlier versions did not count them; the chunks are then made again, which are the same.
    """
    return is_done(folder, number) and "by_source" in report_of(folder, number)


def report_of(folder: Path, number: int) -> Report:
    """Return what a task that is done has counted."""
    report: Report = read_json(folder / f"{name_of(number)}.json")
    return report


def report_done(folder: Path, number: int, report: Report) -> None:
    """Mark a task as done."""
    path = folder / f"{name_of(number)}.json"
    with on_disk(path):
        write_json(path, report)


@dataclass(frozen=True)
class ReadStage:
    """Inputs to candidates for the sample: one file of documents for each input."""

    folder: Path
    sources: dict[str, Source]
    seed: int
    reading: Reading
    skip_unreadable: bool  # whether inputs that cannot be read are counted, not an error

    def __call__(self) -> Callable[[Sequence[tuple[int, Input]]], None]:
        """Return the function of one task."""
        return self.read_all

    def read_all(self, inputs: Sequence[tuple[int, Input]]) -> None:
        """Read inputs, given with their numbers."""
        for number, item in inputs:
            self.read(number, item)

    def read(self, number: int, item: Input) -> None:
        """Read an input."""
        out = self.folder / f"{name_of(number)}.parquet"
        with on_disk(out):
            report = sample_input(
                item,
                self.sources[item.source],
                self.seed,
                out,
                max_record_bytes=self.reading.max_record_megabytes * 2**20,
                skip_damage=self.skip_unreadable,
            )
        report_done(self.folder, number, report)


@dataclass(frozen=True)
class ChunkStage:
    """Sampled documents to shards of chunks; small inputs share them."""

    # folder, candidates: where shards go, and where the read stage wrote
    folder: Path
    candidates: Path
    cutoffs: Cutoffs  # which candidates are in the sample
    meter: Meter  # counts the embedder's tokens; the embedder itself is not needed
    chunking: Chunking
    rows: int  # most chunks of a shard

    def __call__(self) -> Callable[[tuple[int, list[tuple[int, str]]]], None]:
        """Make the chunker; return the function of one task."""
        if self.meter.count is None:
            raise ValueError("nothing counts tokens")
        chunker = Chunker(self.meter.count, self.chunking, self.meter.max_tokens)
        return lambda task: self.chunk(chunker, *task)

    def chunk(self, chunker: Chunker, number: int, inputs: list[tuple[int, str]]) -> None:
        """Chunk the documents of some inputs, given as number and source."""
        report: Report = {"shards": [], "documents": 0, "short": 0, "short_pieces": 0}
        report["by_source"] = {}
        waiting: list[dict[str, Any]] = []
        for source, documents in self._batches(inputs):
            result = chunker.split(documents)
            report["documents"] += len(documents)
            report["short"] += result.short
            report["short_pieces"] += result.short_pieces
            counts = report["by_source"].setdefault(source, dict.fromkeys(LENGTHS, 0))
            counts["documents"] += len(documents)
            for name in LENGTHS[1:]:
                counts[name] += getattr(result, name)
            for document, chunks in zip(documents, result.chunks, strict=True):
                waiting += [_row(source, document, chunk) for chunk in chunks]
            while len(waiting) >= self.rows:
                self._write(number, waiting[: self.rows], report)
                waiting = waiting[self.rows :]
        if waiting:
            self._write(number, waiting, report)
        report_done(self.folder, number, report)

    def _batches(self, inputs: list[tuple[int, str]]) -> Iterator[tuple[str, list[Document]]]:
        for number, source in inputs:
            documents = sampled(self.candidates / f"{name_of(number)}.parquet", self.cutoffs)
            for batch in batched(documents, _DOCUMENTS):
                yield source, list(batch)

    def _write(self, number: int, rows: list[dict[str, Any]], report: Report) -> None:
        name = f"{name_of(number)}-{name_of(len(report['shards']))}.parquet"
        table = pa.Table.from_pylist(rows, CHUNK_SCHEMA)
        with on_disk(self.folder / name), atomic_path(self.folder / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=1024)
        report["shards"].append([name, len(rows)])


def _row(source: str, document: Document, chunk: Chunk) -> dict[str, Any]:
    return {
        "source": source,
        "stratum": document.stratum,
        "document": document.document,
        "chunk": chunk.chunk,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "hash": text_hash(chunk.text),
        "first": occurrence_hash(source, document.document, chunk.chunk),
    }


@dataclass(frozen=True)
class SearchStage:
    """Shards of the corpus to sketches."""

    folder: Path
    log: Path  # a line is appended for each shard
    queries: Queries
    keep: int  # see `bayescontam.scan.sketch.Sketch`
    embedding: Embedding | None  # none where all shards hold vectors
    device: str

    def __call__(self) -> Callable[[tuple[int, Shard]], None]:
        """Load the embedder; return the function of one task."""
        embedder = shared_embedder(self.embedding, self.device) if self.embedding else None
        return lambda task: self.search(embedder, *task)

    def search(self, embedder: Embedder | None, number: int, shard: Shard) -> None:
        """Embed and search a shard."""
        start = time.perf_counter()
        searcher = Searcher(self.queries, self.keep, self.device)
        path = self.folder / f"{name_of(number)}.npz"
        with on_disk(path):
            # As in workers beside others, so that their number changes no rounding.
            with one_thread(require("torch", "scan")):
                for chunks in shard.chunks(number, embedder):
                    self._add(searcher, chunks, shard)
            searcher.sketch(number).save(path)
            # After the result: what the log lists is done, and not done again.
            seconds = time.perf_counter() - start
            append_line(self.log, f"shard {number}: {shard.size} chunks in {seconds:.1f} s")

    def _add(self, searcher: Searcher, chunks: Chunks, shard: Shard) -> None:
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
