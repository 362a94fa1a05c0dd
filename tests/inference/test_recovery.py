"""Known truth is recovered, at default settings, with every check passed."""

import pandas as pd
import pytest

import bayescontam
from tests.simulated import Simulated, simulate

QUANTITIES = (
    "accuracy", "genuine_ability", "overfitting", "overfitting_fraction", "novelty_gap", "slope",
)  # fmt: skip


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return simulate(seed=1)


@pytest.fixture(scope="module")
def fit(simulated: Simulated) -> bayescontam.Fit:
    return bayescontam.fit(simulated.responses, seed=1)


def coverage(fit: bayescontam.Fit, simulated: Simulated) -> pd.Series:
    table = fit.estimands().set_index(["model", "benchmark"])
    held = {}
    for quantity in QUANTITIES:
        rows = table[table["quantity"] == quantity]
        truth = simulated.truth(quantity).reindex(rows.index)
        held[quantity] = (rows["ci_low"] <= truth) & (truth <= rows["ci_high"])
    return pd.DataFrame(held).stack()


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
        assert width["genuine_ability"].max() < 0.2

    def test_sampling_is_sound(self, fit):
        table = fit.estimands()
        table = table[~table["quantity"].isin(["rank", "p_best"])]
        assert int(fit.tree["sample_stats"]["diverging"].sum()) == 0
        assert table["r_hat"].max() < 1.01
        assert table[["ess_bulk", "ess_tail"]].min().min() >= 400

    def test_every_check_passes(self, fit):
        assert {c.name: c.sentence for c in fit.checks() if c.outcome.value != "passed"} == {}

    def test_terms_without_data_are_listed(self, fit):
        assert [symbol for symbol, _ in fit.record["left_out"]] == ["v", "eps"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["hierarchical", "positive"])
def test_repeated_trials_recover(model):
    simulated = simulate(seed=3, models=3, benchmarks=3, items=80, trials=5, sigma_eps=1.5, slope=2)
    # Three benchmarks tell little of a spread over benchmarks: its long tail needs small steps.
    fit = bayescontam.fit(simulated.responses, model, seed=3, target_accept=0.95)
    assert coverage(fit, simulated).mean() >= 0.85
    assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []
    spread = fit.tree["posterior"]["sigma_eps"]
    assert float(spread.quantile(0.01)) < 1.5 < float(spread.quantile(0.99))
