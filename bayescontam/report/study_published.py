"""Published: printed figures of a recovery study beside those of a study's run."""

from typing import Any

import pandas as pd

from bayescontam.calibration.coverage import ALL
from bayescontam.calibration.results import Results
from bayescontam.names import visible
from bayescontam.report.study_tables import HEAD
from bayescontam.report.words import number
from bayescontam.reproduction.printed import read_published

KINDS = {
    "coverage": "coverage of 95 % intervals",
    "mean": "mean of the estimates",
    "sd": "standard deviation of the estimates",
}
"""What a printed figure may be of a quantity, by the beginning of its name."""


def published_rows(results: Results) -> list[dict[str, Any]]:
    """Return the printed figures that a study names, each beside those of every estimator.

    Parameters
    ----------
    results : Results

    Returns
    -------
    list of dict
        ``quantity``, ``figure`` (what is told of it), ``of`` (the estimator that the printed
        figure is of), ``published``, ``source``, and ``ours``: for each estimator its name
        and its figure. Empty where the study names none.

    Raises
    ------
    UsageError, DataError
        If the table of printed figures is not there, or cannot be used.
    """
    rows = []
    for row in read_published(results.spec.published).to_dict("records"):
        kind, _, quantity = str(row["quantity"]).partition("_")
        if kind not in KINDS:
            continue
        ours = [
            (visible(each.name), _figure(results, kind, quantity, each.name))
            for each in results.spec.estimators
        ]
        rows.append(
            {
                "quantity": quantity.replace("_", " "),
                "figure": KINDS[kind],
                "of": str(row["where"]),
                "published": number(row["value"]),
                "source": str(row["source"]),
                "ours": ours,
            }
        )
    return rows


def _figure(results: Results, kind: str, quantity: str, estimator: str) -> str:
    """Return a figure of an estimator as text; "–" where there is none, or one of each cell."""
    if kind == "coverage":
        table = results.coverage
        own = table[
            (table["counted"] == ALL) & (table["level"] == HEAD) & _of(table, quantity, estimator)
        ]
        if len(own) != 1:
            return "–"
        return f"{number(own['coverage'].iloc[0])} ± {number(own['mc_se'].iloc[0])}"
    rows = results.rows
    own = rows[_of(rows, quantity, estimator) & ~rows["audit"]]
    if own["cell"].nunique() != 1:
        return "–"
    means = own["mean"]
    return number(means.mean() if kind == "mean" else means.std(ddof=1))


def _of(table: pd.DataFrame, quantity: str, estimator: str) -> "pd.Series[bool]":
    return (table["quantity"] == quantity) & (table["estimator"] == estimator)
