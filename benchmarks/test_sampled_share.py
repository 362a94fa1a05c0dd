"""Whether covariates are as unsure as they say where a small share of a corpus was scanned.

Run by ``make bench-all``: from simulated corpora over judgements and the curve to covariates.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.curve import fit_curve
from tests.support.simulated_corpora import Corpus, judge, simulate
from tests.support.weighed_corpora import weighed_errors

CORPORA = int(os.environ.get("BAYESCONTAM_DATA_SETS", "10"))


def weighed(share: float, seed: int) -> dict[str, float]:
    """Return stated and actual error of the covariate, and the number of items with duplicates."""
    rng = np.random.default_rng(seed)
    truth = simulate(Corpus(share=share), rng)
    curve = fit_curve(truth.scan, judge(truth, rng), seed=seed, draws=400, tune=500)
    weighed_scan = item_contamination(truth.scan, curve)
    none = weighed_scan.none
    few, many = np.quantile(weighed_scan.number.sum(axis=1), [0.025, 0.975])
    p, found = 1 - none.mean(axis=0), truth.duplicates > 0
    low, high = np.quantile((rng.random(none.shape) >= none).sum(axis=1), [0.025, 0.975])
    return {
        "share": share,
        "stated": (p * (1 - p)).mean(),
        "actual": ((p - found) ** 2).mean(),
        "items": found.sum(),
        "low": low,
        "high": high,
        "duplicates": truth.duplicates.sum(),
        "few": few,
        "many": many,
    }


@pytest.mark.timeout(7200)
def test_covariates_are_as_unsure_as_they_say() -> None:
    rows = [weighed(share, seed) for share in (0.1, 0.01) for seed in range(CORPORA)]
    table = pd.DataFrame(rows)
    print("\n" + table.round(3).to_string())
    sums = table.groupby("share")[["stated", "actual"]].sum()
    ratio = np.sqrt(sums["stated"] / sums["actual"])
    inside = table.eval("low <= items <= high").groupby(table["share"]).mean()
    number = table.eval("few <= duplicates <= many").groupby(table["share"]).mean()
    shown = {"stated / actual error": ratio, "items inside": inside, "duplicates inside": number}
    print(pd.DataFrame(shown).round(3))
    assert ratio.between(0.8, 1.25).all()


@pytest.mark.parametrize("share", [0.1, 0.01])
def test_the_stated_sd_is_the_actual_error(tmp_path: Path, share: float) -> None:
    """Over forty corpora of which the curve is known."""
    inside, ratio, unbiased = weighed_errors(tmp_path, share, 40)
    print(f"share {share}: {inside} of 40 numbers inside, actual error {ratio:.3f} of the stated")
    # Of 40 intervals of 95 %, fewer than 31 hold with probability 1e-4.
    assert inside >= 31
    assert 0.8 < ratio < 1.25
    assert unbiased
