"""Records of JSON Lines, text, Parquet and data sets, read in bounded memory and counted."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from bayescontam.data.tables import decoded_size, text_paths
from bayescontam.errors import BayescontamError
from bayescontam.scan.fields import Fields, Unreadable, decoded
from bayescontam.scan.sources import (
    DatasetPlace,
    Input,
    client_error,
    compression,
    open_dataset,
    open_decompressed,
    open_file,
)

LISTED = 1000
"""Unreadable records of an input that are listed one by one; all are counted."""

DAMAGED = "damaged file"
"""Reason for what stands behind the damage in a file that was read up to there."""
BLOCK = 2**18
"""Bytes of a file that are taken at once."""
BATCH_BYTES = 2**24
"""Decompressed bytes of Parquet rows that are taken at once, about."""
BATCH_ROWS = 4096
"""Parquet rows that are taken at once, at most."""
_DATASET_ROWS = 256
"""Rows that are taken from a data set at once."""
_LISTED = (
    "it is one JSON array, and each line must be one JSON object: jq -c '.[]' FILE makes such lines"
)
_BOM = b"\xef\xbb\xbf"
_SIGNATURES = {
    b"\x1f\x8b": "gzip-compressed: let its name end in .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard-compressed: let its name end in .zst",
    b"BZh": "bzip2-compressed: let its name end in .bz2",
    b"PAR1": "Parquet: let its name end in .parquet",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}


@dataclass
class Tally:
    """What reading one input found."""

    documents: int = 0
    bytes: int = 0  # decompressed
    left_out: int = 0  # records that the source's conditions leave out
    unreadable: Counter[str] = field(default_factory=Counter)  # records by reason
    listed: list[tuple[int, str]] = field(default_factory=list)  # the first of them, from 1
    # by field that names the document or the stratum: documents that do not have it
    without: Counter[str] = field(default_factory=Counter)
    damage: str | None = None  # what is wrong with the input, where that was passed over
    fields: Fields | None = None  # of the input, with what was found of them

    def count(self, record: int, reason: str) -> None:
        """Count a record as unreadable."""
        self.unreadable[reason] += 1
        if len(self.listed) < LISTED:
            self.listed.append((record, reason))


def json_records(location: str, longest: int, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Give number and value of every line of a JSON Lines file; blank lines hold none."""
    first = True
    for number, line in json_lines(location, longest, tally):
        if line is None:
            yield number, Unreadable("too long")
        elif line and not line.isspace():
            value = _value(line)
            if first and isinstance(value, Unreadable) and line.lstrip().startswith(b"["):
                raise OSError(_LISTED)  # its last line alone would be a record
            first = False
            yield number, value


def json_lines(location: str, longest: int, tally: Tally) -> Iterator[tuple[int, bytes | None]]:
    """Give number and bytes of every line of a file; None for those that are too long."""
    for number, line in enumerate(_lines(_blocks(location, tally), longest), start=1):
        yield number, _start(line) if number == 1 and line is not None else line


def text_record(location: str, longest: int, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Give the one record of a text file: an object with the whole text in its field ``text``."""
    held: list[bytes] = []
    left = longest
    for block in _blocks(location, tally):
        held.append(block)
        left -= len(block)
        if left < 0:
            yield 1, Unreadable("too long")
            return
    try:
        yield 1, {"text": decoded(b"".join(held).removeprefix(_BOM))}
    except Unreadable as reason:
        yield 1, reason


def parquet_records(location: str, fields: Fields, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Give number and value of every row of a Parquet file."""
    with open_file(location) as handle:
        with pq.ParquetFile(handle, pre_buffer=False) as file:
            about, texts = file.metadata, text_paths(file.schema_arrow, file.schema)
        with pq.ParquetFile(
            handle,
            metadata=about,
            pre_buffer=False,
            page_checksum_verification=True,
            read_dictionary=texts,  # a text may be repeated in every row
        ) as file:
            fields.there = list(file.schema_arrow.names)
            yield from arrow_records(_batches(file, _columns(file.schema, fields.wanted)), tally)


def dataset_records(
    item: Input, place: DatasetPlace, fields: Fields, tally: Tally
) -> Iterator[tuple[int, Any]]:
    """Give number and value of every row of one shard of a data set."""
    return arrow_records(_dataset_tables(item, place, fields), tally)


def _dataset_tables(item: Input, place: DatasetPlace, fields: Fields) -> Iterator[pa.Table]:
    try:
        data = open_dataset(item, place)
        data = data.shard(num_shards=item.parts, index=item.part, contiguous=True)
        wanted = {part for name in fields.wanted for part in (name, name.partition(".")[0])}
        # Streamed data sets need not know their columns; without any, rows would get lost.
        fields.there = list(data.column_names or ())
        names = [name for name in fields.there if name in wanted]
        if names:
            data = data.select_columns(names)
        yield from data.with_format("arrow").iter(batch_size=_DATASET_ROWS)
    except (BayescontamError, OSError):
        raise
    # Hub, network, builders and file systems each have errors of their own.
    except Exception as error:
        raise OSError(client_error(error)) from error


def _batches(file: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
    # One row group after the other: no batch then spans damaged and sound ones.
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        rows = BATCH_BYTES * about.num_rows // max(1, about.total_byte_size)
        for batch in file.iter_batches(
            batch_size=max(1, min(BATCH_ROWS, rows)),
            row_groups=[group],
            columns=columns,
            use_threads=False,  # a worker has one core
        ):
            yield from _parts(batch)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Give a batch in parts that are small once the references to texts are resolved."""
    if len(batch) < 2 or _size(batch) <= 4 * BATCH_BYTES:
        yield batch
        return
    half = len(batch) // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _size(batch: pa.RecordBatch | pa.Table) -> int:
    parts = [batch] if isinstance(batch, pa.RecordBatch) else batch.to_batches()
    return sum(decoded_size(column) for part in parts for column in part.columns)


def arrow_records(
    batches: Iterable[pa.RecordBatch | pa.Table], tally: Tally
) -> Iterator[tuple[int, Any]]:
    """Give number, counted from 1, and value of every row of Arrow tables."""
    number = 0
    for batch in batches:
        tally.bytes += _size(batch)
        for value in _rows(batch):
            number += 1
            yield number, value


def _rows(batch: pa.RecordBatch | pa.Table) -> Iterable[Any]:
    try:
        return list(batch.to_pylist())
    except UnicodeDecodeError:
        # One row with other bytes than UTF-8 must not take its neighbours with it.
        return [_row(batch.slice(row, 1)) for row in range(batch.num_rows)]


def _row(batch: pa.RecordBatch | pa.Table) -> Any:
    try:
        return batch.to_pylist()[0]
    except UnicodeDecodeError:
        return Unreadable("not UTF-8")


def _columns(schema: Any, wanted: list[str]) -> list[str]:
    """Return the columns that hold the wanted fields, of nested ones only the needed part."""
    paths = [schema.column(i).path for i in range(len(schema))]
    return [
        name
        if any(path == name or path.startswith(f"{name}.") for path in paths)
        else name.partition(".")[0]
        for name in wanted
    ]


def _blocks(location: str, tally: Tally) -> Iterator[bytes]:
    """Give the content of a file, decompressed, up to its end or up to any damage."""
    done = 0
    try:
        with open_decompressed(location) as stream:
            while block := stream.read(BLOCK):
                done += len(block)
                tally.bytes += len(block)
                yield block
    except OSError:
        # The failed read withheld what precedes the damage: read that byte by byte.
        with open_decompressed(location) as stream:
            while done > 0:
                done -= len(stream.read(min(done, BLOCK)))
            while byte := stream.read(1):
                yield byte
        raise
    if done == 0 and compression(location) is not None:
        _check_header(location)


def _check_header(location: str) -> None:
    with open_file(location) as file:
        if not file.read(1):
            raise OSError("the file has no bytes, so it is not compressed, or was cut off")


def _lines(blocks: Iterable[bytes], longest: int) -> Iterator[bytes | None]:
    """Give the lines in a stream of blocks, None for those of more than `longest` bytes."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        size += len(first)
        if size <= longest:
            held.append(first)
        else:
            held.clear()
        if others:
            yield b"".join(held) if size <= longest else None
            for line in others[:-1]:
                yield line if len(line) <= longest else None
            size = len(others[-1])
            held = [others[-1]]
    if size:
        yield b"".join(held) if size <= longest else None


def _start(line: bytes) -> bytes:
    """Return the first line of a file without its mark of UTF-8; refuse marks of other kinds."""
    for signature, kind in _SIGNATURES.items():
        if line.startswith(signature):
            raise OSError(f"the content is {kind}")
    return line.removeprefix(_BOM)


def _value(line: bytes) -> Any:
    try:
        return from_json(line)
    except ValueError:
        pass
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return Unreadable("not UTF-8")
    try:
        return _fixed(text) if "\\ud" in text.lower() else Unreadable("not JSON")
    except (ValueError, RecursionError):
        return Unreadable("not JSON")


def _fixed(text: str) -> Any:
    """Return JSON with half surrogate pairs, as cut emoji have them, replaced by U+FFFD."""
    spelled = json.dumps(json.loads(text), ensure_ascii=False)
    return json.loads(spelled.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
