"""Weighted: draws of estimands that count more or less, summarised."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.convergence import convergence

COLUMNS = ("mean", "sd", "ci_low", "ci_high", "ess", "p_positive", "mcse_mean")


@dataclass(frozen=True, eq=False)
class Weights:
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
    estimands: xr.Dataset, weights: Weights, level: float, first: xr.DataArray | None = None
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
    return pd.DataFrame(rows)[[dim, "quantity", *COLUMNS]]


def _figures(draws: FloatArray, error: float, weights: Weights, level: float) -> dict[str, float]:
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
