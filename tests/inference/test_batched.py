"""What follows from draws, for all of them at once, is what PyMC computes one after another."""

import numpy as np
import pymc as pm
import pytest

import bayescontam as bc
from bayescontam.inference import batched
from bayescontam.inference.batched import Expansion, labelled
from bayescontam.specs.registry import shipped_models
from tests.golden.tables import imputed_table, table_of

CHAINS, DRAWS = 2, 3


def values_of(model: pm.Model) -> dict[str, np.ndarray]:
    """Return draws of what is sampled, unconstrained, dims (chain, draw, …)."""
    rng = np.random.default_rng(4)
    return {
        name: rng.normal(0, 0.7, (CHAINS, DRAWS, *np.shape(value)))
        for name, value in model.initial_point(0).items()
    }


def check(model: pm.Model) -> None:
    """Hold all that follows from some draws against PyMC's own functions, draw by draw."""
    drawn = values_of(model)
    found = Expansion(model).of(drawn, {})
    wanted = {
        str(variable.name): variable
        for variable in model.unobserved_value_vars
        if variable.name not in drawn
    }
    assert set(found) == set(wanted)
    one_by_one = model.compile_fn(
        list(wanted.values()), inputs=list(model.value_vars), mode="FAST_COMPILE",
        on_unused_input="ignore",
    )  # fmt: skip
    for chain, draw in np.ndindex(CHAINS, DRAWS):
        values = one_by_one({name: each[chain, draw] for name, each in drawn.items()})
        for name, value in zip(wanted, values, strict=True):
            np.testing.assert_allclose(found[name][chain, draw], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spec", shipped_models())
def test_shipped_specs(spec: str) -> None:
    table = imputed_table() if spec == "imputed_covariate" else table_of("repeated")
    if spec == "twins":
        table["base"] = table["model"].map({"ada": "a", "bo": "a", "cy": "c", "di": "c"})
    check(bc.build_model(spec, table))


def of_all_kinds() -> pm.Model:
    """Return a model with data, bounds, and a quantity that no draw changes."""
    with pm.Model(coords={"item": ["a", "b", "c"]}) as model:
        weights = pm.Data("weights", np.array([1.0, 2.0, 4.0]), dims="item")
        spread = pm.HalfNormal("spread", 2.0)
        level = pm.Normal("level", shape=2)
        share = pm.Uniform("share", 0.0, 1.0, dims="item")
        pm.Deterministic("products", spread * weights * share, dims="item")
        pm.Deterministic("table", level[:, None] + share)
        pm.Deterministic("constant", 2.0 * weights, dims="item")
        pm.Normal("seen", level.sum(), spread, observed=[0.0, 1.0])
    return model


@pytest.mark.parametrize("block", [1, 40, batched.BLOCK])
def test_draws_are_computed_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "BLOCK", block)
    check(of_all_kinds())


def test_data_may_be_others() -> None:
    model = of_all_kinds()
    drawn, weights = values_of(model), np.array([3.0, 0.0, -1.0])
    expansion = Expansion(model)
    before, found = expansion.of(drawn, {}), expansion.of(drawn, {"weights": weights})
    products = found["spread"][..., None] * weights * found["share"]
    np.testing.assert_allclose(found["products"], products, rtol=1e-12)
    assert (found["constant"] == 2.0 * weights).all()
    again = expansion.of(drawn, {})
    for name, values in before.items():
        np.testing.assert_array_equal(again[name], values)


def test_nothing_follows_from_free_values_alone() -> None:
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    assert Expansion(model).of(values_of(model), {}) == {}


def test_labels_are_those_of_the_model() -> None:
    model = of_all_kinds()
    found = labelled(model, Expansion(model).of(values_of(model), {}))
    assert found["products"].dims == ("chain", "draw", "item")
    assert found["table"].dims == ("chain", "draw", "table_dim_0", "table_dim_1")
    assert found["item"].to_numpy().tolist() == ["a", "b", "c"]
    assert found["table_dim_1"].to_numpy().tolist() == [0, 1, 2]
    assert found["draw"].to_numpy().tolist() == list(range(DRAWS))


def test_labels_are_whole() -> None:
    with pm.Model(coords={"item": ["a\0", "b", "\0"]}) as model:
        pm.Normal("x", dims="item")
    found = labelled(model, {"x": np.zeros((1, 2, 3))})
    assert found["item"].to_index().tolist() == ["a\0", "b", "\0"]
