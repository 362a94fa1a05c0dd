"""Documents of one input: read, and those in the sample."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path
from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.fields import Fields, Unreadable
from bayescontam.scan.formats import (
    DAMAGED,
    Tally,
    arrow_records,
    json_records,
    parquet_records,
    text_record,
)
from bayescontam.scan.sampling import BottomKFilter, Cutoffs, cutoffs, priority
from bayescontam.scan.sources import Input, compression, list_inputs, read_dataset
from bayescontam.specs.corpus import Source

__all__ = [
    "Cutoffs",
    "Document",
    "Input",
    "Tally",
    "cutoffs",
    "list_inputs",
    "priority",
    "read_documents",
    "sample_input",
    "sampled",
]
_GROUP_CHARACTERS = 2**23
_GROUP_DOCUMENTS = 2**14
_SCHEMA = pa.schema(
    {
        "stratum": pa.dictionary(pa.int32(), pa.string()),
        "document": pa.string(),
        "priority": pa.uint64(),
        "text": pa.large_string(),
    }
)


@dataclass(frozen=True, slots=True)
class Document:
    """A record of the corpus."""

    document: str  # its name, which together with the source's name identifies it
    stratum: str  # value of the source's stratum field, "" where there is none
    text: str  # its text


def read_documents(
    item: Input, source: Source, tally: Tally, max_record_bytes: int, *, skip_damage: bool = False
) -> Iterator[Document]:
    """Give the documents of one input.

    Records that are no documents are counted in `tally`, with one of these reasons: "not JSON",
    "not UTF-8", "not an object", "no field '…'", "field '…' is not text", "empty", "too long".
    Halves of surrogate pairs that JSON spells are replaced by U+FFFD; NUL stays. A document
    without a name is called after the input and its record: the number of the line in JSON
    Lines, of the row in Parquet and data sets, 1 in a text file, which is one document.
    """
    fields = Fields(item.path, ("text",)) if item.kind == "text" else Fields.of(item.path, source)
    found = Tally()
    number = 0
    try:
        for number, record in _records(item, source, fields, found, max_record_bytes):
            try:
                document = _document(record, number, fields, found, max_record_bytes)
            except Unreadable as reason:
                found.count(item.path, number, str(reason))
            else:
                found.documents += 1
                yield document
        if found.unreadable and not found.documents and item.kind != "text":
            advice = fields.hint() or _layout(item)
            _give_up(item, _all_unreadable(found), found, skip_damage, advice)
    except (OSError, pa.ArrowException) as error:
        if skip_damage:
            found.count(item.path, number + 1, DAMAGED)
        _give_up(item, _damage(item, number, error), found, skip_damage)
    finally:
        tally.merge(found)


def _records(
    item: Input, source: Source, fields: Fields, tally: Tally, longest: int
) -> Iterator[tuple[int, Any]]:
    if item.kind == "jsonl":
        return json_records(item.location, longest, tally)
    if item.kind == "text":
        return text_record(item.location, longest, tally)
    if item.kind == "parquet":
        return parquet_records(item.location, fields, tally)
    if item.kind == "dataset":
        return arrow_records(read_dataset(item, source, fields), tally)
    raise ValueError(f"inputs of kind '{item.kind}' hold no documents")


def _document(record: Any, number: int, fields: Fields, tally: Tally, longest: int) -> Document:
    text = fields.text_of(record)
    # A character has one to four bytes, so most texts need not be encoded to know.
    if len(text) * 4 > longest and len(text.encode()) > longest:
        raise Unreadable("too long")
    name = fields.name_of(record)
    stratum = fields.stratum_of(record)
    if not name and fields.document:
        tally.without[fields.document] += 1
    if not stratum and fields.stratum:
        tally.without[fields.stratum] += 1
    return Document(name or f"{fields.path}#{number}", stratum, text)


def _all_unreadable(found: Tally) -> str:
    total = found.unreadable.total()
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in found.unreadable.most_common())
    return f"none of its {total:,} records is a document ({reasons})"


def _layout(item: Input) -> str:
    return "each line must be one whole JSON object" if item.kind == "jsonl" else ""


def _damage(item: Input, number: int, error: Exception) -> str:
    code = getattr(error, "errno", None)
    reason = os.strerror(code) if code else printable(str(error), 300)
    if number:
        return f"damaged after record {number:,} ({reason})"
    codec = "" if code else compression(item.location)
    return f"cannot be read{f' as {codec}' if codec else ''} ({reason})"


def _give_up(item: Input, problem: str, found: Tally, skip: bool, advice: str = "") -> None:
    """Raise, or note, what is wrong with an input."""
    if not skip:
        go_on = "to go on without what cannot be read: --skip-unreadable"
        raise DataError([Fault(item.path, problem)], "; ".join(filter(None, (advice, go_on))))
    found.damaged[item.path] = problem


def sample_input(
    item: Input,
    source: Source,
    seed: int,
    out: str | os.PathLike[str],
    *,
    max_record_bytes: int,
    skip_damage: bool = False,
) -> dict[str, Any]:
    """Read one input, and write those of its documents that may be in the sample to a file."""
    start = time.perf_counter()
    tally = Tally()
    thinner = BottomKFilter(source.share)
    documents: Counter[str] = Counter()
    found = read_documents(item, source, tally, max_record_bytes, skip_damage=skip_damage)
    with atomic_path(out) as path, _Candidates(path, source.name) as file:
        for document in found:
            documents[document.stratum] += 1
            rank = priority(seed, source.name, document.document)
            if thinner.keeps(document.stratum, rank):
                file.add(document, rank)
    return {
        "source": source.name,
        "path": item.path,
        "documents": dict(documents),
        "complete_to": {stratum: thinner.complete_to(stratum) for stratum in documents},
        "candidates": file.count,
        "unreadable": dict(tally.unreadable),
        "listed": [list(one) for one in tally.listed.get(item.path, [])],
        "without": dict(tally.without),
        "damage": tally.damaged.get(item.path),
        "bytes": tally.bytes,
        "seconds": time.perf_counter() - start,
    }


def sampled(path: str | os.PathLike[str], cuts: Cutoffs) -> Iterator[Document]:
    """Give the documents of one file of candidates that are in the sample."""
    with pq.ParquetFile(path) as file:
        highest = cuts.of(file.schema_arrow.metadata[b"source"].decode())
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group, use_threads=False).to_batches():
                yield from _sampled(batch, highest)


def _sampled(batch: pa.RecordBatch, highest: dict[str, int]) -> Iterator[Document]:
    strata = batch["stratum"]
    cuts = np.array([highest[stratum] for stratum in strata.dictionary.to_pylist()], np.uint64)
    keep = batch["priority"].to_numpy() <= cuts[strata.indices.to_numpy()]
    chosen = batch.filter(pa.array(keep))
    columns = (chosen[name].to_pylist() for name in ("document", "stratum", "text"))
    for document, stratum, text in zip(*columns, strict=True):
        yield Document(document, stratum, text)


class _Candidates:
    """File of candidates, written in row groups of bounded size."""

    def __init__(self, path: Path, source: str) -> None:
        self.count = 0
        self._rows: list[tuple[str, str, int, str]] = []
        self._characters = 0
        self._writer = pq.ParquetWriter(
            path,
            _SCHEMA.with_metadata({"source": source}),
            compression="zstd",
            use_dictionary=["stratum"],
            write_statistics=["priority"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            self._writer.close()

    def add(self, document: Document, rank: int) -> None:
        self._rows.append((document.stratum, document.document, rank, document.text))
        self._characters += len(document.text)
        if self._characters > _GROUP_CHARACTERS or len(self._rows) == _GROUP_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._writer.schema))
        self.count += len(self._rows)
        self._rows.clear()
        self._characters = 0
