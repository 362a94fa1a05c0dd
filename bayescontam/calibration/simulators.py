"""Simulated tables: from a prior, fixed parameters, exposures or a posterior."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.pytensorf import reseed_rngs
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.variable import RandomGeneratorSharedVariable

from bayescontam._types import FloatArray
from bayescontam.arc.exposures import contamination_of
from bayescontam.calibration.posterior_sbc import Observed
from bayescontam.calibration.quantities import Key, as_dataset, measure
from bayescontam.calibration.study import Cell, Plan, fixed_values, validate_fixed_parameters
from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.estimands import reference_level
from bayescontam.inference.posterior import accuracy, draw_contamination, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.prior_predictive import ExampleLayout, fitting, make_example
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import Design
from bayescontam.model.effect_names import DIRECT
from bayescontam.model.labels import crossed_labels
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import Layout

PRINTED = dict(read_published("arc_generator")[["quantity", "value"]].to_numpy())
"""What is printed of the generator."""
CONCEPTS = int(PRINTED["concepts"])
FEWEST, MOST = 3, 8
"""Concepts of a task; not printed, chosen so that contaminations spread as printed."""
NOMINAL = "_nominal"  # ending of quantities that are held against the generator's own `genuine`


def exposures(layout: Layout, rng: np.random.Generator) -> FloatArray:
    """Draw contaminations, dims (model, benchmark, item)."""
    # Each of 50 concepts has an exposure 0.2 + 0.7 Beta(3, 2) in a model's corpus; a task has
    # 3 to 8 concepts; its contamination is logistic(logit 0.3 + 5 (mean exposure − 0.5)).
    floor, span, a, b = (PRINTED[f"exposure_{name}"] for name in ("floor", "span", "a", "b"))
    exposure = floor + span * rng.beta(a, b, size=(layout.models, CONCEPTS))
    share = compositions(layout.benchmarks * layout.items, rng)
    contamination = contamination_of(exposure @ share.T)
    return contamination.reshape(layout.models, layout.benchmarks, layout.items)


def compositions(tasks: int, rng: np.random.Generator) -> FloatArray:
    """Draw the share of each of 50 concepts in each task, dims (task, concept)."""
    order = rng.random((tasks, CONCEPTS)).argsort(axis=1)
    count = rng.integers(FEWEST, MOST + 1, size=(tasks, 1))
    share: FloatArray = (order < count) / count
    return share


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
    parameters = _one_draw(drawn, built)
    draws = with_own_effects(stack_draws(parameters, built.design), built, rng)
    draws, _ = draw_contamination(draws, built, rng)
    return tuple(measure(parameters, draws, built, plan).keys)


class FromExposures:
    """Tables of the published generator, with accuracies genuine + boost × contamination."""

    design = None

    def __init__(self, plan: Plan, cell: Cell) -> None:
        self._plan, self._cell, layout = plan, cell, cell.layout
        models, benchmarks = (
            [f"{what} {k + 1}" for k in range(count)]
            for what, count in (("model", layout.models), ("bench", layout.benchmarks))
        )
        labels, _ = crossed_labels(models, benchmarks, layout.items)
        table = pd.DataFrame(labels).assign(n_correct=0, n_trials=layout.trials, contamination=0.0)
        self._table = Responses.from_frame(table, source="simulated")

    def __call__(self, replicate: int | str) -> Simulated:
        """Return the table of a replicate."""
        plan, cell = self._plan, self._cell
        of = (replicate,) if cell.simulator.fresh else ()
        contamination = exposures(cell.layout, plan.stream(cell.name, *of, "exposures"))
        accuracy = cell.simulator.genuine + cell.simulator.boost * contamination
        rng = plan.stream(cell.name, replicate, "counts")
        columns = {
            "n_correct": rng.binomial(cell.layout.trials, accuracy),
            "contamination": contamination,
        }
        # Rows of a table are sorted by benchmark, then by model.
        flat = {name: values.swapaxes(0, 1).ravel() for name, values in columns.items()}
        responses = replace(self._table, frame=self._table.frame.assign(**flat))
        return Simulated(responses, dict(self._truth(contamination, accuracy)))

    def _truth(
        self, contamination: FloatArray, accuracy: FloatArray
    ) -> Iterator[tuple[Key, float]]:
        """Yield the true estimands that the study wants, of every model and benchmark."""
        # An item gains from its own contamination alone, so that the effect is direct. Genuine
        # ability is accuracy at the reference contamination. Names that end in `_nominal`
        # are of estimands that follow if it is taken to be the generator's own `genuine`, which
        # is accuracy at contamination 0.
        simulator, level = self._cell.simulator, reference_level(self._plan.study.reference)
        low, high = contamination.min(axis=(0, 2)), contamination.max(axis=(0, 2))
        boost, score, mean = simulator.boost, accuracy.mean(axis=2), contamination.mean(axis=2)
        cells = {"accuracy": score, "novelty_gap": boost * (high - low)}
        at = low if level is None else np.full(len(low), level)
        for ending, origin in (("", at), (NOMINAL, np.zeros(len(low)))):
            # No difference of accuracies: without a boost it must be 0 to the last digit.
            over = boost * (mean - origin)
            cells[f"{DIRECT.ability}{ending}"] = simulator.genuine + boost * origin
            cells[f"{DIRECT.overfitting}{ending}"] = over
            cells[f"{DIRECT.fraction}{ending}"] = over / score
        wanted = {DIRECT.meant(name) for name in self._plan.study.quantities}
        for name, values in cells.items():
            if {"estimands", name.removesuffix(NOMINAL)} & wanted:
                for m, b in np.ndindex(score.shape):
                    value = float(np.broadcast_to(values, score.shape)[m, b])
                    yield (name, f"model {m + 1} | bench {b + 1}"), value


class FromModel:
    """Tables drawn from the PyMC model that fitting uses, but for what the study fixes."""

    # Contaminations, and whatever else the model does not explain, are drawn once for the cell.

    def __init__(self, plan: Plan, cell: Cell, spec: ModelSpec) -> None:
        self._plan, self._cell = plan, cell
        given = cell.layout
        mean, sd = given.contamination_mean, given.contamination_sd
        size = mean * (1 - mean) / sd**2 - 1
        shape = mean * size, (1 - mean) * size
        sizes = given.models, given.benchmarks, given.items, given.trials
        layout = fitting(spec, ExampleLayout(*sizes, shape, given.p_duplicate_sd))
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
        parameters = _one_draw(drawn, self._built)
        draws = stack_draws(parameters, self._built.design)
        rng = plan.stream(name, replicate, "counts")
        if self._built.design.exposure is not None:
            # They are summed out: nobody knows which of them the counts were drawn with.
            draws, _ = draw_contamination(draws, self._built, rng, responses=False)
            p = accuracy(draws, self._built)[0]
            counts = rng.binomial(self._built.design.n_trials, p).astype(float)
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


def _one_draw(drawn: Mapping[str, FloatArray], built: BuiltModel) -> xr.Dataset:
    """Return one draw of each variable as draws of a posterior are."""
    values = {name: np.asarray(each)[None, None] for name, each in drawn.items()}
    return as_dataset(values, built.model.named_vars_to_dims)
