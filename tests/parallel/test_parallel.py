"""Many tasks: every result once, whatever dies; and nothing left behind."""

import contextlib
import functools
import itertools
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bayescontam.errors import DataError, MissingExtraError, TaskError, UsageError
from bayescontam.parallel import run_tasks, shared_workers, usable_cores
from tests.support import workers
from tests.support.processes import noted, running, wait_for
from tests.support.ray_cluster import cluster

__all__ = ["cluster"]

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = {f"n{number}": number for number in range(7)}
SQUARES = {f"n{number}": number**2 for number in range(7)}
HOUR = 3600.0


class Endless(Mapping[str, int]):
    """A billion tasks, counting those that were taken."""

    taken = 0

    def __getitem__(self, key: str) -> int:
        self.taken += 1
        return int(key)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self)))

    def __len__(self) -> int:
        return 10**9


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run tasks on two workers; on Ray in a cluster that all tests share."""
    if request.param == "ray":
        request.getfixturevalue("cluster")
    return functools.partial(run_tasks, engine=request.param, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2, 3, None])
def test_results_are_those_of_a_plain_map(jobs: int | None) -> None:
    assert sorted(run_tasks(workers.squares, NUMBERS, jobs=jobs)) == sorted(SQUARES.items())
    assert multiprocessing.active_children() == []


def test_results_come_once_each(run: Callable[..., Any]) -> None:
    assert sorted(run(workers.squares, NUMBERS)) == sorted(SQUARES.items())


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_no_tasks_need_no_worker(engine: Any) -> None:
    assert list(run_tasks(workers.unmakeable, {}, engine=engine)) == []


def test_what_is_ready_first_comes_first(run: Callable[..., Any], tmp_path: Path) -> None:
    tasks = {"long": HOUR, "short": 0.0, "next": 0.0}
    with contextlib.closing(run(functools.partial(workers.noting, tmp_path), tasks)) as results:
        assert [key for key, _ in itertools.islice(results, 2)] == ["short", "next"]


def test_a_worker_is_made_once_in_each_process(run: Callable[..., Any], tmp_path: Path) -> None:
    tasks = {str(number): 0.05 for number in range(20)}
    pids = {pid for _, pid in run(functools.partial(workers.noting, tmp_path), tasks)}
    assert sorted(pids) == sorted(noted(tmp_path))
    assert len(pids) <= 2
    assert os.getpid() not in pids
    assert {path.read_text() for path in tmp_path.glob("*.pid")} == {"made\n"}


def test_one_job_stays_in_this_process(tmp_path: Path) -> None:
    make_worker = functools.partial(workers.noting, tmp_path)
    results = dict(run_tasks(make_worker, {"a": 0.0, "b": 0.0}, jobs=1))
    assert results == {"a": os.getpid(), "b": os.getpid()}
    assert [path.read_text() for path in tmp_path.iterdir()] == ["made\n"]


def test_there_are_no_more_workers_than_tasks(tmp_path: Path) -> None:
    make_worker = functools.partial(workers.noting, tmp_path)
    with contextlib.closing(run_tasks(make_worker, {"a": 0.0, "b": HOUR}, jobs=50)) as results:
        next(results)
        assert len(multiprocessing.active_children()) == 2


def test_nothing_starts_before_the_first_result_is_requested() -> None:
    run_tasks(workers.squares, NUMBERS, jobs=2)
    assert multiprocessing.active_children() == []


def test_tasks_are_taken_when_they_are_due() -> None:
    tasks = Endless()
    with contextlib.closing(run_tasks(workers.squares, tasks, jobs=2)) as results:
        assert len(list(itertools.islice(results, 10))) == 10
    assert 10 <= tasks.taken <= 13


def test_workers_have_one_thread_from_the_start(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    [(_, seen)] = run(workers.threads, {"a": ""})
    assert set(seen.values()) == {"1"}
    assert {f"{kind}_NUM_THREADS" for kind in ("OMP", "MKL", "OPENBLAS", "NUMBA")} <= set(seen)
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_killed_worker_is_replaced(run: Callable[..., Any], tmp_path: Path, deaths: int) -> None:
    tasks = {name: (name, 0) for name in "abcdefg"} | {"killer": ("killer", deaths)}
    results = list(run(functools.partial(workers.mortal, tmp_path), tasks))
    assert sorted(results) == sorted((key, key) for key in tasks)
    tries = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert tries == dict.fromkeys("abcdefg", 1) | {"killer": deaths + 1}


def test_a_task_that_kills_every_worker_is_named(run: Callable[..., Any], tmp_path: Path) -> None:
    tasks = {"a": ("a", 0), "b": ("b", 0), "killer": ("killer", 99), "c": ("c", 0)}
    message = r"^task 'killer': its worker was killed three times \(.*perhaps for lack of memory"
    message += r".*\); finished tasks are stored, so fix this and start again, perhaps with fewer"
    with pytest.raises(TaskError, match=message):
        list(run(functools.partial(workers.mortal, tmp_path), tasks))
    assert (tmp_path / "killer.tried").stat().st_size == 3
    assert multiprocessing.active_children() == []


def test_a_worker_that_ends_by_itself_is_a_killed_one() -> None:
    with pytest.raises(
        TaskError, match=r"killed three times \(exit code 7, see what it printed\); finished"
    ):
        list(run_tasks(workers.failing, {"a": "abort"}, jobs=2))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("value", r"^task 'k': ValueError: two\\nlines; finished tasks are stored, so fix this"),
        ("unreadable", r"^task 'k': (RuntimeError: )?Unreadable: lost in transit;"),
    ],
)
def test_an_error_names_its_task(jobs: int, how: str, message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        list(run_tasks(workers.failing, {"fine": "", "k": how, "later": ""}, jobs=jobs))
    cause = caught.value.__cause__
    assert isinstance(cause, (ValueError, RuntimeError, workers.Unreadable))
    notes = getattr(cause, "__notes__", [])
    assert len(notes) == (jobs == 2)
    assert all("in fail\n    raise " in note and "Worker" not in note[:9] for note in notes)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("value", r"^task 'k': ValueError: two\\nlines;"),
        ("exit", r"^task 'k': SystemExit: told to;"),
        ("lock", r"^task 'k': TypeError: cannot pickle '_thread\.lock' object;"),
        (lambda: None, r"^task 'k': .*<lambda>"),
    ],
)
def test_what_fails_elsewhere_names_its_task(
    run: Callable[..., Any], task: object, message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        list(run(workers.failing, {"k": task}))


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_this_package_comes_as_it_is(jobs: int) -> None:
    with pytest.raises(DataError, match=r"^a\.csv: row 3: is bad\nmend it$") as caught:
        list(run_tasks(workers.failing, {"k": "data"}, jobs=jobs))
    assert caught.value.advice == "mend it"


def test_a_worker_that_cannot_be_made_fails_its_first_task(run: Callable[..., Any]) -> None:
    with pytest.raises(TaskError, match=r"^task 'k': OSError: no such model;"):
        list(run(workers.unmakeable, {"k": ""}))


def test_closing_early_kills_what_runs(run: Callable[..., Any], tmp_path: Path) -> None:
    tasks = {"a": 0.0, "b": HOUR, "c": HOUR, "d": 0.0}
    results = run(functools.partial(workers.noting, tmp_path), tasks)
    assert next(results)[0] == "a"
    results.close()
    assert multiprocessing.active_children() == []
    assert wait_for(lambda: not any(map(running, noted(tmp_path))))


def test_calls_share_processes_that_have_no_task(tmp_path: Path) -> None:
    noting, mortal = (functools.partial(f, tmp_path) for f in (workers.noting, workers.mortal))
    tasks = {str(number): 0.05 for number in range(6)}
    with shared_workers("local"):
        assert multiprocessing.active_children() == []
        first = {pid for _, pid in run_tasks(noting, {"a": 0.0}, jobs=2)}
        both = {pid for _, pid in run_tasks(noting, tasks, jobs=2)}
        assert first < both
        with shared_workers("local"):
            # Other tasks come to the same processes, and one that is lost is replaced.
            assert dict(run_tasks(workers.squares, {"a": 7, "b": 8}, jobs=2)) == {"a": 49, "b": 64}
            assert dict(run_tasks(mortal, {"k": ("k", 1)}, jobs=2)) == {"k": "k"}
        left = {process.pid for process in multiprocessing.active_children()}
        assert len(left & both) == 1
        assert {pid for _, pid in run_tasks(noting, tasks, jobs=2)} == left
        with pytest.raises(TaskError, match="ValueError"):
            list(run_tasks(workers.failing, {"fine": "", "k": "value", "later": ""}, jobs=2))
        # Those of a call that failed may be at work still.
        assert multiprocessing.active_children() == []
    assert multiprocessing.active_children() == []


def test_processes_that_died_between_two_calls_are_replaced() -> None:
    with shared_workers("local"):
        assert len(list(run_tasks(workers.squares, NUMBERS, jobs=2))) == len(NUMBERS)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        assert sorted(run_tasks(workers.squares, NUMBERS, jobs=2)) == sorted(SQUARES.items())
    assert multiprocessing.active_children() == []


def test_closing_while_large_results_are_on_their_way() -> None:
    # A pool that reads all results from one pipe waits for the rest of one for ever.
    tasks = dict.fromkeys(map(str, range(20)), 30_000_000)
    for taken in (1, 2, 3):
        with contextlib.closing(run_tasks(workers.large, tasks, jobs=2)) as results:
            assert len(list(itertools.islice(results, taken))) == taken
        assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "rya"}, "^engine is 'rya'; choose 'local' or 'ray'$"),
        ({"jobs": 0}, "^jobs is 0; give 1 or more, or leave it out to use every core$"),
        ({"address": "auto"}, "^address and gpus are for Ray; choose the engine 'ray'"),
        ({"gpus": 1}, "^address and gpus are for Ray"),
        ({"engine": "ray", "gpus": -1}, "^gpus is -1; give 0, a fraction up to 1, or a whole"),
        ({"engine": "ray", "gpus": 1.5}, "^gpus is 1.5; give 0"),
        ({"engine": "ray", "gpus": math.nan}, "^gpus is nan; give 0"),
        ({"engine": "ray", "gpus": math.inf}, "^gpus is inf; give 0"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_tasks(workers.squares, NUMBERS, **options)


def test_a_worker_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^make_worker cannot be sent .*; give a function at the"):
        run_tasks(lambda: workers.fail, {"a": "", "b": ""}, jobs=2)


def test_usable_cores_are_those_of_this_process() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.ray
def test_ray_starts_workers_from_a_folder_whose_name_has_a_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    (tmp_path / "a folder").symlink_to(sys.prefix)
    python = tmp_path / "a folder" / Path(sys.executable).relative_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", str(python))
    results = dict(run_tasks(workers.squares, NUMBERS, engine="ray", jobs=1))
    assert results == {key: number**2 for key, number in NUMBERS.items()}


def test_ray_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[ray\]'"):
        run_tasks(workers.squares, NUMBERS, engine="ray")


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 3}, "^Ray has room for 2 workers of 1 core and 0 GPUs, not for 3; request"),
        ({"gpus": 2000}, "^Ray has room for 0 workers of 1 core and 2000 GPUs, not for 1; request"),
    ],
)
def test_ray_has_to_have_room(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        next(run_tasks(workers.squares, NUMBERS, engine="ray", **options))


def test_ray_that_does_not_start_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    problem = "The current node timed out during startup."

    def busy(**_: Any) -> None:
        raise Exception(problem)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # the other tests may share one
    monkeypatch.setattr(ray, "init", busy)
    with pytest.raises(UsageError, match=rf"^Ray at 'local' cannot be used \({problem}\)"):
        next(run_tasks(workers.squares, NUMBERS, engine="ray"))


@pytest.mark.ray
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"^Ray at '127\.0\.0\.1:1' cannot be used \(.*refused\); give the address"),
        ("ray://127.0.0.1:1", r"^Ray at 'ray://127\.0\.0\.1:1' cannot be used \(.*refused\)"),
        ("127.0.0.1:99999", "^Ray at '127.0.0.1:99999' cannot be used "),
        ("nonsense", "^Ray at 'nonsense' cannot be used "),
        ("foo://x", "^Ray at 'foo://x' cannot be used "),
    ],
)
def test_a_cluster_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, address: str, message: str
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # the other tests may share one
    with pytest.raises(UsageError, match=message):
        next(run_tasks(workers.squares, NUMBERS, engine="ray", address=address))


@pytest.mark.ray
def test_ray_starts_and_stops_without_a_word() -> None:
    pytest.importorskip("ray")
    code = """
import ray
from bayescontam.parallel import run_tasks
from tests.support import workers
tasks = {str(number): number for number in range(9)}
results = dict(run_tasks(workers.squares, tasks, engine="ray", jobs=2))
assert results == {str(number): number**2 for number in range(9)}, results
assert not ray.is_initialized()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
