"""What is printed is whole, however narrow the terminal is."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len

from bayescontam.cli.terminal import (
    FIRST_ROWS,
    LAST_ROWS,
    lay_out,
    print_checks,
    print_headline,
    print_lines,
    print_list,
    print_table,
)
from bayescontam.inference.checks import Check, Outcome
from tests.cli.conftest import environment

NAMES = [
    "semantic-regenerated", "semantic-regenerated-with-more-training-on-top-of-it",
    "semantic-regenerated-with-less-training-on-top-of-it", "GPT-4-0613",
    "模型名称模型名称模型名称", "a name of words", "two\nlines\x1b[31m",
]  # fmt: skip


def headline(seed: int = 0, models: int = len(NAMES), benchmarks: tuple[str, ...] = ("quiz",)):
    """Return a table such as `bayescontam.inference.tables.headline` makes."""
    rng = np.random.default_rng(seed)
    names = NAMES if models == len(NAMES) else [f"model {i}" for i in range(models)]
    rows = list(itertools.product(names, benchmarks))
    table = pd.DataFrame(rows, columns=["model", "benchmark"])
    for name in ("raw_accuracy", "genuine_ability_direct", "overfitting_direct"):
        table[name] = rng.uniform(-0.4 if name == "overfitting_direct" else 0.2, 0.8, len(table))
        if name != "raw_accuracy":
            table[f"{name}_low"] = table[name] - 0.1
            table[f"{name}_high"] = table[name] + 0.1
    table["overfitting_fraction_direct"] = rng.random(len(table))
    words = ["at most small", "inconclusive", "could not be found"]
    table["slope_verdict"] = [words[i % 3] for i in range(len(table))]
    table["overfitting_direct_verdict"] = [words[(i + 1) % 3] for i in range(len(table))]
    table["rank_raw"] = table.groupby("benchmark")["raw_accuracy"].rank(ascending=False)
    table["rank"] = table.groupby("benchmark")["genuine_ability_direct"].rank(ascending=False)
    table["rank_low"], table["rank_high"] = 1.0, float(len(names))
    table["p_best"] = rng.random(len(table))
    return table


def interval(row: "pd.Series[float]", name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.3f} [{low:.3f}, {high:.3f}]"


@pytest.mark.parametrize("width", [80, 100, 120, 160, 240])
def test_names_and_intervals_are_whole_and_in_one_line(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = headline(benchmarks=("livecodebench-leetcode", "atcoder"))
    monkeypatch.setenv("COLUMNS", str(width))
    print_headline(table)
    body, _, rest = capsys.readouterr().out.partition("Names in full:")
    key = dict(re.findall(r"^  (.*?) += (.*)$", rest, re.M))
    lines = body.splitlines()
    assert max(map(cell_len, lines)) <= width
    for _, row in table.iterrows():
        for name in ("genuine_ability_direct", "overfitting_direct"):
            (line,) = (line for line in lines if interval(row, name) in line)
            shown = re.split(r"  +", line)
            model, benchmark = (key.get(label, label) for label in shown[:2])
            assert model == row["model"].encode("unicode_escape").decode() or (
                model == row["model"] and model.isprintable()
            )
            assert benchmark == row["benchmark"]
    assert len(key) == len(set(key.values()))  # each name has one label


def test_places_that_models_share_are_not_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(
        {
            "model": list("abcde"), "rank": [1.5, 1.5, 3.0, 4.5, 4.5],
            "rank_low": [1.0, 1.5, 3.0, 4.0, 4.5], "rank_high": [2.0, 1.5, 3.0, 4.5, 5.0],
        }
    )  # fmt: skip
    print_table(table, ["model", ("rank", "rank_low", "rank_high")])
    out = capsys.readouterr().out
    for text in ("1.5 [1, 2]", "1.5 [1.5, 1.5]", "3 [3, 3]", "4.5 [4, 4.5]", "4.5 [4.5, 5]"):
        assert text in out


def test_a_table_that_has_room_has_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    laid = lay_out(headline(), 400)
    assert laid.columns == []
    assert laid.lines[0] == "benchmark: quiz"
    assert "Names in full:" not in laid.lines


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_left_out_in_order(seed: int) -> None:
    spare = ["p_best", "overfitting_fraction_direct", "rank_raw", "raw_accuracy"]
    seen = []
    for room in range(300, 40, -4):
        laid = lay_out(headline(seed), room, spare)
        assert laid.columns == spare[: len(laid.columns)]
        seen.append(len(laid.columns))
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3, 4}


def test_long_tables_show_their_ends(capsys: pytest.CaptureFixture[str]) -> None:
    table = headline(models=61)
    print_table(table, see_all="ask for CSV")
    out = capsys.readouterr().out
    assert "60 of 61 rows are shown. All rows: ask for CSV." in out
    shown = re.findall(r"^model (\d+) ", out, re.M)
    assert list(map(int, shown)) == [*range(FIRST_ROWS), *range(61 - LAST_ROWS, 61)]
    assert "\n… 1 more rows …\n" in out
    print_table(table, whole=True)
    assert len(re.findall(r"^model (\d+) ", capsys.readouterr().out, re.M)) == 61
    print_table(headline(models=60))
    assert "rows are shown" not in capsys.readouterr().out


def test_without_a_terminal_there_are_120_columns() -> None:
    code = (
        "from tests.cli.test_terminal import headline\n"
        "from bayescontam.cli.terminal import print_headline\n"
        "print_headline(headline())\n"
    )
    known = environment()
    del known["COLUMNS"]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=known
    )
    assert "Left out in 120 columns: slope_verdict" in done.stdout


def test_the_best_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    table = headline(models=9, benchmarks=("P", "Q"))
    print_headline(table)
    found = re.findall(r"^model (\d) +([PQ]) ", capsys.readouterr().out, re.M)
    ordered = table.sort_values(["benchmark", "genuine_ability_direct"], ascending=[True, False])
    wanted = zip(ordered["model"].str[-1], ordered["benchmark"], strict=True)
    assert found == list(wanted)


@pytest.mark.parametrize("width", [20, 60, 200])
def test_no_column_is_lost(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = {f"figure_{i}": [123.456 + i, -1.5 * i] for i in range(8)}
    table = pd.DataFrame({"fit": ["one", "two"], **numbers, "left": ["all", "any"]})
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(table)
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.strip()][-2:]
    for name, row, place in (("one", rows[0], 0), ("two", rows[1], 1)):
        figures = [f"{values[place]:.3f}".replace("-0.000", "0.000") for values in numbers.values()]
        assert row == [name, *figures, table["left"].iloc[place]]


@pytest.mark.parametrize("seed", range(20))
def test_no_figure_is_cut_beside_words(
    seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns of words and of figures in any order, with headings and words of any length."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {}
    figures = []
    for place in range(int(rng.integers(2, 9))):
        heading = chr(ord("a") + place) * int(rng.integers(1, 14))
        if rng.random() < 0.5:
            columns[heading] = ["x" * int(n) for n in rng.integers(1, 40, 2)]
        else:
            figures += [f"{1000 + 2 * place + row}.125" for row in range(2)]
            columns[heading] = [float(figure) for figure in figures[-2:]]
    for width in (20, 60, 80, 100, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(pd.DataFrame(columns))
        printed = capsys.readouterr().out.split()
        words = {str(cell) for values in columns.values() for cell in values}
        assert set(figures) | set(columns) <= set(printed)
        assert {word for word in words if "x" in word} <= set(printed)


def test_wide_characters_push_no_figure_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(
        pd.DataFrame({"模型名称": ["漢字漢字"], "准确率": ["a"], "x": ["漢字"], "y": [1.5]})
    )
    assert "1.500" in capsys.readouterr().out.split()


def test_lists_wrap_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_list([("one", "word " * 12), ("longer", "a-hyphenated-word " * 3)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("one     word word")
    assert all(line.startswith(("one ", "longer ", " " * 8)) for line in lines)
    assert " ".join(" ".join(lines).split()).count("a-hyphenated-word") == 3


def test_sentences_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["word " * 100])
    assert capsys.readouterr().out == "word " * 100 + "\n"


def test_pymc_stays_calm_though_it_is_imported_later() -> None:
    code = (
        "import logging; from bayescontam.cli.app import app\n"
        "app(['models', 'list'], standalone_mode=False); import pymc\n"
        "names = ['pymc.sampling.forward', 'pymc.sampling.mcmc', 'pymc.stats.convergence']\n"
        "for level in (logging.INFO, logging.WARNING):\n"
        "    print([logging.getLogger(name).isEnabledFor(level) for name in names])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["[False, False, False]", "[True, True, True]"]


def test_checks_show_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_checks(
        [
            Check("R-hat of parameters", Outcome.FAILED, 1.0213, "< 1.01", "Chains disagree."),
            Check("E-BFMI", Outcome.PASSED, 0.5, ">= 0.3", "Fine."),
            Check("Items answered", Outcome.CAUTION, float("nan"), "", "Some are missing."),
        ]
    )
    assert capsys.readouterr().out == (
        "failed: R-hat of parameters (1.0213, allowed < 1.01): Chains disagree.\n"
        "caution: Items answered: Some are missing.\n"
    )
