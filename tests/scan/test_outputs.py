"""Outputs: sketches to tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bayescontam.errors import TaskError
from bayescontam.scan.items import Item
from bayescontam.scan.results import Searched, SearchTables, edges, write_table, write_tables
from bayescontam.scan.search import Searcher
from bayescontam.scan.sketch import Sketch
from bayescontam.scan.vectors import VectorFile, VectorShard
from bayescontam.specs.corpus import Lexical, Search
from tests.support.searches import BINS, bins_by_formula, cosines_of, make_queries

ITEMS = [Item("one", "a", "x y"), Item("one", "b", "y z"), Item("two", "a", "z x")]
ROWS, PARTS = 50, 4


def made(folder: Path) -> tuple[SearchTables, np.ndarray]:
    """Search a file of vectors in four parts; return what was found, and all cosines."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(ROWS * PARTS, 3)).astype(np.float32)
    queries = rng.normal(size=(3, 3)).astype(np.float32)
    path = folder / "v.npy"
    np.save(path, vectors)
    file = VectorFile(str(path), "")
    shards = [
        VectorShard("web", file, "v.npy", at, at + ROWS) for at in range(0, len(vectors), ROWS)
    ]
    sketch = Sketch.empty(3, 20)
    for number, shard in enumerate(shards):
        searcher = Searcher(make_queries(queries, benchmarks=np.array([0, 0, 1])), 20)
        for chunks in shard.chunks(number, None):
            searcher.add(chunks)
        sketch = sketch.merge(searcher.sketch(number))
    found = Searched(sketch, ITEMS, [2, 2, 300])
    return SearchTables([found], 254, shards), cosines_of(queries, vectors)


@pytest.fixture
def written(tmp_path: Path) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    found, cosines = made(tmp_path)
    search = Search(top_k=10, tail_size=20, tail_share=0.1)
    write_tables(tmp_path, found, search, Lexical(), False)
    return {path.stem: pd.read_parquet(path) for path in tmp_path.glob("*.parquet")}, cosines


def test_edges_are_short_numbers() -> None:
    wanted = [-1.0, -0.999, 0.0, 0.7, 0.999, 1.0]
    assert edges(np.array([0, 1, 1000, 1700, 1999, 2000])).tolist() == wanted


def test_matches_lie_where_they_are_said_to(
    written: tuple[dict[str, pd.DataFrame], np.ndarray],
) -> None:
    tables, cosines = written
    matches = tables["matches"]
    names = [(item.benchmark, item.item) for item in ITEMS]
    assert matches.groupby(["benchmark", "item"], sort=False).ngroups == 3
    for query, rows in zip(range(3), np.split(matches, 3), strict=True):
        table = pd.DataFrame(rows, columns=matches.columns)
        assert {*zip(table["benchmark"], table["item"], strict=True)} == {names[query]}
        order = np.argsort(-cosines[query], kind="stable")[:10]
        assert table["chunk"].tolist() == order.tolist()
        np.testing.assert_allclose(table["cosine"].astype(float), cosines[query][order], atol=1e-6)
        assert table["rank"].tolist() == list(range(1, 11))


def test_columns_and_types(written: tuple[dict[str, pd.DataFrame], np.ndarray]) -> None:
    tables, _ = written
    placed = ["document", "chunk", "start", "end", "source", "stratum", "copies", "chunk_id"]
    lexical = ["ngram_2", "ngram_3", "ngram_8", "ngram_13", "jaccard", "rouge_l"]
    head = ["benchmark", "item"]
    assert list(tables["matches"]) == [*head, "rank", "cosine", *placed, *lexical]
    assert list(tables["tail"]) == [*head, "cosine", *placed, "threshold", "tail_matches"]
    assert list(tables["histogram"]) == [*head, "cosine", "count"]
    assert list(tables["strata"]) == ["benchmark", "source", "stratum", "cosine", "count"]
    assert list(tables["items"]) == [*head, "text", "tokens", "cut"]
    assert list(tables["texts"]) == ["chunk_id", "text"]
    types = tables["matches"].dtypes
    assert types["cosine"] == np.float32
    assert types["chunk_id"] == np.uint64
    assert {types[name] for name in ("chunk", "start", "end", "copies")} == {np.dtype(np.int64)}
    assert types["rank"] == np.int32


def test_what_has_no_text_has_no_lexical_scores(
    written: tuple[dict[str, pd.DataFrame], np.ndarray],
) -> None:
    tables, _ = written
    assert len(tables["texts"]) == 0
    assert tables["matches"][["ngram_2", "jaccard", "rouge_l"]].isna().all(axis=None)


def test_histograms_are_of_all_cosines(
    written: tuple[dict[str, pd.DataFrame], np.ndarray],
) -> None:
    tables, cosines = written
    for (_, rows), own in zip(
        tables["histogram"].groupby(["benchmark", "item"]), cosines, strict=True
    ):
        bins = bins_by_formula(own)
        # Numbers here are such that no cosine lies on an edge.
        np.testing.assert_array_equal(edges(np.unique(bins)), rows["cosine"])
        np.testing.assert_array_equal(
            np.bincount(bins, minlength=BINS)[np.unique(bins)], rows["count"]
        )
    strata = tables["strata"].groupby("benchmark")["count"].sum()
    assert strata.to_dict() == {"one": 2 * ROWS * PARTS, "two": ROWS * PARTS}


def test_items_that_are_cut_are_marked(
    written: tuple[dict[str, pd.DataFrame], np.ndarray],
) -> None:
    items = written[0]["items"]
    assert items["tokens"].tolist() == [2, 2, 300]
    assert items["cut"].tolist() == [False, False, True]


def test_equal_tables_become_equal_files(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": ["x", None], "b": [1.5, np.nan]})
    write_table(tmp_path / "one.parquet", table)
    write_table(tmp_path / "two.parquet", table.iloc[[1, 0]].iloc[[1, 0]])
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "one.parquet"), table)


def test_a_full_disk_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "[Errno 28] Error writing bytes to file")

    found, _ = made(tmp_path)
    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(TaskError, match=r"matches\.parquet: No space left on device; free some"):
        write_tables(tmp_path, found, Search(top_k=10, tail_size=20), Lexical(), False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.parquet", "v.npy"]
