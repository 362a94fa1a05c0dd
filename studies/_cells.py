"""Draws of the accuracy of models on groups of items."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

import bayescontam as bc
from bayescontam.published.draws import accuracies, log_odds_of_mean_items

_Z = np.linspace(-8.0, 8.0, 321)
_WEIGHT = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Cells:
    """Draws of the accuracy of models on groups of items."""

    index: pd.MultiIndex  # `model, benchmark, group` of each column
    draws: np.ndarray  # dims (draw, cell)

    def of(self, model: str, benchmark: str, group: str) -> np.ndarray:
        """Return the draws of one cell."""
        values: np.ndarray = self.draws[:, self.index.get_loc((model, benchmark, group))]
        return values

    def gain(
        self, models: tuple[str, str], benchmark: str, group: str, other: str | None = None
    ) -> np.ndarray:
        """Return draws of the accuracy of one model on a group minus another's, on `other`."""
        return self.of(models[0], benchmark, group) - self.of(models[1], benchmark, other or group)


def expected_cells(fit: bc.Fit, responses: bc.Responses) -> Cells:
    """Return accuracies on new items of the groups: what single items differ by is averaged out."""
    names = _names(fit, responses)
    first = ~names.duplicated()
    center = log_odds_of_mean_items(fit, responses)[:, first]
    variance = effects_variance(fit.data["posterior"].to_dataset(), names[first])
    return Cells(names[first], logistic_mean(center, np.sqrt(variance)))


def own_cells(fit: bc.Fit, responses: bc.Responses) -> Cells:
    """Return accuracies on the very items that were answered, effects of items included."""
    names, p = _names(fit, responses), accuracies(fit, responses)
    cells = names[~names.duplicated()]
    means = [p[:, cells.get_indexer(names) == cell].mean(axis=1) for cell in range(len(cells))]
    return Cells(cells, np.stack(means, axis=1))


def _names(fit: bc.Fit, responses: bc.Responses) -> pd.MultiIndex:
    """Return model, benchmark and group of each response, in the order of the fit."""
    data = fit.data["constant_data"].to_dataset()
    keys = {
        name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()]
        for name in ("model", "benchmark", "item")
    }
    groups = responses.frame.set_index(list(keys))["group"]
    group = groups.loc[pd.MultiIndex.from_arrays(list(keys.values()))].to_numpy()
    arrays = [keys["model"], keys["benchmark"], group]
    return pd.MultiIndex.from_arrays(arrays, names=["model", "benchmark", "group"])


def effects_variance(posterior: xr.Dataset, cells: pd.MultiIndex) -> np.ndarray:
    """Return how much effects of items, and of items in a model, vary in each cell.

    Dims (draw, cell).
    """
    names = {
        dim: xr.DataArray(cells.get_level_values(dim).to_numpy(), dims="cell")
        for dim in ("model", "benchmark")
    }
    variance = np.zeros((posterior.sizes["chain"] * posterior.sizes["draw"], len(cells)))
    for name in ("sigma_delta", "sigma_eps"):
        if name in posterior:
            own = {dim: names[dim] for dim in names if dim in posterior[name].dims}
            sd = posterior[name].sel(own).stack(sample=("chain", "draw"))
            variance += sd.transpose("sample", ...).to_numpy().reshape(len(variance), -1) ** 2
    return variance


def logistic_mean(center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the mean of logistic(center + spread × z) over a standard Normal z.

    >>> logistic_mean(np.array([[0.0, 2.0]]), np.array([[0.0, 0.0]])).round(3).tolist()
    [[0.5, 0.881]]
    """
    pairs = zip(center.T, spread.T, strict=True)
    columns = [expit(mean[:, None] + sd[:, None] * _Z) @ _WEIGHT for mean, sd in pairs]
    return np.stack(columns, axis=1)
