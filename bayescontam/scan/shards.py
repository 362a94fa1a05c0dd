"""Shards of texts and vectors, as they are searched and as matches are looked up."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam.scan.chunking import occurrence_hash
from bayescontam.scan.embedders import Embedder
from bayescontam.scan.search import Chunks
from bayescontam.scan.vectors import VectorFile

ROW_BITS = 32
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


def places(number: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of rows of a shard."""
    return (np.int64(number) << ROW_BITS) | rows.astype(np.int64)


def split_places(where: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the shards and rows of places."""
    return where >> ROW_BITS, where & (2**ROW_BITS - 1)


@dataclass(frozen=True)
class TextShard:
    """A file of chunks with their texts; every text is embedded once."""

    path: str  # parquet file with the columns of `CHUNK_SCHEMA`
    size: int

    @property
    def name(self) -> str:
        """File that it lies in."""
        return self.path

    def chunks(self, number: int, embedder: Embedder | None) -> Iterator[Chunks]:
        """Give the chunks of each stratum with their vectors."""
        if embedder is None:
            raise ValueError("texts need an embedder")
        table = pq.read_table(self.path).to_pandas()
        table["row"] = np.arange(len(table))
        table = table.sort_values("first", kind="stable")
        texts = table.drop_duplicates("hash")
        vectors = embedder.embed(texts["text"].tolist(), "passage")
        place_of = pd.Series(np.arange(len(texts)), index=texts["hash"])
        for (source, stratum), part in table.groupby(["source", "stratum"], sort=True):
            once = part.drop_duplicates("hash")
            copies = part.groupby("hash").size()
            yield Chunks(
                (source, stratum),
                once["hash"].to_numpy(np.uint64),
                once["first"].to_numpy(np.uint64),
                places(number, once["row"].to_numpy()),
                copies.loc[once["hash"]].to_numpy(np.int64),
                vectors[place_of.loc[once["hash"]].to_numpy()],
            )

    def describe(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return `DESCRIBED` and ``text`` of some rows."""
        table = pq.read_table(self.path, columns=[*DESCRIBED, "text"]).take(pa.array(rows))
        return table.to_pandas()


@dataclass(frozen=True)
class VectorShard:
    """Rows of a file of vectors."""

    source: str
    file: VectorFile
    name: str  # the file's path, as people see it
    # start, stop: rows
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Vectors in it."""
        return self.stop - self.start

    def chunks(self, number: int, embedder: Embedder | None) -> Iterator[Chunks]:
        """Give the vectors, a part at a time; each is a chunk of its own."""
        at = self.start
        for vectors in self.file.read(self.start, self.stop):
            rows = np.arange(at, at + len(vectors))
            base = occurrence_hash(self.source, self.name, 0)
            hashes = _mixed(np.uint64(base), rows)
            at += len(vectors)
            ones = np.ones(len(rows), np.int64)
            stratum = self.source, ""
            yield Chunks(stratum, hashes, hashes, places(number, rows), ones, vectors)

    def describe(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return `DESCRIBED` and ``text`` of rows of the file: what its columns say.

        Else a vector is a chunk of its file, numbered from 0.
        """
        columns = ["document", "chunk", "start", "end", "text"]
        given = pd.DataFrame(self.file.columns(columns, rows), index=range(len(rows)), dtype=object)
        table = pd.DataFrame({"document": self.name, "chunk": rows, "start": 0, "end": 0})
        for name in table.columns.intersection(given.columns):
            values = given[name] if name == "document" else pd.to_numeric(given[name], "coerce")
            known = values.notna()
            table.loc[known, name] = values[known].astype(table[name].dtype)
        table = table.assign(source=self.source, stratum="", text=None)
        if "text" in given:
            # What is no text has none: it may be a number.
            table["text"] = given["text"].where(
                given["text"].map(lambda text: isinstance(text, str))
            )
        return table


type Shard = TextShard | VectorShard
"""A part of the corpus that is searched as one task."""


def _mixed(base: np.uint64, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a hash of file and row: SplitMix64's finalizer, a bijection of the row."""
    with np.errstate(over="ignore"):
        x = base + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
