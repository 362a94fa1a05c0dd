"""Memory of a scan: the peak must not grow with the corpus.

Run by ``make bench-all``. Scans ready vectors on disk, ten times as many the second time, each in
a process of its own, and prints both peaks. Needs 8 GB of disk for some minutes.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

DIMS, ROWS, ITEMS = 384, 500_000, 100
RUN = """
from bayescontam.__main__ import main
from tests.support.memory import peak_memory
try:
    main()
finally:
    print(int(peak_memory()))
"""


def write_shard(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    np.save(path, rng.standard_normal((ROWS, DIMS), dtype=np.float32).astype(np.float16))


def manifest(folder: Path, shards: int) -> Path:
    names = json.dumps([f"{i:02d}.npy" for i in range(shards)])
    path = folder / f"{shards}.toml"
    path.write_text(
        'summary = "memory"\n'
        '[[benchmarks]]\nname = "b"\npath = "items.jsonl"\nvectors = "items.npy"\n'
        f'[[sources]]\nname = "s"\nformat = "vectors"\npaths = {names}\n'
    )
    return path


def peak(folder: Path, shards: int) -> int:
    """Return the peak resident memory of a scan, in MiB."""
    arguments = ["scan", str(manifest(folder, shards)), "--out", str(folder / f"out-{shards}")]
    command = [sys.executable, "-c", RUN, *arguments, "--jobs", "1", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    return int(done.stdout.split()[-1]) // 1024**2


@pytest.mark.timeout(3600)
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    items = [json.dumps({"id": f"i{i}", "input": "given as vectors"}) for i in range(ITEMS)]
    (tmp_path / "items.jsonl").write_text("\n".join(items))
    queries = np.random.default_rng(0).standard_normal((ITEMS, DIMS), dtype=np.float32)
    np.save(tmp_path / "items.npy", queries)
    for shard in range(20):
        write_shard(tmp_path / f"{shard:02d}.npy", 1 + shard)
    small, large = peak(tmp_path, 2), peak(tmp_path, 20)
    print(
        f"\nPeak memory of a scan of fp16 vectors of {DIMS} dimensions for {ITEMS} items:"
        f"\n   1,000,000 vectors  {small:6,} MiB"
        f"\n  10,000,000 vectors  {large:6,} MiB  ({large / small:.2f} times)"
    )
    assert large < 1.2 * small
