"""Scenes: designs of some size with a supposed truth, and data sets simulated from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.design import make_design
from bayescontam.inference.estimands import Reference, reference_levels
from bayescontam.inference.likelihood import accuracy
from bayescontam.inference.plan.components import (
    Component,
    components,
    draw_spreads,
    effect_kinds,
    fitted_spreads,
    other_spreads,
    refuse_unplannable,
)
from bayescontam.inference.plan.crossed import Crossed
from bayescontam.inference.plan.information import Approximate, Approximation
from bayescontam.inference.plan.kernels import normal_grid
from bayescontam.inference.plan.truth import Sizes, Truth
from bayescontam.inference.predictor import contamination_shift, linear_predictor
from bayescontam.inference.stretch import stretch
from bayescontam.inference.terms import Terms, plan_terms
from bayescontam.responses import Responses
from bayescontam.seeds import stream
from bayescontam.specs.model import ModelSpec

MOST_ROWS = 8_000
"""Responses that are simulated; in larger designs each stands for several."""
FEWEST_ITEMS = 200
"""Items of each benchmark that are simulated at least, if there are so many."""
SPREADS = 80
"""Draws of the spreads of abilities and slopes that are averaged over."""
_CLEAN = "clean"


@dataclass(frozen=True, eq=False)
class Simulated:
    """One simulated data set with the truth behind it."""

    counts: FloatArray
    log_odds: FloatArray
    effects: FloatArray
    spreads: dict[str, float]


class Scene:
    """A design of some size, from which data sets can be simulated."""

    def __init__(
        self, sizes: Sizes, truth: Truth, spec: ModelSpec, reference: Reference = "min_observed"
    ) -> None:
        refuse_unplannable(spec)
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
        self.others = other_spreads(self.spec, self.terms, SPREADS)
        self.crossed = Crossed(
            design,
            effect_kinds(self.terms),
            sizes.generations,
            float(guess),
            reference_levels(reference, design),
            sizes.items / items,
        )

    @property
    def told(self) -> np.ndarray:
        """Whether a model may be contaminated, so that its estimands are of interest."""
        return ~self.crossed.design.clean

    def simulate(self, seed: int, replicate: int) -> Simulated:
        """Draw spreads, effects and counts; the same for the same seed and replicate.

        Items and responses have effects of their own also where the fit cannot identify them,
        so that designs of different sizes are compared on the same world.
        """
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
        return Simulated(counts.astype(float), eta, effects, spreads)

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

    def fitted(self, one: Simulated) -> Approximate:
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

    def true(self, one: Simulated) -> FloatArray:
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


def _with_clean(spec: ModelSpec, sizes: Sizes) -> ModelSpec:
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


def _table(sizes: Sizes, truth: Truth) -> pd.DataFrame:
    """Return responses of the design, without any meaning in their counts."""
    doses = [truth.of_items(b, sizes.items) for b in range(sizes.benchmarks)]
    b, m, i = np.indices((sizes.benchmarks, sizes.models, sizes.items)).reshape(3, -1)
    return pd.DataFrame(
        {
            "model": np.char.add("model ", (m + 1).astype(str)),
            "benchmark": np.char.add("benchmark ", (b + 1).astype(str)),
            "item": np.char.add("item ", (i + 1).astype(str)),
            "n_correct": 0,
            "n_trials": sizes.generations,
            "contamination": np.stack(doses)[b, i],
            _CLEAN: (m < sizes.clean).astype(int),
        }
    )
