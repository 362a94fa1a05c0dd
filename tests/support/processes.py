"""Processes that workers run in, and whether they have ended."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 30.0
"""Seconds after which a process is not ending; far more than it takes on an idle machine."""


def running(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not asked after does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def noted(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.pid")]
