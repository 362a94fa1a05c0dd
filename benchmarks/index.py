"""An index of stored vectors against a pass over all of them, plain FAISS and semantic_search.

``python -m benchmarks.index TEXTS``; 1,000 items, 384 dimensions, vectors in fp16 on disk. With
``--keep FOLDER`` vectors and index stay there, and a second run searches them again. The
contestants that hold all vectors in memory, and a GPU, take part up to 2,000,000 texts. All use
all cores; where there are a GPU and faiss-gpu, they make the index.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.scan.index_build import build_index
from bayescontam.scan.run import Scan, run_scan
from bayescontam.scan.vector_index import VectorIndex
from bayescontam.specs.corpus import Manifest
from tests.support.made_vectors import VectorWriter
from tests.support.memory import peak_memory

SMALL = 2_000_000
"""Most texts that the further contestants search."""
STORED = "stored = ['vectors']"
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
    starts = range(0, texts, PART)
    sizes = [min(PART, texts - at) for at in starts]
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        # A few at a time, as not all have room in memory.
        for first in range(0, len(sizes), cores):
            some = slice(first, first + cores)
            drawn = pool.map(topics.draw, rng.spawn(len(sizes[some])), sizes[some])
            for at, vectors in zip(starts[some], drawn, strict=True):
                n = len(vectors)
                hashes = rng.integers(0, 2**64, size=n, dtype=np.uint64)
                writer.add(vectors, np.arange(at, at + n), hashes)
    writer.finish(DIMS)
    np.save(folder / "items.npy", topics.draw(np.random.default_rng(2), ITEMS))
    lines = [json.dumps({"id": f"q{i}", "input": f"item {i}"}) for i in range(ITEMS)]
    (folder / "items.jsonl").write_text("\n".join(lines))


def build(folder: Path) -> tuple[float, float]:
    """Make the index; return the seconds, and the peak of resident memory in GB."""
    import faiss
    import torch

    del faiss, torch  # loaded before the clock starts
    start = time.perf_counter()
    build_index(folder / "vectors", folder / "index", progress=True)
    seconds = time.perf_counter() - start
    return seconds, peak_memory() / 1e9


def search(folder: Path, top: str, device: Literal["cpu", "cuda"] = "cpu") -> Scan:
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
    out = folder / f"{top.split()[0]}-{device}"
    shutil.rmtree(out, ignore_errors=True)  # of an earlier run
    spec = Manifest.parse(text, "made.toml")
    return run_scan(spec, out, base=folder, device=device, progress=True)


def same_matches(one: Scan, other: Scan) -> float:
    """Return the share of the matches of one scan that the other has too."""
    keys = ["item", "chunk_id"]
    return len(one.matches[keys].merge(other.matches[keys])) / len(one.matches)


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
    parser.add_argument("--keep", type=Path, help="folder whose vectors and index stay")
    options = parser.parse_args()
    import faiss
    import torch  # both, so that loading them counts for none

    gpus = torch.cuda.device_count()
    print(
        f"{options.texts:,} texts, {os.cpu_count()} cores, {gpus} GPUs for torch"
        f" {torch.__version__}, {faiss.get_num_gpus()} for faiss {faiss.__version__}",
        flush=True,
    )
    with contextlib.ExitStack() as stack:
        folder = options.keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        with tempfile.TemporaryDirectory(dir=options.folder) as small:
            write(Path(small), 1000)  # loops are compiled here
            search(Path(small), STORED)
        if not (folder / "items.jsonl").exists():
            write(folder, options.texts)
        # In a process of its own, whose memory is that of the build.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            taken, peak = pool.submit(build, folder).result()
        about = VectorIndex.load(folder / "index").about
        print(
            f"{about['kind']}, {about['probes']} of {about['lists']} lists, recall when built:"
            f" {about['recall']['measured'][-1][1]}, built in {taken:.0f} s; peak memory"
            f" {peak:.2f} GB (resident)",
            flush=True,
        )
        found = search(folder, "index = 'index'")
        seconds = {"index": found.record["seconds"]["search"]}
        print(f"index: {seconds['index']:.1f} s", flush=True)
        gpus = gpus if options.texts <= SMALL else 0
        if gpus:
            on_gpu = search(folder, STORED, "cuda")
            seconds["all vectors, GPU"] = on_gpu.record["seconds"]["search"]
            print(f"on the GPU: {seconds['all vectors, GPU']:.1f} s; recall@{TOP} of the items"
                  f" {same_matches(on_gpu, found):.4f}", flush=True)  # fmt: skip
        exact = search(folder, STORED)
        seconds["all vectors"] = exact.record["seconds"]["search"]
        if gpus:
            print(f"matches of the CPU that the GPU finds too: {same_matches(exact, on_gpu):.6f}")
        if options.texts <= SMALL:
            seconds |= in_memory(folder)
        recall = same_matches(exact, found)
    estimated = found.record["search"]["index"]["recall"]
    print(f"recall@{TOP} of the items: {recall:.4f}, estimated {estimated:.4f}")
    for what, taken in seconds.items():
        print(f"{what:<18}{taken:8.1f} s{taken / seconds['all vectors']:8.3f} of all vectors")
    if seconds["index"] > seconds["all vectors"] / 20 or recall < 0.98:
        sys.exit("the goal (a twentieth of the time, recall 0.98) is missed")


if __name__ == "__main__":
    main()
