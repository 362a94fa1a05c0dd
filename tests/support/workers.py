"""Workers of the tests of long computations; importable in other processes, and light."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayescontam._files import atomic_path
from bayescontam.errors import DataError, Fault

THREADS = {name: value for name, value in os.environ.items() if name.endswith("_THREADS")}
"""What libraries imported here, at the earliest, would have seen."""


class Unreadable(Exception):  # noqa: N818
    """Can be written by pickle but not read."""

    def __init__(self, one: str, _two: str) -> None:
        super().__init__(one)


def squares() -> Callable[[int], int]:
    return lambda number: number**2


def noting(folder: Path) -> Callable[[float], int]:
    """Leave a file for each process and return its number after some seconds."""
    with (folder / f"{os.getpid()}.pid").open("a") as file:
        file.write("made\n")

    def work(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    return work


def writing(folder: Path) -> Callable[[int], None]:
    """Write files for ever, each of them slowly."""

    def work(number: int) -> None:
        while True:
            with atomic_path(folder / f"{number}.txt") as temporary:
                temporary.write_text("half")
                time.sleep(0.1)

    return work


def mortal(folder: Path) -> Callable[[tuple[str, int]], str]:
    """End the process of task "name" the first so many times."""

    def work(task: tuple[str, int]) -> str:
        name, deaths = task
        file = folder / f"{name}.tried"
        with file.open("a") as tries:
            tries.write("x")
        if file.stat().st_size <= deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return name

    return work


def failing() -> Callable[[str], Any]:
    return fail


def fail(how: str) -> Any:
    if how == "data":
        raise DataError([Fault("a.csv", "is bad", 3)], "mend it")
    if how == "value":
        raise ValueError("two\nlines")
    if how == "unreadable":
        raise Unreadable("lost in transit", "")
    if how == "exit":
        sys.exit("told to")
    if how == "abort":
        os._exit(7)
    if how == "lock":
        return threading.Lock()
    return how


def unmakeable() -> Callable[[str], str]:
    raise OSError("no such model")


def large() -> Callable[[int], bytes]:
    return bytes


def threads() -> Callable[[str], dict[str, str]]:
    return lambda _: THREADS


def actors() -> list[int]:
    """Return the processes of actors that this process started."""
    columns = ["ps", "-eo", "pid=,ppid=,args="]
    reported = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in reported.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}

    def is_ours(pid: int) -> bool:
        while pid in parents:
            if pid == os.getpid():
                return True
            pid = parents[pid]
        return False

    return [
        int(pid) for pid, _, *words in rows if "ray::Worker" in str(words) and is_ours(int(pid))
    ]
