"""Posterior draws as arrays, with what was integrated out drawn again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numba
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.model import likelihood
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.exposure import Exposure, draw_nodes
from bayescontam.model.guessing import guess_priors
from bayescontam.model.marginal import Lattice, predictor_at_levels
from bayescontam.model.measurement_error import in_trials
from bayescontam.model.predictor import (
    Effects,
    contamination_shift,
    linear_predictor,
    response_slopes,
)
from bayescontam.model.priors import SMALLEST
from bayescontam.model.quadrature import log_weights, normal_trapezoid
from bayescontam.model.transforms import rough_logits
from bayescontam.specs.model import ModelSpec

CHUNK = 4_000_000
"""Numbers held at once while going through draws: 32 MB each array."""
CACHED = 250_000
"""The same where much is computed of them: 2 MB, which stay in a core's own cache."""
_REACH, _NODES = 6.0, 33
"""Ends of the grid over abilities of participants, in their spread, and its nodes."""
Places = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of effects, one row for each draw."""

    theta: FloatArray  # dims (draw, model × unit)
    beta: FloatArray | None  # dims (draw, model × benchmark)
    # delta, alpha: dims (draw, item)
    delta: FloatArray | None
    # dims (draw, repeated): log-odds of responses with several trials, where they have an effect of
    # their own; at their mean contamination once `node` is there. Where these effects were
    # integrated out, `with_own_effects` draws them.
    eta: FloatArray | None
    sigma_eps: FloatArray | None  # dims (draw, repeated) or (draw, 1): spread of these effects
    alpha: FloatArray | None = None
    increments: FloatArray | None = None  # dims (draw, segment)
    # kappa, sigma_delta: dims (draw, benchmark)
    kappa: FloatArray | None = None
    # gamma, spillover: dims (draw, 1)
    gamma: FloatArray | None = None
    spillover: FloatArray | None = None
    # dims (draw, benchmark): accuracy of blind guessing, where it is estimated
    guess: FloatArray | None = None
    # dims (draw, benchmark) or (draw, model × benchmark), where the probabilities of latent events
    # are unsure
    p_shift: FloatArray | None = None
    # dims (draw, group): which of its values each group's contamination has, where it is not known;
    # see `draw_contamination`
    node: NDArray[np.int8] | None = None
    sigma_delta: FloatArray | None = None
    # place, offset: where difficulties were integrated out: which node each item's difficulty lies
    # at, dims (draw, item), and by how many standard deviations the nodes of a draw are moved,
    # (draw, 1); see `bayescontam.inference.posterior`
    place: NDArray[np.integer[Any]] | None = None
    offset: FloatArray | None = None
    # dims (draw, item), of what estimands average over (draw, response): how many items of the
    # table an item stands for, if not itself; beside `place`: of `representative_items`
    tally: FloatArray | None = None
    # dims (draw, model × benchmark); see `bayescontam.model.effects`
    psi: FloatArray | None = None
    alpha_pair: FloatArray | None = None  # dims (draw, model × benchmark)
    # dims (draw, factor): what moves contaminations that are not known, together
    shared: FloatArray | None = None
    # zeta, sigma_zeta: abilities of participants, dims (draw, participant), and their spread,
    # (draw, 1). With the spread alone accuracies are those of the population of participants.
    zeta: FloatArray | None = None
    sigma_zeta: FloatArray | None = None
    xi: FloatArray | None = None  # dims (draw, pair of a group of people and an item)
    sigma_xi: FloatArray | None = None  # dims (draw, 1)

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, rows: slice | np.ndarray) -> "Draws":
        given = {name: values for name, values in vars(self).items() if values is not None}
        return replace(self, **{name: values[rows] for name, values in given.items()})

    @property
    def effects(self) -> Effects:
        """The effects that make up the log-odds, as the predictor takes them."""
        return vars(self)

    def spaced(self, most: int) -> IntArray:
        """Return the positions of at most `most` draws, evenly spaced."""
        return spaced(len(self), most)

    def thinned(self, most: int) -> "Draws":
        """Return at most `most` draws, evenly spaced."""
        return self[self.spaced(most)]

    def chunks(self, design: Design, most: int = CHUNK) -> Iterator["Draws"]:
        """Yield the draws in parts small enough to expand to all responses."""
        step = max(1, most // len(design))
        for start in range(0, len(self), step):
            yield self[slice(start, start + step)]


def spaced(count: int, most: int) -> IntArray:
    """Return at most `most` positions among `count`, evenly spaced, and one at least."""
    wanted = min(max(most, 1), count)
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64))


def stack_draws(posterior: xr.Dataset, design: Design) -> Draws:
    """Return the draws of a posterior (or prior) group, chains joined."""

    def flat(name: str) -> FloatArray | None:
        if name not in posterior:
            return None
        values = posterior[name].to_numpy()
        return values.reshape(values.shape[0] * values.shape[1], -1)

    theta = flat("theta")
    assert theta is not None
    sigma_eps = flat("sigma_eps")
    if sigma_eps is not None and sigma_eps.shape[1] > 1:
        sigma_eps = sigma_eps[:, design.model_benchmark[design.n_single :]]
    known = ("theta", "sigma_eps", "node", "place", "offset", "tally")
    others: dict[str, Any] = {
        field.name: flat(field.name) for field in fields(Draws) if field.name not in known
    }
    return Draws(theta=theta, sigma_eps=sigma_eps, **others)


def predictor(draws: Draws, design: Design) -> FloatArray:
    """Return the log-odds without model-by-item effects, dims (draw, response)."""
    eta: FloatArray = linear_predictor(draws.effects, design)
    return eta


def log_odds(draws: Draws, design: Design) -> FloatArray:
    """Return the log-odds of each response at `Design.contamination`, (draw, response)."""
    eta = predictor(draws, design)
    if draws.eta is not None:
        eta[:, design.n_single :] = draws.eta
    return eta


def slopes(draws: Draws, design: Design) -> FloatArray:
    """Return the slope that holds for each response, dims (draw, response)."""
    slope: FloatArray = response_slopes(draws.effects, design)
    return slope


def exposed(draws: Draws, design: Design, eta: FloatArray) -> FloatArray:
    """Return log-odds at the true contamination, from those at `Design.contamination`."""
    if draws.node is None or design.exposure is None:
        return eta
    return eta + slopes(draws, design) * design.exposure.shifts(draws.node)


def accuracy(
    draws: Draws,
    rows: BuiltModel,
    contamination: FloatArray | None = None,
    *,
    eta: FloatArray | None = None,
    spilled: bool = True,
) -> FloatArray:
    """Return the probability that each response is correct, dims (draw, response).

    At its true contamination, or at another; `eta` are its `log_odds`, where they are known.
    """
    design = rows.design
    eta = log_odds(draws, design) if eta is None else eta
    if contamination is None:
        eta = exposed(draws, design, eta)
    else:
        eta = eta + contamination_shift(draws.effects, design, contamination, spilled)
    guess = response_guess(draws, rows.spec, design)
    if draws.sigma_zeta is None or draws.zeta is not None or design.people is None:
        return likelihood.accuracy(eta, guess)
    own = design.people.grouped[design.model]
    p = likelihood.accuracy(eta, 0.0)
    p[:, own] = mean_logistic(eta[:, own], draws.sigma_zeta)
    return guess + (1 - guess) * p if np.any(guess) else p


def mean_logistic(center: FloatArray, scale: FloatArray) -> FloatArray:
    """Return means of logistic(center + scale z) over a standard Normal z, dims (draw, …)."""
    # The trapezoid rule, which errs by about exp(-2 pi² / (scale * step)): below 1e-5 up to a
    # scale of 4.
    nodes, log_weights = normal_trapezoid(_REACH, _NODES)
    result = np.zeros(center.shape)
    for z, weight in zip(nodes, np.exp(log_weights), strict=True):
        result += weight * likelihood.logistic(center + scale * z)
    return result


def response_guess(draws: Draws, spec: ModelSpec, design: Design) -> FloatArray:
    """Return the accuracy of blind guessing for each response, dims (response,)."""
    if draws.guess is not None:
        return draws.guess[:, design.benchmark]
    if design.item_guess is not None:
        return design.item_guess[design.item]
    values: Any = guess_priors(spec, design)
    return np.array(values, dtype=float)[design.benchmark]


@numba.njit(cache=True, boundscheck=False, nogil=True)
def choose(
    below: NDArray[np.float32],
    random: NDArray[np.float32],
    total: NDArray[np.int64],
    level: NDArray[np.int64],
    basis: NDArray[np.float32],
) -> NDArray[np.int64]:
    """Choose the first node whose distribution function lies above a random number."""
    chosen = np.empty(len(total), np.int64)
    for i in range(len(total)):
        low, high = 0, below.shape[2] - 1
        while low < high:
            middle = (low + high) // 2
            reached = np.float32(0)
            for k in range(level.shape[1]):
                reached += basis[i, k] * below[level[i, k], total[i], middle]
            if reached > random[i]:
                high = middle
            else:
                low = middle + 1
        chosen[i] = low
    return chosen


@numba.njit(cache=True, boundscheck=False, nogil=True)
def add_up(
    tally: NDArray[np.float64],
    first: NDArray[np.int64],
    place: NDArray[np.integer[Any]],
    basis: NDArray[np.floating[Any]],
) -> None:
    """Add items' weights of their levels to where their difficulties lie, dims (node, level)."""
    # Thirty times as fast as `numpy.bincount`, which needs all positions as one array. The levels
    # of an item lie side by side, so that several are added at once.
    for i in range(len(place)):
        for k in range(basis.shape[1]):
            tally[place[i], first[i] + k] += basis[i, k]


def draw_difficulties(
    draws: Draws,
    lattice: Lattice | None,
    rng: np.random.Generator,
    responses: bool = True,
    cores: int = 1,
) -> Draws:
    """Draw the difficulty of every item for every draw, where they were integrated out."""
    # Difficulties lie at the nodes of the quadrature, moved by a random part of a step for each
    # draw. A sum over evenly spaced nodes hardly depends on where they lie, so that means over
    # items have their distribution for any one draw, and a single item's difficulty has its own
    # over draws.
    if lattice is None:
        return draws
    at = lattice.nodes
    offset = rng.uniform(-0.5, 0.5, (len(draws), 1)) * (at[1] - at[0])
    seeds = rng.spawn(len(draws))
    place = np.empty((len(draws), len(lattice.total)), np.min_scalar_type(len(at)))
    numbers, tally = len(lattice.trials) * len(at), None
    # Counted once for all that is computed of them, where that takes no more room than they do.
    if lattice.mixture is None and 8 * numbers <= place.shape[1]:
        tally = np.empty((len(draws), numbers))

    def one(d: int) -> None:
        z, random = at + offset[d], seeds[d].random(place.shape[1], np.float32)
        if responses:
            place[d] = _conditional(draws[d : d + 1], lattice, z, random)
        else:
            below = np.cumsum(np.exp(-0.5 * z**2))
            place[d] = np.searchsorted(below, random * below[-1], side="right")
        if tally is not None:
            tally[d] = _counted(place[d], lattice, lattice.basis)

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(one, range(len(draws))))
    return replace(draws, place=place, offset=offset, tally=tally)


def _counted(place: Places, lattice: Lattice, basis: FloatArray) -> FloatArray:
    """Return how many items of one draw lie at each level and node, dims (level × node,)."""
    # Items of groups with few levels have weights of zero beyond them.
    levels = len(lattice.trials)
    tally = np.zeros((len(lattice.nodes), levels + basis.shape[1]))
    add_up(tally, lattice.first_of_item, place, basis)
    return tally[:, :levels].T.ravel()


def _conditional(draw: Draws, lattice: Lattice, z: FloatArray, random: FloatArray) -> Places:
    """Draw the nodes of all items given everything else of one draw."""
    level, added, normaliser = node_probabilities(draw, lattice, z)
    totals = np.arange(int(lattice.total.max()) + 1)
    log_weight = (added[:, None] * totals)[:, :, None] * z - (normaliser + 0.5 * z**2)[:, None]
    top = log_weight.max(axis=-1, keepdims=True)
    below = np.cumsum(np.exp(log_weight - top), axis=-1)
    basis = lattice.basis
    if lattice.mixture is not None:
        own, total, _ = lattice.classes
        inner = (np.log(below[..., -1]) + top[..., 0])[own, total]
        density = mixed_densities(draw, lattice, level, inner)
        chance = np.exp(density - logsumexp(density, axis=1, keepdims=True))
        basis = (chance[:, :, None] * basis).sum(axis=1)
    below = (below / below[..., -1:]).astype(np.float32)
    return choose(below, random, lattice.total, lattice.level, basis.astype(np.float32))


def mixed_densities(
    draw: Draws, lattice: Lattice, level: FloatArray, of_class: FloatArray
) -> FloatArray:
    """Return log densities of items' answers and contaminations in one draw, (item, node).

    `level` are log-odds of no difficulty, (level, model), and `of_class` what the integral over
    difficulty adds to each of the lattice's `classes`.
    """
    assert lattice.mixture is not None
    density = lattice.mixture.log_likelihood(level, lattice.at_values(of_class))
    result: FloatArray = log_chances_of(draw, lattice) + density
    return result


def log_chances_of(draw: Draws, lattice: Lattice) -> FloatArray:
    """Return log probabilities of contaminations that are not known in one draw, (item, node)."""
    table = lattice.table
    assert table.exposure is not None
    log_chances: FloatArray = table.exposure.weights(draw.p_shift)[0]
    return log_chances


def joint_log_density(draw: Draws, lattice: Lattice) -> float:
    """Return the log density of all responses in one draw, difficulties integrated out.

    So are contaminations that are not known; binomial coefficients are left out.
    """
    z = lattice.nodes
    level, added, normaliser = node_probabilities(draw, lattice, z)
    own, total, count = lattice.classes
    each = (total * added[own])[:, None] * z - normaliser[own] + log_weights(z)
    of_class = logsumexp(each, axis=1)
    if lattice.mixture is not None:
        return float(logsumexp(mixed_densities(draw, lattice, level, of_class), axis=1).sum())
    return float(count @ of_class + (lattice.correct * level).sum())


def node_probabilities(
    draw: Draws, lattice: Lattice, z: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log-odds that one draw gives to items at nodes of difficulty."""
    level, step = predictor_at_levels(draw.effects, lattice, np.zeros, np.ones)
    added = step[0] * _scale(draw, lattice, lattice.design.benchmark_of_item)[0]
    normaliser = np.zeros((len(added), len(z)))
    shift = added[:, None] * z
    for m, trials in enumerate(lattice.trials.T):
        normaliser += trials[:, None] * likelihood.softplus(level[0, :, m, None] + shift)
    return level[0], added, normaliser


def _scale(draws: Draws, lattice: Lattice, benchmark: IntArray) -> FloatArray:
    """Return the spread of difficulties, (draw, one for each of the given benchmarks)."""
    assert draws.sigma_delta is not None
    scale: FloatArray = (draws.sigma_delta + SMALLEST) * lattice.shared
    return scale[:, benchmark]


def expand_to_items(draws: Draws, lattice: Lattice | None, items: IntArray | None = None) -> Draws:
    """Return draws with the difficulties that `draw_difficulties` chose, dims (draw, item)."""
    if lattice is None:
        return draws
    delta = difficulty(draws, lattice, items)
    return replace(draws, delta=delta, place=None, offset=None, tally=None)


def difficulty(draws: Draws, lattice: Lattice, items: IntArray | None = None) -> FloatArray:
    """Return difficulties that `draw_difficulties` chose, log-odds, dims (draw, item)."""
    assert draws.place is not None
    assert draws.offset is not None
    which = slice(None) if items is None else items
    z = lattice.nodes[draws.place[:, which]] + draws.offset
    scale = _scale(draws, lattice, lattice.table.benchmark_of_item[which])
    result: FloatArray = z * scale
    return result


def representative_items(built: BuiltModel) -> BuiltModel:
    """Return the same with nodes of the lattice as items, which `count_by_level` draws are of."""
    lattice = built.lattice
    if lattice is None:
        return built
    made, models = lattice.design, len(lattice.design.models)
    like = np.repeat(np.arange(len(made.items)), len(lattice.nodes))
    level = None if made.contamination is None else made.item_contamination[like]
    answered = made.weight.reshape(-1, models)[like]
    design = made.on_grid(made.unit[like * models], level, answered, like)
    return replace(built, design=design)


def count_by_level(
    draws: Draws, lattice: Lattice | None, weights: FloatArray | None = None
) -> Draws:
    """Return draws of made-up items, with how many items each of them stands for."""
    if lattice is None or draws.place is None or draws.offset is None:
        return draws
    scale = _scale(draws, lattice, lattice.design.benchmark_of_item)
    at = lattice.nodes + draws.offset
    delta = (scale[:, :, None] * at[:, None, :]).reshape(len(draws), -1)
    tally = draws.tally
    if tally is None or weights is not None:
        tally = np.empty(delta.shape)
        for d, place in enumerate(draws.place):
            basis = lattice.basis
            if draws.node is not None:
                basis = basis[np.arange(len(basis)), draws.node[d]]
            if weights is not None:
                basis = basis * weights[d][:, None]
            tally[d] = _counted(place, lattice, basis)
    return replace(draws, delta=delta, tally=tally, place=None, offset=None)


@dataclass(frozen=True, eq=False)
class ContaminationMoments:
    """Posterior mean and standard deviation of the true contamination, dims (group,)."""

    mean: FloatArray
    sd: FloatArray


def draw_contamination(
    draws: Draws, built: BuiltModel, rng: np.random.Generator, responses: bool = True
) -> tuple[Draws, ContaminationMoments | None]:
    """Draw the true contamination of every group, which was summed out for sampling."""
    exposure = built.design.exposure
    if exposure is None:
        return draws, None
    parts, first, second = [], np.zeros(len(exposure)), np.zeros(len(exposure))
    for part in draws.chunks(built.design):
        expanded = expand_to_items(part, built.lattice)
        log_chances = _log_chances(expanded, built, exposure, responses)
        found = replace(part, node=draw_nodes(log_chances, rng))
        parts.append(_at_mean(found, built, exposure))
        weights = np.exp(log_chances)
        # About the mean, so that a small variance is not lost in rounding.
        first += (weights * exposure.offsets).sum(axis=(0, 2))
        second += (weights * exposure.offsets**2).sum(axis=(0, 2))
    first, second = first / len(draws), second / len(draws)
    moments = ContaminationMoments(
        exposure.mean + first, np.sqrt(np.maximum(second - first**2, 0.0))
    )
    node = np.concatenate([part.node for part in parts if part.node is not None])
    eta = [part.eta for part in parts if part.eta is not None]
    return replace(draws, node=node, eta=np.concatenate(eta) if eta else None), moments


def _log_chances(
    draws: Draws, built: BuiltModel, exposure: Exposure, responses: bool
) -> FloatArray:
    """Return log probabilities of nodes given a draw, dims (draw, group, node)."""
    design = built.design
    prior = exposure.weights(draws.p_shift)
    result = np.empty((len(draws), *exposure.nodes.shape))
    slope, eta = slopes(draws, design), predictor(draws, design)
    for k in range(exposure.nodes.shape[1]):
        shift = slope * exposure.offsets[exposure.group, k]
        density = _log_density(draws, built, eta, shift, responses)
        result[..., k] = prior[..., k] + exposure.sums(density)
    return result - logsumexp(result, axis=-1, keepdims=True)


def _log_density(
    draws: Draws, built: BuiltModel, eta: FloatArray, shift: FloatArray, responses: bool
) -> FloatArray:
    """Return the log density of each response, and of its effect, at shifted log-odds."""
    design = built.design
    repeated = slice(design.n_single, None)
    total, effect = eta + shift, np.zeros(eta.shape)
    if draws.eta is not None and draws.sigma_eps is not None:
        scale = draws.sigma_eps + SMALLEST
        part = in_trials(scale, rough_logits(design).se)
        center = eta[:, repeated] + (1 - part) * shift[:, repeated]
        effect[:, repeated] = -0.5 * ((draws.eta - center) / scale) ** 2
        total[:, repeated] = draws.eta + part * shift[:, repeated]
    if not responses:
        return effect
    guess = response_guess(draws, built.spec, design)
    k, n = design.n_correct * 1.0, design.n_trials * 1.0
    return effect + likelihood.log_likelihood(total, k, n, guess)


def _at_mean(draws: Draws, built: BuiltModel, exposure: Exposure) -> Draws:
    """Take out of ``eta`` what is in it of the shift to the true contamination."""
    if draws.eta is None or draws.sigma_eps is None or draws.node is None:
        return draws
    design = built.design
    repeated = slice(design.n_single, None)
    part = in_trials(draws.sigma_eps + SMALLEST, rough_logits(design).se)
    shift = (slopes(draws, design) * exposure.shifts(draws.node))[:, repeated]
    return replace(draws, eta=draws.eta - (1 - part) * shift)
