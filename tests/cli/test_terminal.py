"""What is printed is whole, however narrow the terminal is."""

import subprocess
import sys

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
