"""The stages of a scan, each resumed where it stopped, on workers and devices.

Every stage is a frozen object that is sent to a worker, called there once to load what is
expensive, and then given its tasks one after the other. A task writes its results to a
temporary name and renames them. What it counted is written last, beside them, and marks the
task as done; of a search, the sketch itself does.
"""

import contextlib
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
from bayescontam._text import join_list
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.parallel import ray_cluster, run_tasks
from bayescontam.scan.chunking import Chunk, Chunker, occurrence_hash, shortest, text_hash
from bayescontam.scan.documents import (
    Cutoffs,
    Document,
    Input,
    cutoffs,
    list_inputs,
    sample_input,
    sampled,
)
from bayescontam.scan.embedders import Embedder, shared_embedder
from bayescontam.scan.items import (
    Item,
    ItemStage,
    TokenizerInfo,
    Vectors,
    given_vectors,
    joined,
    load_embedded,
    read_items,
    save_embedded,
)
from bayescontam.scan.results import SearchTables
from bayescontam.scan.search import Chunks, Queries, Searcher, one_thread
from bayescontam.scan.shards import CHUNK_SCHEMA, Shard, TextShard, VectorShard, split_places
from bayescontam.scan.sketch import Sketch, SketchMerger
from bayescontam.scan.vectors import VectorFile
from bayescontam.scan.work_folder import WorkFolder, append_line, read_json, write_json
from bayescontam.specs.corpus import Benchmark, Chunking, Embedding, Manifest, Reading, Source

__all__ = ["Execution", "Pipeline", "PipelineResult"]


Report = dict[str, Any]
LENGTHS = ("documents", "short", "short_pieces", "tokens", "short_tokens")
"""What the chunk stage counts of each source."""
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
    meter: TokenizerInfo  # counts the embedder's tokens; the embedder itself is not needed
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
    # whether files that cannot be read are counted; otherwise they stop the scan
    skip_unreadable: bool = False
    progress: bool = False  # whether to show progress bars

    def connected(self) -> contextlib.AbstractContextManager[None]:
        """Keep one connection to Ray inside the block, if Ray it is."""
        return ray_cluster(self.engine, self.address, self.jobs)

    def torch_device(self) -> str:
        """Return the device that Torch is to use."""
        if self.device == "cpu":
            return "cpu"
        if self.device == "cuda" and self.engine == "ray":
            return "cuda"
        if require("torch", "scan").cuda.is_available():
            return "cuda"
        if self.device == "cuda":
            raise UsageError("device is 'cuda', but Torch finds no GPU here; choose 'cpu'")
        return "cpu"

    def _jobs(self, on_gpu: bool) -> int | None:
        """Return the number of workers: on GPUs one here, and as many as there are with Ray."""
        if not on_gpu:
            return self.jobs
        return 1 if self.engine == "local" else None

    def run(
        self,
        title: str,
        stage: Callable[[], Callable[[Any], Any]],
        tasks: Mapping[str, Any],
        sizes: Mapping[str, float],
        unit: str,
        *,
        on_gpu: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        """Do tasks and give their names and results as they come."""
        done = run_tasks(
            stage,
            tasks,
            engine=self.engine,
            jobs=self._jobs(on_gpu),
            address=self.address,
            gpus=int(on_gpu and self.engine == "ray"),
        )
        total = sum(sizes[key] for key in tasks)
        with (
            progress_bar(self.progress, title, total, unit) as advance,
            contextlib.closing(done) as results,
        ):
            for key, result in results:
                yield key, result
                advance(sizes[key])


@dataclass(frozen=True)
class PipelineResult:
    """What the stages of a scan made."""

    found: SearchTables
    read: list[Report]  # what reading counted, one for each input
    chunked: list[Report]  # what chunking counted
    cutoffs: Cutoffs  # what was sampled of each stratum
    embedder: Report  # how the embedder describes itself
    seconds: dict[str, float]  # time of each stage, in this run
    notes: list[str]  # what was passed over when the corpus was listed
    min_tokens: int  # shortest text that was searched


class Pipeline:
    """A scan in a folder."""

    def __init__(
        self,
        manifest: Manifest,
        benchmarks: tuple[Benchmark, ...],
        sources: tuple[Source, ...],
        base: Path,
        place: WorkFolder,
        execution: Execution,
    ) -> None:
        self.manifest, self.place, self.execution = manifest, place, execution
        self.sources = {source.name: source for source in sources}
        self.items = [item for b in benchmarks for item in read_items(b, base)]
        self.sizes = dict(Counter(item.benchmark for item in self.items))
        vectors = {b.name: given_vectors(b, self.sizes[b.name], base) for b in benchmarks}
        self.given = {name: given for name, given in vectors.items() if given is not None}
        self.notes: list[str] = []
        inputs = [item for source in sources for item in list_inputs(source, base, self.notes)]
        if manifest.generated is not None:
            # Written anew at every start: the content is identified by what it is made from.
            made = sha256(f"{manifest.seed} {manifest.generated!r}".encode())
            inputs = [replace(item, stamp=made) for item in inputs]
        else:
            inputs = self._outside(inputs)
        self.inputs = [item for item in inputs if item.kind != "vectors"]
        self.vector_inputs = [item for item in inputs if item.kind == "vectors"]
        self.seconds: dict[str, float] = {}

    def _outside(self, inputs: list[Input]) -> list[Input]:
        """Return inputs without those in the folder of the scan, where a folder holds both."""
        own = self.place.folder.resolve()
        outside = [item for item in inputs if own not in Path(item.location).resolve().parents]
        if len(outside) < len(inputs):
            count = len(inputs) - len(outside)
            self.notes.append(f"files in the folder of the scan itself were passed over: {count:,}")
        return outside

    @property
    def key(self) -> dict[str, Any]:
        """Everything that the results depend on."""
        return {
            "manifest": self.manifest.hash,
            "--skip-unreadable": self.execution.skip_unreadable,
            "items": _hash(self.items),
            "vectors of items": {k: sha256(v.tobytes()) for k, v in self.given.items()},
            "files of the corpus": _hash([*self.inputs, *self.vector_inputs]),
        }

    def run(self) -> PipelineResult:
        """Run all stages."""
        self.device = self.execution.torch_device()
        # First, since it finds out whether the embedder is there.
        vectors, tokens, meter = self._embed_items()
        read = self._read()
        cut = cutoffs(read, self._candidates(), self.sources)
        self.chunking = self._chunking(tokens, meter.max_tokens)
        chunked = self._chunk(read, cut, meter)
        shards = [*self._text_shards(chunked), *self._vector_shards()]
        if not shards:
            raise self._nothing(chunked)
        sketch = self._search(shards, vectors, meter)
        found = SearchTables(sketch, self.items, tokens, meter.max_tokens, shards)
        return PipelineResult(
            found, read, chunked, cut, meter.about, self.seconds, self.notes, self.least
        )

    def _chunking(self, tokens: list[int], max_tokens: int) -> Chunking:
        """Return how documents are chunked, with a shortest chunk that follows the items."""
        given = self.manifest.chunking
        if given.min_tokens is not None:
            return given
        benchmarks = [item.benchmark for item in self.items]
        lengths = [
            [count for name, count in zip(benchmarks, tokens, strict=True) if name == benchmark]
            for benchmark in self.sizes
        ]
        longest = given.max_tokens or max_tokens
        return given.model_copy(update={"min_tokens": shortest(lengths, longest)})

    @property
    def least(self) -> int:
        """Shortest text that is searched, in tokens."""
        return max(1, self.chunking.min_tokens or 0)

    def _embed_items(self) -> tuple[Vectors, list[int], TokenizerInfo]:
        """Return vectors and lengths of all items, and what is known of the embedder."""
        texts = [item.text for item in self.items if item.benchmark not in self.given]
        if not texts and not self.inputs:
            nobody = TokenizerInfo(lambda texts: [0] * len(texts), 0, {"model": "given"})
            return *joined(self.sizes, self.given, np.empty((0, 0), np.float32), []), nobody
        embedding = self.manifest.embedding
        path = self.place.stage("items", embedding.model_dump(), self.device, texts) / "items.npz"
        if path.exists():
            vectors, tokens, meter = load_embedded(path)
        else:
            starts = range(0, max(1, len(texts)), _ITEMS)
            tasks = {name_of(i): (texts[i : i + _ITEMS], i == 0) for i in starts}
            sizes = {key: len(part) for key, (part, _) in tasks.items()}
            stage = ItemStage(embedding, self.device)
            results = dict(self._run("items", stage, tasks, sizes, "items"))
            parts = [results[key] for key in tasks]
            vectors = np.concatenate([part[0] for part in parts])
            tokens, meter = [count for part in parts for count in part[1]], parts[0][2]
            with on_disk(path):
                save_embedded(path, vectors, tokens, meter)
        return *joined(self.sizes, self.given, vectors, tokens), meter

    def _read(self) -> list[Report]:
        manifest, skip = self.manifest, self.execution.skip_unreadable
        sources = {name: source.model_dump() for name, source in self.sources.items()}
        self._reading = self.place.stage(
            "read", manifest.seed, sources, manifest.reading.model_dump(), skip,
            [asdict(item) for item in self.inputs],
        )  # fmt: skip
        stage = ReadStage(self._reading, self.sources, manifest.seed, manifest.reading, skip)
        left = [pair for pair in enumerate(self.inputs) if not is_done(self._reading, pair[0])]
        # Of many files, which are small then, several are one task.
        batches = batched(left, max(1, min(_FILES, len(left) // _FILES)))
        tasks = {name_of(batch[0][0]): batch for batch in batches}
        sizes = {key: len(batch) for key, batch in tasks.items()}
        list(self._run("read", stage, tasks, sizes, "files"))
        reports = [report_of(self._reading, i) for i in range(len(self.inputs))]
        self._log_unreadable(reports)
        return reports

    def _log_unreadable(self, reports: list[Report]) -> None:
        """List in ``scan.log`` what could not be read, once."""
        logged = self._reading / "logged"
        if not logged.exists():
            for report in reports:
                for record, reason in report["listed"]:
                    self.place.log(f"unreadable: {report['path']}: record {record}: {reason}")
                more = sum(report["unreadable"].values()) - len(report["listed"])
                if more > 0:
                    self.place.log(f"unreadable: {report['path']}: {more:,} more records")
            logged.touch()

    def _candidates(self) -> list[Path]:
        return [self._reading / f"{name_of(i)}.parquet" for i in range(len(self.inputs))]

    def _chunk(self, read: list[Report], cut: Cutoffs, meter: TokenizerInfo) -> list[Report]:
        manifest = self.manifest
        self._chunks = self.place.stage(
            "chunk", self._reading.name, self.chunking.model_dump(),
            manifest.embedding.model_dump(), meter.about, manifest.search.shard_chunks,
        )  # fmt: skip
        groups = list(_grouped(self.inputs, read))
        left = [(i, group) for i, group in enumerate(groups) if not is_chunked(self._chunks, i)]
        if left and meter.count is None:
            embedder = ItemStage(manifest.embedding, self.device)
            [(_, (_, _, meter))] = self._run(
                "items", embedder, {"none": ([], True)}, {"none": 0}, "items"
            )
        stage = ChunkStage(
            self._chunks, self._reading, cut, meter, self.chunking,
            manifest.search.shard_chunks,
        )  # fmt: skip
        tasks = {name_of(i): (i, group) for i, group in left}
        sizes = {name_of(i): len(group) for i, group in left}
        list(self._run("chunk", stage, tasks, sizes, "files"))
        return [report_of(self._chunks, i) for i in range(len(groups))]

    def _text_shards(self, chunked: list[Report]) -> list[Shard]:
        files = [file for report in chunked for file in report["shards"]]
        return [TextShard(str(self._chunks / name), size) for name, size in files]

    def _vector_shards(self) -> list[Shard]:
        rows = self.manifest.search.shard_chunks * _VECTORS
        return [
            VectorShard(item.source, file, item.path, start, stop)
            for item in self.vector_inputs
            for file in [VectorFile(item.location, self.sources[item.source].vector)]
            for start, stop in file.shards(rows)
        ]

    def _search(self, shards: list[Shard], vectors: Vectors, meter: TokenizerInfo) -> Sketch:
        search, seed, embedding = self.manifest.search, self.manifest.seed, self.manifest.embedding
        keep = max(search.top_k, search.tail_size)
        names = list(self.sizes)
        queries = Queries(
            vectors,
            np.array([item.key(seed) for item in self.items], np.uint32),
            np.array([names.index(item.benchmark) for item in self.items], np.int64),
        )
        folder = self.place.stage(
            "search", seed, keep, self.device, embedding.model_dump(), meter.about,
            self._chunks.name,
            [asdict(item) for item in self.vector_inputs], len(shards),
            sha256(vectors.tobytes()), [asdict(item) for item in self.items],
        )  # fmt: skip
        texts = any(isinstance(shard, TextShard) for shard in shards)
        log = self.place.folder / "scan.log"
        stage = SearchStage(folder, log, queries, keep, embedding if texts else None, self.device)
        merging = SketchMerger(folder, Sketch.empty(len(self.items), keep))
        numbers = [i for i in range(len(shards)) if i not in merging.sketch.shards]
        tasks = {name_of(i): (i, shards[i]) for i in numbers}
        sizes = {name_of(i): shards[i].size for i in numbers}
        for key, _ in self._run("search", stage, tasks, sizes, "chunks"):
            merging.take(key)
        merging.save()
        return merging.sketch

    def _nothing(self, chunked: list[Report]) -> DataError:
        short = sum(report["short"] for report in chunked)
        documents = sum(report["documents"] for report in chunked)
        problem = (
            f"nothing to search: {documents:,} documents, {short:,} of them below {self.least}"
            " tokens"
        )
        advice = "Lower chunking.min_tokens (--min-tokens), or name other files."
        return DataError([Fault(join_list(self.sources), problem)], advice)

    def _run(
        self,
        title: str,
        stage: Any,
        tasks: Mapping[str, Any],
        sizes: Mapping[str, float],
        unit: str,
    ) -> Iterator[tuple[str, Any]]:
        start = time.perf_counter()
        on_gpu = self.device != "cpu" and title in {"items", "search"}
        if tasks:
            yield from self.execution.run(title, stage, tasks, sizes, unit, on_gpu=on_gpu)
        self.seconds[title] = time.perf_counter() - start


def _hash(objects: list[Item] | list[Input]) -> str:
    return sha256(repr([asdict(one) for one in objects]).encode("utf-8", "surrogatepass"))


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
