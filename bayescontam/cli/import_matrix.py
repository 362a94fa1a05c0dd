"""Verb ``import matrix``: a matrix of models by items to a table of responses."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.import_table import Table, Threshold, import_table
from bayescontam.cli.options import Quiet

EXAMPLES = """
Examples:

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

bayescontam import matrix items.csv --items rows --benchmark-column task --keep topic -o r.csv
"""


class Items(StrEnum):
    """Whether the items of a matrix are its columns or its rows."""

    COLUMNS = "columns"
    ROWS = "rows"


def matrix(
    path: Annotated[
        Path,
        typer.Argument(help="CSV, TSV, JSON Lines or Parquet file.", show_default=False),
    ],
    out: Table,
    benchmark: Annotated[
        str | None, typer.Option(help="Name of the benchmark.", show_default=False)
    ] = None,
    benchmark_column: Annotated[
        str | None,
        typer.Option(help="Instead: column that has it; with --items rows.", show_default=False),
    ] = None,
    items: Annotated[
        Items, typer.Option(help="Whether items are columns or rows.")
    ] = Items.COLUMNS,
    names: Annotated[
        str | None,
        typer.Option(
            help="Column with the names of the rows; default: the first.",
            show_default=False,
        ),
    ] = None,
    threshold: Threshold = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of items to keep, with --items rows; may be repeated.", show_default=False
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read a matrix of models by items, of 0 and 1."""
    from bayescontam.errors import UsageError
    from bayescontam.importers.matrix import import_matrix

    if (benchmark is None) == (benchmark_column is None):
        raise UsageError("--benchmark and --benchmark-column: give one of the two")
    import_table(
        out,
        quiet,
        import_matrix,
        path,
        benchmark=benchmark or benchmark_column or "",
        benchmark_in_column=benchmark is None,
        items=items.value,
        names=names,
        threshold=threshold,
        keep=keep or (),
    )
