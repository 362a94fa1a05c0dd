"""A small corpus of all formats, and what a scan of it is defined to find."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.scan.chunking import Chunker, occurrence_hash, text_hash
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.run import Scan, run_scan
from bayescontam.scan.sketch import SketchMerger
from bayescontam.specs.corpus import Chunking, Embedding, Manifest
from tests.support.corpora import manifest, text, write_items, write_records

ATOL = 1e-6
"""Cosines may differ by this much, through rounding."""
SEED, TOP_K, TAIL_SIZE, TAIL_SHARE = 3, 7, 9, 0.05
SEARCH = f"top_k = {TOP_K}\ntail_size = {TAIL_SIZE}\ntail_share = {TAIL_SHARE}\n"
LONGEST = 40


def scan(made: Manifest, out: Path, **options: Any) -> Scan:
    """Scan in this process."""
    given = {"jobs": 1, "device": "cpu", "base": out.parent}
    return run_scan(made, out, **given | options)


class Stop(BaseException):
    """What interrupts a scan in these tests."""


def interrupted(made: Manifest, out: Path, after: int, **options: Any) -> None:
    """Scan, and stop when some shards are merged."""
    take, count = SketchMerger.take, 0

    def counting(self: SketchMerger, key: str) -> None:
        nonlocal count
        take(self, key)
        count += 1
        if count == after:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchMerger, "take", counting)
        with pytest.raises(Stop):
            scan(made, out, **options)


@dataclass(frozen=True)
class Small:
    """A corpus on disk, the manifest of its scan, and what its documents are."""

    folder: Path
    manifest: Manifest
    documents: pd.DataFrame  # source, stratum, document, text


def small_manifest(rows: int = 16, web: str = "web/*.jsonl*") -> Manifest:
    return manifest(
        f"paths = ['{web}']\nstratum = 'kind'\ntext = 'body'",
        "paths = ['table.parquet']\ndocument = 'name'",
        "paths = ['notes']",
        benchmarks=["path = 'items.jsonl'", "path = 'more.csv'\ntext_mode = 'input_output'"],
        top=f"seed = {SEED}",
        chunking=f"min_tokens = 3\nmax_tokens = {LONGEST}",
        search=SEARCH + f"shard_chunks = {rows}",
    )


def write_small(folder: Path) -> Small:
    """Write a corpus of all formats, with copies, long and short texts, and two benchmarks."""
    rng = random.Random(4)
    write_items(folder / "items.jsonl", 12)
    rows = "".join(f"q{i},{text(rng, 9)},{text(rng, 4)}\n" for i in range(5))
    (folder / "more.csv").write_text("id,input,output\n" + rows)
    items = pd.read_json(folder / "items.jsonl", lines=True, dtype=False)["input"].tolist()
    common = [text(rng) for _ in range(6)] + items[:4]
    documents: list[tuple[str, str, str, str]] = []

    def fresh() -> str:
        lot = rng.random()
        return rng.choice(common) if lot < 0.3 else text(rng, 2 if lot < 0.35 else 20)

    for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
        new = [("s0", f"k/{i % 3}", f"{name[0]}{i}", fresh()) for i in range(40)]
        write_records(
            folder / "web" / name,
            ({"id": d, "kind": stratum, "body": body} for _, stratum, d, body in new),
        )
        documents += new
    new = [("s1", "", f"row {i}", fresh()) for i in range(30)]
    write_records(folder / "table.parquet", ({"name": d, "text": t} for _, _, d, t in new))
    documents += new
    (folder / "notes").mkdir()
    for i in range(8):
        note = "\n\n".join(f"  {text(rng, 30)}. {fresh()}\n" for _ in range(1 + i % 4))
        (folder / "notes" / f"{i}.txt").write_text(note)
        documents.append(("s2", "", f"notes/{i}.txt#1", note))
    columns = ["source", "stratum", "document", "text"]
    return Small(folder, small_manifest(), pd.DataFrame(documents, columns=columns))


@dataclass(frozen=True)
class Truth:
    """Occurrences of chunks, different texts, items, and the cosines of the last two."""

    occurrences: pd.DataFrame
    texts: pd.DataFrame
    items: pd.DataFrame
    cosines: np.ndarray


def true_scan(small: Small) -> Truth:
    """Compute from the definition, in double precision."""
    embedder = load_embedder(Embedding(model="hashing"))
    spec = Chunking(min_tokens=3, max_tokens=LONGEST)
    chunker = Chunker(embedder.count, spec, embedder.max_tokens)
    rows: list[dict[str, Any]] = []
    for document in small.documents.itertuples(index=False):
        [chunks] = chunker.split([document]).chunks  # type: ignore[list-item]
        rows += [
            {**document._asdict(), "chunk": c.chunk, "start": c.start, "end": c.end, "text": c.text}
            for c in chunks
        ]
    occurrences = pd.DataFrame(rows)
    occurrences["first"] = [
        occurrence_hash(*key)
        for key in occurrences[["source", "document", "chunk"]].itertuples(index=False)
    ]
    ordered = occurrences.sort_values("first").groupby("text", sort=False)
    texts = ordered.first().assign(copies=ordered.size()).reset_index()
    texts["chunk_id"] = np.array([text_hash(t) for t in texts["text"]], np.uint64)
    plain = pd.read_json(small.folder / "items.jsonl", lines=True, dtype=False).assign(
        benchmark="b0"
    )
    more = pd.read_csv(small.folder / "more.csv").assign(benchmark="b1")
    more["input"] = more["input"] + "\n" + more["output"]
    items = pd.concat([plain, more])[["benchmark", "id", "input"]].reset_index(drop=True)
    items.columns = pd.Index(["benchmark", "item", "text"])
    one, other = (
        embedder.embed(t.tolist(), "query").astype(float) for t in (items["text"], texts["text"])
    )
    return Truth(occurrences, texts, items, one @ other.T)
