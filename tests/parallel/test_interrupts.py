"""Ctrl-C and death of the process that runs tasks: nothing is left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE, noted, running, wait_for

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import functools, sys, time
from pathlib import Path
from bayescontam.parallel import run_tasks
from tests.support import workers

if __name__ == "__main__":
    make_worker = functools.partial(workers.noting, Path(sys.argv[1]))
    tasks = {"a": 0.0, "b": 3600.0, "c": 3600.0}
    if "writing" in sys.argv:
        make_worker = functools.partial(workers.writing, Path(sys.argv[1]))
        tasks = {"a": 1, "b": 2}
    print("ready", flush=True)
    for key, _ in run_tasks(make_worker, tasks, engine=sys.argv[2], jobs=2):
        print(key, flush=True)
        if sys.argv[3:]:
            time.sleep(3600)
"""


@contextlib.contextmanager
def program(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run tasks in a program of its own, in the foreground of a terminal of its own."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(script), str(folder), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def check_interrupted(process: subprocess.Popen[str], folder: Path) -> None:
    """Press Ctrl-C."""
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt\n")
    assert errors.count("Traceback") == 1
    assert wait_for(lambda: not any(map(running, noted(folder))))


# On Ray while it waits: that actors end where a loop over results ends is in test_parallel.py.
@pytest.mark.parametrize(
    ("engine", "consumer"),
    [
        pytest.param("local", [], id="local-waiting"),
        pytest.param("local", ["busy"], id="local-busy"),
        pytest.param("ray", [], id="ray-waiting", marks=[pytest.mark.ray, pytest.mark.slow]),
    ],
)
def test_an_interrupt_ends_everything(tmp_path: Path, engine: str, consumer: list[str]) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    with program(tmp_path, engine, *consumer) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a\n"
        check_interrupted(process, tmp_path)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1])
def test_an_interrupt_while_workers_start(tmp_path: Path, seconds: float) -> None:
    with program(tmp_path, "local") as process:
        time.sleep(seconds)
        check_interrupted(process, tmp_path)


def test_an_interrupt_leaves_no_file_half_written(tmp_path: Path) -> None:
    with program(tmp_path, "local", "writing") as process:
        assert wait_for(lambda: len(list(tmp_path.glob("?.txt"))) == 2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors.count("Traceback") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.txt", "2.txt", "program.py"]


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    with program(tmp_path, "local") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a\n"
        assert wait_for(lambda: len(noted(tmp_path)) == 2)
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert wait_for(lambda: not any(map(running, noted(tmp_path))))
