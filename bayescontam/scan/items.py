"""Items of benchmarks as queries, with their embeddings."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayescontam._bounds import Bounds, spelled
from bayescontam._files import atomic_path, on_disk, sha256
from bayescontam._optional import require
from bayescontam._text import join_list, printable
from bayescontam.data.tables import read_cells
from bayescontam.data.validation import check_headers, format_value
from bayescontam.errors import DataError, Fault
from bayescontam.scan.embedders import shared_embedder
from bayescontam.scan.execution import Execution, one_thread, stage_folder, task_name
from bayescontam.scan.formats import (
    ABSENT,
    Fields,
    Tally,
    Unreadable,
    json_records,
    look_up,
    parquet_records,
)
from bayescontam.scan.served import forget_queries, replies_folder
from bayescontam.scan.sources import (
    Input,
    compression,
    is_named,
    is_remote,
    open_decompressed,
    reason_of,
)
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Benchmark, Embedding, Manifest, Source

type Rows = list[tuple[int, Any]]
"""Numbers of rows, from 1, and what they hold; see `bayescontam.scan.formats`."""

_KNOWN = ".jsonl, .ndjson, .json, .csv (each also .gz, .zst or .bz2), .parquet and .pq"
_ADVICE = (
    "A row is an item; in JSON Lines, it is one object on one line. An item needs a name of its "
    "own and the texts that are looked for; the manifest says which fields hold them."
)
_LONGEST = 2**28
"""Bytes of the longest line."""
_ITEMS = 256
"""Items that are embedded as one task."""
type Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Item:
    """An item of a benchmark, as it is looked for."""

    # benchmark, item: names
    benchmark: str
    item: str
    text: str  # its question, its answer, or both joined by a line break

    def key(self, seed: int) -> int:
        """Return the key (32 bits) of the item's random sample."""
        parts = "\x1f".join([str(seed), self.benchmark, self.item])
        digest = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        return int.from_bytes(digest, "little")


def read_items(benchmark: Benchmark, base: Path) -> list[Item]:
    """Return the items of a benchmark."""
    path = benchmark.path
    if not is_remote(path):
        path = str(base / os.path.expanduser(path))  # noqa: PTH111 (fails for no unknown user)
    # Neither part of "input_output" stands in the other.
    both = {"input": benchmark.input, "output": benchmark.output}
    texts = tuple(field for part, field in both.items() if part in benchmark.text_mode)
    fields = Fields(path, texts, benchmark.item)
    try:
        tally = Tally()
        rows = list(_bounded(_rows(path, fields, tally), path, tally))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError([Fault(path, f"cannot be read ({reason_of(error)})")]) from error
    if faults := [*_faults(rows, fields), *_repeated(rows, fields)]:
        raise DataError(sorted(faults, key=lambda fault: fault.row or 0), _ADVICE)
    return [
        Item(
            benchmark.name,
            _name(look_up(row, benchmark.item)),
            "\n".join(look_up(row, field) for field in texts),
        )
        for _, row in rows
    ]


def _rows(path: str, fields: Fields, tally: Tally) -> Iterator[tuple[int, Any]]:
    if not is_remote(path) and Path(path).exists() and not Path(path).is_file():
        raise ValueError("it is a folder, a device or a pipe; give a file")
    if is_named(path, "jsonl"):
        return json_records(path, _LONGEST, tally)
    if is_named(path, "parquet"):
        return parquet_records(path, fields, tally)
    plain = PurePath(path).with_suffix("") if compression(path) else PurePath(path)
    if plain.suffix.lower() == ".csv":
        return iter(_csv_rows(path, fields))
    raise ValueError(f"its name shows no format; known endings are {_KNOWN}")


def _bounded(rows: Iterator[tuple[int, Any]], path: str, tally: Tally) -> Iterator[tuple[int, Any]]:
    limit = Bounds.current()
    for row in rows:
        limit.check_cells(row[0], 1, path, "file")
        limit.check_file(tally.bytes, path)
        yield row


def _csv_rows(path: str, fields: Fields) -> Rows:
    limit = Bounds.current()
    with open_decompressed(path) as stream:
        content = stream.read(_LONGEST + 1)
        if len(content) > _LONGEST:
            raise ValueError(f"it unpacks to more than {spelled(_LONGEST)}; write Parquet")
        text = content.decode("utf-8-sig", "surrogateescape")
    if "\0" in text:
        raise ValueError("it holds NUL bytes: it is UTF-16, or no text; save it as UTF-8")
    rows, broken = read_cells(text)
    fields.there = rows[0] if rows else []
    limit.check_cells(len(rows), len(fields.there), path)
    check_headers(fields.there, path)
    if broken:
        raise ValueError(broken)
    return [(number, _csv_row(fields.there, cells)) for number, cells in enumerate(rows[1:], 1)]


def _csv_row(header: list[str], cells: list[str]) -> dict[str, str] | Unreadable:
    if len(cells) != len(header):
        more = "more" if len(cells) > len(header) else "fewer"
        return Unreadable(f"{more} cells than the header has")
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return Unreadable("not UTF-8")
    return dict(zip(header, cells, strict=True))


def _faults(rows: Rows, fields: Fields) -> Iterator[Fault]:
    """Give what is wrong with the rows of a file; of a field that no row has, once."""
    if not rows:
        yield Fault(fields.path, "holds no item")
    objects = [row for _, row in rows if isinstance(row, dict)]
    wanted = list(dict.fromkeys([str(fields.document), *fields.text]))
    for field in wanted.copy():
        if objects and all(look_up(row, field) is ABSENT for row in objects):
            wanted.remove(field)
            there = join_list(fields.there or objects[0], 30) or "none"
            yield Fault(fields.path, f"no row has this field; fields there: {there}", None, field)
    for number, row in rows:
        if not isinstance(row, dict):
            got = f"got {format_value(row)}; an object is needed"
            yield Fault(fields.path, str(row) if isinstance(row, Unreadable) else got, number)
            continue
        for field in wanted:
            if problem := _problem(row, field, is_text=field in fields.text):
                yield Fault(fields.path, problem, number, field)


def _problem(row: dict[str, Any], field: str, is_text: bool) -> str:
    value = look_up(row, field)
    if value is ABSENT:
        return f"is missing; fields there: {join_list(row, 30) or 'none'}"
    if isinstance(value, str) and value.strip():
        return ""
    if is_text:
        return f"got {format_value(value)}; a text that is not blank is needed"
    return "" if _name(value) else f"got {format_value(value)}; a name or a whole number is needed"


def _repeated(rows: Rows, fields: Fields) -> Iterator[Fault]:
    """Give the rows whose name is that of an earlier one."""
    first: dict[str, int] = {}
    for number, row in rows:
        name = _name(look_up(row, str(fields.document)))
        if name and (before := first.setdefault(name, number)) != number:
            problem = f"{format_value(name)} is the name of row {before} as well; names must differ"
            yield Fault(fields.path, problem, number, fields.document)


def _name(value: Any) -> str:
    """Return a name as text, "" if it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else ""


@dataclass(frozen=True)
class CorpusListing:
    """Items and what they are looked for in, as it is before anything of it is read."""

    manifest: Manifest
    items: list[Item]
    given: dict[str, Vectors]  # vectors of the items of benchmarks that come with them
    sources: dict[str, Source]
    inputs: list[Input]  # texts
    vector_inputs: list[Input]
    stored: dict[str, str]  # folders of stored vectors, and what identifies what is in them
    notes: list[str]  # what was passed over
    skip_unreadable: bool  # whether inputs that cannot be read are counted, not an error
    # folder of an index of the stored vectors that is searched in their place, and what it is
    index: tuple[str, str] | None = None

    @property
    def key(self) -> dict[str, Any]:
        """Everything that the results depend on."""
        key = {
            "manifest": self.manifest.hash,
            "--skip-unreadable": self.skip_unreadable,
            "items": _hash(self.items),
            "vectors of items": {k: sha256(v.tobytes()) for k, v in self.given.items()},
            "files of the corpus": _hash([*self.inputs, *self.vector_inputs]),
        }
        if self.stored:
            key["stored vectors"] = list(self.stored.values())
        return key if self.index is None else key | {"index": self.index[1]}


def _hash(objects: Sequence[Item | Input]) -> str:
    return sha256(repr([asdict(one) for one in objects]).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class EmbeddedItems:
    """Vectors of items, and what is known of the embedder where it is not loaded."""

    vectors: Vectors  # (items, dims)
    tokens: list[int]  # lengths; 0 where the vectors were given
    max_tokens: int  # longest text that the embedder sees
    about: dict[str, Any]  # how it describes itself
    # its numbers of tokens of texts; None where they were not requested, or read from a file
    count: Callable[[Sequence[str]], list[int]] | None = None


@dataclass(frozen=True)
class ItemStage:
    """Texts of items to vectors."""

    embedding: Embedding
    device: str
    replies: Path | None = None  # where replies of an endpoint are stored

    def __call__(self) -> Callable[[tuple[list[str], bool]], EmbeddedItems]:
        """Load the embedder; return what embeds texts, and adds `count` if that is wanted."""
        embedder = shared_embedder(self.embedding, self.device, self.replies)

        def embed(task: tuple[list[str], bool]) -> EmbeddedItems:
            texts, with_count = task
            with one_thread(require("torch", "scan")):
                vectors, tokens = embedder.embed(texts, "query"), embedder.count(texts)
            count = embedder.count if with_count else None
            return EmbeddedItems(vectors, tokens, embedder.max_tokens, embedder.describe(), count)

        return embed


def embed_items(corpus: CorpusListing, out: Path, execution: Execution) -> EmbeddedItems:
    """Return vectors and lengths of all items."""
    items, given, embedding = corpus.items, corpus.given, corpus.manifest.embedding
    texts = [item.text for item in items if item.benchmark not in given]
    if not texts and not corpus.inputs:  # no embedder is needed
        nothing = EmbeddedItems(np.empty((0, 0), np.float32), [], 0, {"model": "given"})
        return _joined(items, given, nothing)
    conditions = content_of(embedding), execution.device, texts
    path = stage_folder(out, "items", *conditions) / "items.npz"
    if path.exists():
        return _joined(items, given, _load(path))
    starts = range(0, max(1, len(texts)), _ITEMS)
    tasks = {task_name(i): (texts[i : i + _ITEMS], i == 0) for i in starts}
    replies = replies_folder(out, embedding)
    stage = ItemStage(embedding, execution.device, replies)
    results = dict(execution.run("items", stage, tasks, lambda task: len(task[0]), "items"))
    parts: list[EmbeddedItems] = [results[key] for key in tasks]
    embedded = replace(
        parts[0],
        vectors=np.concatenate([part.vectors for part in parts]),
        tokens=[count for part in parts for count in part.tokens],
    )
    with on_disk(path):
        _save(path, embedded)
    if replies is not None:
        forget_queries(replies)
    return _joined(items, given, embedded)


def _joined(
    items: Sequence[Item], given: dict[str, Vectors], embedded: EmbeddedItems
) -> EmbeddedItems:
    """Return all items: those of benchmarks with given vectors, and those that were embedded."""
    parts: dict[str, Vectors] = {}
    tokens: list[int] = []
    at = 0
    for name, size in Counter(item.benchmark for item in items).items():
        if name in given:
            parts[name] = given[name]
            tokens += [0] * size
        else:
            parts[name] = embedded.vectors[at : at + size]
            tokens += embedded.tokens[at : at + size]
            at += size
    dims = {name: part.shape[1] for name, part in parts.items()}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{printable(name, 60)} has {n}" for name, n in dims.items())
        problem = f"their vectors have different dimensions: {listing}; use one embedder for all"
        raise DataError([Fault("benchmarks", problem)])
    return replace(embedded, vectors=np.concatenate(list(parts.values())), tokens=tokens)


def _save(path: Path, embedded: EmbeddedItems) -> None:
    """Write embedded items, without the function that counts."""
    about = {"max_tokens": embedded.max_tokens, "about": embedded.about}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            vectors=embedded.vectors,
            tokens=np.array(embedded.tokens, np.int64),
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        )


def _load(path: Path) -> EmbeddedItems:
    with np.load(path) as file:
        about = json.loads(file["about"].tobytes())
        return EmbeddedItems(file["vectors"], file["tokens"].tolist(), **about)
