"""Verb ``rank``: tables, CSV and JSON, and what is refused."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.inference.equivalence import compare_against
from bayescontam.inference.findings import verdict_line, which_items
from bayescontam.inference.ranking import rank_models
from tests.cli.conftest import NAMES, Done, Made

Run = Callable[..., Done]
BENCHMARK = "quiz\x1b[2J"


def test_the_table_has_all_models_and_says_what_it_means(
    made: Made, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("rank", made.path)
    assert (done.status, done.err) == (0, "")
    for name in ("groups", "ability", "gained", "best"):
        assert name in done.out
    fit = made.fit
    expected = [
        "Models that share a letter", *rank_models(fit).sentences(), verdict_line(fit),
        f"Which items: {which_items(fit)}",
    ]  # fmt: skip
    for line, wanted in zip(done.out.splitlines()[-len(expected) :], expected, strict=True):
        assert line.startswith(wanted)
    assert not {"\x1b", "\x07"} & set(done.out)


def test_csv_is_the_table(made: Made, run: Run, tmp_path: Path) -> None:
    done = run("rank", made.path, "--format", "csv")
    rows = pd.read_csv(io.StringIO(done.out), lineterminator="\n")
    wanted = rank_models(made.fit).table
    pd.testing.assert_frame_equal(rows, wanted, check_dtype=False)
    assert set(rows["model"]) == set(NAMES)
    written = run("rank", made.path, "--format", "csv", "--out", tmp_path / "ranks.csv")
    assert written == Done(0, "", "")
    assert (tmp_path / "ranks.csv").read_text(encoding="utf-8", newline="") == done.out


def test_pairs_are_those_of_the_fit(made: Made, run: Run) -> None:
    done = run("rank", made.path, "--pairs", "--format", "csv")
    rows = pd.read_csv(io.StringIO(done.out), lineterminator="\n")
    assert len(rows) == len(NAMES) * (len(NAMES) - 1) / 2
    better = made.fit.p_better().sel(benchmark=BENCHMARK)
    for row in rows.itertuples():
        assert row.p_better == float(better.sel(model=row.model, other=row.other))
        assert row.distinguished is bool(max(row.p_better, 1 - row.p_better) >= 0.95)
    shown = run("rank", made.path, "--pairs")
    assert shown.status == 0
    assert "distinguished" in shown.out


def test_options_reach_the_ranking(made: Made, run: Run) -> None:
    options = ("--benchmark", BENCHMARK, "--by", "accuracy", "--weights", "item", "--level", "0.8")
    content = json.loads(run("rank", made.path, *options, "--format", "json").out)
    assert (content["by"], content["weights"], content["level"]) == ("accuracy", "item", 0.8)
    assert content["benchmarks"] == {BENCHMARK: 1.0}
    fit = made.fit
    wanted = rank_models(fit, BENCHMARK, by="accuracy", weights="item", level=0.8)
    assert content.pop("verdict") == verdict_line(fit, 0.8)
    assert content.pop("note").startswith("Direct effect only: ")
    assert content == json.loads(json.dumps(wanted.to_dict()))


def test_models_are_held_against_a_base(made: Made, run: Run) -> None:
    base = NAMES[0]
    options = ("--against", base, "--margin", "0.3", "--by", "accuracy", "--level", "0.8")
    wanted = compare_against(made.fit, base, 0.3, by="accuracy", level=0.8)
    rows = pd.read_csv(
        io.StringIO(run("rank", made.path, *options, "--format", "csv").out), lineterminator="\n"
    )
    pd.testing.assert_frame_equal(rows, wanted.table, check_dtype=False)
    assert set(rows["model"]) == set(NAMES[1:])
    content = json.loads(run("rank", made.path, *options, "--format", "json").out)
    assert content["sentences"] == wanted.sentences()
    assert "verdict" in content
    shown = run("rank", made.path, *options)
    assert (shown.status, shown.err) == (0, "")
    for line in wanted.sentences():
        assert line in shown.out
    assert not {"\x1b", "\x07"} & set(shown.out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--against", NAMES[0]), "error: --against needs --margin: the largest difference"),
        (("--margin", "0.1"), "error: --margin needs --against"),
        (("--two-sided",), "error: --two-sided needs --against"),
        (
            ("--against", NAMES[0], "--margin", "0.1", "--pairs"),
            "error: --against and --pairs: give one of the two",
        ),
        (("--against", "zz", "--margin", "0.1"), "error: against: got 'zz', which the fit"),
        (("--against", NAMES[0], "--margin", "2"), "error: margin: got 2; allowed is a number"),
        (("--benchmark", "quizz"), "error: benchmark: got 'quizz', which the fit does not have;"),
        (("--level", "0.2"), "error: level: got 0.2; allowed is 0.5 up to but not 1\n"),
        (("--out", "a.txt"), "error: --out: a table is for the terminal; add --format csv or json"),
    ],
)
def test_what_cannot_be_used_ends_without_a_traceback(
    made: Made, run: Run, options: tuple[str, str], message: str
) -> None:
    done = run("rank", made.path, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(message)
    assert "Traceback" not in done.err


def test_a_file_that_is_no_fit_is_named(run: Run, tmp_path: Path) -> None:
    done = run("rank", tmp_path / "none.nc")
    assert done.status != 0
    assert "none.nc: no such file; make a fit with: bayescontam fit" in done.err
