"""Trends of duplicates on a column: do intervals hold the truth, where items are uncertain?

By ``make bench-all``, or by itself; a minute on one core. Evidence on the items is simulated, of
three qualities, and the curve is known up to an error that all items share. Beside it stands what
one might do instead: draw which items have duplicates, regress what was drawn, and add the
variances within and between draws (Rubin 1987, doi:10.1002/9780470316696).
"""

import os

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence.trend import draw_lines
from tests.support.made_weighed import simulate_trend

SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "400"))
ITEMS, DRAWS = 150, 30


@pytest.mark.parametrize("slope", [0.0, 0.8])
def test_intervals_of_trends_cover(slope: float) -> None:
    rows = []
    for known in (1.0, 2.0, 4.0):
        for seed in range(SETS):
            rng = np.random.default_rng([seed, int(10 * known)])
            p, x = simulate_trend(rng, ITEMS, slope, known, DRAWS)
            drawn = (rng.random(p.shape) < p).astype(float)
            for how, outcome in (("as evidence", p), ("as drawn", drawn)):
                found = draw_lines(outcome, x, rng)[:, 1]
                low, high = np.quantile(found, [0.025, 0.975])
                rows.append(
                    {"evidence": known, "items": how, "estimate": np.median(found),
                     "covered": low <= slope <= high, "width": high - low}
                )  # fmt: skip
    table = pd.DataFrame(rows).groupby(["evidence", "items"]).mean().round(3)
    print(f"\nslope {slope}, {SETS} sets of {ITEMS} items\n{table}")
    covered = table.xs("as evidence", level="items")["covered"]
    # 400 sets of a coverage of 0.95 have a standard error of 0.011.
    assert covered.between(0.9, 0.99).all()
