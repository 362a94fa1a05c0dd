"""Documents to chunks, in shards that are embedded and searched."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk
from bayescontam._optional import require
from bayescontam._runs import read_json
from bayescontam.errors import UsageError
from bayescontam.scan.documents import Cutoffs, Document, SampledDocuments, sampled
from bayescontam.scan.embedder_record import check_unchanged
from bayescontam.scan.embedders import Embedder
from bayescontam.scan.execution import (
    Execution,
    Report,
    mark_done,
    read_reports,
    report_path,
    stage_folder,
    task_name,
)
from bayescontam.scan.items import CorpusListing, EmbeddedItems, Item, ItemStage
from bayescontam.scan.served import replies_folder
from bayescontam.scan.sketch import Chunks, places
from bayescontam.scan.sources import Input
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Chunking, Embedding

_SHORTEST = 50
"""Tokens of the shortest chunk where items are long."""
_LONGEST = 2048
"""Tokens of a chunk, unless the manifest or the embedder allows fewer."""
_WINDOW = 64
"""Characters for each token of the longest chunk that are split at once: time and memory
stay in proportion to the text, whatever it is. No chunk is twice as long."""

_WORD = 16
"""Characters of parts whose numbers of tokens are remembered."""
LENGTHS = ("documents", "short", "short_pieces", "tokens", "short_tokens")
"""What the chunk stage counts of each source."""
_DOCUMENTS = 256
"""Documents that are chunked at once."""
_BYTES = 2**23
"""Text that is chunked as one task, about; inputs are not divided."""
DESCRIBED = ("document", "chunk", "start", "end", "source", "stratum")
"""What is reported of a chunk, apart from its text."""
CHUNK_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("stratum", pa.string()),
        ("document", pa.string()),
        ("chunk", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("hash", pa.uint64()),
        ("first", pa.uint64()),
    ]
)
"""Columns of a shard of texts: ``hash`` of the text, ``first`` of the occurrence."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document."""

    document: str  # name of the document
    chunk: int  # number among the document's chunks, from 0
    # start, end: where it stands: characters `[start:end]` of the document's text
    start: int
    end: int
    text: str  # those characters


@dataclass(frozen=True)
class Split:
    """Chunks of some documents, and what was too short to be one."""

    chunks: list[list[Chunk]]  # of each document, in its order; they do not overlap
    short: int  # documents left out: one piece, with too few tokens
    short_pieces: int  # pieces with too few tokens left out of other documents
    tokens: int  # tokens of all documents
    short_tokens: int  # tokens of all that was left out


class _Piece(NamedTuple):
    start: int
    end: int
    tokens: int


class Chunker:
    """Makes chunks: a text that fits is one, a longer one is split where it best can be.

    Best are blank lines, then line ends, sentences, clauses and words, in this order; see
    https://github.com/isaacus-dev/semchunk. A piece with too few tokens is joined to its
    neighbour where both fit into a chunk; else the two are divided anew, near the middle.
    White space at the ends is left out. The chunks of a document do not depend on the
    documents beside it.
    """

    def __init__(
        self, count: Callable[[Sequence[str]], list[int]], spec: Chunking, max_tokens: int
    ) -> None:
        if spec.max_tokens is not None and spec.max_tokens > max_tokens:
            raise UsageError(
                f"chunking.max_tokens: got {spec.max_tokens}, but the embedder sees {max_tokens} "
                f"tokens; give {max_tokens} or less, or leave it out"
            )
        self.max_tokens = spec.max_tokens or min(_LONGEST, max_tokens)
        self.min_tokens = max(1, spec.min_tokens or 0)
        if self.min_tokens > self.max_tokens:
            raise UsageError(
                f"chunking.min_tokens: got {spec.min_tokens}, but chunks have {self.max_tokens} "
                f"tokens at most; give {self.max_tokens} or less"
            )
        self._window = _WINDOW * self.max_tokens
        self._count = count
        self._count_word = lru_cache(2**14)(self._count_one)
        self._semchunk = require("semchunk", "scan")

    def split(self, documents: Sequence[Document]) -> Split:
        """Return the chunks of documents; their short texts are counted together."""
        chunks: list[list[Chunk]] = []
        short = short_pieces = tokens = short_tokens = 0
        for document, pieces in zip(documents, self._split_all(documents), strict=True):
            whole = [piece for piece in pieces if piece.tokens >= self.min_tokens]
            tokens += (all_tokens := sum(piece.tokens for piece in pieces))
            short_tokens += all_tokens - sum(piece.tokens for piece in whole)
            if whole or len(pieces) > 1:
                short_pieces += len(pieces) - len(whole)
            else:
                short += 1
            chunks.append(
                [
                    Chunk(document.document, number, start, end, document.text[start:end])
                    for number, (start, end, _) in enumerate(whole)
                ]
            )
        return Split(chunks, short, short_pieces, tokens, short_tokens)

    def _split_all(self, documents: Sequence[Document]) -> Iterator[list[_Piece]]:
        """Give the pieces of each document; those that may fit are counted in one call."""
        texts = [document.text for document in documents]
        spans = [_stripped(text, 0, len(text)) for text in texts]
        near = [number for number, (a, b) in enumerate(spans) if b - a <= self._window]
        counts = self._count([texts[number][slice(*spans[number])] for number in near])
        tokens = dict(zip(near, counts, strict=True))
        for number, (text, (start, end)) in enumerate(zip(texts, spans, strict=True)):
            if tokens.get(number, self.max_tokens + 1) <= self.max_tokens:
                yield [_Piece(start, end, tokens[number])]
            else:
                pieces = [
                    piece
                    for window in _windows(text, start, end, self._window)
                    for piece in self._split(text, *window)
                ]
                yield self._evened(text, self._joined(text, pieces))

    def _split(self, text: str, start: int, end: int) -> list[_Piece]:
        """Return pieces of ``text[start:end]`` that fit."""
        try:
            _, offsets = self._semchunk.chunk(
                text[start:end], self.max_tokens, self._count_part, memoize=False, offsets=True
            )
        except RecursionError:
            # It goes one level down for each kind of white space, and there are thousands.
            third = (end - start) // 3
            middle = _boundary(text, start + third, end - third)
            return self._split(text, start, middle) + self._split(text, middle, end)
        pieces: list[_Piece] = []
        for piece in self._counted(text, [(start + a, start + b) for a, b in offsets]):
            # Without white space at its ends a text may have more tokens.
            fits = piece.tokens <= self.max_tokens or piece.end - piece.start == 1
            pieces += [piece] if fits else self._split(text, piece.start, piece.end)
        return pieces

    def _joined(self, text: str, pieces: list[_Piece]) -> list[_Piece]:
        """Join short pieces to neighbours with which they fit into a chunk."""
        joined: list[_Piece] = []
        for piece in pieces:
            if joined and self._any_short(joined[-1], piece):
                both = (joined[-1].start, piece.end)
                may_fit = joined[-1].tokens + piece.tokens <= self.max_tokens
                if may_fit and both[1] - both[0] <= self._window:
                    [union] = self._counted(text, [both])
                    if union.tokens <= self.max_tokens:
                        joined[-1] = union
                        continue
            joined.append(piece)
        return joined

    def _evened(self, text: str, pieces: list[_Piece]) -> list[_Piece]:
        """Divide a short piece and its neighbour anew, near their middle, where both then do."""
        pieces = list(pieces)
        for i in range(1, len(pieces)):
            left, right = pieces[i - 1 : i + 1]
            if self._any_short(left, right):
                third = (right.end - left.start) // 3
                cut = _boundary(text, left.start + third, right.end - third)
                halves = self._counted(text, [(left.start, cut), (cut, right.end)])
                if all(self.min_tokens <= half.tokens <= self.max_tokens for half in halves):
                    pieces[i - 1 : i + 1] = halves
        return pieces

    def _any_short(self, *pieces: _Piece) -> bool:
        return any(piece.tokens < self.min_tokens for piece in pieces)

    def _counted(self, text: str, spans: list[tuple[int, int]]) -> list[_Piece]:
        """Return pieces without the white space at their ends."""
        spans = [_stripped(text, *span) for span in spans]
        counts = self._count([text[start:end] for start, end in spans])
        return [_Piece(*span, tokens) for span, tokens in zip(spans, counts, strict=True)]

    def _count_part(self, part: str) -> int:
        # Words and characters come again and again, and each call costs as much as ten of them.
        return self._count_word(part) if len(part) <= _WORD else self._count_one(part)

    def _count_one(self, part: str) -> int:
        [tokens] = self._count([part])
        # A single character cannot be split, however many tokens it has; and where nothing
        # counts, semchunk would go on character by character.
        return max(1, tokens if len(part) > 1 else min(tokens, self.max_tokens))


def shortest(lengths: Sequence[Sequence[int]], max_tokens: int) -> int:
    """Return how long a chunk is at least, by default: it follows the items."""
    known = [[length for length in part if length > 0] for part in lengths]
    halves = [np.quantile(part, 0.05) / 2 for part in known if part]
    return max(1, int(min([_SHORTEST, max_tokens, *halves])))


def text_hash(text: str) -> int:
    """Return the identity of a text: 64 bits, the same on every machine."""
    return _hash(text)


def occurrence_hash(source: str, document: str, chunk: int) -> int:
    """Return the identity of one place of the corpus: 64 bits, the same on every machine."""
    return _hash(source, document, str(chunk))


def _hash(*parts: str) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space at its ends."""
    part = text[start:end]
    inner = part.lstrip()
    start += len(part) - len(inner)
    return start, start + len(inner.rstrip())


def _windows(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    while end - start > longest:
        cut = _boundary(text, start + longest // 2, start + longest)
        yield start, cut
        start = cut
    yield start, end


def _boundary(text: str, low: int, high: int) -> int:
    """Return a place in ``(low, high]`` to split at: the best kind there is, the last of it."""
    for mark in ("\n\n", "\n", ". ", " "):
        if (at := text.rfind(mark, low, high)) >= 0:
            return at + len(mark)
    return high


@dataclass(frozen=True)
class TextShard:
    """A file of chunks with their texts; every text is embedded once."""

    path: str  # parquet file with the columns of `CHUNK_SCHEMA`
    size: int
    source: str = ""  # that of all its chunks, where sources are searched one by one

    @property
    def name(self) -> str:
        """File that it lies in."""
        return self.path

    def chunks(self, number: int, embedder: Embedder | None) -> Iterator[Chunks]:
        """Give the chunks of each stratum with their vectors."""
        yield from divided(*self.embedded(embedder), number)

    def embedded(self, embedder: Embedder | None) -> tuple[pd.DataFrame, NDArray[np.float32]]:
        """Return the chunks as `divided` takes them, and a vector for each text."""
        if embedder is None:
            raise ValueError("texts need an embedder")
        table = pq.read_table(self.path).to_pandas()
        table["row"] = np.arange(len(table))
        table = table.sort_values("first", kind="stable")
        texts = table.drop_duplicates("hash")
        table["vector"] = pd.factorize(table["hash"])[0]  # numbered as they first occur
        return table, embedder.embed(texts["text"].tolist(), "passage")

    def describe(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return `DESCRIBED` and ``text`` of some rows."""
        table = pq.read_table(self.path, columns=[*DESCRIBED, "text"]).take(pa.array(rows))
        return table.to_pandas()


def divided(table: pd.DataFrame, vectors: NDArray[Any], number: int) -> Iterator[Chunks]:
    """Give the chunks of each stratum of shard `number`, every text of it once.

    Rows are occurrences in the order of ``first``, with ``row`` (their place in the shard) and
    ``vector`` (that of their text among the vectors, dims (text, dimension)).
    """
    strata: Any = table.groupby(["source", "stratum"], sort=True)
    for (source, stratum), part in strata:
        once = part.drop_duplicates("hash")
        copies = part.groupby("hash").size()
        yield Chunks(
            (source, stratum),
            once["hash"].to_numpy(np.uint64),
            once["first"].to_numpy(np.uint64),
            places(number, once["row"].to_numpy()),
            copies.loc[once["hash"]].to_numpy(np.int64),
            vectors[once["vector"].to_numpy()],
        )


@dataclass(frozen=True)
class ChunkStage:
    """Sampled documents to shards of chunks; small inputs share them."""

    folder: Path
    candidates: Path  # where the read stage wrote
    cutoffs: Cutoffs
    count: Callable[[Sequence[str]], list[int]]  # as the embedder does, which is not needed here
    max_tokens: int
    chunking: dict[str, Chunking]  # by source; by "" where it is one for all
    rows: int  # most chunks of a shard

    def __call__(self) -> Callable[[tuple[int, list[tuple[int, str]]]], None]:
        """Make the chunkers; return the function of one task."""
        chunkers = {
            source: Chunker(self.count, chunking, self.max_tokens)
            for source, chunking in self.chunking.items()
        }
        return lambda task: self.chunk(chunkers, *task)

    def chunk(
        self, chunkers: dict[str, Chunker], number: int, inputs: list[tuple[int, str]]
    ) -> None:
        """Chunk the documents of some inputs, given as number and source."""
        by_source: dict[str, Counter[str]] = {}
        shards: list[tuple[str, int]] = []
        waiting: list[Report] = []
        for source, documents in self._batches(inputs):
            split = chunkers[source if source in chunkers else ""].split(documents)
            counts = by_source.setdefault(source, Counter(dict.fromkeys(LENGTHS, 0)))
            counts["documents"] += len(documents)
            for name in LENGTHS[1:]:
                counts[name] += getattr(split, name)
            for document, chunks in zip(documents, split.chunks, strict=True):
                waiting += [_row(source, document, chunk) for chunk in chunks]
            while len(waiting) >= self.rows:
                shards.append(self._write(number, len(shards), waiting[: self.rows]))
                waiting = waiting[self.rows :]
        if waiting:
            shards.append(self._write(number, len(shards), waiting))
        totals = {name: sum(counts[name] for counts in by_source.values()) for name in LENGTHS[:3]}
        mark_done(self.folder, number, {"shards": shards, **totals, "by_source": by_source})

    def _batches(self, inputs: list[tuple[int, str]]) -> Iterator[tuple[str, list[Document]]]:
        for number, source in inputs:
            documents = sampled(self.candidates / f"{task_name(number)}.parquet", self.cutoffs)
            for batch in batched(documents, _DOCUMENTS):
                yield source, list(batch)

    def _write(self, number: int, shard: int, rows: list[Report]) -> tuple[str, int]:
        name = f"{task_name(number)}-{task_name(shard)}.parquet"
        table = pa.Table.from_pylist(rows, CHUNK_SCHEMA)
        with on_disk(self.folder / name), atomic_path(self.folder / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=1024)
        return name, len(rows)


def _row(source: str, document: Document, chunk: Chunk) -> Report:
    return {
        "source": source,
        "stratum": document.stratum,
        "document": document.document,
        "chunk": chunk.chunk,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "hash": text_hash(chunk.text),
        "first": occurrence_hash(source, document.document, chunk.chunk),
    }


@dataclass(frozen=True)
class ChunkedDocuments:
    """Chunks of the sample in shards."""

    folder: Path
    reports: list[Report]  # what chunking counted
    shortest: dict[str, int]  # text that is searched, by source; by "" where it is one for all

    @property
    def limits(self) -> dict[str, int]:
        """The same of those sources that have texts."""
        there = {source for report in self.reports for source in report["by_source"]}
        return {name: n for name, n in self.shortest.items() if name in there} or self.shortest

    @property
    def min_tokens(self) -> int:
        """Tokens from which a text was searched in every source."""
        return max(self.limits.values())

    def shards(self) -> list[TextShard]:
        """Return the shards in order."""
        apart = "" not in self.shortest
        return [
            TextShard(
                str(self.folder / name), size, next(iter(report["by_source"])) if apart else ""
            )
            for report in self.reports
            for name, size in report["shards"]
        ]


def chunk_documents(
    corpus: CorpusListing,
    lists: dict[str, EmbeddedItems],
    sample: SampledDocuments,
    out: Path,
    execution: Execution,
) -> ChunkedDocuments:
    """Divide the documents of the sample into chunks."""
    embedding, rows = corpus.manifest.embedding, corpus.manifest.search.shard_chunks
    chunking = {
        source: _following(corpus.manifest.chunking, corpus.lists[source], embedded)
        for source, embedded in lists.items()
    }
    content: Any = {source: spec.model_dump() for source, spec in chunking.items()}
    # One that can still count, if there is any.
    embedded = max(lists.values(), key=lambda one: one.count is not None)
    folder = stage_folder(
        out, "chunk", sample.folder.name, content.get("", content), content_of(embedding),
        embedded.about, rows,
    )  # fmt: skip
    apart = "" not in lists
    groups = list(enumerate(_grouped(corpus.inputs, sample.reports, apart)))
    tasks = {task_name(i): (i, group) for i, group in groups if not _is_chunked(folder, i)}
    if tasks:
        replies = replies_folder(out, embedding)
        count = token_counter(embedded, embedding, execution, replies)
        chunk = ChunkStage(
            folder, sample.folder, sample.cutoffs, count, embedded.max_tokens, chunking, rows
        )
        for _ in execution.run("chunk", chunk, tasks, lambda task: len(task[1]), "files"):
            pass
    least = {source: max(1, spec.min_tokens or 0) for source, spec in chunking.items()}
    return ChunkedDocuments(folder, read_reports(folder, len(groups)), least)


def _following(chunking: Chunking, items: Sequence[Item], embedded: EmbeddedItems) -> Chunking:
    """Return how documents are divided; the shortest chunk follows the items by default."""
    if chunking.min_tokens is not None:
        return chunking
    lengths: dict[str, list[int]] = {}
    for item, tokens in zip(items, embedded.tokens, strict=True):
        lengths.setdefault(item.benchmark, []).append(tokens)
    least = shortest(list(lengths.values()), chunking.max_tokens or embedded.max_tokens)
    return chunking.model_copy(update={"min_tokens": least})


def token_counter(
    embedded: EmbeddedItems,
    embedding: Embedding,
    execution: Execution,
    replies: Path | None = None,
) -> Callable[[Sequence[str]], list[int]]:
    """Return what counts tokens; the embedder is loaded for it where items came from a file."""
    if embedded.count is not None:
        return embedded.count
    none = {"none": (list[str](), True)}
    stage = ItemStage(embedding, execution.device, replies)
    [(_, nothing)] = execution.run("items", stage, none, lambda _: 0, "items")
    check_unchanged(embedded.about, nothing.about)
    count: Callable[[Sequence[str]], list[int]] = nothing.count
    return count


def _is_chunked(folder: Path, number: int) -> bool:
    """Return whether a task is done, with its counts of short texts."""
    # Earlier versions did not count them; the chunks are then made again, which are the same.
    path = report_path(folder, number)
    return path.exists() and "by_source" in read_json(path)


def _grouped(
    inputs: Sequence[Input], read: list[Report], apart: bool
) -> Iterator[list[tuple[int, str]]]:
    """Give inputs, as number and source, in groups of about `_BYTES` of candidates' text.

    Where sources are searched one by one, they are `apart`: each is in groups of its own, which
    are those of a scan of it alone.
    """
    group: list[tuple[int, str]] = []
    size = 0.0
    for number, (item, report) in enumerate(zip(inputs, read, strict=True)):
        if apart and group and group[-1][1] != item.source:
            yield group
            group, size = [], 0
        group.append((number, item.source))
        size += report["bytes"] * report["candidates"] / max(1, sum(report["documents"].values()))
        if size >= _BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
