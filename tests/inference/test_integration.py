"""The check of the likelihood, against errors computed directly."""

import numpy as np
import pytest

from bayescontam.inference import checks as integration
from bayescontam.inference.checks import Outcome, integration_check, integration_errors
from bayescontam.inference.loo import pooled_leave_one_out
from bayescontam.model import marginal as lattice
from tests.support.marginal_likelihoods import (
    built_of,
    draws_of,
    log_likelihood,
    spec_of,
    table,
    values_of,
)

CASES = {
    "continuous": ("hierarchical", {}, table(items=(60, 40))),
    "monotone": ("monotone", {"contamination": {"knots": (0.3,)}}, table(items=(90,))),
    "missing cells": ("hierarchical", {}, table(missing=0.4)),
    "concepts": ("concepts", {}, table()),
    "trials": ("hierarchical", {"likelihood": {"model_by_item": False}}, table(trials=4)),
    "anchored": ("anchored", {}, table(items=(50,))),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_are_tiny(case):
    name, changed, frame = CASES[case]
    built = built_of(spec_of(name, **changed), frame)
    draws, rng = draws_of(built, 10), np.random.default_rng(1)
    assert np.abs(integration_errors(draws, built.lattice, rng)).max() < 1e-4
    check = integration_check(draws, built.lattice, rng)
    assert check.outcome is Outcome.PASSED
    assert check.name == "Difficulties integrated out"
    assert "moves no mean by more than 0.001 of its standard deviations" in check.sentence


def coarse(monkeypatch, slope: float, **changed: float):
    """Return table, model and draws where the likelihood is computed badly."""
    for name, value in changed.items():
        if name == "LEVELS":
            monkeypatch.setattr(lattice.make_lattice, "__defaults__", (value,))
        else:
            monkeypatch.setattr(lattice, name, value)
    frame = table(items=(60, 40))
    built = built_of(spec_of("hierarchical"), frame)
    return frame, built, draws_of(built, 30, slope=slope)


@pytest.mark.parametrize("changed", [{"LEVELS": 4}, {"FINENESS": 4.5}])
def test_errors_are_those_computed_directly(monkeypatch, changed):
    frame, built, draws = coarse(monkeypatch, 8.0, **changed)
    rng = np.random.default_rng(1)
    stated = integration_errors(draws, built.lattice, rng)
    reported = pooled_leave_one_out(draws, built, rng)["log_likelihood"].to_numpy()
    exact = [log_likelihood(frame, values_of(draws, d, built), built) for d in range(30)]
    assert np.abs(stated).max() > 0.02
    np.testing.assert_allclose(stated, reported - exact, atol=0.05 * np.abs(stated).max())


def test_errors_of_some_items_are_scaled_to_all(monkeypatch):
    monkeypatch.setattr(integration, "MOST_ITEMS", 50)
    _, built, draws = coarse(monkeypatch, 8.0, LEVELS=4)
    some = np.mean(
        [integration_errors(draws, built.lattice, np.random.default_rng(s)) for s in range(60)],
        axis=0,
    )
    monkeypatch.setattr(integration, "MOST_ITEMS", 2000)
    every = integration_errors(draws, built.lattice, np.random.default_rng(1))
    np.testing.assert_allclose(some, every, atol=0.3 * np.abs(every).max())


@pytest.mark.parametrize("changed", [{"LEVELS": 3}, {"FINENESS": 6.0}])
def test_the_check_fails_where_the_likelihood_is_too_coarse(monkeypatch, changed):
    _, built, draws = coarse(monkeypatch, 12.0, **changed)
    check = integration_check(draws, built.lattice, np.random.default_rng(1))
    assert check.outcome is Outcome.FAILED
    assert check.value > integration.MOST_ERROR
    assert "Fit with difficulties sampled (--difficulties sampled)" in check.sentence


def test_large_slopes_need_no_more_levels_than_there_are():
    built = built_of(spec_of("hierarchical"), table(items=(200,)))
    draws = draws_of(built, 8, slope=12.0)
    check = integration_check(draws, built.lattice, np.random.default_rng(1))
    assert check.outcome is Outcome.PASSED
