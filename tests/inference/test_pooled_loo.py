"""Leave-one-out by kinds of responses, against sums over each response's own item."""

from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam.inference.loo import can_pool, leave_one_out, pooled_leave_one_out
from bayescontam.inference.posterior import Draws, draw_difficulties
from bayescontam.model.build import BuiltModel
from tests.support.marginal_likelihoods import (
    built_of,
    draws_of,
    in_order,
    log_likelihood,
    log_odds,
    spec_of,
    table,
    values_of,
)
from tests.support.simulated_responses import logistic

FEW = (0.0, 0.3, 1.0)
Z, WEIGHT = np.polynomial.hermite_e.hermegauss(80)
WEIGHT = WEIGHT / WEIGHT.sum()


def by_hand(frame, built: BuiltModel, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Return densities given the others, and given all responses, dims (draw, response)."""
    rows, item = in_order(frame, built), built.design.item
    right = rows["n_correct"].to_numpy()[:, None] == 1
    others, own = np.empty((2, len(draws), len(rows)))
    for d in range(len(draws)):
        p = logistic(log_odds(rows, values_of(draws, d, built), built, Z))
        p = np.where(right, p, 1 - p)
        for r in range(len(rows)):
            same = item == item[r]
            every, rest = p[same].prod(axis=0), p[same & (np.arange(len(rows)) != r)].prod(axis=0)
            others[d, r] = (WEIGHT @ every) / (WEIGHT @ rest)
            own[d, r] = WEIGHT @ (every * p[r]) / (WEIGHT @ every)
    return others, own


CASES = {
    "few values": ("hierarchical", {}, table(items=(25,), levels=FEW), 1e-4),
    "missing cells": ("hierarchical", {}, table(missing=0.4), 1e-4),
    "continuous": ("hierarchical", {}, table(items=(40,)), 2e-3),
    "concepts": ("concepts", {}, table(), 1e-4),
    "interaction": ("interaction", {}, table(items=(30,)), 2e-3),
    "not shared": ("hierarchical", {}, table(items=(12, 12), unshared=True), 1e-4),
}


@pytest.mark.parametrize("case", CASES)
def test_every_column_is_that_of_explicit_sums(case):
    name, changed, frame, error = CASES[case]
    built = built_of(spec_of(name, **changed), frame)
    draws = draws_of(built, 200)
    loo = pooled_leave_one_out(draws, built, np.random.default_rng(1))
    others, own = by_hand(frame, built, draws)
    log_weights, pareto_k = array_stats.psislw(np.log(others).T, r_eff=1, axis=-1)
    log_weights = log_weights - logsumexp(log_weights, axis=1, keepdims=True)
    elpd = logsumexp(log_weights + np.log(others).T, axis=1)
    np.testing.assert_allclose(loo["elpd"], elpd, atol=error)
    np.testing.assert_allclose(loo["log_density"], np.log(own.mean(axis=0)), atol=error)
    # That of the nearest level, where there are levels; of 200 draws it is noisy.
    np.testing.assert_allclose(loo["pareto_k"], pareto_k, atol=0.25 if error > 1e-3 else 1e-3)
    assert loo["kept_draw"].to_numpy().tolist() == list(range(200))
    for d in (0, 199):
        joint = log_likelihood(frame, values_of(draws, d, built), built)
        assert float(loo["log_likelihood"][d]) == pytest.approx(joint, abs=1e-4)
    chance, right = np.exp(loo["elpd"].to_numpy()), built.design.n_correct == 1
    below = loo["pit"].to_numpy()
    assert (below[right] >= 1 - chance[right]).all()
    assert (below[~right] <= chance[~right]).all()
    assert (np.abs(below - 0.5) <= 0.5).all()


def test_it_agrees_with_difficulties_spelt_out():
    """The harmonic mean over difficulties given all responses is the density given the others."""
    frame = table(items=(20,), models=6)
    built = built_of(spec_of("hierarchical"), frame)
    rng, draws = np.random.default_rng(1), draws_of(built, 1)[np.zeros(4800, dtype=int)]
    near = {name: getattr(draws, name) for name in ("theta", "beta", "sigma_delta")}
    near = {name: v + rng.normal(0, 0.1, v.shape) for name, v in near.items()}
    draws = replace(draws, **near)
    plain = leave_one_out(draw_difficulties(draws, built.lattice, rng), built, rng)
    pooled = pooled_leave_one_out(draws, built, rng)
    assert not can_pool(built)
    np.testing.assert_allclose(pooled["elpd"], plain["elpd"], atol=0.1)
    assert float((pooled["elpd"] - plain["elpd"]).mean()) == pytest.approx(0, abs=0.01)
    np.testing.assert_allclose(pooled["log_density"], plain["log_density"], atol=0.03)
    joint = pooled["log_likelihood"]
    np.testing.assert_allclose(plain["log_likelihood"], joint.sel(kept_draw=plain["kept_draw"]))
    gain = [float((loo["log_density"] - loo["elpd"]).sum()) for loo in (pooled, plain)]
    assert gain[0] == pytest.approx(gain[1], rel=0.1)


def test_only_large_tables_of_single_trials_are_pooled():
    spec, single = spec_of("hierarchical"), {"likelihood": {"model_by_item": False}}
    large = built_of(spec, table(items=(400,), levels=FEW))
    assert can_pool(large)
    assert not can_pool(replace(large, lattice=None))
    assert not can_pool(built_of(spec, table(items=(20,))))
    repeated = built_of(
        spec_of("hierarchical", **single), table(items=(400,), levels=FEW, trials=2)
    )
    assert not can_pool(repeated)
    loo = leave_one_out(draws_of(large, 30), large, np.random.default_rng(1))
    assert loo.sizes["response"] == 1600
