"""Abilities and slopes as sums of Normal effects, with their variances."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.model.design import Design
from bayescontam.model.effects import SPREADS, variance_components, zero_sum_basis
from bayescontam.model.priors import distribution, is_stretched, stretch
from bayescontam.model.terms import Terms
from bayescontam.specs.base import Block, suggest
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal, Prior

_FREE = {
    "likelihood.guess",
    "likelihood.model_by_item",
    "ability.pooling",
    "difficulty.form",
    "contamination.pooling",
    "contamination.confounding",
    "contamination.clean",
    "contamination.clean_column",
    "contamination.knots",
}
"""Keys of a model spec whose every value has Normal effects on linear log-odds."""


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
    """Return the effects that make up abilities and slopes.

    Given the spreads, ``theta`` and ``beta`` have a joint Normal prior: that of the sum of
    these components. A prior that is not Normal stands as the Normal of its quartiles.
    """
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
            mean, sd = _normal(getattr(spec.priors, str(each.prior)))
        stacked = np.stack([matrix * (kind == each.of) for kind in kinds])
        result.append(Component(stacked, mean, sd, each.of not in levels))
        levels.add(each.of)
    return result


def effect_kinds(terms: Terms) -> tuple[str, ...]:
    """Return the kinds of effects of models and benchmarks that a fit has."""
    return ("theta", "beta", "kappa") if "kappa" in terms else ("theta", "beta")


def _normal(prior: Prior) -> tuple[float, float]:
    """Return mean and sd of a prior, of another family those of the Normal of its quartiles."""
    if isinstance(prior, Normal):
        return prior.mu, prior.sigma
    low, middle, high = (float(distribution(prior).ppf(q)) for q in (0.25, 0.5, 0.75))
    return middle, (high - low) / 1.349


def draw_spreads(
    spec: ModelSpec, fixed: Mapping[str, float], rng: np.random.Generator
) -> dict[str, float]:
    """Draw all spreads of a model spec from their priors, save those that are fixed."""
    uniform = dict(zip(SPREADS.values(), rng.random(len(SPREADS)), strict=True))
    spreads = {
        name: float(fixed.get(name, distribution(getattr(spec.priors, name)).ppf(u)))
        for name, u in uniform.items()
    }
    if spec.difficulty.form == "none":
        spreads["sigma_delta"] = 0.0
    if not spec.likelihood.has_model_by_item:
        spreads["sigma_eps"] = 0.0
    stretched = float(stretch(spreads["sigma_eps"]))
    return {
        name: value * stretched if is_stretched(name, spec) and name not in fixed else value
        for name, value in spreads.items()
    }


def other_spreads(spec: ModelSpec, terms: Terms, count: int) -> list[dict[str, float]]:
    """Return draws from the prior of the spreads of abilities and slopes, evenly over it.

    In units of the stretch that model-by-item effects make. Empty where there are none. A
    fit has to learn these from few models and benchmarks, which widens intervals; spreads of
    items and responses have many to learn from.
    """
    names = [SPREADS[symbol] for symbol in ("a", "sigma_theta", "u", "v", "w") if symbol in terms]
    if not names:
        return []
    points = qmc.Halton(len(names), scramble=False).random(count + 1)[1:]
    columns = [
        np.asarray(distribution(getattr(spec.priors, name)).ppf(column))
        for name, column in zip(names, points.T, strict=True)
    ]
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def fitted_spreads(spreads: Mapping[str, float], terms: Terms) -> tuple[dict[str, float], float]:
    """Return the spreads that a fit will find where it cannot distinguish all effects."""
    entered = {name: spreads[name] for symbol, name in SPREADS.items() if symbol in terms}
    item, response = spreads["sigma_delta"], spreads["sigma_eps"]
    lost = 0.0
    if "eps" in terms:
        entered["sigma_eps"] = response if "delta" in terms else float(np.hypot(item, response))
    else:
        lost = response if "delta" in terms else float(np.hypot(item, response))
    factor = 1 / float(stretch(lost))
    return {name: factor * value for name, value in entered.items()}, factor


def slope_variance(
    spec: ModelSpec, terms: Terms, parts: list[Component], fixed: Mapping[str, float]
) -> FloatArray:
    """Return the prior variance of each slope, (model × benchmark,).

    Spreads that are not fixed are unknown.
    """
    quantiles = (np.arange(2000) + 0.5) / 2000
    stretched = 1.0
    if "eps" in terms:
        spread = distribution(spec.priors.sigma_eps).ppf(quantiles)
        stretched = float(np.mean(stretch(fixed.get("sigma_eps", np.asarray(spread))) ** 2))
    total = np.zeros(parts[0].matrix.shape[1])
    for part in parts:
        if isinstance(part.sd, str) and part.sd not in fixed:
            prior = distribution(getattr(spec.priors, part.sd))
            square = stretched * float(np.mean(np.asarray(prior.ppf(quantiles)) ** 2))
        elif isinstance(part.sd, str):
            square = fixed[part.sd] ** 2
        else:
            square = stretched * part.sd**2
        total += square * (part.matrix[1] ** 2).sum(axis=1)
    return total


def check_spreads(fixed: Mapping[str, float]) -> None:
    """Refuse spreads that do not exist or cannot be."""
    for name, value in fixed.items():
        if name not in SPREADS.values():
            allowed = sorted(SPREADS.values())
            raise UsageError(f"spread: no such spread: {name!r}; {suggest(name, allowed)}")
        if not 0 <= value <= 100:
            raise UsageError(f"spread: got {name} = {value}; allowed is 0 to 100 (log-odds)")


def validate_spec_for_power(spec: ModelSpec) -> None:
    """Refuse a model spec whose effects are not Normal on linear log-odds."""
    found = []
    for name in type(spec).model_fields:
        block = getattr(spec, name)
        if not isinstance(block, Block) or name == "priors":
            continue
        usual = type(block)()
        found += [
            f"{name}.{key} = {str(value)!r}"
            for key, value in block
            if value != getattr(usual, key) and f"{name}.{key}" not in _FREE
        ]
    if found:
        raise UsageError(
            f"plan: the model spec '{spec.name}' has {', '.join(found)}, for which the fast"
            " approximation does not hold; plan with hierarchical, single or anchored, or with a"
            " copy of them that changes priors, guess, pooling, difficulty or model_by_item"
        )
