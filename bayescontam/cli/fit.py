"""Commands ``fit`` and ``update``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FAILED_CHECK,
    Chains,
    Clean,
    CleanMargin,
    Columns,
    CovariatesFile,
    Cutoff,
    DropMissing,
    EngineName,
    FitFile,
    Format,
    ImputationsFile,
    LevelOfFit,
    OnMissing,
    OnScale,
    Out,
    Quiet,
    Released,
    Strict,
    SumRepeats,
    Tune,
    Where,
    check_file,
    columns_of,
    dates_of,
    draws_of,
    examples,
    exit_if_failed,
    given_tables,
    in_data,
    in_sampler,
    reference_of,
)
from bayescontam.cli.terminal import (
    command_line,
    print_bootstrap,
    print_checks,
    print_headline,
    print_lines,
    print_notes,
    print_table,
    put_csv,
    put_json,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.data.responses import Responses
    from bayescontam.inference.result import Fit
    from bayescontam.updating.update import Update


FIT_EXAMPLES = examples(
    "bayescontam fit responses.csv --out fit.nc",
    "bayescontam fit responses.csv --covariates scan.parquet --model positive -o fit.nc",
    "bayescontam fit responses.csv --bootstrap --out fit.nc",
    "bayescontam fit scores.csv --column model=llm --column item=question -o fit.nc",
    'bayescontam fit arc.csv --model concepts --where "not minimal" --seed 1 -o arc.nc',
    "bayescontam fit nightly.csv --each date --draws auto --out fits",
    "bayescontam fit arc.csv --imputations imputations.parquet -o arc.nc",
    then="Then: bayescontam summary fit.nc; bayescontam report fit.nc --out report.html",
)
UPDATE_EXAMPLES = examples(
    "bayescontam update fit.nc new_model.csv",
    "bayescontam update fit.nc new_model.csv --covariates scan.parquet --format csv --out new.csv",
    "bayescontam update fit.nc new_model.csv --refit never",
    "bayescontam update fit.nc new_model.csv --out both.nc",
    then="The last fits old and new responses together, which takes as long as the fit did, and"
    " writes a fit that can be ranked, reported, compared and updated again.",
)
_PLAIN = 6
"""Columns of an overview of fits without verdicts."""
MOST_NOTES = 6
"""Notes that are printed of the parts of a table."""
_ESSENTIAL = {"alpha", "beta", "gamma", "kappa", "spillover"}
"""Terms for whose sake a model spec is chosen."""
in_model = partial(Option, rich_help_panel="Model")
in_weights = partial(Option, rich_help_panel="Weights")


def fit(
    responses: Annotated[
        Path,
        Argument(
            help="Table of responses: CSV, TSV, Parquet or JSON Lines. Columns: model, benchmark,"
            " item, then correct (0/1) or n_correct and n_trials; contamination in 0 to 1."
        ),
    ],
    out: Out,
    model: Annotated[
        str,
        in_model(
            "--model",
            "-m",
            help="Model spec: auto (composed from the table's columns), a name (see 'models"
            " list') or a .toml file.",
        ),
    ] = "auto",
    covariates: CovariatesFile = None,
    imputations: ImputationsFile = None,
    missing_contamination: OnMissing = "error",
    contamination_scale: OnScale = "share",
    released: Released = None,
    cutoff: Cutoff = None,
    clean_margin: CleanMargin = 0,
    clean: Clean = None,
    column: Columns = None,
    where: Where = None,
    each: Annotated[
        str | None,
        in_data(
            "--each",
            help="Column that splits the table: one fit for each of its values, compiled once;"
            " --out is then a folder, and an interrupted run resumes.",
        ),
    ] = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    reference: Annotated[
        str,
        in_model(
            help="Contamination level at which genuine ability is evaluated: min_observed, zero or"
            " a number."
        ),
    ] = "min_observed",
    items: Annotated[
        Literal["all", "answered"],
        in_model(
            help="Items that estimates average over: all of the benchmark in the table, or those"
            " that the model answered; models that answered different ones are then not ranked."
        ),
    ] = "all",
    population: Annotated[
        bool,
        in_model(
            "--population",
            help="Estimates about the population that the items were drawn from: intervals"
            " include the sampling of items.",
        ),
    ] = False,
    bootstrap: Annotated[
        bool,
        in_model(
            "--bootstrap",
            help="Beside the fit, the published bootstrap: penalised logistic regressions of 1,000"
            " resamples of items (of more than 2,000 pairs of model and benchmark fewer are"
            " stored). Summary and report show it.",
        ),
    ] = False,
    smallest_effect: Annotated[
        float,
        in_model(
            help="Smallest overfitting that matters: verdicts are 'at most small' if the whole"
            " interval is within ± this value, and the responses inform it at least as much as the"
            " prior does."
        ),
    ] = 0.02,
    level: Annotated[float, in_model(help="Credible level.")] = 0.95,
    draws: Annotated[
        str,
        in_sampler(
            help="Draws of each chain, after tuning; auto: 700, and up to 4,500 where checks of the"
            " sampler need more."
        ),
    ] = "1500",
    tune: Tune = 700,
    chains: Chains = 4,
    cores: Annotated[
        int | None, in_sampler(help="Chains sampled in parallel; default: one for each core.")
    ] = None,
    target_accept: Annotated[
        float, in_sampler(help="Target acceptance probability of the sampler.")
    ] = 0.9,
    difficulties: Annotated[
        Literal["auto", "sampled", "marginalised"],
        in_sampler(
            help="Item difficulties: sampled with the rest, or integrated out and drawn afterwards;"
            " auto: integrated out of large tables, which is many times faster."
        ),
    ] = "auto",
    item_draws: Annotated[
        int | None,
        in_sampler(
            help="Draws of item difficulties to store; default: none where they were integrated"
            " out, otherwise at least 1,000."
        ),
    ] = None,
    store_all: Annotated[
        bool,
        in_sampler(
            "--store-all",
            help="Store every draw of everything, in double precision: files become some twenty"
            " times larger.",
        ),
    ] = False,
    engine: EngineName = "nutpie",
    seed: Annotated[
        int | None, in_sampler(help="Random seed; default: a new one, stored in the fit.")
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model spec to a table of responses, check the fit and save it."""
    options: dict[str, Any] = {
        "reference": reference_of(reference),
        "items": items,
        "population": population,
        "smallest_effect": smallest_effect,
        "level": level,
        "seed": seed,
        "engine": engine,
        "draws": draws_of(draws),
        "tune": tune,
        "chains": chains,
        "cores": cores,
        "target_accept": target_accept,
        "difficulties": difficulties,
        "item_draws": item_draws,
        "store_all": store_all,
        "bootstrap": bootstrap,
        "progress": not quiet,
        "command": command_line(),
    }
    # Before minutes of sampling, not after.
    read = responses, covariates, imputations, model, released, cutoff
    if each is None:
        check_file(out, *read)
    with stage(not quiet, f"reading {printable(responses)}"):
        from bayescontam.inference import pipeline
        from bayescontam.model.auto import choose_spec

        tables = given_tables(
            responses, each, covariates, missing_contamination, contamination_scale,
            dates_of(released, cutoff, clean_margin), clean or (),
            where, sum_repeats, drop_missing, imputations, column,
        )  # fmt: skip
        if each is None:
            spec, table = choose_spec(model, tables[""], clean or ())
    if each is not None:
        _fit_each(tables, each, model, out, options | {"clean": tuple(clean or ())}, strict)
        return
    print_notes(table.notes)
    fitted = pipeline.fit(table, spec, **options)
    fitted.to_netcdf(out)
    if not quiet:
        _print_fit(fitted, out)
    if strict:
        exit_if_failed(fitted.checks())


def _fit_each(
    tables: "dict[str, Responses]", each: str, model: str, out: Path, options: dict[str, Any],
    strict: bool,
) -> None:  # fmt: skip
    """Fit each part of a table, and print one row for each."""
    from bayescontam.data.tables import write_table
    from bayescontam.inference.findings import estimated_effect
    from bayescontam.inference.many import fit_many

    notes = list(dict.fromkeys(note for table in tables.values() for note in table.notes))
    print_notes(notes[:MOST_NOTES])
    if len(notes) > MOST_NOTES:
        print_notes([f"{len(notes) - MOST_NOTES:,} more notes are stored with the fits"])
    fits = fit_many(tables, each, model, folder=out, **options)
    table = out / "summary.csv"
    with stage(options["progress"], "collecting scores and checks"):
        overview = fits.overview()
        write_table(table, fits.summary())
        effects = {estimated_effect(fitted.data["estimands"]) for fitted in fits.values()}
    failed = int((overview["failed"] != "").sum())
    if options["progress"]:
        counted = ["Columns after 'cautions' count the scores that have a verdict."]
        print_lines([*sorted(effects), *(counted if len(overview.columns) > _PLAIN else [])])
        print_table(overview, ("cautions", "failed"), "fits.overview() in Python")
        checks = f"No check failed in {len(fits):,} fits."
        if failed:
            checks = (
                f"Checks failed in {failed:,} of {len(fits):,} fits: do not rely on these;"
                " 'bayescontam summary' of one states what to do."
            )
        saved = f"Saved {len(fits):,} fits in {printable(out)}, their scores in {printable(table)}."
        print_lines([checks, saved])
    if strict and failed:
        raise Exit(FAILED_CHECK)


def _print_fit(fitted: "Fit", path: Path) -> None:
    """Print what a fit found, and the name of its file."""
    from bayescontam.inference.findings import estimated_effect, verdict_line, which_items
    from bayescontam.inference.tables import headline

    name = printable(fitted.spec.name, 60)
    print_lines([estimated_effect(fitted.data["estimands"])])
    print_lines(
        f"Left out of '{name}': {symbol}: {reason}."
        for symbol, reason in fitted.record["left_out"]
        if symbol in _ESSENTIAL
    )
    estimands = fitted.estimands()
    print_headline(headline(fitted, estimands))
    print_bootstrap(fitted, path)
    verdict = verdict_line(fitted, estimands=estimands)
    print_lines([verdict, f"Which items: {which_items(fitted)}"])
    print_checks(fitted.checks())
    print_lines([f"Seed {fitted.record['seed']}. Saved {printable(path)}."])


def update(
    path: FitFile,
    responses: Annotated[
        Path,
        Argument(
            help="Table of responses of new models to benchmarks of the fit; columns as for"
            " 'bayescontam fit'. Rows of models in the fit are passed over."
        ),
    ],
    output: Format = "table",
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="File to write: .nc for a joint fit of old and new responses, otherwise the table"
            " as CSV or JSON (with --format).",
        ),
    ] = None,
    covariates: CovariatesFile = None,
    missing_contamination: OnMissing = "error",
    released: Released = None,
    cutoff: Cutoff = None,
    clean: Clean = None,
    column: Columns = None,
    where: Where = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    old: Annotated[
        Path | None,
        in_data(
            "--responses",
            help="Responses that the fit was made from; needed only where its file lacks them.",
        ),
    ] = None,
    reference: Annotated[
        str | None,
        Option(
            help="Contamination level at which genuine ability is evaluated; default: that of the"
            " fit."
        ),
    ] = None,
    level: LevelOfFit = None,
    draws: Annotated[int, in_weights(help="Draws of the fit to reweight.")] = 1000,
    refit: Annotated[
        Literal["auto", "never", "always"],
        in_weights(
            help="When to fit old and new responses together: where the weights cannot be trusted"
            " (auto), never (an error instead), or always."
        ),
    ] = "auto",
    seed: Annotated[int | None, Option(help="Random seed; default: a new one.")] = None,
    quiet: Quiet = False,
) -> None:
    """Score new models against an existing fit, without refitting."""
    joint = None if out is None or out.suffix.lower() != ".nc" else out
    read = path, responses, covariates, old
    if joint is not None:
        name = printable(joint)
        if output != "table":
            raise UsageError(f"--format: {name} will be a fit; leave --format out, or name a table")
        if refit == "never":
            raise UsageError(f"--refit never: {name} will be a joint fit; leave one of them out")
    elif out is not None and output == "table":
        raise UsageError("--out: end it in .nc for a fit, or add --format csv or json")
    if out is not None:
        check_file(out, *read)
    with stage(not quiet, f"reading {printable(responses)} and {printable(path)}"):
        from bayescontam.data.responses import given_responses, read_responses
        from bayescontam.inference.result import Fit
        from bayescontam.updating import update as updating

        table = read_responses(
            responses, sum_repeats=sum_repeats, drop_missing=drop_missing, where=where,
            columns=columns_of(column),
        )  # fmt: skip
        if (dates := dates_of(released, cutoff)) is not None:
            table = given_responses(
                table, covariates, missing_contamination, dates=dates, clean=clean or ()
            )
        elif clean:
            table = table.with_clean(clean)
        fit = Fit.from_netcdf(path)
    given: dict[str, Any] = {
        "covariates": covariates,
        "missing_contamination": missing_contamination,
        "old_responses": old,
        "reference": None if reference is None else reference_of(reference),
        "level": level,
        "seed": seed,
        "progress": not quiet,
    }
    if joint is not None:
        joined = updating.join(fit, table, **given, command=command_line())
        joined.to_netcdf(joint)
        print_notes(joined.record["data"]["notes"])
        if not quiet:
            _print_fit(joined, joint)
        return
    updated = updating.update(fit, table, **given, draws=draws, refit=refit)
    print_notes(updated.notes)
    if output == "csv":
        put_csv(updated.estimands(), out)
    elif output == "json":
        put_json(updated.to_dict(), out)
    elif not quiet:
        _print_update(updated)


def _print_update(updated: "Update") -> None:
    from bayescontam.inference.findings import estimated_effect

    table = updated.estimands()
    print_lines([estimated_effect(set(table["quantity"]))])
    whole = table[table["concept"] == ""].drop(columns="concept") if "concept" in table else table
    raw = {
        (entry.model, name): score for entry in updated.entries for name, score in entry.raw.items()
    }
    wide = _wide(whole, ["model", "benchmark"])
    keys = zip(wide["model"], wide["benchmark"], strict=True)
    wide.insert(2, "raw_accuracy", [raw.get(key, float("nan")) for key in keys])
    print_headline(wide, "--format csv")
    if "concept" in table:
        parts = table[table["concept"] != ""]
        print_table(_wide(parts, ["model", "benchmark", "concept"]))
    print_lines(f"{printable(entry.model)}: {entry.verdict}" for entry in updated.entries)
    print_lines([f"Seed {updated.seed}. Ranks are among the models of the fit and the new one."])


def _wide(table: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """Return one row for each cell, estimands beside each other."""
    import pandas as pd

    from bayescontam.model.effect_names import ABILITIES, EffectNames

    quantities = table["quantity"].unique()
    names = EffectNames.among(quantities)
    means, hidden = {"p_best"}, {"novelty_gap"}
    if names is not None:
        means, hidden = means | {names.fraction}, {"novelty_gap", "accuracy", *ABILITIES}
        hidden.discard(names.ability)
    rows = table.pivot(index=keys, columns="quantity", values=["mean", "ci_low", "ci_high"])
    rows = rows.reindex(pd.MultiIndex.from_frame(table[keys].drop_duplicates()))
    wide = rows.iloc[:, :0].droplevel(0, axis=1)
    for name in quantities:
        if name in means:
            wide[name] = rows["mean", name]
        elif name not in hidden:
            wide[name] = rows["mean", name]
            wide[f"{name}_low"], wide[f"{name}_high"] = rows["ci_low", name], rows["ci_high", name]
    wide.columns.name = None
    return wide.reset_index()
