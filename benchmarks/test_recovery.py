"""Known truth is recovered: repeated trials, guessing. By ``make bench-all``; fits of a minute."""

import pytest

import bayescontam
from tests.support.guessed_responses import assert_guessing_is_distinguished
from tests.support.simulated_responses import coverage, simulate


@pytest.mark.parametrize("model", ["hierarchical", "positive"])
def test_repeated_trials_recover(model: str) -> None:
    simulated = simulate(seed=3, models=3, benchmarks=3, items=80, trials=5, sigma_eps=1.5, slope=2)
    # Three benchmarks inform little on a spread over benchmarks: its long tail needs small steps.
    fit = bayescontam.fit(simulated.responses, model, seed=3, target_accept=0.95)
    assert coverage(fit, simulated).mean() >= 0.85
    assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []
    spread = fit.data["posterior"]["sigma_eps"]
    assert float(spread.quantile(0.01)) < 1.5 < float(spread.quantile(0.99))


@pytest.mark.parametrize("model", ["monotone", "two_parameter"])
def test_guessing_is_distinguished_from_ability_and_slope(model: str) -> None:
    assert_guessing_is_distinguished(model)
