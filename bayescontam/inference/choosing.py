"""Choosing: a node for each item by its distribution function, compiled by Numba."""

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, boundscheck=False, nogil=True)
def choose(
    below: NDArray[np.float32],
    random: NDArray[np.float32],
    total: NDArray[np.int64],
    level: NDArray[np.int64],
    basis: NDArray[np.float32],
) -> NDArray[np.int64]:
    """Choose the first node whose distribution function lies above a random number.

    Parameters
    ----------
    below : array
        Dims (level, total, node): distribution functions, which end at 1.
    random : array
        In [0, 1), one for each item.
    total : array
        One for each item.
    level, basis : array
        Dims (item, level of its group): between which levels an item lies, as weights.

    Returns
    -------
    array of int
        One node for each item.
    """
    chosen = np.empty(len(total), np.int64)
    for i in range(len(total)):
        low, high = 0, below.shape[2] - 1
        while low < high:
            middle = (low + high) // 2
            reached = np.float32(0)
            for k in range(level.shape[1]):
                reached += basis[i, k] * below[level[i, k], total[i], middle]
            if reached > random[i]:
                high = middle
            else:
                low = middle + 1
        chosen[i] = low
    return chosen
