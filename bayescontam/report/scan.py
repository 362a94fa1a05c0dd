"""Page of a scan: one HTML file that shows what was searched and what was found."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam.names import visible
from bayescontam.report import cosines, lexical, matches, scope, words
from bayescontam.report.cards import cards, place
from bayescontam.report.evidence import Evidence
from bayescontam.report.excerpts import excerpt
from bayescontam.report.prevalence import prevalence_section
from bayescontam.report.template import fill
from bayescontam.storage import write_text

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan

MOST_BENCHMARKS, MOST_STRATA, MOST_REASONS, MOST_NOTES = 100, 200, 50, 50
"""Rows of tables and lists on the page, which stays small for a scan of any size."""
OPEN_STRATA = 20
"""Strata up to which their table is unfolded."""
_MANIFEST = 20_000
"""Characters of the manifest that are shown."""


def write_scan_report(
    scan: "Scan",
    path: str | os.PathLike[str],
    *,
    evidence: Evidence | None = None,
    items: pd.DataFrame | None = None,
    by: str | None = None,
) -> None:
    """Write the report of a scan as one HTML file that needs no network."""
    write_text(path, render_scan(scan, evidence, items, by))


def render_scan(
    scan: "Scan",
    evidence: Evidence | None = None,
    items: pd.DataFrame | None = None,
    by: str | None = None,
) -> str:
    """Return the report of a scan as HTML, of less than 5 MB for a scan of any size."""
    best = matches.best_matches(scan)
    headline = matches.headline(scan, best)
    prevalence = None if evidence is None else prevalence_section(evidence, items, by)
    content = {
        **_identity(scan, headline),
        **_results(scan, best, headline, evidence),
        "verdict": prevalence["verdict"] if prevalence else scope.verdict(scan, headline),
        "outcome": prevalence["outcome"] if prevalence else "",
        "prevalence": prevalence,
        **_background(scan),
    }
    return fill("scan.html", content)


def _identity(scan: "Scan", headline: pd.DataFrame) -> dict[str, Any]:
    """Return names and size."""
    benchmarks = [str(name) for name in headline["benchmark"]]
    names = words.Names(benchmarks[:MOST_BENCHMARKS], "name-benchmark")
    manifest = scan.record.get("manifest") or {}
    chunks = (scan.record.get("search") or {}).get("chunks")
    size = f"{words.counted(benchmarks, 'benchmark')}, {len(scan.items):,} items"
    return {
        "names": {"benchmark": names},
        "changed": [(anchor, label, visible(full, 500)) for anchor, label, full in names.changed()],
        "size": f"{size}, {chunks:,} chunks of a corpus" if chunks else size,
        "manifest_name": visible(str(manifest.get("name", "unnamed"))),
        "summary": visible(str(manifest.get("summary", "")), 400),
        "created": visible(str(scan.record.get("created", "")))[:10],
    }


def _results(
    scan: "Scan", best: pd.DataFrame, headline: pd.DataFrame, evidence: Evidence | None
) -> dict[str, Any]:
    """Return tables, pictures and texts of what was found."""
    first, further = cards(scan, best, evidence)
    ngram = matches.ngram_column(scan.matches)
    return {
        "headline": headline.head(MOST_BENCHMARKS).to_dict("records"),
        "n_benchmarks": len(headline),
        "levels": matches.LEVELS,
        "found": matches.FOUND,
        "ngram": matches.lexical_name(ngram)[:-1] if ngram else "",
        "pictures": {
            "cosines": cosines.distribution(scan, best),
            "tops": cosines.sorted_tops(scan, best),
            "strata": cosines.by_stratum(scan),
            "lexical": lexical.against_words(best),
        },
        "cards": first,
        "further": further,
        "shown": {card["anchor"] for card in first},
        "n_matched": int(best["cosine"].notna().sum()),
    }


def _background(scan: "Scan") -> dict[str, Any]:
    """Return counts, strata, assumptions and provenance."""
    strata = matches.strata(scan)
    reasons = scope.unreadable(scan)
    notes = scan.record.get("notes") or []
    manifest = str((scan.record.get("manifest") or {}).get("text", ""))
    return {
        "counts": list(scope.counts(scan)),
        "reasons": reasons[:MOST_REASONS],
        "more_reasons": _more(reasons, MOST_REASONS),
        "strata": [
            {**row, "place": place(row["source"], row["stratum"])}
            for row in strata.head(MOST_STRATA).to_dict("records")
        ],
        "n_strata": len(strata),
        "open_strata": len(strata) <= OPEN_STRATA,
        "assumptions": list(scope.assumptions(scan)),
        "notes": [visible(str(note), 500) for note in notes[:MOST_NOTES]],
        "more_notes": _more(notes, MOST_NOTES),
        "provenance": scope.provenance(scan),
        "manifest": excerpt(manifest, _MANIFEST, _MANIFEST),
    }


def _more(rows: Sequence[object], most: int) -> int:
    """Return how many rows the page has no room for."""
    return max(len(rows) - most, 0)
