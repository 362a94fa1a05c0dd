"""Write files whole or not at all, and say what is wrong with a disk."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayescontam._text import printable
from bayescontam.errors import TaskError, UsageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` when the block ends well."""
    target = Path(path)
    temporary = _temporary(target)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise now what `atomic_path` would raise after a long computation."""
    _temporary(Path(path)).unlink()


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """Make a folder if need be, and check that files can be written there."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{printable(path)}: cannot be made ({error.strerror}); choose another folder"
        ) from error
    check_writable(path / "file")
    return path


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` as UTF-8, whole or not at all; see `atomic_path`."""
    with atomic_path(path) as temporary:
        # newline="": what was composed is what is stored, on every system.
        temporary.write_text(text, encoding="utf-8", newline="")


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _temporary(target: Path) -> Path:
    """Make an empty file beside `target`."""
    name = printable(target)
    try:
        validate_regular_file(target, name)
        handle, temporary = tempfile.mkstemp(
            prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{name}: cannot be written ({reason}); choose another place or make the folder first"
        ) from error
    os.close(handle)
    return Path(temporary)


def validate_regular_file(target: Path, name: str) -> None:
    """Raise what only replacing `target` would raise; an OSError if its name is too long."""
    if target.is_dir():
        raise UsageError(f"{name}: is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{name}: is a device or a pipe; give the name of a file")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


@contextmanager
def on_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the system into one that names the file and says how to go on."""
    try:
        yield
    except BrokenPipeError:
        raise  # that is the terminal, not the disk
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        cure = "free some space" if error.errno in _FULL else "put that right"
        raise TaskError(
            f"{printable(str(error.filename or path))}: {printable(reason, 400)}; {cure}, then run"
            " the same command again: finished work is stored"
        ) from error
