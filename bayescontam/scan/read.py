"""Documents of a corpus, read from its inputs; what is no document is counted with the reason."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayescontam.errors import DataError, Fault
from bayescontam.names import visible
from bayescontam.scan.fields import Fields, Unreadable
from bayescontam.scan.formats import arrow_records, json_records, parquet_records, text_record
from bayescontam.scan.hub import read_dataset
from bayescontam.scan.inputs import Input, compression
from bayescontam.scan.listing import list_inputs
from bayescontam.scan.tally import DAMAGED, Tally
from bayescontam.specs.corpus import Source

__all__ = ["Document", "Input", "Tally", "list_inputs", "read_documents"]


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
    reason = os.strerror(code) if code else visible(str(error), 300)
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
