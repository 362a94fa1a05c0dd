"""Leave-one-out: how well each response is predicted from all others."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.draws import CHUNK, Draws
from bayescontam.inference.exposure import Exposure, draw_nodes
from bayescontam.inference.pooled_loo import can_pool, pooled_leave_one_out
from bayescontam.inference.prediction import Prediction, predictive_draws
from bayescontam.inference.psis import predicted, weigh


def leave_one_out(draws: Draws, built: Built, rng: np.random.Generator) -> xr.Dataset:
    """Compute PSIS-LOO of every response.

    The left-out unit is a response: one model's answers to one item. Where responses
    have an effect of their own, it is integrated out by quadrature: given that effect
    a response would hardly depend on the others, and importance sampling would fail.
    Where responses share an unknown contamination, it is summed out given the others.
    Where item difficulties were integrated out and many responses are alike, so are they;
    see `pooled_leave_one_out`.

    Vehtari, Gelman & Gabry (2017), doi:10.1007/s11222-016-9696-4; Merkle, Furr &
    Rabe-Hesketh (2019), doi:10.1007/s11336-019-09679-0, on integrating effects out.
    """
    if can_pool(built):
        return pooled_leave_one_out(draws, built, rng)
    design = built.design
    chosen = predictive_draws(draws, _numbers(built))
    predictive = Prediction.of(draws[chosen], built)
    parts, order, joint = [], [], np.zeros(len(chosen))
    for rows, density, center, together in _densities(predictive, rng):
        joint += together
        parts.append(_left_out(density, *predictive.replicated(rows, center, rng), rng))
        order.append(rows)
    back = np.argsort(np.concatenate(order))
    columns = {name: np.concatenate([p[name] for p in parts])[back] for name in parts[0]}
    data = {name: ("response", values) for name, values in columns.items()}
    coords = {"kept_draw": chosen, "response": design.coords["response"]}
    return xr.Dataset(data | {"log_likelihood": ("kept_draw", joint)}, coords)


def log_likelihoods(draws: Draws, built: Built, rng: np.random.Generator) -> FloatArray:
    """Return the log density of each response given parameters and its item.

    Dims (draw, response).

    Its own effect is integrated out, and an unknown contamination given the other responses
    that share it, as in `leave_one_out`. Difficulties that were integrated out are those that
    `placed` drew.
    """
    result = np.empty((len(draws), len(built.design)))
    for rows, density, _, _ in _densities(Prediction.of(draws, built), rng):
        result[:, rows] = density
    return result


def _numbers(built: Built) -> int:
    """Return how many numbers the densities of one draw take."""
    exposure = built.design.exposure
    return len(built.design) * (1 if exposure is None else exposure.nodes.shape[1])


def _densities(
    predictive: Prediction, rng: np.random.Generator
) -> Iterator[tuple[IntArray, FloatArray, FloatArray, FloatArray]]:
    """Yield responses, their log densities and log-odds, and their joint log density.

    Dims (rows,), (draw, rows) twice, and (draw,); some responses at a time.
    """
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
        block = _Block.of(exposure, groups)
        density, center, together = _mixed(predictive, exposure, block, rng)
        yield block.rows, density, center, together


@dataclass(frozen=True, eq=False)
class _Block:
    """Some groups of responses that share a contamination."""

    groups: slice
    rows: IntArray  # their responses, group by group
    group: IntArray  # group of each of these, counted in the block
    starts: IntArray  # where each group begins in `rows`

    @classmethod
    def of(cls, exposure: Exposure, groups: slice) -> "_Block":
        rows = np.flatnonzero((exposure.group >= groups.start) & (exposure.group < groups.stop))
        rows = rows[np.argsort(exposure.group[rows], kind="stable")]
        group = exposure.group[rows] - groups.start
        return cls(groups, rows, group, np.unique(group, return_index=True)[1])


def _blocks(exposure: Exposure, most: int) -> Iterator[slice]:
    """Cut groups into runs of at most `most` responses, or of one group."""
    ends = np.cumsum(np.bincount(exposure.group))
    start = 0
    while start < len(ends):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop)
        start = stop


def _mixed(
    predictive: Prediction, exposure: Exposure, block: _Block, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum the contamination of groups out of their responses' densities."""
    design, draws = predictive.built.design, predictive.draws
    slope = predictive.slope(block.rows)
    offsets = exposure.offsets[block.groups][block.group]
    center = predictive.center(block.rows)
    each = np.stack(
        [predictive.density(block.rows, center + slope * offset) for offset in offsets.T], axis=-1
    )
    weights = exposure.weights(draws.p_shift, design.benchmark, block.groups)
    whole = weights + np.add.reduceat(each, block.starts, axis=1)
    others = whole[:, block.group] - each
    alone = logsumexp(others, axis=-1)
    density = logsumexp(whole, axis=-1)[:, block.group] - alone
    node = draw_nodes(others - alone[..., None], rng)
    shift = slope * offsets[np.arange(len(offsets)), node]
    return density, center + shift, logsumexp(whole, axis=-1).sum(axis=1)


def _left_out(
    density: FloatArray, below: FloatArray, at: FloatArray, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Weigh draws as if each response had been left out."""
    log_weights, pareto_k = weigh(density)
    weights = np.exp(log_weights)
    lower, level = (weights * below.T).sum(axis=1), (weights * at.T).sum(axis=1)
    return {
        "elpd": predicted(density, log_weights),
        "log_density": logsumexp(density, axis=0) - np.log(len(density)),
        "pareto_k": pareto_k,
        "pit": np.clip(lower + rng.random(len(lower)) * level, 0, 1),
    }
