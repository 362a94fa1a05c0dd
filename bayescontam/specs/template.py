"""Texts that are put together of a record's fields: ``"{question}\\n{answer}"``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Slot:
    """Where the text of a field stands."""

    name: str
    optional: bool = False  # whether a record may lack the field, or have nothing in it


@dataclass(frozen=True)
class Template:
    """A field, or literal text with fields in it.

    >>> template = Template.parse("{{{title}}}: {body}{note?}")
    >>> [(slot.name, slot.optional) for slot in template.slots]
    [('title', False), ('body', False), ('note', True)]
    >>> template.fill({"title": "One", "body": "A {b}", "note": ""})
    '{One}: A {b}'
    >>> Template.parse("meta.site").slots
    (Slot(name='meta.site', optional=False),)
    """

    parts: tuple[str | Slot, ...]
    is_field: bool = False  # whether it is the name of a field, and nothing else

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Return what is written: a name of a field, or a template if there are braces."""
        if "{" not in text and "}" not in text:
            return cls((Slot(text),), is_field=True)
        parts: list[str | Slot] = []
        at = 0
        for token in _TOKEN.finditer(text):
            parts.append(text[at : token.start()])
            parts.append(_part(token))
            at = token.end()
        parts.append(text[at:])
        found = cls(tuple(part for part in parts if part))
        if not found.slots:
            raise ValueError("names no field: write {field} where the text of a field stands")
        return found

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Places of fields, in their order."""
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, each once."""
        return tuple(dict.fromkeys(slot.name for slot in self.slots))

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the text with those of the fields in it."""
        return "".join(part if isinstance(part, str) else texts[part.name] for part in self.parts)


def _part(token: re.Match[str]) -> str | Slot:
    word = token[0]
    if word in ("{{", "}}"):
        return word[0]
    if word in ("{", "}"):
        raise ValueError(
            f"'{word}' stands alone at character {token.start() + 1}: a field is written {{field}},"
            " and braces themselves {{ and }}"
        )
    name = token[1].removesuffix("?")
    if not name:
        raise ValueError(
            f"'{word}' names no field: write {{field}}, or {{field?}} for one that may be missing"
        )
    return Slot(name, optional=token[1].endswith("?"))
