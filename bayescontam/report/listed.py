"""Listed: the rows of large tables that the page has, and a note on the others."""

from typing import Any

import pandas as pd

from bayescontam.report.words import in_file

MOST_LISTED = 4000
"""Rows of a table of pairs; the headline table has all."""


def listed(table: pd.DataFrame, score: str, file: str) -> dict[str, Any]:
    """Return the rows of a table that the page has."""
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
