"""All cosines of a search in a form that merges: top matches, histogram, tail."""

import json
import os
import time
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk
from bayescontam.scan.kernels import BINS, bins_of, merge_matches

Stratum = tuple[str, str]
"""Source, and stratum within it."""

ENTRY = np.dtype(
    [
        ("chunk", "<u8"),
        ("first", "<u8"),
        ("where", "<i8"),
        ("copies", "<i8"),
        ("cosine", "<f4"),
        ("priority", "<u4"),
    ]
)
"""A match; `Sketch` says what its fields are."""
_MERGED = "merged.npz"
_SECONDS = 20.0
"""Least time between two savings of what is merged."""
_SHARE = 0.05
"""Largest share of time that goes into saving: a sketch of many items is large."""


@dataclass
class Sketch:
    """Mergeable record of the cosines of all queries with all chunks seen.

    It holds a histogram of all cosines, and matches: those for which fewer than `keep`
    others have both a larger cosine and a lower priority (an all-distances sketch). So
    the `keep` best matches, and the `keep` of lowest priority above any threshold, are
    always among them. Priorities are hashes of chunk and query: the latter are a uniform
    random sample that depends on no order.

    Merging is associative and commutative.

    Cohen (2015), All-Distances Sketches, Revisited: HIP Estimators for Massive Graphs
    Analysis. https://doi.org/10.1109/TKDE.2015.2411606
    """

    keep: int  # matches of a query that can be requested
    # occurrences of chunks by cosine; bins are 0.001 wide and start at -1
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]  # where the matches of each query start in `matches`
    # largest cosine first, ties by chunk. `chunk` is the hash of a text, `copies` how often it
    # occurs, `first` the lowest hash of its occurrences, `where` the place of that one.
    matches: NDArray[Any]
    # occurrences by cosine of each stratum, summed over the items of a benchmark
    strata: dict[Stratum, NDArray[np.int64]] = field(default_factory=dict)
    chunks: dict[Stratum, int] = field(default_factory=dict)  # occurrences of chunks seen
    # shards of the corpus that were seen. Sketches that share one are not merged.
    shards: frozenset[int] = frozenset()
    tallies: dict[str, int] = field(default_factory=dict)  # whatever else was counted on the way

    @classmethod
    def empty(cls, queries: int, keep: int) -> Self:
        """Return the sketch of no chunks at all."""
        return cls(
            keep,
            np.zeros((queries, BINS), np.int64),
            np.zeros(queries + 1, np.int64),
            np.empty(0, ENTRY),
        )

    @property
    def total(self) -> int:
        """Occurrences of chunks seen."""
        return sum(self.chunks.values())

    def merge(self, other: "Sketch") -> "Sketch":
        """Return the sketch of all chunks that either has seen."""
        if self.keep != other.keep or len(self.counts) != len(other.counts):
            raise ValueError("sketches of different searches cannot be merged")
        if self.shards & other.shards:
            raise ValueError(f"shards would count twice: {sorted(self.shards & other.shards)}")
        room = np.empty(len(self.matches) + len(other.matches), ENTRY)
        sizes = np.zeros(len(self.counts), np.int64)
        merge_matches(
            self.keep, self.offsets, self.matches, other.offsets, other.matches, room, sizes
        )
        return Sketch(
            self.keep,
            self.counts + other.counts,
            np.concatenate([[0], np.cumsum(sizes)]),
            room[: sizes.sum()].copy(),
            _added(self.strata, other.strata),
            _added(self.chunks, other.chunks),
            self.shards | other.shards,
            _added(self.tallies, other.tallies),
        )

    def of(self, query: int) -> NDArray[Any]:
        """Return the matches stored of a query, largest cosine first."""
        return self.matches[self.offsets[query] : self.offsets[query + 1]]

    def top(self, query: int, size: int) -> NDArray[Any]:
        """Return the `size` best matches of a query; fewer if there are fewer chunks."""
        return self.of(query)[: self._within(size)]

    def threshold(self, query: int, share: float) -> int:
        """Return the highest bin at and above which at least `share` of all cosines lie.

        It is 0 where no chunks were seen.
        """
        above = np.cumsum(self.counts[query][::-1])[::-1]
        # Divided, since 0.07 * 100 is above 7, but 7 / 100 is not below 0.07.
        return int(np.flatnonzero(above / max(1, above[0]) >= share).max(initial=0))

    def tail(self, query: int, lowest: int, size: int) -> NDArray[Any]:
        """Return a uniform random sample of a query's distinct matches."""
        matches = self.of(query)
        matches = matches[bins_of(matches["cosine"]) >= lowest]
        return matches[np.argsort(matches["priority"], kind="stable")][: self._within(size)]

    def _within(self, size: int) -> int:
        if size > self.keep:
            raise ValueError(f"{size} matches requested, but only {self.keep} are exact")
        return size

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file (NumPy's ``.npz`` in Zstandard), whole or not at all."""
        names = sorted(self.chunks)
        about = {
            "keep": self.keep,
            "strata": [[*name, self.chunks[name]] for name in names],
            "shards": sorted(self.shards),
            "tallies": self.tallies,
        }
        # Ten times as fast as the compression of NumPy, and smaller.
        with atomic_path(path) as temporary, pa.output_stream(temporary, "zstd") as file:
            np.savez(
                file,
                about=np.frombuffer(json.dumps(about).encode(), np.uint8),
                counts=self.counts,
                offsets=self.offsets,
                matches=self.matches,
                strata=np.array([self.strata[name] for name in names], np.int64),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        with pa.input_stream(path, "zstd") as packed:
            content = BytesIO(packed.read())
        with np.load(content) as file:
            about = json.loads(file["about"].tobytes())
            names = [(source, stratum) for source, stratum, _ in about["strata"]]
            return cls(
                about["keep"],
                file["counts"],
                file["offsets"],
                file["matches"],
                dict(zip(names, file["strata"], strict=True)),
                {name: row[2] for name, row in zip(names, about["strata"], strict=True)},
                frozenset(about["shards"]),
                about["tallies"],
            )


def _added[KeyT, ValueT: (int, NDArray[np.int64])](
    one: dict[KeyT, ValueT], other: dict[KeyT, ValueT]
) -> dict[KeyT, ValueT]:
    both = dict(one)
    for name, value in other.items():
        both[name] = both[name] + value if name in both else value
    return both


class SketchMerger:
    """Sketches of shards, merged as they arrive; the merged one is saved now and then.

    A sketch says which shards it has seen, so that none counts twice after an interruption.
    """

    def __init__(self, folder: Path, sketch: Sketch) -> None:
        self.sketch = sketch
        self._folder, self._path = folder, folder / _MERGED
        self._waiting: list[Path] = []
        self._next = time.monotonic() + _SECONDS

    @classmethod
    def resume(cls, folder: Path, empty: Sketch) -> Self:
        """Merge what a folder holds already."""
        path = folder / _MERGED
        merger = cls(folder, Sketch.load(path) if path.exists() else empty)
        for shard in sorted(folder.glob("[0-9]*.npz")):
            merger.take(shard.stem)
        return merger

    def take(self, key: str) -> None:
        """Merge the sketch of a shard."""
        path = self._folder / f"{key}.npz"
        if int(key) not in self.sketch.shards:
            self.sketch = self.sketch.merge(Sketch.load(path))
        self._waiting.append(path)
        if time.monotonic() > self._next:
            self.save()

    def save(self) -> None:
        """Write what is merged, then remove what it was merged from."""
        start = time.monotonic()
        with on_disk(self._path):
            self.sketch.save(self._path)
            for path in self._waiting:
                path.unlink(missing_ok=True)
        self._waiting, now = [], time.monotonic()
        self._next = now + max(_SECONDS, (now - start) / _SHARE)
