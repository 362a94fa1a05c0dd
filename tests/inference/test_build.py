"""The PyMC model is the one that the mathematics say, whatever its coordinates."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, logsumexp

from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, SpecError
from bayescontam.inference.posterior import log_odds, stack_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.effects import zero_sum_basis
from bayescontam.model.priors import SMALLEST
from bayescontam.model.transforms import DataInformedTransform
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN, compile_gradient, coordinates, prior_point
from tests.support.simulated_responses import simulate

FULL = {"models": 3, "benchmarks": 3, "items": 5, "trials": 3}


def built(text: str | None = None, name: str = "hierarchical", **shape) -> BuiltModel:
    spec = load_model(name) if text is None else ModelSpec.parse(text, "mine.toml")
    return build(spec, Responses.from_frame(simulate(3, **shape).responses))


UNPOOLED = """
summary = "abilities of pairs, unrelated"
[ability]
pooling = "none"
"""


@pytest.mark.parametrize(
    ("model_by_item", "shape"), [("true", (3, 3)), ('"shared"', ())], ids=["own", "shared"]
)
def test_unpooled_abilities_may_share_a_spread_of_effects(model_by_item: str, shape) -> None:
    text = f"{UNPOOLED}[likelihood]\nmodel_by_item = {model_by_item}\n"
    model = built(text, **FULL).model
    assert model["sigma_eps"].shape.eval(mode="FAST_COMPILE").tolist() == list(shape)
    densities = model.compile_logp(sum=False, mode=PLAIN)(model.initial_point())
    assert all(np.isfinite(each).all() for each in densities)


class TestInformed:
    """The change of coordinates: an exact inverse with an exact Jacobian."""

    rng = np.random.default_rng(0)
    estimate, se = rng.normal(size=5), np.array([0.01, 0.1, 1.0, 10.0, np.inf])
    mu, sigma, value = 0.3, 0.7, rng.normal(size=5)

    def evaluate(self, what: str, value) -> np.ndarray:
        transform = DataInformedTransform(self.estimate, self.se)
        result = getattr(transform, what)(pt.as_tensor(value), None, None, self.mu, self.sigma)
        return np.asarray(result.eval(mode="FAST_COMPILE"))

    def test_forward_inverts_backward(self):
        coordinate = self.evaluate("forward", self.value)
        np.testing.assert_allclose(self.evaluate("backward", coordinate), self.value)

    def test_jacobian_is_the_derivative(self):
        step = 1e-6
        slope = (
            self.evaluate("backward", self.value + step) - self.evaluate("backward", self.value)
        ) / step
        np.testing.assert_allclose(
            np.exp(self.evaluate("log_jac_det", self.value)), slope, rtol=1e-5
        )

    def test_limits_are_centred_and_non_centred(self):
        backward = self.evaluate("backward", self.value)
        np.testing.assert_allclose(backward[0], self.estimate[0] + 0.01 * self.value[0], atol=1e-3)
        np.testing.assert_allclose(backward[4], self.mu + self.sigma * self.value[4])


@pytest.mark.parametrize("name", ["hierarchical", "monotone"])
@pytest.mark.parametrize("seed", [1, 2])
def test_log_density_is_that_of_the_mathematics(name, seed):
    """The sampler's density, less the Jacobian, against the model written out in SciPy."""
    b = built(name=name, **FULL)
    point = prior_point(b.model, seed)
    expected = 0.0
    mu, basis = point["mu"], zero_sum_basis(3)
    a = basis @ (point["a_coordinates"] - point["sigma_theta"] - SMALLEST)
    sigma = {each: value + SMALLEST for each, value in point.items() if "sigma" in each}
    expected += stats.expon(0, 2).logpdf(point["sigma_eps"])
    stretch = np.sqrt(1 + 0.346 * sigma["sigma_eps"] ** 2)
    for each in ("sigma_a", "sigma_theta", "sigma_delta"):
        expected += stats.halfnorm(0, stretch).logpdf(point[each]).sum()
    for each in ("sigma_bm", "sigma_bb", "sigma_bmb"):
        expected += stats.halfnorm(0, 0.5 * stretch).logpdf(point[each])
    expected += stats.norm(0, 1.5 * stretch).logpdf(mu).sum()
    shifted = stats.norm(sigma["sigma_theta"], sigma["sigma_a"])
    expected += shifted.logpdf(point["a_coordinates"]).sum()
    theta = point["theta"]
    expected += stats.norm(mu + a[:, None], sigma["sigma_theta"]).logpdf(theta).sum()
    d, dose, slopes = b.design, b.design.contamination, point
    if name == "monotone":
        dose, slopes, extra = bent(d, point)
        expected += extra
    beta = slopes["beta"]
    expected += stats.norm(0, 2 * stretch).logpdf(slopes["beta_bar"])
    of_benchmark, of_model = slopes["beta_benchmark"], slopes["beta_model"]
    expected += stats.norm(slopes["beta_bar"], sigma["sigma_bb"]).logpdf(of_benchmark).sum()
    expected += stats.norm(0, sigma["sigma_bm"]).logpdf(of_model).sum()
    slope = of_benchmark + of_model[:, None]
    expected += stats.norm(slope, sigma["sigma_bmb"]).logpdf(beta).sum()
    scale = sigma["sigma_delta"][d.benchmark_of_item]
    expected += stats.norm(0, scale).logpdf(point["delta"]).sum()
    predictor = theta[d.model, d.benchmark] - point["delta"][d.item]
    predictor += beta[d.model, d.benchmark] * centred(d, dose)
    z = np.linspace(-9, 9, 4001)[:, None]
    counts = stats.binom(d.n_trials, expit(predictor + sigma["sigma_eps"] * z)).logpmf(d.n_correct)
    integrated = logsumexp(counts + stats.norm.logpdf(z), axis=0) + np.log(z[1, 0] - z[0, 0])
    expected += integrated.sum()

    ip, jacobian = coordinates(b.model, point)
    density = float(b.model.compile_logp(jacobian=True, mode=PLAIN)(ip))
    # The integral over a response's own effect is interpolated, to 0.0002 each.
    assert density - jacobian == pytest.approx(expected, abs=2e-4 * len(d))


def test_a_bend_needs_no_contaminations_that_differ():
    """Nothing is reported of it then, and slopes have their prior."""
    frame = simulate(3, **FULL).responses.assign(contamination=0.25)
    model = build(load_model("monotone"), Responses.from_frame(frame)).model
    start = model.initial_point()
    assert np.isfinite(model.compile_logp(mode=PLAIN)(start))
    assert np.isfinite(compile_gradient(model)(start)).all()


def centred(design, values):
    """Return values of responses less the mean of their benchmark's."""
    return (
        values
        - np.array([values[design.benchmark == k].mean() for k in range(3)])[design.benchmark]
    )


def bent(design, point):
    """Return doses of a dose-response, slopes of the rises sampled, and what these add.

    That is the density of the increments, and that of rises over that of slopes.
    """
    ends = np.concatenate([[0.0], np.cumsum(point["increments"])])
    dose = np.interp(design.contamination, [0.0, *design.knots, 1.0], ends)
    x, y = centred(design, design.contamination), centred(design, dose)
    unit = 0.05 + 0.95 * np.polyfit(x, y, 1)[0]
    rises = {each: value for each, value in point.items() if each.endswith("_rise")}
    parts = stats.dirichlet(np.full(point["increments"].size, 0.5))
    added = parts.logpdf(point["increments"]) - np.log(unit) * sum(map(np.size, rises.values()))
    return dose, {each.removesuffix("_rise"): rise / unit for each, rise in rises.items()}, added


def test_dims_and_coords_have_the_words_of_the_design():
    model = built(**FULL).model
    assert model.named_vars_to_dims["theta"] == ("model", "benchmark")
    assert model.named_vars_to_dims["beta"] == ("model", "benchmark")
    assert model.named_vars_to_dims["delta"] == ("item",)
    assert model.named_vars_to_dims["n_correct"] == ("response",)
    assert list(model.coords["model"]) == ["model-0", "model-1", "model-2"]


def test_zero_sum_basis_is_orthonormal_and_sums_to_zero():
    basis = zero_sum_basis(6)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)


def test_general_ability_has_the_distribution_of_zero_sum_normal():
    covariance = zero_sum_basis(4) @ zero_sum_basis(4).T
    np.testing.assert_allclose(covariance, np.eye(4) - 1 / 4, atol=1e-12)


def test_predictive_draws_follow_the_likelihood():
    """The random method against the binomial: mean and spread given the log-odds."""
    b = built("summary = 'x'\n[likelihood]\nguess = 0.25", models=1, items=3, trials=8)
    drawn = pm.draw(b.model["n_correct"], 4000, random_seed=1, mode="FAST_COMPILE")
    assert drawn.min() >= 0
    assert drawn.max() <= 8
    # Averaged over the prior, symmetric around one half, of accuracy 0.25 + 0.75 p.
    assert drawn.mean() / 8 == pytest.approx(0.25 + 0.75 / 2, abs=0.02)


def test_guessing_floor_enters_the_density():
    text = "summary = 'x'\n[likelihood]\nguess = { bench-0 = 0.25 }\nmodel_by_item = false"
    b = built(text, models=1, benchmarks=2, items=3, trials=4)
    point = prior_point(b.model, 5)
    d = b.design
    eta = point["theta"][d.model, d.benchmark] + point["beta_bar"] * d.dose
    guess = np.where(d.benchmark == 0, 0.25, 0.0)
    expected = stats.binom(d.n_trials, guess + (1 - guess) * expit(eta)).logpmf(d.n_correct).sum()
    values, _ = coordinates(b.model, point)
    density = b.model.compile_logp(vars=b.model.observed_RVs, jacobian=False, mode=PLAIN)
    observed = density(values)
    assert float(observed) == pytest.approx(expected, rel=1e-9)


def test_unknown_benchmark_of_a_guess_is_refused():
    with pytest.raises(SpecError, match=r"likelihood.guess: no such benchmark: 'mmlu'"):
        built("summary = 'x'\n[likelihood]\nguess = { mmlu = 0.25 }", items=3)


def test_contamination_must_be_there():
    frame = simulate(3, items=4).responses.drop(columns="contamination")
    with pytest.raises(DataError, match="needs a column 'contamination'"):
        build(load_model("hierarchical"), Responses.from_frame(frame))


def test_concept_must_be_one_for_each_item():
    frame = simulate(3, models=2, items=4).responses.assign(concept="x")
    frame.loc[0, "concept"] = "y"
    with pytest.raises(DataError, match=r"concept: items with more than one value: 'item-0-0'"):
        build(load_model("concepts"), Responses.from_frame(frame))


def test_concepts_are_not_distinguished_by_blanks():
    frame = simulate(3, models=2, items=4).responses.assign(concept="x")
    frame["concept"] = frame["concept"].where(frame["item"] != "item-0-0", "x ")
    with pytest.raises(
        DataError, match=r"concept: values that differ only by blanks at their ends: 'x ', 'x'"
    ):
        build(load_model("concepts"), Responses.from_frame(frame))


def test_draws_give_the_log_odds_of_the_model():
    """Also where one of two benchmarks has no items that two models share."""
    frame = simulate(3, models=3, benchmarks=2, items=6).responses.copy()
    own = frame["benchmark"] == "bench-1"
    frame.loc[own, "item"] += frame.loc[own, "model"]
    b = build(load_model("hierarchical"), Responses.from_frame(frame))
    names = ["theta", "beta", "delta", "psi"]
    inputs = b.model["n_correct"].owner.inputs
    rows = next(x for x in inputs if x.dtype == "float64" and x.ndim == 1)
    drawn = pm.draw([*(b.model[n] for n in names), rows], random_seed=2, mode="FAST_COMPILE")
    data = {
        n: (("chain", "draw", f"{n}_x"), v.reshape(1, 1, -1))
        for n, v in zip(names, drawn, strict=False)
    }
    draws = stack_draws(xr.Dataset(data), b.design)
    np.testing.assert_allclose(log_odds(draws, b.design)[0], drawn[-1])
    of_own = b.design.benchmark_of_item == 1
    assert (drawn[2][of_own] == 0).all()
    assert (drawn[2][~of_own] != 0).all()
