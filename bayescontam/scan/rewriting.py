"""Copies of the files of a corpus with some of their records, which stay as they are."""

from collections.abc import Iterator
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._files import atomic_path
from bayescontam.errors import DataError, Fault
from bayescontam.scan.formats import BATCH_BYTES, BATCH_ROWS, BLOCK, Tally, json_lines
from bayescontam.scan.sources import Input, compression, open_file, reason_of

_GROUP = 2**27
"""Bytes in memory of the rows that become one row group."""
_ADVICE = "Repair the file, or take it out of the corpus, and scan again."


def copy_name(item: Input) -> str:
    """Return the name of an input's copy, relative to the folder of all copies.

    >>> copy_name(Input("web", "s3://bucket/part-1.jsonl.gz", "", "jsonl"))
    'bucket/part-1.jsonl.gz'
    """
    path = PurePath(item.path.partition("://")[2] or item.path)
    return path.relative_to(path.anchor).as_posix()


def copy_records(item: Input, path: Path, chosen: NDArray[np.int64], longest: int) -> None:
    """Write records of an input, of rising numbers from 1, to a file of its format and codec.

    Lines of JSON and text files are the same bytes, rows of Parquet have all their columns, and
    its schema and codecs are the same. A text file, which is one record, is written if that is
    chosen.
    """
    if item.kind == "text" and not len(chosen):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        try:
            if item.kind == "parquet":
                _copy_rows(item.location, temporary, chosen)
            elif item.kind == "text":
                _copy_file(item.location, temporary)
            else:
                _copy_lines(item.location, temporary, chosen, longest)
        except (OSError, pa.ArrowException) as error:
            if getattr(error, "errno", None):
                raise  # of the disk, not of what a file holds
            problem = f"its records cannot be copied ({reason_of(error)})"
            raise DataError([Fault(item.path, problem)], _ADVICE) from error


def _copy_file(location: str, path: Path) -> None:
    with open_file(location) as stored, path.open("wb") as file:
        while block := stored.read(BLOCK):
            file.write(block)


def _copy_lines(location: str, path: Path, chosen: NDArray[np.int64], longest: int) -> None:
    numbers = iter(chosen.tolist())
    wanted = next(numbers, None)
    with pa.output_stream(path, compression=compression(location)) as file:
        if wanted is None:
            return
        for number, line in json_lines(location, longest, Tally()):
            if number == wanted and line is not None:
                file.write(line + b"\n")
                wanted = next(numbers, None)
                if wanted is None:
                    return  # what comes next may be damaged


def _copy_rows(location: str, path: Path, chosen: NDArray[np.int64]) -> None:
    with (
        open_file(location) as handle,
        pq.ParquetFile(handle, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        columns = [file.schema.column(number) for number in range(len(file.schema.names))]
        if old := [column.path for column in columns if column.physical_type == "INT96"]:
            # Read as nanoseconds, in which years after 2262 become others.
            raise pa.ArrowInvalid(
                f"column '{old[0]}' has timestamps of type INT96, which cannot be copied exactly;"
                " write the file with timestamps of 64 bits"
            )
        with pq.ParquetWriter(
            path, file.schema_arrow, compression=_codecs(file.metadata)
        ) as writer:
            at = 0
            for group in range(file.num_row_groups):
                stop = at + file.metadata.row_group(group).num_rows
                rows = _within(chosen, at, stop)
                if len(rows):
                    for table in _tables(file, group, rows):
                        writer.write_table(table, row_group_size=max(1, len(table)))
                at = stop


def _codecs(about: pq.FileMetaData) -> dict[str, str] | str:
    """Return the codec of each column."""
    if not about.num_row_groups:
        return "snappy"
    group = about.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    codecs = {
        column.path_in_schema: {"UNCOMPRESSED": "NONE"}.get(column.compression, column.compression)
        for column in columns
    }
    # Names of nested columns may be spelt in another way in the copy.
    return codecs if len(set(codecs.values())) > 1 else next(iter(codecs.values()), "snappy")


def _within(chosen: NDArray[np.int64], at: int, stop: int) -> NDArray[np.int64]:
    """Return the places in rows `at` to `stop` of those that are chosen by number."""
    ends = np.searchsorted(chosen, [at + 1, stop + 1])
    return chosen[slice(*ends)] - at - 1


def _tables(file: pq.ParquetFile, group: int, rows: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Give rows of a row group, all at once unless they are large."""
    about = file.metadata.row_group(group)
    size = BATCH_BYTES * about.num_rows // max(1, about.total_byte_size)
    held: list[pa.RecordBatch] = []
    at = 0
    for batch in file.iter_batches(
        max(1, min(BATCH_ROWS, size)), row_groups=[group], use_threads=False
    ):
        own = _within(rows + 1, at, at + len(batch))
        at += len(batch)
        if not len(own):
            if at > rows[-1]:
                break  # what comes next may be damaged
            continue
        held.append(batch.take(pa.array(own)))
        if sum(part.nbytes for part in held) >= _GROUP:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
