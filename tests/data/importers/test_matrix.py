"""Matrices of models by items: every cell arrives in its place, and blank ones are missing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.importers.matrix import import_matrix
from bayescontam.errors import DataError, UsageError

CELLS = st.sampled_from([0, 1, None])


@given(
    cells=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=2, max_size=5).filter(
        lambda rows: any(cell is not None for row in rows for cell in row)
    ),
    ending=st.sampled_from(["csv", "parquet", "jsonl"]),
)
def test_both_ways_of_writing_it_mean_the_same(
    cells: list[list[int | None]], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("matrix")
    models, items = [f"m{i}" for i in range(len(cells))], ["q.1", "q 2", "3"]
    wide = pd.DataFrame(cells, index=models, columns=items, dtype=object)
    tables = {"columns": wide, "rows": wide.T}
    found = {}
    for where, table in tables.items():
        path = folder / f"{where}.{ending}"
        named = table.astype("Float64").reset_index(names="name")
        if ending == "csv":
            named.to_csv(path, index=False)
        elif ending == "parquet":
            named.to_parquet(path)
        else:
            named.to_json(path, orient="records", lines=True)
        found[where] = import_matrix(path, benchmark="quiz", items=where)  # type: ignore[arg-type]
    scores = {
        (row.model, row.item): row.n_correct for row in found["rows"].frame.itertuples(index=False)
    }
    assert scores == {
        (model, item): cell
        for model, row in zip(models, cells, strict=True)
        for item, cell in zip(items, row, strict=True)
        if cell is not None
    }
    assert found["rows"].frame.equals(found["columns"].frame)
    blank = sum(cell is None for row in cells for cell in row)
    assert found["rows"].left_out["left_out"].sum() == blank


def test_items_in_rows_may_have_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("id,task,sub.topic,A,B\nq1,x,t1,1,0\nq1,x,t2,0.2,\n")
    with pytest.raises(DataError, match="'q1' stands in another row too"):
        import_matrix(path, benchmark="task", benchmark_in_column=True, items="rows")
    path.write_text("id,task,sub.topic,A,B\nq1,x,t1,1,0\nq2,y,t2,0.2,\n")
    found = import_matrix(
        path, benchmark="task", benchmark_in_column=True, items="rows", threshold=0.5,
        keep=["topic=sub.topic"],
    )  # fmt: skip
    assert found.frame.to_numpy().tolist() == [
        ["A", "x", "q1", 1, 1, "t1"], ["B", "x", "q1", 0, 1, "t1"], ["A", "y", "q2", 0, 1, "t2"],
    ]  # fmt: skip
    assert found.left_out.to_numpy().tolist() == [["y", "blank cell", 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,q1\nA,0.5\nB,x\n", r"rows 1, 2: q1: got '0\.5', 'x', allowed is 0"),
        ("model,q1\nA,1\nA,0\n", "row 2: model: 'A' stands in another row too"),
        ("model,q1\n ,1\n", "row 1: model: blank name"),
        ('model,q1,q2\nA,1,0\nB,0,1\n"A ",1,1\n', "row 3: model: got 'A ', and elsewhere"),
        ("model,q1,q1 \nA,1,0\n", "columns that differ only by blanks at their ends: 'q1', 'q1 '"),
        ("model,q1\nA,\n", "no scored trial is left"),
    ],
)
def test_cells_and_names_that_cannot_be_used_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        import_matrix(path, benchmark="quiz")


def test_options_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("model,q1\nA,1\n")
    with pytest.raises(UsageError, match="items stand in columns"):
        import_matrix(path, benchmark="quiz", keep=["q1"])
    with pytest.raises(UsageError, match="no column 'who'; found 'model', 'q1'"):
        import_matrix(path, benchmark="quiz", names="who")
    with pytest.raises(UsageError, match="items='both': allowed are"):
        import_matrix(path, benchmark="quiz", items="both")  # type: ignore[arg-type]


def test_a_wide_matrix_is_read_whole(tmp_path: Path) -> None:
    cells = np.random.default_rng(1).integers(0, 2, size=(20, 3000))
    table = pd.DataFrame(cells, columns=[f"q{i}" for i in range(3000)])
    table.insert(0, "model", [f"m{i}" for i in range(20)])
    table.to_parquet(tmp_path / "m.parquet")
    found = import_matrix(tmp_path / "m.parquet", benchmark="quiz")
    assert len(found.frame) == cells.size
    means = found.frame.groupby("model")["n_correct"].mean()
    assert np.allclose(means[table["model"]], cells.mean(axis=1))


def test_an_index_that_pandas_stored_is_no_item(tmp_path: Path) -> None:
    table = pd.DataFrame({"model": ["a", "b"], "q1": [1, 0]}, index=[1, 0])
    table.to_parquet(tmp_path / "m.parquet")
    with pytest.raises(UsageError, match="'__index_level_0__' is an index that pandas stored"):
        import_matrix(tmp_path / "m.parquet", benchmark="quiz")
    named = table.set_index("model").rename_axis(None)
    named.to_parquet(tmp_path / "n.parquet")
    found = import_matrix(tmp_path / "n.parquet", benchmark="quiz", names="__index_level_0__")
    assert found.frame[["model", "n_correct"]].to_numpy().tolist() == [["a", 1], ["b", 0]]
