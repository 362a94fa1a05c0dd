"""The engine in JAX has the density of the model, and gradients that are right far out."""

import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from bayescontam.calibration import runner
from bayescontam.calibration.estimators import Sampler, engine_of
from bayescontam.calibration.jax_sampler import Vectors, _proposal, precision
from bayescontam.calibration.runner import ReplicateRunner
from bayescontam.calibration.simulators import simulator_of
from bayescontam.data.responses import Responses
from bayescontam.errors import MissingExtraError
from bayescontam.model.build import build, build_design
from bayescontam.model.design import make_design
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN, compile_gradient
from tests.support.small_studies import planned

jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytest.importorskip("pytensor.link.jax.dispatch")  # turns 64-bit types on, for good

SINGLE = load_model("single")


@pytest.fixture(autouse=True)
def same_numbers() -> Iterator[None]:
    """Hold that nothing here leaves JAX in another precision."""
    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before


@pytest.mark.slow
def test_the_density_is_that_of_the_pymc_model_of_the_table() -> None:
    """But for a constant, and its gradient too; in single precision to five digits."""
    plan, cell = planned("prior", "positive", items=12, models=3, benchmarks=2, trials=2)
    spec = load_model("positive")
    designs = [make_design(spec, simulator_of(plan, cell)(r).responses) for r in range(2)]
    one, other = (build_design(spec, design, "counts") for design in designs)
    expected, rng = build_design(spec, designs[0]).model, np.random.default_rng(1)
    start = expected.initial_point(1)
    points = [{k: rng.normal(0, 0.5, np.shape(v)) for k, v in start.items()} for _ in range(3)]
    density, gradient = expected.compile_logp(mode=PLAIN), compile_gradient(expected)
    heights, slopes = (np.array([each(point) for point in points]) for each in (density, gradient))
    values = one.data()
    vectors = Vectors(other.model, list(values))
    order = [value.name for value in expected.value_vars]
    flat = np.array([np.concatenate([point[k].ravel() for k in order]) for point in points])
    quick = {"compiler_options": {"xla_backend_optimization_level": 0}}
    for double, rtol in ((True, 1e-9), (False, 1e-5)):
        number = np.float64 if double else np.float32
        data = [np.asarray(values[k], dtype=number) for k in values]
        with precision(double):
            both = jax.vmap(jax.value_and_grad(vectors.log_density), (0, None))
            height, slope = map(np.asarray, jax.jit(both, **quick)(flat.astype(number), data))
        assert height.dtype == number
        # The binomial coefficients are those of the other table.
        away, wanted = height - height[0], heights - heights[0]
        np.testing.assert_allclose(away, wanted, atol=rtol * np.abs(heights).max())
        np.testing.assert_allclose(slope, slopes, atol=rtol * np.abs(slopes).max())


def test_no_lookup_is_left_of_a_table_that_is_a_grid() -> None:
    """XLA takes lookups, and what is added up for their derivatives, one by one."""
    plan, cell = planned("prior", "hierarchical", items=5, models=3, benchmarks=2)
    built = build(load_model("hierarchical"), simulator_of(plan, cell)(0).responses)
    vectors = Vectors(built.model, [])
    with precision(double=True):
        x = np.zeros(vectors.size)
        made = str(jax.make_jaxpr(jax.grad(lambda x: vectors.log_density(x, [])))(x))
    assert "reduce_sum" in made
    assert "gather[" not in made
    assert "scatter" not in made


def test_a_proposal_is_that_of_hmc() -> None:
    """With densities at the end of trajectories alone, and also if one diverges."""
    import jax.numpy as jnp
    from blackjax.mcmc.hmc import build_kernel, hmc_proposal, init

    def density(x: Any) -> Any:
        return -jnp.sum(x**4) - jnp.sum(x[:-1] * x[1:])

    def moved(proposal: Any) -> Any:
        kernel = build_kernel(divergence_threshold=50, build_proposal=proposal)

        def step(key: Any, x: Any, steps: Any, size: Any) -> Any:
            return kernel(key, init(x, density), density, size, jnp.ones(3), steps)

        keys, sizes = jax.random.split(jax.random.key(1), 4), jnp.array([0.1, 0.2, 0.1, 2.0])
        x = jax.random.normal(jax.random.key(2), (4, 3))
        return jax.jit(jax.vmap(step))(keys, x, jnp.array([1, 2, 5, 3]), sizes)

    with precision(double=True):
        (state, info), (wanted, reported) = moved(_proposal), moved(hmc_proposal)
        for found, known in zip(state, wanted, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-12)
        np.testing.assert_allclose(info.acceptance_rate, reported.acceptance_rate, rtol=1e-9)
        assert np.asarray(reported.is_divergent).tolist() == [False, False, False, True]
        assert (info.is_divergent == reported.is_divergent).all()


@pytest.mark.parametrize("double", [False, True])
def test_gradients_are_right_however_far_out(double: bool) -> None:
    """Tuning starts anywhere, and from a gradient that is no number it does not come back."""
    with pm.Model() as model:
        pm.Potential("tall", pt.softplus(pm.Flat("x", shape=9)).sum())
    vectors = Vectors(model, [])
    x = np.array([-1000, -90, -37, -1, 0, 1, 20, 90, 1000], dtype=float)
    with precision(double):
        number = np.float64 if double else np.float32
        height, slope = jax.value_and_grad(vectors.log_density)(x.astype(number), [])
    rtol = 1e-12 if double else 1e-6
    np.testing.assert_allclose(height, np.logaddexp(0, x).sum(), rtol=rtol)
    np.testing.assert_allclose(slope, expit(x), rtol=rtol, atol=1e-37)


def test_a_study_audits_it_by_pymc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled for that here: the first engine stands in for the second."""
    sampling = 'sampling = { engine = "jax", draws = 200, tune = 200 }'
    plan, cell = planned("prior", "single", sampling, "gates.rhat = 1.1", items=20)
    plan = replace(plan, study=plan.study.model_copy(update={"audit": 1.0}))
    replicates = ReplicateRunner(plan, cell)

    first: list[Sampler] = []

    def either(spec: ModelSpec, name: str, table: Responses, moving: bool) -> Sampler:
        first.append(copy(first[0]) if first else engine_of(spec, name, table, moving))
        first[-1].name = name
        return first[-1]

    monkeypatch.setattr(runner, "engine_of", either)
    rows = replicates.rows(0).set_index(["audit", "quantity", "where"])
    engines = rows.groupby("audit")["engine"].unique().map(list).to_dict()
    assert engines == {False: ["jax"], True: ["pymc"]}
    figures = rows[["mean", "sd", "rank", "ranks"]]
    assert {"theta", "beta", "genuine_ability_direct"} <= set(rows.index.unique("quantity"))
    assert np.isfinite(figures.loc[False]).all(axis=None)
    assert (figures.loc[False, "ranks"] > 100).all()


def test_without_the_extra_it_says_what_to_install(
    tables: list[Responses], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(MissingExtraError, match=r"'blackjax'.*pip install 'bayescontam\[jax\]'"):
        engine_of(SINGLE, "jax", tables[0], True)
