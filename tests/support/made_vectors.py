"""Stored vectors of any number, without texts that were embedded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayescontam._types import FloatArray, IntArray
from bayescontam.scan.chunking import CHUNK_SCHEMA
from bayescontam.scan.embedders import load_embedder
from bayescontam.specs.corpus import Embedding

DIMS = 32
STRATA = ("a", "b")


def drawn_vectors(n: int, seed: int, dims: int = DIMS, topics: int = 40) -> FloatArray:
    """Return vectors of length one around topics that are the same for every seed."""
    rng, centers = np.random.default_rng(seed), np.random.default_rng(0)
    middle = centers.standard_normal((topics, dims))
    vectors = middle[rng.integers(topics, size=n)] + 0.8 * rng.standard_normal((n, dims))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def numbered(word: str, numbers: IntArray) -> Any:
    """Return a word with each of many numbers, quickly."""
    return pc.binary_join_element_wise(word, pa.array(numbers).cast(pa.string()), " ")


class VectorWriter:
    """Writes stored vectors part by part."""

    def __init__(self, folder: Path, source: str = "made") -> None:
        folder.mkdir(parents=True)
        self._source = source
        self._folder, self._rng = folder, np.random.default_rng(1)
        self._parts: list[dict[str, Any]] = []
        self._counts = np.zeros(len(STRATA), np.int64)

    def add(self, vectors: FloatArray, texts: IntArray, hashes: Any) -> None:
        """Write a part: vectors, dims (text, dimension), numbers and hashes of their texts."""
        n, name = len(vectors), f"{len(self._parts):06d}"
        strata = self._rng.integers(len(STRATA), size=n)
        at = int(self._counts.sum())
        self._counts += np.bincount(strata, minlength=len(STRATA))
        np.save(self._folder / f"{name}.npy", vectors.astype("<f2"))
        table = pa.table(
            {
                "source": [self._source] * n,
                "stratum": np.array(STRATA)[strata],
                "document": numbered("document", np.arange(at, at + n)),
                "chunk": np.zeros(n, np.int32),
                "start": np.zeros(n, np.int64),
                "end": np.full(n, 20),
                "text": numbered("text", texts),
                "hash": hashes,
                "first": self._rng.integers(0, 2**64, size=n, dtype=np.uint64),
                "vector": np.arange(n),
            }
        ).cast(CHUNK_SCHEMA.append(pa.field("vector", pa.int64())))
        pq.write_table(table, self._folder / f"{name}.parquet", row_group_size=512)
        size = (self._folder / f"{name}.npy").stat().st_size
        self._parts.append({"name": name, "vectors": n, "chunks": n, "bytes": size})

    def finish(self, dims: int) -> None:
        """Write what the vectors were made of."""
        spec, n = Embedding(model="hashing"), int(self._counts.sum())
        counted = {"documents": n, "tokens": 9 * n}
        about = {
            "format": 1, "parts": self._parts, "key": {"made": n}, "precision": "fp16",
            "min_tokens": 1, "embedder": load_embedder(spec).describe() | {"dims": dims},
            "embedding": spec.model_dump(),
            "documents": {"read": n, "bytes": 0, "unreadable": {}, "damaged": {}, "without": {},
                          "sampled": n, "short": 0},
            "short": {self._source: counted | {"short": 0, "short_tokens": 0, "short_pieces": 0}},
            "strata": [
                {"source": self._source, "stratum": name, "documents": size, "sampled": size,
                 "share": 1.0, "chunks": size}
                for name, size in zip(STRATA, self._counts.tolist(), strict=True)
            ],
        }  # fmt: skip
        (self._folder / "vectors.json").write_text(json.dumps(about))


def write_vectors(
    folder: Path,
    texts: int,
    *,
    copies: int = 0,
    part: int = 65_536,
    dims: int = DIMS,
    source: str = "made",
) -> None:
    """Write stored vectors in parts; the first `copies` texts occur again, in other parts."""
    of = np.concatenate([np.arange(texts), np.arange(copies)])
    vectors = drawn_vectors(texts, seed=2, dims=dims)
    hashes = np.random.default_rng(3).integers(0, 2**64, size=texts, dtype=np.uint64)
    writer = VectorWriter(folder, source)
    for at in range(0, len(of), part):
        rows = of[at : at + part]
        writer.add(vectors[rows], rows, hashes[rows])
    writer.finish(dims)
