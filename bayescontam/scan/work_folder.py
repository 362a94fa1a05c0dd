"""The work folder of a scan: its lock, and which stages are done."""

import importlib.metadata
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayescontam._files import sha256, write_text
from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.errors import UsageError

LOCK = ".lock"
"""File by which the folder of a scan is known, and locked."""


class WorkFolder:
    """The folder of a scan.

    Every stage has a folder of its own, named by a hash of everything that its results
    depend on: what was made under other conditions is never resumed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.work = self.folder / "work"
        try:
            self._made = not self.folder.exists()
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
            others = next(self.folder.iterdir(), None)
        except (OSError, ValueError) as error:
            raise self._unusable("used", error) from error
        # A scan replaces files and removes folders: never those of somebody else.
        if (
            others
            and not (self.folder / LOCK).exists()
            and not (self.folder / "scan.json").exists()
        ):
            raise UsageError(
                f"{printable(str(self.folder))}: holds files, and no scan; "
                "--out needs a new or empty folder, or that of an interrupted scan"
            )
        (self.folder / LOCK).touch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other scans out of the folder; the lock of a killed scan does not last."""
        filelock = require("filelock", "scan")
        # Not in the folder that `clear` removes: a new file of this name would be another lock.
        lock = filelock.FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise UsageError(
                f"{printable(str(self.folder))}: another scan works in this folder; "
                "wait for it, stop it, or choose another folder"
            ) from None
        except OSError as error:
            raise self._unusable("locked", error) from error
        try:
            # A temporary name ends in eight letters that were drawn at random.
            _remove(self.folder, ".*.????????.part")
            yield
        finally:
            lock.release()
            self._leave_nothing()

    def _leave_nothing(self) -> None:
        """Remove a folder that this scan made, if it was refused before it wrote anything."""
        if self._made and [path.name for path in self.folder.iterdir()] == [LOCK]:
            shutil.rmtree(self.folder, ignore_errors=True)

    def stage(self, name: str, *conditions: object) -> Path:
        """Return the folder of a stage, and clear it of what a killed scan left half written."""
        version = importlib.metadata.version("bayescontam")
        text = json.dumps([version, *conditions], sort_keys=True)
        folder = self.work / f"{name}-{sha256(text.encode())[:16]}"
        folder.mkdir(parents=True, exist_ok=True)
        _remove(folder, ".*.part")
        return folder

    def log(self, line: str) -> None:
        """Append a line to ``scan.log``; lines of several processes do not mix."""
        append_line(self.folder / "scan.log", line)

    def clear(self) -> None:
        """Remove what only a resumed scan needs."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _unusable(self, attempt: str, error: Exception) -> UsageError:
        reason = getattr(error, "strerror", None) or error
        return UsageError(
            f"{printable(str(self.folder))}: cannot be {attempt} ({reason}); "
            "--out needs a folder that can be written to"
        )


def _remove(folder: Path, pattern: str) -> None:
    for leftover in folder.glob(pattern):
        leftover.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Append a line with the time to a file, in one write."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, f"{stamp} {printable(line, 400)}\n".encode())
    finally:
        os.close(handle)


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    # Names of files need not be Unicode; what they hold else is spelled as JSON spells it.
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
