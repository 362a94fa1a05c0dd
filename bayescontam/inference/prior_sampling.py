"""Draws from the prior of a PyMC model, all at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.maker import function
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import shared
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from bayescontam._progress import unannounced

MODE = "FAST_COMPILE"
"""PyTensor's mode of functions that are called once: compiling for speed takes longer."""
LARGE = 10_000
"""Elements of a matrix from which a product by it is compiled, which takes a tenth of a second."""
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
    wanted = vectorize_graph([model[name] for name in names], several)
    mode = get_mode(MODE).register((dfs_rewriter(_matrix_products), 0))  # before all others
    values = function([], wanted, mode=mode, on_unused_input="ignore")()
    arrays = {}
    for name, value in zip(names, values, strict=True):
        if value.ndim == model[name].ndim:  # it depends on no random variable
            value = np.broadcast_to(value, (count, *value.shape))
        own = [f"{name}_dim_{k}" for k in range(value.ndim - 1)]
        dims = model.named_vars_to_dims.get(name, own)
        arrays[name] = xr.DataArray(value[None], dims=("chain", "draw", *dims))
    found = xr.Dataset(arrays)
    known = {name: labels for name, labels in model.coords.items() if labels is not None}
    coords = {name: list(known.get(name, range(size))) for name, size in found.sizes.items()}
    return found.assign_coords(coords)


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


@node_rewriter([Sum])
def _matrix_products(_: Any, node: Any) -> list[Any] | None:
    """Return a product of matrices in place of what `weighted_sums` is of many draws.

    All terms of the sums at once would be 21 GB for 2,000 draws of 1,150 models.
    """
    terms = node.inputs[0]
    last = terms.ndim - 1
    multiplied = terms.owner is not None and isinstance(terms.owner.op, Elemwise)
    if not multiplied or not isinstance(terms.owner.op.scalar_op, Mul) or node.op.axis != (last,):
        return None
    orders = (*("x" for _ in range(last - 1)), 0, 1), (*range(last - 1), "x", last - 1)
    given = dict(zip(map(_order, terms.owner.inputs), terms.owner.inputs, strict=True))
    if len(given) != 2 or set(given) != set(orders):
        return None
    weights, values = (given[order].owner.inputs[0] for order in orders)
    if None in weights.type.shape or np.prod(weights.type.shape) < LARGE:
        return None
    sums = pt.dot(values.reshape((-1, values.shape[-1])), weights.T)
    return [sums.reshape((*values.shape[:-1], weights.shape[0]))]


def _order(variable: Any) -> tuple[Any, ...] | None:
    """Return how a variable arranges the axes of another, if it does."""
    node = variable.owner
    return node.op.new_order if node and isinstance(node.op, DimShuffle) else None
