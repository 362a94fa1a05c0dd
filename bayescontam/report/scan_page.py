"""The page of a scan: what it covered and found, and what it cannot show."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.report import format as words
from bayescontam.report import matches
from bayescontam.report import scan_figures as cosines
from bayescontam.report import scan_figures as lexical
from bayescontam.report.format import number, percent
from bayescontam.report.html import excerpt, fill
from bayescontam.report.matches import FOUND, Evidence, cards, lexical_columns, place
from bayescontam.report.prevalence import prevalence_section

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan


CLOSE = 0.9
"""The second cosine at which the verdict line counts items."""
_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""
_MODES = {
    "input": "the question only",
    "output": "the answer only",
    "input_output": "question and answer together",
}
MOST_BENCHMARKS, MOST_STRATA, MOST_REASONS, MOST_NOTES = 100, 200, 50, 50
"""Rows of tables and lists on the page, which stays small for a scan of any size."""
OPEN_STRATA = 20
"""Strata up to which their table is unfolded."""
_MANIFEST = 20_000
"""Characters of the manifest that are shown."""


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
    share = searched_share(scan)
    if share is None or share >= 1:
        return "a duplicate in other words may have a lower cosine"
    return (
        f"only {percent(share)} of the documents were searched, and a duplicate in other words"
        " may have a lower cosine"
    )


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
        yield (
            "Documents sampled",
            number(documents["sampled"], 0),
            f"{percent(share)} of those read",
        )
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
        yield "Cosines", number(search["pairs"], 0), "pairs of item and chunk, copies counted"
    yield "Matches stored", number(len(scan.matches), 0), _stored(search)
    yield "Tail sample", number(len(scan.tail), 0), _tail(search)


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


def _stored(search: dict[str, Any]) -> str:
    return f"the {search['top_k']:,} best of each item" if "top_k" in search else ""


def _tail(search: dict[str, Any]) -> str:
    if not {"tail_share", "tail_size"} <= set(search):
        return ""
    return (
        f"up to {search['tail_size']:,} of each item, drawn at random from the"
        f" {100 * search['tail_share']:g} % with the highest cosines"
    )


def unreadable(scan: "Scan") -> list[tuple[str, int]]:
    """Return the reasons why records could not be read, the most frequent first."""
    reasons = _block(scan, "documents").get("unreadable") or {}
    return sorted(
        ((printable(str(k), 200), int(v)) for k, v in reasons.items()), key=lambda r: -r[1]
    )


def assumptions(scan: "Scan") -> Iterator[str]:
    """Yield what a reader must know of the cosines, the sample and what was cut."""
    embedder = _block(scan, "embedder")
    model = printable(str(embedder.get("model", "an embedder that is not recorded")), 200)
    yield (
        f"A cosine is the likeness of two texts as the embedder ({model}) sees it, 1 at"
        " most. Topic, form and wording all count. The same value means something else with"
        " another embedder, or for texts of another length."
    )
    yield from _modes(scan)
    yield from _sample(scan)
    yield from _cuts(scan)
    yield (
        "Chunks with the same text are one match; 'copies' says how many there are, and the place"
        " that is named is one of them. In distributions every copy counts."
    )
    if len(scan.matches) and lexical_columns(scan.matches):
        yield (
            "Shared words were counted for the matches only. They show what a search for n-grams"
            " would make of these matches, not what it would find elsewhere."
        )
    if embedder.get("precision") not in (None, "fp32", "float32"):
        yield (
            f"Embeddings were computed in {printable(str(embedder['precision']))}: cosines carry a"
            " rounding error, and matches that are nearly equal may change places."
        )


def _modes(scan: "Scan") -> Iterator[str]:
    modes: dict[str, list[str]] = {}
    for row in (scan.record.get("benchmarks") or [])[:50]:
        mode = str(row.get("text_mode", ""))
        modes.setdefault(_MODES.get(mode, printable(mode)), []).append(_shown(row["benchmark"]))
    for mode, names in modes.items():
        if mode:
            yield f"What was looked for: {mode} ({', '.join(names)})."


def _sample(scan: "Scan") -> Iterator[str]:
    share = sampled_share(scan)
    if share is None:
        return
    if share >= 1:
        yield "Every readable document was taken: nothing was left to chance."
        return
    yield (
        f"Only {percent(share)} of the documents were searched: from every stratum a share, drawn"
        f" at random (seed {scan.record.get('seed', 'not recorded')}). Duplicates in the rest were"
        " not seen. Numbers of items with a match are for the sample; in the whole corpus they"
        " can only be larger."
    )


def _cuts(scan: "Scan") -> Iterator[str]:
    limit = _block(scan, "embedder").get("max_tokens")
    limit_text = f" of {limit:,} tokens" if limit else ""
    cut = int(scan.items["cut"].fillna(False).sum()) if "cut" in scan.items else 0
    if cut:
        yield (
            f"{cut:,} of {len(scan.items):,} items are longer than the embedder's limit"
            f"{limit_text}: only their beginnings were compared, and they are marked 'cut'."
        )
    chunks = _block(scan, "chunks")
    short = _block(scan, "documents").get("short", 0), chunks.get("short_pieces", 0)
    if any(short):
        least = (
            f", with fewer than {chunks['min_tokens']} tokens," if "min_tokens" in chunks else ""
        )
        yield (
            f"Too short to search{least} were {short[0]:,} documents and {short[1]:,} pieces of"
            f" documents{_by_source(scan)}. A duplicate among them was not seen: such documents"
            " count as not searched. Lower min_tokens to search them."
        )
    yield (
        "Long documents were split into chunks. A duplicate that lies across two of them, or deep"
        " inside one about something else, has a lower cosine."
    )


def provenance(scan: "Scan") -> list[tuple[str, str]]:
    """Return where the scan comes from: manifest, embedder, seed, versions, times."""
    record, manifest = scan.record, _block(scan, "manifest")
    seconds = _block(scan, "seconds")
    rows = [
        ("Manifest", f"{manifest.get('name', '–')} (SHA-256 {manifest.get('hash', '–')})"),
        ("What is scanned", manifest.get("summary")),
        ("Command", record.get("command") or "not recorded (made from Python)"),
        ("Made", record.get("created")),
        ("Time", ", ".join(f"{name} {_seconds(value)}" for name, value in seconds.items())),
        ("Embedder", _pairs(_block(scan, "embedder"))),
        ("Search", _pairs(_block(scan, "search"))),
        ("Seed", record.get("seed")),
        ("Versions", _pairs(_block(scan, "versions"))),
        ("bayescontam", record.get("version")),
        ("Folder", scan.folder),
    ]
    return [(name, printable(str(value), 2_000)) for name, value in rows if value not in (None, "")]


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{str(name).replace('_', ' ')} {value}" for name, value in values.items())


def _block(scan: "Scan", key: str) -> dict[str, Any]:
    """Return a block of the record; an empty one where it was not recorded."""
    return scan.record.get(key) or {}


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
        "verdict": prevalence["verdict"] if prevalence else verdict(scan, headline),
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
        "changed": [
            (anchor, label, printable(full, 500)) for anchor, label, full in names.changed()
        ],
        "size": f"{size}, {chunks:,} chunks of a corpus" if chunks else size,
        "manifest_name": printable(str(manifest.get("name", "unnamed"))),
        "summary": printable(str(manifest.get("summary", "")), 400),
        "created": printable(str(scan.record.get("created", "")))[:10],
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
    reasons = unreadable(scan)
    notes = scan.record.get("notes") or []
    manifest = str((scan.record.get("manifest") or {}).get("text", ""))
    return {
        "counts": list(counts(scan)),
        "reasons": reasons[:MOST_REASONS],
        "more_reasons": _more(reasons, MOST_REASONS),
        "strata": [
            {**row, "place": place(row["source"], row["stratum"])}
            for row in strata.head(MOST_STRATA).to_dict("records")
        ],
        "n_strata": len(strata),
        "open_strata": len(strata) <= OPEN_STRATA,
        "assumptions": list(assumptions(scan)),
        "notes": [printable(str(note), 500) for note in notes[:MOST_NOTES]],
        "more_notes": _more(notes, MOST_NOTES),
        "provenance": provenance(scan),
        "manifest": excerpt(manifest, _MANIFEST, _MANIFEST),
    }


def _more(rows: Sequence[object], most: int) -> int:
    """Return how many rows the page has no room for."""
    return max(len(rows) - most, 0)
