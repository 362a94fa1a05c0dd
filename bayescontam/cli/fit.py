"""Verb ``fit``: responses to a fit."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import Out, Quiet, reference_of

if TYPE_CHECKING:
    from bayescontam.api import Fit

EXAMPLES = """
Examples:

bayescontam fit responses.csv --out fit.nc

bayescontam fit responses.csv --covariates scan.parquet --model positive -o fit.nc

bayescontam fit arc.csv --model concepts --where "not minimal" --seed 1 -o arc.nc

Then: bayescontam summary fit.nc; bayescontam report fit.nc --out report.html
"""
FAILED_CHECK = 3
_DATA, _MODEL, _SAMPLER = "Data", "Model", "Sampler"


class Engine(StrEnum):
    """Samplers."""

    NUTPIE = "nutpie"
    PYMC = "pymc"
    NUMPYRO = "numpyro"


class MissingContamination(StrEnum):
    """What to do with items that the covariates do not name."""

    ERROR = "error"
    DROP = "drop"
    IMPUTE = "impute"


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
            help="Model spec: a name (see 'models list') or a .toml file.",
            rich_help_panel=_MODEL,
        ),
    ] = "hierarchical",
    covariates: Annotated[
        Path | None,
        typer.Option(
            help="Table of covariates: benchmark, item, contamination, and model if it differs.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    missing_contamination: Annotated[
        MissingContamination,
        typer.Option(
            help="Responses whose item has no covariates: refuse, drop or impute the mean.",
            rich_help_panel=_DATA,
        ),
    ] = MissingContamination.ERROR,
    where: Annotated[
        str | None,
        typer.Option(
            help="Rows to keep, as a pandas query: \"benchmark == 'mmlu'\".", rich_help_panel=_DATA
        ),
    ] = None,
    sum_repeats: Annotated[
        bool,
        typer.Option(
            "--sum-repeats",
            help="Add up several rows of one model and item.",
            rich_help_panel=_DATA,
        ),
    ] = False,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out rows without a score; how many is reported.",
            rich_help_panel=_DATA,
        ),
    ] = False,
    reference: Annotated[
        str,
        typer.Option(
            help="Contamination at which genuine ability is told: min_observed, zero or a number.",
            rich_help_panel=_MODEL,
        ),
    ] = "min_observed",
    level: Annotated[
        float, typer.Option(help="Probability of the intervals.", rich_help_panel=_MODEL)
    ] = 0.95,
    draws: Annotated[
        int, typer.Option(help="Draws kept of each chain.", rich_help_panel=_SAMPLER)
    ] = 1500,
    tune: Annotated[
        int, typer.Option(help="Draws before those, to adapt.", rich_help_panel=_SAMPLER)
    ] = 700,
    chains: Annotated[int, typer.Option(help="Chains.", rich_help_panel=_SAMPLER)] = 4,
    cores: Annotated[
        int | None,
        typer.Option(
            help="Chains at the same time; default: all cores.",
            show_default=False,
            rich_help_panel=_SAMPLER,
        ),
    ] = None,
    target_accept: Annotated[
        float, typer.Option(help="Acceptance that the step size aims at.", rich_help_panel=_SAMPLER)
    ] = 0.9,
    engine: Annotated[
        Engine,
        typer.Option(help="Sampler; numpyro needs the extra 'jax'.", rich_help_panel=_SAMPLER),
    ] = Engine.NUTPIE,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed; default: a fresh one, which the fit records.",
            show_default=False,
            rich_help_panel=_SAMPLER,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 3 if a check failed.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model spec to a table of responses, check the fit and save it."""
    from bayescontam import api
    from bayescontam.cli.terminal import calm
    from bayescontam.responses import read_responses
    from bayescontam.storage import check_writable

    calm()
    check_writable(out)  # before minutes of sampling, not after
    table = read_responses(
        responses, sum_repeats=sum_repeats, drop_missing=drop_missing, where=where
    )
    fitted = api.fit(
        table,
        model,
        covariates=covariates,
        missing_contamination=missing_contamination.value,
        reference=reference_of(reference),
        level=level,
        seed=seed,
        engine=engine.value,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        target_accept=target_accept,
        progress=not quiet,
        command=shlex.join(["bayescontam", *sys.argv[1:]]),
    )
    fitted.save(out)
    if not quiet:
        show(fitted, out)
    if strict and any(check.outcome is api.Outcome.FAILED for check in fitted.checks()):
        raise typer.Exit(FAILED_CHECK)


def show(fitted: "Fit", path: Path) -> None:
    """Print what a fit found and where it lies."""
    from bayescontam.cli.terminal import print_headline, print_lines
    from bayescontam.report.tables import headline, verdict_line

    print_lines(fitted.record["data"]["notes"])
    print_headline(headline(fitted))
    print_lines([verdict_line(fitted)])
    print_lines(
        f"{check.outcome.value}: {check.name}: {check.sentence}"
        for check in fitted.checks()
        if check.outcome.value != "passed"
    )
    print_lines([f"Seed {fitted.record['seed']}. The fit lies in {path}"])
