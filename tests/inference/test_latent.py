"""Fits with latent contamination against sums over a grid, and against known truth.

More known truths, of more responses, are in ``benchmarks/test_hidden.py``.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference.design_checks import design_checks
from bayescontam.model.build import build
from bayescontam.model.quadrature import logit_normal
from bayescontam.specs.model import ModelSpec
from tests.support.latent_responses import assert_recovered, simulated
from tests.support.made_fit import drawn_from_prior

UNPOOLED = """
summary = "each model on its own, but that they share items"
[ability]
pooling = "none"
[difficulty]
form = "none"
[contamination]
pooling = "none"
exposure = "latent"
[priors]
theta = { family = "normal", mu = 0.0, sigma = 1.0 }
"""
THETA, BETA = np.linspace(-4, 4, 41), np.linspace(-8, 8, 41)


def unpooled() -> ModelSpec:
    return ModelSpec.parse(UNPOOLED, "unpooled.toml")


def small_table(items: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    p = rng.beta(0.7, 0.7, items)
    event = rng.random(items) < p
    rows = [
        {
            "model": name, "benchmark": "quiz", "item": f"q{i}", "p_duplicate": p[i],
            "correct": int(rng.random() < expit(level + 3.0 * (event[i] - 0.5))),
        }
        for name, level in (("A", -0.3), ("B", 0.4))
        for i in range(items)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Grid:
    """Two models of one slope and one ability each, summed over a grid of all four.

    Attributes
    ----------
    weights : array
        Log probabilities of events, dims (item, node).
    single : array
        Log likelihood of a response, dims (model, item, node, parameters); parameters
        are (theta, beta) of a model, flattened.
    p : array
        Accuracy on an item, dims (item, node, parameters).
    log_prior : array
        Dims (parameters,).
    """

    weights: np.ndarray
    single: np.ndarray
    p: np.ndarray
    log_prior: np.ndarray

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Grid":
        q = table["p_duplicate"].to_numpy()[: len(table) // 2]
        correct = table["correct"].to_numpy().reshape(2, -1)
        theta, beta = (x.ravel() for x in np.meshgrid(THETA, BETA, indexing="ij"))
        shift = np.stack([-q.mean() + 0 * q, 1 - q.mean() + 0 * q], axis=1)
        p = expit(theta + beta * shift[..., None])
        single = np.where(correct[..., None, None] == 1, np.log(p), np.log1p(-p))
        log_prior = stats.norm(0, 1).logpdf(theta) + stats.norm(0, 2).logpdf(beta)
        return cls(np.log(np.stack([1 - q, q], axis=1)), single, p, log_prior)

    def item(self, i: int, without: int | None = None) -> np.ndarray:
        """Return the log likelihood of an item, dims (A, B), maybe `without` a model's response."""
        nodes = [
            self.weights[i, k]
            + (0.0 if without == 0 else self.single[0, i, k][:, None])
            + (0.0 if without == 1 else self.single[1, i, k][None, :])
            for k in (0, 1)
        ]
        return np.logaddexp(*nodes) + np.zeros(2 * (len(self.log_prior),))

    def log_posterior(self) -> np.ndarray:
        prior = self.log_prior[:, None] + self.log_prior[None, :]
        return prior + sum(self.item(i) for i in range(len(self.weights)))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return small_table()


@pytest.fixture(scope="module")
def grid(table) -> Grid:
    return Grid.of(table)


@pytest.fixture(scope="module")
def posterior(grid) -> np.ndarray:
    joint = grid.log_posterior()
    weight = np.exp(joint - joint.max())
    return weight / weight.sum()


@pytest.fixture(scope="module")
def fit(table) -> bayescontam.Fit:
    return bayescontam.fit(table, unpooled(), seed=3)


def assert_mean_and_sd(row: pd.Series, mean: float, sd: float) -> None:
    assert row["mean"] == pytest.approx(mean, abs=4 * row["mcse_mean"] + 0.005 * sd)
    assert row["sd"] == pytest.approx(sd, rel=0.06)


class TestTwoModelsOnGrid:
    """The four parameters of two models that share twenty items."""

    @pytest.mark.parametrize("m", [0, 1])
    def test_slopes(self, fit, posterior, m):
        weight = posterior.sum(axis=1 - m).reshape(len(THETA), len(BETA)).sum(axis=0)
        mean = (weight * BETA).sum()
        sd = np.sqrt((weight * (BETA - mean) ** 2).sum())
        rows = fit.estimands().set_index(["quantity", "model"])
        assert_mean_and_sd(rows.loc[("slope", "AB"[m])], mean, sd)

    @pytest.mark.parametrize("m", [0, 1])
    def test_genuine_ability_is_that_of_clean_items(self, fit, grid, posterior, m):
        weight = posterior.sum(axis=1 - m)
        clean = grid.p[:, 0].mean(axis=0)
        mean = (weight * clean).sum()
        sd = np.sqrt((weight * (clean - mean) ** 2).sum())
        rows = fit.estimands().set_index(["quantity", "model"])
        assert_mean_and_sd(rows.loc[("genuine_ability_direct", "AB"[m])], mean, sd)

    def test_accuracy_keeps_the_variance_of_the_events(self, fit, grid, posterior):
        """Mean and variance over events that are independent given the parameters."""
        n = len(grid.weights)
        means, variances = [], []
        for i in range(n):
            nodes = [
                grid.weights[i, k] + grid.single[0, i, k][:, None] + grid.single[1, i, k]
                for k in (0, 1)
            ]
            dirty = np.exp(nodes[1] - np.logaddexp(*nodes))
            clean, lift = grid.p[i, 0][:, None], (grid.p[i, 1] - grid.p[i, 0])[:, None]
            means.append(clean + lift * dirty)
            variances.append(lift**2 * dirty * (1 - dirty))
        mean_given = sum(means) / n
        first = (posterior * mean_given).sum()
        second = (posterior * (sum(variances) / n**2 + mean_given**2)).sum()
        row = fit.estimands().set_index(["quantity", "model"]).loc[("accuracy", "A")]
        assert_mean_and_sd(row, first, np.sqrt(second - first**2))

    def test_posterior_of_events(self, fit, grid, posterior):
        rows = fit.exposures().set_index("item")
        for i in (0, 7, 13):
            nodes = [
                grid.weights[i, k] + grid.single[0, i, k][:, None] + grid.single[1, i, k]
                for k in (0, 1)
            ]
            exact = (posterior * np.exp(nodes[1] - np.logaddexp(*nodes))).sum()
            row = rows.loc[f"q{i}"]
            assert row["posterior_mean"] == pytest.approx(exact, abs=0.01)
            assert row["posterior_sd"] == pytest.approx(np.sqrt(exact * (1 - exact)), abs=0.01)
            assert row["contamination"] == pytest.approx(np.exp(grid.weights[i, 1]))

    def test_leave_one_out_is_that_of_exact_refits(self, fit, grid):
        joint = grid.log_posterior()
        total = logsumexp(joint)
        elpd = fit.data["loo"]["elpd"].to_numpy().reshape(2, -1)
        for i in range(0, len(grid.weights), 4):
            for m in (0, 1):
                without = logsumexp(joint - grid.item(i) + grid.item(i, without=m))
                assert elpd[m, i] == pytest.approx(total - without, abs=0.02)

    def test_joint_log_likelihood_is_that_of_the_grid(self, fit, grid, posterior):
        mean = (posterior * sum(grid.item(i) for i in range(len(grid.weights)))).sum()
        draws = fit.data["loo"]["log_likelihood"].to_numpy()
        assert draws.mean() == pytest.approx(mean, abs=6 * draws.std() / np.sqrt(len(draws)))

    def test_left_out_responses_are_as_probable_as_reported(self, fit):
        pit = fit.data["loo"]["pit"].to_numpy()
        assert stats.kstest(pit, "uniform").pvalue > 0.01


def test_exposures_of_pairs_name_the_model_and_survive_a_file(table, tmp_path):
    changed = table.copy()
    changed.loc[0, "p_duplicate"] = 0.99
    with drawn_from_prior():
        made = bayescontam.fit(changed, unpooled(), seed=1, draws=20)
    path = tmp_path / "fit.nc"
    made.to_netcdf(path)
    reported = bayescontam.Fit.from_netcdf(path).exposures()
    assert list(reported.columns[:3]) == ["benchmark", "item", "model"]
    keys = ["model", "benchmark", "item"]
    joined = changed.merge(reported, on=keys, validate="one_to_one")
    assert joined["contamination"].tolist() == joined["p_duplicate"].tolist()


def test_known_contamination_has_no_exposures(table):
    known = table.rename(columns={"p_duplicate": "contamination"})
    with drawn_from_prior():
        assert bayescontam.fit(known, "single", seed=1, draws=20).exposures().empty


def test_prior_predictive_is_that_of_the_model(table):
    """One draw of everything from PyMC against the model written out in NumPy."""
    b = build(unpooled(), Responses.from_frame(table.assign(p_duplicate_sd=0.05)))
    drawn = pm.sample_prior_predictive(
        4000, model=b.model, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    counts = drawn["prior_predictive"]["n_correct"].to_numpy()[0]
    rng, d = np.random.default_rng(4), b.design
    p, size = table["p_duplicate"].to_numpy()[:20], 4000
    z = rng.normal(size=(size, 1))
    location, scale = logit_normal(p, np.full_like(p, 0.05))
    q = expit(location + z * scale)
    event = rng.random((size, 20)) < q
    theta, beta = rng.normal(0, 1, (size, 2)), rng.normal(0, 2, (size, 2))
    eta = theta[:, d.model] + beta[:, d.model] * (event[:, d.item] - d.contamination.mean())
    expected = rng.random(eta.shape) < expit(eta)
    np.testing.assert_allclose(counts.mean(axis=0), expected.mean(axis=0), atol=0.04)
    # Sharing an event ties the two models together on an item.
    both = np.array([(counts[:, d.item == i].sum(axis=1) == 2).mean() for i in range(20)])
    reported = np.array([(expected[:, d.item == i].sum(axis=1) == 2).mean() for i in range(20)])
    np.testing.assert_allclose(both, reported, atol=0.04)


def test_equal_probabilities_are_a_caution(table):
    spec = unpooled()

    def outcome(frame: pd.DataFrame) -> str:
        checks = design_checks(build(spec, Responses.from_frame(frame)), None)
        return next(c.outcome.value for c in checks if c.name == "Probabilities of items")

    assert outcome(table) == "passed"
    assert outcome(table.assign(p_duplicate=0.5)) == "caution"


@pytest.mark.slow
def test_known_truth_is_recovered():
    """A data set holds most of its truths; the bench reports how many at default settings."""
    assert_recovered(simulated(0, "noisy_covariate", items=60), "noisy_covariate", draws="auto")
