"""Run: a study from its spec to rows on disk, resumable."""

import contextlib
import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import filelock
import pandas as pd
import threadpoolctl  # type: ignore[import-untyped]

from bayescontam.calibration.audit import audits
from bayescontam.calibration.gates import FAILED, RERUN
from bayescontam.calibration.plan import Plan, plan_of
from bayescontam.calibration.replicate import Replicates
from bayescontam.calibration.rows import SHARDS, read_rows
from bayescontam.calibration.shards import Block, blocks_of, done_keys, write_shard
from bayescontam.errors import UsageError
from bayescontam.execute import run_tasks, usable_cores
from bayescontam.names import visible
from bayescontam.progress import progress_bar
from bayescontam.specs.catalogue import load_study, shipped_folder
from bayescontam.specs.study import StudySpec
from bayescontam.storage import atomic_path, write_text

FORMAT = 1
RECORD, COPY, LOCK = "study.json", "study.toml", ".lock"
"""Files of a run's folder, beside its shards."""
_PACKAGES = ("bayescontam", "pymc", "pytensor", "nutpie", "numpy", "scipy", "arviz", "pandas")


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
        """Return all rows; see `bayescontam.calibration.rows.read_rows`."""
        return read_rows(self.folder)


def run_study(
    study: StudySpec | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    replicates: int | None = None,
    base: str | os.PathLike[str] | None = None,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    block: int | None = None,
    progress: bool = False,
    command: str = "",
) -> StudyRun:
    """Simulate tables, fit them, and keep what the fits say; an interrupted run is taken up.

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
    base : path-like, optional
        Folder that paths of model specs start from. Default: the study's file's.
    engine : {"local", "ray"}, default "local"
        Worker processes on this machine, or actors of Ray.
    jobs : int, optional
        Workers. Default: one for each core.
    address : str, optional
        Ray cluster; default: one is started on this machine.
    block : int, optional
        Replicates that a worker does before it writes them to disk. Default: up to 25.
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
        If the folder holds another study or something else, or a number is out of range.
    TaskError
        If a replicate cannot be made at all; those that are done are kept.

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
        study = load_study(study)
    plan = plan_of(study, Path(base or "."))
    count = study.replicates if replicates is None else replicates
    for name, value in {"replicates": count, "block": 1 if block is None else block}.items():
        if not 1 <= value <= 1_000_000:
            raise UsageError(f"{name}: got {value:,}; allowed is 1 to 1,000,000")
    folder = Path(out)
    with _locked(folder):
        record = _started(folder, plan, count, command)
        workers = jobs or usable_cores()
        blocks = blocks_of(plan, count, done_keys(folder), workers, block)
        done = run_tasks(Stage(plan, folder), blocks, engine=engine, jobs=jobs, address=address)
        _collect(done, blocks, len(study.estimators), progress)
        return StudyRun(folder, _finished(folder, record))


@dataclass(frozen=True)
class Stage:
    """Tasks to shards: called once in a worker, then given one block after the other."""

    plan: Plan
    folder: Path

    def __call__(self) -> Callable[[Block], Counter[str]]:
        """Return the function of one task."""
        made: dict[int, Replicates] = {}

        def work(block: Block) -> Counter[str]:
            if block.cell not in made:
                made.clear()  # a worker goes from cell to cell, and models are large
                made[block.cell] = Replicates(self.plan, self.plan.cells[block.cell])
            # One local job runs in the caller's process, with the caller's threads.
            with threadpoolctl.threadpool_limits(1):
                rows = pd.concat(map(made[block.cell].rows, block.replicates), ignore_index=True)
            write_shard(block.path(self.folder, self.plan), rows)
            return statuses(rows)

        return work


def statuses(rows: pd.DataFrame) -> Counter[str]:
    """Return how many fits there are of each status, audits left out."""
    fits = rows[~rows["audit"]].drop_duplicates(["cell", "replicate", "estimator"])
    return Counter(fits["status"])


def _collect(
    results: Iterator[tuple[str, Counter[str]]],
    blocks: dict[str, Block],
    estimators: int,
    progress: bool,
) -> None:
    """Wait for all tasks, and show how far they are."""
    total, found = sum(len(block.replicates) for block in blocks.values()), Counter[str]()

    def note() -> str:
        return f"{found[FAILED]:,} failed, {found[RERUN]:,} run longer"

    shown = progress and total > 0
    with (
        progress_bar(shown, "fitting", total * estimators, "fits", note) as advance,
        contextlib.closing(results) as done,  # type: ignore[type-var]
    ):
        for key, counts in done:
            found.update(counts)
            advance(len(blocks[key].replicates) * estimators)


def _folder_of(study: str | os.PathLike[str]) -> Path:
    """Return the folder that a study's file lies in."""
    text = os.fspath(study)
    is_path = text.endswith(".toml") or os.sep in text or "/" in text
    return Path(text).parent if is_path else shipped_folder("studies")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, and clear it of what a killed one left half written."""
    name = visible(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = any(folder.iterdir()) and not (folder / LOCK).exists()
        if strange:
            raise UsageError(
                f"{name}: holds files, and no run of a study; --out needs a new or empty folder,"
                " or that of an interrupted run"
            )
        (folder / SHARDS).mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"{name}: cannot be used ({error.strerror}); choose another") from error
    lock = filelock.FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise UsageError(
            f"{name}: another run works in this folder; wait for it, stop it, or choose another"
        ) from None
    try:
        for place in (folder, folder / SHARDS):
            for leftover in place.glob(".*.part"):
                leftover.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``study.json``; None if there is none.

    Raises
    ------
    UsageError
        If it cannot be read.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {"hash": "", "runs": [], **content}
    except (OSError, ValueError, TypeError) as error:
        problem = f"{visible(str(path))}: cannot be read ({error}); choose another folder"
        raise UsageError(problem) from error


def _started(folder: Path, plan: Plan, replicates: int, command: str) -> dict[str, Any]:
    """Write what is planned; refuse a folder of another study."""
    before = read_record(folder)
    if before is not None and before["hash"] != plan.hash:
        raise UsageError(
            f"{visible(str(folder))}: holds a run of the study '{before.get('name')}'"
            f" ({before['hash'][:12]}), and this one is '{plan.study.name}' ({plan.hash[:12]});"
            " the study or a model spec that it names has changed: choose another folder"
        )
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    run = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": versions | {"python": platform.python_version()},
    }
    study = plan.study
    record = {
        "format": FORMAT,
        "name": study.name,
        "summary": study.summary,
        "hash": plan.hash,
        "replicates": max(replicates, before["replicates"] if before else 0),
        "cells": [cell.name for cell in plan.cells],
        "estimators": {
            each.name: {
                "kind": each.kind,
                "model": each.model,
                "hash": plan.specs[each.name].hash if each.name in plan.specs else "",
            }
            for each in study.estimators
        },
        "study": study.model_dump(mode="json"),
        "runs": [*(before["runs"] if before else []), run],
    }
    write_text(folder / COPY, study.text or json.dumps(record["study"], indent=1))
    _write(folder, record)
    return record


def _finished(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to the record what the rows amount to."""
    rows = read_rows(folder)
    compared = audits(rows)
    record = record | {
        "fits": dict(sorted(statuses(rows).items())),
        "audits": json.loads(compared.to_json(orient="records")),
    }
    _write(folder, record)
    return record


def _write(folder: Path, record: dict[str, Any]) -> None:
    with atomic_path(folder / RECORD) as part:
        part.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
