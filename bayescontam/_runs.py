"""Bookkeeping of long runs: their folder, records in JSON, finished parts by key."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import filelock

from bayescontam._files import check_writable, write_text
from bayescontam._text import printable
from bayescontam.errors import UsageError

LOCK = ".lock"
"""File by which the folder of a run is recognised, and locked."""


def locked(folder: Path, busy: str) -> filelock.FileLock:
    """Return the lock of a folder, held; refuse one that another run holds, as `busy` says."""
    lock = filelock.FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise UsageError(
            f"{printable(str(folder))}: {busy}; wait for it, stop it, or choose another folder"
        ) from None
    return lock


@contextmanager
def claimed_folder(
    folder: Path,
    run: str,
    content: str,
    is_ours: Callable[[], bool],
    half_written: Sequence[str] = (".*.????????.part",),  # as `atomic_path` names its files
) -> Iterator[None]:
    """Lock a folder that is new, empty or of an earlier run, and clear it of half-written files.

    `run` and `content` name in messages what works there and what the folder should hold.
    `is_ours` recognises a copy that lacks the lock, which is hidden and empty.
    """
    name = printable(str(folder))
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        known = (folder / LOCK).exists() or not any(folder.iterdir())
    except FileExistsError as error:
        problem = f"is a file; --out needs a folder, new or of an interrupted {run}"
        raise UsageError(f"{name}: {problem}") from error
    except (OSError, ValueError) as error:
        raise _unusable(name, "used", error) from error
    # A run replaces files and removes folders: never those of somebody else.
    if not (known or is_ours()):
        raise UsageError(
            f"{name}: holds files, and no {content}; --out needs a new or empty folder, or that of"
            f" an interrupted {run}"
        )
    # Before anything else is there: a run may be killed at any moment, which frees its lock.
    try:
        lock = locked(folder, f"another {run} works in this folder")
    except OSError as error:
        raise _unusable(name, "locked", error) from error
    try:
        for pattern in half_written:
            remove_files(folder, pattern)
        yield
    finally:
        lock.release()
        if is_new and [path.name for path in folder.iterdir()] == [LOCK]:
            shutil.rmtree(folder, ignore_errors=True)  # the run was refused


def _unusable(name: str, attempt: str, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(
        f"{name}: cannot be {attempt} ({reason}); --out needs a folder that can be written to"
    )


def remove_files(folder: Path, pattern: str) -> None:
    """Remove the files of a folder whose names match a pattern."""
    for path in folder.glob(pattern):
        path.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Append a line with the time to a file, in one write: lines of processes do not mix."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, f"{stamp} {printable(line, 400)}\n".encode())
    finally:
        os.close(handle)


def plain(value: Any) -> Any:
    """Return a number or truth value of NumPy as Python's: what `json` calls for others."""
    if hasattr(value, "dtype") and not value.shape:
        return value.item()
    raise TypeError(f"{type(value).__name__} is none of JSON's types")


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, indent=1, default=plain) + "\n"
    # Names of files need not be Unicode; they are spelled as JSON spells them.
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class ContentCache:
    """Finished results in a folder, each in a file named by a hash of all it depends on."""

    folder: Path
    suffix: str = ".json"
    # whether the first two characters of a key name a folder: folders of a few hundred files stay
    # quick everywhere
    nested: bool = False

    def path(self, key: str) -> Path:
        """Return the file of a result."""
        name = f"{key[:2]}/{key[2:]}" if self.nested else key
        return self.folder / f"{name}{self.suffix}"

    def get(self, key: str) -> bytes | None:
        """Return a stored result, None where there is none that can be read."""
        try:
            return self.path(key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, text: str) -> None:
        """Store a result, whole or not at all."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)


class Journal:
    """Finished parts of long work in a file, a line of JSON each; none without a path.

    A file of other work, or a line that was cut off, is not used.
    """

    def __init__(self, path: Path | None, work: Any) -> None:
        self._stream: IO[str] | None = None
        self.entries: list[dict[str, Any]] = []
        self.replaced = False  # whether the file held parts of other work
        if path is None:
            return
        check_writable(path)
        if not _is_journal(path):
            raise UsageError(
                f"{printable(str(path))}: is no file of an interrupted run, and would be lost; move"
                " it away, or name another file to write"
            )
        self._lock = filelock.FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise UsageError(
                f"{printable(str(path))}: another run is writing to it; wait until it ends, or name"
                " another file to write"
            ) from None
        title, good = json.dumps({"work": work}, ensure_ascii=False) + "\n", ""
        for at, line in enumerate(_lines(path)):
            if at == 0 and line != title:
                self.replaced = True
                break
            try:
                entry = json.loads(line)
            except ValueError:
                break
            good += line
            self.entries += [entry] * (at > 0)
        write_text(path, good or title)
        self._path, self._empty = path, not self.entries
        self._stream = path.open("a", encoding="utf-8")

    def add(self, entry: dict[str, Any]) -> None:
        """Store a part."""
        if self._stream is not None:
            self._stream.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._stream.flush()
            self._empty = False

    def close(self) -> None:
        """Close the file, and let others write; a file of nothing is removed."""
        if self._stream is not None:
            self._stream.close()
            if self._empty:
                self._path.unlink(missing_ok=True)
            self._lock.release()
            Path(self._lock.lock_file).unlink(missing_ok=True)


def _is_journal(path: Path) -> bool:
    """Return whether there is no file, an empty one, or one that a `Journal` began."""
    if not path.exists():
        return True
    with path.open("rb") as stream:
        start = stream.readline()
    try:
        title = json.loads(start or '{"work": 0}')
    except ValueError:
        return False
    return isinstance(title, dict) and {*title} == {"work"}


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file; none if there is no file."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    # Not by `splitlines`: texts may hold other separators. What follows the last break was cut off.
    return [f"{line}\n" for line in text.split("\n")[:-1]]
