"""A model that was compiled for one table is, with another table's data, that table's own model.

The right answer is the density of a model that is built for the other table alone.
"""

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError
from bayescontam.inference import reusable
from bayescontam.inference.reusable import CompiledModels, counts_are_data
from bayescontam.model.build import build, build_design
from bayescontam.specs.registry import load_model, shipped_folder
from tests.golden.tables import imputed_table, table_of
from tests.support.model_points import PLAIN
from tests.support.simulated_responses import simulate

SPECS = sorted(path.stem for path in shipped_folder("models").glob("*.toml"))
TABLES = ("single", "repeated", "varied")
LAYOUTS = ("ability", "hierarchical", "latent_duplicate")
"""Model specs that are held with all tables; others, to save time, with the first that suits."""


class Stub:
    """Stands in for a model that nutpie compiled; records the data that it is given."""

    def __init__(self, model: pm.Model) -> None:
        self.model = model
        self.data: dict[str, Any] = {}

    def with_data(self, **data: Any) -> "Stub":
        """Return this with other data."""
        given = Stub(self.model)
        given.data = data
        return given


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile nothing: what counts is the density."""
    monkeypatch.setattr(reusable, "compile_model", lambda model, *_: Stub(model))


def first(spec: str, name: str) -> pd.DataFrame:
    """Return a table that a model spec can be fitted to."""
    table = imputed_table() if spec == "imputed_covariate" and name == "single" else table_of(name)
    if spec == "twins":  # two bases, each with two models
        table["base"] = table["model"].map({"ada": "a", "bo": "a", "cy": "c", "di": "c"})
    return table


def others(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return tables of the same layout: other counts, and other contaminations too."""
    rng = np.random.default_rng(5)
    counts = table.assign(n_correct=rng.integers(0, table["n_trials"] + 1))
    # In the same order, and with the ends where they were: a dose-response bends where it did.
    doses = counts.assign(
        contamination=(table["contamination"] ** 1.5).round(3),
        contamination_sd=table["contamination_sd"] / 4,
    )
    return {"counts": counts, "doses": doses}


def height(model: pm.Model, points: list[dict[str, Any]]) -> np.ndarray:
    """Return the log density at some points, up to a constant: that of counts is left out."""
    density = model.compile_logp(mode=PLAIN)
    found = np.array([float(density(point)) for point in points])
    return found - found[0]


def held_against(given: Stub, own: pm.Model) -> None:
    """Hold a compiled model with the data that it was given against a table's own model."""
    rng, start = np.random.default_rng(0), own.initial_point(0)
    points = [
        {name: rng.normal(0, 0.5, np.shape(value)) for name, value in start.items()}
        for _ in range(4)
    ]
    with given.model:
        pm.set_data(given.data)
    expected = height(own, points)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(height(given.model, points), expected, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("spec", SPECS)
def test_the_density_is_that_of_the_table_alone(spec: str) -> None:
    accepted = 0
    for name in TABLES:
        table = first(spec, name)
        try:
            one = build(load_model(spec), Responses.from_frame(table))
        except BayescontamError:
            continue  # the spec needs something that the table has not, or has no use for it
        if accepted and spec not in LAYOUTS:
            break
        accepted += 1
        models: Any = CompiledModels()
        compiled = models.of(one)
        for what, changed in others(table).items():
            other = build(load_model(spec), Responses.from_frame(changed))
            found = models.of(other)
            if "dose" in found.data or "reach_dose" in found.data:
                # Sampled in coordinates that follow no contamination.
                held_against(found, build_design(other.spec, other.design, "doses").model)
            elif found.data:
                held_against(found, other.model)
            else:  # built anew, from the table itself
                assert found.model is other.model
            if what == "counts" and counts_are_data(other.spec, other.design):
                assert found.model is compiled.model
    assert accepted


def test_prior_draws_of_difficulties_are_those_of_the_table() -> None:
    """Their nodes depend on the counts, other draws from the prior do not."""
    one, other = (
        simulate(seed=1, models=12, benchmarks=1, items=60).responses.assign(**changed)
        for changed in ({}, {"n_correct": lambda t: t["item"].isin(t["item"][:30]).astype(int)})
    )
    for way, again in (("sampled", True), ("marginalised", False)):
        first_built, built = (
            build(load_model("hierarchical"), Responses.from_frame(frame), way)
            for frame in (one, other)
        )
        models = CompiledModels()
        drawn, _ = models.prior(first_built, 1)
        assert models.prior(first_built, 1)[0] is drawn
        assert (models.prior(built, 1)[0] is drawn) == again
        if built.lattice is not None:
            assert len(built.lattice.nodes) != len(first_built.lattice.nodes)
