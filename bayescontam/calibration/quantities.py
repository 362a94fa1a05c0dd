"""Quantities of a truth and of a fit, at one reference contamination."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.calibration.study import Plan, validate_quantities
from bayescontam.data.responses import Responses
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.estimands import estimands, reference_levels
from bayescontam.inference.posterior import CACHED, Draws, accuracy
from bayescontam.model.build import COORDINATES, BuiltModel
from bayescontam.model.design import Design, make_design
from bayescontam.model.effect_names import ABILITIES, EFFECTS, EffectNames
from bayescontam.specs.expression import Expression
from bayescontam.specs.study import GROUPS, Estimator, StudySpec

Key = tuple[str, str]  # quantity, and where: the labels of its cell, or nothing

_OF_ITEMS = {"item", "repeated", "response"}
"""Dims of parameters that are as many as the data, and not reported."""
_CLOSEST = 1e-15
"""Distance of an accuracy from 0 and 1 below which its logarithm is lost in rounding."""
AT_REFERENCE = {*ABILITIES, *EFFECTS}
"""Estimands whose meaning depends on the reference."""
_SAME = 1e-9


def as_dataset(
    values: Mapping[str, NDArray[Any]], named: Mapping[str, Sequence[Any]] = {}
) -> xr.Dataset:
    """Return draws of variables, dims (chain, draw, …), by names where these are known."""
    data = {}
    for name, each in values.items():
        dims = named.get(name) or [f"{name}_dim_{axis}" for axis in range(each.ndim - 2)]
        data[name] = (("chain", "draw", *dims), each)
    return xr.Dataset(data)


@dataclass(frozen=True, eq=False)
class Measured:
    """Values of quantities."""

    keys: tuple[Key, ...]
    values: FloatArray  # dims (chain, draw, key)

    def part(self, keys: list[Key]) -> FloatArray:
        """Return the values of some keys, dims (chain, draw, key)."""
        position = {key: i for i, key in enumerate(self.keys)}
        return self.values[..., [position[key] for key in keys]]


def measure(
    parameters: xr.Dataset, draws: Draws, built: BuiltModel, plan: Plan, strict: bool = False
) -> Measured:
    """Compute the quantities of a study from draws, of the posterior or the truth itself."""
    found = {
        "parameters": dict(_parameters(parameters, built)),
        "estimands": dict(_estimands(draws, built, plan.study, parameters)),
    }
    # As slow as the estimands together. The truth must know all names that can be requested.
    if strict or "log_likelihood" in requested_quantities(plan):
        values = _scalar(_log_likelihood(draws, built), parameters)
        found["log_likelihood"] = {"log_likelihood": values}
    every = {name: cells for group in found.values() for name, cells in group.items()}
    wanted = {_meant(name, found["estimands"]) for name in plan.study.quantities}
    if strict:
        validate_quantities(wanted, {*every, *GROUPS}, plan.source, "quantities")
    measured = {
        name: cells
        for group, names in found.items()
        for name, cells in names.items()
        if {group, name} & wanted
    }
    measured |= _expressions(plan, every, parameters, strict)
    keys = tuple((name, where) for name, cells in measured.items() for where in cells.labels)
    none = np.empty((parameters.sizes["chain"], parameters.sizes["draw"], 0))
    return Measured(
        keys, np.concatenate([none, *(cells.flat for cells in measured.values())], axis=-1)
    )


def requested_quantities(plan: Plan) -> set[str]:
    """Return the names of quantities and groups that a study requests, or computes with."""
    study = plan.study
    return set(study.quantities).union(*(Expression(t).names for t in study.expressions.values()))


def _meant(name: str, known: Container[str]) -> str:
    """Return the quantity that a study's name stands for, among those that a model has."""
    # A study that says "genuine_ability" means that of the direct effect where there is no other.
    stem, by, dim = name.partition("_by_")
    names = EffectNames.among(known)
    return name if names is None else f"{names.meant(stem)}{by}{dim}"


@dataclass(frozen=True, eq=False)
class _Cells:
    """Draws of one quantity, with a label for each cell that it has."""

    values: FloatArray  # dims (chain, draw, …)
    labels: list[str]  # of the cells that are reported, flattened
    present: NDArray[np.bool_]  # which cells these are, dims (cell,)

    @property
    def flat(self) -> FloatArray:
        return self.values.reshape(*self.values.shape[:2], -1)[..., self.present]


def label_of(names: Iterable[Any]) -> str:
    """Return the label of a cell, in which no two cells have the same.

    >>> label_of(["a", "b"]), label_of(["a | b", "c"])
    ('a | b', 'a \\\\| b | c')
    """
    return " | ".join(str(name).replace("|", "\\|") for name in names)


def _cells(values: FloatArray, names: list[list[Any]], defined: Any = None) -> _Cells:
    labels = [label_of(each) for each in product(*names)]
    present = np.ones(len(labels), dtype=bool) if defined is None else np.asarray(defined)
    return _Cells(
        values, [label for label, keep in zip(labels, present, strict=True) if keep], present
    )


def _scalar(values: FloatArray, parameters: xr.Dataset) -> _Cells:
    shape = parameters.sizes["chain"], parameters.sizes["draw"]
    return _cells(values.reshape(shape), [])


def _parameters(parameters: xr.Dataset, built: BuiltModel) -> Iterator[tuple[str, _Cells]]:
    """Yield parameters that have a meaning of their own: scalars, and those with named dims."""
    known = built.model.named_vars_to_dims
    for name in map(str, parameters.data_vars):
        if name in COORDINATES:
            continue
        values = parameters[name].to_numpy()
        dims = [str(dim) for dim in known.get(name, ())]
        if values.ndim == len(dims) + 2 and not _OF_ITEMS & set(dims):
            yield name, _cells(values, [list(built.model.coords[dim]) for dim in dims])


def _estimands(
    draws: Draws, built: BuiltModel, study: StudySpec, parameters: xr.Dataset
) -> Iterator[tuple[str, _Cells]]:
    shape = parameters.sizes["chain"], parameters.sizes["draw"]
    # The truth is one draw, so that truth and posterior have streams of their own.
    rng = stream(len(draws), "population")
    groups = estimands(draws, built, shape, study.reference, "all", rng)
    for group, dataset in groups.items():
        for name in map(str, dataset.data_vars):
            if name == "rank":  # a rank is whole, and its interval says little
                continue
            array = dataset[name]
            values = array.to_numpy()
            defined = ~np.isnan(values.reshape(-1, *values.shape[2:])).all(axis=0).ravel()
            labels = [list(array[dim].values) for dim in array.dims[2:]]
            full_name = name if group == "estimands" else f"{name}_by_{built.design.unit_dim}"
            yield full_name, _cells(values, labels, defined)


def _log_likelihood(draws: Draws, built: BuiltModel) -> FloatArray:
    """Return the log probability of the counts without the coefficient, dims (draw,)."""
    k, n = built.design.n_correct, built.design.n_trials
    parts = []
    for part in draws.chunks(built.design, CACHED):
        p = np.clip(accuracy(part, built), _CLOSEST, 1 - _CLOSEST)
        parts.append((xlogy(k, p) + xlog1py(n - k, -p)).sum(axis=1))
    return np.concatenate(parts)


def _expressions(
    plan: Plan, every: dict[str, _Cells], parameters: xr.Dataset, strict: bool
) -> dict[str, _Cells]:
    values = {
        name: cells.values.reshape(-1, *cells.values.shape[2:]) for name, cells in every.items()
    }
    names = set().union(*(Expression(text).names for text in plan.study.expressions.values()))
    stand_ins = {name: _meant(name, every) for name in names - set(values)}
    values |= {name: values[own] for name, own in stand_ins.items() if own in values}
    computed = {}
    for name, text in plan.study.expressions.items():
        formula, column = Expression(text), f"expressions.{name}"
        if strict and name in every:
            problem = "the model has a quantity of this name; give the formula another"
            raise SpecError([Fault(plan.source, problem, column=column)])
        if strict:
            validate_quantities(set(formula.names), set(values), plan.source, column)
        elif formula.names - set(values):
            continue
        try:
            computed[name] = _scalar(formula.evaluate(values), parameters)
        except ValueError as error:
            raise SpecError([Fault(plan.source, str(error), column=column)]) from error
    return computed


def validate_reference(
    plan: Plan, design: Design, estimator: Estimator, responses: Responses
) -> None:
    """Refuse an estimator that would report genuine ability at another contamination."""
    # What the cleanest items are depends on what is taken for contamination: of a latent
    # event it is 0, of the probability of that event the smallest one.
    names = {name.split("_by_")[0] for name in requested_quantities(plan)}
    matters = names & {"estimands", *AT_REFERENCE}
    if estimator.reversed or design.contamination is None or not matters:
        return
    levels = reference_levels(plan.study.reference, design)
    wanted = pd.Series(levels, index=list(map(str, design.benchmarks)))
    for benchmark, found in _levels(plan, estimator, responses):
        if abs(found - wanted[benchmark]) > _SAME:
            problem = (
                f"the estimator '{printable(estimator.name, 60)}' reports genuine ability at"
                f" contamination {found:.3g} on '{printable(benchmark, 60)}', and the truth is"
                f" reported at {wanted[benchmark]:.3g}; "
            ) + (
                "leave the bootstrap out, which takes each model's smallest contamination"
                if estimator.kind == "bootstrap"
                else "set 'zero' or a number, which is the same for both"
            )
            raise SpecError([Fault(plan.source, problem, column="reference")])


def _levels(plan: Plan, estimator: Estimator, responses: Responses) -> list[tuple[str, float]]:
    """Return benchmarks, and contaminations at which an estimator reports genuine ability."""
    if estimator.kind == "bootstrap":
        least = responses.frame.groupby(["model", "benchmark"])["contamination"].min()
        names = least.index.get_level_values("benchmark").astype(str)
        return list(zip(names, least.tolist(), strict=True))
    design = make_design(plan.specs[estimator.name], responses)
    if design.contamination is None:
        return []
    levels = reference_levels(plan.study.reference, design)
    return list(zip(map(str, design.benchmarks), levels.tolist(), strict=True))
