"""Figures of ranks: the lines that are drawn, against counts by hand."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayescontam.calibration.sbc import ranked
from bayescontam.report.study_page import _difference
from tests.support.study_rows import made_rows


@pytest.fixture(scope="module")
def values() -> Any:
    """Ranks of one quantity whose intervals are too narrow."""
    rows = ranked(made_rows(300, 1, narrow=1.4))
    return rows.loc[rows["quantity"] == rows["quantity"].iloc[0], "u"].to_numpy()


@pytest.mark.parametrize("coverage", [False, True])
def test_lines_are_shares_of_ranks_less_what_they_should_be(values: Any, coverage: bool) -> None:
    axis = Figure().subplots()
    _difference(axis, np.abs(2 * values - 1) if coverage else values, found=True)
    drawn = axis.lines[-1].get_xydata()
    assert len(drawn) == 101
    for at, height in drawn:
        middle = (1 - at) / 2, (1 + at) / 2
        held = (values >= middle[0]) & (values <= middle[1]) if coverage else values <= at
        assert height == pytest.approx(held.mean() - at, abs=1e-9 + 1 / len(values))


@pytest.mark.parametrize("n", [20, 1000])
def test_a_line_is_said_to_leave_the_envelope_where_it_is_seen_to(n: int) -> None:
    """In some 5 of 100 studies, if ranks are uniform."""
    rng, left = np.random.default_rng(4), []
    for _ in range(100):
        axis = Figure().subplots()
        left.append(_difference(axis, rng.uniform(size=n), found=False))
        edge = axis.collections[-1].get_paths()[0].vertices
        x, y = axis.lines[-1].get_data()
        sides = [edge[np.isclose(edge[:, 0], at), 1] for at in x]
        seen = [not ends.min() - 1e-9 <= at <= ends.max() + 1e-9
                for ends, at in zip(sides, y, strict=True)]  # fmt: skip
        assert left[-1] == any(seen)
    assert 0 < sum(left) <= 14  # Binomial(100, 0.05): beyond with probability 0.006
    assert _difference(axis, rng.beta(2, 2, size=max(n, 200)), found=False)
