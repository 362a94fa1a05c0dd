"""Summary: one row for each estimand of each model, benchmark and concept."""

from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.inference.convergence import convergence
from bayescontam.inference.ordering import first_places
from bayescontam.progress import progress_bar

LEVEL = 0.95
"""Default probability of intervals."""
COLUMNS = (
    "mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail", "r_hat", "p_positive", "mcse_mean",
)  # fmt: skip


def summarise(estimands: xr.Dataset, level: float = LEVEL, progress: bool = False) -> pd.DataFrame:
    """Summarise draws of estimands."""
    parts = []
    with progress_bar(progress, "judging", len(estimands.data_vars), "quantities") as advance:
        for name in estimands.data_vars:
            parts.append(_summarise(estimands[name], level))
            advance(1)
    dims = [str(dim) for dim in estimands["accuracy"].dims[2:]]
    table = pd.concat([part for part in parts if len(part)], ignore_index=True)
    table = table[[*dims, "quantity", *COLUMNS]]
    # In the order of models and benchmarks, estimands together.
    for dim in dims:
        table[dim] = pd.Categorical(table[dim], categories=list(estimands[dim].values))
    table = table.sort_values(dims, kind="stable", ignore_index=True)
    return table.astype(dict.fromkeys(dims, object))


def _summarise(draws: xr.DataArray, level: float) -> pd.DataFrame:
    values = draws.to_numpy()
    dims = [str(dim) for dim in draws.dims[2:]]
    cells = values.reshape(*values.shape[:2], -1)
    present = ~np.isnan(cells).all(axis=(0, 1))
    if not present.any():  # ranks, where models can be compared on no benchmark
        return pd.DataFrame()
    labels = [
        label
        for label, keep in zip(product(*(draws[d].values for d in dims)), present, strict=True)
        if keep
    ]
    table = pd.DataFrame(labels, columns=dims)
    table["quantity"] = str(draws.name)
    cells = cells[..., present]
    flat = cells.reshape(-1, cells.shape[2])
    tails = (1 - level) / 2, (1 + level) / 2
    table["mean"], table["sd"] = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    table["ci_low"], table["ci_high"] = np.quantile(flat, tails, axis=0)
    for name, column in convergence(cells).items():
        table[name] = column
    table["p_positive"] = (flat > 0).mean(axis=0)
    if draws.name != "rank":
        return table
    table["p_positive"] = np.nan
    first = first_places(values).mean(axis=(0, 1)).ravel()[present]
    best = table[[*dims]].assign(quantity="p_best", mean=first)
    return pd.concat([table, best], ignore_index=True)
