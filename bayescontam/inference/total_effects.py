"""What models of one base show by themselves of the total effect of contamination."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import norm

from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.inference.identification import INFORMED, ROUNDING, Overfitting
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.lineage import NO_DOSE, Lineage
from bayescontam.model.relatives import exposed, relatives
from bayescontam.model.transforms import LinearisedEstimate, rough_abilities

_FEWEST_ITEMS = 5
"""Items that models must have answered in common to be compared, where items differ."""


@dataclass(frozen=True, eq=False)
class OwnTotals:
    """Total effects that each pair's own twins show, dims (model, benchmark)."""

    # on the log-odds scale: what the pair's dose adds, as the models of its base on this benchmark
    # say it by their accuracies alone. NaN where nothing was answered, or no model was exposed.
    effect: FloatArray
    sd: FloatArray  # infinite where no relative of other exposure answered the benchmark
    # expected information on the effect, times the variance of its prior; at 1 they halve it
    information: FloatArray

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the equal-tailed interval of each effect."""
        reach = norm.ppf((1 + level) / 2) * self.sd
        return self.effect - reach, self.effect + reach


def own_totals(posterior: xr.Dataset, prior: xr.Dataset, built: BuiltModel) -> OwnTotals | None:
    """Estimate total effects from the models of each base alone, whatever others show."""
    # Accuracies of a base's models on a benchmark, on the log-odds scale, are regressed on their
    # doses. Models differ for other reasons too, by as much as the fit says twins do, and by what
    # their own training changes everywhere; benchmarks that none of them was exposed to (controls)
    # show the latter. Nothing of other bases, benchmarks or kinds of duplicates enters.
    design, lineage = built.design, built.design.lineage
    if lineage is None or "spillover" not in built.terms:
        return None
    levels, dose = Levels.of(built), design.pair_dose
    twin, training = (_mean_square(posterior, name) for name in ("sigma_twin", "sigma_t"))
    training += _mean_square(posterior, "sigma_step")
    trained = _training(levels, lineage, twin, training)
    shape = design.answered.shape
    effect, sd = np.full(shape, np.nan), np.full(shape, np.nan)
    for m, b in zip(*np.nonzero(exposed(design)), strict=True):
        rows = np.flatnonzero(relatives(design, m, b))
        level = levels.on(rows, b)
        y = level.estimate - trained.estimate[rows]
        weight = 1 / (level.se**2 + twin + trained.se[rows] ** 2)
        x = dose[rows, b]
        x = x - np.average(x, weights=weight) if weight.any() else 0.0 * x
        information = (weight * x**2).sum()
        sd[m, b] = np.inf
        effect[m, b] = 0.0
        if information > ROUNDING:
            effect[m, b] = (weight * x * y).sum() / information * dose[m, b]
            sd[m, b] = dose[m, b] / np.sqrt(information)
    expected = _prior_variance(prior, design)
    with np.errstate(divide="ignore", invalid="ignore"):
        return OwnTotals(effect, sd, expected * dose**2 / sd**2)


@dataclass(frozen=True, eq=False)
class Levels:
    """Rough log-odds of models on benchmarks, on the items that all who are compared answered."""

    built: BuiltModel
    whole: LinearisedEstimate  # on what each model answered, (model, benchmark)

    @classmethod
    def of(cls, built: BuiltModel) -> "Levels":
        """Return those of a table."""
        return cls(built, cls._rough(built.design, built))

    @staticmethod
    def _rough(design: Design, built: BuiltModel) -> LinearisedEstimate:
        return _of_benchmarks(design, rough_abilities(design, "eps" in built.terms))

    def on(self, models: IntArray, b: int) -> LinearisedEstimate:
        """Return those of some models on a benchmark, (model,)."""
        # Where items have no difficulties, whichever a model answered are as good as any.
        built, design = self.built, self.built.design
        own = LinearisedEstimate(self.whole.estimate[models, b], self.whole.se[models, b])
        if "delta" not in built.terms or design.complete[b]:
            return own
        at = np.flatnonzero((design.benchmark == b) & np.isin(design.model, models))
        count = np.bincount(design.item[at], minlength=len(design.items))
        common = at[count[design.item[at]] == len(models)]
        if len(common) == len(at):
            return own
        if len(common) < _FEWEST_ITEMS * len(models):
            return LinearisedEstimate(0.0 * own.estimate, np.full(len(models), np.inf))
        found = self._rough(design.subset(common), built)
        return LinearisedEstimate(found.estimate[models, b], found.se[models, b])


def _of_benchmarks(design: Design, abilities: LinearisedEstimate) -> LinearisedEstimate:
    """Return rough estimates for whole benchmarks of those of units, (model, benchmark)."""
    if design.by == "benchmark":
        return abilities
    member = np.arange(len(design.benchmarks)) == design.benchmark_of_unit[:, None]
    precision = 1 / abilities.se**2
    total = precision @ member
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(precision > 0, precision * abilities.estimate, 0.0) @ member / total
        return LinearisedEstimate(np.where(total > 0, mean, 0.0), 1 / np.sqrt(total))


def _mean_square(posterior: xr.Dataset, name: str) -> float:
    return float((posterior[name] ** 2).mean()) if name in posterior else 0.0


def _training(levels: Levels, lineage: Lineage, twin: float, training: float) -> LinearisedEstimate:
    """Return what controls show of each model's own training, dims (model,)."""
    total, precision = np.zeros((2, len(lineage.base)))
    met = exposed(levels.built.design)
    for a in range(len(lineage.bases)):
        rows = np.flatnonzero(lineage.base == a)
        for b in np.flatnonzero(~met[rows].any(axis=0)):
            known = rows[levels.built.design.answered[rows, b]]
            level = levels.on(known, int(b))
            if len(known) < 2 or np.isinf(level.se).all():
                continue
            weight = 1 / (level.se**2 + twin + ROUNDING)
            away = level.estimate - np.average(level.estimate, weights=weight)
            total[known] += weight * away
            precision[known] += weight
    if training <= 0:
        return LinearisedEstimate(np.zeros(len(total)), np.zeros(len(total)))
    variance = 1 / (precision + 1 / training)
    return LinearisedEstimate(variance * total, np.sqrt(variance))


def _prior_variance(prior: xr.Dataset, design: Design) -> FloatArray:
    """Return the prior variance of what a dose of 1 adds to log-odds, (model, benchmark)."""
    known = prior["spillover"]
    if "beta" in prior:
        known = known + prior["beta"]
    dims = [dim for dim in known.dims if dim not in ("model", "benchmark")]
    variance: FloatArray = known.var(dims).transpose("model", "benchmark").to_numpy()
    return np.broadcast_to(variance, design.answered.shape)


def stored_totals(own: OwnTotals, design: Design, reference: FloatArray) -> xr.Dataset:
    """Return what is stored of them, dims (model, benchmark); `reference` is by benchmark."""
    dose = design.pair_dose
    figures = {"dose": dose, "reference": np.broadcast_to(reference, dose.shape)}
    figures |= {f"own_{name}": each for name, each in vars(own).items()}
    dims = ("model", "benchmark")
    coords = {dim: design.coords[dim] for dim in dims}
    return xr.Dataset({name: (dims, each) for name, each in figures.items()}, coords)


def total_verdicts(
    group: xr.Dataset, clean: Collection[str], table: pd.DataFrame, level: float, smallest: float
) -> "pd.Series[str]":
    """Return the verdict on each total effect, whose intervals a table has by model, benchmark."""
    order = "model", "benchmark"
    figures = {
        str(name): values.transpose(*order).to_series().reindex(table.index).to_numpy()
        for name, values in group.data_vars.items()
    }
    own = OwnTotals(*(figures[f"own_{name}"] for name in ("effect", "sd", "information")))
    known = table.index.get_level_values("model").isin(list(clean))
    low, high = (table[name].to_numpy(dtype=float) for name in ("ci_low", "ci_high"))
    # Fits of earlier versions do not store the reference.
    dose, reference = figures["dose"], figures.get("reference", 0.0 * figures["dose"])
    turned = reference > dose + ROUNDING
    found = _verdicts(dose, turned, np.asarray(known), low, high, own, level, smallest)
    return pd.Series(list(map(str, found)), index=table.index, dtype=object)


def _verdicts(
    dose: FloatArray,
    turned: BoolArray,
    clean: BoolArray,
    low: FloatArray,
    high: FloatArray,
    own: OwnTotals,
    level: float,
    smallest: float,
) -> NDArray[np.object_]:
    # An effect is shown only where the pooled posterior and the pair's own twins both say so.
    own_low, own_high = own.interval(level)
    sign, own_sign = ((a > 0) * 1.0 - (b < 0) for a, b in ((low, high), (own_low, own_high)))
    rules = (
        (clean, Overfitting.CLEAN),
        (~(dose > NO_DOSE), Overfitting.NONE),
        (~(own.information >= INFORMED), Overfitting.BORROWED),
        ((-smallest < low) & (high < smallest), Overfitting.AT_MOST_SMALL),
        (turned & (sign != 0), Overfitting.BY_REFERENCE),
        ((sign > 0) & (own_sign > 0), Overfitting.SHOWN),
        ((sign < 0) & (own_sign < 0), Overfitting.LOWERED),
        (sign != 0, Overfitting.BORROWED),
    )
    found = np.full(dose.shape, Overfitting.INCONCLUSIVE, dtype=object)
    for holds, verdict in reversed(rules):  # the first rule that holds decides
        found[holds] = verdict
    return found
