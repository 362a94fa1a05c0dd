"""Searches to test, and the slow and obvious way to their results."""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescontam.scan.search import Chunks, Queries, Searcher
from bayescontam.scan.sketch import Sketch

BINS = 2001
ATOL = 1e-6
"""Cosines may differ by this much, through rounding."""


def hashed(*parts: object) -> int:
    """Return a 64-bit hash."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def hashes(n: int, what: str = "chunk") -> np.ndarray:
    return np.array([hashed(what, i) for i in range(n)], np.uint64)


def make_queries(vectors: np.ndarray, keys: Any = None, benchmarks: Any = None) -> Queries:
    n = len(vectors)
    if keys is None:
        keys = hashes(n, "query").astype(np.uint32)
    if benchmarks is None:
        benchmarks = np.arange(n) % 2
    return Queries(vectors, np.asarray(keys, np.uint32), np.asarray(benchmarks, np.int64))


def make_chunks(
    vectors: np.ndarray,
    ids: np.ndarray | None = None,
    stratum: tuple[str, str] = ("web", ""),
    **more: np.ndarray,
) -> Chunks:
    """Return chunks with, unless given otherwise, made-up hashes and one copy each."""
    n = len(vectors)
    ids = hashes(n) if ids is None else ids
    reported = {
        "firsts": ids,
        "places": np.arange(n, dtype=np.int64),
        "copies": np.ones(n, np.int64),
    } | more
    return Chunks(stratum, ids, reported["firsts"], reported["places"], reported["copies"], vectors)


def search(queries: Queries, parts: Sequence[Chunks], keep: int = 10, **options: Any) -> Sketch:
    """Return the sketch of one shard; `shard` is its number."""
    shard = options.pop("shard", 0)
    searcher = Searcher(queries, keep, **options)
    for part in parts:
        searcher.add(part)
    return searcher.sketch(shard)


def cosines_of(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return cosines in double precision; those of zeros are 0."""

    def units(rows: np.ndarray) -> np.ndarray:
        rows = rows.astype(np.float64)
        rows = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 5e-324)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)

    return units(queries) @ units(vectors).T


def bins_by_formula(cosines: np.ndarray) -> np.ndarray:
    scaled = np.float32(1000) * cosines.astype(np.float32) + np.float32(1000)
    return np.clip(scaled.astype(np.int64), 0, BINS - 1)


def histogram(cosines: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Return the counts of cosines (queries × chunks) by bin."""
    return np.array([np.bincount(bins, copies, BINS) for bins in bins_by_formula(cosines)]).astype(
        np.int64
    )


def priority(chunk: int, key: int) -> int:
    """Return MurmurHash3's 32-bit finalizer of the low half of a chunk's hash, and the key."""
    h = (chunk ^ key) % 2**32
    h ^= h >> 16
    h = h * 0x85EBCA6B % 2**32
    h ^= h >> 13
    h = h * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def kept_of(cosines: Any, chunks: Any, key: int, keep: int) -> list[int]:
    """Return which matches of one query are stored, in order: the definition, word by word."""
    order = sorted(range(len(chunks)), key=lambda i: (-float(cosines[i]), int(chunks[i])))
    earlier: list[int] = []
    kept = []
    for i in order:
        own = priority(int(chunks[i]), int(key))
        if bisect_right(earlier, own) < keep:
            kept.append(i)
        insort(earlier, own)
    assert bisect_left(earlier, 2**32) == len(chunks)
    return kept


def exact_vectors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return unit vectors whose cosines are multiples of 1/8: no rounding, and many ties."""
    return rng.choice([-0.25, 0.25], (n, 16)).astype(np.float32)


def assert_same(one: Sketch, other: Sketch) -> None:
    """Assert that two sketches are equal, bit by bit."""
    assert one.keep == other.keep
    assert one.chunks == other.chunks
    assert one.shards == other.shards
    assert one.tallies == other.tallies
    assert one.strata.keys() == other.strata.keys()
    for name in one.strata:
        np.testing.assert_array_equal(one.strata[name], other.strata[name])
    for name in ("counts", "offsets", "matches"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
