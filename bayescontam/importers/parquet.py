"""Parquet files of users, read in pieces and within the bounds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayescontam.bounds import Bounds

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXTS = "BYTE_ARRAY"
_LISTS = pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray


def parquet_batches(file: Path, source: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of a Parquet file, texts by reference, those in structs and lists too.

    A text that is repeated in every row fits into few bytes of a file: read by reference, it is
    refused before it fills the memory.
    """
    limit = Bounds.current()
    with pq.ParquetFile(file, pre_buffer=False) as stored:
        about, schema, leaves = stored.metadata, stored.schema_arrow, stored.schema
        limit.check_cells(about.num_rows, len(schema.names), source)
        groups = (about.row_group(at) for at in range(about.num_row_groups))
        limit.check_file(sum(map(_stated, groups)), source)
        texts = text_paths(schema, leaves)
    total = 0

    def check(size: int) -> None:
        limit.check_record(size, source, "a cell")

    with pq.ParquetFile(file, pre_buffer=False, read_dictionary=texts) as stored:
        for batch in stored.iter_batches(rows):
            total += sum(decoded_size(column, check) for column in batch.columns)
            limit.check_file(total, source)
            yield batch


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is text, or bytes that may be."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _stated(group: Any) -> int:
    """Return the bytes of a row group, of which a run of equal values has almost none."""
    columns = [group.column(at) for at in range(group.num_columns)]
    decoded = sum(column.num_values * _WIDTHS.get(column.physical_type, 0) for column in columns)
    return max(int(group.total_byte_size), decoded)


def text_paths(schema: pa.Schema, leaves: Any) -> list[str]:
    """Return the paths of texts; those of extension types cannot be read by reference."""
    plain = [field.name for field in schema if not isinstance(field.type, pa.BaseExtensionType)]
    columns = [leaves.column(at) for at in range(len(leaves))]
    return [
        column.path
        for column in columns
        if column.physical_type == _TEXTS
        and any(column.path == name or column.path.startswith(f"{name}.") for name in plain)
    ]


def decoded_size(column: pa.Array, check: Callable[[int], object] = lambda size: None) -> int:
    """Return the bytes of a column once its references are resolved."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(decoded_size(part, check) for part in column.flatten())
    if pa.types.is_map(kind):  # its parts are those of the whole array, also of a slice
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        parts = (part.slice(first, last - first) for part in (column.keys, column.items))
        return 8 * len(column) + sum(decoded_size(part, check) for part in parts)
    if isinstance(column, _LISTS):
        return 8 * len(column) + decoded_size(column.flatten(), check)
    if not pa.types.is_dictionary(kind):
        return int(column.nbytes)
    if not is_text(kind.value_type):
        return int(column.indices.nbytes) * 2
    lengths = pc.binary_length(column.dictionary)
    check(pc.max(lengths).as_py() or 0)
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)
