"""Scans of vectors that were made elsewhere, alone and beside texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayescontam.errors import DataError
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.run import Scan, run_scan
from bayescontam.specs.corpus import Embedding, Manifest
from tests.support.corpora import manifest, write_items, write_records
from tests.support.searches import cosines_of

DIMS, ITEMS, ATOL = 8, 6, 1e-6
RNG = np.random.default_rng(7)
CORPUS = RNG.normal(size=(300, DIMS)).astype(np.float32)
QUERIES = RNG.normal(size=(ITEMS, DIMS)).astype(np.float32)
WITH_VECTORS = "path = 'items.jsonl'\nvectors = 'items.npy'"
VECTORS = "format = 'vectors'\npaths = "


def scan(made: Manifest, folder: Path, **options: Any) -> Scan:
    return run_scan(made, folder / "out", base=folder, device="cpu", **{"jobs": 1} | options)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_items(tmp_path / "items.jsonl", ITEMS)
    np.save(tmp_path / "items.npy", QUERIES)
    return tmp_path


def made_of(*paths: str, **tables: str) -> Manifest:
    listed = json.dumps(list(paths))
    return manifest(VECTORS + listed, benchmarks=[WITH_VECTORS], model="no/such", **tables)


def assert_best(found: Scan, cosines: np.ndarray, size: int) -> None:
    """Assert that the matches of each item are its largest cosines."""
    best = np.sort(cosines, axis=1)[:, ::-1][:, :size]
    for item, row in enumerate(best):
        own = found.matches[found.matches["item"] == str(item)]
        np.testing.assert_allclose(own["cosine"], row, atol=ATOL)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_npy_files(here: Path, kind: type) -> None:
    for part in range(3):
        np.save(here / f"{part}.npy", CORPUS[part::3].astype(kind))
    found = scan(made_of("*.npy".replace("*", "[0-2]"), search="top_k = 10"), here)
    ordered = np.concatenate([CORPUS[part::3].astype(kind) for part in range(3)])
    assert_best(found, cosines_of(QUERIES, ordered), 10)
    assert found.record["embedder"] == {"model": "given"}
    assert found.record["search"]["chunks"] == len(CORPUS)
    row = found.matches.iloc[0]
    assert row["document"] == f"{int(row['document'][0])}.npy"
    vector = CORPUS[int(row["document"][0]) :: 3][row["chunk"]].astype(kind)
    assert cosines_of(QUERIES[:1], vector[None])[0, 0] == pytest.approx(row["cosine"], abs=ATOL)


def test_parquet_files_report_documents_and_texts(here: Path) -> None:
    columns = {
        "vec": pa.array(list(CORPUS), pa.list_(pa.float32(), DIMS)),
        "document": [f"d{i // 2}" for i in range(300)],
        "chunk": [i % 2 for i in range(300)],
        "text": [f"text number {i}" for i in range(300)],
    }
    pq.write_table(pa.table(columns), here / "v.parquet", row_group_size=64)
    source = VECTORS + "['v.parquet']\nvector = 'vec'"
    found = scan(manifest(source, benchmarks=[WITH_VECTORS], search="top_k = 5"), here)
    cosines = cosines_of(QUERIES, CORPUS)
    assert_best(found, cosines, 5)
    texts = found.texts.set_index("chunk_id")["text"]
    for row in found.matches.itertuples():
        number = 2 * int(row.document[1:]) + row.chunk
        assert texts[row.chunk_id] == f"text number {number}"
        assert cosines[int(row.item), number] == pytest.approx(row.cosine, abs=ATOL)
    assert found.matches["jaccard"].notna().all()


def test_vectors_beside_texts(here: Path) -> None:
    embedder = load_embedder(Embedding(model="hashing", dims=DIMS))
    texts = [f"w{i} w{i + 1} w{i + 2}" for i in range(40)]
    write_records(here / "t.jsonl", ({"id": str(i), "text": t} for i, t in enumerate(texts)))
    np.save(here / "v.npy", CORPUS)
    more = write_items(here / "more.jsonl", 4, seed=9)
    found = scan(
        manifest(
            VECTORS + "['v.npy']",
            "paths = ['t.jsonl']",
            benchmarks=[WITH_VECTORS, "path = 'more.jsonl'"],
            embedding=f"dims = {DIMS}",
            search="top_k = 12",
        ),
        here,
    )
    corpus = np.concatenate([CORPUS, embedder.embed(texts, "passage")])
    asked = pd.read_json(more, lines=True, dtype=False)["input"].tolist()
    queries = np.concatenate([QUERIES, embedder.embed(asked, "query")])
    best = np.sort(cosines_of(queries, corpus), axis=1)[:, ::-1][:, :12]
    np.testing.assert_allclose(found.matches["cosine"].to_numpy().reshape(10, 12), best, atol=ATOL)
    chunks = {row["source"]: row["chunks"] for row in found.record["strata"]}
    assert chunks == {"s0": 300, "s1": 40}
    assert found.items["tokens"].tolist() == [0] * ITEMS + [20] * 4


def test_zeros_are_like_nothing(here: Path) -> None:
    corpus, queries = CORPUS.copy(), QUERIES.copy()
    corpus[:5], queries[2] = 0, 0
    np.save(here / "v.npy", corpus)
    np.save(here / "items.npy", queries)
    found = scan(made_of("v.npy", search="top_k = 300\ntail_size = 300"), here)
    assert (found.matches.loc[found.matches["item"] == "2", "cosine"] == 0).all()
    zeros = found.matches[found.matches["chunk"] < 5]
    assert len(zeros) == 5 * ITEMS
    assert (zeros["cosine"] == 0).all()
    assert found.histogram.groupby("item")["count"].sum().eq(300).all()


def parquet(path: Path, rows: list[list[float]]) -> None:
    pq.write_table(pa.table({"embedding": rows}), path)


BAD: dict[str, tuple[Any, str]] = {
    "other dimensions": (
        lambda f: np.save(f / "v.npy", CORPUS[:, :7]),
        r"v\.npy: has 7 dimensions, the items have 8; use one embedder for both",
    ),
    "not finite": (
        lambda f: np.save(f / "v.npy", np.where(np.arange(300)[:, None] == 280, np.nan, CORPUS)),
        r"v\.npy: row 281: the vector is not finite",
    ),
    "whole numbers": (
        lambda f: np.save(f / "v.npy", CORPUS.astype(int)),
        r"v\.npy: holds int64 of shape \(300, 8\)",
    ),
    "empty": (lambda f: np.save(f / "v.npy", CORPUS[:0]), r"nothing to search"),
    "cut off": (
        lambda f: (np.save(f / "v.npy", CORPUS), _cut(f / "v.npy")),
        r"v\.npy: is cut off: 296 of 300 vectors are there",
    ),
    "no such column": (
        lambda f: pq.write_table(pa.table({"x": [[1.0]]}), f / "v.parquet"),
        r"v\.parquet: has no column 'embedding'",
    ),
    "items of other dimensions": (
        lambda f: (np.save(f / "v.npy", CORPUS), np.save(f / "items.npy", QUERIES[:, :5])),
        r"v\.npy: has 8 dimensions, the items have 5",
    ),
    "items not finite": (
        lambda f: (np.save(f / "v.npy", CORPUS), np.save(f / "items.npy", QUERIES * np.inf)),
        r"items\.npy: row 1: is not finite",
    ),
    "too few vectors of items": (
        lambda f: (np.save(f / "v.npy", CORPUS), np.save(f / "items.npy", QUERIES[1:])),
        r"items\.npy: holds 5 vectors, the benchmark has 6 items",
    ),
    "no vectors of items": (
        lambda f: (np.save(f / "v.npy", CORPUS), (f / "items.npy").unlink()),
        r"items\.npy: cannot be read \(",
    ),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("case", BAD)
def test_vectors_that_cannot_be_used(here: Path, case: str) -> None:
    make, message = BAD[case]
    make(here)
    name = "v.npy" if (here / "v.npy").exists() else "v.parquet"
    with pytest.raises(DataError, match=message):
        scan(made_of(name, search="shard_chunks = 16"), here)


def test_benchmarks_of_different_dimensions(here: Path) -> None:
    write_items(here / "more.jsonl", 2)
    np.save(here / "v.npy", CORPUS)
    made = manifest(VECTORS + "['v.npy']", benchmarks=[WITH_VECTORS, "path = 'more.jsonl'"])
    with pytest.raises(DataError, match=r"different dimensions: b0 has 8, b1 has 256; use one"):
        scan(made, here)


def test_new_vectors_of_items_are_noticed(here: Path) -> None:
    np.save(here / "v.npy", CORPUS)
    scan(made_of("v.npy"), here)
    np.save(here / "items.npy", QUERIES[::-1])
    with pytest.raises(Exception, match="has changed since: vectors of items; choose another"):
        scan(made_of("v.npy"), here)
