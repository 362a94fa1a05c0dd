"""Shards of a corpus to sketches: which items each is searched for, by whom, and in which order."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayescontam._files import on_disk, sha256
from bayescontam._optional import require
from bayescontam._runs import append_line, remove_files
from bayescontam.errors import DataError, Fault
from bayescontam.scan.chunking import ChunkedDocuments, TextShard, divided
from bayescontam.scan.embedder_record import check_loaded
from bayescontam.scan.embedders import Embedder, forget_embedder, shared_embedder
from bayescontam.scan.execution import (
    LOG,
    Execution,
    gpus_here,
    one_thread,
    own_device,
    stage_folder,
    task_name,
)
from bayescontam.scan.items import CorpusListing, EmbeddedItems, Item
from bayescontam.scan.search import AnySearcher, Queries, Searcher
from bayescontam.scan.served import ServedEmbedder, replies_folder
from bayescontam.scan.sketch import Chunks, Sketch, SketchMerger, split_places
from bayescontam.scan.stored_vectors import VECTORS, Precision, StoredShard, VectorStore
from bayescontam.scan.vectors import VectorFile, VectorShard
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Embedding

_VECTORS = 512
"""Ready vectors are searched so much faster than texts that their shards are larger."""

type Shard = TextShard | VectorShard | StoredShard
"""A part of the corpus that is searched as one task."""


def list_of(shard: Shard, lists: Collection[str]) -> str:
    """Return the list of items that a shard is searched for: that of its source, or the only one.

    >>> list_of(TextShard("shard.parquet", 8, "web"), ["books", "web"])
    'web'
    """
    return shard.source if shard.source in lists else ""


@dataclass(frozen=True)
class SearchStage:
    """Shards of the corpus to sketches."""

    folders: dict[str, Path]  # of sketches, by source; by "" where all are searched at once
    log: Path  # a line is appended for each shard
    queries: dict[str, Queries]  # by source, likewise
    keep: int  # see the head of `bayescontam.scan.sketch`
    embedding: Embedding | None  # none where all shards hold vectors
    about: dict[str, Any]  # embedder of the items, as it describes itself
    device: str
    store: VectorStore | None  # where vectors of texts are stored, if they are
    mark: str = ""  # of the weights when the items were embedded
    replies: Path | None = None  # where replies of an endpoint are stored
    searcher: type[AnySearcher] = Searcher

    def __call__(self) -> Callable[[tuple[int, Shard]], None]:
        """Load the embedder; return the function of one task."""
        own = own_device(self.device, next(iter(self.folders.values())))
        stage, embedder = replace(self, device=own), None
        if self.embedding is not None:
            embedder = shared_embedder(self.embedding, own, self.replies)
            check_loaded(embedder, self.embedding, self.about, self.mark)
        return lambda task: stage.search(embedder, *task)

    def search(self, embedder: Embedder | None, number: int, shard: Shard) -> None:
        """Embed and search a shard."""
        start = time.perf_counter()
        name = list_of(shard, self.queries)
        searcher = self.searcher(self.queries[name], self.keep, self.device)
        path = self.folders[name] / f"{task_name(number)}.npz"
        with on_disk(path):
            # As in workers beside others, so that their number changes no rounding.
            with one_thread(require("torch", "scan")):
                for chunks in self._chunks(number, shard, embedder):
                    add_chunks(searcher, chunks, shard)
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


def add_chunks(searcher: AnySearcher, chunks: Chunks, shard: Shard) -> None:
    """Compare chunks of a shard; refuse vectors of other dimensions, or that are not finite."""
    there, wanted = chunks.vectors.shape[1], searcher.dims
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
        rows = split_places(chunks.places)[1][odd]
        if isinstance(shard, StoredShard):
            rows = shard.vector_rows(rows)
        fault = Fault(shard.name, "the vector is not finite", row=int(rows.min()) + 1)
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


def queries_of(items: Sequence[Item], embedded: EmbeddedItems, seed: int) -> Queries:
    """Return items as queries."""
    names = list(dict.fromkeys(item.benchmark for item in items))
    return Queries(
        embedded.vectors,
        np.array([item.key(seed) for item in items], np.uint32),
        np.array([names.index(item.benchmark) for item in items], np.int64),
    )


def search_shards(
    corpus: CorpusListing,
    lists: Mapping[str, EmbeddedItems],
    chunked: ChunkedDocuments,
    shards: Sequence[Shard],
    out: Path,
    execution: Execution,
    precision: Precision | None = None,
    searcher: type[AnySearcher] = Searcher,
) -> tuple[dict[str, Sketch], VectorStore | None]:
    """Compare all items with all chunks, and store the vectors of texts in a precision.

    The sketches are by the source that was searched by itself; by "" if all were at once.
    """
    manifest, seed = corpus.manifest, corpus.manifest.seed
    keep = max(manifest.search.top_k, manifest.search.tail_size if searcher.bins else 1)
    known: dict[int, Queries] = {}
    queries = {}
    for name, embedded in lists.items():
        # Lists that are equal are one object, which is sent to workers once.
        if id(embedded) not in known:
            known[id(embedded)] = queries_of(corpus.lists[name], embedded, seed)
        queries[name] = known[id(embedded)]
    embedded = next(iter(lists.values()))
    folder = stage_folder(
        out, "search", seed, keep, execution.device, content_of(manifest.embedding),
        embedded.about, chunked.folder.name, [asdict(item) for item in corpus.vector_inputs],
        len(shards), sha256(embedded.vectors.tobytes()), [asdict(item) for item in corpus.items],
        # Only where there are any: what earlier versions began is resumed.
        *([list(corpus.stored.values()), precision] if corpus.stored or precision else []),
        *([list(queries), _content(corpus, queries)] if corpus.by_source else []),
        *([] if searcher.bins else ["without counts"]),
    )  # fmt: skip
    texts = any(isinstance(shard, TextShard) for shard in shards)
    embedding = manifest.embedding if texts else None
    store = VectorStore(folder / VECTORS, precision) if precision else None
    folders = {name: _folder(folder, place, name) for place, name in enumerate(queries)}
    stage = SearchStage(
        folders, out / LOG, queries, keep, embedding, embedded.about, execution.device, store,
        embedded.mark, replies_folder(out, manifest.embedding), searcher,
    )  # fmt: skip
    merging = {
        name: SketchMerger.resume(folders[name], Sketch.empty(len(own.keys), keep, searcher.bins))
        for name, own in queries.items()
    }
    owner = [list_of(shard, queries) for shard in shards]
    left = [i for i in range(len(shards)) if i not in merging[owner[i]].sketch.shards]
    tasks = {task_name(i): (i, shards[i]) for i in left}
    if execution.device == "cuda" and execution.engine == "local" and gpus_here() > 1:
        forget_embedder()  # of the items: each GPU has one in a worker, and no room for two
    for key, _ in execution.run("search", stage, tasks, lambda task: task[1].size, "chunks"):
        merging[owner[int(key)]].take(key)
    for merger in merging.values():
        merger.save()
    return {name: merger.sketch for name, merger in merging.items()}, store


def _content(corpus: CorpusListing, queries: Mapping[str, Queries]) -> dict[str, str]:
    """Return what identifies the items that each source is searched for."""
    hashes: dict[int, str] = {}
    for name, own in queries.items():
        if id(own) not in hashes:
            texts = repr([asdict(item) for item in corpus.by_source[name]])
            hashes[id(own)] = sha256(own.vectors.tobytes() + texts.encode("utf-8", "surrogatepass"))
    return {name: hashes[id(own)] for name, own in queries.items()}


def _folder(folder: Path, place: int, source: str) -> Path:
    """Return the folder of the sketches of a source that is searched by itself, else `folder`."""
    if not source:
        return folder
    own = folder / f"source-{place}"
    own.mkdir(exist_ok=True)
    remove_files(own, ".*.part")  # what a killed scan left half written
    return own
