"""Where the tasks of a scan run, and which of them are done.

An object is sent to a worker, called there once to load what is expensive, and then given its
tasks one after the other. A task writes its results to a temporary name and renames them. What
it counted is written last, beside them, and marks the task as done; of a search, its sketch
does. A stage that was interrupted resumes with the tasks that are left.
"""

import contextlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from bayescontam._files import on_disk, sha256
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._runs import read_json, remove_files, write_json
from bayescontam.errors import TaskError, UsageError
from bayescontam.parallel import run_tasks

type Report = dict[str, Any]
"""What a task counted."""
LOG = "scan.log"
WORK = "work"
"""Folder of what only a resumed scan needs."""
_PATIENCE = 60.0
"""Seconds that a worker waits for a GPU."""
_LOCKS: list[FileLock] = []
"""GPUs that this process holds for as long as it lives."""


def stage_folder(out: Path, name: str, *conditions: object) -> Path:
    """Return the folder of a stage, named by a hash of everything that its results depend on."""
    version = importlib.metadata.version("bayescontam")
    text = json.dumps([version, *conditions], sort_keys=True)
    folder = out / WORK / f"{name}-{sha256(text.encode())[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    remove_files(folder, ".*.part")  # what a killed scan left half written
    return folder


def task_name(number: int) -> str:
    """Return the name of a task and of its files."""
    return f"{number:06d}"


def report_path(folder: Path, number: int) -> Path:
    """Return the file of what a task counted; it is there once the task is done."""
    return folder / f"{task_name(number)}.json"


def read_reports(folder: Path, tasks: int) -> list[Report]:
    """Return what all tasks of a stage counted."""
    return [read_json(report_path(folder, number)) for number in range(tasks)]


def mark_done(folder: Path, number: int, report: Report) -> None:
    """Store what a task counted."""
    path = report_path(folder, number)
    with on_disk(path):
        write_json(path, report)


@contextlib.contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Keep Torch to one thread inside the block: here it works inside others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def gpus_here() -> int:
    """Return how many GPUs Torch sees."""
    count: int = require("torch", "scan").cuda.device_count()
    return count


def own_device(device: str, folder: Path) -> str:
    """Return the device of this worker alone: a GPU that no other worker of the stage has.

    It is held by a lock on a file of the stage's folder, which ends with the process.

    Raises
    ------
    TaskError
        If all GPUs are held by others for a minute.
    """
    if device != "cuda" or (gpus := gpus_here()) < 2:
        return device
    end = time.monotonic() + _PATIENCE
    while True:
        for number in range(gpus):
            lock = FileLock(folder / f"gpu-{number}.lock")
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=0)
                _LOCKS.append(lock)
                return f"cuda:{number}"
        if time.monotonic() > end:
            raise TaskError(
                f"all {gpus} GPUs of this machine are held by other workers of this scan; give"
                " each worker GPUs of its own (CUDA_VISIBLE_DEVICES), which Ray does by itself"
            )
        # A worker that was killed holds its own for a moment longer.
        time.sleep(0.1)


@dataclass(frozen=True)
class Execution:
    """Where the tasks of a scan run."""

    # worker processes of this machine, or actors of a Ray cluster
    engine: Literal["local", "ray"] = "local"
    # workers. Default: one for each core. Where there are GPUs, one for each of them embeds.
    jobs: int | None = None
    address: str | None = None  # ray cluster; default: one is started on this machine
    # where embedding and search run; `"auto"` is a GPU where this machine has one
    device: Literal["auto", "cpu", "cuda"] = "auto"
    progress: bool = False  # whether to show progress bars

    def on_device(self) -> "Execution":
        """Return the same with the device that Torch is to use in place of ``"auto"``."""
        if self.device == "cpu" or (self.device == "cuda" and self.engine == "ray"):
            return self
        if require("torch", "scan").cuda.is_available():
            return replace(self, device="cuda")
        if self.device == "cuda":
            raise UsageError("device is 'cuda', but Torch finds no GPU here; choose 'cpu'")
        return replace(self, device="cpu")

    def run(
        self,
        title: str,
        stage: Callable[[], Callable[[Any], Any]],
        tasks: Mapping[str, Any],
        size: Callable[[Any], float],
        unit: str,
    ) -> Iterator[tuple[str, Any]]:
        """Do tasks and give their names and results as they come."""
        if not tasks:
            return
        on_gpu = self.device == "cuda" and title in ("items", "search")
        jobs = self.jobs
        if on_gpu:
            # A worker for each GPU, as one embedder fills it; Ray knows how many there are. Items
            # are too few to be shared out.
            local = self.engine == "local"
            jobs = (gpus_here() if title == "search" else 1) if local else None
        gpus = int(on_gpu and self.engine == "ray")
        done = run_tasks(
            stage, tasks, engine=self.engine, jobs=jobs, address=self.address, gpus=gpus
        )
        total = sum(map(size, tasks.values()))
        with (
            progress_bar(self.progress, title, total, unit) as advance,
            contextlib.closing(done) as results,
        ):
            for key, result in results:
                yield key, result
                advance(size(tasks[key]))
