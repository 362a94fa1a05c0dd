"""Whole specs: what every file of a spec has, whatever it is a spec of."""

from functools import cached_property
from pathlib import PurePath
from typing import Self

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
        return spec
