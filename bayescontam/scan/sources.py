"""Files, folders, archives and data sets of the Hub, as the inputs of a scan."""

import difflib
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa

from bayescontam._optional import require
from bayescontam._text import join_list, printable
from bayescontam.errors import BayescontamError, UsageError
from bayescontam.scan.fields import Fields
from bayescontam.specs.corpus import Source

Kind = Literal["jsonl", "parquet", "text", "vectors", "dataset"]

SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt", ".md", ".py"),
    "vectors": (".npy", ".parquet", ".arrow", ".feather"),
}
"""Endings of names by kind, those of compressed files aside."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""Codecs by the endings of names; they stand behind the endings of JSON Lines and text."""
_STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created")
"""What file systems call that which changes with a file's content."""
BATCH_ROWS = 256
"""Rows that are taken from a data set at once."""
_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
_ADVICE = (
    "check name, config, split and revision, the network, and for a gated data set the login "
    "(hf auth login); for a machine without network, on one that has it: "
    "datasets.load_dataset('{name}').save_to_disk('FOLDER'), or hf download {name} --repo-type "
    'dataset --local-dir FOLDER and paths = ["FOLDER"]; what is in the cache already is used '
    "with HF_HUB_OFFLINE=1"
)


@dataclass(frozen=True)
class Input:
    """One unit of reading."""

    source: str  # name of the manifest's source
    # what people see, and what documents without a name are named after: relative to the base
    # folder where the file lies below it
    path: str
    location: str  # absolute path or fsspec address of a file; folder or name of a data set
    kind: Kind  # what it holds
    # part, parts: of a data set: shard `part` (counted from 0) of `parts`
    part: int = 0
    parts: int = 1
    # changes with the content: size and time of a file, fingerprint of a saved data set, commit of
    # one on the Hugging Face hub. "" where none is known.
    stamp: str = ""


def compression(name: str) -> str | None:
    """Return the codec that a file's name shows, None for a plain file.

    >>> compression("part-1.jsonl.ZST")
    'zstd'
    """
    return COMPRESSIONS.get(PurePath(name).suffix.lower())


def is_named(name: str, kind: Kind) -> bool:
    """Return whether a file's name ends as those of a kind do.

    >>> is_named("part-1.JSONL.gz", "jsonl"), is_named("part-1.parquet.gz", "parquet")
    (True, False)
    """
    path = PurePath(name)
    if compression(name) is not None:
        # Formats that are read in pieces cannot be compressed as a whole.
        return kind in ("jsonl", "text") and path.with_suffix("").suffix.lower() in SUFFIXES[kind]
    return path.suffix.lower() in SUFFIXES[kind]


def kind_by_name(name: str) -> Kind | None:
    """Return the kind of input that a file's name shows, None if it is no known one."""
    kinds: tuple[Kind, ...] = ("jsonl", "text", "parquet")
    return next((kind for kind in kinds if is_named(name, kind)), None)


@dataclass(frozen=True)
class File:
    """A file that a path, glob or address of a manifest leads to."""

    location: str  # absolute path or fsspec address
    path: str  # what people see: relative to the base folder where it lies below it
    stamp: str  # changes with the content; "" where nothing is known
    # whether it was named, matched, or found inside a folder
    given: Literal["file", "glob", "folder"]


def is_remote(path: str) -> bool:
    """Return whether `path` is an fsspec address, such as ``s3://bucket/folder``."""
    return "://" in path


def find_files(path: str, base: Path) -> list[File]:
    """Return the files that `path` leads to; none if there is nothing."""
    try:
        return list(_remote(path) if is_remote(path) else _local(path, base))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{printable(path)}: cannot be looked through ({reason})") from error


@contextmanager
def open_file(location: str) -> Iterator[pa.NativeFile]:
    """Open a file, here or elsewhere, for reading as it is stored; failures are OSErrors."""
    if not is_remote(location):
        with pa.OSFile(os.fsencode(location), mode="r") as file:
            yield file
        return
    fsspec = require("fsspec", "scan")
    try:
        with fsspec.open(location, "rb") as stored, pa.PythonFile(stored, mode="r") as file:
            yield file
    except (OSError, pa.ArrowException):
        raise
    # Clients of object stores and of web servers have errors of their own.
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


@contextmanager
def open_decompressed(location: str) -> Iterator[pa.NativeFile]:
    """Open a file, here or elsewhere, for reading decompressed; its name shows the codec.

    Files of several frames (Zstandard), members (gzip) or streams (bzip2) are read to
    their end. Reading one that is cut off or damaged raises an OSError.
    """
    codec = compression(location)
    with open_file(location) as file:
        if codec is None:
            yield file
        else:
            with pa.CompressedInputStream(file, codec) as stream:
                yield stream


def _local(path: str, base: Path) -> Iterator[File]:
    # Not pathlib's: it raises where there is no such user.
    where = Path(os.path.normpath(base / os.path.expanduser(path)))  # noqa: PTH111
    if where.is_dir():
        yield from _walk(where, base)
    elif where.exists():
        if not where.is_file():
            raise ValueError("a device or a pipe; give the name of a file or folder")
        yield _file(where, base, "file")
    elif glob.has_magic(path):
        for match in _matches(path, base):
            yield from _walk(match, base) if match.is_dir() else [_file(match, base, "glob")]


def _matches(pattern: str, base: Path) -> Iterator[Path]:
    pattern = os.path.expanduser(pattern)  # noqa: PTH111 (a pattern is no path)
    # Not pathlib's: there, a star matches hidden files as well.
    for match in glob.iglob(pattern, root_dir=base, recursive=True):  # noqa: PTH207
        yield Path(os.path.normpath(base / match))


def _walk(folder: Path, base: Path) -> Iterator[File]:
    seen: set[tuple[int, int]] = set()
    for root, folders, names in folder.walk(on_error=_fail, follow_symlinks=True):
        # A link may lead back to where the search came from.
        place = root.stat()
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            # A link to nothing stays in the list: reading it says what is wrong. A pipe would wait.
            if not name.startswith(".") and ((root / name).is_file() or not (root / name).exists()):
                yield _file(root / name, base, "folder")


def _fail(error: OSError) -> None:
    raise error


def _file(where: Path, base: Path, given: Literal["file", "glob", "folder"]) -> File:
    shown = where.relative_to(base) if where.is_relative_to(base) else where
    stamp = ""
    if where.exists():
        status = where.stat()
        stamp = f"{status.st_size}-{status.st_mtime_ns}"
    return File(str(where), _utf8(shown.as_posix()), stamp, given)


def _utf8(path: str) -> str:
    # Names of files need not be UTF-8; what is shown and stored has to be.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _remote(address: str) -> Iterator[File]:
    system, path = _file_system(address)
    # Web servers answer for single files only, and addresses may hold what looks like a glob.
    if system.isfile(path):
        yield _remote_file(system, path, system.info(path), "file")
        return
    is_glob = glob.has_magic(path) and not system.isdir(path)
    found = system.glob(path, detail=True) if is_glob else system.find(path, detail=True)
    for name, info in sorted(found.items()):
        inside = PurePath(name.removeprefix(path)) if not is_glob else PurePath(name).name
        if info["type"] == "file" and not _hidden(str(inside)):
            yield _remote_file(system, name, info, "glob" if is_glob else "folder")


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in PurePath(path).parts)


def _file_system(address: str) -> tuple[Any, str]:
    fsspec = require("fsspec", "scan")
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{printable(address)}: needs another package ({error})") from error
    return system, path


def _remote_file(
    system: Any, path: str, info: dict[str, Any], given: Literal["file", "glob", "folder"]
) -> File:
    location = str(system.unstrip_protocol(path))
    marks = [str(info[key]) for key in _STAMPS if info.get(key)]
    stamp = "-".join([str(info.get("size") or ""), *marks[:1]])
    return File(location, _utf8(location), stamp, given)


def list_dataset(source: Source, base: Path) -> list[Input]:
    """List the shards of a source's data set: the files it is stored in."""
    name = source.dataset or ""
    folder = Path(os.path.normpath(base / os.path.expanduser(name)))  # noqa: PTH111 (pathlib's raises)
    require("datasets", "scan")
    if folder.exists():
        return _list_saved(source, folder, base)
    if not _NAME.fullmatch(name):
        raise _refused(source, f"there is no folder {printable(str(folder))}")
    try:
        commit = _commit(source)
        parts = _streamed(source, commit).num_shards
    # Hub, network, builders and file systems each have errors of their own.
    except Exception as error:
        raise _refused(source, _reason(error), _ADVICE.format(name=printable(name))) from error
    shown = "/".join(part for part in (name, source.config, source.split) if part)
    return _shards(source, shown, name, parts, commit)


def read_dataset(item: Input, source: Source, fields: Fields) -> Iterator[pa.Table]:
    """Give the rows of one shard of a data set, some at a time."""
    try:
        data = _opened(item, source).shard(num_shards=item.parts, index=item.part, contiguous=True)
        wanted = {part for name in fields.wanted for part in (name, name.partition(".")[0])}
        # Streamed data sets need not know their columns; without any, rows would get lost.
        fields.there = list(data.column_names or ())
        names = [name for name in fields.there if name in wanted]
        if names:
            data = data.select_columns(names)
        yield from data.with_format("arrow").iter(batch_size=BATCH_ROWS)
    except (BayescontamError, OSError):
        raise
    except Exception as error:  # as above
        raise OSError(_reason(error)) from error


def _opened(item: Input, source: Source) -> Any:
    if not Path(item.location).is_absolute():
        return _streamed(source, item.stamp)
    with _without_progress() as datasets:
        return datasets.load_from_disk(item.location)


@contextmanager
def _without_progress() -> Iterator[Any]:
    datasets = require("datasets", "scan")
    shown = not datasets.utils.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        if shown:
            datasets.enable_progress_bars()


def _streamed(source: Source, commit: str) -> Any:
    with _without_progress() as datasets:
        return datasets.load_dataset(
            source.dataset,
            source.config,
            split=source.split,
            revision=commit or None,
            streaming=True,
        )


def _commit(source: Source) -> str:
    """Return the commit that all shards are read at, so that they belong together.

    It also shows at once whether the hub can be reached; loading would try for long.
    """
    hub = require("huggingface_hub", "scan")
    if hub.constants.HF_HUB_OFFLINE:
        return source.revision or ""
    return str(hub.HfApi().dataset_info(source.dataset, revision=source.revision).sha)


def _list_saved(source: Source, folder: Path, base: Path) -> list[Input]:
    if not (folder / "state.json").exists():
        folder = _split_folder(source, folder)
    state = _json(source, folder / "state.json")
    shown = folder.relative_to(base) if folder.is_relative_to(base) else folder
    parts = max(1, len(state["_data_files"]))
    return _shards(source, shown.as_posix(), str(folder), parts, str(state["_fingerprint"]))


def _split_folder(source: Source, folder: Path) -> Path:
    index = folder / "dataset_dict.json"
    if not index.exists():
        problem = "the folder is none that save_to_disk wrote"
        raise _refused(source, problem, 'for a folder of files give paths = ["…"]')
    splits = _json(source, index)["splits"]
    if source.split not in splits:
        raise _refused(
            source, f"no split '{printable(source.split)}'; there are {join_list(splits)}"
        )
    return folder / source.split


def _json(source: Source, path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise _refused(source, f"{printable(str(path))} cannot be read ({error})") from error


def _shards(source: Source, shown: str, location: str, parts: int, stamp: str) -> list[Input]:
    return [
        Input(
            source=source.name,
            path=shown if parts == 1 else f"{shown}[{part + 1}/{parts}]",
            location=location,
            kind="dataset",
            part=part,
            parts=parts,
            stamp=stamp,
        )
        for part in range(parts)
    ]


def _reason(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}", 400)


def _refused(source: Source, problem: str, advice: str = "") -> UsageError:
    start = f"source '{printable(source.name)}': data set {printable(source.dataset or '')}: "
    return UsageError(start + problem + (f"; {advice}" if advice else ""))


def list_inputs(
    source: Source, base: str | os.PathLike[str], notes: list[str] | None = None
) -> list[Input]:
    """List what a source of a manifest consists of."""
    folder = Path(os.path.normpath(Path(base).absolute()))
    if source.dataset is not None:
        return list_dataset(source, folder)
    found: dict[str, Input] = {}
    passed: dict[str, File] = {}
    for path in source.paths or ():
        files = find_files(path, folder)
        kinds = {file: _kind(file, source) for file in files}
        usable = {
            file.location: Input(source.name, file.path, file.location, kind, stamp=file.stamp)
            for file, kind in kinds.items()
            if kind is not None
        }
        if not usable:
            raise UsageError(_nothing(path, files, source, folder))
        found |= usable
        passed |= {file.location: file for file, kind in kinds.items() if kind is None}
    over = [file for location, file in passed.items() if location not in found]
    if over and notes is not None:
        notes.append(_note(over, source))
    return sorted(found.values(), key=lambda item: (item.path, item.location))


def _kind(file: File, source: Source) -> Kind | None:
    if source.format == "auto":
        return kind_by_name(file.location)
    if source.format == "text" or (source.format != "vectors" and file.given != "folder"):
        return source.format
    return source.format if is_named(file.location, source.format) else None


def _nothing(path: str, files: list[File], source: Source, folder: Path) -> str:
    """Return why `path` leads to no input."""
    where = "" if is_remote(path) else f" (looked for from {printable(str(folder))})"
    start = f"source '{printable(source.name)}': {printable(path)}{where}: "
    if not files:
        return start + ("no file there" if is_remote(path) else _absence(folder / path))
    return (
        f"{start}no file here can be read by its name ({_counted(files)}); known are "
        f"{_known(source)}; rename the files, or set format and give them by path or glob"
    )


def _absence(path: Path) -> str:
    if path.is_dir():
        return "the folder holds no file"
    if glob.has_magic(path.name):
        return "no file matches"
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        names = []
    near = difflib.get_close_matches(path.name, names, n=1)
    return "no such file or folder" + (f"; did you mean '{printable(near[0])}'?" if near else "")


def _note(files: list[File], source: Source) -> str:
    return (
        f"source '{printable(source.name)}': {len(files):,} files were passed over because of "
        f"their names ({_counted(files)}); known are {_known(source)}"
    )


def _counted(files: list[File]) -> str:
    suffixes = Counter(PurePath(file.location).suffix.lower() or "no suffix" for file in files)
    shown = [f"{count:,} × {printable(suffix, 20)}" for suffix, count in suffixes.most_common(8)]
    return ", ".join(shown) + (", …" if len(suffixes) > 8 else "")


def _known(source: Source) -> str:
    if source.format != "auto":
        return ", ".join(SUFFIXES[source.format])
    packed = ", ".join([*SUFFIXES["jsonl"], *SUFFIXES["text"]])
    return f"{packed} (each also .gz, .zst or .bz2) and {', '.join(SUFFIXES['parquet'])}"
