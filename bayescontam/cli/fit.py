"""Commands ``fit`` and ``update``."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    DATA,
    SAMPLER,
    Chains,
    Clean,
    CleanMargin,
    ContaminationScale,
    CovariatesFile,
    Cutoff,
    Difficulties,
    Draws,
    DropMissing,
    Engine,
    EngineName,
    FitFile,
    Format,
    ItemDraws,
    LevelOfFit,
    MissingContamination,
    OnDifficulties,
    OnMissing,
    OnScale,
    Out,
    Quiet,
    Released,
    StoreAll,
    Strict,
    SumRepeats,
    TableFormat,
    Tune,
    Where,
    check_file,
    check_out,
    dates_of,
    exit_if_failed,
    reference_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.inference.result import Fit
    from bayescontam.updating.update import Update


FIT_EXAMPLES = """
Examples:

bayescontam fit responses.csv --out fit.nc

bayescontam fit responses.csv --covariates scan.parquet --model positive -o fit.nc

bayescontam fit arc.csv --model concepts --where "not minimal" --seed 1 -o arc.nc

Then: bayescontam summary fit.nc; bayescontam report fit.nc --out report.html
"""
_MODEL = "Model"
_ESSENTIAL = {"alpha", "beta", "gamma", "kappa", "spillover"}
"""Terms for whose sake a model spec is chosen."""
UPDATE_EXAMPLES = """
Examples:

bayescontam update fit.nc new_model.csv

bayescontam update fit.nc new_model.csv --covariates scan.parquet --format csv --out new.csv

bayescontam update fit.nc new_model.csv --refit never

bayescontam update fit.nc new_model.csv --out both.nc

The last fits old and new responses together, which takes as long as the fit did, and writes a fit
that can be ranked, reported, compared and updated again.
"""
_WEIGHTS = "Weights"


class Items(StrEnum):
    """Items that estimates average over."""

    ALL = "all"
    ANSWERED = "answered"


def fit(
    responses: Annotated[
        Path,
        typer.Argument(
            help="Table of responses: CSV, TSV, Parquet or JSON Lines. Columns: model, benchmark,"
            " item, then correct (0/1) or n_correct and n_trials; contamination in 0 to 1.",
            show_default=False,
        ),
    ],
    out: Out,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Model spec: auto (composed from the table's columns), a name (see 'models"
            " list') or a .toml file.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto",
    covariates: CovariatesFile = None,
    missing_contamination: OnMissing = MissingContamination.ERROR,
    contamination_scale: OnScale = ContaminationScale.SHARE,
    released: Released = None,
    cutoff: Cutoff = None,
    clean_margin: CleanMargin = 0,
    clean: Clean = None,
    where: Where = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    reference: Annotated[
        str,
        typer.Option(
            help="Contamination level at which genuine ability is evaluated: min_observed, zero or"
            " a number.",
            rich_help_panel=_MODEL,
        ),
    ] = "min_observed",
    items: Annotated[
        Items,
        typer.Option(
            help="Items that estimates average over: all of the benchmark in the table, or those"
            " that the model answered; models that answered different ones are then not ranked.",
            rich_help_panel=_MODEL,
        ),
    ] = Items.ALL,
    population: Annotated[
        bool,
        typer.Option(
            "--population",
            help="Estimates about the population that the items were drawn from: intervals"
            " include the sampling of items.",
            rich_help_panel=_MODEL,
        ),
    ] = False,
    smallest_effect: Annotated[
        float,
        typer.Option(
            help="Smallest overfitting that matters; verdicts say 'at most small' below it.",
            rich_help_panel=_MODEL,
        ),
    ] = 0.02,
    level: Annotated[float, typer.Option(help="Credible level.", rich_help_panel=_MODEL)] = 0.95,
    draws: Draws = 1500,
    tune: Tune = 700,
    chains: Chains = 4,
    cores: Annotated[
        int | None,
        typer.Option(
            help="Chains sampled in parallel; default: one for each core.",
            show_default=False,
            rich_help_panel=SAMPLER,
        ),
    ] = None,
    target_accept: Annotated[
        float,
        typer.Option(help="Target acceptance probability of the sampler.", rich_help_panel=SAMPLER),
    ] = 0.9,
    difficulties: OnDifficulties = Difficulties.AUTO,
    item_draws: ItemDraws = None,
    store_all: StoreAll = False,
    engine: EngineName = Engine.NUTPIE,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed; default: a new one, stored in the fit.",
            show_default=False,
            rich_help_panel=SAMPLER,
        ),
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model spec to a table of responses, check the fit and save it."""
    check_file(
        out, responses, covariates, model, released, cutoff
    )  # before minutes of sampling, not after
    with stage(not quiet, f"reading {printable(str(responses))}"):
        from bayescontam.cli.terminal import calm, print_notes
        from bayescontam.data.responses import given_responses, read_responses
        from bayescontam.inference import pipeline
        from bayescontam.model.auto import choose_spec

        calm()
        table = read_responses(
            responses,
            sum_repeats=sum_repeats,
            drop_missing=drop_missing,
            where=where,
            contamination_scale=contamination_scale.value if covariates is None else "share",
        )
        table = given_responses(
            table,
            covariates,
            missing_contamination.value,
            contamination_scale.value if covariates is not None else "share",
            dates=dates_of(released, cutoff, clean_margin),
            clean=clean or (),
        )
        spec, table = choose_spec(model, table, clean or ())
    print_notes(table.notes)
    fitted = pipeline.fit(
        table,
        spec,
        reference=reference_of(reference),
        items=items.value,
        population=population,
        smallest_effect=smallest_effect,
        level=level,
        seed=seed,
        engine=engine.value,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        target_accept=target_accept,
        difficulties=difficulties.value,
        item_draws=item_draws,
        store_all=store_all,
        progress=not quiet,
        command=shlex.join(["bayescontam", *sys.argv[1:]]),
    )
    fitted.save(out)
    if not quiet:
        show(fitted, out)
    if strict:
        exit_if_failed(fitted.checks())


def _quoted(path: Path) -> str:
    return shlex.quote(printable(str(path)))


def show(fitted: "Fit", path: Path) -> None:
    """Print what a fit found, and the name of its file."""
    from bayescontam.cli.terminal import print_checks, print_headline, print_lines
    from bayescontam.inference.findings import lines_in_short, verdict_line
    from bayescontam.inference.tables import headline

    name = printable(fitted.spec.name, 60)
    print_lines(
        f"Left out of '{name}': {symbol}: {reason}."
        for symbol, reason in fitted.record["left_out"]
        if symbol in _ESSENTIAL
    )
    print_headline(headline(fitted), f"bayescontam summary {_quoted(path)} --format csv")
    print_lines([verdict_line(fitted), *lines_in_short(fitted)])
    print_checks(fitted.checks())
    print_lines([f"Seed {fitted.record['seed']}. Saved {printable(str(path))}."])


class Refit(StrEnum):
    """When to fit old and new responses together."""

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


def update(
    path: FitFile,
    responses: Annotated[
        Path,
        typer.Argument(
            help="Table of responses of new models to benchmarks of the fit; columns as for"
            " 'bayescontam fit'. Rows of models in the fit are passed over.",
            show_default=False,
        ),
    ],
    output: Format = TableFormat.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .nc for a joint fit of old and new responses, otherwise the table"
            " as CSV or JSON (with --format).",
            show_default=False,
        ),
    ] = None,
    covariates: CovariatesFile = None,
    missing_contamination: OnMissing = MissingContamination.ERROR,
    released: Released = None,
    cutoff: Cutoff = None,
    clean: Clean = None,
    where: Where = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    old: Annotated[
        Path | None,
        typer.Option(
            "--responses",
            help="Responses that the fit was made from; needed only where its file lacks them.",
            rich_help_panel=DATA,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Contamination level at which genuine ability is evaluated; default: that of the"
            " fit.",
            show_default=False,
        ),
    ] = None,
    level: LevelOfFit = None,
    draws: Annotated[
        int, typer.Option(help="Draws of the fit to reweight.", rich_help_panel=_WEIGHTS)
    ] = 1000,
    refit: Annotated[
        Refit,
        typer.Option(
            help="When to fit old and new responses together: where the weights cannot be trusted"
            " (auto), never (an error instead), or always.",
            rich_help_panel=_WEIGHTS,
        ),
    ] = Refit.AUTO,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed; default: a new one.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Score new models against an existing fit, without refitting."""
    joint = out is not None and out.suffix.lower() == ".nc"
    if joint and out is not None:
        _check_joint(out, output, refit, path, responses, covariates, old)
    else:
        if out is not None and output is TableFormat.TABLE:
            from bayescontam.errors import UsageError

            raise UsageError("--out: end it in .nc for a fit, or add --format csv or json")
        check_out(output, out, path, responses, covariates, old)
    with stage(not quiet, f"reading {printable(str(responses))} and {printable(str(path))}"):
        from bayescontam.cli.terminal import calm, print_notes, put_text
        from bayescontam.data.responses import given_responses, read_responses
        from bayescontam.inference.result import Fit
        from bayescontam.updating import update as updating

        calm()
        table = read_responses(
            responses, sum_repeats=sum_repeats, drop_missing=drop_missing, where=where
        )
        if (dates := dates_of(released, cutoff)) is not None:
            table = given_responses(
                table, covariates, missing_contamination.value, dates=dates, clean=clean or ()
            )
        elif clean:
            table = table.with_clean(clean)
        fit = Fit.load(path)
    given: dict[str, Any] = {
        "covariates": covariates,
        "missing_contamination": missing_contamination.value,
        "old_responses": old,
        "reference": None if reference is None else reference_of(reference),
        "level": level,
        "seed": seed,
        "progress": not quiet,
    }
    if joint and out is not None:
        command = shlex.join(["bayescontam", *sys.argv[1:]])
        joined = updating.join(fit, table, **given, command=command)
        joined.save(out)
        print_notes(joined.record["data"]["notes"])
        if not quiet:
            show(joined, out)
        return
    updated = updating.update(fit, table, **given, draws=draws, refit=refit.value)
    print_notes(updated.notes)
    if output is TableFormat.TABLE:
        if not quiet:
            _print(updated)
        return
    text = _json(updated) if output is TableFormat.JSON else updated.estimands().to_csv(index=False)
    put_text(text, out)


def _check_joint(out: Path, output: TableFormat, refit: Refit, *read: object) -> None:
    """Refuse options that do not go with a joint fit."""
    from bayescontam.errors import UsageError

    name = printable(str(out))
    if output is not TableFormat.TABLE:
        raise UsageError(f"--format: {name} will be a fit; leave --format out, or name a table")
    if refit is Refit.NEVER:
        raise UsageError(f"--refit never: {name} will be a joint fit; leave one of them out")
    check_file(out, *read)


def _print(updated: "Update") -> None:
    from bayescontam.cli.terminal import print_headline, print_lines, print_table

    table = updated.estimands()
    whole = table[table["concept"] == ""].drop(columns="concept") if "concept" in table else table
    raw = {
        (entry.model, name): score for entry in updated.entries for name, score in entry.raw.items()
    }
    wide = _wide(whole, ["model", "benchmark"])
    keys = zip(wide["model"], wide["benchmark"], strict=True)
    wide.insert(2, "raw_accuracy", [raw.get(key, float("nan")) for key in keys])
    print_headline(wide)
    if "concept" in table:
        parts = table[table["concept"] != ""]
        print_table(_wide(parts, ["model", "benchmark", "concept"]))
    print_lines(f"{printable(entry.model)}: {entry.verdict}" for entry in updated.entries)
    print_lines([f"Seed {updated.seed}. Ranks are among the models of the fit and the new one."])


def _wide(table: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """Return one row for each cell, estimands beside each other."""
    import pandas as pd

    quantities = table["quantity"].unique()
    rows = table.pivot(index=keys, columns="quantity", values=["mean", "ci_low", "ci_high"])
    rows = rows.reindex(pd.MultiIndex.from_frame(table[keys].drop_duplicates()))
    wide = rows.iloc[:, :0].droplevel(0, axis=1)
    for name in quantities:
        if name in ("overfitting_fraction", "p_best"):
            wide[name] = rows["mean", name]
        elif name not in ("novelty_gap", "accuracy") or "genuine_ability" not in quantities:
            wide[name] = rows["mean", name]
            wide[f"{name}_low"], wide[f"{name}_high"] = rows["ci_low", name], rows["ci_high", name]
    wide.columns.name = None
    return wide.reset_index()


def _json(updated: "Update") -> str:
    import json
    import math

    def plain(value: Any) -> Any:
        """Say null for what is not a number, which JSON does not have."""
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(updated.to_dict()), indent=1, ensure_ascii=False) + "\n"
