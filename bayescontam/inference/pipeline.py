"""From responses and a model spec to a checked fit."""

import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._progress import stage
from bayescontam._random import check_seed, fresh_seed, stream
from bayescontam._runs import plain
from bayescontam._types import FloatArray
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.dates import Dates
from bayescontam.data.measures import Scale, unused_note
from bayescontam.data.responses import Names, Path, Responses, given_responses
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.inference import checks as checking
from bayescontam.inference.assumed_spillover import GROUP as ASSUMED
from bayescontam.inference.assumed_spillover import assumed_spillover
from bayescontam.inference.bootstrap import check_bootstrap, stored_bootstrap
from bayescontam.inference.checks import Thresholds
from bayescontam.inference.design_checks import design_checks
from bayescontam.inference.estimands import (
    ITEMS,
    Items,
    Reference,
    dose_response,
    estimands,
    reference_level,
    reference_levels,
)
from bayescontam.inference.identification import (
    SMALLEST_EFFECT,
    check_smallest_effect,
    identify,
)
from bayescontam.inference.item_fit import item_fit
from bayescontam.inference.left_out_spillover import left_out_check
from bayescontam.inference.logged import samples_of
from bayescontam.inference.loo import MIN_DRAWS, leave_one_out
from bayescontam.inference.own_slopes import OwnSlopes, own_slopes
from bayescontam.inference.posterior import (
    draw_contamination,
    draw_difficulties,
    stack_draws,
)
from bayescontam.inference.predictive import posterior_checks, with_own_effects
from bayescontam.inference.rebuilt import tasks_of
from bayescontam.inference.result import FORMAT, Fit
from bayescontam.inference.reusable import CompiledModels, sample, sample_by_need
from bayescontam.inference.sampling import Drawn, Engine, Sampling
from bayescontam.inference.sensitivity import confounding_curves, log_prior, power_scaling
from bayescontam.inference.stored import (
    Positions,
    compact,
    labelled,
    rounded,
    standard_groups,
    stored_exposure,
    stored_items,
    stored_table,
    unsafe_labels,
    without_items,
)
from bayescontam.inference.summary import LEVEL, summarise
from bayescontam.inference.total_effects import own_totals, stored_totals
from bayescontam.model.auto import AUTO, choose_spec
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.exposure import refuse_contaminated
from bayescontam.model.marginal import Difficulties
from bayescontam.model.terms import models_without_overlap
from bayescontam.parallel import usable_cores
from bayescontam.specs.base import parse_toml
from bayescontam.specs.model import ModelSpec, restored_spec

_VERSIONS = ("bayescontam", "pymc", "nutpie", "arviz", "numpy", "pandas", "xarray")


@dataclass(frozen=True)
class Options:
    """How a fit is made and judged, beside model spec and data; `fit` says what each means."""

    seed: int
    reference: Reference = "min_observed"
    items: Items = "all"
    population: bool = False
    level: float = LEVEL
    smallest_effect: float = SMALLEST_EFFECT
    thresholds: Thresholds = field(default_factory=Thresholds)
    sampling: Sampling = field(default_factory=Sampling)
    by_need: bool = False  # few draws, and more where checks of the sampler want them
    command: str = ""
    item_draws: int | None = None
    store_all: bool = False
    bootstrap: bool = False

    def __post_init__(self) -> None:
        """Validate the options."""
        reference_level(self.reference)
        if self.items not in ITEMS:
            raise UsageError(f"items: got {self.items!r}; allowed are 'all' or 'answered'")
        check_level(self.level)
        check_smallest_effect(self.smallest_effect)
        if self.item_draws is not None and self.item_draws < 0:
            raise UsageError(f"item_draws: got {self.item_draws}; allowed is 0 or more")
        object.__setattr__(self, "seed", check_seed(self.seed))
        draws, chains = self.sampling.draws, self.sampling.chains
        if draws * chains < MIN_DRAWS:
            raise UsageError(
                f"draws: got {draws} of each of {chains} chains, {draws * chains} in all; at least"
                f" {MIN_DRAWS} are needed to know how far PSIS-LOO can be trusted"
            )


def fit_responses(
    responses: Responses,
    spec: ModelSpec,
    options: Options,
    progress: bool = False,
    models: CompiledModels | None = None,
) -> Fit:
    """Fit a model spec to responses, by models compiled before if they are given; judge the fit."""
    started = time.perf_counter()
    if options.bootstrap:
        check_bootstrap(responses, spec)
    with stage(progress, "building the model"):
        built = build(spec, responses, options.sampling.difficulties)
    refuse_contaminated(responses, np.array(built.design.models)[built.design.clean].tolist())
    reference = None
    if built.design.contamination is not None:
        reference = reference_levels(options.reference, built.design)
    models = models or CompiledModels(several=False)
    seed = int(stream(options.seed, "sampler").integers(2**31))
    if not options.by_need:
        posterior, statistics = sample(built, options.sampling, seed, progress, models)
        drawn = Drawn(posterior, statistics, options.sampling)
        return _fitted(responses, built, reference, options, drawn, models, started, progress)
    with closing(sample_by_need(built, options.sampling, seed, progress, models)) as several:
        for drawn in several:
            if not drawn.last and checking.chains_disagree(drawn.posterior, options.thresholds):
                continue  # without judging the draws
            own = replace(options, sampling=drawn.sampling)
            fitted = _fitted(responses, built, reference, own, drawn, models, started, progress)
            if not checking.need_draws(fitted.checks()):
                break
    return fitted


def _fitted(
    responses: Responses,
    built: BuiltModel,
    reference: FloatArray | None,
    options: Options,
    drawn: Drawn,
    models: CompiledModels,
    started: float,
    progress: bool,
) -> Fit:
    """Judge draws from a posterior."""
    posterior, sample_stats = drawn.posterior, drawn.statistics
    sampled = time.perf_counter()
    with stage(progress, "computing estimands and checks"):
        judged, positions, own = _judged(posterior, built, options, models)
        groups = {"posterior": posterior, "sample_stats": sample_stats} | judged
        tasks, notes = tasks_of(responses, built.design)
        groups |= stored_table(built.design, tasks, samples_of(responses))
        named = [name for name in ("estimands", "estimands_by_concept") if name in groups]
        summary = pd.concat(
            [summarise(groups[name], options.level) for name in named], ignore_index=True
        )
        limits = options.thresholds
        checks = [
            *checking.sampling_checks(posterior, sample_stats, summary, limits),
            *checking.loo_checks(groups["loo"], limits),
            *checking.predictive_checks(groups["predictive"], limits),
            checking.conflict_check(posterior, built),
        ]
        if built.lattice is not None:
            draws, rng = stack_draws(posterior, built.design), stream(options.seed, "integration")
            checks.append(checking.integration_check(draws, built.lattice, rng))
        checks += left_out_check(own, built, responses, limits)
        checks += design_checks(built, reference, options.items)
    if options.bootstrap and reference is not None:
        rng = stream(options.seed, "published bootstrap")
        frame, coords = responses.frame, built.design.coords
        groups["bootstrap"] = rounded(stored_bootstrap(frame, coords, reference, rng, progress))
    seconds = {"sampling": sampled - started, "judging": time.perf_counter() - sampled}
    record = _record(responses, built, options, seconds)
    record["data"]["notes"] += notes
    record["checks"] = [check.to_dict() for check in checks]
    chains = posterior.sizes["chain"]  # how many draws are stored, all chains together
    counts = {name: chains * len(at) for name, at in vars(positions).items()}
    record["stored"] = {"sampled": chains * posterior.sizes["draw"]} | counts
    groups = compact(groups, positions, options.store_all)
    groups["record"] = xr.Dataset({"json": json.dumps(record, default=plain)})
    return Fit(labelled(xr.DataTree.from_dict(groups)))


def _judged(
    posterior: xr.Dataset, built: BuiltModel, options: Options, models: CompiledModels
) -> tuple[dict[str, xr.Dataset], Positions, OwnSlopes | None]:
    """Return all that follows from the draws by group, what is stored of it, and own slopes."""
    seed, cores = options.seed, options.sampling.cores
    draws = stack_draws(posterior, built.design)
    draws = draw_difficulties(draws, built.lattice, stream(seed, "difficulties"), cores=cores)
    draws = with_own_effects(draws, built, stream(seed, "own effects"), cores=cores)
    draws, moments = draw_contamination(draws, built, stream(seed, "contamination"))
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    chosen = options.reference, options.items
    prior, parameters = models.prior(built, seed, cores)
    before = estimands(prior, built, (1, len(prior)), *chosen, stream(seed, "prior population"))
    sampled = options.population
    jobs: dict[str, Callable[[], Any]] = {
        "estimands": lambda: estimands(
            draws, built, shape, *chosen, stream(seed, "population"), sampled
        ),
        "loo": lambda: leave_one_out(draws, built, stream(seed, "loo")),
        "item_fit": lambda: item_fit(draws, built),
        "predictive": lambda: posterior_checks(draws, built, stream(seed, "predictive")),
        "expected": lambda: posterior_checks(prior, built, stream(seed, "prior predictive")),
    }
    if draws.beta is not None:
        prior_sd = before["estimands"]["slope"].fillna(0.0).std(("chain", "draw")).to_numpy()
        level, items = options.level, options.items
        jobs |= {
            "own": lambda: own_slopes(draws, built, prior_sd),
            "curves": lambda: dose_response(
                draws, built, level, items, stream(seed, "curves"), sampled
            ),
            ASSUMED: lambda: assumed_spillover(
                draws, built, options.reference, level, items,
                stream(seed, "assumed spillover"), sampled,
            ),
        }  # fmt: skip
    found = _results(jobs, cores)
    groups, own = found["estimands"], found.get("own")
    positions = Positions.of(posterior, groups, built, options.store_all, options.item_draws)
    groups |= {
        "prior": without_items(parameters),
        "prior_estimands": before["estimands"],
        "predictive": found["predictive"].assign(
            score_prior=found["expected"]["score_replicated"].rename(replicate="prior_replicate")
        ),
        "loo": found["loo"],
    }
    if own is not None:
        groups |= {name: found[name] for name in ("curves", ASSUMED) if found[name] is not None}
        groups |= _of_slopes(posterior, groups, own, built, options)
    if built.spec.contamination.confounding == "sensitivity":
        curves = confounding_curves(posterior, groups["estimands"], built, options.level)
        groups["confounding"] = curves
    known = posterior
    if options.store_all and draws.eta is not None and "eta" not in posterior:
        values = draws.eta.reshape(*shape, -1)
        known = posterior.assign(eta=(("chain", "draw", "repeated"), values))
    others = {
        "item_effects": stored_items(draws, known, built, positions.items, options.store_all),
        **standard_groups(draws, prior, posterior, built, positions, seed),
        "item_fit": found["item_fit"],
        "exposure": stored_exposure(built.design, draws, moments),
    }
    groups |= {name: group for name, group in others.items() if group is not None}
    return groups, positions, own


def _results(jobs: Mapping[str, Callable[[], Any]], cores: int) -> dict[str, Any]:
    """Return what jobs return, of which as many run at the same time as there are cores."""
    # In threads: nearly all of the time is spent in NumPy, which lets others run.
    if cores == 1:
        return {name: job() for name, job in jobs.items()}
    pool = ThreadPoolExecutor(cores)
    try:
        started = {name: pool.submit(job) for name, job in jobs.items()}
        return {name: each.result() for name, each in started.items()}
    finally:
        pool.shutdown(cancel_futures=True)  # of which some wait, where one failed or on Ctrl-C


def _of_slopes(
    posterior: xr.Dataset,
    groups: Mapping[str, xr.Dataset],
    own: OwnSlopes,
    built: BuiltModel,
    options: Options,
) -> dict[str, xr.Dataset]:
    """Return the groups about the slopes of contamination."""
    loo, cells, level = groups["loo"], groups["estimands"], options.level
    at = loo["kept_draw"].to_numpy()  # chains joined into one
    chosen = xr.Dataset(
        {
            name: (("chain", "draw", *v.dims[2:]), v.to_numpy().reshape(-1, *v.shape[2:])[None, at])
            for name, v in cells.data_vars.items()
        },
        {name: cells[name] for name in ("model", "benchmark")},
    )
    density = log_prior(posterior, built)[at], loo["log_likelihood"].to_numpy()
    sensitivity = power_scaling(chosen, *density)
    slopes = cells["slope"], groups["prior_estimands"]["slope"]
    verdicts = identify(*slopes, sensitivity, built, own, level, options.reference)
    found = {"sensitivity": sensitivity, "identification": verdicts}
    if (totals := own_totals(posterior, groups["prior"], built)) is not None:
        reference = reference_levels(options.reference, built.design)
        found["total_effects"] = stored_totals(totals, built, reference)
    return found


def _text(spec: ModelSpec) -> str:
    """Return the text of the spec's file, or its content where it was changed in Python."""
    # Of a spec that was changed before, and read back from a fit, the text is JSON.
    written = spec.text and not spec.text.startswith("{")
    if written and restored_spec(parse_toml(spec.text, spec.name), spec.name, spec.text) == spec:
        return spec.text
    return json.dumps(spec.model_dump(), indent=1)


def _record(
    responses: Responses, built: BuiltModel, options: Options, seconds: dict[str, float]
) -> dict[str, Any]:
    spec, design = built.spec, built.design
    coords = {name: values for name, values in design.coords.items() if name != "response"}
    part = models_without_overlap(design) if "delta" in built.terms else None
    return {
        "format": FORMAT,
        "spec": {
            "name": spec.name,
            "text": _text(spec),
            "hash": spec.hash,
            "content": spec.model_dump(),
        },
        "data": {
            "source": responses.source,
            "hash": responses.data_hash,
            "responses": len(design),
            "notes": [*responses.notes, *unused_note(responses.frame, spec.likelihood.guess)],
        },
        "difficulties": "sampled" if built.lattice is None else "marginalised",
        "item_draws": options.item_draws,
        "left_out": [*built.terms.left_out, *([("delta", part)] if part else [])],
        "entered": sorted(built.terms.entered),
        "clean": [m for m, clean in zip(design.models, design.clean, strict=True) if clean],
        "labels": unsafe_labels(coords),
        "seed": options.seed,
        "reference": options.reference,
        "items": options.items,
        "population": options.population,
        "level": options.level,
        "smallest_effect": options.smallest_effect,
        "sampling": asdict(options.sampling),
        "thresholds": asdict(options.thresholds),
        "command": options.command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _VERSIONS},
    }


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
    draws: int | Literal["auto"] = Sampling.draws,
    tune: int = Sampling.tune,
    chains: int = Sampling.chains,
    cores: int | None = None,
    target_accept: float = Sampling.target_accept,
    difficulties: Difficulties = Sampling.difficulties,
    item_draws: int | None = None,
    store_all: bool = False,
    bootstrap: bool = False,
    thresholds: Thresholds | None = None,
    models: CompiledModels | None = None,
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
        Models that are known not to have been exposed to the items in training.
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
        small" where the whole interval lies within ± this value, and the model's own responses
        inform the effect at least as much as its prior does.
    seed : int, optional
        Default: a fresh one, which the fit records.
    engine : {"nutpie", "pymc", "numpyro"}, default "nutpie"
        Sampler. ``"numpyro"`` needs the extra ``jax``.
    draws, tune, chains : int
        Draws stored of each chain (1,500), draws before those (700), and chains (4). With
        ``draws="auto"`` chains have 700 draws after at most 400, and continue to 1,000, 1,500,
        2,500 and 4,500, until the sampler's checks pass: no divergences, and R-hat and ESS as
        `thresholds` require. Where a transition diverged they start anew, after at most 700.
    cores : int, optional
        Chains at the same time; default: as many as the machine has cores. With
        ``draws="auto"`` and nutpie all chains run at the same time.
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
    bootstrap : bool, default False
        Whether to make the published bootstrap beside the fit (penalised logistic regressions of
        1,000 resamples of items, of which large fits store fewer): `Fit.bootstrap`, ``summary``
        and the report have it. It needs a column ``contamination``, and single items.
    thresholds : Thresholds, optional
        What the checks require.
    models : CompiledModels, optional
        Models that were compiled before, which tables of one layout share: the same models,
        benchmarks and items in the same order, and as many trials. This fit adds its own.
        Used by the engine nutpie where difficulties are sampled. See `fit_many`.
    progress : bool, default False
        Whether to show progress.
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
    cores = min(chains, usable_cores()) if cores is None else cores
    if isinstance(draws, str) and draws != AUTO:
        raise UsageError(f"draws: got {draws!r}; allowed are a number or 'auto'")
    most = Sampling.draws if isinstance(draws, str) else draws
    sampling = Sampling(engine, most, tune, chains, cores, target_accept, difficulties)
    options = Options(
        seed=fresh_seed() if seed is None else seed,
        reference=reference,
        items=items,
        population=population,
        level=level,
        smallest_effect=smallest_effect,
        thresholds=thresholds or Thresholds(),
        sampling=sampling,
        by_need=draws == AUTO,
        command=command,
        item_draws=item_draws,
        store_all=store_all,
        bootstrap=bootstrap,
    )
    return fit_responses(table, spec, options, progress, models)
