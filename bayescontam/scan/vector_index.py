"""An index of stored vectors: nearest texts of a corpus without a pass over all of it.

Its folder has the distinct texts of the vectors in the order of their hashes, which number them
and are a random order (``texts.npy``); how often each occurs where (``occurrences.npy``); a
uniform sample of occurrences with its vectors (``sample.npy``, ``sample_rows.npy``); blocks of a
FAISS index, each with all lists and a part of the texts, which are searched as one
(``000000.faiss``); and ``index.json``, which is written last. The vectors stay where they are.
"""

import importlib.metadata
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescontam._files import sha256
from bayescontam._optional import require
from bayescontam._types import IntArray, Matrix
from bayescontam.errors import DataError, Fault
from bayescontam.parallel import usable_cores
from bayescontam.scan.index_lists import COMPARED, centres_of, nearest_lists
from bayescontam.scan.search import scaled, workers
from bayescontam.scan.sketch import ENTRY, compare_halves, split_places
from bayescontam.scan.sources import reason_of
from bayescontam.scan.stored_vectors import ABOUT as VECTORS
from bayescontam.scan.stored_vectors import StoredShard, StoredVectors, checked_record
from bayescontam.scan.uploads import native

ABOUT = "index.json"
TEXT = np.dtype(
    [
        ("chunk", "<u8"),
        ("first", "<u8"),
        ("where", "<i8"),
        ("copies", "<i8"),
        ("vector", "<i8"),
        ("start", "<i8"),
    ]
)
"""A text: the first fields are as in a sketch's matches, `vector` is the place of its vector, and
`start` the first of its rows in the table of occurrences."""
OCCURRENCE = np.dtype([("text", "<i8"), ("stratum", "<i4"), ("copies", "<i8")])
"""A text in a stratum; of a sample, `copies` counts those of its occurrences that were drawn."""
TABLES = ("texts", "occurrences", "sample_rows", "sample")
"""Tables in files of their own (``.npy``)."""
_NEEDED = {
    "format": int, "key": dict, "stored": list, "embedder": dict, "kind": str, "texts": int,
    "dims": int, "blocks": list, "probes": int, "weight": int, "strata": list, "sizes": dict,
    "recall": dict,
}  # fmt: skip
"""What ``index.json`` has."""
_ADVICE = "Give the folder that 'bayescontam index VECTORS --out FOLDER' wrote."
_QUERIES = 64
"""Queries that a thread searches at once."""


def twice_installed() -> bool:
    """Return whether both packages of FAISS are installed, which write files to the same place."""
    names = {dist.name for dist in importlib.metadata.distributions() if dist.name}
    return {"faiss-cpu", "faiss-gpu"} <= {name.lower() for name in names}


def units(vectors: NDArray[Any]) -> Matrix:
    """Return vectors of length one, in 32 bits; zeros stay zeros."""
    one, scales = with_scales(vectors)
    result: Matrix = (one * scales[:, None]).numpy()
    return result


def with_scales(vectors: NDArray[Any]) -> tuple[Any, Any]:
    """Return vectors in 32 bits, and what makes their length one, as tensors."""
    torch = require("torch", "scan")  # which does it on all cores
    # First in 32 bits, as the lengths of halves take longer.
    single = torch.from_numpy(native(vectors)).float()
    return scaled(torch, single, np.arange(len(vectors)), "vector")


@dataclass(frozen=True)
class VectorIndex:
    """An index of stored vectors, read from its folder with ``VectorIndex.load(folder)``."""

    folder: Path
    about: dict[str, Any]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], base: str | os.PathLike[str] = "."
    ) -> "VectorIndex":
        """Open the folder of an index; `base` is where relative paths start.

        Raises
        ------
        DataError
            If it holds none, a file is missing or cut short, or its vectors are others or gone.
        """
        folder = Path(base).absolute() / Path(path).expanduser()
        about = checked_record(path, folder / ABOUT, "finished index", _NEEDED, _ADVICE)
        found = cls(folder, about)
        found._check_files()
        return found

    def _check_files(self) -> None:
        faults = []
        for name, written in self.about["sizes"].items():
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                faults.append(Fault(str(path), "is missing"))
            elif size != written:
                problem = f"has {size:,} bytes, {written:,} were written: cut short or changed"
                faults.append(Fault(str(path), problem))
        if faults:
            raise DataError(faults, "Remove the folder and build the index again.")

    @cached_property
    def key(self) -> str:
        """What identifies it: a hash of what it was made of and measured."""
        return sha256((self.folder / ABOUT).read_bytes())

    @cached_property
    def stored(self) -> list[StoredVectors]:
        """Vectors that it is of.

        Raises
        ------
        DataError
            If they were changed since, or are no longer where they were.
        """
        found = []
        for entry in self.about["stored"]:
            # Moved or copied together with the index they are found beside it.
            beside = Path(os.path.normpath(self.folder / entry.get("beside", "")))
            places = [p for p in (beside, Path(entry.get("folder", ""))) if (p / VECTORS).is_file()]
            if not places:
                problem = f"its vectors were in {entry.get('folder')}, and are not there any more"
                advice = "Move them back, or build the index again."
                raise DataError([Fault(str(self.folder), problem)], advice)
            loaded = map(StoredVectors.load, places)
            same = next((each for each in loaded if each.key == entry.get("key")), None)
            if same is None:
                problem = f"the vectors in {places[0]} have changed since it was built"
                raise DataError([Fault(str(self.folder), problem)], "Build the index again.")
            found.append(same)
        return found

    @cached_property
    def shards(self) -> list[StoredShard]:
        """Parts of the vectors; their numbers are those in places."""
        return [shard for vectors in self.stored for shard in vectors.shards()]

    @cached_property
    def texts(self) -> NDArray[Any]:
        """Texts, dims (text,) of `TEXT`."""
        return self._table("texts")

    @cached_property
    def occurrences(self) -> NDArray[Any]:
        """Where each text occurs, dims (text in a stratum,) of `OCCURRENCE`, in order of texts."""
        return self._table("occurrences")

    @cached_property
    def sample_rows(self) -> NDArray[Any]:
        """Sampled occurrences, dims (row,) of `OCCURRENCE`, in order of strata."""
        return self._table("sample_rows")

    @cached_property
    def sample(self) -> NDArray[Any]:
        """Vectors of the sampled occurrences, dims (row, dimension)."""
        return self._table("sample")

    def _table(self, name: str) -> NDArray[Any]:
        path = self.folder / f"{name}.npy"
        try:
            return np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            problem = f"cannot be read ({reason_of(error)})"
            raise DataError([Fault(str(path), problem)], _ADVICE) from error

    @property
    def weight(self) -> int:
        """Occurrences that each sampled one stands for."""
        return int(self.about["weight"])

    @property
    def strata(self) -> list[tuple[str, str]]:
        """Source and stratum by number."""
        return [(source, stratum) for source, stratum in self.about["strata"]]

    @cached_property
    def _whole(self) -> tuple[Any, Any]:
        """FAISS index that searches all blocks as one, and what it is of; lists stay on disk."""
        faiss, blocks = require("faiss", "scan"), []
        for name in self.about["blocks"]:
            try:
                blocks.append(faiss.read_index(str(self.folder / name), faiss.IO_FLAG_MMAP))
            except RuntimeError as error:
                problem = "FAISS cannot read it: it is damaged, or of a newer FAISS"
                raise DataError([Fault(str(self.folder / name), problem)], _ADVICE) from error
        if self.about["kind"] == "flat":
            whole = faiss.IndexShards(self.about["dims"], False, False)
            for block in blocks:
                whole.add_shard(block)
            return whole, blocks
        # Blocks have the same lists: stacked, so that what is nearest is chosen once. Opened anew,
        # what is to search them has lists of its own, which FAISS frees as they are replaced.
        pointers = faiss.InvertedListsPtrVector()
        for block in blocks:
            pointers.push_back(block.invlists)
        stacked = faiss.HStackInvertedLists(len(blocks), pointers.data())
        whole = faiss.read_index(str(self.folder / self.about["blocks"][0]), faiss.IO_FLAG_MMAP)
        whole.replace_invlists(stacked, False)
        return whole, (stacked, blocks)

    @property
    def lists(self) -> int:
        """Number of lists; 1 where all texts are in one."""
        return 1 if self.about["kind"] == "flat" else int(self._whole[0].nlist)

    @cached_property
    def _centres(self) -> Matrix:
        return centres_of(self._whole[0].quantizer)

    def candidates(self, queries: Matrix, size: int, probes: int | None = None) -> IntArray:
        """Return texts that FAISS finds nearest, dims (query, text); -1 where there are no more.

        `probes` is the number of lists that are searched; default: that with the measured recall.
        """
        size = min(size, self.about["texts"])
        whole, ids = self._whole[0], np.empty((len(queries), size), np.int64)
        if self.about["kind"] == "flat":
            whole.search(queries, size, I=ids)
            return ids
        probes = self.about["probes"] if probes is None else probes
        products, lists = nearest_lists(queries, self._centres, probes)
        if whole.nprobe != probes:
            whole.nprobe = probes
        whole.search_preassigned(queries, size, lists, products, I=ids)
        return ids

    def nearest(
        self,
        queries: Matrix,
        size: int,
        probes: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> tuple[IntArray, Matrix]:
        """Return candidates and their exact cosines, dims (query, text), the nearest first.

        Queries are of length one. Where there are no more candidates, the text is -1 and the
        cosine -2. More lists are searched, if `probes` is not given, for those queries for which
        there are fewer candidates. `advance` gets numbers of queries that are done.
        """
        at = self.about["probes"] if probes is None else probes
        ids, cosines = self._searched(queries, size, at, advance)
        while probes is None and at < self.lists and (few := (ids < 0).any(axis=1)).any():
            at = min(2 * at, self.lists)
            ids[few], cosines[few] = self._searched(queries[few], size, at)
        return ids, cosines

    def _searched(
        self,
        queries: Matrix,
        size: int,
        probes: int,
        advance: Callable[[int], object] | None = None,
    ) -> tuple[IntArray, Matrix]:
        """Return what `nearest` does, of so many lists; by threads that wait for none."""
        torch, faiss = require("torch", "scan"), require("faiss", "scan")
        size = min(size, self.about["texts"])
        ids = np.full((len(queries), size), -1)
        cosines = np.full(ids.shape, -2, np.float32)

        def search(at: int) -> None:
            faiss.omp_set_num_threads(1)  # of this thread
            some = slice(at, at + _QUERIES)
            found = self.candidates(queries[some], size, probes)
            exact = self._exact(queries[some], found)
            # Ties by hash, which is the order of texts.
            order = np.lexsort((found, -exact), axis=1)
            ids[some] = np.take_along_axis(found, order, 1)
            cosines[some] = np.take_along_axis(exact, order, 1)
            if advance is not None:
                advance(len(found))

        # What all threads read is there before them.
        self.candidates(queries[:0], size, probes)
        _ = self.shards, self.texts, self._mapped
        with workers(torch, usable_cores()) as pool:
            list(pool.map(search, range(0, len(queries), _QUERIES)))  # raises what threads raise
        return ids, cosines

    def _exact(self, queries: Matrix, ids: IntArray) -> Matrix:
        """Return the cosines of queries with texts, dims (query, text); -2 where there is none."""
        cosines = np.full(ids.shape, -2, np.float32)
        owners, columns = np.nonzero(ids >= 0)
        places = self.texts["vector"][ids[owners, columns]]
        # In the order of the files.
        order = np.argsort(places)
        owners, columns = owners[order], columns[order]
        shard, row = split_places(places[order])
        numbers, starts = np.unique(shard, return_index=True)
        found = np.empty(len(row), np.float32)
        for number, start, end in zip(numbers, starts, [*starts[1:], len(row)], strict=True):
            own = slice(start, end)
            self._compare(int(number), row[own], queries, owners[own], found[own])
        cosines[owners, columns] = found
        return cosines

    def _compare(
        self, number: int, rows: IntArray, queries: Matrix, owners: IntArray, cosines: Matrix
    ) -> None:
        """Write the cosines of rows of a file with the queries that own them."""
        vectors = self._opened(number)
        if vectors.dtype == np.float16:
            compare_halves(vectors.view(np.uint16), rows, queries, owners, cosines)
        else:
            step = max(1, COMPARED // (4 * queries.shape[1]))
            for at in range(0, len(rows), step):
                some = slice(at, at + step)
                part = vectors[rows[some]]
                odd = ~np.isfinite(part).all(axis=1)
                unit = units(np.where(odd[:, None], 0, part))
                products = np.einsum("rd,rd->r", unit, queries[owners[some]])
                cosines[some] = np.where(odd, np.nan, products.clip(-1, 1))
        if np.isnan(cosines).any():
            row = int(rows[np.isnan(cosines)][0]) + 1
            fault = Fault(self.shards[number].name, "the vector is not finite", row=row)
            raise DataError([fault], _ADVICE)

    def entries(self, ids: IntArray) -> NDArray[Any]:
        """Return texts as matches of a sketch, cosine and priority aside."""
        rows, texts = np.zeros(len(ids), ENTRY), self.texts[ids]
        for name in ("chunk", "first", "where", "copies"):
            rows[name] = texts[name]
        return rows

    def vectors(self, ids: IntArray) -> NDArray[Any]:
        """Return the vectors of texts as they are stored, dims (text, dimension)."""
        shard, row = split_places(self.texts["vector"][ids])
        pairs = zip(shard.tolist(), row.tolist(), strict=True)
        return np.stack([self._opened(number)[at] for number, at in pairs])

    def _opened(self, number: int) -> NDArray[Any]:
        """Return the vectors of a file, which stays mapped: to map its pages takes long."""
        if number not in self._mapped:
            name = self.shards[number].name
            try:
                self._mapped[number] = np.asarray(np.load(name, mmap_mode="r"))
            except (OSError, ValueError, EOFError) as error:
                problem = f"cannot be read ({reason_of(error)})"
                raise DataError([Fault(name, problem)], _ADVICE) from error
        return self._mapped[number]

    @cached_property
    def _mapped(self) -> dict[int, NDArray[Any]]:
        return {}


def pieces(
    texts: NDArray[Any], shards: Sequence[StoredShard], ids: IntArray | None = None
) -> Iterator[tuple[int, IntArray, Matrix]]:
    """Give the number of each part, its texts (all, or those among `ids`) and their vectors.

    Vectors are as stored, dims (text, dimension), and in the order of the file.
    """
    chosen = np.arange(len(texts)) if ids is None else ids
    chosen = chosen[np.argsort(texts["vector"][chosen], kind="stable")]
    number, row = split_places(texts["vector"][chosen])
    starts = np.searchsorted(number, np.arange(len(shards) + 1))
    for part, shard in enumerate(shards):
        own = slice(starts[part], starts[part + 1])
        if own.stop > own.start:
            vectors = np.load(shard.name, mmap_mode="r")[row[own]]
            if not np.isfinite(vectors).all():
                odd = int(row[own][~np.isfinite(vectors).all(axis=1)][0])
                raise DataError([Fault(shard.name, "the vector is not finite", row=odd + 1)])
            yield part, chosen[own], vectors


def candidates(top_k: int, weight: int) -> int:
    """Return how many texts FAISS is to find, for so many best ones and a sample of this weight.

    As many as reach down to where the sample is dense: what is not among them is counted by it.
    """
    return max(2 * top_k, 5 * weight)


def same_embedder(stored: Sequence[StoredVectors]) -> None:
    """Refuse vectors of different embedders."""
    for other in stored[1:]:
        other.check_embedder(stored[0].about["embedder"])
