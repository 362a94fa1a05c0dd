"""A table of responses is read in parts."""

from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.parts import split_responses
from bayescontam.errors import DataError, UsageError


def nightly() -> pd.DataFrame:
    """Return two nights of one model on two items."""
    rows = [(night, "m", "b", item) for night in ("b night", "a night") for item in ("i", "j")]
    table = pd.DataFrame(rows, columns=["night", "model", "benchmark", "item"])
    return table.assign(correct=[1, 0, 1, 1])


def test_parts_stand_in_the_order_of_the_table() -> None:
    parts = split_responses(nightly(), "night")
    assert {name: part.frame["n_correct"].tolist() for name, part in parts.items()} == {
        "b night": [1, 0],
        "a night": [1, 1],
    }
    assert all("night" not in part.frame for part in parts.values())


def test_a_file_is_read_as_a_whole_table_is(tmp_path: Path) -> None:
    path = tmp_path / "nightly.csv"
    nightly().assign(contamination=["0,5", "1", "0", "0,25"]).to_csv(path, index=False, sep=";")
    parts = split_responses(path, "night", where="item == 'j'")
    assert [part.frame["contamination"].tolist() for part in parts.values()] == [[1.0], [0.25]]
    [first, _] = parts.values()
    assert first.source == f"{path}[night = b night]"
    assert any("decimal commas" in note for note in first.notes)
    assert any("where" in note for note in first.notes)


def test_parts_without_rows_are_left_out() -> None:
    parts = split_responses(nightly(), "night", where="night > 'a night' or item == 'k'")
    assert list(parts) == ["b night"]
    with pytest.raises(DataError, match="none of 4 rows is left where item == 'k'"):
        split_responses(nightly(), "night", where="item == 'k'")


def test_faults_name_the_part() -> None:
    table = nightly().assign(correct=[1, 0, 1, 7])
    with pytest.raises(DataError, match=r"DataFrame\[night = a night\]: row 2: correct: got 7"):
        split_responses(table, "night")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("nights", "has no column 'nights' to split it by; it has 'night', 'model', 'benchmark'"),
        ("item", "column 'item' is part of each response; split the table by another"),
    ],
)
def test_columns_that_cannot_be_used(column: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_responses(nightly(), column)


def test_blank_parts_are_refused() -> None:
    table = nightly().assign(night=["b", " ", "a", None])
    with pytest.raises(DataError, match="night: blank in rows 2, 4; name the part"):
        split_responses(table, "night")
