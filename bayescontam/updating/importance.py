"""Importance sampling of a new model: prior given a fit, Laplace proposal, weighted draws."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.special import gammaln, logsumexp, softmax

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.estimands import Items, Reference, estimands
from bayescontam.inference.posterior import (
    Draws,
    draw_difficulties,
    expand_to_items,
    predictor,
    stack_draws,
)
from bayescontam.inference.predictive import Rows, draw_effects
from bayescontam.inference.psis import max_pareto_k, psis_weights
from bayescontam.inference.result import Fit
from bayescontam.inference.summary import DrawWeights, summarise, with_p_best
from bayescontam.model.exposure import draw_nodes
from bayescontam.model.marginal import make_lattice
from bayescontam.model.priors import SMALLEST, distribution, stretch_of_draws
from bayescontam.model.terms import variance_components
from bayescontam.parallel import usable_cores
from bayescontam.updating.new_model import ItemBlock, ItemDifficulties, Marginal, NewModel

DRAWS = 1000  # draws that are completed and weighed, unless requested otherwise
FEWEST = 100  # equally weighted draws below which means and intervals are too rough
FREEDOM = 15.0  # degrees of freedom of proposals: tails heavier than those of what they stand for
_STEP = 0.2
_STEPS = 2
_WIDEST = 200  # parameters of more values than this, such as item difficulties, are left out
_FEW = 40  # draws from which the start of all others is found
_FIRST = 0.3  # share of draws that are taken evenly, before it is known which are wanted
_THREADS = 4  # parts worked on side by side, at most; NumPy's loops do not hold each other up
_CHUNK = 1_000_000
"""Numbers that are worked on at once; with many more an update was a fifth slower."""


@dataclass(frozen=True, eq=False)
class ConditionalPrior:
    """A newcomer's effects given a draw: location + loading × standard Normals, reweighted."""

    # Effects are the ability in each unit that it answered, the slope (its logarithm where slopes
    # are positive) in each benchmark, and the coefficient of spillover where it was exposed.

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


def expectation(posterior: xr.Dataset, newcomer: NewModel) -> ConditionalPrior:
    """Return what draws of a fit expect of a newcomer."""
    # General abilities sum to zero over the models of a fit, of which the newcomer becomes one.
    # Write g for its general ability above the mean of the fit's M models. In a joint fit
    # g ~ Normal(0, sigma_a sqrt(1 + 1/M)) given sigma_a, and the means of units of the joint fit
    # are those of the fit plus g / (M + 1), to which their prior belongs.
    spec, terms, n_models = newcomer.spec, newcomer.built.terms, len(newcomer.host.models)
    abilities, slopes, lifts = newcomer.parts
    lineage, base = newcomer.host.lineage, None
    own = {"model"}  # what a newcomer has values of its own of
    if lineage is not None:
        n_models, base = len(lineage.bases), _known_base(newcomer)
        own |= {"base"} if base is None else set()
    draws, shift = posterior.sizes["chain"] * posterior.sizes["draw"], None
    location = np.zeros((draws, lifts.stop))
    loadings: list[FloatArray] = []
    exact: list[tuple[int, Any]] = []
    # Where model-by-item effects have a spread for each model, a fit identifies no newcomer's.
    factor = np.broadcast_to(stretch_of_draws(posterior).one, draws)[:, None]
    for each in variance_components(spec, terms):
        part = {"theta": abilities, "beta": slopes}.get(each.of)
        if part is None or not own & set(each.dims):
            continue
        # Effects share one source of this scale, or each has its own.
        sources = [np.arange(part.start, part.stop)]
        if len(each.dims) > 1:
            sources = [np.array([effect]) for effect in sources[0]]
        if each.prior is not None:
            prior = distribution(getattr(spec.priors, each.prior))
            middle, width = mean_and_sd(prior)
            location[:, part] += middle * factor
            scale: FloatArray = width * factor
            if not (hasattr(prior, "dist") and prior.dist.name == "norm"):
                exact += [(len(loadings) + k, prior) for k in range(len(sources))]
        else:
            scale = _flat(posterior, str(each.scale))[:, :1] + SMALLEST
            if each.zero_sum:
                scale = scale * np.sqrt(1 + 1 / n_models)
                shift = scale[:, 0] / (n_models + 1)
        for effects in sources:
            loadings.append(np.zeros(location.shape))
            loadings[-1][:, effects] = scale
    if spec.ability.pooling != "none":
        hosts = np.argsort(newcomer.unit_of_host)[newcomer.units]
        level = _flat(posterior, "mu")
        if base is not None:
            known = _flat(posterior, "theta_base")
            level = known.reshape(draws, n_models, -1)[:, base]
        location[:, abilities] += level[:, hosts]
    if "beta" in terms and spec.contamination.pooling != "none":
        # what the slopes of all models vary around
        if "v" in terms:
            level = _flat(posterior, "beta_benchmark")[:, newcomer.benchmarks]
        else:
            level = _flat(posterior, "beta_bar")
            level = np.log(level) if newcomer.positive else level
        location[:, slopes] += level
    if len(newcomer.lifted):
        location[:, lifts], scale = _spillover(posterior, newcomer)
        for k in np.flatnonzero(scale.any(axis=0)):
            loadings.append(np.zeros(location.shape))
            loadings[-1][:, lifts.start + k] = scale[:, k]
    top = "mu_bar" if "sigma_mu" in terms else "mu"
    centers = _flat(posterior, top) if shift is not None else np.zeros((draws, 0))
    prior = distribution(getattr(spec.priors, top))
    loading = np.stack(loadings, axis=-1)
    return ConditionalPrior(location, loading, shift, centers, prior, factor, tuple(exact))


def _known_base(newcomer: NewModel) -> int | None:
    """Return the position of the newcomer's base among those of the fit, if it is one of them."""
    host, joint = newcomer.host.lineage, newcomer.design.lineage
    assert host is not None
    assert joint is not None
    relatives = np.flatnonzero(joint.base[:-1] == joint.base[-1])  # models of the fit come first
    return int(host.base[relatives[0]]) if len(relatives) else None


def _spillover(posterior: xr.Dataset, newcomer: NewModel) -> tuple[FloatArray, FloatArray]:
    """Return what draws expect of coefficients of spillover, and its spread, (draw, lifted)."""
    # Exposures that the fit has (a base, a benchmark, a kind) have their coefficients; of new
    # ones it knows the mean that they vary around.
    shape = posterior.sizes["chain"] * posterior.sizes["draw"], len(newcomer.lifted)
    host, joint = newcomer.host.lineage, newcomer.design.lineage
    if host is None or joint is None:
        return np.broadcast_to(_flat(posterior, "spillover"), shape), np.zeros(shape)
    known = {label: g for g, label in enumerate(host.labels(newcomer.host.benchmarks))}
    labels = joint.labels(newcomer.design.benchmarks)
    share = joint.share.reshape(len(newcomer.design.models), -1, len(labels))[-1]
    location, variance = np.zeros(shape), np.zeros(shape)
    names = [str(name) for name in posterior.data_vars]
    spreads = {
        name: _flat(posterior, name)[:, 0] + SMALLEST if name in names else np.zeros(shape[0])
        for name in ("sigma_lambda", "sigma_lk")
    }
    for k, b in enumerate(newcomer.lifted):
        for g in np.flatnonzero(share[b]):
            part, at = share[b, g], known.get(labels[g])
            if at is not None and "lambda" in names:
                location[:, k] += part * _flat(posterior, "lambda")[:, at]
                continue
            level = _flat(posterior, "lambda_bar")[:, 0]
            if "lambda_benchmark" in names:
                level = _flat(posterior, "lambda_benchmark")[:, b]
            kind = joint.kinds[joint.group_kind[g]]
            if "lambda_kind" in names and kind in host.kinds:
                own = _flat(posterior, "lambda_kind")[:, host.kinds.index(kind)]
                level = level + spreads["sigma_lk"] * own
            elif "lambda_kind" in names:
                variance[:, k] += part**2 * spreads["sigma_lk"] ** 2
            location[:, k] += part * level
            variance[:, k] += part**2 * spreads["sigma_lambda"] ** 2
    return location, np.sqrt(variance)


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
        none = np.zeros((len(draws), len(self.newcomer.design.benchmarks)))
        joint = self.whole(draws, theta, none, none)
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
        draws, answers, newcomer = self.draws[chosen], self.answers(chosen), self.newcomer
        drawn, log_ratio = propose(start, newcomer, self.expected[chosen], answers, rng)
        joint = self.whole(draws, *newcomer.place(drawn))
        return self.drawn(joint, draws, answers, newcomer.log_odds(drawn), rng), log_ratio

    def whole(
        self,
        draws: Draws,
        theta: FloatArray,
        beta: FloatArray | None,
        spillover: FloatArray | None,
    ) -> Draws:
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
        lift = draws.spillover
        if lift is not None and spillover is not None and host.lineage is not None:
            lift = np.concatenate([lift, spillover], axis=1)
        return Draws(wide, slopes, delta, None, None, spillover=lift)

    def drawn(
        self,
        joint: Draws,
        draws: Draws,
        answers: Marginal | ItemDifficulties,
        eta: FloatArray,
        rng: np.random.Generator,
    ) -> Draws:
        """Draw difficulties of the items that the newcomer met, and effects of all responses."""
        if isinstance(answers, ItemDifficulties) and joint.delta is not None:
            items, nodes, delta = answers.items, answers.nodes, joint.delta.copy()
            log_weight = nodes.log_weight.copy()
            gained = answers.log_weights(eta) - nodes.log_weight[:, items.of_own]
            log_weight[:, items.of_own] += gained  # one response to an item, so none is lost
            chosen = draw_nodes(log_weight, rng).astype(np.int64)[..., None]
            delta[:, items.label] = np.take_along_axis(nodes.position, chosen, -1)[..., 0]
            joint = replace(joint, delta=delta)
        if (scale := draws.sigma_eps) is None:
            return joint
        design = self.newcomer.design
        repeated = np.arange(design.n_single, len(design))
        center = predictor(joint, design.subset(repeated))
        own = draw_effects(self.rows[repeated], center, scale, rng)
        return replace(joint, eta=own, sigma_eps=scale)


def propose(
    start: FloatArray,
    newcomer: NewModel,
    expected: ConditionalPrior,
    answers: Marginal | ItemDifficulties,
    rng: np.random.Generator,
    steps: int = _STEPS,
) -> tuple[FloatArray, FloatArray]:
    """Draw a newcomer's effects once for each draw of a fit, with log importance ratios."""
    # Dims (draw, effect) and (draw,).
    center, root = _laplace(start, newcomer, expected, answers, steps)
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
    density = answers.log_density(newcomer.log_odds(drawn)).sum(axis=1)
    return drawn, density + expected.log_density(source) - log_q


def _laplace(
    start: FloatArray,
    newcomer: NewModel,
    expected: ConditionalPrior,
    answers: Marginal | ItemDifficulties,
    steps: int,
) -> tuple[FloatArray, FloatArray]:
    """Return mode and Cholesky factor of the precision of sources, by Newton steps."""
    single, both = newcomer.directions
    at = np.broadcast_to(start, expected.location.shape)
    load = expected.loading
    for _ in range(steps):
        eta = newcomer.log_odds(at)
        low, middle, high = (answers.log_density(eta + h) for h in (-_STEP, 0.0, _STEP))
        first = (single.T @ ((high - low) / (2 * _STEP)).T).T * (scale := newcomer.slopes_of(at))
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
    """Return predicted log weights of all draws by ridge regression, dims (draw,)."""
    # Golub, Heath & Wahba (1979), doi:10.1080/00401706.1979.10489751.
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
class WeightedUpdate:
    """Draws of the joint posterior of a fit and a newcomer, with their weights."""

    newcomer: NewModel
    # estimands of all models, as `estimands` returns them with one chain; the newcomer is the last
    # model
    groups: dict[str, xr.Dataset]
    weights: DrawWeights  # Pareto-smoothed
    # shape of the tail of the weights: how far they can be trusted. The larger of that of the draws
    # weighed, and of the predicted weights of all draws of the fit.
    pareto_k: float
    log_evidence: float  # log probability of the newcomer's responses given those of the fit

    @property
    def most_k(self) -> float:
        """Largest `pareto_k` that this number of draws can be trusted with."""
        return max_pareto_k(len(self.weights.share))

    @property
    def doubt(self) -> str | None:
        """Why the weights cannot be trusted; None where they can."""
        if not self.pareto_k <= self.most_k:
            return (
                "the new responses move the fit's parameters too far for its draws (Pareto k"
                f" {self.pareto_k:.2f}, at most {self.most_k:.2f})"
            )
        if self.weights.ess < FEWEST:
            worth = f"{self.weights.ess:.0f} after weighing, {FEWEST} are needed"
            return f"the fit's draws are worth {worth}"
        return None

    def p_better(self) -> pd.DataFrame:
        """Return how probably the newcomer is better than each model of the fit."""
        group = self.groups["estimands"].isel(chain=0)
        ranks = group["rank"].transpose("draw", "model", "benchmark").to_numpy()
        ranked = ~np.isnan(ranks).any(axis=0)  # not where models answered different items
        better = (ranks[:, -1:] < ranks) + (ranks[:, -1:] == ranks) / 2
        share = np.einsum("d,dmb->mb", self.weights.share, better)
        share = np.where(ranked[:-1] & ranked[-1:], share[:-1], np.nan)
        coords = {"other": group["model"].to_numpy()[:-1], "benchmark": group["benchmark"]}
        return probabilities(xr.DataArray(share, coords, ("other", "benchmark")))

    def estimands(self, level: float) -> pd.DataFrame:
        """Return one row for each estimand of the newcomer."""
        tables = {
            group: summarise(
                with_p_best(values).sel(model=self.newcomer.name, drop=True), level, self.weights
            )
            for group, values in self.groups.items()
        }
        table = tables["estimands"]
        if (parts := tables.get("estimands_by_concept")) is not None:
            design = self.newcomer.design
            owner = [design.benchmarks[k] for k in design.benchmark_of_unit]
            owners = dict(zip(design.units, owner, strict=True))
            parts.insert(0, "benchmark", parts["concept"].map(owners))
            table.insert(1, "concept", "")
            table = pd.concat([table, parts], ignore_index=True)
        return table


def probabilities(better: xr.DataArray) -> pd.DataFrame:
    """Return probabilities, dims (benchmark, other), as ``benchmark, other, probability``."""
    series = better.rename("probability").transpose("benchmark", "other").to_series()
    return series.dropna().reset_index()


def update_draws(
    fit: Fit,
    newcomer: NewModel,
    reference: Reference,
    rng: np.random.Generator,
    most: int = DRAWS,
    items: Items = "all",
    sampled: bool = False,
) -> WeightedUpdate:
    """Weigh draws of a fit by the probability of a newcomer's responses given them."""
    # Difficulties and effects of single responses are summed out by quadrature, in the fit's
    # responses too. The newcomer's abilities and slopes are proposed once for each draw, near their
    # mode. Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling,
    # Journal of Machine Learning Research 25(72), arXiv:1507.02646.
    posterior = fit.joint_posterior()
    known = Completion.of(posterior, newcomer, rng)
    first = known.draws.spaced(max(_FEW, int(_FIRST * most)))
    few = first[:: max(1, len(first) // _FEW)]
    expected = known.expected[few]
    arguments = newcomer, expected, known.answers(few)
    # Where all others start: the mean of these modes.
    start = expected.effects(_laplace(expected.location, *arguments, 8)[0]).mean(axis=0)
    begun, log_begun = known.complete(first, start)
    predicted = fit_log_weights(features(posterior), first, log_begun)
    chance = softmax(predicted)
    # The others are drawn by their chances, evenly.
    reached, left = np.cumsum(chance), most - len(first)
    wanted = (np.arange(left) + rng.random()) / left * reached[-1]
    second = np.minimum(np.searchsorted(reached, wanted, side="right"), len(chance) - 1)
    rest, log_rest = known.complete(second, start)
    origin = np.concatenate([first, second])
    count, share = len(origin), len(first) / len(origin)
    # Both parts are draws from one mixture of draws of the fit.
    mixture = share + (1 - share) * chance[origin] * len(known.draws)
    log_ratio = np.concatenate([log_begun, log_rest]) - np.log(mixture)
    log_share, pareto_k = psis_weights(log_ratio)
    tails = np.stack([pareto_k, psis_weights(predicted)[1]])
    draws = _joined([begun, rest])
    return WeightedUpdate(
        newcomer,
        estimands(draws, newcomer.built, (1, count), reference, items, rng, sampled),
        DrawWeights(np.exp(log_share), origin, (posterior.sizes["chain"], posterior.sizes["draw"])),
        float(np.where(np.isfinite(tails), tails, np.inf).max()),
        float(logsumexp(log_ratio) - np.log(count)),
    )


def _scale(draws: Draws) -> FloatArray | None:
    if draws.sigma_eps is None:
        return None
    scale: FloatArray = draws.sigma_eps[:, 0] + SMALLEST
    return scale


def _joined(parts: list[Draws]) -> Draws:
    names = ("theta", "beta", "delta", "eta", "sigma_eps", "spillover")
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **columns)
