"""Positions in vectors of parameters, and products of constant matrices with such vectors."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayescontam._types import IntArray


def taken(values: Any, at: IntArray) -> Any:
    """Return values at positions along their last axis, (…, n) to (…, *positions)."""
    # PyTensor 3.3 looks at each element of an array that indexes, whether it is true or false: two
    # seconds of the processor for a million responses and each effect. Not at those of a constant.
    # `numpy.take` is up to three times as fast as indexing by an array.
    if isinstance(values, np.ndarray):
        return values.take(at, axis=-1)
    return values[..., pt.constant(at)]


def weighted_sums(weights: Any, values: Any) -> Any:
    """Sum values weighted by each row of a matrix, (row, n) and (…, n) to (…, row)."""
    # Not by `pt.dot`: for each layout of its operands, PyTensor 3.3 has Numba compile a call of
    # BLAS with all the ways to copy them. To compile `hierarchical` without a cache (5 models, 4
    # benchmarks of 25 items) took 226 seconds of the processor with `pt.dot` and takes 90 with
    # sums. A gradient takes 0.9 times as long (16 models, 8 benchmarks of 50 items).
    if isinstance(values, np.ndarray):
        return values @ weights.T
    return (values[..., None, :] * weights).sum(axis=-1)
