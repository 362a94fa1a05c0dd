"""One simulated table, fitted by every estimator, as rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.calibration.bootstrap import QUANTITIES, bootstrap_rows
from bayescontam.calibration.quantities import Key, measure, validate_reference
from bayescontam.calibration.reusable_model import SampledDraws
from bayescontam.calibration.samplers import Sampler, engine_of, lengthen
from bayescontam.calibration.sbc import rank_of
from bayescontam.calibration.simulators import (
    NOMINAL,
    Simulate,
    Simulated,
    quantities_of,
    simulator_of,
)
from bayescontam.calibration.storage import (
    COLUMNS,
    FAILED,
    PASSED,
    RERUN,
    faults_of,
    intervals,
)
from bayescontam.calibration.study import Cell, Plan
from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError, DataError, Fault, SpecError
from bayescontam.inference.posterior import draw_contamination, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.summary import convergence
from bayescontam.specs.study import Estimator, SamplingSpec

SECOND = {"nutpie": "pymc", "jax": "pymc", "pymc": "nutpie"}
"""Engine that audits another. One of each two is PyMC, which is held against the model that is
built for the table alone, so that what engines share is audited too."""


class ReplicateRunner:
    """Makes the rows of a cell's replicates.

    What is compiled for a cell is stored, and depends on the cell alone.
    """

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
            wanted = {_estimate(key) for key in made.truth}
            self._refuse_none(sorted(wanted & self._reportable(made, estimator)), estimator.name)

    def _reportable(self, made: Simulated, estimator: Estimator) -> set[Key]:
        """Return what an estimator can report of a table, without a fit."""
        responses = _given(estimator, made.responses)
        if estimator.kind == "bootstrap":
            pairs = responses.frame[["model", "benchmark"]].drop_duplicates().to_numpy()
            return {(name, f"{model} | {of}") for name in QUANTITIES for model, of in pairs}
        with self._fitted_by(estimator):
            return set(quantities_of(self.plan.specs[estimator.name], responses, self.plan))

    @contextmanager
    def _fitted_by(self, estimator: Estimator) -> Iterator[None]:
        """Report what a model spec lacks of a simulated table, to which nobody can add a column."""
        try:
            yield
        except DataError as error:
            problem = f"the estimator '{estimator.name}' cannot be fitted to these tables: {error}"
            raise SpecError([Fault(self.plan.source, problem, column="estimators")]) from error

    def rows(self, replicate: int) -> pd.DataFrame:
        """Return the rows of a replicate."""
        made = self._simulate(replicate)
        audited = self._stream(replicate, "audit").random() < self.plan.study.audit
        parts = []
        for estimator in self.plan.study.estimators:
            if estimator.kind == "bootstrap":
                parts.append(self._bootstrap(made, replicate, estimator))
                continue
            engine = self._engine(estimator, self.plan.study.sampling.engine)
            parts.append(self._fit(made, replicate, estimator, engine))
            if audited:
                second = self._engine(estimator, SECOND[engine.name])
                audit = self._fit(made, replicate, estimator, second)
                parts.append(audit.assign(audit=True))
        return pd.concat(parts, ignore_index=True)[list(COLUMNS)]

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
        self, made: Simulated, replicate: int, estimator: Estimator, engine: Sampler
    ) -> pd.DataFrame:
        """Fit once and, if that does not pass the gates, once more and for longer."""
        started, sampling = time.perf_counter(), self.plan.study.sampling
        rng = self._stream(replicate, "ties", estimator.name)
        first = self._try(made, replicate, estimator, engine, sampling)
        last, status = first, PASSED
        if first.faults:
            last = self._try(made, replicate, estimator, engine, lengthen(sampling))
            status = FAILED if last.faults else RERUN
        table = last.table(made.truth, rng)
        reason = "; ".join(first.faults)
        if status == FAILED:
            reason = f"{reason}; then, for longer: {'; '.join(last.faults)}"
        return table.assign(
            cell=self.cell.name,
            replicate=replicate,
            estimator=estimator.name,
            status=status,
            reason=reason,
            engine=engine.name,
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
        stream = self._stream(replicate, "fit", estimator.name, f"{sampling.draws}")
        seed = int(stream.integers(2**31))
        try:
            drawn = engine.draw(_given(estimator, made.responses), seed, sampling)
        except BayescontamError:
            raise
        except (RuntimeError, ArithmeticError, np.linalg.LinAlgError) as error:
            # What a sampler cannot do with one table is a result of the study.
            text = " ".join(str(error).split())[:200]
            keys = self._wanted(made, self._reportable(made, estimator), estimator.name)
            none = np.full(len(keys), np.nan)
            return _Fit(keys, np.tile(none, (1, 2, 1)), none, none, none, [f"no draws: {text}"])
        return self._judged(drawn, made, estimator.name, stream)

    def _judged(
        self, drawn: SampledDraws, made: Simulated, name: str, rng: np.random.Generator
    ) -> "_Fit":
        draws = stack_draws(drawn.posterior, drawn.built.design)
        draws, _ = draw_contamination(with_own_effects(draws, drawn.built, rng), drawn.built, rng)
        found = measure(drawn.posterior, draws, drawn.built, self.plan)
        keys = self._wanted(made, set(found.keys), name)
        values = found.part(keys)
        figures = convergence(values, only=("mcse_mean", "ess_bulk", "r_hat"))
        ess, rhat = figures["ess_bulk"], figures["r_hat"]
        # Where a user's formula has no value, more draws would not give it one.
        formula = np.array([name in self.plan.study.expressions for name, _ in keys])
        idle = formula & ~np.isfinite(values).all(axis=(0, 1))
        tested = [np.where(idle, np.nan, figure) for figure in (ess, rhat)]
        faults = faults_of(keys, tested[0], tested[1], drawn.diverged, self.plan.study.gates)
        return _Fit(keys, values, figures["mcse_mean"], ess, rhat, faults)

    def _wanted(self, made: Simulated, found: set[Key], name: str) -> list[Key]:
        """Return which of an estimator's quantities have a truth."""
        keys = sorted({_estimate(key) for key in made.truth} & found)
        self._refuse_none(keys, name)
        return keys

    def _refuse_none(self, keys: list[Key], name: str) -> None:
        if not keys:
            problem = f"the estimator '{name}' has none of the quantities requested"
            raise SpecError([Fault(self.plan.source, problem, column="quantities")])

    def _bootstrap(self, made: Simulated, replicate: int, estimator: Estimator) -> pd.DataFrame:
        started = time.perf_counter()
        rng = self._stream(replicate, "fit", estimator.name)
        found = bootstrap_rows(made.responses.frame, rng, resamples=estimator.resamples)
        estimate = found.set_index(["quantity", "where"]).drop(columns="truth")
        keys = [key for key in made.truth if _estimate(key) in estimate.index]
        self._refuse_none(keys, estimator.name)
        table = estimate.loc[[_estimate(key) for key in keys]].reset_index(drop=True)
        return _named(table, keys, made.truth).assign(
            cell=self.cell.name,
            replicate=replicate,
            estimator=estimator.name,
            seconds=time.perf_counter() - started,
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """One try: draws of the quantities that have a truth, and what is wrong with them."""

    keys: list[Key]
    values: FloatArray  # dims (chain, draw, key); NaN where nothing could be drawn
    # mcse, ess, rhat: dims (key,)
    mcse: FloatArray
    ess: FloatArray
    rhat: FloatArray
    faults: list[str]

    def table(self, truth: Any, rng: np.random.Generator) -> pd.DataFrame:
        """Return a row for every quantity that has a truth, in a fixed order."""
        position = {key: i for i, key in enumerate(self.keys)}
        keys = [key for key in sorted(truth) if _estimate(key) in position]
        rows = [self._row(position[_estimate(key)], truth[key], rng) for key in keys]
        return _named(pd.DataFrame(rows), keys, truth)

    def _row(self, at: int, truth: float, rng: np.random.Generator) -> dict[str, Any]:
        flat = self.values[..., at].ravel()
        with np.errstate(invalid="ignore"):
            figures = {"mean": flat.mean(), "sd": flat.std(ddof=1)}
            bounds = intervals(flat)
        rank, ranks = rank_of(truth, flat, self.ess[at], rng)
        convergence = {"mcse": self.mcse[at], "ess": self.ess[at], "rhat": self.rhat[at]}
        return {**figures, **convergence, "rank": rank, "ranks": ranks, **bounds}


def _given(estimator: Estimator, responses: Responses) -> Responses:
    """Return what an estimator is given of a table."""
    if not estimator.reversed:
        return responses
    frame = responses.frame
    return replace(responses, frame=frame.assign(contamination=1 - frame["contamination"]))


def _estimate(key: Key) -> Key:
    """Return the key of the estimate that is held against a truth."""
    return key[0].removesuffix(NOMINAL), key[1]


def _named(table: pd.DataFrame, keys: list[Key], truth: Any) -> pd.DataFrame:
    named = {
        "quantity": [quantity for quantity, _ in keys],
        "where": [where for _, where in keys],
        "truth": [truth[key] for key in keys],
    }
    return table.assign(**{name: pd.Series(values) for name, values in named.items()})
