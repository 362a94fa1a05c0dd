"""Listed: the rows of large tables that the page has, and a note on the others."""

from typing import Any

import pandas as pd

from bayescontam.report.words import in_file

MOST_LISTED = 4000
"""Rows of a table of pairs; the headline table has all."""


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
        a note on those left out, empty if none is.
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
