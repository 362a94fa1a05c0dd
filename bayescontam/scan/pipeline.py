"""Pipeline: all stages of a scan, one after the other, each resumed where it stopped."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from bayescontam.errors import DataError, Fault
from bayescontam.names import listed
from bayescontam.scan.chunk import shortest
from bayescontam.scan.disk import on_disk
from bayescontam.scan.execution import Execution
from bayescontam.scan.items import Item, read_items
from bayescontam.scan.merging import Merging
from bayescontam.scan.outputs import Found
from bayescontam.scan.queries import (
    ItemStage,
    Meter,
    Vectors,
    given_vectors,
    joined,
    load_embedded,
    save_embedded,
)
from bayescontam.scan.read import Input, list_inputs
from bayescontam.scan.sample import Cutoffs, cutoffs
from bayescontam.scan.search import Queries
from bayescontam.scan.shards import Shard, TextShard, VectorShard
from bayescontam.scan.sketch import Sketch
from bayescontam.scan.stages import (
    ChunkStage,
    ReadStage,
    Report,
    SearchStage,
    is_chunked,
    is_done,
    name_of,
    report_of,
)
from bayescontam.scan.vectors import VectorFile
from bayescontam.scan.workplace import Workplace
from bayescontam.specs.corpus import Benchmark, Chunking, Manifest, Source
from bayescontam.storage import sha256

__all__ = ["Execution", "Outcome", "Pipeline"]

_ITEMS = 256
"""Items that are embedded as one task."""
_BYTES = 2**23
"""Text that is chunked as one task, about; inputs are not divided."""
_FILES = 64
"""Most files that are read as one task."""
_VECTORS = 512
"""Ready vectors are searched so much faster than texts that their shards are larger."""


@dataclass(frozen=True)
class Outcome:
    """What the stages of a scan made."""

    found: Found
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
        place: Workplace,
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

    def run(self) -> Outcome:
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
        found = Found(sketch, self.items, tokens, meter.max_tokens, shards)
        return Outcome(found, read, chunked, cut, meter.about, self.seconds, self.notes, self.least)

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

    def _embed_items(self) -> tuple[Vectors, list[int], Meter]:
        """Return vectors and lengths of all items, and what is known of the embedder."""
        texts = [item.text for item in self.items if item.benchmark not in self.given]
        if not texts and not self.inputs:
            nobody = Meter(lambda texts: [0] * len(texts), 0, {"model": "given"})
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

    def _chunk(self, read: list[Report], cut: Cutoffs, meter: Meter) -> list[Report]:
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

    def _search(self, shards: list[Shard], vectors: Vectors, meter: Meter) -> Sketch:
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
        merging = Merging(folder, Sketch.empty(len(self.items), keep))
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
        return DataError([Fault(listed(self.sources), problem)], advice)

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
