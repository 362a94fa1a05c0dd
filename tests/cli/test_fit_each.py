"""`fit --each`: a fit for each value of a column, in a folder."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.inference.result import Fit
from tests.cli.conftest import Done

Run = Callable[..., Done]
NAMED = ("--column", "model=llm")
OPTIONS = (*NAMED, "--model", "ability", "--seed", 1, "--draws", 60, "--tune", 60, "--cores", 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write responses of one model, under another name, on two nights."""
    nights = [
        pd.DataFrame({"llm": "m", "benchmark": "b", "item": [f"i{k}" for k in range(20)]}).assign(
            night=night, correct=correct
        )
        for night, correct in (("1/12", [1, 0] * 10), ("2/12", [1, 1, 1, 0] * 5))
    ]
    path = tmp_path / "nightly.csv"
    pd.concat(nights).to_csv(path, index=False)
    return path


def test_each_night_is_fitted_and_has_a_row(run: Run, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fits"
    done = run("fit", table, "--each", "night", "--out", folder, *OPTIONS)
    assert done.status == 0, done.err
    files = sorted(path.name for path in folder.glob("*.nc"))
    assert files == ["1%2F12.nc", "2%2F12.nc"]
    assert [Fit.from_netcdf(folder / name).record["seed"] for name in files] == [1, 1]
    rows = [line.split() for line in done.out.splitlines() if line.startswith(("1/", "2/"))]
    assert [row[:4] for row in rows] == [["1/12", "20", "1", "60"], ["2/12", "20", "1", "60"]]
    scores = folder / "summary.csv"
    assert f"Saved 2 fits in {folder}, their scores in {scores}." in done.out
    assert pd.read_csv(scores)["night"].tolist() == ["1/12", "2/12"]
    strict = run("fit", table, "--each", "night", "--out", folder, *OPTIONS, "--strict", "--quiet")
    assert strict.status == 3  # so few draws fail checks; nothing is fitted anew
    assert strict.out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--each", "nights"), "has no column 'nights' to split it by"),
        (("--each", "model"), "column 'model' is part of each response"),
        (("--each", "night", "--draws", "most"), "--draws: got 'most'; allowed: a whole number"),
    ],
)
def test_what_cannot_be_done(
    run: Run, table: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("fit", table, "--out", tmp_path / "fits", *NAMED, *options)
    assert done.status == 2
    assert message in done.err
    assert not (tmp_path / "fits").exists()


def test_a_folder_of_other_files_is_left_alone(run: Run, table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "1%2F12.nc").write_text("mine")
    done = run("fit", table, "--each", "night", "--out", tmp_path / "mine", *OPTIONS)
    assert done.status == 2
    assert "holds files, and no fits; --out needs a new or empty folder" in done.err
    assert (tmp_path / "mine" / "1%2F12.nc").read_text() == "mine"
