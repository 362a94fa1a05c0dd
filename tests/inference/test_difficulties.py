"""Difficulties drawn given the parameters, and the sums over them."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayescontam.inference.estimands import dose_response, estimands
from bayescontam.inference.posterior import (
    count_by_level,
    difficulty,
    draw_difficulties,
    expand_to_items,
    representative_items,
)
from bayescontam.inference.stored import stored_items
from tests.support.marginal_likelihoods import (
    built_of,
    draws_of,
    in_order,
    log_odds,
    related,
    spec_of,
    table,
    values_of,
)
from tests.support.simulated_responses import logistic

FEW = (0.0, 0.3, 1.0)
GRID = np.linspace(-7, 7, 1401)


def conditional(frame, built, draws, item: int) -> np.ndarray:
    """Return the distribution function of an item's difficulty on the grid, in its spreads."""
    rows = in_order(frame, built)
    rows = rows[built.design.item == item]
    p = logistic(log_odds(rows, values_of(draws, 0, built), built, GRID))
    k, n = rows["n_correct"].to_numpy()[:, None], rows["n_trials"].to_numpy()[:, None]
    density = stats.norm.pdf(GRID) * stats.binom.pmf(k, n, p).prod(axis=0)
    cumulative = np.cumsum((density[1:] + density[:-1]) / 2)
    return np.r_[0.0, cumulative / cumulative[-1]]


CASES = {
    "continuous": ("hierarchical", {}, table(items=(40,), models=5)),
    "few values": ("hierarchical", {}, table(levels=FEW, missing=0.3)),
    "trials": ("hierarchical", {"likelihood": {"model_by_item": False}}, table(trials=4)),
    "concepts": ("concepts", {}, table()),
    "interaction": ("interaction", {}, table(items=(30,))),
    "monotone": ("monotone", {"contamination": {"knots": (0.3,)}}, table(items=(40,))),
    "kappa": ("hierarchical", {"contamination": {"confounding": "sensitivity"}}, table()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difficulty_has_its_distribution_given_everything_else(case):
    name, changed, frame = CASES[case]
    built = built_of(spec_of(name, **changed), frame)
    count = 3000
    one = draws_of(built, 1, seed=4)
    drawn = draw_difficulties(
        one[np.zeros(count, dtype=int)], built.lattice, np.random.default_rng(1)
    )
    scale = one.sigma_delta[0][built.design.benchmark_of_item]
    z = difficulty(drawn, built.lattice) / scale
    items = [0, 1, *range(2, len(built.design.items), 5)]
    for item in items:
        cdf = conditional(frame, built, one, item)
        found = stats.kstest(z[:, item], lambda x, cdf=cdf: np.interp(x, GRID, cdf))
        assert found.pvalue > 1e-4, (item, found)
        density = np.diff(cdf)
        mean = density @ (GRID[1:] + GRID[:-1]) / 2
        sd = np.sqrt(density @ ((GRID[1:] + GRID[:-1]) / 2 - mean) ** 2)
        assert z[:, item].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(count))
        assert z[:, item].std() == pytest.approx(sd, rel=4 / np.sqrt(2 * count))


def test_difficulties_of_one_draw_are_independent_given_the_parameters():
    frame = table(items=(40,), models=5)
    built = built_of(spec_of("hierarchical"), frame)
    one = draws_of(built, 1, seed=4)
    drawn = draw_difficulties(
        one[np.zeros(3000, dtype=int)], built.lattice, np.random.default_rng(1)
    )
    correlation = np.corrcoef(difficulty(drawn, built.lattice).T)
    others = correlation[np.triu_indices(len(correlation), 1)]
    assert np.abs(others).max() < 5 / np.sqrt(3000)


def test_difficulties_from_the_prior_are_normal():
    built = built_of(spec_of("hierarchical"), table(items=(30,)))
    one = draws_of(built, 1, seed=4)
    many = one[np.zeros(3000, dtype=int)]
    drawn = draw_difficulties(many, built.lattice, np.random.default_rng(1), responses=False)
    delta = difficulty(drawn, built.lattice)
    for item in (0, 7, 29):
        assert stats.kstest(delta[:, item], stats.norm(0, one.sigma_delta[0, 0]).cdf).pvalue > 1e-4


def test_benchmarks_of_which_no_item_is_shared_have_no_difficulties():
    built = built_of(spec_of("hierarchical"), table(items=(14, 14, 12), unshared=True))
    drawn = draw_difficulties(draws_of(built, 5), built.lattice, np.random.default_rng(1))
    delta = difficulty(drawn, built.lattice)
    alone = built.design.benchmark_of_item == 2
    assert (delta[:, alone] == 0).all()
    assert (delta[:, ~alone] != 0).all()


def test_draws_do_not_depend_on_the_number_of_threads():
    built = built_of(spec_of("hierarchical"), table())
    draws = draws_of(built, 20)
    first, second, other = (
        draw_difficulties(draws, built.lattice, np.random.default_rng(seed), cores=cores)
        for seed, cores in ((1, 1), (1, 2), (2, 1))
    )
    np.testing.assert_array_equal(first.place, second.place)
    np.testing.assert_array_equal(first.offset, second.offset)
    assert (first.place != other.place).any()
    assert draw_difficulties(draws, None, np.random.default_rng(1)) is draws


def test_difficulties_of_some_items_are_those_of_all():
    built = built_of(spec_of("hierarchical"), table())
    drawn = draw_difficulties(draws_of(built, 6), built.lattice, np.random.default_rng(1))
    items = np.array([9, 2, 21])
    every = expand_to_items(drawn, built.lattice).delta
    np.testing.assert_array_equal(
        expand_to_items(drawn, built.lattice, items).delta, every[:, items]
    )


# Models by their names: the first of each base is the one that was not exposed.
CLEAN_FIRST = (
    related(table(levels=FEW, missing=0.3))
    .replace({"model": {"m0": "m1", "m1": "m0", "m2": "m3", "m3": "m2"}})
    .sort_values(["benchmark", "model", "item"])
)
SUMS = {
    "few values": ("hierarchical", {}, table(levels=FEW, missing=0.3), 1e-12),
    "continuous": ("hierarchical", {}, table(items=(60, 50)), 1e-7),
    "positive": ("positive", {}, table(missing=0.3, items=(40,)), 1e-12),
    "concepts": ("concepts", {}, table(missing=0.2), 1e-12),
    "monotone": ("monotone", {"contamination": {"knots": (0.3,)}}, table(items=(90, 50)), 1e-7),
    "spillover": ("spillover", {}, table(levels=FEW, missing=0.3), 1e-12),
    "twins": ("twins", {}, related(table(levels=FEW, missing=0.3)), 1e-12),
    "first model not exposed": ("twins", {}, CLEAN_FIRST, 1e-12),
    "anchored twins": (
        "anchored", {"ability": {"lineage": "base"}, "contamination": {"spillover": True}},
        related(table(items=(60,))), 1e-7,
    ),
    "interaction": ("interaction", {}, table(items=(60,)), 1e-7),
    "anchored": ("anchored", {}, table(items=(60,)), 1e-7),
    "by concept": ("hierarchical", {"ability": {"by": "concept"}}, table(items=(60,)), 1e-7),
    "trials": (
        "hierarchical", {"likelihood": {"model_by_item": False}}, table(trials=3), 1e-12,
    ),
}  # fmt: skip


@pytest.mark.parametrize("reference", ["min_observed", 0.2])
@pytest.mark.parametrize("case", SUMS)
def test_estimands_are_those_of_difficulties_spelt_out(case, reference):
    name, changed, frame, error = SUMS[case]
    built = built_of(spec_of(name, **changed), frame)
    drawn = draw_difficulties(draws_of(built, 8), built.lattice, np.random.default_rng(1))
    plain, whole = replace(built, lattice=None), expand_to_items(drawn, built.lattice)
    own = estimands(drawn, built, (2, 4), reference)
    expected = estimands(whole, plain, (2, 4), reference)
    assert own.keys() == expected.keys()
    for group, values in expected.items():
        assert own[group].data_vars.keys() == values.data_vars.keys()
        for quantity in values.data_vars:
            cells, wanted = own[group][quantity].to_numpy(), values[quantity].to_numpy()
            np.testing.assert_allclose(cells, wanted, rtol=0, atol=10 * error, err_msg=quantity)
    if whole.beta is not None:
        curves, wanted = dose_response(drawn, built, 0.9), dose_response(whole, plain, 0.9)
        for name in wanted.data_vars:
            np.testing.assert_allclose(curves[name], wanted[name], rtol=0, atol=error)


def test_stand_ins_count_every_item_once():
    built = built_of(spec_of("hierarchical"), table(items=(60, 50)))
    drawn = count_by_level(
        draw_difficulties(draws_of(built, 3), built.lattice, np.random.default_rng(1)),
        built.lattice,
    )
    seen = representative_items(built).design
    assert drawn.tally.shape == (3, len(seen.items))
    of = seen.benchmark_of_item
    for row in drawn.tally:
        np.testing.assert_allclose(np.bincount(of, row), [60, 50], rtol=1e-10)


def test_what_is_kept_of_items_is_reported_by_all_draws():
    built = built_of(spec_of("hierarchical"), table())
    drawn = draw_difficulties(draws_of(built, 50), built.lattice, np.random.default_rng(1))
    delta = expand_to_items(drawn, built.lattice).delta
    posterior = xr.Dataset(coords={"chain": [0, 1], "draw": np.arange(25)})
    kept = stored_items(drawn, posterior, built, np.array([3, 24]), whole=False)
    np.testing.assert_allclose(kept["mean"], delta.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(kept["sd"], delta.std(axis=0), atol=1e-5)
    assert kept["delta"].dims == ("chain", "draw", "item")
    assert kept["draw"].values.tolist() == [3, 24]
    np.testing.assert_array_equal(kept["delta"].values.reshape(4, -1), delta[[3, 24, 28, 49]])
    assert list(kept["item"].to_numpy()) == list(built.design.items)
    none = np.array([], dtype=int)
    assert "delta" not in stored_items(drawn, posterior, built, none, whole=False)
