"""Estimates of new models by weighing the draws of a fit, or by a joint fit."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._progress import stage
from bayescontam._random import fresh_seed, stream
from bayescontam._text import join_list, printable
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.measures import guess_column, read_guess
from bayescontam.data.responses import PARTICIPANT, Path, Responses, given_responses
from bayescontam.data.validation import check_level
from bayescontam.errors import DataError, Fault, FitError, UsageError
from bayescontam.inference.checks import Outcome, Thresholds
from bayescontam.inference.estimands import Reference, reference_level
from bayescontam.inference.findings import estimated_effect
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.summary import WEIGHTED_COLUMNS
from bayescontam.model.build import COORDINATES
from bayescontam.model.lineage import BASE
from bayescontam.model.terms import benchmarks_with_two_models
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal
from bayescontam.updating.importance import DRAWS, FEWEST, probabilities, update_draws
from bayescontam.updating.new_model import NewModel, make_newcomer

__all__ = ["Entry", "Update", "join", "update"]


MAX_PARETO_K = 1.0  # Pareto k of weights that more draws would not help
_UNDERSTOOD = {
    *COORDINATES, "a", "beta", "beta_bar", "beta_benchmark", "beta_model", "delta",
    "eta", "log_beta", "mu", "mu_bar", "sigma_a", "sigma_bb", "sigma_bm",
    "sigma_bmb", "sigma_delta", "sigma_eps", "sigma_mu", "sigma_theta", "theta", "theta_offset",
    "spillover", "theta_base", "theta_base_offset", "a_base", "t", "sigma_t", "sigma_twin",
    "lambda_bar", "lambda_benchmark", "lambda_kind", "lambda", "sigma_lb", "sigma_lk",
    "sigma_lambda",
}  # fmt: skip
"""Parameters whose meaning for a newcomer is known here."""
Refit = Literal["auto", "never", "always"]
"""When old and new responses are fitted together: where weights cannot be trusted, …"""


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
    started, name = time.perf_counter(), joined.models[-1]
    raw = raw_scores(fit.spec, joined)
    updated, joint = None, None
    reason = "requested" if refit == "always" else unsupported_terms(fit)
    if reason is None:
        with stage(progress, f"weighing the fit's draws for {printable(name)}"):
            newcomer = make_newcomer(fit.spec, old, joined)
            reason = refit_reason(newcomer, fit)
            # Four times as many draws are weighed where so few cannot be trusted.
            for number in (draws, 4 * draws) if reason is None else ():
                rng = stream(options.seed, "update", name, number)
                averaged = options.items, options.population
                updated = update_draws(fit, newcomer, options.reference, rng, number, *averaged)
                reason = updated.doubt
                if reason is None or updated.pareto_k > MAX_PARETO_K:
                    break
    if updated is not None and reason is None:
        table, better = updated.estimands(options.level), updated.p_better()
        verdict = (
            f"the weights can be trusted: Pareto k {updated.pareto_k:.2f} (at most"
            f" {updated.most_k:.2f}), worth {updated.weights.ess:.0f} draws"
        )
    elif refit == "never":
        advice = "allow it (--refit auto)"
        raise FitError(f"{printable(name)}: needs a joint fit: {reason}; {advice}")
    else:
        joint = fit_responses(joined, fit.spec, options, progress)
        table = joint.estimands()
        table = table[table["model"] == name].rename(columns={"ess_bulk": "ess"})
        keys = [key for key in ("benchmark", "concept", "quantity") if key in table]
        table = table[[*keys, *WEIGHTED_COLUMNS]].reset_index(drop=True)
        better = probabilities(joint.p_better().sel(model=name, drop=True))
        verdict = f"fitted together with the old responses: {reason}"
        verdict += _failed(joint, "; checks that failed: ")
    table.insert(0, "model", name)
    better.insert(0, "model", name)
    figures = (np.nan, np.nan) if updated is None else (updated.pareto_k, updated.weights.ess)
    method: Literal["update", "refit"] = "update" if joint is None else "refit"
    seconds = time.perf_counter() - started
    return Entry(name, method, table, better, *figures, verdict, seconds, raw, joint)


def _failed(fit: Fit, before: str) -> str:
    """Return the names of the checks that a fit has failed, if any, after some words."""
    failed = [check.name for check in fit.checks() if check.outcome is Outcome.FAILED]
    return f"{before}{', '.join(failed)}" if failed else ""


def raw_scores(spec: ModelSpec, joined: Responses) -> dict[str, float]:
    """Return the observed score of the last model of a table on each of its benchmarks."""
    own = joined.frame[joined.frame["model"] == joined.models[-1]]
    share = own["n_correct"] / own["n_trials"]
    # Where the trials of a row are different items, each of them counts.
    weight = own["n_trials"] if spec.likelihood.trials == "items" else share * 0 + 1
    sums = pd.DataFrame({"right": share * weight, "of": weight})
    sums = sums.groupby(own["benchmark"], sort=False, observed=True).sum()
    return {str(name): float(row["right"] / row["of"]) for name, row in sums.iterrows()}


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
        known: dict[str, Any] = {"note": estimated_effect(set(self.estimands()["quantity"]))}
        known |= {"seed": self.seed, "reference": self.reference, "level": self.level}
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
        Whether to show progress.

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
    failed = _failed(fitted, "the fit has failed checks, which an update inherits: ")
    if failed and any(entry.method == "update" for entry in entries):
        notes.append(failed)
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
    """Fit old and new responses together, with the model spec and settings of a fit."""
    # Takes as long as the fit did. The result is a fit like any other, which can be ranked,
    # reported, compared and updated; it holds all new models at once.
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
    if old_responses is not None:
        old = given_responses(old_responses)
        if old.data_hash != fitted.record["data"]["hash"]:
            raise UsageError(
                f"{printable(old.source)}: these are not the responses of the fit, which is of"
                f" {printable(fitted.record['data']['source'])}"
            )
    elif fitted.spec.contamination.exposure != "known":
        raise FitError(
            f"the model spec '{fitted.spec.name}' needs a joint fit, and columns that the fit does"
            " not keep: give the old responses with their contamination (old_responses=,"
            " --responses)"
        )
    else:
        old = fitted.responses()
    for table in (old, new):
        if PARTICIPANT in table.frame:
            raise UsageError(
                f"{printable(table.source)}: has participants, whom an update does not take into"
                " account; fit old and new responses together"
            )
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
    sampling = Sampling(**fit.record["sampling"])
    # The new models' rows may be such that difficulties cannot be integrated out any more.
    if sampling.difficulties == "marginalised":
        sampling = replace(sampling, difficulties="auto")
    return Options(
        seed,
        reference,
        fit.record.get("items", "answered"),
        fit.record.get("population", False),
        level,
        fit.smallest_effect,
        sampling=sampling,
        bootstrap="bootstrap" in fit.data,
    )


def split_models(responses: Responses) -> list[Responses]:
    """Return the responses of each model in a table of its own."""
    parts = responses.frame.groupby("model", sort=False, observed=True)
    return [replace(responses, frame=part.reset_index(drop=True)) for _, part in parts]


def new_models(old: Responses, given: Responses) -> Responses:
    """Return the responses of models that are not in a fit; its notes name the others."""
    known = [name for name in given.models if name in old.models]
    if not known:
        return given
    if len(known) == len(given.models):
        raise UsageError(
            f"update: {printable(given.source)} has no new model: {join_list(known)}"
            f" {'is' if len(known) == 1 else 'are'} in the fit already. To change the responses of"
            " a model, fit the whole table again"
        )
    keys, scores = ["model", "benchmark", "item"], ["n_correct", "n_trials"]
    rows = given.frame["model"].isin(known)
    both = given.frame.loc[rows, [*keys, *scores]].merge(old.frame[[*keys, *scores]], on=keys)
    differing = (both[["n_correct_x", "n_trials_x"]].to_numpy()
             != both[["n_correct_y", "n_trials_y"]].to_numpy()).any(axis=1)  # fmt: skip
    count = f"{len(known):,} model{'' if len(known) == 1 else 's'}"
    note = f"passed over the rows of {count} in the fit already: {join_list(known)}"
    if changed := list(dict.fromkeys(both.loc[differing, "model"])):
        note += (
            f"; in this table the responses of {join_list(changed)} differ from those of the "
            "fit: to"
            " use them, fit the whole table again"
        )
    frame = given.frame[~rows].reset_index(drop=True)
    return replace(given, frame=frame, notes=(*given.notes, note))


def join_responses(spec: ModelSpec, old: Responses, new: Responses) -> Responses:
    """Put the responses of new models after those of a fit."""
    unknown = [label for label in new.benchmarks if label not in old.benchmarks]
    if unknown:
        problem = f"not in the fit: {join_list(unknown)}; the fit has {join_list(old.benchmarks)}"
        advice = (
            "Nothing is known of a benchmark without a fit: leave its rows out (--where), or fit"
            " the old and new responses together with: bayescontam fit"
        )
        raise DataError([Fault(new.source, problem, column="benchmark")], advice)
    needed = ["contamination"] if spec.contamination.form != "none" else []
    needed += [spec.ability.by] if spec.ability.by != "benchmark" else []
    needed += [spec.contamination.clean_column] if spec.contamination.clean_column else []
    needed += [BASE] if spec.ability.lineage != "none" else []
    needed += [spec.contamination.kinds] if spec.contamination.kinds else []
    missing = [label for label in needed if label not in new.frame]
    if missing:
        problem = f"the fit uses a column that is not there: {join_list(missing)}"
        advice = "Add it; contamination may come from a covariates table (--covariates)."
        raise DataError([Fault(new.source, problem)], advice)
    if spec.likelihood.guess == "column":
        old, new = _with_guess(old, old), _with_guess(new, old)
    columns = [label for label in old.frame if label in new.frame]
    joined = pd.concat([old.frame[columns], new.frame[columns]], ignore_index=True)
    source = f"{old.source} and {new.source}"
    from_dates = old.from_dates and new.from_dates
    return Responses(joined, source, (*old.notes, *new.notes), from_dates)


def _with_guess(responses: Responses, fitted: Responses) -> Responses:
    """Return responses with a column ``guess``: their own, or that of the fit's items."""
    frame, source = responses.frame, responses.source
    if guess_column(frame) is None:
        known = fitted.frame.assign(guess=read_guess(fitted.frame, fitted.source))
        keys = ["benchmark", "item"]
        known = known.drop_duplicates(keys)[[*keys, "guess"]]
        frame = frame.merge(known, on=keys, how="left", validate="many_to_one")
    return replace(responses, frame=frame.assign(guess=read_guess(frame, source)))


def unsupported_terms(fit: Fit) -> str | None:
    """Say which part of a fit's model spec an update cannot handle; None if there is none."""
    spec = fit.spec
    if spec.contamination.exposure != "known":
        return "its contamination is not known for sure"
    if spec.ability.checkpoints != "independent":
        return "abilities along checkpoints depend on those before them"
    if spec.ability.twins == "identical":
        return "a new model that is identical to its base has no effects of its own to weigh"
    strange = sorted(set(map(str, fit.joint_posterior().data_vars)) - _UNDERSTOOD)
    straight = spec.contamination.form in ("none", "linear")
    if strange or not straight or spec.contamination.scale != "log_odds":
        return f"the model spec '{spec.name}' has parts that an update does not know"
    return None


def refit_reason(newcomer: NewModel, fit: Fit) -> str | None:
    """Say why only a joint fit can take this model in; None where an update can."""
    spec, design, host = newcomer.spec, newcomer.design, newcomer.host
    if fresh := [name for name in design.units if name not in host.units]:
        return f"the fit has no {design.by} {join_list(fresh)}"
    terms = newcomer.built.terms.entered
    if changed := sorted(terms ^ set(fit.record["entered"])):
        return f"with one model more the model has other terms: {', '.join(changed)}"
    if (
        "delta" in terms
        and (benchmarks_with_two_models(design) != benchmarks_with_two_models(host)).any()
    ):
        return "with one model more other benchmarks have items that several models answered"
    if spec.ability.pooling == "none" and "eps" in terms:
        return "its model-by-item effect has a spread of its own, which the fit does not estimate"
    unpooled = spec.contamination.pooling == "none" and "beta" in terms
    if unpooled and not isinstance(spec.priors.beta_bar, Normal):
        return "its slope has a prior of its own that is not Normal"
    if design.clean.any():
        return "some models are known to be clean"
    return None


def differing_tables(old: Responses, joined: Responses, reference: Reference) -> list[str]:
    """Say what makes a new model's estimands other than those of the fit's models."""
    frame, name = joined.frame, joined.models[-1]
    new = frame[frame["model"] == name]
    parts = dict(list(old.frame.groupby("benchmark", sort=False)))
    return [
        sentence
        for benchmark, own in new.groupby("benchmark", sort=False)
        for sentence in _differences(
            printable(name), printable(str(benchmark)), parts[benchmark], own, reference
        )
    ]


def _differences(
    name: str, benchmark: str, old: pd.DataFrame, own: pd.DataFrame, reference: Reference
) -> Iterator[str]:
    known, items = set(old["item"]), set(own["item"])
    if fresh := len(items - known):
        yield (
            f"{name}: {fresh:,} of its {len(items):,} items of {benchmark} are not in the fit,"
            " which knows only how much the difficulty of items varies"
        )
    if missing := len(known - items):
        yield (
            f"{name} answered {len(known) - missing:,} of the fit's {len(known):,} items of"
            f" {benchmark}: its estimands are averages over other items than those of the other"
            " models, and so are ranks"
        )
    if reference == "min_observed" and "contamination" in own and "contamination" in old:
        least, before = own["contamination"].min(), old["contamination"].min()
        if least < before:
            yield (
                f"{name} has items of {benchmark} that are cleaner than all of the fit's"
                f" ({least:.3g}, {before:.3g}): genuine ability is reported at {least:.3g} here,"
                f" and at {before:.3g} in the fit"
            )
