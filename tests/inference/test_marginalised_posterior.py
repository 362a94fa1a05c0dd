"""Posteriors with difficulties integrated out and sampled, which must be the same."""

import numpy as np
import pytest

from bayescontam.inference.convergence import convergence
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import draw_difficulties, expand_to_items, stack_draws
from bayescontam.inference.sampling import Sampling, sample_model
from tests.support.marginal_likelihoods import built_of, spec_of, table

pytestmark = pytest.mark.slow

CHAINS, DRAWS = 2, 4000


def figures(difficulties: str) -> dict[str, np.ndarray]:
    """Return draws of parameters, items and estimands, each (chain, draw, …)."""
    built = built_of(spec_of("hierarchical"), table(models=3, items=(40,)), difficulties)
    sampling = Sampling(draws=DRAWS, tune=1000, chains=CHAINS, cores=1)
    posterior, stats = sample_model(built.model, sampling, 4, progress=False)
    assert int(stats["diverging"].sum()) == 0
    draws = draw_difficulties(
        stack_draws(posterior, built.design), built.lattice, np.random.default_rng(5)
    )
    names = ("theta", "mu", "beta", "beta_bar", "sigma_delta", "sigma_theta")
    reported = {name: posterior[name].to_numpy() for name in names}
    reported["delta"] = expand_to_items(draws, built.lattice).delta.reshape(CHAINS, DRAWS, -1)
    cells = estimands(draws, built, (CHAINS, DRAWS), "zero")["estimands"]
    reported |= {name: cells[name].to_numpy() for name in cells.data_vars}
    reported |= {
        f"{name} squared": reported[name] ** 2 for name in ("theta", "sigma_delta", "delta")
    }
    return {name: v.reshape(CHAINS, DRAWS, -1) for name, v in reported.items()}


def test_parameters_items_and_estimands_are_the_same():
    own, other = figures("marginalised"), figures("sampled")
    scores = []
    for name, cells in own.items():
        error = np.hypot(convergence(cells)["mcse_mean"], convergence(other[name])["mcse_mean"])
        gap = np.abs(cells.mean(axis=(0, 1)) - other[name].mean(axis=(0, 1)))
        assert (gap < 4 * error).all(), (name, gap / error)
        scores.append(gap / error)
    # The errors are not too large either: a standard Normal lies that far off.
    assert 0.4 < np.sqrt(np.mean(np.concatenate(scores) ** 2)) < 1.6
