"""Known truth is recovered where contamination is hidden, at default settings.

Run by ``make bench-all``; three fits of up to two minutes.
"""

import pytest

from tests.support.latent_responses import assert_recovered, simulated


@pytest.mark.parametrize(
    ("spec", "trials"),
    [("latent_duplicate", 1), ("noisy_covariate", 1), ("latent_duplicate", 4)],
)
def test_known_truth_is_recovered(spec: str, trials: int) -> None:
    """At default settings a data set holds most of its truths."""
    assert_recovered(simulated(0, spec, trials), spec)
