"""What is printed is whole, however narrow the terminal is."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from bayescontam.cli.terminal import print_table


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
        figures = [f"{values[place]:.3f}" for values in numbers.values()]
        assert row == [name, *figures, table["left"].iloc[place]]


@pytest.mark.parametrize("seed", range(20))
def test_no_figure_is_cut_beside_folded_names(
    seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns of names and of figures in any order, with headings and names of any length."""
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
        assert set(figures) | set(columns) <= set(printed)
        names = "".join(str(cell) for values in columns.values() for cell in values)
        assert "".join(printed).count("x") == names.count("x")


def test_wide_characters_push_no_figure_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table(
        pd.DataFrame({"模型名称": ["漢字漢字"], "准确率": ["a"], "x": ["漢字"], "y": [1.5]})
    )
    assert "1.500" in capsys.readouterr().out.split()


def test_pymc_stays_calm_though_it_is_imported_later() -> None:
    code = (
        "import logging; from bayescontam.cli.terminal import calm; calm(); import pymc\n"
        "names = ['pymc.sampling.forward', 'pymc.sampling.mcmc', 'pymc.stats.convergence']\n"
        "for level in (logging.INFO, logging.WARNING):\n"
        "    print([logging.getLogger(name).isEnabledFor(level) for name in names])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == ["[False, False, False]", "[True, True, True]"]
