"""The page of a scan: what it covered and found, and the distributions of cosines."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam._files import write_text
from bayescontam._format import number, percent
from bayescontam._text import printable
from bayescontam.report import matches
from bayescontam.report.cosine_figures import (
    against_words,
    by_stratum,
    distribution,
    sorted_tops,
)
from bayescontam.report.format import Names, counted, pairs_text, provenance_rows
from bayescontam.report.html import excerpt, fill, sentences
from bayescontam.report.matches import (
    FOUND,
    lexical_columns,
    lexical_name,
    ngram_column,
    place,
)
from bayescontam.report.prevalence_section import prevalence_section
from bayescontam.report.recall_section import recall_section

if TYPE_CHECKING:
    from bayescontam.duplicates.recall import Recalled
    from bayescontam.report.evidence import Evidence
    from bayescontam.scan.results import Scan

CLOSE = 0.9
"""The second cosine at which the verdict line counts items."""
_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""
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
    evidence: "Evidence | None" = None,
    items: pd.DataFrame | None = None,
    by: str | None = None,
    recalled: "Recalled | None" = None,
    beside: "Evidence | None" = None,
) -> None:
    """Write the report of a scan as one HTML file that needs no network."""
    write_text(path, render_scan(scan, evidence, items, by, recalled, beside))


def render_scan(
    scan: "Scan",
    evidence: "Evidence | None" = None,
    items: pd.DataFrame | None = None,
    by: str | None = None,
    recalled: "Recalled | None" = None,
    beside: "Evidence | None" = None,
) -> str:
    """Return the report of a scan as HTML, of less than 5 MB for a scan of any size.

    `beside` is of another curve of the scan, whose prevalence is drawn beside that of `evidence`.
    """
    best = matches.best_matches(scan)
    headline = matches.headline(scan, best)
    prevalence = None if evidence is None else prevalence_section(evidence, items, by, beside)
    content = {
        **_identity(scan, headline),
        **_results(scan, best, headline, evidence),
        "verdict": prevalence["verdict"] if prevalence else verdict(scan, headline),
        "outcome": prevalence["outcome"] if prevalence else "",
        "prevalence": prevalence,
        "planted": None if recalled is None else recall_section(recalled),
        **_background(scan),
    }
    return fill("scan.html", content)


def _identity(scan: "Scan", headline: pd.DataFrame) -> dict[str, Any]:
    """Return names and size."""
    benchmarks = [str(name) for name in headline["benchmark"]]
    names = Names(benchmarks[:MOST_BENCHMARKS], "name-benchmark")
    manifest = _block(scan, "manifest")
    chunks = _block(scan, "search").get("chunks")
    size = f"{counted(benchmarks, 'benchmark')}, {len(scan.items):,} items"
    return {
        "names": {"benchmark": names},
        "changed": [
            (anchor, label, printable(full, 500)) for anchor, label, full in names.changed()
        ],
        "size": f"{size}, {chunks:,} chunks of a corpus" if chunks else size,
        "manifest_name": printable(str(manifest.get("name", "unnamed"))),
        "summary": printable(str(manifest.get("summary", "")), 400),
        "created": printable(str(scan.record.get("created", "")))[:10],
    }


def _results(
    scan: "Scan", best: pd.DataFrame, headline: pd.DataFrame, evidence: "Evidence | None"
) -> dict[str, Any]:
    """Return tables, pictures and texts of what was found."""
    first, further = matches.cards(scan, best, evidence)
    ngram = ngram_column(scan.matches)
    return {
        "headline": headline.head(MOST_BENCHMARKS).to_dict("records"),
        "n_benchmarks": len(headline),
        "best_only": _block(scan, "search").get("backend") == "faiss",
        "levels": matches.LEVELS,
        "found": FOUND,
        "ngram": lexical_name(ngram)[:-1] if ngram else "",
        "pictures": {
            "cosines": distribution(scan, best),
            "tops": sorted_tops(scan, best),
            "strata": by_stratum(scan),
            "lexical": against_words(best),
        },
        "cards": first,
        "further": further,
        "shown": {card["anchor"] for card in first},
        "n_matched": int(best["cosine"].notna().sum()),
    }


def _background(scan: "Scan") -> dict[str, Any]:
    """Return counts, strata, assumptions and provenance."""
    strata = matches.strata(scan)
    reasons = unreadable(scan)
    notes = scan.record.get("notes") or []
    manifest = str(_block(scan, "manifest").get("text", ""))
    return {
        "counts": list(counts(scan)),
        "reasons": reasons[:MOST_REASONS],
        "more_reasons": max(len(reasons) - MOST_REASONS, 0),
        "strata": [
            {**row, "place": place(row["source"], row["stratum"])}
            for row in strata.head(MOST_STRATA).to_dict("records")
        ],
        "n_strata": len(strata),
        "open_strata": len(strata) <= OPEN_STRATA,
        "assumptions": assumptions(scan),
        "notes": [printable(str(note), 500) for note in notes[:MOST_NOTES]],
        "more_notes": max(len(notes) - MOST_NOTES, 0),
        "provenance": provenance(scan),
        "manifest": excerpt(manifest, _MANIFEST, _MANIFEST),
    }


def verdict(scan: "Scan", headline: pd.DataFrame) -> str:
    """Return how many items have close matches, and what that says and does not say."""
    rows = list(headline.to_dict("records"))
    named = [_found(row, _shown(row["benchmark"])) for row in rows[:_MOST_NAMED]]
    if rest := rows[_MOST_NAMED:]:
        columns = ["items", f"at_least_{FOUND}", f"at_least_{CLOSE}"]
        sums = pd.DataFrame(rest)[columns].sum().to_dict()
        named.append(_found(sums, f"{len(rest):,} more benchmarks"))
    return (
        f"Items with a match at a cosine of {FOUND:g} or more: {'; '.join(named)}. This is"
        " likeness, not yet duplication: whether a match is a duplicate is for judging to say. An"
        f" item without such a match is not clean for sure: {_unseen(scan)}."
    )


def _found(row: dict[Any, Any], where: str) -> str:
    close, very = int(row[f"at_least_{FOUND}"]), int(row[f"at_least_{CLOSE}"])
    return f"{close:,} of {int(row['items']):,} of {where} ({very:,} at {CLOSE:g} or more)"


def _shown(name: object) -> str:
    return f"'{printable(str(name), 40)}'"


def _unseen(scan: "Scan") -> str:
    share, index = searched_share(scan), _block(scan, "search").get("index")
    reasons = ["a duplicate in other words may have a lower cosine"]
    if index is not None:
        known = index["recall"] is not None
        found = f"about {percent(index['recall'])}" if known else "an unknown share"
        reasons.insert(0, f"the index found {found} of the best matches")
    if share is not None and share < 1:
        reasons.insert(0, f"only {percent(share)} of the documents were searched")
    return ", and ".join(reasons)


def sampled_share(scan: "Scan") -> float | None:
    """Return the share of readable documents that were sampled; None if not recorded."""
    documents = _block(scan, "documents")
    read, sampled = documents.get("read"), documents.get("sampled")
    return sampled / read if read and sampled is not None else None


def searched_share(scan: "Scan") -> float | None:
    """Return the share of readable documents that were searched: sampled and not short."""
    documents, share = _block(scan, "documents"), sampled_share(scan)
    return share if share is None else share - documents.get("short", 0) / documents["read"]


def counts(scan: "Scan") -> Iterator[tuple[str, str, str]]:
    """Yield what was counted, how many, and what became of them, from reading to search."""
    documents, chunks, search = (_block(scan, key) for key in ("documents", "chunks", "search"))
    unreadable = documents.get("unreadable") or {}
    share = sampled_share(scan)
    if "read" in documents:
        yield "Documents read", number(documents["read"], 0), _megabytes(documents)
        yield "Unreadable records", number(sum(unreadable.values()), 0), "left out, see below"
    if share is not None:
        sampled = number(documents["sampled"], 0)
        yield "Documents sampled", sampled, f"{percent(share)} of those read"
    if "short" in documents:
        yield "Short documents", number(documents["short"], 0), _short(scan)
    if "made" in chunks:
        yield "Chunks", number(chunks["made"], 0), "documents, or pieces of long ones"
    if chunks.get("made") and chunks.get("distinct"):
        copies = chunks["made"] - chunks["distinct"]
        yield "Distinct chunks", number(chunks["distinct"], 0), "with a text of their own"
        yield "Copies", number(copies, 0), "chunks with the text of another: dropped"
    if chunks.get("short_pieces"):
        yield "Short pieces", number(chunks["short_pieces"], 0), "ends of documents, not searched"
    yield "Items", number(len(scan.items), 0), "looked for"
    if "pairs" in search:
        weight = search.get("index", {}).get("weight", 1)
        how = f", estimated from one in {weight:,} chunks" if weight > 1 else ""
        yield "Cosines", number(search["pairs"], 0), f"pairs of item and chunk, copies counted{how}"
    each = "each item in each source" if scan.by_source else "each item"
    yield "Matches stored", number(len(scan.matches), 0), _stored(search, each)
    if search.get("backend") != "faiss":
        yield "Tail sample", number(len(scan.tail), 0), _tail(search, each)


def _short(scan: "Scan") -> str:
    """Return which share of the sample is short and was not searched."""
    rows = list(_block(scan, "short").values())
    documents, tokens = (sum(row[name] for row in rows) for name in ("documents", "tokens"))
    if not documents:
        return "of the sample, not searched"
    return (
        f"{percent(sum(row['short'] for row in rows) / documents)} of the sample, with"
        f" {percent(sum(row['short_tokens'] for row in rows) / max(tokens, 1))} of its tokens;"
        " not searched"
    )


def _by_source(scan: "Scan") -> str:
    """Return the shares of the sources' documents that are short, where there are several."""
    rows = {name: row for name, row in _block(scan, "short").items() if row["documents"]}
    if len(rows) < 2:
        return ""
    shares = sorted(((row["short"] / row["documents"], name) for name, row in rows.items()))[::-1]
    named = [f"{percent(share)} of {_shown(name)}" for share, name in shares[:_MOST_NAMED]]
    return f" (documents: {', '.join(named)}{', …' if len(shares) > len(named) else ''})"


def _megabytes(documents: dict[str, Any]) -> str:
    return f"{documents['bytes'] / 1e6:,.1f} MB of files" if documents.get("bytes") else ""


def _stored(search: dict[str, Any], each: str) -> str:
    return f"the {search['top_k']:,} best of {each}" if "top_k" in search else ""


def _tail(search: dict[str, Any], each: str) -> str:
    if not {"tail_share", "tail_size"} <= set(search):
        return ""
    return (
        f"up to {search['tail_size']:,} of {each}, drawn at random from the"
        f" {100 * search['tail_share']:g} % with the highest cosines"
    )


def unreadable(scan: "Scan") -> list[tuple[str, int]]:
    """Return the reasons why records could not be read, the most frequent first."""
    reasons = _block(scan, "documents").get("unreadable") or {}
    rows = ((printable(str(reason), 200), int(count)) for reason, count in reasons.items())
    return sorted(rows, key=lambda row: -row[1])


def assumptions(scan: "Scan") -> list[str]:
    """Return what a reader must know of the cosines, the sample and what was cut."""
    looked_for: dict[str, list[str]] = {}
    for row in (scan.record.get("benchmarks") or [])[:50]:
        own, name = row.get("by_source") or {}, _shown(row["benchmark"])
        looked_for.setdefault(str(row.get("text_mode", "")), []).append(
            f"{name} outside {', '.join(map(_shown, own))}" if own else name
        )
        for source, mode in own.items():
            looked_for.setdefault(str(mode), []).append(f"{name} in {_shown(source)}")
    return sentences(
        "scan_assumptions",
        **{name: _block(scan, name) for name in ("embedder", "documents", "chunks")},
        looked_for=looked_for,
        sampled=sampled_share(scan),
        seed=scan.record.get("seed", "not recorded"),
        n_items=len(scan.items),
        n_cut=int(scan.items["cut"].fillna(False).sum()) if "cut" in scan.items else 0,
        by_source=_by_source(scan),
        lexical=len(scan.matches) > 0 and bool(lexical_columns(scan.matches)),
        apart=scan.by_source,
    )


def provenance(scan: "Scan") -> list[tuple[str, str]]:
    """Return where the scan comes from: manifest, embedder, seed, versions, times."""
    record, manifest = scan.record, _block(scan, "manifest")
    seconds = {
        name: f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"
        for name, value in _block(scan, "seconds").items()
    }
    return provenance_rows(
        {
            "Manifest": f"{manifest.get('name', '–')} (SHA-256 {manifest.get('hash', '–')})",
            "What is scanned": manifest.get("summary"),
            "Command": record.get("command") or "not recorded (made from Python)",
            "Made": record.get("created"),
            "Time": ", ".join(f"{name} {value}" for name, value in seconds.items()),
            "Embedder": pairs_text(_block(scan, "embedder")),
            "Search": pairs_text(_block(scan, "search")),
            "Seed": record.get("seed"),
            "Versions": pairs_text(_block(scan, "versions")),
            "bayescontam": record.get("version"),
            "Folder": scan.folder,
        },
        longest=2_000,
    )


def _block(scan: "Scan", key: str) -> dict[str, Any]:
    """Return a block of the record; an empty one where it was not recorded."""
    return scan.record.get(key) or {}
