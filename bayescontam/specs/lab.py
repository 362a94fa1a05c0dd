"""Labs: which models are trained, and with which duplicates among their texts."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from bayescontam.specs.base import Block, WholeSpec
from bayescontam.specs.corpus import Count, Seed

MixKind = Literal["clean", "exact", "semantic"]
Share = Annotated[float, Field(ge=0, le=1)]


def _check_file_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            "a name of letters, digits, hyphens, dots and underscores is needed, which begins with"
            " a letter or digit"
        )
    return name


FileName = Annotated[
    str, StringConstraints(min_length=1, max_length=60), AfterValidator(_check_file_name)
]


class Mix(Block, use_attribute_docstrings=True):
    """A training set: the texts of the clean one, with duplicates in place of some."""

    name: FileName
    """Name of the mix, and of its files."""
    kind: MixKind
    """Duplicates: none, items with their answers as they are, or these in other words."""
    copies: Annotated[int, Field(ge=0)] = 0
    """Duplicates of each exposed item; 0 for the clean mix only."""

    @model_validator(mode="after")
    def _copies_of_kind(self) -> Self:
        if self.kind == "clean" and self.copies:
            raise ValueError(f"kind = 'clean' has no duplicates; got copies = {self.copies}, not 0")
        if self.kind != "clean" and not self.copies:
            raise ValueError(f"kind = '{self.kind}' needs copies = 1 or more")
        return self


class ModelShape(Block, use_attribute_docstrings=True):
    """Size of the transformers."""

    layers: Annotated[int, Field(ge=1, le=100)] = 2
    """Layers."""
    width: Annotated[int, Field(ge=1, le=16_384)] = 96
    """Length of a token's vector; a multiple of the number of heads."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Heads of attention in each layer."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width = {self.width} is no multiple of heads = {self.heads}; choose one"
            )
        return self


class Training(Block, use_attribute_docstrings=True):
    """How each model is trained."""

    epochs: Count = 10
    """Passes over the texts."""
    batch: Count = 128
    """Texts in each step."""
    rate: Annotated[float, Field(gt=0, le=1)] = 2e-3
    """Highest learning rate."""
    warmup: Annotated[int, Field(ge=0)] = 100
    """Steps in which the learning rate rises to its highest."""
    bases: Annotated[int, Field(ge=1, le=1000)] = 4
    """Training seeds: each mix is trained once for each, with background of its own."""


class LabSpec(WholeSpec):
    """Which models are trained, and with which duplicates among their texts.

    Attributes
    ----------
    summary : str
        One line that says what the lab is for.
    description : str
        What it assumes, and where it comes from.
    seed : int, default 0
        Seed of everything random.
    texts : int
        Texts in each training set.
    items, controls : int
        Items of the benchmark, and of the control benchmark, of which there are no duplicates.
    exposed : float, default 0.5
        Share of the items whose duplicates are among the texts, above 0 and below 1.
    own_share : float, default 0.02
        Share of the background that has a benchmark's own form, of problems that are no items.
    control_share : float, default 0.15
        Share of the background that teaches the skill of the control benchmark.
    mixes : list of blocks
        Training sets: one clean, the others with duplicates.
    model, training : Block
        Size of the transformers, and how they are trained.
    """

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    seed: Seed = 0
    texts: Annotated[int, Field(ge=1, le=10_000_000)]
    items: Annotated[int, Field(ge=2, le=10_000)]
    controls: Annotated[int, Field(ge=1, le=1000)]
    exposed: Annotated[float, Field(gt=0, lt=1)] = 0.5
    own_share: Share = 0.02
    control_share: Share = 0.15
    mixes: Annotated[tuple[Mix, ...], Field(strict=False, min_length=1)]
    model: ModelShape = ModelShape()
    training: Training = Training()

    @property
    def exposed_items(self) -> int:
        """Number of items whose duplicates are among the texts."""
        return round(self.exposed * self.items)

    @model_validator(mode="after")
    def _halves_hold_items(self) -> Self:
        if not 0 < self.exposed_items < self.items:
            raise ValueError(
                f"exposed = {self.exposed:g} of {self.items} items is {self.exposed_items};"
                " at least one item has to be exposed, and one not"
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        # Some file systems do not distinguish upper and lower case.
        names = [mix.name.lower() for mix in self.mixes]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"mixes: two have the name '{min(twice)}'; give each its own")
        return self

    @model_validator(mode="after")
    def _one_is_clean(self) -> Self:
        clean = [mix.name for mix in self.mixes if mix.kind == "clean"]
        if len(clean) != 1:
            found = " (" + ", ".join(clean) + ")" if clean else ""
            raise ValueError(
                f"mixes: {len(clean)} have kind = 'clean'{found}; exactly one is needed"
            )
        return self

    @model_validator(mode="after")
    def _duplicates_fit(self) -> Self:
        for mix in self.mixes:
            needed = self.exposed_items * mix.copies
            if needed > self.texts:
                raise ValueError(
                    f"mixes: '{mix.name}' has {needed:,} duplicates ({self.exposed_items:,} items"
                    f" × {mix.copies:,} copies) in {self.texts:,} texts; at most"
                    f" {self.texts // self.exposed_items:,} copies fit"
                )
        return self
