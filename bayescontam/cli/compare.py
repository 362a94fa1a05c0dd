"""Verb ``compare``: fits of the same responses."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import Format, TableFormat

if TYPE_CHECKING:
    from bayescontam.api import Fit
EXAMPLES = """
Examples:

bayescontam compare hierarchical.nc positive.nc single.nc

bayescontam compare hierarchical.nc positive.nc --format csv
"""


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Two or more fits of the same responses.", show_default=False),
    ],
    output: Format = TableFormat.TABLE,
) -> None:
    """Compare fits of the same responses: leave-one-out and stacking weights."""
    from bayescontam.api import compare as compare_fits
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.names import visible

    table = compare_fits(load_all(paths))
    if output is TableFormat.TABLE:
        print_table(table.drop(columns="verdict"))
        names = zip(table["fit"], table["verdict"], strict=True)
        print_lines(f"{visible(name)}: {verdict}" for name, verdict in names)
    elif output is TableFormat.CSV:
        print(table.to_csv(index=False), end="")
    else:
        print(table.to_json(orient="records", indent=1, double_precision=15))


def load_all(paths: Sequence[Path]) -> "dict[str, Fit]":
    """Read fits under their file names; under their whole paths where names repeat."""
    from bayescontam.api import Fit
    from bayescontam.errors import UsageError

    if len(set(paths)) < len(paths):
        raise UsageError("compare: one file is named twice; name each fit once")
    names = [path.stem for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    return {label: Fit.load(path) for label, path in zip(labels, paths, strict=True)}
