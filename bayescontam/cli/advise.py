"""Command ``advise``: what a table identifies before any fit."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    Clean,
    CleanMargin,
    Columns,
    CovariatesFile,
    Cutoff,
    DropMissing,
    Format,
    Level,
    OnMissing,
    OnScale,
    Quiet,
    Released,
    SumRepeats,
    Where,
    dates_of,
    examples,
    given_tables,
    in_model,
)
from bayescontam.cli.terminal import print_lines, print_notes, put_csv, put_json

EXAMPLES = examples(
    "bayescontam advise responses.csv",
    "bayescontam advise responses.csv --covariates scan.parquet --missing-contamination zero",
    then="Then: bayescontam fit responses.csv --out fit.nc, or 'bayescontam plan' for data that are"
    " not there yet.",
)


def advise(
    responses: Annotated[
        Path, Argument(help="Table of responses; columns as for 'bayescontam fit'.")
    ],
    model: Annotated[
        str,
        in_model("--model", "-m", help="Model spec: auto, a name or a .toml file, as for 'fit'."),
    ] = "auto",
    covariates: CovariatesFile = None,
    missing_contamination: OnMissing = "error",
    contamination_scale: OnScale = "share",
    released: Released = None,
    cutoff: Cutoff = None,
    clean_margin: CleanMargin = 0,
    clean: Clean = None,
    column: Columns = None,
    where: Where = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    accuracy: Annotated[
        float | None, Option(help="Accuracy that widths are expected at; default: the table's.")
    ] = None,
    level: Level = 0.95,
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Report what a table identifies of the effects of contamination, before any fit.

    For the direct effect, spillover, the total effect and confounding: what identifies it, how wide
    its interval is expected to be, and what is missing.
    """
    with stage(not quiet, f"reading {printable(responses)}"):
        from bayescontam.power.advice import advice_lines
        from bayescontam.power.advice import advise as of_table

        [table] = given_tables(
            responses, None, covariates, missing_contamination, contamination_scale,
            dates_of(released, cutoff, clean_margin), clean or (),
            where, sum_repeats, drop_missing, columns=column,
        ).values()  # fmt: skip
        found = of_table(table, model, clean=clean or (), accuracy=accuracy, level=level)
    print_notes(found.notes)
    if output == "csv":
        put_csv(found.table)
    elif output == "json":
        put_json(found.table)
    else:
        print_lines(advice_lines(found))
