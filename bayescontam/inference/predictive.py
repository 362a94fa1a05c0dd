"""Predictive densities of responses, and predictive checks of posterior and prior."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.blocks import draws_by_block, responses_of
from bayescontam.inference.posterior import (
    CHUNK,
    Draws,
    accuracy,
    draw_contamination,
    draw_difficulties,
    predictor,
    response_guess,
    slopes,
    stack_draws,
)
from bayescontam.inference.prior_sampling import sample_by_pymc, sample_prior
from bayescontam.inference.rejection import draw_log_odds
from bayescontam.model import likelihood
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.exposure import draw_nodes
from bayescontam.model.priors import SMALLEST
from bayescontam.model.quadrature import gauss_hermite_at, normal_trapezoid

NODES = 31
"""Quadrature nodes for the model-by-item effect."""
REACH = 8.5
"""Ends of the grid that it is integrated over, in standard deviations."""
MOST_DRAWS = 6000
"""Draws that predictive densities are averaged over: Pareto k of fewer is noisy."""
MOST_DENSITIES = 50_000_000
"""Draws times responses; on larger tables fewer draws are used, at least 500."""
REPLICATES = 500
"""Replicated data sets drawn for each check."""
FEWEST, MOST_NUMBERS = 200, 100_000_000
"""Fewest replicates, and most numbers that are held at once, for large tables."""
BINS = 6
"""Most contamination bins of a benchmark."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some responses: the arrays that their likelihood needs."""

    # k, n: correct answers and trials, dims (response,)
    k: FloatArray
    n: FloatArray
    guess: FloatArray  # accuracy of blind guessing, dims (response,), or (draw, response)

    @classmethod
    def of(cls, built: BuiltModel, draws: Draws) -> "Rows":
        """Return all responses that a model was built for, for some draws of it."""
        design = built.design
        guess = response_guess(draws, built.spec, design)
        return cls(design.n_correct * 1.0, design.n_trials * 1.0, guess)

    def log_likelihood(self, eta: FloatArray) -> FloatArray:
        """Return the log probability of the counts, (…, response)."""
        result = likelihood.log_likelihood(eta, self.k, self.n, self.guess)
        return result if np.all(self.n == 1) else result + likelihood.log_choose(self.n, self.k)

    def __getitem__(self, part: slice | np.ndarray) -> "Rows":
        return Rows(self.k[part], self.n[part], self.guess[..., part])

    def by_node(self) -> "Rows":
        """Return the same with an axis more at the end, for nodes of quadrature."""
        return Rows(self.k[:, None], self.n[:, None], self.guess[..., None])


def log_density(rows: Rows, center: FloatArray, scale: FloatArray | None) -> FloatArray:
    """Return the log density of each response, over Normal log-odds where they have a scale."""
    # By quadrature, with an error below 0.01; without guessing largest where all trials went one
    # way.
    if scale is None:
        return rows.log_likelihood(center)
    if not rows.guess.any():
        eta, log_weights = gauss_hermite_at(*_mode(rows, center, scale), NODES)
        z = (eta - center[..., None]) / scale[..., None]
        height = z**2 / 2 + np.log(np.sqrt(2 * np.pi) * scale)[..., None]
        log_weights = log_weights - height
    else:  # the integrand can have two humps
        nodes, log_weights = normal_trapezoid(REACH, grid_size(scale, rows.n))
        eta = center[..., None] + scale[..., None] * nodes
    return likelihood.log_sum_exp(rows.by_node().log_likelihood(eta) + log_weights, axis=-1)


def grid_size(scale: FloatArray, n: FloatArray) -> int:
    """Return how many nodes resolve a binomial likelihood under a Normal of this spread."""
    # The step is the likelihood's width.
    return 33 + int(17 * scale.max() / (2 / np.sqrt(n.max())))


def _mode(rows: Rows, center: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mode and curvature width of binomial likelihood times Normal prior."""
    prior = 1 / scale**2
    p = (rows.k + 0.5) / (rows.n + 1)
    own = rows.n * p * (1 - p)
    eta: FloatArray = (np.log(p / (1 - p)) * own + center * prior) / (own + prior)
    for _ in range(8):  # Newton steps on a strictly concave function, from close by
        q = likelihood.logistic(eta)
        step = (rows.k - rows.n * q - (eta - center) * prior) / (rows.n * q * (1 - q) + prior)
        eta = eta + np.clip(step, -2.0, 2.0)
    q = likelihood.logistic(eta)
    return eta, 1 / np.sqrt(rows.n * q * (1 - q) + prior)


def with_own_effects(
    draws: Draws,
    built: BuiltModel,
    rng: np.random.Generator,
    responses: bool = True,
    cores: int = 1,
) -> Draws:
    """Return draws with ``eta``, drawn where it is not there and belongs to the model."""
    # They are integrated out of the likelihood while sampling. Given the other parameters each
    # depends on the counts of its response alone.
    if draws.eta is not None or draws.sigma_eps is None:
        return draws
    design, parts = built.design, []
    for part in draws.chunks(design):
        center = predictor(part, design)[:, design.n_single :]
        assert part.sigma_eps is not None
        if responses:
            rows = Rows.of(built, part)[design.n_single :]
            parts.append(draw_effects(rows, center, part.sigma_eps, rng, cores))
        else:
            parts.append(center + part.sigma_eps * rng.standard_normal(center.shape))
    return replace(draws, eta=np.concatenate(parts))


def draw_effects(
    rows: Rows, center: FloatArray, scale: FloatArray, rng: np.random.Generator, cores: int = 1
) -> FloatArray:
    """Draw log-odds of responses given their linear predictor, dims (draw, response)."""
    spread, guess = (np.broadcast_to(x, center.shape) for x in (scale + SMALLEST, rows.guess))
    result, streams = np.empty(center.shape), rng.spawn(len(center))

    def one(d: int) -> None:
        own, floor = np.ascontiguousarray(spread[d]), np.ascontiguousarray(guess[d])
        result[d] = draw_log_odds(streams[d], center[d], own, rows.k, rows.n, floor)

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(one, range(len(center))))
    return result


def predictive_draws(draws: Draws, numbers: int) -> IntArray:
    """Return the positions of the draws that predict, evenly spaced."""
    return draws.spaced(max(500, min(MOST_DRAWS, MOST_DENSITIES // numbers)))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of responses from draws, their own effects not looked at."""

    draws: Draws
    built: BuiltModel

    @cached_property
    def rows(self) -> Rows:
        """All responses that the model was built for."""
        return Rows.of(self.built, self.draws)

    @cached_property
    def repeats(self) -> likelihood.Repeats | None:
        """Table by which the sampler integrated effects of repeated trials out, if it did."""
        guess = self.rows.guess
        if guess.ndim > 1:
            return None
        return likelihood.plan_repeats(self.built.design, self.built.terms, guess)

    def center(self, rows: IntArray) -> FloatArray:
        """Return log-odds without model-by-item effects, dims (draw, rows)."""
        return predictor(*responses_of(self.draws, self.built, rows))

    def slope(self, rows: IntArray) -> FloatArray:
        """Return the slope that holds for each response, dims (draw, rows)."""
        return slopes(*responses_of(self.draws, self.built, rows))

    def density(self, rows: IntArray, center: FloatArray) -> FloatArray:
        """Return log densities given `center`, own effects integrated out, dims (draw, rows)."""
        if self.draws.sigma_eps is None:
            return log_density(self.rows[rows], center, None)
        single = rows < self.built.design.n_single
        result = np.empty(center.shape)
        result[:, single] = log_density(self.rows[rows[single]], center[:, single], None)
        if self.repeats is not None:
            several = rows[~single]
            own, place = self.rows[several], several - self.built.design.n_single
            density = self.repeats.log_densities(
                place, own.k.astype(np.int64), center[:, ~single], self._scale(several)
            )
            result[:, ~single] = density + likelihood.log_choose(own.n, own.k)
            return result
        guess = self.rows.guess.any()
        width = grid_size(self.draws.sigma_eps, self.rows.n) if guess else NODES
        repeated, step = np.flatnonzero(~single), max(1, CHUNK // (len(center) * width))
        for part in np.split(repeated, range(step, len(repeated), step)):
            scale = self._scale(rows[part])
            result[:, part] = log_density(self.rows[rows[part]], center[:, part], scale)
        return result

    def _scale(self, rows: IntArray) -> FloatArray:
        """Return the spread of own effects, dims (draw, rows or 1)."""
        spread = self.draws.sigma_eps
        assert spread is not None
        return spread[:, rows - self.built.design.n_single] if spread.shape[1] > 1 else spread

    def replicated(
        self, rows: IntArray, center: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Replicate counts; return whether they are below, and at, the observed ones."""
        eta = center.copy()
        repeated = rows >= self.built.design.n_single
        if self.draws.sigma_eps is not None and repeated.any():
            noise = rng.standard_normal((len(eta), int(repeated.sum())))
            eta[:, repeated] += noise * self._scale(rows[repeated])
        own = self.rows[rows]
        counts = rng.binomial(own.n.astype(int), likelihood.accuracy(eta, own.guess))
        return (counts < own.k) * 1.0, (counts == own.k) * 1.0


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of responses whose mean scores are compared."""

    of_response: IntArray  # position in a flattened array of all groups
    shape: tuple[int, ...]
    weight: FloatArray

    def sums(self, numbers: IntArray | FloatArray) -> FloatArray:
        """Return the sum of numbers of responses in each group, dims (*shape,)."""
        return np.bincount(self.of_response, numbers, math.prod(self.shape)).reshape(self.shape)

    def totals(self, scores: FloatArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Return weighted sums of the scores of some responses, dims (…, *shape)."""
        cell, weight, size = self.of_response[rows], self.weight[rows], math.prod(self.shape)
        sums = [np.bincount(cell, weight * row, size) for row in scores]
        return np.stack(sums).reshape(-1, *self.shape)

    def means(self, scores: FloatArray) -> FloatArray:
        """Return the mean score of each group, dims (…, *shape); NaN where there is none."""
        size = self.sums(self.weight)
        return self.totals(scores) / np.where(size, size, np.nan)


def _bins(design: Design) -> IntArray:
    """Return the bin of each response's contamination among those of its benchmark."""
    # Bins hold about equally many responses; of few values, each is a bin.
    bin_of = np.zeros(len(design), dtype=np.int64)
    assert design.contamination is not None
    for b in range(len(design.benchmarks)):
        rows = design.benchmark == b
        values = design.contamination[rows]
        edges = np.unique(values)
        if len(edges) > BINS:
            edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1]))
        bin_of[rows] = np.searchsorted(edges, values, side="right") - 1
    return bin_of


def posterior_checks(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> xr.Dataset:
    """Replicate the data from posterior draws and keep mean scores of groups."""
    design = built.design
    known = design.contamination
    bins = 1 if known is None else BINS
    of_response = design.model_benchmark * bins + (0 if known is None else _bins(design))
    cells = Cells(of_response, (*design.answered.shape, bins), design.weight)
    draws = draws.thinned(max(FEWEST, min(REPLICATES, MOST_NUMBERS // len(design))))
    totals = np.zeros((len(draws), *cells.shape))
    for rows, at, part, seen in draws_by_block(draws, built):
        scores = replicated_counts(part, replace(built, design=seen), rng) / seen.n_trials
        totals[at] += cells.totals(scores, rows)
    result = xr.Dataset(coords={name: design.coords[name] for name in ("model", "benchmark")})
    observed = cells.totals((design.n_correct / design.n_trials)[None])[0]
    size, trials = cells.sums(design.weight), cells.sums(design.n_trials)
    kinds = [("score", -1, ("model", "benchmark")), ("binned", -3, ("benchmark", "bin"))]
    for name, axis, dims in kinds[:1] if known is None else kinds:
        whole = size.sum(axis)
        whole = np.where(whole, whole, np.nan)
        result[name] = (dims, observed.sum(axis) / whole)
        result[f"{name}_trials"] = (dims, trials.sum(axis))
        replicated = (totals.sum(axis) / whole).astype(np.float32)
        result[f"{name}_replicated"] = (("replicate", *dims), replicated)
        if known is not None and name == "binned":
            center = cells.totals(known[None])[0].sum(axis)
            result["bin_contamination"] = (dims, center / whole)
    return result


def replicated_counts(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> FloatArray:
    """Draw numbers of correct trials of all responses, dims (draw, response)."""
    # Model-by-item effects, participants and unknown contamination are drawn anew: with their own,
    # fitted to the very responses that they are checked against, no check could fail.
    design = built.design
    draws = _with_new_people(draws, rng)
    eta = predictor(draws, design)
    if draws.sigma_eps is not None:
        shape = len(draws), len(design) - design.n_single
        eta[:, design.n_single :] += rng.standard_normal(shape) * draws.sigma_eps
    if design.exposure is not None:
        weights = design.exposure.weights(draws.p_shift)
        shape = len(draws), *weights.shape[1:]
        node = draw_nodes(np.broadcast_to(weights, shape), rng)
        draws = replace(draws, node=node)
    p = accuracy(draws, built, eta=eta)
    if design.n_single == len(design):  # several times faster, and tables may be large
        return (rng.random(p.shape) < p) * 1.0
    return rng.binomial(design.n_trials, p).astype(np.float64)


def _with_new_people(draws: Draws, rng: np.random.Generator) -> Draws:
    """Return draws with other participants, and other effects that they share on items."""
    others = {}
    for name in ("zeta", "xi"):
        known, scale = getattr(draws, name), getattr(draws, f"sigma_{name}")
        if known is not None and scale is not None:
            others[name] = (scale + SMALLEST) * rng.standard_normal(known.shape)
    return replace(draws, **others) if others else draws


def prior_draws(
    built: BuiltModel, count: int, rng: np.random.Generator, cores: int = 1
) -> tuple[Draws, xr.Dataset]:
    """Draw effects and parameters from the prior, dims (chain, draw, …)."""
    observed = {variable.name for variable in built.model.observed_RVs}
    wanted = [name for name in built.model.named_vars if name not in observed]
    # Of effects of so many responses, several copies would be in memory at the same time.
    large = count * (len(built.design) - built.design.n_single) > MOST_NUMBERS
    sample = sample_by_pymc if large else sample_prior
    prior = sample(built.model, wanted, count, rng)
    draws = stack_draws(prior, built.design)
    draws = draw_difficulties(draws, built.lattice, rng, responses=False, cores=cores)
    draws = with_own_effects(draws, built, rng, responses=False)
    return draw_contamination(draws, built, rng, responses=False)[0], prior
