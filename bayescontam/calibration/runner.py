"""Run a study: each simulated table fitted by every estimator, and its rows on disk, resumably."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import threadpoolctl  # type: ignore[import-untyped]

from bayescontam._progress import progress_bar
from bayescontam._runs import claimed_folder
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.calibration import storage
from bayescontam.calibration.estimators import (
    Sampler,
    engine_of,
    faults_of,
    lengthen,
    require_engine,
)
from bayescontam.calibration.quantities import Key, label_of, measure, validate_reference
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import rank_of
from bayescontam.calibration.simulators import (
    NOMINAL,
    Simulate,
    Simulated,
    quantities_of,
    simulator_of,
)
from bayescontam.calibration.study import Cell, Plan, plan_of
from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError, DataError, Fault, SpecError, UsageError
from bayescontam.inference.bootstrap import QUANTITIES, resample
from bayescontam.inference.convergence import convergence
from bayescontam.inference.posterior import draw_contamination, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.parallel import run_tasks, shared_workers
from bayescontam.specs.registry import load_study, shipped_folder
from bayescontam.specs.study import Estimator, SamplingSpec, StudySpec

SECOND = {"nutpie": "pymc", "jax": "pymc", "pymc": "nutpie"}
"""Engine that audits another. One of each two is PyMC, which is held against the model that is
built for the table alone, so that what engines share is audited too."""
_HALF_WRITTEN = (
    f".{storage.RECORD}.*.part",
    f".{storage.COPY}.*.part",
    f"{storage.SHARDS}/.*.part",
)
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
        return storage.read_rows(self.folder)

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
    block: int = storage.MOST,
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
        text, found = os.fspath(study), load_study(study)
        if not isinstance(found, StudySpec):
            problem = "is the reproduction of a published study; run it with: bayescontam study run"
            raise SpecError([Fault(f"study '{found.name}'", problem)])
        study = found
        is_path = text.endswith(".toml") or os.sep in text or "/" in text
        if base is None:
            base = Path(text).parent if is_path else shipped_folder("studies")
    plan = plan_of(study, Path(base or "."))
    if full and replicates is not None:
        raise UsageError("full and replicates both say how many replicates there are; give one")
    count = study.count(full) if replicates is None else replicates
    _check(plan, count, block)
    folder, estimators = Path(out), len(study.estimators)
    claimed = claimed_folder(
        folder,
        "run",
        "run of this study",
        lambda: storage.hash_of(folder) == plan.hash,
        _HALF_WRITTEN,
    )
    counts = Counter[str]()

    def note() -> str:
        return f"{counts[storage.FAILED]:,} failed, {counts[storage.RERUN]:,} run longer"

    # What does not work is reported before anything is made.
    with shared_workers(engine, address, jobs), claimed:
        (folder / storage.SHARDS).mkdir(exist_ok=True)
        tasks = storage.tasks_of(plan, count, storage.done_keys(folder))
        record = storage.start_record(folder, plan, count, command)
        _check_cells(plan, tasks, progress)
        results = run_tasks(
            partial(_worker, plan), tasks, engine=engine, jobs=jobs, address=address
        )
        total = len(tasks) * estimators
        with (
            storage.Shards(folder, plan, block) as shards,
            progress_bar(progress and total > 0, "fitting", total, "fits", note) as advance,
            contextlib.closing(results) as done,
        ):
            for key, rows in done:
                shards.add(tasks[key], rows)
                counts.update(storage.statuses(rows))
                advance(estimators)
        return StudyRun(folder, storage.finish_record(folder, record))


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


def _check_cells(plan: Plan, tasks: Mapping[str, storage.StudyTask], progress: bool) -> None:
    """Refuse what is wrong in any cell before hours are spent on the others."""
    cells = sorted({task.cell for task in tasks.values()})
    shown = progress and bool(cells)
    with progress_bar(shown, "checking", len(cells), "cells") as advance:
        for cell in cells:
            ReplicateRunner(plan, plan.cells[cell]).check()
            advance(1)


def _worker(plan: Plan) -> Callable[[storage.StudyTask], pd.DataFrame]:
    """Return, in a worker, the function that makes the rows of one replicate after the other."""
    made: dict[int, ReplicateRunner] = {}

    def work(task: storage.StudyTask) -> pd.DataFrame:
        if task.cell not in made:
            made.clear()  # a worker goes from cell to cell, and models are large
            made[task.cell] = ReplicateRunner(plan, plan.cells[task.cell])
        # One local job runs in the caller's process, with the caller's threads.
        with threadpoolctl.threadpool_limits(1):
            return made[task.cell].rows(task.replicate)

    return work


class ReplicateRunner:
    """Makes the rows of a cell's replicates; what is compiled for the cell is stored."""

    def __init__(self, plan: Plan, cell: Cell) -> None:
        self.plan, self.cell = plan, cell
        self._engines: dict[tuple[str, str], Sampler] = {}

    @cached_property
    def _simulate(self) -> Simulate:
        simulate = simulator_of(self.plan, self.cell)
        if simulate.design is not None:
            first = simulate("first").responses
            for estimator in self.plan.study.estimators:
                with self._fitted_by(estimator):
                    validate_reference(self.plan, simulate.design, estimator, first)
        return simulate

    def check(self) -> None:
        """Refuse what the cell's first table shows to be wrong, without a fit."""
        made = self._simulate("first")
        for estimator in self.plan.study.estimators:
            self._wanted(made, self._reportable(made, estimator), estimator)

    def _reportable(self, made: Simulated, estimator: Estimator) -> set[Key]:
        """Return what an estimator can report of a table, without a fit."""
        responses = _given(estimator, made.responses)
        if estimator.kind == "bootstrap":
            pairs = responses.frame[["model", "benchmark"]].drop_duplicates().to_numpy()
            return {(name, label_of(pair)) for name in QUANTITIES for pair in pairs}
        with self._fitted_by(estimator):
            return set(quantities_of(self.plan.specs[estimator.name], responses, self.plan))

    @contextlib.contextmanager
    def _fitted_by(self, estimator: Estimator) -> Iterator[None]:
        """Report what a model spec lacks of a simulated table, to which nobody can add a column."""
        try:
            yield
        except DataError as error:
            problem = f"the estimator '{estimator.name}' cannot be fitted to these tables: {error}"
            raise SpecError([Fault(self.plan.source, problem, column="estimators")]) from error

    def rows(self, replicate: int) -> pd.DataFrame:
        """Return the rows of a replicate."""
        made, study = self._simulate(replicate), self.plan.study
        audited = self._stream(replicate, "audit").random() < study.audit
        parts = []
        for estimator in study.estimators:
            if estimator.kind == "bootstrap":
                parts.append(self._fit(made, replicate, estimator, None))
                continue
            engine = self._engine(estimator, study.sampling.engine)
            parts.append(self._fit(made, replicate, estimator, engine))
            if audited:
                second = self._engine(estimator, SECOND[engine.name])
                parts.append(self._fit(made, replicate, estimator, second).assign(audit=True))
        return pd.concat(parts, ignore_index=True)[list(storage.COLUMNS)]

    def _stream(self, replicate: int, *purpose: str) -> np.random.Generator:
        return self.plan.stream(self.cell.name, replicate, *purpose)

    def _engine(self, estimator: Estimator, name: str) -> Sampler:
        """Return an engine for an estimator, compiled with a table of the cell's own."""
        key = estimator.name, name
        if key not in self._engines:
            simulator = self.cell.simulator
            moving = simulator.kind == "published" and simulator.fresh
            first = _given(estimator, self._simulate("first").responses)
            spec = self.plan.specs[estimator.name]
            self._engines[key] = engine_of(spec, name, first, moving)
        return self._engines[key]

    def _fit(
        self, made: Simulated, replicate: int, estimator: Estimator, engine: Sampler | None
    ) -> pd.DataFrame:
        """Fit once and, if that does not pass the gates, once more and for longer."""
        started, sampling = time.perf_counter(), self.plan.study.sampling
        status, reason, ties = storage.PASSED, "", None
        if engine is None:
            rng = self._stream(replicate, "fit", estimator.name)
            found = resample(made.responses.frame, rng, resamples=estimator.resamples)
            drawn = {(name, label_of(pair)): values for (name, *pair), values in found.items()}
            keys = self._wanted(made, set(drawn), estimator)
            fit = _Fit(keys, np.stack([drawn[key] for key in keys], axis=-1)[None])
        else:
            ties = self._stream(replicate, "ties", estimator.name)
            fit = self._try(made, replicate, estimator, engine, sampling)
            if fit.faults:
                reason = "; ".join(fit.faults)
                fit = self._try(made, replicate, estimator, engine, lengthen(sampling))
                status = storage.FAILED if fit.faults else storage.RERUN
            if status == storage.FAILED:
                reason = f"{reason}; then, for longer: {'; '.join(fit.faults)}"
        return fit.table(made.truth, ties).assign(
            cell=self.cell.name,
            replicate=replicate,
            estimator=estimator.name,
            status=status,
            reason=reason,
            engine="bootstrap" if engine is None else engine.name,
            seconds=time.perf_counter() - started,
            audit=False,
        )

    def _try(
        self,
        made: Simulated,
        replicate: int,
        estimator: Estimator,
        engine: Sampler,
        sampling: SamplingSpec,
    ) -> "_Fit":
        rng = self._stream(replicate, "fit", estimator.name, f"{sampling.draws}")
        seed = int(rng.integers(2**31))
        try:
            drawn = engine.draw(_given(estimator, made.responses), seed, sampling)
        except BayescontamError:
            raise
        except (RuntimeError, ArithmeticError, np.linalg.LinAlgError) as error:
            # What a sampler cannot do with one table is a result of the study.
            text = " ".join(str(error).split())[:200]
            keys = self._wanted(made, self._reportable(made, estimator), estimator)
            return _Fit(keys, np.full((1, 2, len(keys)), np.nan), faults=(f"no draws: {text}",))
        draws = stack_draws(drawn.posterior, drawn.built.design)
        draws, _ = draw_contamination(with_own_effects(draws, drawn.built, rng), drawn.built, rng)
        found = measure(drawn.posterior, draws, drawn.built, self.plan)
        keys = self._wanted(made, set(found.keys), estimator)
        values = found.part(keys)
        figures = convergence(values, only=("mcse_mean", "ess_bulk", "r_hat"))
        # Where a user's formula has no value, more draws would not give it one.
        formula = np.array([name in self.plan.study.expressions for name, _ in keys])
        idle = formula & ~np.isfinite(values).all(axis=(0, 1))
        ess, rhat = (np.where(idle, np.nan, figures[name]) for name in ("ess_bulk", "r_hat"))
        faults = faults_of(keys, ess, rhat, drawn.diverged, self.plan.study.gates)
        return _Fit(keys, values, figures, tuple(faults))

    def _wanted(self, made: Simulated, found: set[Key], estimator: Estimator) -> list[Key]:
        """Return which of an estimator's quantities have a truth."""
        keys = sorted({_estimate(key) for key in made.truth} & found)
        if not keys:
            problem = f"the estimator '{estimator.name}' has none of the quantities requested"
            raise SpecError([Fault(self.plan.source, problem, column="quantities")])
        return keys


@dataclass(frozen=True, eq=False)
class _Fit:
    """One try: draws of the quantities that have a truth, and what is wrong with them."""

    keys: list[Key]
    values: FloatArray  # dims (chain, draw, key); NaN where nothing could be drawn
    # `mcse_mean`, `ess_bulk` and `r_hat`, dims (key,); None of resamples, and without draws
    figures: Mapping[str, FloatArray] | None = None
    faults: tuple[str, ...] = ()

    def table(self, truth: Mapping[Key, float], ties: np.random.Generator | None) -> pd.DataFrame:
        """Return a row for every quantity that has a truth, ranked if ties can be broken."""
        position = {key: i for i, key in enumerate(self.keys)}
        none = np.full(len(self.keys), np.nan)
        figures = self.figures or dict.fromkeys(("mcse_mean", "ess_bulk", "r_hat"), none)
        rows = []
        for key in (key for key in sorted(truth) if _estimate(key) in position):
            at = position[_estimate(key)]
            flat = self.values[..., at].ravel()
            mcse, ess, rhat = (figures[name][at] for name in ("mcse_mean", "ess_bulk", "r_hat"))
            rank, ranks = (-1, 0) if ties is None else rank_of(truth[key], flat, ess, ties)
            row = {"quantity": key[0], "where": key[1], "truth": truth[key], "mcse": mcse}
            row |= {"ess": ess, "rhat": rhat, "rank": rank, "ranks": ranks}
            with np.errstate(invalid="ignore"):
                row |= {"mean": flat.mean(), "sd": flat.std(ddof=1), **storage.intervals(flat)}
            rows.append(row)
        return pd.DataFrame(rows)


def _given(estimator: Estimator, responses: Responses) -> Responses:
    """Return what an estimator is given of a table."""
    if not estimator.reversed:
        return responses
    frame = responses.frame
    return replace(responses, frame=frame.assign(contamination=1 - frame["contamination"]))


def _estimate(key: Key) -> Key:
    """Return the key of the estimate that is held against a truth."""
    return key[0].removesuffix(NOMINAL), key[1]
