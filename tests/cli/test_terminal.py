"""What is printed is whole, however narrow the terminal is."""

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
