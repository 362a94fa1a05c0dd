"""Updating: new models scored against a fit, by weighing its draws or by a joint fit."""

from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from bayescontam.covariates import Covariates, Missing
from bayescontam.errors import FitError, UsageError
from bayescontam.given import Path, given_responses
from bayescontam.inference.checks import Outcome, Thresholds
from bayescontam.inference.engines import Sampling
from bayescontam.inference.estimands import Reference, reference_level
from bayescontam.inference.fit import Options, fit_responses
from bayescontam.inference.fitted import Fit
from bayescontam.inference.joining.entry import Desk, Entry, Refit
from bayescontam.inference.joining.newcomer import join_responses, new_models, split_models
from bayescontam.inference.joining.remembered import remembered
from bayescontam.inference.joining.unlike import unlike_the_fit
from bayescontam.inference.joining.updated import DRAWS, FEWEST
from bayescontam.levels import check_level
from bayescontam.names import visible
from bayescontam.responses import Responses
from bayescontam.seeds import fresh_seed

__all__ = ["Entry", "Update", "join", "update"]


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
    >>> bayescontam.updating.update("no-such-file.nc", "new.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.FitError: no-such-file.nc: no such file; make a fit with: bayescontam fit
    """
    _check_options(refit, level, draws)
    given = Given(responses, covariates, missing_contamination, old_responses)
    fitted, old, new = _read(fit, given)
    options = _options(fitted, reference, level, seed)
    tables = [
        join_responses(fitted.spec, old, part) for part in split_models(new)
    ]  # refused before long work
    desk = Desk(fitted, old, options, draws, refit, progress)
    entries = tuple(desk.entry(joined) for joined in tables)
    unlike = [note for joined in tables for note in unlike_the_fit(old, joined, options.reference)]
    weighed = any(entry.method == "update" for entry in entries)
    doubts = _doubts(fitted) if weighed else []
    notes = (*new.notes, *unlike, *doubts)
    return Update(entries, notes, options.seed, options.reference, options.level)


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
    given = Given(responses, covariates, missing_contamination, old_responses)
    fitted, old, new = _read(fit, given)
    options = _options(fitted, reference, level, seed)
    options = replace(
        options,
        command=command,
        item_draws=fitted.record.get("item_draws", 0),
        thresholds=Thresholds(**_known(fitted.record["thresholds"])),
    )
    joined = join_responses(fitted.spec, old, new)
    return fit_responses(joined, fitted.spec, options, progress)


def _known(thresholds: dict[str, Any]) -> dict[str, Any]:
    """Return the thresholds that checks still have; a fit may be of an earlier version."""
    names = {field.name for field in fields(Thresholds)}
    return {name: value for name, value in thresholds.items() if name in names}


@dataclass(frozen=True, eq=False)
class Given:
    """What was given to an update beside the fit; see `update`."""

    responses: Responses | pd.DataFrame | Path
    covariates: Covariates | pd.DataFrame | Path | None
    missing: Missing
    old: Responses | pd.DataFrame | Path | None


def _read(fit: Fit | Path, given: Given) -> tuple[Fit, Responses, Responses]:
    """Return the fit, its responses, and those of new models."""
    fitted = fit if isinstance(fit, Fit) else Fit.load(fit)
    new = given_responses(given.responses, given.covariates, given.missing)
    old = _old_responses(fitted, given.old)
    if given.covariates is not None and "contamination" not in old.frame:
        old = given_responses(old, given.covariates, given.missing)
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


def _check_options(refit: str, level: float | None, draws: int) -> None:
    if refit not in ("auto", "never", "always"):
        raise UsageError(f"refit: got {refit!r}; allowed are 'auto', 'never' and 'always'")
    if level is not None:
        check_level(level)
    if draws < FEWEST:
        raise UsageError(f"draws: got {draws}; allowed is {FEWEST} or more")


def _sampling(fit: Fit) -> Sampling:
    """Return how a joint fit is sampled: as the fit was, so far as its table allows it."""
    sampling = Sampling(**fit.record["sampling"])
    # The new models' rows may be such that difficulties cannot be integrated out any more.
    marginalised = sampling.difficulties == "marginalised"
    return replace(sampling, difficulties="auto") if marginalised else sampling


def _doubts(fit: Fit) -> list[str]:
    failed = [check.name for check in fit.checks() if check.outcome is Outcome.FAILED]
    if not failed:
        return []
    return [f"the fit has failed checks, which an update inherits: {', '.join(failed)}"]


def _old_responses(fit: Fit, given: Responses | pd.DataFrame | Path | None) -> Responses:
    if given is not None:
        old = given_responses(given)
        if old.data_hash != fit.record["data"]["hash"]:
            raise UsageError(
                f"{visible(old.source)}: these are not the responses of the fit, which is of"
                f" {visible(fit.record['data']['source'])}"
            )
        return old
    if fit.spec.contamination.exposure != "known":
        raise FitError(
            f"the model spec '{fit.spec.name}' needs a joint fit, and columns that the fit does not"
            " keep: give the old responses with their contamination (old_responses=, --responses)"
        )
    return remembered(fit)
