"""Lists of an index: their centres, and the one that is nearest to a vector."""

import contextlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam._optional import require
from bayescontam._progress import Advance, write_line
from bayescontam._text import printable
from bayescontam._types import IntArray, Matrix

NearestList = Callable[[Matrix, Matrix], tuple[Matrix, IntArray]]
"""Returns cosine and number of the centre that is nearest to each vector, dims (vector, 1)."""
_SEED = 1234
COMPARED = 2**24
"""Bytes of vectors or of their cosines with lists that are computed at once, in 32 bits."""


def centres_of(quantizer: Any) -> Matrix:
    """Return the centres of lists, dims (list, dimension)."""
    centres: Matrix = quantizer.reconstruct_n(0, quantizer.ntotal)
    return centres


def nearest_lists(unit: Matrix, centres: Matrix, probes: int) -> tuple[Matrix, IntArray]:
    """Return cosines and numbers of the lists that are nearest to vectors, dims (vector, list).

    By Torch, whose products are fast on every processor: those of FAISS may not be.
    """
    torch = require("torch", "scan")
    lists, step = torch.from_numpy(centres).T, max(1, COMPARED // (4 * len(centres)))
    cosines, numbers = torch.empty(len(unit), probes), torch.empty(len(unit), probes, dtype=int)
    # One block serves all products: each in a block of its own left holes that filled the memory.
    block = torch.empty(min(step, len(unit)), len(centres))
    for at in range(0, len(unit), step):
        some = slice(at, at + step)
        rows = torch.from_numpy(unit[some])
        products = torch.mm(rows, lists, out=block[: len(rows)])
        torch.topk(products, probes, dim=1, out=(cosines[some], numbers[some]))
    return cosines.numpy(), numbers.numpy()


def nearest_list(dims: int) -> NearestList:
    """Return what finds the nearest of some centres: by GPUs if FAISS has any, else by Torch."""
    faiss = require("faiss", "scan")
    on_gpus = _on_gpus(faiss, faiss.IndexFlatIP(dims))
    if on_gpus is None:
        return partial(nearest_lists, probes=1)

    def nearest(unit: Matrix, centres: Matrix) -> tuple[Matrix, IntArray]:
        on_gpus.reset()
        on_gpus.add(centres)
        cosines, numbers = on_gpus.search(unit, 1)
        return cosines, numbers

    return nearest


def _on_gpus(faiss: Any, index: Any) -> Any:
    """Return an index on all GPUs, where there are any that FAISS can use; else None."""
    if not faiss.get_num_gpus():  # which only faiss-gpu finds
        return None
    try:
        return faiss.index_cpu_to_all_gpus(index)
    except RuntimeError as error:  # one that others have filled
        write_line(True, f"GPUs are left out: {printable(str(error).splitlines()[0], 200)}")
        return None


def trained_centres(
    unit: Matrix, lists: int, rounds: int, nearest: NearestList, advance: Advance
) -> Matrix:
    """Return the centres of lists, of length one, dims (list, dimension).

    This is the k-means of FAISS's own Python library with products of Torch or of GPUs. The one
    that an index does by itself takes 1.4 times as long, and four times on processors that the
    OpenBLAS of FAISS's wheels does not know (13,107 lists, one core of an Intel Xeon).
    """
    library = require("faiss.contrib.clustering", "scan")
    data = _Assigned(unit, nearest, advance)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a line whatever it is given
        centres = library.kmeans(lists, data, niter=rounds, seed=_SEED, verbose=False)
    return _of_length_one(centres)


class _Assigned:
    """Vectors as the k-means of FAISS takes them: it requests the nearest centre of each."""

    def __init__(self, unit: Matrix, nearest: NearestList, advance: Advance) -> None:
        self._unit, self._nearest, self._advance = unit, nearest, advance

    def count(self) -> int:
        return len(self._unit)

    def dim(self) -> int:
        return self._unit.shape[1]

    def get_subset(self, indices: IntArray) -> Matrix:
        return self._unit[indices]

    def assign_to(self, centres: Matrix) -> tuple[IntArray, Matrix, Matrix]:
        """Return the nearest centre of each vector, its cosine, and sums of vectors by centre."""
        torch = require("torch", "scan")
        cosines, nearest = self._nearest(self._unit, _of_length_one(centres))
        sums = torch.zeros(centres.shape)
        sums.index_add_(0, torch.from_numpy(nearest.ravel()), torch.from_numpy(self._unit))
        self._advance(1)
        return nearest.ravel(), cosines.ravel(), sums.numpy()


def _of_length_one(centres: NDArray[Any]) -> Matrix:
    lengths = np.linalg.norm(centres, axis=1, keepdims=True)
    result: Matrix = (centres / np.maximum(lengths, 1e-30)).astype(np.float32)
    return result
