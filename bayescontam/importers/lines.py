"""Lines: objects of JSON Lines files, one by one, each with its place in the file."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json

from bayescontam.bounds import bounded_lines, read_whole, unpacked
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.importers.choices import Paths, several
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.runs import original_name
from bayescontam.names import listed, visible
from bayescontam.progress import Advance, progress_bar

LARGE = 50_000_000
"""Bytes of JSON that take about two seconds to import."""
_STEP = 1_000_000
DAMAGED = "write it again; was its writing broken off?"


def reading_bar(
    paths: Sequence[Path], shown: bool, large: int = LARGE
) -> AbstractContextManager[Advance]:
    """Return a progress bar over the bytes of files, shown from `large` bytes on."""
    total = sum(path.stat().st_size for path in paths)
    return progress_bar(shown and total >= large, "Reading", total / 1e6, "MB")


def log_files(
    paths: Paths,
    inside: Callable[[Path], Iterable[Path]],
    advice: str,
) -> list[Path]:
    """Return files, those in folders included, sorted and each once."""
    found: dict[Path, Path] = {}
    for path in map(Path, several(paths)):
        if path.is_dir():
            files = list(inside(path))
            if not files:
                raise UsageError(f"{visible(str(path))}: {advice}")
        elif path.is_file():
            files = [path]
        else:
            raise UsageError(f"{visible(str(path))}: no such file or folder; check the path")
        found.update({file.resolve(): file for file in files})

    # A copy comes after what it is a copy of, so that it is the one named as such.
    def order(file: Path) -> tuple[Path, int, Path]:
        return file.with_name(original_name(file.name)), len(file.name), file

    return [found[file] for file in sorted(found, key=order)]


def objects(
    path: Path, left_out: LeftOut, advance: Advance | None = None, *, unique: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read objects of a file of JSON Lines, or of one JSON list."""
    with unpacked(path) as stream:
        first = _first_byte(stream)
        found = _from_list(stream, path, left_out) if first == b"[" else _from_lines(stream, path)
        done = 0
        for place, size, content in found:
            done += size
            if done > _STEP and advance is not None:
                advance(done / 1e6)
                done = 0
            value = _parsed(content, unique) if isinstance(content, bytes) else content
            if isinstance(value, dict):
                yield place, value
            else:
                left_out.broken(os.fspath(path), place, _problem(value))
        if advance is not None:
            advance(done / 1e6)


def part(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the object that stands under these names, one in another; empty if there is none.

    >>> part({"a": {"b": {"c": 1}}, "d": "text"}, "a", "b"), part({"d": "text"}, "d")
    ({'c': 1}, {})
    """
    found: Any = content
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def json_file(path: Path, *, unique: bool = False) -> Any:
    """Return the one JSON value that a file holds, plain or compressed."""
    value = _parsed(read_whole(path), unique)
    if isinstance(value, _Bad):
        raise DataError([Fault(os.fspath(path), f"is no whole JSON file ({value})")], DAMAGED)
    return value


def json_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """Return the one JSON object that a file holds; see `json_file`."""
    value = json_file(path, unique=unique)
    if not isinstance(value, dict):
        raise DataError([Fault(os.fspath(path), _problem(value))])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"repeated key {listed(sorted({n for n in names if names.count(n) > 1}))}")
    return found


def _first_byte(stream: IO[bytes]) -> bytes:
    """Return the first byte that is no space and no byte order mark, without reading on."""
    start: bytes = stream.peek(4096)[:4096]  # type: ignore[attr-defined]
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


def _from_lines(stream: IO[bytes], path: Path) -> Iterator[tuple[str, int, Any]]:
    for number, line in enumerate(bounded_lines(stream, os.fspath(path)), start=1):
        if text := line.strip():
            yield f"line {number}", len(line), text


def _from_list(stream: IO[bytes], path: Path, left_out: LeftOut) -> Iterator[tuple[str, int, Any]]:
    """Give the entries of one list; of a truncated one all but the last, which is incomplete."""
    data = stream.read().removeprefix(b"\xef\xbb\xbf")
    try:
        values = from_json(data)
    except ValueError as error:
        left_out.broken(os.fspath(path), "as one JSON list", f"is no JSON: {error}")
        try:
            values = from_json(data, allow_partial=True)[:-1]
        except ValueError:
            values = []
    size = len(data) // max(len(values), 1)
    for number, value in enumerate(values, start=1):
        yield f"entry {number}", size, value


class _Bad(str):
    """Why bytes are no JSON."""


def _parsed(data: bytes, unique: bool = False) -> Any:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return json.loads(data, object_pairs_hook=_once) if unique else from_json(data)
    except (ValueError, RecursionError) as error:
        return _Bad(visible(str(error), 120))


def _problem(value: Any) -> str:
    if isinstance(value, _Bad):
        return f"is no whole JSON object ({value})"
    return f"got {visible(repr(value), 60)}; allowed is one JSON object"
