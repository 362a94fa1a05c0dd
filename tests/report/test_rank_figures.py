"""Figures of ranks: the lines that ArviZ draws, against counts by hand."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayescontam.calibration.sbc import ranked
from bayescontam.report.study_figures import _envelope, _panel
from tests.calibration.made_rows import made_rows


@pytest.fixture(scope="module")
def values() -> Any:
    """Ranks of one quantity whose intervals are too narrow."""
    rows = ranked(made_rows(300, 1, narrow=1.4))
    return rows.loc[rows["quantity"] == rows["quantity"].iloc[0], "u"].to_numpy()


@pytest.mark.parametrize("coverage", [False, True])
def test_lines_are_shares_of_ranks_less_what_they_should_be(values: Any, coverage: bool) -> None:
    figure = Figure()
    axis = figure.subplots()
    line = _panel(figure, axis, values, coverage, found=True)
    drawn = line.get_xydata()
    _envelope(axis, line, np.abs(2 * values - 1) if coverage else values)
    # What ArviZ draws, a rank at a time, and what is left of it where the envelope is.
    for data, size in ((drawn, len(values)), (line.get_xydata(), 101)):
        assert len(data) == size
        for at, height in data:
            middle = (1 - at) / 2, (1 + at) / 2
            held = (values >= middle[0]) & (values <= middle[1]) if coverage else values <= at
            assert height == pytest.approx(held.mean() - at, abs=1e-9 + 1 / len(values))


@pytest.mark.parametrize("n", [20, 1000])
def test_a_line_is_said_to_leave_the_envelope_where_it_is_seen_to(n: int) -> None:
    """In some 5 of 100 studies, if ranks are uniform."""
    rng, left = np.random.default_rng(4), []
    for _ in range(100):
        figure = Figure()
        axis = figure.subplots()
        values = rng.uniform(size=n)
        line = _panel(figure, axis, values, False, found=False)
        left.append(_envelope(axis, line, values))
        edge = axis.collections[-1].get_paths()[0].vertices
        x, y = line.get_data()
        sides = [edge[np.isclose(edge[:, 0], at), 1] for at in x]
        seen = [not ends.min() - 1e-9 <= at <= ends.max() + 1e-9
                for ends, at in zip(sides, y, strict=True)]  # fmt: skip
        assert left[-1] == any(seen)
    assert 0 < sum(left) <= 14  # Binomial(100, 0.05): beyond with probability 0.006
    values = rng.beta(2, 2, size=max(n, 200))
    assert _envelope(axis, _panel(figure, axis, values, False, found=False), values)
