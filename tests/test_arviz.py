"""ArviZ's public functions on the trees of fits, and fits that are the same after loading."""

from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import integrate, stats
from scipy.special import expit

import bayescontam
from bayescontam import Fit, FitError, UsageError
from bayescontam.inference import stored as compact
from bayescontam.report.fit_page import render
from tests.support.made_fit import drawn_as, drawn_from_prior
from tests.support.pages import undrawn as undrawn

pytestmark = [
    pytest.mark.slow,
    # Fits of so few draws that ArviZ trusts weights up to k = 0.6 only.
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto:UserWarning"),
]

KINDS = ("small", "repeated", "marginalised")
SAMPLER = {"draws": 250, "tune": 300, "chains": 2, "cores": 2, "seed": 5}
ITEMS = 30


def table(trials: int) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    models = [f"model {m}" for m in range(6)]
    dose = rng.integers(0, 2, ITEMS)
    difficulty, ability = rng.normal(size=ITEMS), rng.normal(size=(len(models), 1))
    own = 1.5 * rng.normal(size=(len(models), ITEMS)) * (trials > 1)
    correct = rng.binomial(trials, expit(ability + dose - difficulty + own))
    return pd.DataFrame(
        {
            "model": np.repeat(models, ITEMS),
            "benchmark": "b",
            "item": [f"item {i}" for i in range(ITEMS)] * len(models),
            "n_correct": correct.ravel(),
            "n_trials": trials,
            "contamination": np.tile(dose, len(models)),
        }
    )


def old(trials: int) -> pd.DataFrame:
    whole = table(trials)
    return whole[whole["model"] != "model 5"]


@pytest.fixture(scope="module")
def fits() -> dict[str, Fit]:
    """Hold a fit of each kind; of the second, not all draws are stored."""
    with pytest.MonkeyPatch.context() as patch:
        small = bayescontam.fit(old(1), "hierarchical", **SAMPLER)
        with drawn_as(small):  # of one posterior, whichever way it was sampled
            whole = bayescontam.fit(old(1), "hierarchical", difficulties="marginalised", **SAMPLER)
        patch.setattr(compact, "RESPONSE_NUMBERS", 150 * 200)
        patch.setattr(compact, "PARAMETER_NUMBERS", 0)
        patch.setattr(compact, "LEAST_PARAMETER_DRAWS", 400)
        patch.setattr(compact, "ITEM_NUMBERS", 0)
        patch.setattr(compact, "LEAST_ITEM_DRAWS", 300)
        repeated = bayescontam.fit(old(8), "hierarchical", **SAMPLER)
    return dict(zip(KINDS, (small, repeated, whole), strict=True))


@pytest.fixture(scope="module")
def loaded(fits: dict[str, Fit], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    folder = tmp_path_factory.mktemp("fits")
    for name, fit in fits.items():
        fit.to_netcdf(folder / f"{name}.nc")
    return {name: Fit.from_netcdf(folder / f"{name}.nc") for name in fits}


@pytest.fixture(params=KINDS)
def tree(request: pytest.FixtureRequest, loaded: dict[str, Fit]) -> xr.DataTree:
    return loaded[request.param].data


class TestArviz:
    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("plot_rank_dist", {}),
            ("plot_trace_dist", {}),
            ("plot_trace", {"var_names": ["beta_bar"]}),
            ("plot_rank", {"var_names": ["beta_bar"]}),
            ("plot_ess", {"var_names": ["beta_bar"]}),
            ("plot_energy", {}),
            ("plot_pair", {"var_names": ["beta_bar", "sigma_delta"]}),
            ("plot_forest", {"group": "estimands", "var_names": ["genuine_ability_direct"]}),
            ("plot_prior_posterior", {"var_names": ["beta_bar"]}),
            ("plot_ppc_dist", {}),
            ("plot_ppc_dist", {"group": "prior_predictive"}),
            ("plot_ppc_pava", {}),
            ("plot_loo_pit", {}),
        ],
    )
    @pytest.mark.filterwarnings("ignore:Variables n_correct:UserWarning")
    @pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # ArviZ, of binary data
    def test_pictures(self, tree: xr.DataTree, name: str, options: dict[str, Any]) -> None:
        try:
            assert getattr(az, name)(tree, **options).viz["figure"].item().axes
        finally:
            plt.close("all")

    def test_summaries(self, tree: xr.DataTree) -> None:
        parameters = az.summary(tree)
        assert "beta_bar" in parameters.index
        assert not [name for name in parameters.index if name.startswith(("delta", "eta"))]
        assert len(az.summary(tree, group="estimands", var_names=["accuracy"])) == 5

    def test_leave_one_out_is_ours(self, tree: xr.DataTree) -> None:
        """To rounding, where the draws are ours; else to Monte Carlo error.

        They are a part of ours where not all are stored, and where difficulties were
        integrated out ours have them integrated out here too.
        """
        found, own = az.loo(tree, pointwise=True), tree["loo"]
        same = "posterior_draw" not in tree["log_likelihood"].coords and "delta" in (
            tree["item_effects"].data_vars
        )
        np.testing.assert_allclose(found.elpd_i, own["elpd"], atol=0.01 if same else 0.4)
        assert found.elpd == pytest.approx(float(own["elpd"].sum()), abs=0.05 if same else 3.0)
        assert list(found.elpd_i["model"].values[[0, -1]]) == ["model 0", "model 4"]
        az.plot_khat(found)
        plt.close("all")

    def test_pit_is_uniform_as_ours_is(self, tree: xr.DataTree) -> None:
        own = np.sort(tree["loo"]["pit"].to_numpy())
        found = np.sort(az.loo_pit(tree)["n_correct"].to_numpy())
        assert np.abs(own - found).max() < 0.2  # both are randomised, and of 150 responses


def test_fits_are_compared_by_arviz_as_by_us(loaded):
    """With a model spec that knows nothing of items, so that the order is no matter of chance."""
    plain = bayescontam.fit(old(1), "single", **SAMPLER)
    pair = {"small": loaded["small"], "plain": plain}
    ours = bayescontam.compare(pair).set_index("fit")
    arviz = az.compare({name: az.loo(fit.data, pointwise=True) for name, fit in pair.items()})
    assert list(arviz.index) == list(ours.index) == ["small", "plain"]
    np.testing.assert_allclose(arviz["weight"], ours["weight"], atol=0.05)
    np.testing.assert_allclose(arviz["elpd_diff"].abs(), ours["elpd_diff"].abs(), atol=0.2)


def test_fits_with_and_without_item_difficulties_integrated_out_predict_alike(loaded):
    pair = {name: loaded[name] for name in ("small", "marginalised")}
    assert bayescontam.compare(pair)["elpd_diff"].abs().max() < 1.0  # they are one model


@pytest.mark.parametrize("kind", KINDS)
def test_power_scaling_is_of_draws_that_are_in_all_groups(loaded, kind):
    table = az.psense_summary(loaded[kind].aligned(), var_names=["beta_bar", "mu"])
    assert np.isfinite(table[["prior", "likelihood"]]).all(axis=None)
    assert (table["likelihood"] > 0).all()


def test_power_scaling_fails_aloud_where_draws_differ(loaded):
    with pytest.raises(ValueError, match="along dimension 'draw' because of conflicting"):
        az.psense_summary(loaded["repeated"].data, var_names=["beta_bar"])


def test_densities_of_single_trials_are_those_of_their_log_odds(loaded):
    """Of single trials the model has no effect that ours integrate out."""
    fit = loaded["small"]
    found = fit.data["log_likelihood"].to_dataset()["n_correct"].isel(chain=1, draw=3)
    at = int(found["draw"])  # of a small table all draws are stored
    draws = fit.joint_posterior().sel(draw=at).isel(chain=1)
    data = fit.data["constant_data"].to_dataset()
    m, b, i = (data[f"{name}_of_response"].to_numpy() for name in ("model", "benchmark", "item"))
    dose = data["contamination"].to_numpy()
    mean = np.array([dose[b == k].mean() for k in range(data.sizes["benchmark"])])[b]
    theta, beta, delta = (draws[name].to_numpy() for name in ("theta", "beta", "delta"))
    p = expit(theta[m, b] + beta[m, b] * (dose - mean) - delta[i])
    exact = stats.binom(1, p).logpmf(fit.data["observed_data"]["n_correct"].to_numpy())
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)


def test_densities_of_repeated_trials_have_their_effect_integrated_out(loaded):
    fit = loaded["repeated"]
    density = fit.data["log_likelihood"].to_dataset()
    at = int(density["posterior_draw"][3])
    draws = fit.joint_posterior().sel(draw=at).isel(chain=1)
    data = fit.data["constant_data"].to_dataset()
    dose = data["contamination"] - data["contamination"].mean()
    for row in (0, 71, 149):
        m, i = (int(data[f"{name}_of_response"][row]) for name in ("model", "item"))
        center = float(draws["theta"][m, 0] + draws["beta"][m, 0] * dose[row] - draws["delta"][i])
        spread, count = float(draws["sigma_eps"]), int(fit.data["observed_data"]["n_correct"][row])

        def integrand(
            z: float, center: float = center, spread: float = spread, count: int = count
        ) -> float:
            return float(stats.binom(8, expit(center + spread * z)).pmf(count) * stats.norm.pdf(z))

        exact = np.log(integrate.quad(integrand, -9, 9, limit=200)[0])
        assert float(density["n_correct"][1, 3, row]) == pytest.approx(exact, rel=1e-3, abs=0.01)


def test_replicated_counts_are_of_the_observed_kind(tree):
    counts = tree["posterior_predictive"]["n_correct"]
    trials = tree["constant_data"]["n_trials"].to_numpy()
    assert ((counts >= 0) & (counts <= trials)).all()
    # The mean of 150 scores, replicated at least 300 times, is near the observed one.
    observed = tree["observed_data"]["n_correct"].mean()
    assert float(counts.mean()) == pytest.approx(float(observed), abs=0.25 * trials[0])
    assert tree["prior_predictive"]["n_correct"].dims == ("chain", "draw", "response")


class TestAfterLoading:
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_group_is_the_same(self, fits, loaded, kind):
        assert set(loaded[kind].data.groups) == set(fits[kind].data.groups)
        for group in fits[kind].data.groups[1:]:
            xr.testing.assert_identical(
                loaded[kind].data[group].to_dataset(), fits[kind].data[group].to_dataset()
            )

    @pytest.mark.parametrize("kind", KINDS)
    def test_everything_that_reads_a_fit_says_the_same(self, fits, loaded, kind):
        before, after = fits[kind], loaded[kind]
        pd.testing.assert_frame_equal(before.estimands(), after.estimands())
        pd.testing.assert_frame_equal(before.draws(), after.draws())
        ranked = [bayescontam.rank_models(fit).table for fit in (before, after)]
        pd.testing.assert_frame_equal(*ranked)
        compared = [bayescontam.compare([fit, fits["small"]]) for fit in (before, after)
                    if kind != "repeated"]  # fmt: skip
        if compared:
            pd.testing.assert_frame_equal(*compared)

    @pytest.mark.parametrize("kind", KINDS)
    def test_updates_are_the_same(self, fits, loaded, kind):
        whole = table(8 if kind == "repeated" else 1)
        new = whole[whole["model"] == "model 5"]
        first, second = (
            bayescontam.update(fit, new, seed=3, draws=300, refit="never")
            for fit in (fits[kind], loaded[kind])
        )
        pd.testing.assert_frame_equal(first.estimands(), second.estimands())
        # Close to the joint posterior: the new model's score is what it is.
        table_ = first.estimands().set_index("quantity")
        raw = new["n_correct"].sum() / new["n_trials"].sum()
        assert table_.loc["accuracy", "mean"] == pytest.approx(raw, abs=0.12)

    @pytest.mark.usefixtures("undrawn")  # pictures are of the groups, which are the same above
    def test_reports_are_the_same(self, fits, loaded):
        assert render(fits["repeated"]) == render(loaded["repeated"])

    def test_no_effects_of_responses_are_stored(self, loaded):
        fit = loaded["repeated"]
        names = {name for node in fit.data.subtree for name in node.data_vars}
        assert "eta" not in names
        assert fit.data["item_effects"]["delta"].sizes == {"chain": 2, "draw": 150, "item": ITEMS}
        assert fit.record["stored"] == {
            "sampled": 500, "parameters": 400, "items": 300, "responses": 200,
        }  # fmt: skip


def test_a_model_is_built_as_it_was_fitted(loaded):
    for fit in loaded.values():
        assert fit.model is fit.model
        known = {str(name) for name in fit.data["posterior"].data_vars}
        assert known <= set(fit.model.named_vars)


def test_drawing_tidy_tables(loaded):
    fit = loaded["small"]
    tidy = fit.draws("genuine_ability_direct", "overfitting_direct")
    assert list(tidy) == [
        "chain", "draw", "model", "benchmark", "genuine_ability_direct", "overfitting_direct",
    ]  # fmt: skip
    assert len(tidy) == 2 * 250 * 5
    means = tidy.groupby("model")["genuine_ability_direct"].mean()
    rows = fit.estimands().query("quantity == 'genuine_ability_direct'").set_index("model")["mean"]
    np.testing.assert_allclose(means[rows.index], rows)
    with pytest.raises(UsageError, match="draws: the fit has no 'ability'; it has 'accuracy'"):
        fit.draws("ability")


def test_fits_in_a_sequence_have_names(loaded, tmp_path):
    pair = loaded["small"], loaded["marginalised"]
    assert set(bayescontam.compare(pair)["fit"]) == {"hierarchical (1)", "hierarchical (2)"}
    for name, fit in zip(("one", "two"), pair, strict=True):
        fit.to_netcdf(tmp_path / f"{name}.nc")
    files = [tmp_path / "one.nc", tmp_path / "two.nc"]
    assert set(bayescontam.compare(files)["fit"]) == {"one", "two"}


def test_everything_is_stored_if_requested(tmp_path: Path):
    with drawn_from_prior():
        fit = bayescontam.fit(old(8), "hierarchical", store_all=True, **SAMPLER | {"draws": 50})
    effects = fit.data["item_effects"].to_dataset()
    assert effects["eta"].sizes == {"chain": 2, "draw": 50, "repeated": 150}
    fit.to_netcdf(tmp_path / "all.nc")
    again = Fit.from_netcdf(tmp_path / "all.nc")
    for group in fit.data.groups[1:]:
        xr.testing.assert_identical(again.data[group].to_dataset(), fit.data[group].to_dataset())


def test_a_fit_without_densities_says_so(loaded):
    fit = Fit(loaded["small"].data.copy())
    del fit.data["log_likelihood"]
    with pytest.raises(FitError, match="the fit is of 150 responses, and of more than 50,000 no"):
        fit.aligned()
