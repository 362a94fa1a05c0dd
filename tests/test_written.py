"""Tables that are written read back the same, or are refused."""

from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.tables import check_table_ending, read_table, write_table
from bayescontam.errors import UsageError

HARD = pd.DataFrame({"name": ["a\rb", 'say "x", y', " z\n", "ü"], "value": [0.1, 1e-300, 2.5, 3]})


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.parquet", "a.Parquet"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, HARD)
    again = read_table(tmp_path / name)
    assert again["name"].tolist() == HARD["name"].tolist()
    assert again["value"].astype(float).tolist() == HARD["value"].tolist()
    assert list(again) == list(HARD)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"name": ["a\0b"]}),
        pd.DataFrame({"a\0b": [1]}),
        pd.DataFrame({"mixed": pd.Series([1, None, "a\0"], dtype=object)}),
    ],
    ids=["text", "header", "object"],
)
def test_a_nul_is_refused_in_csv(tmp_path: Path, frame: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=r"a\.csv: a name holds a NUL character"):
        write_table(tmp_path / "a.csv", frame)
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused() -> None:
    check_table_ending("A.CSV", "anything")
    with pytest.raises(UsageError, match=r"ends in '\.xlsx'; allowed for covariates is \.csv or"):
        check_table_ending("a.xlsx", "covariates")
