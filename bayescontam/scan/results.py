"""The class `Scan`: tables of a finished scan, on disk and in memory."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path, on_disk
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._runs import read_json
from bayescontam._text import MARKS, UNSPACED, printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.chunking import DESCRIBED
from bayescontam.scan.index_search import SampledSketch
from bayescontam.scan.items import Item
from bayescontam.scan.shard_search import Shard
from bayescontam.scan.sketch import Sketch, Stratum, split_places
from bayescontam.specs.corpus import Lexical, Search

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve


FILES = ("matches", "tail", "histogram", "strata", "items", "texts")
ITEM_TEXTS = "item_texts"
"""Table of items by source, where the texts differ."""
RECORD = "scan.json"
_PLACED = ["document", "chunk", "start", "end", "source", "stratum", "copies", "chunk_id"]
TEXTS = pa.schema([("chunk_id", pa.uint64()), ("text", pa.large_string())])
LEVELS = (0.7, 0.8, 0.9)
"""Cosines that items are counted at."""
type Words = list[int]
"""The words of a text in order, each as its number in a vocabulary."""

_PART = rf"[^\W{UNSPACED}](?:[^\W{UNSPACED}]|[{MARKS}])*"
_WORD = re.compile(rf"\d+(?:\.\d+)+|[{UNSPACED}]|{_PART}(?:'{_PART})*")


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
            found = cls(path, read_json(path / RECORD))
        except ValueError as error:
            raise DataError([Fault(str(path / RECORD), f"is not JSON ({error})")]) from error
        own_texts = f"{ITEM_TEXTS}.parquet"
        differ = found.by_source and found.record["search"].get("texts") == "by source"
        if differ and not (path / own_texts).is_file():
            problem = f"lacks {own_texts}: the texts that each source was searched for"
            raise DataError([Fault(str(folder), problem)], "Copy the whole folder of the scan.")
        return found

    @property
    def by_source(self) -> bool:
        """Whether each source was searched by itself (``search.per = "source"``)."""
        search = self.record.get("search") or {}
        return bool(search.get("per") == "source")

    @cached_property
    def matches(self) -> pd.DataFrame:
        """Best matches of every item; of a scan by source, those of each source.

        Columns: ``benchmark``, ``item``, ``rank`` (from 1), ``cosine``, ``document``,
        ``chunk`` (number in the document, from 0), ``start`` and ``end`` (characters of the
        document), ``source``, ``stratum``, ``copies`` (occurrences of the text in what was
        scanned), ``chunk_id``, and lexical scores (0 to 1; NaN where undefined).
        """
        return self._table("matches")

    @cached_property
    def tail(self) -> pd.DataFrame:
        """Uniform random sample of every item's matches at or above a threshold.

        Of a scan by source every source has a threshold and a sample of its own.

        Columns as in `matches`, without rank and lexical scores, and ``threshold`` (a
        cosine), ``tail_matches`` (occurrences of chunks at or above it).
        """
        return self._table("tail")

    @cached_property
    def histogram(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``item``, ``cosine`` (lower edge, width 0.001), ``count``.

        Of a search by an index also ``estimated``: which part of the count comes from a sample.
        Of a scan by source also ``source``: a histogram of each.
        """
        return self._table("histogram")

    @cached_property
    def strata(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``source``, ``stratum``, ``cosine``, ``count``."""
        return self._table("strata")

    @cached_property
    def items(self) -> pd.DataFrame:
        """Items: ``benchmark``, ``item``, ``text``, ``tokens``, ``cut`` (longer than is seen).

        Where sources are searched for other texts, these are in `item_texts`; ``text`` is then
        that of the first source, and ``cut`` whether any is longer than is seen.
        """
        return self._table("items")

    @cached_property
    def item_texts(self) -> pd.DataFrame:
        """Texts of items by source: the columns of `items`, and ``source``.

        One row an item and source, also where all sources are searched for the same texts.
        """
        if (self.folder / f"{ITEM_TEXTS}.parquet").is_file():
            return self._table(ITEM_TEXTS)
        names = dict.fromkeys(str(row["source"]) for row in self.record.get("strata") or [])
        parts = [self.items.assign(source=name) for name in names]
        table = pd.concat(parts, ignore_index=True) if parts else self.items.assign(source="")[:0]
        front = ["benchmark", "item", "source"]
        return table[[*front, *(name for name in table if name not in front)]]

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
        from bayescontam.report.evidence import gather
        from bayescontam.report.scan_page import write_scan_report

        evidence = None if curve is None else gather(self, curve)
        write_scan_report(self, path, evidence=evidence, items=items, by=by)


@dataclass(frozen=True)
class Searched:
    """What was found for a list of items."""

    sketch: Sketch  # one query for each item
    items: Sequence[Item]
    tokens: Sequence[int]  # lengths of the items
    source: str = ""  # which was searched by itself; by default all were at once


@dataclass(frozen=True)
class SearchTables:
    """What a search found, with what its numbers mean."""

    lists: Sequence[Searched]  # one, or one for each source: the same items, perhaps other texts
    max_tokens: int  # longest text that the embedder sees
    shards: Sequence[Shard]

    @property
    def items(self) -> Sequence[Item]:
        """Items with their texts in the first list."""
        return self.lists[0].items

    @property
    def cut(self) -> list[bool]:
        """Whether each item is longer than the embedder sees, in any of the lists."""
        return [
            max(tokens) > self.max_tokens
            for tokens in zip(*(own.tokens for own in self.lists), strict=True)
        ]

    @property
    def chunks(self) -> dict[Stratum, int]:
        """Occurrences of chunks that were searched."""
        return {name: n for own in self.lists for name, n in own.sketch.chunks.items()}

    @property
    def texts_differ(self) -> bool:
        """Whether an item is looked for by other texts in other sources."""
        return any(own.items != self.items for own in self.lists)


def write_tables(
    folder: Path, found: SearchTables, search: Search, lexical: Lexical, bar: bool
) -> None:
    """Write all tables of a scan; see `bayescontam.scan.results.Scan`.

    Of sources that were searched one by one the tables are those of each, one after the other.
    """
    top = pd.concat([_top(own, search) for own in found.lists], ignore_index=True)
    counted = search.backend != "faiss"
    if counted:
        tail = pd.concat([_tail(own, search) for own in found.lists], ignore_index=True)
    else:
        tail = _without_rows(top, "threshold", "tail_matches")
    described, scores = _look_up(folder, found, top, tail, lexical, bar)
    matches = _placed(top, described, ["rank"])
    write_table(folder / "matches.parquet", matches.join(scores))
    write_table(
        folder / "tail.parquet",
        _placed(tail, described, []).join(tail[["threshold", "tail_matches"]]),
    )
    if counted:
        histogram = pd.concat([_histogram(own) for own in found.lists], ignore_index=True)
        strata = _strata(found)
    else:
        names = matches[["benchmark", "item", "source", "stratum"]]
        empty = _without_rows(names, "cosine", "count")
        by_source = any(own.source for own in found.lists)
        histogram = empty.drop(columns=["stratum"] if by_source else ["source", "stratum"])
        strata = empty.drop(columns="item")
    write_table(folder / "histogram.parquet", histogram)
    write_table(folder / "strata.parquet", strata)
    write_table(folder / "items.parquet", _items(found))
    own_texts = folder / f"{ITEM_TEXTS}.parquet"
    own_texts.unlink(missing_ok=True)  # of the scan that is replaced
    if found.texts_differ:
        write_table(own_texts, _item_texts(found))


def _without_rows(table: pd.DataFrame, cosine: str, count: str) -> pd.DataFrame:
    """Return the columns of a table, and two more, of the types that they have otherwise."""
    more: dict[str, Any] = {cosine: np.zeros(0), count: np.zeros(0, np.int64)}
    return table[:0].assign(**more)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as Parquet, whole or not at all; equal tables become equal files."""
    with on_disk(path), atomic_path(path) as temporary:
        pq.write_table(
            pa.Table.from_pandas(table, preserve_index=False), temporary, compression="zstd"
        )


def _rows(found: Searched, parts: list[Any]) -> pd.DataFrame:
    """Return matches of all items as a table, with the number of each one's query."""
    query = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    rows = np.concatenate(parts) if parts else found.sketch.matches[:0]
    return pd.DataFrame(
        {
            "query": query,
            "list": found.source,
            "benchmark": _names(found, query, "benchmark"),
            "item": _names(found, query, "item"),
            "cosine": rows["cosine"],
            "copies": rows["copies"],
            "chunk_id": rows["chunk"],
            "where": rows["where"],
        }
    )


def _names(found: Searched, query: Any, field: str) -> Any:
    return np.array([getattr(item, field) for item in found.items], dtype=object)[query]


def _top(found: Searched, search: Search) -> pd.DataFrame:
    queries = range(len(found.items))
    table = _rows(found, [found.sketch.top(q, search.top_k) for q in queries])
    table.insert(4, "rank", table.groupby("query").cumcount().astype(np.int32) + 1)
    return table


def _tail(found: Searched, search: Search) -> pd.DataFrame:
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
    """Describe all places and score the best matches, one shard after the other."""
    columns = ["where", "chunk_id"]
    known = pd.concat([top[columns], tail[columns]]).drop_duplicates("where")
    chunk_of = known.set_index("where")["chunk_id"].sort_index()
    best = dict(iter(top.groupby(split_places(top["where"].to_numpy())[0])))
    described, scores, written = [], [], set[int]()
    # Texts are written as they are met: those of all matches may not fit into memory.
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
            # Sources that are searched one by one may share a text.
            once = texts.drop_duplicates("chunk_id")
            new = once[np.array([n not in written for n in once["chunk_id"].tolist()], bool)]
            written.update(new["chunk_id"].tolist())
            writer.write_table(pa.Table.from_pandas(new, TEXTS, preserve_index=False))
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
    of_list = {own.source: own.items for own in found.lists}
    items = [
        of_list[name][query].text for name, query in zip(known["list"], known["query"], strict=True)
    ]
    pairs = list(zip(items, texts.loc[known["where"]], strict=True))
    return lexical_scores(pairs, lexical).set_index(known.index)


def _placed(table: pd.DataFrame, described: pd.DataFrame, more: list[str]) -> pd.DataFrame:
    places = described.loc[table["where"]].set_index(table.index)
    return table.join(places)[["benchmark", "item", *more, "cosine", *_PLACED]]


def edges(bins: Any) -> Any:
    """Return the lower edges of bins of cosines."""
    return np.round((bins - 1000) / 1000, 3)


def _histogram(found: Searched) -> pd.DataFrame:
    query, place = np.nonzero(found.sketch.counts)
    columns = {
        "benchmark": _names(found, query, "benchmark"),
        "item": _names(found, query, "item"),
        **({"source": np.full(len(query), found.source, object)} if found.source else {}),
        "cosine": edges(place),
        "count": found.sketch.counts[query, place],
    }
    if isinstance(found.sketch, SampledSketch):
        columns["estimated"] = found.sketch.estimated[query, place]
    return pd.DataFrame(columns)


def _strata(found: SearchTables) -> pd.DataFrame:
    names = list(dict.fromkeys(item.benchmark for item in found.items))
    counted = {name: rows for own in found.lists for name, rows in own.sketch.strata.items()}
    tables = []
    for (source, stratum), counts in sorted(counted.items()):
        benchmark, place = np.nonzero(counts)
        keys = {"benchmark": np.array(names, object)[benchmark], "source": source}
        values = {"stratum": stratum, "cosine": edges(place), "count": counts[benchmark, place]}
        tables.append(pd.DataFrame({**keys, **values}))
    return pd.concat(tables, ignore_index=True)


def _items(found: SearchTables) -> pd.DataFrame:
    first = found.lists[0]
    return pd.DataFrame(
        {
            "benchmark": [item.benchmark for item in first.items],
            "item": [item.item for item in first.items],
            "text": [item.text for item in first.items],
            "tokens": np.array(first.tokens, np.int64),
            "cut": np.array(found.cut, bool),
        }
    )


def _item_texts(found: SearchTables) -> pd.DataFrame:
    """Return the texts of items in each source; see `Scan.item_texts`."""
    tables = [_items(SearchTables([own], found.max_tokens, [])) for own in found.lists]
    names = [own.source for own in found.lists]
    for name, table in zip(names, tables, strict=True):
        table.insert(2, "source", name)
    return pd.concat(tables, ignore_index=True)


def over_all(scan: Scan) -> pd.DataFrame:
    """Return the best matches of every item over all sources, with their ranks among these.

    Of a scan by source these are as many as of each source, and a text that several sources hold
    is one match, with the copies of all: the best matches of the corpus are among those of its
    sources. Other scans have them as they are.
    """
    if not scan.by_source:
        return scan.matches
    keys = ["benchmark", "item"]
    items = pd.MultiIndex.from_frame(scan.items[keys])
    table = scan.matches
    place = items.get_indexer(pd.MultiIndex.from_frame(table[keys]))
    order = np.lexsort([table["chunk_id"].to_numpy(), -table["cosine"].to_numpy(), place])
    table = table.iloc[order].reset_index(drop=True)
    of_text = [*keys, "chunk_id"]
    copies = table.groupby(of_text, sort=False, observed=True)["copies"].transform("sum")
    table = table.assign(copies=copies).drop_duplicates(of_text)
    rank = table.groupby(keys, sort=False, observed=True).cumcount() + 1
    table = table.assign(rank=rank.astype(table["rank"].dtype))
    return table[rank <= scan.record["search"]["top_k"]].reset_index(drop=True)


def refuse_best_only(scan: Scan) -> None:
    """Refuse a scan that counted no cosines for what needs them.

    Raises
    ------
    UsageError
        If it was searched for best matches alone (backend ``"faiss"``).
    """
    if (scan.record.get("search") or {}).get("backend") == "faiss":
        raise UsageError(
            f"{printable(str(scan.folder))}: has best matches alone, since its search.backend is"
            " 'faiss'; pairs to judge, curves, covariates and prevalence need all cosines: scan"
            ' again with backend = "torch" (the default; --backend torch)'
        )


def by_benchmark(scan: Scan) -> pd.DataFrame:
    """Return one row for each benchmark."""
    matches = over_all(scan)
    best = matches[matches["rank"] == 1]
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


def words(text: str) -> list[str]:
    """Return the words of a text: lower case, without punctuation.

    Numbers stay whole (``3.14``), and so do identifiers of programs (``top_k``) and words
    with an apostrophe. Where scripts put no spaces, each character is a word.

    >>> words("Don't round 3.14: call top_k(x)!")
    ["don't", 'round', '3.14', 'call', 'top_k', 'x']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def lexical_scores(pairs: Sequence[tuple[str, str]], spec: Lexical) -> pd.DataFrame:
    """Return the lexical baselines of pairs of texts; each text is split into words once.

    .. [1] Broder 1997, On the resemblance and containment of documents,
       doi:10.1109/SEQUEN.1997.666900
    .. [2] Chowdhery et al. 2022, PaLM (8-grams, 70 %), arXiv:2204.02311
    .. [3] Brown et al. 2020, Language models are few-shot learners (13-grams),
       arXiv:2005.14165
    .. [4] Lin 2004, ROUGE: a package for automatic evaluation of summaries,
       https://aclanthology.org/W04-1013
    """
    texts = _numbered(pairs)
    columns = [f"ngram_{n}" for n in spec.ngrams]
    columns += ["jaccard"] * spec.jaccard + ["rouge_l"] * spec.rouge_l
    scores = np.empty((len(pairs), len(columns)), dtype=np.float32)
    rows = sorted(range(len(pairs)), key=lambda row: pairs[row][0])
    for item, same in groupby(rows, key=lambda row: pairs[row][0]):
        compare = _Item(texts[item], spec)
        for row in same:
            scores[row] = compare.scores(texts[pairs[row][1]])
    return pd.DataFrame(scores, columns=columns)


def _numbered(pairs: Sequence[tuple[str, str]]) -> dict[str, Words]:
    """Return the words of every text, numbered alike."""
    vocabulary: dict[str, int] = {}
    return {
        text: [vocabulary.setdefault(word, len(vocabulary)) for word in words(text)]
        for text in dict.fromkeys(text for pair in pairs for text in pair)
    }


class _Item:
    """An item, ready to be compared with many chunks."""

    def __init__(self, item: Words, spec: Lexical) -> None:
        self.item = item
        self.spec = spec
        self.distinct = set(item)
        self.ngrams = {n: set(_ngrams(item, n)) for n in spec.ngrams}
        self.common = require("rapidfuzz.distance", "scan").LCSseq.similarity

    def scores(self, chunk: Words) -> list[float]:
        """Return the baselines with `chunk`, in the order of the columns."""
        result = [
            _ratio(len(ngrams.intersection(_ngrams(chunk, n))), len(ngrams))
            for n, ngrams in self.ngrams.items()
        ]
        if self.spec.jaccard:
            shared = len(self.distinct.intersection(chunk))
            result.append(_ratio(shared, len(self.distinct) + len(set(chunk)) - shared))
        if self.spec.rouge_l:
            shared = self.common(self.item, chunk)
            result.append(_ratio(2 * shared, len(self.item) + len(chunk)))
        return result


def _ngrams(text: Words, n: int) -> Iterator[tuple[int, ...]]:
    return zip(*(text[start:] for start in range(n)), strict=False)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
