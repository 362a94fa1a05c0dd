"""Samples of a corpus: candidates of each input on disk, and those that are in the sample."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam.scan.cutoffs import Cutoffs, cutoffs
from bayescontam.scan.inputs import Input
from bayescontam.scan.read import Document, read_documents
from bayescontam.scan.tally import Tally
from bayescontam.scan.thinning import Thinner, priority
from bayescontam.specs.corpus import Source
from bayescontam.storage import atomic_path

__all__ = ["Cutoffs", "cutoffs", "priority", "sample_input", "sampled"]

_GROUP_CHARACTERS = 2**23
_GROUP_DOCUMENTS = 2**14

_SCHEMA = pa.schema(
    {
        "stratum": pa.dictionary(pa.int32(), pa.string()),
        "document": pa.string(),
        "priority": pa.uint64(),
        "text": pa.large_string(),
    }
)


def sample_input(
    item: Input,
    source: Source,
    seed: int,
    out: str | os.PathLike[str],
    *,
    max_record_bytes: int,
    skip_damage: bool = False,
) -> dict[str, Any]:
    """Read one input, and write those of its documents that may be in the sample to a file."""
    start = time.perf_counter()
    tally = Tally()
    thinner = Thinner(source.share)
    documents: Counter[str] = Counter()
    found = read_documents(item, source, tally, max_record_bytes, skip_damage=skip_damage)
    with atomic_path(out) as path, _Candidates(path, source.name) as file:
        for document in found:
            documents[document.stratum] += 1
            rank = priority(seed, source.name, document.document)
            if thinner.keeps(document.stratum, rank):
                file.add(document, rank)
    return {
        "source": source.name,
        "path": item.path,
        "documents": dict(documents),
        "complete_to": {stratum: thinner.complete_to(stratum) for stratum in documents},
        "candidates": file.count,
        "unreadable": dict(tally.unreadable),
        "listed": [list(one) for one in tally.listed.get(item.path, [])],
        "without": dict(tally.without),
        "damage": tally.damaged.get(item.path),
        "bytes": tally.bytes,
        "seconds": time.perf_counter() - start,
    }


def sampled(path: str | os.PathLike[str], cuts: Cutoffs) -> Iterator[Document]:
    """Give the documents of one file of candidates that are in the sample."""
    with pq.ParquetFile(path) as file:
        highest = cuts.of(file.schema_arrow.metadata[b"source"].decode())
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group, use_threads=False).to_batches():
                yield from _sampled(batch, highest)


def _sampled(batch: pa.RecordBatch, highest: dict[str, int]) -> Iterator[Document]:
    strata = batch["stratum"]
    cuts = np.array([highest[stratum] for stratum in strata.dictionary.to_pylist()], np.uint64)
    keep = batch["priority"].to_numpy() <= cuts[strata.indices.to_numpy()]
    chosen = batch.filter(pa.array(keep))
    columns = (chosen[name].to_pylist() for name in ("document", "stratum", "text"))
    for document, stratum, text in zip(*columns, strict=True):
        yield Document(document, stratum, text)


class _Candidates:
    """File of candidates, written in row groups of bounded size."""

    def __init__(self, path: Path, source: str) -> None:
        self.count = 0
        self._rows: list[tuple[str, str, int, str]] = []
        self._characters = 0
        self._writer = pq.ParquetWriter(
            path,
            _SCHEMA.with_metadata({"source": source}),
            compression="zstd",
            use_dictionary=["stratum"],
            write_statistics=["priority"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            self._writer.close()

    def add(self, document: Document, rank: int) -> None:
        self._rows.append((document.stratum, document.document, rank, document.text))
        self._characters += len(document.text)
        if self._characters > _GROUP_CHARACTERS or len(self._rows) == _GROUP_DOCUMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._writer.schema))
        self.count += len(self._rows)
        self._rows.clear()
        self._characters = 0
