"""Functions that take the place of PyTensor's while models are compiled."""

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.link.numba.dispatch import basic
from pytensor.scalar.basic import Composite
from scipy.special import expit

from bayescontam.inference import vectorised
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.vectorised import FUNCTIONS, vectorised_functions
from tests.support.compiled_model import density_of
from tests.support.model_points import PLAIN

RIGHT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)),
    "softplus": lambda x: np.logaddexp(0, x),
}
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.0, 1e308, -1e308, 5e-324])


def numbers(name: str) -> np.ndarray:
    """Return numbers of all sizes that a function has a finite value for."""
    rng = np.random.default_rng(0)
    near = np.concatenate([rng.normal(0, size, 50_000) for size in 10.0 ** np.arange(-9, 3)])
    if name == "log":
        return np.concatenate([np.abs(near), np.exp(near[np.abs(near) < 700]), [1e-310, 5e-324]])
    if name == "log1p":
        part = near[np.abs(near) < 1]
        return np.concatenate([np.abs(near), part, np.expm1(-np.abs(part)), [1e-310, 1e300]])
    highest = 709.0 if name in ("exp", "expm1") else np.inf
    return near[(near > -700.0) & (near < highest)]


def over(function: Any) -> Callable[[np.ndarray], np.ndarray]:
    @numba.njit(error_model="numpy")
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = function(x[i])

    def call(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        loop(x, out)
        return out

    return call


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=RIGHT)
def test_values_are_right_to_the_last_places(function: Any) -> None:
    name = function.__name__
    x = numbers(name)
    # With more digits than a double has, where the machine has such numbers.
    right = RIGHT[name](x.astype(np.longdouble)).astype(np.float64)
    assert np.isfinite(right).all()
    error = np.abs(over(function)(x) - right) / np.spacing(np.abs(right))
    assert error.max() <= 4


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=RIGHT)
def test_special_values_are_those_of_numpy(function: Any) -> None:
    name = function.__name__
    right = {**RIGHT, "sigmoid": expit}[name]
    with np.errstate(all="ignore"):
        wanted = right(SPECIAL)
    np.testing.assert_allclose(over(function)(SPECIAL), wanted, rtol=1e-15)


@pytest.mark.parametrize("edge", [709.7, 709.9, -708.5, -745.0, -745.2, -1000.0, 720.5])
def test_exponentials_overflow_and_vanish_where_those_of_numpy_do(edge: float) -> None:
    with np.errstate(all="ignore"):
        for name in ("exp", "expm1"):
            got, right = over(getattr(vectorised, name)), RIGHT[name]
            np.testing.assert_allclose(got(np.array([edge])), right(np.array([edge])), rtol=1e-15)


def parts(x: Any) -> list[Any]:
    """Return an expression of all functions at once, which PyTensor makes one loop of."""
    every = pt.exp(-pt.abs(x)) + pt.expm1(x) * pt.log1p(x**2) - pt.log(2 + pt.sigmoid(x))
    total = (every * pt.softplus(x)).sum()
    return [total, pytensor.grad(total, x)]


def test_expressions_and_gradients_are_those_of_pytensor() -> None:
    x = pt.vector("x", dtype="float64")
    with vectorised_functions():
        ours = pytensor.function([x], parts(x), mode="NUMBA")
    theirs = pytensor.function([x], parts(x), mode="NUMBA")
    values = np.random.default_rng(1).normal(0, 2, 1000)
    for got, wanted in zip(ours(values), theirs(values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_numbers_that_are_no_doubles_are_left_to_pytensor() -> None:
    x, k = pt.vector("x", dtype="float32"), pt.vector("k", dtype="int8")
    with vectorised_functions():
        ours = pytensor.function([x, k], [pt.softplus(x), pt.exp(k)], mode="NUMBA")
    plain, whole = ours(np.array([-1, 0, 3], np.float32), np.array([0, 2, 5], np.int8))
    np.testing.assert_allclose(plain, np.logaddexp(0, [-1, 0, 3]), rtol=1e-6)
    np.testing.assert_allclose(whole, np.exp([0, 2, 5]), rtol=1e-6)


@pytest.fixture
def registered() -> Iterator[dict[type, Any]]:
    found = basic.numba_funcify_and_cache_key
    before = {op: found.dispatch(op) for op in (*FUNCTIONS, Composite)}
    yield before
    assert {op: found.dispatch(op) for op in before} == before


def test_pytensor_gets_its_functions_back(registered: dict[type, Any]) -> None:
    njit = basic.numba_njit

    def fail_inside() -> None:
        with vectorised_functions():
            assert basic.numba_njit is not njit
            for op, theirs in registered.items():
                assert basic.numba_funcify_and_cache_key.dispatch(op) is not theirs
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert basic.numba_njit is njit


def test_pytensor_has_what_is_replaced() -> None:
    """Without it models are compiled with PyTensor's functions, and sampling takes longer."""
    assert all(callable(getattr(basic, name)) for name in vectorised.PARTS)


@pytest.mark.parametrize("part", vectorised.PARTS)
def test_a_pytensor_without_a_part_is_left_alone(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch = basic.numba_funcify_and_cache_key
    before = [dispatch.dispatch(op) for op in FUNCTIONS]
    monkeypatch.delattr(basic, part)
    with vectorised_functions():
        assert [dispatch.dispatch(op) for op in FUNCTIONS] == before


def test_the_density_of_a_model_is_that_of_pymc() -> None:
    rng = np.random.default_rng(2)
    with pm.Model() as model:
        spread = pm.HalfNormal("spread")
        ability = pm.Normal("ability", 0, spread, shape=20)
        pm.Bernoulli("y", logit_p=ability[np.arange(200) % 20], observed=rng.integers(0, 2, 200))
    x = rng.normal(size=21)
    status, density, gradient = density_of(compile_model(model))(x)
    assert status == 0
    point = {"spread_log__": x[0], "ability": x[1:]}
    np.testing.assert_allclose(density, model.compile_logp(mode=PLAIN)(point), rtol=1e-12)
    np.testing.assert_allclose(gradient, model.compile_dlogp(mode=PLAIN)(point), rtol=1e-10)
