"""Sums of vectors and matrices by plain loops, which take a tenth of the time to compile.

PyTensor's sums go through any array in the order of its memory: they sort the axes by their
strides, and of the code for that numba compiles errors about shapes, texts and hashes too. A vector
or a matrix has few orders, and those of a model are short or in C order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pytensor.link.numba.dispatch import basic
from pytensor.tensor.math import Sum

from bayescontam.inference.vectorised import PARTS, converted_by

_SOURCE = sha256(Path(__file__).read_bytes()).hexdigest()
"""Part of the keys under which PyTensor stores what it compiled: another source, another key."""


@basic.numba_njit
def _of_vector(x: Any) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    return total


@basic.numba_njit
def _of_matrix(x: Any) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j]
    return total


@basic.numba_njit
def _of_rows(x: Any) -> Any:
    sums = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
        sums[i] = total
    return sums


@basic.numba_njit
def _of_columns(x: Any) -> Any:
    sums = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            sums[j] += x[i, j]
    return sums


@basic.numba_njit
def _vector_as_array(x: Any) -> Any:
    return np.asarray(_of_vector(x))


@basic.numba_njit
def _matrix_as_array(x: Any) -> Any:
    return np.asarray(_of_matrix(x))


_SUMS: dict[tuple[int, tuple[int, ...], bool], Callable[[Any], Any]] = {
    (1, (0,), True): _of_vector,
    (1, (0,), False): _vector_as_array,
    (2, (0, 1), True): _of_matrix,
    (2, (0, 1), False): _matrix_as_array,
    (2, (1,), False): _of_rows,
    (2, (0,), False): _of_columns,
}
"""By the number of axes, the axes that are summed over, and whether a number is returned."""


@contextmanager
def sums_by_loops() -> Iterator[None]:
    """Have PyTensor compile these in the place of its own sums, for doubles."""
    if not all(hasattr(basic, name) for name in PARTS):
        yield
        return
    theirs = basic.numba_funcify_and_cache_key.dispatch(Sum)

    def ours(op: Any, node: Any = None, **given: Any) -> tuple[Any, str | None]:
        (x,), (total,) = node.inputs, node.outputs
        axes = tuple(range(x.type.ndim)) if op.axis is None else tuple(sorted(op.axis))
        form = x.type.ndim, axes, bool(given.get("scalar_out", False))
        kinds = {x.type.dtype, total.type.dtype, op.acc_dtype or total.type.dtype}
        if form not in _SUMS or kinds != {"float64"}:
            return theirs(op, node=node, **given)
        return _SUMS[form], sha256(f"{_SOURCE} {form}".encode()).hexdigest()

    with converted_by({Sum: ours}):
        yield
