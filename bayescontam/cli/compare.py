"""Verb ``compare``: fits of the same responses."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import Format, ShowNoProgress, TableFormat
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.inference.fitted import Fit
EXAMPLES = """
Examples:

bayescontam compare hierarchical.nc positive.nc single.nc

bayescontam compare hierarchical.nc positive.nc --refit

bayescontam compare hierarchical.nc positive.nc --leave-out item --cache folds

bayescontam compare hierarchical.nc --leave-out model --format csv
"""
_AGAIN = "Refits"
_SPARE = ("left_out", "p_loo", "refits", "divergences", "r_hat", "bad_k", "diff_se", "se")
"""Columns that are left out where the terminal is narrow, in this order."""


class Part(StrEnum):
    """What is left out together."""

    RESPONSE = "response"
    ITEM = "item"
    MODEL = "model"


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more fits of the same responses; one is enough with folds.",
            show_default=False,
        ),
    ],
    leave_out: Annotated[
        Part,
        typer.Option(
            help="What is left out and predicted: single responses, all responses to an item, or"
            " all responses of a model."
        ),
    ] = Part.RESPONSE,
    output: Format = TableFormat.TABLE,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Number of folds, each predicted by a fit without it; default: 10 for items and"
            " models, none for responses (PSIS-LOO, without refitting).",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Refit without each response whose Pareto k is above 0.7 (at most 20).",
            rich_help_panel=_AGAIN,
        ),
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results of finished refits; the same command then resumes.",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="Fits made in parallel; default: one for each core.",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.", rich_help_panel=_AGAIN)] = 0,
    quiet: ShowNoProgress = False,
) -> None:
    """Compare fits of the same responses: cross-validation and stacking weights."""
    with stage(not quiet, "reading the fits"):
        from bayescontam.api import compare as compare_fits
        from bayescontam.cli.terminal import calm, print_lines, print_table

        calm()
        fits = load_all(paths)
    try:
        table = compare_fits(
            fits,
            leave_out=leave_out.value,
            folds=folds,
            refit=refit,
            seed=seed,
            jobs=jobs,
            cache=cache,
            progress=not quiet,
        )
    except KeyboardInterrupt:
        if cache is not None:
            print(
                "finished refits are stored: run the same command again to resume", file=sys.stderr
            )
        raise
    if output is TableFormat.TABLE:
        print_table(table.drop(columns="verdict").dropna(axis=1, how="all"), spare=_SPARE)
        names = zip(table["fit"], table["verdict"], strict=True)
        print_lines(f"{visible(name)}: {verdict}" for name, verdict in names)
    elif output is TableFormat.CSV:
        print(table.to_csv(index=False), end="")
    else:
        print(table.to_json(orient="records", indent=1, double_precision=15))


def load_all(paths: Sequence[Path]) -> "dict[str, Fit]":
    """Read fits under their file names; under their whole paths where names repeat."""
    from bayescontam.errors import UsageError
    from bayescontam.inference.fitted import Fit

    if len(set(paths)) < len(paths):
        raise UsageError("compare: one file is named twice; name each fit once")
    names = [path.stem for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    return {label: Fit.load(path) for label, path in zip(labels, paths, strict=True)}
