"""Read JSON Lines: records as a table, or one by one."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic_core import from_json

from bayescontam._bounds import Bounds, bounded_lines, read_whole, unpacked
from bayescontam._progress import Advance, progress_bar
from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import LeftOut, Paths, is_ambiguous
from bayescontam.data.importers.runs import original_name
from bayescontam.data.tools import ADVICE, import_advice
from bayescontam.errors import DataError, Fault, UsageError

type Opened = Callable[[], AbstractContextManager[IO[str]]]

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_ONE_OBJECT = f"in pandas: to_json(orient='records'); {ADVICE}"
_PIECE = 1 << 20
"""Characters that are read at once."""
_MOST_FAULTS = 10_000
"""Faulty rows after which reading ends."""
_AT_END = 20
"""Characters before the end in which a value may be cut off."""
LARGE = 50_000_000
"""Bytes of JSON that take about two seconds to import."""
_STEP = 1_000_000
DAMAGED = "write it again; was its writing broken off?"


class _Bad:
    """A row that is no object, and why; with `cause` as of `Fault`."""

    def __init__(self, problem: str, cause: str = "", value: str = "") -> None:
        self.problem, self.cause, self.value = problem, cause, value


def json_columns(opened: Opened, source: str) -> dict[str, list[Any]]:
    """Return the objects of a file as columns; NaN where an object lacks a key."""
    faults: list[Fault] = []
    columns: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}  # names repeat: one text for all rows that hold it
    limit = Bounds.current()
    count = 0
    for row, value in enumerate(_values(opened, source), start=1):
        if isinstance(value, dict):
            for name, cell in value.items():
                cells = columns.get(name)
                if cells is None:
                    cells = columns[name] = [np.nan] * count
                cells.append(texts.setdefault(cell, cell) if isinstance(cell, str) else cell)
            count += 1
            for cells in columns.values():
                if len(cells) < count:
                    cells.append(np.nan)
            if count % 10_000 == 0:
                limit.check_cells(count, len(columns), source)
            continue
        bad = value if isinstance(value, _Bad) else _not_object(value)
        faults.append(Fault(source, bad.problem, row, None, bad.cause, bad.value))
        if len(faults) == _MOST_FAULTS:
            break
    if faults:
        raise DataError(faults, 'each line must be one whole JSON object, such as {"item": "a"}')
    limit.check_cells(count, len(columns), source)
    return columns


def _refused(source: str, problem: str, advice: str = "") -> DataError:
    return DataError([Fault(source, problem)], advice)


def _not_object(value: Any) -> _Bad:
    cause = "got {}; allowed is one JSON object a row"
    shown = printable(json.dumps(value), 60)
    return _Bad(cause.replace("{}", shown, 1), cause, shown)


def _values(opened: Opened, source: str) -> Iterator[Any]:
    with opened() as text:
        is_list = _begins_list(text)
    with opened() as text:
        yield from map(_checked, _entries(text, source)) if is_list else _lines(text, source)


def _begins_list(text: IO[str]) -> bool:
    """Distinguish one list from lines that are lists, each of which is refused with its own row."""
    line = next((line for line in iter(lambda: text.readline(_PIECE), "") if line.strip()), "")
    if not line.lstrip().startswith("["):
        return False
    return isinstance(_line(line), _Bad) or not _goes_on(text)


def _checked(value: Any) -> Any:
    # JSON can spell half of a surrogate pair, which no file, hash or terminal can hold.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return _Bad(f"is no valid Unicode: {error.reason}; write the character whole")
    return value


def _lines(text: IO[str], source: str) -> Iterator[Any]:
    # Not split at what str.splitlines() splits at: names may hold it.
    limit = Bounds.current()
    number = 0
    while line := text.readline(limit.record + 1):
        number += 1
        limit.check_record(len(line), source, f"line {number}")
        if not line.strip():
            continue
        value = _line(line)
        if isinstance(value, _Bad) and number == 1 and line.lstrip().startswith("{"):
            _refuse_one_object(line, text, source)
        yield value


def _line(line: str) -> Any:
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        cause = "is no JSON: {}"
        shown = f"{error.msg} at character {error.colno} of {printable(line.rstrip(), 60)}"
        return _Bad(cause.replace("{}", shown, 1), cause, shown)
    except (RecursionError, ValueError) as error:
        return _Bad(printable(str(error)))
    return _checked(value) if _HALF.search(line) else value


def _refuse_one_object(line: str, text: IO[str], source: str) -> None:
    """Raise if a first line that is no JSON begins an object that goes on in the next lines."""
    rest = text.read(_PIECE)
    if not rest.strip() or rest.lstrip().startswith("{"):
        return
    try:
        found = from_json(line + rest, allow_partial=True)
    except ValueError:
        return
    if isinstance(found, dict):
        advice = import_advice(source) or _ONE_OBJECT
        problem = f"holds one JSON object, with the keys {join_list(found)}; a table is a list of "
        raise _refused(source, problem + "objects, or one object a line", advice)


def _entries(text: IO[str], source: str) -> Iterator[Any]:
    """Give the entries of a list, holding one at a time."""
    limit = Bounds.current()
    held, at, done, more = "", 0, 0, True  # `done`: lines before `held`
    number, expects = 1, "bracket"
    while True:
        while at < len(held) and held[at].isspace():
            at += 1
        if at == len(held) and more:
            done += held.count("\n")
            held, at = text.read(_PIECE), 0
            more = bool(held)
            if more:
                continue
        mark = held[at : at + 1]
        if expects == "bracket":
            at, expects = at + 1, "entry"
            continue
        if mark == "]" and not (expects == "entry" and number > 1):
            if held[at + 1 :].strip() or _goes_on(text):
                place = _place(held, at, done)
                raise _refused(source, f"is no JSON list: Extra data after its end in {place}")
            return
        if expects == "comma":
            if mark != ",":
                place = _place(held, at, done)
                raise _refused(source, f"is no JSON list: Expecting ',' delimiter in {place}")
            at, expects = at + 1, "entry"
            continue
        try:
            value, end = _DECODER.raw_decode(held, at)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated") or error.pos > len(held) - _AT_END
            if not (more and cut):
                place = _place(held, error.pos, done)
                problem = f"is no JSON list: {error.msg} in {place}"
                raise _refused(source, problem) from error
            end = len(held)
        except (RecursionError, ValueError) as error:
            raise _refused(source, f"is no JSON list of objects: {error}") from error
        if end == len(held) and more:  # the entry may go on
            limit.check_record(end - at, source, f"entry {number}")
            piece = text.read(max(_PIECE, len(held) - at))
            more = bool(piece)
            done += held.count("\n", 0, at)
            held, at = held[at:] + piece, 0
            continue
        limit.check_record(end - at, source, f"entry {number}")
        yield value
        at, expects, number = end, "comma", number + 1


def _goes_on(text: IO[str]) -> bool:
    return any(piece.strip() for piece in iter(lambda: text.read(_PIECE), ""))


def _place(held: str, at: int, done: int) -> str:
    line = done + held.count("\n", 0, at) + 1
    return f"line {line}, column {at - held.rfind('\n', 0, at)}"


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = [name for name in found if names.count(name) > 1]
        raise ValueError(f"repeated key {join_list(repeated)}; keep one")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


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
    for path in map(Path, is_ambiguous(paths)):
        if path.is_dir():
            files = list(inside(path))
            if not files:
                raise UsageError(f"{printable(str(path))}: {advice}")
        elif path.is_file():
            files = [path]
        else:
            raise UsageError(f"{printable(str(path))}: no such file or folder; check the path")
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
    if isinstance(value, _NoJson):
        raise DataError([Fault(os.fspath(path), f"is no whole JSON file ({value})")], DAMAGED)
    return value


def json_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """Return the one JSON object that a file holds; see `json_file`."""
    value = json_file(path, unique=unique)
    if not isinstance(value, dict):
        raise DataError([Fault(os.fspath(path), _problem(value))])
    return value


def _deduplicate(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"repeated key {join_list(sorted({n for n in names if names.count(n) > 1}))}"
        )
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


class _NoJson(str):
    """Why bytes are no JSON."""


def _parsed(data: bytes, unique: bool = False) -> Any:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return json.loads(data, object_pairs_hook=_deduplicate) if unique else from_json(data)
    except (ValueError, RecursionError) as error:
        return _NoJson(printable(str(error), 120))


def _problem(value: Any) -> str:
    if isinstance(value, _NoJson):
        return f"is no whole JSON object ({value})"
    return f"got {printable(repr(value), 60)}; allowed is one JSON object"
