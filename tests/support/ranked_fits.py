"""Fits whose draws of abilities are given: all that a ranking reads, and nothing else."""

import json

import numpy as np
import xarray as xr

from bayescontam.inference.estimands import ranks
from bayescontam.inference.result import Fit


def ranked_fit(
    ability: np.ndarray,
    raw: np.ndarray | None = None,
    items: np.ndarray | None = None,
    names: tuple[list[str], list[str]] | None = None,
    contaminated: bool = True,
) -> Fit:
    """Return a fit of these abilities.

    Parameters
    ----------
    ability : array
        Dims (chain, draw, model, benchmark); NaN where a model answered nothing.
    raw : array, optional
        Dims (model, benchmark); default: mean abilities.
    items : array of int, optional
        Numbers of items that a model answered, dims (model, benchmark): always the first
        of them. Default: 2 each.
    names : tuple of list of str, optional
        Of models and benchmarks; default: m0, m1, … and b0, b1, ….
    contaminated : bool
        Whether the abilities are genuine ones, or plain accuracies.
    """
    models, benchmarks = ability.shape[2:]
    labels = names or ([f"m{i}" for i in range(models)], [f"b{i}" for i in range(benchmarks)])
    raw = ability.mean(axis=(0, 1)) if raw is None else raw
    items = np.full((models, benchmarks), 2) if items is None else items
    items = np.where(np.isnan(raw), 0, items)
    coords = dict(zip(("model", "benchmark"), labels, strict=True))
    draws = ("chain", "draw", "model", "benchmark"), ability
    # Accuracy is another order, so that the two cannot be mistaken.
    rank = draws[0], np.where(np.isnan(ability), np.nan, ranks(np.nan_to_num(ability)))
    estimands = {"accuracy": (draws[0], 1 - ability), "genuine_ability_direct": draws}
    record = {"level": 0.95, "checks": [], "spec": {"name": "made"}, "items": "all"}
    groups = {
        "estimands": xr.Dataset(
            {"rank": rank} | (estimands if contaminated else {"accuracy": draws}), coords
        ),
        "predictive": xr.Dataset({"score": (("model", "benchmark"), raw)}, coords),
        "constant_data": _answers(items, coords),
        "record": xr.Dataset({"json": json.dumps(record)}),
    }
    return Fit(xr.DataTree.from_dict(groups))


def _answers(items: np.ndarray, coords: dict[str, list[str]]) -> xr.Dataset:
    sizes = items.max(axis=0)
    first = np.cumsum([0, *sizes[:-1]])
    rows = [
        (m, b, first[b] + i) for (m, b), count in np.ndenumerate(items) for i in range(int(count))
    ]
    model, benchmark, item = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    data = {
        "model_of_response": ("response", model),
        "benchmark_of_response": ("response", benchmark),
        "item_of_response": ("response", item),
        "weight": ("response", np.ones(len(rows))),
        "benchmark_of_item": ("item", np.repeat(np.arange(len(sizes)), sizes)),
    }
    names = [f"i{i}" for i in range(int(sizes.sum()))]
    return xr.Dataset(data, coords | {"item": names})
