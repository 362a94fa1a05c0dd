"""Plans on the command line."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Done

Run = Callable[..., Done]
QUICK = ("--model", "single", "--data-sets", "20", "--seed", "1")


def rows(done: Done) -> pd.DataFrame:
    assert done.status == 0, done.err
    return pd.read_csv(StringIO(done.out))


def test_a_table_reports_what_was_supposed(run: Run) -> None:
    done = run("plan", *QUICK, "--items", "100,400", "--width", "0.15")
    assert done.status == 0
    assert "100" in done.out
    assert "Everywhere: models = 1, benchmarks = 1, generations = 1." in done.out
    assert "accuracy 0.6, mean slope 1.5" in done.out
    assert "Seed 1" in done.out


def test_all_combinations_have_a_row(run: Run) -> None:
    done = run("plan", *QUICK, "--items", "50,100", "--models", "1,2", "--format", "csv")
    table = rows(done)
    pairs = list(zip(table["items"], table["models"], strict=True))
    assert pairs == [(50, 1), (50, 2), (100, 1), (100, 2)]
    assert {"width", "width_low", "width_high", "power", "detectable_slope"} <= set(table)


def test_json_is_the_same(run: Run) -> None:
    options = ("plan", *QUICK, "--items", "80", "--width", "0.2")
    table = rows(run(*options, "--format", "csv"))
    (record,) = json.loads(run(*options, "--format", "json").out)
    assert record["width"] == pytest.approx(table["width"][0])
    assert record["p_width"] == table["p_width"][0]


def test_the_smallest_number_is_found(run: Run) -> None:
    done = run("plan", *QUICK, "--solve", "items", "--width", "0.2", "--spread", "sigma_eps=0")
    assert done.status == 0
    (line,) = [line for line in done.out.splitlines() if "give a width of 0.2" in line]
    # 4 p (1 - p) (1.96 / 0.2)² / 0.7 clean items, of a p near one half
    assert int(line.split()[0]) == pytest.approx(137, rel=0.15)


def test_the_number_of_models_to_solve_for_need_not_be_given(run: Run) -> None:
    """One of two models is clean at the least; and 32 on 11 benchmarks could not be planned."""
    options = ("--items", "20", "--data-sets", "20", "--seed", "1", "--solve", "models")
    clean = run("plan", "--model", "anchored", "--clean", "1", *options, "--width", "0.99")
    assert clean.status == 0, clean.err
    assert "2 models, the fewest tried" in " ".join(clean.out.split())
    many = run("plan", "--model", "single", "--benchmarks", "11", *options, "--width", "0.99")
    assert many.status == 0, many.err
    assert "1 model, the fewest tried" in " ".join(many.out.split())


def test_contamination_of_a_table_is_taken(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "covariates.csv"
    share = pd.DataFrame({"benchmark": "b", "item": range(10), "contamination": [0] * 5 + [1] * 5})
    half = pd.DataFrame({"benchmark": "c", "item": range(10), "contamination": [0] * 5 + [1] * 5})
    pd.concat([share, half]).to_csv(path, index=False)
    reported = rows(run("plan", *QUICK, "--items", "60", "--covariates", path, "--format", "csv"))
    assert reported["benchmarks"].tolist() == [2]
    options = ("--contamination", "0.5", "--benchmarks", "2")
    by_share = rows(run("plan", *QUICK, "--items", "60", *options, "--format", "csv"))
    assert reported["width"][0] == pytest.approx(by_share["width"][0])
    responses = pd.concat([share, half]).assign(model="m", correct=[0, 1] * 10)
    responses.to_csv(tmp_path / "responses.csv", index=False)
    options = ("--items", "60", "--responses", tmp_path / "responses.csv")
    again = rows(run("plan", *QUICK, *options, "--format", "csv"))
    pd.testing.assert_frame_equal(again, reported)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--items", "many"), "--items: got 'many'"),
        (("--items", "1"), "items: got 1; allowed is 2 or more"),
        (("--width", "0"), "width: got 0; allowed is more than 0"),
        (("--contamination", "1"), "no number of them shows a slope"),
        (("--spread", "sigma_eps"), "--spread: got 'sigma_eps'"),
        (("--spread", "sigma_epsi=3"), "did you mean 'sigma_eps'?"),
        (("--reference", "low"), "reference: got 'low'"),
        (("--seed", "-1"), "--seed: got -1"),
        (("--solve", "items"), "needs the wanted width"),
        (("--solve", "models", "--width", "0.1"), "say how many items there are"),
        (("--solve", "items", "--width", "0.1", "--models", "1,2"), "--models: with --solve"),
        (("--solve", "items", "--width", "0.1", "--items", "9,5"), "--items: it is solved for"),
        (("--solve", "items", "--width", "0.1", "--items", "500"), "--items: it is solved for"),
        (
            ("--solve", "models", "--width", "0.1", "--items", "9", "--models", "4"),
            "--models: it is solved for",
        ),
        (("--responses", "none.csv", "--contamination", "0.2"), "--contamination: leave it out"),
        (("--responses", "none.csv"), "none.csv"),
        (("--model", "concepts"), "ability.by = 'concept'"),
    ],
)
def test_impossible_wishes_are_refused(run: Run, options: tuple[str, ...], message: str) -> None:
    done = run("plan", "--seed", "1", *options)
    assert done.status == 2
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--slope", "2", "--width", "0.1", "--seed", "1"),
            "--slope, --width, --seed: no use with",
        ),
        (("--spread", "sigma_t=0.1"), "--spread: no use with"),
        (("--model", "hierarchical"), "need a model spec with lineage"),
        (("--model", "spillover"), "need a model spec with lineage"),
    ],
)
def test_what_has_no_use_with_twins_is_refused(run: Run, options: tuple[str, ...], message) -> None:
    done = run("plan", "--twins", "1", *options)
    assert done.status == 2
    assert message in done.err
    assert done.out == ""


def test_with_twins_the_model_spec_is_the_one_of_twins(run: Run) -> None:
    plans = [run("plan", "--twins", "1", "--items", "50", *more) for more in ((), ("-m", "twins"))]
    assert plans[0].out == plans[1].out != ""


@pytest.mark.parametrize(
    ("options", "needed"), [(("--assurance", "0.9"), "width"), (("--most", "5"), "solve")]
)
def test_what_a_target_would_need_is_refused_without_one(
    run: Run, options: tuple[str, ...], needed: str
) -> None:
    done = run("plan", "--items", "50", "--models", "2", *options)
    assert done.status == 2
    assert f"{options[0]}: is of no use without --{needed}" in " ".join(done.err.split())
