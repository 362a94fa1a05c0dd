"""Terminal: tables and lines printed so that no name can break them."""

import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayescontam.names import visible

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.inference.checks import Check

_ORDINARY = 120
"""Columns where the output is no terminal."""
_HEADLINE_SPARE = (
    "slope_verdict", "overfitting_fraction", "p_best", "rank_raw", "rank",
    "overfitting_spillover", "spillover", "raw",
)  # fmt: skip


def print_table(
    table: "pd.DataFrame",
    spare: Sequence[str] = (),
    see_all: str = "--format csv",
    *,
    whole: bool = False,
) -> None:
    """Print a table of texts and numbers, for people; of a long one the first and last rows."""
    from bayescontam.cli.table import lay_out

    room = room_of_output()
    laid = lay_out(table, room, spare, whole=whole)
    print("\n".join(["", *laid.lines, ""]))
    if laid.rows:
        print(f"{len(table) - laid.rows:,} of {len(table):,} rows are shown. All rows: {see_all}.")
    if laid.columns:
        names = ", ".join(laid.columns)
        print_lines([f"Left out in {room} columns: {names}. All columns: {see_all}."])


def room_of_output() -> int:
    """Return the columns of the terminal, or 120 where the output goes elsewhere."""
    return shutil.get_terminal_size((_ORDINARY, 24)).columns


_RANKS = ("rank_raw", "rank", "rank_low", "rank_high", "p_best")


def print_headline(table: "pd.DataFrame", see_all: str = "--format csv") -> None:
    """Print the headline table of a fit, the best of each benchmark first."""
    table = table.rename(columns={"overfitting_verdict": "verdict", "raw_accuracy": "raw"})
    if "rank" in table:  # benchmarks in the order of the table; a model without a rank last
        keys = table[["rank"]].assign(benchmark=table["benchmark"].factorize()[0])
        table = table.loc[keys.sort_values(["benchmark", "rank"], kind="stable").index]
        unknown = [name for name in _RANKS if name in table and table[name].isna().all()]
        table = table.drop(columns=unknown)  # where no benchmark has models to compare
    print_table(table, _HEADLINE_SPARE, see_all)


def calm() -> None:
    """Keep PyMC from announcing what it samples: the progress bar shows it."""
    import logging

    # Not "pymc" itself, whose level is set anew when it is imported.
    for name in ("pymc.sampling", "pymc.stats"):
        logging.getLogger(name).setLevel(logging.WARNING)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are; on a terminal wrapped between words."""
    for line in lines:
        print("\n".join(wrapped(line)) if sys.stdout.isatty() else line)


def wrapped(text: str, indent: int = 0) -> list[str]:
    """Return a text in lines of the terminal's width, the second and later ones indented."""
    import textwrap

    width = max(room_of_output(), 2 * indent, 20)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def print_list(rows: Iterable[tuple[str, str]]) -> None:
    """Print names, each with a text that is wrapped beside it."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0) + 2
    for name, text in known:
        print("\n".join(wrapped(f"{name:<{width}}{text}", width)))


def print_notes(notes: Iterable[str]) -> None:
    """Print what was left out of the data, or filled in: with --quiet too, as it may be a slip."""
    for note in notes:
        kind = "" if note.startswith("caution: ") else "note: "
        print(f"{kind}{visible(note, 400)}", file=sys.stderr)


def print_checks(checks: "Sequence[Check]") -> None:
    """Print the checks that did not pass, each with its value and what is allowed."""
    from bayescontam.report.words import measured

    for check in checks:
        if check.outcome.value == "passed":
            continue
        figure = ""
        if not math.isnan(check.value):
            allowed = f", allowed {check.threshold}" if check.threshold else ""
            figure = f" ({measured(check.value)}{allowed})"
        print_lines([f"{check.outcome.value}: {check.name}{figure}: {check.sentence}"])


def put_text(text: str, out: Path | None) -> None:
    """Print a text as it is, or write it to a file, whole or not at all."""
    from bayescontam.storage import write_text

    if out is None:
        print(text, end="")  # not typer.echo: it takes escape codes out of names
    else:
        write_text(out, text)
