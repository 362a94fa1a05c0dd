"""Files, folders, archives and data sets of the Hub, as the inputs of a scan."""

import difflib
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa

from bayescontam._optional import require
from bayescontam._text import join_list, printable
from bayescontam.errors import UsageError
from bayescontam.specs.corpus import Benchmark, Source

type DatasetPlace = Source | Benchmark
"""What of a manifest names a data set."""
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
_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
_ADVICE = (
    "check name, config, split and revision, the network, and for a gated data set the login "
    "(hf auth login); for a machine without network, on one that has it: "
    "datasets.load_dataset('{name}').save_to_disk('FOLDER'), or hf download {name} --repo-type "
    "dataset --local-dir FOLDER and {key}; what is in the cache already is used "
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


@dataclass(frozen=True)
class File:
    """A file that a path, glob or address of a manifest leads to."""

    location: str  # absolute path or fsspec address
    path: str  # what people see: relative to the base folder where it lies below it
    stamp: str  # changes with the content; "" where nothing is known
    in_folder: bool = False  # whether it was found inside a folder, not named or matched
    identity: str = ""  # the same for all links to one file; "" where nothing is known


def expanded(base: Path, path: str) -> Path:
    """Return where a path leads from a folder; ``~`` of an unknown user stands for itself."""
    # Not pathlib's: it raises where there is no such user.
    return Path(os.path.normpath(base / os.path.expanduser(path)))  # noqa: PTH111


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read: what the system says, else the message."""
    code = getattr(error, "errno", None)
    return os.strerror(code) if code else printable(str(error), 300)


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
    """Open a file, here or elsewhere, for reading decompressed, as its name shows, to its end."""
    codec = compression(location)
    with open_file(location) as file:
        if codec is None:
            yield file
        else:
            with pa.CompressedInputStream(file, codec) as stream:
                yield stream


def _local(path: str, base: Path) -> Iterator[File]:
    where = expanded(base, path)
    if where.is_dir():
        yield from _walk(where, base)
    elif where.exists():
        if not where.is_file():
            raise ValueError("a device or a pipe; give the name of a file or folder")
        yield _file(where, base)
    elif glob.has_magic(path):
        pattern = os.path.expanduser(path)  # noqa: PTH111 (a pattern is no path)
        # Not pathlib's: there, a star matches hidden files as well.
        for match in glob.iglob(pattern, root_dir=base, recursive=True):  # noqa: PTH207
            found = Path(os.path.normpath(base / match))
            yield from _walk(found, base) if found.is_dir() else [_file(found, base)]


def _walk(folder: Path, base: Path) -> Iterator[File]:
    seen: set[str] = set()
    for root, folders, names in folder.walk(on_error=_fail, follow_symlinks=True):
        # A link may lead back to where the search came from.
        place = _identity(root, root.stat())
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            # A link to nothing stays in the list: reading it says what is wrong. A pipe would wait.
            if not name.startswith(".") and ((root / name).is_file() or not (root / name).exists()):
                yield _file(root / name, base, in_folder=True)


def _fail(error: OSError) -> None:
    raise error


def _file(where: Path, base: Path, in_folder: bool = False) -> File:
    shown = where.relative_to(base) if where.is_relative_to(base) else where
    stamp = identity = ""
    if where.exists():
        status = where.stat()
        stamp = f"{status.st_size}-{status.st_mtime_ns}"
        identity = _identity(where, status)
    return File(str(where), _utf8(shown.as_posix()), stamp, in_folder, identity)


def _identity(where: Path, status: os.stat_result) -> str:
    """Return what all links to a file or folder have in common."""
    # Some file systems number nothing.
    return f"{status.st_dev}-{status.st_ino}" if status.st_ino else str(where.resolve())


def _utf8(path: str) -> str:
    # Names of files need not be UTF-8; what is shown and stored has to be.
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _remote(address: str) -> Iterator[File]:
    fsspec = require("fsspec", "scan")
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{printable(address)}: needs another package ({error})") from error
    # Web servers answer for single files only, and addresses may hold what looks like a glob.
    if system.isfile(path):
        yield _remote_file(system, path, system.info(path))
        return
    is_glob = glob.has_magic(path) and not system.isdir(path)
    found = system.glob(path, detail=True) if is_glob else system.find(path, detail=True)
    for name, info in sorted(found.items()):
        inside = [PurePath(name).name] if is_glob else PurePath(name.removeprefix(path)).parts
        if info["type"] == "file" and not any(part.startswith(".") for part in inside):
            yield _remote_file(system, name, info, in_folder=not is_glob)


def _remote_file(system: Any, path: str, info: dict[str, Any], in_folder: bool = False) -> File:
    location = str(system.unstrip_protocol(path))
    marks = [str(info[key]) for key in _STAMPS if info.get(key)]
    stamp = "-".join([str(info.get("size") or ""), *marks[:1]])
    return File(location, _utf8(location), stamp, in_folder)


def list_dataset(place: DatasetPlace, base: Path) -> list[Input]:
    """List the shards of a data set: the files it is stored in."""
    name = place.dataset or ""
    folder = expanded(base, name)
    require("datasets", "scan")
    if folder.exists():
        return _list_saved(place, folder, base)
    if not _NAME.fullmatch(name):
        raise _refused(place, f"there is no folder {printable(str(folder))}")
    try:
        commit = _commit(place)
        parts = _streamed(place, commit).num_shards
    # Hub, network, builders and file systems each have errors of their own.
    except Exception as error:
        keys = {"name": printable(name), "key": _files_key(place, "FOLDER")}
        problem, advice = client_error(error), _ADVICE.format(**keys)
        raise _refused(place, problem, advice) from error
    shown = "/".join(part for part in (name, place.config, place.split) if part)
    return _shards(place, shown, name, parts, commit)


def open_dataset(item: Input, place: DatasetPlace) -> Any:
    """Return the data set that an input is a shard of."""
    if not Path(item.location).is_absolute():
        return _streamed(place, item.stamp)
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


def _streamed(place: DatasetPlace, commit: str) -> Any:
    with _without_progress() as datasets:
        return datasets.load_dataset(
            place.dataset,
            place.config,
            split=place.split,
            revision=commit or None,
            streaming=True,
        )


def _commit(place: DatasetPlace) -> str:
    """Return the commit that all shards are read at; this shows at once whether there is a hub."""
    hub = require("huggingface_hub", "scan")
    if hub.constants.HF_HUB_OFFLINE:
        return place.revision or ""
    return str(hub.HfApi().dataset_info(place.dataset, revision=place.revision).sha)


def _list_saved(place: DatasetPlace, folder: Path, base: Path) -> list[Input]:
    if not (folder / "state.json").exists():
        folder = _split_folder(place, folder)
    state = _json(place, folder / "state.json", "_data_files", "_fingerprint")
    shown = folder.relative_to(base) if folder.is_relative_to(base) else folder
    parts = max(1, len(state["_data_files"]))
    return _shards(place, shown.as_posix(), str(folder), parts, str(state["_fingerprint"]))


def _split_folder(place: DatasetPlace, folder: Path) -> Path:
    index = folder / "dataset_dict.json"
    if not index.exists():
        problem = "the folder is none that save_to_disk wrote"
        raise _refused(place, problem, f"for a folder of files give {_files_key(place, '…')}")
    splits = _json(place, index, "splits")["splits"]
    if place.split not in splits:
        raise _refused(place, f"no split '{printable(place.split)}'; there are {join_list(splits)}")
    return folder / place.split


def _json(place: DatasetPlace, path: Path, *keys: str) -> dict[str, Any]:
    """Return the object of a file that save_to_disk wrote, which has some keys."""
    try:
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and found.keys() >= set(keys):
            return found
        problem = f"it has no {join_list(keys)}, so save_to_disk did not write it"
    except (OSError, ValueError) as error:
        problem = str(error)
    raise _refused(place, f"{printable(str(path))} cannot be read ({problem})")


def _shards(place: DatasetPlace, shown: str, location: str, parts: int, stamp: str) -> list[Input]:
    names = [shown] if parts == 1 else [f"{shown}[{part + 1}/{parts}]" for part in range(parts)]
    return [
        Input(place.name, name, location, "dataset", part, parts, stamp)
        for part, name in enumerate(names)
    ]


def _files_key(place: DatasetPlace, folder: str) -> str:
    """Return the key of a manifest that names files of a folder in the place of a data set."""
    return f'paths = ["{folder}"]' if isinstance(place, Source) else f'path = "{folder}/FILE"'


def client_error(error: Exception) -> str:
    """Return what an error of a library says, with its name."""
    return printable(f"{type(error).__name__}: {error}", 400)


def _refused(place: DatasetPlace, problem: str, advice: str = "") -> UsageError:
    kind = type(place).__name__.lower()
    start = f"{kind} '{printable(place.name)}': data set {printable(place.dataset or '')}: "
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
    known: dict[str, File] = {}
    for path in source.paths or ():
        files = find_files(path, folder)
        kinds = [(file, _kind(file, source)) for file in files]
        usable = {
            file.location: Input(source.name, file.path, file.location, kind, stamp=file.stamp)
            for file, kind in kinds
            if kind is not None
        }
        if not usable:
            raise UsageError(_nothing(path, files, source, folder))
        found |= usable
        known |= {file.location: file for file in files}
        passed |= {file.location: file for file, kind in kinds if kind is None}
    over = [file for location, file in passed.items() if location not in found]
    if over and notes is not None:
        notes.append(
            f"source '{printable(source.name)}': {len(over):,} files were passed over because of "
            f"their names ({_counted(over)}); known are {_known(source)}"
        )
    if again := _again([known[location] for location in found]):
        for file in again:
            del found[file.location]
        if notes is not None:
            pairs = [f"{file.path} is {first.path}" for file, first in again.items()]
            notes.append(
                f"source '{printable(source.name)}': {len(again):,} files were passed over because"
                f" they are links to others of the source ({join_list(pairs, most=5)})"
            )
    return sorted(found.values(), key=lambda item: (item.path, item.location))


def _again(files: Sequence[File]) -> dict[File, File]:
    """Return files that are others of the same list under other names, each with the other."""
    by_identity: dict[str, list[File]] = {}
    for file in files:
        if file.identity:
            by_identity.setdefault(file.identity, []).append(file)
    again: dict[File, File] = {}
    for same in by_identity.values():
        if len(same) > 1:
            # Of a file and links to it the file stays; of hard links, the first by name.
            first, *others = sorted(same, key=lambda f: (Path(f.location).is_symlink(), f.path))
            again |= dict.fromkeys(others, first)
    return again


def _kind(file: File, source: Source) -> Kind | None:
    if source.format == "auto":
        kinds: tuple[Kind, ...] = ("jsonl", "text", "parquet")
        return next((kind for kind in kinds if is_named(file.location, kind)), None)
    if source.format == "text" or (source.format != "vectors" and not file.in_folder):
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


def _counted(files: list[File]) -> str:
    suffixes = Counter(PurePath(file.location).suffix.lower() or "no suffix" for file in files)
    shown = [f"{count:,} × {printable(suffix, 20)}" for suffix, count in suffixes.most_common(8)]
    return ", ".join(shown) + (", …" if len(suffixes) > 8 else "")


def _known(source: Source) -> str:
    if source.format != "auto":
        return ", ".join(SUFFIXES[source.format])
    packed = ", ".join([*SUFFIXES["jsonl"], *SUFFIXES["text"]])
    return f"{packed} (each also .gz, .zst or .bz2) and {', '.join(SUFFIXES['parquet'])}"
