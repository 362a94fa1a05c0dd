"""Read CSV, Parquet, JSON and JSON Lines as a table, or refuse; write CSV and Parquet."""

import codecs
import contextlib
import csv
import difflib
import io
import itertools
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayescontam._bounds import Bounds, unpacked
from bayescontam._files import atomic_path
from bayescontam._text import printable
from bayescontam.data.jsonl import json_columns
from bayescontam.data.validation import check_headers
from bayescontam.errors import DataError, Fault, UsageError

_ENDINGS = (".csv", ".parquet")
_DELIMITERS = ",;\t|"
_DECLARED = re.compile(r'"?sep=([,;\t|])"?[ \r\n]*', re.IGNORECASE)
"""A first line that states for Excel what separates the columns."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXTS = "BYTE_ARRAY"
_LISTS = pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray
ALLOWED = ".csv, .tsv, .jsonl, .ndjson or .json (each also .gz, .bz2, .xz or .zst), or .parquet"
_USUAL = {".csv": ",", ".tsv": "\t"}
_JSON = {".jsonl", ".ndjson", ".json"}
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_BATCH = 20_000  # rows that are held as Python objects at once
_MOST_FAULTS = 10_000  # faulty rows after which reading ends
_SIGNATURES = {
    b"%PDF-": "a PDF",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"PK\x03\x04": "an Excel workbook (.xlsx) or another zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"\x1f\x8b": "gzip-compressed data",
    b"\x28\xb5\x2f\xfd": "zstandard-compressed data",
    b"\xfd7zXZ": "xz-compressed data",
    b"\x89HDF": "a netCDF or HDF5 file",
    b"CDF\x01": "a netCDF file",
    b"CDF\x02": "a netCDF file",
    b"PAR1": "Parquet",
    b"ARROW1": "an Arrow or Feather file",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class BrokenQuotesError(ValueError):
    """Quotes that cannot be read, and in which line."""


def cell_rows(lines: Iterable[str], delimiter: str = ",") -> Generator[list[str]]:
    """Give the rows of lines that are not blank."""
    # strict: otherwise a forgotten quote swallows the rest of the file in silence.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    with _long_cells():
        try:
            for row in reader:
                if row:
                    yield row
        except csv.Error as error:
            place = f"broken quotes in line {reader.line_num}: {error}"
            raise BrokenQuotesError(f"{place}; a quote inside a quoted cell is doubled") from error


def read_cells(text: str, delimiter: str = ",") -> tuple[list[list[str]], str]:
    """Return the rows of a text that are not blank, and what broke off the reading."""
    rows: list[list[str]] = []
    try:
        # newline="" keeps a carriage return inside a quoted cell.
        rows.extend(cell_rows(io.StringIO(text, newline=""), delimiter))
    except BrokenQuotesError as error:
        return rows, str(error)
    return rows, ""


def _delimiter(header: str, usual: str) -> str:
    """Return what separates the columns of a header line: the usual, or what does so instead."""
    if _width(header, usual) > 1:
        return usual
    widest = max(_DELIMITERS, key=lambda other: _width(header, other))
    return widest if _width(header, widest) > 1 else usual


def _width(header: str, delimiter: str) -> int:
    try:
        return len(next(cell_rows([header], delimiter), []))
    except BrokenQuotesError:  # a cell that goes on in the next line
        return header.count(delimiter) + 1


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    """Lift the limit of the csv module, which is one for the whole process."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def parquet_batches(file: Path, source: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of a Parquet file, texts by reference, those in structs and lists too."""
    # A text that is repeated in every row fits into few bytes of a file: read by reference, it
    # is refused before it fills the memory.
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


@dataclass(frozen=True)
class RawTable:
    """A table as it stands in a file."""

    frame: pd.DataFrame  # at least one row; column names are text, not blank and not repeated
    # what separates the columns of a CSV or TSV file, whose cells are all text; "" for other files,
    # whose cells have types
    delimiter: str = ""
    notes: tuple[str, ...] = ()  # what was recognised


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table from a file as it stands; see `load_table`."""
    return load_table(path).frame


def given_table(given: str | os.PathLike[str] | pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a table, or that of a file, and its name in messages."""
    if isinstance(given, pd.DataFrame):
        return given, "DataFrame"
    return read_table(given), os.fspath(given)


def load_table(path: str | os.PathLike[str]) -> RawTable:
    """Read a table from a file as it stands."""
    file = Path(path)
    source = os.fspath(path)
    _check_file(file)
    suffix = _suffix(file)
    if suffix == ".parquet":
        table = RawTable(_parquet(file, source))
    else:
        _check_text(file, source)
        try:
            if suffix in _JSON:
                table = RawTable(pd.DataFrame(json_columns(file, source), dtype=object))
            else:
                table = _csv(file, source, suffix)
        except UnicodeDecodeError as error:
            raise _not_unicode(file, source) from error
    check_headers(list(table.frame.columns), source)
    if table.frame.empty:
        raise DataError([Fault(source, "no rows, only column names; a table needs a row")])
    return table


def _suffix(file: Path) -> str:
    inner = PurePath(file.stem) if file.suffix.lower() in _PACKED else file
    suffix = inner.suffix.lower()
    if suffix in _JSON or suffix in _USUAL or (suffix == ".parquet" and inner is file):
        return suffix
    kind = _kind(_start(file))
    content = f" and the content is {kind}" if kind else ""
    raise UsageError(
        f"{printable(file)}: the file name ends in '{printable(file.suffix)}'{content}; "
        f"allowed is {ALLOWED}; rename or convert it"
    )


def _check_file(file: Path) -> None:
    try:
        if file.is_dir():
            raise UsageError(f"{printable(file)}: is a folder; give a file: {ALLOWED}")
        if file.is_file():
            return
        if file.exists():
            raise UsageError(f"{printable(file)}: is a device or a pipe; give a file: {ALLOWED}")
        names = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
    except OSError as error:
        raise UsageError(f"{printable(file)}: cannot be read ({error.strerror})") from error
    close = difflib.get_close_matches(file.name, names, n=1)
    elsewhere = f"check the path (from {Path.cwd()})"
    hint = f"did you mean '{printable(close[0])}'?" if close else elsewhere
    raise UsageError(f"{printable(file)}: no such file; {hint}")


def _start(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(64)
    except OSError as error:
        raise UsageError(f"{printable(file)}: cannot be read ({error.strerror})") from error


def _kind(start: bytes) -> str | None:
    for signature, kind in _SIGNATURES.items():
        if start.startswith(signature):
            return kind
    page = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return "a web page (HTML)" if page.startswith((b"<!doctype html", b"<html")) else None


def _refuse(source: str, problem: str, row: int | None = None) -> DataError:
    return DataError([Fault(source, problem, row)])


def _check_text(file: Path, source: str) -> None:
    """Refuse what is empty, or plainly something else than UTF-8 text."""
    with unpacked(file) as stream:
        start = stream.read(64)
        if not start:
            raise _refuse(source, "the file is empty; a table needs a header and a row")
        if kind := _kind(start):
            raise _refuse(source, f"the content is {kind}; allowed is {ALLOWED}, in UTF-8")
        while start and not start.removeprefix(codecs.BOM_UTF8).strip():
            start = stream.read(_BATCH)
        if not start:
            raise _refuse(source, "the file is blank; a table needs a header and a row")


def _not_unicode(file: Path, source: str) -> DataError:
    """Return the error that names the first byte that is not UTF-8, which is searched for."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with unpacked(file) as stream:
        while piece := stream.read(_BATCH):
            try:
                line += decoder.decode(piece).count("\n")
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                byte = error.object[error.start]
                problem = f"byte 0x{byte:02x} in line {line} is not valid UTF-8"
                return _refuse(source, f"{problem}; save the file as UTF-8")
    return _refuse(source, f"the text is cut off in line {line}; save the file as UTF-8")


class _Lines:
    """Lines of a CSV file, none of which may hold a NUL, and no row of which may be endless."""

    def __init__(self, text: IO[str], source: str) -> None:
        self._text, self._source = text, source
        self._limit = Bounds.current()
        self._number = 0
        self.row = 0  # characters of the row that is being read

    def __iter__(self) -> Iterator[str]:
        longest = self._limit.record
        while line := self._text.readline(longest + 1):
            self._number += 1
            self.row += len(line)
            if self.row > longest:
                what = f"the row that ends after line {self._number - 1}"
                self._limit.check_record(self.row, self._source, what)
            if "\0" in line:
                problem = f"NUL byte in line {self._number}: UTF-16 or no text at all"
                raise _refuse(self._source, f"{problem}; save it as UTF-8 text")
            yield line


def _csv(file: Path, source: str, suffix: str) -> RawTable:
    # newline="" keeps a carriage return inside a quoted cell.
    with (
        unpacked(file) as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
    ):
        lines = _Lines(text, source)
        every = iter(lines)
        filled = (line for line in every if line.strip())
        first, usual = next(filled), _USUAL[suffix]
        if declared := _DECLARED.fullmatch(first):
            first = next(filled, "")
            if not first:
                raise _refuse(source, "only a line 'sep='; a table needs a header and a row")
        delimiter = declared[1] if declared else _delimiter(first, usual)
        with closing(cell_rows(itertools.chain([first], every), delimiter)) as rows:
            frame = _framed(rows, lines, source, delimiter)
    note = f"{printable(source)}: columns are separated by {_spelled(delimiter)}"
    return RawTable(frame, delimiter, (note,) if delimiter != usual else ())


def _framed(rows: Iterator[list[str]], lines: _Lines, source: str, delimiter: str) -> pd.DataFrame:
    limit = Bounds.current()
    faults: list[Fault] = []
    header: list[str] = []
    batches: list[pa.RecordBatch] = []
    held: list[list[str]] = []
    number = 0

    def put_away() -> None:
        limit.check_cells(number, len(header), source)
        columns = zip(*held, strict=True) if held else [()] * len(header)
        arrays = [pa.array(cells, pa.large_string()) for cells in columns]
        # Positions in place of names, which may be repeated or odd and are checked first.
        batches.append(pa.record_batch(arrays, [str(at) for at in range(len(header))]))
        held.clear()

    try:
        header = next(rows)
        check_headers(header, source)
        for cells in rows:
            number += 1
            lines.row = 0
            if len(cells) == len(header):
                held.append(cells)
            else:
                which = "few" if len(cells) < len(header) else "many"
                cause, count = (
                    f"too {which} cells: {{}}, but the header has {len(header)}",
                    len(cells),
                )
                faults.append(Fault(source, cause.format(count), number, None, cause, str(count)))
            if len(held) == _BATCH:
                put_away()
            if len(faults) == _MOST_FAULTS:
                break
    except BrokenQuotesError as error:
        faults.append(Fault(source, str(error), number + 1 if header else None))
    if faults:
        advice = f"cells that hold {_spelled(delimiter)}, a quote or a line break need quotes"
        raise DataError(faults, advice)
    put_away()
    frame = _to_pandas(pa.Table.from_batches(batches))
    return frame.set_axis(header, axis=1)


def _spelled(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else f"'{delimiter}'"


def _parquet(file: Path, source: str) -> pd.DataFrame:
    start = _start(file)
    if not start:
        raise _refuse(source, "the file is empty; a table needs a header and a row")
    if not start.startswith(b"PAR1"):
        kind = _kind(start)
        content = f"the content is {kind}" if kind else "the content is something else"
        raise _refuse(source, f"no Parquet file: {content}; give its right ending: {ALLOWED}")
    try:
        check_headers(pq.read_schema(file).names, source)
        batches = [
            pa.record_batch([_plain(column) for column in batch.columns], batch.schema.names)
            for batch in parquet_batches(file, source, _BATCH)
        ]
        if not batches:
            raise _refuse(source, "no rows, only column names; a table needs a row")
        return _to_pandas(pa.Table.from_batches(batches))
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"damaged Parquet file ({printable(str(error))}); write it again"
        raise _refuse(source, problem) from error


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    # Without metadata, columns that pandas wrote as its index come back as columns; without the
    # option, whole numbers with gaps would lose digits as floats.
    frame: pd.DataFrame = table.to_pandas(
        ignore_metadata=True, integer_object_nulls=True, self_destruct=True, split_blocks=True
    )
    return frame


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without references, and bytes as text where they are such."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if is_text(kind) and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:  # bytes that are no text, of a column that nobody needs
            return column
    return column


def check_table_ending(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a file name that `write_table` has no format for."""
    suffix = Path(path).suffix
    if suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"{printable(os.fspath(path))}: the file name ends in '{printable(suffix)}'; "
            f"allowed for {what} is .csv or .parquet"
        )


def write_table(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a table to a file, whole or not at all."""
    with atomic_path(path) as temporary:
        if Path(path).suffix.lower() == ".parquet":
            frame.to_parquet(temporary, index=False)
            return
        texts = frame.select_dtypes(["str", "object"])
        cells = (cell for name in texts for cell in texts[name])
        if any("\0" in each for each in (*map(str, frame), *cells) if isinstance(each, str)):
            raise UsageError(
                f"{printable(os.fspath(path))}: a name holds a NUL character, which no CSV file "
                "can; write .parquet"
            )
        # Quotes around all texts: a lone carriage return is kept only inside quotes.
        frame.to_csv(temporary, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
