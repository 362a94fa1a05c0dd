"""What numba compiled for one table serves others of its form, with their own numbers."""

import gc
import weakref
from typing import Any

import numba
import numpy as np
import pymc as pm
import pytest
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS

from bayescontam.inference import compiling
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.constants import WithConstants
from tests.support.compiled_model import density_of

SIZES = [(40, 4, 0), (300, 5, 1)]
"""Items, groups and seed; an index of the second needs more than a byte."""


def model(items: int, groups: int, seed: int) -> pm.Model:
    """Return a model whose sizes, indices, counts and prior follow from a table."""
    rng = np.random.default_rng(seed)
    group = rng.integers(groups, size=items)
    with pm.Model() as made:
        spread = pm.HalfNormal("spread", 1.5 + seed)
        level = pm.Normal("level", 0.0, 1.0, shape=groups)
        centred = level - level.mean()
        pm.Deterministic("sizes", spread * centred * float(items))
        pm.Binomial(
            "y", 5, logit_p=spread * centred[group], observed=rng.integers(6, size=items)
        )  # fmt: skip
    return made


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> list[WithConstants]:
    """Return the densities that nutpie wraps, as they are compiled."""
    found, theirs = [], compiling._by_address

    def watched(inner: Any) -> Any:
        found.append(inner)
        return theirs(inner)

    monkeypatch.setattr(compiling, "_by_address", watched)
    return found


def test_a_table_of_another_size_finds_what_was_compiled(functions: list[WithConstants]) -> None:
    """PyTensor stores under a key of its own, and numba by the types of arguments."""
    for sizes in SIZES:
        compile_model(model(*sizes))
    first, second = functions
    keys = {CACHED_SRC_FUNCTIONS[each.function.py_func] for each in functions}
    assert len(keys) == 1
    assert [*map(numba.typeof, first.constants)] == [*map(numba.typeof, second.constants)]


def test_constants_live_as_long_as_what_is_given_to_the_sampler(
    functions: list[WithConstants],
) -> None:
    """Compiled code knows their addresses alone."""
    call = compile_model(model(*SIZES[0])).density.compiled_logp_func
    constants = functions[0].constants
    alive = [weakref.ref(each) for each in constants if isinstance(each, np.ndarray)]
    functions.clear()
    del constants
    gc.collect()
    assert alive
    assert all(each() is not None for each in alive)
    assert call.address


def test_python_can_call_them_too() -> None:
    made = model(*SIZES[0])
    compiled = compile_model(made)
    x = np.linspace(-0.5, 0.5, compiled.density.n_dim)
    found = compiled.density.logp_func(x)
    _, value, slopes = density_of(compiled)(x)
    assert found[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[1], slopes, rtol=1e-12)


def test_each_table_has_its_own_density() -> None:
    """Both compiled before either is called: no constant of one stands in the other."""
    made = [model(*sizes) for sizes in SIZES]
    densities = [density_of(compile_model(each)) for each in made]
    for each, density in zip(made, densities, strict=True):
        value = each.compile_logp(mode="FAST_COMPILE")
        slopes = each.compile_dlogp(mode="FAST_COMPILE")
        names = [each.rvs_to_values[variable].name for variable in each.free_RVs]
        start = each.initial_point()
        for seed in range(3):  # and no call changes what the next one finds
            x = np.random.default_rng(seed).normal(0, 0.5, sum(map(np.size, start.values())))
            ends = np.cumsum([np.size(start[name]) for name in names])[:-1]
            point = {
                name: part.reshape(np.shape(start[name]))
                for name, part in zip(names, np.split(x, ends), strict=True)
            }
            status, found, gradient = density(x)
            assert status == 0
            assert found == pytest.approx(value(point), rel=1e-12)
            np.testing.assert_allclose(gradient, slopes(point), rtol=1e-10, atol=1e-12)


def test_each_table_has_its_own_quantities() -> None:
    compiled = [compile_model(model(*sizes)) for sizes in SIZES]
    options = {"draws": 20, "tune": 50, "chains": 1, "seed": 1}
    for (items, groups, _), each in zip(SIZES, compiled, strict=True):
        drawn, _ = each.sample(**options)
        level, spread = drawn["level"], drawn["spread"][..., None]
        assert level.shape[-1] == groups
        wanted = spread * (level - level.mean(axis=-1, keepdims=True)) * items
        np.testing.assert_allclose(drawn["sizes"], wanted, rtol=1e-10, atol=1e-12)
