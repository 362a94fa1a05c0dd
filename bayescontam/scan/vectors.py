"""Embeddings that were made elsewhere: files of vectors, and their parts that are searched."""

import os
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._bounds import Bounds
from bayescontam._text import join_list, printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.chunking import occurrence_hash
from bayescontam.scan.sketch import Chunks, places
from bayescontam.scan.sources import is_remote, open_file, reason_of
from bayescontam.specs.corpus import Benchmark

ROWS = 16_384
"""Vectors that are read at once."""

_BLOCK = 2**29
"""Bytes of vectors, as 64 bits a number, that are read at once."""
_BUFFER = 2**20
"""Bytes of a column of Parquet that are taken at once."""
_KINDS = {
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "stream",
}
"""Kinds of files by how they begin: their names may say anything, or nothing."""
_WIDTHS = "16, 32 or 64 bits"


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors: ``.npy``, Parquet, or Arrow (file, stream or Feather)."""

    path: str  # path or fsspec address
    column: str  # column of vectors, where the file has columns; "" if it must have none

    def shape(self) -> tuple[int, int]:
        """Return the numbers of vectors and of their dimensions."""
        with self._faults():
            if self._kind == "npy":
                with open_file(self.path) as file:
                    return self._header(file)[0]
            first = next(self._table(0, 1), None)
            with self._opened() as table:
                return _rows(table), 0 if first is None else first.shape[1]

    def shards(self, rows: int) -> list[tuple[int, int]]:
        """Return ranges of about `rows` rows; only ``.npy`` files can be read from the middle."""
        total = self.shape()[0]
        step = rows if self._kind == "npy" else max(total, 1)
        return [(start, min(start + step, total)) for start in range(0, total, step)]

    def read(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Give the vectors of rows `start` to `stop`, a part at a time, (rows, dims)."""
        with self._faults():
            yield from (self._npy if self._kind == "npy" else self._table)(start, stop)

    def columns(self, names: list[str], rows: NDArray[np.int64]) -> dict[str, list[Any]]:
        """Return the values of those of the columns `names` that there are, at some rows."""
        with self._faults():
            if self._kind == "npy" or not len(rows):
                return {}
            with self._opened() as table:
                found = [name for name in names if name in _schema(table).names]
                return _looked_up(table, found, rows) if found else {}

    @cached_property
    def _kind(self) -> str:
        with open_file(self.path) as file:
            start = bytes(file.read(8))
        for signature, kind in _KINDS.items():
            if start.startswith(signature):
                return kind
        raise self._fault("is neither .npy, Parquet nor Arrow" if start else "is empty")

    def _npy(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        # Read, not mapped: mapped pages would count as memory of this process.
        with open_file(self.path) as file:
            (_, dims), dtype = self._header(file)
            file.seek(file.tell() + start * dims * dtype.itemsize)
            for at in range(start, stop, ROWS):
                block = np.empty((min(ROWS, stop - at), dims), dtype)
                if file.readinto(block.view(np.uint8)) < block.nbytes:
                    raise self._fault("is cut off")
                yield block

    def _header(self, file: Any) -> tuple[tuple[int, int], np.dtype[Any]]:
        """Read the header of a ``.npy`` file; return shape and type of what comes next."""
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise self._fault(f"is .npy of version {version[0]}.{version[1]}, which is not known")
        # Version 3 differs from 2 in the names of fields alone, which vectors have none of.
        two = np.lib.format.read_array_header_2_0
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else two
        try:
            shape, fortran, dtype = read(file)
        except (SyntaxError, tokenize.TokenError) as error:
            raise ValueError("its header is damaged") from error
        Bounds.current().check_record(8 * shape[-1] if shape else 0, self.path, "a vector")
        if len(shape) != 2 or not shape[1] or dtype.kind != "f" or dtype.itemsize > 8:
            raise self._fault(
                f"holds {dtype} of shape {shape}; rows of floats of {_WIDTHS} are needed"
            )
        if fortran:
            raise self._fault("is in Fortran order; save np.ascontiguousarray(vectors)")
        there = (file.size() - file.tell()) // (shape[1] * dtype.itemsize)
        if there < shape[0]:
            raise self._fault(f"is cut off: {there:,} of {shape[0]:,} vectors are there")
        return shape, dtype

    def _table(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        at, dims = 0, -1
        with self._opened() as table:
            self._check(_schema(table))
            for batch in _batches(table, [self.column], self._rows_at_once(table)):
                begin, end = max(start - at, 0), min(stop - at, len(batch))
                if begin < end:
                    part = batch.column(0).slice(begin, end - begin)
                    matrix = self._matrix(part, at + begin, dims)
                    dims = matrix.shape[1]
                    yield matrix
                at += len(batch)
                if at >= stop:
                    return

    def _check(self, schema: pa.Schema) -> None:
        if not self.column:
            raise self._fault("is no .npy file")
        if self.column not in schema.names:
            there = f"columns there: {join_list(schema.names, 30) or 'none'}"
            advice = 'set vector = "…" to the one that holds the vectors'
            raise self._fault(f"has no column '{printable(self.column)}'; {there}; {advice}")
        kind = schema.field(self.column).type
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not (any(fits(kind) for fits in lists) and pa.types.is_floating(kind.value_type)):
            raise self._fault(f"holds {kind}; lists of floats of {_WIDTHS} are needed", self.column)

    def _rows_at_once(self, table: Any) -> int:
        """Return how many vectors are read at once: fewer where they are long."""
        if not isinstance(table, pq.ParquetFile):
            return ROWS  # other files are as large as they look
        first = next(table.iter_batches(1, columns=[self.column], use_threads=False), None)
        size = 8 if first is None else 8 * max(1, len(first.column(0).flatten()))
        Bounds.current().check_record(size, self.path, "a vector")
        return max(1, min(ROWS, _BLOCK // size))

    def _matrix(self, column: pa.Array, at: int, dims: int) -> NDArray[Any]:
        """Return vectors of `dims` dimensions (-1: those of the first), of rows from `at`."""
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        nulls = np.isnan(lengths)
        if nulls.any():
            row = at + int(nulls.argmax()) + 1
            raise self._fault("holds no vector", self.column, row)
        dims = int(lengths[0]) if dims < 0 else dims
        odd = lengths != dims
        if odd.any():
            first = int(odd.argmax())
            problem = f"has {lengths[first]} dimensions, those before have {dims}"
            raise self._fault(problem, self.column, at + first + 1)
        values = column.flatten()
        if values.null_count:
            row = at + int(values.is_null().to_numpy(zero_copy_only=False).argmax()) // dims + 1
            raise self._fault("lacks a number", self.column, row)
        return values.to_numpy(zero_copy_only=False).reshape(len(column), dims)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open a file with columns, by the reader of its kind."""
        if self._kind == "parquet":
            with (
                open_file(self.path) as file,
                # Otherwise whole columns of a row group, which may be the file, are held.
                pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER) as table,
            ):
                yield table
            return
        # Mapped where that is possible: a batch may be the file, and is held as a whole.
        local = None if is_remote(self.path) else pa.memory_map(os.fsencode(self.path))
        with local or open_file(self.path) as file:
            yield pa.ipc.open_file(file) if self._kind == "arrow" else pa.ipc.open_stream(file)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn whatever reading raises into an error that names the file."""
        try:
            yield
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self._fault(f"cannot be read ({reason_of(error)})") from error

    def _fault(self, problem: str, column: str | None = None, row: int | None = None) -> DataError:
        return DataError([Fault(self.path, problem, row, column)])


def _schema(table: Any) -> pa.Schema:
    return table.schema_arrow if isinstance(table, pq.ParquetFile) else table.schema


def _rows(table: Any) -> int:
    if isinstance(table, pq.ParquetFile):
        return int(table.metadata.num_rows)
    if isinstance(table, pa.ipc.RecordBatchFileReader):
        return int(table.count_rows())
    return sum(len(batch) for batch in table)


def _batches(table: Any, names: list[str], rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """Give some columns of a table, `rows` at a time at most."""
    if isinstance(table, pq.ParquetFile):
        # A worker has one core.
        batches = table.iter_batches(rows, columns=names, use_threads=False)
    elif isinstance(table, pa.ipc.RecordBatchFileReader):
        batches = (table.get_batch(number) for number in range(table.num_record_batches))
    else:
        batches = iter(table)
    for batch in batches:
        chosen = batch.select(names)
        if not isinstance(table, pq.ParquetFile):
            chosen.validate(full=True)  # what was damaged may point outside of the batch
        for at in range(0, len(chosen), rows):
            yield chosen.slice(at, rows)


def _looked_up(table: Any, names: list[str], rows: NDArray[np.int64]) -> dict[str, list[Any]]:
    order = np.argsort(rows, kind="stable")
    ordered, back = rows[order], np.argsort(order, kind="stable")
    values: dict[str, list[Any]] = {name: [] for name in names}
    at = 0
    for batch in _batches(table, names):
        here = ordered[np.searchsorted(ordered, at) : np.searchsorted(ordered, at + len(batch))]
        for name in names:
            values[name] += batch.column(name).take(pa.array(here - at)).to_pylist()
        at += len(batch)
        if at > ordered[-1]:
            break
    else:
        raise ValueError(f"row {ordered[-1] + 1:,} is wanted, {at:,} are there")
    return {name: [column[i] for i in back] for name, column in values.items()}


@dataclass(frozen=True)
class VectorShard:
    """Rows of a file of vectors."""

    source: str
    file: VectorFile
    name: str  # the file's path, as people see it
    # start, stop: rows
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Vectors in it."""
        return self.stop - self.start

    def chunks(self, number: int, embedder: object) -> Iterator[Chunks]:
        """Give the vectors, a part at a time; each is a chunk of its own."""
        at = self.start
        for vectors in self.file.read(self.start, self.stop):
            rows = np.arange(at, at + len(vectors))
            base = occurrence_hash(self.source, self.name, 0)
            hashes = _mixed(np.uint64(base), rows)
            at += len(vectors)
            ones = np.ones(len(rows), np.int64)
            stratum = self.source, ""
            yield Chunks(stratum, hashes, hashes, places(number, rows), ones, vectors)

    def describe(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return `DESCRIBED` and ``text`` of rows of the file: what its columns say."""
        columns = ["document", "chunk", "start", "end", "text"]
        given = pd.DataFrame(self.file.columns(columns, rows), index=range(len(rows)), dtype=object)
        table = pd.DataFrame({"document": self.name, "chunk": rows, "start": 0, "end": 0})
        for name in table.columns.intersection(given.columns):
            values = given[name] if name == "document" else pd.to_numeric(given[name], "coerce")
            known = values.notna()
            table.loc[known, name] = values[known].astype(table[name].dtype)
        table = table.assign(source=self.source, stratum="", text=None)
        if "text" in given:
            # What is no text has none: it may be a number.
            table["text"] = given["text"].where(
                given["text"].map(lambda text: isinstance(text, str))
            )
        return table


def _mixed(base: np.uint64, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a hash of file and row: SplitMix64's finalizer, a bijection of the row."""
    with np.errstate(over="ignore"):
        x = base + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def given_vectors(benchmark: Benchmark, items: int, base: Path) -> NDArray[np.float32] | None:
    """Return the vectors that a benchmark comes with, (items, dims), if it does."""
    if benchmark.vectors is None:
        return None
    path = base / os.path.expanduser(benchmark.vectors)  # noqa: PTH111 (pathlib's raises)
    file = VectorFile(str(path), "")
    rows, dims = file.shape()
    if rows != items:
        problem = f"holds {rows:,} vectors, the benchmark has {items:,} items"
        raise DataError([Fault(str(path), problem)])
    parts = [part.astype(np.float32) for part in file.read(0, rows)]
    vectors = np.concatenate(parts or [np.empty((0, dims), np.float32)])
    odd = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(odd):
        raise DataError([Fault(str(path), "is not finite", row=int(odd[0]) + 1)])
    return vectors
