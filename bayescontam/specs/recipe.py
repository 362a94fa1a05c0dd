"""Recipes: how duplicates of a benchmark's items are made, and where its fields are."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from bayescontam.specs.base import Block, WholeSpec
from bayescontam.specs.corpus import Count, Text, TextMode, Texts

KindName = Literal["logic-grid", "code", "story", "arc", "paraphrase"]
Ratio = Annotated[float, Field(gt=0, le=1)]


class ItemFields(Block):
    """Fields of a benchmark's records; a dot goes into nested ones."""

    item: Text = "id"
    """Field that names the item; a record without it has its number as its name."""
    text: Text = "text"
    """Field with the question or task."""
    answer: Text | None = "answer"
    """Field with the answer: text, or anything that JSON holds. None: there is none."""
    tests: Text | None = None
    """Field with the tests of a program: Python, or a list of statements."""
    function: Text | None = None
    """Field with the name of the function that is tested; without it, it is found by the tests."""
    setup: Text | None = None
    """Field with Python that runs before the tests."""
    begins: bool = False
    """Whether the text is Python that the answer goes on with, as in HumanEval."""


class Writing(Block):
    """How a language model writes."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    """Temperature of its sampling."""
    max_tokens: Count = 1024
    """Longest reply, in tokens."""
    tries: Count = 3
    """Calls for a text before it is counted as a failure; later ones are shown what was wrong."""
    together: Count = 5
    """Paraphrases in one call, which have to differ from each other."""
    most_similar: Ratio = 0.85
    """Solutions with a ``difflib`` ratio from here on to the item's, or to an earlier one, are
    refused."""
    most_alike: Ratio = 0.9
    """Paraphrases that share as many of their words, in the same order, with the text before or
    with another paraphrase are refused (1: only those with the same words)."""
    judge: bool = True
    """Whether paraphrases are judged for equal meaning."""
    judge_prompt: Text = "general"
    """Prompt of that judge: one that ships with the package, or a text file."""
    prompts: dict[str, Text] = Field(default_factory=dict)
    """Text files in place of the package's prompts, by step."""


class Recipe(WholeSpec):
    """How duplicates of a benchmark's items are made.

    Attributes
    ----------
    summary : str
        One line that says what the recipe is for.
    description : str
        What it assumes, and where it comes from.
    kind : str
        What its items are: ``"logic-grid"``, ``"code"``, ``"story"``, ``"arc"``, or
        ``"paraphrase"`` (any text).
    chains : tuple of str
        Steps of each kind of duplicate, joined by ``+``, such as ``"shuffle+substitute"``.
    copies : int
        Duplicates of each item by each chain.
    items : int or None
        Items that the benchmark is known to have; another number is noted.
    first : int or None
        Only so many items, from the first; None: all.
    text_mode : str
        What of a duplicate is planted in a corpus: its text, its answer, or both.
    fields, writing : Block
        Where the records' fields are, and how a language model writes.
    """

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    kind: KindName
    chains: Texts
    copies: Count = 1
    items: Count | None = None
    first: Count | None = None
    text_mode: TextMode = "input"
    fields: ItemFields = ItemFields()
    writing: Writing = Writing()

    @model_validator(mode="after")
    def _tests_of_code(self) -> Self:
        if self.kind == "code" and self.fields.tests is None:
            raise ValueError("kind = 'code' needs fields.tests: programs are run against them")
        return self
