"""Scores of blocks of chunks: compiled loops on a CPU, operations of Torch on a GPU."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam._optional import require
from bayescontam.scan.sketch import BINS, CANDIDATE, count_block, flush

BUFFER = 2048
"""New candidates of a query for which there is room."""
BLOCK = 512
"""Chunks scored at once on a CPU: so few that their scores stay in its cache."""
SCORES = 2**27
"""Cosines that Torch scores at once elsewhere; each takes about 40 bytes."""
_RAISED = 1024.0
"""What queries are multiplied by where they are split into halves; a power of two."""


class Candidates:
    """Matches stored of each query, and new candidates behind them."""

    def __init__(self, queries: int, keep: int) -> None:
        self._torch = require("torch", "scan")
        self._keep = keep
        self.matches = np.empty((queries, 2 * BUFFER + BLOCK), CANDIDATE)
        self.filled = np.zeros(queries, np.int32)
        self.sizes = np.zeros(queries, np.int32)
        self.cuts = np.full((queries, BINS), np.iinfo(np.uint32).max, np.uint32)
        self.splits = np.zeros(queries, np.int32)
        self.levels = np.zeros(queries, np.uint32)

    def make_room(self, ids: NDArray[np.uint64]) -> bool:
        """Make room for a block more of each query; return whether cuts have changed."""
        if self.filled.max(initial=0) + BLOCK <= self.matches.shape[1]:
            return False
        # Those that have half of the room filled come along: they would be next.
        self._flush(BUFFER // 2, ids)
        short = int(self.filled.max()) + BUFFER + BLOCK - self.matches.shape[1]
        if short > 0:
            more = np.empty((len(self.filled), short), CANDIDATE)
            self.matches = np.concatenate([self.matches, more], axis=1)
        return True

    def top_matches(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
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


@dataclass(frozen=True)
class SimilarityBlock:
    """Chunks to be scored."""

    # vectors, scales: see `scaled`
    vectors: Any
    scales: Any
    hashes: NDArray[np.uint32]  # low halves of their hashes
    weights: NDArray[np.int64]  # occurrences of each
    first: int  # column of the first chunk, among all that the searcher keeps
    live: bool  # whether they can be matches, or are only counted


class CompiledScores(Candidates):
    """Scores on a CPU: matrix products by Torch, everything else in compiled loops.

    Products have one shape, whatever stands where there is nothing, so that the rounding of
    a cosine does not depend on how many chunks there are.
    """

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        super().__init__(len(keys), keep)
        self._queries, self._keys = queries, keys
        self._counts = np.zeros((len(keys), BINS), np.int64)
        self._padded = self._torch.zeros(BLOCK, queries.shape[1])
        self._room = self._torch.empty(len(queries), BLOCK)

    def add(self, block: SimilarityBlock, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        scales = block.scales.numpy()
        for at in range(0, len(block.vectors), BLOCK):
            end = min(at + BLOCK, len(block.vectors))
            vectors = block.vectors[at:end]
            if len(vectors) < BLOCK:
                self._padded[: len(vectors)] = vectors
                vectors = self._padded
            self._torch.mm(self._queries, vectors.T, out=self._room)
            count_block(
                self._room.numpy()[: len(self._keys), : end - at],
                scales[at:end],
                block.first + at,
                block.hashes[at:end],
                block.weights[at:end],
                self._keys,
                block.live,
                self._counts,
                self.cuts,
                self.splits,
                self.levels,
                self.matches,
                self.filled,
            )
            self.make_room(ids[: block.first + end])

    def histogram(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call."""
        counts, self._counts = self._counts, np.zeros_like(self._counts)
        return counts


class TorchScores(Candidates):
    """Scores on any device by operations of Torch, a few large blocks at a time."""

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        super().__init__(len(keys), keep)
        torch, n = self._torch, len(keys)
        self._products, self._device = Products(torch, queries[:n]), queries.device
        self._width = max(BLOCK, SCORES // max(1, n))
        # Torch has no arithmetic of unsigned integers, so 64 bits hold the 32.
        self._keys = torch.from_numpy(keys.astype(np.int64)).to(self._device)[:, None]
        self._counts = torch.zeros((n, BINS), dtype=torch.int64, device=self._device)
        self._sharpen()

    def add(self, block: SimilarityBlock, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        torch, at = self._torch, 0
        hashes = torch.from_numpy(block.hashes.astype(np.int64)).to(self._device)
        weights = torch.from_numpy(block.weights).to(self._device)
        while at < len(block.vectors):
            # Blocks grow with what was seen, else most of a first large one would be candidates.
            part = slice(at, at + min(self._width, max(BLOCK, block.first + at)))
            cosines = self._products(block.vectors[part])
            cosines.mul_(block.scales[part]).clamp_(-1, 1)
            bins = (cosines * 1000.0 + 1000.0).to(torch.int64).clamp_(0, BINS - 1)
            self._counts.scatter_add_(1, bins, weights[part].expand_as(bins))
            if block.live:
                self._offer(cosines, bins, hashes[part], block.first + at, ids)
            at = part.stop

    def _offer(
        self, cosines: Any, bins: Any, hashes: Any, first: int, ids: NDArray[np.uint64]
    ) -> None:
        priorities = _priorities(hashes, self._keys)
        rows, columns = (priorities <= self._cuts.gather(1, bins)).nonzero(as_tuple=True)
        found = np.empty(len(rows), CANDIDATE)
        found["cosine"] = cosines[rows, columns].cpu().numpy()
        found["column"] = (columns + first).int().cpu().numpy()
        # The same 32 bits, with a sign.
        found["priority"] = priorities[rows, columns].int().cpu().numpy().view(np.uint32)
        self._buffer(rows.int().cpu().numpy(), found, ids)

    def _buffer(
        self, rows: NDArray[np.int32], found: NDArray[Any], ids: NDArray[np.uint64]
    ) -> None:
        """Buffer candidates, at most `BLOCK` of each query at a time; rows are in order."""
        changed = False
        number = np.bincount(rows, minlength=len(self.filled))
        place = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
        for turn in range(0, int(number.max(initial=0)), BLOCK):
            now: Any = slice(None)
            if number.max() > BLOCK:
                now = (place >= turn) & (place < turn + BLOCK)
            at = self.filled[rows[now]] + place[now] - turn
            self.matches[rows[now], at] = found[now]
            self.filled += np.clip(number - turn, 0, BLOCK).astype(np.int32)
            changed |= self.make_room(ids)
        if changed:
            self._sharpen()

    def _sharpen(self) -> None:
        cuts = self.cuts.astype(np.int64)
        self._cuts = self._torch.from_numpy(cuts).to(self._device)

    def histogram(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call."""
        counts = self._counts.cpu().numpy().copy()
        self._counts.zero_()
        return counts


class Products:
    """Products of queries of length one, in full precision, with vectors of any precision.

    A GPU multiplies halves with halves alone, sixteen times as fast as it does fp32, and sums in
    fp32. Queries are therefore split into halves that add up to them: two of fp16 or three of
    bf16 hold about as many bits.
    """

    def __init__(self, torch: Any, queries: Any) -> None:
        self._torch, self._queries = torch, queries
        self._halves: dict[Any, list[Any]] = {}

    def __call__(self, vectors: Any) -> Any:
        """Return the products of all pairs in fp32, dims (query, vector)."""
        torch = self._torch
        if vectors.dtype == torch.float32:
            return self._queries @ vectors.T
        if vectors.dtype not in self._halves:
            self._halves[vectors.dtype] = self._split(vectors.dtype)
        first, *others = self._halves[vectors.dtype]
        result = torch.mm(first, vectors.T, out_dtype=torch.float32)
        for other in others:
            result += torch.mm(other, vectors.T, out_dtype=torch.float32)
        return result.mul_(1 / _RAISED)

    def _split(self, half: Any) -> list[Any]:
        """Return halves that add up to the raised queries, the smallest first."""
        # Raised, as the smallest numbers of fp16 have fewer bits.
        rest, parts = self._queries * _RAISED, []
        for _ in range(2 if half == self._torch.float16 else 3):
            parts.append(rest.to(half))
            rest = rest - parts[-1].float()
        return parts[::-1]


def _priorities(chunks: Any, keys: Any) -> Any:
    """Return the priorities of all pairs, as `bayescontam.scan.sketch.priority_of` does."""
    low = 0xFFFFFFFF
    x = chunks ^ keys
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & low
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & low
    return x ^ (x >> 16)
