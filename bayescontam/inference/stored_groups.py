"""Stored groups: the table and the items of a fit, in addition to draws and checks."""

from typing import Any

import numpy as np
import xarray as xr

from bayescontam._types import IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.compact import draws_of_items
from bayescontam.inference.design import Design
from bayescontam.inference.difficulties import difficulty
from bayescontam.inference.draws import Draws
from bayescontam.inference.located import Moments


def stored_table(design: Design) -> dict[str, xr.Dataset]:
    """Return what was fitted: the table as arrays, and the labels."""
    constant: dict[str, Any] = {
        "model_of_response": ("response", design.model),
        "benchmark_of_response": ("response", design.benchmark),
        "item_of_response": ("response", design.item),
        "n_trials": ("response", design.n_trials),
        "weight": ("response", design.weight),
        "benchmark_of_item": ("item", design.benchmark_of_item),
    }
    if design.clean.any():
        constant["clean"] = ("model", design.clean)
    if design.item_guess is not None:
        constant["guess_of_item"] = ("item", design.item_guess)
    if design.contamination is not None:
        constant["contamination"] = ("response", design.contamination)
    if design.unit_dim == "concept":
        constant["concept_of_response"] = ("response", design.unit)
        constant["benchmark_of_concept"] = ("concept", design.benchmark_of_unit)
    observed = {"n_correct": ("response", design.n_correct)}
    response = {"response": design.coords["response"]}
    return {
        "constant_data": xr.Dataset(constant, design.coords),
        "observed_data": xr.Dataset(observed, response),
    }


def stored_items(
    draws: Draws, posterior: xr.Dataset, built: Built, at: IntArray, whole: bool
) -> xr.Dataset | None:
    """Return what is stored of items, apart from the parameters of which there are few."""
    lattice = built.lattice
    if lattice is None:
        found = draws_of_items(posterior, whole)
        if "delta" in found:
            every, sample = found["delta"], ("chain", "draw")
            found = found.isel(draw=at).assign(mean=every.mean(sample), sd=every.std(sample))
        return found if len(found.data_vars) else None
    first, second = np.zeros(len(lattice.total)), np.zeros(len(lattice.total))
    for part in draws.chunks(lattice.design.whole):
        delta = difficulty(part, lattice)
        first, second = first + delta.sum(axis=0), second + (delta**2).sum(axis=0)
    mean: Any = first / len(draws)
    sd: Any = np.sqrt(np.maximum(second / len(draws) - mean**2, 0.0))
    data: dict[str, Any] = {"mean": ("item", mean), "sd": ("item", sd)}
    coords: dict[str, Any] = {"item": list(lattice.design.whole.items)}
    if len(at):
        chains, count = posterior["chain"], posterior["draw"]
        rows = (np.arange(len(chains))[:, None] * len(count) + at).ravel()
        own = difficulty(draws[rows], lattice).reshape(len(chains), len(at), -1)
        data["delta"] = ("chain", "draw", "item"), own
        coords |= {"chain": chains, "draw": count[at]}
    return xr.Dataset(data, coords)


def stored_exposure(design: Design, moments: Moments) -> xr.Dataset:
    """Return what the fit shows about a contamination that is not known.

    Dims (group,).
    """
    exposure = design.exposure
    assert exposure is not None
    first = exposure.first
    data = {
        "contamination": exposure.mean,
        "posterior_mean": moments.mean,
        "posterior_sd": moments.sd,
        "benchmark_of_group": design.benchmark[first],
        "item_of_group": design.item[first],
    }
    if exposure.pairs:
        data["model_of_group"] = design.model[first]
    coords = {name: design.coords[name] for name in ("model", "benchmark", "item")}
    return xr.Dataset({name: ("group", values) for name, values in data.items()}, coords)
