"""Fields of a record: which text it has, by templates and from chat messages, and its name."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from bayescontam._text import join_list, printable
from bayescontam.specs.corpus import Source, Value, Values
from bayescontam.specs.template import Slot, Template

ABSENT = object()
"""What `look_up` gives where a record has no such field; a field may well hold None."""
_SHOWN = 30
"""Names of fields that a message lists."""
_VALUES = 8
"""Values of a field that a message lists."""
_ROLES = 100
"""Roles that are counted one by one."""


NUMBERED = "#"
"""Field of a name that no record needs to have: the number of the record is the name."""
NO_ROLE, OTHER_ROLES = "a message has no role", "no message of the roles that are scanned"
"""Reasons why chat messages are no document; the second is no fault."""


class Unreadable(Exception):  # noqa: N818 (it also travels as a value)
    """A record that is no document; its text is the reason."""


@dataclass
class Chat:
    """Puts chat messages into words."""

    message: Template | None  # of role and content; None: the content alone
    roles: Mapping[str, str] | None  # roles that are read, and what stands for them; None: all
    left_out: Counter[str] = field(default_factory=Counter)  # messages of other roles

    @classmethod
    def of(cls, source: Source) -> Self | None:
        """Return how a source of a manifest has its messages; None: by their contents."""
        if source.chat is None and source.roles is None:
            return None
        roles = source.roles
        names = {role: role for role in roles} if isinstance(roles, tuple) else roles
        return cls(Template.parse(source.chat) if source.chat else None, names)

    def text(self, value: Any) -> str | None:
        """Return the messages in a value, joined by a blank line; other text as it is.

        A message has a role and a content, as ``role`` and ``content``, or ``from`` and ``value``.
        """
        if isinstance(value, list):
            return _all_joined(self.text(one) for one in value)
        if isinstance(value, dict):
            for role, content in (("role", "content"), ("from", "value"), ("role", "text")):
                if content in value:
                    return self._message(value.get(role), value[content])
        text = plain_text(value)
        if self.roles is not None and text and not text.isspace():
            # Of text without a role it is not known whether it is to be read.
            raise Unreadable(NO_ROLE)
        return text

    def _message(self, role: Any, content: Any) -> str | None:
        if not isinstance(role, str):
            raise Unreadable(NO_ROLE)
        if self.roles is not None and role not in self.roles:
            known = role in self.left_out or len(self.left_out) < _ROLES
            self.left_out[printable(role, 60) if known else "…"] += 1
            return ""
        text = plain_text(content)
        if self.message is None or text is None or not text or text.isspace():
            return text
        shown = role if self.roles is None else self.roles[role]
        return self.message.fill({"role": shown, "content": text})


@dataclass
class Fields:
    """Takes documents out of the records of one input."""

    path: str  # path of the input: names documents that have no name of their own
    text: tuple[str, ...]  # fields of the text, or templates
    # document, stratum: fields of name and stratum; None: the field `id` where there is one, and no
    # stratum
    document: str | None = None
    stratum: str | None = None
    where: Mapping[str, Value | Values] = field(default_factory=dict)  # what fields must be
    chat: Chat | None = None
    # fields that the input has, or the first of its records that lacked one of those that matter
    there: list[str] = field(default_factory=list)
    lacking: bool = False  # whether any record lacked a field of the text
    found: set[str] = field(default_factory=set)  # those that some record has
    # by field of `where`: values of records that are left out, as messages show the first of them
    others: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, source: Source) -> Self:
        """Return the fields that a source of a manifest names."""
        text = (source.text,) if isinstance(source.text, str) else source.text
        chat = Chat.of(source)
        return cls(path, text, source.document, source.stratum, source.where, chat)

    @cached_property
    def templates(self) -> list[Template]:
        """What the text is put together of."""
        return [Template.parse(text) for text in self.text]

    @property
    def slots(self) -> list[Slot]:
        """Places of fields in the text."""
        return [slot for template in self.templates for slot in template.slots]

    @property
    def wanted(self) -> list[str]:
        """Names of all fields that are looked up."""
        of_text = [slot.name for slot in self.slots]
        names = [self.document or "id", *([self.stratum] if self.stratum else []), *of_text]
        return list(dict.fromkeys([*names, *self.where]))

    @property
    def hidden(self) -> set[str]:
        """Fields that a record may lack; if all do, the name is wrong."""
        return {*self.where, *(slot.name for slot in self.slots if slot.optional)}

    def name_of(self, record: Any) -> str:
        """Return the name that a record has for its document, "" where it has none."""
        return _scalar(look_up(record, self.document or "id"))

    def stratum_of(self, record: Any) -> str:
        """Return the stratum of a record, "" where it has none."""
        return _scalar(look_up(record, self.stratum)) if self.stratum else ""

    @property
    def missing(self) -> list[str]:
        """Those of the hidden fields that no record had so far."""
        return sorted(self.hidden - self.found)

    def leaves_out(self, record: Any) -> bool:
        """Return whether a record has other values than it must; what is no record has none."""
        if not isinstance(record, dict):
            return False
        others = {
            name: value
            for name, allowed in self.where.items()
            if not fits(value := self._value(record, name), allowed)
        }
        for name, value in others.items():
            shown = self.others.setdefault(name, [])
            if len(shown) < _VALUES and value is not ABSENT:
                text = printable(repr(value), 40)
                shown += [text] if text not in shown else []
        return bool(others)

    def text_of(self, record: Any) -> str:
        """Return the text of a record: its fields, or messages, joined by a blank line."""
        if isinstance(record, Unreadable):
            raise record
        if not isinstance(record, dict):
            raise Unreadable("not an object")
        before = self.chat.left_out.total() if self.chat else 0
        parts = [self._part(record, template) for template in self.templates]
        text = parts[0] if len(parts) == 1 else _joined(parts)
        if not text or text.isspace():
            if self.chat and self.chat.left_out.total() > before:
                raise Unreadable(OTHER_ROLES)
            raise Unreadable("empty")
        return text

    def _part(self, record: dict[str, Any], template: Template) -> str:
        if template.is_field:
            return self._text(record, template.slots[0], numbers=False)
        texts = {slot.name: self._text(record, slot, numbers=True) for slot in template.slots}
        blank = {name for name, text in texts.items() if not text or text.isspace()}
        if len(blank) == len(texts):
            return ""
        for slot in template.slots:
            if slot.name in blank and not slot.optional:
                raise Unreadable(f"field '{printable(slot.name)}' is empty")
        return template.fill(texts)

    def _text(self, record: dict[str, Any], slot: Slot, *, numbers: bool) -> str:
        value = self._value(record, slot.name)
        if value is ABSENT:
            if slot.optional:
                return ""
            self.lacking = True
            raise Unreadable(f"no field '{printable(slot.name)}'")
        try:
            text = value_text(value, self.chat, numbers=numbers)
        except RecursionError:
            text = None  # lists in lists, made to be too deep
        if text is None:
            raise Unreadable(f"field '{printable(slot.name)}' is not text")
        return text

    def _value(self, record: dict[str, Any], name: str) -> Any:
        value = look_up(record, name)
        if value is ABSENT:
            self.there = self.there or [str(key) for key in record]
        else:
            self.found.add(name)
        return value

    def hint(self) -> str:
        """Return which fields there are, if a field of the text was missing, else ""."""
        if self.lacking:
            there = join_list(self.there, _SHOWN) or "none"
            return f'fields there: {there}; set text = "…" to the one that holds the text'
        if self.chat and self.chat.left_out:
            there = join_list(self.chat.left_out, _SHOWN)
            return f"other roles there: {there}; roles names those that are scanned"
        return ""


def shown_values(others: Mapping[str, list[str]]) -> str:
    """Return in words which values of fields records have that are left out.

    >>> shown_values({"level": ["'easy'", "3"]})
    "values there: level: 'easy', 3"
    """
    parts = [f"{printable(name, 60)}: {', '.join(values)}" for name, values in others.items()]
    return f"values there: {'; '.join(parts)}"


def value_text(value: Any, chat: Chat | None, *, numbers: bool) -> str | None:
    """Return the text of a field's value; None if it is none. Numbers are text if they may be."""
    if numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if math.isfinite(value) else ""  # a number that is missing
    return plain_text(value) if chat is None else chat.text(value)


def look_up(record: Any, name: str) -> Any:
    """Return the value of a field, or `ABSENT`.

    >>> look_up({"meta": {"source": "web"}}, "meta.source")
    'web'
    >>> look_up({"turns": [{"value": "Hi"}, {"value": "Yes?"}]}, "turns.value")
    ['Hi', 'Yes?']
    """
    if isinstance(record, dict):
        if name in record:
            return record[name]
        head, _, rest = name.partition(".")
        return look_up(record[head], rest) if rest and head in record else ABSENT
    if isinstance(record, list):
        return [value for one in record if (value := look_up(one, name)) is not ABSENT] or ABSENT
    # What is nothing has nothing in it, as columns of nested values have it.
    return None if record is None else ABSENT


def plain_text(value: Any) -> str | None:
    """Return text, or the texts of chat messages joined by a blank line; None if it is neither.

    >>> plain_text([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}])
    'Hi\\n\\nYes?'
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, dict):
        return _message(value)
    return _all_joined(map(plain_text, value)) if isinstance(value, list) else None


def decoded(data: bytes) -> str:
    """Return UTF-8 `data` as text; Unreadable if it is something else."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None


def _message(value: dict[str, Any]) -> str | None:
    if "content" in value:
        return plain_text(value["content"])
    if "text" in value:
        return plain_text(value["text"])
    # A message without text, such as a call of a tool, or a part that is a picture or a sound.
    return "" if "role" in value or "type" in value else None


def _all_joined(parts: Iterator[str | None]) -> str | None:
    """Return texts joined by a blank line; None if one of them is none."""
    texts = list(parts)
    known = [text for text in texts if text is not None]
    return _joined(known) if len(known) == len(texts) else None


def _joined(texts: list[str]) -> str:
    return "\n\n".join(text for text in texts if text and not text.isspace())


def fits(value: Any, allowed: Value | Values) -> bool:
    """Return whether a value is one of those that a condition allows."""
    values = allowed if isinstance(allowed, tuple) else (allowed,)
    # For Python true is 1; for whoever wrote a manifest it is not.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None or value is ABSENT or isinstance(value, dict | list) else str(value)
