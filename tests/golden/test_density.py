"""Log density and gradient of every shipped model spec, and of what its blocks can be changed to.

The points are drawn in the unconstrained space, in the order of the parameters' names.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.gradient import grad
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.math import Dot

import bayescontam
from bayescontam.specs.registry import shipped_models
from tests.golden.expected import check_numbers
from tests.golden.stored import changed_spec
from tests.golden.tables import imputed_table, table_of
from tests.support.model_points import PLAIN

DENSITIES = Path(__file__).parent / "densities"
POINTS = 2


@dataclass(frozen=True)
class Case:
    """A model spec on a table."""

    spec: str
    table: str = "single"
    difficulties: Literal["sampled", "marginalised"] = "sampled"
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    related: bool = False  # whether models have bases

    def responses(self) -> pd.DataFrame:
        """Return its table."""
        if self.spec == "imputed_covariate":
            return imputed_table()
        table = table_of(self.table)
        if not self.related:
            return table
        return table.assign(base=np.where(table["model"].isin(["ada", "bo"]), "ada", "recipe"))


CASES = {name: Case(name) for name in shipped_models()} | {
    "aggregated on repeated trials": Case("aggregated", "repeated"),
    "hierarchical by accuracy of guessing": Case(
        "hierarchical", changes={"likelihood": {"guess": "column"}}
    ),
    "hierarchical marginalised": Case("hierarchical", difficulties="marginalised"),
    "hierarchical on repeated trials": Case("hierarchical", "repeated"),
    "hierarchical that items confound": Case(
        "hierarchical", changes={"contamination": {"confounding": "sensitivity"}}
    ),
    "latent_duplicate on repeated trials": Case("latent_duplicate", "repeated"),
    "monotone marginalised": Case("monotone", difficulties="marginalised"),
    "single on repeated trials": Case("single", "repeated"),
    "spillover": Case("spillover", "varied"),
    "twins": Case("twins", "varied", related=True),
    "twins on repeated trials": Case("twins", "repeated", related=True),
    "twins marginalised": Case("twins", difficulties="marginalised", related=True),
}


@cache
def model_of(name: str) -> tuple[pm.Model, Any]:
    """Return the model of a case, and its log density."""
    case = CASES[name]
    model = bayescontam.build_model(
        changed_spec(case.spec, case.changes), case.responses(), difficulties=case.difficulties
    )
    return model, model.logp()


def densities(model: pm.Model, logp: Any) -> list[dict[str, Any]]:
    """Return the log density at some points, and its gradient by the name of the parameter."""
    parameters = sorted(model.free_RVs, key=lambda rv: str(rv.name))
    values = [model.rvs_to_values[parameter] for parameter in parameters]
    # At once: `model.dlogp` follows the graph back from the density once for each parameter.
    outputs = [logp, *grad(logp, values)]
    evaluate = model.compile_fn(outputs, inputs=values, mode=PLAIN, point_fn=False)
    start, rng = model.initial_point(0), np.random.default_rng(1)
    found = []
    for _ in range(POINTS):
        shapes = [np.shape(start[value.name]) for value in values]
        point = [np.asarray(rng.normal(0, 0.5, shape)) for shape in shapes]
        density, *gradient = evaluate(*point)
        by_name = {
            str(value.name): np.ravel(part).tolist()
            for value, part in zip(values, gradient, strict=True)
        }
        found.append({"log density": float(density), "gradient": by_name})
    return found


@pytest.mark.parametrize("name", CASES)
def test_densities_and_gradients_are_what_they_were(name: str) -> None:
    check_numbers(DENSITIES / f"{name}.json", densities(*model_of(name)), rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_no_density_has_a_matrix_product(name: str) -> None:
    """Each layout of one takes some twenty seconds to compile; see `weighted_sums`."""
    _, logp = model_of(name)
    products = [each for each in ancestors([logp]) if each.owner and _is_product(each)]
    assert products == []


def _is_product(variable: Any) -> bool:
    op = variable.owner.op
    return isinstance(getattr(op, "core_op", op), Dot | BatchedDot)


def test_there_are_densities_of_each_case_and_no_other() -> None:
    assert {path.stem for path in DENSITIES.glob("*.json")} == set(CASES)
