"""The class `Scan`: tables of a finished scan, on disk and in memory."""

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path, on_disk
from bayescontam._progress import progress_bar
from bayescontam._runs import read_json
from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.items import EmbeddedItems, Item
from bayescontam.scan.lexical import lexical_scores
from bayescontam.scan.pipeline import LENGTHS, ChunkedDocuments, CorpusListing, SampledDocuments
from bayescontam.scan.shards import DESCRIBED, Shard, split_places
from bayescontam.scan.sketch import Sketch
from bayescontam.specs.corpus import Lexical, Manifest, Search

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve


FILES = ("matches", "tail", "histogram", "strata", "items", "texts")
RECORD = "scan.json"
_PLACED = ["document", "chunk", "start", "end", "source", "stratum", "copies", "chunk_id"]
TEXTS = pa.schema([("chunk_id", pa.uint64()), ("text", pa.large_string())])
LEVELS = (0.7, 0.8, 0.9)
"""Cosines that items are counted at."""


@dataclass(frozen=True)
class Scan:
    """A finished scan, read from its folder with ``Scan.load(folder)``.

    Attributes
    ----------
    folder : pathlib.Path
    record : dict
        Manifest, counts by reason, achieved shares, versions and times.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Scan.load("no-such-folder")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """

    folder: Path
    record: dict[str, Any]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Scan":
        """Open the folder that a scan wrote.

        Raises
        ------
        DataError
            If it holds no finished scan.
        """
        path = Path(folder)
        missing = [name for name in (RECORD, *(f"{f}.parquet" for f in FILES))
                   if not (path / name).is_file()]  # fmt: skip
        if missing:
            what = "is no folder" if not path.is_dir() else f"lacks {', '.join(missing)}"
            advice = "Give the folder of a finished scan; run an unfinished one again to finish it."
            raise DataError([Fault(str(folder), f"holds no finished scan: {what}")], advice)
        try:
            return cls(path, read_json(path / RECORD))
        except ValueError as error:
            raise DataError([Fault(str(path / RECORD), f"is not JSON ({error})")]) from error

    @cached_property
    def matches(self) -> pd.DataFrame:
        """Best matches of every item.

        Columns: ``benchmark``, ``item``, ``rank`` (from 1), ``cosine``, ``document``,
        ``chunk`` (number in the document, from 0), ``start`` and ``end`` (characters of the
        document), ``source``, ``stratum``, ``copies`` (occurrences of the text in what was
        scanned), ``chunk_id``, and lexical scores (0 to 1; NaN where undefined).
        """
        return self._table("matches")

    @cached_property
    def tail(self) -> pd.DataFrame:
        """Uniform random sample of every item's matches at or above a threshold.

        Columns as in `matches`, without rank and lexical scores, and ``threshold`` (a
        cosine), ``tail_matches`` (occurrences of chunks at or above it).
        """
        return self._table("tail")

    @cached_property
    def histogram(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``item``, ``cosine`` (lower edge, width 0.001), ``count``."""
        return self._table("histogram")

    @cached_property
    def strata(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``source``, ``stratum``, ``cosine``, ``count``."""
        return self._table("strata")

    @cached_property
    def items(self) -> pd.DataFrame:
        """Items: ``benchmark``, ``item``, ``text``, ``tokens``, ``cut`` (longer than is seen)."""
        return self._table("items")

    @cached_property
    def texts(self) -> pd.DataFrame:
        """Texts of the chunks in `matches` and `tail`: ``chunk_id``, ``text``."""
        return self._table("texts")

    def _table(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError([Fault(str(path), f"cannot be read ({error})")]) from error

    def report(
        self,
        path: str | os.PathLike[str],
        curve: "Curve | None" = None,
        items: pd.DataFrame | None = None,
        by: str | None = None,
    ) -> None:
        """Write the report: one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
            Where to write it. Replaced if it exists, whole or not at all.
        curve : Curve, optional
            P(duplicate | cosine) of this scan: adds how many items have duplicates, and
            which.
        items : pandas.DataFrame, optional
            ``benchmark, item`` and the column `by`; used with `curve`.
        by : str, optional
            Item column that prevalence is reported by, such as an Elo rating.

        Raises
        ------
        UsageError
            If the curve is of other benchmarks, or the items have no such column.
        DataError
            If `items` lacks items of the scan.
        """
        from bayescontam.report.matches import gather
        from bayescontam.report.scan_page import write_scan_report

        evidence = None if curve is None else gather(self, curve)
        write_scan_report(self, path, evidence=evidence, items=items, by=by)


@dataclass(frozen=True)
class SearchTables:
    """What a search found, with what its numbers mean."""

    sketch: Sketch  # one query for each item
    items: Sequence[Item]
    tokens: Sequence[int]  # lengths of the items
    max_tokens: int  # longest text that the embedder sees
    shards: Sequence[Shard]


def write_tables(
    folder: Path, found: SearchTables, search: Search, lexical: Lexical, bar: bool
) -> None:
    """Write all tables of a scan; see `bayescontam.scan.results.Scan`."""
    top, tail = _top(found, search), _tail(found, search)
    described, scores = _look_up(folder, found, top, tail, lexical, bar)
    write_table(folder / "matches.parquet", _placed(top, described, ["rank"]).join(scores))
    write_table(
        folder / "tail.parquet",
        _placed(tail, described, []).join(tail[["threshold", "tail_matches"]]),
    )
    write_table(folder / "histogram.parquet", _histogram(found))
    write_table(folder / "strata.parquet", _strata(found))
    write_table(folder / "items.parquet", _items(found))


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet, whole or not at all; equal tables become equal files."""
    with on_disk(path), atomic_path(path) as temporary:
        pq.write_table(
            pa.Table.from_pandas(table, preserve_index=False), temporary, compression="zstd"
        )


def _rows(found: SearchTables, parts: list[Any]) -> pd.DataFrame:
    """Return matches of all items as a table, with the number of each one's query."""
    query = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    rows = np.concatenate(parts) if parts else found.sketch.matches[:0]
    return pd.DataFrame(
        {
            "query": query,
            "benchmark": _names(found, query, "benchmark"),
            "item": _names(found, query, "item"),
            "cosine": rows["cosine"],
            "copies": rows["copies"],
            "chunk_id": rows["chunk"],
            "where": rows["where"],
        }
    )


def _names(found: SearchTables, query: Any, field: str) -> Any:
    return np.array([getattr(item, field) for item in found.items], dtype=object)[query]


def _top(found: SearchTables, search: Search) -> pd.DataFrame:
    queries = range(len(found.items))
    table = _rows(found, [found.sketch.top(q, search.top_k) for q in queries])
    table.insert(3, "rank", table.groupby("query").cumcount().astype(np.int32) + 1)
    return table


def _tail(found: SearchTables, search: Search) -> pd.DataFrame:
    sketch = found.sketch
    lowest = [sketch.threshold(q, search.tail_share) for q in range(len(found.items))]
    parts = [sketch.tail(q, bin_, search.tail_size) for q, bin_ in enumerate(lowest)]
    table = _rows(found, parts)
    above = [int(sketch.counts[q, bin_:].sum()) for q, bin_ in enumerate(lowest)]
    table["threshold"] = edges(np.array(lowest, np.int64))[table["query"]]
    table["tail_matches"] = np.array(above, np.int64)[table["query"]]
    return table


def _look_up(
    folder: Path,
    found: SearchTables,
    top: pd.DataFrame,
    tail: pd.DataFrame,
    lexical: Lexical,
    bar: bool,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Describe all places and score the best matches, one shard after the other.

    Texts are written as they are met: those of all matches may not fit into memory.
    """
    columns = ["where", "chunk_id"]
    known = pd.concat([top[columns], tail[columns]]).drop_duplicates("where")
    chunk_of = known.set_index("where")["chunk_id"].sort_index()
    best = dict(iter(top.groupby(split_places(top["where"].to_numpy())[0])))
    described, scores = [], []
    path = folder / "texts.parquet"
    with (
        on_disk(path),
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, TEXTS, compression="zstd") as writer,
        progress_bar(bar, "write", len(top), "matches") as advance,
    ):
        shards = split_places(chunk_of.index.to_numpy())[0]
        for number in np.unique(shards).tolist():
            part = chunk_of[shards == number]
            rows = split_places(part.index.to_numpy())[1]
            table = found.shards[number].describe(rows).set_index(part.index)
            texts = pd.DataFrame({"chunk_id": part, "text": table["text"]}).dropna()
            writer.write_table(pa.Table.from_pandas(texts, TEXTS, preserve_index=False))
            described.append(table[list(DESCRIBED)])
            matches = best.get(number, top[:0])
            scores.append(_scores(found, matches, texts["text"], lexical))
            advance(len(matches))
    return pd.concat(described), pd.concat(scores).reindex(top.index)


def _scores(
    found: SearchTables, matches: pd.DataFrame, texts: "pd.Series[Any]", lexical: Lexical
) -> pd.DataFrame:
    """Return the lexical scores of matches whose texts (by place) are known."""
    known = matches[matches["where"].isin(texts.index)]
    items = [found.items[query].text for query in known["query"]]
    pairs = list(zip(items, texts.loc[known["where"]], strict=True))
    return lexical_scores(pairs, lexical).set_index(known.index)


def _placed(table: pd.DataFrame, described: pd.DataFrame, more: list[str]) -> pd.DataFrame:
    places = described.loc[table["where"]].set_index(table.index)
    return table.join(places)[["benchmark", "item", *more, "cosine", *_PLACED]]


def edges(bins: Any) -> Any:
    """Return the lower edges of bins of cosines."""
    return np.round((bins - 1000) / 1000, 3)


def _histogram(found: SearchTables) -> pd.DataFrame:
    query, place = np.nonzero(found.sketch.counts)
    return pd.DataFrame(
        {
            "benchmark": _names(found, query, "benchmark"),
            "item": _names(found, query, "item"),
            "cosine": edges(place),
            "count": found.sketch.counts[query, place],
        }
    )


def _strata(found: SearchTables) -> pd.DataFrame:
    names = list(dict.fromkeys(item.benchmark for item in found.items))
    tables = []
    for (source, stratum), counts in sorted(found.sketch.strata.items()):
        benchmark, place = np.nonzero(counts)
        keys = {"benchmark": np.array(names, object)[benchmark], "source": source}
        counted = {"stratum": stratum, "cosine": edges(place), "count": counts[benchmark, place]}
        tables.append(pd.DataFrame({**keys, **counted}))
    return pd.concat(tables, ignore_index=True)


def _items(found: SearchTables) -> pd.DataFrame:
    tokens = np.array(found.tokens, np.int64)
    return pd.DataFrame(
        {
            "benchmark": [item.benchmark for item in found.items],
            "item": [item.item for item in found.items],
            "text": [item.text for item in found.items],
            "tokens": tokens,
            "cut": tokens > found.max_tokens,
        }
    )


_PACKAGES = (
    "bayescontam", "torch", "sentence-transformers", "transformers", "tokenizers", "semchunk",
    "numba", "numpy", "pyarrow", "rapidfuzz",
)  # fmt: skip


def record_of(
    corpus: CorpusListing,
    embedded: EmbeddedItems,
    sample: SampledDocuments,
    chunked: ChunkedDocuments,
    found: SearchTables,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of ``scan.json``."""
    manifest, sketch, search = corpus.manifest, found.sketch, corpus.manifest.search
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    documents, short = _documents(sample, chunked), _short(chunked)
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
            "made": sketch.total,
            "distinct": sketch.tallies.get("texts", 0),
            "short_pieces": sum(report["short_pieces"] for report in chunked.reports),
            "min_tokens": chunked.min_tokens,
        },
        "short": short,
        "strata": _strata_of(sample, sketch),
        "benchmarks": _benchmarks(manifest, found),
        "search": {
            "queries": len(corpus.items),
            "chunks": sketch.total,
            "pairs": sketch.total * len(corpus.items),
            "shards": len(found.shards),
            "top_k": search.top_k,
            "tail_share": search.tail_share,
            "tail_size": search.tail_size,
        },
        "seconds": {stage: round(time, 3) for stage, time in seconds.items()},
        "notes": [
            *corpus.notes,
            *_reading_notes(documents),
            *_short_notes(short, chunked.min_tokens),
            *_cut_notes(found),
        ],
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # not every scan needs every package


def _documents(sample: SampledDocuments, chunked: ChunkedDocuments) -> dict[str, Any]:
    unreadable, without, damaged = Counter[str](), Counter[str](), {}
    for report in sample.reports:
        unreadable.update(report["unreadable"])
        without.update(report["without"])
        if report["damage"]:
            damaged[report["path"]] = report["damage"]
    return {
        "read": sum(sum(report["documents"].values()) for report in sample.reports),
        "bytes": sum(report["bytes"] for report in sample.reports),
        "unreadable": dict(sorted(unreadable.items())),
        "damaged": {
            report["path"]: report["damage"] for report in sample.reports if report["damage"]
        },
        "without": dict(sorted(without.items())),
        "sampled": sum(report["documents"] for report in chunked.reports),
        "short": sum(report["short"] for report in chunked.reports),
    }


def _short(chunked: ChunkedDocuments) -> dict[str, dict[str, int]]:
    """Return for each source how many documents and tokens were sampled, and how many short."""
    table: dict[str, dict[str, int]] = {}
    for report in chunked.reports:
        for source, counts in report["by_source"].items():
            known = table.setdefault(source, dict.fromkeys(LENGTHS, 0))
            for name in LENGTHS:
                known[name] += counts[name]
    return dict(sorted(table.items()))


def _strata_of(sample: SampledDocuments, sketch: Sketch) -> list[dict[str, Any]]:
    searched = sketch.chunks
    table: list[dict[str, Any]]
    table = sample.cutoffs.table.drop(columns="cutoff").to_dict("records")  # type: ignore
    known = {(row["source"], row["stratum"]) for row in table}
    rows = [{**row, "chunks": searched.get((row["source"], row["stratum"]), 0)} for row in table]
    # Ready vectors are chunks without documents.
    return rows + [
        {"source": source, "stratum": stratum, "share": 1.0, "chunks": chunks}
        for (source, stratum), chunks in sorted(searched.items())
        if (source, stratum) not in known
    ]


def _benchmarks(manifest: Manifest, found: SearchTables) -> list[dict[str, Any]]:
    modes = {benchmark.name: benchmark.text_mode for benchmark in manifest.benchmarks}
    cut = pd.Series([tokens > found.max_tokens for tokens in found.tokens], dtype=bool)
    return [
        {
            "benchmark": benchmark,
            "items": len(items),
            "text_mode": modes.get(str(benchmark), "input"),
            "cut": int(items.sum()),
        }
        for benchmark, items in cut.groupby([item.benchmark for item in found.items], sort=False)
    ]


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


def _short_notes(short: dict[str, dict[str, int]], least: int) -> Iterator[str]:
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


def _cut_notes(found: SearchTables) -> Iterator[str]:
    """Give a sentence on items that are longer than the embedder sees."""
    if cut := sum(tokens > found.max_tokens for tokens in found.tokens):
        yield (
            f"{cut:,} of {len(found.items):,} items are longer than the {found.max_tokens:,} tokens"
            " that the embedder sees: only their beginning was looked for"
        )


def by_benchmark(scan: Scan) -> pd.DataFrame:
    """Return one row for each benchmark."""
    best = scan.matches[scan.matches["rank"] == 1]
    chunks = scan.record["search"]["chunks"]
    rows = []
    for benchmark, items in scan.items.groupby("benchmark", sort=False):
        cosine = best.loc[best["benchmark"] == benchmark, "cosine"]
        shares = {f"share_{level}": float((cosine >= level).sum() / len(items)) for level in LEVELS}
        low, median, high = cosine.quantile([0.25, 0.5, 0.75]).astype(float)
        rows.append(
            {"benchmark": benchmark, "items": len(items), "chunks": chunks, "top_cosine": median,
             "top_cosine_low": low, "top_cosine_high": high, **shares}
        )  # fmt: skip
    return pd.DataFrame(rows)
