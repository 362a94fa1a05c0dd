"""Page of a reproduction: a short article that sets our results beside the printed ones."""

import os
import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.names import visible
from bayescontam.report import words
from bayescontam.report.comparison import cells_of, figure
from bayescontam.report.reproduction_figures import drawn
from bayescontam.report.template import fill
from bayescontam.reproduction.findings import APART, INSIDE, NO_INTERVAL, OVERLAP
from bayescontam.reproduction.record import Record, slug
from bayescontam.storage import write_text

PAGE = "index.html"
MOST_ROWS = 60
"""Rows of a table on the page; its CSV file has all."""
_ORDER = (INSIDE, OVERLAP, APART, NO_INTERVAL)


def write_reproduction_report(
    folder: str | os.PathLike[str], page: str | os.PathLike[str] | None = None
) -> Record:
    """Write the page of a reproduction."""
    record = Record.load(Path(folder))
    write_text(Path(folder, PAGE) if page is None else Path(page), render_reproduction(record))
    return record


def render_reproduction(record: Record) -> str:
    """Return the page of a reproduction as HTML."""
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
        "comparisons": [cells_of(each) for each in record.comparison().to_dict("records")],
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


def _tally(record: Record) -> str:
    """Return how many numbers agree, in words."""
    found = [each.agreement for each in record.findings.comparisons]
    counts = [(found.count(kind), kind) for kind in _ORDER if kind in found]
    tally = ", ".join(f"{count} {kind}" for count, kind in counts)
    return f"Of {len(found)} comparisons: {tally}." if found else ""


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
            cells.append((figure(value), True))
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
