"""Standard groups: what ArviZ's functions look for in a fit, beside the posterior."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray
from bayescontam.inference.build import Built
from bayescontam.inference.compact import DENSITY_DIGITS, Positions, rounded
from bayescontam.inference.difficulties import spelt_out
from bayescontam.inference.draws import Draws
from bayescontam.inference.loo import log_likelihoods
from bayescontam.inference.predictive import replicated_counts
from bayescontam.inference.sensitivity import log_priors
from bayescontam.seeds import stream

LABELLED = ("log_likelihood", "posterior_predictive", "prior_predictive", "observed_data", "loo")
"""Groups with a dim ``response``, whose responses have the labels of their rows."""
OF_POSTERIOR = ("posterior", "sample_stats", "log_prior", "estimands", "estimands_by_concept")
"""Groups of all draws that are stored of parameters."""


def standard_groups(
    draws: Draws,
    prior: Draws,
    posterior: xr.Dataset,
    built: Built,
    positions: Positions,
    seed: int,
) -> dict[str, xr.Dataset]:
    """Return log densities of the prior and the responses, and replicated responses.

    Dims (chain, draw, response).
    """
    densities = {
        name: (("chain", "draw"), values.reshape(posterior["chain"].size, -1))
        for name, values in log_priors(posterior, built).items()
    }
    coords = {name: posterior[name] for name in ("chain", "draw")}
    groups = {"log_prior": xr.Dataset(densities, coords)}
    if not len(positions.responses):
        return groups
    part = draws[positions.rows(positions.responses, posterior)]
    labels = _sampled(posterior, positions)
    density = log_likelihoods(part, built, stream(seed, "log likelihood"))
    groups["log_likelihood"] = rounded(_of_responses(density, labels, built), DENSITY_DIGITS)
    rng = stream(seed, "posterior replicates")
    groups["posterior_predictive"] = _of_responses(_replicated(part, built, rng), labels, built)
    before = prior.thinned(len(part))
    labels = {"chain": np.arange(1), "draw": np.arange(len(before))}
    rng = stream(seed, "prior replicates")
    groups["prior_predictive"] = _of_responses(_replicated(before, built, rng), labels, built)
    return groups


def _sampled(posterior: xr.Dataset, positions: Positions) -> dict[str, Any]:
    """Return the coordinates of the draws for which responses are stored.

    Where these are a part of the parameters' only, ``draw`` has no labels. ArviZ would
    otherwise take the others for missing, and call a fit insensitive to its data.
    """
    chain, draw = posterior["chain"], posterior["draw"][positions.responses]
    if len(positions.responses) == len(positions.parameters):
        return {"chain": chain, "draw": draw}
    return {"chain": chain, "posterior_draw": ("draw", draw.to_numpy())}


def aligned(tree: xr.DataTree) -> xr.DataTree:
    """Return the draws of a fit for which log densities of responses are stored."""
    chosen = tree["log_likelihood"]
    draw = chosen["posterior_draw" if "posterior_draw" in chosen.coords else "draw"].to_numpy()
    groups = {}
    for path, dataset in tree.to_dict().items():
        if path in (f"/{name}" for name in OF_POSTERIOR):
            groups[path] = dataset.sel(draw=draw)
        elif path in ("/log_likelihood", "/posterior_predictive"):
            groups[path] = dataset.assign_coords(draw=draw)
        elif "draw" not in dataset.dims:
            groups[path] = dataset
    return xr.DataTree.from_dict(groups)


def _replicated(draws: Draws, built: Built, rng: np.random.Generator) -> FloatArray:
    parts = [
        replicated_counts(spelt_out(part, built.lattice), built, rng)
        for part in draws.chunks(built.design)
    ]
    return np.concatenate(parts).astype(np.int32)


def _of_responses(values: FloatArray, coords: dict[str, Any], built: Built) -> xr.Dataset:
    shape = len(coords["chain"]), -1, len(built.design)
    coords = {**coords, "response": built.design.coords["response"]}
    data = {"n_correct": (("chain", "draw", "response"), values.reshape(shape))}
    return xr.Dataset(data, coords)


def labelled(tree: xr.DataTree) -> xr.DataTree:
    """Return a fit's tree whose responses have coordinates ``model, benchmark, item``."""
    data = tree["constant_data"].to_dataset()
    labels: dict[Hashable, Any] = {
        name: ("response", data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()])
        for name in ("model", "benchmark", "item")
    }
    groups = dict(tree.to_dict())
    for name in LABELLED:
        if f"/{name}" in groups:
            groups[f"/{name}"] = groups[f"/{name}"].assign_coords(labels)
    return xr.DataTree.from_dict(groups)


def unlabelled(tree: xr.DataTree) -> xr.DataTree:
    """Undo `labelled`: a file has the labels once, in ``constant_data``."""
    groups = dict(tree.to_dict())
    for name in LABELLED:
        if f"/{name}" in groups:
            labels = ["model", "benchmark", "item"]
            groups[f"/{name}"] = groups[f"/{name}"].drop_vars(labels, errors="ignore")
    return xr.DataTree.from_dict(groups)
