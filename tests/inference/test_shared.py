"""Contamination whose uncertainty items share: the model against independent computations."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, logit

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError
from bayescontam.inference.posterior import accuracy, stack_draws
from bayescontam.model.auto import compose_spec
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.predictor import linear_predictor
from bayescontam.model.quadrature import logit_location
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.model_points import log_density, prior_point

ITEMS = 90
LOADING = np.choose(np.arange(ITEMS) % 3, [0.9, -0.5, 0.0])
EXPECTED = np.linspace(0.1, 0.9, ITEMS)
UNIFORM = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)


def spec_of(name: str = "single") -> ModelSpec:
    """Return a shipped model spec, with contamination that imputations show."""
    spec = load_model(name)
    block = spec.contamination.model_copy(update={"exposure": "shared"})
    return spec.model_copy(update={"contamination": block})


def table_of(seed: int = 1, models: int = 1, slope: float = 2.5, factor: float = 1.5) -> Responses:
    """Simulate responses to items whose contamination a factor has moved."""
    rng = np.random.default_rng(seed)
    p = expit(-0.5 + slope * (doses(np.array([factor]))[0] - EXPECTED.mean()))
    frames = [
        pd.DataFrame(
            {
                "model": f"m{m}", "benchmark": "b", "item": [f"i{k}" for k in range(ITEMS)],
                "correct": (rng.random(ITEMS) < p).astype(int), "contamination": EXPECTED,
                "shared_1": LOADING,
            }
        )
        for m in range(models)
    ]  # fmt: skip
    return Responses.from_frame(pd.concat(frames, ignore_index=True))


def doses(factor: np.ndarray) -> np.ndarray:
    """Return contaminations, (draw,) to (draw, item), with locations by bisection over a sample."""
    low, high = np.full(ITEMS, -12.0), np.full(ITEMS, 12.0)
    for _ in range(45):
        middle = (low + high) / 2
        below = expit(middle[:, None] + LOADING[:, None] * UNIFORM).mean(axis=1) < EXPECTED
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return expit((low + high) / 2 + LOADING * factor[:, None])


@pytest.fixture(scope="module")
def built() -> BuiltModel:
    return build(spec_of(), table_of())


def test_location_is_where_the_mean_is_the_expected_contamination() -> None:
    mean, spread = np.array([0.02, 0.5, 0.9]), np.array([0.3, 1.0, 2.0])
    location = logit_location(mean, spread)
    drawn = expit(location[:, None] + spread[:, None] * UNIFORM).mean(axis=1)
    assert drawn == pytest.approx(mean, abs=2e-4)
    assert logit_location(mean, np.zeros(3)) == pytest.approx(logit(mean), abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_density_of_responses_is_that_of_the_written_model(
    built: BuiltModel, seed: int
) -> None:
    point = prior_point(built.model, seed)
    theta, beta, factor = (float(point[name].ravel()[0]) for name in ("theta", "beta", "shared"))
    p = expit(theta + beta * (doses(np.array([factor]))[0] - EXPECTED.mean()))
    expected = stats.bernoulli(p).logpmf(built.design.n_correct).sum()
    assert log_density(built.model, ["n_correct"], point) == pytest.approx(expected, abs=2e-3)
    own = log_density(built.model, ["shared"], point)
    assert own == pytest.approx(stats.norm.logpdf(factor))


def test_numpy_and_pytensor_have_the_same_accuracies(built: BuiltModel) -> None:
    """At the true contamination, and at another, which does not hang on the factor."""
    rng = np.random.default_rng(3)
    size = 5
    values = {"theta": rng.normal(size=size), "beta": rng.normal(size=size)}
    factor = rng.normal(size=size)
    posterior = posterior_of(values, factor)
    draws = stack_draws(posterior, built.design)
    theta, beta = (values[name][:, None] for name in ("theta", "beta"))
    true = doses(factor)
    expected = expit(theta + beta * (true - EXPECTED.mean()))
    assert accuracy(draws, built) == pytest.approx(expected, abs=2e-4)
    at = np.full(ITEMS, 0.3)
    expected = np.broadcast_to(expit(theta + beta * (0.3 - EXPECTED.mean())), (size, ITEMS))
    assert accuracy(draws, built, at) == pytest.approx(expected, abs=1e-9)


def posterior_of(values: dict[str, np.ndarray], factor: np.ndarray) -> xr.Dataset:
    """Return draws as a posterior of one chain."""
    dims = ("chain", "draw", "model", "benchmark")
    data = {name: (dims, v[None, :, None, None]) for name, v in values.items()}
    data["shared"] = (("chain", "draw", "factor"), factor[None, :, None])
    return xr.Dataset(data)


def test_posterior_and_estimands_are_those_of_a_grid() -> None:
    """Of one model, slope, ability and what is learnt of the factor, integrated by hand."""
    responses = table_of(seed=4)
    fit = bayescontam.fit(responses, spec_of(), seed=2, draws=1500, chains=2, progress=False)
    theta, beta, factor = np.linspace(-3, 3, 61), np.linspace(-6, 8, 81), np.linspace(-4, 4, 41)
    priors = load_model("single").priors
    correct = responses.frame["n_correct"].to_numpy()
    log = np.empty((len(factor), len(beta), len(theta)))
    found = np.empty((*log.shape, 2))  # accuracy, and genuine ability at the least contamination
    for f, moved in enumerate(doses(factor)):
        shift = beta[:, None, None] * (moved - EXPECTED.mean())
        eta = theta[None, :, None] + shift
        log[f] = np.where(correct == 1, -np.logaddexp(0, -eta), -np.logaddexp(0, eta)).sum(axis=-1)
        found[f, ..., 0] = expit(eta).mean(axis=-1)
        at = theta + beta[:, None] * (EXPECTED.min() - EXPECTED.mean())
        found[f, ..., 1] = expit(at)
    log += stats.norm.logpdf(factor)[:, None, None]
    log += stats.norm(priors.beta_bar.mu, priors.beta_bar.sigma).logpdf(beta)[:, None]
    log += stats.logistic(0, 1).logpdf(theta)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    expected = {
        "slope": (weight.sum(axis=(0, 2)) @ beta),
        "accuracy": (weight * found[..., 0]).sum(),
        "genuine_ability_direct": (weight * found[..., 1]).sum(),
    }
    table = fit.estimands().set_index("quantity")
    for name, value in expected.items():  # false alarms below 1e-5: 4.5 standard errors
        row = table.loc[name]
        assert abs(row["mean"] - value) < 4.5 * row["mcse_mean"] + 0.003, name
    learnt = fit.exposures().set_index("item")
    own = weight.sum(axis=(1, 2)) @ doses(factor)
    assert learnt.loc["i0", "posterior_mean"] == pytest.approx(own[0], abs=0.02)
    assert set(learnt.index) == {f"i{k}" for k in range(ITEMS) if LOADING[k]}
    assert fit.record["entered"].count("shared") == 1


def test_what_a_clean_model_answers_does_not_hang_on_the_factor() -> None:
    frame = table_of(models=2).frame.assign(clean=lambda t: (t["model"] == "m1").astype(int))
    content = load_model("anchored").model_dump()
    content["contamination"]["exposure"] = "shared"
    made = build(ModelSpec.model_validate(content), Responses.from_frame(frame))
    point = prior_point(made.model, 1)
    rows = made.design.model == 1
    eta = [
        np.asarray(linear_predictor(effects_at(point, factor), made.design))
        for factor in (-1.0, 1.0)
    ]
    assert (eta[0][rows] == eta[1][rows]).all()
    assert (eta[0][~rows] != eta[1][~rows]).sum() == (LOADING != 0).sum()


def effects_at(point: dict[str, np.ndarray], factor: float) -> dict[str, np.ndarray]:
    """Return the effects of a point, with another factor."""
    known = {name: point[name].ravel() for name in ("theta", "beta", "delta", "kappa")}
    return known | {"shared": np.array([factor])}


def test_auto_chooses_it_where_there_are_such_columns() -> None:
    spec, notes = compose_spec(table_of(models=2))
    assert spec.contamination.exposure == "shared"
    assert "contamination that imputations show" in notes[0]


def test_without_uncertain_items_the_term_is_left_out() -> None:
    frame = table_of(models=2).frame.assign(shared_1=0.0)
    made = build(spec_of("hierarchical"), Responses.from_frame(frame))
    assert "shared" not in made.terms
    assert "contamination is known of every item" in dict(made.terms.left_out)["shared"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.drop(columns="shared_1"), r"needs a column 'shared_1'[\s\S]*--imputations"),
        (lambda t: t.drop(columns="contamination"), "needs a column 'contamination'"),
        (
            lambda t: t.assign(shared_1="much"),
            "shared_1: every row needs a number, and these have none: 'i0 of b'",
        ),
        (
            lambda t: t.assign(contamination=np.where(t["model"] == "m0", 0.4, 0.5)),
            "imputations are of items, and these differ between models: 'i0 of b'",
        ),
        (
            lambda t: t.assign(contamination=np.where(t["item"] == "i0", 0.0, t["contamination"])),
            "a contamination of 0 or 1 is certain, and cannot move.*: 'i0 of b'",
        ),
    ],
)
def test_bad_columns_are_refused(change, problem) -> None:
    frame = change(table_of(models=2).frame)
    with pytest.raises(DataError, match=problem):
        build(spec_of("hierarchical"), Responses.from_frame(frame))
