"""Engines: what draws from the posterior of one simulated table after the other."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr

from bayescontam.calibration.trace import read_trace
from bayescontam.inference.build import Built, build, build_design
from bayescontam.inference.coordinates import Informed
from bayescontam.inference.design import Design, make_design
from bayescontam.inference.engines import Sampling as PlainSampling
from bayescontam.inference.engines import sample
from bayescontam.inference.terms import plan_terms
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import Sampling

_DOSES = ("contamination", "dose", "item_dose", "cell_dose", "reach_dose")
"""What the linear predictor may ask of a design that depends on contaminations."""
_INFORMING = ("estimate", "precision")
"""What an `Informed` coordinate takes from the data."""
LONGER = {"draws": 4, "tune": 2}
"""How many times as long the second try is."""
TARGET_ACCEPT = 0.99
"""Acceptance of the second try: small steps, which diverge less."""


def longer(sampling: Sampling) -> Sampling:
    """Return how a posterior is sampled at the second try."""
    more = {name: getattr(sampling, name) * times for name, times in LONGER.items()}
    target = max(TARGET_ACCEPT, sampling.target_accept)
    return sampling.model_copy(update={**more, "target_accept": target})


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws from a posterior.

    Attributes
    ----------
    posterior : xarray.Dataset
        Dims (chain, draw, …).
    diverged : float
        Share of draws that diverged.
    built : Built
        With the data of the table that was fitted.
    """

    posterior: xr.Dataset
    diverged: float
    built: Built


class Engine(Protocol):
    """Draws from the posterior of a model spec, for tables of one cell."""

    name: str

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table; the same for the same seed."""


class Anew:
    """A model built and compiled for each table: slow, and good for anything.

    Parameters
    ----------
    spec : ModelSpec
    name : {"nutpie", "pymc"}
    """

    def __init__(self, spec: ModelSpec, name: Any) -> None:
        self._spec, self.name = spec, name

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table."""
        built = build(self._spec, responses)
        plain = PlainSampling(
            self.name, sampling.draws, sampling.tune, sampling.chains, 1, sampling.target_accept
        )
        posterior, statistics = sample(built, plain, seed, False)
        return Drawn(posterior, float(statistics["diverging"].mean()), built)


class Compiled:
    """A model compiled once by nutpie, and given the counts of one table after the other.

    Parameters
    ----------
    spec : ModelSpec
    first : Responses
        Any table of the layout of all others.
    moving : bool
        Whether contaminations differ between tables too.

    Notes
    -----
    Data of the compiled model are the counts, the contaminations if they move, and what the
    sampler's coordinates are informed by: with those of another table it would draw from
    the same posterior, and need several times as many draws.
    """

    name = "nutpie"

    def __init__(self, spec: ModelSpec, first: Responses, moving: bool) -> None:
        import nutpie

        design = make_design(spec, first)
        self._built = build_design(spec, design, _Doses if moving else lambda design: design)
        let_data_vary(self._built)
        model = self._built.model
        self._names = [name for name in _DOSES if name in model.named_vars]
        self._compiled = nutpie.compile_pymc_model(model)

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table of the same layout as the first."""
        import nutpie

        design = make_design(self._built.spec, responses)
        self._refuse_another_layout(design)
        doses = {name: getattr(design, name) for name in self._names}
        # Built for its coordinates alone: a tenth of a second, against seconds to compile.
        now = build_design(self._built.spec, design)
        trace = nutpie.sample(
            self._compiled.with_data(**data_of(now), **doses),
            draws=sampling.draws,
            tune=sampling.tune,
            chains=sampling.chains,
            cores=1,
            seed=seed,
            target_accept=sampling.target_accept,
            progress_bar=False,
            return_raw_trace=True,
        )
        posterior, diverged = read_trace(trace, sampling.draws)
        return Drawn(posterior, diverged, replace(self._built, design=design))

    def _refuse_another_layout(self, design: Design) -> None:
        """Refuse what the compiled model would take for something else without a word."""
        first = self._built.design
        for name in ("model", "benchmark", "unit", "item", "n_trials"):
            if not np.array_equal(getattr(first, name), getattr(design, name)):
                raise ValueError(f"tables of one cell differ in '{name}'")
        if plan_terms(self._built.spec, design) != self._built.terms:
            raise ValueError("tables of one cell differ in the effects that they can carry")
        before, now = first.contamination, design.contamination
        if before is None or now is None or self._names:
            return
        if not np.array_equal(before, now):
            raise ValueError("tables of one cell differ in contamination")


def engine_of(spec: ModelSpec, name: str, first: Responses, moving: bool) -> Engine:
    """Return an engine by name.

    Parameters
    ----------
    spec : ModelSpec
    name : {"nutpie", "pymc"}
    first : Responses
        A table of the cell, the same wherever this is called.
    moving : bool
        Whether contaminations differ between tables.
    """
    if name != "nutpie":
        return Anew(spec, name)
    exposure = make_design(spec, first).exposure
    repeated = bool((first.frame["n_trials"] > 1).any())
    # What summed-out contaminations are, and how they go with repeated trials, is worked
    # out from the table when the model is built.
    if exposure is not None and (moving or (repeated and spec.likelihood.has_model_by_item)):
        return Anew(spec, name)
    return Compiled(spec, first, moving)


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

    Parameters
    ----------
    built : Built
        Its model is changed.
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
    """Return the values of a table for what `let_data_vary` made data, under their names.

    Parameters
    ----------
    built : Built
        The model spec built for this table, as it is built at first.
    """
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
