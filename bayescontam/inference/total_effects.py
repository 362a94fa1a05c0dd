"""What models of one base show by themselves of total effects, and verdicts on all effects."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.linalg import block_diag, helmert

from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.design_checks import SPILLOVER
from bayescontam.inference.identification import (
    INFORMED,
    ROUNDING,
    Identification,
    Overfitting,
    identify_spillover,
    overfitting_verdicts,
)
from bayescontam.inference.own_slopes import normal_interval
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.effect_names import DIRECT, EFFECTS, EffectNames
from bayescontam.model.guessing import guess_priors
from bayescontam.model.lineage import NO_DOSE, Lineage
from bayescontam.model.priors import stretch
from bayescontam.model.transforms import LinearisedEstimate, mean_accuracies
from bayescontam.specs.priors import Beta

ZERO_AT_REFERENCE = (*EFFECTS, "novelty_gap")
"""Estimands that are zero by definition where contamination is what the reference is."""
_PAIR = ["model", "benchmark"]
_FEWEST_ITEMS = 5
"""Items that models must have answered in common to be compared, where items differ."""
_LEAST = 0.02
"""Accuracy beyond guessing, as a share of what is left of it, that lower ones count as."""


@dataclass(frozen=True, eq=False)
class OwnTotals:
    """Total effects that each pair's own twins show, dims (model, benchmark)."""

    # on the log-odds scale: what the pair's dose adds, as the models of its base on this benchmark
    # say it by their accuracies alone. NaN where nothing was answered, or no model was exposed.
    effect: FloatArray
    sd: FloatArray  # infinite where no relative of other exposure answered the benchmark
    # expected information on the effect, times the variance of its prior; at 1 they halve it
    information: FloatArray


@dataclass(frozen=True, eq=False)
class Levels:
    """Rough log-odds of models on benchmarks, on the items that all who are compared answered."""

    built: BuiltModel
    # dims (benchmark,): accuracy of blind guessing, which is taken out, and the ratio of log-odds
    # of a typical response to those of mean accuracies
    guess: FloatArray
    factor: FloatArray

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
    """Return log-odds of mean accuracies over items, and their errors, (model, benchmark)."""
    found = mean_accuracies(design, overdispersed)
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


def own_totals(posterior: xr.Dataset, prior: xr.Dataset, built: BuiltModel) -> OwnTotals | None:
    """Estimate total effects from the models of each base alone, whatever others show."""
    # Accuracies of a base's models on a benchmark, on the log-odds scale, are regressed on their
    # doses. Models differ for other reasons too, by as much as the fit says twins do, and by what
    # their own training changes everywhere; benchmarks that none of them was exposed to (controls)
    # show the latter. Nothing of other bases, benchmarks or kinds of duplicates enters.
    design, lineage = built.design, built.design.lineage
    if lineage is None or "spillover" not in built.terms:
        return None
    levels, dose = Levels.of_responses(built, posterior), design.pair_dose
    twin, start, step = (
        _mean_square(posterior, name) for name in ("sigma_twin", "sigma_t", "sigma_step")
    )
    trained, unknown = _training(levels, lineage, twin, start, step)
    shape = design.answered.shape
    effect, sd = np.full(shape, np.nan), np.full(shape, np.nan)
    for m, b in zip(*np.nonzero(design.exposed_pairs), strict=True):
        effect[m, b], sd[m, b] = 0.0, np.inf
        rows = np.flatnonzero(design.relatives(m, b))
        level, x = levels.on(rows, int(b)), dose[rows, b]
        if np.isinf(level.se).any() or np.ptp(x) <= NO_DOSE:
            continue
        noise = np.diag(level.se**2 + twin) + unknown[np.ix_(rows, rows)]
        known = np.column_stack([np.ones(len(rows)), x])
        weighted = np.linalg.solve(noise, known)
        precision = known.T @ weighted
        fitted = np.linalg.solve(precision, weighted.T @ (level.estimate - trained[rows]))
        effect[m, b] = fitted[1] * dose[m, b]
        sd[m, b] = dose[m, b] * np.sqrt(np.linalg.inv(precision)[1, 1])
    expected = _prior_variance(prior, design)
    with np.errstate(divide="ignore", invalid="ignore"):
        return OwnTotals(effect, sd, expected * dose**2 / sd**2)


def _mean_square(posterior: xr.Dataset, name: str) -> float:
    return float((posterior[name] ** 2).mean()) if name in posterior else 0.0


def _training(
    levels: Levels, lineage: Lineage, twin: float, start: float, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return what controls show of models' own training: its mean, (model,), and covariance."""
    # Before controls it has variance `start`, along a run of checkpoints that of a random walk.
    count = len(lineage.base)
    ways = (np.eye(count), np.zeros((count, 0))) if lineage.walk is None else lineage.walk
    covariance = start * ways[0] @ ways[0].T + step * ways[1] @ ways[1].T
    met, answered = levels.built.design.exposed_pairs, levels.built.design.answered
    contrasts, values, errors = [np.zeros((0, count))], [np.zeros(0)], [np.zeros((0, 0))]
    for a in range(len(lineage.bases)):
        rows = np.flatnonzero(lineage.base == a)
        for b in np.flatnonzero(~met[rows].any(axis=0)):
            known = rows[answered[rows, b]]
            level = levels.on(known, int(b))
            if len(known) < 2 or np.isinf(level.se).all():
                continue
            # Differences between models: how hard a control is counts for nothing.
            part = np.asarray(helmert(len(known)))
            contrasts.append(part @ np.eye(count)[known])
            values.append(part @ level.estimate)
            errors.append(part @ np.diag(level.se**2 + twin) @ part.T)
    h, noise = np.vstack(contrasts), block_diag(*errors)
    gain = covariance @ h.T @ np.linalg.inv(h @ covariance @ h.T + noise)
    return gain @ np.concatenate(values), covariance - gain @ h @ covariance


def _prior_variance(prior: xr.Dataset, design: Design) -> FloatArray:
    """Return the prior variance of what a dose of 1 adds to log-odds, (model, benchmark)."""
    known = prior["spillover"]
    if "beta" in prior:
        known = known + prior["beta"]
    dims = [dim for dim in known.dims if dim not in ("model", "benchmark")]
    variance: FloatArray = known.var(dims).transpose("model", "benchmark").to_numpy()
    return np.broadcast_to(variance, design.answered.shape)


def stored_totals(own: OwnTotals, built: BuiltModel, reference: FloatArray) -> xr.Dataset:
    """Return what is stored of them, dims (model, benchmark); `reference` is by benchmark."""
    design = built.design
    dose = design.pair_dose
    # Models that are identical but for contamination need no control.
    apart = design.controlled if "t" in built.terms else np.ones(len(dose), dtype=bool)
    figures = {"dose": dose, "reference": np.broadcast_to(reference, dose.shape)}
    figures["controlled"] = np.broadcast_to(apart[:, None], dose.shape) * 1.0
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
    # Fits of earlier versions store neither the reference nor which models are controlled.
    dose = figures["dose"]
    turned = figures.get("reference", np.zeros(len(dose))) > dose + ROUNDING
    apart = figures.get("controlled", np.ones(len(dose))) > 0
    found = _verdicts(dose, turned, apart, np.asarray(known), low, high, own, level, smallest)
    return pd.Series(list(map(str, found)), index=table.index, dtype=object)


def _verdicts(
    dose: FloatArray,
    turned: BoolArray,
    apart: BoolArray,
    clean: BoolArray,
    low: FloatArray,
    high: FloatArray,
    own: OwnTotals,
    level: float,
    smallest: float,
) -> NDArray[np.object_]:
    # An effect is shown only where the pooled posterior and the pair's own twins both show it, and
    # controls set it apart from what training changes anyway: without them its prior alone does.
    own_low, own_high = normal_interval(own.effect, own.sd, level)
    sign, own_sign = ((a > 0) * 1.0 - (b < 0) for a, b in ((low, high), (own_low, own_high)))
    rules = (
        (clean, Overfitting.CLEAN),
        (~(dose > NO_DOSE) & ~((low < 0) | (high > 0)), Overfitting.NONE),
        (~(dose > NO_DOSE) & turned & (sign != 0), Overfitting.BY_REFERENCE),
        (~(own.information >= INFORMED), Overfitting.BORROWED),
        ((-smallest < low) & (high < smallest), Overfitting.AT_MOST_SMALL),
        (turned & (sign != 0), Overfitting.BY_REFERENCE),
        (~apart & (sign != 0), Overfitting.BORROWED),
        ((sign > 0) & (own_sign > 0), Overfitting.SHOWN),
        ((sign < 0) & (own_sign < 0), Overfitting.LOWERED),
        (sign != 0, Overfitting.BORROWED),
    )
    found = np.full(dose.shape, Overfitting.INCONCLUSIVE, dtype=object)
    for holds, verdict in reversed(rules):  # the first rule that holds decides
        found[holds] = verdict
    return found


def judged(
    table: pd.DataFrame,
    data: xr.DataTree,
    record: Mapping[str, Any],
    checks: Sequence[Check],
    smallest: float,
) -> pd.DataFrame:
    """Fill in verdicts, and take intervals from effects that are zero by definition."""
    whole = table["concept"] == "" if "concept" in table else True
    slopes = (table["quantity"] == "slope") & whole
    keys = pd.MultiIndex.from_frame(table.loc[slopes, _PAIR])
    verdicts = data["identification"]["verdict"].to_series()
    table.loc[slopes, "verdict"] = verdicts.reindex(keys).to_numpy()
    names = EffectNames.among(data["estimands"])
    assert names is not None
    rows = (table["quantity"] == names.overfitting) & whole
    own, level = table[rows].set_index(_PAIR), float(record["level"])
    if "total_effects" in data:
        known = data["total_effects"].to_dataset()
        found = total_verdicts(known, record["clean"], own, level, smallest)
    else:
        spilled = _spilled(data, record, checks, level)
        found = overfitting_verdicts(data, spilled, own, smallest)
    table.loc[rows, "verdict"] = found.to_numpy()
    if names.total:
        parts = (table["quantity"] == DIRECT.overfitting) & whole
        direct = overfitting_verdicts(data, None, table[parts].set_index(_PAIR), smallest)
        table.loc[parts, "verdict"] = direct.to_numpy()
    fixed = table["quantity"].isin(ZERO_AT_REFERENCE) & (table["sd"] == 0)
    table.loc[fixed, ["ci_low", "ci_high", "p_positive"]] = np.nan
    pairs = pd.MultiIndex.from_frame(table[_PAIR])
    unknown = (found.reindex(pairs) == Overfitting.NO_VARIATION).to_numpy()
    table.loc[fixed & unknown, "mean"] = np.nan
    return table


def _spilled(
    data: xr.DataTree, record: Mapping[str, Any], checks: Sequence[Check], level: float
) -> Identification | None:
    """Return the verdict on spillover; None where the fit has none."""
    if "spillover" not in record["entered"]:
        return None
    distinguished = all(
        check.outcome is Outcome.PASSED for check in checks if check.name == SPILLOVER
    )
    spillover = data["posterior"]["spillover"].to_numpy()
    return identify_spillover(spillover, distinguished, level)
