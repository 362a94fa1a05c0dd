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
from bayescontam.model.lineage import Lineage
from bayescontam.model.transforms import LinearisedEstimate, rough_abilities

_FEWEST_ITEMS = 5
"""Items that models must have answered in common to be compared, where items differ."""
_SAME_KIND = 0.5
"""Part of two exposures that must be of the same kinds for them to inform on one coefficient."""


@dataclass(frozen=True, eq=False)
class OwnTotals:
    """Total effects that each pair's own twins show, dims (model, benchmark)."""

    # on the log-odds scale: what the pair's dose adds, as the models of its base on this benchmark
    # say it by their accuracies alone. NaN where nothing was answered or met.
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
    # their own training changes everywhere; benchmarks that none of them met (controls) show the
    # latter. Nothing of other bases, benchmarks or kinds of duplicates enters.
    design, lineage = built.design, built.design.lineage
    if lineage is None or "spillover" not in built.terms:
        return None
    levels, dose = Levels.of(built), doses(design)
    twin, training = (_mean_square(posterior, name) for name in ("sigma_twin", "sigma_t"))
    training += _mean_square(posterior, "sigma_step")
    trained = _training(levels, dose, lineage, twin, training)
    shape = design.answered.shape
    effect, sd = np.full(shape, np.nan), np.full(shape, np.nan)
    for m, b in zip(*np.nonzero(dose > ROUNDING), strict=True):
        rows = np.flatnonzero(_relatives(design, dose, m, b))
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


def doses(design: Design) -> FloatArray:
    """Return the dose of each model on each benchmark, (model, benchmark); 0 of clean models."""
    assert design.centring is not None
    return np.where(design.answered, design.centring.pairs, 0.0)


def _relatives(design: Design, dose: FloatArray, m: int, b: int) -> BoolArray:
    """Return the models that show what the exposure of one adds on a benchmark, itself too."""
    # Those of its base that answered it, and were not exposed or to the same kinds of duplicates.
    lineage = design.lineage
    assert lineage is not None
    share = lineage.share.reshape(*dose.shape, -1)[:, b]
    alike = np.minimum(share, share[m]).sum(axis=1) >= _SAME_KIND
    related: BoolArray = design.answered[:, b] & (lineage.base == lineage.base[m])
    return related & (alike | (dose[:, b] <= ROUNDING))


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


def _training(
    levels: Levels, dose: FloatArray, lineage: Lineage, twin: float, training: float
) -> LinearisedEstimate:
    """Return what controls show of each model's own training, dims (model,)."""
    total, precision = np.zeros((2, len(lineage.base)))
    for a in range(len(lineage.bases)):
        rows = np.flatnonzero(lineage.base == a)
        for b in np.flatnonzero((dose[rows] <= ROUNDING).all(axis=0)):
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


def with_twins(design: Design) -> BoolArray:
    """Return which pairs were met and have a relative of other exposure, (model, benchmark)."""
    dose = doses(design)
    found = np.zeros(dose.shape, dtype=bool)
    for m, b in zip(*np.nonzero(dose > ROUNDING), strict=True):
        found[m, b] = np.ptp(dose[_relatives(design, dose, m, b), b]) > ROUNDING
    return found


def control_benchmarks(design: Design) -> list[int]:
    """Return benchmarks that several models of a base answered and none of these had met."""
    lineage, dose = design.lineage, doses(design)
    assert lineage is not None
    found: set[int] = set()
    for a in range(len(lineage.bases)):
        rows = lineage.base == a
        if not (dose[rows] > ROUNDING).any():
            continue
        clean = (dose[rows] <= ROUNDING).all(axis=0) & (design.answered[rows].sum(axis=0) > 1)
        found |= set(np.flatnonzero(clean).tolist())
    return sorted(found)


def stored_totals(own: OwnTotals, design: Design) -> xr.Dataset:
    """Return what is stored of them, dims (model, benchmark)."""
    figures = {"dose": doses(design)} | {f"own_{name}": each for name, each in vars(own).items()}
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
    found = _verdicts(figures["dose"], np.asarray(known), low, high, own, level, smallest)
    return pd.Series(list(map(str, found)), index=table.index, dtype=object)


def _verdicts(
    dose: FloatArray,
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
        (~(dose > ROUNDING), Overfitting.NONE),
        (~(own.information >= INFORMED), Overfitting.BORROWED),
        ((-smallest < low) & (high < smallest), Overfitting.AT_MOST_SMALL),
        ((sign > 0) & (own_sign > 0), Overfitting.SHOWN),
        ((sign < 0) & (own_sign < 0), Overfitting.LOWERED),
        (sign != 0, Overfitting.BORROWED),
    )
    found = np.full(dose.shape, Overfitting.INCONCLUSIVE, dtype=object)
    for holds, verdict in reversed(rules):  # the first rule that holds decides
        found[holds] = verdict
    return found
