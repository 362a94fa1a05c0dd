"""An index of stored vectors against a pass over all of them, plain FAISS and semantic_search.

``python -m benchmarks.index TEXTS``; 1,000 items, 384 dimensions, vectors in fp16 on disk. The
contestants that hold all vectors in memory take part up to 2,000,000 texts.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.scan.index_build import build_index
from bayescontam.scan.run import Scan, run_scan
from bayescontam.specs.corpus import Manifest
from tests.support.made_vectors import VectorWriter

DIMS, ITEMS, TOP, RANK, TOPICS, PART = 384, 1000, 100, 96, 2000, 65_536


class Topics:
    """Vectors around topics of low rank, with spectra that fall as those of embeddings do."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._spread = np.arange(1, RANK + 1, dtype=np.float32) ** -0.35
        self._basis = rng.standard_normal((RANK, DIMS), np.float32) / np.sqrt(DIMS)
        self._centers = rng.standard_normal((TOPICS, RANK), np.float32) * self._spread

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return vectors of length one."""
        z = self._centers[rng.integers(TOPICS, size=n)]
        z = z + 0.7 * self._spread * rng.standard_normal((n, RANK), np.float32)
        x = z @ self._basis + 0.25 / np.sqrt(DIMS) * rng.standard_normal((n, DIMS), np.float32)
        vectors: FloatArray = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
        return vectors


def write(folder: Path, texts: int) -> None:
    """Write vectors and items."""
    topics, rng = Topics(), np.random.default_rng(1)
    writer = VectorWriter(folder / "vectors")
    for at in range(0, texts, PART):
        n = min(PART, texts - at)
        hashes = rng.integers(0, 2**64, size=n, dtype=np.uint64)
        writer.add(topics.draw(rng, n), np.arange(at, at + n), hashes)
    writer.finish(DIMS)
    np.save(folder / "items.npy", topics.draw(np.random.default_rng(2), ITEMS))
    lines = [json.dumps({"id": f"q{i}", "input": f"item {i}"}) for i in range(ITEMS)]
    (folder / "items.jsonl").write_text("\n".join(lines))


def search(folder: Path, top: str) -> Scan:
    """Scan by the vectors or the index."""
    text = f"""summary = "benchmark"
{top}
[[benchmarks]]
name = "quiz"
path = "items.jsonl"
vectors = "items.npy"
[lexical]
ngrams = []
jaccard = false
rouge_l = false
"""
    out = folder / top.split()[0]
    return run_scan(Manifest.parse(text, "made.toml"), out, base=folder, device="cpu")


def in_memory(folder: Path) -> dict[str, float]:
    """Return the seconds of contestants that hold all vectors in memory."""
    import faiss
    import torch
    from sentence_transformers.util import semantic_search

    paths = sorted((folder / "vectors").glob("*.npy"))
    x = np.concatenate([np.load(path).astype(np.float32) for path in paths])
    q = np.load(folder / "items.npy")
    start = time.perf_counter()
    faiss.knn(q, x, TOP, metric=faiss.METRIC_INNER_PRODUCT)
    middle = time.perf_counter()
    semantic_search(torch.from_numpy(q), torch.from_numpy(x), top_k=TOP)
    return {"faiss.knn": middle - start, "semantic_search": time.perf_counter() - middle}


def main() -> None:
    """Run the contest and print its table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", type=int)
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    options = parser.parse_args()
    import torch  # so that loading it counts for none

    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write(folder, options.texts)
        start = time.perf_counter()
        index = build_index(folder / "vectors", folder / "index", progress=True)
        seconds = {"build": time.perf_counter() - start}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        exact = search(folder, "stored = ['vectors']")
        found = search(folder, "index = 'index'")
        seconds["all vectors"] = exact.record["seconds"]["search"]
        seconds["index"] = found.record["seconds"]["search"]
        if options.texts <= 2_000_000:
            seconds |= in_memory(folder)
        keys = ["item", "chunk_id"]
        recall = len(exact.matches[keys].merge(found.matches[keys])) / len(exact.matches)
    about = index.about
    print(f"{about['kind']}, {about['probes']} of {about['lists']} lists, recall when built:"
          f" {about['recall']['measured'][-1][1]}")  # fmt: skip
    print(f"recall@{TOP} of the items: {recall:.4f}, estimated"
          f" {found.record['search']['index']['recall']:.4f}")  # fmt: skip
    print(f"peak memory until the index was built: {peak:.2f} GB (resident, vectors included)")
    for what, taken in seconds.items():
        print(f"{what:<16}{taken:8.1f} s{taken / seconds['all vectors']:8.3f} of all vectors")
    if seconds["index"] > seconds["all vectors"] / 20 or recall < 0.98:
        sys.exit("the goal (a twentieth of the time, recall 0.98) is missed")


if __name__ == "__main__":
    main()
