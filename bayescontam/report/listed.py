"""Listed: the rows of large tables that the page has, and what is said of the others."""

from math import isqrt
from typing import Any

import pandas as pd

from bayescontam.inference.fitted import Fitted
from bayescontam.report import tables
from bayescontam.report.words import in_file

MOST_LISTED = 4000
"""Rows of a table of pairs; the headline table has all."""
MOST_BETTER, LEAST_BETTER = 20_000, 5
"""Probabilities of one model against another, and models of a benchmark even so."""


def listed(table: pd.DataFrame, score: str, file: str) -> dict[str, Any]:
    """Return the rows of a table that the page has.

    Parameters
    ----------
    table : pandas.DataFrame
    score : str
        Column by whose size rows are chosen where there are too many.
    file : str
        Table of `bayescontam.report.export` that has all, without its ending.

    Returns
    -------
    dict
        ``rows``, in the order of the table; ``of``: how many there are in all; ``note``:
        what to say of those left out, empty if none is.
    """
    shown, note = table, ""
    if len(table) > MOST_LISTED:
        size = table[score].abs().sort_values(ascending=False, kind="stable")
        shown = table.loc[size.index[:MOST_LISTED].sort_values()]
        said = score.replace("_", " ")
        note = (
            f"Only {len(shown):,} of {len(table):,} rows are on the page (largest {said}). All:"
            f" {in_file(file)}."
        )
    return {"rows": shown.to_dict("records"), "of": len(table), "note": note}


def better_squares(fit: Fitted, headline: pd.DataFrame) -> dict[str, Any]:
    """Return the probabilities of one model against another that the page has.

    Returns
    -------
    dict
        ``better``: squares by benchmark, as of `bayescontam.report.tables.better`, where
        more than one model answered; ``better_note``: what to say of models left out.
    """
    sizes = headline.groupby("benchmark", sort=False)["model"].size()
    most = None
    if (sizes**2).sum() > MOST_BETTER:
        most = max(isqrt(MOST_BETTER // len(sizes)), LEAST_BETTER)
    squares = {name: table for name, table in tables.better(fit, most).items() if len(table) > 1}
    note = ""
    if most is not None:
        note = (
            f" Only the {most} models of the best expected ranks are shown of each benchmark, which"
            f" up to {int(sizes.max()):,} answered. All: {in_file('better')}."
        )
    return {"better": squares, "better_note": note}
