"""What priors imply, against closed forms and against simulation without the package's code."""

import logging

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logit

from bayescontam.data.responses import Responses
from bayescontam.inference.prior_predictive import QUANTILES, Implied, implied
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.prior_cases import DRAWS, row, spec_of, table, within

SIMULATED = 20_000
"""Draws of the simulations that need no PyMC."""


@pytest.fixture(autouse=True)
def calm() -> None:
    logging.getLogger("pymc").setLevel(logging.WARNING)


def single(theta: str, slope_sd: float = 1e-9, guess: str = "0.0") -> ModelSpec:
    return spec_of(
        f"""
        likelihood.guess = {guess}
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        priors.theta = {theta}
        priors.beta_bar = {{ family = "normal", sigma = {slope_sd} }}
        """
    )


# Accuracy in closed form


@pytest.mark.parametrize(
    ("theta", "known"),
    [
        ('{ family = "normal", mu = 0.7, sigma = 1.5 }', stats.norm(0.7, 1.5)),
        ('{ family = "logistic", s = 1.0 }', stats.logistic()),
        ('{ family = "student_t", nu = 3.0, mu = -1.0, sigma = 2.0 }', stats.t(3, -1, 2)),
    ],
)
def test_accuracy_has_the_quantiles_of_ability(theta, known):
    found = implied(single(theta), models=2, benchmarks=2, items=20, draws=DRAWS, seed=1)
    reported = row(found, "accuracy")
    for name, wanted in QUANTILES.items():
        # Abilities of the four pairs are independent.
        within(float(known.cdf(logit(reported[name]))), wanted, 4 * DRAWS)
    within(reported["p_below"], float(known.cdf(logit(0.02))), 4 * DRAWS)
    within(reported["p_above"], float(known.sf(logit(0.98))), 4 * DRAWS)
    assert found.values["genuine_ability_direct"] == pytest.approx(
        found.values["accuracy"], abs=1e-6
    )
    assert found.values["item_spread"].max() < 1e-6


def test_a_uniform_prior_makes_triangular_differences():
    spec = single('{ family = "logistic", s = 1.0 }')
    found = implied(spec, models=2, benchmarks=2, items=10, draws=DRAWS, seed=2)
    triangular = stats.triang(0.5, -1, 2)
    for what in ("model", "benchmark"):
        signed, size = row(found, f"{what}_difference"), row(found, f"{what}_difference_size")
        for name, wanted in QUANTILES.items():
            within(float(triangular.cdf(signed[name])), wanted, DRAWS)
            within(float(2 * triangular.cdf(size[name]) - 1), wanted, DRAWS)
        within(signed["p_above"], 0.02, DRAWS)
        within(size["p_above"], 0.04, DRAWS)
        # Two models are compared in both orders.
        values = found.values[f"{what}_difference"]
        assert np.sort(values) == pytest.approx(-np.sort(values)[::-1])


def test_guessing_lifts_accuracies_of_the_benchmarks_it_names():
    spec = single('{ family = "logistic", s = 1.0 }', guess="{ quiz = 0.25 }")
    found = implied(spec, models=2, benchmarks=2, items=10, draws=DRAWS, seed=3)
    reported = row(found, "accuracy")
    known = [stats.uniform(0.25, 0.75), stats.uniform()]
    for name, wanted in QUANTILES.items():
        mixed = np.mean([float(each.cdf(reported[name])) for each in known])
        within(float(mixed), wanted, 4 * DRAWS)


def test_the_slope_of_a_model_spec_is_its_prior():
    found = implied(single('{ family = "normal", sigma = 1.0 }', 2.0), draws=DRAWS, seed=4)
    reported = row(found, "slope")
    for name, wanted in QUANTILES.items():
        within(float(stats.norm(0, 2).cdf(reported[name])), wanted, 16 * DRAWS)
    within(reported["p_above"], float(stats.norm(0, 2).sf(4)), 16 * DRAWS)


def doses(frame: pd.DataFrame, models: int, benchmarks: int) -> np.ndarray:
    """Return contamination, dims (benchmark, item)."""
    return frame["contamination"].to_numpy().reshape(models, benchmarks, -1)[0]


def simulated(d: np.ndarray, models: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw from the default spec's prior, two benchmarks (which leaves v out)."""
    benchmarks, items = d.shape
    quantities = []
    for _ in range(SIMULATED):
        a = rng.normal(0, abs(rng.normal()), models)
        theta = rng.normal(0, 1.5, benchmarks) + (a - a.mean())[:, None]
        theta = theta + rng.normal(0, abs(rng.normal()), (models, benchmarks))
        beta = rng.normal(0, 2) + rng.normal(0, abs(rng.normal(0, 0.5)), (models, 1))
        beta = beta + rng.normal(0, abs(rng.normal(0, 0.5)), (models, benchmarks))
        delta = rng.normal(0, 1, (benchmarks, items)) * np.abs(rng.normal(size=(benchmarks, 1)))
        center = d.mean(axis=1, keepdims=True)
        clean = theta[..., None] - delta
        p = expit(clean + beta[..., None] * (d - center))
        low, high = (
            expit(clean + beta[..., None] * (end - center)).mean(axis=2)
            for end in (d.min(axis=1, keepdims=True), d.max(axis=1, keepdims=True))
        )
        score, b = p.mean(axis=2), rng.integers(benchmarks)
        first, second = rng.choice(models, 2, replace=False)
        m = rng.integers(models)
        quantities.append(
            {
                "accuracy": score[m, b],
                "genuine_ability_direct": low[m, b],
                "overfitting_direct": score[m, b] - low[m, b],
                "overfitting_fraction_direct": 1 - low[m, b] / score[m, b],
                "novelty_gap": high[m, b] - low[m, b],
                "slope": beta[m, b],
                "model_difference": score[first, b] - score[second, b],
                "model_difference_size": abs(score[first, b] - score[second, b]),
                "benchmark_difference_size": abs(score[m, 0] - score[m, 1]),
                "item_accuracy": p[m, b, rng.integers(items)],
                "item_spread": p[m, b].std(),
            }
        )
    return {name: np.array([each[name] for each in quantities]) for name in quantities[0]}


@pytest.fixture(scope="module")
def by_hand() -> dict[str, np.ndarray]:
    d = doses(table(5, 2, 12), 5, 2)
    return simulated(d, 5, np.random.default_rng(11))


@pytest.fixture(scope="module")
def default() -> Implied:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    responses = Responses.from_frame(table(5, 2, 12))
    return implied(load_model("hierarchical"), responses=responses, draws=3000, seed=12)


@pytest.mark.parametrize(
    "quantity",
    [
        *(
            "accuracy",
            "genuine_ability_direct",
            "overfitting_direct",
            "overfitting_fraction_direct",
            "novelty_gap",
        ),
        *("slope", "model_difference", "model_difference_size", "benchmark_difference_size"),
        *("item_accuracy", "item_spread"),
    ],
)
def test_the_default_spec_by_hand(quantity, default, by_hand):
    reported, values = row(default, quantity), by_hand[quantity]
    # Values of one draw depend on each other: at worst they count as one.
    independent = 1 / (1 / default.draws + 1 / SIMULATED)
    for name, wanted in QUANTILES.items():
        within(float((values <= reported[name]).mean()), wanted, independent)
    within(reported["p_below"], float((values < reported["below"]).mean()), independent)
    within(reported["p_above"], float((values > reported["above"]).mean()), independent)


def test_answers_have_no_say(default):
    frame = table(5, 2, 12)
    flipped = Responses.from_frame(frame.assign(correct=1 - frame["correct"]))
    other = implied(load_model("hierarchical"), responses=flipped, draws=3000, seed=12)
    pd.testing.assert_frame_equal(default.table(), other.table())


# Contamination that is not known


@pytest.mark.parametrize("kind", ["noisy", "latent"])
@pytest.mark.parametrize("trials", [1, 3])
def test_accuracy_is_reported_at_the_true_contamination(kind, trials):
    """Contamination is drawn from Beta or Bernoulli distributions; slopes are all near 4."""
    spec = spec_of(
        f"""
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        contamination.exposure = "{kind}"
        priors.theta = {{ family = "normal", mu = -1.0, sigma = 0.3 }}
        priors.beta_bar = {{ family = "normal", mu = 4.0, sigma = 0.5 }}
        priors.sigma_eps = {{ family = "half_normal", sigma = 0.8 }}
        """
    )
    frame = table(1, 1, 15).rename(columns={"correct": "n_correct"}).assign(n_trials=trials)
    found = implied(spec, responses=Responses.from_frame(frame), draws=1500, seed=13)
    rng = np.random.default_rng(14)
    mean, sd = frame["contamination"].to_numpy(), frame["contamination_sd"].to_numpy()
    size = (SIMULATED, 1)
    theta, beta = rng.normal(-1, 0.3, size), rng.normal(4, 0.5, size)
    spread = np.abs(rng.normal(0, 0.8, size)) * (trials > 1)
    eps = rng.normal(size=(SIMULATED, 15)) * spread
    # Priors are of mean accuracies: log-odds of single items are larger by this factor.
    theta, beta = (values * np.sqrt(1 + 0.346 * spread**2) for values in (theta, beta))
    n = mean * (1 - mean) / sd**2 - 1
    many = SIMULATED, 15
    truth = rng.beta(mean * n, (1 - mean) * n, many)
    if kind == "latent":
        truth = rng.random(many) < mean
    p = expit(theta + eps + beta * (truth - mean.mean()))
    low = 0.0 if kind == "latent" else mean.min()
    genuine = expit(theta + eps + beta * (low - mean.mean())).mean(axis=1)
    by_hand = {
        "accuracy": p.mean(axis=1),
        "genuine_ability_direct": genuine,
        "overfitting_direct": p.mean(axis=1) - genuine,
        "item_spread": p.std(axis=1),
    }
    independent = 1 / (1 / found.draws + 1 / SIMULATED)
    for quantity, values in by_hand.items():
        reported = row(found, quantity)
        # Five values stand for the Beta distribution, which the spread of items may notice.
        slack = 0.02 if (kind, quantity) == ("noisy", "item_spread") else 0.0
        for name, wanted in QUANTILES.items():
            reached = float((values <= reported[name]).mean())
            if abs(reached - wanted) > slack:
                within(reached, wanted, independent)
