"""Rough log-odds of models on benchmarks, and total effects of related models along a run."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.inference.total_effects import Levels, own_totals
from bayescontam.model.build import BuiltModel, build
from tests.support.marginal_likelihoods import spec_of


def posterior_of(**values: float) -> xr.Dataset:
    """Return a posterior in which spreads have these values."""
    return xr.Dataset({name: (("chain", "draw"), [[v, v]]) for name, v in values.items()})


def accuracies(built: BuiltModel) -> Levels:
    """Return the log-odds of mean accuracies, whatever spreads of items are."""
    count = len(built.design.benchmarks)
    return Levels(built, np.zeros(count), np.ones(count))


@pytest.mark.parametrize("guess", [0.0, 0.25])
def test_guessing_and_the_spread_of_items_are_undone(guess):
    rng = np.random.default_rng(1)
    items, spread, ability = 4000, 1.5, np.array([-0.5, 1.0])
    hard = rng.normal(0, spread, items)
    p = guess + (1 - guess) * expit(ability[:, None] - hard)
    model, item = (at.ravel() for at in np.indices(p.shape))
    frame = pd.DataFrame(
        {"model": [f"m{m}" for m in model], "benchmark": "b", "item": [f"i{i}" for i in item],
         "correct": (rng.random(p.shape) < p).astype(int).ravel(), "contamination": item % 2}
    )  # fmt: skip
    built = build(spec_of("hierarchical", likelihood={"guess": guess}), Responses.from_frame(frame))
    found = Levels.of_responses(built, posterior_of(sigma_delta=spread)).on(np.arange(2), 0)
    # 4000 items: the tolerance is more than four standard errors.
    np.testing.assert_allclose(found.estimate, ability, atol=0.25)
    assert (found.se < 0.1).all()
    mean = frame.groupby("model")["correct"].mean().to_numpy()
    plain = accuracies(built).on(np.arange(2), 0)
    np.testing.assert_allclose(expit(plain.estimate), mean, atol=1e-3)
    np.testing.assert_allclose(plain.se, 1 / np.sqrt(items * mean * (1 - mean)), rtol=1e-3)


def test_repeated_responses_are_stretched_by_their_spread_alone():
    rng = np.random.default_rng(2)
    p = expit(0.5 + 3.0 * rng.standard_normal(300))
    frame = pd.DataFrame(
        {"model": "m", "benchmark": "b", "item": [f"i{i}" for i in range(300)],
         "n_correct": rng.binomial(20, p), "n_trials": 20, "contamination": np.arange(300) % 2}
    )  # fmt: skip
    built = build(spec_of("hierarchical"), Responses.from_frame(frame))
    share = frame["n_correct"].sum() / 6000
    plain = accuracies(built).on(np.zeros(1, int), 0)
    assert expit(plain.estimate[0]) == pytest.approx(share, abs=1e-3)
    found = Levels.of_responses(built, posterior_of(sigma_eps=3.0)).on(np.zeros(1, int), 0)
    assert found.estimate[0] == pytest.approx(plain.estimate[0] * np.sqrt(1 + 0.346 * 9), rel=1e-6)


def test_concepts_count_by_their_items_in_all_models_alike():
    right = {("m", "big"): 15, ("m", "small"): 2, ("n", "big"): 28, ("n", "small"): 5}
    rows = [
        {"model": model, "benchmark": "b", "concept": concept, "item": f"{concept}{i}",
         "correct": int(i < count), "contamination": float(i % 2)}
        for (model, concept), count in right.items()
        for i in range(30 if concept == "big" else 10)
    ]  # fmt: skip
    built = build(spec_of("concepts"), Responses.from_frame(pd.DataFrame(rows)))
    found = accuracies(built).on(np.arange(2), 0)
    for m, name in enumerate(built.design.models):
        p = (right[name, "big"] + 0.5) / 31, (right[name, "small"] + 0.5) / 11
        big, small = (np.log(each / (1 - each)) for each in p)
        assert found.estimate[m] == pytest.approx(0.75 * big + 0.25 * small, rel=1e-6)
        errors = [1 / (n * each * (1 - each)) for n, each in zip((30, 10), p, strict=True)]
        assert found.se[m] ** 2 == pytest.approx(0.75**2 * errors[0] + 0.25**2 * errors[1])


def test_along_a_run_later_checkpoints_differ_more():
    """Against one regression of all levels at once, with the covariance of the random walk."""
    items, places = 40, {"base": None, "early": 1.0, "middle": 2.0, "late": 4.0}
    doses = {"base": 0.0, "early": 0.0, "middle": 0.5, "late": 0.5}
    right = {"base": (20, 18), "early": (22, 20), "middle": (30, 23), "late": (33, 26)}
    rows = [
        {"model": model, "benchmark": b, "item": f"{b}{i}", "base": "base", "checkpoint": place,
         "correct": int(i < right[model][b == "quiz"]),
         "contamination": float(b == "exam" and i % 2 < 2 * doses[model])}
        for model, place in places.items() for b in ("exam", "quiz") for i in range(items)
    ]  # fmt: skip
    blocks = {"difficulty": {"form": "none"}, "ability": {"checkpoints": "walk"}}
    built = build(spec_of("twins", **blocks), Responses.from_frame(pd.DataFrame(rows)))
    design = built.design
    spreads = {"sigma_twin": 0.1, "sigma_t": 0.4, "sigma_step": 0.2}
    dims = ("chain", "draw", "model", "benchmark")
    prior = xr.Dataset({"spillover": (dims, np.random.default_rng(1).normal(size=(1, 9, 4, 2)))})
    found = own_totals(posterior_of(**spreads), prior, built)
    # By the levels of all models on both benchmarks: t has one start for the base and one for the
    # run, and steps of length 1 and 2, whose mean has the variance of sigma_step.
    start = np.array([[1, 0], [0, 1], [0, 1], [0, 1]])
    step = np.array([[0, 0], [0, 0], [1, 0], [1, 1]]) * np.sqrt([2 / 3, 4 / 3])
    t = 0.4**2 * start @ start.T + 0.2**2 * step @ step.T
    p = np.array([[(count + 0.5) / (items + 1) for count in right[m]] for m in places])
    y, noise = np.log(p / (1 - p)).T.ravel(), 1 / (items * p * (1 - p)).T.ravel() + 0.1**2
    covariance = np.kron(np.ones((2, 2)), t) + np.diag(noise)
    dose = np.array([doses[m] for m in places] + [0.0] * 4)
    known = np.column_stack([np.kron(np.eye(2), np.ones((4, 1))), dose])
    inverse = np.linalg.inv(covariance)
    precision = known.T @ inverse @ known
    coefficient = np.linalg.solve(precision, known.T @ inverse @ y)[2]
    variance = np.linalg.inv(precision)[2, 2]
    at = [list(design.models).index(m) for m in ("middle", "late")]
    exam = list(design.benchmarks).index("exam")
    np.testing.assert_allclose(found.effect[at, exam], 0.5 * coefficient, rtol=1e-6)
    np.testing.assert_allclose(found.sd[at, exam], 0.5 * np.sqrt(variance), rtol=1e-6)
