"""JSON rows: objects of JSON Lines or of one JSON list, none of which is taken in part."""

import json
import re
from collections.abc import Iterable
from typing import Any

from bayescontam.errors import DataError, Fault
from bayescontam.names import listed, visible

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class _Bad:
    """A line that is no JSON, and why."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


def json_rows(text: str, source: str) -> list[dict[str, Any]]:
    """Return the objects of a file.

    Parameters
    ----------
    text : str
        JSON Lines, or one JSON list.
    source : str
        File, for messages.

    Raises
    ------
    DataError
        If a row is no object, repeats a key or is no valid Unicode; all such rows are listed.
    """
    faults: list[Fault] = []
    records: list[dict[str, Any]] = []
    for row, value in enumerate(_values(text, source), start=1):
        if isinstance(value, dict):
            records.append(value)
        else:
            problem = value.problem if isinstance(value, _Bad) else _not_object(value)
            faults.append(Fault(source, problem, row))
    if faults:
        raise DataError(faults, 'each line must be one whole JSON object, such as {"item": "a"}')
    return records


def _refused(source: str, problem: str) -> DataError:
    return DataError([Fault(source, problem)])


def _not_object(value: Any) -> str:
    return f"got {visible(json.dumps(value), 60)}; allowed is one JSON object a row"


def _values(text: str, source: str) -> Iterable[Any]:
    if text.lstrip().startswith("["):
        try:
            values = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":  # otherwise lines that are lists: said line by line
                place = f"line {error.lineno}, column {error.colno}"
                raise _refused(source, f"is no JSON list: {error.msg} in {place}") from error
        except (RecursionError, ValueError) as error:
            raise _refused(source, f"is no JSON list of objects: {error}") from error
        else:
            return [_unicode(value) for value in values] if _HALF.search(text) else values
    # Not splitlines(): names may hold the other characters that it splits at.
    return (_line(line) for line in text.split("\n") if line.strip())


def _line(line: str) -> Any:
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        return _Bad(f"is no JSON: {error.msg} at character {error.colno} of {visible(line, 60)}")
    except (RecursionError, ValueError) as error:
        return _Bad(str(error))
    return _unicode(value) if _HALF.search(line) else value


def _unicode(value: Any) -> Any:
    # JSON can spell half of a surrogate pair, which no file, hash or terminal can hold.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return _Bad(f"is no valid Unicode: {error.reason}; write the character whole")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = [name for name in found if names.count(name) > 1]
        raise ValueError(f"repeated key {listed(repeated)}; keep one")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
