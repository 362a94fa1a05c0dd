"""Effects of models, benchmarks and items, and guessing, as PyMC variables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.predictor import Data, Effects, dose_of
from bayescontam.model.priors import SoftmaxSizes, Stretch, Tensor, parameters, spread, variable
from bayescontam.model.products import weighted_sums
from bayescontam.model.terms import Terms, benchmarks_with_two_models
from bayescontam.model.transforms import (
    CommonFirst,
    LinearisedEstimate,
    PooledTransform,
    rough_abilities,
    rough_bases,
    rough_difficulties,
    rough_discriminations,
    rough_discriminations_of_pairs,
    rough_effects,
    rough_slopes,
    rough_spillover,
    rough_training,
    stretch_of_items,
)
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal

_CELLS = ("model", "benchmark")
_LEAST_RISE = 0.05
"""Unit of slopes if all that a dose-response rises by lies where no responses are."""
_TWINS_DIFFER = 0.25
"""Spread of twins' abilities, to the nearest guess."""
_ALIKE = 1e-12  # variance of contaminations that differ by rounding, or not at all


def add_effects(
    spec: ModelSpec, design: Design, terms: Terms, stretch: Stretch, doses: Data
) -> Effects:
    """Add all effects to the current PyMC model; some `doses` of the design may be its data."""
    to = _Context(spec, design, terms, stretch)
    # Coordinates follow contaminations only where these stay what they are.
    fixed = not doses
    delta = _difficulties(to, fixed)
    confounded = delta if fixed else None
    related = design.lineage is not None
    alpha_pair = _discriminations_of_pairs(to)
    theta = None if related else _abilities(to, delta, alpha_pair)
    increments = _increments(to)
    unit = None if increments is None else _cumulative_dose(increments, design, doses)
    beta = _slopes(to, unit, confounded)
    spillover = _spillover(to)
    if theta is None:
        theta = _abilities_by_base(to, delta, _contaminated(design, beta, spillover))
    psi = _selection(to)
    return {
        "theta": theta.ravel(),
        "beta": None if beta is None else beta.ravel(),
        "psi": None if psi is None else psi.ravel(),
        "delta": delta,
        "alpha": _discriminations(to),
        "alpha_pair": None if alpha_pair is None else alpha_pair.ravel(),
        "increments": increments,
        "kappa": _confounding(to, confounded),
        "gamma": to.variable("gamma") if "gamma" in terms else None,
        "spillover": spillover,
        "shared": pm.Normal("shared", dims="factor") if "shared" in terms else None,
        "zeta": _of_people(to, "zeta", "participant", design.participant),
        "xi": _items_for_people(to, delta),
    }


@dataclass(frozen=True, eq=False)
class _Context:
    """What effects are added for, and variables with the priors of its model spec."""

    spec: ModelSpec
    design: Design
    terms: Terms
    stretch: Stretch

    def prior(self, name: str) -> Any:
        return getattr(self.spec.priors, name)

    def factor(self, name: str) -> Any:
        """Return by what a variable is larger than the prior of this name says."""
        return self.stretch.of(name, self.spec, self.design)

    def parameters(self, name: str) -> dict[str, Tensor]:
        return parameters(self.prior(name), self.factor(name))

    def variable(self, name: str, prior: str = "", **options: Any) -> Tensor:
        prior = prior or name
        return variable(name, self.prior(prior), self.factor(prior), **options)

    def lifted(self, name: str, lift: Tensor | None, **options: Any) -> Tensor:
        """Add a variable that is sampled less what it is lifted by, if its prior is Normal."""
        if lift is None or not isinstance(self.prior(name), Normal):
            return self.variable(name, **options)
        own = self.parameters(name)
        return _lifted(name, own["mu"], own["sigma"], lift, **options)

    def spread(self, name: str, **options: Any) -> Tensor:
        return spread(name, self.prior(name), self.factor(name), **options)

    @property
    def overdispersed(self) -> bool:
        return "eps" in self.terms

    def abilities(self) -> LinearisedEstimate:
        """Estimate abilities, dims (model, unit)."""
        rough = rough_abilities(self.design, self.overdispersed)
        if not self.terms.integrated:
            return rough
        return rough.stretched(stretch_of_items(self.design)[self.design.benchmark_of_unit])

    def of_units(self, values: Tensor | None) -> Tensor | None:
        """Return values of benchmarks for each unit; without a lookup where these are the same."""
        if values is None or self.design.by == "benchmark":
            return values
        return values[self.design.benchmark_of_unit]


def _abilities(to: _Context, difficulty: Tensor | None, rate: Tensor | None) -> Tensor:
    """Add ``theta``, dims (model, unit): log-odds of accuracy at mean contamination."""
    # Abilities, and the means that they vary around, are sampled less the mean difficulty of the
    # items at hand: that difference is what data identify. Abilities and difficulties themselves
    # they identify only together, up to a shift of both that costs nothing but prior density; the
    # more models, the longer and thinner a posterior is in that direction.
    design = to.design
    dims = ("model", design.unit_dim)
    hard = _mean_difficulties(design, difficulty)
    if to.spec.ability.pooling == "none":
        return to.variable("theta", dims=dims)
    center, lift = _unit_means(to, hard), to.of_units(hard)
    if rate is not None and "a" not in to.terms and "sigma_theta" in to.terms:
        return _scaled_abilities(to, center, lift, rate, dims)
    return _around_means("theta", "a", to, center, to.abilities(), lift, dims)


def _scaled_abilities(
    to: _Context, center: Tensor, lift: Tensor | None, rate: Tensor, dims: tuple[str, str]
) -> Tensor:
    """Add abilities around the means of units, sampled as what they are at the `rate` of pairs."""
    # Data identify log-odds, the products of discrimination and ability above mean difficulty.
    design, scale = to.design, to.spread("sigma_theta")
    if design.by != "benchmark":
        rate = rate[:, design.benchmark_of_unit]
    above: Any = 0.0 if lift is None else lift
    stretch = stretch_of_items(design)[design.benchmark_of_unit]
    transform = to.abilities().stretched(stretch).transform()
    level = pm.Normal(
        "theta_level", rate * (center - above), rate * scale, dims=dims, default_transform=transform
    )
    return pm.Deterministic("theta", level / rate + above, dims=dims)


def _mean_difficulties(design: Design, difficulty: Tensor | None) -> Tensor | None:
    """Return the mean difficulty of each benchmark's items, dims (benchmark,)."""
    if difficulty is None:
        return None
    own = design.benchmark_of_item == np.arange(len(design.benchmarks))[:, None]
    return weighted_sums(own / np.maximum(own.sum(axis=1, keepdims=True), 1), difficulty)


def _around_means(
    name: str,
    general: str,
    to: _Context,
    center: Tensor,
    rough: LinearisedEstimate,
    lift: Tensor | None,
    dims: tuple[str, str],
) -> Tensor:
    """Add abilities around the means of units, of models or of bases, dims (…, unit)."""
    options: dict[str, Any] = {"dims": dims, "default_transform": rough.transform()}
    if "sigma_theta" in to.terms:
        scale = to.spread("sigma_theta")
        if "a" in to.terms:
            center = center + _general_ability(general, to, rough, scale, dims[0])[:, None]
        return _lifted(name, center, scale, lift, **options)
    # Without it there is no `a` either: models that share benchmarks are pairs enough to differ.
    if isinstance(to.prior("theta"), Normal):
        prior = to.parameters("theta")
        return _lifted(name, center + prior["mu"], prior["sigma"], lift, **options)
    offset = to.variable(f"{name}_offset", prior="theta", dims=dims)
    return pm.Deterministic(name, center + offset, dims=dims)


def _contaminated(design: Design, beta: Tensor | None, spillover: Tensor | None) -> Tensor | None:
    """Return what contamination adds to log-odds on average over a pair's responses."""
    # dims (model, benchmark). Data identify abilities with it: they are sampled as that sum.
    total: Any = 0.0
    if beta is not None:
        total = total + beta * design.cell_level
    if spillover is not None:
        whole = np.zeros(design.answered.size)
        whole[design.model_benchmark] = design.cell_dose
        total = total + spillover.reshape(design.answered.shape) * whole.reshape(
            design.answered.shape
        )
    return None if isinstance(total, float) else total


def _abilities_by_base(to: _Context, difficulty: Tensor | None, added: Tensor | None) -> Tensor:
    """Add ``theta``, dims (model, unit): log-odds of accuracy without contamination."""
    # Of models of one base it varies around that of the base: by what their own training changes
    # everywhere, and on each unit for other reasons. Bases vary as models do elsewhere.
    design, dims = to.design, ("model", to.design.unit_dim)
    lineage = design.lineage
    assert lineage is not None
    hard, rough = _mean_difficulties(design, difficulty), to.abilities()
    center, lift = _unit_means(to, hard), to.of_units(hard)
    if added is not None:
        added = added[:, design.benchmark_of_unit]
    similar = "twin" in to.terms
    of_bases = rough_bases(design, rough, _TWINS_DIFFER if similar else 0.0)
    own = _training(to, rough) if similar else None
    # Bases are sampled with the mean of what their models have beyond them, as data show the sum.
    member = lineage.base == np.arange(len(lineage.bases))[:, None]
    beyond = added if own is None else own[:, None]
    lift_bases = _less(lift, beyond, member / member.sum(axis=1, keepdims=True))
    unit = ("base", design.unit_dim)
    base = _around_means("theta_base", "a_base", to, center, of_bases, lift_bases, unit)
    if own is None:
        return pm.Deterministic("theta", base[lineage.base], dims=dims)
    options: dict[str, Any] = {"dims": dims, "default_transform": rough.transform()}
    mean = base[lineage.base] + own[:, None]
    return _lifted("theta", mean, to.spread("sigma_twin"), _less(lift, added), **options)


def _training(to: _Context, rough: LinearisedEstimate) -> Tensor:
    """Add ``t``, dims (model,): what a model's own training changes everywhere."""
    # What all models of a base have in common is one coordinate: the ability of the base is nearly
    # the same, and data identify the sum.
    assert to.design.lineage is not None
    if to.design.lineage.walk is not None:
        starts, steps = to.design.lineage.walk
        start = pm.Normal("t_start", 0.0, 1.0, shape=starts.shape[1])
        step = pm.Normal("t_step", 0.0, 1.0, shape=steps.shape[1])
        along = weighted_sums(starts, to.spread("sigma_t") * start)
        along = along + weighted_sums(steps, to.spread("sigma_step") * step)
        return pm.Deterministic("t", along, dims="model")
    basis = CommonFirst.of(to.design.lineage.base)
    transform = basis.rough(rough_training(to.design, rough)).transform()
    scale = to.spread("sigma_t")
    moved = pm.Normal("t_coordinates", 0.0, scale, dims="model", default_transform=transform)
    return pm.Deterministic("t", basis.items(moved), dims="model")


def _less(lift: Tensor | None, beyond: Tensor | None, mean: FloatArray | None = None) -> Any:
    """Return a lift less what else is in the sum that is sampled, or its means."""
    if beyond is None:
        return lift
    beyond = beyond if mean is None else weighted_sums(mean, beyond.T).T
    return -beyond if lift is None else lift - beyond


def _lifted(name: str, mean: Tensor, sd: Tensor, lift: Tensor | None, **options: Any) -> Tensor:
    """Add a Normal variable that is sampled less what it is lifted by."""
    if lift is None:
        return pm.Normal(name, mean, sd, **options)
    level = pm.Normal(f"{name}_level", mean - lift, sd, **options)
    return pm.Deterministic(name, level + lift, dims=options.get("dims"))


def _unit_means(to: _Context, hard: Tensor | None) -> Tensor:
    unit_dim, lift = to.design.unit_dim, to.of_units(hard)
    if "sigma_mu" not in to.terms:
        return to.lifted("mu", lift, dims=unit_dim)
    bar = to.lifted("mu_bar", hard, dims="benchmark")
    scale, rough = to.spread("sigma_mu"), to.abilities().pooled(axis=0, differ=True)
    options = {"dims": unit_dim, "default_transform": rough.transform()}
    return _lifted("mu", bar[to.design.benchmark_of_unit], scale, lift, **options)


def _general_ability(
    name: str, to: _Context, rough: LinearisedEstimate, differ: Tensor, dim: str
) -> Tensor:
    """Add ``a``, dims (model,) or (base,), scaled by ``sigma_a`` and summing to zero."""
    # Its coordinates in an orthonormal basis of the zero-sum vectors are independent Normals: the
    # same distribution as `pm.ZeroSumNormal`, in coordinates that can be informed by the data. They
    # are sampled with `sigma_theta` added; see `PooledTransform`.
    scale, basis = to.spread("sigma_a"), zero_sum_basis(len(rough.se))
    estimates = rough.level_of_rows().along(basis)
    count = (basis**2).T @ np.isfinite(rough.se).sum(axis=1)
    transform = PooledTransform(estimates.estimate, estimates.se, count)
    shape = basis.shape[1]
    shifted = pm.Normal(
        f"{name}_coordinates", differ, scale, shape=shape, default_transform=transform
    )
    return pm.Deterministic(name, weighted_sums(basis, shifted - differ), dims=dim)


def zero_sum_basis(n: int) -> FloatArray:
    """Return an orthonormal basis of the vectors of length `n` that sum to zero, (n, n - 1)."""
    return np.linalg.qr(np.eye(n) - 1 / n)[0][:, : n - 1]


def _slopes(to: _Context, unit: Tensor | None, difficulty: Tensor | None) -> Tensor | None:
    """Add ``beta``, dims (model, benchmark): log-odds from surely clean to contaminated."""
    # Effects of benchmark (v), model (u) and pair (w) add up on the slope itself, or on its
    # logarithm where slopes are positive. Those of models known to be clean are zero. `unit` is the
    # `_cumulative_dose`, if there are any; `difficulty` is that of the items, dims (item,).
    clean = to.design.clean
    if "beta" not in to.terms:
        return None
    if not clean.any():
        return _free_slopes("beta", to, unit, difficulty)
    free = _free_slopes("beta_free", to, unit, difficulty)
    return pm.Deterministic("beta", free * (1.0 - clean[:, None]), dims=_CELLS)


def _effect(
    name: str, mean: Tensor, sd: Tensor, unit: Tensor | None, transform: Any = None, **options: Any
) -> Tensor:
    """Add a Normal variable of slopes; with a `unit` it is sampled as what it rises by."""
    # The distribution is the same: a Normal variable times a number is Normal too.
    if unit is None:
        return pm.Normal(name, mean, sd, default_transform=transform, **options)
    rise = pm.Normal(f"{name}_rise", mean * unit, sd * unit, default_transform=transform, **options)
    return pm.Deterministic(name, rise / unit, dims=options.get("dims"))


def _free_slopes(name: str, to: _Context, unit: Tensor | None, difficulty: Tensor | None) -> Tensor:
    """Add slopes as if no model were known to be clean."""
    block, terms = to.spec.contamination, to.terms
    if block.pooling == "none":
        return to.variable(name, prior="beta_bar", dims=_CELLS)
    positive = block.sign == "positive"
    rough = rough_slopes(to.design, to.overdispersed)
    if terms.integrated:
        rough = rough.stretched(stretch_of_items(to.design))
    rough = rough.logarithm() if positive else rough
    unit = None if positive else unit
    # Slopes of models are confounded with the mean slope; both are Normal.
    normal = "u" in terms and isinstance(to.prior("beta_bar"), Normal) and not positive
    if normal and terms.integrated:
        level = _turned_levels(to, rough, unit)
    elif normal and unit is None:
        level = _level_first(to, rough, difficulty)
    else:
        level = _slope_levels(to, positive, rough, unit)
    if "w" in terms:
        inner = "log_beta" if positive else name
        scale = to.spread("sigma_bmb")
        level = _effect(inner, level, scale, unit, rough.transform(), dims=_CELLS)
        if not positive:
            return level
    beta = pt.exp(level) if positive else level
    return pm.Deterministic(name, beta + pt.zeros(to.design.answered.shape), dims=_CELLS)


def _slope_levels(
    to: _Context, positive: bool, rough: LinearisedEstimate, unit: Tensor | None
) -> Tensor:
    """Add the mean slope, ``beta_benchmark`` (benchmark) and ``beta_model`` (model) around it."""
    if isinstance(to.prior("beta_bar"), Normal):
        own = to.parameters("beta_bar")
        level = _effect("beta_bar", own["mu"], own["sigma"], unit)
    else:
        level = to.variable("beta_bar")
    level = pt.log(level) if positive else level
    if "v" in to.terms:
        scale = to.spread("sigma_bb")
        transform = rough.pooled(axis=0, differ="u" in to.terms).transform()
        level = _effect("beta_benchmark", level, scale, unit, transform, dims="benchmark")
    if "u" in to.terms:
        scale = to.spread("sigma_bm")
        transform = _slopes_of_models(to, rough).transform()
        level = level + _effect("beta_model", 0.0, scale, unit, transform, dims="model")[:, None]
    return level


def _slopes_of_models(to: _Context, rough: LinearisedEstimate) -> LinearisedEstimate:
    """Estimate by what slopes of models lie above those of benchmarks, dims (model,)."""
    offset = LinearisedEstimate(rough.estimate - rough.pooled(0, differ=True).estimate, rough.se)
    return offset.pooled(axis=1, differ="w" in to.terms)


def _level_first(to: _Context, rough: LinearisedEstimate, difficulty: Tensor | None) -> Tensor:
    """Add the same as `_slope_levels`, with what models add on average as a coordinate."""
    # Data inform on the mean slope only together with what the models add that inform on slopes,
    # as they do on abilities only together with difficulties; see `_abilities`. Where nothing
    # else stands for it, slopes of difficulties along contamination are a part of that sum too.
    design, terms = to.design, to.terms
    informative = design.informative.any(axis=1)
    basis = CommonFirst.of(np.where(informative, -1, np.arange(len(informative))))
    scale = to.spread("sigma_bm")
    options: dict[str, Any] = {"dims": "model"}
    options["default_transform"] = basis.rough(_slopes_of_models(to, rough)).transform()
    moved = pm.Normal("beta_model_coordinates", 0.0, scale, **options)
    model = pm.Deterministic("beta_model", basis.items(moved), dims="model")
    fall = -model[informative].mean()
    hard: Tensor = np.zeros(len(design.benchmarks))
    if difficulty is not None and "kappa" not in terms:
        hard = _along_contamination(design, difficulty)
    level = to.lifted("beta_bar", fall + hard.mean())
    if "v" in terms:
        scale = to.spread("sigma_bb")
        transform = rough.pooled(axis=0, differ=True).transform()
        options = {"dims": "benchmark", "default_transform": transform}
        level = _lifted("beta_benchmark", level, scale, fall + hard, **options)
    return level + model[:, None]


def _turned_levels(to: _Context, rough: LinearisedEstimate, unit: Tensor | None) -> Tensor:
    """Add the same as `_slope_levels`, in coordinates for tables that identify slopes well."""
    # Data identify what models add to slopes on average, `beta_model_mean`, only together with the
    # mean slope or those of benchmarks. Where they identify slopes well, moving the one against the
    # other is the one direction in which a posterior is wide. The sums are sampled in their stead,
    # and what models add in an orthonormal basis of the vectors that sum to zero: then the mean
    # meets the data no more, and the others do not meet it.
    prior, models, scale = to.prior("beta_bar"), rough.se.shape[0], to.spread("sigma_bm")
    basis = zero_sum_basis(models)
    transform, shape = _slopes_of_models(to, rough).along(basis).transform(), basis.shape[1]
    free = LinearisedEstimate(np.zeros(()), np.array(np.inf)).transform()
    mean = _effect("beta_model_mean", 0.0, scale / np.sqrt(models), unit, free)
    along = _effect("beta_model_coordinates", 0.0, scale, unit, transform, shape=shape)
    deviations = weighted_sums(basis, along)
    pm.Deterministic("beta_model", mean + deviations, dims="model")
    level = _effect("beta_level", prior.mu + mean, prior.sigma, unit)
    pm.Deterministic("beta_bar", level - mean)
    if "v" in to.terms:
        transform, scale = rough.pooled(axis=0, differ=True).transform(), to.spread("sigma_bb")
        dims = "benchmark"
        level = _effect("beta_benchmark_level", level, scale, unit, transform, dims=dims)
        pm.Deterministic("beta_benchmark", level - mean, dims="benchmark")
    return level + deviations[:, None]


def _spillover(to: _Context) -> Tensor | None:
    """Add the coefficient of spillover: one for all, or with lineage one a pair, flattened."""
    # Pairs of model and benchmark have those of their exposure's groups, which vary around the
    # means of benchmarks and kinds.
    lineage = to.design.lineage
    if "spillover" not in to.terms:
        return None
    if lineage is None:
        return to.variable("spillover")
    rough = rough_spillover(to.design, to.abilities())
    level: Any = to.variable("lambda_bar")
    if "lb" in to.terms:
        size = len(to.design.benchmarks)
        member = lineage.group_benchmark[:, None] == np.arange(size)
        known = LinearisedEstimate(
            np.broadcast_to(rough.estimate[:, None], member.shape),
            np.where(member, rough.se[:, None], np.inf),
        ).pooled(axis=0, differ=True)
        level = pm.Normal("lambda_benchmark", level, to.spread("sigma_lb"), dims="benchmark",
                          default_transform=known.transform())  # fmt: skip
        level = level[lineage.group_benchmark]
    if "lk" in to.terms:
        kind = pm.Normal("lambda_kind", 0.0, 1.0, shape=len(lineage.kinds))
        level = level + (to.spread("sigma_lk") * kind)[lineage.group_kind]
    if "lambda" in to.terms:
        level = pm.Normal("lambda", level, to.spread("sigma_lambda"), dims="exposure",
                          default_transform=rough.transform())  # fmt: skip
    else:
        level = level + pt.zeros(len(lineage.group_base))
    # What is reported is what counts depend on: simulated truths are read off it.
    of_pairs = weighted_sums(lineage.share, level).reshape(to.design.answered.shape)
    return pm.Deterministic("spillover", of_pairs, dims=_CELLS).ravel()


def _difficulties(to: _Context, fixed: bool) -> Tensor | None:
    """Add ``delta``, dims (item,): log-odds by which an item is harder than its unit's mean."""
    # Zero in benchmarks of which no item was answered by two models. If contaminations are `fixed`,
    # the slope along them is a coordinate.
    design = to.design
    if "delta" not in to.terms:
        return None
    scale = to.spread("sigma_delta", dims="benchmark")
    rough = rough_difficulties(design, to.overdispersed)
    shared = benchmarks_with_two_models(design)[design.benchmark_of_item]
    scale = scale[design.benchmark_of_item[shared]]
    along = design.item_contamination[shared] if fixed and "beta" in to.terms else None
    basis = CommonFirst.of(design.benchmark_of_item[shared], along)
    estimates = basis.rough(LinearisedEstimate(rough.estimate[shared], rough.se[shared]))
    size: dict[str, Any] = {"dims": "item"} if shared.all() else {"shape": int(shared.sum())}
    transform = estimates.transform()
    moved = pm.Normal("delta_coordinates", 0.0, scale, default_transform=transform, **size)
    part = basis.items(moved)
    if not shared.all():
        part = pt.zeros(len(shared))[shared].set(part)
    return pm.Deterministic("delta", part, dims="item")


def _selection(to: _Context) -> Tensor | None:
    """Add ``psi``, dims (model, benchmark): how much harder the items are that a model answered."""
    # Log-odds, times the square root of the number of models that answered a part of the benchmark;
    # 0 of the others. Difficulties of items with few answers are drawn towards their mean. Where
    # models chose what to answer, such as weak ones easy items, that mean is not the same for all
    # items: it depends on who answered them. Little (1993), doi:10.1080/01621459.1993.10594302, on
    # models by pattern of missing data; Mundlak (1978), doi:10.2307/1913646, on effects whose mean
    # depends on a regressor.
    if "psi" not in to.terms:
        return None
    partial, shape = to.design.partial, to.design.answered.shape
    scale: Any = np.sqrt(len(partial))
    if "sigma_psi" in to.terms:
        scale = to.spread("sigma_psi")
    free = pm.Normal("psi_coordinates", 0.0, 1.0, shape=len(partial))
    whole = pt.zeros(shape[0] * shape[1])[partial].set(scale * free)
    return pm.Deterministic("psi", whole.reshape(shape), dims=_CELLS)


def _discriminations(to: _Context) -> Tensor | None:
    """Add ``alpha``, dims (item,): how many times as far an item distinguishes models."""
    # Its geometric mean is 1 up to chance: the scale of abilities is that of a typical item.
    if "alpha" not in to.terms:
        return None
    scale = to.spread("sigma_alpha")
    transform = rough_discriminations(to.design, to.overdispersed).transform()
    log = pm.Normal("log_alpha", 0.0, scale, dims="item", default_transform=transform)
    return pm.Deterministic("alpha", pt.exp(log), dims="item")


def _discriminations_of_pairs(to: _Context) -> Tensor | None:
    """Add ``alpha_pair``, dims (model, benchmark): how fast log-odds fall with difficulty."""
    # Its geometric mean is 1 up to chance, as that of items' discriminations. It is of ability and
    # difficulty alike, so that abilities stay where an item is solved half of the time.
    if "alpha_pair" not in to.terms:
        return None
    scale = to.spread("sigma_alpha")
    transform = rough_discriminations_of_pairs(to.design, to.overdispersed).transform()
    log = pm.Normal("log_alpha_pair", 0.0, scale, dims=_CELLS, default_transform=transform)
    return pm.Deterministic("alpha_pair", pt.exp(log), dims=_CELLS)


def _of_people(to: _Context, name: str, dim: str, level: IntArray | None) -> Tensor | None:
    """Add an effect of participants, or of what people of one group share on an item."""
    if name not in to.terms or level is None:
        return None
    transform = rough_effects(to.design, level).transform()
    scale = to.spread(f"sigma_{name}")
    return pm.Normal(name, 0.0, scale, dims=dim, default_transform=transform)


def _items_for_people(to: _Context, difficulty: Tensor | None) -> Tensor | None:
    """Add ``xi``, dims (pair of a group and an item), sampled with the difficulty of the item."""
    # People of a group answer an item often: data identify the sum of the two.
    design = to.design
    if difficulty is None or "xi" not in to.terms or design.pair is None:
        return _of_people(to, "xi", "participant_item", design.pair)
    first = np.zeros(int(design.pair.max()) + 1, dtype=np.int64)
    rows = design.pair >= 0
    first[design.pair[rows]] = design.item[rows]
    transform = rough_effects(design, design.pair).transform()
    lift = difficulty[first]
    return _lifted(
        "xi",
        pt.zeros(len(first)),
        to.spread("sigma_xi"),
        lift,
        dims="participant_item",
        default_transform=transform,
    )


def _increments(to: _Context) -> Tensor | None:
    """Add ``increments``, dims (segment,): parts of the dose-response's rise, adding up to 1."""
    if "increments" not in to.terms:
        return None
    count = len(to.design.knots) + 1
    alpha = np.full(count, to.spec.priors.increments.alpha)
    return pm.Dirichlet("increments", alpha, dims="segment", default_transform=SoftmaxSizes(count))


def _cumulative_dose(increments: Tensor, design: Design, doses: Data) -> Tensor:
    """Return by what the dose-response rises with contamination where responses lie."""
    # It is the slope of its regression on contamination, which is 1 for a straight line, and a
    # little more, so that it is never near zero. Data show how far log-odds rise between responses.
    # Where few of these lie at one end, what is added there is nearly unknown, and with it the
    # slope from 0 to 1; the product of slope and this is known none the less.
    dose, reach_dose = (dose_of(design, name, doses) for name in ("dose", "reach_dose"))
    weighed = design.weight * dose
    square = (weighed * dose).sum() + _ALIKE * design.weight.sum()
    per_segment = (weighed[:, None] * reach_dose).sum(axis=0) / square
    return _LEAST_RISE + (1 - _LEAST_RISE) * (per_segment * increments).sum()


def _confounding(to: _Context, difficulty: Tensor | None) -> Tensor | None:
    """Add ``kappa``, dims (benchmark,): how much harder contaminated items are than clean ones."""
    # It is sampled together with the slope of the items' own difficulties along contamination: data
    # inform on the sum of both alone.
    if "kappa" not in to.terms:
        return None
    fall = None if difficulty is None else -_along_contamination(to.design, difficulty)
    return to.lifted("kappa", fall, dims="benchmark")


def _along_contamination(design: Design, difficulty: Tensor) -> Tensor:
    """Return slopes of difficulties in their items' contamination, dims (benchmark,)."""
    own = design.benchmark_of_item == np.arange(len(design.benchmarks))[:, None]
    dose = own * design.dose_of_item
    square = (dose**2).sum(axis=1, keepdims=True)
    return weighted_sums(dose / np.where(square > _ALIKE, square, np.inf), difficulty)
