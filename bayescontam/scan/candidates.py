"""Candidates: matches of the chunks of one shard that may have to be stored."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam.scan.kernels import BINS, CANDIDATE, flush

BUFFER = 2048
"""New candidates of a query for which there is room."""


class Candidates:
    """Matches stored of each query, and new candidates behind them."""

    def __init__(self, queries: int, keep: int, width: int) -> None:
        self._keep, self._width = keep, width
        self.matches = np.empty((queries, 2 * BUFFER + width), CANDIDATE)
        self.filled = np.zeros(queries, np.int32)
        self.sizes = np.zeros(queries, np.int32)
        self.cuts = np.full((queries, BINS), np.iinfo(np.uint32).max, np.uint32)
        self.splits = np.zeros(queries, np.int32)
        self.levels = np.zeros(queries, np.uint32)

    def make_room(self, ids: NDArray[np.uint64]) -> bool:
        """Make room for `width` more of each query; return whether cuts have changed.

        `ids` are the hashes of all columns so far.
        """
        if self.filled.max(initial=0) + self._width <= self.matches.shape[1]:
            return False
        # Those that have half of the room filled come along: they would be next.
        self._flush(BUFFER // 2, ids)
        short = int(self.filled.max()) + BUFFER + self._width - self.matches.shape[1]
        if short > 0:
            more = np.empty((len(self.filled), short), CANDIDATE)
            self.matches = np.concatenate([self.matches, more], axis=1)
        return True

    def kept(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return how many matches each query keeps, and all of these in a row."""
        self._flush(0, ids)
        inside = np.arange(self.matches.shape[1]) < self.sizes[:, None]
        return self.sizes, self.matches[inside]

    def _flush(self, limit: int, ids: NDArray[np.uint64]) -> None:
        # At this level about as many matches pass the coarse cut by bin as by priority.
        level = np.uint32((2**32 - 1) * min(1.0, self._keep / max(1, len(ids))) ** 0.5)
        flush(
            limit,
            self._keep,
            level,
            ids,
            self.matches,
            self.filled,
            self.sizes,
            self.cuts,
            self.splits,
            self.levels,
        )
