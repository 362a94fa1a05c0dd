"""Which models of a fit can be compared in a benchmark, and which is better."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.inference.summary import p_superior
from bayescontam.model.effect_names import EffectNames


def same_items(tree: xr.DataTree) -> "pd.Series[bool]":
    """Return whether all models that answered a benchmark answered the same items of it."""
    data = tree["constant_data"].to_dataset()
    keys = {name: data[f"{name}_of_response"].to_numpy() for name in ("model", "item")}
    pairs = pd.DataFrame(keys).drop_duplicates()
    pairs["benchmark"] = data["benchmark_of_item"].to_numpy()[pairs["item"]]
    answered = pairs.groupby(["benchmark", "model"]).size()
    names = data["benchmark"].to_numpy()
    size = np.bincount(data["benchmark_of_item"].to_numpy(), minlength=len(names))
    fewest = answered.groupby(level=0).min().reindex(range(len(names))).to_numpy()
    return pd.Series(fewest == size, index=[str(name) for name in names])


def averaged_over_all(tree: xr.DataTree, record: dict[str, Any]) -> "pd.Series[bool]":
    """Return in which benchmarks estimands average over all items, not those that were answered."""
    # As `over_all` decides when a fit is made.
    complete = same_items(tree)
    if record.get("items", "answered") != "all":
        return complete & False
    data = tree["constant_data"].to_dataset()
    keys = {name: data[f"{name}_of_response"].to_numpy() for name in ("model", "item")}
    models = pd.DataFrame(keys).drop_duplicates().groupby("item").size()
    of_item = data["benchmark_of_item"].to_numpy()[models.index]
    most = models.groupby(of_item).max().reindex(range(len(complete)), fill_value=0)
    has_difficulties = "sigma_delta" in tree["posterior"].data_vars
    return complete | ((most > 1).to_numpy() & has_difficulties)


def ranked(tree: xr.DataTree, record: dict[str, Any]) -> "pd.Series[bool]":
    """Return in which benchmarks models have ranks; see `Fit.ranked`."""
    rank = tree["estimands"]["rank"].isel(chain=0, draw=0)
    given = rank.notnull().any("model").to_series()
    given.index = given.index.map(str)
    # Before reference populations were stored, averages were over answered items.
    return given if "items" in record else given & same_items(tree)


def p_better(estimands: xr.Dataset, compared: "pd.Series[bool]") -> xr.DataArray:
    """Return how probably a model is better than another where they are compared.

    Dims (model, other, benchmark); see `Fit.p_better`.
    """
    names = EffectNames.among(estimands)
    name = "accuracy" if names is None else names.ability
    ability = estimands[name].transpose("chain", "draw", "model", "benchmark")
    models, benchmarks = ability["model"].to_numpy(), ability["benchmark"].to_numpy()
    better = np.full((len(models), len(models), len(benchmarks)), np.nan)
    answered = ability.isel(chain=0, draw=0).notnull().to_numpy()
    for b in np.flatnonzero(compared.to_numpy()):
        rows = np.flatnonzero(answered[:, b])
        draws = ability.to_numpy()[:, :, rows, b].reshape(-1, len(rows))
        better[np.ix_(rows, rows, [b])] = p_superior(draws)[..., None]
    coords = {"model": models, "other": models, "benchmark": benchmarks}
    return xr.DataArray(better, coords, ("model", "other", "benchmark"), name="p_better")
