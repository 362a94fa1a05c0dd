"""Difficulties: those of items, drawn given the parameters that were sampled without them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.choosing import choose
from bayescontam.inference.draws import Draws
from bayescontam.inference.lattice import Lattice, LatticeDesign
from bayescontam.inference.likelihood import softplus
from bayescontam.inference.marginalised import at_levels
from bayescontam.inference.priors import SMALLEST

Places = NDArray[np.integer[Any]]


def placed(
    draws: Draws,
    lattice: Lattice | None,
    rng: np.random.Generator,
    responses: bool = True,
    cores: int = 1,
) -> Draws:
    """Draw the difficulty of every item for every draw, where they were integrated out.

    Difficulties lie at the nodes of the quadrature, which are moved by a random part of a
    step for each draw. A sum over evenly spaced nodes hardly depends on where they lie, so
    that means over items have their distribution for any one draw, and a single item's
    difficulty has its own over draws.
    """
    if lattice is None:
        return draws
    at = lattice.nodes
    offset = rng.uniform(-0.5, 0.5, (len(draws), 1)) * (at[1] - at[0])
    seeds = rng.spawn(len(draws))
    place = np.empty((len(draws), len(lattice.total)), np.min_scalar_type(len(at)))

    def one(d: int) -> None:
        z, random = at + offset[d], seeds[d].random(place.shape[1], np.float32)
        if responses:
            place[d] = _conditional(draws[d : d + 1], lattice, z, random)
        else:
            below = np.cumsum(np.exp(-0.5 * z**2))
            place[d] = np.searchsorted(below, random * below[-1], side="right")

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(one, range(len(draws))))
    return replace(draws, place=place, offset=offset)


def _conditional(draw: Draws, lattice: Lattice, z: FloatArray, random: FloatArray) -> Places:
    """Draw the nodes of all items given everything else of one draw."""
    _, added, normaliser = at_nodes(draw, lattice, z)
    totals = np.arange(int(lattice.total.max()) + 1)
    log_weight = (added[:, None] * totals)[:, :, None] * z - (normaliser + 0.5 * z**2)[:, None]
    log_weight -= log_weight.max(axis=-1, keepdims=True)
    below = np.cumsum(np.exp(log_weight), axis=-1)
    below = (below / below[..., -1:]).astype(np.float32)
    return choose(below, random, lattice.total, lattice.level, lattice.basis.astype(np.float32))


def at_nodes(
    draw: Draws, lattice: Lattice, z: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log-odds that one draw gives to items at nodes of difficulty."""
    level, step = at_levels(draw.effects, lattice, np.zeros, np.ones)
    added = step[0] * _scale(draw, lattice, lattice.design.benchmark_of_item)[0]
    normaliser = np.zeros((len(added), len(z)))
    shift = added[:, None] * z
    for m, trials in enumerate(lattice.trials.T):
        normaliser += trials[:, None] * softplus(level[0, :, m, None] + shift)
    return level[0], added, normaliser


def _scale(draws: Draws, lattice: Lattice, benchmark: IntArray) -> FloatArray:
    """Return the spread of difficulties, (draw, one for each of the given benchmarks)."""
    assert draws.sigma_delta is not None
    scale: FloatArray = (draws.sigma_delta + SMALLEST) * lattice.shared
    return scale[:, benchmark]


def spelt_out(draws: Draws, lattice: Lattice | None, items: IntArray | None = None) -> Draws:
    """Return draws with the difficulties that `placed` chose.

    Dims (draw, item).
    """
    if lattice is None:
        return draws
    return replace(draws, delta=difficulty(draws, lattice, items), place=None, offset=None)


def difficulty(draws: Draws, lattice: Lattice, items: IntArray | None = None) -> FloatArray:
    """Return difficulties that `placed` chose, log-odds, dims (draw, item)."""
    assert draws.place is not None
    assert draws.offset is not None
    which = slice(None) if items is None else items
    z = lattice.nodes[draws.place[:, which]] + draws.offset
    scale = _scale(draws, lattice, lattice.design.whole.benchmark_of_item[which])
    result: FloatArray = z * scale
    return result


def stand_ins(built: Built) -> Built:
    """Return the same with nodes of the lattice as items, which `counted` draws are of."""
    lattice = built.lattice
    if lattice is None:
        return built
    made, models = lattice.design, len(lattice.design.models)
    level, count = made.contamination, len(lattice.nodes)
    unit = np.repeat(made.unit[::models], count)
    answered = np.repeat(made.weight.reshape(-1, models), count, axis=0)
    repeated = None if level is None else np.repeat(level[::models], count)
    like = np.repeat(made.like, count)
    design = LatticeDesign.of(made.whole, unit, repeated, answered, like)
    return replace(built, design=design)


def counted(draws: Draws, lattice: Lattice | None, weights: FloatArray | None = None) -> Draws:
    """Return draws of made-up items, with how many items each of them stands for."""
    if lattice is None or draws.place is None or draws.offset is None:
        return draws
    at = lattice.nodes
    levels, tally = lattice.level * len(at), np.empty((len(draws), len(lattice.trials) * len(at)))
    for d, (row, place) in enumerate(zip(tally, draws.place, strict=True)):
        of = (levels + place[:, None]).ravel()
        basis = lattice.basis if weights is None else lattice.basis * weights[d][:, None]
        row[:] = np.bincount(of, basis.ravel(), minlength=tally.shape[1])
    scale = _scale(draws, lattice, lattice.design.benchmark_of_item)
    delta = (scale[:, :, None] * (at + draws.offset)[:, None, :]).reshape(tally.shape)
    return replace(draws, delta=delta, tally=tally, place=None, offset=None)
