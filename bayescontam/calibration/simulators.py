"""Simulated tables: from a prior, fixed parameters, exposures or a posterior."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.pytensorf import reseed_rngs
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.variable import RandomGeneratorSharedVariable
from scipy.special import expit, logit

from bayescontam._types import FloatArray
from bayescontam.calibration.posterior_sbc import Observed
from bayescontam.calibration.quantities import Key, measure
from bayescontam.calibration.study import Cell, Plan, fixed_values, validate_fixed_parameters
from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.estimands import Reference, reference_level
from bayescontam.inference.posterior import Draws, accuracy, draw_contamination, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.prior_predictive import ExampleLayout as ExampleLayout
from bayescontam.inference.prior_predictive import fitting, make_example
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import Design
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import Layout, Simulator

PRINTED = dict(read_published("arc_generator")[["quantity", "value"]].to_numpy())
"""What is printed of the generator."""
CONCEPTS = int(PRINTED["concepts"])
FEWEST, MOST = 3, 8
"""Concepts of a task; not printed, chosen so that contaminations spread as printed."""
NOMINAL = "_nominal"
"""Ending of quantities that are held against the generator's own ``genuine``."""


@dataclass(frozen=True)
class Corpus:
    """How exposures of concepts are drawn: floor + span × Beta(a, b), each in [0, 1]."""

    floor: float
    span: float
    a: float
    b: float

    def exposures(
        self, rng: np.random.Generator, shape: tuple[int, ...] = (CONCEPTS,)
    ) -> FloatArray:
        """Draw exposures; by default one of each concept."""
        return self.floor + self.span * rng.beta(self.a, self.b, size=shape)


PUBLISHED = Corpus(*(PRINTED[f"exposure_{name}"] for name in ("floor", "span", "a", "b")))


def exposures(layout: Layout, rng: np.random.Generator) -> FloatArray:
    """Draw contaminations, dims (model, benchmark, item)."""
    # Each of 50 concepts has an exposure 0.2 + 0.7 Beta(3, 2) in a model's corpus; a task has
    # 3 to 8 concepts; its contamination is logistic(logit 0.3 + 5 (mean exposure − 0.5)).
    exposure = PUBLISHED.exposures(rng, (layout.models, CONCEPTS))
    share = compositions(layout.benchmarks * layout.items, rng)
    contamination = contamination_of(exposure @ share.T)
    return contamination.reshape(layout.models, layout.benchmarks, layout.items)


def compositions(tasks: int, rng: np.random.Generator) -> FloatArray:
    """Draw the share of each of 50 concepts in each task, dims (task, concept)."""
    order = rng.random((tasks, CONCEPTS)).argsort(axis=1)
    count = rng.integers(FEWEST, MOST + 1, size=(tasks, 1))
    share: FloatArray = (order < count) / count
    return share


def contamination_of(exposure: FloatArray) -> FloatArray:
    """Return the contamination of tasks by the mean exposure of their concepts.

    >>> contamination_of(np.array([0.5, 0.7])).round(3).tolist()
    [0.3, 0.538]
    """
    prior, slope = PRINTED["formula_prior"], PRINTED["formula_slope"]
    contamination: FloatArray = expit(logit(prior) + slope * (exposure - 0.5))
    return contamination


def table_of(layout: Layout) -> Responses:
    """Return a table of this layout, with nothing answered."""
    shape = layout.benchmarks, layout.models, layout.items
    benchmark, model, item = (index.ravel() for index in np.indices(shape))
    columns = {
        "model": [f"model {k + 1}" for k in model],
        "benchmark": [f"bench {k + 1}" for k in benchmark],
        "item": [f"item {k + 1}" for k in item],
        "n_correct": 0,
        "n_trials": layout.trials,
        "contamination": 0.0,
    }
    return Responses.from_frame(pd.DataFrame(columns), source="simulated")


@dataclass(frozen=True, eq=False)
class Tasks:
    """Contaminations, and the accuracies that follow from them."""

    # contamination, accuracy: dims (model, benchmark, item)
    contamination: FloatArray
    accuracy: FloatArray

    @classmethod
    def of(cls, contamination: FloatArray, simulator: Simulator) -> "Tasks":
        """Return tasks of accuracy genuine + boost × contamination."""
        return cls(contamination, simulator.genuine + simulator.boost * contamination)

    def answered(self, table: pd.DataFrame, trials: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return a table of `table_of` with these contaminations, answered at random."""
        columns = {
            "n_correct": rng.binomial(trials, self.accuracy),
            "contamination": self.contamination,
        }
        # Rows of a table are sorted by benchmark, then by model.
        flat = {name: values.swapaxes(0, 1).ravel() for name, values in columns.items()}
        return table.assign(**flat)

    def truth(self, simulator: Simulator, reference: Reference) -> dict[tuple[str, str], float]:
        """Return the true estimands of every model and benchmark."""
        # Genuine ability is accuracy at the reference contamination. Names that end in `_nominal`
        # are of estimands that follow if it is taken to be the generator's own `genuine`, which
        # is accuracy at contamination 0.
        low = self.contamination.min(axis=(0, 2))
        high = self.contamination.max(axis=(0, 2))
        level = reference_level(reference)
        at = low if level is None else np.full(len(low), level)
        boost, accuracy = simulator.boost, self.accuracy.mean(axis=2)
        mean = self.contamination.mean(axis=2)
        cells = {
            "accuracy": accuracy,
            "novelty_gap": np.broadcast_to(boost * (high - low), accuracy.shape),
        }
        for ending, origin in (("", at), (NOMINAL, np.zeros(len(low)))):
            # No difference of accuracies: without a boost it must be 0 to the last digit.
            over = boost * (mean - origin)
            genuine = simulator.genuine + boost * origin
            cells[f"genuine_ability{ending}"] = np.broadcast_to(genuine, accuracy.shape)
            cells[f"overfitting{ending}"] = over
            cells[f"overfitting_fraction{ending}"] = over / accuracy
        return {
            (name, f"model {m + 1} | bench {b + 1}"): float(values[m, b])
            for name, values in cells.items()
            for m, b in np.ndindex(accuracy.shape)
        }


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
    draws = with_own_effects(stack_draws(parameters, built.design), built, rng)
    draws, _ = draw_contamination(draws, built, rng)
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
    """Tables drawn from the PyMC model that fitting uses, but for what the study fixes."""

    # Contaminations, and whatever else the model does not explain, are drawn once for the cell.

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
        validate_fixed_parameters(set(fixed).difference(self._draw.names), plan, cell)

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
        draws = stack_draws(parameters, self._built.design)
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
    """The table of a fit, and its items answered again as its replicate's own draw would."""

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
        draws = with_own_effects(stack_draws(parameters, built.design), built, rng)
        rng = self._plan.stream(self._cell.name, replicate, "counts")
        again = rng.binomial(built.design.n_trials, accuracy(draws, built)[0])
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


def _dataset(drawn: dict[str, FloatArray], built: BuiltModel) -> xr.Dataset:
    """Return one draw of each variable as draws of a posterior are."""
    data = {}
    for name, values in drawn.items():
        dims = built.model.named_vars_to_dims.get(name) or [
            f"{name}_dim_{axis}" for axis in range(np.ndim(values))
        ]
        data[name] = (("chain", "draw", *dims), np.asarray(values)[None, None])
    return xr.Dataset(data)


def _with_exposure(
    draws: Draws, counts: FloatArray, built: BuiltModel, rng: np.random.Generator
) -> tuple[Draws, FloatArray]:
    """Draw true contaminations where they are not known, and counts that go with them."""
    # The model has them summed out, so that nobody knows which of them its counts were drawn with.
    if built.design.exposure is None:
        return draws, counts
    draws, _ = draw_contamination(draws, built, rng, responses=False)
    p = accuracy(draws, built)[0]
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
