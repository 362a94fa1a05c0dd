"""R-hat, effective sample size and Monte Carlo error against ArviZ, column by column."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from bayescontam.inference import convergence as module
from bayescontam.inference.convergence import FIGURES, convergence


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
    columns.append(columns[0] < -1.7)  # nearly always 0: no draw lies above either quantile
    columns.append(columns[0] + 1e6)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize(
    ("chain", "draws"), [(2, 500), (4, 101), (3, 250), (2, 20), (3, 11), (4, 8)]
)
def test_figures_are_those_of_arviz(chain: int, draws: int) -> None:
    made = chains(np.random.default_rng(draws), chain, draws)
    found = convergence(made)
    data = xr.Dataset({"x": (("chain", "draw", "column"), made)})
    wanted = {
        "ess_bulk": az.ess(data, method="bulk"),
        "ess_tail": az.ess(data, method="tail", prob=(0.05, 0.95)),
        "r_hat": az.rhat(data),
        "mcse_mean": az.mcse(data),
    }
    assert tuple(found) == FIGURES
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values["x"], rtol=1e-8, err_msg=name)


def test_settings_of_arviz_change_nothing() -> None:
    made = chains(np.random.default_rng(2), 2, 100)
    before = convergence(made)
    with az.rc_context({"stats.ci_prob": 0.5}):
        after = convergence(made)
    np.testing.assert_equal(after, before)


def test_columns_in_parts_are_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chains(np.random.default_rng(3), 2, 100)
    whole = convergence(made)
    monkeypatch.setattr(module, "_AT_ONCE", 450)
    np.testing.assert_equal(convergence(made), whole)


def test_what_is_requested_is_computed_alone() -> None:
    made = chains(np.random.default_rng(4), 2, 50)
    found = convergence(made, only=("r_hat",))
    np.testing.assert_equal(found, {"r_hat": convergence(made)["r_hat"]})


def test_no_column_is_no_figure() -> None:
    assert all(len(values) == 0 for values in convergence(np.empty((2, 50, 0))).values())


def test_constants_have_nothing_to_converge_and_infinities_do_not() -> None:
    made = np.random.default_rng(1).standard_normal((2, 50, 3))
    made[..., 0] = 0.3
    made[1, 7, 1] = np.inf
    found = convergence(made)
    for name, value in {"ess_bulk": 0, "ess_tail": 0, "r_hat": np.inf, "mcse_mean": np.inf}.items():
        assert np.isnan(found[name][0])
        assert found[name][1] == value
        assert np.isfinite(found[name][2])
