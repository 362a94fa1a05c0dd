"""Model specs that change one thing of the default: known truth, simulated without the package.

More of them, and more data sets, are in ``benchmarks/test_family.py``.
"""

import numpy as np
import pytest
from scipy.special import expit

from bayescontam.report.fit_page import fit_assumptions
from tests.support.spec_tables import ITEMS, MODELS, fitted, inside, quantity, responses


@pytest.mark.slow
def test_clean_models_distinguish_ease_from_contamination() -> None:
    """Easy items are contaminated more often; two of six models are clean."""
    rng = np.random.default_rng(3)
    d = rng.beta(0.6, 0.8, ITEMS)
    delta = rng.normal(0, 0.7, ITEMS) - 1.5 * (d - d.mean())
    ability = rng.normal(0, 0.5, (MODELS, 1))
    slope = np.where(np.arange(MODELS) < 2, 0.0, 1.0)[:, None]
    table = responses(expit(ability - delta + slope * d), d, 3)
    table["clean"] = table["model"].isin(["m0", "m1"]).astype(int)
    truth = (expit(ability - delta + slope * d) - expit(ability - delta)).mean(axis=1)

    anchored = fitted(table, "anchored")
    assert inside(quantity(anchored, "overfitting_direct"), truth) >= MODELS - 1
    assert (quantity(anchored, "slope").iloc[:2][["mean", "sd"]] == 0).all(axis=None)
    assert abs(quantity(anchored, "slope")["mean"].iloc[2:].mean() - 1.0) < 0.5
    kappa = anchored.data["posterior"]["kappa"]
    assert float(kappa.quantile(0.025)) < -1.5 < float(kappa.quantile(0.975))
    verdicts = anchored.data["identification"]["verdict"].to_numpy()[:, 0]
    assert verdicts[:2].tolist() == ["assumed clean"] * 2
    assert "shown" in verdicts[2:]
    assert any("'m0', 'm1' are assumed to be clean" in line for line in fit_assumptions(anchored))

    plain = fitted(table, "hierarchical")
    bias = quantity(plain, "slope")["mean"] - slope[:, 0]
    assert bias.min() > 0.8  # all of kappa, up to noise and pooling
    assert inside(quantity(plain, "overfitting_direct"), truth) <= 1
    assert any("assumed to be equally difficult if" in line for line in fit_assumptions(plain))


@pytest.mark.slow
def test_slopes_that_depend_on_difficulty_are_found() -> None:
    rng = np.random.default_rng(7)
    d, delta = rng.random(ITEMS), rng.normal(0, 1.0, ITEMS)
    ability = rng.normal(0, 0.5, (MODELS, 1))
    eta = ability - delta
    truth = (expit(eta + (1.5 + 0.8 * delta) * d) - expit(eta)).mean(axis=1)
    table = responses(expit(eta + (1.5 + 0.8 * delta) * d), d, 7)
    fit = fitted(table, "interaction")
    gamma = fit.data["posterior"]["gamma"]
    assert float(gamma.quantile(0.025)) < 0.8 < float(gamma.quantile(0.975))
    assert float(gamma.mean()) > 0.3
    assert inside(quantity(fit, "overfitting_direct"), truth) >= MODELS - 1
