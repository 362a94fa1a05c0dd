"""Mean, standard deviation and interval of draws, weighted or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._progress import progress_bar
from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.convergence import convergence
from bayescontam.inference.rank_statistics import p_best

LEVEL = 0.95
"""Default probability of intervals."""
COLUMNS = (
    "mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail", "r_hat", "p_positive", "mcse_mean",
)  # fmt: skip

WEIGHTED_COLUMNS = ("mean", "sd", "ci_low", "ci_high", "ess", "p_positive", "mcse_mean")


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
    first = p_best(values).mean(axis=(0, 1)).ravel()[present]
    best = table[[*dims]].assign(quantity="p_best", mean=first)
    return pd.concat([table, best], ignore_index=True)


@dataclass(frozen=True, eq=False)
class DrawWeights:
    """How much each of some draws counts, and which draw of a fit it belongs to."""

    share: FloatArray  # dims (draw,): they sum to one
    # dims (draw,): positions among the fit's draws, chains joined. Several may be equal.
    origin: IntArray
    shape: tuple[int, int]  # numbers of chains of the fit, and of draws in each

    @property
    def ess(self) -> float:
        """How many equally weighted draws of the fit they are worth."""
        return float(1 / (self.of_fit(np.ones(len(self.share))) ** 2).sum())

    def of_fit(self, values: FloatArray) -> FloatArray:
        """Return sums of weighted values over each draw of the fit, dims (chain, draw)."""
        size = self.shape[0] * self.shape[1]
        return np.bincount(self.origin, self.share * values, minlength=size).reshape(self.shape)

    def errors(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Return the Monte Carlo standard errors of weighted means, dims (column,).

        That of a ratio of means is that of the mean of their difference; draws of the fit
        that do not count are zeros in it, and the chains' correlation is counted. NaN for
        a constant.
        """
        size, moving = self.shape[0] * self.shape[1], [np.ptp(values) > 0 for values in columns]
        result = np.full(len(columns), np.nan)
        terms = [
            size * self.of_fit(values - (values * self.share).sum())
            for values, moves in zip(columns, moving, strict=True)
            if moves
        ]
        if terms:
            result[moving] = convergence(np.stack(terms, -1), only=["mcse_mean"])["mcse_mean"]
        return result

    def interval(self, values: FloatArray, level: float) -> tuple[float, float]:
        """Return the ends of the equal-tailed interval that holds `level` of the weight.

        Those of `numpy.quantile` if all draws count the same.
        """
        order = np.argsort(values, kind="stable")
        share = self.share[order]
        passed = np.arange(len(share)) / max(len(share) - 1, 1)  # of a draw's own weight
        below = np.cumsum(share) - share + share * passed
        low, high = np.interp([(1 - level) / 2, (1 + level) / 2], below, values[order])
        return float(low), float(high)


def summarise_weighted(
    estimands: xr.Dataset, weights: DrawWeights, level: float, first: xr.DataArray | None = None
) -> pd.DataFrame:
    """Summarise weighted draws of one model's estimands."""
    dim = str(estimands["accuracy"].dims[2])
    cells = [
        (label, str(name), values.sel({dim: label}).to_numpy()[0])
        for label in estimands[dim].to_numpy()
        for name, values in estimands.data_vars.items()
    ]
    cells = [cell for cell in cells if not np.isnan(cell[2]).all()]
    errors = weights.errors([draws for _, _, draws in cells])
    rows = []
    for (label, name, draws), error in zip(cells, errors, strict=True):
        row = {dim: label, "quantity": name} | _figures(draws, float(error), weights, level)
        rows.append(row)
        if name == "rank":
            row["p_positive"] = np.nan
            part = draws == 1 if first is None else first.sel({dim: label}).to_numpy()[0]
            best = min(1.0, float((weights.share * part).sum()))
            rows.append({dim: label, "quantity": "p_best", "mean": best})
    return pd.DataFrame(rows)[[dim, "quantity", *WEIGHTED_COLUMNS]]


def _figures(
    draws: FloatArray, error: float, weights: DrawWeights, level: float
) -> dict[str, float]:
    mean = float(draws[0] if np.isnan(error) else (draws * weights.share).sum())
    variance = float((weights.share * (draws - mean) ** 2).sum())
    low, high = weights.interval(draws, level)
    return {
        "mean": mean,
        "sd": np.sqrt(variance),
        "ci_low": low,
        "ci_high": high,
        # Rare values can make the error look smaller than draws can be worth.
        "ess": min(variance / error**2, len(draws)) if error > 0 else np.nan,
        "p_positive": min(1.0, float(weights.share[draws > 0].sum())),
        "mcse_mean": error,
    }
