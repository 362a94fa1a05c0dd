"""Vectors that a scan stores, and their search for other items: texts are embedded once.

A folder of them has files of two kinds, of one name for each part: ``000000.npy``, vectors of
dims (text, dimension), and ``000000.parquet``, the chunks with the columns of
`bayescontam.scan.chunking.CHUNK_SCHEMA` and ``vector``, the row of the chunk's text in the other
file. ``vectors.json`` says what they were made of; it is written last.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from bayescontam._files import atomic_path, on_disk, sha256
from bayescontam._runs import read_json, write_json
from bayescontam._text import printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.chunking import CHUNK_SCHEMA, DESCRIBED, divided
from bayescontam.scan.embedder_record import embedder_differences
from bayescontam.scan.execution import task_name
from bayescontam.scan.sketch import Chunks
from bayescontam.scan.sources import expanded, reason_of
from bayescontam.specs.corpus import Embedding, address_problem

Precision = Literal["fp16", "fp32"]
VECTORS = "vectors"
"""Folder of a scan's vectors, in that of the scan."""
ABOUT = "vectors.json"
FILES = "files"
"""Key of what identifies the files of each source; earlier versions have none."""
FORMAT = 1
"""Of stored vectors, and of their indexes."""
_TYPES: dict[Precision, np.dtype[Any]] = {"fp16": np.dtype("<f2"), "fp32": np.dtype("<f4")}
_PART = 65_536
"""Chunks of a part at least, but of the last: fewer, larger files, and 50 MB in memory."""
_SCHEMA = CHUNK_SCHEMA.append(pa.field("vector", pa.int64()))
_NEEDED = {
    "format": int, "parts": list, "key": dict, "precision": str, "embedder": dict,
    "embedding": dict, "min_tokens": int, "documents": dict, "short": dict, "strata": list,
}  # fmt: skip
"""What ``vectors.json`` has."""
_OF_PART = {"name": str, "vectors": int, "chunks": int, "bytes": int}
_OF_SCAN = {"vectors": str, "sources": list, "min_tokens": int, "short": dict}
"""What it has of each scan, if the vectors of several were joined."""
_ADVICE = "Give the folder 'vectors' of a scan that was run with --keep-vectors."


def size_of(texts: int, dims: int, precision: Precision) -> int:
    """Return the bytes of vectors.

    >>> size_of(1000, 384, "fp16")
    768000
    """
    return texts * dims * _TYPES[precision].itemsize


def check_room(folder: Path, needed: int, there: int) -> None:
    """Refuse to store what the disk has no room for, beside what is there of it.

    Shards and the parts that they are joined to are there at once.
    """
    free = shutil.disk_usage(folder).free
    if 2 * needed - there > free:
        raise UsageError(
            f"{printable(str(folder))}: vectors and texts take up to {megabytes(needed)}, and twice"
            f" as much while they are written; {megabytes(free)} are free: make room, or leave out"
            " --keep-vectors"
        )


def unfinished(target: Path) -> Path:
    """Return where a folder of vectors is made, before it has its name."""
    return target.with_name(f".{target.name}.part")


def holds_vectors(folder: Path, key: dict[str, Any], precision: Precision | None = None) -> bool:
    """Return whether a folder has whole vectors of a scan, in a precision if one is given."""
    try:
        about = StoredVectors.load(folder).about
    except DataError:
        return False
    return about["key"] == key and precision in (None, about["precision"])


def megabytes(size: int) -> str:
    """Return a size in MB.

    >>> megabytes(1_234_567)
    '1.2 MB'
    """
    return f"{size / 1e6:,.1f} MB"


@dataclass(frozen=True)
class VectorStore:
    """Where the vectors of the searched shards are written, until all are there."""

    folder: Path  # in that of the search
    precision: Precision

    def write(self, number: int, table: pd.DataFrame, vectors: NDArray[np.float32]) -> None:
        """Write the vectors of a shard; `table` as in `divided`."""
        self.folder.mkdir(exist_ok=True)
        with np.errstate(over="ignore"):
            stored = vectors.astype(_TYPES[self.precision])
        if not np.isfinite(stored).all():
            problem = f"a vector has numbers that {self.precision} cannot hold"
            raise DataError([Fault(self.folder.name, problem)], "Use --vector-precision fp32.")
        part = self.folder / task_name(number)
        with on_disk(part):
            _write_vectors(part.with_suffix(".npy"), [stored], len(stored), stored.shape[1])
            chunks = pa.Table.from_pandas(table.sort_values("row"), _SCHEMA, preserve_index=False)
            with atomic_path(part.with_suffix(".parquet")) as temporary:
                pq.write_table(chunks, temporary, compression="zstd")

    def finish(self, target: Path, sizes: dict[int, int], about: dict[str, Any]) -> None:
        """Join shards, with their numbers of chunks, to parts in `target`: whole or not at all."""
        whole = unfinished(target)
        shutil.rmtree(whole, ignore_errors=True)
        with on_disk(target):
            whole.mkdir(parents=True)
            parts = [
                _join(names, whole / task_name(number))
                for number, names in enumerate(self._groups(sizes))
            ]
            write_json(whole / ABOUT, {"format": FORMAT, "parts": parts, **about})
            shutil.rmtree(target, ignore_errors=True)
            whole.rename(target)

    def _groups(self, sizes: dict[int, int]) -> Iterator[list[Path]]:
        """Give shards that make a part, as paths without a suffix."""
        group: list[Path] = []
        size = 0
        for number, chunks in sizes.items():
            group.append(self.folder / task_name(number))
            size += chunks
            if size >= _PART:
                yield group
                group, size = [], 0
        if group:
            yield group


def _join(names: Sequence[Path], part: Path) -> dict[str, Any]:
    """Join shards to a part; return its name, numbers of vectors and chunks, and size."""
    # One after the other: a file that is mapped stays open.
    shapes = [_shard(name, mapped=True).shape for name in names]
    starts = np.concatenate([[0], np.cumsum([rows for rows, _ in shapes])]).astype(int)
    _write_vectors(part.with_suffix(".npy"), map(_shard, names), int(starts[-1]), shapes[0][1])
    chunks = 0
    with pq.ParquetWriter(part.with_suffix(".parquet"), _SCHEMA, compression="zstd") as writer:
        for name, start in zip(names, starts.tolist(), strict=False):
            path = name.with_suffix(".parquet")
            with reading(str(path), _again(path)):
                table = pq.read_table(path)
            moved = pa.array(table["vector"].to_numpy() + start)
            writer.write_table(table.set_column(len(_SCHEMA) - 1, "vector", moved))
            chunks += len(table)
    size = part.with_suffix(".npy").stat().st_size
    return {"name": part.name, "vectors": int(starts[-1]), "chunks": chunks, "bytes": size}


def _shard(name: Path, *, mapped: bool = False) -> NDArray[Any]:
    path = name.with_suffix(".npy")
    with reading(str(path), _again(path)):
        return np.load(path, mmap_mode="r" if mapped else None)


def _again(path: Path) -> str:
    """Return what to do about a damaged file of a searched shard."""
    work = printable(str(path.parent.parent))
    return f"Remove the folder {work} and run the same command again: it is searched anew."


def _write_vectors(path: Path, parts: Iterable[NDArray[Any]], rows: int, dims: int) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        parts = iter(parts)
        first = next(parts)
        header = {"descr": first.dtype.str, "fortran_order": False, "shape": (rows, dims)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(first).data)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


@dataclass(frozen=True)
class StoredShard:
    """A part of stored vectors with their chunks, which is searched as one task."""

    path: str  # without the suffix
    size: int  # chunks that are searched
    source: str = ""  # that of the chunks that are searched; by default all are
    others: int = 0  # chunks of other sources in the part

    @property
    def name(self) -> str:
        """File that the vectors lie in."""
        return f"{self.path}.npy"

    def chunks(self, number: int, embedder: object) -> Iterator[Chunks]:
        """Give the chunks of each stratum with their vectors."""
        table, vectors = self.table(mapped=False)
        table["row"] = np.arange(len(table))
        if self.source:
            table = table[table["source"] == self.source]
        yield from divided(table.sort_values("first", kind="stable"), vectors, number)

    def table(self, *, mapped: bool = True) -> tuple[pd.DataFrame, NDArray[Any]]:
        """Return what a search needs of the chunks, and the vectors, in memory or on disk."""
        with reading(self.name):
            vectors = np.load(self.name, mmap_mode="r" if mapped else None)
        table = self._columns("source", "stratum", "hash", "first", "vector").to_pandas()
        if len(table) != self.size + self.others or table["vector"].max() >= len(vectors):
            there = f"{len(table):,} chunks with {len(vectors):,} vectors"
            written = self.size + self.others
            problem = f"holds {there}; {written:,} were written: it is cut short or changed"
            raise DataError([Fault(self.name, problem)], _ADVICE)
        return table, vectors

    def vector_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the vectors of some chunks, which are given by their rows."""
        return self._columns("vector")["vector"].to_numpy()[rows]

    def describe(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return `DESCRIBED` and ``text`` of some rows."""
        path, names = f"{self.path}.parquet", [*DESCRIBED, "text"]
        with reading(path), pq.ParquetFile(path) as file:
            # Only those groups of rows that hold them: texts are most of the file.
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            group = np.searchsorted(starts, rows, side="right") - 1
            needed = np.unique(group)
            table = file.read_row_groups(needed.tolist(), columns=names).select(names)
            before = np.zeros(len(starts), np.int64)
            before[needed] = np.cumsum([0, *(sizes[i] for i in needed[:-1])])
            return table.take(pa.array(before[group] + rows - starts[group])).to_pandas()

    def by_source(self) -> "list[StoredShard]":
        """Return the chunks of each source by themselves."""
        counts = self._columns("source")["source"].value_counts().to_pylist()
        sizes = {row["values"]: row["counts"] for row in counts}
        return [
            replace(self, source=name, size=size, others=self.size - size)
            for name, size in sorted(sizes.items())
        ]

    def _columns(self, *names: str) -> pa.Table:
        path = f"{self.path}.parquet"
        with reading(path):
            return pq.read_table(path, columns=list(names)).select(names)


@contextmanager
def reading(path: str, advice: str = _ADVICE) -> Iterator[None]:
    """Turn whatever reading raises into an error that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, pa.ArrowException) as error:
        problem = f"cannot be read ({reason_of(error)})"
        raise DataError([Fault(path, problem)], advice) from error


@dataclass(frozen=True)
class StoredVectors:
    """Vectors that a scan stored, read from their folder with ``StoredVectors.load(folder)``."""

    folder: Path
    about: dict[str, Any]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], base: str | os.PathLike[str] = "."
    ) -> "StoredVectors":
        """Open a folder of stored vectors; `base` is where relative paths start.

        Raises
        ------
        DataError
            If it holds none, or a file is missing or cut short.
        """
        folder = expanded(Path(base).absolute(), os.fspath(path))
        about = checked_record(path, folder / ABOUT, "stored vectors", _NEEDED, _ADVICE)
        parts = about["parts"]
        if not (parts and all(_has(part, _OF_PART) for part in parts)):
            problem = "lacks 'parts': it was changed"
            raise DataError([Fault(str(folder / ABOUT), problem)], _ADVICE)
        added = about.get("added", [])
        if not (isinstance(added, list) and all(_has(entry, _OF_SCAN) for entry in added)):
            problem = "lacks 'added': it was changed"
            raise DataError([Fault(str(folder / ABOUT), problem)], _ADVICE)
        found = cls(folder, about)
        found._check_files()
        return found

    def embedding(self, endpoint: str | None = None, api_key_env: str | None = None) -> Embedding:
        """Return the settings of their embedder; where it is served is not taken from a folder.

        Raises
        ------
        UsageError
            If it is served and no address is given, or the other way round; if it runs code that
            comes with the model, which a folder may not turn on.
        """
        where = printable(str(self.folder))
        content = self.about["embedding"]
        settings = {key: value for key, value in content.items() if key not in Embedding.LOCAL}
        if ("tokenizer" in settings) != (endpoint is not None):
            problem = "is loaded here, not served: leave out --endpoint"
            if endpoint is None:
                before = printable(str(self.about["embedder"].get("endpoint")))
                problem = (
                    f"was served at {before}; give the address where it is served now (--endpoint):"
                    " nothing is sent to an address that only a folder names"
                )
            name = printable(str(settings.get("model")), 80)
            raise UsageError(f"{where}: the model '{name}' of the vectors {problem}")
        if endpoint is None and api_key_env is not None:
            raise UsageError(
                f"--api-key-env: is of an endpoint, and the model of {where} is loaded here; leave"
                " it out"
            )
        if endpoint is not None:
            if problem := address_problem(endpoint):
                raise UsageError(f"--endpoint: {problem}")
            settings["endpoint"] = endpoint
            settings |= {} if api_key_env is None else {"api_key_env": api_key_env}
        try:
            spec = Embedding.model_validate(settings)
        except ValidationError as error:
            problem = "its 'embedding' is none that this version knows"
            raise DataError([Fault(str(self.folder / ABOUT), problem)], _ADVICE) from error
        if spec.trust_remote_code:
            raise UsageError(
                f"{where}: the model '{printable(spec.model)}' of the vectors"
                " runs code that comes with it; to allow that, scan by a manifest with stored ="
                " […] and trust_remote_code = true under [embedding]"
            )
        return spec

    def _check_files(self) -> None:
        faults = []
        for part in self.about["parts"]:
            for suffix in (".npy", ".parquet"):
                path = self.folder / f"{part['name']}{suffix}"
                if not path.is_file():
                    faults.append(Fault(str(path), "is missing"))
            vectors = self.folder / f"{part['name']}.npy"
            if vectors.is_file() and (size := vectors.stat().st_size) != part["bytes"]:
                problem = (
                    f"has {size:,} bytes, {part['bytes']:,} were written: cut short or changed"
                )
                faults.append(Fault(str(vectors), problem))
        if not self.about["strata"]:
            faults.append(Fault(str(self.folder / ABOUT), "names no source: strata is empty"))
        if faults:
            raise DataError(faults, _ADVICE)

    @cached_property
    def key(self) -> str:
        """What identifies them: a hash of what they were made of."""
        return sha256((self.folder / ABOUT).read_bytes())

    @property
    def origins(self) -> list[str]:
        """What identifies the vectors of each scan that they are of, joined ones included."""
        return [entry["vectors"] for entry in self.about.get("added", [])] or [self.key]

    @property
    def sources(self) -> list[str]:
        """Names of the sources that they are of."""
        return list(dict.fromkeys(row["source"] for row in self.about["strata"]))

    @property
    def scans(self) -> list[tuple[str, dict[str, Any]]]:
        """Scans that they are of, each with a name and what is recorded of it."""
        name = str(self.folder)
        added = self.about.get("added", [])
        listed = [(f"{name} ({', '.join(entry['sources'])})", entry) for entry in added]
        return listed or [(name, self.about)]

    def shards(self) -> list[StoredShard]:
        """Return their parts in order."""
        return [
            StoredShard(str(self.folder / part["name"]), part["chunks"])
            for part in self.about["parts"]
        ]

    def check_embedder(self, embedder: dict[str, Any]) -> None:
        """Refuse another embedder than that of the vectors; `embedder` as it describes itself.

        Raises
        ------
        UsageError
            If model, weights, prompts, dimensions or longest text differ.
        """
        if listing := embedder_differences(self.about["embedder"], embedder, "vectors"):
            raise UsageError(
                f"{printable(str(self.folder))}: the vectors were made by another embedder than"
                f" the one in use ({listing}); use that of the vectors"
            )


def checked_record(
    given: str | os.PathLike[str], path: Path, what: str, needed: Mapping[str, type], advice: str
) -> dict[str, Any]:
    """Read what a folder, `given` by the user, has and is of; `needed` are keys and their types."""
    if not path.is_file():
        lacking = f"lacks {path.name}" if path.parent.is_dir() else "is no folder"
        raise DataError([Fault(str(given), f"holds no {what}: {lacking}")], advice)
    try:
        about = read_json(path)
    except ValueError as error:
        raise DataError([Fault(str(path), f"is not JSON ({error})")], advice) from error
    if isinstance(about, dict) and isinstance(n := about.get("format"), int) and n > FORMAT:
        problem = f"has format {n}; {FORMAT} is known: use a newer bayescontam"
        raise DataError([Fault(str(path), problem)])
    if lost := next((name for name in needed if not _has(about, {name: needed[name]})), ""):
        raise DataError([Fault(str(path), f"lacks '{lost}': it was changed")], advice)
    return dict(about)


def _has(table: Any, needed: Mapping[str, type]) -> bool:
    """Return whether a table of JSON has some keys, of these types."""
    return isinstance(table, dict) and all(isinstance(table.get(n), k) for n, k in needed.items())
