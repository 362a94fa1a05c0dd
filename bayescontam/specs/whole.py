"""Whole specs: what every file of a spec has, whatever it is a spec of."""

from pathlib import PurePath

from pydantic import PrivateAttr

from bayescontam.specs.base import Block, content_hash, parse_toml, validate


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

    @property
    def hash(self) -> str:
        """SHA-256 of the meaning: layout, comments and the file's name do not count."""
        return content_hash(self)


def parse_whole[SpecT: WholeSpec](kind: type[SpecT], text: str, name: str) -> SpecT:
    """Return the spec of this kind that is written in `text`.

    Parameters
    ----------
    kind : type
        Subclass of `WholeSpec`.
    text : str
        TOML.
    name : str
        Its name; also stands in error messages.

    Returns
    -------
    WholeSpec
        Of this kind.

    Raises
    ------
    SpecError
        With every fault found.
    """
    spec = validate(kind, parse_toml(text, name), name)
    spec._name = PurePath(name).stem
    spec._text = text
    return spec
