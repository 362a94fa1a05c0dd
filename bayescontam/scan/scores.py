"""Scores: cosines of blocks of chunks with queries, counted and chosen from."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescontam.optional import require
from bayescontam.scan.candidates import Candidates
from bayescontam.scan.kernels import BINS, count_block

BLOCK = 512
"""Chunks scored at once on a CPU: so few that their scores stay in its cache."""
SCORES = 2**27
"""Cosines that Torch scores at once elsewhere; each takes about 40 bytes."""
_LENGTHS = 1e-15, 1e15
"""Between these, the square of a length is safe in fp32."""


@dataclass(frozen=True)
class Block:
    """Chunks to be scored."""

    # vectors, scales: see `scaled`
    vectors: Any
    scales: Any
    hashes: NDArray[np.uint32]  # low halves of their hashes
    weights: NDArray[np.int64]  # occurrences of each
    first: int  # column of the first chunk, among all that the searcher keeps
    live: bool  # whether they can be matches, or are only counted


class Scores(Protocol):
    """Scores chunks against a group of queries."""

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None: ...

    def add(self, block: Block, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""

    def counted(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call, (queries, BINS)."""

    def kept(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return what `Candidates.kept` does."""


class CompiledScores:
    """Scores on a CPU: matrix products by Torch, everything else in compiled loops.

    Products have one shape, whatever stands where there is nothing, so that the rounding of
    a cosine does not depend on how many chunks there are.
    """

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        self._torch = require("torch", "scan")
        self._queries, self._keys = queries, keys
        self._waiting = Candidates(len(keys), keep, BLOCK)
        self._counts = np.zeros((len(keys), BINS), np.int64)
        self._padded = self._torch.zeros(BLOCK, queries.shape[1])
        self._room = self._torch.empty(len(queries), BLOCK)

    def add(self, block: Block, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        waiting, scales = self._waiting, block.scales.numpy()
        for at in range(0, len(block.vectors), BLOCK):
            end = min(at + BLOCK, len(block.vectors))
            self._multiply(block.vectors[at:end])
            count_block(
                self._room.numpy()[: len(self._keys), : end - at],
                scales[at:end],
                block.first + at,
                block.hashes[at:end],
                block.weights[at:end],
                self._keys,
                block.live,
                self._counts,
                waiting.cuts,
                waiting.splits,
                waiting.levels,
                waiting.matches,
                waiting.filled,
            )
            waiting.make_room(ids[: block.first + end])

    def _multiply(self, vectors: Any) -> None:
        if len(vectors) < BLOCK:
            self._padded[: len(vectors)] = vectors
            vectors = self._padded
        self._torch.mm(self._queries, vectors.T, out=self._room)

    def counted(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call, (queries, BINS)."""
        counts, self._counts = self._counts, np.zeros_like(self._counts)
        return counts

    def kept(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return what `Candidates.kept` does."""
        return self._waiting.kept(ids)


class TorchScores:
    """Scores on any device by operations of Torch, a few large blocks at a time."""

    def __init__(self, queries: Any, keys: NDArray[np.uint32], keep: int) -> None:
        self._torch = torch = require("torch", "scan")
        n = len(keys)
        self._queries, self._device = queries[:n], queries.device
        self._width = max(BLOCK, SCORES // max(1, n))
        # Torch has no arithmetic of unsigned integers, so 64 bits hold the 32.
        self._keys = torch.from_numpy(keys.astype(np.int64)).to(self._device)[:, None]
        self._waiting = Candidates(n, keep, BLOCK)
        self._counts = torch.zeros((n, BINS), dtype=torch.int64, device=self._device)
        self._sharpen()

    def add(self, block: Block, ids: NDArray[np.uint64]) -> None:
        """Count the cosines of a block, and keep its matches."""
        torch, at = self._torch, 0
        hashes = torch.from_numpy(block.hashes.astype(np.int64)).to(self._device)
        weights = torch.from_numpy(block.weights).to(self._device)
        while at < len(block.vectors):
            # Blocks grow with what was seen, else most of a first large one would be candidates.
            part = slice(at, at + min(self._width, max(BLOCK, block.first + at)))
            cosines = _products(torch, self._queries, block.vectors[part])
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
        values = {
            "cosine": cosines[rows, columns].cpu().numpy(),
            "column": (columns + first).cpu().numpy(),
            "priority": priorities[rows, columns].cpu().numpy(),
        }
        self._buffer(rows.cpu().numpy(), values, ids)

    def _buffer(
        self,
        rows: NDArray[np.int64],
        values: dict[str, NDArray[Any]],
        ids: NDArray[np.uint64],
    ) -> None:
        """Buffer candidates, at most `BLOCK` of each query at a time; rows are in order."""
        waiting, changed = self._waiting, False
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        for turn in range(0, int(place.max(initial=-1)) + 1, BLOCK):
            now = (place >= turn) & (place < turn + BLOCK)
            to = rows[now], waiting.filled[rows[now]] + place[now] - turn
            for name, value in values.items():
                waiting.matches[name][to] = value[now]
            waiting.filled += np.bincount(rows[now], minlength=len(waiting.filled)).astype(np.int32)
            changed |= waiting.make_room(ids)
        if changed:
            self._sharpen()

    def _sharpen(self) -> None:
        cuts = self._waiting.cuts.astype(np.int64)
        self._cuts = self._torch.from_numpy(cuts).to(self._device)

    def counted(self) -> NDArray[np.int64]:
        """Return the histogram of each query since the last call, (queries, BINS)."""
        counts = self._counts.cpu().numpy().copy()
        self._counts.zero_()
        return counts

    def kept(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return what `Candidates.kept` does."""
        return self._waiting.kept(ids)


def _products(torch: Any, queries: Any, vectors: Any) -> Any:
    """Return the products of all pairs in fp32, whatever the precision of `vectors`."""
    if vectors.dtype == torch.float32:
        return queries @ vectors.T
    return torch.mm(queries.to(vectors.dtype), vectors.T, out_dtype=torch.float32)


def _priorities(chunks: Any, keys: Any) -> Any:
    """Return the priorities of all pairs, as `bayescontam.scan.kernels.priority_of` does."""
    low = 0xFFFFFFFF
    x = chunks ^ keys
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & low
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & low
    return x ^ (x >> 16)


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Keep Torch to one thread inside the block: here it works inside others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def workers(torch: Any, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Give threads that work at once, with Torch limited to one in each of them and in this one."""
    # Threads do not take the setting over from each other.
    keep_to_one = partial(torch.set_num_threads, 1)
    with one_thread(torch), ThreadPoolExecutor(threads, initializer=keep_to_one) as pool:
        yield pool


def scaled(torch: Any, vectors: Any, rows: NDArray[np.int64], what: str) -> tuple[Any, Any]:
    """Return vectors as they are multiplied, and the scales that make products cosines."""
    precise = torch.promote_types(vectors.dtype, torch.float32)
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=precise)
    odd = ~((lengths > _LENGTHS[0]) & (lengths < _LENGTHS[1]))
    if odd.any():
        peaks = vectors[odd].abs().amax(1, keepdim=True).double()
        if not peaks.isfinite().all():
            row = rows[odd.cpu().numpy()][(~peaks.isfinite()).flatten().cpu().numpy()][0]
            raise ValueError(f"{what} {row} is not finite")
        peaks[peaks == 0] = 1
        vectors = vectors.clone()
        vectors[odd] = (vectors[odd] / peaks).to(vectors.dtype)
        lengths[odd] = torch.linalg.vector_norm(vectors[odd], dim=1, dtype=precise)
    scales = torch.where(lengths > 0, 1 / lengths, 0).float()
    half = vectors.is_cuda and vectors.dtype in (torch.float16, torch.bfloat16)
    return (vectors if half else vectors.float()), scales
