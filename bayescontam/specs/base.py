"""Strict TOML to frozen objects: the rules that every kind of spec shares."""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from bayescontam.errors import Fault, SpecError
from bayescontam.names import visible
from bayescontam.storage import sha256


class Block(BaseModel):
    """A table of a spec: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def read_text(path: Path) -> str:
    """Return the text of a spec's file.

    Parameters
    ----------
    path : pathlib.Path
        File to read.

    Returns
    -------
    str

    Raises
    ------
    SpecError
        If the file cannot be read or is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        advice = "Give the path of a TOML file, or a name without .toml for a spec that ships."
        raise SpecError([Fault(str(path), f"cannot be read ({error.strerror})")], advice) from error
    except UnicodeDecodeError as error:
        raise SpecError([Fault(str(path), "is not UTF-8 text; a spec is a TOML file")]) from error


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the content of TOML text; `source` names it in a SpecError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError([Fault(source, f"is not TOML: {error}")]) from error


def validate[SpecT: Block](kind: type[SpecT], data: Mapping[str, Any], source: str) -> SpecT:
    """Turn parsed TOML into a frozen object, or list everything wrong with it.

    Parameters
    ----------
    kind : type of Block
        What the spec must be.
    data : mapping
        Parsed TOML.
    source : str
        File name, for messages.

    Returns
    -------
    Block
        An instance of `kind`.

    Raises
    ------
    SpecError
        With one fault for each unknown key, missing key and bad value.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        # A union reports its error once for each branch: one line is enough.
        faults = dict.fromkeys(_fault(kind, dict(e), source) for e in error.errors())
        raise SpecError(list(faults)) from None


def content_hash(spec: Block) -> str:
    """Return a SHA-256 over the meaning of a spec: layout and comments do not count."""
    return sha256(json.dumps(spec.model_dump(), sort_keys=True).encode())


def closest(word: str, allowed: Iterable[str]) -> str:
    """Return a did-you-mean hint, or the list of what is allowed.

    Examples
    --------
    >>> closest("sigm", ["sigma", "mean"])
    "did you mean 'sigma'?"
    >>> closest("zzz", ["sigma", "mean"])
    'allowed: sigma, mean'
    """
    allowed = list(allowed)
    near = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else "allowed: " + ", ".join(allowed)


def _fault(kind: type[Block], error: dict[str, Any], source: str) -> Fault:
    where, table = _walk(kind, [str(part) for part in error["loc"]])
    problem = _problem(table, error, where)
    return Fault(source, problem, column=".".join(where) or None)


def _walk(kind: Any, loc: list[str]) -> tuple[list[str], Any]:
    """Return the keys as the author wrote them, and the kind of table that the last is in.

    pydantic also names the branches of unions, which stand in no file.
    """
    written: list[str] = []
    table = kind
    for part in loc:
        branches = _branches(kind)
        tagged = [b for b in branches if part in _families(b)]
        if tagged:
            kind = tagged[0]
        elif not part.startswith(("constrained-", "dict[")):
            written.append(part)
            table = kind
            fields = [b.model_fields[part] for b in branches if part in b.model_fields]
            kind = fields[0].annotation if fields else None
    return written, table


def _problem(table: Any, error: dict[str, Any], where: list[str]) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            allowed = sorted({key for b in _branches(table) for key in b.model_fields})
            return f"unknown key ({closest(where[-1], allowed)})"
        case "missing":
            return "is missing and has no default"
        case "literal_error":
            words = context["expected"].replace(" or ", ", ").split(",")
            allowed = [word.strip(" '") for word in words]
            return f"got {_shown(error['input'])}; {closest(str(error['input']), allowed)}"
        case "union_tag_invalid":
            allowed = [word.strip(" '") for word in context["expected_tags"].split(",")]
            return f"unknown family {_shown(context['tag'])} ({closest(context['tag'], allowed)})"
        case "union_tag_not_found":
            return "needs a key 'family', such as { family = \"normal\", sigma = 1.5 }"
        case "model_type":
            return f"got {_shown(error['input'])}; a table is needed"
        case "bool_type":
            return f"got {_shown(error['input'])}; allowed is true or false"
        case "float_type":
            return f"got {_shown(error['input'])}; a number is needed"
        case "string_type":
            return f"got {_shown(error['input'])}; a text in quotes is needed"
    message = error["msg"].removeprefix("Value error, ")
    return f"got {_shown(error['input'])}; {message}" if where else message


def _shown(value: Any) -> str:
    return visible(repr(value), 60)


def _branches(kind: Any) -> list[type[Block]]:
    """Return the tables that an annotation allows."""
    if isinstance(kind, type) and issubclass(kind, Block):
        return [kind]
    return [branch for arg in get_args(kind) for branch in _branches(arg)]


def _families(kind: type[Block]) -> tuple[str, ...]:
    field = kind.model_fields.get("family")
    return get_args(field.annotation) if field else ()
