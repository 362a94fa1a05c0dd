"""Building an index of stored vectors: block by block, so that memory stays bounded."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk
from bayescontam._optional import require
from bayescontam._progress import progress_bar, stage, write_line
from bayescontam._runs import LOCK, claimed_folder, read_json, remove_files, write_json
from bayescontam._text import printable
from bayescontam._types import IntArray, Matrix
from bayescontam.errors import DataError, UsageError
from bayescontam.scan.distinct import check_distinct
from bayescontam.scan.index_lists import NearestList, centres_of, nearest_list, trained_centres
from bayescontam.scan.index_texts import list_texts
from bayescontam.scan.stored_vectors import (
    FORMAT,
    StoredShard,
    StoredVectors,
    megabytes,
)
from bayescontam.scan.vector_index import (
    ABOUT,
    TABLES,
    VectorIndex,
    candidates,
    pieces,
    same_embedder,
    twice_installed,
    units,
)

Kind = Literal["flat", "ivf-sq8", "ivf-pq"]
BEGUN, TRAINED = "building.json", "trained.faiss"
"""What an unfinished index is made of, and its lists without texts."""
FLAT = 100_000
"""Texts up to which a pass over all is as fast as one wants."""
CODES = 2**34
"""Bytes up to which a number of every vector takes a byte; beyond, eight numbers do."""
_BLOCK = 2**28
"""Bytes of codes of a block, which is made in memory."""
_TRAINING = 3 * 2**28
"""Bytes of vectors that lists are trained on at most."""
_PER_LIST = 40, 64
"""Fewest and most training vectors for each list; FAISS warns below 39."""
_HELD_OUT = 256
"""Texts that recall is measured with; none of them trains the lists."""
RECALL = 0.98
"""Share of the nearest texts that a search is to find, unless another is given."""
_BEST = 100
"""Nearest texts of each that are to be found."""
_SAMPLE, _WEIGHT = 20_000, 64
"""Occurrences of the sample at least, and how many each of them stands for at most."""
_LEAST = {"ivf-sq8": 100, "ivf-pq": 10_000}
"""Texts below which lists, or the 256 codes of each part of a vector, cannot be trained."""


def build_index(
    vectors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    kind: Literal["auto", "flat", "ivf-sq8", "ivf-pq"] = "auto",
    recall: float = RECALL,
    replace: bool = False,
    progress: bool = False,
) -> VectorIndex:
    """Build an index of stored vectors by FAISS, or resume one that was interrupted.

    With it the next benchmark is searched in a fraction of the time that a pass over all
    vectors takes (`run_scan` with ``index`` in the manifest), and `find_nearest` takes
    less than a second. Texts that occur several times are in it once.

    Parameters
    ----------
    vectors : path-like or sequence of path-like
        Folders of vectors that scans stored (`run_scan` with `keep_vectors`), by one
        embedder. They are needed by every search: the index does not hold them.
    out : path-like
        Folder of the index. One that was interrupted is resumed; a finished one of the
        same vectors is returned as it is.
    kind : {"auto", "flat", "ivf-sq8", "ivf-pq"}, default "auto"
        ``"flat"`` compares with every vector, in 16 bits. The others compare with those
        of the most similar lists: ``"ivf-sq8"`` with a byte a number, ``"ivf-pq"`` with a
        byte for about eight. ``"auto"`` chooses by size: flat up to 100,000 texts, and
        ivf-pq where a byte a number would take more than 16 GiB.
    recall : float, default 0.98
        Share, in (0, 1), of the 100 nearest texts that a search is to find. So many lists
        are searched that 256 texts, held out from training, find it.
    replace : bool, default False
        Whether a finished index of other vectors may be replaced.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    VectorIndex
        Its ``about["recall"]`` has the recall that was measured.

    Raises
    ------
    UsageError
        If an option cannot be used, the vectors are of different embedders, or their documents
        would count twice or as one source.
    DataError
        If a folder holds no stored vectors, or they are damaged.
    TaskError
        If the disk is full; the finished part is stored.
    MissingExtraError
        If the extra 'scan' is not installed.

    References
    ----------
    .. [1] Johnson, Douze and Jégou (2019), Billion-scale similarity search with GPUs,
       doi:10.1109/TBDATA.2019.2921572

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.build_index("no-such-folder", "index")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no stored vectors: is no folder
    Give the folder 'vectors' of a scan that was run with --keep-vectors.
    """
    if kind not in ("auto", *get_args(Kind)):
        raise UsageError(f"kind: got {kind!r}; allowed: 'auto', 'flat', 'ivf-sq8', 'ivf-pq'")
    if not 0 < recall < 1:
        raise UsageError(f"recall: got {recall}; allowed: above 0 and below 1")
    given = [vectors] if isinstance(vectors, str | os.PathLike) else list(vectors)
    if not given:
        raise UsageError("vectors: is empty; give one folder of stored vectors or several")
    stored = [StoredVectors.load(folder) for folder in given]
    same_embedder(stored)
    for note in check_distinct(stored):
        write_line(progress, note)
    _check_names(stored)
    require("faiss", "scan")
    write_line(
        progress and twice_installed(),
        "both faiss-cpu and faiss-gpu are installed, which write the same files: pip uninstall"
        " both, then install the one that you want",
    )
    folder, key = Path(out), {"stored": [v.key for v in stored], "kind": kind, "recall": recall}
    for each in stored:
        if folder.resolve().is_relative_to(each.folder.resolve()):
            raise UsageError(f"{printable(str(folder))}: lies among the vectors; choose another")
    _refuse_other_folder(folder)
    with claimed_folder(folder, "index", "index", lambda: True), on_disk(folder):
        if not _finished(folder, key, replace):
            IndexBuild(folder, stored, kind, recall, progress).run(key)
    return VectorIndex.load(folder)


def _check_names(stored: Sequence[StoredVectors]) -> None:
    """Refuse two sources of one name, which a search of the index could not keep apart."""
    seen: dict[str, Path] = {}
    for number, each in enumerate(stored, 1):
        for name in each.sources:
            if name in seen:
                raise UsageError(
                    f"source '{printable(name, 60)}': is in {printable(str(seen[name]))} and in"
                    f" {printable(str(each.folder))}, whose documents would count as one source;"
                    " join the folders under other names, then build the index of the new one:"
                    f" bayescontam vectors add … --rename {printable(f'{number}:{name}', 60)}=NAME"
                )
            seen[name] = each.folder


def _refuse_other_folder(folder: Path) -> None:
    """Refuse a folder with files and no index: what is replaced is removed."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names - {LOCK} and _key_in(folder / ABOUT) is None and _key_in(folder / BEGUN) is None:
        raise UsageError(
            f"{printable(str(folder))}: holds files, and no index; --out needs a new or empty"
            " folder, or that of an interrupted index"
        )


def _key_in(path: Path) -> dict[str, Any] | None:
    """Return what an index is made of, finished or not; None where a file is none of an index."""
    try:
        content = read_json(path)
        key = content["key"] if path.name == ABOUT else content
        return key if isinstance(key, dict) and isinstance(key["stored"], list) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _finished(folder: Path, key: dict[str, Any], replace: bool) -> bool:
    """Return whether a folder has the index; clear it of another."""
    done, lost = _key_in(folder / ABOUT), False
    if done is not None:
        try:
            VectorIndex.load(folder)
        except DataError:
            if read_json(folder / ABOUT).get("format") != FORMAT and not replace:
                raise
            lost = True  # something of it: made again
    if done is not None and done != key and not replace:
        changed = ", ".join(name for name in key if done.get(name) != key[name])
        raise UsageError(
            f"{printable(str(folder))}: holds a finished index, and this has changed since:"
            f" {changed}; choose another folder, or pass --replace to lose that index"
        )
    if done == key and not lost:
        _remove(folder, BEGUN, TRAINED)  # a kill may have left them
        return True
    (folder / ABOUT).unlink(missing_ok=True)
    if lost or _key_in(folder / BEGUN) != key:
        _remove(folder, "[0-9][0-9][0-9][0-9][0-9][0-9].faiss", TRAINED, BEGUN)
        _remove(folder, *(f"{name}.npy" for name in TABLES))
        write_json(folder / BEGUN, key)
    return False


def _remove(folder: Path, *patterns: str) -> None:
    for pattern in patterns:
        remove_files(folder, pattern)


@dataclass(frozen=True)
class IndexBuild:
    """The making of an index; what is in the folder already is not made again."""

    folder: Path
    stored: list[StoredVectors]
    kind: str
    recall: float  # goal
    progress: bool

    def run(self, key: dict[str, Any]) -> None:
        """Write all files, ``index.json`` last."""
        strata = list_texts(self.folder, self.shards, self.progress)
        kind, reason = self._choose()
        write_line(self.progress, f"{len(self.texts):,} distinct texts: {kind}, {reason}")
        weight = self._draw()
        blocks = self._add(kind)
        about = {
            "format": FORMAT, "key": key, "kind": kind, "reason": reason,
            "stored": [self._place(vectors) for vectors in self.stored],
            "embedder": self.stored[0].about["embedder"],
            "texts": len(self.texts), "dims": self.dims,
            "occurrences": int(self.texts["copies"].sum()), "strata": strata,
            "weight": weight, "blocks": blocks, "probes": 0,
            "faiss": require("faiss", "scan").__version__,
        }  # fmt: skip
        measured = self._measure(about)
        files = [*blocks, *(f"{name}.npy" for name in TABLES)]
        sizes = {name: (self.folder / name).stat().st_size for name in files}
        write_json(self.folder / ABOUT, about | measured | {"sizes": sizes})
        _remove(self.folder, BEGUN, TRAINED)

    @cached_property
    def shards(self) -> list[StoredShard]:
        """Parts of the vectors."""
        return [shard for vectors in self.stored for shard in vectors.shards()]

    @property
    def dims(self) -> int:
        """Dimensions of the vectors."""
        return int(np.load(self.shards[0].name, mmap_mode="r").shape[1])

    @cached_property
    def texts(self) -> NDArray[Any]:
        """Distinct texts, as in the index."""
        return np.load(self.folder / "texts.npy", mmap_mode="r")

    @property
    def _held_out(self) -> int:
        """Texts of the highest hashes, that recall is measured with."""
        return min(_HELD_OUT, len(self.texts) // 2)

    def _place(self, vectors: StoredVectors) -> dict[str, str]:
        """Return where vectors are; all folders may be moved together."""
        home = vectors.folder.resolve()
        beside = os.path.relpath(home, self.folder.resolve())
        return {"folder": str(home), "beside": beside, "key": vectors.key}

    def _save(self, name: str, array: NDArray[Any]) -> None:
        with atomic_path(self.folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, array)

    def _choose(self) -> tuple[Kind, str]:
        """Return the kind of the index, and why."""
        texts, dims = len(self.texts), self.dims
        if self.kind != "auto":
            chosen: Any = self.kind
            if texts < (least := _LEAST.get(chosen, 1)):
                raise UsageError(
                    f"kind: {chosen!r} cannot be trained on {texts:,} texts, it needs {least:,};"
                    " choose 'flat'"
                )
            return chosen, "as chosen"
        if texts <= FLAT:
            return "flat", f"up to {FLAT:,} texts a search of all is fast"
        size = f"a byte for each of {dims} numbers takes {megabytes(texts * dims)}"
        if texts * dims <= CODES:
            return "ivf-sq8", size
        return "ivf-pq", f"{size}, more than {megabytes(CODES)}"

    def _draw(self) -> int:
        """Write a uniform sample of occurrences with their vectors; return its weight.

        Systematic in the order of hashes: a text that occurs often is in it as often as it should.
        """
        rows = np.load(self.folder / "occurrences.npy", mmap_mode="r")
        total = int(rows["copies"].sum())
        weight = min(_WEIGHT, max(1, total // _SAMPLE))
        if (self.folder / "sample_rows.npy").exists():
            return weight
        steps = (np.cumsum(rows["copies"]) + weight // 2) // weight
        hits = np.diff(steps, prepend=weight // 2 // weight)
        drawn = rows[hits > 0].copy()
        drawn["copies"] = hits[hits > 0]
        drawn = drawn[np.argsort(drawn["stratum"], kind="stable")]
        path = self.folder / "sample.npy"
        kinds = {np.load(shard.name, mmap_mode="r").dtype for shard in self.shards}
        kind = np.result_type(*kinds)
        with atomic_path(path) as temporary:
            with temporary.open("wb") as file:
                # Otherwise a disk that fills up ends the process, not the writing.
                os.posix_fallocate(file.fileno(), 0, len(drawn) * self.dims * kind.itemsize)
            sample = np.lib.format.open_memmap(
                temporary, "w+", kind, shape=(len(drawn), self.dims), version=(1, 0)
            )
            chosen, inverse = np.unique(drawn["text"], return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            starts = np.searchsorted(inverse[order], np.arange(len(chosen) + 1))
            with progress_bar(self.progress, "sample", len(chosen), "texts") as advance:
                for _, ids, vectors in pieces(self.texts, self.shards, chosen):
                    at = np.searchsorted(chosen, ids)
                    for place, vector in zip(at, vectors, strict=True):
                        sample[order[starts[place] : starts[place + 1]]] = vector
                    advance(len(ids))
            sample.flush()
            del sample
        self._save("sample_rows", drawn)
        return weight

    def _train(self, kind: Kind) -> Any:
        """Return the empty index, whose lists are trained on the texts of the lowest hashes."""
        faiss, path, texts = require("faiss", "scan"), self.folder / TRAINED, len(self.texts)
        if path.exists():
            return faiss.read_index(str(path))
        if kind == "flat":
            index = faiss.index_factory(self.dims, "IDMap,SQfp16", faiss.METRIC_INNER_PRODUCT)
            size = 0
        else:
            room = min(_TRAINING // (4 * self.dims), texts - self._held_out)
            lists = 2 ** round(np.log2(max(1, 4 * texts**0.5)))
            lists = int(max(1, min(lists, room // _PER_LIST[0])))
            size = min(room, lists * _PER_LIST[1])
            code = "SQ8" if kind == "ivf-sq8" else f"PQ{_parts(self.dims)}"
            description = f"IVF{lists},{code}"
            index = faiss.index_factory(self.dims, description, faiss.METRIC_INNER_PRODUCT)
            write_line(self.progress, f"training {lists:,} lists on {size:,} of {texts:,} texts")
        sample = self._gathered(np.arange(size))
        if size:
            ivf = faiss.extract_index_ivf(index)
            with progress_bar(self.progress, "lists", ivf.cp.niter, "rounds") as advance:
                centres = trained_centres(sample, ivf.nlist, ivf.cp.niter, self._nearest, advance)
            ivf.quantizer.add(centres)
        with stage(self.progress, "training"):
            index.train(sample)
        with atomic_path(path) as temporary:
            _write(faiss, index, temporary)
        return index

    def _gathered(self, ids: IntArray) -> Matrix:
        """Return the vectors of some texts, in their order."""
        result = np.empty((len(ids), self.dims), np.float32)
        for _, found, vectors in pieces(self.texts, self.shards, ids):
            result[np.searchsorted(ids, found)] = units(vectors)
        return result

    def _add(self, kind: Kind) -> list[str]:
        """Write the blocks; return their names."""
        faiss = require("faiss", "scan")
        empty = self._train(kind)
        centres = None if kind == "flat" else centres_of(faiss.extract_index_ivf(empty).quantizer)
        size = int(faiss.extract_index_ivf(empty).code_size if kind != "flat" else 2 * self.dims)
        names = []
        with progress_bar(self.progress, "add", len(self.texts), "texts") as advance:
            for number, group in enumerate(self._groups(size + 8)):
                path = self.folder / f"{number:06d}.faiss"
                names.append(path.name)
                if not path.exists():
                    block = faiss.clone_index(empty)
                    for _, ids, vectors in pieces(self.texts, self.shards, group):
                        self._insert(block, units(vectors), ids, centres)
                        advance(len(ids))
                    with atomic_path(path) as temporary:
                        _write(faiss, block, temporary)
                else:
                    advance(len(group))
        return names

    @cached_property
    def _nearest(self) -> NearestList:
        return nearest_list(self.dims)

    def _insert(self, block: Any, unit: Matrix, ids: IntArray, centres: Matrix | None) -> None:
        """Add vectors to a block; to find the list of each takes longest."""
        if centres is None:
            block.add_with_ids(unit, ids)
            return
        lists = self._nearest(unit, centres)[1]
        library = require("faiss.contrib.ivf_tools", "scan")
        library.add_preassigned(block, unit, lists.ravel(), ids)

    def _groups(self, size: int) -> Iterator[IntArray]:
        """Give the texts of each block, in the order of their vectors; `size` in bytes a text."""
        order = np.argsort(self.texts["vector"], kind="stable")
        step = max(1, _BLOCK // size)
        for at in range(0, len(order), step):
            yield np.sort(order[at : at + step])

    def _measure(self, about: dict[str, Any]) -> dict[str, Any]:
        """Return how many lists are to be searched, and the recall that they have."""
        index = VectorIndex(self.folder, about)
        last = len(self.texts)
        ids = np.arange(last - self._held_out, last)
        best = min(_BEST, last - 1)
        if best < 1:
            return {
                "probes": 1, "lists": index.lists,
                "recall": {"k": 0, "queries": 0, "goal": self.recall, "measured": [[1, 1.0]]},
            }  # fmt: skip
        queries = self._gathered(ids)
        least = self._exact(queries, ids, best)
        lists, size = index.lists, candidates(best, about["weight"])
        measured: list[list[Any]] = []
        probes = min(4, lists)
        while True:
            found, cosines = index.nearest(queries, size + 1, probes)
            cosines = np.where(found == ids[:, None], -2, cosines)
            # A little less counts too: of equal cosines any may be the last.
            counted = (cosines >= least[:, None] - 1e-6).sum(axis=1)
            share = float(np.minimum(counted, best).mean() / best)
            measured.append([probes, round(share, 4)])
            write_line(
                self.progress, f"recall@{best} with {probes:,} of {lists:,} lists: {share:.4f}"
            )
            if share >= self.recall or probes == lists:
                break
            probes = min(2 * probes, lists)
        entry = {"k": best, "queries": len(ids), "goal": self.recall, "measured": measured}
        return {"probes": probes, "lists": lists, "recall": entry}

    def _exact(self, queries: Matrix, own: IntArray, best: int) -> Matrix:
        """Return the cosine of the last of the `best` nearest texts of each query but itself."""
        torch = require("torch", "scan")
        top = np.full((len(queries), best), -2, np.float32)
        at = torch.from_numpy(queries)
        with progress_bar(self.progress, "measure", len(self.texts), "texts") as advance:
            for _, ids, vectors in pieces(self.texts, self.shards):
                cosines = (at @ torch.from_numpy(units(vectors)).T).numpy()
                here, row, column = np.intersect1d(own, ids, return_indices=True)
                del here
                cosines[row, column] = -2
                both = np.concatenate([top, cosines], axis=1)
                top = -np.partition(-both, best - 1, axis=1)[:, :best]
                advance(len(ids))
        return top.min(axis=1)


def _write(faiss: Any, index: Any, path: Path) -> None:
    """Write an index; an error of the disk is raised as one."""
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _parts(dims: int) -> int:
    """Return in how many parts vectors are coded: of eight numbers, or a few more."""
    return next(parts for parts in range(max(1, dims // 8), 0, -1) if dims % parts == 0)
