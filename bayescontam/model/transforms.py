"""Coordinates that a model is sampled in: centred as far as the data inform."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.priors import stretch
from bayescontam.model.products import weighted_sums
from bayescontam.model.quadrature import normal_gauss_hermite

Tensor = Any
_LEAST = 1e-6
"""Least information of a repeated response; of one that is held out: standard error 1,000."""
_STEPS = 8  # Newton's steps to difficulties; more change their standard errors by a few per cent
_NOTHING = 1e-9  # length of a vector that is zero but for rounding
_LEVEL = 1 / 4**2  # prior precision of a pair's log-odds on an item of difficulty 0
_DIFFER = 0.3  # spread of abilities and of slopes around their means, to the nearest guess


class DataInformedTransform(Transform):
    """Standardise a Normal variable by its rough conditional posterior."""

    # Where data alone would put the variable at `estimate` with standard error `se`, and its prior
    # is Normal(mu, sigma), the conditional posterior is close to a Normal of precision 1/sigma² +
    # 1/se². In its units the variable is nearly independent of mu and sigma, whichever of data and
    # prior is the stronger; se → 0 and se → ∞ are centred and non-centred parametrisation. The
    # model, its prior and its posterior do not depend on the two. Papaspiliopoulos, Roberts & Sköld
    # (2007), doi:10.1214/088342307000000014, on partially non-centred parametrisation.

    name = "informed"
    ndim_supp = 0

    def __init__(self, estimate: FloatArray, se: FloatArray) -> None:
        self.estimate: Any = np.asarray(estimate, dtype=float)
        self.precision: Any = 1.0 / np.asarray(se, dtype=float) ** 2

    def _moments(self, rv_inputs: tuple[Any, ...]) -> tuple[Any, Any]:
        mu, sigma = rv_inputs[-2:]
        prior_precision = 1.0 / pt.square(sigma)
        precision = prior_precision + self.precision
        mean = (mu * prior_precision + self.estimate * self.precision) / precision
        return mean, 1.0 / pt.sqrt(precision)

    def backward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the variable from the sampler's coordinate."""
        mean, sd = self._moments(rv_inputs)
        return mean + sd * value

    def forward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the sampler's coordinate from the variable."""
        mean, sd = self._moments(rv_inputs)
        return (value - mean) / sd

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the log of the derivative of `backward`, element by element."""
        _, sd = self._moments(rv_inputs)
        return pt.log(sd) + pt.zeros_like(value)


def make_informing_data(model: pm.Model) -> None:
    """Make data of what informs coordinates of the variables of the current PyMC model."""
    for rv, transform in model.rvs_to_transforms.items():
        if not isinstance(transform, DataInformedTransform):
            continue
        transform.estimate = pm.Data(f"{rv.name}_estimate", transform.estimate)
        transform.precision = pm.Data(f"{rv.name}_precision", transform.precision)
        # PyMC finds data through the variables' own inputs only, never those of transforms.
        inputs = rv.owner.inputs
        inputs[-2] = inputs[-2] + 0.0 * (transform.estimate + transform.precision)


class PooledTransform(DataInformedTransform):
    """The same for the mean of `count` effects, which itself is sampled."""

    # Its variable is Normal(tau, sigma), and what is reported of it is `variable − tau`, where tau
    # is the standard deviation of the effects around it: a transform knows nothing but the
    # parameters of its variable. Given tau, the effects inform on their mean with precision count /
    # (tau² + se²), so that no fixed precision would do.

    name = "nested"

    def __init__(self, estimate: FloatArray, se: FloatArray, count: FloatArray) -> None:
        super().__init__(estimate, se)
        self._count = count

    def _moments(self, rv_inputs: tuple[Any, ...]) -> tuple[Any, Any]:
        tau, sigma = rv_inputs[-2:]
        from_data = self._count / (pt.square(tau) + 1.0 / self.precision)
        precision = 1.0 / pt.square(sigma) + from_data
        return tau + self.estimate * from_data / precision, 1.0 / pt.sqrt(precision)


@dataclass(frozen=True)
class LinearisedEstimate:
    """Rough estimates of one kind of effect, with rough standard errors."""

    estimate: FloatArray
    se: FloatArray

    def transform(self) -> DataInformedTransform:
        """Return the coordinates that these estimates give."""
        return DataInformedTransform(self.estimate, self.se)

    def pooled(self, axis: int, differ: bool) -> "LinearisedEstimate":
        """Return estimates of the mean along an axis, of effects that `differ` a little or not."""
        weight = 1 / (self.se**2 + (_DIFFER**2 if differ else 0.0))
        total = weight.sum(axis=axis)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(total > 0, (weight * self.estimate).sum(axis=axis) / total, 0.0)
            return LinearisedEstimate(mean, 1 / np.sqrt(total))

    def level_of_rows(self) -> "LinearisedEstimate":
        """Return estimates of what each row lies above the columns' means, dims (row,)."""
        # Their errors are those of one cell in each row, and not what cells of a row differ by.
        known = np.isfinite(self.se)
        count = np.maximum(known.sum(axis=0), 1)
        columns = np.where(known, self.estimate, 0.0).sum(axis=0) / count
        count = known.sum(axis=1)
        above = np.where(known, self.estimate - columns, 0.0).sum(axis=1) / np.maximum(count, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = np.where(known, self.se**2, 0.0).sum(axis=1) / count
        return LinearisedEstimate(above, np.where(count > 0, np.sqrt(square), np.inf))

    def along(self, basis: FloatArray) -> "LinearisedEstimate":
        """Return estimates of coordinates in an orthonormal basis, dims (vector,)."""
        precision = (basis**2).T @ (1 / self.se**2)
        return LinearisedEstimate(basis.T @ self.estimate, 1 / np.sqrt(precision))

    def logarithm(self) -> "LinearisedEstimate":
        """Return estimates of the logarithms of positive effects."""
        # An effect that is not clearly positive does not inform on its logarithm.
        clear = self.estimate > 2 * self.se
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = np.where(clear, np.log(self.estimate), 0.0)
            return LinearisedEstimate(estimate, np.where(clear, self.se / self.estimate, np.inf))

    def stretched(self, factor: FloatArray) -> "LinearisedEstimate":
        """Return the same with estimates and errors multiplied."""
        return LinearisedEstimate(self.estimate * factor, self.se * factor)

    def reshape(self, *shape: int) -> "LinearisedEstimate":
        """Return the same in another shape."""
        return LinearisedEstimate(self.estimate.reshape(shape), self.se.reshape(shape))


@dataclass(frozen=True, eq=False)
class CommonFirst:
    """An orthonormal basis for items of each benchmark: first what all of them have in common."""

    # Independent Normals of one spread are such in any orthonormal basis. In this one the mean of a
    # benchmark's items is one coordinate, and so is, if wanted, their slope along a regressor,
    # where these would each be a sum of all. Other effects are confounded with these two alone.

    # of Householder's reflections, in turn, dims (group, item): of length 1, or 0 where a benchmark
    # has none
    axes: tuple[FloatArray, ...]
    common: IntArray  # the items whose coordinates are means and slopes

    @classmethod
    def of(cls, benchmark: IntArray, along: FloatArray | None = None) -> "CommonFirst":
        """Return the basis for items of these benchmarks, with this regressor, dims (item,)."""
        _, group, count = np.unique(benchmark, return_inverse=True, return_counts=True)
        member = group == np.arange(len(count))[:, None]
        vectors = [member.astype(float)]
        if along is not None:
            mean = np.bincount(group, along) / count
            vectors.append(np.where(member, along - mean[group], 0.0))
        axes: list[FloatArray] = []
        common: list[int] = []
        for place, vector in enumerate(vectors):
            turned = vector
            for axis in axes:
                turned = turned - 2 * (turned * axis).sum(axis=1, keepdims=True) * axis
            size = np.linalg.norm(turned, axis=1, keepdims=True)
            known = size[:, 0] > _NOTHING
            axis = np.where(known[:, None], turned / np.maximum(size, _NOTHING), 0.0)
            for row in np.flatnonzero(known):
                item = np.flatnonzero(member[row])[place]
                axis[row, item] -= 1.0
                common.append(int(item))
            size = np.linalg.norm(axis, axis=1, keepdims=True)
            axes.append(np.where(size > _NOTHING, axis / np.maximum(size, _NOTHING), 0.0))
        return cls(tuple(axes), np.array(common, dtype=np.int64))

    def items(self, coordinates: Tensor) -> Tensor:
        """Return what items have from their coordinates, dims (item,)."""
        return self._reflected(coordinates, self.axes[::-1])

    def coordinates(self, items: Tensor) -> Tensor:
        """Return coordinates from what items have, dims (item,)."""
        return self._reflected(items, self.axes)

    @staticmethod
    def _reflected(values: Tensor, axes: tuple[FloatArray, ...]) -> Tensor:
        """Return values reflected in turn; by matrices, as XLA takes lookups one by one."""
        for axis in axes:
            values = values - weighted_sums(2 * axis.T, weighted_sums(axis, values))
        return values

    def rough(self, items: LinearisedEstimate) -> LinearisedEstimate:
        """Return estimates of coordinates from those of items; common ones are uninformed."""
        estimate, se = np.asarray(self.coordinates(items.estimate)), items.se.copy()
        se[self.common] = np.inf
        return LinearisedEstimate(np.where(np.isinf(se), 0.0, estimate), se)


def rough_abilities(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate each ability by the log-odds of its accuracy, dims (model, unit)."""
    shape = len(design.models), len(design.units)
    p = _accuracy(design)
    information = np.bincount(
        design.model_unit, _information(design, overdispersed), minlength=np.prod(shape)
    )
    # Averaging over items draws accuracies towards one half; undo it on the log-odds.
    factor = stretch_of_repeats(design) if overdispersed else 1.0
    with np.errstate(divide="ignore"):
        return LinearisedEstimate(np.log(p / (1 - p)) * factor, 1 / np.sqrt(information)).reshape(
            *shape
        )


def rough_effects(design: Design, level: IntArray) -> LinearisedEstimate:
    """Estimate effects by one step of logistic regression; -1 in `level` are responses without."""
    rows, size = level >= 0, int(level.max()) + 1
    weight = _information(design, overdispersed=False)
    score = np.bincount(level[rows], (weight * _residuals(design))[rows], minlength=size)
    return _weighted(score, np.bincount(level[rows], weight[rows], minlength=size))


def rough_slopes(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate each slope by one step of logistic regression, dims (model, benchmark)."""
    shape = len(design.models), len(design.benchmarks)
    residual, weight = _residuals(design), _information(design, overdispersed)
    cell, size = design.model_benchmark, int(np.prod(shape))
    dose = design.dose
    if design.lineage is not None:  # doses are not centred then
        dose = dose - design.cell_level.ravel()[cell]
    score = np.bincount(cell, weight * residual * dose, minlength=size)
    information = np.bincount(cell, weight * dose**2, minlength=size)
    return _weighted(score, information).reshape(*shape)


def rough_bases(design: Design, abilities: LinearisedEstimate, differ: float) -> LinearisedEstimate:
    """Estimate the ability of each base by the mean of its models', dims (base, unit)."""
    lineage = design.lineage
    assert lineage is not None
    weight = 1 / (abilities.se**2 + differ**2)
    shape = len(lineage.bases), weight.shape[1]
    total: FloatArray = np.zeros(shape)
    mean: FloatArray = np.zeros(shape)
    np.add.at(total, lineage.base, weight)
    np.add.at(mean, lineage.base, weight * np.where(weight > 0, abilities.estimate, 0.0))
    return _weighted(mean, total)


def rough_training(design: Design, abilities: LinearisedEstimate) -> LinearisedEstimate:
    """Estimate by what each model lies above its base where neither was exposed, dims (model,)."""
    lineage = design.lineage
    assert lineage is not None
    level = None if design.contamination is None else design.cell_level
    if level is None:
        level = np.zeros(design.answered.shape)
    se = np.where(level[:, design.benchmark_of_unit] > 0, np.inf, abilities.se)
    clean = LinearisedEstimate(abilities.estimate, se)
    base = rough_bases(design, clean, _DIFFER).estimate[lineage.base]
    weight = np.where(np.isfinite(se), 1 / (se**2 + _DIFFER**2), 0.0)
    weight[lineage.siblings < 2] = 0.0
    return _weighted((weight * (abilities.estimate - base)).sum(axis=1), weight.sum(axis=1))


def rough_spillover(design: Design, abilities: LinearisedEstimate) -> LinearisedEstimate:
    """Estimate what each group's exposure adds, by twins of other exposure, dims (group,)."""
    lineage = design.lineage
    assert lineage is not None
    dose = design.centring.pairs if design.centring is not None else np.zeros(abilities.se.shape)
    estimates, precisions = np.zeros((2, len(lineage.group_base)))
    # Abilities of the units of a benchmark, on average.
    known = np.isfinite(abilities.se)
    benchmark = np.arange(len(design.benchmarks)) == design.benchmark_of_unit[:, None]
    count = known.astype(float) @ benchmark
    level = np.where(known, abilities.estimate, 0.0) @ benchmark / np.maximum(count, 1)
    for g, (a, b) in enumerate(zip(lineage.group_base, lineage.group_benchmark, strict=True)):
        rows = (lineage.base == a) & (count[:, b] > 0)
        part = lineage.share.reshape(*dose.shape, -1)[rows, b, g] * dose[rows, b]
        away = part - part.mean()
        precisions[g] = (away**2).sum() / (2 * _DIFFER**2)
        estimates[g] = (away * (level[rows, b] - level[rows, b].mean())).sum() / max(
            (away**2).sum(), _NOTHING
        )
    return _weighted(estimates * precisions, precisions)


def stretch_of_repeats(design: Design) -> float:
    """Return by how much model-by-item effects draw log-odds of accuracies to 0."""
    return float(stretch(_spread(design)))


def stretch_of_items(design: Design) -> FloatArray:
    """Return by how much item difficulties draw log-odds of accuracies to 0, dims (benchmark,)."""
    # An accuracy is a mean over items, and log-odds of a mean are nearer zero than those of a
    # typical item, by a factor that grows with how items differ.
    size = len(design.items)
    k = np.bincount(design.item, design.n_correct, minlength=size)
    n = np.bincount(design.item, design.n_trials, minlength=size)
    p = np.bincount(
        design.item, design.n_trials * _accuracy(design)[design.model_unit]
    ) / np.maximum(n, 1)
    spreads = []
    for b in range(len(design.benchmarks)):
        rows = (design.benchmark_of_item == b) & (n > 1)
        spreads.append(_spread_of(k[rows], n[rows], p[rows]) if rows.any() else 0.0)
    return np.asarray(stretch(np.array(spreads)))


def rough_difficulties(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate each item's difficulty given rough abilities, dims (item,)."""
    # Of single answers by Newton's steps to the most probable difficulty, since one step from 0
    # takes items that all models solve, or none, for much better known than they are.
    size = len(design.items)
    if overdispersed:
        weight = _information(design, overdispersed)
        score = np.bincount(design.item, weight * _residuals(design), minlength=size)
        return _weighted(-score, np.bincount(design.item, weight, minlength=size))
    p = _accuracy(design)[design.model_unit]
    ability = np.log(p / (1 - p)) * stretch_of_items(design)[design.benchmark]
    difficulty, variance = np.zeros(size), np.ones(len(design.benchmarks))
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(difficulty[design.item] - ability))
        score = np.bincount(design.item, design.n_trials * p - design.n_correct, minlength=size)
        information = np.bincount(design.item, design.n_trials * p * (1 - p), minlength=size)
        prior = 1 / variance[design.benchmark_of_item]
        rough = _weighted(score + information * difficulty, information)
        difficulty = difficulty + (score - prior * difficulty) / (information + prior)
        square = difficulty**2 + 1 / (information + prior)
        variance = np.bincount(design.benchmark_of_item, square) / np.maximum(
            np.bincount(design.benchmark_of_item), 1
        )
    return rough


def rough_discriminations(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate the log of each item's discrimination by one step from 0, dims (item,)."""
    # One item informs little on it, but what all items show together decides how far they differ,
    # and a sampler that moves this spread must move the items along.
    shrunk = _shrunk_difficulties(design, overdispersed)
    p = _accuracy(design)[design.model_unit]
    ability = np.log(p / (1 - p)) * stretch_of_items(design)[design.benchmark] - shrunk
    p = 1 / (1 + np.exp(-ability))
    weight = design.n_trials * p * (1 - p)
    score, crossed, own, square = (
        np.bincount(design.item, values, minlength=len(design.items))
        for values in (
            (design.n_correct - design.n_trials * p) * ability,
            weight * ability, weight, weight * ability**2,
        )
    )  # fmt: skip
    # Less what the item's difficulty, of a prior standard deviation of 1, explains as well.
    return _weighted(score, np.maximum(square - crossed**2 / (own + 1.0), 0.0))


def rough_discriminations_of_pairs(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate the log of each pair's discrimination by Newton's steps, dims (model, benchmark)."""
    # Together with what the pair's log-odds are at difficulty 0, given rough difficulties. Pairs
    # are few: where they inform little, coordinates that are not standardised by their spread make
    # a funnel with it.
    difficulty = _shrunk_difficulties(design, overdispersed)
    pair, shape = design.model_benchmark, (len(design.models), len(design.benchmarks))
    level, log, score, known = np.zeros((4, *shape))
    for _ in range(_STEPS):
        by_log = -np.exp(log).ravel()[pair] * difficulty
        p = np.clip(1 / (1 + np.exp(-level.ravel()[pair] - by_log)), 1e-4, 1 - 1e-4)
        information = p * (1 - p) * design.n_trials
        residual = design.n_correct - design.n_trials * p
        shared = _overdispersion(design, information) if overdispersed else 1.0
        information, residual = information / shared, residual / shared
        slope, at_0, own, crossed, square = (
            np.bincount(pair, values, minlength=log.size).reshape(shape)
            for values in (
                residual * by_log, residual, information, information * by_log,
                information * by_log**2,
            )
        )  # fmt: skip
        own, at_0 = own + _LEVEL, at_0 - _LEVEL * level
        known = np.maximum(square - crossed**2 / own, 0.0)
        score = slope - crossed / own * at_0 + known * log
        step = np.clip(score / (known + 1.0), -2.0, 2.0) - log  # of a prior standard deviation of 1
        level = np.clip(level + (at_0 - crossed * step) / own, -8.0, 8.0)
        log = log + step
    # Rough difficulties are too near 0, by a factor that all models' estimates share.
    weight = known / (known + 1.0)
    rough = _weighted(score, known)
    common = (weight * rough.estimate).sum(axis=0) / np.maximum(weight.sum(axis=0), _LEAST)
    return LinearisedEstimate(rough.estimate - common, rough.se)


def _shrunk_difficulties(design: Design, overdispersed: bool) -> FloatArray:
    """Return rough difficulties of responses' items, drawn to 0 by a prior deviation of 1."""
    rough = rough_difficulties(design, overdispersed)
    return np.asarray((rough.estimate / (1.0 + rough.se**2))[design.item])


def mean_accuracies(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Estimate the log-odds of accuracies over items, which count alike, dims (model, unit)."""
    # Not by pooled trials: a model with more of them on hard items would seem weaker.
    shape = len(design.models), len(design.units)
    n, cells, size = design.n_trials, design.model_unit, int(np.prod(shape))
    given = n > 0
    weight = np.where(given, design.weight, 0.0)
    share = np.where(given, design.n_correct / np.maximum(n, 1), 0.0)
    information = np.where(given, _information(design, overdispersed), 1.0)
    total, trials = (np.bincount(cells, each, minlength=size) for each in (weight, n))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(cells, weight * share, minlength=size) / total
        se = np.sqrt(np.bincount(cells, weight**2 / information, minlength=size)) / total
    p = (np.where(total > 0, mean, 0.0) * trials + 0.5) / (trials + 1.0)
    factor = stretch_of_repeats(design) if overdispersed else 1.0
    se = np.where(total > 0, se, np.inf) / factor
    return LinearisedEstimate(np.log(p / (1 - p)), se).reshape(*shape)


def rough_logits(design: Design) -> LinearisedEstimate:
    """Estimate each repeated response's log-odds from its own trials, if it has any."""
    k, n = design.n_correct[design.n_single :], design.n_trials[design.n_single :]
    p = (k + 0.5) / (n + 1.0)
    return LinearisedEstimate(np.log(p / (1 - p)), 1 / np.sqrt(np.maximum(n * p * (1 - p), _LEAST)))


def _accuracy(design: Design) -> FloatArray:
    size = len(design.models) * len(design.units)
    k = np.bincount(design.model_unit, design.n_correct, minlength=size)
    n = np.bincount(design.model_unit, design.n_trials, minlength=size)
    return (k + 0.5) / (n + 1.0)


def _residuals(design: Design) -> FloatArray:
    """Return how far each response's log-odds seem to be from its cell's."""
    p = _accuracy(design)[design.model_unit]
    score = np.where(design.n_trials > 0, design.n_correct / np.maximum(design.n_trials, 1), p)
    return (score - p) / (p * (1 - p))


def _information(design: Design, overdispersed: bool) -> FloatArray:
    """Return the precision with which each response informs on its cell's log-odds."""
    p = _accuracy(design)[design.model_unit]
    information = design.n_trials * p * (1 - p)
    if not overdispersed:
        return information
    return np.asarray(information / _overdispersion(design, information))


def _overdispersion(design: Design, information: FloatArray) -> FloatArray:
    """Return by what the information of each response is less, its trials being of one item."""
    return np.where(design.n_trials > 1, 1 + information * _spread(design) ** 2, 1.0)


def _spread(design: Design) -> float:
    """Guess the spread of repeated responses' log-odds around their cell's; 1 if none is."""
    # The spread at which a logistic-Normal of the mean accuracy is as variable, on the accuracy
    # scale, as the responses are beyond binomial noise.
    repeated = design.n_trials > 1
    if not repeated.any():
        return 1.0
    k, n = design.n_correct[repeated], design.n_trials[repeated]
    return _spread_of(k, n, _accuracy(design)[design.model_unit[repeated]])


def _spread_of(k: Any, n: Any, p: FloatArray) -> float:
    """Return the spread of log-odds at which counts vary as these do around their accuracies."""
    excess = ((k / n - p) ** 2 - p * (1 - p) / n) / (p * (1 - p) * (1 - 1 / n))
    nodes, weights = normal_gauss_hermite(31)
    level = np.log(p.mean() / (1 - p.mean()))

    def correlation(spread: float) -> float:
        stretched = level * stretch(spread)
        accuracy = 1 / (1 + np.exp(-(stretched + spread * nodes)))
        mean, square = np.average(np.stack([accuracy, accuracy**2]), axis=1, weights=weights)
        return float((square - mean**2) / (mean * (1 - mean)))

    grid = np.linspace(0.3, 10, 60)
    return float(grid[np.argmin([abs(correlation(s) - excess.mean()) for s in grid])])


def _weighted(score: FloatArray, information: FloatArray) -> LinearisedEstimate:
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(information > 0, score / information, 0.0)
        return LinearisedEstimate(estimate, 1 / np.sqrt(information))
