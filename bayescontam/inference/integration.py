"""Integration: how exact a likelihood is whose item difficulties were integrated out."""

import numpy as np
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.checks import Check, outcome
from bayescontam.inference.difficulties import at_nodes
from bayescontam.inference.draws import Draws
from bayescontam.inference.lattice import Lattice, LatticeDesign, item_levels, log_weights

MOST_ITEMS, MOST_DRAWS = 2000, 20
"""Items and draws for which the likelihood is computed more exactly."""
MOST_ERROR = 0.05
"""Largest standard deviation of the error of a log likelihood over draws.

Where a log density is wrong by an error of standard deviation s, means are wrong by about
s of their own standard deviations at most: they move by the covariance with the error.
"""


def integration_check(draws: Draws, lattice: Lattice, rng: np.random.Generator) -> Check:
    """Check the log likelihood against one of twice the nodes at each item's own level."""
    error = integration_errors(draws.thinned(MOST_DRAWS), lattice, rng)
    spread = float(error.std())
    fine = spread <= MOST_ERROR
    return Check(
        "Difficulties integrated out",
        outcome(fine),
        spread,
        f"sd of error ≤ {MOST_ERROR:g}",
        "The log likelihood is as good as exact: integrating difficulties out moves no mean by"
        f" more than {max(spread, 0.001):.1g} of its standard deviations."
        if fine
        else "The log likelihood is not exact enough. Fit with difficulties sampled"
        " (--difficulties sampled).",
    )


def integration_errors(draws: Draws, lattice: Lattice, rng: np.random.Generator) -> FloatArray:
    """Return the error of the log likelihood of each draw, dims (draw,), natural logarithms.

    It is that of some items, scaled to all of them.
    """
    count = min(MOST_ITEMS, len(lattice.total))
    items = rng.choice(len(lattice.total), count, replace=False)
    exact = _item_by_item(lattice, items)
    z = lattice.nodes
    finer = np.linspace(z[0], z[-1], 2 * len(z) - 1)
    errors = []
    for d in range(len(draws)):
        draw = draws[d : d + 1]
        coarse = _log_density(draw, lattice, z, items, exact.correct)
        errors.append(coarse - _log_density(draw, exact, finer, np.arange(count), exact.correct))
    scaled: FloatArray = np.sum(errors, axis=1) * len(lattice.total) / count
    return scaled


def _item_by_item(lattice: Lattice, items: IntArray) -> Lattice:
    """Return a lattice of some items, each at a level of its own."""
    whole = lattice.design.whole
    value, nearest = item_levels(whole), lattice.level[items, 0]
    trials = lattice.trials[nearest]
    unit = lattice.design.unit[:: len(whole.models)][nearest]
    level = None if value is None else value[items]
    made = LatticeDesign.of(whole, unit, level, trials > 0, items)
    correct, number = np.zeros(trials.shape), np.full(len(whole.items), -1)
    number[items] = np.arange(len(items))
    rows = np.flatnonzero(number[whole.item] >= 0)
    correct[number[whole.item[rows]], whole.model[rows]] = whole.n_correct[rows]
    single = np.arange(len(items))
    ones = np.ones((len(items), 1))
    return Lattice(made, single, single, ones, lattice.total[items], trials, correct)


def _log_density(
    draw: Draws, lattice: Lattice, z: FloatArray, items: IntArray, correct: FloatArray
) -> FloatArray:
    """Return the log density of the responses to some items, difficulty integrated out."""
    level, added, normaliser = at_nodes(draw, lattice, z)
    own, basis = lattice.level[items], lattice.basis[items]
    joint = (lattice.total[items, None] * added[own])[:, :, None] * z
    at_level = logsumexp(joint - normaliser[own] + log_weights(z), axis=-1)
    at_level += (level[own] * correct[:, None]).sum(axis=-1)
    result: FloatArray = (basis * at_level).sum(axis=1)
    return result
