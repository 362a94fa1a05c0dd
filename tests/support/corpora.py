"""Small benchmarks and corpora for scans, and the slow and obvious way to their results."""

import gzip
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from bayescontam.specs.corpus import Manifest

TABLES = ("matches", "tail", "histogram", "strata", "items", "texts")
_WORDS = [f"w{number}" for number in range(300)]


def text(rng: random.Random, words: int = 20) -> str:
    """Return words in a random order."""
    return " ".join(rng.choices(_WORDS, k=words))


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write records in the format and compression that the name shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = list(records)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([dict(record) for record in records]), path)
        return path
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path


def write_items(path: Path, count: int, seed: int = 5) -> Path:
    """Write items with random texts, named 0, 1, …."""
    rng = random.Random(seed)
    return write_records(path, ({"id": str(i), "input": text(rng)} for i in range(count)))


def manifest(
    *sources: str,
    benchmarks: Sequence[str] = ("path = 'items.jsonl'",),
    model: str = "hashing",
    **tables: str,
) -> Manifest:
    """Return a manifest: lines of TOML for every source, benchmark and other table."""
    lines = ["summary = 'made for a test'", tables.pop("top", "")]
    for number, lines_of in enumerate(benchmarks):
        lines += ["[[benchmarks]]", f"name = 'b{number}'", lines_of]
    for number, lines_of in enumerate(sources):
        lines += ["[[sources]]", f"name = 's{number}'", lines_of]
    embedding = f"model = '{model}'\n" + tables.pop("embedding", "")
    defaults = {"chunking": "min_tokens = 1", "embedding": embedding}
    for name, lines_of in (defaults | tables).items():
        lines += [f"[{name}]", lines_of]
    return Manifest.parse("\n".join(lines) + "\n", "made.toml")


def tables_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all tables of a scan."""
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES}


def shard_lines(folder: Path) -> list[str]:
    """Return the lines of the log of a scan that report a searched shard."""
    log = folder / "scan.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [line.split(" ", 1)[1] for line in lines if " shard " in line]


def leftovers(folder: Path) -> list[Path]:
    """Return what a finished scan must not leave behind."""
    return [*folder.rglob("*.part"), *folder.glob("work")]
