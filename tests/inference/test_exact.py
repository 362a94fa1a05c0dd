"""Whole posteriors against answers known without sampling."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescontam
from tests.support.simulated_responses import concept_exposure, logistic


def figures(fit: bayescontam.Fit, quantity: str) -> pd.Series:
    return fit.estimands().set_index("quantity").loc[quantity]


def grid_posterior(table: pd.DataFrame, theta_prior, beta_prior) -> dict[str, np.ndarray]:
    """Integrate the two parameters of a logistic regression on a grid."""
    k, d = table["correct"].to_numpy(), table["contamination"].to_numpy()
    dose = d - d.mean()
    theta, beta = np.linspace(-1.5, 1.5, 241), np.linspace(-8, 10, 361)
    eta = theta[:, None, None] + beta[:, None] * dose
    log_density = (k * eta - np.logaddexp(0, eta)).sum(axis=-1)
    log_density += theta_prior.logpdf(theta)[:, None] + beta_prior.logpdf(beta)
    weight = np.exp(log_density - log_density.max())
    return {
        "weight": (weight / weight.sum()).ravel(),
        "slope": np.broadcast_to(beta, weight.shape).ravel(),
        "accuracy": logistic(eta).mean(axis=-1).ravel(),
        "genuine_ability_direct": logistic(theta[:, None] + beta * (d.min() - d.mean())).ravel(),
    }


def grid_quantiles(grid: dict[str, np.ndarray], quantity: str, levels) -> np.ndarray:
    order = np.argsort(grid[quantity])
    cumulative = np.cumsum(grid["weight"][order])
    return grid[quantity][order][np.searchsorted(cumulative, levels)]


def assert_agrees(fit: bayescontam.Fit, grid: dict[str, np.ndarray], quantity: str) -> None:
    row = figures(fit, quantity)
    mean = (grid["weight"] * grid[quantity]).sum()
    sd = np.sqrt((grid["weight"] * (grid[quantity] - mean) ** 2).sum())
    assert row["mean"] == pytest.approx(mean, abs=4 * row["mcse_mean"] + 0.005 * sd)
    assert row["sd"] == pytest.approx(sd, rel=0.06)
    low, high = grid_quantiles(grid, quantity, [0.025, 0.975])
    # An extreme quantile of some thousand draws has an error of a few hundredths of an sd.
    assert row["ci_low"] == pytest.approx(low, abs=0.15 * sd)
    assert row["ci_high"] == pytest.approx(high, abs=0.15 * sd)


CORRECT, ITEMS = 37, 60


@pytest.fixture(scope="module")
def conjugate():
    table = pd.DataFrame(
        {
            "model": "m", "benchmark": "b", "item": [f"i{i}" for i in range(ITEMS)],
            "correct": [1] * CORRECT + [0] * (ITEMS - CORRECT), "contamination": 0.25,
        }
    )  # fmt: skip
    return bayescontam.fit(table, "single", seed=5)


class TestConjugate:
    """`single` with constant contamination: accuracy is Beta(1 + correct, 1 + wrong)."""

    def test_accuracy_is_beta(self, conjugate):
        exact = stats.beta(1 + CORRECT, 1 + ITEMS - CORRECT)
        row = figures(conjugate, "accuracy")
        assert row["mean"] == pytest.approx(exact.mean(), abs=4 * row["mcse_mean"])
        assert row["sd"] == pytest.approx(exact.std(), rel=0.05)
        assert row["ci_low"] == pytest.approx(exact.ppf(0.025), abs=0.15 * exact.std())
        assert row["ci_high"] == pytest.approx(exact.ppf(0.975), abs=0.15 * exact.std())

    def test_all_draws_are_beta(self, conjugate):
        draws = conjugate.data["estimands"]["accuracy"].to_numpy().ravel()[::5]
        exact = stats.beta(1 + CORRECT, 1 + ITEMS - CORRECT)
        assert stats.kstest(draws, exact.cdf).pvalue > 0.001

    def test_leave_one_out_is_exact(self, conjugate):
        # The predictive probability of one response given the others, from the Beta.
        others = ITEMS - 1
        right = CORRECT * np.log((1 + CORRECT - 1) / (2 + others))
        wrong = (ITEMS - CORRECT) * np.log((1 + ITEMS - CORRECT - 1) / (2 + others))
        assert float(conjugate.data["loo"]["elpd"].sum()) == pytest.approx(right + wrong, abs=0.1)

    def test_slope_is_the_prior_and_says_so(self, conjugate):
        row = figures(conjugate, "slope")
        assert row["sd"] == pytest.approx(2.0, rel=0.08)
        assert row["verdict"] == "no variation"
        overfitting = figures(conjugate, "overfitting_direct")
        assert overfitting["verdict"] == "no variation"
        # Zero by definition of the reference, which is no estimate.
        assert np.isnan([overfitting["mean"], overfitting["ci_low"], overfitting["ci_high"]]).all()


@pytest.fixture(scope="module")
def table():
    return concept_exposure(seed=11)


@pytest.fixture(scope="module")
def fit(table):
    return bayescontam.fit(table, "single", seed=2)


@pytest.fixture(scope="module")
def grid(table):
    return grid_posterior(table, stats.logistic(0, 1), stats.norm(0, 2))


class TestSingleOnGrid:
    """400 Bernoulli items of the published generator: one model, one benchmark."""

    @pytest.mark.parametrize("quantity", ["slope", "accuracy", "genuine_ability_direct"])
    def test_posterior_agrees(self, fit, grid, quantity):
        assert_agrees(fit, grid, quantity)

    def test_contraction_agrees(self, fit, grid):
        mean = (grid["weight"] * grid["slope"]).sum()
        variance = (grid["weight"] * (grid["slope"] - mean) ** 2).sum()
        contraction = float(fit.data["identification"]["contraction"].squeeze())
        assert contraction == pytest.approx(1 - variance / 4, abs=0.06)

    def test_sampling_takes_seconds(self, fit):
        # All of it, compilation included, on a shared machine; sampling alone is about 1 s.
        assert fit.record["seconds"]["sampling"] < 60
        assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []


def test_hierarchical_of_one_model_on_grid():
    """mu ~ Normal(0, 1.5) and theta ~ Normal(mu, 1) add up to Normal(0, sqrt(3.25)).

    This also shows that coordinates informed by the data leave the posterior alone.
    """
    table = concept_exposure(seed=12, items=150)
    fit = bayescontam.fit(table, seed=4)
    grid = grid_posterior(table, stats.norm(0, np.sqrt(3.25)), stats.norm(0, 2))
    for quantity in ("slope", "accuracy", "genuine_ability_direct"):
        assert_agrees(fit, grid, quantity)
