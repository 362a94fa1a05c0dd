"""Curves over the prior location of kappa, against closed forms where all is Normal."""

import numpy as np
import pytest
import xarray as xr
from scipy import integrate, optimize, stats

from bayescontam.data.responses import Responses
from bayescontam.inference.psis import max_pareto_k, psis_weights
from bayescontam.inference.sensitivity import (
    confounding_curves,
    confounding_table,
    log_ratios,
    prior_locations,
    shifted_curves,
    sign_by_assumption,
)
from bayescontam.model.build import build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import HalfNormal, Logistic, Normal, StudentT
from tests.support.simulated_responses import simulate

PRIOR = Normal(family="normal", mu=0.5, sigma=1.2)
CHAINS, DRAWS = 4, 2048
# Of kappa and overfitting on two benchmarks; items of the third do not differ.
MEAN = np.array([0.2, 0.7, 0.09, 0.02])
SD = np.array([0.9, 0.8, 0.05, 0.04])
CORRELATION = np.array(
    [[1.0, 0.3, 0.7, 0.2], [0.3, 1.0, 0.25, 0.6], [0.7, 0.25, 1.0, 0.3], [0.2, 0.6, 0.3, 1.0]]
)
COVARIANCE = CORRELATION * np.outer(SD, SD)
CONCERNED = np.array([True, True, False])


def drawn(seed: int = 1) -> tuple[xr.DataArray, xr.Dataset]:
    """Draw kappa, dims (chain, draw, benchmark), and estimands of two models."""
    # Evenly spread points: their means are nearer to the truth than those of random draws.
    even = stats.qmc.MultivariateNormalQMC(MEAN, COVARIANCE, rng=seed).random(CHAINS * DRAWS)
    rng = np.random.default_rng(seed)
    values = rng.permutation(even).reshape(CHAINS, DRAWS, 4)
    noise = rng.normal(PRIOR.mu, PRIOR.sigma, (CHAINS, DRAWS, 1))
    coords = {"model": ["m", "never asked"], "benchmark": ["b", "c", "alike"]}
    kappa = np.concatenate([values[..., :2], noise], axis=2)
    cells = np.full((CHAINS, DRAWS, 2, 3), np.nan)
    cells[:, :, 0, :2], cells[:, :, 0, 2] = values[..., 2:], values[..., 2]
    dims = ("chain", "draw", "model", "benchmark")
    names = ("overfitting_direct", "slope", "genuine_ability_direct")
    estimands = {
        name: (dims, a * cells + c)
        for name, a, c in zip(names, (1, 10, -1), (0, 0, 0.6), strict=True)
    }
    return xr.DataArray(kappa, dims=("chain", "draw", "benchmark")), xr.Dataset(estimands, coords)


def moved(location: float, changed: str, benchmark: int) -> tuple[float, float]:
    """Return mean and sd of overfitting: the weights tilt, which leaves covariances alone."""
    which = [0, 1] if changed == "all" else [benchmark]
    tilt = (location - PRIOR.mu) / PRIOR.sigma**2
    mean = MEAN[2 + benchmark] + tilt * COVARIANCE[2 + benchmark, which].sum()
    return float(mean), float(SD[2 + benchmark])


@pytest.fixture(scope="module")
def curves() -> xr.Dataset:
    return shifted_curves(*drawn(), PRIOR, 0.9, CONCERNED)


@pytest.mark.parametrize("changed", ["all", "own"])
@pytest.mark.parametrize("benchmark", [0, 1])
def test_means_and_intervals_move_as_those_of_a_normal(
    curves: xr.Dataset, changed: str, benchmark: int
) -> None:
    found = curves.sel(changed=changed, model="m").isel(benchmark=benchmark)
    reported = found.where(found["overfitting_direct"].notnull(), drop=True)
    assert reported.sizes["location"] >= 10
    z = stats.norm.ppf(0.95)
    for at in reported["location"].to_numpy():
        here = reported.sel(location=at)
        mean, sd = moved(at, changed, benchmark)
        # Of a quantile known from as many independent draws.
        error = np.sqrt(0.05 * 0.95 / float(here["ess"])) / stats.norm.pdf(z) * sd
        assert float(here["overfitting_direct"]) == pytest.approx(mean, abs=error)
        assert float(here["overfitting_direct_low"]) == pytest.approx(
            mean - z * sd, abs=2.5 * error
        )
        assert float(here["overfitting_direct_high"]) == pytest.approx(
            mean + z * sd, abs=2.5 * error
        )
        assert float(here["p_positive"]) == pytest.approx(stats.norm.cdf(mean / sd), abs=0.02)
        assert float(here["slope"]) == pytest.approx(10 * float(here["overfitting_direct"]))
        assert float(here["genuine_ability_direct"]) == pytest.approx(
            0.6 - float(here["overfitting_direct"])
        )


@pytest.mark.parametrize("changed", ["all", "own"])
def test_the_sign_becomes_uncertain_where_bisection_says(curves: xr.Dataset, changed: str) -> None:
    exact = optimize.brentq(
        lambda at: stats.norm.cdf(np.divide(*moved(at, changed, 0))) - 0.95, -6, 6
    )
    found = curves.sel(changed=changed, model="m", benchmark="b")
    assert float(found["sign_at"]) == pytest.approx(exact, abs=0.05)
    at = f"{float(found['sign_at']):.2f}".replace("-", "−")
    assert str(found["sign"].item()).endswith(f"uncertain below {at}, positive above")


def test_moving_all_priors_moves_more_than_one(curves: xr.Dataset) -> None:
    """Where benchmarks inform each other, one prior alone is held by the rest."""
    rise = (
        curves["overfitting_direct"].sel(model="m").isel(benchmark=[0, 1]).differentiate("location")
    )
    middle = rise.sel(location=slice(-0.2, 1.2)).mean("location")
    assert (middle.sel(changed="all") > 1.15 * middle.sel(changed="own")).all()


def test_the_own_location_is_the_fit_itself(curves: xr.Dataset) -> None:
    _, estimands = drawn()
    own = curves.sel(location=PRIOR.mu, drop=True)
    for name in ("overfitting_direct", "slope", "genuine_ability_direct"):
        plain = estimands[name].mean(("chain", "draw"))
        xr.testing.assert_allclose(own[name].sel(changed="all", drop=True), plain)
        tails = estimands[name].sel(model="m").quantile([0.05, 0.95], ("chain", "draw"))
        for end, tail in zip(("low", "high"), tails, strict=True):
            reported = own[f"{name}_{end}"].sel(changed="own", model="m")
            np.testing.assert_allclose(
                reported, tail, rtol=0, atol=0.005 * (1 + 9 * (name == "slope"))
            )
    assert (own["pareto_k"] == 0).all()
    assert (own["ess"].sel(model="m") > 0.8 * CHAINS * DRAWS).all()


def test_where_items_are_alike_kappa_is_noise_and_moves_nothing(curves: xr.Dataset) -> None:
    alike = curves.sel(model="m", benchmark="alike", changed="own")
    assert np.ptp(alike["overfitting_direct"].to_numpy()) < 1e-12
    assert (alike["pareto_k"] == 0).all()
    one = shifted_curves(*drawn(), PRIOR, 0.9, np.array([True, False, False]))
    assert one["changed"].to_numpy().tolist() == ["all"]
    own = curves.sel(changed="own", benchmark="b", drop=True)
    same = one.sel(changed="all", benchmark="b", drop=True)
    xr.testing.assert_allclose(
        own[["overfitting_direct", "pareto_k"]], same[["overfitting_direct", "pareto_k"]]
    )


def test_locations_that_are_too_far_are_reported_as_unknown() -> None:
    """Ten posterior standard deviations away there are no draws to weigh."""
    locations = np.array([-9.0, -1.0, 0.5, 1.0, 9.0])
    far = shifted_curves(*drawn(), PRIOR, 0.9, CONCERNED, locations)
    ends = far.sel(location=[-9.0, 9.0]).isel(benchmark=[0, 1])
    assert (ends["pareto_k"] > 0.7).all()
    for name in ("overfitting_direct", "overfitting_direct_low", "slope_high", "p_positive"):
        assert ends[name].isnull().all()
        assert far[name].sel(model="m", location=[0.5, 1.0]).notnull().all()
    near = far.sel(model="m").isel(benchmark=[0, 1])
    assert (near["reach_high"] == 1.0).all()
    assert (near["reach_low"] >= -1.0).all()
    assert far["reach_high"].sel(benchmark="alike", changed="own", model="m") == 9.0


def test_weights_of_few_draws_are_not_trusted() -> None:
    ratios = np.random.default_rng(3).normal(size=(1, 2, 4000)) * np.array([[[0.5], [4.0]]])
    log_weights, pareto_k = psis_weights(ratios)
    share = np.exp(log_weights)
    assert (pareto_k <= max_pareto_k(4000)).tolist() == [[True, False]]
    np.testing.assert_allclose(share.sum(axis=2), 1)
    exact = np.exp(ratios[0, 0]) / np.exp(ratios[0, 0]).sum()
    np.testing.assert_allclose(np.sort(share[0, 0])[:3000], np.sort(exact)[:3000], rtol=0.02)


def test_an_end_of_an_interval_is_worth_what_its_scatter_says() -> None:
    """Twenty sets of draws: the ends scatter as those of `ess` independent draws do."""
    ends, worth = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = rng.multivariate_normal(MEAN, COVARIANCE, (CHAINS, 500))
        kappa = xr.DataArray(values[..., :1], dims=("chain", "draw", "benchmark"))
        cell = xr.DataArray(
            values[..., 2][..., None, None], dims=(*kappa.dims[:2], "model", "benchmark")
        )
        names = ("overfitting_direct", "slope", "genuine_ability_direct")
        estimands = xr.Dataset(dict.fromkeys(names, cell), {"model": ["m"], "benchmark": ["b"]})
        at = np.array([PRIOR.mu, PRIOR.mu + 0.9])
        found = shifted_curves(kappa, estimands, PRIOR, 0.9, np.array([True]), at).isel(location=1)
        ends.append(float(found["overfitting_direct_high"].squeeze()))
        worth.append(float(found["ess"].squeeze()))
    scatter = np.std(ends, ddof=1) / SD[2] * stats.norm.pdf(stats.norm.ppf(0.95))
    assert np.median(worth) / 2.5 < 0.05 * 0.95 / scatter**2 < np.median(worth) * 2.5
    assert np.median(worth) < 0.7 * CHAINS * 500


@pytest.mark.parametrize(
    "prior",
    [StudentT(family="student_t", nu=4, mu=-0.3, sigma=0.8), Logistic(family="logistic", s=0.7)],
)
def test_other_priors_with_a_location_agree_with_quadrature(prior: StudentT | Logistic) -> None:
    """Kappa's posterior and the mean of overfitting given kappa are those of the Normal."""
    kappa, estimands = drawn()
    curves = shifted_curves(kappa, estimands, prior, 0.9, np.array([True, False, False]))
    found = curves.sel(changed="all", model="m", benchmark="b")
    slope = COVARIANCE[0, 2] / COVARIANCE[0, 0]
    given = prior.parameters()
    scale = given.get("sigma", given.get("s"))
    density = stats.t(given["nu"]).pdf if "nu" in given else stats.logistic.pdf
    for at in (prior.mu - scale, prior.mu + scale):

        def weight(x: float, at: float = at) -> float:
            own = density((x - prior.mu) / scale)
            return stats.norm.pdf(x, MEAN[0], SD[0]) * density((x - at) / scale) / own

        total = integrate.quad(weight, -6, 6)[0]
        mean = integrate.quad(lambda x: weight(x) * x, -6, 6)[0] / total
        exact = MEAN[2] + slope * (mean - MEAN[0])
        here = found.interp(location=at)
        assert float(here["overfitting_direct"]) == pytest.approx(
            exact, abs=4 * SD[2] / np.sqrt(float(here["ess"]))
        )
        assert abs(exact - MEAN[2]) > 8 * SD[2] / np.sqrt(float(here["ess"]))  # it did move


def test_a_prior_without_a_location_has_no_curves_and_says_why() -> None:
    curves = shifted_curves(*drawn(), HalfNormal(family="half_normal", sigma=1), 0.9, CONCERNED)
    assert "HalfNormal(1), has no location to move" in str(curves["reason"].item())
    assert confounding_table(curves).empty
    assert confounding_table(None).columns.tolist() == confounding_table(curves).columns.tolist()


def test_items_that_are_alike_have_no_curves() -> None:
    text = "summary = 'x'\n[contamination]\nconfounding = 'sensitivity'"
    table = simulate(4, models=2, benchmarks=1, items=20).responses.assign(contamination=0.5)
    built = build(ModelSpec.parse(text, "mine"), Responses.from_frame(table))
    assert "kappa" not in built.model
    curves = confounding_curves(xr.Dataset(), xr.Dataset(), built, 0.9)
    assert str(curves["reason"].item()).startswith("All items of each benchmark have the same")
    assert confounding_table(curves).empty


def test_the_locations_hold_the_priors_own_and_zero() -> None:
    locations = prior_locations(PRIOR)
    assert locations[12] == 0.5 or locations[13] == 0.5
    assert 0.0 in locations
    np.testing.assert_allclose(locations[[0, -1]], [0.5 - 3.6, 0.5 + 3.6])
    assert np.all(np.diff(locations) > 0)
    centred = prior_locations(Normal(family="normal", sigma=2))
    assert len(centred) == 25
    assert centred[12] == 0
    far = prior_locations(Normal(family="normal", mu=9, sigma=1))
    assert far.min() == 6
    wide = prior_locations(Logistic(family="logistic", s=1))  # 0.841 = logistic(1.668)
    assert wide[19] == pytest.approx(np.log(stats.norm.cdf(1) / stats.norm.cdf(-1)))


def test_ratios_are_those_of_the_densities() -> None:
    draws = np.random.default_rng(1).normal(size=(6, 2))
    found = log_ratios(draws, PRIOR, np.array([-1.0, 0.5]))
    expected = stats.norm(-1, 1.2).logpdf(draws) - stats.norm(0.5, 1.2).logpdf(draws)
    np.testing.assert_allclose(found[0], expected.T, atol=1e-12)
    assert (found[1] == 0).all()


@pytest.mark.parametrize(
    ("chance", "own", "at", "text"),
    [
        ([0.99, 0.99, 1.0], 0, np.nan, "positive throughout"),
        ([0.5, 0.6, 0.9], 0, np.nan, "uncertain throughout"),
        ([0.0, 0.0, 0.01], 0, np.nan, "negative throughout"),
        ([0.0, 0.1, 0.4], 1, -0.5, "negative below −0.50, uncertain above"),
        ([0.0, 0.5, 1.0], 1, 0.9, "negative below −0.90, uncertain to 0.90, positive above 0.90"),
        ([0.0, 0.5, 1.0], -1, -0.9, "negative below −0.90, uncertain to 0.90, positive above 0.90"),
        ([1.0, 0.9, 0.8], 1, -0.5, "positive below −0.50, uncertain above"),
    ],
)
def test_signs_in_words(chance: list[float], own: float, at: float, text: str) -> None:
    found = sign_by_assumption(np.array([-1.0, 0.0, 1.0]), np.array(chance), own, 0.9)
    assert found == (pytest.approx(at, nan_ok=True), text)


def test_overfitting_that_is_zero_has_no_sign() -> None:
    kappa, estimands = drawn()
    estimands["overfitting_direct"] = estimands["overfitting_direct"] * 0.0
    curves = shifted_curves(kappa, estimands, PRIOR, 0.9, CONCERNED)
    signs = curves["sign"].sel(model="m").to_numpy()
    assert set(signs.ravel()) == {"zero by definition"}
    assert curves["sign_at"].isnull().all()
    assert set(curves["sign"].sel(model="never asked").to_numpy().ravel()) == {""}


def test_the_table_has_a_row_for_each_point_of_each_curve(curves: xr.Dataset) -> None:
    table = confounding_table(curves)
    assert len(table) == 2 * 3 * curves.sizes["location"]
    assert "never asked" not in set(table["model"])
    row = table.query("changed == 'own' and benchmark == 'c'").set_index("location").loc[0.0]
    cell = curves.sel(changed="own", benchmark="c", model="m", location=0.0)
    for name in ("overfitting_direct_low", "slope", "p_positive", "ess", "reach_high", "sign_at"):
        assert row[name] == pytest.approx(float(cell[name]), nan_ok=True)
