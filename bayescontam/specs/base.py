"""Strict TOML to frozen objects: the rules that every kind of spec shares, and their keys."""

import difflib
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr, Tag, ValidationError

from bayescontam._bounds import Bounds
from bayescontam._files import sha256
from bayescontam._text import printable
from bayescontam.errors import Fault, SpecError

type Keys = tuple[str | int, ...]
"""Keys that lead to a place in a file; the entries of a list count from 0."""

_NEEDS = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "a whole number",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_type": "a text in quotes",
    "tuple_type": "a list",
}
"""What each of pydantic's type errors asks for."""

_OWN = "Value error, "  # how pydantic begins a sentence that one of our own checks raised

_LIMITS = {
    "gt": "allowed is more than {}",
    "ge": "allowed is {} or more",
    "lt": "allowed is less than {}",
    "le": "allowed is {} or less",
    "min_length": "it must not be empty",
    "max_length": "at most {} characters are allowed",
}
"""What each of pydantic's limits means. Nothing here has to be longer than 1."""


class Block(BaseModel):
    """A table of a spec: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    LATER: ClassVar[frozenset[str]] = frozenset()
    """Keys that came after specs were first stored: with their defaults they do not count."""
    LOCAL: ClassVar[frozenset[str]] = frozenset()
    """Keys that say where and how work is done, not what it finds: they never count."""


def read_text(path: Path) -> str:
    """Return the text of a spec's file."""
    try:
        Bounds.current().check_record(path.stat().st_size, str(path), "the text")
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
    """Return a frozen object of parsed TOML, or raise one `SpecError` with all its faults."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        found = [
            _KeyPath(dict(e), *_locate_error(kind, e["loc"]))
            for e in error.errors()
            if not _follows(dict(e))
        ]
        problems = [(each.where, text) for each in found if (text := _problem(each, found))]
        faults = [
            Fault(source, text + _entry(where, data), column=".".join(map(str, where)) or None)
            for where, text in problems
        ]
        raise SpecError(list(dict.fromkeys(faults))) from None


def content_hash(spec: Block) -> str:
    """Return a SHA-256 over the meaning of a spec: layout and comments do not count."""
    return sha256(json.dumps(content_of(spec), sort_keys=True).encode())


def content_of(spec: Block) -> dict[str, Any]:
    """Return the keys of a spec that its results depend on.

    Left out are those of `Block.LOCAL`, and those that came later and have their defaults: what
    was stored before is found.
    """
    content = spec.model_dump()
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name in spec.LOCAL or (name in spec.LATER and value == field.default):
            del content[name]
        elif isinstance(value, Block):
            content[name] = content_of(value)
        elif isinstance(value, tuple):
            content[name] = tuple(content_of(v) if isinstance(v, Block) else v for v in value)
    return content


def suggest(word: str, allowed: Iterable[str]) -> str:
    """Return a did-you-mean hint, or the list of what is allowed."""
    allowed = list(allowed)
    longer = sorted((each for each in allowed if word and each.startswith(word)), key=len)
    near = longer or difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else "allowed: " + ", ".join(allowed)


class _KeyPath(NamedTuple):
    """An error of pydantic, and where it lies."""

    error: dict[str, Any]
    where: Keys
    table: Any  # kind of table that the last key stands in
    union: Keys | None  # keys of the value that the error is about, if it may be of several types


def _locate_error(kind: Any, loc: Iterable[str | int]) -> tuple[Keys, Any, Keys | None]:
    """Return the keys as the author wrote them, the last one's table, and the union passed."""
    # pydantic also names the branches of unions, which stand in no file.
    written: Keys = ()
    union: Keys | None = None
    table = kind
    for part in loc:
        branches = _branches(kind)
        if isinstance(part, int):
            written += (part,)
        elif (meant := _intended_branch(kind, part)) is not None:
            kind = meant
        elif len(branches) > 1 and (tagged := [b for b in branches if part in _families(b)]):
            kind = tagged[0]
        elif get_origin(_plain(kind)) is dict:
            written += (part,)
            kind = get_args(_plain(kind))[1]
        elif written and union is None and _is_union(kind):
            union = written
        else:
            written += (part,)
            table = kind
            fields = [b.model_fields[part] for b in branches if part in b.model_fields]
            kind = fields[0].annotation if fields else None
    return written, table, union


def _follows(error: dict[str, Any]) -> bool:
    """Return whether the error only follows from another: a list is short of refused entries."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _problem(found: _KeyPath, all_found: list[_KeyPath]) -> str:
    """Return what is wrong, or nothing where another error says it better."""
    # Each branch of a union has its say; who writes a list means the branch that takes lists.
    kind = found.error["type"]
    if found.union is None or found.where != found.union or kind not in _NEEDS:
        return _words(found)
    siblings = [each for each in all_found if each.union == found.union]
    if any(each.where != found.union or each.error["type"] not in _NEEDS for each in siblings):
        return ""
    needs = " or ".join(dict.fromkeys(_NEEDS[each.error["type"]] for each in siblings))
    return f"got {_shown(found.error['input'])}; {needs} is needed"


def _entry(where: Keys, data: Any) -> str:
    """Return what an entry of a list calls itself: its number alone is easily miscounted."""
    for part in where:
        if isinstance(data, list) and len(data) > 1 and isinstance(data[int(part)], Mapping):
            name = data[int(part)].get("name")
            return f" (in the entry named {_shown(name)})" if isinstance(name, str) else ""
        data = data.get(part) if isinstance(data, Mapping) else None
    return ""


def _words(found: _KeyPath) -> str:
    error, where, table, _ = found
    context, kind = error.get("ctx", {}), error["type"]
    got = f"got {_shown(error['input'])}; "
    match kind:
        case "extra_forbidden":
            allowed = sorted({key for b in _branches(table) for key in b.model_fields})
            return f"unknown key ({suggest(str(where[-1]), allowed)})"
        case "missing":
            return "is missing and has no default"
        case "literal_error":
            words = context["expected"].replace(" or ", ", ").split(",")
            return got + suggest(str(error["input"]), [word.strip(" '") for word in words])
        case "union_tag_invalid":
            allowed = [word.strip(" '") for word in context["expected_tags"].split(",")]
            return f"unknown family {_shown(context['tag'])} ({suggest(context['tag'], allowed)})"
        case "union_tag_not_found":
            return "needs a key 'family', such as { family = \"normal\", sigma = 1.5 }"
        case "bool_type":
            return got + "allowed is true or false"
        case "tuple_type":
            return got + _list_like(table, where)
        case "value_error" if isinstance(error["input"], Mapping):
            return str(error["msg"]).removeprefix(_OWN)
    return got + (f"{_NEEDS[kind]} is needed" if kind in _NEEDS else _limit(error))


def _limit(error: dict[str, Any]) -> str:
    """Return in words which limit a value breaks."""
    context = error.get("ctx", {})
    for key, words in _LIMITS.items():
        if key in context:
            return words.format(_limit_text(context[key]))
    finite = error["type"] == "finite_number"
    return "a finite number is needed" if finite else str(error["msg"]).removeprefix(_OWN)


def _limit_text(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _list_like(table: Any, where: Keys) -> str:
    """Return which kind of list a key needs."""
    key = str(where[-1])
    known = [b.model_fields[key].annotation for b in _branches(table) if key in b.model_fields]
    if not known:  # a key of the author's own, in a table of lists
        return "a list is needed"
    kind = known[0]
    if _branches(kind):
        return f"a list of tables is needed: begin each with [[{key}]]"
    counts = any(get_args(arg)[:1] == (int,) for arg in get_args(kind))
    example = "[2, 3]" if counts else '["…"]'
    return f"a list is needed, such as {example}"


def _shown(value: Any) -> str:
    return printable(repr(value), 60)


def _branches(kind: Any) -> list[type[Block]]:
    """Return the tables that an annotation allows."""
    if isinstance(kind, type) and issubclass(kind, Block):
        return [kind]
    return [branch for arg in get_args(kind) for branch in _branches(arg)]


def _intended_branch(kind: Any, tag: str) -> Any:
    """Return the branch of a union that goes by a tag of pydantic's, if there is one."""
    for branch in get_args(_plain(kind)):
        if Tag(tag) in getattr(branch, "__metadata__", ()):
            return branch
    return None


def _plain(kind: Any) -> Any:
    """Return an annotation without what it is annotated with."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _is_union(kind: Any) -> bool:
    """Return whether a value may be of several types, so that pydantic reports each of them."""
    if get_origin(kind) not in (Union, UnionType):
        return False
    kinds = [arg for arg in get_args(kind) if arg is not NoneType]
    return len(kinds) > 1 and not _branches(kind)


def _families(kind: type[Block]) -> tuple[str, ...]:
    field = kind.model_fields.get("family")
    return get_args(field.annotation) if field else ()


class WholeSpec(Block):
    """The content of a spec's file, with the name and the text that it was read with."""

    _name: str = PrivateAttr(default="unnamed")
    _text: str = PrivateAttr(default="")

    @property
    def name(self) -> str:
        """Name of the file without its suffix."""
        return self._name

    @property
    def text(self) -> str:
        """The file as it was read, comments included."""
        return self._text

    @cached_property
    def source(self) -> str:
        """Path that it was read from, as messages say it; a shipped spec's file name."""
        return "unnamed"

    @property
    def hash(self) -> str:
        """SHA-256 of the meaning: layout, comments and the file's name do not count."""
        return content_hash(self)

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Return the spec of this kind that is written in `text`.

        Parameters
        ----------
        text : str
            TOML.
        name : str
            Path of the file; stands in error messages, and gives the spec its name.

        Raises
        ------
        SpecError
            With every fault found.
        """
        spec = validate(cls, parse_toml(text, name), name)
        spec._name, spec._text = PurePath(name).stem, text
        # Unlike a private attribute it has no part in equality: where a spec was read from
        # is no difference between two.
        spec.__dict__["source"] = name
        spec._check_given()
        return spec

    def _check_given(self) -> None:
        """Refuse what a spec that is stored may hold, but none that is given."""


_KINDS = {
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "object": "table",
    "string": "text",
}
_ENDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "not empty",
    "maxLength": "at most {} characters",
}


class Key(NamedTuple):
    """A key of a spec's file."""

    block: str  # as the file names it: "", [design], or [[estimators]] of a list of blocks
    name: str
    allowed: str  # kind and limits of its value
    default: str  # "required", or the value where it is left out; "" where that is none
    meaning: str


def keys_of(kind: type[Block]) -> list[Key]:
    """Return the keys of a kind of spec from its schema and docstrings, those of no block first."""
    schema = kind.model_json_schema()
    blocks = {
        name: found for name, f in kind.model_fields.items() if (found := _branches(f.annotation))
    }
    keys = [_key("", name, schema, kind) for name in kind.model_fields if name not in blocks]
    for block, (owner, *_) in blocks.items():
        listed = schema["properties"][block].get("type") == "array"
        title = f"[[{block}]]" if listed else f"[{block}]"
        inner = {
            name: _branches(f.annotation)[0]
            for name, f in owner.model_fields.items()
            if NoneType in get_args(f.annotation) and len(_branches(f.annotation)) == 1
        }  # tables that may be left out
        tables = {title: owner, **{f"[{block}.{name}]": table for name, table in inner.items()}}
        for place, table in tables.items():
            content = schema["$defs"][table.__name__]
            names = [
                name for name in content["properties"] if table is not owner or name not in inner
            ]
            keys += [_key(place, name, content, table) for name in names]
    return keys


def reference_text(kind: type[Block], width: int = 100) -> Iterator[str]:
    """Yield the lines of a reference for a terminal, block by block."""
    wrapper = textwrap.TextWrapper(
        max(width, 40),
        initial_indent="      ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for block, keys in groupby(keys_of(kind), key=lambda key: key.block):
        yield from ["", block or "(above all blocks)"]
        for key in keys:
            needed = key.default if key.default in ("", "required") else f"default {key.default}"
            yield f"  {key.name}: {key.allowed}{f'; {needed}' if needed else ''}"
            yield from wrapper.wrap(key.meaning.replace("``", ""))


def keys_page(kind: type[Block], title: str, about: str) -> str:
    """Return the keys of a spec's file as a page of Markdown, a table for each block."""
    parts = [f"# {title}", about]
    for block, keys in groupby(keys_of(kind), key=lambda key: key.block):
        rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
        for key in keys:
            cells = [f"`{key.name}`", key.allowed, key.default, key.meaning.replace("``", "`")]
            rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        parts += [f"## `{block}`" if block else "## Above all blocks", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _key(block: str, name: str, content: Mapping[str, Any], owner: type[Block]) -> Key:
    schema = content["properties"][name]
    needed = name in content.get("required", ())
    default = "required" if needed else _value(schema.get("default"))
    meaning = schema.get("description") or _meanings(owner).get(name, "")
    return Key(block, name, _allowed(schema), default, " ".join(meaning.split()))


def _allowed(schema: Mapping[str, Any]) -> str:
    """Say in words what a schema allows."""
    if "anyOf" in schema:
        parts = [_allowed(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", or ".join(dict.fromkeys(parts))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(_value(value) for value in values)
    if schema.get("type") == "array":
        return f"list of {_allowed(schema['items'])}s" if "items" in schema else "list"
    inner = schema.get("additionalProperties")
    if isinstance(inner, Mapping):
        return f"table of name = {_allowed(inner)}"
    ends = [text.format(_limit_text(schema[end])) for end, text in _ENDS.items() if end in schema]
    return ", ".join([_KINDS.get(schema.get("type", ""), "value"), *ends])


def _value(value: Any) -> str:
    """Return a default as a file would have it; empty for none."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _meanings(kind: type[Block]) -> dict[str, str]:
    """Return what the docstring of a public spec states of each of its attributes."""
    text = inspect.cleandoc(kind.__doc__ or "")
    _, _, section = text.partition("Attributes\n----------\n")
    found = {}
    for entry in re.split(r"\n(?=\S)", section.strip("\n")):
        head, _, body = entry.partition("\n")
        for name in head.partition(" :")[0].split(","):
            found[name.strip()] = body
    return found
