"""Estimates of new models by weighing the draws of a fit, or by a joint fit."""

import time
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from bayescontam._progress import stage
from bayescontam._random import fresh_seed, stream
from bayescontam._text import printable
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.responses import Path, Responses, given_responses
from bayescontam.data.validation import check_level
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.checks import Outcome, Thresholds
from bayescontam.inference.estimands import Items, Reference, estimands, reference_level
from bayescontam.inference.loo import max_pareto_k, psis_weights
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.summary import WEIGHTED_COLUMNS, DrawWeights, summarise, with_p_best
from bayescontam.specs.model import ModelSpec
from bayescontam.updating.importance import importance_sample
from bayescontam.updating.new_model import (
    NewModel,
    differing_tables,
    join_responses,
    make_newcomer,
    new_models,
    refit_reason,
    split_models,
    unsupported_terms,
)

__all__ = ["Entry", "Update", "join", "update"]


DRAWS = 1000
"""Draws that are completed and weighed, unless requested otherwise."""
FEWEST = 100
"""Equally weighted draws below which means and intervals are too rough."""
MAX_PARETO_K = 1.0
"""Pareto k of weights that more draws would not help."""
Refit = Literal["auto", "never", "always"]
"""When old and new responses are fitted together: where weights cannot be trusted, …"""


@dataclass(frozen=True, eq=False)
class WeightedUpdate:
    """Draws of the joint posterior of a fit and a newcomer, with their weights."""

    newcomer: NewModel
    # estimands of all models, as `estimands` returns them with one chain; the newcomer is the last
    # model
    groups: dict[str, xr.Dataset]
    weights: DrawWeights  # pareto-smoothed
    # shape of the tail of the weights: how far they can be trusted. The larger of that of the draws
    # weighed, and of the predicted weights of all draws of the fit.
    pareto_k: float
    log_evidence: float  # log probability of the newcomer's responses given those of the fit

    @property
    def most_k(self) -> float:
        """Largest `pareto_k` that this number of draws can be trusted with."""
        return max_pareto_k(len(self.weights.share))

    @property
    def doubt(self) -> str | None:
        """Why the weights cannot be trusted; None where they can."""
        if not self.pareto_k <= self.most_k:
            return (
                "the new responses move the fit's parameters too far for its draws (Pareto k"
                f" {self.pareto_k:.2f}, at most {self.most_k:.2f})"
            )
        if self.weights.ess < FEWEST:
            worth = f"{self.weights.ess:.0f} after weighing, {FEWEST} are needed"
            return f"the fit's draws are worth {worth}"
        return None

    def p_better(self) -> pd.DataFrame:
        """Return how probably the newcomer is better than each model of the fit."""
        group = self.groups["estimands"].isel(chain=0)
        answered = group["accuracy"].notnull().all("draw").to_numpy()
        ranks = group["rank"].transpose("draw", "model", "benchmark").to_numpy()
        better = (ranks[:, -1:] < ranks) + (ranks[:, -1:] == ranks) / 2
        share = np.einsum("d,dmb->mb", self.weights.share, better)
        share = np.where(answered[:-1] & answered[-1:], share[:-1], np.nan)
        coords = {"other": group["model"].to_numpy()[:-1], "benchmark": group["benchmark"]}
        probability = xr.DataArray(share, coords, ("other", "benchmark"), name="probability")
        return probability.transpose("benchmark", "other").to_series().dropna().reset_index()


def update_draws(
    fit: Fit,
    newcomer: NewModel,
    reference: Reference,
    rng: np.random.Generator,
    most: int = DRAWS,
    items: Items = "all",
    sampled: bool = False,
) -> WeightedUpdate:
    """Take a newcomer into draws of a fit.

    Draws of the fit's parameters are weighed by the probability of the newcomer's responses
    given them. Difficulties and effects of single responses are summed out by quadrature,
    in the fit's responses too. The newcomer's abilities and slopes are proposed once for
    each draw, near their mode.

    Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling,
    Journal of Machine Learning Research 25(72), arXiv:1507.02646.
    """
    posterior = fit.joint_posterior()
    admitted = importance_sample(posterior, newcomer, most, rng)
    log_share, pareto_k = psis_weights(admitted.log_ratio)
    tails = np.stack([pareto_k, psis_weights(admitted.predicted)[1]])
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    count = len(admitted.log_ratio)
    return WeightedUpdate(
        newcomer,
        estimands(admitted.draws, newcomer.built, (1, count), reference, items, rng, sampled),
        DrawWeights(np.exp(log_share), admitted.origin, shape),
        float(np.where(np.isfinite(tails), tails, np.inf).max()),
        float(logsumexp(admitted.log_ratio) - np.log(count)),
    )


@dataclass(frozen=True, eq=False)
class Entry:
    """What an update reports of one model."""

    model: str
    # whether draws of the fit were weighed, or the fit was made again with the model
    method: Literal["update", "refit"]
    estimands: pd.DataFrame  # see `bayescontam.updating.update.Update.estimands`
    p_better: pd.DataFrame  # see `bayescontam.updating.update.Update.p_better`
    # pareto_k, ess: tail shape of the weights, and how many equal draws they are worth; NaN where
    # none were computed
    pareto_k: float
    ess: float
    verdict: str  # a sentence that says how far to trust this
    seconds: float  # how long it took
    # observed score of the model on each benchmark: mean over items of the share of correct trials
    raw: dict[str, float]
    fit: Fit | None = None  # the joint fit, where one was made


def _entry(
    fit: Fit,
    old: Responses,
    joined: Responses,
    options: Options,
    draws: int,
    refit: Refit,
    progress: bool,
) -> Entry:
    """Weigh the fit's draws for one model, or fit again where that cannot be trusted."""
    started = time.perf_counter()
    name, updated = joined.models[-1], None
    raw = raw_scores(fit.spec, joined)
    reason = "requested" if refit == "always" else unsupported_terms(fit)
    if reason is None:
        with stage(progress, f"weighing the fit's draws for {printable(name)}"):
            newcomer = make_newcomer(fit.spec, old, joined)
            reason = refit_reason(newcomer, fit)
            if reason is None:
                updated = _weighed(fit, newcomer, options, draws)
                reason = updated.doubt
    if reason is None and updated is not None:
        return _updated_entry(updated, raw, options.level, time.perf_counter() - started)
    if refit == "never":
        advice = "allow it (--refit auto)"
        raise FitError(f"{printable(name)}: needs a joint fit: {reason}; {advice}")
    joint = fit_responses(joined, fit.spec, options, progress)
    return _refitted_entry(joint, name, raw, updated, str(reason), time.perf_counter() - started)


def _weighed(fit: Fit, newcomer: NewModel, options: Options, draws: int) -> WeightedUpdate:
    """Weigh draws for a newcomer, and four times as many where so few cannot be trusted."""
    for number in (draws, 4 * draws):
        rng = stream(options.seed, "update", newcomer.name, number)
        averaged = options.items, options.population
        updated = update_draws(fit, newcomer, options.reference, rng, number, *averaged)
        if updated.doubt is None or updated.pareto_k > MAX_PARETO_K:
            break
    return updated


def raw_scores(spec: ModelSpec, joined: Responses) -> dict[str, float]:
    """Return the observed score of the last model of a table on each of its benchmarks."""
    own = joined.frame[joined.frame["model"] == joined.models[-1]]
    share = own["n_correct"] / own["n_trials"]
    # Where the trials of a row are different items, each of them counts.
    weight = own["n_trials"] if spec.likelihood.trials == "items" else share * 0 + 1
    sums = pd.DataFrame({"right": share * weight, "of": weight})
    sums = sums.groupby(own["benchmark"], sort=False, observed=True).sum()
    return {str(name): float(row["right"] / row["of"]) for name, row in sums.iterrows()}


def _updated_entry(
    updated: WeightedUpdate, raw: dict[str, float], level: float, seconds: float
) -> Entry:
    name = updated.newcomer.name
    groups = {
        group: summarise(with_p_best(values).sel(model=name, drop=True), level, updated.weights)
        for group, values in updated.groups.items()
    }
    table = groups["estimands"]
    if (parts := groups.get("estimands_by_concept")) is not None:
        design = updated.newcomer.design
        owner = [design.benchmarks[k] for k in design.benchmark_of_unit]
        parts.insert(
            0, "benchmark", parts["concept"].map(dict(zip(design.units, owner, strict=True)))
        )
        table.insert(1, "concept", "")
        table = pd.concat([table, parts], ignore_index=True)
    table.insert(0, "model", name)
    better = updated.p_better()
    better.insert(0, "model", name)
    verdict = (
        f"the weights can be trusted: Pareto k {updated.pareto_k:.2f} (at most"
        f" {updated.most_k:.2f}), worth {updated.weights.ess:.0f} draws"
    )
    figures = updated.pareto_k, updated.weights.ess
    return Entry(name, "update", table, better, *figures, verdict, seconds, raw)


def _refitted_entry(
    joint: Fit,
    name: str,
    raw: dict[str, float],
    updated: WeightedUpdate | None,
    reason: str,
    seconds: float,
) -> Entry:
    table = joint.estimands()
    table = table[table["model"] == name].rename(columns={"ess_bulk": "ess"})
    keys = [key for key in ("model", "benchmark", "concept", "quantity") if key in table]
    probability = joint.p_better().sel(model=name, drop=True).rename("probability")
    better = probability.transpose("benchmark", "other").to_series().dropna().reset_index()
    better.insert(0, "model", name)
    failed = [check.name for check in joint.checks() if check.outcome is Outcome.FAILED]
    verdict = f"fitted together with the old responses: {reason}"
    if failed:
        verdict += f"; checks that failed: {', '.join(failed)}"
    figures = (np.nan, np.nan) if updated is None else (updated.pareto_k, updated.weights.ess)
    table = table[[*keys, *WEIGHTED_COLUMNS]].reset_index(drop=True)
    return Entry(name, "refit", table, better, *figures, verdict, seconds, raw, joint)


@dataclass(frozen=True, eq=False)
class Update:
    """Estimates for models that were not in a fit; made by `update`.

    Each model is scored by itself: its responses do not inform the estimates of another.

    Attributes
    ----------
    entries : tuple of Entry
        One for each new model.
    notes : tuple of str
        What was left out or filled in the new responses, and what the fit's checks say.
    seed : int
    reference : {"min_observed", "zero"} or float
    level : float
        Probability of the intervals.
    """

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    seed: int
    reference: Reference
    level: float

    def estimands(self) -> pd.DataFrame:
        """Return one row for each estimand of each new model.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark``, ``concept`` where abilities differ by concept (empty in
            the rows for whole benchmarks), ``quantity, mean, sd, ci_low, ci_high, ess,
            p_positive, mcse_mean, method``. Quantities are those of `Fit.estimands`; ranks
            are among the fit's models and this one.
        """
        parts = [entry.estimands.assign(method=entry.method) for entry in self.entries]
        return pd.concat(parts, ignore_index=True)

    def p_better(self) -> pd.DataFrame:
        """Return how probably each new model is better than each model of the fit.

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, other, probability``: that its genuine ability (its accuracy,
            where there is no contamination) is larger than that of ``other``.
        """
        return pd.concat([entry.p_better for entry in self.entries], ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        models = [
            {
                "model": entry.model,
                "method": entry.method,
                "verdict": entry.verdict,
                "pareto_k": entry.pareto_k,
                "ess": entry.ess,
                "seconds": round(entry.seconds, 2),
                "raw_accuracy": entry.raw,
                "estimands": entry.estimands.drop(columns="model").to_dict("records"),
                "p_better": entry.p_better.drop(columns="model").to_dict("records"),
            }
            for entry in self.entries
        ]
        known = {"seed": self.seed, "reference": self.reference, "level": self.level}
        return known | {"notes": list(self.notes), "models": models}


def update(
    fit: Fit | Path,
    responses: Responses | pd.DataFrame | Path,
    *,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    old_responses: Responses | pd.DataFrame | Path | None = None,
    reference: Reference | None = None,
    level: float | None = None,
    seed: int | None = None,
    draws: int = DRAWS,
    refit: Refit = "auto",
    progress: bool = False,
) -> Update:
    """Estimate the scores of models that were not in a fit.

    Item difficulties, spreads and the abilities of other models come from the fit's draws,
    which are weighed by how well they predict the new responses. That is the posterior of a
    fit to old and new responses together, without sampling it again.

    Parameters
    ----------
    fit : Fit or path-like
    responses : Responses, pandas.DataFrame or path-like
        Of new models, to benchmarks of the fit; items may be new. Rows of models that are in
        the fit are passed over, with a note.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of the items, as for `fit`.
    missing_contamination : {"error", "zero", "drop", "impute"}, default "error"
        See `Responses.with_contamination`.
    old_responses : Responses, pandas.DataFrame or path-like, optional
        What the fit was made of, with contamination. Only needed where the fit's file does
        not hold it: contamination that is noisy or latent.
    reference : {"min_observed", "zero"} or float, optional
        Contamination at which genuine ability is evaluated; default: that of the fit. The
        smallest observed contamination is that of old and new responses together.
    level : float, optional
        Probability of the equal-tailed intervals; default: that of the fit.
    seed : int, optional
        Default: a fresh one.
    draws : int, default 1000
        Draws of the fit to use. Four times as many are used where these are too few.
    refit : {"auto", "never", "always"}, default "auto"
        Whether to fit old and new responses together where weights cannot be trusted:
        with ``"never"`` that is an error.
    progress : bool, default False
        Whether to show what goes on.

    Returns
    -------
    Update

    Raises
    ------
    DataError, UsageError
        If the responses cannot be used, such as those of models that are all in the fit.
    FitError
        If a joint fit is needed, and not allowed or not possible.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.updating.update.update("no-such-file.nc", "new.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.FitError: no-such-file.nc: no such file; make a fit with: bayescontam fit
    """
    if refit not in ("auto", "never", "always"):
        raise UsageError(f"refit: got {refit!r}; allowed are 'auto', 'never' and 'always'")
    if level is not None:
        check_level(level)
    if draws < FEWEST:
        raise UsageError(f"draws: got {draws}; allowed is {FEWEST} or more")
    fitted, old, new = _read(fit, responses, covariates, missing_contamination, old_responses)
    options = _options(fitted, reference, level, seed)
    tables = [
        join_responses(fitted.spec, old, part) for part in split_models(new)
    ]  # refused before long work
    entries = tuple(
        _entry(fitted, old, joined, options, draws, refit, progress) for joined in tables
    )
    unlike = [
        note for joined in tables for note in differing_tables(old, joined, options.reference)
    ]
    notes = [*new.notes, *unlike]
    failed = [check.name for check in fitted.checks() if check.outcome is Outcome.FAILED]
    if failed and any(entry.method == "update" for entry in entries):
        notes.append(f"the fit has failed checks, which an update inherits: {', '.join(failed)}")
    return Update(entries, tuple(notes), options.seed, options.reference, options.level)


def join(
    fit: Fit | Path,
    responses: Responses | pd.DataFrame | Path,
    *,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    old_responses: Responses | pd.DataFrame | Path | None = None,
    reference: Reference | None = None,
    level: float | None = None,
    seed: int | None = None,
    progress: bool = False,
    command: str = "",
) -> Fit:
    """Fit old and new responses together, with the model spec and settings of a fit.

    Takes as long as the fit did. The result is a fit like any other, which can be ranked,
    reported, compared and updated; it holds all new models at once.
    """
    fitted, old, new = _read(fit, responses, covariates, missing_contamination, old_responses)
    options = _options(fitted, reference, level, seed)
    # A fit of an earlier version may have thresholds that checks have no more.
    known = {field.name for field in fields(Thresholds)}
    thresholds = {k: value for k, value in fitted.record["thresholds"].items() if k in known}
    options = replace(
        options,
        command=command,
        item_draws=fitted.record.get("item_draws", 0),
        thresholds=Thresholds(**thresholds),
    )
    joined = join_responses(fitted.spec, old, new)
    return fit_responses(joined, fitted.spec, options, progress)


def _read(
    fit: Fit | Path,
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None,
    missing: Missing,
    old_responses: Responses | pd.DataFrame | Path | None,
) -> tuple[Fit, Responses, Responses]:
    """Return the fit, its responses, and those of new models."""
    fitted = fit if isinstance(fit, Fit) else Fit.from_netcdf(fit)
    new = given_responses(responses, covariates, missing)
    old = _old_responses(fitted, old_responses)
    if covariates is not None and "contamination" not in old.frame:
        old = given_responses(old, covariates, missing)
    return fitted, old, new_models(old, new)


def _options(
    fit: Fit, reference: Reference | None, level: float | None, seed: int | None
) -> Options:
    """Return the options of an update; what is not given is as in the fit."""
    reference = fit.record["reference"] if reference is None else reference
    reference_level(reference)
    level = fit.level if level is None else level
    check_level(level)
    seed = fresh_seed() if seed is None else seed
    return Options(
        seed,
        reference,
        fit.record.get("items", "answered"),
        fit.record.get("population", False),
        level,
        fit.smallest_effect,
        sampling=_sampling(fit),
    )


def _sampling(fit: Fit) -> Sampling:
    """Return how a joint fit is sampled: as the fit was, so far as its table allows it."""
    sampling = Sampling(**fit.record["sampling"])
    # The new models' rows may be such that difficulties cannot be integrated out any more.
    marginalised = sampling.difficulties == "marginalised"
    return replace(sampling, difficulties="auto") if marginalised else sampling


def _old_responses(fit: Fit, given: Responses | pd.DataFrame | Path | None) -> Responses:
    if given is not None:
        old = given_responses(given)
        if old.data_hash != fit.record["data"]["hash"]:
            raise UsageError(
                f"{printable(old.source)}: these are not the responses of the fit, which is of"
                f" {printable(fit.record['data']['source'])}"
            )
        return old
    if fit.spec.contamination.exposure != "known":
        raise FitError(
            f"the model spec '{fit.spec.name}' needs a joint fit, and columns that the fit does not"
            " keep: give the old responses with their contamination (old_responses=, --responses)"
        )
    return fit.responses()
