"""The stages of a scan: items and documents to vectors, chunks and a sketch of all cosines.

A stage is a function from the results of those before it to a frozen result. Its tasks run on
workers: an object is sent to a worker, called there once to load what is expensive, and then
given its tasks one after the other. A task writes its results to a temporary name and renames
them. What it counted is written last, beside them, and marks the task as done; of a search, the
sketch itself does. A stage that was interrupted goes on with the tasks that are left.
"""

import contextlib
import importlib.metadata
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import batched
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path, on_disk, sha256
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._runs import append_line, read_json, remove_files, write_json
from bayescontam._text import join_list
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.parallel import run_tasks
from bayescontam.scan.chunking import Chunk, Chunker, occurrence_hash, shortest, text_hash
from bayescontam.scan.documents import Document, sample_input, sampled
from bayescontam.scan.embedders import Embedder, shared_embedder
from bayescontam.scan.items import (
    EmbeddedItems,
    Item,
    ItemStage,
    Vectors,
    given_vectors,
    joined,
    load_embedded,
    read_items,
    save_embedded,
)
from bayescontam.scan.sampling import Cutoffs, cutoffs
from bayescontam.scan.search import Chunks, Queries, Searcher, one_thread
from bayescontam.scan.shards import CHUNK_SCHEMA, Shard, TextShard, VectorShard, split_places
from bayescontam.scan.sketch import Sketch, SketchMerger
from bayescontam.scan.sources import Input, list_inputs
from bayescontam.scan.vectors import VectorFile
from bayescontam.specs.corpus import Benchmark, Chunking, Embedding, Manifest, Reading, Source

Report = dict[str, Any]
LENGTHS = ("documents", "short", "short_pieces", "tokens", "short_tokens")
"""What the chunk stage counts of each source."""
LOG = "scan.log"
WORK = "work"
"""Folder of what only a resumed scan needs."""
_DOCUMENTS = 256
"""Documents that are chunked at once."""
_ITEMS = 256
"""Items that are embedded as one task."""
_BYTES = 2**23
"""Text that is chunked as one task, about; inputs are not divided."""
_FILES = 64
"""Most files that are read as one task."""
_VECTORS = 512
"""Ready vectors are searched so much faster than texts that their shards are larger."""


def stage_folder(out: Path, name: str, *conditions: object) -> Path:
    """Return the folder of a stage, without what a killed scan left half written there.

    It is named by a hash of everything that the results depend on: what was made under other
    conditions is never resumed.
    """
    version = importlib.metadata.version("bayescontam")
    text = json.dumps([version, *conditions], sort_keys=True)
    folder = out / WORK / f"{name}-{sha256(text.encode())[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    remove_files(folder, ".*.part")
    return folder


def _name(number: int) -> str:
    """Return the name of the files of a task."""
    return f"{number:06d}"


def _report_path(folder: Path, number: int) -> Path:
    """Return the file of what a task counted; it is there once the task is done."""
    return folder / f"{_name(number)}.json"


def _reports(folder: Path, tasks: int) -> list[Report]:
    return [read_json(_report_path(folder, number)) for number in range(tasks)]


def _finish(folder: Path, number: int, report: Report) -> None:
    """Mark a task as done."""
    path = _report_path(folder, number)
    with on_disk(path):
        write_json(path, report)


@dataclass(frozen=True)
class Execution:
    """Where the tasks of a scan run."""

    # worker processes of this machine, or actors of a Ray cluster
    engine: Literal["local", "ray"] = "local"
    # workers. Default: one for each core or, on a GPU, one (with Ray, one for each GPU).
    jobs: int | None = None
    address: str | None = None  # ray cluster; default: one is started on this machine
    # where embedding and search run; `"auto"` is a GPU where this machine has one
    device: Literal["auto", "cpu", "cuda"] = "auto"
    progress: bool = False  # whether to show progress bars

    def on_device(self) -> "Execution":
        """Return the same with the device that Torch is to use in place of ``"auto"``."""
        if self.device == "cpu" or (self.device == "cuda" and self.engine == "ray"):
            return self
        if require("torch", "scan").cuda.is_available():
            return replace(self, device="cuda")
        if self.device == "cuda":
            raise UsageError("device is 'cuda', but Torch finds no GPU here; choose 'cpu'")
        return replace(self, device="cpu")

    def run(
        self,
        title: str,
        stage: Callable[[], Callable[[Any], Any]],
        tasks: Mapping[str, Any],
        size: Callable[[Any], float],
        unit: str,
    ) -> Iterator[tuple[str, Any]]:
        """Do tasks and give their names and results as they come."""
        if not tasks:
            return
        on_gpu = self.device == "cuda" and title in ("items", "search")
        # On GPUs one worker here, and as many as there are GPUs with Ray.
        jobs = self.jobs if not on_gpu else 1 if self.engine == "local" else None
        gpus = int(on_gpu and self.engine == "ray")
        done = run_tasks(
            stage, tasks, engine=self.engine, jobs=jobs, address=self.address, gpus=gpus
        )
        total = sum(map(size, tasks.values()))
        with (
            progress_bar(self.progress, title, total, unit) as advance,
            contextlib.closing(done) as results,
        ):
            for key, result in results:
                yield key, result
                advance(size(tasks[key]))


@dataclass(frozen=True)
class CorpusListing:
    """Items and what they are looked for in, as it is before anything of it is read."""

    manifest: Manifest
    items: list[Item]
    given: dict[str, Vectors]  # vectors of the items of benchmarks that come with them
    sources: dict[str, Source]
    inputs: list[Input]  # texts
    vector_inputs: list[Input]
    notes: list[str]  # what was passed over
    skip_unreadable: bool  # whether inputs that cannot be read are counted, not an error

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of items by benchmark."""
        return dict(Counter(item.benchmark for item in self.items))

    @property
    def key(self) -> dict[str, Any]:
        """Everything that the results depend on."""
        return {
            "manifest": self.manifest.hash,
            "--skip-unreadable": self.skip_unreadable,
            "items": _hash(self.items),
            "vectors of items": {k: sha256(v.tobytes()) for k, v in self.given.items()},
            "files of the corpus": _hash([*self.inputs, *self.vector_inputs]),
        }


def _hash(objects: Sequence[Item | Input]) -> str:
    return sha256(repr([asdict(one) for one in objects]).encode("utf-8", "surrogatepass"))


def list_corpus(
    manifest: Manifest,
    benchmarks: Sequence[Benchmark],
    sources: Sequence[Source],
    base: Path,
    out: Path,
    skip_unreadable: bool,
) -> CorpusListing:
    """Read the items of benchmarks and list the inputs of sources, those in `out` left out."""
    items = [item for benchmark in benchmarks for item in read_items(benchmark, base)]
    sizes = Counter(item.benchmark for item in items)
    vectors = {b.name: given_vectors(b, sizes[b.name], base) for b in benchmarks}
    notes: list[str] = []
    inputs = [item for source in sources for item in list_inputs(source, base, notes)]
    if manifest.generated is not None:
        # Written anew at every start: the content is identified by what it is made from.
        made = sha256(f"{manifest.seed} {manifest.generated!r}".encode())
        inputs = [replace(item, stamp=made) for item in inputs]
    else:
        own, found = out.resolve(), len(inputs)
        inputs = [item for item in inputs if own not in Path(item.location).resolve().parents]
        if count := found - len(inputs):
            notes.append(f"files in the folder of the scan itself were passed over: {count:,}")
    return CorpusListing(
        manifest,
        items,
        {name: given for name, given in vectors.items() if given is not None},
        {source.name: source for source in sources},
        [item for item in inputs if item.kind != "vectors"],
        [item for item in inputs if item.kind == "vectors"],
        notes,
        skip_unreadable,
    )


def embed_items(corpus: CorpusListing, out: Path, execution: Execution) -> EmbeddedItems:
    """Return vectors and lengths of all items."""
    texts = [item.text for item in corpus.items if item.benchmark not in corpus.given]
    if not texts and not corpus.inputs:
        nothing = EmbeddedItems(np.empty((0, 0), np.float32), [], 0, {"model": "given"})
        return joined(corpus.sizes, corpus.given, nothing)
    embedding = corpus.manifest.embedding
    conditions = embedding.model_dump(), execution.device, texts
    path = stage_folder(out, "items", *conditions) / "items.npz"
    if path.exists():
        return joined(corpus.sizes, corpus.given, load_embedded(path))
    starts = range(0, max(1, len(texts)), _ITEMS)
    tasks = {_name(i): (texts[i : i + _ITEMS], i == 0) for i in starts}
    stage = ItemStage(embedding, execution.device)
    results = dict(execution.run("items", stage, tasks, lambda task: len(task[0]), "items"))
    parts: list[EmbeddedItems] = [results[key] for key in tasks]
    embedded = replace(
        parts[0],
        vectors=np.concatenate([part.vectors for part in parts]),
        tokens=[count for part in parts for count in part.tokens],
    )
    with on_disk(path):
        save_embedded(path, embedded)
    return joined(corpus.sizes, corpus.given, embedded)


@dataclass(frozen=True)
class ReadStage:
    """Inputs to candidates for the sample: one file of documents for each input."""

    folder: Path
    sources: dict[str, Source]
    seed: int
    reading: Reading
    skip_unreadable: bool

    def __call__(self) -> Callable[[Sequence[tuple[int, Input]]], None]:
        """Return the function of one task."""
        return self.read_all

    def read_all(self, inputs: Sequence[tuple[int, Input]]) -> None:
        """Read inputs, given with their numbers."""
        for number, item in inputs:
            out = self.folder / f"{_name(number)}.parquet"
            with on_disk(out):
                report = sample_input(
                    item,
                    self.sources[item.source],
                    self.seed,
                    out,
                    max_record_bytes=self.reading.max_record_megabytes * 2**20,
                    skip_damage=self.skip_unreadable,
                )
            _finish(self.folder, number, report)


@dataclass(frozen=True)
class SampledDocuments:
    """Documents of all inputs that may be in the sample, and which of them are."""

    folder: Path
    reports: list[Report]  # what reading counted, one for each input
    cutoffs: Cutoffs


def sample_documents(corpus: CorpusListing, out: Path, execution: Execution) -> SampledDocuments:
    """Read all inputs; list in ``scan.log`` what of them could not be read."""
    manifest, inputs, skip = corpus.manifest, corpus.inputs, corpus.skip_unreadable
    sources = {name: source.model_dump() for name, source in corpus.sources.items()}
    folder = stage_folder(
        out, "read", manifest.seed, sources, manifest.reading.model_dump(), skip,
        [asdict(item) for item in inputs],
    )  # fmt: skip
    stage = ReadStage(folder, corpus.sources, manifest.seed, manifest.reading, skip)
    left = [pair for pair in enumerate(inputs) if not _report_path(folder, pair[0]).exists()]
    # Of many files, which are small then, several are one task.
    groups = list(batched(left, max(1, min(_FILES, len(left) // _FILES))))
    tasks = {_name(group[0][0]): group for group in groups}
    for _ in execution.run("read", stage, tasks, len, "files"):
        pass
    reports = _reports(folder, len(inputs))
    _log_unreadable(folder / "logged", reports, out / LOG)
    files = [folder / f"{_name(number)}.parquet" for number in range(len(inputs))]
    return SampledDocuments(folder, reports, cutoffs(reports, files, corpus.sources))


def _log_unreadable(mark: Path, reports: list[Report], log: Path) -> None:
    """Log records that could not be read, once."""
    if mark.exists():
        return
    for report in reports:
        for record, reason in report["listed"]:
            append_line(log, f"unreadable: {report['path']}: record {record}: {reason}")
        more = sum(report["unreadable"].values()) - len(report["listed"])
        if more > 0:
            append_line(log, f"unreadable: {report['path']}: {more:,} more records")
    mark.touch()


@dataclass(frozen=True)
class ChunkStage:
    """Sampled documents to shards of chunks; small inputs share them."""

    folder: Path
    candidates: Path  # where the read stage wrote
    cutoffs: Cutoffs
    count: Callable[[Sequence[str]], list[int]]  # as the embedder does, which is not needed here
    max_tokens: int
    chunking: Chunking
    rows: int  # most chunks of a shard

    def __call__(self) -> Callable[[tuple[int, list[tuple[int, str]]]], None]:
        """Make the chunker; return the function of one task."""
        chunker = Chunker(self.count, self.chunking, self.max_tokens)
        return lambda task: self.chunk(chunker, *task)

    def chunk(self, chunker: Chunker, number: int, inputs: list[tuple[int, str]]) -> None:
        """Chunk the documents of some inputs, given as number and source."""
        by_source: dict[str, Counter[str]] = {}
        shards: list[tuple[str, int]] = []
        waiting: list[Report] = []
        for source, documents in self._batches(inputs):
            split = chunker.split(documents)
            counts = by_source.setdefault(source, Counter(dict.fromkeys(LENGTHS, 0)))
            counts["documents"] += len(documents)
            for name in LENGTHS[1:]:
                counts[name] += getattr(split, name)
            for document, chunks in zip(documents, split.chunks, strict=True):
                waiting += [_row(source, document, chunk) for chunk in chunks]
            while len(waiting) >= self.rows:
                shards.append(self._write(number, len(shards), waiting[: self.rows]))
                waiting = waiting[self.rows :]
        if waiting:
            shards.append(self._write(number, len(shards), waiting))
        totals = {name: sum(counts[name] for counts in by_source.values()) for name in LENGTHS[:3]}
        _finish(self.folder, number, {"shards": shards, **totals, "by_source": by_source})

    def _batches(self, inputs: list[tuple[int, str]]) -> Iterator[tuple[str, list[Document]]]:
        for number, source in inputs:
            documents = sampled(self.candidates / f"{_name(number)}.parquet", self.cutoffs)
            for batch in batched(documents, _DOCUMENTS):
                yield source, list(batch)

    def _write(self, number: int, shard: int, rows: list[Report]) -> tuple[str, int]:
        name = f"{_name(number)}-{_name(shard)}.parquet"
        table = pa.Table.from_pylist(rows, CHUNK_SCHEMA)
        with on_disk(self.folder / name), atomic_path(self.folder / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=1024)
        return name, len(rows)


def _row(source: str, document: Document, chunk: Chunk) -> Report:
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
class ChunkedDocuments:
    """Chunks of the sample in shards."""

    folder: Path
    reports: list[Report]  # what chunking counted
    min_tokens: int  # shortest text that is searched

    def shards(self) -> list[Shard]:
        """Return the shards in order."""
        files = [file for report in self.reports for file in report["shards"]]
        return [TextShard(str(self.folder / name), size) for name, size in files]


def chunk_documents(
    corpus: CorpusListing,
    embedded: EmbeddedItems,
    sample: SampledDocuments,
    out: Path,
    execution: Execution,
) -> ChunkedDocuments:
    """Divide the documents of the sample into chunks."""
    embedding, rows = corpus.manifest.embedding, corpus.manifest.search.shard_chunks
    chunking = _chunking(corpus, embedded)
    folder = stage_folder(
        out, "chunk", sample.folder.name, chunking.model_dump(), embedding.model_dump(),
        embedded.about, rows,
    )  # fmt: skip
    groups = list(_grouped(corpus.inputs, sample.reports))
    tasks = {_name(i): (i, group) for i, group in enumerate(groups) if not _is_chunked(folder, i)}
    if tasks:
        count = embedded.count
        if count is None:
            stage = ItemStage(embedding, execution.device)
            none = {"none": (list[str](), True)}
            [(_, nothing)] = execution.run("items", stage, none, lambda _: 0, "items")
            count = nothing.count
        chunk = ChunkStage(
            folder, sample.folder, sample.cutoffs, count, embedded.max_tokens, chunking, rows
        )
        for _ in execution.run("chunk", chunk, tasks, lambda task: len(task[1]), "files"):
            pass
    least = max(1, chunking.min_tokens or 0)
    return ChunkedDocuments(folder, _reports(folder, len(groups)), least)


def _chunking(corpus: CorpusListing, embedded: EmbeddedItems) -> Chunking:
    """Return how documents are chunked, with a shortest chunk that follows the items."""
    given = corpus.manifest.chunking
    if given.min_tokens is not None:
        return given
    lengths: dict[str, list[int]] = {}
    for item, tokens in zip(corpus.items, embedded.tokens, strict=True):
        lengths.setdefault(item.benchmark, []).append(tokens)
    longest = given.max_tokens or embedded.max_tokens
    return given.model_copy(update={"min_tokens": shortest(list(lengths.values()), longest)})


def _is_chunked(folder: Path, number: int) -> bool:
    """Return whether a task is done, with its counts of short texts.

    Earlier versions did not count them; the chunks are then made again, which are the same.
    """
    path = _report_path(folder, number)
    return path.exists() and "by_source" in read_json(path)


def _grouped(inputs: list[Input], read: list[Report]) -> Iterator[list[tuple[int, str]]]:
    """Give inputs, as number and source, in groups of about `_BYTES` of candidates' text."""
    group: list[tuple[int, str]] = []
    size = 0.0
    for number, (item, report) in enumerate(zip(inputs, read, strict=True)):
        group.append((number, item.source))
        size += report["bytes"] * report["candidates"] / max(1, sum(report["documents"].values()))
        if size >= _BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


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
        path = self.folder / f"{_name(number)}.npz"
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


def vector_shards(corpus: CorpusListing) -> list[Shard]:
    """Return the shards of the inputs that hold ready vectors."""
    rows = corpus.manifest.search.shard_chunks * _VECTORS
    return [
        VectorShard(item.source, file, item.path, start, stop)
        for item in corpus.vector_inputs
        for file in [VectorFile(item.location, corpus.sources[item.source].vector)]
        for start, stop in file.shards(rows)
    ]


def search_shards(
    corpus: CorpusListing,
    embedded: EmbeddedItems,
    chunked: ChunkedDocuments,
    shards: Sequence[Shard],
    out: Path,
    execution: Execution,
) -> Sketch:
    """Compare all items with all chunks."""
    if not shards:
        raise _nothing(corpus, chunked)
    manifest, items, vectors = corpus.manifest, corpus.items, embedded.vectors
    keep = max(manifest.search.top_k, manifest.search.tail_size)
    names = list(corpus.sizes)
    queries = Queries(
        vectors,
        np.array([item.key(manifest.seed) for item in items], np.uint32),
        np.array([names.index(item.benchmark) for item in items], np.int64),
    )
    folder = stage_folder(
        out, "search", manifest.seed, keep, execution.device, manifest.embedding.model_dump(),
        embedded.about, chunked.folder.name,
        [asdict(item) for item in corpus.vector_inputs], len(shards),
        sha256(vectors.tobytes()), [asdict(item) for item in items],
    )  # fmt: skip
    texts = any(isinstance(shard, TextShard) for shard in shards)
    embedding = manifest.embedding if texts else None
    stage = SearchStage(folder, out / LOG, queries, keep, embedding, execution.device)
    merging = SketchMerger.resume(folder, Sketch.empty(len(items), keep))
    left = [i for i in range(len(shards)) if i not in merging.sketch.shards]
    tasks = {_name(i): (i, shards[i]) for i in left}
    for key, _ in execution.run("search", stage, tasks, lambda task: task[1].size, "chunks"):
        merging.take(key)
    merging.save()
    return merging.sketch


def _nothing(corpus: CorpusListing, chunked: ChunkedDocuments) -> DataError:
    short = sum(report["short"] for report in chunked.reports)
    documents = sum(report["documents"] for report in chunked.reports)
    problem = (
        f"nothing to search: {documents:,} documents, {short:,} of them below"
        f" {chunked.min_tokens} tokens"
    )
    advice = "Lower chunking.min_tokens (--min-tokens), or name other files."
    return DataError([Fault(join_list(corpus.sources), problem)], advice)
