"""Files of a corpus to their copies without the documents that are too near to items."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._files import on_disk
from bayescontam._optional import require
from bayescontam._types import FloatArray
from bayescontam.scan.chunking import Chunk, Chunker, text_hash
from bayescontam.scan.documents import Document, read_documents
from bayescontam.scan.embedder_record import check_loaded
from bayescontam.scan.embedders import Embedder, shared_embedder
from bayescontam.scan.execution import Report, mark_done, one_thread, task_name
from bayescontam.scan.formats import Tally
from bayescontam.scan.results import write_table
from bayescontam.scan.rewriting import copy_name, copy_records
from bayescontam.scan.sources import Input
from bayescontam.specs.corpus import Chunking, Embedding, Reading, Source

RESULT, FILES = "result", "files"
"""Folder of a stage's results, and in it that of the copies."""
_DOCUMENTS = 256
"""Documents that are looked through at once."""
_CHUNKS = 1024
"""Chunks that are embedded and compared at once: documents may be books."""


@dataclass(frozen=True, eq=False)
class NearTexts:
    """Texts that a scan found near items, in the order of their hashes."""

    hashes: NDArray[np.uint64]
    queries: NDArray[np.int64]  # number of the item
    cosines: NDArray[np.float32]
    judged: NDArray[np.bool_]  # whether judges called it a duplicate

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return places in `hashes`, each with the number of an entry of the same text."""
        first = np.searchsorted(self.hashes, hashes, "left")
        counts = np.searchsorted(self.hashes, hashes, "right") - first
        starts = np.cumsum(counts) - counts
        entries = np.repeat(first - starts, counts) + np.arange(counts.sum())
        return np.repeat(np.arange(len(hashes)), counts), entries


@dataclass(frozen=True, eq=False)
class Hits:
    """Chunks that are too near to items."""

    rows: NDArray[np.int64]  # number of the chunk
    queries: NDArray[np.int64]  # number of the item
    cosines: NDArray[np.float32]
    judged: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DropStage:
    """Files of a corpus to their copies without what is too near to items."""

    folder: Path
    sources: dict[str, Source]
    reading: Reading
    skip_unreadable: bool
    chunking: Chunking
    max_tokens: int
    count: Callable[[Sequence[str]], list[int]]
    near: NearTexts
    limits: dict[str, FloatArray]  # by source, dims (item,)
    # number and vectors (of unit length) of items of which the scan stored too few matches, and
    # what embeds the chunks for them
    again: NDArray[np.int64]
    vectors: NDArray[np.float32]
    embedding: Embedding
    about: dict[str, Any]  # embedder of the items, as it describes itself
    mark: str  # of the weights when the items were embedded
    device: str

    def __call__(self) -> Callable[[tuple[int, Input]], None]:
        """Make the chunker, and load the embedder if need be; return the function of one task."""
        chunker = Chunker(self.count, self.chunking, self.max_tokens)
        embedder = None
        if len(self.again):
            embedder = shared_embedder(self.embedding, self.device, None)
            check_loaded(embedder, self.embedding, self.about, self.mark)
        return lambda task: self.drop(chunker, embedder, *task)

    def drop(self, chunker: Chunker, embedder: Embedder | None, number: int, item: Input) -> None:
        """Write the copy of an input, and what was dropped from it."""
        tally, longest = Tally(), self.reading.max_record_megabytes * 2**20
        counts, found = Counter[str](), Counter[int]()
        chosen, dropped = array("q"), list[Report]()
        documents = read_documents(
            item, self.sources[item.source], tally, longest, skip_damage=self.skip_unreadable
        )
        for batch in batched(documents, _DOCUMENTS):
            split = chunker.split(batch)
            counts.update(short=split.short, short_pieces=split.short_pieces)
            owners = [place for place, chunks in enumerate(split.chunks) for _ in chunks]
            chunks = [chunk for chunks in split.chunks for chunk in chunks]
            counts["chunks"] += len(chunks)
            hits = self._hits(item, chunks, embedder, found)
            rows = self._rows(item, batch, owners, chunks, hits)
            dropped += rows.values()
            chosen.extend(d.record for place, d in enumerate(batch) if place not in rows)
        out = self.folder / RESULT / FILES / copy_name(item)
        with on_disk(out):
            copy_records(item, out, np.array(chosen, np.int64), longest)
            if dropped:
                write_table(self.folder / f"{task_name(number)}.parquet", pd.DataFrame(dropped))
        counts.update(documents=tally.documents, dropped=len(dropped))
        report = {"source": item.source, "path": item.path, "unreadable": dict(tally.unreadable)}
        mark_done(self.folder, number, report | {"counts": counts, "found": found})

    def _hits(
        self, item: Input, chunks: list[Chunk], embedder: Embedder | None, found: Counter[int]
    ) -> Hits:
        """Return which chunks are too near; count in `found` those with a text of the scan."""
        limits = self.limits[item.source]
        hashes = np.array([text_hash(chunk.text) for chunk in chunks], np.uint64)
        rows, entries = self.near.find(hashes)
        found.update(hashes[np.unique(rows)].tolist())
        queries, judged = self.near.queries[entries], self.near.judged[entries]
        cosines = self.near.cosines[entries]
        own = judged | (cosines >= limits[queries])
        parts = [(rows[own], queries[own], cosines[own], judged[own])]
        if embedder is not None and chunks:
            for at in range(0, len(chunks), _CHUNKS):
                part = [chunk.text for chunk in chunks[at : at + _CHUNKS]]
                with one_thread(require("torch", "scan")):
                    scores = embedder.embed(part, "passage") @ self.vectors.T
                rows, columns = np.nonzero(scores >= limits[self.again])
                none = np.zeros(len(rows), bool)
                parts.append((rows + at, self.again[columns], scores[rows, columns], none))
        return Hits(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _rows(
        self,
        item: Input,
        documents: Sequence[Document],
        owners: list[int],
        chunks: list[Chunk],
        hits: Hits,
    ) -> dict[int, Report]:
        """Return for each document that is dropped, by its place, what is reported of it."""
        order = np.lexsort((hits.queries, -hits.cosines))
        best: dict[int, int] = {}
        items: dict[int, set[int]] = {}
        judged: set[int] = set()
        for hit in order.tolist():
            place = owners[hits.rows[hit]]
            best.setdefault(place, hit)
            items.setdefault(place, set()).add(int(hits.queries[hit]))
            if hits.judged[hit]:
                judged.add(place)
        rows = {}
        for place, hit in sorted(best.items()):
            document, chunk = documents[place], chunks[hits.rows[hit]]
            rows[place] = {
                "source": item.source,
                "file": item.path,
                "record": document.record,
                "document": document.document,
                "stratum": document.stratum,
                "query": int(hits.queries[hit]),
                "cosine": float(hits.cosines[hit]),
                "chunk": chunk.chunk,
                "start": chunk.start,
                "end": chunk.end,
                "items": len(items[place]),
                "judged": place in judged,
            }
        return rows
