"""A study from its spec: cells, fixed parameters and estimators."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bayescontam._files import sha256
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.calibration.posterior_sbc import Observed, doubled_spec
from bayescontam.errors import Fault, SpecError, UsageError
from bayescontam.inference.estimands import QUANTITIES
from bayescontam.model.build import BuiltModel
from bayescontam.model.effect_names import DIRECT
from bayescontam.specs.base import suggest, validate
from bayescontam.specs.model import ModelSpec, refuse_odd_keys
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import GROUPS, Layout, Simulator, StudySpec

REPORTED = ("accuracy", DIRECT.ability, DIRECT.overfitting, DIRECT.fraction, "novelty_gap")
"""Estimands whose truth the published generator knows."""
HASH_LENGTH = 12  # digits of a cell's hash in the names of its shards
_WORDS = {
    "theta": "ability",
    "beta": "slope",
    "beta_free": "slope",
    "sigma_delta": "difficulty_sd",
    "sigma_eps": "eps_sd",
}
"""Keys of a simulator that fix parameters under words of their own."""


@dataclass(frozen=True)
class Cell:
    """One point of a study's grid."""

    name: str  # such as `"slope=1, contamination_sd=0.2"`; empty where there is no grid
    simulator: Simulator
    layout: Layout

    @property
    def hash(self) -> str:
        """Short SHA-256 of the name, for the names of files."""
        return sha256(self.name.encode())[:HASH_LENGTH]


@dataclass(frozen=True)
class SimulatedFrom:
    """A fit that tables are simulated from."""

    path: Path
    hash: str
    """SHA-256 of the file."""
    draws: int
    """Nearly independent draws that it has; no replicate shares one with another."""

    def refuse_changed(self) -> None:
        """Raise a UsageError if the file is another than when the run was planned."""
        if not self.path.exists() or sha256(self.path.read_bytes()) != self.hash:
            raise UsageError(
                f"{printable(str(self.path))}: has changed since this run began, which would mix"
                " two posteriors; run the study of the new fit in another folder"
            )


@dataclass(frozen=True)
class Plan:
    """A study with the model specs that it names; make one with `plan_of`."""

    study: StudySpec
    specs: Mapping[str, ModelSpec]  # of each estimator that has one, by the estimator's name
    truth: ModelSpec | None  # of the simulator, if it has one
    fit: SimulatedFrom | None = None  # of the simulator `"posterior"`

    @property
    def source(self) -> str:
        """What messages call the study."""
        return f"study '{self.study.name}'"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the study's meaning and of the model specs that it names."""
        parts = [self.study.hash, *(self.specs[name].hash for name in sorted(self.specs))]
        parts.append(self.truth.hash if self.truth else "")
        return sha256("\n".join([*parts, *([self.fit.hash] if self.fit else [])]).encode())

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order of the grid."""
        return tuple(Cell(name, *blocks) for name, blocks in self.study.cells().items())

    def stream(self, *names: str | int) -> np.random.Generator:
        """Return the random stream of these names; it depends on the plan's hash too."""
        # Everything of a replicate comes from `stream(cell, replicate, purpose, …)`, so that it
        # is the same whatever else is run, where, and in which order.
        return stream(int(self.hash[:15], 16), *names)


def plan_of(study: StudySpec, base: Path) -> Plan:
    """Find the model specs that a study names."""
    specs = {}
    for at, estimator in enumerate(study.estimators):
        if estimator.kind == "model":
            spec = _load(estimator.model, base, study, f"estimators.{at}.model", estimator.name)
            source = f"study '{study.name}': estimator '{estimator.name}'"
            spec = specs[estimator.name] = changed_spec(spec, estimator.changes, source)
            if estimator.reversed and spec.contamination.exposure != "known":
                problem = (
                    f"reversed is for contamination that is known; '{spec.name}' is given how"
                    " probable it is, which stays as it is"
                )
                raise SpecError([Fault(source, problem)])
    if taken := sorted(set(study.expressions) & {*QUANTITIES, "log_likelihood"}):
        problem = f"'{taken[0]}' is the name of an estimand; give the formula another"
        raise SpecError([Fault(f"study '{study.name}'", problem, column="expressions")])
    if study.simulator.kind == "posterior":
        return _conditional(study, specs, base)
    if not study.simulator.model:
        # The published generator has no parameters of ours.
        source = f"study '{study.name}'"
        if study.expressions:
            problem = "needs a simulator with a model spec; 'published' has no parameters of ours"
            raise SpecError([Fault(source, problem, column="expressions")])
        wanted = {DIRECT.meant(name) for name in study.quantities}
        validate_quantities(wanted, {*GROUPS, *REPORTED}, source, "quantities")
        return Plan(study, specs, None)
    return Plan(study, specs, _load(study.simulator.model, base, study, "simulator.model"))


def _conditional(study: StudySpec, specs: dict[str, ModelSpec], base: Path) -> Plan:
    """Return the plan of a study whose tables are those of a fit with as many trials again."""
    # Workers may have another working folder.
    path = (base / study.simulator.fit).resolve()
    observed = Observed.load(path)
    for estimator in study.estimators:
        source = f"study '{study.name}': estimator '{estimator.name}'"
        if estimator.reversed and "contamination" not in observed.responses.frame:
            problem = "reversed needs contaminations, which the fit has none of"
            raise SpecError([Fault(source, problem)])
        if estimator.name in specs:
            spec = specs[estimator.name]
            specs[estimator.name] = doubled_spec(spec, observed.responses, source)
    fit = SimulatedFrom(path, sha256(path.read_bytes()), len(observed.kept))
    return Plan(study, specs, observed.built.spec, fit)


def changed_spec(spec: ModelSpec, changes: Mapping[str, Any], source: str) -> ModelSpec:
    """Return a model spec with some of its keys changed."""
    if not changes:
        return spec
    content = spec.model_dump(exclude_unset=True)
    for block, keys in changes.items():
        if isinstance(keys, Mapping) and isinstance(content.get(block, {}), Mapping):
            content[block] = {**content.get(block, {}), **keys}
        else:
            content[block] = keys
    changed = validate(ModelSpec, content, source)
    changed._name = spec.name
    refuse_odd_keys(changed)
    return changed


def _load(model: str, base: Path, study: StudySpec, key: str, estimator: str = "") -> ModelSpec:
    """Read a model spec by name, or by a path from `base`; messages name the key of the study."""
    try:
        return load_model(base / model if model.endswith(".toml") or "/" in model else model)
    except SpecError as error:
        whose = f" (of the estimator '{estimator}')" if estimator else ""
        problem = f"got '{printable(model, 60)}'{whose}, which cannot be used:"
        raise SpecError(
            [Fault(study.source, problem, column=key), *error.faults], error.advice
        ) from error


def validate_quantities(wanted: set[str], known: set[str], source: str, column: str) -> None:
    """Raise a SpecError if a name that a study wants is not known."""
    if unknown := sorted(wanted - known):
        problem = f"nothing is called '{unknown[0]}' here ({suggest(unknown[0], sorted(known))})"
        raise SpecError([Fault(source, problem, column=column)])


def fixed_values(built: BuiltModel, plan: Plan, cell: Cell) -> dict[str, FloatArray]:
    """Return the values at which a cell holds parameters."""
    simulator, source = cell.simulator, plan.source
    model = built.model
    values = {key: (f"parameters.{key}", np.asarray(v)) for key, v in simulator.parameters.items()}
    for name, key, value in _held(simulator, built, plan, source):
        if name in values:
            problem = f"simulator.{key} fixes '{name}' already; leave one of them out"
            raise SpecError([Fault(source, problem, column=f"simulator.parameters.{name}")])
        values[name] = key, value
    result = {}
    for name, (key, value) in values.items():
        if name not in model.named_vars or name == "n_correct":
            left = "; ".join(f"{symbol}: {reason}" for symbol, reason in built.terms.left_out)
            problem = f"the model spec has no '{name}' in this design ({left or 'see its file'})"
            raise SpecError([Fault(source, problem, column=f"simulator.{key}")])
        shape = model[name].shape.eval(mode="FAST_COMPILE")
        result[name] = np.broadcast_to(value, shape).astype(float)
    return result


def validate_fixed_parameters(names: set[str], plan: Plan, cell: Cell) -> None:
    """Refuse parameters that are fixed and that no count depends on."""
    for name in sorted(names):
        problem = (
            "counts do not depend on it, since what it governs is fixed too; leave one of them out"
        )
        key = f"parameters.{name}" if name in cell.simulator.parameters else _WORDS[name]
        raise SpecError([Fault(plan.source, problem, column=f"simulator.{key}")])


def _held(
    simulator: Simulator, built: BuiltModel, plan: Plan, source: str
) -> list[tuple[str, str, FloatArray]]:
    """Return name, key and value of what is fixed under a word of its own."""
    held: list[tuple[str, str, FloatArray]] = []
    models = len(built.design.models)
    if simulator.ability is not None:
        ability = np.atleast_1d(np.asarray(simulator.ability, dtype=float))
        if len(ability) not in (1, models):
            problem = f"got {len(ability)} abilities for {models} models; give one for each, or one"
            raise SpecError([Fault(source, problem, column="simulator.ability")])
        scores = _scores((models, len(built.design.units)), plan, "abilities")
        held.append(("theta", _WORDS["theta"], ability[:, None] + simulator.ability_sd * scores))
    if simulator.slope is not None:
        # Slopes of models that are known to be clean stay 0.
        name = "beta_free" if built.design.clean.any() else "beta"
        scores = _scores((models, len(built.design.benchmarks)), plan, "slopes")
        held.append((name, _WORDS[name], simulator.slope + simulator.slope_sd * scores))
    for name in ("sigma_delta", "sigma_eps"):
        value = getattr(simulator, _WORDS[name])
        if value is not None:
            held.append((name, _WORDS[name], np.asarray(value)))
    return held


def _scores(shape: tuple[int, int], plan: Plan, purpose: str) -> FloatArray:
    """Return numbers of mean 0 and standard deviation 1, the same in all cells of a study."""
    scores = plan.stream(purpose).standard_normal(shape)
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros(shape)
