"""Read JSON: records of lines or of one list, one at a time, and files of one value."""

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic_core import from_json

from bayescontam._bounds import Bounds, bounded_lines, read_whole, unpacked
from bayescontam._text import join_list, printable
from bayescontam.data.tools import ADVICE, import_advice
from bayescontam.errors import DataError, Fault

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_MARK = b"\xef\xbb\xbf"  # byte order mark of UTF-8
_ONE_OBJECT = f"in pandas: to_json(orient='records'); {ADVICE}"
_PIECE = 1 << 20  # characters that are read at once
_MOST_FAULTS = 10_000  # faulty rows after which reading ends
_AT_END = 20  # characters before the end in which a value may be cut off


@dataclass(frozen=True)
class Damage:
    """Why a record is no JSON."""

    error: ValueError | RecursionError
    text: str = ""  # what stands there, cut

    @property
    def reason(self) -> str:
        """What is wrong."""
        return printable(str(self.error), 120)


class BrokenListError(ValueError):
    """A JSON list that cannot be read to its end."""


def json_records(
    path: str | os.PathLike[str], *, unique: bool = True
) -> Iterator[tuple[str, int, Any]]:
    """Give place, size and value (or `Damage`) of the records of JSON Lines or of one list."""
    # Without `unique`, the last value of a key that an object has twice counts.
    with unpacked(path) as stream:
        is_list = _begins_list(stream)
    with unpacked(path) as stream:
        if is_list:
            yield from _entries(stream, os.fspath(path), _STRICT if unique else _PLAIN)
            return
        # Not split at what str.splitlines() splits at: names may hold it.
        for number, line in enumerate(bounded_lines(stream, os.fspath(path)), start=1):
            if text := line.removeprefix(_MARK).strip():
                yield f"line {number}", len(line), _parsed(text, unique)


def json_columns(path: Path, source: str) -> dict[str, list[Any]]:
    """Return the objects of a file as columns; NaN where an object lacks a key."""
    faults: list[Fault] = []
    columns: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}  # names repeat: one text for all rows that hold it
    limit = Bounds.current()
    count = 0
    try:
        for row, (_, _, value) in enumerate(json_records(path), start=1):
            if isinstance(value, dict):
                for name in value:
                    if name not in columns:
                        columns[name] = [np.nan] * count
                for name, cells in columns.items():
                    cell = value.get(name, np.nan)
                    cells.append(texts.setdefault(cell, cell) if isinstance(cell, str) else cell)
                count += 1
                if count % 10_000 == 0:
                    limit.check_cells(count, len(columns), source)
                continue
            if row == 1 and isinstance(value, Damage):
                _refuse_one_object(path, source)
            faults.append(_fault(source, row, value))
            if len(faults) == _MOST_FAULTS:
                break
    except BrokenListError as error:
        raise DataError([Fault(source, str(error))]) from error
    if faults:
        raise DataError(faults, 'each line must be one whole JSON object, such as {"item": "a"}')
    if not columns:
        raise DataError([Fault(source, "no columns: the list or its objects are empty")])
    limit.check_cells(count, len(columns), source)
    return columns


def _fault(source: str, row: int, value: Any) -> Fault:
    """Return the fault of a row that is no object."""
    if not isinstance(value, Damage):
        cause, shown = "got {}; allowed is one JSON object a row", printable(json.dumps(value), 60)
    elif isinstance(value.error, UnicodeDecodeError):
        raise value.error  # of the file as a whole
    elif isinstance(value.error, json.JSONDecodeError):
        cause = "is no JSON: {}"
        shown = f"{value.error.msg} at character {value.error.colno} of {value.text}"
    else:
        return Fault(source, value.reason, row)
    return Fault(source, cause.replace("{}", shown, 1), row, None, cause, shown)


def _refuse_one_object(path: Path, source: str) -> None:
    """Raise if a file, whose first line is no JSON, begins with an object of several lines."""
    with unpacked(path) as stream:
        start = stream.read(_PIECE).removeprefix(_MARK).lstrip()
    rest = start.partition(b"\n")[2].strip()
    if not start.startswith(b"{") or not rest or rest.startswith(b"{"):
        return
    try:
        found = from_json(start, allow_partial=True)
    except ValueError:
        return
    if isinstance(found, dict):
        problem = f"holds one JSON object, with the keys {join_list(found)}; a table is a list of "
        advice = import_advice(source) or _ONE_OBJECT
        raise DataError([Fault(source, problem + "objects, or one object a line")], advice)


def _begins_list(stream: IO[bytes]) -> bool:
    """Distinguish one list from lines that are lists, each of which is refused with its own row."""
    lines = iter(lambda: stream.readline(_PIECE), b"")
    line = next((text for line in lines if (text := line.removeprefix(_MARK).strip())), b"")
    if not line.startswith(b"["):
        return False
    whole = not isinstance(_parsed(line, unique=False), Damage)
    return not whole or not any(piece.strip() for piece in lines)


def _entries(
    stream: IO[bytes], source: str, decoder: json.JSONDecoder
) -> Iterator[tuple[str, int, Any]]:
    """Give the entries of a list, holding one at a time."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n")
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
            if held[at + 1 :].strip() or any(
                piece.strip() for piece in iter(lambda: text.read(_PIECE), "")
            ):
                raise _broken_list("Extra data after its end", held, at, done)
            return
        if expects == "comma":
            if mark != ",":
                raise _broken_list("Expecting ',' delimiter", held, at, done)
            at, expects = at + 1, "entry"
            continue
        try:
            value, end = decoder.raw_decode(held, at)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated") or error.pos > len(held) - _AT_END
            if not (more and cut):
                raise _broken_list(error.msg, held, error.pos, done) from error
            end = len(held)
        except (RecursionError, ValueError) as error:
            raise BrokenListError(f"is no JSON list of objects: {error}") from error
        limit.check_record(end - at, source, f"entry {number}")
        if end == len(held) and more:  # the entry may go on
            piece = text.read(max(_PIECE, len(held) - at))
            more = bool(piece)
            done += held.count("\n", 0, at)
            held, at = held[at:] + piece, 0
            continue
        half = _HALF.search(held, at, end)
        yield f"entry {number}", end - at, _checked(value) if half else value
        at, expects, number = end, "comma", number + 1


def _broken_list(problem: str, held: str, at: int, done: int) -> BrokenListError:
    line = done + held.count("\n", 0, at) + 1
    column = at - held.rfind("\n", 0, at)
    return BrokenListError(f"is no JSON list: {problem} in line {line}, column {column}")


def _parsed(data: bytes, unique: bool) -> Any:
    """Return the value of JSON text, or `Damage`."""
    try:
        if not unique:
            return from_json(data)
        text = data.decode()
        value = _STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        return Damage(error, printable(data.decode(errors="replace"), 60))
    return _checked(value) if _HALF.search(text) else value


def _checked(value: Any) -> Any:
    # JSON can spell half of a surrogate pair, which no file, hash or terminal can hold.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return Damage(ValueError(f"is no valid Unicode: {error.reason}; write the character whole"))
    return value


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = [name for name in found if names.count(name) > 1]
        raise ValueError(f"repeated key {join_list(repeated)}; keep one")
    return found


_PLAIN = json.JSONDecoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_object)


def no_object(value: Any) -> str:
    """Return what is wrong with a record, or a file, that is no object."""
    if isinstance(value, Damage):
        return f"is no whole JSON object ({value.reason})"
    return f"got {printable(repr(value), 60)}; allowed is one JSON object"


def json_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """Return the one JSON object that a file holds, plain or compressed."""
    value = _parsed(read_whole(path).removeprefix(_MARK), unique)
    if isinstance(value, dict):
        return value
    advice = "write it again; was its writing broken off?" if isinstance(value, Damage) else ""
    raise DataError([Fault(os.fspath(path), no_object(value))], advice)


def part(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the object that stands under these names, one in another; empty if there is none."""
    found: Any = content
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}
