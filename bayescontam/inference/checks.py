"""Checks of a fit as values, each with a sentence that says what to do."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.sampling_diagnostics import bfmi
from scipy import stats
from scipy.special import betainc, logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.convergence import MIXING, convergence
from bayescontam.inference.posterior import Draws, log_chances_of, node_probabilities
from bayescontam.inference.psis import max_pareto_k
from bayescontam.inference.sensitivity import top_level
from bayescontam.model.build import COORDINATES, BuiltModel, in_words
from bayescontam.model.marginal import Lattice, item_levels
from bayescontam.model.priors import LOCATED, distribution, is_stretched
from bayescontam.model.quadrature import log_weights
from bayescontam.specs.priors import Dirichlet, Prior

NEAR = 2 / 3
"""Part of the threshold of E-BFMI from which on a lower one is a caution."""
LONGER = "Sample more draws, after a longer tune."
"""What to do where chains mix slowly."""
MOST_ITEMS, MOST_DRAWS = 2000, 20
"""Items and draws for which the likelihood is computed more exactly."""
MOST_ERROR = 0.05
"""Largest standard deviation of the error of a log likelihood over draws.

Where a log density is wrong by an error of standard deviation s, means are wrong by about
s of their own standard deviations at most: they move by the covariance with the error.
"""
IMPROBABLE = 0.01
"""Probability below which, after Bonferroni's correction, a prior is refuted."""
_MOST = 3


class Outcome(StrEnum):
    """What a check found."""

    PASSED = "passed"
    CAUTION = "caution"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One check of a fit.

    Attributes
    ----------
    name : str
        What was checked.
    outcome : Outcome
        ``failed``: do not rely on the fit before that is fixed; only checks of what users
        read, and of what it stands or falls with, fail: convergence of estimands, divergences,
        predictive checks, an inexact likelihood. ``caution``: the fit holds, and there is
        something to know, as where parameters mix slowly that no estimand depends on much.
    value : float
        What was measured; NaN where there was nothing to measure.
    threshold : str
        What is required of the value, such as ``"< 1.01"``.
    sentence : str
        What was found and what to do.
    """

    name: str
    outcome: Outcome
    value: float
    threshold: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        value = self.value if np.isfinite(self.value) else None
        return asdict(self) | {"outcome": self.outcome.value, "value": value}


def make_check(
    name: str,
    fine: bool | np.bool_,
    value: SupportsFloat,
    threshold: str,
    good: str,
    bad: str,
    otherwise: Outcome = Outcome.CAUTION,
) -> Check:
    """Return a check that passed, with the sentence for it, or has another outcome."""
    found = Outcome.PASSED if fine else otherwise
    return Check(name, found, float(value), threshold, good if fine else bad)


@dataclass(frozen=True)
class Thresholds:
    """What is required of a fit, on raw values.

    Attributes
    ----------
    r_hat : float, default 1.01
        Largest R-hat of estimands and, apart, of parameters.
    ess : float, default 400
        Smallest bulk and tail effective sample size of the same.
    divergences : int, default 0
        Most divergent transitions.
    e_bfmi : float, default 0.3
        Smallest estimated Bayesian fraction of missing information of any chain.
    tree_depth : int, default 0
        Most transitions that were cut at the largest tree depth.
    pareto_k : float, default 0.7
        Largest Pareto k of a response for its leave-one-out figure to be reliable; of fewer than
        2,200 draws less, 1 - 1 / log10(draws) (Vehtari et al. 2024, arXiv:1507.02646).
    predictive : float, default 0.01
        Smallest p-value of predictive checks, after Bonferroni's correction.
    """

    r_hat: float = 1.01
    ess: float = 400
    divergences: int = 0
    e_bfmi: float = 0.3
    tree_depth: int = 0
    pareto_k: float = 0.7
    predictive: float = 0.01


def sampling_checks(
    posterior: xr.Dataset, sample_stats: xr.Dataset, summary: pd.DataFrame, limits: Thresholds
) -> Iterator[Check]:
    """Check that the draws stand for the posterior."""
    diverging, transitions = int(sample_stats["diverging"].sum()), sample_stats["diverging"].size
    yield make_check(
        "divergences", diverging <= limits.divergences, diverging, f"≤ {limits.divergences}",
        "No transition diverged.",
        f"{diverging:,} of {transitions:,} transitions diverged: regions of the posterior may have"
        " been missed. Raise target_accept to 0.95, then to 0.99.",
        Outcome.FAILED,
    )  # fmt: skip
    moving = _rows(summary[~summary["quantity"].isin(["rank", "p_best"])])
    read = list(_convergence("estimands", moving, limits, Outcome.FAILED))
    yield from read
    good = all(check.outcome is Outcome.PASSED for check in read)
    aside = ""
    if good and moving["r_hat"].notna().any():
        worst, least = moving["r_hat"].max(), moving[["ess_bulk", "ess_tail"]].min().min()
        aside = f" Estimands mix well (R-hat {_exact(worst, limits)}, ESS {least:,.0f})."
    for check in _convergence("parameters", _parameters(posterior), limits, Outcome.CAUTION):
        passed = check.outcome is Outcome.PASSED
        yield check if passed else replace(check, sentence=check.sentence + aside)
    yield _energy_check(sample_stats, limits, aside)
    depth = int(sample_stats["reached_max_treedepth"].sum())
    yield make_check(
        "tree depth", depth <= limits.tree_depth, depth, f"≤ {limits.tree_depth}",
        "No trajectory was cut.",
        f"{depth:,} of {transitions:,} trajectories were cut at the largest depth, which slows the"
        f" sampler down: tune for longer.{aside}",
    )  # fmt: skip


def chains_disagree(posterior: xr.Dataset, limits: Thresholds) -> bool:
    """Return whether R-hat of a parameter is too large: a check that takes no estimands."""
    found = (
        convergence(values.to_numpy(), only=["r_hat"])["r_hat"]
        for name, values in posterior.data_vars.items()
        if name not in COORDINATES
    )
    return any((r_hat >= limits.r_hat).any() for r_hat in found)


def need_draws(checks: Iterable[Check]) -> bool:
    """Return whether more draws, or a longer tuning, are needed for checks of the sampler."""
    needing = ("divergences", "R-hat of ", "Bulk ESS of ", "Tail ESS of ")
    return any(c.outcome is not Outcome.PASSED and c.name.startswith(needing) for c in checks)


def _energy_check(sample_stats: xr.Dataset, limits: Thresholds, aside: str) -> Check:
    """Check E-BFMI; a little too low is a caution, since ESS already counts what it costs."""
    energies = bfmi(xr.DataTree.from_dict({"sample_stats": sample_stats[["energy"]]}))
    value = float(energies["energy"].min())
    if value >= limits.e_bfmi:
        found, text = Outcome.PASSED, "Energies of successive draws mix well in every chain."
    elif value >= NEAR * limits.e_bfmi:
        found = Outcome.CAUTION
        text = (
            f"Energies mix slowly ({value:.2f}), as where a spread governs many effects: draws are"
            f" worth less, which ESS counts. More draws settle what it leaves open.{aside}"
        )
    else:
        found = Outcome.FAILED
        text = (
            f"Energies hardly mix ({value:.2f}): draws may miss tails of the posterior. Sample"
            " more draws after a longer tune; if it stays, use a model spec of fewer spreads."
        )
    return Check("E-BFMI", found, value, f"≥ {limits.e_bfmi:g}", text)


def _rows(summary: pd.DataFrame) -> pd.DataFrame:
    dims = list(summary.columns[: summary.columns.get_loc("quantity")])
    # Of an estimand of a benchmark the concept is blank, or missing where tables were joined.
    labels = summary[dims].astype(object).where(summary[dims].notna() & (summary[dims] != ""))
    names = [
        in_words(str(quantity), {str(d): label for d, label in row.items() if pd.notna(label)})
        for quantity, row in zip(summary["quantity"], labels.to_dict("records"), strict=True)
    ]
    return summary[list(MIXING)].set_axis(names)


def _parameters(posterior: xr.Dataset) -> pd.DataFrame:
    """Return figures of all parameters but those that the sampler alone needs."""
    parts = []
    for name, values in posterior.data_vars.items():
        if name in COORDINATES:
            continue
        figures = pd.DataFrame(convergence(values.to_numpy(), MIXING))
        parts.append(figures.set_axis([in_words(str(name), each) for each in _places(values)]))
    return pd.concat(parts)


def _places(values: xr.DataArray) -> Iterator[dict[str, Any]]:
    """Yield the labels of each element by dim."""
    dims = [str(dim) for dim in values.dims[2:]]
    for place in product(*(values[dim].to_numpy() for dim in dims)):
        yield dict(zip(dims, place, strict=True))


def _convergence(
    what: str, figures: pd.DataFrame, limits: Thresholds, otherwise: Outcome
) -> Iterator[Check]:
    """Check R-hat and ESS; constants (NaN) have nothing to converge."""
    worst, bad = figures["r_hat"].max(), ""
    if worst >= limits.r_hat:
        bad = f"Chains disagree on the {figures['r_hat'].idxmax()}"
        bad += f" (R-hat {_exact(worst, limits)}). {LONGER}"
    name, threshold = f"R-hat of {what}", f"< {limits.r_hat:g}"
    yield make_check(name, not bad, worst, threshold, "Chains agree.", bad, otherwise)
    good, threshold = "Enough independent draws.", f"≥ {limits.ess:g}"
    for column, kind in (("ess_bulk", "Bulk"), ("ess_tail", "Tail")):
        least, bad = float(figures[column].min()), ""
        if least < limits.ess:
            bad = f"Too few independent draws of the {figures[column].idxmin()}"
            bad += f" (ESS {least:,.0f}). {LONGER}"
        yield make_check(f"{kind} ESS of {what}", not bad, least, threshold, good, bad, otherwise)


def _exact(r_hat: float, limits: Thresholds) -> str:
    """Return an R-hat with as many digits as show on which side of its threshold it lies."""
    for digits in range(2, 7):
        text = f"{r_hat:.{digits}f}"
        if (float(text) >= limits.r_hat) == (r_hat >= limits.r_hat) and digits > 2:
            return text
    return f"{r_hat:g}"


def loo_checks(loo: xr.Dataset, limits: Thresholds) -> Iterator[Check]:
    """Check that leave-one-out figures are reliable and calibrated."""
    most = min(limits.pareto_k, max_pareto_k(loo.sizes["kept_draw"]))
    bad = int((~(loo["pareto_k"] <= most)).sum())
    count = f"{loo.sizes['response']:,} responses"
    yield make_check(
        "Pareto k", bad == 0, float(loo["pareto_k"].max()), f"≤ {most:.3g}",
        f"Leave-one-out is reliable for all {count}.",
        f"{bad} of {count} have a larger k: comparisons by LOO are unreliable there; the estimands"
        " are not affected.",
    )  # fmt: skip
    p_value = stats.kstest(loo["pit"].to_numpy(), "uniform").pvalue
    yield make_check(
        "LOO-PIT", p_value >= limits.predictive, p_value, f"p ≥ {limits.predictive:g}",
        "Left-out responses are as spread as predicted.",
        "Left-out responses are not spread as predicted: look at the LOO-PIT picture and compare"
        " with another model spec.",
    )  # fmt: skip


def predictive_checks(predictive: xr.Dataset, limits: Thresholds) -> Iterator[Check]:
    """Check observed scores against replicated ones, and against the prior."""
    groups = {"score": "scores", "binned": "scores by contamination"}
    advice = {
        "score": "the model spec misses something of this benchmark: try another ability block.",
        "binned": "the dose-response is not of the assumed form: compare with another spec.",
    }
    for name, what in groups.items():
        if f"{name}_replicated" not in predictive:
            continue
        replicated = predictive[f"{name}_replicated"].to_numpy()
        observed = predictive[name]
        trials = predictive.get(f"{name}_trials", xr.ones_like(observed)).to_numpy()
        p_value = _surprise(observed.to_numpy(), replicated, trials)
        yield make_check(
            f"Predicted {what}", p_value >= limits.predictive, p_value,
            f"p ≥ {limits.predictive:g}",
            "Observed ones lie where replicated data lie.",
            f"Observed ones lie where replicated data do not: {advice[name]}",
            Outcome.FAILED,
        )  # fmt: skip
    yield _prior_check(predictive, limits)


def _prior_check(predictive: xr.Dataset, limits: Thresholds) -> Check:
    """Check that the score farthest from what the prior predicts is no farther than its own are."""
    replicates = predictive["score_prior"].fillna(0.5)
    prior = replicates.transpose("prior_replicate", ...).to_numpy()
    # Replicates are rounded: the same score is to be as far out.
    observed = predictive["score"].to_numpy().astype(prior.dtype).astype(float)
    prior = prior.astype(float)
    center, spread = prior.mean(axis=0), prior.std(axis=0)

    def farthest(scores: FloatArray) -> Any:
        away = np.abs(scores - center) / np.maximum(spread, 1e-12)
        return np.nanmax(away, axis=(-2, -1))

    # Of many scores some are always far out: the farthest is compared with that of other tables.
    p_value = ((farthest(prior) >= farthest(observed)).sum() + 1) / (len(prior) + 1)
    low, high = np.quantile(prior, [0.005, 0.995], axis=0)
    count = int(((observed < low) | (observed > high)).sum())
    # Where the prior is skewed, the farthest in standard deviations may lie inside.
    beyond = (
        f"{count} of the observed scores {'lies' if count == 1 else 'lie'} outside the central 99 %"
        " of what the prior predicts, and farther out than in tables that it predicts."
        if count
        else "One of the observed scores is farther from what the prior predicts than those of"
        " tables that it predicts."
    )
    return make_check(
        "Prior predictive accuracy", p_value >= limits.predictive, p_value,
        f"p ≥ {limits.predictive:g}",
        "The prior allows for the observed scores.",
        f"{beyond} See 'bayescontam models show' for what the priors mean, and widen that of mean"
        " abilities (mu); wider spreads of items would only draw predicted scores together. Where"
        " scores lie below likelihood.guess, it is that which is too high.",
    )  # fmt: skip


def _surprise(observed: FloatArray, replicated: FloatArray, trials: FloatArray) -> float:
    """Return the smallest two-sided p-value over groups, corrected for their number."""
    # Replicated shares are taken for those of a Binomial with their mean and variance, so that
    # groups may be small. Where all replicates agree, a trial goes another way as rarely as once
    # in all trials of all replicates.
    center, variance = replicated.mean(axis=0), replicated.var(axis=0)
    finite = np.isfinite(observed) & np.isfinite(center)
    observed, center, variance = observed[finite], center[finite], variance[finite]
    if not len(observed):
        return 1.0
    count = np.maximum(trials[finite], 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = center * (1 - center) / variance
        right, wrong = size * observed, size * (1 - observed)
        # P(X ≤ right) and P(X ≥ right), for numbers that need not be whole.
        tails = betainc(wrong, right + 1, 1 - center), betainc(right, wrong + 1, center)
    other = np.round(count * np.abs(observed - center))
    rare = 2 * betainc(np.maximum(other, 1), count - other + 1, 1 / (len(replicated) * count + 1))
    constant = np.where(other > 0, rare, 1.0)
    p_values = np.where(variance > 1e-12, 2 * np.minimum(*tails), constant)
    return float(min(1.0, p_values.min() * len(p_values)))


def integration_check(draws: Draws, lattice: Lattice, rng: np.random.Generator) -> Check:
    """Check the log likelihood against one of twice the nodes at each item's own level."""
    error = integration_errors(draws.thinned(MOST_DRAWS), lattice, rng)
    spread = float(error.std())
    return make_check(
        "Difficulties integrated out", spread <= MOST_ERROR, spread,
        f"sd of error ≤ {MOST_ERROR:g}",
        "The log likelihood is as good as exact: integrating difficulties out moves no mean by"
        f" more than {max(spread, 0.001):.1g} of its standard deviations.",
        "The log likelihood is not exact enough. Fit with difficulties sampled"
        " (--difficulties sampled).",
        Outcome.FAILED,
    )  # fmt: skip


def integration_errors(draws: Draws, lattice: Lattice, rng: np.random.Generator) -> FloatArray:
    """Return the error of the log likelihood of each draw: that of some items, scaled to all."""
    count = min(MOST_ITEMS, len(lattice.total))
    items = rng.choice(len(lattice.total), count, replace=False)
    exact, answers = _item_by_item(lattice, items)
    z = lattice.nodes
    finer = np.linspace(z[0], z[-1], 2 * len(z) - 1)
    errors = []
    for d in range(len(draws)):
        draw, log_chances = draws[d : d + 1], None
        if lattice.mixture is not None:
            log_chances = log_chances_of(draw, lattice)[items]
        coarse = _log_density(draw, lattice, z, items, answers, log_chances)
        own = _log_density(draw, exact, finer, np.arange(count), answers, log_chances)
        errors.append(coarse - own)
    scaled: FloatArray = np.sum(errors, axis=1) * len(lattice.total) / count
    return scaled


def _item_by_item(lattice: Lattice, items: IntArray) -> tuple[Lattice, FloatArray]:
    """Return a lattice of some items, each at levels of its own, and answers, (item, model).

    Of the lattice there are log-odds at levels and their weights, no sums over items.
    """
    whole, nearest = lattice.table, lattice.level[items, 0]
    answers, number = np.zeros((len(items), len(whole.models))), np.full(len(whole.items), -1)
    number[items] = np.arange(len(items))
    rows = np.flatnonzero(number[whole.item] >= 0)
    answers[number[whole.item[rows]], whole.model[rows]] = whole.n_correct[rows]
    if whole.exposure is None:
        value = item_levels(whole)
        values = None if value is None else value[items, None]
    else:
        values = whole.exposure.nodes[items]
    count = 1 if values is None else values.shape[1]
    like = np.repeat(np.arange(len(items)), count)
    trials = lattice.trials[nearest][like]
    unit = lattice.design.unit[:: len(whole.models)][nearest][like]
    level = None if values is None else values.ravel()
    made = whole.on_grid(unit, level, trials > 0, items[like])
    group = np.arange(len(items))
    basis = np.broadcast_to(np.eye(count), (len(items), count, count))
    if lattice.mixture is None:
        basis = basis[:, 0]
    total, correct = lattice.total[items], np.zeros(trials.shape)
    return Lattice(whole, made, group, group * count, basis, total, trials, correct), answers


def _log_density(
    draw: Draws,
    lattice: Lattice,
    z: FloatArray,
    items: IntArray,
    answers: FloatArray,
    log_chances: FloatArray | None,
) -> FloatArray:
    """Return the log density of the answers to some items, difficulty integrated out."""
    level, added, normaliser = node_probabilities(draw, lattice, z)
    own, basis = lattice.level[items], lattice.basis[items]
    joint = (lattice.total[items, None] * added[own])[:, :, None] * z
    at_level = logsumexp(joint - normaliser[own] + log_weights(z), axis=-1)
    at_level += (level[own] * answers[:, None]).sum(axis=-1)
    result: FloatArray
    if log_chances is None:
        result = (basis * at_level).sum(axis=1)
    else:
        result = logsumexp((basis * at_level[:, None]).sum(axis=-1) + log_chances, axis=1)
    return result


class _Conflict(NamedTuple):
    """A parameter, and the probability of values as far out in its prior."""

    tail: float
    key: str
    words: str
    value: float
    prior: Prior
    stretched: bool


def conflict_check(posterior: xr.Dataset, built: BuiltModel) -> Check:
    """Check that no parameter lies where its prior says that it hardly can be."""
    # Box (1980), doi:10.2307/2982063; Evans & Moshonov (2006), doi:10.1214/06-BA129.
    found = [*_conflicts(posterior, built)]
    least = min((each.tail * len(found) for each in found), default=1.0)
    refuted = sorted((c for c in found if c.tail * len(found) < IMPROBABLE), key=lambda c: c.tail)
    return make_check(
        "Priors against data", not refuted, min(least, 1.0), f"p ≥ {IMPROBABLE:g}",
        "Every parameter lies where its prior allows it.",
        _sentence(refuted) if refuted else "",
    )  # fmt: skip


def _conflicts(posterior: xr.Dataset, built: BuiltModel) -> Iterator[_Conflict]:
    for key, name, values, factor in top_level(posterior, built):
        prior = getattr(built.spec.priors, key)
        if isinstance(prior, Dirichlet):
            continue
        stretched = is_stretched(key, built.spec) and "eps" in built.terms
        medians: FloatArray = np.median(values / factor, axis=0)
        for labels, value in zip(_places(posterior[name]), medians.tolist(), strict=True):
            words = in_words(name, labels)
            yield _Conflict(extremity(prior, value), key, words, value, prior, stretched)


def extremity(prior: Prior, value: float) -> float:
    """Return the probability of values at least as far out: large ones of a positive prior."""
    known = distribution(prior)
    if not isinstance(prior, LOCATED):
        return float(known.sf(value))
    return float(2 * min(known.cdf(value), known.sf(value)))


def _sentence(refuted: list[_Conflict]) -> str:
    parts = []
    for each in refuted[:_MOST]:
        unit = ", in log-odds of mean accuracies" if each.stretched else ""
        tail = "less than 1e-12" if each.tail < 1e-12 else f"{each.tail:.1g}"
        parts.append(
            f"the {each.words} is {each.value:.2f}{unit}, of which {each.prior.text()} holds"
            f" values as extreme for {tail} probable"
        )
    more = f" ({len(refuted) - _MOST} more)" if len(refuted) > _MOST else ""
    # A prior of about the same kind that holds the value, as a spec writes it.
    worst, prior = refuted[0], refuted[0].prior
    if isinstance(prior, LOCATED):
        sigma = _rounded(abs(worst.value - prior.mu) / 1.5)
        wider = f'"normal", mu = {prior.mu:g}, sigma = {sigma}'
    else:
        wider = f'"exponential", scale = {_rounded(worst.value / 1.5)}'
    return (
        f"The data refute a prior: {'; '.join(parts)}{more}. Estimates are drawn towards it."
        f" Widen it in a copy of the model spec, such as priors.{worst.key} ="
        f" {{ family = {wider} }}, and see whether conclusions stay."
    )


def _rounded(value: float) -> str:
    """Return a number rounded up to one significant digit, or two where that is a half."""
    power = 10 ** np.floor(np.log10(value))
    return f"{np.ceil(2 * value / power) / 2 * power:g}"


def worst(checks: tuple[Check, ...]) -> Outcome:
    """Return the worst outcome of checks; passed where there is none."""
    return max((check.outcome for check in checks), key=list(Outcome).index, default=Outcome.PASSED)


def checks_sentence(checks: tuple[Check, ...]) -> str:
    """Return whether the checks hold, and which do not; without a full stop."""
    failed = [check.name for check in checks if check.outcome is Outcome.FAILED]
    cautions = [check.name for check in checks if check.outcome is Outcome.CAUTION]
    count = f"{len(cautions)} caution{'' if len(cautions) == 1 else 's'}"
    known = f"{count} ({', '.join(cautions)})"
    if failed:
        text = f"Do not rely on this fit yet: {len(failed)} of {len(checks)} checks failed"
        text += f" ({', '.join(failed)})"
        return f"{text}, {known}" if cautions else text
    if cautions:
        return f"No check failed, {known}, of {len(checks)} checks"
    return f"All {len(checks)} checks passed"
