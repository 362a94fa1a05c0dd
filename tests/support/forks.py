"""A program that imports once, which takes seconds, and does each of its runs in a new process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
    print(_os.waitstatus_to_exitcode(_os.waitpid(_child, 0)[1]), flush=True)
"""


@contextmanager
def forking(
    program: str, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[..., int]]:
    """Start a program that defines `run`; yield what calls that in a fork and returns its end.

    Words given to it are those that `run` receives; the end is a status, or minus a signal.
    """
    with subprocess.Popen(
        [sys.executable, "-c", program + LOOP, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        source, target = process.stdout, process.stdin

        def run(*words: str) -> int:
            target.write(" ".join(words) + "\n")
            target.flush()
            return int(source.readline())

        yield run
        target.close()
