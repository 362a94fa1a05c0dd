"""Variables of a PyMC model for many draws at once, by NumPy: what is called once is not compiled.

Draws are the first axis of every array. PyTensor would take seconds to compile for speed, and a
function of one draw would be called thousands of times.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.maker import function
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

MODE = "FAST_COMPILE"
"""PyTensor's mode of functions that are called a few times: compiling for speed takes longer."""
LARGE = 10_000
"""Elements of a matrix from which a product by it is compiled, which takes a tenth of a second."""
BLOCK = 4_000_000
"""Numbers of all variables together that are computed at the same time: 32 MB."""


def batched_function(inputs: Sequence[Any], variables: Sequence[Any], several: Any) -> Any:
    """Return a function of `inputs` that gives variables, of which `several` have many draws."""
    wanted = vectorize_graph(variables, several)
    mode = get_mode(MODE).register((dfs_rewriter(_matrix_products), 0))  # before all others
    return function(inputs, wanted, mode=mode, on_unused_input="ignore")


def repeated(value: np.ndarray, variable: Any, count: int) -> np.ndarray:
    """Return what was computed of a variable, once for each draw where it depends on none."""
    return np.broadcast_to(value, (count, *value.shape)) if value.ndim == variable.ndim else value


def labelled(model: pm.Model, variables: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return draws of variables, arrays (chain, draw, …), with dims and labels of a model."""
    found = xr.Dataset()
    for name, values in variables.items():
        own = (f"{name}_dim_{k}" for k in range(values.ndim - 2))
        found[name] = ("chain", "draw", *model.named_vars_to_dims.get(name, own)), values
    known = {name: labels for name, labels in model.coords.items() if labels is not None}
    # Not arrays of texts, which lose NUL at the end of a label.
    labels = {name: known.get(str(name), range(size)) for name, size in found.sizes.items()}
    return found.assign_coords({name: pd.Index(each) for name, each in labels.items()})


class Expansion:
    """What a model's draws store beside the values that are sampled: all that follows from them.

    nutpie computes it in each draw, by a function that takes as long to compile as the density.
    """

    def __init__(self, model: pm.Model) -> None:
        self._values = [model.rvs_to_values[variable] for variable in model.free_RVs]
        sampled = {value.name for value in self._values}
        self._variables = [each for each in model.unobserved_value_vars if each.name not in sampled]
        inputs = graph_inputs(self._variables)
        self._data: list[Any] = [each for each in inputs if isinstance(each, SharedVariable)]
        self._function: Any = None

    def of(self, drawn: Mapping[str, np.ndarray], data: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return what follows from sampled values, dims (chain, draw, …), by name.

        `data` are values that take the place of the model's own, by name.
        """
        if not self._variables:
            return {}
        if self._function is None:
            self._function = self._compiled()
        given = [
            np.asarray(data.get(each.name, each.get_value(borrow=True)), each.dtype)
            for each in self._data
        ]
        whole = [drawn[each.name] for each in self._values]
        chains, draws = whole[0].shape[:2]
        flat = [each.reshape(chains * draws, *each.shape[2:]) for each in whole]
        arrays: list[np.ndarray] = []
        start, step = 0, 1  # the first draw shows how many numbers there are of each
        while start < chains * draws:
            rows = slice(start, start + step)
            found = self._function(*(each[rows] for each in flat), *given)
            blocks = [
                repeated(value, variable, len(flat[0][rows]))
                for value, variable in zip(found, self._variables, strict=True)
            ]
            if not arrays:
                step = max(1, BLOCK // max(1, sum(block.size for block in blocks)))
                arrays = [
                    np.empty((chains * draws, *each.shape[1:]), each.dtype) for each in blocks
                ]
            for array, block in zip(arrays, blocks, strict=True):
                array[rows] = block
            start = rows.stop
        return {
            str(variable.name): array.reshape(chains, draws, *array.shape[1:])
            for variable, array in zip(self._variables, arrays, strict=True)
        }

    def _compiled(self) -> Any:
        copies = {each: each.type() for each in self._data}
        variables = clone_replace(self._variables, copies)
        several = {
            each: pt.tensor(dtype=each.dtype, shape=(None, *each.type.shape))
            for each in self._values
        }
        return batched_function([*several.values(), *copies.values()], variables, several)


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
