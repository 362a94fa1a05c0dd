"""Posterior of a balanced design by a Laplace approximation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

from bayescontam._types import FloatArray
from bayescontam.model.design import Design
from bayescontam.model.effect_names import DIRECT
from bayescontam.model.effects import zero_sum_basis
from bayescontam.model.likelihood import accuracy, log_likelihood
from bayescontam.model.predictor import contamination_shift, linear_predictor
from bayescontam.model.priors import distribution, stretch
from bayescontam.model.quadrature import normal_trapezoid
from bayescontam.model.terms import Terms, variance_components
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal

_STEP = 0.05
"""Distance in log-odds between tabulated centres; between them values are nearly straight."""
QUANTITIES = ("accuracy", DIRECT.ability, DIRECT.overfitting, "slope")
"""Estimands that are approximated, in the order of the results; no design has spillover."""
_CHUNK = 1_000_000  # numbers held at once in each array
_NEWTON = 12  # most Newton steps
_NEAR = 0.01  # length of a Newton step, in prior standard deviations, below which the mode is found


@dataclass(frozen=True, eq=False)
class Component:
    """A set of independent effects, and where they enter abilities and slopes."""

    # dims (kind, model × benchmark, effect): how the effects add to `theta`, `beta` and, where it
    # is there, `kappa`
    matrix: FloatArray
    # prior mean of each effect, in units of the stretch that model-by-item effects make
    mean: float
    # prior standard deviation in the same units, or the name of the spread that it is
    sd: float | str
    # whether it sets the level that a plan is made for: what all models share
    overall: bool = False

    def scale(self, spreads: Mapping[str, float]) -> float:
        """Return the standard deviation of the effects."""
        if isinstance(self.sd, str):
            return spreads[self.sd]
        return self.sd * float(stretch(spreads.get("sigma_eps", 0.0)))

    def location(self, spreads: Mapping[str, float]) -> float:
        """Return the prior mean of the effects."""
        return self.mean * float(stretch(spreads.get("sigma_eps", 0.0)))


def components(spec: ModelSpec, design: Design, terms: Terms) -> list[Component]:
    """Return the Normal effects whose sums abilities and slopes are, given the spreads."""
    # A prior that is not Normal stands as the Normal of its quartiles.
    models, benchmarks = len(design.models), len(design.benchmarks)
    of_model = np.kron(np.eye(models), np.ones((benchmarks, 1)))
    of_benchmark = np.kron(np.ones((models, 1)), np.eye(benchmarks))
    cells = np.eye(models * benchmarks)
    matrices = {
        (): np.ones((len(cells), 1)),
        ("model",): of_model,
        ("unit",): of_benchmark,
        ("benchmark",): of_benchmark,
        ("model", "unit"): cells,
        ("model", "benchmark"): cells,
    }
    exposed = 1.0 - np.repeat(design.clean, benchmarks)
    kinds, levels, result = effect_kinds(terms), set(), []
    for each in variance_components(spec, terms):
        matrix = matrices[each.dims]
        if each.zero_sum:
            matrix = matrix @ zero_sum_basis(models)
        if each.of == "beta":
            matrix = matrix * exposed[:, None]
        mean: float = 0.0
        sd: float | str | None = each.scale
        if sd is None:
            prior = getattr(spec.priors, str(each.prior))
            if isinstance(prior, Normal):
                mean, sd = prior.mu, prior.sigma
            else:
                low, mean, high = (float(distribution(prior).ppf(q)) for q in (0.25, 0.5, 0.75))
                sd = (high - low) / 1.349
        stacked = np.stack([matrix * (kind == each.of) for kind in kinds])
        result.append(Component(stacked, mean, sd, each.of not in levels))
        levels.add(each.of)
    return result


def effect_kinds(terms: Terms) -> tuple[str, ...]:
    """Return the kinds of effects of models and benchmarks that a fit has."""
    return ("theta", "beta", "kappa") if "kappa" in terms else ("theta", "beta")


@dataclass(frozen=True, eq=False)
class BalancedDesign:
    """Responses of which every model answered every item equally often."""

    design: Design  # rows sorted by benchmark, model and item, as `Responses` have them
    kinds: tuple[str, ...]  # effects of models and benchmarks: `theta`, `beta` and perhaps `kappa`
    generations: int  # trials of each response
    guess: float
    reference: FloatArray  # reference contamination, dims (benchmark,)
    weight: float = 1.0  # items that each item of the design stands for

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of benchmarks, models and items of each benchmark."""
        benchmarks, models = len(self.design.benchmarks), len(self.design.models)
        return benchmarks, models, len(self.design) // (benchmarks * models)

    def by_item(self, rows: FloatArray) -> FloatArray:
        """Return values of responses as (benchmark, item, model)."""
        return rows.reshape(self.shape).swapaxes(1, 2)

    def named(self, effects: FloatArray) -> dict[str, FloatArray]:
        """Return effects, dims (kind, model × benchmark), as the predictor takes them."""
        named = dict(zip(self.kinds, effects, strict=True))
        if "kappa" in named:  # the same for all models
            named["kappa"] = named["kappa"][: self.shape[0]]
        return named

    def log_odds(self, effects: FloatArray) -> FloatArray:
        """Return the log-odds without effects of items, (benchmark, item, model)."""
        return self.by_item(np.asarray(linear_predictor(self.named(effects), self.design)))

    def features(self) -> FloatArray:
        """Return what one unit of each kind of effect adds, (kind, benchmark, item, model)."""
        cells = self.shape[0] * self.shape[1]
        units = np.eye(len(self.kinds))[:, :, None] * np.ones(cells)
        return np.stack([self.log_odds(unit) for unit in units])


class Curvature(NamedTuple):
    """Log-likelihood of responses and its derivatives by the centre of their log-odds."""

    value: FloatArray
    score: FloatArray
    information: FloatArray


class Moments(NamedTuple):
    """Accuracy of responses given their counts, at observed and reference contamination."""

    mean: FloatArray  # dims (observed or reference, …)
    by_center: FloatArray  # derivatives of both by the centre
    by_shift: FloatArray  # derivative of the second by the shift of the log-odds
    variance: FloatArray  # of observed, reference, and their difference


@dataclass(frozen=True)
class BernoulliKernel:
    """Responses without an effect of their own."""

    n: int  # trials of each response
    guess: float  # accuracy of blind guessing

    @property
    def size(self) -> int:
        """One: nothing is integrated out."""
        return 1

    def curvature(self, k: FloatArray, center: FloatArray) -> Curvature:
        """Return log-likelihood, score and expected information; arguments broadcast."""
        p, slope = _accuracy(center, self.guess)
        # slope / (p (1 - p)), without 0 / 0
        ratio = expit(center) / p if self.guess else np.ones_like(p)
        value = log_likelihood(center, k, np.asarray(float(self.n)), np.asarray(self.guess))
        return Curvature(value, (k - self.n * p) * ratio, self.n * slope * ratio)

    def moments(self, k: FloatArray, center: FloatArray, shift: FloatArray) -> Moments:
        """Return accuracies; they are certain given the log-odds."""
        p, slope = _accuracy(center, self.guess)
        moved, moved_slope = _accuracy(center + shift, self.guess)
        nothing = np.zeros((3, 1, 1, 1))
        return Moments(np.stack([p, moved]), np.stack([slope, moved_slope]), moved_slope, nothing)


@dataclass(frozen=True)
class RepeatedKernel:
    """Responses of several trials that have log-odds of their own around a centre."""

    n: int
    guess: float
    sigma: float  # standard deviation of log-odds around their centres
    # low, high: range of centres to tabulate; beyond it the nearest end stands
    low: float
    high: float

    @property
    def size(self) -> int:
        """Number of nodes of the effect that is integrated out."""
        return len(self.nodes[0])

    @cached_property
    def nodes(self) -> tuple[FloatArray, FloatArray]:
        """Standard Normal nodes and log weights that resolve the likelihood."""
        return normal_grid(self.sigma**2 * self.n / 4)

    @cached_property
    def _table(self) -> FloatArray:
        """Value, score and information, dims (3, centre, count)."""
        z, log_weight = self.nodes
        count = max(2, int(np.ceil((self.high - self.low) / _STEP)) + 1)
        centers = np.linspace(self.low, self.high, count)
        eta = centers[:, None, None] + self.sigma * z
        k = np.arange(self.n + 1.0)[:, None]
        inner = BernoulliKernel(self.n, self.guess).curvature(k, eta)
        return np.stack(mix_moments(inner, log_weight))

    def curvature(self, k: FloatArray, center: FloatArray) -> Curvature:
        """Return what the table has, straight between its centres."""
        table = self._table
        last = table.shape[1] - 1
        place = np.clip((center - self.low) / (self.high - self.low) * last, 0, last - 1e-9)
        at = place.astype(np.int64)
        part = place - at
        count = np.broadcast_to(k, center.shape).astype(np.int64)
        below, above = table[:, at, count], table[:, at + 1, count]
        return Curvature(*(below + part * (above - below)))

    def moments(self, k: FloatArray, center: FloatArray, shift: FloatArray) -> Moments:
        """Return accuracies, averaged over log-odds given the counts."""
        z, log_weight = self.nodes
        eta = center[..., None] + self.sigma * z
        inner = BernoulliKernel(self.n, self.guess).curvature(k[..., None], eta)
        weight = softmax(inner.value + log_weight, axis=-1)
        p, slope = _accuracy(eta, self.guess)
        moved, moved_slope = _accuracy(eta + shift[..., None], self.guess)
        means, by_center = [], []
        score = _mean(weight, inner.score)
        for level, steepness in ((p, slope), (moved, moved_slope)):
            means.append(_mean(weight, level))
            covariance = _mean(weight, level * inner.score) - means[-1] * score
            by_center.append(_mean(weight, steepness) + covariance)
        mean = np.stack([*means, means[0] - means[1]])
        square = np.stack([_mean(weight, x**2) for x in (p, moved, p - moved)])
        return Moments(mean[:2], np.stack(by_center), _mean(weight, moved_slope), square - mean**2)


Kernel = BernoulliKernel | RepeatedKernel  # likelihood of responses of several trials each


def normal_grid(information: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights under a standard Normal, for likelihoods this informative."""
    # One standard deviation apart of likelihood times prior: the rule errs by about exp(-20).
    return normal_trapezoid(5.0, 2 * int(np.ceil(5.0 * np.sqrt(1 + information))) + 1)


def mix_moments(inner: Curvature, log_weight: FloatArray) -> Curvature:
    """Return value and derivatives of the log of a weighted sum over the last axis."""
    # The information is that of the complete data less what is missing of it (Louis 1982,
    # doi:10.1111/j.2517-6161.1982.tb01203.x).
    log_density = inner.value + log_weight
    weight = softmax(log_density, axis=-1)
    score = _mean(weight, inner.score)
    missing = _mean(weight, inner.score**2) - score**2
    information = _mean(weight, inner.information) - missing
    return Curvature(logsumexp(log_density, axis=-1), score, information)


def _accuracy(eta: FloatArray, guess: float) -> tuple[FloatArray, FloatArray]:
    """Return accuracies and their derivatives by the log-odds."""
    p = expit(eta)
    return accuracy(eta, guess), (1 - guess) * p * (1 - p)


def _mean(weight: FloatArray, values: FloatArray) -> FloatArray:
    mean: FloatArray = (weight * values).sum(axis=-1)
    return mean


class Approximate(NamedTuple):
    """Posterior means and standard deviations, dims (quantity, model, benchmark)."""

    mean: FloatArray
    sd: FloatArray


class Approximation:
    """Normal approximation to the posterior of crossed responses, given the spreads."""

    # Effects of items and of responses are integrated out by quadrature. What is left,
    # abilities and slopes, has a Normal prior; its posterior is taken as Normal at its mode.

    def __init__(
        self,
        crossed: BalancedDesign,
        parts: list[Component],
        spreads: Mapping[str, float],
        others: Sequence[Mapping[str, float]] = (),
    ) -> None:
        self.crossed = crossed
        self._spreads = spreads
        cells, kinds = crossed.shape[0] * crossed.shape[1], len(crossed.kinds)
        self._features = crossed.features()
        wanted = crossed.reference[crossed.design.benchmark]
        shifts = contamination_shift({"beta": np.ones(cells)}, crossed.design, wanted)
        # what one unit of slope adds on the way to the reference
        self._shifts = crossed.by_item(np.asarray(shifts))
        matrix = np.concatenate([part.matrix for part in parts], axis=-1)
        matrix = matrix.reshape(kinds * cells, -1)
        # Effects in units of their prior: no spread is too small to be divided by.
        widths = [part.matrix.shape[-1] for part in parts]
        self._center = matrix @ np.repeat([part.location(spreads) for part in parts], widths)
        self._loadings = np.stack(
            [
                matrix * np.repeat([part.scale(one) for part in parts], widths)
                for one in (spreads, *others)
            ]
        )

    def posterior(self, counts: FloatArray, start: FloatArray) -> Approximate:
        """Approximate the posterior of the estimands."""
        k = self.crossed.by_item(counts)
        kernel = self._kernel(self.crossed.log_odds(start))
        score, information, point = self._mode(k, start, kernel)
        pull = score + information @ point.ravel()
        true = information @ start.ravel()
        pull = true + (pull - true) / np.sqrt(self.crossed.weight)
        point, covariance = self._averaged(pull, information)
        return self._estimands(k, point, covariance, kernel)

    def given(self, counts: FloatArray, effects: FloatArray) -> FloatArray:
        """Return the posterior means of the estimands, were the effects known."""
        kernel = self._kernel(self.crossed.log_odds(effects))
        certain = np.zeros((effects.size, effects.size))
        return self._estimands(self.crossed.by_item(counts), effects, certain, kernel).mean

    def _kernel(self, log_odds: FloatArray) -> Kernel:
        n, guess = self.crossed.generations, self.crossed.guess
        sigma = self._spreads.get("sigma_eps")
        if sigma is None:
            return BernoulliKernel(n, guess)
        reach = 3.0 + 5.0 * self._spreads.get("sigma_delta", 0.0)
        return RepeatedKernel(
            n, guess, sigma, float(log_odds.min() - reach), float(log_odds.max() + reach)
        )

    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Return values of an item's difficulty with log weights."""
        sigma = self._spreads.get("sigma_delta")
        if sigma is None:
            return np.zeros(1), np.zeros(1)
        information = self.crossed.generations / 4
        if "sigma_eps" in self._spreads:  # each response is a blurred look at its item
            information = 1 / (1 / information + self._spreads["sigma_eps"] ** 2)
        z, log_weight = normal_grid(sigma**2 * self.crossed.shape[1] * information)
        return sigma * z, log_weight

    def _mode(
        self, k: FloatArray, start: FloatArray, kernel: Kernel
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return score and information at the mode of the effects, and the mode."""
        loadings = self._loadings[0]
        point = np.linalg.lstsq(loadings, start.ravel() - self._center, rcond=None)[0]
        for _ in range(_NEWTON):
            effects = (self._center + loadings @ point).reshape(start.shape)
            score, information = self._slopes_of(k, effects, kernel)
            values, vectors = np.linalg.eigh(information)
            # By chance a few answers can seem to say less than nothing.
            information = (vectors * np.maximum(values, 0.0)) @ vectors.T
            precision = np.eye(len(point)) + loadings.T @ information @ loadings
            step = np.linalg.solve(precision, loadings.T @ score - point)
            length = float(np.abs(step).max())
            if length < _NEAR:
                break
            point = point + step * min(1.0, 2.0 / length)
        return score, information, effects

    def _averaged(self, pull: FloatArray, information: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the effects, averaged over the spreads."""
        # The log-likelihood is pull @ effects - effects @ information @ effects / 2, a parabola,
        # so that each draw of the spreads has its evidence in closed form.
        loadings = self._loadings if len(self._loadings) == 1 else self._loadings[1:]
        turned = loadings.swapaxes(1, 2)
        inverse = np.linalg.inv(np.eye(loadings.shape[2]) + turned @ information @ loadings)
        pulls = turned @ (pull - information @ self._center)
        centers = (inverse @ pulls[..., None])[..., 0]
        evidence = np.linalg.slogdet(inverse)[1] / 2 + (pulls * centers).sum(axis=-1) / 2
        weight = softmax(evidence)
        effects = self._center + (loadings @ centers[..., None])[..., 0]
        mean = weight @ effects
        away = effects - mean
        each = np.einsum("s,sij->ij", weight, loadings @ inverse @ turned)
        covariance = each + (weight[:, None] * away).T @ away
        return mean.reshape(len(self.crossed.kinds), -1), covariance

    def _pieces(
        self, effects: FloatArray, inner: int = 1
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield benchmark, items and log-odds at the nodes, (item, model, node)."""
        benchmarks, models, items = self.crossed.shape
        values, _ = self._nodes()
        centers = self.crossed.log_odds(effects)
        step = max(1, _CHUNK // (len(values) * models * inner))
        for b in range(benchmarks):
            for first in range(0, items, step):
                part = slice(first, first + step)
                yield b, part, centers[b, part, :, None] - values

    def _slopes_of(
        self, k: FloatArray, effects: FloatArray, kernel: Kernel
    ) -> tuple[FloatArray, FloatArray]:
        """Return gradient and information of the log-likelihood by abilities and slopes."""
        benchmarks, models, _ = self.crossed.shape
        shape = len(self.crossed.kinds), models, benchmarks
        score, information = np.zeros(shape), np.zeros((*shape, *shape))
        log_weight = self._nodes()[1]
        for b, part, center in self._pieces(effects):
            x = self._features[:, b, part]
            one = kernel.curvature(k[b, part, :, None], center)
            weight = softmax(one.value.sum(axis=1) + log_weight, axis=-1)[:, None]
            mean = (weight * one.score).sum(axis=-1)
            score[:, :, b] += (x * mean).sum(axis=1)
            away = (one.score - mean[..., None]) * np.sqrt(weight)
            missing = away @ away.swapaxes(1, 2)
            full = (weight * one.information).sum(axis=-1)
            net = full[:, :, None] * np.eye(models) - missing
            information[:, :, b, :, :, b] += np.einsum("fim,gin,imn->fmgn", x, x, net)
        size, times = score.size, self.crossed.weight
        return times * score.ravel(), times * information.reshape(size, size)

    def _estimands(
        self, k: FloatArray, effects: FloatArray, covariance: FloatArray, kernel: Kernel
    ) -> Approximate:
        """Carry the posterior of abilities and slopes over to the estimands."""
        benchmarks, models, items = self.crossed.shape
        mean = np.zeros((2, models, benchmarks))
        gradient = np.zeros((2, models, benchmarks, len(effects), models, benchmarks))
        variance, at = np.zeros((3, models, benchmarks)), np.arange(models)
        slope = effects[1].reshape(models, benchmarks)
        for b, part, center in self._pieces(effects, kernel.size):
            x, step = self._features[:, b, part], self._shifts[b, part]
            one = self._levels(k[b, part, :, None], center, slope[:, b] * step, kernel)
            mean[:, :, b] += one.mean.sum(axis=1)
            variance[:, :, b] += one.variance.sum(axis=1)
            gradient[:, :, b, :, :, b] += np.einsum("fin,timn->tmfn", x, one.by_center)
            gradient[1, at, b, 1, at, b] += (one.by_shift * step).sum(axis=0)
        mean, gradient, size = mean / items, gradient / items, len(covariance)
        variance /= items**2 * self.crossed.weight
        three = np.concatenate([gradient, gradient[:1] - gradient[1:]]).reshape(-1, size)
        carried = np.einsum("ci,ij,cj->c", three, covariance, three).reshape(variance.shape)
        slope_variance = np.diag(covariance).reshape(len(effects), models, benchmarks)[1]
        means = np.stack([*mean, mean[0] - mean[1], slope])
        squares = np.concatenate([carried + variance, slope_variance[None]])
        return Approximate(means, np.sqrt(squares))

    def _levels(
        self, k: FloatArray, center: FloatArray, shift: FloatArray, kernel: Kernel
    ) -> Moments:
        """Return accuracies given the answers to items, (…, item, model[, model of centre])."""
        moved = np.broadcast_to(shift[..., None], center.shape)
        moments = kernel.moments(np.broadcast_to(k, center.shape), center, moved)
        one = kernel.curvature(k, center)
        weight = softmax(one.value.sum(axis=1) + self._nodes()[1], axis=-1)[:, None]
        mean = (weight * moments.mean).sum(axis=-1)
        away = moments.mean - mean[..., None]
        score = one.score - (weight * one.score).sum(axis=-1, keepdims=True)
        # A change of one model's centre also changes what its answer shows about the item.
        joint = (weight * away) @ score.swapaxes(1, 2)
        own = (weight * moments.by_center).sum(axis=-1)[..., None] * np.eye(k.shape[1])
        three = np.concatenate([away, away[:1] - away[1:]])
        variance = (weight * (three**2 + moments.variance)).sum(axis=-1)
        return Moments(mean, own + joint, (weight * moments.by_shift).sum(axis=-1), variance)
