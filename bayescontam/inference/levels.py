"""Rough log-odds of models on benchmarks, from their accuracies alone."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.effects import guess_priors
from bayescontam.model.priors import stretch
from bayescontam.model.transforms import LinearisedEstimate, rough_abilities, stretch_of_repeats
from bayescontam.specs.priors import Beta

_FEWEST_ITEMS = 5
"""Items that models must have answered in common to be compared, where items differ."""
_LEAST = 0.02
"""Accuracy beyond guessing, as a share of what is left of it, that lower ones count as."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Rough log-odds of models on benchmarks, on the items that all who are compared answered."""

    built: BuiltModel
    # dims (benchmark,): accuracy of blind guessing, which is taken out, and the ratio of log-odds
    # of a typical response to those of mean accuracies
    guess: FloatArray
    factor: FloatArray

    @classmethod
    def of_accuracies(cls, built: BuiltModel) -> "Levels":
        """Return log-odds of mean accuracies, as the priors of a model spec are about them."""
        count = len(built.design.benchmarks)
        return cls(built, np.zeros(count), np.ones(count))

    @classmethod
    def of_responses(cls, built: BuiltModel, posterior: xr.Dataset) -> "Levels":
        """Return log-odds of a typical response, which parameters of a fit are about."""
        # What spreads of items and of repeated responses, and guessing, do to a mean is undone.
        design = built.design
        square = np.zeros(len(design.benchmarks))
        for name in ("sigma_delta", "sigma_eps"):
            if name in posterior:
                values = (posterior[name] ** 2).mean(("chain", "draw"))
                square += values.to_numpy() if "benchmark" in values.dims else float(values.mean())
        return cls(built, _guess(built, posterior), np.asarray(stretch(np.sqrt(square))))

    def on(self, models: IntArray, b: int) -> LinearisedEstimate:
        """Return those of some models on a benchmark, (model,); infinite errors: none in common."""
        # Where items have no difficulties, whichever a model answered are as good as any.
        design = self.built.design
        if "delta" in self.built.terms and not design.complete[b]:
            at = np.flatnonzero((design.benchmark == b) & np.isin(design.model, models))
            count = np.bincount(design.item[at], minlength=len(design.items))
            common = at[count[design.item[at]] == len(models)]
            if len(common) < _FEWEST_ITEMS * len(models):
                return LinearisedEstimate(np.zeros(len(models)), np.full(len(models), np.inf))
            design = design.subset(common)
        found = _of_accuracies(design, "eps" in self.built.terms)
        return self._unguessed(found.estimate[models, b], found.se[models, b], b)

    def _unguessed(self, level: FloatArray, se: FloatArray, b: int) -> LinearisedEstimate:
        p, guess = 1 / (1 + np.exp(-level)), self.guess[b]
        share = np.maximum((p - guess) / (1 - guess), _LEAST)
        slope = p * (1 - p) / ((1 - guess) * share * (1 - share))
        return LinearisedEstimate(np.log(share / (1 - share)), se * slope).stretched(self.factor[b])


def _of_accuracies(design: Design, overdispersed: bool) -> LinearisedEstimate:
    """Return log-odds of mean accuracies, and their errors, (model, benchmark)."""
    found = rough_abilities(design, overdispersed)
    if overdispersed:
        found = found.stretched(np.array(1 / stretch_of_repeats(design)))
    if design.by == "benchmark":
        return found
    # Units count by their items, in all models alike: precisions differ between those compared.
    member = np.arange(len(design.benchmarks)) == design.benchmark_of_unit[:, None]
    size = np.bincount(design.unit, design.weight, minlength=len(design.units))
    weight = np.where(np.isfinite(found.se), size, 0.0)
    total = weight @ member
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weight * np.where(weight > 0, found.estimate, 0.0)) @ member / total
        variance = (weight * np.where(weight > 0, found.se, 0.0)) ** 2 @ member / total**2
    none = total <= 0
    return LinearisedEstimate(np.where(none, 0.0, mean), np.where(none, np.inf, np.sqrt(variance)))


def _guess(built: BuiltModel, posterior: xr.Dataset) -> FloatArray:
    """Return the accuracy of blind guessing on each benchmark, (benchmark,)."""
    design = built.design
    if "guess" in posterior:
        return np.asarray(posterior["guess"].mean(("chain", "draw")).to_numpy())
    if design.item_guess is not None:
        count = len(design.benchmarks)
        total = np.bincount(design.benchmark_of_item, design.item_guess, minlength=count)
        return total / np.bincount(design.benchmark_of_item, minlength=count)
    priors = guess_priors(built.spec, design)
    return np.array([0.0 if isinstance(each, Beta) else each for each in priors])
