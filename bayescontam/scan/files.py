"""Files by path, folder, glob or fsspec address: finds them, and opens them."""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.optional import require
from bayescontam.scan.inputs import compression

_STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created")
"""What file systems call that which changes with a file's content."""


@dataclass(frozen=True)
class File:
    """A file that a path, glob or address of a manifest leads to."""

    location: str  # absolute path or fsspec address
    path: str  # what people see: relative to the base folder where it lies below it
    stamp: str  # changes with the content; "" where nothing is known
    # whether it was named, matched, or found inside a folder
    given: Literal["file", "glob", "folder"]


def is_remote(path: str) -> bool:
    """Return whether `path` is an fsspec address, such as ``s3://bucket/folder``."""
    return "://" in path


def find_files(path: str, base: Path) -> list[File]:
    """Return the files that `path` leads to; none if there is nothing."""
    try:
        return list(_remote(path) if is_remote(path) else _local(path, base))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{visible(path)}: cannot be looked through ({reason})") from error


@contextmanager
def open_file(location: str) -> Iterator[pa.NativeFile]:
    """Open a file, here or elsewhere, for reading as it is stored; failures are OSErrors."""
    if not is_remote(location):
        with pa.OSFile(os.fsencode(location), mode="r") as file:
            yield file
        return
    fsspec = require("fsspec", "scan")
    try:
        with fsspec.open(location, "rb") as stored, pa.PythonFile(stored, mode="r") as file:
            yield file
    except (OSError, pa.ArrowException):
        raise
    # Clients of object stores and of web servers have errors of their own.
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


@contextmanager
def open_decompressed(location: str) -> Iterator[pa.NativeFile]:
    """Open a file, here or elsewhere, for reading decompressed; its name shows the codec.

    Files of several frames (Zstandard), members (gzip) or streams (bzip2) are read to
    their end. Reading one that is cut off or damaged raises an OSError.
    """
    codec = compression(location)
    with open_file(location) as file:
        if codec is None:
            yield file
        else:
            with pa.CompressedInputStream(file, codec) as stream:
                yield stream


def _local(path: str, base: Path) -> Iterator[File]:
    # Not pathlib's: it raises where there is no such user.
    where = Path(os.path.normpath(base / os.path.expanduser(path)))  # noqa: PTH111
    if where.is_dir():
        yield from _walk(where, base)
    elif where.exists():
        if not where.is_file():
            raise ValueError("a device or a pipe; give the name of a file or folder")
        yield _file(where, base, "file")
    elif glob.has_magic(path):
        for match in _matches(path, base):
            yield from _walk(match, base) if match.is_dir() else [_file(match, base, "glob")]


def _matches(pattern: str, base: Path) -> Iterator[Path]:
    pattern = os.path.expanduser(pattern)  # noqa: PTH111 (a pattern is no path)
    # Not pathlib's: there, a star matches hidden files as well.
    for match in glob.iglob(pattern, root_dir=base, recursive=True):  # noqa: PTH207
        yield Path(os.path.normpath(base / match))


def _walk(folder: Path, base: Path) -> Iterator[File]:
    seen: set[tuple[int, int]] = set()
    for root, folders, names in folder.walk(on_error=_fail, follow_symlinks=True):
        # A link may lead back to where the search came from.
        place = root.stat()
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            # A link to nothing stays in the list: reading it says what is wrong. A pipe would wait.
            if not name.startswith(".") and ((root / name).is_file() or not (root / name).exists()):
                yield _file(root / name, base, "folder")


def _fail(error: OSError) -> None:
    raise error


def _file(where: Path, base: Path, given: Literal["file", "glob", "folder"]) -> File:
    shown = where.relative_to(base) if where.is_relative_to(base) else where
    stamp = ""
    if where.exists():
        status = where.stat()
        stamp = f"{status.st_size}-{status.st_mtime_ns}"
    return File(str(where), _utf8(shown.as_posix()), stamp, given)


def _utf8(path: str) -> str:
    # Names of files need not be UTF-8; what is shown and stored has to be.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _remote(address: str) -> Iterator[File]:
    system, path = _file_system(address)
    # Web servers answer for single files only, and addresses may hold what looks like a glob.
    if system.isfile(path):
        yield _remote_file(system, path, system.info(path), "file")
        return
    is_glob = glob.has_magic(path) and not system.isdir(path)
    found = system.glob(path, detail=True) if is_glob else system.find(path, detail=True)
    for name, info in sorted(found.items()):
        inside = PurePath(name.removeprefix(path)) if not is_glob else PurePath(name).name
        if info["type"] == "file" and not _hidden(str(inside)):
            yield _remote_file(system, name, info, "glob" if is_glob else "folder")


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in PurePath(path).parts)


def _file_system(address: str) -> tuple[Any, str]:
    fsspec = require("fsspec", "scan")
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{visible(address)}: needs another package ({error})") from error
    return system, path


def _remote_file(
    system: Any, path: str, info: dict[str, Any], given: Literal["file", "glob", "folder"]
) -> File:
    location = str(system.unstrip_protocol(path))
    marks = [str(info[key]) for key in _STAMPS if info.get(key)]
    stamp = "-".join([str(info.get("size") or ""), *marks[:1]])
    return File(location, _utf8(location), stamp, given)
