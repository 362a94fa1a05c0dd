"""What follows from draws, for the model specs of which no fit is stored.

The draws are those of the prior, so that nothing is sampled and every processor has the same.
"""

import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xarray as xr

import bayescontam
from bayescontam.inference.predictive import prior_draws
from bayescontam.specs.registry import shipped_models
from tests.golden.expected import check_numbers
from tests.golden.stored import FITS, SAMPLER, StoredFit, fit_of

NUMBERS = Path(__file__).parent / "derived"
DRAWS = 50
# `twins` needs a table with bases: densities and tests/inference/test_total_effects hold it.
SPECS = sorted(set(shipped_models()) - {stored.base for stored in FITS.values()} - {"twins"})


def from_prior(built: Any, *_: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """Return draws of the prior as two chains, and what a sampler without trouble would say."""
    _, prior = prior_draws(built, 2 * DRAWS, np.random.default_rng(2))
    chains = {
        name: (
            ("chain", "draw", *values.dims[2:]),
            values.to_numpy().reshape(2, DRAWS, *values.shape[2:]),
        )
        for name, values in prior.data_vars.items()
    }
    coords = {dim: prior[dim] for dim in prior.coords if dim not in ("chain", "draw")}
    energy = np.random.default_rng(3).normal(size=(2, DRAWS))
    none = np.zeros((2, DRAWS), dtype=bool)
    statistics = {"diverging": none, "reached_max_treedepth": none, "energy": energy}
    named = {name: (("chain", "draw"), values) for name, values in statistics.items()}
    return xr.Dataset(chains, coords), xr.Dataset(named)


def figures(fit: bayescontam.Fit) -> dict[str, Any]:
    """Return the estimands, the checks, and the mean of every group's numbers."""
    estimands = fit.estimands().to_json(orient="records", double_precision=15)
    means = {
        group: {
            str(name): float(np.nanmean(values.to_numpy().astype(float)))
            for name, values in node.to_dataset().data_vars.items()
            if values.dtype.kind in "fiub" and values.notnull().any()
        }
        for group, node in fit.data.children.items()
    }
    checks = [without_ties(check.to_dict()) for check in fit.checks()]
    return {"estimands": json.loads(estimands), "checks": checks, "means": means}


def without_ties(check: dict[str, Any]) -> dict[str, Any]:
    """Return a check; of R-hat, which ties of draws move, the worst quantity is not named."""
    if check["name"] != "R-hat of estimands":
        return check
    rest = {key: value for key, value in check.items() if key not in ("value", "sentence")}
    sentence = re.sub(r"the .* \(R-hat [\d.]+\)", "QUANTITY (R-hat)", check["sentence"])
    return rest | {"r_hat": check["value"], "sentence": sentence}


@pytest.mark.parametrize("name", SPECS)
def test_what_follows_from_draws_is_what_it_was(name: str) -> None:
    table = "repeated" if name == "aggregated" else "single"
    with mock.patch(SAMPLER, side_effect=from_prior):
        fit = fit_of(StoredFit(name, table))
    check_numbers(NUMBERS / f"{name}.json", figures(fit), rel=1e-6)


def test_there_are_numbers_of_each_spec_and_no_other() -> None:
    assert {path.stem for path in NUMBERS.glob("*")} == set(SPECS)
