"""R-hat and effective sample size against ArviZ, column by column."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from bayescontam.calibration.convergence import bulk_convergence


def chains(rng: np.random.Generator, chain: int, draws: int) -> np.ndarray:
    """Draw autoregressive chains, stuck and shifted ones, and discrete ones."""
    columns = []
    for phi in (0.0, 0.5, -0.6, 0.95, 0.995):
        for shift in (0.0, 1.0):
            noise, x = rng.standard_normal((chain, draws)), np.zeros((chain, draws))
            for t in range(1, draws):
                x[:, t] = phi * x[:, t - 1] + noise[:, t]
            x[0] += shift
            columns.append(x)
    columns += [np.round(columns[0]), (columns[0] > 1.2) * 1.0, np.exp(3 * columns[1])]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize(("chain", "draws"), [(2, 500), (4, 101), (3, 250), (2, 20)])
def test_figures_are_those_of_arviz(chain: int, draws: int) -> None:
    made = chains(np.random.default_rng(draws), chain, draws)
    ess, rhat = bulk_convergence(made)
    data = xr.Dataset({"x": (("chain", "draw", "column"), made)})
    np.testing.assert_allclose(ess, az.ess(data, method="bulk")["x"], rtol=1e-10)
    np.testing.assert_allclose(rhat, az.rhat(data)["x"], rtol=1e-10)


def test_constants_have_nothing_to_converge_and_infinities_do_not() -> None:
    made = np.random.default_rng(1).standard_normal((2, 50, 3))
    made[..., 0] = 0.3
    made[1, 7, 1] = np.inf
    ess, rhat = bulk_convergence(made)
    assert np.isnan(ess[0])
    assert np.isnan(rhat[0])
    assert (ess[1], rhat[1]) == (0.0, np.inf)
    assert np.isfinite([ess[2], rhat[2]]).all()
