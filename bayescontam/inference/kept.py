"""Kept: what a fit's file holds of its table and its items, beside draws and checks."""

from typing import Any

import numpy as np
import xarray as xr

from bayescontam.inference.design import Design
from bayescontam.inference.difficulties import difficulty
from bayescontam.inference.draws import Draws
from bayescontam.inference.lattice import Lattice
from bayescontam.inference.located import Moments


def kept_table(design: Design) -> dict[str, xr.Dataset]:
    """Return what was fitted: the table as arrays, and the labels.

    Parameters
    ----------
    design : Design

    Returns
    -------
    dict of str to xarray.Dataset
        ``"constant_data"`` and ``"observed_data"``.
    """
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


def kept_items(draws: Draws, lattice: Lattice, most: int) -> xr.Dataset:
    """Return what is kept of difficulties that were integrated out.

    Parameters
    ----------
    draws : Draws
        As `placed` returns them.
    lattice : Lattice
    most : int
        How many draws are kept, evenly spaced; 0 for none.

    Returns
    -------
    xarray.Dataset
        Posterior ``mean`` and ``sd`` of each item's difficulty, log-odds, dims (item,); with
        draws ``delta``, dims (item_draw, item). In single precision.
    """
    first, second = np.zeros(len(lattice.total)), np.zeros(len(lattice.total))
    for part in draws.chunks(lattice.design.whole):
        delta = difficulty(part, lattice)
        first, second = first + delta.sum(axis=0), second + (delta**2).sum(axis=0)
    mean = first / len(draws)
    sd = np.sqrt(np.maximum(second / len(draws) - mean**2, 0.0))
    data: dict[str, Any] = {"mean": ("item", mean), "sd": ("item", sd)}
    if most:
        data["delta"] = ("item_draw", "item"), difficulty(draws.thinned(most), lattice)
    items = {"item": list(lattice.design.whole.items)}
    return xr.Dataset(data, items).astype(np.float32)


def kept_exposure(design: Design, moments: Moments) -> xr.Dataset:
    """Return what the fit says of a contamination that is not known.

    Parameters
    ----------
    design : Design
    moments : Moments

    Returns
    -------
    xarray.Dataset
        Dims (group,), and the labels of models, benchmarks and items.
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
