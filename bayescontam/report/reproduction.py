"""Page of a reproduction: a short article that sets our results beside the printed ones."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.calibration.results import RECORD as RESULTS
from bayescontam.calibration.results import Results
from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.report import words
from bayescontam.report.reproduction_figures import drawn
from bayescontam.report.study_published import compared
from bayescontam.report.template import fill
from bayescontam.reproduction.findings import APART, INSIDE, NO_INTERVAL, OVERLAP
from bayescontam.reproduction.record import Record, comparison_table, slug
from bayescontam.storage import write_text

PAGE = "index.html"
MOST_ROWS = 60
"""Rows of a table on the page; its CSV file has all."""
_ORDER = (INSIDE, OVERLAP, APART, NO_INTERVAL)
_PILLS = {INSIDE: "passed", OVERLAP: "caution", APART: "unsettled", NO_INTERVAL: "no variation"}


def write_reproduction_report(folder: str | os.PathLike[str]) -> Record:
    """Write ``index.html`` into the folder of a reproduction.

    Parameters
    ----------
    folder : path-like
        What `bayescontam.reproduction.run.run_reproduction` wrote to.

    Returns
    -------
    Record

    Raises
    ------
    UsageError
        If the folder holds no finished reproduction, or cannot be written to.
    """
    record = Record.load(Path(folder))
    write_text(Path(folder, PAGE), render_reproduction(record))
    return record


def render_reproduction(record: Record) -> str:
    """Return the page of a reproduction as HTML.

    Parameters
    ----------
    record : Record

    Returns
    -------
    str
    """
    spec, findings = record.spec, record.findings
    pictures = [drawn(each, f"picture-{k + 1}") for k, each in enumerate(findings.pictures)]
    content = {
        "study_name": visible(record.name),
        "summary": visible(spec.summary, 400),
        "headline": visible(findings.headline, 2000),
        "question": words.paragraphs(spec.question),
        "data": words.paragraphs(spec.data),
        "model": words.paragraphs(spec.model),
        "meaning": words.paragraphs(spec.meaning),
        "limits": words.paragraphs(spec.limits),
        "pictures": [picture for picture in pictures if picture is not None],
        "comparisons": [_row(each) for each in record.comparison().to_dict("records")],
        "tally": _tally(record),
        "sources": _sources(record),
        "tables": [
            {
                "title": visible(each.title, 200),
                "caption": visible(each.caption, 2000),
                "file": f"{slug(each.title)}.csv",
                "header": [str(name).replace("_", " ") for name in each.table.columns],
                "rows": [_cells(row) for row in each.table.head(MOST_ROWS).itertuples(index=False)],
                "n": len(each.table),
            }
            for each in findings.tables
        ],
        "notes": [visible(note, 2000) for note in findings.notes],
        "provenance": _provenance(record),
        "spec_text": record.text,
    }
    return fill("reproduction.html", content)


def comparison_of(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the printed numbers beside ours of a reproduction, or of a simulation study.

    Parameters
    ----------
    folder : path-like
        What `bayescontam study run` wrote to.

    Returns
    -------
    pandas.DataFrame
        See `bayescontam.reproduction.record.Record.comparison`.

    Raises
    ------
    UsageError
        If the folder holds neither, or a simulation of which nothing is printed.
    """
    place = Path(folder)
    if not (place / RESULTS).exists():
        return Record.load(place).comparison()
    results = Results.load(place)
    found = compared(results)
    if not found:
        raise UsageError(f"{visible(str(place))}: is of a study of which nothing is printed")
    return comparison_table(str(results.record["name"]), found)


def comparison_lines(tables: Sequence[pd.DataFrame]) -> list[str]:
    """Return the printed numbers beside ours as a Markdown table.

    Parameters
    ----------
    tables : sequence of pandas.DataFrame
        From `comparison_of`.

    Returns
    -------
    list of str
        Lines ``study | quantity | published | ours | agreement | reason for difference``.
    """
    names = ["study", "quantity", "published", "ours", "agreement", "reason for difference"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for table in tables:
        for row in table.to_dict("records"):
            cells = _row(row)
            quantity = ", ".join(part for part in (cells["quantity"], cells["where"]) if part)
            line = [f"`{row['study']}`", quantity, cells["published"], cells["ours"]]
            line += [cells["agreement"], cells["reason"]]
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |")
    return lines


def _row(row: dict[Any, Any]) -> dict[str, str]:
    """Return a comparison as text."""
    pairs = {"published": "published", "ours": "ours"}
    numbers = {
        name: " ".join(
            part
            for part in (_number(row[stem]), _interval(row[f"{stem}_low"], row[f"{stem}_high"]))
            if part
        )
        for name, stem in pairs.items()
    }
    texts = {name: visible(str(row[name]), 1000) for name in ("quantity", "where", "reason")}
    agreement = str(row["agreement"])
    return {**texts, **numbers, "agreement": agreement, "pill": _PILLS[agreement]}


def _number(value: float) -> str:
    return "–" if pd.isna(value) else words.number(value, _digits(value))


def _interval(low: float, high: float) -> str:
    if pd.isna(low) or pd.isna(high):
        return ""
    digits = max(_digits(low), _digits(high))
    return words.interval(low, high, digits)


def _digits(value: float) -> int:
    return 3 if abs(value) < 10 else 1


def _tally(record: Record) -> str:
    """Return how many numbers agree, in words."""
    found = [each.agreement for each in record.findings.comparisons]
    counts = [(found.count(kind), kind) for kind in _ORDER if kind in found]
    told = ", ".join(f"{count} {kind}" for count, kind in counts)
    return f"Of {len(found)} comparisons: {told}." if found else ""


def _sources(record: Record) -> list[str]:
    """Return where the printed numbers stand, each place once."""
    found = (each.source for each in record.findings.comparisons)
    return [visible(source, 1000) for source in dict.fromkeys(found) if source]


def _cells(row: Any) -> list[tuple[str, bool]]:
    """Return the cells of a row as text; numbers are marked, to be set right."""
    cells = []
    for value in row:
        if isinstance(value, bool):
            cells.append(("yes" if value else "no", False))
        elif value is None or (isinstance(value, float) and pd.isna(value)):
            cells.append(("–", True))
        elif isinstance(value, int):
            cells.append((words.number(value, 0), True))
        elif isinstance(value, float):
            cells.append((_number(value), True))
        else:
            cells.append((visible(str(value), 400), False))
    return cells


def _provenance(record: Record) -> list[tuple[str, str]]:
    """Return where the results come from."""
    last = record.runs[-1]
    versions = ", ".join(f"{name} {value}" for name, value in last["versions"].items())
    again = f"bayescontam study run {shlex.quote(record.name)} --out DIR"
    rows = [
        ("Study", f"{record.name} (SHA-256 {record.spec.hash})"),
        ("Command", last["command"] or f"run from Python; on the command line: {again}"),
        ("Size", "full (--full)" if last["full"] else "default"),
        ("Tables not shipped", "a folder was given" if last["data"] else "none were given"),
        ("Started", f"{last['started']}, {last['seconds']:.0f} s"),
        ("Runs", f"{len(record.runs)}; finished fits of earlier ones are used again"),
        ("Seed", str(last["seed"])),
        ("Versions", versions),
    ]
    return [(name, visible(value, 20_000)) for name, value in rows]
