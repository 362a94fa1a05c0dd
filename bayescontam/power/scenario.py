"""Assumed effects, sizes and contamination of a design that is planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np
import pandas as pd
from scipy.stats import qmc

from bayescontam._random import stream
from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.inference.estimands import Reference, reference_levels
from bayescontam.model.design import make_design
from bayescontam.model.labels import crossed_labels
from bayescontam.model.likelihood import accuracy
from bayescontam.model.predictor import contamination_shift, linear_predictor
from bayescontam.model.priors import distribution, is_stretched, stretch
from bayescontam.model.terms import SPREADS, Terms, plan_terms
from bayescontam.power.laplace import (
    Approximate,
    Approximation,
    BalancedDesign,
    Component,
    components,
    effect_kinds,
    normal_grid,
)
from bayescontam.specs.base import Block, suggest
from bayescontam.specs.model import ModelSpec

MOST_ITEMS, MOST_GENERATIONS, MOST_PAIRS = 10_000_000, 10_000, 200
"""Sizes of the largest design that can be planned; pairs are of model and benchmark."""
_SIZES = ("items", "models", "benchmarks", "generations")
MOST_ROWS = 8_000  # responses that are simulated; in larger designs each stands for several
FEWEST_ITEMS = 200  # items of each benchmark that are simulated at least, if there are so many
SPREAD_DRAWS = 80  # draws of the spreads of abilities and slopes that are averaged over
_CLEAN = "clean"
_KNOWN_SPREADS = tuple(
    SPREADS[symbol] for symbol in ("a", "sigma_theta", "u", "v", "w", "delta", "eps")
)
"""Spreads that model specs which can be planned so have."""
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


@dataclass(frozen=True)
class SampleSizes:
    """Size of a design in which every model answers every item equally often.

    Attributes
    ----------
    items : int
        Items of each benchmark, at least 2.
    models, benchmarks : int, default 1
    generations : int, default 1
        Trials of each response.
    clean : int, default 0
        How many of the models are known to be clean.
    """

    items: int
    models: int = 1
    benchmarks: int = 1
    generations: int = 1
    clean: int = 0

    def __post_init__(self) -> None:
        """Validate the sizes."""
        for name in _SIZES:
            least, value = 2 if name == "items" else 1, getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise UsageError(f"{name}: got {value!r}; allowed is {least} or more")
        if not 0 <= self.clean < self.models:
            raise UsageError(
                f"clean: got {self.clean}; allowed is 0 up to but not {self.models}, the models"
            )
        for name, value, most in (
            ("items", self.items, MOST_ITEMS),
            ("generations", self.generations, MOST_GENERATIONS),
            ("models × benchmarks", self.models * self.benchmarks, MOST_PAIRS),
        ):
            if value > most:
                raise UsageError(f"plan: got {value:,} {name}; at most {most:,} can be planned")


@dataclass(frozen=True)
class Assumptions:
    """What is supposed to be true of the data that are planned.

    Attributes
    ----------
    accuracy : float, default 0.6
        Expected accuracy of an average model, contamination included.
    slope : float, default 1.5
        Mean slope: log-odds from surely clean to surely contaminated.
    contamination : float or sequence of arrays, default 0.3
        Share of items with contamination 1, the others having 0; or contaminations to take
        items' from, one array for each benchmark (used in turn if there are fewer).
    spreads : mapping of str to float, default {}
        Spreads that are known, such as ``{"sigma_eps": 3.0}``. Each of the others is drawn
        from its prior, anew for each simulated data set.
    """

    accuracy: float = 0.6
    slope: float = 1.5
    contamination: float | Sequence[FloatArray] = 0.3
    spreads: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate the assumptions."""
        if not 0 < self.accuracy < 1:
            raise UsageError(f"accuracy: got {self.accuracy}; allowed is between 0 and 1")
        if not -20 <= self.slope <= 20:
            raise UsageError(f"slope: got {self.slope}; allowed is -20 to 20 (log-odds)")
        share = self.contamination
        if isinstance(share, float | int) and not 0 < share < 1:
            raise UsageError(
                f"contamination: got {share}; allowed is a share between 0 and 1: where all items"
                " are equally contaminated, no number of them shows a slope"
            )
        for name, value in self.spreads.items():
            if name not in _KNOWN_SPREADS:
                hint = suggest(name, sorted(_KNOWN_SPREADS))
                raise UsageError(f"spread: no such spread: {name!r}; {hint}")
            if not 0 <= value <= 100:
                raise UsageError(f"spread: got {name} = {value}; allowed is 0 to 100 (log-odds)")

    def of_items(self, benchmark: int, items: int) -> FloatArray:
        """Return the contamination of a benchmark's items, dims (item,).

        Of given contaminations the quantiles, so that few items spread as many do.
        """
        if isinstance(self.contamination, float | int):
            count = round(self.contamination * items)
            if not 0 < count < items:
                raise UsageError(
                    f"contamination: a share of {self.contamination:g} of {items} items is"
                    f" {count} of them, so that all are alike; use more items or another share"
                )
            return np.repeat([0.0, 1.0], [items - count, count])
        given = self.contamination[benchmark % len(self.contamination)]
        values = np.quantile(given, (np.arange(items) + 0.5) / items, method="inverted_cdf")
        if np.ptp(values) == 0:
            raise UsageError(
                f"contamination: all items of benchmark {benchmark + 1} have {values[0]:g}; where"
                " all are equally contaminated, no number of them shows a slope"
            )
        return np.asarray(values, dtype=float)


def observed_contamination(table: Responses | Covariates) -> list[FloatArray]:
    """Return the contamination of the items of each benchmark of a table."""
    frame = table.frame
    if "contamination" not in frame:
        problem = "has no column 'contamination', which a plan needs"
        raise DataError([Fault(table.source, problem)], "Add it, or give --covariates.")
    if "model" in frame and isinstance(table, Covariates):
        frame = frame[frame["model"] == ""] if (frame["model"] == "").any() else frame
    grouped = frame.groupby(["benchmark", "item"], sort=False)["contamination"]
    distinct = grouped.nunique()
    if len(mixed := distinct[distinct > 1]):
        problem = (
            f"items whose contamination differs between models:"
            f" {join_list(item for _, item in mixed.index)}; a plan has one value for each item"
        )
        advice = "Give a table of one model, or a share (--contamination) instead."
        raise DataError([Fault(table.source, problem, column="contamination")], advice)
    of_items = grouped.first()
    names = of_items.index.get_level_values("benchmark")
    return [of_items[names == name].to_numpy(np.float64) for name in names.unique()]


@dataclass(frozen=True, eq=False)
class SimulatedDesign:
    """One simulated data set with the truth behind it."""

    counts: FloatArray
    log_odds: FloatArray
    effects: FloatArray
    spreads: dict[str, float]


class Scenario:
    """A design of some size, from which data sets can be simulated."""

    def __init__(
        self,
        sizes: SampleSizes,
        truth: Assumptions,
        spec: ModelSpec,
        reference: Reference = "min_observed",
    ) -> None:
        validate_spec_for_power(spec)
        guess = spec.likelihood.guess
        if not isinstance(guess, float | int):
            raise UsageError(
                "plan: likelihood.guess must be one number for all benchmarks and items"
            )
        if truth.accuracy <= guess:
            raise UsageError(
                f"accuracy: got {truth.accuracy:g}; allowed is more than blind guessing ({guess:g})"
            )
        self.sizes, self.truth, self.spec = sizes, truth, _with_clean(spec, sizes)
        items = min(sizes.items, max(FEWEST_ITEMS, MOST_ROWS // (sizes.models * sizes.benchmarks)))
        self.table = _table(replace(sizes, items=items), truth)
        design = make_design(self.spec, Responses.from_frame(self.table, source="plan"))
        self.terms: Terms = plan_terms(self.spec, design)
        self.parts: list[Component] = components(self.spec, design, self.terms)
        self.others = other_spreads(self.spec, self.terms, SPREAD_DRAWS)
        self.crossed = BalancedDesign(
            design,
            effect_kinds(self.terms),
            sizes.generations,
            float(guess),
            reference_levels(reference, design),
            sizes.items / items,
        )

    @property
    def reported(self) -> np.ndarray:
        """Whether a model may be contaminated, so that its estimands are of interest."""
        return ~self.crossed.design.clean

    def simulate(self, seed: int, replicate: int) -> SimulatedDesign:
        """Draw spreads, effects and counts; the same for the same seed and replicate."""
        # Items and responses have effects of their own also where the fit cannot identify them, so
        # that designs of different sizes are compared on the same world.
        spreads = draw_spreads(
            self.spec, self.truth.spreads, stream(seed, "plan", replicate, "spreads")
        )
        design, rng = self.crossed.design, stream(seed, "plan", replicate, "responses")
        effects = self._average(spreads)
        for part in self.parts:
            if not part.overall:
                z = rng.standard_normal(part.matrix.shape[-1])
                effects += part.matrix @ (part.location(spreads) + part.scale(spreads) * z)
        difficulty = rng.standard_normal(len(design.items)) * spreads["sigma_delta"]
        noise = rng.standard_normal(len(design)) * spreads["sigma_eps"]
        named = {**self.crossed.named(effects), "delta": difficulty}
        eta = np.asarray(linear_predictor(named, design)) + noise
        counts = rng.binomial(self.sizes.generations, accuracy(eta, self.crossed.guess))
        return SimulatedDesign(counts.astype(float), eta, effects, spreads)

    def _average(self, spreads: Mapping[str, float]) -> FloatArray:
        """Return the effects of an average model, dims (kind, model × benchmark)."""
        benchmarks, models, _ = self.crossed.shape
        sd = float(np.hypot(spreads["sigma_delta"], spreads["sigma_eps"]))
        z, log_weight = normal_grid(sd**2)
        levels = []
        for b in range(benchmarks):
            doses = self.crossed.design.dose[self.crossed.design.benchmark == b]
            dose, times = np.unique(doses, return_counts=True)
            low, high = -60.0, 60.0
            for _ in range(50):
                level = (low + high) / 2
                eta = level + self.truth.slope * dose[:, None] + sd * z
                p = accuracy(eta, self.crossed.guess) @ np.exp(log_weight)
                less = np.average(p, weights=times) < self.truth.accuracy
                low, high = (level, high) if less else (low, level)
            levels.append(low)
        effects = np.zeros((len(self.crossed.kinds), models * benchmarks))
        exposed = np.repeat(1.0 - self.crossed.design.clean, benchmarks)
        effects[0], effects[1] = np.tile(levels, models), self.truth.slope * exposed
        return effects

    def fitted(self, one: SimulatedDesign) -> Approximate:
        """Approximate the posterior that a fit of a data set would have."""
        spreads, factor = fitted_spreads(one.spreads, self.terms)
        stretched = float(stretch(spreads.get("sigma_eps", 0.0)))
        others = [
            {**spreads, **{name: value * stretched for name, value in drawn.items()}}
            for drawn in self.others
        ]
        fitted = Approximation(self.crossed, self.parts, spreads, others)
        effects = factor * one.effects
        mean, sd = fitted.posterior(one.counts, effects)
        if (weight := self.crossed.weight) > 1:
            # Items' own effects err as those of few; keep as much of it as of many.
            true = self.true(one)
            true[-1] *= factor
            mean = mean - (1 - 1 / np.sqrt(weight)) * (fitted.given(one.counts, effects) - true)
        return Approximate(mean, sd)

    def true(self, one: SimulatedDesign) -> FloatArray:
        """Return the true estimands of a data set, dims (quantity, model, benchmark)."""
        design, guess = self.crossed.design, self.crossed.guess
        wanted = self.crossed.reference[design.benchmark]
        shift = contamination_shift({"beta": one.effects[1]}, design, wanted)
        benchmarks, models, _ = self.crossed.shape
        means = [
            accuracy(eta, guess).reshape(self.crossed.shape).mean(axis=-1).T
            for eta in (one.log_odds, one.log_odds + shift)
        ]
        slope = one.effects[1].reshape(models, benchmarks)
        return np.stack([*means, means[0] - means[1], slope])

    def slope_variance(self) -> FloatArray:
        """Return the prior variance of each slope, (model × benchmark,), of unknown spreads too."""
        fixed, priors = self.truth.spreads, self.spec.priors
        quantiles = (np.arange(2000) + 0.5) / 2000
        stretched = 1.0
        if "eps" in self.terms:
            drawn = np.asarray(distribution(priors.sigma_eps).ppf(quantiles))
            stretched = float(np.mean(stretch(fixed.get("sigma_eps", drawn)) ** 2))
        total = np.zeros(self.parts[0].matrix.shape[1])
        for part in self.parts:
            if not isinstance(part.sd, str):
                square = stretched * part.sd**2
            elif part.sd in fixed:
                square = fixed[part.sd] ** 2
            else:
                values = np.asarray(distribution(getattr(priors, part.sd)).ppf(quantiles))
                square = stretched * float(np.mean(values**2))
            total += square * (part.matrix[1] ** 2).sum(axis=1)
        return total


def _with_clean(spec: ModelSpec, sizes: SampleSizes) -> ModelSpec:
    """Return the spec with clean models identified by the column of the simulated table."""
    anchored = spec.contamination.confounding == "anchored"
    if anchored != (sizes.clean > 0):
        raise UsageError(
            f"clean: got {sizes.clean}; the model spec '{spec.name}' has contamination.confounding"
            f" = '{spec.contamination.confounding}', which needs "
            + ("at least 1 of the models to be clean" if anchored else "0")
        )
    block = spec.contamination.model_copy(
        update={"clean": (), "clean_column": _CLEAN if anchored else ""}
    )
    changed = spec.model_copy(update={"contamination": block})
    changed._name = spec.name
    return changed


def _table(sizes: SampleSizes, truth: Assumptions) -> pd.DataFrame:
    """Return responses of the design, without any meaning in their counts."""
    doses = np.stack([truth.of_items(b, sizes.items) for b in range(sizes.benchmarks)])
    models, benchmarks = (
        [f"{what} {k + 1}" for k in range(count)]
        for what, count in (("model", sizes.models), ("benchmark", sizes.benchmarks))
    )
    labels, (benchmark, model, item) = crossed_labels(models, benchmarks, sizes.items)
    return pd.DataFrame(labels).assign(
        n_correct=0,
        n_trials=sizes.generations,
        contamination=doses[benchmark, item],
        **{_CLEAN: (model < sizes.clean).astype(int)},
    )


def draw_spreads(
    spec: ModelSpec, fixed: Mapping[str, float], rng: np.random.Generator
) -> dict[str, float]:
    """Draw all spreads of a model spec from their priors, save those that are fixed."""
    uniform = dict(zip(_KNOWN_SPREADS, rng.random(len(_KNOWN_SPREADS)), strict=True))
    spreads = {
        name: float(
            fixed[name] if name in fixed else distribution(getattr(spec.priors, name)).ppf(u)
        )
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
    """Return draws from the prior of the spreads of abilities and slopes, evenly over it."""
    # In units of the stretch that model-by-item effects make. Empty where there are none. A fit has
    # to learn these from few models and benchmarks, which widens intervals; spreads of items and
    # responses have many to learn from.
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
