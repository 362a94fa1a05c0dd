"""Tasks on their way to workers and back, wherever the workers are."""

import functools
import pickle
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NoReturn, Protocol, cast

from bayescontam.errors import BayescontamError, TaskError, UsageError
from bayescontam.names import visible

# Sums depend on how they are split over threads, and libraries split them over all cores
# that they see. With one thread a task gives the same bits beside one worker or fifty,
# and workers do not compete for the cores. The libraries read this when they are loaded.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "PJRT_NPROC",  # XLA, which heeds none of the others
    ),
    "1",
)


def packed(make_worker: Callable[[], object]) -> bytes:
    """Return `make_worker` as it is sent to workers."""
    try:
        return pickle.dumps(make_worker)
    except Exception as error:
        raise UsageError(
            f"make_worker cannot be sent to other processes ({error}); give a function at the "
            "top of a module, or a functools.partial of one"
        ) from error


class Worker:
    """Does tasks, in another process; the first one makes what they need.

    Everything crosses as bytes made and read here: an object that cannot be read on the
    other side is then the error of one task instead of the end of a process.
    """

    def __init__(self, make_worker: bytes) -> None:
        self._make_worker = make_worker

    @functools.cached_property
    def _work(self) -> Callable[[Any], Any]:
        return cast(Callable[[Any], Any], pickle.loads(self._make_worker)())

    def perform(self, task: bytes) -> bytes:
        """Return the pickled pair of a result and of no error, or the other way round."""
        try:
            return pickle.dumps((self._work(pickle.loads(task)), None))
        except (Exception, SystemExit) as error:
            return pickle.dumps((None, _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """Return `error`, or one like it where it cannot cross, with the traceback as a note."""
    note = "In the worker:\n" + "".join(traceback.format_exception(error))
    try:
        # Many exceptions are written and cannot be read: they are made anew from a message.
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error


class LostError(Exception):
    """A worker was killed during a task."""


class Crew[SentT](Protocol):
    """Workers, each of which does one task at a time."""

    @property
    def size(self) -> int:
        """Number of workers."""

    @property
    def tries(self) -> int:
        """How often a task may be sent while workers are lost over it."""

    def send(self, task: bytes) -> SentT:
        """Give a task to an idle worker."""

    def ready(self, sent: Iterable[SentT]) -> Iterable[SentT]:
        """Wait for some of the tasks that were sent."""

    def receive(self, sent: SentT) -> bytes:
        """Return what a worker answers, or raise `LostError`; it is idle then."""


def collect[TaskT, SentT](
    crew: Crew[SentT], tasks: Mapping[str, TaskT]
) -> Generator[tuple[str, Any], None, None]:
    """Have the tasks done and yield results as they come."""
    upcoming: Iterator[tuple[str, TaskT]] = iter(tasks.items())
    losses: Counter[str] = Counter()
    running: dict[SentT, tuple[str, TaskT]] = {}
    _refill(crew, upcoming, running)
    while running:
        for sent in crew.ready(running):
            key, _ = item = running.pop(sent)
            try:
                answer = crew.receive(sent)
            except LostError as loss:
                answer = None
                upcoming = chain([item], upcoming)
                losses[key] += 1
                if losses[key] == crew.tries:
                    raise _killed(key, str(loss)) from loss
            _refill(crew, upcoming, running)  # no worker waits while a result is used
            if answer is not None:
                yield key, _read(key, answer)


def _refill[TaskT, SentT](
    crew: Crew[SentT],
    upcoming: Iterator[tuple[str, TaskT]],
    running: dict[SentT, tuple[str, TaskT]],
) -> None:
    while len(running) < crew.size and (item := next(upcoming, None)):
        running[crew.send(_written(*item))] = item


def _written(key: str, task: object) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:
        fail(key, error)


def _read(key: str, answer: bytes) -> Any:
    try:
        result, error = pickle.loads(answer)
    except Exception as unreadable:
        fail(key, unreadable)
    if error is not None:
        fail(key, error)
    return result


def fail(key: str, error: BaseException) -> NoReturn:
    """Raise what a task's `error` becomes."""
    if isinstance(error, BayescontamError):
        raise error
    raise TaskError(
        f"task '{visible(key)}': {type(error).__name__}: {visible(str(error), 400)}; "
        "finished tasks are stored, so fix this and start again"
    ) from error


def _killed(key: str, how: str) -> TaskError:
    return TaskError(
        f"task '{visible(key)}': its worker was killed three times ({how}); finished tasks are "
        "stored, so fix this and start again, perhaps with fewer jobs or smaller tasks"
    )
