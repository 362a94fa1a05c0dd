"""Finds the inputs of a source: its files, or the shards of its data set."""

import difflib
import glob
import os
from collections import Counter
from pathlib import Path, PurePath

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.scan.files import File, find_files, is_remote
from bayescontam.scan.hub import list_dataset
from bayescontam.scan.inputs import SUFFIXES, Input, Kind, is_named, kind_by_name
from bayescontam.specs.corpus import Source


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
    where = "" if is_remote(path) else f" (looked for from {visible(str(folder))})"
    start = f"source '{visible(source.name)}': {visible(path)}{where}: "
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
    return "no such file or folder" + (f"; did you mean '{visible(near[0])}'?" if near else "")


def _note(files: list[File], source: Source) -> str:
    return (
        f"source '{visible(source.name)}': {len(files):,} files were passed over because of "
        f"their names ({_counted(files)}); known are {_known(source)}"
    )


def _counted(files: list[File]) -> str:
    suffixes = Counter(PurePath(file.location).suffix.lower() or "no suffix" for file in files)
    shown = [f"{count:,} × {visible(suffix, 20)}" for suffix, count in suffixes.most_common(8)]
    return ", ".join(shown) + (", …" if len(suffixes) > 8 else "")


def _known(source: Source) -> str:
    if source.format != "auto":
        return ", ".join(SUFFIXES[source.format])
    packed = ", ".join([*SUFFIXES["jsonl"], *SUFFIXES["text"]])
    return f"{packed} (each also .gz, .zst or .bz2) and {', '.join(SUFFIXES['parquet'])}"
