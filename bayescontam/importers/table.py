"""CSV, TSV, Parquet and JSON Lines files to raw tables, nothing interpreted."""

import difflib
import gzip
import os
import zlib
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam.columns import check_headers
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.importers.delimited import read_cells
from bayescontam.importers.json_rows import json_rows
from bayescontam.names import visible

ALLOWED = ".csv, .tsv, .jsonl, .ndjson or .json (each also .gz), or .parquet"

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = {".jsonl", ".ndjson", ".json"}
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


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table from a file as it stands.

    Parameters
    ----------
    path : path-like
        A CSV or TSV file (every cell becomes text, an empty one ""), JSON Lines or one JSON
        list of objects (an absent key becomes missing), or Parquet. All but Parquet are UTF-8
        and may be compressed (.gz).

    Returns
    -------
    pandas.DataFrame
        At least one row; column names are text, not blank and not repeated.

    Raises
    ------
    UsageError
        If there is no such file, or its name has none of the known endings.
    DataError
        If the content is no such table; all faulty rows are listed.
    """
    file = Path(path)
    source = os.fspath(path)
    suffix = _suffix(file)
    data = _bytes(file)
    if suffix == ".parquet":
        frame = _parquet(data, source)
    else:
        text = _text(data, source, zipped=file.suffix.lower() == ".gz")
        frame = _json(text, source) if suffix in _JSON else _csv(text, source, _DELIMITERS[suffix])
    check_headers(list(frame.columns), source)
    if frame.empty:
        raise DataError([Fault(source, "no rows, only column names; a table needs a row")])
    return frame


def holds_text(path: str | os.PathLike[str]) -> bool:
    """Tell whether `read_table` gives every cell of this file as text (CSV and TSV)."""
    return _suffix(Path(path)) in _DELIMITERS


def _suffix(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    if last == ".gz":
        last = suffixes[0] if len(suffixes) == 2 else ""
        if last in _JSON or last in _DELIMITERS:
            return last
    elif last in _JSON or last in _DELIMITERS or last == ".parquet":
        return last
    _check_file(file)
    # Only regular files: reading from a pipe would wait.
    kind = _kind(_bytes(file)) if file.is_file() else None
    content = f" and the content is {kind}" if kind else ""
    raise UsageError(
        f"{_named(file)}: the file name ends in '{visible(file.suffix)}'{content}; "
        f"allowed is {ALLOWED}; rename or convert it"
    )


def _named(file: Path) -> str:
    return visible(str(file))


def _check_file(file: Path) -> None:
    try:
        if file.is_dir():
            raise UsageError(f"{_named(file)}: is a folder; give a file: {ALLOWED}")
        if file.exists():
            return
        names = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
    except OSError as error:
        raise UsageError(f"{_named(file)}: cannot be read ({error.strerror})") from error
    close = [f"'{visible(name)}'" for name in difflib.get_close_matches(file.name, names, n=1)]
    hint = f"did you mean {close[0]}?" if close else f"check the path (from {Path.cwd()})"
    raise UsageError(f"{_named(file)}: no such file; {hint}")


def _bytes(file: Path) -> bytes:
    _check_file(file)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{_named(file)}: cannot be read ({error.strerror})") from error
    if not data:
        raise DataError([Fault(str(file), "the file is empty; a table needs a header and a row")])
    return data


def _kind(data: bytes) -> str | None:
    start = data[:64]
    for signature, kind in _SIGNATURES.items():
        if start.startswith(signature):
            return kind
    page = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return "a web page (HTML)" if page.startswith((b"<!doctype html", b"<html")) else None


def _refuse(source: str, problem: str, row: int | None = None) -> DataError:
    return DataError([Fault(source, problem, row)])


def _text(data: bytes, source: str, *, zipped: bool) -> str:
    if zipped:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise _refuse(source, f"damaged, or not gzip-compressed ({error})") from error
    if kind := _kind(data):
        raise _refuse(source, f"the content is {kind}; allowed is {ALLOWED}, in UTF-8")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        problem = f"NUL byte in line {line}: UTF-16 or no text at all; save it as UTF-8 text"
        raise _refuse(source, problem)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        problem = f"byte 0x{byte:02x} in line {line} is not valid UTF-8; save the file as UTF-8"
        raise _refuse(source, problem) from error
    if not text.strip():
        raise _refuse(source, "the file is blank; a table needs a header and a row")
    return text


def _csv(text: str, source: str, delimiter: str) -> pd.DataFrame:
    rows, broken = read_cells(text, delimiter)
    faults = [Fault(source, broken, len(rows) or None)] if broken else []
    header = rows.pop(0) if rows else []
    if header:
        _check_delimiter(header, source, delimiter)
        check_headers(header, source)
    width = len(header)
    for number, cells in enumerate(rows, start=1):
        if len(cells) != width:
            which = "few" if len(cells) < width else "many"
            problem = f"too {which} cells: {len(cells)}, but the header has {width}"
            faults.append(Fault(source, problem, number))
    if faults:
        advice = f"cells that hold {_spelled(delimiter)}, a quote or a line break need quotes"
        raise DataError(sorted(faults, key=lambda fault: fault.row or 0), advice)
    columns = zip(*rows, strict=True) if rows else [[]] * width
    data = {name: list(cells) for name, cells in zip(header, columns, strict=True)}
    return pd.DataFrame(data, dtype="str")


def _check_delimiter(header: list[str], source: str, delimiter: str) -> None:
    others = [other for other in ",;\t|" if other != delimiter and other in header[0]]
    if len(header) == 1 and others:
        raise _refuse(
            source,
            f"one column only, but its name holds {_spelled(others[0])}; this kind of file "
            f"separates columns by {_spelled(delimiter)}: save it so, or change the file's ending",
        )


def _spelled(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else f"'{delimiter}'"


def _json(text: str, source: str) -> pd.DataFrame:
    frame = pd.DataFrame(json_rows(text, source), dtype=object)
    if not len(frame.columns):
        raise _refuse(source, "no columns: the list or its objects are empty")
    return frame


def _parquet(data: bytes, source: str) -> pd.DataFrame:
    if not data.startswith(b"PAR1"):
        kind = _kind(data)
        content = f"the content is {kind}" if kind else "the content is something else"
        raise _refuse(source, f"no Parquet file: {content}; give its right ending: {ALLOWED}")
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        check_headers(table.column_names, source)
        plain = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in table.columns
        ]
        table = pa.table(plain, names=table.column_names)
        # Without metadata, columns that pandas wrote as its index come back as columns;
        # without the option, whole numbers with gaps would lose digits as floats.
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
        return frame
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"damaged Parquet file ({visible(str(error))}); write it again"
        raise _refuse(source, problem) from error
