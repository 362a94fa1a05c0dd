"""The Python interface: what the command line does, as functions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam._random import fresh_seed
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.dates import Dates
from bayescontam.data.responses import Names, Path, Responses, given_responses
from bayescontam.data.validation import Scale
from bayescontam.inference.checks import Thresholds
from bayescontam.inference.compare import Fits, LeaveOut, compare_fits, named_fits
from bayescontam.inference.crossval import By, Work
from bayescontam.inference.estimands import Items, Reference
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Engine, Sampling
from bayescontam.inference.summary import LEVEL
from bayescontam.inference.verdicts import SMALLEST_EFFECT
from bayescontam.model.auto import AUTO, compose_spec, constant_contamination
from bayescontam.model.build import build
from bayescontam.model.exposure import refuse_idle_clean
from bayescontam.model.marginal import Difficulties
from bayescontam.parallel import usable_cores
from bayescontam.specs.model import ModelSpec, spec_with_priors
from bayescontam.specs.registry import load_spec

if TYPE_CHECKING:
    import pymc as pm


__all__ = ["build_model", "compare", "fit"]


def fit(
    responses: Responses | pd.DataFrame | Path,
    model: ModelSpec | Mapping[str, Any] | Path = AUTO,
    *,
    priors: Mapping[str, Any] | None = None,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    contamination_scale: Scale = "share",
    dates: Dates | None = None,
    clean: Names = (),
    reference: Reference = "min_observed",
    items: Items = "all",
    population: bool = False,
    level: float = LEVEL,
    smallest_effect: float = SMALLEST_EFFECT,
    seed: int | None = None,
    engine: Engine = "nutpie",
    draws: int = Sampling.draws,
    tune: int = Sampling.tune,
    chains: int = Sampling.chains,
    cores: int | None = None,
    target_accept: float = Sampling.target_accept,
    difficulties: Difficulties = Sampling.difficulties,
    item_draws: int | None = None,
    store_all: bool = False,
    thresholds: Thresholds | None = None,
    progress: bool = False,
    command: str = "",
) -> Fit:
    """Fit a model spec to responses, compute the estimands and check the fit.

    Parameters
    ----------
    responses : Responses, pandas.DataFrame or path-like
        Responses, or a table or file of them; see `read_responses`.
    model : ModelSpec, str, path-like or mapping, default "auto"
        Model spec, the name of a shipped one, the path of a TOML file, or the content of one.
        ``"auto"``: composed from the columns of the table; see `compose_spec`.
    priors : mapping of str to mapping, optional
        Priors that replace those of the model spec:
        ``{"beta_bar": {"family": "normal", "mu": 0.0, "sigma": 4.0}}``.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of the items, if it is not in the responses.
    missing_contamination : {"error", "zero", "drop", "impute"}, default "error"
        What to do with responses whose item has no covariates: refuse the table, take them
        for clean (if all items were searched), leave them out, or give them the mean of
        their benchmark.
    contamination_scale : {"share", "percent", "count"}, default "share"
        What contamination is, in the covariates if given, else in the responses: a number
        from 0 to 1, per cent, or a count n that is read as log(1 + n) / log(1 + largest n).
    dates : Dates, optional
        When items were released and up to when models were trained, which give
        contamination by model and item and the clean models; see `Responses.with_dates`.
        Default: the columns ``released`` and ``cutoff``, if the table has both and no
        other contamination.
    clean : sequence of str, optional
        Models that are known not to have met the items in training.
    reference : {"min_observed", "zero"} or float, default "min_observed"
        Contamination in [0, 1] at which genuine ability is evaluated. The default is the
        smallest observed in each benchmark: nothing is extrapolated.
    items : {"all", "answered"}, default "all"
        Reference population: items that each model's estimands average over. ``"all"``: all
        items of the benchmark in the table, so that models which answered different items
        are compared on common ground; what a model does on those that it did not answer is
        predicted from its ability and their difficulty. ``"answered"``: those that the model
        answered; models that answered different items are then not ranked.
    population : bool, default False
        Whether estimands are about the population that the items were drawn from: intervals
        then include the sampling of items (Bayesian bootstrap, doi:10.1214/aos/1176345338).
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    smallest_effect : float, default 0.02
        Smallest overfitting that matters, a difference of accuracies: verdicts say "at most
        small" where the whole interval is below it.
    seed : int, optional
        Default: a fresh one, which the fit records.
    engine : {"nutpie", "pymc", "numpyro"}, default "nutpie"
        Sampler. ``"numpyro"`` needs the extra ``jax``.
    draws, tune, chains : int
        Draws stored of each chain (1,500), draws before those (700), and chains (4).
    cores : int, optional
        Chains at the same time; default: as many as the machine has cores.
    target_accept : float, default 0.9
        Acceptance probability that the step size is adapted to.
    difficulties : {"auto", "sampled", "marginalised"}, default "auto"
        Whether item difficulties are sampled with everything else, or integrated out and
        drawn afterwards, which takes a small part of the time where tables are large. The
        model and its posterior are the same. ``"auto"`` integrates them out of tables of
        50,000 responses or more where that can be done.
    item_draws : int, optional
        How many draws of item difficulties are stored. Default: none where they were
        integrated out, and otherwise 1,000, or more of few items; their means and standard
        deviations are always stored.
    store_all : bool, default False
        Store every draw of everything, in double precision. Default: parameters and
        estimands whole, to five digits; of what there is one of for each item or response
        evenly spaced draws (``fit.record["stored"]`` counts them), and no model-by-item
        effects. Files are then some twenty times smaller.
    thresholds : Thresholds, optional
        What the checks require.
    progress : bool, default False
        Whether to show what goes on.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Fit
        Also when checks failed: look at ``fit.checks()`` before you believe it.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used; before anything long is started.
    MissingExtraError
        If the engine is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": "m", "benchmark": "b", "item": [f"i{i}" for i in range(40)],
    ...     "correct": [1, 0] * 20, "contamination": [0.1, 0.1, 0.6, 0.6] * 10,
    ... })
    >>> fitted = fit(table, "single", seed=1, draws=100, tune=100, chains=2)
    >>> estimands = fitted.estimands().set_index("quantity")
    >>> bool(estimands.loc["accuracy", "ci_low"] < 0.5 < estimands.loc["accuracy", "ci_high"])
    True
    """
    table = given_responses(
        responses,
        covariates,
        missing_contamination,
        contamination_scale,
        dates=dates,
        clean=clean,
    )
    spec, table = choose_spec(model, table, clean, priors)
    sampling = Sampling(
        engine, draws, tune, chains, _cores(cores, chains), target_accept, difficulties
    )
    options = Options(
        seed=fresh_seed() if seed is None else seed,
        reference=reference,
        items=items,
        population=population,
        level=level,
        smallest_effect=smallest_effect,
        thresholds=thresholds or Thresholds(),
        sampling=sampling,
        command=command,
        item_draws=item_draws,
        store_all=store_all,
    )
    return fit_responses(table, spec, options, progress)


def choose_spec(
    model: ModelSpec | Mapping[str, Any] | Path,
    table: Responses,
    clean: Names = (),
    priors: Mapping[str, Any] | None = None,
) -> tuple[ModelSpec, Responses]:
    """Return the model spec that is meant, and the table with notes on what it identifies.

    Models that were declared clean by name are refused where a named model spec has no use for
    them; ``"auto"`` notes what it makes of them.
    """
    if isinstance(model, ModelSpec):
        refuse_idle_clean(model, clean)
        return spec_with_priors(model, priors or {}), table
    notes: list[str] = []
    if model == AUTO:
        spec, composed = compose_spec(table)
        notes += composed
    else:
        spec = load_spec(model)
        refuse_idle_clean(spec, clean)
    spec = spec_with_priors(spec, priors or {})
    if spec.contamination.form != "none":
        notes += constant_contamination(table)
    return spec, replace(table, notes=(*table.notes, *notes))


def build_model(
    model: ModelSpec | Mapping[str, Any] | Path,
    responses: Responses | pd.DataFrame | Path,
    *,
    priors: Mapping[str, Any] | None = None,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    contamination_scale: Scale = "share",
    difficulties: Difficulties = "sampled",
) -> "pm.Model":
    """Build the PyMC model that `fit` would sample.

    Parameters
    ----------
    model : ModelSpec, str, path-like or mapping
        Model spec, as for `fit`.
    responses : Responses, pandas.DataFrame or path-like
        Responses, or a table or file of them.
    priors : mapping of str to mapping, optional
        Priors that replace those of the model spec.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of the items, if it is not in the responses.
    missing_contamination : {"error", "zero", "drop", "impute"}, default "error"
        As for `fit`.
    contamination_scale : {"share", "percent", "count"}, default "share"
        As for `fit`.
    difficulties : {"sampled", "marginalised", "auto"}, default "sampled"
        Whether item difficulties are parameters, or integrated out of the likelihood.

    Returns
    -------
    pymc.Model
        An ordinary one: sample it, draw from its prior, look at its graph. Dims ``model``,
        ``benchmark``, ``item`` and ``response``, and ``repeated`` for responses with several
        trials. Rows with one trial come before those with several.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": "m", "benchmark": "b", "item": ["i", "j"], "correct": [1, 0],
    ...     "contamination": [0.1, 0.6],
    ... })
    >>> [v.name for v in build_model("single", table).free_RVs]
    ['theta', 'beta']
    """
    table = given_responses(responses, covariates, missing_contamination, contamination_scale)
    spec, table = choose_spec(model, table, priors=priors)
    return build(spec, table, difficulties).model


def compare(
    fits: "Fits",
    *,
    leave_out: By = "response",
    folds: int | None = None,
    refit: bool = False,
    seed: int = 0,
    jobs: int | None = 1,
    cache: Path | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Compare fits of the same responses by cross-validation, with stacking weights.

    Parameters
    ----------
    fits : mapping of str to Fit or path-like, or sequence of these
        At least two, under the names to show; one is enough where folds are left out. Those of
        a sequence are called by their files, or by their model specs.
    leave_out : {"response", "item", "model"}, default "response"
        What is left out together and then predicted: whether a fit predicts another
        answer of the same models to the same items, a new item, or a new model.
    folds : int, optional
        Parts that are left out in turn, each by a fit without it. Default: for items and
        models 10, or as many as there are; for responses none: they are left out by
        weights (PSIS-LOO), and nothing is fitted again.
    refit : bool, default False
        Fit again without each response whose Pareto k is above 0.7, instead of trusting
        its weights; at most 20 of a fit.
    seed : int, default 0
        Seed of the folds. Fits of the same responses have the same folds.
    jobs : int or None, default 1
        Fits made at the same time; None: one for each core. With several, the program
        that calls this must be guarded by ``if __name__ == "__main__":``.
    cache : path-like, optional
        Folder that keeps what was finished, so that a second run goes on from there.
    progress : bool, default False
        Whether to show what goes on.

    Returns
    -------
    pandas.DataFrame
        One row for each fit, best first: ``fit, elpd, se, p_loo, elpd_diff, diff_se,
        weight, bad_k, left_out, verdict``, and where fits were made again before the
        verdict ``refits, r_hat, divergences``. Standard errors are those of a sum over
        what is left out together: responses to one item, or of one model, are not
        independent.

    Raises
    ------
    UsageError
        If there are too few fits, options do not go together, there is nothing to leave
        out, or more than 20 responses would have to be refitted.
    FitError
        If they are fits of different responses, or cannot be made again from their files:
        those of uncertain contamination cannot.

    Examples
    --------
    >>> compare({})
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: compare: give at least two fits
    """
    work = Work(seed=seed, jobs=jobs, cache=cache, progress=progress)
    return compare_fits(
        named_fits(fits), LeaveOut(by=leave_out, folds=folds, refit=refit, work=work)
    )


def _cores(cores: int | None, chains: int) -> int:
    return min(chains, usable_cores()) if cores is None else cores
