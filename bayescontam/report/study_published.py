"""Published: printed figures of a recovery study beside those of a study's run."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.calibration.coverage import ALL
from bayescontam.calibration.results import StudyResults
from bayescontam.names import visible
from bayescontam.report.study_tables import HEAD
from bayescontam.report.words import number
from bayescontam.reproduction.findings import Comparison
from bayescontam.specs.printed import read_published

KINDS = {
    "coverage": "coverage of 95 % intervals",
    "mean": "mean of the estimates",
    "sd": "standard deviation of the estimates",
}
"""What a printed figure may be of a quantity, by the beginning of its name."""


def published_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return the printed figures that a study names, each beside those of every estimator."""
    return [
        {
            "quantity": quantity.replace("_", " "),
            "figure": KINDS[kind],
            "of": str(row["where"]),
            "published": number(row["value"]),
            "source": str(row["source"]),
            "ours": [
                (visible(each.name), _figure(results, kind, quantity, each.name))
                for each in results.spec.estimators
            ],
        }
        for kind, quantity, row in _printed(results)
    ]


def compared(results: StudyResults) -> tuple[Comparison, ...]:
    """Return the printed figures beside ours of the same estimator."""
    found = []
    reason = " ".join(results.spec.reason.split())
    for kind, quantity, row in _printed(results):
        where, source = str(row["where"]), str(row["source"])
        ours = _numbers(results, kind, quantity, where)
        if ours is None:
            continue
        printed = (float(row["value"]), float(row["low"]), float(row["high"]))
        interval = (ours[0], ours[0] - 1.96 * ours[1], ours[0] + 1.96 * ours[1])
        shown = f"{quantity.replace('_', ' ')}, {KINDS[kind]}"
        found.append(Comparison(shown, where, *printed, *interval, reason, source))
    return tuple(found)


def _printed(results: StudyResults) -> Iterator[tuple[str, str, dict[Any, Any]]]:
    """Yield what is printed of a quantity: kind of figure, quantity, row of the table."""
    for row in read_published(results.spec.published).to_dict("records"):
        kind, _, quantity = str(row["quantity"]).partition("_")
        if kind in KINDS:
            yield kind, quantity, row


def _figure(results: StudyResults, kind: str, quantity: str, estimator: str) -> str:
    """Return a figure of an estimator as text; "–" where there is none, or one of each cell."""
    found = _numbers(results, kind, quantity, estimator)
    if found is None:
        return "–"
    figure, error = found
    return number(figure) if np.isnan(error) else f"{number(figure)} ± {number(error)}"


def _numbers(
    results: StudyResults, kind: str, quantity: str, estimator: str
) -> tuple[float, float] | None:
    """Return a figure of an estimator with its Monte Carlo error, NaN where none is worked out."""
    if kind == "coverage":
        table = results.coverage
        own = table[
            (table["counted"] == ALL) & (table["level"] == HEAD) & _of(table, quantity, estimator)
        ]
        if len(own) != 1:
            return None
        return float(own["coverage"].iloc[0]), float(own["mc_se"].iloc[0])
    rows = results.rows
    own = rows[_of(rows, quantity, estimator) & ~rows["audit"]]
    if own["cell"].nunique() != 1:
        return None
    means = own["mean"]
    return float(means.mean() if kind == "mean" else means.std(ddof=1)), np.nan


def _of(table: pd.DataFrame, quantity: str, estimator: str) -> "pd.Series[bool]":
    return (table["quantity"] == quantity) & (table["estimator"] == estimator)
