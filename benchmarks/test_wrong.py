"""Fits that are wrong on purpose are caught by the tests that the right one passes.

Run by ``make bench-all``: the shipped study `wrong`, some seconds of compiling and about one
for each replicate. BAYESCONTAM_REPLICATES sets how many.
"""

import os
from pathlib import Path

import pytest

from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.runner import run_study

REPLICATES = int(os.environ.get("BAYESCONTAM_REPLICATES", "200"))
SHOWN = ["estimator", "quantity", "p_adjusted", "shift", "spread", "outcome"]


@pytest.mark.timeout(7200)
def test_wrong_fits_are_caught_and_the_right_one_is_not(tmp_path: Path) -> None:
    done = run_study("wrong", tmp_path / "run", replicates=REPLICATES, jobs=1, progress=True)
    table = StudyResults.load(done.folder).sbc
    print(f"\n{REPLICATES} replicates\n{table[SHOWN].to_string(index=False, float_format='%.3g')}")
    failed = table[table["outcome"] == "failed"].groupby("estimator")["quantity"].agg(set)
    assert "right" not in failed
    for name in ("narrow-prior", "flipped-sign"):
        assert {
            "slope",
            "genuine_ability_direct",
            "overfitting_direct",
            "overfitting_fraction_direct",
        } <= failed[name]
    # The log-likelihood of effects that a fit has not shows at once; abilities must as well.
    assert {"theta", "log_likelihood"} <= failed["no-model-by-item"]
