"""Page of a study: one HTML file that says how often intervals hold the truth."""

import json
import os
from pathlib import Path
from typing import Any

from bayescontam.calibration.coverage import COUNTED
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.rows import LEVELS
from bayescontam.names import visible
from bayescontam.report import rank_figures, study_figures, study_tables, study_words
from bayescontam.report.study_published import published_rows
from bayescontam.report.template import fill
from bayescontam.report.words import paragraphs
from bayescontam.storage import write_text

PAGE = "index.html"


def write_study_report(
    folder: str | os.PathLike[str], page: str | os.PathLike[str] | None = None
) -> StudyResults:
    """Write ``coverage.csv``, ``sbc.csv`` and the page of a study's run.

    The run may be going on: the files say how far it is.
    """
    results = StudyResults.load(folder)
    results.write_tables(folder)
    write_text(Path(folder, PAGE) if page is None else Path(page), render_study(results))
    return results


def render_study(results: StudyResults) -> str:
    """Return the page of a study as HTML."""
    outcome, sentence = study_words.verdict(results)
    coverage = study_tables.coverage_rows(results)
    reasons = study_tables.reason_rows(results)
    failures = study_tables.failure_rows(results)
    spec, record = results.spec, results.record
    content = {
        "study_name": visible(str(record["name"])),
        "summary": visible(spec.summary, 400),
        "question": visible(" ".join(spec.description.split()), 4000),
        "meaning": paragraphs(spec.meaning),
        "limits": paragraphs(spec.limits),
        "size": _size(results),
        "verdict": sentence,
        "outcome": outcome.value,
        "design": list(study_words.design(spec)),
        "levels": LEVELS,
        "coverage": coverage[: study_tables.MOST_ROWS],
        "n_coverage": len(coverage),
        "several_cells": len(record["cells"]) > 1,
        "several_estimators": len(spec.estimators) > 1,
        "head": f"{study_tables.HEAD * 100:g} %",
        "off": f"{study_tables.OFF:g}",
        "counted": COUNTED,
        "failures": failures[: study_tables.MOST_ROWS],
        "n_failures": len(failures),
        "published": published_rows(results),
        "sbc": results.sbc.head(study_tables.MOST_RANKED).to_dict("records"),
        "n_sbc": len(results.sbc),
        "fits": study_tables.fit_rows(results),
        "reasons": reasons[: study_tables.MOST_REASONS],
        "n_reasons": len(reasons),
        "audits": results.audits.to_dict("records"),
        "pictures": {
            "coverage": study_figures.coverage(results),
            "widths": study_figures.widths(results),
            "ecdf": rank_figures.differences(results),
            "levels": rank_figures.levels(results),
        },
        "provenance": _provenance(results),
        "spec_text": results.text,
    }
    return fill("study.html", content)


def _size(results: StudyResults) -> str:
    record = results.record
    cells, estimators = len(record["cells"]), len(results.spec.estimators)
    parts = [
        f"{results.planned:,} simulated tables",
        f"{cells:,} cells" if cells > 1 else "",
        f"{estimators} estimator{'' if estimators == 1 else 's'}",
        f"{len(results.fits[~results.fits['audit']]):,} fits so far",
    ]
    return ", ".join(part for part in parts if part)


def _provenance(results: StudyResults) -> list[tuple[str, str]]:
    """Return where the results come from: study, runs, versions."""
    record = results.record
    runs: list[dict[str, Any]] = record["runs"]
    last = runs[-1] if runs else {}
    # All that rows may have been made by: a run may have gone on after an upgrade.
    versions = "; then ".join(
        dict.fromkeys(
            ", ".join(f"{name} {value}" for name, value in run.get("versions", {}).items())
            for run in runs
        )
    )
    hashes = ", ".join(
        f"{name} {each['hash'][:12]}"
        for name, each in record.get("estimators", {}).items()
        if each.get("hash")
    )
    started = ", ".join(str(run.get("started", "")) for run in runs)
    rows = [
        ("Study", f"{record['name']} (SHA-256 with its model specs: {record['hash']})"),
        ("Model specs", hashes),
        ("Started", started),
        ("Command", str(last.get("command", "")) or "not recorded (run from Python)"),
        ("Seeds", "each follows from the study's hash, the cell and the number of the table"),
        ("Versions", versions),
        ("Reported on", json.dumps(len(results.rows)) + " rows"),
    ]
    return [(name, visible(value, 20_000)) for name, value in rows if value]
