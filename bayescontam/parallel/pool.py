"""Worker processes on this machine.

A `concurrent.futures.ProcessPoolExecutor` would break as a whole when one process dies,
without a word on which task that one did, and would wait for ever on a large result that
a process had half sent when it was killed. Here each process has a pipe of its own, which
ends with it.
"""

import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn, Protocol, Self, cast

from bayescontam._text import printable
from bayescontam.errors import BayescontamError, TaskError, UsageError

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


def serialise(make_worker: Callable[[], object]) -> bytes:
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


class WorkerLostError(Exception):
    """A worker was killed during a task."""


class WorkerPool[SentT](Protocol):
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
        """Return what a worker answers, or raise `WorkerLostError`; it is idle then."""


def gather[TaskT, SentT](
    crew: WorkerPool[SentT], tasks: Mapping[str, TaskT]
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
            except WorkerLostError as loss:
                answer = None
                upcoming = chain([item], upcoming)
                losses[key] += 1
                if losses[key] == crew.tries:
                    raise _killed(key, str(loss)) from loss
            _refill(crew, upcoming, running)  # no worker waits while a result is used
            if answer is not None:
                yield key, _read(key, answer)


def _refill[TaskT, SentT](
    crew: WorkerPool[SentT],
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
        f"task '{printable(key)}': {type(error).__name__}: {printable(str(error), 400)}; "
        "finished tasks are stored, so fix this and start again"
    ) from error


def _killed(key: str, how: str) -> TaskError:
    return TaskError(
        f"task '{printable(key)}': its worker was killed three times ({how}); finished tasks are "
        "stored, so fix this and start again, perhaps with fewer jobs or smaller tasks"
    )


def process_pool(
    make_worker: bytes, tasks: Mapping[str, Any], jobs: int
) -> Generator[tuple[str, Any], None, None]:
    """Yield results from `jobs` processes; one that dies is replaced and its task done again."""
    with _Processes(make_worker, jobs) as processes:
        yield from gather(processes, tasks)


class _Process(SpawnProcess):
    """A process of one thread, deaf to Ctrl-C, that ends with the one that started it.

    It is spawned, as neither torch nor numba survives a fork. Requested to terminate, it leaves
    its task as at Ctrl-C, so that files it was writing are removed; see `_Processes.__exit__`
    for how long it has.
    """

    def __init__(self, worker: Worker, pipe: Connection) -> None:
        super().__init__()
        self._worker = worker
        self._pipe = pipe

    def start(self) -> None:
        # All of this is inherited, and so holds before the first import over there.
        with _environment(ONE_THREAD), _interrupts_blocked():
            super().start()

    def run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        try:
            signal.signal(signal.SIGTERM, _leave)
            while True:
                self._pipe.send_bytes(self._worker.perform(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            pass  # the pipe is closed: there is no more to do
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)  # whoever waits shall see what it ended by


class _WorkerHandle:
    """A process, and this end of the pipe to it."""

    def __init__(self, make_worker: bytes) -> None:
        self.pipe, theirs = Pipe()
        self.process = _Process(Worker(make_worker), theirs)
        # Also when the program ends on an error while this is in use: exit waits for processes.
        self.kill = weakref.finalize(self, _kill, self.process)
        self.process.start()
        theirs.close()  # the only copy is over there, so that the pipe ends with the process

    def end(self, patience: float) -> int | None:
        """Wait for the process, `patience` seconds at most, and return its exit code."""
        self.pipe.close()
        self.process.join(patience)
        self.kill()
        self.process.join()
        return self.process.exitcode


class _Processes:
    """A crew of processes."""

    tries = 3

    def __init__(self, make_worker: bytes, size: int) -> None:
        self.size = size
        self._make_worker = make_worker
        self._hands = {_WorkerHandle(make_worker) for _ in range(size)}
        self._idle = list(self._hands)

    def send(self, task: bytes) -> _WorkerHandle:
        hand = self._idle.pop()
        with contextlib.suppress(OSError):  # it is dead, which shows when it should answer
            hand.pipe.send_bytes(task)
        return hand

    def ready(self, sent: Iterable[_WorkerHandle]) -> list[_WorkerHandle]:
        hands = {hand.pipe: hand for hand in sent}
        return [hands[cast(Connection, pipe)] for pipe in wait(list(hands))]

    def receive(self, sent: _WorkerHandle) -> bytes:
        try:
            answer = sent.pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise WorkerLostError(_exit_reason(self._replace(sent))) from error
        self._idle.append(sent)
        return answer

    def _replace(self, hand: _WorkerHandle) -> int | None:
        exitcode = hand.end(patience=1)
        self._hands.remove(hand)
        self._idle.append(_WorkerHandle(self._make_worker))
        self._hands.add(self._idle[-1])
        return exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for hand in self._hands:
            if kind is not None:
                hand.process.terminate()
            hand.pipe.close()
        # Compiled code does not hear that it is to terminate: it is killed.
        until = time.monotonic() + (10 if kind is None else 2)
        for hand in self._hands:
            hand.end(patience=max(0.0, until - time.monotonic()))


def _kill(process: _Process) -> None:
    if process.pid is not None:
        process.kill()


def _exit_reason(exitcode: int | None) -> str:
    code = exitcode or 0
    if code < 0:
        return f"by {signal.Signals(-code).name}, perhaps for lack of memory"
    return f"exit code {code}, see what it printed"


def _leave(*_: object) -> NoReturn:
    # A callback of compiled code would drop the interrupt and print a traceback of it.
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # which unblocks them, were it started with the process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
