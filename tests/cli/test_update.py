"""What `update` prints and writes."""

import json
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

from bayescontam.cli import fit as verb
from bayescontam.errors import UsageError
from tests.support.given_fits import counts_table, rough_fit

app = typer.Typer()
app.command()(verb.update)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("update")
    rough_fit().to_netcdf(path / "fit.nc")
    counts_table([(33, 40), (5, 40)], "NM").to_csv(path / "new.csv", index=False)
    return path


def call(folder: Path, *options: str) -> Result:
    arguments = [str(folder / "fit.nc"), str(folder / "new.csv"), "--seed", "3", *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_table_has_models_ranks_and_verdicts(folder):
    done = call(folder)
    assert done.exit_code == 0
    assert "N: the weights can be trusted: Pareto k" in done.stdout
    assert "M: the weights can be trusted" in done.stdout
    assert "accuracy" in done.stdout
    assert "Seed 3." in done.stdout


def test_the_table_has_the_observed_score(folder):
    rows = [line.split() for line in call(folder).stdout.splitlines()]
    (header,) = (row for row in rows if row[:1] == ["model"])
    assert "raw" in header
    assert {row[0]: row[1] for row in rows if row[:1] in (["N"], ["M"])} == {
        "N": "0.825",
        "M": "0.125",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "csv"), "--format: .* will be a fit; leave --format out"),
        (("--refit", "never"), "--refit never: .* will be a joint fit"),
    ],
)
def test_options_that_do_not_go_with_a_joint_fit(folder, options, message):
    with pytest.raises(UsageError, match=message):
        call(folder, "--out", str(folder / "both.nc"), *options)
    assert not (folder / "both.nc").exists()


def test_csv_and_json_hold_the_same(folder):
    csv, target = folder / "new-scores.csv", folder / "new-scores.json"
    assert call(folder, "--format", "csv", "--out", str(csv)).stdout == ""
    call(folder, "--format", "json", "--out", str(target))
    table, content = pd.read_csv(csv), json.loads(target.read_text(encoding="utf-8"))
    assert [entry["model"] for entry in content["models"]] == ["N", "M"]
    assert content["seed"] == 3
    means = [row["mean"] for entry in content["models"] for row in entry["estimands"]]
    assert table["mean"].tolist() == pytest.approx(means)
    assert set(table["quantity"]) == {"accuracy", "rank", "p_best"}
    assert (table["method"] == "update").all()


def test_rows_can_be_chosen_and_the_level_set(folder):
    wide = call(folder, "--where", "model == 'N'", "--format", "csv")
    narrow = call(folder, "--where", "model == 'N'", "--format", "csv", "--level", "0.5")
    widths = []
    for done in (wide, narrow):
        rows = [line.split(",") for line in done.stdout.splitlines()]
        table = pd.DataFrame(rows[1:], columns=rows[0])
        assert set(table["model"]) == {"N"}
        row = table[table["quantity"] == "accuracy"].iloc[0]
        widths.append(float(row["ci_high"]) - float(row["ci_low"]))
    # A Normal's central half is 0.344 as wide as its central 95 %.
    assert widths[1] / widths[0] == pytest.approx(0.344, abs=0.05)


def test_a_table_is_not_written_to_a_file(folder):
    with pytest.raises(UsageError, match=r"end it in \.nc for a fit, or add --format csv or json"):
        call(folder, "--out", str(folder / "x.txt"))
    assert call(folder, "--quiet").stdout == ""
