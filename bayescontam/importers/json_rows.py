"""JSON rows: objects of JSON Lines or of one JSON list, none of which is taken in part."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import IO, Any

import numpy as np
from pydantic_core import from_json

from bayescontam.bounds import Bounds
from bayescontam.errors import DataError, Fault
from bayescontam.importers import ADVICE
from bayescontam.importers.tools import import_advice
from bayescontam.names import listed, visible

type Opened = Callable[[], AbstractContextManager[IO[str]]]

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_ONE_OBJECT = f"in pandas: to_json(orient='records'); {ADVICE}"
_PIECE = 1 << 20
"""Characters that are read at once."""
_MOST_FAULTS = 10_000
"""Faulty rows after which reading ends."""
_AT_END = 20
"""Characters before the end in which a value may be cut off."""


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
    shown = visible(json.dumps(value), 60)
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
        shown = f"{error.msg} at character {error.colno} of {visible(line.rstrip(), 60)}"
        return _Bad(cause.replace("{}", shown, 1), cause, shown)
    except (RecursionError, ValueError) as error:
        return _Bad(visible(str(error)))
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
        problem = f"holds one JSON object, with the keys {listed(found)}; a table is a list of "
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
        raise ValueError(f"repeated key {listed(repeated)}; keep one")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
