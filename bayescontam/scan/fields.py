"""Which fields of a record are a document's name, stratum and text."""

from dataclasses import dataclass, field
from typing import Any, Self

from bayescontam._text import join_list, printable
from bayescontam.specs.corpus import Source

ABSENT = object()
"""What `look_up` gives where a record has no such field; a field may well hold None."""


class Unreadable(Exception):  # noqa: N818 (it also travels as a value)
    """A record that is no document; its text is the reason."""


@dataclass
class Fields:
    """Takes documents out of the records of one input."""

    path: str  # path of the input: names documents that have no name of their own
    text: tuple[str, ...]  # fields of the text
    # document, stratum: fields of name and stratum; None: the field `id` where there is one, and no
    # stratum
    document: str | None = None
    stratum: str | None = None
    # fields that the input has, or the first of its records that lacked one of the text
    there: list[str] = field(default_factory=list)
    lacking: bool = False  # whether any record lacked a field of the text

    @classmethod
    def of(cls, path: str, source: Source) -> Self:
        """Return the fields that a source of a manifest names."""
        text = (source.text,) if isinstance(source.text, str) else source.text
        return cls(path, text, source.document, source.stratum)

    @property
    def wanted(self) -> list[str]:
        """Names of all fields that are looked up."""
        return [*self.text, self.document or "id", *([self.stratum] if self.stratum else [])]

    def name_of(self, record: Any) -> str:
        """Return the name that a record has for its document, "" where it has none."""
        return _scalar(look_up(record, self.document or "id"))

    def stratum_of(self, record: Any) -> str:
        """Return the stratum of a record, "" where it has none."""
        return _scalar(look_up(record, self.stratum)) if self.stratum else ""

    def text_of(self, record: Any) -> str:
        """Return the text of a record: its fields, or messages, joined by a blank line."""
        if isinstance(record, Unreadable):
            raise record
        if not isinstance(record, dict):
            raise Unreadable("not an object")
        parts = [self._part(record, name) for name in self.text]
        text = parts[0] if len(parts) == 1 else _joined(parts)
        if not text or text.isspace():
            raise Unreadable("empty")
        return text

    def _part(self, record: dict[str, Any], name: str) -> str:
        value = look_up(record, name)
        if value is ABSENT:
            self.lacking = True
            self.there = self.there or [str(key) for key in record]
            raise Unreadable(f"no field '{printable(name)}'")
        try:
            text = plain_text(value)
        except RecursionError:
            text = None  # lists in lists, made to be too deep
        if text is None:
            raise Unreadable(f"field '{printable(name)}' is not text")
        return text

    def hint(self) -> str:
        """Return which fields there are, if a field of the text was missing, else ""."""
        if not self.lacking:
            return ""
        there = join_list(self.there, 30) or "none"
        return f'fields there: {there}; set text = "…" to the one that holds the text'


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
    if not isinstance(value, list):
        return None
    parts = [plain_text(one) for one in value]
    texts = [part for part in parts if part is not None]
    return _joined(texts) if len(texts) == len(parts) else None


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


def _joined(texts: list[str]) -> str:
    return "\n\n".join(text for text in texts if text and not text.isspace())


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None or value is ABSENT or isinstance(value, dict | list) else str(value)
