"""An update against a joint fit. Real tables are in ``tests/performance/test_update.py``."""

import pytest

from tests.refits import compared, left_out
from tests.simulated import simulate


@pytest.mark.slow
def test_simulated_newcomer_agrees_with_a_joint_fit():
    """Repeated trials, some items that only the newcomer answered."""
    table = simulate(seed=4, models=5, benchmarks=2, items=60, trials=3, sigma_eps=0.6).responses
    # Of middling contamination, so that reference levels are the same for both.
    fresh = table["contamination"].between(0.30, 0.36)
    assert table.loc[fresh, "item"].nunique() > 5
    table = table[~fresh | (table["model"] == "model-4")]
    found = left_out(table, "model-4", "hierarchical")
    figures = compared(found.joint, found.updated)
    figures = figures[~figures.index.isin(["rank"], level="quantity")]
    assert figures["z"].abs().max() < 4
    assert figures["ratio"].between(0.85, 1.15).all()
