"""Blind guessing, estimated or of each item: its prior, its posterior, what rests on it."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import beta, binom, norm

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, SpecError, UsageError
from bayescontam.inference.posterior import Draws, response_guess, stack_draws
from bayescontam.inference.predictive import Rows, log_density
from bayescontam.inference.prior_predictive import ExampleLayout, make_example
from bayescontam.inference.sensitivity import log_prior
from bayescontam.model.build import build
from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.report.model_page import spec_assumptions
from bayescontam.specs.model import ModelSpec
from tests.support.given_fits import changed
from tests.support.guessed_responses import assert_guessing_is_distinguished
from tests.support.spec_tables import MODELS, fitted, inside, quantity, responses

PRIOR = '{ family = "beta", alpha = 5, beta = 15 }'
ALONE = f"""
summary = "one accuracy"
[likelihood]
guess = {PRIOR}
trials = "items"
[ability]
pooling = "none"
[difficulty]
form = "none"
[contamination]
form = "none"
"""


def counts(*rows: tuple[str, str, int, int]) -> Responses:
    frame = pd.DataFrame(rows, columns=["model", "benchmark", "n_correct", "n_trials"])
    return Responses.from_frame(frame.assign(item="all"))


def spec_of(guess: str) -> ModelSpec:
    return ModelSpec.parse(ALONE.replace(f"guess = {PRIOR}", f"guess = {guess}"), "mine.toml")


def test_the_posterior_is_that_of_a_grid() -> None:
    """One count, two unknowns: guessing and ability, against the sum over a fine grid."""
    fit = bayescontam.fit(counts(("m", "b", 31, 60)).frame, spec_of(PRIOR), seed=1, chains=2)
    assert int(fit.data["sample_stats"]["diverging"].sum()) == 0
    g, theta = np.linspace(0, 1, 802)[1:-1, None], np.linspace(-6, 6, 901)
    p = g + (1 - g) * expit(theta)
    weight = beta.pdf(g, 5, 15) * norm.pdf(theta) * binom.pmf(31, 60, p)
    weight /= weight.sum()
    posterior = fit.data["posterior"]
    for name, value in (("guess", g), ("theta", theta)):
        mean = float((weight * value).sum())
        sd = float(np.sqrt((weight * (value - mean) ** 2).sum()))
        assert float(posterior[name].mean()) == pytest.approx(mean, abs=0.1 * sd)
        assert float(posterior[name].std()) == pytest.approx(sd, rel=0.1)
    reported = fit.estimands().set_index("quantity").loc["accuracy"]
    mean = float((weight * p).sum())
    assert reported["mean"] == pytest.approx(mean, abs=0.1 * reported["sd"])


def test_each_benchmark_has_what_the_table_says() -> None:
    responses = counts(("m", "a", 3, 9), ("m", "b", 5, 9), ("m", "c", 4, 9))
    spec = spec_of(f"{{ b = 0.2, c = {PRIOR} }}")
    b = build(spec, responses)
    with b.model:
        values = np.array([b.model["guess"].eval() for _ in range(3)])
    assert (values[:, 0] == 0).all()
    assert (values[:, 1] == 0.2).all()
    assert ((values[:, 2] > 0) & (values[:, 2] < 1)).all()
    assert "    guess of 'c' ~ Beta(5, 15)" in mathematics(spec)
    (reported,) = [row for row in prior_meanings(spec) if row[0].startswith("guess")]
    low, high = beta(5, 15).ppf([0.025, 0.975])
    assert reported[2].startswith(f"blind guessing succeeds {low:.2f} to {high:.2f} of the time")
    with pytest.raises(SpecError, match=r"no such benchmark: 'd'"):
        build(spec_of(f"{{ d = {PRIOR} }}"), responses)


@pytest.mark.slow
def test_guessing_is_distinguished_from_ability_and_slope() -> None:
    """By two more model specs in ``benchmarks/test_recovery.py``."""
    assert_guessing_is_distinguished("hierarchical")


def draws_of(guess: np.ndarray, responses: Responses) -> tuple[Draws, object]:
    b = build(spec_of(PRIOR), responses)
    data = {
        "theta": (("chain", "draw", "cell"), np.array([[[0.3], [-0.2]]])),
        "guess": (("chain", "draw", "benchmark"), guess[None]),
    }
    return stack_draws(xr.Dataset(data), b.design), b


def test_every_draw_has_its_own_guessing() -> None:
    responses = counts(("m", "b", 31, 60))
    draws, b = draws_of(np.array([[0.1], [0.4]]), responses)
    np.testing.assert_array_equal(response_guess(draws, b.spec, b.design), [[0.1], [0.4]])
    rows, center = Rows.of(b, draws), np.array([[0.3], [-0.2]])
    p = np.array([[0.1], [0.4]]) + np.array([[0.9], [0.6]]) * expit(center)
    np.testing.assert_allclose(log_density(rows, center, None), binom.logpmf(31, 60, p))
    z = np.linspace(-8, 8, 4001)
    inner = np.array([[0.1], [0.4]]) + np.array([[0.9], [0.6]]) * expit(center + 1.5 * z)
    integrated = trapezoid(binom.pmf(31, 60, inner) * norm.pdf(z), z, axis=1)
    scale = np.full((2, 1), 1.5)
    np.testing.assert_allclose(
        log_density(rows, center, scale)[:, 0], np.log(integrated), atol=0.01
    )


def test_the_prior_of_guessing_counts_in_power_scaling() -> None:
    responses = counts(("m", "b", 31, 60))
    guess = np.array([[0.1], [0.4]])
    _, b = draws_of(guess, responses)
    posterior = xr.Dataset(
        {
            "theta": (("chain", "draw", "model", "benchmark"), np.zeros((1, 2, 1, 1))),
            "guess": (("chain", "draw", "benchmark"), guess[None]),
        }
    )
    reported = log_prior(posterior, b)
    assert reported[1] - reported[0] == pytest.approx(
        float(np.diff(beta.logpdf([0.1, 0.4], 5, 15))[0])
    )


@pytest.mark.parametrize(
    "guess", ['{ family = "normal", sigma = 1 }', '{ family = "beta", alpha = 1 }', "1.0", "-0.1"]
)
def test_what_is_no_guessing_is_refused(guess: str) -> None:
    with pytest.raises(SpecError, match=r"likelihood\.guess"):
        spec_of(guess)


# Guessing by item, from the table.


def test_the_posterior_of_items_with_guessing_of_their_own_is_that_of_a_grid() -> None:
    """One ability, two items of 4 and of 10 options: against the sum over a fine grid."""
    rows = pd.DataFrame({"n_correct": [21, 10], "n_trials": 60, "n_options": [4, 10]})
    table = rows.assign(model="m", benchmark="b", item=["four", "ten"])
    fit = bayescontam.fit(table, spec_of('"column"'), seed=1, chains=2, draws=1500)
    theta = np.linspace(-8, 8, 4001)
    p = np.array([[0.25], [0.1]]) + np.array([[0.75], [0.9]]) * expit(theta)
    weight = norm.pdf(theta) * binom.pmf([[21], [10]], 60, p).prod(axis=0)
    weight /= weight.sum()
    mean = float((weight * theta).sum())
    sd = float(np.sqrt((weight * (theta - mean) ** 2).sum()))
    assert float(fit.data["posterior"]["theta"].mean()) == pytest.approx(mean, abs=0.1 * sd)
    assert float(fit.data["posterior"]["theta"].std()) == pytest.approx(sd, rel=0.1)
    reported = fit.estimands().set_index("quantity").loc["accuracy"]
    assert reported["mean"] == pytest.approx(
        float((weight * p).sum() / 2), abs=0.1 * reported["sd"]
    )
    assert fit.data["constant_data"]["guess_of_item"].to_numpy().tolist() == [0.25, 0.1]


def test_the_model_says_where_guessing_comes_from_and_draws_by_it() -> None:
    spec = spec_of('"column"')
    lines = mathematics(spec)
    assert "p = guess[i] + (1 - guess[i]) * logistic(eta)" in lines
    assert "    guess[i] of the table's column 'guess', or 1 / n_options" in lines
    assert any("1 / n_options" in line for line in spec_assumptions(spec))
    rows = pd.DataFrame({"n_correct": 0, "n_trials": 100_000, "guess": [0.5, 0.0]})
    frame = rows.assign(model="m", benchmark="b", item=["x", "y"])
    b = build(spec, Responses.from_frame(frame))
    low = pm.do(b.model, {"theta": np.full((1, 1), -30.0)})
    drawn = pm.draw(low["n_correct"], random_seed=1, mode="FAST_COMPILE")
    assert drawn[0] / 100_000 == pytest.approx(0.5, abs=0.01)
    assert drawn[1] == 0


def test_made_up_tables_have_the_column_that_the_spec_asks_for() -> None:
    made = make_example(
        spec_of('"column"'), ExampleLayout(models=2, items=4), np.random.default_rng(1)
    )
    assert sorted(made.frame["guess"].unique()) == [0.1, 0.25]
    build(spec_of('"column"'), made)


def test_difficulties_are_integrated_out_only_where_nothing_can_be_guessed() -> None:
    spec = changed(bayescontam.load_model("hierarchical"), likelihood={"guess": "column"})
    table = responses(np.full((2, 6), 0.5), np.linspace(0, 1, 6), 1)
    with pytest.raises(UsageError, match="answers can be guessed"):
        build(spec, Responses.from_frame(table.assign(guess=0.25)), "marginalised")
    built = build(spec, Responses.from_frame(table.assign(n_options=0)), "marginalised")
    assert built.lattice is not None


OPTIONS = np.where(np.arange(210) % 3 == 0, 4, 10)
"""Contaminated items are those of 4 options, so that guessing looks like contamination."""


def guessing_board() -> pd.DataFrame:
    """Four models that guess, two that know; contamination does nothing."""
    eta = np.array([-6, -6, -6, -6, 0.5, 2])[:, None] - np.random.default_rng(4).normal(0, 1, 210)
    table = responses(1 / OPTIONS + (1 - 1 / OPTIONS) * expit(eta), (OPTIONS == 4) * 1.0, 5)
    return table.assign(n_options=OPTIONS[table["item"].str[1:].astype(int)])


@pytest.mark.slow
def test_a_slope_that_guessing_feigns_is_not_found() -> None:
    table, spec = guessing_board(), bayescontam.load_model("hierarchical")
    fit = fitted(table, changed(spec, likelihood={"guess": "column"}))
    slope = quantity(fit, "slope")
    assert inside(slope, np.zeros(MODELS)) == MODELS
    accuracy = quantity(fit, "accuracy")
    floor = float((1 / OPTIONS).mean())
    assert ((accuracy["ci_low"] - 0.01 <= floor) & (floor <= accuracy["ci_high"]))[:4].all()
    wrong = quantity(fitted(table.drop(columns="n_options"), spec), "slope")
    assert (wrong["p_positive"][:4] > 0.95).all()

    # A model that comes later: one that names no options, and one that contradicts the fit's.
    late = table[table["model"] == "m0"].assign(model="late")
    entry = bayescontam.update(fit, late.drop(columns="n_options"), refit="never", seed=1).entries[
        0
    ]
    reported = entry.estimands.set_index("quantity")
    assert reported.loc["slope", "ci_low"] < 0 < reported.loc["slope", "ci_high"]
    assert reported.loc["accuracy", "mean"] == pytest.approx(accuracy["mean"].iloc[0], abs=0.02)
    with pytest.raises(DataError, match="items with more than one value"):
        bayescontam.update(fit, late.assign(n_options=5), refit="never", seed=1)
    strange = late.drop(columns="n_options").assign(item=late["item"].replace("i0", "new"))
    with pytest.raises(DataError, match="items without a value: 'new'"):
        bayescontam.update(fit, strange, refit="never", seed=1)
