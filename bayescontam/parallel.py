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

A `concurrent.futures.ProcessPoolExecutor` would break as a whole when one process dies,
without a word on which task that one did, and would wait for ever on a large result that
a process had half sent when it was killed. Here each process has a pipe of its own, which
ends with it. Ray's ActorPool does not say which task an error belongs to.
"""

import contextlib
import functools
import multiprocessing
import os
import pickle
import shlex
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any, Literal, NoReturn, Self, cast

from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.errors import BayescontamError, TaskError, UsageError

_TRIES = 3
"""How often a task may be sent while workers are lost over it."""
_OTHER_TASKS = b""
"""Announces to a process what does the tasks that follow: no pickled task is empty."""
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


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def shared_workers(
    engine: Literal["local", "ray"], address: str | None = None, jobs: int | None = None
) -> contextlib.AbstractContextManager[None]:
    """Let several calls of `run_tasks` share what takes seconds to start.

    That is the connection to Ray, or the processes on this machine: what they have imported and
    cached is there for the next call. Options that these would refuse are refused at once.
    """
    _check(engine, jobs, address, gpus=0)
    if engine == "local":
        return _spare_processes()
    return _cluster(require("ray", "ray"), address, jobs)


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
    sent = _serialised(make_worker)
    if engine == "local":
        return _in_processes(sent, tasks, min(jobs or usable_cores(), len(tasks)))
    return _on_ray(
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
            _fail(key, error)
        yield key, result


def _serialised(make_worker: Callable[[], object]) -> bytes:
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


def _gathered(
    crew: "_Processes | _Actors", tasks: Mapping[str, Any]
) -> Generator[tuple[str, Any], None, None]:
    """Have the tasks done and yield results as they come."""
    upcoming: Iterator[tuple[str, Any]] = iter(tasks.items())
    losses: Counter[str] = Counter()
    running: dict[Any, tuple[str, Any]] = {}  # by what a crew returns of a task that it was sent

    def refill() -> None:
        while len(running) < crew.size and (item := next(upcoming, None)):
            running[crew.send(_written(*item))] = item

    refill()
    while running:
        for sent in crew.ready(running):
            key, _ = item = running.pop(sent)
            try:
                answer = crew.receive(sent)
            except WorkerLostError as loss:
                answer = None
                upcoming = chain([item], upcoming)
                losses[key] += 1
                if losses[key] == _TRIES:
                    raise TaskError(
                        f"task '{printable(key)}': its worker was killed three times ({loss}); "
                        "finished tasks are stored, so fix this and start again, perhaps with "
                        "fewer jobs or smaller tasks"
                    ) from loss
            refill()  # no worker waits while a result is used
            if answer is not None:
                yield key, _read(key, answer)


def _written(key: str, task: object) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:
        _fail(key, error)


def _read(key: str, answer: bytes) -> Any:
    try:
        result, error = pickle.loads(answer)
    except Exception as unreadable:
        _fail(key, unreadable)
    if error is not None:
        _fail(key, error)
    return result


def _fail(key: str, error: BaseException) -> NoReturn:
    """Raise what a task's `error` becomes."""
    if isinstance(error, BayescontamError):
        raise error
    raise TaskError(
        f"task '{printable(key)}': {type(error).__name__}: {printable(str(error), 400)}; "
        "finished tasks are stored, so fix this and start again"
    ) from error


def _in_processes(
    make_worker: bytes, tasks: Mapping[str, Any], jobs: int
) -> Generator[tuple[str, Any], None, None]:
    """Yield results from `jobs` processes; one that dies is replaced and its task done again."""
    with _Processes(make_worker, jobs) as processes:
        yield from _gathered(processes, tasks)


class _Process(SpawnProcess):
    """A process of one thread, deaf to Ctrl-C, that ends with the one that started it.

    It is spawned, as neither torch nor numba survives a fork. Requested to terminate, it leaves
    its task as at Ctrl-C, so that files it was writing are removed; see `_Processes.__exit__`
    for how long it has.
    """

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
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
                task = self._pipe.recv_bytes()
                if task == _OTHER_TASKS:
                    worker = Worker(self._pipe.recv_bytes())
                else:
                    self._pipe.send_bytes(worker.perform(task))
        except (EOFError, OSError):
            pass  # the pipe is closed: there is no more to do
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)  # whoever waits shall see what it ended by


class _WorkerHandle:
    """A process, and this end of the pipe to it."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        self.process = _Process(theirs)
        # Also when the program ends on an error while this is in use: exit waits for processes.
        self.kill = weakref.finalize(self, _kill, self.process)
        self.process.start()
        theirs.close()  # the only copy is over there, so that the pipe ends with the process

    def prepare(self, make_worker: bytes) -> Self:
        """Have the tasks that follow done by another function."""
        self.send(_OTHER_TASKS)
        self.send(make_worker)
        return self

    def send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # it is dead, which shows when it should answer
            self.pipe.send_bytes(message)

    def end(self, patience: float) -> int | None:
        """Wait for the process, `patience` seconds at most, and return its exit code."""
        self.pipe.close()
        self.process.join(patience)
        self.kill()
        self.process.join()
        return self.process.exitcode


class _Processes:
    """A crew of processes."""

    def __init__(self, make_worker: bytes, size: int) -> None:
        self.size = size
        self._make_worker = make_worker
        self._spare = _SPARE.get()
        spare = self._spare or []
        there = [spare.pop() for _ in range(min(size, len(spare)))]
        self._hands = {*there, *(_WorkerHandle() for _ in range(size - len(there)))}
        self._idle = [hand.prepare(make_worker) for hand in self._hands]

    def send(self, task: bytes) -> _WorkerHandle:
        hand = self._idle.pop()
        hand.send(task)
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
        self._idle.append(_WorkerHandle().prepare(self._make_worker))
        self._hands.add(self._idle[-1])
        return exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._spare is not None:
            self._spare.extend(self._hands)
            return
        if kind is not None:
            for hand in self._hands:
                hand.process.terminate()
        # Compiled code does not hear that it is to terminate: it is killed.
        _end(self._hands, patience=10 if kind is None else 2)


_SPARE: ContextVar[list[_WorkerHandle] | None] = ContextVar("spare", default=None)
"""Processes without tasks that the next call may have; None where calls share nothing."""


@contextlib.contextmanager
def _spare_processes() -> Iterator[None]:
    """Let calls on this machine leave their processes to the next one inside the block."""
    if _SPARE.get() is not None:
        yield
        return
    spare: list[_WorkerHandle] = []
    token = _SPARE.set(spare)
    try:
        yield
    finally:
        _SPARE.reset(token)
        _end(spare, patience=10)


def _end(hands: Collection[_WorkerHandle], patience: float) -> None:
    for hand in hands:
        hand.pipe.close()
    until = time.monotonic() + patience
    for hand in hands:
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


def _on_ray(
    ray: ModuleType,
    make_worker: bytes,
    tasks: Mapping[str, Any],
    jobs: int | None,
    address: str | None,
    gpus: float,
) -> Generator[tuple[str, Any], None, None]:
    """Yield results of `jobs` actors; one that dies is replaced and its task done again."""
    with _cluster(ray, address, jobs):
        kind = ray.remote(Worker).options(
            num_cpus=1, num_gpus=gpus, runtime_env=_actor_environment(address)
        )
        size = min(_free_workers(ray, jobs, gpus), len(tasks))
        actors = _Actors(ray, functools.partial(kind.remote, make_worker), size)
        try:
            yield from _gathered(actors, tasks)
        finally:
            actors.kill()


def _actor_environment(address: str | None) -> dict[str, Any]:
    """Return what actors run in."""
    environment: dict[str, Any] = {"env_vars": ONE_THREAD}
    # Ray hands the interpreter to a shell as it is, so that from a folder whose name has a
    # space no worker ever starts, and the run waits for ever.
    quoted = shlex.quote(sys.executable)
    if address is None and quoted != sys.executable:
        environment["py_executable"] = quoted
    return environment


class _Actors:
    """A crew of actors.

    One that Ray starts again is known by the old name, and fails the tasks that reach it before
    it is ready: a new one is started in place of each that is lost.
    """

    def __init__(self, ray: ModuleType, start: Callable[[], Any], size: int) -> None:
        self.size = size
        self._ray = ray
        self._start = start
        self._idle = [start() for _ in range(size)]
        self._busy: dict[Any, Any] = {}

    def send(self, task: bytes) -> Any:
        actor = self._idle.pop()
        answer = actor.perform.remote(task)
        self._busy[answer] = actor
        return answer

    def ready(self, sent: Iterable[Any]) -> list[Any]:
        return list(self._ray.wait(list(sent), num_returns=1)[0])

    def receive(self, sent: Any) -> bytes:
        actor = self._busy.pop(sent)
        known = self._ray.exceptions
        try:
            answer = bytes(self._ray.get(sent))
        except (known.RayActorError, known.WorkerCrashedError, known.OutOfMemoryError) as error:
            self._ray.kill(actor)  # where only the way to it is broken, it works on
            self._idle.append(self._start())
            raise WorkerLostError("perhaps for lack of memory; the logs of Ray say more") from error
        self._idle.append(actor)
        return answer

    def kill(self) -> None:
        for actor in [*self._idle, *self._busy.values()]:
            self._ray.kill(actor)


@contextlib.contextmanager
def _cluster(ray: ModuleType, address: str | None, jobs: int | None) -> Iterator[None]:
    """Connect to Ray, quietly; leave alone one that this process already uses."""
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"num_cpus": jobs, "include_dashboard": False}
    try:
        _probe_address(address or "")
        ray.init(address=address or "local", **options)
    # Ray raises a plain one, too, where a busy machine does not start it within half a minute.
    except Exception as error:
        raise UsageError(
            f"Ray at '{printable(address or 'local')}' cannot be used "
            f"({printable(str(error), 400)}); "
            "give the address of a running cluster (and RAY_AUTH_MODE=token in the environment if "
            "it requires a token), or none to start one on this machine"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _probe_address(address: str) -> None:
    """Raise an OSError if nobody listens: Ray would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _free_workers(ray: ModuleType, jobs: int | None, gpus: float) -> int:
    """Return the number of workers; one without a place would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(
        int(min(node.get("CPU", 0), node.get("GPU", 0) / gpus + 1e-9 if gpus else float("inf")))
        for node in nodes
    )
    if room < (jobs or 1):
        raise UsageError(
            f"Ray has room for {room} workers of 1 core and {gpus:g} GPUs, not for {jobs or 1}; "
            "request fewer jobs or GPUs, or add machines"
        )
    return jobs or room
