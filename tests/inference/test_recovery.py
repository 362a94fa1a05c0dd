"""Known truth is recovered, at default settings, with every check passed.

With repeated trials ``test_engines`` and ``benchmarks/test_recovery.py`` show it.
"""

import pytest

import bayescontam
from tests.support.simulated_responses import QUANTITIES, Simulated, coverage, simulate


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return simulate(seed=1)


@pytest.fixture(scope="module")
def fit(simulated: Simulated) -> bayescontam.Fit:
    return bayescontam.fit(simulated.responses, seed=1)


@pytest.mark.slow
class TestSixThousandResponses:
    """8 models × 2 benchmarks × 400 items, one trial each."""

    def test_intervals_hold_the_truth(self, fit, simulated):
        held = coverage(fit, simulated)
        assert len(held) == 8 * 2 * len(QUANTITIES)
        assert held.mean() >= 0.90

    def test_intervals_are_worth_having(self, fit):
        table = fit.estimands().set_index("quantity")
        width = table["ci_high"] - table["ci_low"]
        # An unpooled accuracy of 400 items has a 95 % interval of width 0.1.
        assert width["accuracy"].max() < 0.11
        assert width["genuine_ability_direct"].max() < 0.2

    def test_sampling_is_sound(self, fit):
        table = fit.estimands()
        table = table[~table["quantity"].isin(["rank", "p_best"])]
        assert int(fit.data["sample_stats"]["diverging"].sum()) == 0
        assert table["r_hat"].max() < 1.01
        assert table[["ess_bulk", "ess_tail"]].min().min() >= 400

    def test_every_check_passes(self, fit):
        assert {c.name: c.sentence for c in fit.checks() if c.outcome.value != "passed"} == {}

    def test_terms_without_data_are_listed(self, fit):
        assert [symbol for symbol, _ in fit.record["left_out"]] == ["v", "eps"]
