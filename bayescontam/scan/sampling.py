"""Stratified samples of documents, the same in whatever order the corpus is read.

Every document has a priority: a hash of seed, source and name, as good as uniform over the
64-bit integers. Of a stratum with N documents, the ceil(share × N) of lowest priority are the
sample: bottom-k sampling, which is simple random sampling without replacement, in every
stratum apart [1]_. N is known only when all has been read, so every input is first thinned
out to candidates, independently of all others; `bayescontam.scan.sampling` then finds how far
down each stratum is sampled.

Thinning keeps a document if its priority is below 1.5 × share × 2⁶⁴, or no more than the
256th lowest so far of its stratum in this input. Why nothing of the sample can get lost
unnoticed: let c be the larger of both bounds when the input ends (2⁶⁴ if the input has fewer
than 256 documents of the stratum). The 256th lowest only falls while reading, so every
document with priority <= c was stored. Hence below the least c of all inputs the candidates are
complete; if the k-th lowest candidate lies there, it is the k-th lowest document. That is
verified for every stratum, and an error if it fails.

How often it fails: never for k <= 256, as the k lowest documents of a stratum are then among
the 256 lowest of their inputs. For k > 256, only if fewer than k = ceil(s N) of N documents lie
below 1.5 s × 2⁶⁴. Their number is binomial with mean m = 1.5 s N > 384, and the Chernoff bound
P(X <= (2/3) m) <= exp(-m (1/3 + (2/3) log(2/3))) is below 4e-11 at m = 384 and falls from there.

References
----------
.. [1] E. Cohen and H. Kaplan (2007). Summarizing data using bottom-k sketches. Proceedings of
   the 26th ACM Symposium on Principles of Distributed Computing, 225-234.
   https://doi.org/10.1145/1281100.1281133
"""

import hashlib
import heapq
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.specs.corpus import Source

HIGHEST = 2**64 - 1
"""Highest priority there is."""

MARGIN = 1.5
"""Candidates for each document of the sample, about."""

SURE = 256
"""Documents of lowest priority that are candidates in every stratum of an input."""
_SLACK = 2**16
_BATCH_ROWS = 2**17


def priority(seed: int, source: str, document: str) -> int:
    """Return the rank of a document in the lottery, uniform over the 64-bit integers."""
    key = f"{seed}\x1f{source}\x1f{document}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


class BottomKFilter:
    """Decides which documents of one input may be in the sample."""

    def __init__(self, share: float) -> None:
        self._below = min(HIGHEST + 1, int(MARGIN * share * 2**64))
        self._lowest: dict[str, list[int]] = {}

    def keeps(self, stratum: str, rank: int) -> bool:
        """Return whether to keep a document of priority `rank`."""
        if self._below > HIGHEST:
            return True
        # A heap of negative numbers has the highest priority in front.
        lowest = self._lowest.setdefault(stratum, [])
        if len(lowest) < SURE:
            heapq.heappush(lowest, -rank)
            return True
        if rank < -lowest[0]:
            heapq.heapreplace(lowest, -rank)
            return True
        return rank < self._below or rank == -lowest[0]

    def complete_to(self, stratum: str) -> int:
        """Return the priority up to which every document of a stratum was stored."""
        lowest = self._lowest.get(stratum, [])
        if len(lowest) < SURE:
            return HIGHEST
        return max(self._below - 1, -lowest[0])


@dataclass(frozen=True)
class Cutoffs:
    """What of every stratum is in the sample."""

    # one row for each stratum of each source: `source`, `stratum`, `documents` (how many there
    # are), `sampled` (how many are in the sample), `share` (achieved) and `cutoff` (uint64):
    # documents of at most this priority are in the sample
    table: pd.DataFrame

    def of(self, source: str) -> dict[str, int]:
        """Return the cut-offs of a source by stratum."""
        rows = self.table[self.table["source"] == source]
        return dict(zip(rows["stratum"], rows["cutoff"].tolist(), strict=True))


def target(share: float, documents: int) -> int:
    """Return how many documents of a stratum are sampled: ceil(share × documents).

    The share counts as the decimal number that was written, so that 0.07 of 100 are 7:
    the binary number that stands for it is a little more, and would make it 8.

    >>> target(0.07, 100), target(0.01, 1), target(1.0, 5)
    (7, 1, 5)
    """
    return math.ceil(Fraction(str(share)) * documents)


def cutoffs(
    reports: Sequence[Mapping[str, Any]],
    files: Sequence[str | os.PathLike[str]],
    sources: Mapping[str, Source],
) -> Cutoffs:
    """Find how far down the priorities the sample of each stratum reaches.

    Documents of the same priority are in the sample together: those whose names stand more
    than once in a source. They may make a sample larger than its share, never smaller.
    """
    pairs = list(zip(reports, files, strict=True))
    rows: list[dict[str, Any]] = []
    for name, source in sources.items():
        own = [(report, file) for report, file in pairs if report["source"] == name]
        if own:
            rows += _source_rows(name, source.share, own)
    columns = ["source", "stratum", "documents", "sampled", "share", "cutoff"]
    return Cutoffs(pd.DataFrame(rows, columns=columns).astype({"cutoff": "uint64"}))


def _source_rows(
    name: str, share: float, own: list[tuple[Mapping[str, Any], Any]]
) -> Iterator[dict[str, Any]]:
    documents: Counter[str] = Counter()
    complete_to: dict[str, int] = {}
    for report, _ in own:
        documents.update(report["documents"])
        for stratum, to in report["complete_to"].items():
            complete_to[stratum] = min(to, complete_to.get(stratum, HIGHEST))
    if not documents:
        raise _no_documents(name, [report for report, _ in own])
    lowest = {stratum: _Lowest(target(share, count)) for stratum, count in documents.items()}
    if share < 1:
        for _, file in own:
            _add_priorities(file, lowest)
    for stratum, count in sorted(documents.items()):
        cutoff, sampled = (HIGHEST, count) if share == 1 else lowest[stratum].cut()
        if sampled < target(share, count) or cutoff > complete_to[stratum]:
            raise _incomplete(name, stratum)
        yield {
            "source": name,
            "stratum": stratum,
            "documents": count,
            "sampled": sampled,
            "share": sampled / count,
            "cutoff": cutoff,
        }


@dataclass
class _Lowest:
    """The lowest of many numbers, in memory for about twice as many."""

    count: int  # how many are of interest, 1 or more
    _held: list[NDArray[np.uint64]] = field(default_factory=list)
    _size: int = 0

    def add(self, values: NDArray[np.uint64]) -> None:
        self._held.append(values)
        self._size += len(values)
        if self._size > 2 * self.count + _SLACK:
            self._held = [self._lowest()]
            self._size = len(self._held[0])

    def cut(self) -> tuple[int, int]:
        """Return the highest of the lowest, and how many numbers are at most that."""
        lowest = self._lowest()
        return (int(lowest.max()), len(lowest)) if len(lowest) else (0, 0)

    def _lowest(self) -> NDArray[np.uint64]:
        values = np.concatenate(self._held) if self._held else np.empty(0, np.uint64)
        if len(values) <= self.count:
            return values
        values.partition(self.count - 1)
        return values[values <= values[self.count - 1]]


def _add_priorities(file: str | os.PathLike[str], lowest: Mapping[str, _Lowest]) -> None:
    with pq.ParquetFile(file) as stored:
        for group in range(stored.num_row_groups):
            table = stored.read_row_group(group, columns=["stratum", "priority"], use_threads=False)
            for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                for stratum, values in _by_stratum(batch):
                    lowest[stratum].add(values)


def _by_stratum(batch: pa.RecordBatch) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    codes = batch["stratum"].indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    parts = np.split(batch["priority"].to_numpy()[order], starts[1:])
    names = batch["stratum"].dictionary
    for code, values in zip(found, parts, strict=True):
        yield names[int(code)].as_py(), values


def _no_documents(name: str, reports: list[Mapping[str, Any]]) -> DataError:
    unreadable: Counter[str] = Counter()
    for report in reports:
        unreadable.update(report["unreadable"])
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in unreadable.most_common())
    problem = f"no document in {len(reports):,} inputs ({reasons or 'all are empty'})"
    advice = "Take the source out of the manifest, or fix its paths and the names of its fields."
    return DataError([Fault(f"source '{printable(name)}'", problem)], advice)


def _incomplete(name: str, stratum: str) -> DataError:
    problem = f"stratum '{printable(stratum)}': too few candidates for its share of the sample"
    advice = (
        "Are names of documents repeated? Set `document` to a field that differs, or share = 1. "
        "Otherwise it is chance, of less than 1 in 10,000,000,000: take another seed."
    )
    return DataError([Fault(f"source '{printable(name)}'", problem)], advice)
