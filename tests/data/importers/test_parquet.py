"""Parquet files that are small on the disk and large in the memory."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayescontam.data.importers.lighteval import import_lighteval
from bayescontam.data.tables import parquet_batches, read_table
from bayescontam.errors import DataError

LONG = "x" * 100_000
CELLS = {
    "text": LONG,
    "in a struct": {"query": LONG, "choices": ["a"]},
    "in a list": [LONG, "a"],
    "in a struct in a list": [{"key": LONG}],
}


def details(file: Path, rows: int, doc: Any, **columns: Any) -> Path:
    """Write rows that are all alike, which makes small files."""
    table = {"doc": [doc] * rows, "metric": [{"em": 1.0}, {"em": 0.0}] * (rows // 2)} | columns
    pq.write_table(pa.table(table), file)
    return file


@pytest.mark.parametrize("doc", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("read", [read_table, partial(import_lighteval, model="m")])
def test_repeated_texts_are_refused_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doc: Any, read: Any
) -> None:
    file = details(tmp_path / "details_quiz.parquet", 300, doc)
    assert file.stat().st_size < 50_000
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "10MB")
    with pytest.raises(DataError, match=r"details_quiz\.parquet: unpacks to more than 10 MB"):
        read(file)
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "40MB")
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "90kB")
    with pytest.raises(DataError, match="a cell is longer than 90 kB"):
        read(file)
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "110kB")
    read(file)


def test_lists_of_equal_numbers_are_refused_by_what_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.array([np.zeros(1_000_000), np.zeros(1_000_000)])
    file = details(tmp_path / "a.parquet", 2, {"query": "q"}, numbers=numbers)
    assert file.stat().st_size < 50_000
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "10MB")
    with pytest.raises(DataError, match="unpacks to more than 10 MB"):
        next(parquet_batches(file, "a.parquet", 1))


def test_sizes_count_every_value_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches may be slices of one array, which must not count as a whole each time."""
    file, rows = tmp_path / "a.parquet", 1000
    kind = pa.map_(pa.string(), pa.list_(pa.string()))
    cells = [[(f"key {row}", ["t" * 100] * 3)] for row in range(rows)]
    pq.write_table(pa.table({"map": pa.array(cells, kind), "list": [["u" * 100]] * rows}), file)
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "600kB")
    batches = list(parquet_batches(file, "a.parquet", 10))
    assert [row for batch in batches for row in batch.column("map").to_pylist()] == cells
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "390kB")
    with pytest.raises(DataError, match="unpacks to more than 390 kB"):
        list(parquet_batches(file, "a.parquet", 10))


def test_what_is_read_by_reference_is_what_was_written(tmp_path: Path) -> None:
    doc = {"query": "q", "choices": ["a", None], "more": None}
    file = details(tmp_path / "details_quiz_2026-01-31.parquet", 4, doc)
    rows = [row for batch in parquet_batches(file, "f", 3) for row in batch.to_pylist()]
    assert rows[:2] == [{"doc": doc, "metric": {"em": 1.0}}, {"doc": doc, "metric": {"em": 0.0}}]
    found = import_lighteval(file, model="m", keep="doc.query").frame
    assert found[["query", "n_correct", "n_trials"]].to_numpy().tolist() == [["q", 2, 4]]
