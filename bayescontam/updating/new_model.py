"""A new model beside those of a fit: joint design, and density of its responses.

Item difficulties are integrated out. The odds of an answer are those on an average item times the
exponential of an ease, so that one exponential serves all answers to an item; and one logarithm of
a product serves them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import CubicSpline
from scipy.ndimage import spline_filter1d
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.responses import Responses
from bayescontam.inference.posterior import Draws, predictor
from bayescontam.inference.predictive import REACH, Rows, grid_size, log_density
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design, make_design
from bayescontam.model.priors import SMALLEST
from bayescontam.model.quadrature import Nodes, normal_trapezoid, place_nodes
from bayescontam.model.terms import benchmarks_with_two_models, plan_terms
from bayescontam.specs.model import ModelSpec

_STEP, _FARTHEST = 0.25, 24.0
_FINEST = 150
_SCALES = np.linspace(0, 1, 17) ** 1.5  # closer where spreads are small and matter more
MAX_LOG_ODDS = 300.0
"""Largest log-odds, and difficulty, whose odds are multiplied; farther out they overflow."""
_LARGEST = 700.0  # largest logarithm of a product of odds; that of the largest float is 709
NODES = 7  # nodes of each difficulty where responses are single ones; more trials need more


@dataclass(frozen=True, eq=False)
class NewModel:
    """A model that was not in a fit."""

    name: str
    spec: ModelSpec
    host: Design  # of the fit
    design: Design  # of both; the newcomer is the last model
    own: IntArray  # positions of the newcomer's responses in `design`
    met: IntArray  # positions of the fit's responses to items that the newcomer answered

    @cached_property
    def built(self) -> BuiltModel:
        """The joint design as estimands take it; its PyMC model is empty, nothing is sampled."""
        # A fit of models that answered all items has no effects of what its models chose to answer,
        # and what a newcomer chose is not modelled either.
        terms = plan_terms(self.spec, self.design)
        if not len(self.host.partial):
            terms = replace(terms, entered=terms.entered - {"psi", "sigma_psi"})
        return BuiltModel(pm.Model(), self.spec, self.design, terms)

    @cached_property
    def units(self) -> IntArray:
        """Units that the newcomer answered, positions in the joint design."""
        return np.unique(self.design.unit[self.own])

    @cached_property
    def benchmarks(self) -> IntArray:
        """Benchmarks that the newcomer answered."""
        return np.unique(self.design.benchmark[self.own])

    @cached_property
    def unit_of_host(self) -> IntArray:
        """Position in the joint design of each unit of the fit."""
        return self._positions("unit", len(self.host.units))

    @cached_property
    def item_of_host(self) -> IntArray:
        """Position in the joint design of each item of the fit."""
        return self._positions("item", len(self.host.items))

    @property
    def positive(self) -> bool:
        """Whether `effects` hold the logarithms of slopes."""
        return self.spec.contamination.sign == "positive"

    @cached_property
    def lifted(self) -> IntArray:
        """Benchmarks that it answered and on which its exposure moves all items."""
        if "spillover" not in self.built.terms:
            return self.benchmarks[:0]
        dose = np.zeros(len(self.design.benchmarks))
        dose[self.design.benchmark[self.own]] = self.design.cell_dose[self.own]
        return np.flatnonzero(dose)

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """Positions of its abilities, slopes and coefficients of spillover among its effects."""
        slopes = len(self.units) + len(self.benchmarks) * ("beta" in self.built.terms)
        ends = len(self.units), slopes, slopes + len(self.lifted)
        return slice(0, ends[0]), slice(*ends[:2]), slice(*ends[1:])

    def place(self, effects: FloatArray) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return ability in all units, and slope and spillover in all benchmarks; 0 elsewhere."""
        # Effects, dims (draw, effect), are abilities in `units`, slopes in `benchmarks` and
        # coefficients of spillover in `lifted`.
        abilities, slopes, lifts = self.parts
        theta = np.zeros((len(effects), len(self.design.units)))
        theta[:, self.units] = effects[:, abilities]
        shape = len(effects), len(self.design.benchmarks)
        beta = spillover = None
        if "beta" in self.built.terms:
            beta, own = np.zeros(shape), effects[:, slopes]
            beta[:, self.benchmarks] = np.exp(own) if self.positive else own
        if "spillover" in self.built.terms:
            spillover = np.zeros(shape)
            spillover[:, self.lifted] = effects[:, lifts]
        return theta, beta, spillover

    def log_odds(self, effects: FloatArray) -> FloatArray:
        """Return log-odds of its responses to items of average difficulty, dims (draw, own)."""
        linear = (
            effects if not self.positive else np.where(self._is_slope, np.exp(effects), effects)
        )
        result: FloatArray = (self.directions[0] @ linear.T).T
        return result

    @property
    def _is_slope(self) -> NDArray[np.bool_]:
        at = np.arange(self.directions[0].shape[1])
        result: NDArray[np.bool_] = (at >= self.parts[1].start) & (at < self.parts[1].stop)
        return result

    def slopes_of(self, effects: FloatArray) -> FloatArray:
        """Return what effects move log-odds by, relative to `directions`, (draw, effect)."""
        return np.where(self.positive & self._is_slope, np.exp(effects), 1.0)

    @cached_property
    def directions(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The derivative of log-odds, (own, effect), and its products of pairs."""
        part = self.design.subset(self.own)
        cells: list[tuple[Any, FloatArray]]
        cells = [(np.searchsorted(self.units, part.unit), np.ones(len(part)))]
        size = len(self.units)
        if "beta" in self.built.terms:
            cells.append((size + np.searchsorted(self.benchmarks, part.benchmark), part.dose))
            size += len(self.benchmarks)
        if len(self.lifted):
            known = np.isin(part.benchmark, self.lifted)
            column = np.where(known, np.searchsorted(self.lifted, part.benchmark), 0)
            cells.append((size + column, np.where(known, part.cell_dose, 0.0)))
            size += len(self.lifted)
        pairs = [(a * size + b, x * y) for a, x in cells for b, y in cells]

        def matrix(cells: Sequence[tuple[Any, FloatArray]], width: int) -> sparse.csr_array:
            columns, values = (np.concatenate(each) for each in zip(*cells, strict=True))
            rows = np.tile(np.arange(len(part)), len(cells))
            return sparse.csr_array((values, (rows, columns)), (len(part), width))

        return matrix(cells, size), matrix(pairs, size**2)

    def _positions(self, field: str, count: int) -> IntArray:
        result = np.empty(count, dtype=np.int64)
        old = self.design.model < len(self.host.models)
        result[getattr(self.host, field)] = getattr(self.design, field)[old]
        return result


def make_newcomer(spec: ModelSpec, old: Responses, joined: Responses) -> NewModel:
    """Return a newcomer from responses joined to those of a fit."""
    host = make_design(spec, old)
    joint = host.extend(make_design(spec, joined))
    own = joint.model == len(host.models)
    met = ~own & np.isin(joint.item, joint.item[own])
    return NewModel(joined.models[-1], spec, host, joint, *map(np.flatnonzero, (own, met)))


@dataclass(frozen=True, eq=False)
class Marginal:
    """Densities of responses given log-odds without their own effects."""

    # Responses with several trials have an effect of their own, which is summed out. That takes
    # many nodes, and the same few pairs of counts come again and again: their densities are
    # computed on a grid of log-odds and spreads, and interpolated by cubic splines.

    rows: Rows  # all responses
    pair: IntArray  # dims (response,): which column of the table; -1 without an effect
    # from the spread to spline coefficients, dims (pair, log-odds)
    table: CubicSpline | None = None
    # dims (draw, pair, log-odds): at the spreads of the draws, see `at`
    coefficients: FloatArray | None = None

    @classmethod
    def of(cls, rows: Rows, n_single: int, scale: FloatArray | None) -> "Marginal":
        """Prepare responses, of which those from `n_single` on have effects of this scale."""
        pair = np.full(len(rows.k), -1)
        if scale is None or n_single == len(pair):
            return cls(rows, pair)
        columns = np.stack([rows.k, rows.n, rows.guess])[:, n_single:]
        unique, pair[n_single:] = np.unique(columns, axis=1, return_inverse=True)
        low, high = 0.999 * scale.min(), 1.001 * scale.max()
        scales = low + (high - low) * _SCALES
        values = _integrated(Rows(*unique), scales)
        table = CubicSpline(scales, spline_filter1d(values, axis=-1, mode="mirror"))
        return cls(rows, pair, table)

    @property
    def numbers(self) -> int:
        """How many numbers the table takes for each draw."""
        return 0 if self.table is None else int(np.prod(self.table.c.shape[2:]))

    def at(self, scale: FloatArray | None) -> "Marginal":
        """Return the same for some draws, dims (draw,) of their spreads."""
        if self.table is None or scale is None:
            return self
        return replace(self, coefficients=self.table(scale))

    def __getitem__(self, part: np.ndarray) -> "Marginal":
        return replace(self, rows=self.rows[part], pair=self.pair[part])

    @property
    def are_single(self) -> np.ndarray:
        """Which are single answers without guessing, dims (response,)."""
        guessed = np.atleast_2d(self.rows.guess > 0).any(axis=0)
        return (self.pair < 0) & (self.rows.n == 1) & ~guessed

    def log_density(self, eta: FloatArray) -> FloatArray:
        """Return log densities of all responses, dims (draw, response[, node])."""
        own = self.pair >= 0
        if not own.any() or self.coefficients is None:
            return self._bare(slice(None), eta)
        if own.all():
            return self._interpolated(self.pair, eta)
        result = np.empty(eta.shape)
        result[:, ~own] = self._bare(np.flatnonzero(~own), eta[:, ~own])
        result[:, own] = self._interpolated(self.pair[own], eta[:, own])
        return result

    def _bare(self, part: slice | IntArray, eta: FloatArray) -> FloatArray:
        rows = self.rows[part]
        if eta.ndim > 2:
            rows = rows.by_node()
        return rows.log_likelihood(eta)

    def _interpolated(self, pair: IntArray, eta: FloatArray) -> FloatArray:
        assert self.coefficients is not None
        draws, pairs, size = self.coefficients.shape
        start = (np.arange(draws)[:, None] * pairs + pair) * size
        start = start.reshape(start.shape + (1,) * (eta.ndim - 2))
        place = np.clip((eta + _FARTHEST) / _STEP, 1.0, size - 2.001)
        cell = place.astype(np.int64)
        flat, at, x = self.coefficients.ravel(), start + cell, place - cell
        y = 1 - x
        xx, yy = x * x, y * y  # cubes are products here: powers take several times as long
        result: FloatArray = flat.take(at - 1) * (yy * y)
        result += flat.take(at) * (4 - 3 * xx * (2 - x))
        result += flat.take(at + 1) * (4 - 3 * yy * (2 - y))
        result += flat.take(at + 2) * (xx * x)
        return result / 6


def _integrated(rows: Rows, scales: FloatArray) -> FloatArray:
    """Return log densities on the grid, dims (scale, pair, log-odds)."""
    # By the trapezoid rule, or where that takes many nodes by adaptive ones.
    centers = np.arange(-_FARTHEST, _FARTHEST + _STEP / 2, _STEP)
    wide = Rows(*(x[:, None, None] for x in (rows.k, rows.n, rows.guess)))
    result = np.empty((len(scales), len(rows.k), len(centers)))
    for row, scale in zip(result, scales, strict=True):
        if (size := grid_size(scale, rows.n)) > _FINEST and not rows.guess.any():
            row[:] = log_density(rows, centers[:, None] + 0 * rows.k, scale[None, None]).T
            continue
        z, log_weights = normal_trapezoid(REACH, size)
        eta = centers[:, None] + scale * z
        row[:] = logsumexp(wide.log_likelihood(eta) + log_weights, axis=-1)
    return result


def near(*log_odds: FloatArray) -> bool:
    """Return whether all log-odds are such that their odds can be multiplied."""
    return all(np.abs(x).max(initial=0.0) <= MAX_LOG_ODDS for x in log_odds)


def log_joint(
    k: FloatArray, center: FloatArray, position: FloatArray, item: IntArray
) -> FloatArray:
    """Return log densities of all answers to each item together, dims (draw, item, node)."""
    right = np.bincount(item, k, minlength=position.shape[1])
    result: FloatArray = -right[:, None] * position
    if not len(item):
        return result
    where, starts = np.unique(item, return_index=True)
    result[:, where] += np.add.reduceat(k * center, starts, axis=1)[..., None]
    reach = np.abs(center).max() + np.abs(position).max()
    longest = int(_LARGEST / (reach + 1))  # factors, each at most 1 + exp(reach), of a product
    within_item = np.arange(len(item)) - np.repeat(starts, np.diff(starts, append=len(item)))
    runs = np.flatnonzero(within_item % longest == 0)
    starts_of_runs = np.searchsorted(runs, starts)
    odds, ease = np.exp(center), np.exp(-position)
    for node in range(position.shape[-1]):
        factor = odds * ease[:, item, node]
        factor += 1
        log_product = np.log(np.multiply.reduceat(factor, runs, axis=1))
        result[:, where, node] -= np.add.reduceat(log_product, starts_of_runs, axis=1)
    return result


@dataclass(frozen=True, eq=False)
class BernoulliMixture:
    """Answers whose difficulties are known at nodes."""

    sign: FloatArray  # dims (answer,): 1 if right, -1 if wrong
    # share, hardness: dims (draw, answer, node): weights of nodes, which sum to one, and the
    # factors by which they multiply the odds of any other answer
    share: FloatArray
    hardness: FloatArray

    @classmethod
    def of(cls, k: FloatArray, position: FloatArray, log_weight: FloatArray) -> "BernoulliMixture":
        """Take answers, (answer,), at nodes that are `near`, (draw, answer, node)."""
        sign = 2 * k - 1
        return cls(sign, np.exp(log_weight), np.exp(sign[:, None] * position))

    def log_density(self, center: FloatArray) -> FloatArray:
        """Return log densities, difficulty summed out, for `near` log-odds, (draw, answer)."""
        against = self.hardness * np.exp(-self.sign * center)[..., None]
        against += 1
        density: FloatArray = np.divide(self.share, against, out=against).sum(axis=-1)
        return np.log(density)


@dataclass(frozen=True, eq=False)
class ItemBlock:
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
    def of(cls, newcomer: NewModel, draws: Draws) -> "ItemBlock | None":
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
            benchmarks_with_two_models(design)[benchmark], start[label], width[label],
            NODES if trials == 1 else 2 * NODES + 1,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ItemDifficulties:
    """Difficulties given draws of everything else in a fit, and its responses."""

    # Given abilities, slopes and spreads the items of a fit are independent: each has a
    # one-dimensional density, which nodes hold. So a newcomer of many items reweighs only few
    # parameters, and importance sampling does not fail with the number of items.

    items: ItemBlock
    own: Marginal  # the newcomer's responses
    nodes: Nodes  # dims (draw, item, node)

    @classmethod
    def of(
        cls,
        items: ItemBlock,
        draws: Draws,
        newcomer: NewModel,
        marginal: Marginal,
        spread: FloatArray,
    ) -> "ItemDifficulties":
        """Place nodes for some draws."""
        easy = Draws(draws.theta, draws.beta, None, None, None, spillover=draws.spillover)
        center = predictor(easy, newcomer.design.subset(items.met))
        met = marginal[items.met]
        scale = np.where(items.shared, spread[:, items.benchmark], 0.0) + SMALLEST

        def log_density(position: FloatArray) -> FloatArray:
            prior = -0.5 * (position / scale[..., None]) ** 2
            return prior + _log_joint(met, center, position, items.of_met)

        start = np.where(items.shared, items.start, 0.0)
        nodes = place_nodes(log_density, start, items.width, scale, items.count)
        return cls(items, marginal[newcomer.own], nodes)

    def log_weights(self, eta: FloatArray) -> FloatArray:
        """Return log joint densities of the newcomer's responses and nodes."""
        # Dims (draw, own, node).
        position = self.nodes.position[:, self.items.of_own]
        log_weight = self.nodes.log_weight[:, self.items.of_own]
        total: FloatArray = log_weight + self.own.log_density(eta[..., None] - position)
        return total

    def log_density(self, eta: FloatArray) -> FloatArray:
        """Return log densities of the newcomer's responses, difficulty summed out, (draw, own)."""
        if self.own.are_single.all() and near(eta, self.nodes.position):
            return self._mixture.log_density(eta)
        return logsumexp(self.log_weights(eta), axis=-1)

    @cached_property
    def _mixture(self) -> BernoulliMixture:
        of_own, nodes = self.items.of_own, self.nodes
        return BernoulliMixture.of(
            self.own.rows.k, nodes.position[:, of_own], nodes.log_weight[:, of_own]
        )


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
