"""Terminal: tables and lines printed so that no name can break them."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bayescontam.names import visible

if TYPE_CHECKING:
    import pandas as pd

_WIDEST = 48


def print_table(table: "pd.DataFrame", title: str = "") -> None:
    """Print a table of texts and numbers.

    Parameters
    ----------
    table : pandas.DataFrame
        Numbers are shown with three decimals and aligned right; NaN is left empty.
    title : str, optional
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title) if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    for name in table.columns:
        numeric = table[name].dtype.kind in "fiu"
        shown.add_column(Text(str(name)), justify="right" if numeric else "left", overflow="fold")
    for row in table.itertuples(index=False):
        shown.add_row(*(Text(_cell(value)) for value in row))
    Console().print(shown)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}"
    return visible(str(value), _WIDEST)


def calm() -> None:
    """Keep PyMC from announcing what it samples: the progress bar shows it."""
    import logging

    logging.getLogger("pymc").setLevel(logging.WARNING)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are: no markup, no highlighting."""
    for line in lines:
        print(line)
