"""Models that are compiled once for many tables of one layout."""

from collections.abc import Generator, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayescontam._random import stream
from bayescontam.data.responses import Responses
from bayescontam.inference.compiled import CompiledModel
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.posterior import Draws
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.sampling import Drawn, Sampling, draw_by_need, sample_model
from bayescontam.model.build import BuiltModel, Varying, build_design
from bayescontam.model.design import Design, make_design
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec

PRIOR_DRAWS, MIN_PRIOR_DRAWS = 2000, 500
MOST_NUMBERS = 100_000_000
"""Prior draws times responses; of larger tables fewer draws are made."""
_POINTS, _SPREAD = 4, 0.5
"""Points at which two densities are compared, and how far from zero they lie."""
_ROUNDING = 1e-9  # difference of two equal densities, beside their size
_COUNTS = {"models", "benchmarks", "units", "items", "n_correct"}
"""Fields of designs that may differ where counts are data: these, and names."""
_DOSES = _COUNTS | {"contamination", "centring"}
"""Fields of designs that may differ where contaminations are data, too."""


class ReusableModel:
    """A model built once for tables of one layout, whose counts and, if they move, doses vary."""

    # What informs the sampler's coordinates varies with them: with that of another table it would
    # draw from the same posterior, and need several times as many draws.

    def __init__(self, spec: ModelSpec, first: Responses | Design, moving: bool) -> None:
        self._varying: Varying = "doses" if moving else "counts"
        self._built = build_design(spec, _design(spec, first), self._varying)
        self.model = self._built.model
        self.names = tuple(self._built.data())

    def given(self, table: Responses | Design) -> tuple[BuiltModel, dict[str, Any]]:
        """Return the model as that of a table, and the table's values for its data."""
        design = _design(self._built.spec, table)
        self._refuse_another_layout(design)
        # Built for its coordinates alone: a tenth of a second, against seconds to compile.
        values = build_design(self._built.spec, design, self._varying).data()
        return replace(self._built, design=design), values

    def check(self, design: Design) -> None:
        """Hold the model, with the data that it has now, against one built for a table."""
        own = build_design(self._built.spec, design, self._varying).model
        start, rng = self.model.initial_point(0), np.random.default_rng(0)
        points = [
            {name: rng.normal(0, _SPREAD, np.shape(value)) for name, value in start.items()}
            for _ in range(_POINTS)
        ]
        # Compiling for speed takes many times as long as the few calls.
        heights = [
            np.array([density(point) for point in points])
            for density in (each.compile_logp(mode="FAST_COMPILE") for each in (self.model, own))
        ]
        # The binomial coefficients are constants, and those of the first table.
        found, wanted = (each - each[0] for each in heights)
        if not np.allclose(found, wanted, rtol=0, atol=_ROUNDING * abs(heights[0][0])):
            raise ValueError("the model with a table's data is not the model of that table")

    def _refuse_another_layout(self, design: Design) -> None:
        """Refuse what the compiled model would take for something else without a word."""
        first = self._built.design
        for name in ("model", "benchmark", "unit", "item", "n_trials"):
            if not np.array_equal(getattr(first, name), getattr(design, name)):
                raise ValueError(f"tables of one layout differ in '{name}'")
        if plan_terms(self._built.spec, design) != self._built.terms:
            raise ValueError("tables of one layout differ in the effects that they can carry")
        one, other = first.contamination, design.contamination
        known = one is not None and other is not None and self._varying == "counts"
        if known and not np.array_equal(np.asarray(one), np.asarray(other)):
            raise ValueError("tables of one layout differ in contamination")


class CompiledModels:
    """Models compiled for nutpie and draws from their priors, of one table or of several.

    Of several, a model is compiled once for all tables of one layout. The second of a layout costs
    nothing to compile, unless it differs from the first in contamination: then the model is
    compiled once more, with contaminations as data.
    """

    def __init__(self, several: bool = True) -> None:
        self._several, self._found = several, list[_Compiled]()
        self._last: tuple[BuiltModel, CompiledModel] | None = None
        self._prior: tuple[BuiltModel, int, tuple[Draws, xr.Dataset]] | None = None

    def of(self, built: BuiltModel, progress: bool = False) -> CompiledModel:
        """Return the compiled model of a table, with the table's data."""
        # Groups of items whose difficulties are integrated out follow from the counts.
        alone = built.lattice is not None or not counts_are_data(built.spec, built.design)
        if self._last is None or self._last[0] is not built:
            if self._several and not alone:
                self._last = built, self._shared(built, progress)
            else:
                self._last = built, compile_model(built.model, progress)
        return self._last[1]

    def prior(self, built: BuiltModel, seed: int, cores: int = 1) -> tuple[Draws, xr.Dataset]:
        """Return effects and parameters drawn from the prior, dims (chain, draw, …)."""
        last = self._prior
        alike = last is not None and last[1] == seed and _suits(last[0], built, {"n_correct"})
        # Where difficulties lie in draws with a lattice depends on the counts.
        if last is None or not alike or (built.lattice is not None and last[0] is not built):
            count = min(PRIOR_DRAWS, max(MIN_PRIOR_DRAWS, MOST_NUMBERS // len(built.design)))
            last = built, seed, prior_draws(built, count, stream(seed, "prior"), cores)
            self._prior = last
        return last[2]

    def _shared(self, built: BuiltModel, progress: bool) -> CompiledModel:
        for each in self._found:
            if each.suits(built):
                return each.given(built)
        other = None
        if doses_are_data(built.design):
            alike = (each.first for each in self._found if _suits(each.first, built, _DOSES))
            other = next(alike, None)
        self._found.append(_Compiled.of(built, other, progress))
        return self._found[-1].given(built)


def sample(
    built: BuiltModel,
    sampling: Sampling,
    seed: int,
    progress: bool,
    models: CompiledModels | None = None,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Draw from the posterior of a built model spec, by models compiled before if given."""
    compiled = _compiled(built, sampling, progress, models)
    return sample_model(built.model, sampling, seed, progress, compiled)


def sample_by_need(
    built: BuiltModel,
    sampling: Sampling,
    seed: int,
    progress: bool,
    models: CompiledModels | None = None,
) -> Generator[Drawn]:
    """Yield few draws, then more, from the posterior of a built model spec."""
    compiled = _compiled(built, sampling, progress, models)
    return draw_by_need(built.model, sampling, seed, progress, compiled)


def _compiled(
    built: BuiltModel, sampling: Sampling, progress: bool, models: CompiledModels | None
) -> CompiledModel | None:
    if models is None or sampling.engine != "nutpie":
        return None
    return models.of(built, progress)


@dataclass(frozen=True)
class _Compiled:
    first: BuiltModel
    reusable: ReusableModel
    compiled: CompiledModel
    differing: set[str]  # fields of the designs of its tables that may differ

    @classmethod
    def of(cls, built: BuiltModel, other: BuiltModel | None, progress: bool) -> "_Compiled":
        """Compile for tables like `built`, and like one of other contaminations if given."""
        if other is None:
            reusable = ReusableModel(built.spec, built.design, moving=False)
        else:
            reusable = ReusableModel(built.spec, other.design, moving=True)
            pm.set_data(reusable.given(built.design)[1], model=reusable.model)
            reusable.check(built.design)  # that contaminations enter as data alone
        differing = _COUNTS if other is None else _DOSES
        return cls(built, reusable, compile_model(reusable.model, progress), differing)

    def suits(self, built: BuiltModel) -> bool:
        """Return whether this is the model of a table, but for its data."""
        return _suits(self.first, built, self.differing)

    def given(self, built: BuiltModel) -> CompiledModel:
        """Return the compiled model with the data of a table."""
        return self.compiled.with_data(**self.reusable.given(built.design)[1])


def counts_are_data(spec: ModelSpec, design: Design) -> bool:
    """Return whether the model of a table is that of another with other counts as its data."""
    # How summed-out contaminations go with repeated trials is worked out when it is built.
    repeated = design.n_single < len(design)
    return design.exposure is None or not (repeated and spec.likelihood.has_model_by_item)


def doses_are_data(design: Design) -> bool:
    """Return whether the model of a table is that of another with other contaminations too."""
    # What uncertain contaminations are, and how models of one base were exposed, is worked out
    # when it is built.
    return design.exposure is None and design.shared is None and design.lineage is None


def _design(spec: ModelSpec, table: Responses | Design) -> Design:
    return table if isinstance(table, Design) else make_design(spec, table)


def _suits(one: BuiltModel, other: BuiltModel, but: set[str]) -> bool:
    alike = one.spec == other.spec and one.terms == other.terms
    return alike and same(one.design, other.design, but)


def same(one: Any, other: Any, but: Set[str] = frozenset()) -> bool:
    """Return whether two values are equal: arrays by element, dataclasses by field but some.

    >>> same(np.array([1, 2]), np.array([1, 2])), same(np.array([1, 2]), None)
    (True, False)
    """
    if is_dataclass(one) and type(one) is type(other):
        names = {field.name for field in fields(one)} - but
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        kinds = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return kinds and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)
