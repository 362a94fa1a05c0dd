"""Record: what a scan did, counted and dated."""

import importlib.metadata
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from bayescontam.names import visible
from bayescontam.scan.pipeline import Outcome
from bayescontam.scan.stages import LENGTHS
from bayescontam.specs.corpus import Manifest

_PACKAGES = (
    "bayescontam", "torch", "sentence-transformers", "transformers", "tokenizers", "semchunk",
    "numba", "numpy", "pyarrow", "rapidfuzz",
)  # fmt: skip


def record_of(manifest: Manifest, outcome: Outcome) -> dict[str, Any]:
    """Return the content of ``scan.json``."""
    sketch, search = outcome.found.sketch, manifest.search
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": versions.get("bayescontam", ""),
        "versions": versions,
        "manifest": {
            "name": manifest.name,
            "hash": manifest.hash,
            "summary": manifest.summary,
            "text": manifest.text,
        },
        "seed": manifest.seed,
        "embedder": outcome.embedder,
        "documents": _documents(outcome),
        "chunks": {
            "made": sketch.total,
            "distinct": sketch.tallies.get("texts", 0),
            "short_pieces": sum(report["short_pieces"] for report in outcome.chunked),
            "min_tokens": outcome.min_tokens,
        },
        "short": short_of(outcome),
        "strata": _strata(outcome),
        "benchmarks": _benchmarks(manifest, outcome),
        "search": {
            "queries": len(outcome.found.items),
            "chunks": sketch.total,
            "pairs": sketch.total * len(outcome.found.items),
            "shards": len(outcome.found.shards),
            "top_k": search.top_k,
            "tail_share": search.tail_share,
            "tail_size": search.tail_size,
        },
        "seconds": {stage: round(seconds, 3) for stage, seconds in outcome.seconds.items()},
        "notes": _notes(manifest, outcome),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # not every scan needs every package


def _documents(outcome: Outcome) -> dict[str, Any]:
    unreadable: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for report in outcome.read:
        unreadable.update(report["unreadable"])
        without.update(report["without"])
    return {
        "read": sum(sum(report["documents"].values()) for report in outcome.read),
        "bytes": sum(report["bytes"] for report in outcome.read),
        "unreadable": dict(sorted(unreadable.items())),
        "damaged": {r["path"]: r["damage"] for r in outcome.read if r["damage"]},
        "without": dict(sorted(without.items())),
        "sampled": sum(report["documents"] for report in outcome.chunked),
        "short": sum(report["short"] for report in outcome.chunked),
    }


def short_of(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Return for each source how many documents and tokens were sampled, and how many short."""
    table: dict[str, dict[str, int]] = {}
    for report in outcome.chunked:
        for source, counts in report["by_source"].items():
            known = table.setdefault(source, dict.fromkeys(LENGTHS, 0))
            for name in LENGTHS:
                known[name] += counts[name]
    return dict(sorted(table.items()))


def _strata(outcome: Outcome) -> list[dict[str, Any]]:
    searched = outcome.found.sketch.chunks
    table: list[dict[str, Any]]
    table = outcome.cutoffs.table.drop(columns="cutoff").to_dict("records")  # type: ignore
    known = {(row["source"], row["stratum"]) for row in table}
    rows = [{**row, "chunks": searched.get((row["source"], row["stratum"]), 0)} for row in table]
    # Ready vectors are chunks without documents.
    return rows + [
        {"source": source, "stratum": stratum, "share": 1.0, "chunks": chunks}
        for (source, stratum), chunks in sorted(searched.items())
        if (source, stratum) not in known
    ]


def _benchmarks(manifest: Manifest, outcome: Outcome) -> list[dict[str, Any]]:
    modes = {benchmark.name: benchmark.text_mode for benchmark in manifest.benchmarks}
    found = outcome.found
    table = pd.DataFrame(
        {
            "benchmark": [item.benchmark for item in found.items],
            "cut": [tokens > found.max_tokens for tokens in found.tokens],
        }
    )
    return [
        {
            "benchmark": benchmark,
            "items": len(rows),
            "text_mode": modes.get(str(benchmark), "input"),
            "cut": int(rows["cut"].sum()),
        }
        for benchmark, rows in table.groupby("benchmark", sort=False)
    ]


def _notes(manifest: Manifest, outcome: Outcome) -> list[str]:
    """Return sentences on everything that the scan left out."""
    documents, found = _documents(outcome), outcome.found
    notes = list(outcome.notes)
    if documents["unreadable"]:
        reasons = ", ".join(f"{n:,} {why}" for why, n in documents["unreadable"].items())
        total = sum(documents["unreadable"].values())
        notes.append(f"{total:,} records could not be read ({reasons}); scan.log lists them")
    for path, damage in documents["damaged"].items():
        notes.append(f"{path}: {damage}; what stands behind the damage was not scanned")
    for field, count in documents["without"].items():
        notes.append(f"{count:,} documents have no '{visible(field)}'")
    if documents["sampled"] < documents["read"]:
        share = documents["sampled"] / documents["read"]
        notes.append(
            f"{documents['sampled']:,} of {documents['read']:,} documents ({share:.2%}) were "
            "sampled: an item without a match may have one in the rest"
        )
    notes += _short_notes(outcome)
    cut = sum(tokens > found.max_tokens for tokens in found.tokens)
    if cut:
        notes.append(
            f"{cut:,} of {len(found.items):,} items are longer than the {found.max_tokens:,} tokens"
            " that the embedder sees: only their beginning was looked for"
        )
    return notes


def _short_notes(outcome: Outcome) -> list[str]:
    """Return sentences on what was not searched because it is short."""
    least, sources = outcome.min_tokens, short_of(outcome)
    whole = {name: sum(counts[name] for counts in sources.values()) for name in LENGTHS}
    notes = []
    if whole["short"]:
        share = whole["short"] / whole["documents"]
        tokens = whole["short_tokens"] / max(1, whole["tokens"])
        notes.append(
            f"{whole['short']:,} of {whole['documents']:,} documents ({share:.2%}, with"
            f" {tokens:.2%} of the tokens) have fewer than {least} tokens and were not searched"
        )
    if whole["short_pieces"]:
        notes.append(
            f"{whole['short_pieces']:,} pieces of long documents have fewer than {least} tokens"
            " and were not searched"
        )
    return notes
