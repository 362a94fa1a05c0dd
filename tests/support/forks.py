"""A program that imports once, which takes seconds, and does each of its runs in a new process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayescontam.parallel import ONE_THREAD

ROOT = Path(__file__).resolve().parents[2]
LOOP = """
import os as _os, sys as _sys, traceback as _traceback
for _line in _sys.stdin:
    if not (_child := _os.fork()):
        try:
            run(*_line.split())
            _os._exit(0)
        except BaseException:
            _traceback.print_exc()
            _os._exit(1)
    print(_child, flush=True)
    print(_os.waitstatus_to_exitcode(_os.waitpid(_child, 0)[1]), flush=True)
"""


class Forks:
    """Calls the function `run` of a program, each time in a fork of it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._words, self._answers = process.stdin, process.stdout

    def __call__(self, *words: str) -> int:
        """Return how a run with these words ends: its status, or minus the signal that kills it."""
        self.start(*words)
        return self.ended()

    def start(self, *words: str) -> int:
        """Start a run; return the number of its process."""
        self._words.write(" ".join(words) + "\n")
        self._words.flush()
        return int(self._answers.readline())

    def ended(self) -> int:
        """Wait for the run that was started, and return how it ends."""
        return int(self._answers.readline())


@contextmanager
def forking(program: str, *arguments: str, cwd: Path = ROOT) -> Iterator[Forks]:
    """Start a program that defines `run`, with one thread: others do not survive a fork."""
    with subprocess.Popen(
        [sys.executable, "-c", program + LOOP, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        yield Forks(process)
