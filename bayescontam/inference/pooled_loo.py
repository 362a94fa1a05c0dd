"""Pooled LOO: leave-one-out where items of equal totals are alike."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import xarray as xr
from scipy.special import expit

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.design import Design
from bayescontam.inference.difficulties import at_nodes
from bayescontam.inference.draws import CHUNK, Draws
from bayescontam.inference.lattice import Lattice, log_weights
from bayescontam.inference.prediction import predictive_draws
from bayescontam.inference.psis import predicted, weigh


def can_pool(built: Built) -> bool:
    """Whether responses are so many more than their kinds that leaving kinds out is cheaper."""
    lattice, design = built.lattice, built.design
    if lattice is None or design.n_single < len(design):
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

    @cached_property
    def rows(self) -> list[slice]:
        """Kinds of each level: they are in the order of levels."""
        ends = np.searchsorted(self.level, np.arange(len(self.place) + 1))
        return [slice(a, b) for a, b in pairwise(ends)]


def pooled_leave_one_out(draws: Draws, built: Built, rng: np.random.Generator) -> xr.Dataset:
    """Compute PSIS-LOO of every response, by kinds of responses.

    An item's difficulty is integrated out given the other responses to it, not drawn given
    all of them: weights of draws hardly differ, and importance sampling is the better for
    it. What results depends on the item by its total and contamination alone, so that it
    is computed at the lattice's levels and read off between them.
    """
    lattice, design = built.lattice, built.design
    assert lattice is not None
    kinds = Kinds.of(lattice)
    possible = _possible(lattice, kinds)
    chosen = predictive_draws(draws, int(possible.sum()))
    density, joint = np.empty((len(chosen), int(possible.sum()))), np.empty(len(chosen))
    chance_of = np.zeros(density.shape[1])
    for row, d in enumerate(chosen):
        left_out, own, joint[row] = _densities(draws[d : d + 1], lattice, kinds)
        density[row] = left_out[possible]
        chance_of += own[possible]
    estimates = _left_out(density) | {"log_density": np.log(chance_of / len(chosen))}
    data = _at_responses(estimates, possible, design, lattice, kinds)
    right, chance = design.n_correct == 1, np.exp(data["elpd"])
    below = np.where(right, 1 - chance, 0.0)
    data["pit"] = np.clip(below + rng.random(len(design)) * chance, 0, 1)
    columns = {name: ("response", values) for name, values in data.items()}
    coords = {"kept_draw": chosen, "response": design.coords["response"]}
    return xr.Dataset(columns | {"log_likelihood": ("kept_draw", joint)}, coords)


def _left_out(density: FloatArray) -> dict[str, FloatArray]:
    """Weigh draws as if each kind had been left out, some kinds at a time."""
    parts = []
    step = max(1, CHUNK // len(density))
    for start in range(0, density.shape[1], step):
        some = density[:, start : start + step]
        log_weights, pareto_k = weigh(some)
        parts.append({"elpd": predicted(some, log_weights), "pareto_k": pareto_k})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _at_responses(
    estimates: dict[str, FloatArray],
    possible: np.ndarray,
    design: Design,
    lattice: Lattice,
    kinds: Kinds,
) -> dict[str, FloatArray]:
    """Return for every response the interpolated estimates of the kinds around it.

    A Pareto k is not smooth: it is that of the nearest kind.
    """
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


def _possible(lattice: Lattice, kinds: Kinds) -> np.ndarray:
    """Whether there can be such a response, dims (kind, model, wrong or right)."""
    trials = lattice.trials[kinds.level]
    possible = np.stack([kinds.total < trials.sum(axis=1), kinds.total > 0], axis=-1)
    result: np.ndarray = (trials > 0)[:, :, None] & possible[:, None, :]
    return result


def _densities(draw: Draws, lattice: Lattice, kinds: Kinds) -> tuple[FloatArray, FloatArray, float]:
    """Return how probable responses are in one draw.

    Dims (kind, model, wrong or right).
    """
    z = lattice.nodes
    level, added, normaliser = at_nodes(draw, lattice, z)
    weighted = (kinds.total * added[kinds.level])[:, None] * z
    each = weighted - normaliser[kinds.level] + log_weights(z)
    top = each.max(axis=1)
    weight = np.exp(each - top[:, None])
    whole = weight.sum(axis=1)
    eta = level[:, :, None] + (added[:, None] * z)[:, None, :]
    others, own = np.empty((2, len(whole), level.shape[1], 2))
    for answer, sign in enumerate((-1.0, 1.0)):
        chance = expit(sign * eta)
        for at, rows in enumerate(kinds.rows):
            # The others' density is that of all responses over this one's.
            others[rows, :, answer] = weight[rows] @ (1.0 / chance[at]).T
            own[rows, :, answer] = weight[rows] @ chance[at].T
    log_all = kinds.count @ (np.log(whole) + top) + (lattice.correct * level).sum()
    whole = whole[:, None, None]
    return np.log(whole) - np.log(others), own / whole, float(log_all)
