"""Tables of a study, and published figures beside its own."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._format import number
from bayescontam._text import printable
from bayescontam.calibration.coverage import ALL, COUNTED
from bayescontam.calibration.findings import HEAD
from bayescontam.calibration.results import StudyResults
from bayescontam.data.published_tables import read_published
from bayescontam.model.effect_names import effect_words
from bayescontam.published.findings import Comparison

_NUMBERS = re.compile(r"\s*\d[\d.,]*(e[+-]?\d+)?\s*%?|\([^)]*\)")
KINDS = {
    "coverage": "coverage of 95 % intervals",
    "mean": "mean of the estimates",
    "sd": "standard deviation of the estimates",
}
"""What a printed figure may be of a quantity, by the beginning of its name."""


def failure_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return coverage counted in three ways, of whatever has failed fits."""
    table = results.coverage[results.coverage["level"] == HEAD]
    wide = table.pivot(
        index=["cell", "quantity", "estimator"], columns="counted", values="coverage"
    )
    counts = table[table["counted"] == ALL].set_index(["cell", "quantity", "estimator"])
    failed = counts.index[counts["n_failed"] > 0]
    return [
        {
            **dict(zip(("cell", "quantity", "estimator"), key, strict=True)),
            "n": int(counts.loc[key, "n"]),
            "n_failed": int(counts.loc[key, "n_failed"]),
            "coverages": [float(wide.loc[key].get(name, np.nan)) for name in COUNTED],
        }
        for key in failed
    ]


def fit_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return for each estimator and engine how many fits there are, and how long they took."""
    rows = []
    keys = ["estimator", "engine", "audit"]
    for (estimator, engine, audit), part in results.fits.groupby(keys, sort=False, observed=True):
        counts = part["status"].value_counts()
        rows.append(
            {
                "estimator": estimator,
                "engine": f"{engine} (audit)" if audit else engine,
                "fits": len(part),
                **{name: int(counts.get(name, 0)) for name in ("passed", "rerun", "failed")},
                "median": float(part["seconds"].median()),
                "longest": float(part["seconds"].max()),
                "total": float(part["seconds"].sum()),
            }
        )
    return rows


def reason_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return what gates were not passed, the most frequent first."""
    fits = results.fits
    bad = fits[(fits["status"] != "passed") & ~fits["audit"]]
    reasons = [
        {"estimator": row.estimator, "status": row.status, "kind": kind, "example": example}
        for row in bad.itertuples()
        for kind, example in _kinds(str(row.reason)).items()
    ]
    if not reasons:
        return []
    groups = pd.DataFrame(reasons).groupby(["estimator", "status", "kind"], sort=False)
    table = groups["example"].agg(["size", "first"]).reset_index()
    table = table.sort_values(["size", "estimator", "kind"], ascending=[False, True, True])
    return [
        {
            "estimator": row["estimator"],
            "status": row["status"],
            "kind": printable(str(row["kind"]), 80),
            "fits": int(row["size"]),
            "example": printable(str(row["first"]), 200),
        }
        for row in table.to_dict("records")
    ]


def _kinds(reason: str) -> dict[str, str]:
    """Return the kinds of faults in a reason, each with its text.

    >>> _kinds("R-hat 1.05 of mu (1); then, for longer: ESS 7 of mu (2); 3.0% of draws diverged")
    {'ESS of mu': 'ESS 7 of mu (2)', 'of draws diverged': '3.0% of draws diverged'}
    """
    last = reason.rpartition("then, for longer: ")[2]
    parts = [part for part in last.split("; ") if part] or ["no reason was given"]
    return {" ".join(_NUMBERS.sub(" ", part).split()): part for part in parts}


def published_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return the printed figures that a study names, each beside those of every estimator."""
    return [
        {
            "quantity": effect_words(quantity),
            "figure": KINDS[kind],
            "of": str(row["where"]),
            "published": number(row["value"]),
            "source": str(row["source"]),
            "ours": [
                (printable(each.name), _figure(results, kind, quantity, each.name))
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
        shown = f"{effect_words(quantity)}, {KINDS[kind]}"
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
