"""Comparison: printed numbers beside ours, as text."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.calibration.record import RECORD as RESULTS
from bayescontam.calibration.results import StudyResults
from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.report import words
from bayescontam.report.study_published import compared
from bayescontam.reproduction.findings import APART, INSIDE, NO_INTERVAL, OVERLAP
from bayescontam.reproduction.record import Record, comparison_table

_PILLS = {
    INSIDE: "passed",
    OVERLAP: "caution",
    APART: "opposite sign",
    NO_INTERVAL: "no variation",
}


def comparison_of(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the printed numbers beside ours of a reproduction, or of a simulation study."""
    place = Path(folder)
    if not (place / RESULTS).exists():
        return Record.load(place).comparison()
    results = StudyResults.load(place)
    found = compared(results)
    if not found:
        raise UsageError(f"{visible(str(place))}: is of a study of which nothing is printed")
    return comparison_table(str(results.record["name"]), found)


def comparison_lines(tables: Sequence[pd.DataFrame]) -> list[str]:
    """Return the printed numbers beside ours as a Markdown table."""
    names = ["study", "quantity", "published", "ours", "agreement", "reason for difference"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for table in tables:
        for row in table.to_dict("records"):
            cells = cells_of(row)
            quantity = ", ".join(part for part in (cells["quantity"], cells["where"]) if part)
            line = [f"`{row['study']}`", quantity, cells["published"], cells["ours"]]
            line += [cells["agreement"], cells["reason"]]
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |")
    return lines


def cells_of(row: dict[Any, Any]) -> dict[str, str]:
    """Return a row of `comparison_of` as text: its cells, and the class of its agreement."""
    pairs = {"published": "published", "ours": "ours"}
    numbers = {
        name: " ".join(
            part
            for part in (figure(row[stem]), _interval(row[f"{stem}_low"], row[f"{stem}_high"]))
            if part
        )
        for name, stem in pairs.items()
    }
    texts = {name: visible(str(row[name]), 1000) for name in ("quantity", "where", "reason")}
    agreement = str(row["agreement"])
    return {**texts, **numbers, "agreement": agreement, "pill": _PILLS[agreement]}


def figure(value: float) -> str:
    """Return a number with as many decimals as its size requires; "–" where there is none."""
    return "–" if pd.isna(value) else words.number(value, _digits(value))


def _interval(low: float, high: float) -> str:
    if pd.isna(low) or pd.isna(high):
        return ""
    digits = max(_digits(low), _digits(high))
    return words.interval(low, high, digits)


def _digits(value: float) -> int:
    return 3 if abs(value) < 10 else 1
