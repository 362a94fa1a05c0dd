"""Read files of users unpacked, and never beyond bounds.

Compression makes a file of a megabyte out of a table of gigabytes, or out of one endless
line. Every reader of users' files opens them here, in pieces, and stops at a bound with a
message that names the variable to raise:

=======================  ===========  ======================================================
variable                 default      bounds
=======================  ===========  ======================================================
BAYESCONTAM_MAX_FILE     4 GB         unpacked bytes of one file
BAYESCONTAM_MAX_RECORD   64 MB        bytes of one line, JSON object, row or cell
BAYESCONTAM_MAX_CELLS    25,000,000   values of one table, matrix or array: rows × columns
=======================  ===========  ======================================================
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, cast

import pyarrow as pa

from bayescontam._text import printable
from bayescontam.errors import DataError, Fault, UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


_POWERS = {"": 0, "k": 3, "m": 6, "g": 9, "t": 12}


_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


_DAMAGED = (EOFError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException)


@dataclass(frozen=True)
class Bounds:
    """The bounds that hold now."""

    file: int = 4 * 10**9  # unpacked bytes of one file
    record: int = 64 * 10**6  # bytes of one line, JSON object, row or cell
    cells: int = 25 * 10**6  # values of one table, matrix or array

    @classmethod
    def current(cls) -> Self:
        """Return the bounds that the environment sets, and the defaults of the others.

        >>> Bounds.current().record
        64000000
        """
        set_ = {name: os.environ.get(_variable(name)) for name in ("file", "record", "cells")}
        return cls(**{name: _size(text, name) for name, text in set_.items() if text})

    def check_file(self, size: int, source: str) -> None:
        """Raise a `DataError` if a file unpacks to more bytes than it may."""
        if size > self.file:
            raise _beyond(source, f"unpacks to more than {spelled(self.file)}", "file")

    def check_record(self, size: int, source: str, what: str) -> None:
        """Raise a `DataError` if `what`, such as "line 3", has more bytes than it may."""
        if size > self.record:
            raise _beyond(source, f"{what} is longer than {spelled(self.record)}", "record")

    def check_cells(self, rows: int, columns: int, source: str, what: str = "table") -> None:
        """Raise a `DataError` if a table, or something else of two dimensions, is too large."""
        if rows * columns > self.cells:
            problem = f"the {what} has more than {self.cells:,} values (rows × columns)"
            raise _beyond(source, problem, "cells")

    def check_archive(self, archive: zipfile.ZipFile, source: str) -> None:
        """Raise a `DataError` if the members of a zip file unpack to more than a file may.

        A member that unpacks to more than the archive states is refused by `zipfile` itself.
        """
        members = archive.infolist()
        self.check_cells(len(members), 1, source, "archive")
        self.check_file(sum(member.file_size for member in members), source)


@contextlib.contextmanager
def unpacked(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed if its content is, and never beyond the bounds."""
    source = os.fspath(path)
    limit = Bounds.current()
    try:
        with Path(path).open("rb") as stored:
            codec = compression(stored.read(8))
            stored.seek(0)
            with _decoded(stored, codec) as stream:
                counted = _Counted(stream, source, limit, codec)
                with io.BufferedReader(counted, 1 << 20) as reader:
                    yield reader
    except OSError as error:
        if error.errno is None:  # of a codec, raised outside of `_Counted`
            raise _damaged(source, codec, error) from error
        raise UsageError(f"{printable(source)}: cannot be read ({error.strerror})") from error


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Return the unpacked bytes of a file; see `unpacked`."""
    with unpacked(path) as stream:
        return stream.read()


def bounded_lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    """Give the lines of a stream, their ends included, none longer than a record may be."""
    limit = Bounds.current()
    number = 0
    while line := stream.readline(limit.record + 1):
        number += 1
        limit.check_record(len(line), source, f"line {number}")
        yield line


def compression(start: bytes) -> str | None:
    """Return how a file is compressed that starts so, or None.

    >>> compression(b"\\x1f\\x8b\\x08"), compression(b"model,item")
    ('gzip', None)
    """
    return next((codec for sign, codec in _PACKED.items() if start.startswith(sign)), None)


def spelled(size: int) -> str:
    """Return a number of bytes in words.

    >>> spelled(64_000_000), spelled(1_500), spelled(7)
    ('64 MB', '1.5 kB', '7 bytes')
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size} bytes"


class _Counted(io.RawIOBase):
    """Unpacked bytes of a file, counted as they are read."""

    def __init__(self, stream: IO[bytes], source: str, limit: Bounds, codec: str | None) -> None:
        self._stream, self._source, self._limit, self._codec = stream, source, limit, codec
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGED as error:
            raise _damaged(self._source, self._codec, error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise _damaged(self._source, self._codec, error) from error
        self._count += len(data)
        self._limit.check_file(self._count, self._source)
        buffer[: len(data)] = data
        return len(data)


def _decoded(stored: IO[bytes], codec: str | None) -> contextlib.AbstractContextManager[IO[bytes]]:
    if codec == "gzip":
        return cast(Any, gzip.GzipFile(fileobj=stored))
    if codec == "bz2":
        return bz2.BZ2File(stored)
    if codec == "xz":
        return lzma.LZMAFile(stored)
    if codec == "zstd":  # reads files of several frames to their end
        return cast(Any, pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd"))
    return contextlib.nullcontext(stored)


def _damaged(source: str, codec: str | None, error: Exception) -> DataError:
    return DataError([Fault(source, f"damaged {codec} file ({printable(str(error), 80)})")])


def _beyond(source: str, problem: str, name: str) -> DataError:
    advice = f"if it is meant to, set the environment variable {_variable(name)} to more"
    return DataError([Fault(source, problem)], advice)


def _variable(name: str) -> str:
    return f"BAYESCONTAM_MAX_{name.upper()}"


def _size(text: str, name: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * 10 ** _POWERS[found[2].lower()]) if found else 0
    if size < 1:
        raise UsageError(
            f"{_variable(name)}: got '{printable(text, 60)}', allowed is a size, such as 8GB, "
            "500MB "
            "or 1000000"
        )
    return size
