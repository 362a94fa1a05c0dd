"""Leave-one-out cross-validation by Pareto-smoothed importance sampling."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.utils import ELPDDataLOO
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.posterior import (
    CHUNK,
    Draws,
    joint_log_density,
    node_probabilities,
)
from bayescontam.inference.predictive import Prediction, predictive_draws
from bayescontam.inference.psis import max_pareto_k, psis_weights
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.exposure import Exposure, draw_nodes
from bayescontam.model.likelihood import log_sum_exp
from bayescontam.model.marginal import Lattice
from bayescontam.model.quadrature import log_weights

MIN_DRAWS = 30
"""Pareto k is estimated from the largest fifth of few draws, and of five none can be."""


def stored_loo(tree: xr.DataTree) -> ELPDDataLOO:
    """Return the PSIS-LOO of a fit's tree, responses in the order of (model, benchmark, item)."""
    data, loo = tree["constant_data"].to_dataset(), tree["loo"].to_dataset()
    labels = {
        name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()]
        for name in ("model", "benchmark", "item")
    }
    order = pd.MultiIndex.from_arrays(list(labels.values())).argsort()
    coords: dict[str, Any] = {name: ("response", at[order]) for name, at in labels.items()}
    elpd, pareto_k = (
        xr.DataArray(loo[name].to_numpy()[order], coords, "response", name=name)
        for name in ("elpd", "pareto_k")
    )
    good_k = max_pareto_k(loo.sizes["kept_draw"])
    elpd = elpd.assign_coords(group=("response", np.arange(elpd.size)), reliable=pareto_k <= good_k)
    parameters = float((loo["log_density"] - loo["elpd"]).sum())
    figures = elpd_figures(elpd, parameters, loo.sizes["kept_draw"])
    return ELPDDataLOO(**figures, good_k=good_k, pareto_k=pareto_k)


def elpd_figures(elpd: xr.DataArray, parameters: float, draws: int) -> dict[str, Any]:
    """Return the fields of ArviZ's ELPD objects that follow from each unit's, and its group."""
    return {
        "elpd": float(elpd.sum()),
        "se": sum_se(elpd),
        "p": parameters,
        "n_samples": draws,
        "n_data_points": elpd.size,
        "scale": "log",
        "warning": not bool(elpd["reliable"].all()),
        "elpd_i": elpd,
    }


def sum_se(values: xr.DataArray) -> float:
    """Return the standard error of a sum over units; those of a ``group`` depend on another."""
    sums = np.bincount(values["group"].to_numpy(), values.to_numpy())
    return float(np.sqrt(len(sums) * np.var(sums, ddof=1)))


def can_pool(built: BuiltModel) -> bool:
    """Whether responses are so many more than their kinds that leaving kinds out is cheaper."""
    lattice, design = built.lattice, built.design
    if lattice is None or lattice.mixture is not None or design.n_single < len(design):
        return False
    return 2 * len(Kinds.of(lattice).level) * len(design.models) < len(design)


@dataclass(frozen=True, eq=False)
class Kinds:
    """Items of one level and total, which are all alike."""

    # level, total: one for each kind
    level: IntArray
    total: IntArray
    count: FloatArray  # items of the kind: a sum of weights of levels
    place: IntArray  # dims (level, total): position of the kind, -1 where there is none

    @classmethod
    def of(cls, lattice: Lattice) -> "Kinds":
        """Return the kinds of a lattice."""
        level, total, count = lattice.classes
        place = np.full((len(lattice.trials), int(lattice.total.max()) + 1), -1)
        place[level, total] = np.arange(len(level))
        return cls(level, total, count, place)


def pooled_leave_one_out(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> xr.Dataset:
    """Compute PSIS-LOO of every response, by kinds of responses."""
    # An item's difficulty is integrated out given the other responses to it, not drawn given all of
    # them: weights of draws hardly differ, and importance sampling is the better for it. What
    # results depends on the item by its total and contamination alone, so that it is computed at
    # the lattice's levels and read off between them.
    lattice, design = built.lattice, built.design
    assert lattice is not None
    kinds = Kinds.of(lattice)
    trials = lattice.trials[kinds.level]
    # Whether there can be such a response, dims (kind, model, wrong or right).
    possible = np.stack([kinds.total < trials.sum(axis=1), kinds.total > 0], axis=-1)
    possible = (trials > 0)[:, :, None] & possible[:, None, :]
    chosen = predictive_draws(draws, int(possible.sum()))
    density, joint = np.empty((len(chosen), int(possible.sum()))), np.empty(len(chosen))
    chance_of = np.zeros(density.shape[1])
    for row, d in enumerate(chosen):
        left_out, own, joint[row] = _pooled_densities(draws[d : d + 1], lattice, kinds)
        density[row] = left_out[possible]
        chance_of += own[possible]
    step = max(1, CHUNK // len(density))
    parts = []
    for start in range(0, density.shape[1], step):
        some = np.ascontiguousarray(density[:, start : start + step].T)
        log_weights, pareto_k = psis_weights(-some)
        parts.append((log_sum_exp(log_weights + some, axis=1), pareto_k))
    elpd, pareto_k = (np.concatenate(part) for part in zip(*parts, strict=True))
    log_density = np.log(chance_of / len(chosen))
    estimates = {"elpd": elpd, "pareto_k": pareto_k, "log_density": log_density}
    data = _at_responses(estimates, possible, design, lattice, kinds)
    right, chance = design.n_correct == 1, np.exp(data["elpd"])
    below = np.where(right, 1 - chance, 0.0)
    data["pit"] = np.clip(below + rng.random(len(design)) * chance, 0, 1)
    columns = {name: ("response", values) for name, values in data.items()}
    coords = {"kept_draw": chosen, "response": design.coords["response"]}
    return xr.Dataset(columns | {"log_likelihood": ("kept_draw", joint)}, coords)


def _at_responses(
    estimates: dict[str, FloatArray],
    possible: np.ndarray,
    design: Design,
    lattice: Lattice,
    kinds: Kinds,
) -> dict[str, FloatArray]:
    """Return for every response the interpolated estimates of the kinds around it."""
    number = np.full(possible.shape, -1)
    number[possible] = np.arange(int(possible.sum()))
    result: dict[str, FloatArray] = {name: np.empty(len(design)) for name in estimates}
    step = max(1, CHUNK // lattice.basis.shape[1])
    for start in range(0, len(design), step):
        rows = slice(start, start + step)
        item = design.item[rows]
        weights = lattice.basis[item]
        kind = kinds.place[lattice.level[item], lattice.total[item, None]]
        own = number[kind, design.model[rows, None], design.n_correct[rows, None]]
        nearest = np.abs(weights).argmax(axis=1)[:, None]
        for name, values in estimates.items():
            if name == "pareto_k":
                result[name][rows] = values[np.take_along_axis(own, nearest, axis=1)[:, 0]]
            else:
                result[name][rows] = (weights * values[own]).sum(axis=1)
    return result


def _pooled_densities(
    draw: Draws, lattice: Lattice, kinds: Kinds
) -> tuple[FloatArray, FloatArray, float]:
    """Return how probable responses are in one draw, dims (kind, model, wrong or right)."""
    z = lattice.nodes
    level, added, normaliser = node_probabilities(draw, lattice, z)
    weighted = (kinds.total * added[kinds.level])[:, None] * z
    each = weighted - normaliser[kinds.level] + log_weights(z)
    top = each.max(axis=1)
    weight = np.exp(each - top[:, None])
    whole = weight.sum(axis=1)
    every = np.zeros((*kinds.place.shape, len(z)))  # dims (level, total, node)
    every[kinds.level, kinds.total] = weight
    eta = level[:, None] + (added[:, None] * z)[:, :, None]
    odds = np.exp(np.clip(eta, -700, 700))  # so that no product is of 0 and infinity
    inverse = 1 / odds
    chances = np.concatenate([1 / (1 + odds), 1 / (1 + inverse)], axis=2)
    sums = every @ np.concatenate([odds, inverse, chances], axis=2)
    sums = sums[kinds.level, kinds.total].reshape(len(whole), 2, 2, -1)
    excess, own = np.moveaxis(sums, 1, 0).swapaxes(2, 3)
    log_all = kinds.count @ (np.log(whole) + top) + (lattice.correct * level).sum()
    whole = whole[:, None, None]
    # The others' density is that of all responses over this one's: 1 + odds times as large, or
    # 1 + 1 / odds.
    return np.log(whole) - np.log(whole + excess), own / whole, float(log_all)


def leave_one_out(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> xr.Dataset:
    """Compute PSIS-LOO of every response."""
    # The left-out unit is a response: one model's answers to one item. Where responses have an
    # effect of their own, it is integrated out: given that effect a response would hardly depend on
    # the others, and importance sampling would fail. Where responses share an unknown
    # contamination, it is summed out given the others. Vehtari, Gelman & Gabry (2017),
    # doi:10.1007/s11222-016-9696-4; on integrating effects out Merkle, Furr & Rabe-Hesketh (2019),
    # doi:10.1007/s11336-019-09679-0.
    if can_pool(built):
        return pooled_leave_one_out(draws, built, rng)
    design = built.design
    nodes = 1 if design.exposure is None else design.exposure.nodes.shape[1]
    chosen = predictive_draws(draws, len(design) * nodes)
    predictive = Prediction(draws[chosen], built)
    parts, order, joint = [], [], np.zeros(len(chosen))
    for rows, density, center, together in _densities(predictive, rng):
        joint += together
        estimates, log_weights = _left_out(density)
        pit = _pit(predictive, rows, center, log_weights, estimates["elpd"], rng)
        parts.append(estimates | {"pit": pit})
        order.append(rows)
    if built.lattice is not None:  # not that given the difficulties that were drawn
        joint = np.array([joint_log_density(draws[d : d + 1], built.lattice) for d in chosen])
    back = np.argsort(np.concatenate(order))
    columns = {name: np.concatenate([p[name] for p in parts])[back] for name in parts[0]}
    data = {name: ("response", values) for name, values in columns.items()}
    coords = {"kept_draw": chosen, "response": design.coords["response"]}
    return xr.Dataset(data | {"log_likelihood": ("kept_draw", joint)}, coords)


def log_likelihoods(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> FloatArray:
    """Return the log density of each response as `leave_one_out` has it, dims (draw, response)."""
    # Its own effect is integrated out, and an unknown contamination given the other responses that
    # share it; difficulties that were integrated out are those that were drawn again.
    result = np.empty((len(draws), len(built.design)))
    for rows, density, _, _ in _densities(Prediction(draws, built), rng):
        result[:, rows] = density
    return result


def _densities(
    predictive: Prediction, rng: np.random.Generator
) -> Iterator[tuple[IntArray, FloatArray, FloatArray, FloatArray]]:
    """Yield responses, their log densities and log-odds, and their joint log density."""
    built, count = predictive.built, len(predictive.draws)
    design, exposure = built.design, built.design.exposure
    if exposure is None:
        step = max(1, CHUNK // count)
        for rows in np.split(np.arange(len(design)), range(step, len(design), step)):
            center = predictive.center(rows)
            density = predictive.density(rows, center)
            yield rows, density, center, density.sum(axis=1)
        return
    for groups in _blocks(exposure, max(1, CHUNK // (count * exposure.nodes.shape[1]))):
        yield _mixed(predictive, exposure, groups, rng)


def _blocks(exposure: Exposure, most: int) -> Iterator[slice]:
    """Cut groups into runs of at most `most` responses, or of one group."""
    ends, start = np.cumsum(np.bincount(exposure.group)), 0
    while start < len(ends):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop)
        start = stop


def _mixed(
    predictive: Prediction, exposure: Exposure, groups: slice, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Sum the contamination of groups out of their responses' densities."""
    rows = np.flatnonzero((exposure.group >= groups.start) & (exposure.group < groups.stop))
    rows = rows[np.argsort(exposure.group[rows], kind="stable")]
    group = exposure.group[rows] - groups.start
    starts = np.unique(group, return_index=True)[1]
    slope, center = predictive.slope(rows), predictive.center(rows)
    offsets = exposure.offsets[groups][group]
    each = np.stack(
        [predictive.density(rows, center + slope * offset) for offset in offsets.T], axis=-1
    )
    weights = exposure.weights(predictive.draws.p_shift, groups)
    whole = weights + np.add.reduceat(each, starts, axis=1)
    others = whole[:, group] - each
    alone, joint = logsumexp(others, axis=-1), logsumexp(whole, axis=-1)
    node = draw_nodes(others - alone[..., None], rng)
    shift = slope * offsets[np.arange(len(offsets)), node]
    return rows, joint[:, group] - alone, center + shift, joint.sum(axis=1)


def _left_out(density: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
    """Weigh draws as if each response had been left out; log weights have dims (response, draw)."""
    of_response = np.ascontiguousarray(density.T)
    log_weights, pareto_k = psis_weights(-of_response)
    estimates = {
        "elpd": log_sum_exp(log_weights + of_response, axis=1),
        "log_density": log_sum_exp(of_response, axis=1) - np.log(len(density)),
        "pareto_k": pareto_k,
    }
    return estimates, log_weights


def _pit(
    predictive: Prediction,
    rows: IntArray,
    center: FloatArray,
    log_weights: FloatArray,
    elpd: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return where each count lies in its distribution given the others: uniform if they agree."""
    design = predictive.built.design
    # Of one trial, the density is the probability of the outcome, and the rest that of the other.
    level = np.exp(elpd)
    below = np.where(design.n_correct[rows] == 1, 1 - level, 0.0)
    several = np.flatnonzero(design.n_trials[rows] > 1)
    if several.size:
        weights = np.exp(log_weights[several])
        counts = predictive.replicated(rows[several], center[:, several], rng)
        below[several], level[several] = ((weights * each.T).sum(axis=1) for each in counts)
    return np.clip(below + rng.random(len(level)) * level, 0, 1)
