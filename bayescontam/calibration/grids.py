"""Grids: long vectors of a graph that are grids, computed as arrays of several axes.

A table in which every model answers every item is a grid, written as one long vector. For each
of its entries numbers are looked up: the ability of its model, the difficulty of its item. XLA
does so one by one, and adds up what is due to their derivatives one by one too. As repetitions
along the axes of the grid they cost next to nothing.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.subtensor import AdvancedSubtensor

Axes = tuple[tuple[int, int], ...]
"""How regular positions run, the slowest axis first: its length, and the step along it."""
Shape = tuple[int, ...]


def lay_out(graph: FunctionGraph) -> None:
    """Turn lookups by regular positions into repetitions, and vectors made of them into grids."""
    nodes: list[Any] = list(graph.toposort())
    lookups = {node: axes for node in nodes if (axes := _axes_of(node))}
    shapes = _common_shapes(lookups.values())
    grids: dict[Any, Any] = {}
    for node in nodes:
        known, grid = [each for each in node.inputs if each in grids], None
        size = _length(node, lookups, known)
        if size not in shapes:
            continue
        if node in lookups:
            grid = _looked_up(node.inputs[0], lookups[node], shapes[size])
        elif isinstance(node.op, Elemwise) and len(node.outputs) == 1:
            grid = node.op(*(_as_grid(each, grids, shapes[size]) for each in node.inputs))
        elif isinstance(node.op, Sum) and grids[known[0]].type.shape == shapes[size]:
            every = Sum(dtype=node.op.dtype, acc_dtype=node.op.acc_dtype)
            graph.replace(node.outputs[0], every.make_node(grids[known[0]]).outputs[0])
        if grid is not None:
            # Whatever else asks for the vector takes this; where nothing does, it is not made.
            whole: Any = pt.alloc(grid, *shapes[size])
            flat = whole.reshape((size,))
            grids[flat] = grid
            graph.replace(node.outputs[0], flat)


def regular_axes(positions: NDArray[np.integer[Any]]) -> Axes | None:
    """Return how positions run, if regularly and through each from 0 to the largest.

    >>> regular_axes(np.array([0, 0, 2, 2, 1, 1, 3, 3]))
    ((2, 1), (2, 2), (2, 0))
    >>> regular_axes(np.array([0, 1, 1]))
    """
    left, axes = positions.astype(np.int64), []
    while len(left) > 1:
        step = int(left[1] - left[0])
        breaks = np.flatnonzero(np.diff(left) != step)
        size = int(breaks[0]) + 1 if len(breaks) else len(left)
        starts = left[::size]
        if len(left) % size or (left != (starts[:, None] + step * np.arange(size)).ravel()).any():
            return None
        axes.append((size, step))
        left = starts
    reached = 1
    for step, size in sorted((step, size) for size, step in axes if step):
        if step != reached:
            return None
        reached *= size
    return tuple(reversed(axes)) if axes and not left[0] else None


def _axes_of(node: Any) -> Axes | None:
    """Return how the positions of a lookup in a vector run, if they are known and regular."""
    if not isinstance(node.op, AdvancedSubtensor) or len(node.inputs) != 2:
        return None
    vector, index = node.inputs
    if vector.ndim != 1 or not isinstance(index, Constant) or index.type.ndim != 1:
        return None
    return regular_axes(index.data) if np.issubdtype(index.data.dtype, np.integer) else None


def _common_shapes(lookups: Iterable[Axes]) -> dict[int, Shape]:
    """Return for each length the coarsest shape that has the axes of all vectors of it.

    Lengths that have no such shape are left out.
    """
    ends: dict[int, set[int]] = {}
    for axes in lookups:
        sizes = [size for size, _ in axes]
        reached = {prod(sizes[i:]) for i in range(len(sizes) + 1)}
        ends.setdefault(prod(sizes), set()).update(reached)
    found = {}
    for size, cuts in ends.items():
        pairs = list(pairwise(sorted(cuts)))
        if all(after % before == 0 for before, after in pairs):
            found[size] = tuple(after // before for before, after in reversed(pairs))
    return found


def _length(node: Any, lookups: dict[Any, Axes], known: list[Any]) -> int:
    """Return the length of what a node looks up, or of the known grids that it takes; 0 if none."""
    if node in lookups:
        return prod(size for size, _ in lookups[node])
    return known[0].type.shape[0] if known else 0


def _looked_up(vector: Any, axes: Axes, shape: Shape) -> Any:
    """Return what is looked up in a vector, of length 1 along the axes that it repeats along."""
    steps = _steps(axes, shape)
    own = sorted((axis for axis, step in enumerate(steps) if step), key=lambda axis: -steps[axis])
    sizes = [shape[axis] for axis in own]
    block = vector[: prod(sizes)].reshape(sizes)
    return block.dimshuffle(*(own.index(axis) if step else "x" for axis, step in enumerate(steps)))


def _steps(axes: Axes, shape: Shape) -> list[int]:
    """Return the step along each axis of a shape that is as fine as the axes, or finer."""
    steps, left = [], list(axes)
    size, step = 1, 0
    for length in reversed(shape):
        if size == 1:
            size, step = left.pop()
        steps.append(step)
        size, step = size // length, step * length
    return steps[::-1]


def _as_grid(vector: Any, grids: dict[Any, Any], shape: Shape) -> Any:
    if vector in grids:
        return grids[vector]
    if vector.type.broadcastable[0]:
        return vector.dimshuffle(*["x"] * (len(shape) - 1), 0)
    return vector.reshape(shape)
