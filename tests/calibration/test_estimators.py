"""Engines draw from the right posterior, whatever table they were compiled with."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import expit

from bayescontam.calibration.estimators import (
    NutpieSampler,
    PyMCSampler,
    RebuiltSampler,
    SampledDraws,
    Sampler,
    engine_of,
    lengthen,
)
from bayescontam.calibration.simulators import simulator_of
from bayescontam.data.responses import Responses
from bayescontam.inference.convergence import convergence
from bayescontam.inference.reusable import ReusableModel
from bayescontam.model.build import build_design
from bayescontam.model.design import make_design
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import SamplingSpec
from tests.support.model_points import compile_gradient
from tests.support.small_studies import planned

SINGLE = load_model("single")
SAMPLING = SamplingSpec(draws=1500, tune=400)


def exact(responses: Responses) -> dict[str, tuple[float, float]]:
    """Return posterior means and deviations of `single` by summing over a fine grid.

    theta ~ Logistic(0, 1), beta ~ Normal(0, 2), log-odds theta + beta (d - mean d).
    """
    frame = responses.frame
    d, k = frame["contamination"].to_numpy(), frame["n_correct"].to_numpy()
    theta, beta = np.meshgrid(np.linspace(-8, 8, 401), np.linspace(-14, 14, 401), indexing="ij")
    log_density = np.log(expit(theta) * expit(-theta)) - beta**2 / 8
    for x, right in zip(d - d.mean(), k, strict=True):
        eta = theta + beta * x
        log_density += np.log(expit(eta if right else -eta))
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    result = {}
    for name, values in (("theta", theta), ("beta", beta)):
        mean = (weight * values).sum()
        result[name] = mean, np.sqrt((weight * (values - mean) ** 2).sum())
    return result


def check(drawn: SampledDraws, responses: Responses) -> None:
    for name, (mean, sd) in exact(responses).items():
        chains = drawn.posterior.sizes["chain"]
        draws = drawn.posterior[name].to_numpy().reshape(chains, -1, 1)
        ess = convergence(draws)["ess_bulk"][0]
        assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(ess)
        assert draws.std() == pytest.approx(sd, rel=4 / np.sqrt(ess))


@pytest.fixture(scope="module", params=["nutpie", "pymc", "jax"])
def engine(request: pytest.FixtureRequest, tables: list[Responses]) -> Sampler:
    """Compile an engine with the first table."""
    if request.param == "jax":
        pytest.importorskip("jax")
        pytest.importorskip("blackjax")
    made = engine_of(SINGLE, request.param, tables[0], moving=True)
    assert made.name == request.param
    assert not isinstance(made, RebuiltSampler)
    return made


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_model_compiled_once_draws_from_each_tables_posterior(
    engine: Sampler, tables: list[Responses], number: int
) -> None:
    drawn = engine.draw(tables[number], 1, SAMPLING)
    check(drawn, tables[number])
    assert drawn.posterior.sizes["chain"] * drawn.posterior.sizes["draw"] == 3000
    assert drawn.diverged < 0.01
    wanted = make_design(SINGLE, tables[number])
    np.testing.assert_array_equal(drawn.built.design.contamination, wanted.contamination)
    np.testing.assert_array_equal(drawn.built.design.n_correct, wanted.n_correct)


def test_a_model_built_anew_draws_from_the_same(tables: list[Responses]) -> None:
    check(RebuiltSampler(SINGLE, "pymc").draw(tables[1], 1, SAMPLING), tables[1])


def test_draws_depend_on_the_seed_alone(engine: Sampler, tables: list[Responses]) -> None:
    short = SamplingSpec(draws=50, tune=50)
    one = engine.draw(tables[1], 7, short).posterior
    engine.draw(tables[2], 3, short)
    assert engine.draw(tables[1], 7, short).posterior.equals(one)
    assert not engine.draw(tables[1], 8, short).posterior.equals(one)


def test_pymc_compiles_a_model_once(
    tables: list[Responses], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even to sample for longer; the density that is held against it is compiled apart."""
    engine = PyMCSampler(ReusableModel(SINGLE, tables[0], moving=True))
    engine.draw(tables[1], 1, SamplingSpec(draws=50, tune=50))
    monkeypatch.setattr(ReusableModel, "check", lambda *_: None)

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(pytensor, "function", compiled)
    drawn = engine.draw(tables[2], 1, lengthen(SamplingSpec(draws=50, tune=50)))
    assert drawn.posterior.sizes["draw"] == 200
    with pytest.raises(AssertionError, match="compiled"):
        RebuiltSampler(SINGLE, "pymc").draw(tables[2], 1, SamplingSpec(draws=50, tune=50))


@pytest.mark.parametrize("name", ["hierarchical", "monotone"])
def test_data_of_another_table_are_noticed(name: str) -> None:
    plan, cell = planned("prior", name, items=12, models=3, benchmarks=2, trials=2)
    simulate, spec = simulator_of(plan, cell), load_model(name)
    varying = ReusableModel(spec, simulate("first").responses, moving=False)
    (one, values), (other, _) = (varying.given(simulate(r).responses) for r in range(2))
    pm.set_data(values, model=varying.model)
    varying.check(one.design)
    with pytest.raises(ValueError, match="is not the model of that table"):
        varying.check(other.design)


@pytest.mark.parametrize("name", ["positive", "hierarchical"])
def test_a_model_given_another_table_is_the_model_of_that_table(name: str) -> None:
    """Its coordinates too, which no draws show but by how slowly they mix."""
    plan, cell = planned("prior", name, items=12, models=3, benchmarks=2, trials=2)
    spec = load_model(name)
    designs = [make_design(spec, simulator_of(plan, cell)(r).responses) for r in range(2)]
    one, other = (build_design(spec, design, "counts") for design in designs)
    expected, rng = build_design(spec, designs[0]).model, np.random.default_rng(1)
    start = expected.initial_point(1)
    points = [{k: rng.normal(0, 0.5, np.shape(v)) for k, v in start.items()} for _ in range(3)]
    with other.model:
        pm.set_data(one.data())
        gradient = compile_gradient(other.model)
    wanted = compile_gradient(expected)
    for point in points:
        np.testing.assert_allclose(gradient(point), wanted(point), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("trials", [1, 2])
def test_a_model_is_given_other_contaminations_of_several_models(trials: int) -> None:
    """Coordinates must not follow those of the first table."""
    plan, cell = planned("prior", "hierarchical", items=12, models=3, benchmarks=2, trials=trials)
    simulate, rng = simulator_of(plan, cell), np.random.default_rng(2)
    tables = []
    for replicate in range(2):
        frame = simulate(replicate).responses.frame
        moved = rng.uniform(0, 1, frame["item"].nunique())[frame["item"].factorize()[0]]
        tables.append(Responses.from_frame(frame.assign(contamination=moved)))
    varying = ReusableModel(load_model("hierarchical"), tables[0], moving=True)
    built, values = varying.given(tables[1])
    pm.set_data(values, model=varying.model)
    varying.check(built.design)
    with pytest.raises(ValueError, match="is not the model of that table"):
        varying.check(make_design(built.spec, tables[0]))


def test_a_table_of_another_layout_is_refused(tables: list[Responses]) -> None:
    """Otherwise nutpie would read beyond its data, or say that it cannot begin."""
    plan, cell = planned("prior", items=25)
    simulate = simulator_of(plan, cell)
    engine = NutpieSampler(ReusableModel(SINGLE, simulate("first").responses, moving=False))
    few = Responses.from_frame(tables[0].frame.iloc[:20])
    with pytest.raises(ValueError, match="tables of one layout differ in 'model'"):
        engine.draw(few, 1, SAMPLING)
    with pytest.raises(ValueError, match="differ in contamination"):
        engine.draw(tables[0], 1, SAMPLING)
    check(engine.draw(simulate(0).responses, 1, SAMPLING), simulate(0).responses)


@pytest.mark.parametrize(
    ("wanted", "used"), [("nutpie", "nutpie"), ("jax", "nutpie"), ("pymc", "pymc")]
)
def test_hidden_contaminations_with_repeated_trials_are_built_anew(wanted: str, used: str) -> None:
    """How they go together is worked out from the counts, so that a compiled model is of one."""
    plan, cell = planned("prior", "noisy_covariate", items=4, models=2, trials=2)
    first = simulator_of(plan, cell)("first").responses
    if wanted == "jax":
        pytest.importorskip("jax")
        pytest.importorskip("blackjax")
    engine = engine_of(load_model("noisy_covariate"), wanted, first, False)
    assert isinstance(engine, RebuiltSampler)
    assert engine.name == used


def test_the_second_try_is_longer_and_more_careful() -> None:
    more = lengthen(SamplingSpec(draws=300, tune=200, chains=3, target_accept=0.8))
    assert (more.draws, more.tune, more.chains, more.target_accept) == (1200, 400, 3, 0.99)
