"""Verb ``models prior`` on the terminal."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.inference.prior_predictive import implied
from bayescontam.model.effect_names import effect_words
from bayescontam.report.model_page import spec_page
from bayescontam.specs.registry import load_model
from tests.cli.conftest import Done, hostile_table

Run = Callable[..., Done]
SMALL = ("--items", "10", "--models", "3", "--draws", "200")


def test_prior_prints_what_python_gives(run: Run) -> None:
    done = run("models", "prior", "single", *SMALL, "--seed", "4")
    assert done.status == 0, done.err
    wanted = implied(load_model("single"), items=10, models=3, draws=200, seed=4)
    lines = {line.split("  ")[0].strip(): line for line in done.out.splitlines()}
    for row in wanted.table().to_dict("records")[:3]:
        line = lines[effect_words(row["quantity"])]
        assert f"{row['median']:.3f}" in line
        assert f"{row['p_above']:.3f} (> {row['above']:g})" in line
    assert all(note in done.out for note in wanted.notes())
    assert "Seed 4." in done.out.splitlines()


def test_prior_as_csv_and_json(run: Run) -> None:
    given = ("models", "prior", "concepts", *SMALL, "--seed", "4", "--trials", "3")
    table = pd.read_csv(io.StringIO(run(*given, "--format", "csv").out))
    found = json.loads(run(*given, "--format", "json").out)
    spec = load_model("concepts")
    assert found["model_spec"] == {"name": "concepts", "hash": spec.hash}
    assert (found["seed"], found["draws"], found["left_out"]) == (4, 200, [])
    assert found["quantities"] == table.to_dict("records")
    assert found["quantities"][0]["quantity"] == "accuracy"


def test_a_fresh_seed_is_reported_and_can_be_used_again(run: Run) -> None:
    first = run("models", "prior", "single", *SMALL, "--format", "json")
    seed = json.loads(first.out)["seed"]
    again = run("models", "prior", "single", *SMALL, "--format", "json", "--seed", seed)
    assert again.out == first.out


def test_csv_reports_its_seed_beside_it(run: Run) -> None:
    done = run("models", "prior", "single", *SMALL, "--format", "csv")
    seed = done.err.split("Seed ")[1].split(".")[0]
    again = run("models", "prior", "single", *SMALL, "--format", "csv", "--seed", seed)
    assert again.out == done.out


def test_a_prior_that_was_changed(run: Run, tmp_path: Path) -> None:
    """Ten times wider abilities make extremes of most accuracies."""
    text = load_model("single").text.replace("s = 1.0", "s = 10.0")
    path = tmp_path / "wide.toml"
    path.write_text(text, encoding="utf-8")
    given = (*SMALL, "--seed", "1", "--format", "json")
    narrow, wide = (
        json.loads(run("models", "prior", name, *given).out)["quantities"][0]
        for name in ("single", path)
    )
    # Logistic(0, 10): P(accuracy > 0.98) = 1 / (1 + 49 ** 0.1) = 0.404, from 600 pairs.
    assert narrow["p_above"] < 0.06
    assert wide["p_above"] == pytest.approx(0.404, abs=0.09)


def test_prior_of_a_table_of_responses(run: Run, tmp_path: Path) -> None:
    table = hostile_table(tmp_path / "responses.jsonl")
    out = tmp_path / "prior.png"
    done = run(*("models", "prior", "single", "--responses", table, "--draws", "100", "--out", out))
    assert done.status == 0, done.err
    assert "6 models, 1 benchmark, 72 responses" in done.out
    assert f"Wrote {out}." in done.out.splitlines()
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "\x1b" not in done.out


def test_covariates_go_with_responses(run: Run, tmp_path: Path) -> None:
    rows = [("m", "quiz", f"i{k}", k % 2) for k in range(6)]
    table, covariates = tmp_path / "responses.csv", tmp_path / "covariates.csv"
    pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct"]).to_csv(table, index=False)
    frame = pd.DataFrame({"benchmark": "quiz", "item": [f"i{k}" for k in range(6)]})
    frame.assign(contamination=0.5).to_csv(covariates, index=False)
    given = ("models", "prior", "single", "--responses", table, "--draws", "100")
    lacking = run(*given)
    assert lacking.status == 2
    assert "needs a column 'contamination'" in lacking.err
    done = run(*given, "--covariates", covariates, "--format", "csv")
    assert done.status == 0, done.err
    found = {row["quantity"]: row for row in csv.DictReader(io.StringIO(done.out))}
    # Contamination does not vary: no overfitting can show, whatever the slope.
    assert "overfitting_direct" not in found
    assert float(found["slope"]["q97.5"]) > 2


def test_a_page_is_printed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(load_model("single").text, encoding="utf-8")
    done = run("models", "show", path, "--format", "markdown")
    assert (done.status, done.err) == (0, "")
    assert done.out == spec_page(load_model(path), str(path))
    assert f"bayescontam models prior {path} " in done.out
    both = run("models", "show", path, "--format", "markdown", "--toml")
    assert (both.status, both.out) == (2, "")
    assert "--toml: prints the file and nothing else" in both.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["single", "--out", "x.pdf"], r"x.pdf: got the ending '.pdf'; allowed are"),
        (["single", "--out", "no/where.png"], r"no/where.png: cannot be written"),
        (["single", "--items", "1"], r"items: got 1; allowed is 2"),
        (["single", "--draws", "5"], r"draws: got 5; allowed is 100"),
        (["single", "--covariates", "c.csv"], r"--covariates: belongs to a table of responses"),
        (
            ["single", "--responses", "r.csv", "--items", "3", "--models", "2"],
            r"--models, --items: of the made-up table",
        ),
        (["hierarchic"], r"no such model spec \(did you mean 'hierarchical'\?\)"),
    ],
)
def test_faults_of_usage(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("models", "prior", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert re.search(message, done.err)
    assert not list(tmp_path.iterdir())
