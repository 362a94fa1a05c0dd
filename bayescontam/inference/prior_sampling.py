"""Draws from the prior of a PyMC model, all at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.sharedvalue import shared
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from bayescontam._progress import unannounced
from bayescontam.inference.batched import MODE, batched_function, labelled, repeated

_RANDOM = RandomVariable, SymbolicRandomVariable


def sample_prior(
    model: pm.Model, names: Sequence[str], count: int, rng: np.random.Generator
) -> xr.Dataset:
    """Draw variables of a model from the prior, dims (chain, draw, …) with one chain.

    `pymc.sample_prior_predictive` calls a function once for each draw, since PyTensor does not
    vectorise random variables of a stated size: several times as long for 2,000 draws
    (``benchmarks/test_compiling.py -k prior``). Models with random variables of another kind, or
    with variables below observed ones, are left to it.
    """
    free = {variable.owner for variable in model.free_RVs}
    needed = ancestors([*(model[name] for name in names), *model.free_RVs])
    random = {x.owner for x in needed if x.owner and isinstance(x.owner.op, _RANDOM)}
    if not random <= free or not all(isinstance(node.op, RandomVariable) for node in free):
        return sample_by_pymc(model, names, count, rng)
    several: dict[Any, Any] = {}
    for variable in model.free_RVs:  # those that others depend on come first
        several[variable] = _several(variable, several, count, rng)
    values = batched_function([], [model[name] for name in names], several)()
    drawn = {
        name: repeated(value, model[name], count)[None]
        for name, value in zip(names, values, strict=True)
    }
    return labelled(model, drawn)


def sample_by_pymc(
    model: pm.Model, names: Sequence[str], count: int, rng: np.random.Generator
) -> xr.Dataset:
    """Draw variables of a model from the prior one after another, laid out in the same way."""
    with unannounced():
        tree = pm.sample_prior_predictive(
            count,
            model=model,
            var_names=names,
            random_seed=rng,
            compile_kwargs={"mode": MODE},
        )
    return tree["prior"].to_dataset()


def _several(variable: Any, several: dict[Any, Any], count: int, rng: np.random.Generator) -> Any:
    """Return `count` draws of a random variable, given as many of those that it depends on."""
    op, node = variable.owner.op, variable.owner
    depth = variable.ndim - op.ndim_supp
    given, padded = op.dist_params(node), []
    for one, many, core in zip(
        given, vectorize_graph(given, several), op.ndims_params, strict=True
    ):
        if many.ndim > one.ndim:  # draws come first, then what is repeated, then its own
            missing = depth - (one.ndim - core)
            many = many.dimshuffle(0, *["x"] * missing, *range(1, many.ndim))
        padded.append(many)
    size = op.size_param(node)
    own = variable.shape[:depth] if isinstance(size.type, NoneTypeT) else size
    whole = pt.concatenate([[count], own]) if depth else [count]
    own_rng = shared(rng.spawn(1)[0])
    return op(*padded, size=whole, rng=own_rng, return_next_rng=True)[1]
