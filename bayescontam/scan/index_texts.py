"""The texts of an index: all chunks of stored vectors, sorted by hash, copies counted once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayescontam._files import atomic_path
from bayescontam._progress import progress_bar
from bayescontam._runs import remove_files
from bayescontam.scan.sketch import places
from bayescontam.scan.stored_vectors import StoredShard
from bayescontam.scan.vector_index import OCCURRENCE, TEXT

ROWS = "rows-{}.part"
"""Chunks of a range of hashes, before they are sorted."""
ROW = np.dtype([*((n, TEXT[n].str) for n in ("chunk", "first", "where", "vector")),
                ("stratum", "<i4")])  # fmt: skip
_SORTED = 2**27
"""Bytes of chunks that are sorted at once."""


def list_texts(
    folder: Path, shards: Sequence[StoredShard], progress: bool
) -> list[tuple[str, str]]:
    """Write the tables of texts and of their occurrences; return all strata.

    By ranges of hashes, each sorted in memory, as all chunks may not fit into it.
    """
    total = sum(shard.size for shard in shards)
    bits = max(0, int(np.ceil(np.log2(max(1, total * ROW.itemsize / _SORTED)))))
    listed = (folder / "texts.npy").exists()
    remove_files(folder, ROWS.format("*"))
    strata = _spread(folder, shards, None if listed else bits, progress)
    if not listed:
        with (
            atomic_path(folder / "texts.npy") as texts_path,
            atomic_path(folder / "occurrences.npy") as occurrences_path,
            _GrowingArray(texts_path, TEXT) as texts,
            _GrowingArray(occurrences_path, OCCURRENCE) as occurrences,
        ):
            for number in range(2**bits):
                path = folder / ROWS.format(number)
                some = np.fromfile(path, ROW) if path.exists() else np.empty(0, ROW)
                found, places_of = _distinct(some, len(strata))
                found["start"] += occurrences.size
                places_of["text"] += texts.size
                texts.append(found)
                occurrences.append(places_of)
        remove_files(folder, ROWS.format("*"))
    return strata


def _spread(
    folder: Path, shards: Sequence[StoredShard], bits: int | None, progress: bool
) -> list[tuple[str, str]]:
    """Return all strata, and write all chunks into a file for each range of hashes."""
    strata: dict[tuple[str, str], int] = {}
    with progress_bar(progress, "list", sum(s.size for s in shards), "chunks") as advance:
        for number, shard in enumerate(shards):
            table, _ = shard.table()
            rows = np.empty(len(table), ROW)
            rows["chunk"], rows["first"] = table["hash"], table["first"]
            rows["where"] = places(number, np.arange(len(table)))
            rows["vector"] = places(number, table["vector"].to_numpy())
            groups: Any = table.groupby(["source", "stratum"]).indices
            for name, own in groups.items():
                rows["stratum"][own] = strata.setdefault(name, len(strata))
            if bits is not None:
                # In two steps, as a shift by all 64 bits is undefined.
                of = (rows["chunk"] >> np.uint64(1)) >> np.uint64(63 - bits)
                for each in np.unique(of).tolist():
                    with (folder / ROWS.format(each)).open("ab") as file:
                        file.write(rows[of == each].tobytes())
            advance(len(table))
    return list(strata)


class _GrowingArray:
    """A file of an array (``.npy``) that is written part by part."""

    def __init__(self, path: Path, kind: np.dtype[Any]) -> None:
        self.size = 0
        self._path, self._kind = path, kind

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._head()
        return self

    def __exit__(self, *error: object) -> None:
        # NumPy leaves room for the length in the head, which is as long as before.
        with self._file:
            self._file.seek(0)
            self._head()

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows behind those that are there."""
        self._file.write(rows.tobytes())
        self.size += len(rows)

    def _head(self) -> None:
        about = {"descr": np.lib.format.dtype_to_descr(self._kind), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self._file, about | {"shape": (self.size,)})


def _distinct(rows: NDArray[Any], strata: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct texts of some chunks, and how often each occurs in each stratum."""
    # Copies of a text beside each other, that of the lowest hash of a document first.
    rows = rows[np.lexsort((rows["where"], rows["first"], rows["chunk"]))]
    new = np.flatnonzero(np.diff(rows["chunk"], prepend=rows["chunk"][:1] ^ np.uint64(1)))
    number = np.repeat(np.arange(len(new)), np.diff(new, append=len(rows)))
    pairs, copies = np.unique(number * strata + rows["stratum"], return_counts=True)
    occurrences = np.empty(len(pairs), OCCURRENCE)
    occurrences["text"], occurrences["stratum"] = np.divmod(pairs, strata)
    occurrences["copies"] = copies
    texts = np.empty(len(new), TEXT)
    for name in ("chunk", "first", "where", "vector"):
        texts[name] = rows[name][new]
    texts["copies"] = np.diff(new, append=len(rows))
    texts["start"] = np.searchsorted(occurrences["text"], np.arange(len(new)))
    return texts, occurrences
