"""Run a study from its spec to rows on disk, resumably."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import threadpoolctl  # type: ignore[import-untyped]

from bayescontam._progress import progress_bar
from bayescontam._runs import claimed_folder
from bayescontam._text import printable
from bayescontam.calibration.replicate import ReplicateRunner
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.samplers import require_engine
from bayescontam.calibration.storage import (
    COPY,
    FAILED,
    MOST,
    RECORD,
    RERUN,
    SHARDS,
    Shards,
    StudyTask,
    done_keys,
    finish_record,
    hash_of,
    read_rows,
    start_record,
    statuses,
    tasks_of,
)
from bayescontam.calibration.study import Plan, plan_of
from bayescontam.errors import Fault, SpecError, UsageError
from bayescontam.parallel import ray_cluster, run_tasks
from bayescontam.specs.registry import load_study, shipped_folder
from bayescontam.specs.study import ReproductionSpec, StudySpec

_HALF_WRITTEN = (f".{RECORD}.*.part", f".{COPY}.*.part", f"{SHARDS}/.*.part")
"""What a killed run leaves; tables and pages are left out, as a report may be writing them."""


@dataclass(frozen=True)
class StudyRun:
    """A run of a study: its folder.

    Attributes
    ----------
    folder : pathlib.Path
    record : dict
        Content of ``study.json``: ``name``, ``summary``, ``hash``, ``replicates``, ``cells``,
        ``estimators``, ``versions``, ``runs`` (one entry for each time it was started) and,
        of a finished run, ``fits`` and ``audits``.
    """

    folder: Path
    record: dict[str, Any]

    def rows(self) -> pd.DataFrame:
        """Return all rows; see `bayescontam.calibration.storage.read_rows`."""
        return read_rows(self.folder)

    def results(self) -> StudyResults:
        """Return what follows from the rows: coverage, tests of ranks, audits.

        Returns
        -------
        StudyResults

        Raises
        ------
        UsageError
            If a file of the folder cannot be read.
        """
        return StudyResults.load(self.folder)


def run_study(
    study: StudySpec | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    replicates: int | None = None,
    full: bool = False,
    base: str | os.PathLike[str] | None = None,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    block: int = MOST,
    progress: bool = False,
    command: str = "",
) -> StudyRun:
    """Simulate tables, fit them, and keep what the fits say; an interrupted run is resumed.

    Parameters
    ----------
    study : StudySpec, str or path-like
        Study, the name of a shipped one, or the path of a TOML file.
    out : path-like
        Folder to write to; made if need be. If it holds a part of this study, only the rest
        is done.
    replicates : int, optional
        Simulated tables of each cell. Default: what the study says. More than last time
        adds to them.
    full : bool, default False
        Whether to run the study's larger size, if it has one.
    base : path-like, optional
        Folder that paths of model specs and fits start from. Default: the study's file's.
    engine : {"local", "ray"}, default "local"
        Worker processes on this machine, or actors of Ray.
    jobs : int, optional
        Workers. Default: one for each core.
    address : str, optional
        Ray cluster; default: one is started on this machine.
    block : int, default 25
        Replicates of a cell that are written to disk together; fewer after 20 seconds, or
        if their fits took as long together.
    progress : bool, default False
        Whether to show progress: fits a second, failures, time left.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    StudyRun

    Raises
    ------
    SpecError
        If there is no such study, or it cannot be used.
    UsageError
        If the folder holds another study or something else, or a number is out of range, or
        nothing can be simulated from the study's fit, or there is no full size.
    FitError
        If the study's fit does not exist.
    MissingExtraError
        If the study's engine, or Ray, is not installed.
    TaskError
        If a replicate cannot be made at all; those that are done are stored.

    Notes
    -----
    A replicate's rows depend on the study and its model specs, its cell and its number,
    and on nothing else: not on workers, blocks, or interruptions.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.run_study("recovry", "out")
    Traceback (most recent call last):
        ...
    bayescontam.errors.SpecError: study 'recovry': no such study (did you mean 'recovery'?)
    ...
    """
    if not isinstance(study, StudySpec):
        base = _folder_of(study) if base is None else base
        study = _simulation(load_study(study))
    plan = plan_of(study, Path(base or "."))
    if full and replicates is not None:
        raise UsageError("full and replicates both say how many replicates there are; give one")
    count = study.count(full) if replicates is None else replicates
    _check(plan, count, block)
    folder = Path(out)
    claimed = claimed_folder(
        folder, "run", "run of this study", lambda: hash_of(folder) == plan.hash, _HALF_WRITTEN
    )
    # What does not work is reported before anything is made.
    with ray_cluster(engine, address, jobs), claimed:
        (folder / SHARDS).mkdir(exist_ok=True)
        tasks = tasks_of(plan, count, done_keys(folder))
        record = start_record(folder, plan, count, command)
        _check_cells(plan, tasks, progress)
        done = run_tasks(Stage(plan), tasks, engine=engine, jobs=jobs, address=address)
        shards = Shards(folder, plan, block)
        _collect(done, tasks, shards, len(study.estimators), progress)
        return StudyRun(folder, finish_record(folder, record))


def _check(plan: Plan, replicates: int, block: int) -> None:
    if plan.specs:
        require_engine(plan.study.sampling.engine)
    for name, value in {"replicates": replicates, "block": block}.items():
        if not 1 <= value <= 1_000_000:
            raise UsageError(f"{name}: got {value:,}; allowed is 1 to 1,000,000")
    if plan.fit is not None and replicates > plan.fit.draws:
        raise UsageError(
            f"replicates: got {replicates:,}; {printable(str(plan.fit.path))} has"
            f" {plan.fit.draws:,} nearly independent draws, one for each replicate: request fewer,"
            " or make the fit again with more draws"
        )


def _check_cells(plan: Plan, tasks: dict[str, StudyTask], progress: bool) -> None:
    """Refuse what is wrong in any cell before hours are spent on the others."""
    cells = sorted({task.cell for task in tasks.values()})
    shown = progress and bool(cells)
    with progress_bar(shown, "checking", len(cells), "cells") as advance:
        for cell in cells:
            ReplicateRunner(plan, plan.cells[cell]).check()
            advance(1)


@dataclass(frozen=True)
class Stage:
    """Tasks to rows: called once in a worker, then given one replicate after the other."""

    plan: Plan

    def __call__(self) -> Callable[[StudyTask], pd.DataFrame]:
        """Return the function of one task."""
        made: dict[int, ReplicateRunner] = {}

        def work(task: StudyTask) -> pd.DataFrame:
            if task.cell not in made:
                made.clear()  # a worker goes from cell to cell, and models are large
                made[task.cell] = ReplicateRunner(self.plan, self.plan.cells[task.cell])
            # One local job runs in the caller's process, with the caller's threads.
            with threadpoolctl.threadpool_limits(1):
                return made[task.cell].rows(task.replicate)

        return work


def _collect(
    results: Iterator[tuple[str, pd.DataFrame]],
    tasks: dict[str, StudyTask],
    shards: Shards,
    estimators: int,
    progress: bool,
) -> None:
    """Wait for all tasks, keep their rows, and show how far they are."""
    found = Counter[str]()

    def note() -> str:
        return f"{found[FAILED]:,} failed, {found[RERUN]:,} run longer"

    total = len(tasks) * estimators
    with (
        shards,
        progress_bar(progress and total > 0, "fitting", total, "fits", note) as advance,
        contextlib.closing(results) as done,  # type: ignore[type-var]
    ):
        for key, rows in done:
            shards.add(tasks[key], rows)
            found.update(statuses(rows))
            advance(estimators)


def _simulation(study: StudySpec | ReproductionSpec) -> StudySpec:
    if isinstance(study, StudySpec):
        return study
    problem = "is the reproduction of a published study; run it with: bayescontam study run"
    raise SpecError([Fault(f"study '{study.name}'", problem)])


def _folder_of(study: str | os.PathLike[str]) -> Path:
    """Return the folder that a study's file lies in."""
    text = os.fspath(study)
    is_path = text.endswith(".toml") or os.sep in text or "/" in text
    return Path(text).parent if is_path else shipped_folder("studies")
