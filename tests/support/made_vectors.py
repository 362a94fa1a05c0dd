"""Stored vectors of any number, without texts that were embedded."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._types import FloatArray
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


def write_vectors(
    folder: Path, texts: int, *, copies: int = 0, part: int = 65_536, dims: int = DIMS
) -> None:
    """Write stored vectors in parts; the first `copies` texts occur again, in other parts."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    of = np.concatenate([np.arange(texts), np.arange(copies)])
    vectors = drawn_vectors(texts, seed=2, dims=dims)[of]
    hashes = rng.integers(0, 2**64, size=texts, dtype=np.uint64)[of]
    firsts = rng.integers(0, 2**64, size=len(of), dtype=np.uint64)
    strata = rng.integers(len(STRATA), size=len(of))
    parts = []
    for number, at in enumerate(range(0, len(of), part)):
        rows = np.arange(at, min(at + part, len(of)))
        name = f"{number:06d}"
        np.save(folder / f"{name}.npy", vectors[rows].astype("<f2"))
        table = pa.table(
            {
                "source": ["made"] * len(rows),
                "stratum": [STRATA[strata[row]] for row in rows],
                "document": [f"document {row}" for row in rows],
                "chunk": np.zeros(len(rows), np.int32),
                "start": np.zeros(len(rows), np.int64),
                "end": np.full(len(rows), 20),
                "text": [f"text {of[row]}" for row in rows],
                "hash": hashes[rows],
                "first": firsts[rows],
                "vector": np.arange(len(rows)),
            }
        ).cast(CHUNK_SCHEMA.append(pa.field("vector", pa.int64())))
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=300)
        size = (folder / f"{name}.npy").stat().st_size
        parts.append({"name": name, "vectors": len(rows), "chunks": len(rows), "bytes": size})
    spec = Embedding(model="hashing")
    counts = np.bincount(strata, minlength=len(STRATA)).tolist()
    counted = {"documents": len(of), "tokens": 9 * len(of)}
    about = {
        "format": 1, "parts": parts, "key": {"made": texts}, "precision": "fp16", "min_tokens": 1,
        "embedder": load_embedder(spec).describe() | {"dims": dims},
        "embedding": spec.model_dump(),
        "documents": {"read": len(of), "bytes": 0, "unreadable": {}, "damaged": {}, "without": {},
                      "sampled": len(of), "short": 0},
        "short": {"made": counted | {"short": 0, "short_tokens": 0, "short_pieces": 0}},
        "strata": [
            {"source": "made", "stratum": name, "documents": n, "sampled": n, "share": 1.0,
             "chunks": n}
            for name, n in zip(STRATA, counts, strict=True)
        ],
    }  # fmt: skip
    (folder / "vectors.json").write_text(json.dumps(about))
