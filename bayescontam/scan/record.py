"""What is recorded of a scan: counts by reason, achieved shares, versions, and notes on them."""

import importlib.metadata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bayescontam._text import printable
from bayescontam.scan.chunking import LENGTHS, ChunkedDocuments
from bayescontam.scan.distinct import files_by_source
from bayescontam.scan.documents import SampledDocuments
from bayescontam.scan.execution import Report
from bayescontam.scan.index_search import SampledSketch
from bayescontam.scan.items import CorpusListing, EmbeddedItems
from bayescontam.scan.results import SearchTables
from bayescontam.scan.sketch import Sketch
from bayescontam.scan.stored_vectors import FILES, Precision, StoredVectors
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Search, as_looked_for

_PACKAGES = (
    "bayescontam", "torch", "sentence-transformers", "transformers", "tokenizers", "semchunk",
    "numba", "numpy", "pyarrow", "rapidfuzz",
)  # fmt: skip


def record_of(
    corpus: CorpusListing,
    embedded: EmbeddedItems,
    sample: SampledDocuments,
    chunked: ChunkedDocuments,
    stored: Sequence[StoredVectors],
    found: SearchTables,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of ``scan.json``."""
    manifest, search = corpus.manifest, corpus.manifest.search
    sketches = [own.sketch for own in found.lists]
    total = sum(sketch.total for sketch in sketches)
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    before = [vectors.about["documents"] for vectors in stored]
    documents = document_counts(sample.reports, chunked.reports, before)
    short = _short(chunked, stored)
    least, limits = chunked.min_tokens, chunked.limits
    if stored and not corpus.inputs:
        least = max(vectors.about["min_tokens"] for vectors in stored)
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
        "embedder": embedded.about,
        "documents": documents,
        "chunks": {
            "made": total,
            # Of sources that are searched one by one a text counts in each.
            **({} if corpus.by_source else {"distinct": sketches[0].tallies.get("texts", 0)}),
            "short_pieces": sum(counts["short_pieces"] for counts in short.values()),
            "min_tokens": least,
        }
        | ({"min_tokens_by_source": limits} if len(set(limits.values())) > 1 else {}),
        "short": short,
        "strata": _strata_of(sample, stored, found),
        "benchmarks": _benchmarks(corpus, found),
        "search": {
            "queries": len(corpus.items),
            "chunks": total,
            "pairs": total * len(corpus.items),
            "shards": len(found.shards),
            "top_k": search.top_k,
        }
        | _counts_record(search)
        | ({"per": "source"} if corpus.by_source else {})
        | ({"texts": "by source"} if found.texts_differ else {})
        | _index_record(sketches[0]),
        "seconds": seconds,
        "notes": [
            *corpus.notes,
            *_choice_notes(corpus.left_out, documents),
            *_reading_notes(documents),
            *sample.notes,
            *_shortest_notes(chunked),
            *_stored_notes(stored, chunked),
            *_index_notes(sketches[0]),
            *_backend_notes(search),
            *_cut_notes(found),
        ],
    }


def vectors_record(
    corpus: CorpusListing,
    sample: SampledDocuments,
    chunked: ChunkedDocuments,
    precision: Precision,
    record: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``vectors.json``, parts aside; `record` is that of the scan."""
    own = {item.source for item in corpus.inputs}
    return {name: record[name] for name in ("created", "version", "manifest", "embedder")} | {
        "key": corpus.key,
        FILES: files_by_source(corpus.inputs, corpus.sources),
        "embedding": content_of(corpus.manifest.embedding),
        "precision": precision,
        "min_tokens": chunked.min_tokens,
        "documents": document_counts(sample.reports, chunked.reports, []),
        "short": _short(chunked, []),
        "strata": [row for row in record["strata"] if row["source"] in own],
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # not every scan needs every package


def document_counts(
    sample: Sequence[Report], chunked: Sequence[Report], before: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what was counted when documents were read, now or when vectors were stored."""
    unreadable, without = Counter[str](), Counter[str]()
    for report in [*sample, *before]:
        unreadable.update(report["unreadable"])
        without.update(report["without"])
    damaged = {report["path"]: report["damage"] for report in sample if report["damage"]}
    for earlier in before:
        damaged |= earlier["damaged"]
    left_out, messages = Counter[str](), dict[str, Counter[str]]()
    for report in sample:
        left_out[report["source"]] += report.get("left_out", 0)
        messages.setdefault(report["source"], Counter()).update(report.get("left_out_messages", {}))
    for earlier in before:  # those of earlier versions have no such counts
        left_out.update(earlier.get("left_out", {}))
        messages |= {name: Counter(n) for name, n in earlier.get("left_out_messages", {}).items()}
    counts = {
        "read": sum(sum(report["documents"].values()) for report in sample),
        "bytes": sum(report["bytes"] for report in sample),
        "sampled": sum(report["documents"] for report in chunked),
        "short": sum(report["short"] for report in chunked),
    }
    total = {name: n + sum(earlier[name] for earlier in before) for name, n in counts.items()}
    return {
        "read": total["read"],
        "bytes": total["bytes"],
        "left_out": {name: n for name, n in sorted(left_out.items()) if n},
        "left_out_messages": {name: dict(n) for name, n in sorted(messages.items()) if n},
        "unreadable": dict(sorted(unreadable.items())),
        "damaged": damaged,
        "without": dict(sorted(without.items())),
        "sampled": total["sampled"],
        "short": total["short"],
    }


def _short(chunked: ChunkedDocuments, stored: Sequence[StoredVectors]) -> dict[str, Counter[str]]:
    """Return for each source how many documents and tokens were sampled, and how many short."""
    table: dict[str, Counter[str]] = {}
    counted = [report["by_source"] for report in chunked.reports]
    for by_source in [*counted, *(vectors.about["short"] for vectors in stored)]:
        for source, counts in by_source.items():
            table.setdefault(source, Counter(dict.fromkeys(LENGTHS, 0))).update(counts)
    return dict(sorted(table.items()))


def _strata_of(
    sample: SampledDocuments, stored: Sequence[StoredVectors], found: SearchTables
) -> list[dict[str, Any]]:
    left = dict(found.chunks)
    table: list[dict[str, Any]]
    table = sample.cutoffs.table.drop(columns="cutoff").to_dict("records")  # type: ignore
    table += [row for vectors in stored for row in vectors.about["strata"]]
    rows = [{**row, "chunks": left.pop((row["source"], row["stratum"]), 0)} for row in table]
    # Those that are left are of ready vectors: chunks without documents.
    return rows + [
        {"source": source, "stratum": stratum, "share": 1.0, "chunks": chunks}
        for (source, stratum), chunks in sorted(left.items())
    ]


def _benchmarks(corpus: CorpusListing, found: SearchTables) -> list[dict[str, Any]]:
    manifest = corpus.manifest
    modes = {benchmark.name: benchmark.text_mode for benchmark in manifest.benchmarks}
    own_modes = {
        benchmark.name: {
            source.name: as_looked_for(benchmark, source).text_mode
            for source in manifest.sources
            if as_looked_for(benchmark, source).text_mode != benchmark.text_mode
        }
        for benchmark in manifest.benchmarks
    }
    cut: dict[str, list[bool]] = {}
    for item, longer in zip(found.items, found.cut, strict=True):
        cut.setdefault(item.benchmark, []).append(longer)
    return [
        {
            "benchmark": b,
            "items": len(own),
            "left_out": corpus.left_out[b],
            "text_mode": modes.get(b, "input"),
            "cut": sum(own),
        }
        | ({"by_source": own_modes[b]} if own_modes.get(b) else {})
        for b, own in cut.items()
    ]


def _choice_notes(rows: Mapping[str, int], documents: Mapping[str, Any]) -> Iterator[str]:
    """Give sentences on rows, records and messages that the manifest leaves out."""
    for name, count in rows.items():
        if count:
            yield f"benchmark '{printable(name, 60)}': 'where' leaves out {count:,} rows"
    for name, count in documents["left_out"].items():
        yield f"source '{printable(name, 60)}': 'where' leaves out {count:,} records"
    for name, roles in documents["left_out_messages"].items():
        listed = ", ".join(f"{count:,} of {printable(role, 60)}" for role, count in roles.items())
        yield f"source '{printable(name, 60)}': 'roles' leaves out messages: {listed}"


def _reading_notes(documents: dict[str, Any]) -> Iterator[str]:
    """Give sentences on documents that could not be read, were incomplete, or not sampled."""
    if documents["unreadable"]:
        reasons = ", ".join(f"{n:,} {why}" for why, n in documents["unreadable"].items())
        total = sum(documents["unreadable"].values())
        yield f"{total:,} records could not be read ({reasons}); scan.log lists them"
    for path, damage in documents["damaged"].items():
        yield f"{path}: {damage}; what stands behind the damage was not scanned"
    for field, count in documents["without"].items():
        yield f"{count:,} documents have no '{printable(field)}'"
    if documents["sampled"] < documents["read"]:
        share = documents["sampled"] / documents["read"]
        yield (
            f"{documents['sampled']:,} of {documents['read']:,} documents ({share:.2%}) were "
            "sampled: an item without a match may have one in the rest"
        )


def _short_notes(short: Mapping[str, Mapping[str, int]], least: int) -> Iterator[str]:
    """Give sentences on what was not searched because it is short."""
    whole = {name: sum(counts[name] for counts in short.values()) for name in LENGTHS}
    if whole["short"]:
        share = whole["short"] / whole["documents"]
        tokens = whole["short_tokens"] / max(1, whole["tokens"])
        yield (
            f"{whole['short']:,} of {whole['documents']:,} documents ({share:.2%}, with"
            f" {tokens:.2%} of the tokens) have fewer than {least} tokens and were not searched"
        )
    if whole["short_pieces"]:
        yield (
            f"{whole['short_pieces']:,} pieces of long documents have fewer than {least} tokens"
            " and were not searched"
        )


def _counts_record(search: Search) -> dict[str, Any]:
    """Return which tails were drawn, or that the search was for best matches alone."""
    if search.backend == "faiss":
        return {"backend": search.backend}
    return {"tail_share": search.tail_share, "tail_size": search.tail_size}


def _backend_notes(search: Search) -> Iterator[str]:
    """Give a sentence on what a search for best matches alone does not have."""
    if search.backend == "faiss":
        yield (
            "searched for the best matches alone (backend 'faiss'): no cosines were counted and no"
            " tail was drawn, so that duplicates cannot be estimated; for that, scan with backend"
            ' = "torch"'
        )


def _index_record(sketch: Sketch) -> dict[str, Any]:
    """Return what is recorded of a search by an index; nothing of an exact one."""
    if not isinstance(sketch, SampledSketch):
        return {}
    index = sketch.index
    recall, low, high = sketch.recall or (None, None, None)
    return {
        "index": {
            "folder": str(index.folder),
            "key": index.key,
            "kind": index.about["kind"],
            "lists": index.lists,
            "probes": index.about["probes"],
            "built_recall": index.about["recall"],
            "weight": index.weight,
            "found": sketch.found,
            "missed": sketch.missed,
            "recall": recall,
            "recall_low": low,
            "recall_high": high,
        }
    }


def _index_notes(sketch: Sketch) -> Iterator[str]:
    """Give sentences on what a search by an index misses and estimates."""
    about = _index_record(sketch).get("index")
    if about is None:
        return
    built = about["built_recall"]["measured"][-1][1]
    if about["found"] + about["missed"]:
        measured = (
            f"{about['recall']:.1%} of the best matches of these items were found (95 % interval"
            f" {about['recall_low']:.1%} to {about['recall_high']:.1%}, by the {about['found']:,}"
            f" and {about['missed']:,} of the index's sample that were and were not)"
        )
    else:
        measured = "none of the best matches is in its sample, which measures recall"
    yield (
        f"searched by an index ({about['kind']}), not exactly: {measured}; {built:.1%} for texts"
        " of the corpus when it was built"
    )
    if about["weight"] > 1:
        yield (
            "histograms and tails are estimated, the nearest texts aside, from a sample of one in"
            f" {about['weight']} chunks; search.exact (--exact) compares with all"
        )


def _cut_notes(found: SearchTables) -> Iterator[str]:
    """Give a sentence on items that are cut."""
    if cut := sum(found.cut):
        yield (
            f"{cut:,} of {len(found.items):,} items are longer than the {found.max_tokens:,} tokens"
            " that the embedder sees: only their beginning was looked for"
        )


def _shortest_notes(chunked: ChunkedDocuments) -> Iterator[str]:
    """Give sentences on short texts, of each source where the limits differ."""
    short = _short(chunked, [])
    if len(set(chunked.limits.values())) == 1:
        yield from _short_notes(short, chunked.min_tokens)
        return
    for name, counts in short.items():
        for note in _short_notes({name: counts}, chunked.shortest[name]):
            yield f"source '{printable(name, 60)}': {note}"


def _stored_notes(stored: Sequence[StoredVectors], chunked: ChunkedDocuments) -> Iterator[str]:
    """Give sentences on what stored vectors lack for these items, or hold only roughly."""
    for vectors in stored:
        # The sources of stored vectors are all searched for the items' own texts.
        least = chunked.shortest[vectors.sources[0] if "" not in chunked.shortest else ""]
        for each, about in vectors.scans:
            name, shortest = printable(each), about["min_tokens"]
            yield from _short_notes(about["short"], shortest)
            if shortest < least:
                yield (
                    f"{name}: texts from {shortest} tokens are among the vectors and were searched;"
                    f" for these items it would be those from {least} tokens"
                )
            if shortest > least:
                yield (
                    f"{name}: texts below {shortest} tokens were left out when the vectors were"
                    f" stored; for these items those from {least} tokens would be searched: shorter"
                    " duplicates are not found"
                )
        if vectors.about["precision"] == "fp16":
            name = printable(str(vectors.folder))
            yield f"{name}: vectors are stored in 16 bits: cosines are exact to about 0.0005"
