"""Importance sampling of a new model: its prior given a fit, Laplace proposal, and weights."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy import sparse, stats
from scipy.special import gammaln, softmax

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.posterior import (
    Draws,
    draw_difficulties,
    expand_to_items,
    predictor,
    stack_draws,
)
from bayescontam.inference.predictive import Rows, draw_effects
from bayescontam.model.effects import variance_components
from bayescontam.model.exposure import draw_nodes
from bayescontam.model.marginal import make_lattice
from bayescontam.model.priors import SMALLEST, distribution, stretch_of_draws
from bayescontam.parallel import usable_cores
from bayescontam.updating.marginalise import ItemBlock, ItemDifficulties, Marginal
from bayescontam.updating.new_model import NewModel

FREEDOM = 15.0
"""Degrees of freedom of proposals: tails heavier than those of what they stand for."""
_STEP = 0.2
_STEPS = 2
_WIDEST = 200
"""Parameters of more values than this, such as item difficulties, are left out."""
_FEW = 40
"""Draws from which the start of all others is found."""
_FIRST = 0.3
"""Share of draws that are taken evenly, before it is known which are wanted."""
_THREADS = 4
"""Parts worked on side by side, at most; NumPy's loops do not hold each other up."""
_CHUNK = 1_000_000
"""Numbers that are worked on at once; with many more an update was a fifth slower."""


@dataclass(frozen=True, eq=False)
class ConditionalPrior:
    """A newcomer's effects given a draw: location + loading × standard Normals, reweighted.

    Effects are the ability in each unit that it answered, then the slope (its logarithm
    where slopes are positive) in each benchmark.
    """

    location: FloatArray  # dims (draw, effect)
    loading: FloatArray  # dims (draw, effect, source)
    # dims (draw,): by how much the mean ability of units falls for each standard Normal of general
    # ability; None where there is none. That is source 0.
    shift: FloatArray | None
    centers: FloatArray  # dims (draw, top): means of abilities that have a prior of their own
    top: Any  # that prior
    factor: FloatArray  # dims (draw, 1): in which units; see `bayescontam.model.priors`
    # sources that are not Normal, with the distribution that they have
    exact: tuple[tuple[int, Any], ...]

    def __getitem__(self, part: slice | IntArray) -> "ConditionalPrior":
        shift = None if self.shift is None else self.shift[part]
        return ConditionalPrior(
            self.location[part], self.loading[part], shift, self.centers[part], self.top,
            self.factor[part], self.exact,
        )  # fmt: skip

    def effects(self, source: FloatArray) -> FloatArray:
        """Return effects, dims (draw, effect), of standard Normals, dims (draw, source)."""
        return self.location + np.einsum("dps,ds->dp", self.loading, source)

    def log_density(self, source: FloatArray) -> FloatArray:
        """Return the log prior density of sources, dims (draw,)."""
        total: FloatArray = stats.norm.logpdf(source).sum(axis=1)
        if self.shift is not None:
            moved = self.centers + (self.shift * source[:, 0])[:, None]
            moved, centers = moved / self.factor, self.centers / self.factor
            total = total + (self.top.logpdf(moved) - self.top.logpdf(centers)).sum(axis=1)
        for column, prior in self.exact:
            middle, width = mean_and_sd(prior)
            value = source[:, column]
            total = total + prior.logpdf(middle + width * value) + np.log(width)
            total = total - stats.norm.logpdf(value)
        return total


def mean_and_sd(prior: Any) -> tuple[float, float]:
    """Return median and half the width of the central 68 % of a distribution."""
    low, middle, high = (float(prior.ppf(q)) for q in (0.1587, 0.5, 0.8413))
    return middle, (high - low) / 2


class _Columns:
    """Location and loadings, collected effect by effect and source by source."""

    def __init__(self, draws: int, effects: int) -> None:
        self.location = np.zeros((draws, effects))
        self.loadings: list[FloatArray] = []
        self.exact: list[tuple[int, Any]] = []

    def add(self, effects: slice, scale: FloatArray | float) -> None:
        """Let effects share one source of this scale."""
        loading = np.zeros(self.location.shape)
        loading[:, effects] = np.reshape(scale, (-1, 1))
        self.loadings.append(loading)

    def add_each(self, effects: slice, scale: FloatArray | float) -> None:
        """Give each effect a source of its own, of this scale."""
        for effect in range(effects.start, effects.stop):
            self.add(slice(effect, effect + 1), scale)

    def add_prior(self, effects: slice, prior: Any, factor: FloatArray) -> None:
        """Give each effect a source of its own with this distribution, times a factor."""
        middle, width = mean_and_sd(prior)
        self.location[:, effects] += middle * factor
        if not (hasattr(prior, "dist") and prior.dist.name == "norm"):
            first = len(self.loadings)
            self.exact += [(first + k, prior) for k in range(effects.stop - effects.start)]
        self.add_each(effects, width * factor)


def expectation(posterior: xr.Dataset, newcomer: NewModel) -> ConditionalPrior:
    """Return what draws of a fit expect of a newcomer.

    General abilities sum to zero over the models of a fit, of which the newcomer becomes
    one. Write ``g`` for its general ability above the mean of the fit's ``M`` models. In a
    joint fit ``g ~ Normal(0, sigma_a sqrt(1 + 1/M))`` given ``sigma_a``, and the means of
    units of the joint fit are those of the fit plus ``g / (M + 1)``, to which their prior
    belongs.
    """
    spec, terms, n_models = newcomer.spec, newcomer.built.terms, len(newcomer.host.models)
    abilities = slice(0, len(newcomer.units))
    slopes = slice(abilities.stop, abilities.stop + len(newcomer.benchmarks) * ("beta" in terms))
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    columns, shift = _Columns(draws, slopes.stop), None
    # Where model-by-item effects have a spread for each model, a fit identifies no newcomer's.
    factor = np.broadcast_to(stretch_of_draws(posterior).one, draws)[:, None]
    for each in variance_components(spec, terms):
        part = {"theta": abilities, "beta": slopes}.get(each.of)
        if part is None or "model" not in each.dims:
            continue
        if each.prior is not None:
            columns.add_prior(part, distribution(getattr(spec.priors, each.prior)), factor)
            continue
        scale = _flat(posterior, str(each.scale))[:, 0] + SMALLEST
        if each.zero_sum:
            scale = scale * np.sqrt(1 + 1 / n_models)
            shift = scale / (n_models + 1)
        (columns.add if each.dims == ("model",) else columns.add_each)(part, scale)
    if spec.ability.pooling != "none":
        hosts = np.argsort(newcomer.unit_of_host)[newcomer.units]
        columns.location[:, abilities] += _flat(posterior, "mu")[:, hosts]
    if "beta" in terms and spec.contamination.pooling != "none":
        columns.location[:, slopes] += _slope_level(posterior, newcomer)
    top = "mu_bar" if "sigma_mu" in terms else "mu"
    centers = _flat(posterior, top) if shift is not None else np.zeros((draws, 0))
    return ConditionalPrior(
        columns.location,
        np.stack(columns.loadings, axis=-1),
        shift,
        centers,
        distribution(getattr(spec.priors, top)),
        factor,
        tuple(columns.exact),
    )


def _slope_level(posterior: xr.Dataset, newcomer: NewModel) -> FloatArray:
    """Return what the slopes of all models vary around, dims (draw, benchmark or 1)."""
    if "v" in newcomer.built.terms:
        return _flat(posterior, "beta_benchmark")[:, newcomer.benchmarks]
    level = _flat(posterior, "beta_bar")
    return np.log(level) if newcomer.spec.contamination.sign == "positive" else level


def _flat(posterior: xr.Dataset, name: str) -> FloatArray:
    values = posterior[name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1)


@dataclass(frozen=True, eq=False)
class Completion:
    """Draws of a fit, and what completes them to draws of the joint model."""

    newcomer: NewModel
    draws: Draws  # of the fit
    expected: ConditionalPrior
    rows: Rows  # all responses of the joint design
    marginal: Marginal  # their densities
    items: ItemBlock | None
    spread: FloatArray | None  # dims (draw, benchmark): of difficulties
    rng: np.random.Generator

    @classmethod
    def of(
        cls, posterior: xr.Dataset, newcomer: NewModel, rng: np.random.Generator
    ) -> "Completion":
        """Prepare all draws of a fit."""
        draws = stack_draws(posterior, newcomer.host)
        if "delta" in newcomer.built.terms and draws.delta is None:
            lattice = make_lattice(newcomer.host)
            draws = expand_to_items(draw_difficulties(draws, lattice, rng), lattice)
        rows = Rows.of(newcomer.built, draws)
        marginal = Marginal.of(rows, newcomer.design.n_single, _scale(draws))
        spread = None
        if draws.delta is not None:
            spread = posterior["sigma_delta"].to_numpy().reshape(len(draws), -1) + SMALLEST
        expected, items = expectation(posterior, newcomer), ItemBlock.of(newcomer, draws)
        return cls(newcomer, draws, expected, rows, marginal, items, spread, rng)

    @property
    def numbers(self) -> int:
        """How many numbers one draw takes while nodes are placed."""
        numbers = len(self.newcomer.design) + self.marginal.numbers
        if self.items is None:
            return numbers
        return max(numbers, self.items.count * (len(self.items.met) + len(self.newcomer.own)))

    def answers(self, part: IntArray) -> Marginal | ItemDifficulties:
        """Return the newcomer's responses given some draws, their difficulties summed out."""
        draws = self.draws[part]
        marginal = self.marginal.at(_scale(draws))
        if self.items is None or self.spread is None:
            return marginal[self.newcomer.own]
        # The newcomer's own values are not looked at: only the fit's responses are.
        theta = np.zeros((len(draws), len(self.newcomer.design.units)))
        beta = None
        if draws.beta is not None:
            beta = np.zeros((len(draws), len(self.newcomer.design.benchmarks)))
        joint = self.whole(draws, theta, beta)
        return ItemDifficulties.of(self.items, joint, self.newcomer, marginal, self.spread[part])

    def complete(self, chosen: IntArray, start: FloatArray) -> tuple[Draws, FloatArray]:
        """Return draws of the joint design and their log ratios, part by part."""
        step = max(1, _CHUNK // self.numbers)
        chunks = [chosen[first : first + step] for first in range(0, len(chosen), step)]
        # A stream of its own for each: the numbers are the same for any number of threads.
        streams = self.rng.spawn(len(chunks))
        with ThreadPoolExecutor(min(_THREADS, usable_cores())) as pool:
            parts = list(pool.map(partial(self._complete, start), chunks, streams))
        return _joined([draws for draws, _ in parts]), np.concatenate([r for _, r in parts])

    def _complete(
        self, start: FloatArray, chosen: IntArray, rng: np.random.Generator
    ) -> tuple[Draws, FloatArray]:
        draws, answers, effects = self.draws[chosen], self.answers(chosen), Effects(self.newcomer)
        drawn, log_ratio = propose(start, effects, self.expected[chosen], answers, rng)
        joint = self.whole(draws, *effects.placed(drawn))
        own = replace(self, rng=rng)
        return own.drawn(joint, draws, answers, effects.log_odds(drawn)), log_ratio

    def whole(self, draws: Draws, theta: FloatArray, beta: FloatArray | None) -> Draws:
        """Return draws of the joint design with the newcomer's values put last."""
        host, design = self.newcomer.host, self.newcomer.design
        old = draws.theta.reshape(len(draws), len(host.models), -1)
        moved = np.empty_like(old)
        moved[:, :, self.newcomer.unit_of_host] = old
        wide = np.concatenate([moved.reshape(len(draws), -1), theta], axis=1)
        slopes = None
        if draws.beta is not None and beta is not None:
            slopes = np.concatenate([draws.beta, beta], axis=1)
        delta = None
        if draws.delta is not None:
            delta = np.zeros((len(draws), len(design.items)))
            delta[:, self.newcomer.item_of_host] = draws.delta
        return Draws(wide, slopes, delta, None, None)

    def drawn(
        self, joint: Draws, draws: Draws, answers: Marginal | ItemDifficulties, eta: FloatArray
    ) -> Draws:
        """Draw difficulties of the items that the newcomer met, and effects of responses."""
        delta = joint.delta
        if isinstance(answers, ItemDifficulties) and delta is not None:
            delta = delta.copy()
            items, nodes = answers.items, answers.nodes
            log_weight = nodes.log_weight.copy()
            gained = answers.log_weights(eta) - nodes.log_weight[:, items.of_own]
            log_weight[:, items.of_own] += gained  # one response to an item, so none is lost
            chosen = draw_nodes(log_weight, self.rng).astype(np.int64)[..., None]
            delta[:, items.label] = np.take_along_axis(nodes.position, chosen, -1)[..., 0]
        joint = Draws(joint.theta, joint.beta, delta, None, None)
        return joint if draws.sigma_eps is None else self._with_effects(joint, draws.sigma_eps)

    def _with_effects(self, joint: Draws, scale: FloatArray) -> Draws:
        """Draw the effects of all responses of several trials, old and new."""
        design = self.newcomer.design
        repeated = np.arange(design.n_single, len(design))
        center = predictor(joint, design.subset(repeated))
        eta = draw_effects(self.rows[repeated], center, scale, self.rng)
        return Draws(joint.theta, joint.beta, joint.delta, eta, scale)


@dataclass(frozen=True, eq=False)
class Effects:
    """From a newcomer's effects to the log-odds of its responses."""

    newcomer: NewModel

    @property
    def positive(self) -> bool:
        """Whether effects hold the logarithm of slopes."""
        return self.newcomer.spec.contamination.sign == "positive"

    @property
    def n_abilities(self) -> int:
        """Number of effects that are abilities; slopes follow."""
        return len(self.newcomer.units)

    def placed(self, effects: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return ability in all units and slope in all benchmarks; 0 where not answered."""
        design, slopes = self.newcomer.design, effects[:, self.n_abilities :]
        theta = np.zeros((len(effects), len(design.units)))
        theta[:, self.newcomer.units] = effects[:, : self.n_abilities]
        if "beta" not in self.newcomer.built.terms:
            return theta, None
        beta = np.zeros((len(effects), len(design.benchmarks)))
        beta[:, self.newcomer.benchmarks] = np.exp(slopes) if self.positive else slopes
        return theta, beta

    def log_odds(self, effects: FloatArray) -> FloatArray:
        """Return log-odds of the newcomer's responses to items of average difficulty."""
        theta, beta = self.placed(effects)
        before = len(self.newcomer.host.models)
        wide = [
            None if x is None else np.pad(x, ((0, 0), (before * x.shape[1], 0)))
            for x in (theta, beta)
        ]
        assert wide[0] is not None
        return predictor(
            Draws(wide[0], wide[1], None, None, None),
            self.newcomer.design.subset(self.newcomer.own),
        )

    def slopes_of(self, effects: FloatArray) -> FloatArray:
        """Return what effects move log-odds by, relative to `directions`, (draw, effect)."""
        result = np.ones(effects.shape)
        if self.positive:
            result[:, self.n_abilities :] = np.exp(effects[:, self.n_abilities :])
        return result

    def directions(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return the derivative of log-odds, (own, effect), and its products of pairs."""
        part = self.newcomer.design.subset(self.newcomer.own)
        rows = np.arange(len(part))
        columns = [np.searchsorted(self.newcomer.units, part.unit)]
        values: list[FloatArray] = [np.ones(len(part))]
        if "beta" in self.newcomer.built.terms:
            place = np.searchsorted(self.newcomer.benchmarks, part.benchmark)
            columns.append(self.n_abilities + place)
            values.append(part.dose)
        size = self.n_abilities + len(self.newcomer.benchmarks) * (len(columns) - 1)
        pairs = [(i, j) for i in range(len(columns)) for j in range(len(columns))]

        def matrix(parts: list[tuple[IntArray, FloatArray]], width: int) -> sparse.csr_array:
            cells = [sparse.csr_array((v, (rows, c)), (len(rows), width)) for c, v in parts]
            return sum(cells[1:], start=cells[0])

        single = matrix(list(zip(columns, values, strict=True)), size)
        both: list[tuple[IntArray, FloatArray]] = [
            (columns[i] * size + columns[j], values[i] * values[j]) for i, j in pairs
        ]
        return single, matrix(both, size**2)


def propose(
    start: FloatArray,
    effects: Effects,
    expected: ConditionalPrior,
    answers: Marginal | ItemDifficulties,
    rng: np.random.Generator,
    steps: int = _STEPS,
) -> tuple[FloatArray, FloatArray]:
    """Draw a newcomer's effects once for each draw of a fit, with log importance ratios.

    Dims (draw, effect) and (draw,).
    """
    center, root = _laplace(start, effects, expected, answers, steps)
    size = center.shape[1]
    stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, len(center)))
    step = rng.standard_normal(center.shape) * stretch[:, None]
    source = center + np.linalg.solve(np.swapaxes(root, 1, 2), step[..., None])[..., 0]
    drawn = expected.effects(source)
    log_q = (
        gammaln((FREEDOM + size) / 2) - gammaln(FREEDOM / 2) - size / 2 * np.log(np.pi * FREEDOM)
        + np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        - (FREEDOM + size) / 2 * np.log1p((step**2).sum(axis=1) / FREEDOM)
    )  # fmt: skip
    density = answers.log_density(effects.log_odds(drawn)).sum(axis=1)
    return drawn, density + expected.log_density(source) - log_q


def _laplace(
    start: FloatArray,
    effects: Effects,
    expected: ConditionalPrior,
    answers: Marginal | ItemDifficulties,
    steps: int,
) -> tuple[FloatArray, FloatArray]:
    """Return mode and Cholesky factor of the precision of sources, by Newton steps."""
    single, both = effects.directions()
    at = np.broadcast_to(start, expected.location.shape)
    load = expected.loading
    for _ in range(steps):
        eta = effects.log_odds(at)
        low, middle, high = (answers.log_density(eta + h) for h in (-_STEP, 0.0, _STEP))
        first = (single.T @ ((high - low) / (2 * _STEP)).T).T * (scale := effects.slopes_of(at))
        bend = np.maximum(2 * middle - low - high, 0.0) / _STEP**2
        second = (both.T @ bend.T).T.reshape(len(at), *(2 * first.shape[1:]))
        second = second * scale[:, :, None] * scale[:, None, :]
        loaded = np.swapaxes(load, 1, 2) @ second
        precision = np.eye(load.shape[2]) + loaded @ load
        right = (loaded @ (at - expected.location)[..., None])[..., 0]
        right = right + np.einsum("dps,dp->ds", load, first)
        source = np.linalg.solve(precision, right[..., None])[..., 0]
        move = np.clip(expected.effects(source) - at, -2.0, 2.0)
        at = at + move
    return source, np.linalg.cholesky(precision)


def features(posterior: xr.Dataset) -> FloatArray:
    """Return what weights may depend on, dims (draw, feature), standardised."""
    columns = []
    for name, values in posterior.data_vars.items():
        flat = values.to_numpy().reshape(values.shape[0] * values.shape[1], -1)
        if flat.shape[1] <= _WIDEST and "item" not in values.dims:
            columns.append(np.log(flat + SMALLEST) if str(name).startswith("sigma") else flat)
    table = np.concatenate(columns, axis=1)
    spread = table.std(axis=0)
    varying = spread > 0
    standard: FloatArray = (table[:, varying] - table[:, varying].mean(axis=0)) / spread[varying]
    return standard


def fit_log_weights(table: FloatArray, known: IntArray, log_weights: FloatArray) -> FloatArray:
    """Return predicted log weights of all draws by ridge regression.

    Dims (draw,).

    Golub, Heath & Wahba (1979), doi:10.1080/00401706.1979.10489751.
    """
    middle = log_weights.mean()
    left, singular, right = np.linalg.svd(table[known], full_matrices=False)
    along = left.T @ (log_weights - middle)
    best, chosen = np.inf, np.zeros(len(singular))
    for ridge in np.geomspace(0.01, 1000, 16) * len(known) / 10:
        shrunk = singular**2 / (singular**2 + ridge)
        error = log_weights - middle - left @ (shrunk * along)
        score = (error**2).sum() / (len(known) - shrunk.sum()) ** 2
        if score < best:
            best, chosen = score, singular / (singular**2 + ridge)
    predicted: FloatArray = middle + table @ (right.T @ (chosen * along))
    return predicted


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    """Draws of the joint model."""

    draws: Draws  # of the joint design
    origin: IntArray  # dims (draw,): the draw of the fit that each belongs to, chains joined
    log_ratio: FloatArray  # dims (draw,): log importance ratios
    predicted: FloatArray  # dims (fit's draw,): predicted log weights of all draws of the fit


def importance_sample(
    posterior: xr.Dataset, newcomer: NewModel, most: int, rng: np.random.Generator
) -> ImportanceSample:
    """Complete draws of a fit by a newcomer's effects."""
    known = Completion.of(posterior, newcomer, rng)
    first = known.draws.spaced(max(_FEW, int(_FIRST * most)))
    few = first[:: max(1, len(first) // _FEW)]
    expected = known.expected[few]
    arguments = Effects(newcomer), expected, known.answers(few)
    # Where all others start: the mean of these modes.
    start = expected.effects(_laplace(expected.location, *arguments, 8)[0]).mean(axis=0)
    begun, log_begun = known.complete(first, start)
    predicted = fit_log_weights(features(posterior), first, log_begun)
    chance = softmax(predicted)
    second = _systematic(chance, most - len(first), rng)
    rest, log_rest = known.complete(second, start)
    origin = np.concatenate([first, second])
    # Both parts are draws from one mixture of draws of the fit.
    share = len(first) / len(origin)
    mixture = share + (1 - share) * chance[origin] * len(known.draws)
    log_ratio = np.concatenate([log_begun, log_rest]) - np.log(mixture)
    return ImportanceSample(_joined([begun, rest]), origin, log_ratio, predicted)


def _systematic(chance: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw positions by their chances, evenly."""
    reached = np.cumsum(chance)
    wanted = (np.arange(count) + rng.random()) / count * reached[-1]
    return np.minimum(np.searchsorted(reached, wanted, side="right"), len(chance) - 1)


def _scale(draws: Draws) -> FloatArray | None:
    if draws.sigma_eps is None:
        return None
    scale: FloatArray = draws.sigma_eps[:, 0] + SMALLEST
    return scale


def _joined(parts: list[Draws]) -> Draws:
    names = ("theta", "beta", "delta", "eta", "sigma_eps")
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **columns)
