"""The command 'prevalence': tables of items that it cannot use."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Done
from tests.support.made_curve import make_curve
from tests.support.made_scan import make_scan

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a scan and its curve."""
    folder, scan = tmp_path_factory.mktemp("prevalence"), make_scan()
    scan.write(folder / "scan")
    sources = tuple(dict.fromkeys(row["source"] for row in scan.record["strata"]))
    curve = make_curve(tuple(scan.items["benchmark"].unique()), sources, 0.7)
    curve.to_netcdf(folder / "curve.nc")
    return folder


@pytest.fixture
def items() -> pd.DataFrame:
    table = make_scan().items[["benchmark", "item"]]
    return table.assign(elo=range(len(table)))


def contradicting(items: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([items, items.iloc[[2]].assign(elo=99)])


def without_some(items: pd.DataFrame) -> pd.DataFrame:
    return items.iloc[2:]


def infinite(items: pd.DataFrame) -> pd.DataFrame:
    return items.assign(elo=["inf", *map(str, range(1, len(items)))])


@pytest.mark.parametrize(
    ("make", "by", "error"),
    [
        (contradicting, "elo", "items: elo: has different values for one item: 'item 2'\nGive"),
        (without_some, "elo", "has no value for items of the scan: 'item 0', 'item 1'\nAdd"),
        (infinite, "elo", "items: elo: is infinite for items: 'item 0'\nGive finite numbers."),
        (pd.DataFrame.copy, "ello", "items: no column 'ello' (did you mean 'elo'?)"),
        (pd.DataFrame.copy, "item", "by: 'item' names items; give a column that groups them"),
    ],
)
def test_tables_that_cannot_be_used(
    run: Run, folder: Path, items: pd.DataFrame, tmp_path: Path, make, by: str, error: str
) -> None:
    make(items).to_csv(tmp_path / "items.csv", index=False)
    given = ("--curve", folder / "curve.nc", "--items", tmp_path / "items.csv", "--by", by)
    done = run("prevalence", folder / "scan", *given, "--quiet")
    assert (done.status, done.out) == (2, "")
    assert error in done.err


def test_a_repeated_row_changes_nothing(
    run: Run, folder: Path, items: pd.DataFrame, tmp_path: Path
) -> None:
    printed = []
    for name, table in {"once": items, "twice": pd.concat([items, items.iloc[:5]])}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        given = ("--curve", folder / "curve.nc", "--items", tmp_path / f"{name}.csv")
        done = run("prevalence", folder / "scan", *given, "--by", "elo", "--format", "csv")
        assert done.status == 0
        printed.append(done.out)
    assert printed[0] == printed[1]


def test_a_column_that_is_the_same_everywhere_has_no_trend(
    run: Run, folder: Path, items: pd.DataFrame, tmp_path: Path
) -> None:
    items.assign(elo=3).to_csv(tmp_path / "items.csv", index=False)
    given = ("--curve", folder / "curve.nc", "--items", tmp_path / "items.csv", "--by", "elo")
    done = run("prevalence", folder / "scan", *given, "--quiet")
    assert done.status == 0
    assert "No trend in 'quiz', " in done.out
    assert "p rises" not in done.out


def test_a_column_needs_a_table(run: Run, folder: Path) -> None:
    done = run("prevalence", folder / "scan", "--curve", folder / "curve.nc", "--by", "elo")
    assert done.status == 2
    assert done.err == "error: --items, --by: give both or none of them\n"
