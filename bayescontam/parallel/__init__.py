"""Many independent tasks: in this process, in worker processes, or on Ray.

A long computation survives being stopped when each task writes its own result, whole or
not at all, and gives back a short summary; the next start leaves out what is on disk::

    def make_worker() -> Callable[[Path], int]:
        embed = load_the_model()  # expensive, and done once in each worker

        def work(path: Path) -> int:
            vectors = embed(path.read_text())
            with atomic_path(path.with_suffix(".npy")) as part, part.open("wb") as file:
                numpy.save(file, vectors)
            return len(vectors)

        return work

    todo = {path.name: path for path in texts if not path.with_suffix(".npy").exists()}
    with contextlib.closing(run_tasks(make_worker, todo)) as results:
        for name, count in results:
            print(name, count)
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Literal

from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.parallel.pool import fail, process_pool, serialise
from bayescontam.parallel.ray_backend import cluster, ray_pool


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def ray_cluster(
    engine: Literal["local", "ray"], address: str | None = None, jobs: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Keep one connection to Ray for several calls of `run_tasks`, which take seconds to connect.

    Options that these would refuse are refused at once.
    """
    _check(engine, jobs, address, gpus=0)
    if engine == "local":
        return contextlib.nullcontext()
    return cluster(require("ray", "ray"), address, jobs)


def run_tasks[TaskT, ResultT](
    make_worker: Callable[[], Callable[[TaskT], ResultT]],
    tasks: Mapping[str, TaskT],
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    gpus: float = 0,
) -> Generator[tuple[str, ResultT], None, None]:
    """Do every task, and yield the results in the order in which they are ready.

    Nothing starts before the first result is requested. Closing the generator stops the
    workers, as does Ctrl-C inside it; wrap it in `contextlib.closing` so that an error in
    the loop over the results stops them at once too. They are killed: a task should write
    files with `bayescontam._files.atomic_path`.
    """
    _check(engine, jobs, address, gpus)
    if not tasks or (engine == "local" and (jobs or usable_cores()) == 1):
        return _here(make_worker, tasks)
    sent = serialise(make_worker)
    if engine == "local":
        return process_pool(sent, tasks, min(jobs or usable_cores(), len(tasks)))
    return ray_pool(
        require("ray", "ray"), sent, tasks, jobs and min(jobs, len(tasks)), address, gpus
    )


def _check(engine: str, jobs: int | None, address: str | None, gpus: float) -> None:
    if engine not in ("local", "ray"):
        raise UsageError(f"engine is '{printable(engine)}'; choose 'local' or 'ray'")
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs is {jobs}; give 1 or more, or leave it out to use every core")
    if engine == "local" and (address is not None or gpus):
        raise UsageError("address and gpus are for Ray; choose the engine 'ray' or leave them out")
    if not (0 <= gpus <= 1 or (gpus > 1 and float(gpus).is_integer())):
        raise UsageError(f"gpus is {gpus}; give 0, a fraction up to 1, or a whole number")


def _here[TaskT, ResultT](
    make_worker: Callable[[], Callable[[TaskT], ResultT]], tasks: Mapping[str, TaskT]
) -> Generator[tuple[str, ResultT], None, None]:
    made = functools.cache(make_worker)
    for key, task in tasks.items():
        try:
            result = made()(task)
        except Exception as error:
            fail(key, error)
        yield key, result
