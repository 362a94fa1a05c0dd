"""Simulate: tables of responses with their true values, one for each replicate of a cell."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import reseed_rngs
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.variable import RandomGeneratorSharedVariable

from bayescontam._types import FloatArray
from bayescontam.calibration.augmented import Observed
from bayescontam.calibration.fixed import fixed_values, refuse_idle
from bayescontam.calibration.measure import Key, measure
from bayescontam.calibration.plan import Cell, Plan
from bayescontam.calibration.published import NOMINAL, Tasks, exposures, table_of
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.build import Built, build
from bayescontam.inference.design import Design
from bayescontam.inference.draws import Draws, take_draws
from bayescontam.inference.example import Layout as ExampleLayout
from bayescontam.inference.example import fitting, make_example
from bayescontam.inference.implied import response_accuracies
from bayescontam.inference.located import located
from bayescontam.inference.own_effects import with_own_effects
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.simulator import Layout


@dataclass(frozen=True, eq=False)
class Simulated:
    """A table of responses, and the true value of every quantity."""

    responses: Responses
    truth: Mapping[Key, float]


class Simulate(Protocol):
    """Makes the tables of a cell."""

    @property
    def design(self) -> Design | None:
        """That of the model spec whose estimands are the truth; None if they are of none."""

    def __call__(self, replicate: int | str) -> Simulated:
        """Return the table of a replicate, the same whenever it is requested."""


def simulator_of(plan: Plan, cell: Cell) -> Simulate:
    """Return what makes the tables of a cell."""
    if plan.fit is not None:
        plan.fit.refuse_changed()
        return FromPosterior(plan, cell, Observed.load(plan.fit.path))
    if plan.truth is None:
        return FromExposures(plan, cell)
    return FromModel(plan, cell, plan.truth)


def quantities_of(spec: ModelSpec, responses: Responses, plan: Plan) -> tuple[Key, ...]:
    """Return what a fit of a model spec to a table reports, without a fit."""
    built, rng = build(spec, responses), plan.stream("quantities")
    drawn = _Forward(built.model)(rng)
    del drawn["n_correct"]
    parameters = _dataset(drawn, built)
    draws = with_own_effects(take_draws(parameters, built.design), built, rng)
    draws, _ = located(draws, built, rng)
    return tuple(measure(parameters, draws, built, plan).keys)


class FromExposures:
    """Tables of the published generator."""

    design = None

    def __init__(self, plan: Plan, cell: Cell) -> None:
        self._plan, self._cell = plan, cell
        self._table = table_of(cell.layout)

    def __call__(self, replicate: int | str) -> Simulated:
        """Return the table of a replicate."""
        plan, cell = self._plan, self._cell
        of = (replicate,) if cell.simulator.fresh else ()
        rng = plan.stream(cell.name, *of, "exposures")
        tasks = Tasks.of(exposures(cell.layout, rng), cell.simulator)
        rng = plan.stream(cell.name, replicate, "counts")
        frame = tasks.answered(self._table.frame, cell.layout.trials, rng)
        wanted = set(plan.study.quantities)
        truth = {
            key: value
            for key, value in tasks.truth(cell.simulator, plan.study.reference).items()
            if {"estimands", key[0].removesuffix(NOMINAL)} & wanted
        }
        return Simulated(replace(self._table, frame=frame), truth)


class FromModel:
    """Tables of a model spec: everything from its prior, but for what the study fixes.

    Drawn from the PyMC model that fitting uses. Contaminations, and whatever else the
    model does not explain, are drawn once for the cell.
    """

    def __init__(self, plan: Plan, cell: Cell, spec: ModelSpec) -> None:
        self._plan, self._cell = plan, cell
        layout = fitting(spec, _example_layout(cell.layout))
        self._table = make_example(spec, layout, plan.stream(cell.name, "design"))
        self._built = build(spec, self._table)
        self.design = self._built.design
        if cell.layout.p_duplicate_sd and "p_shift" not in self._built.model.named_vars:
            problem = (
                f"the model spec '{cell.simulator.model}' has no latent duplicates; leave it"
                " out, or take one whose contamination.exposure is 'latent'"
            )
            raise SpecError([Fault(plan.source, problem, column="design.p_duplicate_sd")])
        fixed = fixed_values(self._built, plan, cell)
        model = pm.do(self._built.model, fixed) if fixed else self._built.model
        self._draw = _Forward(model)
        refuse_idle(set(fixed).difference(self._draw.names), plan, cell)

    def __call__(self, replicate: int | str) -> Simulated:
        """Return the table of a replicate."""
        plan, name = self._plan, self._cell.name
        try:
            drawn = self._draw(plan.stream(name, replicate, "parameters"))
        except ValueError as error:
            problem = f"nothing can be drawn with these values: {error}"
            raise SpecError([Fault(plan.source, problem, column="simulator.parameters")]) from error
        counts = drawn.pop("n_correct")
        parameters = _dataset(drawn, self._built)
        draws = take_draws(parameters, self._built.design)
        rng = plan.stream(name, replicate, "counts")
        draws, counts = _with_exposure(draws, counts, self._built, rng)
        design = replace(self._built.design, n_correct=counts.astype(np.int64))
        built = replace(self._built, design=design)
        # Effects that counts were drawn with, given the counts: of the same joint distribution.
        draws = with_own_effects(draws, built, rng)
        found = measure(parameters, draws, built, plan, strict=True)
        frame = self._table.frame.assign(n_correct=design.n_correct)
        responses = Responses(frame, "simulated")
        return Simulated(responses, dict(zip(found.keys, found.values[0, 0].tolist(), strict=True)))


class FromPosterior:
    """The table of a fit, and its items answered again as a draw of its posterior would.

    Each replicate has a draw of its own, and all draws are nearly independent.
    """

    def __init__(self, plan: Plan, cell: Cell, observed: Observed) -> None:
        self._plan, self._cell, self._observed = plan, cell, observed
        self.design = observed.built.design
        self._order = plan.stream("posterior").permutation(observed.kept)

    def __call__(self, replicate: int | str) -> Simulated:
        """Return the table of a replicate."""
        observed, built = self._observed, self._observed.built
        # What is compiled needs any table.
        parameters = observed.draw(self._order[replicate if isinstance(replicate, int) else 0])
        rng = self._plan.stream(self._cell.name, replicate, "own effects")
        draws = with_own_effects(take_draws(parameters, built.design), built, rng)
        rng = self._plan.stream(self._cell.name, replicate, "counts")
        again = rng.binomial(built.design.n_trials, response_accuracies(draws, built)[0])
        responses, both = observed.augmented(again)
        found = measure(parameters, draws, both, self._plan, strict=True)
        return Simulated(responses, dict(zip(found.keys, found.values[0, 0].tolist(), strict=True)))


class _Forward:
    """Draws of all variables that counts depend on, and of the counts."""

    def __init__(self, model: pm.Model) -> None:
        counts = model["n_correct"]
        above = set(ancestors([counts]))
        named = {name: var for name, var in model.named_vars.items() if var in above}
        self.names = list(named)
        outputs = list(named.values())
        # Compiling for speed takes ten seconds, and saves some milliseconds a replicate.
        self._function = pm.compile([], outputs, mode="FAST_COMPILE", random_seed=0)
        shared = self._function.get_shared()
        self._rngs = [var for var in shared if isinstance(var, RandomGeneratorSharedVariable)]

    def __call__(self, rng: np.random.Generator) -> dict[str, FloatArray]:
        reseed_rngs(self._rngs, int(rng.integers(2**63)))
        return dict(zip(self.names, self._function(), strict=True))


def _dataset(drawn: dict[str, FloatArray], built: Built) -> xr.Dataset:
    """Return one draw of each variable as draws of a posterior are."""
    data = {}
    for name, values in drawn.items():
        dims = built.model.named_vars_to_dims.get(name) or [
            f"{name}_dim_{axis}" for axis in range(np.ndim(values))
        ]
        data[name] = (("chain", "draw", *dims), np.asarray(values)[None, None])
    return xr.Dataset(data)


def _with_exposure(
    draws: Draws, counts: FloatArray, built: Built, rng: np.random.Generator
) -> tuple[Draws, FloatArray]:
    """Draw true contaminations where they are not known, and counts that go with them.

    The model has contaminations summed out, so that nobody knows which of them its counts
    were drawn with.
    """
    if built.design.exposure is None:
        return draws, counts
    draws, _ = located(draws, built, rng, responses=False)
    p = response_accuracies(draws, built)[0]
    return draws, rng.binomial(built.design.n_trials, p).astype(float)


def _example_layout(layout: Layout) -> ExampleLayout:
    mean, sd = layout.contamination_mean, layout.contamination_sd
    size = mean * (1 - mean) / sd**2 - 1
    shape = mean * size, (1 - mean) * size
    return ExampleLayout(
        layout.models,
        layout.benchmarks,
        layout.items,
        layout.trials,
        shape,
        layout.p_duplicate_sd,
    )
