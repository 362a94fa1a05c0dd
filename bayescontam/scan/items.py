"""Items of benchmarks as queries, with their embeddings."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple

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
from bayescontam.scan.embedder_record import check_unchanged, weights_mark
from bayescontam.scan.embedders import shared_embedder
from bayescontam.scan.execution import Execution, one_thread, stage_folder, task_name
from bayescontam.scan.fields import (
    ABSENT,
    Fields,
    Unreadable,
    look_up,
    shown_values,
    value_text,
)
from bayescontam.scan.formats import Tally, dataset_records, json_records, parquet_records
from bayescontam.scan.served import forget_queries, replies_folder
from bayescontam.scan.sources import (
    Input,
    compression,
    is_named,
    is_remote,
    list_dataset,
    open_decompressed,
    reason_of,
)
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Benchmark, Embedding, Manifest, Source
from bayescontam.specs.template import Slot, Template

type Rows = list[tuple[int, Any]]
"""Numbers of rows, from 1, and what they hold; see `bayescontam.scan.formats`."""

_KNOWN = ".jsonl, .ndjson, .json, .csv (each also .gz, .zst or .bz2), .parquet and .pq"
_ADVICE = (
    "A row is an item; in JSON Lines, it is one object on one line. An item needs a name of its "
    "own and the texts that are looked for; the manifest says which fields hold them "
    '(item = "#" calls items after the numbers of their rows).'
)
WEIGHTS = "weights of the embedder"
"""Of what results depend on, as messages name it."""
_ROW = "#"
"""In place of the field that names items: they are called after their rows."""
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
    text: str  # its question, its answer, or both

    def key(self, seed: int) -> int:
        """Return the key (32 bits) of the item's random sample."""
        parts = "\x1f".join([str(seed), self.benchmark, self.item])
        digest = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        return int.from_bytes(digest, "little")


class BenchmarkItems(NamedTuple):
    """Items of a benchmark."""

    items: list[Item]
    left_out: int  # rows that the conditions of the benchmark leave out


def read_items(benchmark: Benchmark, base: Path) -> BenchmarkItems:
    """Return the items of a benchmark, of a file or a data set."""
    # Neither part of "input_output" stands in the other.
    both = {"input": benchmark.input, "output": benchmark.output}
    parts = {part: text for part, text in both.items() if part in benchmark.text_mode}
    path, shards = _place(benchmark, base)
    fields = Fields(path, tuple(parts.values()), benchmark.item, where=benchmark.where)
    try:
        tally = Tally()
        found = (
            _dataset_rows(shards, benchmark, fields, tally)
            if shards
            else _rows(path, fields, tally)
        )
        rows = list(_bounded(found, path, tally))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError([Fault(path, f"cannot be read ({reason_of(error)})")]) from error
    if benchmark.item == _ROW:
        rows = [(number, _numbered(row, at)) for at, (number, row) in enumerate(rows)]
    chosen = [(number, row) for number, row in rows if not fields.leaves_out(row)]
    if faults := [*_faults(rows, chosen, fields), *_repeated(chosen, fields)]:
        raise DataError(sorted(faults, key=lambda fault: fault.row or 0), _ADVICE)
    whole = Template.parse(benchmark.input_output)
    items = []
    for _, row in chosen:
        texts = dict(zip(parts, (_text(row, each) for each in fields.templates), strict=True))
        text = whole.fill(texts) if len(texts) > 1 else next(iter(texts.values()))
        items.append(Item(benchmark.name, _name(look_up(row, benchmark.item)), text))
    return BenchmarkItems(items, len(rows) - len(chosen))


def _place(benchmark: Benchmark, base: Path) -> tuple[str, list[Input]]:
    """Return the path of a benchmark's file, or what its data set is called, and its shards."""
    if benchmark.dataset is not None:
        shards = list_dataset(benchmark, Path(os.path.normpath(base.absolute())))
        return shards[0].path.removesuffix(f"[1/{len(shards)}]"), shards
    path = str(benchmark.path)
    if not is_remote(path):
        path = str(base / os.path.expanduser(path))  # noqa: PTH111 (fails for no unknown user)
    return path, []


def _dataset_rows(
    shards: Sequence[Input], benchmark: Benchmark, fields: Fields, tally: Tally
) -> Iterator[tuple[int, Any]]:
    """Give number, counted through all shards, and value of every row of a data set."""
    rows = (row for each in shards for _, row in dataset_records(each, benchmark, fields, tally))
    return enumerate(rows, start=1)


def _numbered(row: Any, at: int) -> Any:
    """Return a row with its number as its name, unless it has a field that is called so."""
    return {**row, _ROW: row.get(_ROW, at)} if isinstance(row, dict) else row


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


def _faults(rows: Rows, chosen: Rows, fields: Fields) -> Iterator[Fault]:
    """Give what is wrong with a file and its chosen rows; of a field that no row has, once."""
    if not rows:
        yield Fault(fields.path, "holds no item")
    objects = [row for _, row in rows if isinstance(row, dict)]
    nowhere = [
        name
        for name in fields.wanted
        if objects and all(look_up(row, name) is ABSENT for row in objects)
    ]
    for name in nowhere:
        there = _there(fields.there or objects[0])
        yield Fault(fields.path, f"no row has this field; {there}", None, name)
    if rows and not chosen and not any(name in nowhere for name in fields.where):
        problem = f"all {len(rows):,} rows are left out by 'where'; {shown_values(fields.others)}"
        yield Fault(fields.path, problem)
    for number, row in chosen:
        for column, problem in _row_problems(row, fields, nowhere):
            yield Fault(fields.path, problem, number, column)


def _row_problems(
    row: Any, fields: Fields, nowhere: Sequence[str]
) -> Iterator[tuple[str | None, str]]:
    """Give names of fields, and what is wrong with them in a row."""
    if not isinstance(row, dict):
        got = f"got {format_value(row)}; an object is needed"
        yield None, str(row) if isinstance(row, Unreadable) else got
        return
    document = str(fields.document)
    if document not in nowhere and (problem := _name_problem(row, document)):
        yield document, problem
    for template in fields.templates:
        there = [slot for slot in template.slots if slot.name not in nowhere]
        problems = [(slot.name, _problem(row, slot, template)) for slot in there]
        found = [(name, problem) for name, problem in problems if problem]
        yield from dict.fromkeys(found)
        if len(there) == len(template.slots) and not found and not _text(row, template):
            yield None, f"there is nothing in any of its fields {join_list(template.names)}"


def _there(names: Iterable[str]) -> str:
    shown = [name for name in names if name != _ROW]
    return f"fields there: {join_list(shown, 30) or 'none'}"


def _name_problem(row: dict[str, Any], name: str) -> str:
    value = look_up(row, name)
    if value is ABSENT:
        return f"is missing; {_there(row)}"
    return "" if _name(value) else f"got {format_value(value)}; a name or a whole number is needed"


def _problem(row: dict[str, Any], slot: Slot, template: Template) -> str:
    value = look_up(row, slot.name)
    if value is ABSENT:
        return "" if slot.optional else f"is missing; {_there(row)}"
    text = _slot_text(value, template)
    if text is None or not (text.strip() or slot.optional):
        number = "" if template.is_field else " or a number"
        return f"got {format_value(value)}; a text that is not blank{number} is needed"
    return ""


def _slot_text(value: Any, template: Template) -> str | None:
    """Return the text of a field, None if it is none; only in templates it may be put together."""
    if template.is_field:
        return value if isinstance(value, str) else None
    try:
        return value_text(value, None, numbers=True)
    except (Unreadable, RecursionError):
        return None


def _text(row: dict[str, Any], template: Template) -> str:
    """Return the text of a row that has no faults, "" if it has nothing in its fields."""
    values = {slot.name: look_up(row, slot.name) for slot in template.slots}
    texts = {
        name: "" if value is ABSENT else _slot_text(value, template) or ""
        for name, value in values.items()
    }
    return template.fill(texts) if any(text.strip() for text in texts.values()) else ""


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
    left_out: dict[str, int]  # rows that the conditions of benchmarks leave out, by benchmark
    notes: list[str]  # what was passed over
    skip_unreadable: bool  # whether inputs that cannot be read are counted, not an error
    # folder of an index of the stored vectors that is searched in their place, and what it is
    index: tuple[str, str] | None = None
    # items as each source is searched for them, by its name, where each is searched by itself:
    # the same items in the same order, perhaps with other texts
    by_source: dict[str, list[Item]] = field(default_factory=dict)
    weights: str = ""  # what changes with the files of the embedder, if one is needed

    @property
    def lists(self) -> dict[str, list[Item]]:
        """Items by the source that is searched for them; by "" where all are searched at once."""
        return self.by_source or {"": self.items}

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
        if self.weights:
            key[WEIGHTS] = self.weights
        if self.stored:
            key["stored vectors"] = list(self.stored.values())
        others = {name: own for name, own in self.by_source.items() if own != self.items}
        if others:
            key["items by source"] = {name: _hash(own) for name, own in others.items()}
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
    mark: str = ""  # of its weights before they were loaded, see `weights_mark`
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
        mark = weights_mark(self.embedding)
        embedder = shared_embedder(self.embedding, self.device, self.replies)

        def embed(task: tuple[list[str], bool]) -> EmbeddedItems:
            texts, with_count = task
            with one_thread(require("torch", "scan")):
                vectors, tokens = embedder.embed(texts, "query"), embedder.count(texts)
            count = embedder.count if with_count else None
            longest, about = embedder.max_tokens, embedder.describe()
            return EmbeddedItems(vectors, tokens, longest, about, mark, count)

        return embed


def embed_lists(corpus: CorpusListing, out: Path, execution: Execution) -> dict[str, EmbeddedItems]:
    """Return vectors and lengths of the items of each of the lists; of equal lists, once."""
    found: dict[str, EmbeddedItems] = {}
    done: list[tuple[list[Item], EmbeddedItems]] = []
    for source, items in corpus.lists.items():
        same = next((embedded for own, embedded in done if own == items), None)
        if same is None:
            # Each as in a scan of its own: what a text is embedded beside may change its rounding.
            same = embed_items(corpus, items, out, execution)
            done.append((items, same))
        found[source] = same
    return found


def embed_items(
    corpus: CorpusListing, items: list[Item], out: Path, execution: Execution
) -> EmbeddedItems:
    """Return vectors and lengths of all items."""
    given, embedding = corpus.given, corpus.manifest.embedding
    texts = [item.text for item in items if item.benchmark not in given]
    if not texts and not corpus.inputs:  # no embedder is needed
        nothing = EmbeddedItems(np.empty((0, 0), np.float32), [], 0, {"model": "given"})
        return _joined(items, given, nothing)
    conditions = [content_of(embedding), execution.device, texts, corpus.weights]
    path = stage_folder(out, "items", *conditions) / "items.npz"
    if path.exists():
        return _joined(items, given, _load(path))
    starts = range(0, max(1, len(texts)), _ITEMS)
    tasks = {task_name(i): (texts[i : i + _ITEMS], i == 0) for i in starts}
    replies = replies_folder(out, embedding)
    stage = ItemStage(embedding, execution.device, replies)
    results = dict(execution.run("items", stage, tasks, lambda task: len(task[0]), "items"))
    parts: list[EmbeddedItems] = [results[key] for key in tasks]
    for part in parts[1:]:
        check_unchanged(parts[0].about, part.about)
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
    about = {"max_tokens": embedded.max_tokens, "about": embedded.about, "mark": embedded.mark}
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
