"""A model built once for many tables, whose data are set anew for each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayescontam._types import FloatArray
from bayescontam.data.responses import Responses
from bayescontam.model.build import BuiltModel, Varying, build_design
from bayescontam.model.design import Design, make_design
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec

_POINTS, _SPREAD = 4, 0.5
"""Points at which two densities are compared, and how far from zero they lie."""
_ROUNDING = 1e-9
"""Difference of two equal densities, beside their size."""


class ReusableModel:
    """A model built once for the tables of a cell, whose counts and, if they move, doses vary."""

    # What informs the sampler's coordinates varies with them: with that of another table it would
    # draw from the same posterior, and need several times as many draws.

    def __init__(self, spec: ModelSpec, first: Responses, moving: bool) -> None:
        self._varying: Varying = "doses" if moving else "counts"
        self._built = build_design(spec, make_design(spec, first), self._varying)
        self.model = self._built.model
        self.names = tuple(self._built.data())

    def given(self, responses: Responses) -> tuple[BuiltModel, dict[str, Any]]:
        """Return the model as that of a table, and the table's values for its data."""
        design = make_design(self._built.spec, responses)
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
                raise ValueError(f"tables of one cell differ in '{name}'")
        if plan_terms(self._built.spec, design) != self._built.terms:
            raise ValueError("tables of one cell differ in the effects that they can carry")
        if self._varying == "counts" and not _equal(first.contamination, design.contamination):
            raise ValueError("tables of one cell differ in contamination")


def _equal(one: FloatArray | None, other: FloatArray | None) -> bool:
    return one is None or other is None or np.array_equal(one, other)


@dataclass(frozen=True, eq=False)
class SampledDraws:
    """Draws from a posterior."""

    posterior: xr.Dataset  # dims (chain, draw, …)
    diverged: float  # share of draws that diverged
    built: BuiltModel  # with the data of the table that was fitted


def as_dataset(values: Mapping[str, NDArray[Any]]) -> xr.Dataset:
    """Return draws of variables, dims (chain, draw, …), without labels."""
    data = {}
    for name, each in values.items():
        dims = [f"{name}_dim_{axis}" for axis in range(each.ndim - 2)]
        data[name] = (("chain", "draw", *dims), each)
    return xr.Dataset(data)
