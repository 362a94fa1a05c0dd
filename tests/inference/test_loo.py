"""Leave-one-out against predictive densities that are known."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.inference.loo import MIN_DRAWS, _left_out, _pit
from bayescontam.inference.predictive import Prediction, prior_draws
from bayescontam.inference.psis import psis_weights
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.golden.tables import table_of


def test_weights_leave_one_response_out():
    """Normal mean with known variance: the left-out predictive density is known."""
    rng = np.random.default_rng(3)
    y = rng.normal(0.4, 1, 30)
    mean, sd = y.sum() / (len(y) + 1), np.sqrt(1 / (len(y) + 1))  # prior Normal(0, 1)
    draws = rng.normal(mean, sd, 4000)
    density = stats.norm(draws[:, None], 1).logpdf(y)
    below = stats.norm(draws[:, None], 1).cdf(y)
    result, log_weights = _left_out(density)
    pit = (np.exp(log_weights) * below.T).sum(axis=1)
    for i in range(len(y)):
        rest = np.delete(y, i)
        predictive = stats.norm(rest.sum() / (len(y)), np.sqrt(1 + 1 / len(y)))
        assert result["elpd"][i] == pytest.approx(predictive.logpdf(y[i]), abs=0.02)
        assert pit[i] == pytest.approx(predictive.cdf(y[i]), abs=0.02)
    assert result["pareto_k"].max() < 0.7
    joint = result["log_density"]
    assert joint == pytest.approx(stats.norm(mean, np.sqrt(1 + sd**2)).logpdf(y), abs=0.02)


class Fixed:
    """Random numbers of which the uniform ones are all the same."""

    def __init__(self, value: float) -> None:
        self._value, self._rng = value, np.random.default_rng(4)

    def random(self, size: int) -> np.ndarray:
        return np.full(size, self._value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rng, name)


def test_probabilities_of_single_trials_are_those_of_replicated_ones() -> None:
    """Guessed answers and repeated trials among them."""
    table = table_of("repeated").assign(guess_rate=0.25)
    built = build(load_model("hierarchical"), Responses.from_frame(table))
    design, rng = built.design, np.random.default_rng(1)
    draws, _ = prior_draws(built, 4000, rng)
    predictive, rows = Prediction(draws, built), np.arange(len(design))
    assert 0 < (design.n_trials == 1).sum() < len(design)
    center = predictive.center(rows)
    # All draws alike: prior draws differ too much for weights.
    log_density = _left_out(predictive.density(rows, center))[0]["log_density"]
    log_weights = np.full((len(rows), len(draws)), -np.log(len(draws)))
    low, high = (
        _pit(predictive, rows, center, log_weights, log_density, Fixed(at)) for at in (0, 1)
    )
    below, level = (x.mean(axis=0) for x in predictive.replicated(rows, center, rng))
    # Of a hundred means or so, one is this far off with a probability of 1e-6.
    error = 0.5 / np.sqrt(len(draws))
    assert (np.abs(low - below) < 6 * error).all()
    assert (np.abs(high - low - level) < 6 * error).all()


def test_the_fewest_draws_of_a_fit_are_the_fewest_of_which_pareto_k_can_be_reported() -> None:
    density = np.random.default_rng(5).normal(size=(MIN_DRAWS, 50))
    assert np.isfinite(psis_weights(density.T)[1]).all()
    assert np.isnan(psis_weights(density[1:].T)[1]).all()
