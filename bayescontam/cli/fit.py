"""Verb ``fit``: responses to a fit."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import (
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
    ItemDraws,
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
    Tune,
    Where,
    check_file,
    dates_of,
    exit_if_failed,
    reference_of,
)
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.inference.fitted import Fit

EXAMPLES = """
Examples:

bayescontam fit responses.csv --out fit.nc

bayescontam fit responses.csv --covariates scan.parquet --model positive -o fit.nc

bayescontam fit arc.csv --model concepts --where "not minimal" --seed 1 -o arc.nc

Then: bayescontam summary fit.nc; bayescontam report fit.nc --out report.html
"""
_MODEL = "Model"


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
    with stage(not quiet, f"reading {visible(str(responses))}"):
        from bayescontam import api  # takes seconds
        from bayescontam.cli.terminal import calm, print_notes
        from bayescontam.given import given_responses
        from bayescontam.responses import read_responses

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
        spec, table = api.choose_spec(model, table, clean or ())
    print_notes(table.notes)
    fitted = api.fit(
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


_ESSENTIAL = {"alpha", "beta", "gamma", "kappa", "spillover"}
"""Terms for whose sake a model spec is chosen."""


def _quoted(path: Path) -> str:
    return shlex.quote(visible(str(path)))


def show(fitted: "Fit", path: Path) -> None:
    """Print what a fit found, and the name of its file."""
    from bayescontam.cli.terminal import print_checks, print_headline, print_lines
    from bayescontam.report.assumed import lines_in_short
    from bayescontam.report.tables import headline, verdict_line

    name = visible(fitted.spec.name, 60)
    print_lines(
        f"Left out of '{name}': {symbol}: {reason}."
        for symbol, reason in fitted.record["left_out"]
        if symbol in _ESSENTIAL
    )
    print_headline(headline(fitted), f"bayescontam summary {_quoted(path)} --format csv")
    print_lines([verdict_line(fitted), *lines_in_short(fitted)])
    print_checks(fitted.checks())
    print_lines([f"Seed {fitted.record['seed']}. Saved {visible(str(path))}."])
