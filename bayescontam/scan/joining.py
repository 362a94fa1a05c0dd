"""Folders of stored vectors, joined to one that holds the corpora of all."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path, on_disk
from bayescontam._progress import progress_bar, write_line
from bayescontam._runs import LOCK, locked, read_json, remove_files, write_json
from bayescontam._text import join_list, printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.chunking import occurrence_hash
from bayescontam.scan.distinct import check_distinct
from bayescontam.scan.embedder_record import embedder_differences
from bayescontam.scan.execution import task_name
from bayescontam.scan.record import document_counts
from bayescontam.scan.stored_vectors import (
    ABOUT,
    FILES,
    FORMAT,
    StoredVectors,
    megabytes,
    reading,
    unfinished,
)

BEGUN = "adding.json"
"""What an unfinished folder is joined from."""
_NUMBERED = re.compile(r"(\d{1,9}):(.*)", re.DOTALL)
_OWN = re.compile(r"\d{6,}\.(npy|parquet)|vectors\.json|adding\.json|\.lock")
"""Names of files that a joined folder has."""
_OF_OCCURRENCE = ["source", "document", "chunk", "first"]
_LONGEST = 4096
"""Characters of a source's name, as in manifests."""


def add_vectors(
    vectors: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    rename: Mapping[str, str] | None = None,
    replace: bool = False,
    progress: bool = False,
) -> StoredVectors:
    """Join folders of stored vectors to one, whose corpora are then searched together.

    A search of the new folder finds what one of all the folders together does. Its files are
    hard links where the file system has them, so that they take no space, else copies; the
    folders that are given are never changed.

    Parameters
    ----------
    vectors : path-like or sequence of path-like
        Folders of vectors that scans stored (`run_scan` with `keep_vectors`) or that were
        joined before, by one embedder, in one precision.
    out : path-like
        Folder to make. One that was interrupted is resumed; a finished one of the same
        vectors is returned as it is.
    rename : mapping, optional
        New names of sources by their names; ``"2:corpus"`` is the source ``"corpus"`` of the
        second folder alone. Names of sources must differ, and that of a quick scan is
        always ``"corpus"``.
    replace : bool, default False
        Whether a folder that was joined of other vectors may be replaced.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    StoredVectors

    Raises
    ------
    UsageError
        If embedders or precisions differ, a source's name stands twice, or `out` holds
        something else.
    DataError
        If a folder holds no stored vectors, or they are damaged.
    TaskError
        If the disk is full; finished files are stored.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.add_vectors(["no-such-folder", "other"], "all")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no stored vectors: is no folder
    Give the folder 'vectors' of a scan that was run with --keep-vectors.
    """
    given = [vectors] if isinstance(vectors, str | os.PathLike) else list(vectors)
    if not given:
        raise UsageError("vectors: is empty; give folders of stored vectors")
    stored = [StoredVectors.load(folder) for folder in given]
    for note in check_distinct(stored):
        write_line(progress, note)
    _check_alike(stored)
    names = _new_names(stored, rename or {})
    target = Path(out).expanduser().resolve()
    for each in stored:
        inside = each.folder.resolve()
        if inside.is_relative_to(target) or target.is_relative_to(inside):
            raise UsageError(
                f"{printable(str(out))}: is among the vectors that are joined, or holds them, and"
                " these are never changed; choose another folder (--out)"
            )
    key = {"added": [each.key for each in stored], "names": names}
    with on_disk(target):
        if not _finished(target, key, replace):
            _Joining(stored, names, target, progress).run(key)
        shutil.rmtree(_replaced(target), ignore_errors=True)
    return StoredVectors.load(target)


def _check_alike(stored: Sequence[StoredVectors]) -> None:
    """Refuse vectors that one search cannot compare alike."""
    first = stored[0]
    one = printable(str(first.folder))
    for other in stored[1:]:
        name, before = printable(str(other.folder)), first.about
        listing = embedder_differences(
            before["embedder"], other.about["embedder"], "the first folder"
        )
        if listing:
            raise UsageError(
                f"{name}: was made by another embedder than {one} ({listing}); one folder holds"
                " vectors of one embedder: scan that corpus again with the other one"
            )
        if other.about["precision"] != before["precision"]:
            raise UsageError(
                f"{name}: holds vectors in {other.about['precision']}, {one} in"
                f" {before['precision']}; store one of them again in the precision of the other"
                " (scan --keep-vectors --vector-precision)"
            )
    dims: dict[int, str] = {}
    for each in stored:
        for shard in each.shards():
            with reading(shard.name):
                dims.setdefault(int(np.load(shard.name, mmap_mode="r").shape[1]), shard.name)
    if len(dims) > 1:
        (a, one), (b, other_name), *_ = dims.items()
        problem = f"has vectors of {b} dimensions, {printable(one)} of {a}"
        raise DataError([Fault(other_name, problem)], "Vectors of one embedder have as many.")


def _new_names(stored: Sequence[StoredVectors], rename: Mapping[str, str]) -> list[dict[str, str]]:
    """Return for each folder the new names of its sources; refuse names that stand twice."""
    names: list[dict[str, str]] = [{} for _ in stored]
    numbered = {old: _numbered(old, stored) for old in rename}
    # Those of one folder last: they say more.
    for old in sorted(rename, key=lambda name: numbered[name][0] is not None):
        (number, source), new = numbered[old], rename[old]
        try:
            new.encode()
        except (AttributeError, UnicodeEncodeError):
            raise UsageError(
                f"rename: '{printable(old, 60)}' gets the name {printable(repr(new), 60)}; a text"
                " is needed that UTF-8 can hold"
            ) from None
        if not 0 < len(new) <= _LONGEST:
            raise UsageError(
                f"rename: '{printable(old, 60)}' gets a name of {len(new):,} characters; allowed"
                f" are 1 to {_LONGEST:,}"
            )
        hits = [i for i, v in enumerate(stored) if number in (None, i) and source in v.sources]
        if not hits:
            known = join_list(dict.fromkeys(name for each in stored for name in each.sources))
            raise UsageError(
                f"rename: no source is called '{printable(old, 60)}'; allowed are {known}, alone or"
                " after the number of their folder and a colon (2:corpus)"
            )
        for i in hits:
            names[i][source] = new
    seen: dict[str, Path] = {}
    for number, each in enumerate(stored):
        for name in each.sources:
            new = names[number].get(name, name)
            if new in seen:
                way = printable(f"{number + 1}:{name}", 60)
                raise UsageError(
                    f"source '{printable(new, 60)}': is in {printable(str(seen[new]))} and in"
                    f" {printable(str(each.folder))}, whose documents would count as one source;"
                    f" give it another name: --rename {way}=NAME"
                )
            seen[new] = each.folder
    return names


def _numbered(old: str, stored: Sequence[StoredVectors]) -> tuple[int | None, str]:
    """Return the folder, from 0, and the source that a name means; None for all folders."""
    found = _NUMBERED.fullmatch(old)
    if found is None or any(old in each.sources for each in stored):
        return None, old
    return int(found[1]) - 1, found[2]


def _finished(target: Path, key: dict[str, Any], replace: bool) -> bool:
    """Return whether a folder holds what is to be joined; refuse one with something else."""
    name = printable(str(target))
    if not target.exists() and not target.is_symlink():
        return False
    if not target.is_dir():
        raise UsageError(f"{name}: is a file; --out needs a new folder")
    if not any(target.iterdir()):
        return False
    try:
        about = read_json(target / ABOUT)
    except (OSError, ValueError):
        about = None
    if not (isinstance(about, dict) and isinstance(about.get("added"), list)):
        raise UsageError(
            f"{name}: holds files, and no vectors that 'vectors add' joined; --out needs a new or"
            " empty folder"
        )
    if about.get("key") != key:
        if not replace:
            raise UsageError(
                f"{name}: holds other vectors, or other names of sources; choose another folder,"
                " or pass --replace to lose those"
            )
        _refuse_others(target)
        return False
    try:
        StoredVectors.load(target)
    except DataError:
        _refuse_others(target)
        return False  # something of them is lost: joined again
    return True


def _refuse_others(target: Path) -> None:
    """Refuse to replace a folder with files that are none of joined vectors."""
    others = sorted(path.name for path in target.iterdir() if not _OWN.fullmatch(path.name))
    if others:
        raise UsageError(
            f"{printable(str(target))}: would be replaced, and holds {join_list(others, 5)} too;"
            " move that away, or choose another folder"
        )


def _replaced(target: Path) -> Path:
    """Return where a folder that is replaced is until the new one is there."""
    return target.with_name(f".{target.name}.old.part")


@dataclass(frozen=True)
class _File:
    """A file to be made."""

    source: Path
    name: str
    names: dict[str, str]  # new ones of its sources, if there are any in it

    @property
    def size(self) -> int:
        """Bytes, about those of the file that is made."""
        return self.source.stat().st_size


@dataclass(frozen=True)
class _Joining:
    """The making of a folder under another name, which is renamed when it is whole."""

    stored: Sequence[StoredVectors]
    names: Sequence[dict[str, str]]
    target: Path
    progress: bool

    def run(self, key: dict[str, Any]) -> None:
        """Make all files; those that are there already stay."""
        whole = unfinished(self.target)
        with _claimed(whole, key):
            files = [file for file in self._files() if not (whole / file.name).exists()]
            linked = [self._links(vectors, whole) for vectors in self.stored]
            pairs = zip(self.stored, linked, strict=True)
            homes = {each.folder.resolve() for each, here in pairs if here}
            made = [file for file in files if file.names or file.source.parent not in homes]
            self._check_room(whole, sum(file.size for file in made))
            total = sum(file.size for file in files) / 1e6
            with progress_bar(self.progress, "add", total, "MB") as advance:
                for file in files:
                    _make(file, whole / file.name)
                    advance(file.size / 1e6)
            write_json(whole / ABOUT, self._about(key))
            StoredVectors.load(whole)
            # Renamed under the lock, and the old one is removed when the new one is there.
            if self.target.exists():
                shutil.rmtree(_replaced(self.target), ignore_errors=True)
                self.target.rename(_replaced(self.target))
            (whole / BEGUN).unlink()
            whole.rename(self.target)
            (self.target / LOCK).unlink(missing_ok=True)

    def _parts(self) -> Iterator[tuple[StoredVectors, dict[str, str], dict[str, Any]]]:
        for vectors, names in zip(self.stored, self.names, strict=True):
            yield from ((vectors, names, part) for part in vectors.about["parts"])

    def _files(self) -> Iterator[_File]:
        for number, (vectors, names, part) in enumerate(self._parts()):
            for suffix, new in ((".npy", {}), (".parquet", names)):
                source = (vectors.folder / f"{part['name']}{suffix}").resolve()
                yield _File(source, f"{task_name(number)}{suffix}", new)

    def _links(self, vectors: StoredVectors, whole: Path) -> bool:
        """Return whether files of a folder can be linked."""
        trial = whole / ".link.part"
        trial.unlink(missing_ok=True)
        try:
            os.link(Path(vectors.shards()[0].name).resolve(), trial)
        except OSError:
            return False
        trial.unlink()
        return True

    def _check_room(self, whole: Path, needed: int) -> None:
        free = shutil.disk_usage(whole).free
        if needed > free:
            raise UsageError(
                f"{printable(str(self.target))}: files that cannot be linked take"
                f" {megabytes(needed)}, {megabytes(free)} are free; make room, or choose a folder"
                " on the file system of the vectors, where links take no space"
            )

    def _about(self, key: dict[str, Any]) -> dict[str, Any]:
        """Return the content of ``vectors.json``."""
        first = self.stored[0].about
        entries = [
            entry
            for each, names in zip(self.stored, self.names, strict=True)
            for entry in _renamed_entries(each, names)
        ]
        strata = [
            {**row, "source": names.get(row["source"], row["source"])}
            for each, names in zip(self.stored, self.names, strict=True)
            for row in each.about["strata"]
        ]
        counted = [
            _renamed_counts(each.about["documents"], names)
            for each, names in zip(self.stored, self.names, strict=True)
        ]
        return {
            "format": FORMAT,
            "parts": [
                {**part, "name": task_name(number)}
                for number, (_, _, part) in enumerate(self._parts())
            ],
            "key": key,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": version("bayescontam"),
            **{name: first[name] for name in ("embedder", "embedding", "precision")},
            "min_tokens": max(each.about["min_tokens"] for each in self.stored),
            "documents": document_counts([], [], counted),
            "short": {name: row for entry in entries for name, row in entry["short"].items()},
            "strata": strata,
            "added": entries,
        }


@contextmanager
def _claimed(whole: Path, key: dict[str, Any]) -> Iterator[None]:
    """Lock a folder that is being made, and clear it of other and of half-written files."""
    name = printable(str(whole))
    whole.mkdir(parents=True, exist_ok=True)
    if any(not path.name.startswith(".") for path in whole.iterdir()) and not (
        (whole / BEGUN).exists() or (whole / ABOUT).exists()
    ):
        raise UsageError(f"{name}: holds files, and is where vectors are joined; move it away")
    lock = locked(whole, "another run joins vectors there")
    try:
        if _key_in(whole) != key:
            remove_files(whole, "[0-9]*")
            (whole / ABOUT).unlink(missing_ok=True)
        write_json(whole / BEGUN, key)
        remove_files(whole, ".*.part")
        yield
    finally:
        lock.release()
        (whole / LOCK).unlink(missing_ok=True)


def _key_in(whole: Path) -> Any:
    """Return what an unfinished folder is joined from, None where it says nothing."""
    for name, get in ((BEGUN, dict), (ABOUT, lambda about: about["key"])):
        try:
            return get(read_json(whole / name))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return None


def _make(file: _File, target: Path) -> None:
    """Link or copy a file, or write a table of chunks anew: whole or not at all."""
    if file.names:
        with atomic_path(target) as temporary:
            _rename_sources(file, temporary)
        return
    try:
        os.link(file.source, target)
    except OSError:
        with atomic_path(target) as temporary:
            shutil.copyfile(file.source, temporary)


def _rename_sources(file: _File, target: Path) -> None:
    """Write a table of chunks as a scan of sources of these names would have."""
    with reading(str(file.source)):
        table = pq.ParquetFile(file.source)
    with table, pq.ParquetWriter(target, table.schema_arrow, compression="zstd") as writer:
        for number in range(table.num_row_groups):
            with reading(str(file.source)):
                group = table.read_row_group(number)
                rows = group.select(_OF_OCCURRENCE).to_pydict()
            before = rows["source"]
            rows["source"] = [file.names.get(name, name) for name in before]
            # The name of a source is part of the identity of an occurrence.
            firsts = [
                first if source == old else occurrence_hash(source, document, chunk)
                for source, document, chunk, first, old in zip(*rows.values(), before, strict=True)
            ]
            for name, values in (("source", rows["source"]), ("first", firsts)):
                at = group.schema.get_field_index(name)
                known = group.schema.field(at)
                group = group.set_column(at, known, pa.array(values, known.type))
            writer.write_table(group)


def _renamed_entries(vectors: StoredVectors, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what is recorded of each scan whose vectors a folder holds."""
    about = vectors.about
    entries = about.get("added") or [
        {
            "vectors": vectors.key,
            "folder": str(vectors.folder.resolve()),
            "sources": vectors.sources,
            **{name: about.get(name) for name in ("created", "version", "manifest")},
            **{name: about[name] for name in ("key", "min_tokens", "short")},
            # By the names in the manifest, new names aside.
            **({FILES: about[FILES]} if FILES in about else {}),
        }
    ]
    new: Callable[[str], str] = partial(_named, names)
    return [
        {
            **entry,
            "sources": [new(name) for name in entry["sources"]],
            "short": {new(name): row for name, row in entry["short"].items()},
        }
        for entry in entries
    ]


def _renamed_counts(documents: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    by_source = {
        name: {_named(names, source): count for source, count in documents[name].items()}
        for name in ("left_out", "left_out_messages")
        if name in documents
    }
    return {**documents, **by_source}


def _named(names: Mapping[str, str], name: str) -> str:
    return names.get(name, name)
