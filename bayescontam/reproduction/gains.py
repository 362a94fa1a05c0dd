"""Gains: how much more often a model solves the items of a group than another model does."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from bayescontam._types import FloatArray
from bayescontam.inference.build import build
from bayescontam.inference.draws import predictor, take_draws
from bayescontam.inference.fitted import Fit
from bayescontam.inference.joint_draws import joint_draws
from bayescontam.responses import Responses

_Z = np.linspace(-8.0, 8.0, 321)
_WEIGHT = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Cells:
    """Draws of the accuracy of models on groups of items."""

    index: pd.MultiIndex  # `model, benchmark, group` of each column
    draws: FloatArray  # dims (draw, cell)

    def of(self, model: str, benchmark: str, group: str) -> FloatArray:
        """Return the draws of one cell."""
        values: FloatArray = self.draws[:, self.index.get_loc((model, benchmark, group))]
        return values

    def gain(
        self, models: tuple[str, str], benchmark: str, groups: tuple[str, str | None]
    ) -> FloatArray:
        """Return draws of the accuracy of one model minus that of another."""
        group, other = groups[0], groups[1] or groups[0]
        return self.of(models[0], benchmark, group) - self.of(models[1], benchmark, other)


def expected_cells(fit: Fit, responses: Responses, group: str) -> Cells:
    """Return accuracies on new items of the groups, what single items differ by averaged out."""
    built = build(fit.spec, responses)
    draws = take_draws(fit.tree["posterior"].to_dataset(), built.design)
    center = predictor(replace(draws, delta=None), built.design)
    first, index = _cells_of(fit, responses.frame, group)
    variance = effects_variance(fit.tree["posterior"].to_dataset(), index)
    return Cells(index, logistic_mean(center[:, first], np.sqrt(variance)))


def effects_variance(posterior: xr.Dataset, cells: pd.MultiIndex) -> FloatArray:
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


def logistic_mean(center: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the mean of logistic(center + spread × z) over a standard Normal z.

    >>> logistic_mean(np.array([[0.0, 2.0]]), np.array([[0.0, 0.0]])).round(3).tolist()
    [[0.5, 0.881]]
    """
    pairs = zip(center.T, spread.T, strict=True)
    columns = [expit(mean[:, None] + sd[:, None] * _Z) @ _WEIGHT for mean, sd in pairs]
    return np.stack(columns, axis=1)


def own_cells(fit: Fit, responses: Responses, group: str) -> Cells:
    """Return accuracies on the very items that were answered, effects of items included."""
    draws = joint_draws(fit, build(fit.spec, responses))
    assert draws.eta is not None
    p = expit(draws.eta)
    labels = _labels(fit, responses.frame, group)
    codes, index = pd.factorize(pd.MultiIndex.from_frame(labels))
    means = [p[:, codes == cell].mean(axis=1) for cell in range(len(index))]
    return Cells(_named(index), np.stack(means, axis=1))


def _cells_of(fit: Fit, frame: pd.DataFrame, group: str) -> tuple[Any, pd.MultiIndex]:
    """Return the first response of each cell, and the cells' names."""
    labels = _labels(fit, frame, group)
    first = ~labels.duplicated()
    return np.flatnonzero(first), _named(pd.MultiIndex.from_frame(labels[first]))


def _named(index: Any) -> pd.MultiIndex:
    return pd.MultiIndex.from_tuples(list(index), names=["model", "benchmark", "group"])


def _labels(fit: Fit, frame: pd.DataFrame, group: str) -> pd.DataFrame:
    """Return model, benchmark and group of each response, in the order of the fit."""
    data = fit.tree["constant_data"].to_dataset()
    keys = {
        name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()]
        for name in ("model", "benchmark", "item")
    }
    groups = frame.set_index(["model", "benchmark", "item"])[group]
    labels = pd.DataFrame(keys)
    return pd.DataFrame(
        {
            "model": labels["model"],
            "benchmark": labels["benchmark"],
            "group": groups.loc[pd.MultiIndex.from_frame(labels)].to_numpy(),
        }
    )
