"""Own slopes against penalised logistic regression, and their rate of false findings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.inference.own_slopes import (
    NODES,
    _PairRows,
    _scores,
    normal_interval,
    own_slopes,
)
from bayescontam.inference.posterior import Draws
from bayescontam.model.build import build
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.specs.registry import load_model

PRIOR = 2.0
ABILITY_SD = 3.0


def frame_of(correct: np.ndarray, dose: np.ndarray, trials: int = 1) -> pd.DataFrame:
    """Return a table of answers, dims (model, item), on one benchmark."""
    models, items = correct.shape
    model, item = (at.ravel() for at in np.indices((models, items)))
    return pd.DataFrame({
        "model": [f"m{m}" for m in model], "benchmark": "b",
        "item": [f"i{i:03d}" for i in item], "n_correct": correct.ravel(),
        "n_trials": trials, "contamination": dose[item],
    })  # fmt: skip


def test_one_model_has_its_penalised_regression():
    rng = np.random.default_rng(3)
    dose = rng.uniform(size=60)
    correct = (rng.random((1, 60)) < expit(-0.5 + 1.5 * dose)).astype(int)
    built = build(load_model("single"), Responses.from_frame(frame_of(correct, dose)))
    level = -0.3
    draws = Draws(np.full((4, 1), level), np.zeros((4, 1)), None, None, None)
    own = own_slopes(draws, built, np.full((1, 1), PRIOR))
    x = dose - dose.mean()

    def loss(at: np.ndarray) -> float:
        eta = at[0] + at[1] * x
        fit = (correct[0] * eta - np.logaddexp(0, eta)).sum()
        return -fit + (at[0] - level) ** 2 / (2 * ABILITY_SD**2) + at[1] ** 2 / (2 * PRIOR**2)

    found = optimize.minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9})
    p = expit(found.x[0] + found.x[1] * x)
    w = p * (1 - p)
    hessian = np.array([[w.sum(), (w * x).sum()], [(w * x).sum(), (w * x**2).sum()]])
    known = hessian[1, 1] - hessian[0, 1] ** 2 / hessian[0, 0]
    hessian += np.diag([1 / ABILITY_SD**2, 1 / PRIOR**2])
    assert own.slope[0, 0] == pytest.approx(found.x[1], abs=1e-4)
    assert own.sd[0, 0] == pytest.approx(np.sqrt(np.linalg.inv(hessian)[1, 1]), rel=1e-4)
    assert own.information[0, 0] == pytest.approx(known * PRIOR**2, rel=1e-4)
    # Without the priors: curvature and gradient of the log-likelihood, doses counted from zero.
    full = np.array([[w.sum(), w @ dose], [w @ dose, w @ dose**2]])
    np.testing.assert_allclose(own.precision[0, 0], full, rtol=1e-4)
    left = correct[0] - p
    at = np.array([found.x[0] - found.x[1] * dose.mean(), found.x[1]])
    np.testing.assert_allclose(own.pull[0, 0] - full @ at, [left.sum(), left @ dose], atol=2e-3)


@pytest.mark.parametrize("solved", [0, 1])
def test_a_model_that_solved_nothing_or_everything_knows_less_than_the_prior(solved):
    dose = np.tile([0.0, 1.0], 150)
    correct = np.full((1, 300), solved)
    built = build(load_model("single"), Responses.from_frame(frame_of(correct, dose)))
    draws = Draws(np.full((4, 1), 6.0 * (2 * solved - 1)), np.zeros((4, 1)), None, None, None)
    own = own_slopes(draws, built, np.full((1, 1), PRIOR))
    assert own.information[0, 0] < 1
    low, high = normal_interval(own.slope, own.sd, 0.95)
    assert low[0, 0] < 0 < high[0, 0]


@pytest.mark.parametrize("trials", [1, 10])
def test_hard_and_easy_responses_inform_alike_however_extreme(trials):
    """Right answers at log-odds x are wrong ones at −x: where all are right 1 − p is rounding."""
    rng = np.random.default_rng(8)
    center, share = rng.uniform(-80, 80, 400), rng.integers(0, trials + 1, 400) / trials
    spread = rng.uniform(0, 8, 400)
    nodes, weights = normal_gauss_hermite(NODES)

    def scores(sign: int) -> tuple[np.ndarray, np.ndarray]:
        known = share if sign > 0 else 1 - share
        zero, n = np.zeros(400), np.full(400, float(trials))
        rows = _PairRows(zero, zero, spread, np.zeros(1), known, n, zero, zero)
        return _scores(rows, sign * center, nodes, weights)

    (up, weight), (down, mirrored) = scores(1), scores(-1)
    np.testing.assert_allclose(up, -down, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weight, mirrored, rtol=1e-9, atol=1e-12)
    assert np.abs(up).max() <= trials * (1 + 1e-12)


def test_without_variation_there_is_no_information():
    correct = np.tile([0, 1], (2, 20))
    frame = frame_of(correct, np.full(40, 0.4))
    built = build(load_model("single"), Responses.from_frame(frame))
    draws = Draws(np.zeros((4, 2)), np.ones((4, 2)), None, None, None)
    own = own_slopes(draws, built, np.full((2, 1), PRIOR))
    np.testing.assert_array_equal(own.information, 0)
    np.testing.assert_allclose(own.sd, PRIOR)


def difficulties_of(correct, eta, trials, weight, spread, rng, count=60):
    """Return draws of each item's difficulty given everything else, as a Normal near its mode."""
    at = np.zeros(correct.shape[1])
    for _ in range(50):
        p = expit(eta - at)
        gradient = weight * (trials * p - correct).sum(axis=0) - at / spread**2
        curvature = weight * trials * (p * (1 - p)).sum(axis=0) + 1 / spread**2
        at = at + np.clip(gradient / curvature, -1, 1)
    return at + rng.standard_normal((count, len(at))) / np.sqrt(curvature)


@pytest.mark.parametrize(("trials", "effect"), [(1, 0.0), (6, 1.5)])
def test_models_without_effect_are_found_at_the_nominal_rate(trials, effect):
    """Two of four models gain 2 log-odds, two nothing; items differ in difficulty.

    400 tables, 800 pairs without an effect: with a rate of 0.05 more than 66 findings have a
    probability below 1e-4 (binomial, those of a table taken for independent).
    """
    rng = np.random.default_rng(11)
    items, spread = 60, 1.0
    dose = np.tile([0.0, 1.0], items // 2)
    slope = np.array([2.0, 2.0, 0.0, 0.0])
    found, shown = 0, 0
    start = frame_of(np.zeros((4, items), dtype=int), dose, trials)
    layout = build(load_model("hierarchical"), Responses.from_frame(start))
    # Log-odds of mean accuracies are nearer zero than those of single responses.
    shrink = 1 / np.sqrt(1 + 0.346 * effect**2)
    weight = 1 / (1 + trials * effect**2 / 5)
    for _ in range(400):
        theta = rng.normal(0, 0.8, 4)
        delta = rng.normal(0, spread, items)
        center = theta[:, None] + slope[:, None] * (dose - 0.5)
        own_effects = effect * rng.normal(size=(4, items))
        correct = rng.binomial(trials, expit(center - delta + own_effects))
        built = replace(layout, design=replace(layout.design, n_correct=correct.ravel()))
        # Of the pooled posterior only difficulties matter: those near the truth.
        rounded = difficulties_of(
            correct, center * shrink, trials, weight, spread * shrink, rng
        ) / shrink  # fmt: skip
        size = len(rounded)
        draws = Draws(
            np.tile(theta, (size, 1)), np.tile(slope, (size, 1)), rounded,
            np.zeros((size, 4 * items)) if trials > 1 else None,
            np.full((size, 1), effect) if trials > 1 else None,
            sigma_delta=np.full((size, 1), spread),
        )  # fmt: skip
        own = own_slopes(draws, built, np.full((4, 1), PRIOR))
        low, high = normal_interval(own.slope, own.sd, 0.95)
        findings = ((low > 0) | (high < 0))[:, 0]
        found += findings[2:].sum()
        shown += findings[:2].sum()
    assert found <= stats.binom.isf(1e-4, 800, 0.05)
    # And it is no test that never finds anything.
    assert shown >= 400


def exact_difficulties(correct, eta, guess, rng, count=60):
    """Return draws of each item's difficulty, a priori standard Normal, given everything else."""
    nodes = np.linspace(-5, 5, 201)
    p = guess + (1 - guess) * expit(eta[..., None] - nodes)
    height = np.where(correct[..., None] == 1, np.log(p), np.log1p(-p)).sum(axis=0) - nodes**2 / 2
    weight = np.exp(height - height.max(axis=1, keepdims=True))
    below = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    return nodes[(below > rng.random((count, len(below), 1))).argmax(axis=2)]


@pytest.mark.parametrize("guess", [0.0, 0.5])
def test_slopes_are_those_of_the_truth_where_answers_are_guessed(guess):
    """Four models of the same slope in each of four tables of 2,000 items.

    Were they independent, their mean would be farther from it than four standard errors with a
    probability below 1e-4.
    """
    spec = load_model("hierarchical")
    spec = spec.model_copy(
        update={"likelihood": spec.likelihood.model_copy(update={"guess": guess})}
    )
    rng, items, slope = np.random.default_rng(10), 2000, 2.0
    dose = np.tile([0.0, 1.0], items // 2)
    layout = build(spec, Responses.from_frame(frame_of(np.zeros((4, items), int), dose)))
    slopes, sds = [], []
    for _ in range(4):
        eta = np.full((4, 1), -2.0) + slope * dose
        p = guess + (1 - guess) * expit(eta - rng.normal(size=items))
        correct = (rng.random((4, items)) < p).astype(int)
        delta = exact_difficulties(correct, eta, guess, rng)
        size = len(delta)
        draws = Draws(
            np.full((size, 4), -2.0 + slope / 2), np.full((size, 4), slope), delta, None, None,
            sigma_delta=np.ones((size, 1)),
        )  # fmt: skip
        built = replace(layout, design=replace(layout.design, n_correct=correct.ravel()))
        own = own_slopes(draws, built, np.full((4, 1), PRIOR))
        slopes.append(own.slope[:, 0])
        sds.append(own.sd[:, 0])
    assert abs(np.mean(slopes) - slope) < 4 * np.mean(sds) / np.sqrt(np.size(slopes))
    assert 0.6 < np.std(slopes) / np.mean(sds) < 1.5
