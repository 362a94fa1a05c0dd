"""Documents of one input: read, and those in the sample."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from bayescontam.scan.sampling import BottomKFilter, Cutoffs, priority
from bayescontam.scan.sources import Input, compression, read_dataset
from bayescontam.specs.corpus import Source

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
    number = 0
    try:
        for number, record in _records(item, source, fields, tally, max_record_bytes):
            try:
                document = _document(record, number, fields, tally, max_record_bytes)
            except Unreadable as reason:
                tally.count(number, str(reason))
            else:
                tally.documents += 1
                yield document
    except (OSError, pa.ArrowException) as error:
        if skip_damage:
            tally.count(number + 1, DAMAGED)
        problem, advice = _damage(item, number, error), ""
    else:
        if not tally.unreadable or tally.documents or item.kind == "text":
            return
        total = tally.unreadable.total()
        reasons = ", ".join(f"{n:,} × {reason}" for reason, n in tally.unreadable.most_common())
        problem = f"none of its {total:,} records is a document ({reasons})"
        layout = "each line must be one whole JSON object" if item.kind == "jsonl" else ""
        advice = fields.hint() or layout
    if not skip_damage:
        go_on = "to go on without what cannot be read: --skip-unreadable"
        raise DataError([Fault(item.path, problem)], "; ".join(filter(None, (advice, go_on))))
    tally.damage = problem


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


def _damage(item: Input, number: int, error: Exception) -> str:
    code = getattr(error, "errno", None)
    reason = os.strerror(code) if code else printable(str(error), 300)
    if number:
        return f"damaged after record {number:,} ({reason})"
    codec = "" if code else compression(item.location)
    return f"cannot be read{f' as {codec}' if codec else ''} ({reason})"


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

    def candidates() -> Iterator[tuple[str, str, int, str]]:
        found = read_documents(item, source, tally, max_record_bytes, skip_damage=skip_damage)
        for document in found:
            documents[document.stratum] += 1
            rank = priority(seed, source.name, document.document)
            if thinner.keeps(document.stratum, rank):
                yield document.stratum, document.document, rank, document.text

    with atomic_path(out) as path:
        count = _write_candidates(path, source.name, candidates())
    return {
        "source": source.name,
        "path": item.path,
        "documents": dict(documents),
        "complete_to": {stratum: thinner.complete_to(stratum) for stratum in documents},
        "candidates": count,
        "unreadable": dict(tally.unreadable),
        "listed": [list(one) for one in tally.listed],
        "without": dict(tally.without),
        "damage": tally.damage,
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


def _write_candidates(path: Path, source: str, rows: Iterator[tuple[str, str, int, str]]) -> int:
    """Write rows of `_SCHEMA` in row groups of bounded size; return their number."""
    schema, count = _SCHEMA.with_metadata({"source": source}), 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=["stratum"],
        write_statistics=["priority"],
    ) as writer:
        while group := _next_group(rows):
            columns = zip(*group, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            count += len(group)
    return count


def _next_group(rows: Iterator[tuple[str, str, int, str]]) -> list[tuple[str, str, int, str]]:
    group, characters = [], 0
    for row in rows:
        group.append(row)
        characters += len(row[-1])
        if characters > _GROUP_CHARACTERS or len(group) == _GROUP_DOCUMENTS:
            break
    return group
