"""Figures of ranks: the lines that ArviZ draws, against counts by hand."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayescontam.calibration.sbc import ranked
from bayescontam.report.rank_figures import _envelope, _line
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
    _line(figure, axis, values, coverage, found=True)
    x, y = axis.get_lines()[-1].get_data()
    assert len(x) == len(values)
    for at, height in zip(x, y, strict=True):
        middle = (1 - at) / 2, (1 + at) / 2
        held = (values >= middle[0]) & (values <= middle[1]) if coverage else values <= at
        assert height == pytest.approx(held.mean() - at, abs=1e-9 + 1 / len(values))


def test_uniform_ranks_stay_in_the_envelope_and_others_leave_it() -> None:
    rng, axis = np.random.default_rng(4), Figure().subplots()
    left = [_envelope(axis, rng.uniform(size=200)) for _ in range(200)]
    assert 1 <= sum(left) <= 20  # 10 are expected; Binomial: beyond with probability 0.002
    assert _envelope(axis, rng.beta(2, 2, size=200))
