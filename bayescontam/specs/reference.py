"""The keys of a spec's file: what is allowed, the default and the meaning."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayescontam.specs.base import Block

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
_ABOUT = (
    "A study is a TOML file. `bayescontam study show NAME --toml > mine.toml` copies one that"
    " ships, `bayescontam study run mine.toml --out DIR` runs it. Unknown keys are refused."
    " `bayescontam study keys` prints this page in the terminal."
)


@dataclass(frozen=True)
class Key:
    """A key of a spec's file."""

    block: str  # as the file names it: "", [design], or [[estimators]] of a list of blocks
    name: str
    allowed: str  # kind and limits of its value
    default: str  # "required", or the value where it is left out; "" where that is none
    meaning: str


def keys_of(kind: type[Block]) -> list[Key]:
    """Return the keys of a kind of spec, from its schema and its documentation.

    Each block comes after the keys that stand above all blocks.

    >>> from bayescontam.specs.study import Gates
    >>> keys_of(Gates)[0]
    Key(block='', name='rhat', allowed='number, above 1', default='1.03', \
meaning='Largest R-hat allowed of any quantity.')
    """
    schema = kind.model_json_schema()
    blocks = {"": (schema, kind)}
    plain: list[str] = []
    for name, field in kind.model_fields.items():
        found = _block_of(field.annotation)
        if found is None:
            plain.append(name)
        else:
            listed = schema["properties"][name].get("type") == "array"
            title = f"[[{name}]]" if listed else f"[{name}]"
            blocks[title] = schema["$defs"][found.__name__], found
    result = []
    for title, (content, owner) in blocks.items():
        meanings = _meanings(owner)
        names = plain if title == "" else list(content["properties"])
        result += [_key(title, name, content, meanings) for name in names]
    return result


def reference_text(kind: type[Block], width: int = 100) -> Iterator[str]:
    """Yield the lines of a reference for a terminal, block by block."""
    import textwrap

    block = None
    for key in keys_of(kind):
        if key.block != block:
            block = key.block
            yield from ["", block or "(above all blocks)"]
        default = f"; default {key.default}" if key.default not in ("", "required") else ""
        needed = "; required" if key.default == "required" else ""
        yield f"  {key.name}: {key.allowed}{default}{needed}"
        yield from textwrap.wrap(
            key.meaning.replace("``", ""),
            max(width, 40),
            initial_indent="      ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def study_keys_page() -> str:
    """Return the keys of a study's file as a page of Markdown, a table for each block."""
    from bayescontam.specs.study import StudySpec

    parts, block = ["# Keys of a study's file", _ABOUT], None
    rows: list[str] = []
    for key in keys_of(StudySpec):
        if key.block != block:
            block = key.block
            parts.append(f"## `{block}`" if block else "## Above all blocks")
            rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
            parts.append("")
        cells = [f"`{key.name}`", key.allowed, key.default, key.meaning.replace("``", "`")]
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        parts[-1] = "\n".join(rows)
    return "\n\n".join(parts) + "\n"


def _block_of(annotation: Any) -> type[Block] | None:
    """Return the block that a key holds, or a list of which it holds."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(part) and issubclass(part, Block):
            return part
    return None


def _key(block: str, name: str, content: Mapping[str, Any], meanings: Mapping[str, str]) -> Key:
    schema = content["properties"][name]
    needed = name in content.get("required", ())
    default = "required" if needed else _value(schema.get("default"))
    return Key(block, name, _allowed(schema), default, meanings.get(name, ""))


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
    ends = [text.format(_number(schema[end])) for end, text in _ENDS.items() if end in schema]
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


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _meanings(kind: type[Block]) -> dict[str, str]:
    """Return what the documentation of a class states of each of its attributes."""
    text = inspect.cleandoc(kind.__doc__ or "")
    _, _, section = text.partition("Attributes\n----------\n")
    found = {}
    for entry in re.split(r"\n(?=\S)", section.strip("\n")):
        head, _, body = entry.partition("\n")
        for name in head.partition(" :")[0].split(","):
            found[name.strip()] = " ".join(body.split())
    return found
