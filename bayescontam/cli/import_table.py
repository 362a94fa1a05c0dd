"""Tables that are imported: options that importers share, and what is written and printed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import check_file

if TYPE_CHECKING:
    from bayescontam.importers.imported import Imported

Table = Annotated[
    Path,
    typer.Option("--out", "-o", help="Table to write: .parquet or .csv.", show_default=False),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Value from which on an answer is correct; default: values are 0 or 1.",
        show_default=False,
    ),
]


def import_table[**Options](
    out: Path,
    quiet: bool,
    read: Callable[Options, "Imported"],
    *args: Options.args,
    **options: Options.kwargs,
) -> None:
    """Read responses, write the table, and print what was read and what was left out."""
    from bayescontam.written import check_table_ending, write_table

    check_table_ending(out, "responses")
    check_file(out, *args)
    found = read(*args, **options)
    write_table(out, found.frame)
    if not quiet:
        _print(found, out)


def _print(found: "Imported", out: Path) -> None:
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.names import visible

    name = visible(str(out))
    spare = ["runs", "responses", "trials_each", "trials", "chosen"]
    print_table(found.read, spare, f"the rows of {name} by benchmark")
    if len(found.left_out):
        print_table(found.left_out, whole=True)  # printed nowhere else
    else:
        print_lines(["Nothing was left out."])
    print_lines(f"Note: {visible(note, 400)}" for note in found.notes)
    count, models = len(found.frame), found.frame["model"].nunique()
    unit = "model" if models == 1 else "models"
    print_lines([f"Wrote {count:,} responses of {models:,} {unit} to {name}"])
