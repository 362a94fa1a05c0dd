"""Exposures, contrasts and summaries that published analyses share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit

from bayescontam._types import FloatArray
from bayescontam.data.importers.base import LeftOut, objects
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.posterior import predictor, stack_draws
from bayescontam.inference.result import Fit, joint_draws
from bayescontam.model.build import build

Random = np.random.Generator

_MOST = 0.999
"""Largest standard deviation, as a share of that of a yes-or-no event of the same mean."""
_Z = np.linspace(-8.0, 8.0, 321)
_WEIGHT = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()
MeanAndInterval = tuple[float, float, float]
"""Mean, and the ends of the 95 % equal-tailed interval."""
TAILS = (0.025, 0.975)


def given_exposures(mean: FloatArray, sd: FloatArray, draws: int, rng: Random) -> FloatArray:
    """Draw exposures that are given with their standard deviations.

    Dims (draw, concept).
    """
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    possible = (mean > 0) & (mean < 1) & (sd > 0) & (sd**2 < mean * (1 - mean))
    if not possible.all():
        worst = int(np.flatnonzero(~possible)[0])
        raise UsageError(
            f"exposures: concept {worst + 1} has mean {mean[worst]:g} and standard deviation"
            f" {sd[worst]:g}; allowed are means between 0 and 1, and deviations above 0 and below"
            " sqrt(mean × (1 − mean))"
        )
    size = mean * (1 - mean) / sd**2 - 1
    result: FloatArray = rng.beta(mean * size, (1 - mean) * size, size=(draws, len(mean)))
    return result


def counted_exposures(counts: NDArray[Any], share: float, draws: int, rng: Random) -> FloatArray:
    """Draw exposures that follow from counts in a sampled corpus.

    Dims (draw, concept).
    """
    counts = np.asarray(counts)
    if not 0 < share <= 1 or (counts < 0).any():
        raise UsageError(
            f"exposures: got counts from {counts.min()} and a share of {share:g}; allowed are"
            " counts of 0 or more and shares above 0 up to 1"
        )
    documents = rng.gamma(counts + 0.5, 1 / share, size=(draws, len(counts)))
    logs = np.log1p(documents)
    result: FloatArray = logs / logs.max(axis=1, keepdims=True)
    return result


def documents_with(corpus: Path, words: dict[str, list[str]]) -> NDArray[Any]:
    """Return in how many documents each concept is met: any of its words stands there."""
    counts, left_out = np.zeros(len(words), dtype=int), LeftOut()
    for place, document in objects(corpus, left_out):
        text = document.get("text")
        if not isinstance(text, str):
            left_out.broken(str(corpus), place, "has no 'text'")
            continue
        there = set("".join(c if c.isalnum() else " " for c in text).lower().split())
        counts += [not there.isdisjoint(own) for own in words.values()]
    left_out.raise_if_broken("fix these lines, or give another folder (--data)")
    return counts


def covariates_of(draws: FloatArray, benchmark: str, items: list[str]) -> pd.DataFrame:
    """Return covariates: mean and standard deviation of each task's contamination."""
    mean = draws.mean(axis=0)
    sd = np.minimum(draws.std(axis=0), _MOST * np.sqrt(mean * (1 - mean)))
    return pd.DataFrame(
        {"benchmark": benchmark, "item": items, "contamination": mean, "contamination_sd": sd}
    )


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
    draws = stack_draws(fit.tree["posterior"].to_dataset(), built.design)
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


def mean_and_interval(draws: Any) -> MeanAndInterval:
    """Return the mean of draws with their 95 % equal-tailed interval.

    >>> [round(number, 3) for number in mean_and_interval(np.array([[0.0, 1.0], [2.0, 3.0]]))]
    [1.5, 0.075, 2.925]
    """
    values = np.asarray(draws, dtype=float).ravel()
    low, high = np.quantile(values, TAILS)
    return float(values.mean()), float(low), float(high)


def row_of(draws: Any) -> dict[str, float]:
    """Return mean, low and high of draws as columns of a table."""
    return dict(zip(("mean", "low", "high"), mean_and_interval(draws), strict=True))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a table as tuples with the columns' names."""
    yield from table.itertuples(index=False)
