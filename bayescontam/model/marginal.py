"""Item difficulties, integrated out on a grid."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import shared as shared_variable

from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import UsageError
from bayescontam.model.design import Design, extremes
from bayescontam.model.exposure import Exposure
from bayescontam.model.guessing import can_guess
from bayescontam.model.likelihood import log_choose, log_sum
from bayescontam.model.measurement_error import unsure_log_weights
from bayescontam.model.predictor import Effects, linear_predictor
from bayescontam.model.priors import Tensor, spread
from bayescontam.model.quadrature import log_weights
from bayescontam.model.terms import Terms, benchmarks_with_two_models
from bayescontam.specs.model import ModelSpec

LEVELS = 12  # Chebyshev points of a group in which contamination takes more values than this
REACH = 5.5  # standard deviations on either side of zero over which difficulty is integrated
FINENESS = 1.2
"""Steps of the quadrature, in standard deviations of a well known difficulty.

The trapezoidal rule errs by about 2 exp(-2 (pi / step)^2), that is by two in a million.
"""
Difficulties = Literal["auto", "sampled", "marginalised"]
"""What is done about item difficulties while sampling."""
LARGE = 50_000
"""Responses from which `"auto"` integrates difficulties out, and threads judge a fit."""


def item_levels(design: Design) -> FloatArray | None:
    """Return each item's contamination, NaN where models that may be exposed to it differ in it."""
    if design.contamination is None:
        return None
    level = design.contamination[design.exposed]
    low, high = extremes(level, level, design.item[design.exposed], len(design.items))
    return np.where(high > low, np.nan, low)


@dataclass(frozen=True, eq=False)
class Mixture:
    """What each item's contamination may be, where it is not known."""

    # The log-odds of an item of no difficulty are a straight line in its contamination, so that
    # those at the two ends of its group's levels give those of any value.
    answers: NDArray[np.integer[Any]]  # dims (item, model): correct answers
    # first, last: dims (item,): first and last level of its group
    first: IntArray
    last: IntArray
    along: FloatArray  # dims (item, node): how far from the first to the last a value lies
    log_weights: FloatArray  # dims (item, node): log probabilities where `p_shift` is 0

    @classmethod
    def of(
        cls,
        answers: NDArray[np.integer[Any]],
        first: IntArray,
        last: IntArray,
        level: FloatArray,
        exposure: Exposure,
    ) -> Self:
        """Return what an exposure says of items, with contaminations of all levels, (level,)."""
        low, high = level[first, None], level[last, None]
        along = (exposure.nodes - low) / np.where(high > low, high - low, 1.0)
        return cls(answers, first, last, along, exposure.log_weights)

    @cached_property
    def data(self) -> "Mixture":
        """The same as data of a PyMC model."""
        return Mixture(**{name: as_data(name, values) for name, values in vars(self).items()})

    def log_likelihood(self, level: Any, inner: Any) -> Any:
        """Return the log density of each item's answers at each of its contaminations.

        `level` are log-odds of no difficulty, (level, model), and `inner` what is left of the
        density at each contamination, (item, node), for PyMC and for NumPy alike.
        """
        low, high = (
            (level[at] * self.answers).sum(axis=-1)[:, None] for at in (self.first, self.last)
        )
        return low + (high - low) * self.along + inner


@dataclass(frozen=True, eq=False)
class Lattice:
    """Items in groups that the same models answered, and the levels that stand for them."""

    # Responses to an item inform on its difficulty by their number of correct ones alone (Rasch
    # 1960), so that items of a group with the same total and contamination are all alike. A
    # function of contamination that is smooth within a group, such as their log likelihood, is a
    # weighted sum of its values at the group's levels: the polynomial through Chebyshev points
    # converges geometrically (Trefethen 2019, doi:10.1137/1.9781611975949, chapter 8). Where
    # contamination takes few values these are the levels, and nothing is interpolated. Where it is
    # not known, the same holds at each value that it may have.
    table: Design  # of the responses
    design: Design  # its items are the levels of all groups
    group: IntArray
    first: IntArray  # position of its first level
    # dims (item, level of its group): weights of levels, filled up with zeros. Where contamination
    # is not known (item, node, level of its group), of each value that it may have.
    basis: FloatArray
    total: IntArray  # correct answers
    trials: FloatArray  # dims (level, model): trials of each model at each item of the group
    # dims (level, model): correct answers, shared out among the levels; zeros where contamination
    # is not known
    correct: FloatArray
    mixture: Mixture | None = None  # None where contamination is known

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """Whether the items of each benchmark have difficulties."""
        return benchmarks_with_two_models(self.table)

    @cached_property
    def level(self) -> IntArray:
        """Levels of each item's group, filled up with the last, dims (item, level of its group)."""
        ends = np.append(self.first[1:], len(self.trials)) - 1
        level = self.first[:, None] + np.arange(self.basis.shape[-1])
        return np.minimum(level, ends[:, None])[self.group]

    @cached_property
    def first_of_item(self) -> IntArray:
        """First level of each item's group, dims (item,)."""
        return self.first[self.group]

    @cached_property
    def nodes(self) -> FloatArray:
        """Difficulties at which integrands are evaluated, in their standard deviations."""
        # Evenly spaced: the trapezoidal rule converges geometrically for smooth integrands that
        # vanish at both ends (Trefethen & Weideman 2014, doi:10.1137/130932132). The step is for
        # the best known difficulty, and for half as much spread again as the totals show; for more
        # where a benchmark has so few items that draws of the spread may go further up.
        trials = self.trials.sum(axis=1)[self.level[:, 0]]
        logit = np.log((self.total + 0.5) / (trials - self.total + 0.5))
        size = np.bincount(self.group)
        mean = np.bincount(self.group, logit) / size
        within = np.sqrt(np.bincount(self.group, (logit - mean[self.group]) ** 2) / size)
        fewest = np.bincount(self.table.benchmark_of_item).min()
        widest = max(1.5 * float(within.max()), 1.5 + 7.5 / np.sqrt(fewest))
        known = 1 / np.sqrt(trials.max() / 4 + 1 / widest**2)
        count = int(np.ceil(2 * REACH * widest / (FINENESS * known))) + 1
        return np.linspace(-REACH, REACH, count)

    @cached_property
    def classes(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Level, total and number of items of all (level, total) that items have."""
        keys, of_item = self._classes()
        totals = int(self.total.max()) + 1
        if self.mixture is not None:  # what items are of depends on their contaminations
            return *divmod(keys, totals), np.full(len(keys), np.nan)
        used = self.basis != 0
        return *divmod(keys, totals), np.bincount(of_item[used], self.basis[used], len(keys))

    @cached_property
    def class_of_item(self) -> IntArray:
        """Which of `classes` an item is of at each level of its group, (item, level of it)."""
        return self._classes()[1]

    def _classes(self) -> tuple[IntArray, IntArray]:
        used = self.basis != 0
        if used.ndim == 3:
            used = used.any(axis=1)
        key = self.level * (int(self.total.max()) + 1) + self.total[:, None]
        # Levels that an item does not use stand for one that it does: their weight is zero.
        first = np.take_along_axis(key, used.argmax(axis=1)[:, None], axis=1)
        keys, at = np.unique(np.where(used, key, first), return_inverse=True)
        return keys, at.reshape(key.shape)

    def at_values(self, of_class: Any) -> Any:
        """Return values of `classes` at each value of items' contamination, (item, node)."""
        basis, of_item = self.basis, self.class_of_item
        if not isinstance(of_class, np.ndarray):
            basis, of_item = as_data("basis", basis), as_data("class_of_item", of_item)
        return (basis * of_class[of_item][:, None, :]).sum(axis=-1)


def make_lattice(design: Design, levels: int = LEVELS) -> Lattice:
    """Return the lattice of a table in which an item has one contamination for all models."""
    shape = len(design.items), len(design.models)
    given, correct = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    given[design.item, design.model] = design.n_trials
    correct[design.item, design.model] = design.n_correct
    of_group, one, group = np.unique(
        np.column_stack([design.unit_of_item, given]),
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    exposure = design.exposure
    at, basis = _levels(design, group, levels)
    count = np.array([len(a) for a in at])
    first = np.cumsum(count) - count
    of_level = np.repeat(np.arange(len(at)), count)
    made = design.on_grid(
        of_group[of_level, 0],
        None if design.contamination is None else np.concatenate(at),
        (of_group[of_level, 1:] > 0).astype(float),
        one[of_level],
    )
    total = correct.sum(axis=1).astype(np.int64)
    trials = of_group[of_level, 1:].astype(float)
    shared = np.zeros((len(of_level), shape[1]))
    if exposure is not None:
        ends = first[group], (first + count - 1)[group]
        mixture = Mixture.of(correct, *ends, np.concatenate(at), exposure)
        return Lattice(design, made, group, first, basis, total, trials, shared, mixture)
    for k in range(basis.shape[1]):
        used = np.flatnonzero(basis[:, k])
        np.add.at(shared, first[group[used]] + k, basis[used, k, None] * correct[used])
    return Lattice(design, made, group, first, basis, total, trials, shared)


def _levels(design: Design, group: IntArray, count: int) -> tuple[list[FloatArray], FloatArray]:
    """Return the levels of each group, and each item's weights of them."""
    value = item_levels(design) if design.exposure is None else design.exposure.nodes
    if value is None:
        return [np.zeros(1)] * (int(group.max()) + 1), np.ones((len(group), 1))
    edges = np.array([0.0, *design.knots, 1.0])
    rows_of = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    made = [_interpolated(value[rows].ravel(), edges, count) for rows in rows_of]
    basis = np.zeros((*value.shape, max(len(at) for at, _ in made)))
    for rows, (at, weights) in zip(rows_of, made, strict=True):
        basis[rows, ..., : len(at)] = weights.reshape(*value[rows].shape, -1)
    return [at for at, _ in made], basis


def _interpolated(
    value: FloatArray, edges: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return levels for values, and each value's weights of them, (value, level)."""
    distinct, same = np.unique(value, return_inverse=True)
    if len(distinct) <= count:
        return distinct, np.eye(len(distinct))[same]
    # A function of the value is smooth between two edges.
    segment = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, len(edges) - 2)
    rows_of = [np.flatnonzero(segment == s) for s in np.unique(segment)]
    made = [_polynomial(value[rows], count) for rows in rows_of]
    weights, start = np.zeros((len(value), sum(len(at) for at, _ in made))), 0
    for rows, (at, part) in zip(rows_of, made, strict=True):
        weights[rows, start : start + len(at)] = part
        start += len(at)
    return np.concatenate([at for at, _ in made]), weights


def _polynomial(value: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return Chebyshev points for values, and the weights of the polynomial through them."""
    low, high = value.min(), value.max()
    if low == high:
        return np.array([low]), np.ones((len(value), 1))
    points, scaled = chebpts1(count), (2 * value - low - high) / (high - low)
    weights = np.linalg.solve(chebvander(points, count - 1).T, chebvander(scaled, count - 1).T).T
    return (low + high + points * (high - low)) / 2, weights


def reason_not_marginalised(spec: ModelSpec, design: Design, terms: Terms) -> str | None:
    """Say why item difficulties cannot be integrated out; None where they can."""
    reasons = {
        "the fit has no item difficulties": "delta" not in terms,
        "items differ in discrimination": "alpha" in terms,
        "pairs of model and benchmark differ in discrimination": "alpha_pair" in terms,
        "repeated trials have an effect of their own": "eps" in terms,
        "items share what is uncertain of their contamination": design.shared is not None,
        "contamination is uncertain, and confounded with difficulty": (
            design.exposure is not None and "kappa" in terms
        ),
        "contamination adds to accuracy, not to its log-odds": design.additive,
        "answers can be guessed": can_guess(spec, design),
        "rows count different items": spec.likelihood.trials == "items",
        "people of one model differ": design.people is not None,
        "slopes depend on difficulty, and clean models have none": (
            "gamma" in terms and bool(design.clean.any() or design.unexposed.any())
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            return reason
    level = item_levels(design) if design.exposure is None else None
    of_pairs = design.exposure is not None and design.exposure.pairs
    if of_pairs or (level is not None and np.isnan(level).any()):
        return "an item's contamination differs between models"
    return None


def make_grid(
    spec: ModelSpec, design: Design, terms: Terms, difficulties: Difficulties
) -> Lattice | None:
    """Return what stands in for the items; None where their difficulties are sampled."""
    if difficulties == "sampled" or (difficulties == "auto" and len(design) < LARGE):
        return None
    reason = reason_not_marginalised(spec, design, terms)
    if reason is None:
        lattice = make_lattice(design)
        if difficulties == "marginalised" or 5 * len(lattice.design) <= len(design):
            return lattice
    elif difficulties == "marginalised":
        raise UsageError(
            f"difficulties: got 'marginalised', but {reason}; use 'sampled', or 'auto', which"
            " chooses what is possible"
        )
    return None


def add_marginalised(spec: ModelSpec, design: Design, effects: Effects, lattice: Lattice) -> None:
    """Add ``n_correct``, dims (response,), observed, with difficulties integrated out.

    It adds ``sigma_delta`` (benchmark) and, where the probabilities of latent events are unsure,
    ``p_shift`` (benchmark), since all models share the probabilities here.
    """
    scale = spread("sigma_delta", spec.priors.sigma_delta, dims="benchmark")
    made = lattice.design
    scale = (scale * benchmarks_with_two_models(design))[made.benchmark_of_item]
    level, step = predictor_at_levels(effects, lattice, pt.zeros, pt.ones)
    constant = log_choose(design.n_trials, design.n_correct).sum()
    mixed = [] if lattice.mixture is None else [_log_chances(design, lattice.mixture)]

    def logp(value: Any, level: Any, step: Any, *mixed: Any) -> Any:
        return log_density(level, step, lattice, lattice.nodes, *mixed) + constant

    def draw(level: Any, step: Any, *others: Any) -> Any:
        # Constants, as in `taken`.
        own, weights = pt.constant(lattice.level), lattice.basis
        if len(others) > 1:
            node = pm.Categorical.dist(logit_p=others[0])
            weights = pt.constant(weights)[pt.arange(len(lattice.total)), node]
        row, column = pt.constant(design.item), pt.constant(design.model)
        item = (weights[:, :, None] * level[own]).sum(axis=1)
        random = pm.Normal.dist(shape=len(lattice.total))
        item = item + ((weights * step[own]).sum(axis=1) * random)[:, None]
        return pm.Binomial.dist(n=design.n_trials, logit_p=item[row, column])

    pm.CustomDist(
        "n_correct", level, step * scale, *mixed, logp=logp, dist=draw,
        signature=f"(l,m),(l){',(i,k)' * len(mixed)}->(r)",
        observed=design.n_correct, dims="response",
    )  # fmt: skip


def _log_chances(design: Design, mixture: Mixture) -> Tensor:
    """Return log probabilities of items' contaminations, dims (item, node)."""
    assert design.exposure is not None
    known: Tensor = mixture.data.log_weights
    if design.exposure.moves is None:
        return known
    # Groups of responses that share a contamination are items here, and in their order.
    unsure = np.flatnonzero(design.exposure.unsure)
    return known[unsure].set(unsure_log_weights(design.exposure))


def predictor_at_levels(
    effects: Effects, lattice: Lattice, zeros: Any, ones: Any
) -> tuple[Any, Any]:
    """Return log-odds of an item of no difficulty, and what one unit of difficulty adds."""
    made = lattice.design
    count = len(made.items)
    easy = linear_predictor({**effects, "delta": zeros(count)}, made)
    hard = linear_predictor({**effects, "delta": ones(count)}, made)
    shape = *easy.shape[:-1], count, len(made.models)
    level = easy.reshape(shape)
    return level, (hard.reshape(shape) - level)[..., 0]


def log_density(
    level: Tensor, step: Tensor, lattice: Lattice, at: FloatArray, log_chances: Tensor | None = None
) -> Tensor:
    """Return the log density of all responses, difficulties integrated out.

    `log_chances` are those of items' contaminations, where these are not known.
    """
    added = step[:, None] * at
    normaliser = (
        lattice.trials[:, :, None] * pt.softplus(level[:, :, None] + added[:, None, :])
    ).sum(axis=1)
    own, total, count = lattice.classes
    each = log_sum(total[:, None] * added[own] - normaliser[own] + log_weights(at))
    if lattice.mixture is None:
        return (lattice.correct * level).sum() + (count * each).sum()
    density = lattice.mixture.data.log_likelihood(level, lattice.at_values(each))
    return log_sum(log_chances + density).sum()


def as_data(name: str, values: NDArray[Any]) -> Any:
    """Return an array as data of a model: what holds constants of megabytes is not cached."""
    return shared_variable(values, name=name, borrow=True)
