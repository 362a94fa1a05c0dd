"""Difficulties: what the responses of a fit show about the items that a newcomer answered."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.draws import Draws, predictor
from bayescontam.inference.joining.marginal import Marginal
from bayescontam.inference.joining.newcomer import Newcomer
from bayescontam.inference.joining.nodes import Nodes, log_mean, place_nodes
from bayescontam.inference.joining.odds import Mixture, log_joint, near
from bayescontam.inference.priors import SMALLEST
from bayescontam.inference.terms import shared_benchmarks

NODES = 7
"""Nodes of each difficulty where responses are single ones; more trials need more."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items that a newcomer answered."""

    label: IntArray  # dims (item,): their positions in the joint design
    of_own: IntArray  # dims (own,): which of them each of the newcomer's responses is to
    # met, of_met: positions of the fit's responses to them, item by item, and their items
    met: IntArray
    of_met: IntArray
    benchmark: IntArray  # dims (item,)
    shared: np.ndarray  # dims (item,): whether they have a difficulty
    # start, width: dims (item,): mean and standard deviation of their difficulty in the fit
    start: FloatArray
    width: FloatArray
    count: int  # nodes for each

    @classmethod
    def of(cls, newcomer: Newcomer, draws: Draws) -> "Items | None":
        """Return the items, with where the fit's draws put them; None without difficulties."""
        if draws.delta is None:
            return None
        design = newcomer.design
        label, of_own = np.unique(design.item[newcomer.own], return_inverse=True)
        met = newcomer.met[np.argsort(design.item[newcomer.met], kind="stable")]
        start, width = np.zeros(len(design.items)), np.full(len(design.items), np.inf)
        start[newcomer.item_of_host] = draws.delta.mean(axis=0)
        width[newcomer.item_of_host] = draws.delta.std(axis=0) + SMALLEST
        benchmark = design.benchmark_of_item[label]
        trials = design.n_trials[newcomer.own].max()
        return cls(
            label, of_own, met, np.searchsorted(label, design.item[met]), benchmark,
            shared_benchmarks(design)[benchmark], start[label], width[label],
            NODES if trials == 1 else 2 * NODES + 1,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Difficulties:
    """Difficulties given draws of everything else in a fit, and its responses.

    Given abilities, slopes and spreads the items of a fit are independent: each has a
    one-dimensional density, which nodes hold. So a newcomer of many items reweighs only
    few parameters, and importance sampling does not fail with the number of items.
    """

    items: Items
    own: Marginal  # the newcomer's responses
    nodes: Nodes  # dims (draw, item, node)

    @classmethod
    def of(
        cls, items: Items, draws: Draws, newcomer: Newcomer, marginal: Marginal, spread: FloatArray
    ) -> "Difficulties":
        """Place nodes for some draws."""
        center = predictor(_easy(draws), newcomer.design.part(items.met))
        met = marginal[items.met]
        scale = np.where(items.shared, spread[:, items.benchmark], 0.0) + SMALLEST

        def log_density(position: FloatArray) -> FloatArray:
            prior = -0.5 * (position / scale[..., None]) ** 2
            return prior + _log_joint(met, center, position, items.of_met)

        start = np.where(items.shared, items.start, 0.0)
        nodes = place_nodes(log_density, start, items.width, scale, items.count)
        return cls(items, marginal[newcomer.own], nodes)

    def log_weights(self, eta: FloatArray) -> FloatArray:
        """Return log joint densities of the newcomer's responses and nodes.

        Dims (draw, own, node).
        """
        position = self.nodes.position[:, self.items.of_own]
        log_weight = self.nodes.log_weight[:, self.items.of_own]
        total: FloatArray = log_weight + self.own.log_density(eta[..., None] - position)
        return total

    def log_answers(self, eta: FloatArray) -> FloatArray:
        """Return log densities of the newcomer's responses, difficulty summed out, (draw, own)."""
        if self.own.are_single.all() and near(eta, self.nodes.position):
            return self._mixture.log_density(eta)
        return log_mean(self.log_weights(eta))

    @cached_property
    def _mixture(self) -> Mixture:
        of_own, nodes = self.items.of_own, self.nodes
        return Mixture.of(self.own.rows.k, nodes.position[:, of_own], nodes.log_weight[:, of_own])


def _log_joint(
    met: Marginal, center: FloatArray, position: FloatArray, item: IntArray
) -> FloatArray:
    """Return log densities of all responses to each item, dims (draw, item, node)."""
    quick = met.are_single & near(center, position)
    total = log_joint(met.rows.k[quick], center[:, quick], position, item[quick])
    if not quick.all():
        where, starts = np.unique(item[~quick], return_index=True)
        each = met[~quick].log_density(center[:, ~quick, None] - position[:, item[~quick]])
        total[:, where] += np.add.reduceat(each, starts, axis=1)
    return total


def log_answers(eta: FloatArray, own: Marginal, difficulties: Difficulties | None) -> FloatArray:
    """Return log densities of a newcomer's responses, difficulty summed out, (draw, own)."""
    return own.log_density(eta) if difficulties is None else difficulties.log_answers(eta)


def _easy(draws: Draws) -> Draws:
    """Return the draws without difficulties."""
    return Draws(draws.theta, draws.beta, None, None, None)
