"""Rough estimates that choose the sampler's coordinates."""

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest

from bayescontam.data.responses import Responses
from bayescontam.model.design import make_design
from bayescontam.model.effects import zero_sum_basis
from bayescontam.model.transforms import (
    CommonFirst,
    LinearisedEstimate,
    PooledTransform,
    rough_difficulties,
    rough_discriminations,
    rough_discriminations_of_pairs,
)
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN
from tests.support.simulated_responses import logistic


def table(rows: int, columns: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return levels of rows that sum to zero, and cells that differ around them."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 1, rows)
    level -= level.mean()
    cells = level[:, None] + rng.normal(0, 2, columns) + rng.normal(0, spread, (rows, columns))
    return level, cells


def test_levels_of_rows_are_estimated_as_well_as_their_errors_say() -> None:
    """Over 400 tables, whatever the spread of cells."""
    for spread in (0.0, 0.3, 1.4):
        squares = []
        for seed in range(400):
            level, cells = table(12, 2, spread, seed)
            noise = np.random.default_rng(1000 + seed).normal(0, 0.2, cells.shape)
            rough = LinearisedEstimate(cells + noise, np.full(cells.shape, 0.2)).level_of_rows()
            squares.append([(rough.estimate - level) ** 2, (spread**2 + rough.se**2) / 2])
        actual, reported = np.mean(squares, axis=(0, 2))
        # One of twelve is lost to the columns' means.
        assert actual / reported == pytest.approx(11 / 12, rel=0.1)


def test_a_mean_is_informed_by_what_its_effects_differ_by() -> None:
    """Against the conditional posterior of a mean, effects integrated out."""
    mean, se, tau, sigma, count = 0.7, 0.2, 0.5, 1.3, 3.0
    nested = PooledTransform(np.array([mean]), np.array([se]), np.array([count]))
    values = np.array([-1.0, 0.0, 1.0])
    shifted = np.asarray(nested.backward(values, tau, sigma).eval(mode=PLAIN))
    precision = 1 / sigma**2 + count / (tau**2 + se**2)
    center = mean * count / (tau**2 + se**2) / precision
    assert shifted - tau == pytest.approx(center + values / np.sqrt(precision))
    assert nested.forward(shifted, tau, sigma).eval(mode=PLAIN) == pytest.approx(values)
    slope = nested.log_jac_det(values, tau, sigma).eval(mode=PLAIN)
    assert slope == pytest.approx(np.full(3, -0.5 * np.log(precision)))


@pytest.mark.parametrize("regressed", [False, True])
def test_what_items_have_in_common_comes_first(regressed: bool) -> None:
    """And all of them are an orthonormal basis, benchmark by benchmark, in any order of items."""
    benchmark = np.array([2, 0, 2, 2, 0, 5, 2])
    along = np.array([0.1, 0.4, 0.9, 0.2, 0.4, 1.0, 0.0]) if regressed else None
    basis = CommonFirst.of(benchmark, along)
    matrix = np.stack([np.asarray(pt.as_tensor(basis.items(pt.as_tensor(row))).eval(mode=PLAIN))
                       for row in np.eye(7)])  # fmt: skip
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(matrix[0], (benchmark == 2) / 2.0, atol=1e-12)
    np.testing.assert_allclose(matrix[1], (benchmark == 0) / np.sqrt(2), atol=1e-12)
    assert matrix[5] == pytest.approx(np.eye(7)[5])
    common = [0, 1, 5]
    if along is not None:  # does not vary in benchmarks 0 and 5
        slope = np.where(benchmark == 2, along - along[benchmark == 2].mean(), 0.0)
        np.testing.assert_allclose(matrix[2], slope / np.linalg.norm(slope), atol=1e-12)
        common.append(2)
    values = np.arange(7.0) ** 2
    np.testing.assert_allclose(basis.items(basis.coordinates(values)), values, atol=1e-12)
    found = basis.rough(LinearisedEstimate(values, np.full(7, 0.5)))
    assert np.isinf(found.se).nonzero()[0].tolist() == sorted(common)
    assert found.estimate[common].tolist() == [0.0] * len(common)
    others = np.setdiff1d(np.arange(7), common)
    assert found.estimate[others] == pytest.approx((matrix @ values)[others])
    assert (found.se[others] == 0.5).all()


def test_difficulties_are_known_as_well_as_their_errors_state() -> None:
    """Widely spread ones too, and items that all models solve hardly more than from one side."""
    rng = np.random.default_rng(5)
    theta, delta = rng.normal(0, 1, 40), rng.normal(0, 2, 400)
    correct = rng.random((40, 400)) < logistic(theta[:, None] - delta)
    correct[:, 0], delta[0] = True, -6.0
    model, item = np.indices(correct.shape).reshape(2, -1)
    frame = pd.DataFrame({
        "model": [f"m{k}" for k in model], "benchmark": "b", "item": [f"i{k}" for k in item],
        "correct": correct.ravel().astype(int), "contamination": 0.0,
    })  # fmt: skip
    design = make_design(load_model("hierarchical"), Responses.from_frame(frame, source="made"))
    rough = rough_difficulties(design, overdispersed=False)
    place = np.array([design.items.index(f"i{k}") for k in range(400)])
    live = ~correct.all(axis=0) & correct.any(axis=0)
    error = rough.estimate[place] - delta + delta[live].mean()
    assert np.polyfit(delta[live], rough.estimate[place][live], 1)[0] == pytest.approx(1, abs=0.1)
    assert np.sqrt(np.mean((error[live] / rough.se[place][live]) ** 2)) == pytest.approx(1, abs=0.2)
    assert rough.se[place[0]] > 2 * np.median(rough.se)


def test_discriminations_are_estimated_as_well_as_their_errors_say() -> None:
    """By 40 models on 400 items: of many more, one step from 0 leaves more than chance does."""
    rng = np.random.default_rng(3)
    log_alpha, delta = rng.normal(0, 0.3, 400), rng.normal(0, 0.8, 400)
    theta = rng.normal(0, 1, 40)
    p = logistic(np.exp(log_alpha) * (theta[:, None] - delta))
    model, item = np.indices(p.shape).reshape(2, -1)
    frame = pd.DataFrame(
        {
            "model": [f"m{k}" for k in model],
            "benchmark": "b",
            "item": [f"i{k}" for k in item],
            "correct": rng.binomial(1, p).ravel(),
            "contamination": 0.0,
        }
    )
    design = make_design(load_model("two_parameter"), Responses.from_frame(frame, source="made"))
    rough = rough_discriminations(design, overdispersed=False)
    place = [design.items.index(f"i{k}") for k in range(400)]
    error = rough.estimate[place] - log_alpha
    assert np.polyfit(log_alpha, rough.estimate[place], 1) == pytest.approx([1.0, 0.0], abs=0.25)
    assert np.sqrt(np.mean((error / rough.se[place]) ** 2)) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(("trials", "wanted"), [(1, 0.6), (6, 1.0)])
def test_discriminations_of_pairs_are_estimated_roughly(trials: int, wanted: float) -> None:
    """By 12 models on 2 × 300 items: difficulties known from single answers draw them to 0."""
    rng = np.random.default_rng(5)
    log_alpha = rng.normal(0, 0.5, (12, 2))
    theta, delta = rng.normal(0, 1, (12, 2)), rng.normal(0, 1.2, (2, 300))
    eta = np.exp(log_alpha)[..., None] * (theta[..., None] - delta)
    eta += rng.normal(0, 0.5, eta.shape) * (trials > 1)
    model, benchmark, item = np.indices(eta.shape).reshape(3, -1)
    frame = pd.DataFrame(
        {
            "model": [f"m{k:02d}" for k in model],
            "benchmark": [f"b{k}" for k in benchmark],
            "item": [f"i{k}" for k in item],
            "n_correct": rng.binomial(trials, logistic(eta)).ravel(),
            "n_trials": trials,
            "contamination": 0.0,
            "clean": (model == 0).astype(int),
        }
    )
    responses = Responses.from_frame(frame, source="made")
    design = make_design(load_model("anchored_by_pair"), responses)
    rough = rough_discriminations_of_pairs(design, overdispersed=trials > 1)
    log_alpha -= log_alpha.mean(axis=0)  # difficulties have the common factor
    error = rough.estimate - log_alpha
    slope, at_0 = np.polyfit(log_alpha.ravel(), rough.estimate.ravel(), 1)
    assert slope == pytest.approx(wanted, abs=0.2)
    assert at_0 == pytest.approx(0.0, abs=0.1)
    assert np.sqrt(np.mean((error / rough.se) ** 2)) < 2


def test_a_pair_that_informs_on_nothing_has_no_estimate() -> None:
    rows = [("a", f"i{k}", 1, 0.0, 1) for k in range(20)] + [
        ("b", f"i{k}", k % 2, 0.5, 0) for k in range(20)
    ]
    frame = pd.DataFrame(rows, columns=["model", "item", "correct", "contamination", "clean"])
    responses = Responses.from_frame(frame.assign(benchmark="q"), source="made")
    design = make_design(load_model("anchored_by_pair"), responses)
    rough = rough_discriminations_of_pairs(design, overdispersed=False)
    assert np.isfinite(rough.estimate).all()
    assert rough.se[0, 0] > 1  # a model that solves all shows no rate at which it fails


def test_cells_that_were_not_answered_say_nothing_of_a_row() -> None:
    level, cells = table(40, 6, 0.05, 1)
    se = np.full(cells.shape, 0.1)
    # About at random, so that each column's mean stays near that of its rows.
    missing = np.random.default_rng(2).random(cells.shape) < 0.3
    missing[7] = True
    rough = LinearisedEstimate(
        np.where(missing, 50.0, cells), np.where(missing, np.inf, se)
    ).level_of_rows()
    reported = ~missing.all(axis=1)
    assert np.isinf(rough.se[7])
    assert rough.estimate[7] == 0
    assert np.corrcoef(rough.estimate[reported], level[reported])[0, 1] > 0.95
    assert rough.se[reported] == pytest.approx(0.1)


def test_coordinates_of_a_basis_have_the_errors_of_independent_rows() -> None:
    """Of the conditional posterior: a coordinate's precision with all others held."""
    rng = np.random.default_rng(3)
    basis, se = zero_sum_basis(5), rng.uniform(0.2, 2, 5)
    levels = rng.normal(size=5)
    rough = LinearisedEstimate(levels, se).along(basis)
    precision = np.diag(basis.T @ np.diag(1 / se**2) @ basis)
    assert rough.se == pytest.approx(1 / np.sqrt(precision))
    assert basis @ rough.estimate == pytest.approx(levels - levels.mean())
