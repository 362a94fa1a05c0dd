"""Terminal: tables and lines printed so that no name can break them."""

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescontam.names import visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from bayescontam.inference.checks import Check

_LONGEST = 48
_WIDE = 150
"""Columns of a terminal that has room for all of a table."""


def print_table(table: "pd.DataFrame", spare: Iterable[str] = ()) -> None:
    """Print a table of texts and numbers.

    Parameters
    ----------
    table : pandas.DataFrame
        Numbers are shown with three decimals (whole ones and ranks without) and never
        broken; NaN is left empty. ``x_low`` and ``x_high`` become an interval beside ``x``.
    spare : iterable of str, optional
        Columns to leave out where the terminal is narrow; CSV and JSON have them all.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    wide = console.width >= _WIDE
    columns = _columns(table.drop(columns=[] if wide else list(spare), errors="ignore"))
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name, cells in columns.items():
        figures = cells.dtype.kind in "fiu" or isinstance(cells.iloc[0], tuple)
        shown.add_column(
            Text(name.replace("_", "\n")),
            justify="right" if figures else "left",
            overflow="fold",
            no_wrap=figures,
            min_width=max(map(cell_len, name.split("_"))),
        )
    gap = " " if wide else "\n"
    for row in zip(*columns.values(), strict=True):
        shown.add_row(*(Text(_cell(*pair, gap)) for pair in zip(columns, row, strict=True)))
    Console(width=_fold_names(shown, console.width)).print(shown)


def _fold_names(table: "Table", room: int) -> int:
    """Give columns their widths, and return that of the table.

    Names are folded where there is not room for all, the longest first, and none below its
    heading: rich would leave columns out, or cut figures off at the right.
    """
    from rich.cells import cell_len  # wide characters take two columns

    natural = [
        max(
            cell_len(line)
            for text in (column.header, *column.cells)
            for line in str(text).splitlines() or [""]
        )
        for column in table.columns
    ]
    widths = [
        width if column.no_wrap else column.min_width or 1
        for width, column in zip(natural, table.columns, strict=True)
    ]
    gaps = 2 * len(widths)  # each column has a gap of two, or an edge and a gap of one
    while sum(widths) + gaps < room:
        folded = [place for place, width in enumerate(widths) if width < natural[place]]
        if not folded:
            break
        widths[min(folded, key=widths.__getitem__)] += 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    return max(room, sum(widths) + gaps)


def print_headline(table: "pd.DataFrame") -> None:
    """Print the headline table of a fit."""
    names = {"overfitting_verdict": "verdict"}
    spare = ("overfitting_fraction", "slope_verdict", "rank_raw", "p_best")
    print_table(table.rename(columns=names), spare)


def _columns(table: "pd.DataFrame") -> "dict[str, pd.Series[Any]]":
    """Return the columns, those of an interval as one of tuples."""
    import pandas as pd

    result = {}
    for name in table.columns.astype(str):
        stem, _, end = name.rpartition("_")
        if end == "low" and f"{stem}_high" in table:
            parts = [part for part in (stem, name, f"{stem}_high") if part in table]
            rows = list(zip(*(table[part] for part in parts), strict=True))
            result[stem] = pd.Series(rows, index=table.index, dtype=object)
        elif not (end == "high" and f"{stem}_low" in table):
            result.setdefault(name, table[name])
    return result


def _cell(name: str, value: Any, gap: str) -> str:
    if isinstance(value, tuple):
        *estimate, low, high = (_cell(name, part, gap) for part in value)
        return gap.join([*estimate, f"[{low}, {high}]"]) if low else "".join(estimate)
    if isinstance(value, float):
        digits = 0 if name.startswith("rank") else 3
        return "" if math.isnan(value) else f"{value:.{digits}f}"
    return visible(str(value), _LONGEST)


def calm() -> None:
    """Keep PyMC from announcing what it samples: the progress bar shows it."""
    import logging

    # Not "pymc" itself, whose level is set anew when it is imported.
    for name in ("pymc.sampling", "pymc.stats"):
        logging.getLogger(name).setLevel(logging.WARNING)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are: no markup, no highlighting."""
    for line in lines:
        print(line)


def print_notes(notes: Iterable[str]) -> None:
    """Print what was left out of the data, or filled in: with --quiet too, as it may be a slip."""
    for note in notes:
        kind = "" if note.startswith("caution: ") else "note: "
        print(f"{kind}{visible(note, 400)}", file=sys.stderr)


def print_checks(checks: "Sequence[Check]") -> None:
    """Print the checks that did not pass."""
    print_lines(
        f"{check.outcome.value}: {check.name}: {check.sentence}"
        for check in checks
        if check.outcome.value != "passed"
    )


def put_text(text: str, out: Path | None) -> None:
    """Print a text as it is, or write it to a file, whole or not at all."""
    from bayescontam.storage import write_text

    if out is None:
        print(text, end="")  # not typer.echo: it takes escape codes out of names
    else:
        write_text(out, text)
