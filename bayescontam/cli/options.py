"""Options that several verbs share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

FitFile = Annotated[
    Path, typer.Argument(help="A fit that 'bayescontam fit' wrote (.nc).", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="File to write. Replaced if it exists.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


class TableFormat(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


Format = Annotated[
    TableFormat,
    typer.Option("--format", "-f", help="A table to read, or CSV or JSON to go on with."),
]


def reference_of(text: str) -> float | str:
    """Return a reference as it was written: a number, or the name of one."""
    try:
        return float(text)
    except ValueError:
        return text
