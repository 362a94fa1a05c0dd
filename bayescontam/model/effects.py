"""Effects of models, benchmarks and items, and guessing, as PyMC variables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.errors import Fault, SpecError
from bayescontam.model.design import Design
from bayescontam.model.priors import SoftmaxSizes, Tensor, parameters, spread, variable
from bayescontam.model.terms import Terms, benchmarks_with_two_models
from bayescontam.model.transforms import (
    CommonFirst,
    LinearisedEstimate,
    PooledTransform,
    rough_abilities,
    rough_difficulties,
    rough_discriminations,
    rough_slopes,
    stretch_of_items,
)
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta, Normal, Prior

Factor = Callable[[str], Any]
"""By what a variable is larger than the prior of this name says; see `Stretch.of`."""
_LEAST_RISE = 0.05
"""Unit of slopes if all that a dose-response rises by lies where no responses are."""
_ALIKE = 1e-12
"""Variance of contaminations that differ by rounding, or not at all."""


def add_abilities(
    spec: ModelSpec,
    design: Design,
    terms: Terms,
    factor: Factor,
    difficulty: Tensor | None = None,
) -> Tensor:
    """Add ``theta``, dims (model, unit): log-odds of accuracy at mean contamination.

    Abilities, and the means that they vary around, are sampled less the mean difficulty of
    the items at hand: that difference is what data identify. Abilities and difficulties
    themselves they identify only together, up to a shift of both that costs nothing but prior
    density; the more models, the longer and thinner a posterior is in that direction.
    """
    dims = ("model", design.unit_dim)
    if spec.ability.pooling == "none":
        return variable("theta", spec.priors.theta, factor("theta"), dims=dims)
    rough = _rough_abilities(design, terms)
    hard = None if difficulty is None else pt.dot(_items_of_benchmarks(design), difficulty)
    center = _unit_means(spec, design, terms, factor, hard)
    scale = None
    if "sigma_theta" in terms:
        scale = spread("sigma_theta", spec.priors.sigma_theta, factor("sigma_theta"))
    if "a" in terms:
        assert scale is not None, "models that share benchmarks are pairs enough to differ"
        center = center + _general_ability(spec, design, factor, rough, scale)[:, None]
    lift = _of_units(hard, design)
    if scale is not None:
        return _lifted("theta", center, scale, lift, dims=dims, default_transform=rough.transform())
    prior = spec.priors.theta
    if isinstance(prior, Normal):
        own, transform = parameters(prior, factor("theta")), rough.transform()
        mean, sd = center + own["mu"], own["sigma"]
        return _lifted("theta", mean, sd, lift, dims=dims, default_transform=transform)
    offset = variable("theta_offset", prior, factor("theta"), dims=dims)
    return pm.Deterministic("theta", center + offset, dims=dims)


def _rough_abilities(design: Design, terms: Terms) -> LinearisedEstimate:
    rough = rough_abilities(design, "eps" in terms)
    if not terms.integrated:
        return rough
    return rough.stretched(stretch_of_items(design)[design.benchmark_of_unit])


def _lifted(name: str, mean: Tensor, sd: Tensor, lift: Tensor | None, **options: Any) -> Tensor:
    """Add a Normal variable that is sampled less what it is lifted by."""
    if lift is None:
        return pm.Normal(name, mean, sd, **options)
    level = pm.Normal(f"{name}_level", mean - lift, sd, **options)
    return pm.Deterministic(name, level + lift, dims=options.get("dims"))


def _of_units(values: Tensor | None, design: Design) -> Tensor | None:
    """Return values of benchmarks for each unit; without a lookup where these are the same."""
    if values is None or design.by == "benchmark":
        return values
    return values[design.benchmark_of_unit]


def _items_of_benchmarks(design: Design) -> FloatArray:
    """Return the weights of the mean over the items of each benchmark, dims (benchmark, item)."""
    own = design.benchmark_of_item == np.arange(len(design.benchmarks))[:, None]
    return own / np.maximum(own.sum(axis=1, keepdims=True), 1)


def _unit_means(
    spec: ModelSpec, design: Design, terms: Terms, factor: Factor, hard: Tensor | None
) -> Tensor:
    if "sigma_mu" not in terms:
        lift = _of_units(hard, design)
        return _mean_ability("mu", spec.priors.mu, factor("mu"), lift, design.unit_dim)
    bar = _mean_ability("mu_bar", spec.priors.mu_bar, factor("mu_bar"), hard, "benchmark")
    scale = spread("sigma_mu", spec.priors.sigma_mu, factor("sigma_mu"))
    rough = _rough_abilities(design, terms).pooled(axis=0, differ=True)
    mean = bar[design.benchmark_of_unit]
    lift = _of_units(hard, design)
    options = {"dims": design.unit_dim, "default_transform": rough.transform()}
    return _lifted("mu", mean, scale, lift, **options)


def _mean_ability(
    name: str, prior: Prior, factor: Tensor, lift: Tensor | None, dims: str
) -> Tensor:
    if isinstance(prior, Normal):
        own = parameters(prior, factor)
        return _lifted(name, own["mu"], own["sigma"], lift, dims=dims)
    return variable(name, prior, factor, dims=dims)


def _general_ability(
    spec: ModelSpec, design: Design, factor: Factor, rough: LinearisedEstimate, differ: Tensor
) -> Tensor:
    """Add ``a``, dims (model,), already scaled by ``sigma_a`` and summing to zero.

    Its coordinates in an orthonormal basis of the zero-sum vectors are independent
    Normals: the same distribution as ``pm.ZeroSumNormal``, in coordinates that can be
    informed by the data. They are sampled with ``sigma_theta`` added; see `PooledTransform`.
    """
    scale = spread("sigma_a", spec.priors.sigma_a, factor("sigma_a"))
    basis = zero_sum_basis(len(design.models))
    estimates = rough.level_of_rows().along(basis)
    count = (basis**2).T @ np.isfinite(rough.se).sum(axis=1)
    shifted = pm.Normal(
        "a_coordinates",
        differ,
        scale,
        shape=basis.shape[1],
        default_transform=PooledTransform(estimates.estimate, estimates.se, count),
    )
    return pm.Deterministic("a", pt.dot(basis, shifted - differ), dims="model")


def zero_sum_basis(n: int) -> FloatArray:
    """Return an orthonormal basis of the vectors of length `n` that sum to zero, (n, n - 1)."""
    return np.linalg.qr(np.eye(n) - 1 / n)[0][:, : n - 1]


def add_slopes(
    spec: ModelSpec,
    design: Design,
    terms: Terms,
    factor: Factor,
    unit: Tensor | None = None,
    difficulty: Tensor | None = None,
) -> Tensor | None:
    """Add ``beta``, dims (model, benchmark): log-odds from surely clean to contaminated.

    Effects of benchmark (v), model (u) and pair (w) add up on the slope itself, or on its
    logarithm where slopes are positive. Those of models known to be clean are zero.
    `unit` is the `cumulative_dose`, if there are any; `difficulty` is that of the items,
    dims (item,).
    """
    if "beta" not in terms:
        return None
    if not design.clean.any():
        return _free_slopes("beta", spec, design, terms, factor, unit, difficulty)
    free = _free_slopes("beta_free", spec, design, terms, factor, unit, difficulty)
    exposed = 1.0 - design.clean[:, None]
    return pm.Deterministic("beta", free * exposed, dims=("model", "benchmark"))


def _effect(
    name: str, mean: Tensor, sd: Tensor, unit: Tensor | None, transform: Any = None, **options: Any
) -> Tensor:
    """Add a Normal variable of slopes; with a `unit` it is sampled as what it rises by.

    The distribution is the same: a Normal variable times a number is Normal too.
    """
    if unit is None:
        return pm.Normal(name, mean, sd, default_transform=transform, **options)
    rise = pm.Normal(f"{name}_rise", mean * unit, sd * unit, default_transform=transform, **options)
    return pm.Deterministic(name, rise / unit, dims=options.get("dims"))


def _free_slopes(
    name: str,
    spec: ModelSpec,
    design: Design,
    terms: Terms,
    factor: Factor,
    unit: Tensor | None,
    difficulty: Tensor | None,
) -> Tensor:
    """Add slopes as if no model were known to be clean."""
    dims = ("model", "benchmark")
    if spec.contamination.pooling == "none":
        return variable(name, spec.priors.beta_bar, factor("beta_bar"), dims=dims)
    positive = spec.contamination.sign == "positive"
    rough = rough_slopes(design, "eps" in terms)
    if terms.integrated:
        rough = rough.stretched(stretch_of_items(design))
    rough = rough.logarithm() if positive else rough
    prior = spec.priors.beta_bar
    unit = None if positive else unit
    if terms.integrated and "u" in terms and isinstance(prior, Normal) and not positive:
        level = _turned_levels(spec, terms, prior, rough, unit)
    elif "u" in terms and isinstance(prior, Normal) and not positive and unit is None:
        level = _level_first(spec, design, terms, factor, prior, rough, difficulty)
    else:
        bar = _mean_slope(prior, factor("beta_bar"), unit)
        center = pt.log(bar) if positive else bar
        level = _slope_levels(spec, terms, factor, center, rough, unit)
    if "w" in terms:
        scale = spread("sigma_bmb", spec.priors.sigma_bmb, factor("sigma_bmb"))
        inner = "log_beta" if positive else name
        level = _effect(inner, level, scale, unit, rough.transform(), dims=dims)
        if not positive:
            return level
    beta = pt.exp(level) if positive else level
    return pm.Deterministic(name, beta + pt.zeros(design.answered.shape), dims=dims)


def _mean_slope(prior: Prior, factor: Tensor, unit: Tensor | None) -> Tensor:
    if isinstance(prior, Normal):
        own = parameters(prior, factor)
        return _effect("beta_bar", own["mu"], own["sigma"], unit)
    return variable("beta_bar", prior, factor)


def _slope_levels(
    spec: ModelSpec,
    terms: Terms,
    factor: Factor,
    center: Tensor,
    rough: LinearisedEstimate,
    unit: Tensor | None,
) -> Tensor:
    """Add ``beta_benchmark`` (benchmark) and ``beta_model`` (model), an offset from it."""
    level = center
    if "v" in terms:
        scale = spread("sigma_bb", spec.priors.sigma_bb, factor("sigma_bb"))
        transform = rough.pooled(axis=0, differ="u" in terms).transform()
        level = _effect("beta_benchmark", center, scale, unit, transform, dims="benchmark")
    if "u" in terms:
        scale = spread("sigma_bm", spec.priors.sigma_bm, factor("sigma_bm"))
        offset = LinearisedEstimate(
            rough.estimate - rough.pooled(0, differ=True).estimate, rough.se
        )
        transform = offset.pooled(axis=1, differ="w" in terms).transform()
        model = _effect("beta_model", 0.0, scale, unit, transform, dims="model")
        level = level + model[:, None]
    return level


def _level_first(
    spec: ModelSpec,
    design: Design,
    terms: Terms,
    factor: Factor,
    prior: Normal,
    rough: LinearisedEstimate,
    difficulty: Tensor | None,
) -> Tensor:
    """Add the same as `_slope_levels`, in coordinates of which one is what models add on average.

    Data inform on the mean slope only together with what the models add that inform on slopes,
    as they do on abilities only together with difficulties; see `add_abilities`. Where nothing
    else stands for it, slopes of difficulties along contamination are a part of that sum too.
    """
    informative = design.informative.any(axis=1)
    basis = CommonFirst.of(np.where(informative, -1, np.arange(len(informative))))
    offset = LinearisedEstimate(rough.estimate - rough.pooled(0, differ=True).estimate, rough.se)
    estimates = basis.rough(offset.pooled(axis=1, differ="w" in terms))
    scale = spread("sigma_bm", spec.priors.sigma_bm, factor("sigma_bm"))
    transform = estimates.transform()
    moved = pm.Normal(
        "beta_model_coordinates", 0.0, scale, dims="model", default_transform=transform
    )
    model = pm.Deterministic("beta_model", basis.items(moved), dims="model")
    own, fall = parameters(prior, factor("beta_bar")), -model[informative].mean()
    hard: Tensor = np.zeros(len(design.benchmarks))
    if difficulty is not None and "kappa" not in terms:
        hard = _along_contamination(design, difficulty)
    level = _lifted("beta_bar", own["mu"], own["sigma"], fall + hard.mean())
    if "v" in terms:
        scale = spread("sigma_bb", spec.priors.sigma_bb, factor("sigma_bb"))
        transform = rough.pooled(axis=0, differ=True).transform()
        options: dict[str, Any] = {"dims": "benchmark", "default_transform": transform}
        level = _lifted("beta_benchmark", level, scale, fall + hard, **options)
    return level + model[:, None]


def _turned_levels(
    spec: ModelSpec, terms: Terms, prior: Normal, rough: LinearisedEstimate, unit: Tensor | None
) -> Tensor:
    """Add the same as `_slope_levels`, in coordinates for tables that identify slopes well.

    Data identify what models add to slopes on average, ``beta_model_mean``, only together with
    the mean slope or those of benchmarks. Where they identify slopes well, moving the one
    against the other is the one direction in which a posterior is wide. The sums are
    sampled in their stead, and what models add in an orthonormal basis of the vectors that
    sum to zero: then the mean meets the data no more, and the others do not meet it.
    """
    models, scale = rough.se.shape[0], spread("sigma_bm", spec.priors.sigma_bm)
    basis = zero_sum_basis(models)
    offset = LinearisedEstimate(rough.estimate - rough.pooled(0, differ=True).estimate, rough.se)
    estimates = offset.pooled(axis=1, differ="w" in terms).along(basis)
    free = LinearisedEstimate(np.zeros(()), np.array(np.inf)).transform()
    mean = _effect("beta_model_mean", 0.0, scale / np.sqrt(models), unit, free)
    transform_along, shape = estimates.transform(), basis.shape[1]
    along = _effect("beta_model_coordinates", 0.0, scale, unit, transform_along, shape=shape)
    deviations = pt.dot(basis, along)
    pm.Deterministic("beta_model", mean + deviations, dims="model")
    level = _effect("beta_level", prior.mu + mean, prior.sigma, unit)
    pm.Deterministic("beta_bar", level - mean)
    if "v" in terms:
        transform = rough.pooled(axis=0, differ=True).transform()
        spread_of = spread("sigma_bb", spec.priors.sigma_bb)
        dims = "benchmark"
        level = _effect("beta_benchmark_level", level, spread_of, unit, transform, dims=dims)
        pm.Deterministic("beta_benchmark", level - mean, dims="benchmark")
    return level + deviations[:, None]


def add_difficulties(
    spec: ModelSpec, design: Design, terms: Terms, factor: Factor, fixed: bool
) -> Tensor | None:
    """Add ``delta``, dims (item,): log-odds by which an item is harder than its unit's mean.

    Zero in benchmarks of which no item was answered by two models. If contaminations are
    `fixed`, the slope along them is a coordinate.
    """
    if "delta" not in terms:
        return None
    scale = spread("sigma_delta", spec.priors.sigma_delta, factor("sigma_delta"), dims="benchmark")
    rough = rough_difficulties(design, "eps" in terms)
    shared = benchmarks_with_two_models(design)[design.benchmark_of_item]
    scale = scale[design.benchmark_of_item[shared]]
    along = design.item_contamination[shared] if fixed and "beta" in terms else None
    basis = CommonFirst.of(design.benchmark_of_item[shared], along)
    estimates = basis.rough(LinearisedEstimate(rough.estimate[shared], rough.se[shared]))
    size: dict[str, Any] = {"dims": "item"} if shared.all() else {"shape": int(shared.sum())}
    transform = estimates.transform()
    moved = pm.Normal("delta_coordinates", 0.0, scale, default_transform=transform, **size)
    part = basis.items(moved)
    if not shared.all():
        part = pt.zeros(len(shared))[shared].set(part)
    return pm.Deterministic("delta", part, dims="item")


def add_selection(spec: ModelSpec, design: Design, terms: Terms, factor: Factor) -> Tensor | None:
    """Add ``psi``, dims (model, benchmark): how much harder the items are that a model answered.

    Log-odds, times the square root of the number of models that answered a part of the
    benchmark; 0 of the others. Difficulties of items with few answers are drawn towards
    their mean. Where models chose what to answer, such as weak ones easy items, that mean
    is not the same for all items: it depends on who answered them.

    Little (1993), doi:10.1080/01621459.1993.10594302, on models by pattern of missing data;
    Mundlak (1978), doi:10.2307/1913646, on effects whose mean depends on a regressor.
    """
    if "psi" not in terms:
        return None
    count, shape = len(design.partial), design.answered.shape
    scale: Any = np.sqrt(count)
    if "sigma_psi" in terms:
        scale = spread("sigma_psi", spec.priors.sigma_psi, factor("sigma_psi"))
    free = pm.Normal("psi_coordinates", 0.0, 1.0, shape=count)
    whole = pt.zeros(shape[0] * shape[1])[design.partial].set(scale * free)
    return pm.Deterministic("psi", whole.reshape(shape), dims=("model", "benchmark"))


def add_discriminations(spec: ModelSpec, design: Design, terms: Terms) -> Tensor | None:
    """Add ``alpha``, dims (item,): how many times as far an item distinguishes models.

    Its geometric mean is 1 up to chance: the scale of abilities is that of a typical item.
    """
    if "alpha" not in terms:
        return None
    scale = spread("sigma_alpha", spec.priors.sigma_alpha)
    transform = rough_discriminations(design, "eps" in terms).transform()
    log = pm.Normal("log_alpha", 0.0, scale, dims="item", default_transform=transform)
    return pm.Deterministic("alpha", pt.exp(log), dims="item")


def add_increments(spec: ModelSpec, design: Design, terms: Terms) -> Tensor | None:
    """Add ``increments``, dims (segment,): parts of the dose-response's rise, adding up to 1."""
    if "increments" not in terms:
        return None
    count = len(design.knots) + 1
    alpha = np.full(count, spec.priors.increments.alpha)
    return pm.Dirichlet("increments", alpha, dims="segment", default_transform=SoftmaxSizes(count))


def cumulative_dose(increments: Tensor, design: Design) -> Tensor:
    """Return by what the dose-response rises with contamination where responses lie.

    It is the slope of its regression on contamination, which is 1 for a straight line, and
    a little more, so that it is never near zero. Data show how far log-odds rise between
    responses. Where few of these lie at one end, what is added there is nearly unknown,
    and with it the slope from 0 to 1; the product of slope and this is known none the less.
    """
    weighed = design.weight * design.dose
    square = (weighed * design.dose).sum() + _ALIKE * design.weight.sum()
    per_segment = (weighed[:, None] * design.reach_dose).sum(axis=0) / square
    return _LEAST_RISE + (1 - _LEAST_RISE) * (per_segment * increments).sum()


def add_confounding(
    spec: ModelSpec, design: Design, terms: Terms, factor: Factor, difficulty: Tensor | None
) -> Tensor | None:
    """Add ``kappa``, dims (benchmark,): how much harder contaminated items are than clean ones.

    It is sampled together with the slope of the items' own difficulties along contamination:
    data inform on the sum of both alone.
    """
    if "kappa" not in terms:
        return None
    prior = spec.priors.kappa
    if difficulty is None or not isinstance(prior, Normal):
        return variable("kappa", prior, factor("kappa"), dims="benchmark")
    own, fall = parameters(prior, factor("kappa")), -_along_contamination(design, difficulty)
    return _lifted("kappa", own["mu"], own["sigma"], fall, dims="benchmark")


def _along_contamination(design: Design, difficulty: Tensor) -> Tensor:
    """Return slopes of difficulties in their items' contamination, dims (benchmark,)."""
    own = design.benchmark_of_item == np.arange(len(design.benchmarks))[:, None]
    dose = own * design.dose_of_item
    square = (dose**2).sum(axis=1, keepdims=True)
    return pt.dot(dose / np.where(square > _ALIKE, square, np.inf), difficulty)


def add_scalar(name: str, spec: ModelSpec, terms: Terms, factor: Factor) -> Tensor | None:
    """Add ``gamma`` or ``spillover``, which all models and benchmarks share."""
    if name not in terms:
        return None
    return variable(name, getattr(spec.priors, name), factor(name))


def guess_priors(spec: ModelSpec, design: Design) -> list[float | Beta]:
    """Return what the spec states of each benchmark's guessing: a number, or a prior.

    Of a spec by which every item has its own, as the table says, zeros.
    """
    guess = spec.likelihood.guess
    if guess == "column":
        return [0.0] * len(design.benchmarks)
    if not isinstance(guess, dict):
        return [guess] * len(design.benchmarks)
    unknown = [name for name in guess if name not in design.benchmarks]
    if unknown:
        known = join_list(design.benchmarks)
        problem = f"no such benchmark: {join_list(unknown)}; the responses have {known}"
        raise SpecError([Fault(f"model spec '{spec.name}'", problem, column="likelihood.guess")])
    return [guess.get(name, 0.0) for name in design.benchmarks]


def can_guess(spec: ModelSpec, design: Design) -> bool:
    """Return whether blind guessing succeeds on any item."""
    if design.item_guess is not None:
        return bool(design.item_guess.any())
    return any(guess != 0 for guess in guess_priors(spec, design))


def add_guess(spec: ModelSpec, design: Design) -> FloatArray | Tensor:
    """Return the accuracy of blind guessing for each response, dims (response,).

    Where that of any benchmark has a prior, adds ``guess``, dims (benchmark,), to the
    current PyMC model.
    """
    if design.item_guess is not None:
        return design.item_guess[design.item]
    values = guess_priors(spec, design)
    priors = {b: prior for b, prior in enumerate(values) if isinstance(prior, Beta)}
    if not priors:
        return np.array(values, dtype=float)[design.benchmark]
    alpha, beta = (np.array([getattr(p, k) for p in priors.values()]) for k in ("alpha", "beta"))
    if len(priors) == len(values):
        return pm.Beta("guess", alpha, beta, dims="benchmark")[design.benchmark]
    free = pm.Beta("guess_free", alpha, beta, shape=len(priors))
    fixed = np.array([0.0 if isinstance(prior, Beta) else prior for prior in values])
    whole = pt.as_tensor(fixed)[np.array([*priors])].set(free)
    return pm.Deterministic("guess", whole, dims="benchmark")[design.benchmark]


SPREADS = {
    "a": "sigma_a",
    "sigma_theta": "sigma_theta",
    "u": "sigma_bm",
    "v": "sigma_bb",
    "w": "sigma_bmb",
    "delta": "sigma_delta",
    "eps": "sigma_eps",
}
"""Spread of each term, as priors name it."""


@dataclass(frozen=True)
class VarianceComponent:
    """Independent effects that abilities, slopes or their confounding are sums of."""

    of: str  # what they add to: `theta`, `beta` or `kappa`
    dims: tuple[str, ...]  # what they differ by; all else shares them
    # name of the prior of their spread around zero; None where `prior` is their own
    scale: str | None = None
    prior: str | None = None
    zero_sum: bool = False  # whether they sum to zero over models


def variance_components(spec: ModelSpec, terms: Terms) -> Iterator[VarianceComponent]:
    """Yield the effects that a model spec adds up, the level of each sum first."""
    pairs = ("model", "unit")
    if spec.ability.pooling == "none":
        yield VarianceComponent("theta", pairs, prior="theta")
    else:
        yield VarianceComponent("theta", ("unit",), prior="mu")
        if "a" in terms:
            yield VarianceComponent("theta", ("model",), SPREADS["a"], zero_sum=True)
        if "sigma_theta" in terms:
            yield VarianceComponent("theta", pairs, SPREADS["sigma_theta"])
        else:
            yield VarianceComponent("theta", pairs, prior="theta")
    pairs = ("model", "benchmark")
    if spec.contamination.pooling == "none":
        yield VarianceComponent("beta", pairs, prior="beta_bar")
    else:
        yield VarianceComponent("beta", (), prior="beta_bar")
        for term, dims in (("u", ("model",)), ("v", ("benchmark",)), ("w", pairs)):
            if term in terms:
                yield VarianceComponent("beta", dims, SPREADS[term])
    if "kappa" in terms:
        yield VarianceComponent("kappa", ("benchmark",), prior="kappa")
