"""Figures of draws: mean, interval and ranks, with those of how far chains have converged."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, product

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayescontam._progress import progress_bar
from bayescontam._text import join_list
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import UsageError
from bayescontam.inference.convergence import convergence

LEVEL = 0.95
"""Default probability of intervals."""
COLUMNS = (
    "mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail", "r_hat", "p_positive", "mcse_mean",
)  # fmt: skip

WEIGHTED_COLUMNS = ("mean", "sd", "ci_low", "ci_high", "ess", "p_positive", "mcse_mean")


def describe(draws: FloatArray, level: float) -> dict[str, FloatArray]:
    """Return mean, standard deviation and equal-tailed interval over the first axis."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    sd = draws.std(axis=0, ddof=1)
    return {"mean": draws.mean(axis=0), "sd": sd, "ci_low": low, "ci_high": high}


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

    def describe(self, draws: FloatArray, level: float) -> dict[str, FloatArray]:
        """Return weighted figures of each column, from dims (draw, column)."""
        error, positive = self._errors(draws), self.share @ (draws > 0)
        mean = np.where(np.isnan(error), draws[0], self.share @ draws)
        variance = self.share @ (draws - mean) ** 2
        ends = np.array([self.interval(column, level) for column in draws.T])
        with np.errstate(divide="ignore", invalid="ignore"):
            # Rare values can make the error look smaller than draws can be worth.
            worth = np.minimum(variance / error**2, len(draws))
        return {
            "mean": mean,
            "sd": np.sqrt(variance),
            "ci_low": ends[:, 0],
            "ci_high": ends[:, 1],
            "ess": np.where(error > 0, worth, np.nan),
            "p_positive": np.minimum(positive, 1.0),
            "mcse_mean": error,
        }

    def _errors(self, draws: FloatArray) -> FloatArray:
        """Return the Monte Carlo standard errors of weighted means; NaN for a constant."""
        # That of a ratio of means is that of the mean of their difference; draws of the fit that do
        # not count are zeros in it, and the chains' correlation is counted.
        moving = np.ptp(draws, axis=0) > 0
        result = np.full(len(moving), np.nan)
        if moving.any():
            away = draws[:, moving] - self.share @ draws[:, moving]
            terms = np.stack([self.of_fit(column) for column in away.T], axis=-1)
            size = self.shape[0] * self.shape[1]
            result[moving] = convergence(size * terms, only=["mcse_mean"])["mcse_mean"]
        return result

    def interval(self, values: FloatArray, level: float) -> tuple[float, float]:
        """Return the equal-tailed interval that holds `level` of the weight."""
        # That of `numpy.quantile` where all draws count alike.
        order = np.argsort(values, kind="stable")
        share = self.share[order]
        passed = np.arange(len(share)) / max(len(share) - 1, 1)  # of a draw's own weight
        below = np.cumsum(share) - share + share * passed
        low, high = np.interp([(1 - level) / 2, (1 + level) / 2], below, values[order])
        return float(low), float(high)


def summarise(
    estimands: xr.Dataset,
    level: float = LEVEL,
    weights: DrawWeights | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Summarise draws of estimands, dims (chain, draw, …); one chain, if they have weights."""
    parts, columns = [], COLUMNS if weights is None else WEIGHTED_COLUMNS
    dims = [str(dim) for dim in estimands["accuracy"].dims[2:]]
    estimands = with_p_best(estimands)
    with progress_bar(progress, "judging", len(estimands.data_vars), "quantities") as advance:
        for name in estimands.data_vars:
            parts.append(_rows(estimands[name], level, weights))
            advance(1)
    table = pd.concat([part for part in parts if len(part)], ignore_index=True)
    table = table[[*dims, "quantity", *columns]]
    # In the order of models and benchmarks, estimands together.
    for dim in dims:
        table[dim] = pd.Categorical(table[dim], categories=list(estimands[dim].values))
    table = table.sort_values(dims, kind="stable", ignore_index=True)
    return table.astype(dict.fromkeys(dims, object))


def summarise_concepts(tree: xr.DataTree, level: float) -> pd.DataFrame:
    """Return rows as of `summarise` of the estimands by concept, with ``concept``."""
    table = summarise(tree["estimands_by_concept"].to_dataset(), level)
    units = tree["constant_data"].to_dataset()
    names = units["benchmark"].to_numpy()[units["benchmark_of_concept"].to_numpy()]
    benchmark = dict(zip(units["concept"].to_numpy(), names, strict=True))
    table.insert(1, "benchmark", table["concept"].map(benchmark))
    return table


def tidy_draws(estimands: xr.Dataset, quantities: Sequence[str]) -> pd.DataFrame:
    """Return draws of quantities, of all if none is named; see `Fit.draws`."""
    names = list(quantities) or [str(name) for name in estimands.data_vars]
    if strange := [name for name in names if name not in estimands.data_vars]:
        others = join_list(map(str, estimands.data_vars))
        raise UsageError(f"draws: the fit has no {join_list(strange)}; it has {others}")
    order = ["chain", "draw", "model", "benchmark"]
    table = estimands[names].to_dataframe(dim_order=order)
    return table.dropna(how="all").reset_index()


def with_p_best(estimands: xr.Dataset) -> xr.Dataset:
    """Return estimands with, after ranks, the part of the first place that each draw gives."""
    if "rank" not in estimands or "p_best" in estimands:
        return estimands
    data = {}
    for name, values in estimands.data_vars.items():
        data[name] = values
        if name == "rank":
            data["p_best"] = values.copy(data=p_best(values.to_numpy()))
    return xr.Dataset(data)


def _rows(draws: xr.DataArray, level: float, weights: DrawWeights | None) -> pd.DataFrame:
    dims = [str(dim) for dim in draws.dims[2:]]
    cells = draws.to_numpy()
    cells = cells.reshape(*cells.shape[:2], -1)
    present = ~np.isnan(cells).all(axis=(0, 1))
    if not present.any():  # ranks, where models can be compared on no benchmark
        return pd.DataFrame()
    cells = cells[..., present]
    flat = cells.reshape(-1, cells.shape[2])
    labels = compress(product(*(draws[dim].values for dim in dims)), present)
    table = pd.DataFrame(list(labels), columns=dims).assign(quantity=str(draws.name))
    if draws.name == "p_best":
        mean = flat.mean(axis=0) if weights is None else np.minimum(weights.share @ flat, 1.0)
        return table.assign(mean=mean)
    if weights is not None:
        table = table.assign(**weights.describe(flat, level))
    else:
        figures = describe(flat, level) | convergence(cells)
        table = table.assign(**figures, p_positive=(flat > 0).mean(axis=0))
    if draws.name != "rank":
        return table
    # Ends are ranks that draws have: no model is between the second and the third.
    tails = [(1 - level) / 2, (1 + level) / 2]
    share = None if weights is None else weights.share
    low, high = np.quantile(flat, tails, axis=0, method="inverted_cdf", weights=share)
    return table.assign(p_positive=np.nan, ci_low=low, ci_high=high)


def ranks(ability: FloatArray, axis: int = -2) -> FloatArray:
    """Return ranks of models along an axis, 1 for the largest; equal ones share their mean rank.

    >>> ranks(np.array([[0.2, 0.9, 0.2], [0.3, 0.2, 0.1]]), axis=1).tolist()
    [[2.5, 1.0, 2.5], [1.0, 2.0, 3.0]]
    """
    # Abilities that are equal by the model spec, as those of identical twins, differ by rounding.
    result: FloatArray = rankdata(-np.round(ability, 12), method="average", axis=axis)
    return result


def p_best(ranks: FloatArray) -> FloatArray:
    """Return which part of the first place each model has, dims (…, model, benchmark).

    >>> p_best(np.array([[1.5], [3.0], [1.5]])).ravel().tolist()
    [0.5, 0.0, 0.5]
    >>> p_best(np.array([[np.nan, np.nan], [1.0, np.nan]])).tolist()
    [[nan, nan], [1.0, nan]]
    """
    first = ranks == np.fmin.reduce(ranks, axis=-2, keepdims=True)
    parts: FloatArray = first / np.maximum(first.sum(axis=-2, keepdims=True), 1)
    return np.where(np.isnan(ranks), np.nan, parts)


def p_superior(ability: FloatArray) -> FloatArray:
    """Return the share of draws in which a model is better than another, dims (model, other).

    >>> p_superior(np.array([[0.5, 0.4], [0.5, 0.6], [0.5, 0.5], [0.5, 0.1]])).tolist()
    [[nan, 0.625], [0.375, nan]]
    """
    # One model at a time: memory grows with draws and models, never with pairs in every draw.
    columns = np.ascontiguousarray(ability.T)
    count, draws = columns.shape
    wins = np.full((count, count), np.nan)
    for model in range(count - 1):
        others = columns[model + 1 :]
        above = np.count_nonzero(columns[model] > others, axis=1)
        below = np.count_nonzero(columns[model] < others, axis=1)
        ties = draws - above - below
        wins[model, model + 1 :] = above + ties / 2
        wins[model + 1 :, model] = below + ties / 2
    return wins / draws


def p_all_differences(ability: FloatArray, above: NDArray[np.bool_]) -> float:
    """Return the share of draws in which every one of some orders holds.

    >>> above = np.array([[False, True, True], [False, False, False], [False, False, False]])
    >>> p_all_differences(np.array([[0.5, 0.4, 0.1], [0.5, 0.6, 0.1]]), above)
    0.5
    """
    columns = np.ascontiguousarray(ability.T)
    holds = np.ones(columns.shape[1], dtype=bool)
    for model, others in enumerate(above):
        holds &= (columns[model] > columns[others]).all(axis=0)
    return float(holds.mean())


def simultaneous_intervals(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return intervals that hold all columns at once in a share `level` of the draws.

    Besag, Green, Higdon & Mengersen (1995), section 6.3, doi:10.1214/ss/1177010123.

    >>> draws = np.array([[1, 2], [1, 2], [1, 2], [2, 1]])
    >>> [ends.tolist() for ends in simultaneous_intervals(draws, 0.75)]
    [[1, 2], [1, 2]]
    """
    # Each column's interval lies between its k-th smallest and its k-th largest draw, with the
    # smallest k for which enough draws lie inside in every column.
    count = len(values)
    # Of equal draws the position that lies inside the narrower interval.
    from_below = rankdata(values, method="min", axis=0)
    from_above = count + 1 - rankdata(values, method="max", axis=0)
    outermost = np.maximum(from_below, from_above).max(axis=1)
    k = int(np.sort(outermost)[int(np.ceil(level * count - 1e-9)) - 1])
    ordered = np.sort(values, axis=0)
    return ordered[count - k], ordered[k - 1]
