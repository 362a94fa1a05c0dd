"""Printed numbers: what stands in a table arrives, and what shows nothing is refused."""

from pathlib import Path

import pytest

from bayescontam.data import published_tables as printed
from bayescontam.data.published_tables import read_published
from bayescontam.errors import DataError, UsageError

HEAD = "quantity,where,value,low,high,source\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(printed, "shipped_folder", lambda kind: tmp_path / kind)
    (tmp_path / "studies" / "data").mkdir(parents=True)
    return tmp_path / "studies" / "data"


def test_numbers_and_intervals_arrive(folder: Path) -> None:
    rows = 'a,,0.5,,,"T, 1"\nb,here,0.5,0.4,0.6,T\nc,,,0.6,0.85,T\n'
    (folder / "made.csv").write_text(HEAD + rows)
    table = read_published("made")
    assert table["where"].tolist() == ["", "here", ""]
    assert table.loc[1, ["value", "low", "high"]].tolist() == [0.5, 0.4, 0.6]
    assert table[["value", "low"]].isna().to_numpy().tolist() == [
        [False, True], [False, False], [True, False],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,,,,,T", "row 1: has no number; give a value, or both ends"),
        ("a,,0.5,0.4,,T", "row 1: has one end of an interval; give both or none"),
        ("a,,,,0.4,T", "has no number"),
        ("a,,0.7,0.4,0.6,T", "row 1: must be low ≤ value ≤ high"),
        ("a,,,0.6,0.4,T", "must be low ≤ value ≤ high"),
        ("a,,0.5,0.4,0.6,", "row 1: has no source"),
        ("a,,half,,,T", "row 1: value: is no number"),
    ],
)
def test_rows_that_report_nothing_are_refused(folder: Path, row: str, message: str) -> None:
    (folder / "made.csv").write_text(f"{HEAD}{row}\n")
    with pytest.raises(DataError, match=message):
        read_published("made")


def test_a_table_that_is_not_there_is_named(folder: Path) -> None:
    (folder / "made.csv").write_text(HEAD)
    with pytest.raises(UsageError, match=r"no table 'mad' in studies/data .*'made'"):
        read_published("mad")
