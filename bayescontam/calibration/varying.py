"""Varying: a model made once for a cell, and given the data of one table after the other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm

from bayescontam.inference.build import Built, build_design
from bayescontam.inference.coordinates import Informed
from bayescontam.inference.design import Design, make_design
from bayescontam.inference.terms import plan_terms
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec

_DOSES = ("contamination", "dose", "item_dose", "cell_dose", "reach_dose")
"""What the linear predictor may ask of a design that depends on contaminations."""
_INFORMING = ("estimate", "precision")
"""What an `Informed` coordinate takes from the data."""
_POINTS, _SPREAD = 4, 0.5
"""Points at which two densities are compared, and how far from zero they lie."""
_ROUNDING = 1e-9
"""Difference of two equal densities, beside their size."""


class Varying:
    """A model whose data vary: what differs between tables of a cell, and nothing else.

    Data of the model are the counts, the contaminations if they move, and what the
    sampler's coordinates are informed by: with those of another table it would draw from
    the same posterior, and need several times as many draws.
    """

    def __init__(self, spec: ModelSpec, first: Responses, moving: bool) -> None:
        design = make_design(spec, first)
        self._seen: Callable[[Design], Any] = _Doses if moving else lambda design: design
        self._built = build_design(spec, design, self._seen)
        self.model = self._built.model
        self._doses = [name for name in _DOSES if name in self.model.named_vars]
        self.names = (*data_of(self._built), *self._doses)
        let_data_vary(self._built)

    def given(self, responses: Responses) -> tuple[Built, dict[str, Any]]:
        """Return what a table makes of the model."""
        design = make_design(self._built.spec, responses)
        self._refuse_another_layout(design)
        # Built for its coordinates alone: a tenth of a second, against seconds to compile.
        values = data_of(build_design(self._built.spec, design, self._seen))
        values |= {name: getattr(design, name) for name in self._doses}
        return replace(self._built, design=design), values

    def check(self, design: Design) -> None:
        """Hold the model, with the data that it has now, against one built for a table."""
        own = build_design(self._built.spec, design, self._seen).model
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
        before, now = first.contamination, design.contamination
        if before is None or now is None or self._doses:
            return
        if not np.array_equal(before, now):
            raise ValueError("tables of one cell differ in contamination")


class _Doses:
    """A design for the linear predictor, whose contaminations are data of the model."""

    def __init__(self, design: Design) -> None:
        self._design = design

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._design, name)
        if name not in _DOSES:
            return value
        model = pm.modelcontext(None)
        return model[name] if name in model.named_vars else pm.Data(name, value)


def let_data_vary(built: Built) -> None:
    """Make the counts, and what informs the sampler's coordinates, data of the model.

    Once compiled, the model can then be given the counts of another table; see `data_of`.
    """
    model = built.model
    with model:
        counts = pm.Data("counts", built.design.n_correct)
        for name, transform in _informed(model).items():
            _tie(model, name, transform)
    observed = model["n_correct"]
    model.values_to_rvs.pop(model.rvs_to_values[observed])
    model.rvs_to_values[observed], model.values_to_rvs[counts] = counts, observed


def data_of(built: Built) -> dict[str, Any]:
    """Return the values of a table for what `let_data_vary` made data, under their names."""
    values = {"counts": built.design.n_correct}
    for name, transform in _informed(built.model).items():
        values |= {f"{name}_{part}": getattr(transform, part) for part in _INFORMING}
    return values


def _informed(model: pm.Model) -> dict[str, Informed]:
    """Return the coordinates that are informed by data, under their variables' names."""
    found = model.rvs_to_transforms.items()
    return {rv.name: transform for rv, transform in found if isinstance(transform, Informed)}


def _tie(model: pm.Model, name: str, transform: Informed) -> None:
    """Replace what informs a variable's coordinates by data, within the model."""
    parts = {part: pm.Data(f"{name}_{part}", getattr(transform, part)) for part in _INFORMING}
    # PyMC finds data through the variables' own inputs only, never those of transforms.
    inputs = model[name].owner.inputs
    inputs[-2] = inputs[-2] + 0.0 * sum(parts.values())
    transform.estimate, transform.precision = (parts[part] for part in _INFORMING)
