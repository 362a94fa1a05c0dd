"""Responses a quarter of which blind guessing gets right, and what a fit must find in them."""

import numpy as np
from scipy.special import expit
from scipy.stats import beta

import bayescontam
from tests.support.given_fits import changed
from tests.support.spec_tables import ITEMS, MODELS, fitted, inside, quantity, responses

PRIOR = {"family": "beta", "alpha": 5, "beta": 15}


def assert_guessing_is_distinguished(model: str) -> None:
    """Fit a known truth: accuracy 0.25 by guessing, slopes of 1.5, able and unable models."""
    rng = np.random.default_rng(11)
    d, delta = rng.random(ITEMS), rng.normal(0, 1.2, ITEMS)
    ability = np.linspace(-3.5, 2, MODELS)[:, None]
    eta = ability - delta
    table = responses(0.25 + 0.75 * expit(eta + 1.5 * d), d, 11)
    spec = changed(bayescontam.load_model(model), likelihood={"guess": PRIOR})
    fit = fitted(table, spec)
    low, high = fit.data["posterior"]["guess"].quantile([0.025, 0.975])
    assert float(low) < 0.25 < float(high)
    assert float(high - low) < 0.67 * np.diff(beta(5, 15).ppf([0.025, 0.975]))[0]
    truth = 0.75 * (expit(eta + 1.5 * d) - expit(eta)).mean(axis=1)
    assert inside(quantity(fit, "overfitting_direct"), truth) >= MODELS - 1
