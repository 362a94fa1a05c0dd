"""Shards: chunks as they are searched, and as they are looked up again."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.scan.chunking import CHUNK_SCHEMA, TextShard, occurrence_hash, text_hash
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.sketch import places, split_places
from bayescontam.scan.vectors import VectorFile, VectorShard
from bayescontam.specs.corpus import Embedding

EMBEDDER = load_embedder(Embedding(model="hashing"))
ROWS = [
    ("web", "a", "d1", 0, "one two three"),
    ("web", "a", "d1", 1, "four five six"),
    ("web", "b", "d2", 0, "one two three"),
    ("web", "a", "d3", 0, "one two three"),
    ("books", "", "d1", 0, "one two three"),
    ("books", "", "d4", 0, "seven eight nine"),
]


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_places_are_found_again(number: int, rows: list[int]) -> None:
    shards, back = split_places(places(number, np.array(rows, np.int64)))
    assert shards.tolist() == [number] * len(rows)
    assert back.tolist() == rows


@pytest.fixture
def shard(tmp_path: Path) -> TextShard:
    columns = ["source", "stratum", "document", "chunk", "text"]
    table = pd.DataFrame(ROWS, columns=columns)
    table["start"], table["end"] = table.index, table.index + 13
    table["hash"] = [text_hash(t) for t in table["text"]]
    table["first"] = [occurrence_hash(r[0], r[2], r[3]) for r in ROWS]
    path = tmp_path / "shard.parquet"
    pq.write_table(pa.Table.from_pandas(table[CHUNK_SCHEMA.names], CHUNK_SCHEMA), path)
    return TextShard(str(path), len(table))


def test_every_text_of_a_stratum_comes_once(shard: TextShard) -> None:
    parts = {chunks.stratum: chunks for chunks in shard.chunks(3, EMBEDDER)}
    assert list(parts) == [("books", ""), ("web", "a"), ("web", "b")]
    for (source, stratum), chunks in parts.items():
        own = [(place, row) for place, row in enumerate(ROWS) if row[:2] == (source, stratum)]
        texts = {text_hash(row[4]): row[4] for _, row in own}
        assert sorted(chunks.hashes.tolist()) == sorted(texts)
        for i, key in enumerate(chunks.hashes.tolist()):
            there = [(occurrence_hash(r[0], r[2], r[3]), p) for p, r in own if r[4] == texts[key]]
            assert chunks.copies[i] == len(there)
            assert (chunks.firsts[i], split_places(chunks.places[i])) == (
                min(there)[0],
                (3, min(there)[1]),
            )
            wanted = EMBEDDER.embed([texts[key]], "passage")[0]
            np.testing.assert_array_equal(chunks.vectors[i], wanted)


def test_every_text_is_embedded_once(shard: TextShard) -> None:
    class Counting:
        dims, max_tokens, count, describe = 256, 2048, EMBEDDER.count, EMBEDDER.describe
        seen: list[str] = []  # noqa: RUF012

        def embed(self, texts: Any, kind: Any) -> Any:
            self.seen.extend(texts)
            assert kind == "passage"
            return EMBEDDER.embed(texts, kind)

    list(shard.chunks(0, Counting()))
    assert sorted(Counting.seen) == ["four five six", "one two three", "seven eight nine"]


def test_chunks_are_reported(shard: TextShard) -> None:
    table = shard.describe(np.array([4, 1]))
    assert table["source"].tolist() == ["books", "web"]
    assert table["document"].tolist() == ["d1", "d1"]
    assert table["chunk"].tolist() == [0, 1]
    assert table["start"].tolist() == [4, 1]
    assert table["text"].tolist() == ["one two three", "four five six"]


VECTORS = np.random.default_rng(2).normal(size=(10, 4)).astype(np.float32)


def vector_shard(path: Path, start: int = 0, stop: int = 10) -> VectorShard:
    return VectorShard("web", VectorFile(str(path), "embedding"), path.name, start, stop)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_ready_vectors_are_chunks(tmp_path: Path, kind: type) -> None:
    np.save(tmp_path / "v.npy", VECTORS.astype(kind))
    shard = vector_shard(tmp_path / "v.npy", 4, 9)
    [chunks] = shard.chunks(2, None)
    assert shard.size == 5
    assert chunks.stratum == ("web", "")
    np.testing.assert_array_equal(chunks.vectors, VECTORS[4:9].astype(kind))
    assert chunks.copies.tolist() == [1] * 5
    numbers, rows = split_places(chunks.places)
    assert set(numbers.tolist()) == {2}
    table = shard.describe(rows)
    assert table["chunk"].tolist() == [4, 5, 6, 7, 8]
    assert set(table["document"]) == {"v.npy"}
    assert table["text"].isna().all()


def test_hashes_of_vectors_differ_and_do_not_depend_on_the_shards(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    np.save(tmp_path / "w.npy", VECTORS)
    [whole] = vector_shard(tmp_path / "v.npy").chunks(0, None)
    [part] = vector_shard(tmp_path / "v.npy", 3, 6).chunks(1, None)
    [other] = vector_shard(tmp_path / "w.npy").chunks(0, None)
    assert part.hashes.tolist() == whole.hashes[3:6].tolist()
    assert len({*whole.hashes.tolist(), *other.hashes.tolist()}) == 20


def test_columns_beside_vectors_describe_the_chunks(tmp_path: Path) -> None:
    columns = {
        "embedding": list(VECTORS),
        "document": [f"d{i}" if i != 6 else None for i in range(10)],
        "chunk": [float(i * i) for i in range(10)],
        "stratum": ["not searched by"] * 10,
        "text": [f"text {i}" if i != 7 else None for i in range(10)],
    }
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table(columns), path)
    table = vector_shard(path).describe(np.array([7, 3, 6]))
    assert table["document"].tolist() == ["d7", "d3", "v.parquet"]
    assert table["chunk"].tolist() == [49, 9, 36]
    assert table["chunk"].dtype == np.int64
    assert table["text"].isna().tolist() == [True, False, False]
    assert table["text"].tolist()[1:] == ["text 3", "text 6"]
    assert table["stratum"].tolist() == ["", "", ""]


def test_columns_that_hold_something_else_are_passed_over(tmp_path: Path) -> None:
    columns = {
        "embedding": list(VECTORS),
        "document": list(range(100, 110)),
        "chunk": [f"part {i}" for i in range(10)],
    }
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table(columns), path)
    table = vector_shard(path).describe(np.array([2, 5]))
    assert table["document"].tolist() == ["102", "105"]
    assert table["chunk"].tolist() == [2, 5]
