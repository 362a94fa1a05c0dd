"""Models are compiled for nutpie as nutpie compiles them, in less time."""

import inspect
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
import nutpie
import pymc as pm
import pytest
from nutpie import compile_pymc
from pymc import initial_point
from pytensor import config
from pytensor.raise_op import Assert

from bayescontam.inference import compiling
from bayescontam.inference.batched import labelled
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.vectorised import vectorised_functions
from tests.support.compiled_model import density_of

OPTIONS: dict[str, Any] = {"draws": 200, "tune": 200, "chains": 2, "cores": 1, "seed": 3}


def with_data() -> pm.Model:
    """Return a model with data that are set anew, of several shapes, and a quantity of draws."""
    with pm.Model(coords={"item": range(4)}) as model:
        x = pm.Data("x", np.array([0.5, -1.0, 2.0, 0.0]), dims="item")
        scale = pm.Data("scale", 2.0)
        slope = pm.Normal("slope", 0.0, scale)
        spread = pm.HalfNormal("spread", 1.0)
        pm.Deterministic("line", slope * x, dims="item")
        pm.Normal("y", slope * x, spread, observed=[0.4, -0.7, 1.9, 0.2], dims="item")
    return model


def without_data() -> pm.Model:
    """Return a model of constants only."""
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1.0)
        pm.Deterministic("square", spread**2)
        pm.Normal("y", 0.0, spread, observed=np.array([0.3, -1.2, 0.8]))
    return model


@cache
def compiled(make: Callable[[], pm.Model]) -> Any:
    """Return a model as it is compiled for fits."""
    return compile_model(make())


@cache
def by_nutpie(make: Callable[[], pm.Model]) -> Any:
    """Return a model as nutpie compiles it, but for functions whose last digits differ."""
    with vectorised_functions():
        return nutpie.compile_pymc_model(make())


@pytest.mark.parametrize("make", [with_data, without_data])
def test_draws_are_those_of_nutpie(make: Callable[[], pm.Model]) -> None:
    ours, statistics = compiled(make).sample(**OPTIONS)
    tree = nutpie.sample(by_nutpie(make), progress_bar=False, **OPTIONS)
    theirs = tree["posterior"].to_dataset()
    own = labelled(make(), ours)
    assert set(ours) == {name for name in theirs.data_vars if not str(name).endswith("__")}
    for name, values in ours.items():
        assert own[name].dims == theirs[name].dims
        # By a constant is divided, which nutpie turns into a product: last digits differ.
        np.testing.assert_allclose(values, theirs[name], rtol=1e-6, atol=1e-6)
    for name in own.coords:
        np.testing.assert_array_equal(own[name], theirs[name])
    for name in ("diverging", "depth", "n_steps"):
        np.testing.assert_array_equal(statistics[name], tree["sample_stats"][name])


def test_data_are_set_anew() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    other = compiled(with_data).with_data(scale=1e-6).with_data(x=x)
    drawn, _ = other.sample(**OPTIONS)
    assert np.abs(drawn["slope"]).max() < 1e-4
    # What follows from a draw follows from the new data, too, and only there.
    np.testing.assert_allclose(drawn["line"], drawn["slope"][..., None] * x, rtol=1e-12)
    before, _ = compiled(with_data).sample(**OPTIONS)
    own = before["slope"][..., None] * with_data()["x"].get_value()
    np.testing.assert_allclose(before["line"], own, rtol=1e-12)
    with pytest.raises(KeyError, match="Unknown shared variable"):
        other.with_data(y=1.0)


def test_a_chain_that_is_cut_short_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """nutpie swallows Ctrl-C, and returns what it has."""

    def stopped(*given: Any, **options: Any) -> Any:
        return sample(*given, **(options | {"draws": options["draws"] - 1}))

    sample = nutpie.sample
    compiled(without_data).sample(**OPTIONS)
    monkeypatch.setattr(nutpie, "sample", stopped)
    with pytest.raises(KeyboardInterrupt):
        compiled(without_data).sample(**OPTIONS)


def test_draws_of_a_run_are_those_of_a_shorter_one() -> None:
    options = {name: value for name, value in OPTIONS.items() if name not in ("draws", "cores")}
    shown: list[int] = []
    with compiled(with_data).running(draws=400, **options) as first:
        few, _ = first(60)
        time.sleep(0.1)  # in which chains stand still
        more, _ = first(200, lambda chains: shown.append(len(chains)))
        every, statistics = first(400)
        again, _ = first(60)
    assert set(shown) <= {0, 1, 2}
    wanted, _ = compiled(with_data).sample(**OPTIONS)
    for name, values in wanted.items():
        np.testing.assert_array_equal(more[name], values)
        np.testing.assert_array_equal(few[name], values[:, :60])
        np.testing.assert_array_equal(again[name], values[:, :60])
        np.testing.assert_array_equal(every[name][:, :200], values)
        assert every[name].shape[:2] == statistics["diverging"].shape == (2, 400)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_ends_with_its_block(error: type[BaseException]) -> None:
    options = {name: value for name, value in OPTIONS.items() if name not in ("draws", "cores")}
    before = threading.active_count()

    def interrupted() -> None:
        with compiled(with_data).running(draws=10**6, **options) as first:
            first(20)
            raise error

    with pytest.raises(error):
        interrupted()
    assert threading.active_count() <= before + 1


def test_a_run_reports_what_fails() -> None:
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("bounded", Assert("x is at most -100")(x, x < -100.0))
    failing = compile_model(model)
    with pytest.raises(RuntimeError, match="Logp function returned error"):
        failing.sample(**OPTIONS)
    with (
        pytest.raises(RuntimeError, match="Logp function returned error"),
        failing.running(draws=100, tune=100, chains=2, seed=1) as first,
    ):
        first(50)


def test_nutpie_has_the_functions_that_are_replaced() -> None:
    """Without them models are compiled as nutpie does it, and a fit takes longer."""
    for name, ours in zip(
        compiling.WRAPPERS, (compiling._log_density, compiling._expansion), strict=True
    ):
        theirs = inspect.signature(getattr(compile_pymc, name)).parameters
        given = inspect.signature(ours).bind(*theirs).arguments
        assert next(iter(given)) == next(iter(theirs)) == "n_dim"


def test_a_nutpie_without_them_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(compile_pymc, "make_extraction_fn")
    before = [getattr(compile_pymc, name) for name in compiling.WRAPPERS]
    seen = []

    def compiled(_: pm.Model, **__: Any) -> None:
        seen.extend(getattr(compile_pymc, name) for name in compiling.WRAPPERS)

    monkeypatch.setattr(compile_pymc, "compile_pymc_model", compiled)
    compile_model(without_data())
    assert seen == before


def test_initial_values_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, made = initial_point.make_initial_point_fn, []

    def counted(**given: Any) -> Any:
        made.append(given)
        return theirs(**given)

    monkeypatch.setattr(initial_point, "make_initial_point_fn", counted)
    compile_model(without_data())
    assert len(made) == 1
    nutpie.compile_pymc_model(without_data())
    assert len(made) == 3, "nutpie does so by itself: drop what replaces it"


def test_nutpie_gets_its_functions_back() -> None:
    before = [getattr(compile_pymc, name) for name in compiling.WRAPPERS]
    with pytest.raises(AttributeError):
        compile_model(None)  # type: ignore[arg-type]
    assert [getattr(compile_pymc, name) for name in compiling.WRAPPERS] == before


@pytest.mark.parametrize(("value", "code"), [(0.0, 0), (np.nan, 3), (1e200, 3)])
def test_values_that_are_not_finite_are_reported(value: float, code: int) -> None:
    density = density_of(compiled(without_data))
    assert density(np.array([value]))[0] == code
    assert density(np.array([value, value]))[0] == -1


@pytest.mark.parametrize(("value", "code"), [(0.5, 0), (2.0, 1)])
def test_errors_of_compiled_functions_are_reported(value: float, code: int) -> None:
    """They stand behind an address, which no error passes by itself."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("bounded", Assert("x is at most 1")(x, x < 1.0))
    assert density_of(compile_model(model))(np.array([value]))[0] == code


@pytest.mark.parametrize(
    ("newest", "cached"),
    [(compiling.KNOWN_NUMBA, True), (compiling.KNOWN_NUMBA, False), ((0, 1), True)],
    ids=["by address", "not cached", "linked"],
)
def test_densities_are_those_of_nutpie(
    newest: tuple[int, int], cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTensor's functions take one tuple where they are cached, else each argument."""
    monkeypatch.setattr(compiling, "KNOWN_NUMBA", newest)
    for make in (with_data, without_data):
        with config.change_flags(numba__cache=cached):
            ours = compile_model(make())
        point = np.array([0.3, -0.2])[: ours.density.n_dim]
        found, wanted = density_of(ours)(point), density_of(by_nutpie(make))(point)
        assert found[0] == wanted[0] == 0
        # Code that is compiled together may round once less.
        np.testing.assert_allclose(np.r_[found[1:]], np.r_[wanted[1:]], rtol=1e-14)


def test_numba_is_a_known_one() -> None:
    """With a newer one models are compiled as well, and a fit takes longer."""
    assert numba.version_info[:2] <= compiling.KNOWN_NUMBA
