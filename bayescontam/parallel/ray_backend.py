"""Workers on a Ray cluster."""

import contextlib
import functools
import shlex
import socket
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.parallel.pool import ONE_THREAD, Worker, WorkerLostError, gather


def ray_pool(
    ray: ModuleType,
    make_worker: bytes,
    tasks: Mapping[str, Any],
    jobs: int | None,
    address: str | None,
    gpus: float,
) -> Generator[tuple[str, Any], None, None]:
    """Yield results of `jobs` actors; one that dies is replaced and its task done again."""
    with cluster(ray, address, jobs):
        kind = ray.remote(Worker).options(
            num_cpus=1, num_gpus=gpus, runtime_env=_environment(address)
        )
        size = min(_free_workers(ray, jobs, gpus), len(tasks))
        actors = _Actors(ray, functools.partial(kind.remote, make_worker), size)
        try:
            yield from gather(actors, tasks)
        finally:
            actors.kill()


def _environment(address: str | None) -> dict[str, Any]:
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

    ActorPool of Ray does not say which task an error belongs to. An actor that Ray starts
    again is known by the old name, and fails the tasks that reach it before it is ready.
    """

    tries = 3

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
def cluster(ray: ModuleType, address: str | None, jobs: int | None) -> Iterator[None]:
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
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
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
