"""Priors that are drawn all at once are those that PyMC draws one after another."""

import tracemalloc
from unittest import mock

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import bayescontam as bc
from bayescontam.data.responses import Responses
from bayescontam.inference import predictive, prior_sampling
from bayescontam.inference.prior_sampling import sample_by_pymc, sample_prior
from bayescontam.model.build import build
from bayescontam.model.products import weighted_sums
from bayescontam.specs.registry import load_model, shipped_models
from tests.golden.tables import imputed_table, table_of

DRAWS, DIRECTIONS = 500, 20
# Of 18 models, twice in each direction: false alarms of all together 1e-5, and seeds are fixed.
SMALLEST_P = 1e-5 / (18 * 2 * DIRECTIONS)


def latent(model: pm.Model) -> list[str]:
    observed = {variable.name for variable in model.observed_RVs}
    return [name for name in model.named_vars if name not in observed]


def check_same(model: pm.Model) -> xr.Dataset:
    """Assert that both are laid out alike, and have one distribution in random directions."""
    names = latent(model)
    ours, theirs = (
        draw(model, names, DRAWS, np.random.default_rng(seed))
        for seed, draw in enumerate((sample_prior, sample_by_pymc))
    )
    assert set(ours.data_vars) == set(theirs.data_vars)
    assert {name: ours[name].dims for name in ours} == {name: theirs[name].dims for name in theirs}
    assert ours.sizes == theirs.sizes
    for name in theirs.coords:
        np.testing.assert_array_equal(ours[name], theirs[name])
    one, other = (
        np.concatenate([each[name].to_numpy().reshape(DRAWS, -1) for name in names], axis=1)
        for each in (ours, theirs)
    )
    # A spread of zero is that of a constant.
    center = np.median(other, axis=0)
    spread = stats.iqr(other, axis=0)
    one, other = (np.tanh((x - center) / np.where(spread > 0, spread, 1.0)) for x in (one, other))
    rng = np.random.default_rng(3)
    for direction in rng.standard_normal((DIRECTIONS, one.shape[1])):
        # A few at a time, where the difference of one is not lost among the others.
        few = direction * (rng.random(len(direction)) < 5 / len(direction))
        assert stats.ks_2samp(one @ direction, other @ direction).pvalue > SMALLEST_P
        assert stats.ks_2samp(one @ few, other @ few).pvalue > SMALLEST_P
    return ours


@pytest.mark.parametrize("spec", shipped_models())
def test_priors_of_shipped_specs(spec: str) -> None:
    table = imputed_table() if spec == "imputed_covariate" else table_of("repeated")
    if spec == "twins":
        table["base"] = table["model"].map({"ada": "a", "bo": "a", "cy": "c", "di": "c"})
    check_same(bc.build_model(spec, table))


def test_each_draw_has_the_parents_that_it_was_drawn_from() -> None:
    with pm.Model(coords={"row": range(3), "column": range(4)}) as model:
        level = pm.Normal("level", 100.0, 10.0)
        rows = pm.Normal("rows", level, 1e-6, dims="row")
        columns = pm.Normal("columns", 0.0, 10.0, dims="column")
        cells = pm.Normal("cells", rows[:, None] + columns, 1e-6, dims=("row", "column"))
        repeated = pm.Normal("repeated", columns, 1e-6, dims=("row", "column"))
        single = pm.Normal("single", rows[0], 1e-6)
        shares = pm.Dirichlet("shares", pt.exp(10.0 + columns), dims="column")
        pm.Deterministic("sum", cells.sum() + repeated.sum() + single)
        pm.Deterministic("one", pt.ones(2))
        pm.Normal("observed", shares, 1.0, observed=np.zeros(4), dims="column")
    drawn = check_same(model).isel(chain=0)
    close = {"rtol": 0, "atol": 1e-4}
    columns = drawn["columns"]
    np.testing.assert_allclose(drawn["rows"] - drawn["level"], 0.0, **close)
    np.testing.assert_allclose(drawn["cells"] - drawn["rows"] - columns, 0.0, **close)
    np.testing.assert_allclose(drawn["repeated"] - columns, 0.0, **close)
    np.testing.assert_allclose(drawn["single"] - drawn["level"], 0.0, **close)
    total = drawn["cells"].sum(("row", "column")) + drawn["repeated"].sum(("row", "column"))
    np.testing.assert_allclose(drawn["sum"], total + drawn["single"])
    assert stats.spearmanr(drawn["shares"][:, 0], columns[:, 0])[0] > 0.5
    assert drawn["one"].shape == (DRAWS, 2)
    assert (drawn["one"] == 1).all()


def test_draws_follow_from_the_seed() -> None:
    model = bc.build_model("hierarchical", table_of("single"))
    names = latent(model)
    first, again, other = (
        sample_prior(model, names, 5, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    few = sample_prior(model, names[:2], 5, np.random.default_rng(1))
    xr.testing.assert_identical(first, again)
    for name in few:
        np.testing.assert_array_equal(few[name], first[name])
    assert not np.array_equal(first[names[0]], other[names[0]])


def test_other_kinds_of_random_variables_are_left_to_pymc() -> None:
    with pm.Model() as model:
        pm.ZeroSumNormal("able", shape=3)
    with mock.patch.object(prior_sampling, "vectorize_graph", side_effect=AssertionError):
        drawn = sample_prior(model, ["able"], 50, np.random.default_rng(1))
    assert drawn["able"].shape == (1, 50, 3)
    np.testing.assert_allclose(drawn["able"].sum("able_dim_0"), 0.0, atol=1e-12)


def test_variables_below_observed_ones_are_left_to_pymc() -> None:
    with pm.Model() as model:
        observed = pm.Normal("observed", 0.0, 10.0, observed=1.0)
        pm.Normal("below", observed, 0.1)
    drawn = sample_prior(model, ["below"], 200, np.random.default_rng(1))
    # Of 200 draws a standard deviation below half of the true one has a probability below 1e-15.
    assert drawn["below"].std() > 5.0


def test_effects_of_very_many_responses_are_drawn_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several arrays of all draws and responses would be in memory at the same time."""
    built = build(load_model("hierarchical"), Responses.from_frame(table_of("repeated")))
    repeated = len(built.design) - built.design.n_single
    assert repeated > 0
    drawn: list[str] = []
    for name in ("sample_prior", "sample_by_pymc"):
        own = getattr(predictive, name)
        monkeypatch.setattr(
            predictive, name, lambda *given, name=name, own=own: drawn.append(name) or own(*given)
        )
    for most in (5 * repeated, 5 * repeated - 1):
        monkeypatch.setattr(predictive, "MOST_NUMBERS", most)
        draws, _ = predictive.prior_draws(built, 5, np.random.default_rng(1))
        assert len(draws) == 5
    assert drawn == ["sample_prior", "sample_by_pymc"]


def test_sums_by_a_large_matrix_are_products_that_need_no_memory() -> None:
    """One value for each draw, row and column would be 4 GB."""
    weights = np.random.default_rng(1).normal(size=(500, 500))
    with pm.Model() as model:
        x = pm.Normal("x", shape=500)
        pm.Deterministic("sums", weighted_sums(weights, x))
    tracemalloc.start()
    found = sample_prior(model, ["x", "sums"], 2000, np.random.default_rng(1))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expected = found["x"].to_numpy() @ weights.T
    np.testing.assert_allclose(found["sums"], expected, rtol=1e-9, atol=1e-9)
    assert most < 200e6
