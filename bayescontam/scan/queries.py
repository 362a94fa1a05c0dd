"""Queries: items of benchmarks as vectors, embedded here or elsewhere."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam.errors import DataError, Fault
from bayescontam.names import visible
from bayescontam.optional import require
from bayescontam.scan.embed import Embedder, shared_embedder
from bayescontam.scan.scores import one_thread
from bayescontam.scan.vectors import VectorFile
from bayescontam.specs.corpus import Benchmark, Embedding
from bayescontam.storage import atomic_path

type Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Meter:
    """What is known of an embedder where it is not loaded."""

    # numbers of tokens of texts; None where it was not stored: see `ItemStage`
    count: Callable[[Sequence[str]], list[int]] | None
    max_tokens: int  # longest text that it sees
    about: dict[str, Any]  # how it describes itself


@dataclass(frozen=True)
class ItemStage:
    """Items to vectors."""

    embedding: Embedding
    device: str

    def __call__(self) -> Callable[[tuple[list[str], bool]], tuple[Vectors, list[int], Any]]:
        """Load the embedder; return the function that embeds texts and may give its `Meter`."""
        embedder = shared_embedder(self.embedding, self.device)
        return lambda task: _embedded(embedder, *task)


def _embedded(
    embedder: Embedder, texts: list[str], metered: bool
) -> tuple[Vectors, list[int], Meter | None]:
    with one_thread(require("torch", "scan")):
        vectors, tokens = embedder.embed(texts, "query"), embedder.count(texts)
    if not metered:
        return vectors, tokens, None
    return vectors, tokens, Meter(embedder.count, embedder.max_tokens, embedder.describe())


def given_vectors(benchmark: Benchmark, items: int, base: Path) -> Vectors | None:
    """Return the vectors that a benchmark comes with, (items, dims), if it does."""
    if benchmark.vectors is None:
        return None
    path = base / os.path.expanduser(benchmark.vectors)  # noqa: PTH111 (pathlib's raises)
    file = VectorFile(str(path), "")
    rows, dims = file.shape()
    if rows != items:
        problem = f"holds {rows:,} vectors, the benchmark has {items:,} items"
        raise DataError([Fault(str(path), problem)])
    parts = [part.astype(np.float32) for part in file.read(0, rows)]
    vectors = np.concatenate(parts or [np.empty((0, dims), np.float32)])
    odd = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(odd):
        raise DataError([Fault(str(path), "is not finite", row=int(odd[0]) + 1)])
    return vectors


def joined(
    sizes: dict[str, int], given: dict[str, Vectors], embedded: Vectors, counted: list[int]
) -> tuple[Vectors, list[int]]:
    """Return vectors and lengths in tokens (0 where they came as vectors) of all items."""
    parts: list[Vectors] = []
    tokens: list[int] = []
    at = 0
    for name, size in sizes.items():
        if name in given:
            parts.append(given[name])
            tokens += [0] * size
        else:
            parts.append(embedded[at : at + size])
            tokens += counted[at : at + size]
            at += size
    dims = {name: part.shape[1] for name, part in zip(sizes, parts, strict=True)}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{visible(name, 60)} has {n}" for name, n in dims.items())
        problem = f"their vectors have different dimensions: {listing}; use one embedder for all"
        raise DataError([Fault("benchmarks", problem)])
    return np.concatenate(parts), tokens


def save_embedded(path: Path, vectors: Vectors, tokens: list[int], meter: Meter) -> None:
    """Write the vectors of items, their lengths in tokens, and what made them."""
    about = {"max_tokens": meter.max_tokens, "about": meter.about}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            vectors=vectors,
            tokens=np.array(tokens, np.int64),
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        )


def load_embedded(path: Path) -> tuple[Vectors, list[int], Meter]:
    """Read what `save_embedded` wrote: of the meter, everything but its function."""
    with np.load(path) as file:
        about = json.loads(file["about"].tobytes())
        meter = Meter(None, about["max_tokens"], about["about"])
        return file["vectors"], file["tokens"].tolist(), meter
