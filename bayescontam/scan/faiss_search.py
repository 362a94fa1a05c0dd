"""Exact search for best matches alone, by FAISS: no cosine is counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayescontam._optional import require
from bayescontam._types import IntArray, Matrix
from bayescontam.errors import UsageError
from bayescontam.scan.execution import one_thread
from bayescontam.scan.search import ChunkIndex, Queries, scaled
from bayescontam.scan.sketch import CANDIDATE, Chunks, Sketch, Stratum
from bayescontam.scan.uploads import native

_BYTES = 2**29
"""Of vectors, in 32 bits, that FAISS compares at once."""
_LEAST = 16_384
"""Vectors that are compared at once at least: of each the candidates are compared again."""
_AGAIN = 2**20
"""Bytes of vectors that are compared with a query again at once: they stay in the cache."""
_SPARE = 16
"""Candidates beyond the best ones, as FAISS rounds and orders equal cosines as it likes."""
_MOST_ON_GPU = 2048 - _SPARE
"""Most matches of a query, since FAISS finds at most 2,048 on a GPU."""
_CLOSE = 2e-6
"""Rounding of a cosine by FAISS, and of lengths that are left as they are."""
_NONE = -2
"""Stands for the cosine where there is no match."""


def check_faiss(device: str, top_k: int) -> None:
    """Refuse a search that the installed FAISS cannot do.

    Raises
    ------
    UsageError
        If the device is a GPU, and FAISS is built for CPUs, or finds fewer matches there.
    MissingExtraError
        If FAISS is not installed.
    """
    faiss, on_gpu = require("faiss", "scan"), device.startswith("cuda")
    if on_gpu and not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus()):
        raise UsageError(
            "search.backend is 'faiss' and the device is 'cuda', but the FAISS that is installed"
            " finds no GPU: pip uninstall faiss-cpu, then install the extra 'gpu'; or choose"
            ' --device cpu, or backend = "torch" (--backend torch), which searches on GPUs'
        )
    if on_gpu and top_k > _MOST_ON_GPU:
        raise UsageError(
            f"search.top_k: got {top_k:,}; FAISS finds at most {_MOST_ON_GPU:,} on a GPU: lower it,"
            ' or choose --device cpu, or backend = "torch"'
        )


@cache
def _gpu_memory() -> Any:
    """Return FAISS's memory on GPUs, once for a process: to take it is slow."""
    return require("faiss", "scan").StandardGpuResources()


class FaissSearcher:
    """Finds the best matches of all queries, as `Searcher` does, and nothing else."""

    bins: ClassVar[int] = 0

    def __init__(self, queries: Queries, keep: int, device: str = "cpu", threads: int = 1) -> None:
        check_faiss(device, keep)
        self._torch, self._faiss = require("torch", "scan"), require("faiss", "scan")
        self._keep, self._threads = keep, threads
        # Of "cuda:1" the number; "cuda" is the GPU that FAISS takes itself (-1).
        self._gpu = int(device.partition(":")[2] or -1) if device.startswith("cuda") else None
        n = len(queries.keys)
        vectors, scales = self._take(queries.vectors, np.arange(n), "query")
        self._queries: Matrix = (vectors * scales[:, None]).numpy()
        self._benchmarks = int(queries.benchmarks.max(initial=-1)) + 1
        self._cosines = np.full((n, keep), _NONE, np.float32)
        self._columns = np.full((n, keep), -1)
        self._chunks: dict[Stratum, int] = {}
        self._known = ChunkIndex()

    @property
    def dims(self) -> int:
        """Dimensions of the queries."""
        return self._queries.shape[1]

    def add(self, chunks: Chunks) -> None:
        """Compare chunks of one stratum with all queries."""
        first = self._known.size
        rows = np.flatnonzero(self._known.update(chunks))
        step = max(_LEAST, _BYTES // (4 * chunks.vectors.shape[1]))
        with one_thread(self._torch), self._limited():
            for at in range(0, len(rows), step):
                piece = rows[at : at + step]
                # Without copies among them they are a view, and no copy.
                whole = len(rows) == len(chunks.hashes)
                given = chunks.vectors[at : at + step] if whole else chunks.vectors[piece]
                self._compare(*self._units(given, piece), first + at)
        sizes = self._chunks
        sizes[chunks.stratum] = sizes.get(chunks.stratum, 0) + int(chunks.copies.sum())

    def sketch(self, shard: int = 0) -> Sketch:
        """Return what was found so far, as the sketch of a shard of this number."""
        there = self._columns >= 0
        found = np.zeros(int(there.sum()), CANDIDATE)
        # Equal priorities: of sketches that are merged only the best matches stay.
        found["cosine"], found["column"] = self._cosines[there], self._columns[there]
        return Sketch(
            self._keep,
            np.zeros((len(there), self.bins), np.int64),
            np.concatenate([[0], np.cumsum(there.sum(axis=1))]),
            self._known.matches(found),
            {name: np.zeros((self._benchmarks, self.bins), np.int64) for name in self._chunks},
            dict(self._chunks),
            frozenset({shard}),
            {"texts": self._known.size},
        )

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Keep FAISS to the threads of this searcher: others work beside it."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self._threads)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)

    def _take(self, vectors: NDArray[Any], rows: IntArray, what: str) -> tuple[Any, Any]:
        return scaled(self._torch, self._torch.from_numpy(native(vectors)), rows, what)

    def _units(self, given: NDArray[Any], rows: IntArray) -> tuple[Matrix, Matrix]:
        """Return vectors of length one, up to rounding, and what makes their products cosines."""
        vectors, scales = self._take(given, rows, "vector")
        # Most are of length one already, and need not be written again.
        if (scales - 1).abs().max() > _CLOSE / 2:
            vectors, scales = vectors * scales[:, None], self._torch.ones_like(scales)
        return vectors.numpy(), scales.numpy()

    def _compare(self, vectors: Matrix, scales: Matrix, first: int) -> None:
        """Compare vectors with all queries; `first` is the column of the first one."""
        size = min(len(vectors), self._keep + _SPARE)
        near, rows = self._nearest(vectors, size)
        # FAISS's cosines depend on what is multiplied together; these on their pair alone.
        within = near > self._cosines[:, -1:] - _CLOSE
        cosines = np.full(rows.shape, _NONE, np.float32)
        for q in np.flatnonzero(within.any(axis=1)).tolist():
            cosines[q, within[q]] = self._exact(vectors, scales, q, rows[q, within[q]])
        columns = np.where(cosines > _NONE, rows + first, -1)
        ordered = self._best(
            np.concatenate([self._cosines, cosines], axis=1),
            np.concatenate([self._columns, columns], axis=1),
        )
        if size < len(vectors):
            # Where more may be as near as the last, which of them FAISS found is by chance.
            for q in np.flatnonzero(near[:, -1] >= ordered[0][:, -1] - _CLOSE).tolist():
                ordered[0][q], ordered[1][q] = self._all(vectors, scales, q, first)
        self._cosines, self._columns = ordered

    def _nearest(self, vectors: Matrix, size: int) -> tuple[Matrix, IntArray]:
        metric = self._faiss.METRIC_INNER_PRODUCT
        if self._gpu is None:
            near, rows = self._faiss.knn(self._queries, vectors, size, metric=metric)
        else:
            near, rows = self._faiss.knn_gpu(
                _gpu_memory(), self._queries, vectors, size, metric=metric, device=self._gpu
            )
        return near, rows

    def _exact(self, vectors: Matrix, scales: Matrix, query: int, rows: IntArray) -> Matrix:
        """Return the cosines of a query with some vectors."""
        result = np.empty(len(rows), np.float32)
        step = max(1, _AGAIN // (4 * vectors.shape[1]))
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            products = np.einsum("d,kd->k", self._queries[query], vectors[part])
            result[at : at + step] = products * scales[part]
        return result.clip(-1, 1, out=result)

    def _all(self, vectors: Matrix, scales: Matrix, query: int, first: int) -> tuple[Any, Any]:
        """Return the best matches of one query, compared with all that may be among them."""
        near = vectors @ self._queries[query] * scales
        least = np.partition(near, -self._keep)[-self._keep] - _CLOSE
        [rows] = np.nonzero(near >= max(least, self._cosines[query, -1] - _CLOSE))
        cosines = self._exact(vectors, scales, query, rows)
        best = self._best(
            np.concatenate([self._cosines[query], cosines])[None],
            np.concatenate([self._columns[query], rows + first])[None],
        )
        return best[0][0], best[1][0]

    def _best(self, cosines: Matrix, columns: IntArray) -> tuple[Matrix, IntArray]:
        """Return the best of each row: largest cosine first, ties by the chunk's hash."""
        order = np.lexsort((self._known.ids[columns], -cosines), axis=1)[:, : self._keep]
        return np.take_along_axis(cosines, order, 1), np.take_along_axis(columns, order, 1)
