"""Kinds of items: how each is read, which steps there are, and how duplicates are checked."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from bayescontam._text import join_list, printable
from bayescontam.duplicates import arc, grid_texts, grids, musr, programs, stories
from bayescontam.duplicates.forms import labelled_options
from bayescontam.duplicates.items import DuplicateError, Version, planted_of
from bayescontam.duplicates.paraphrases import check_paraphrase, names_in
from bayescontam.errors import UsageError
from bayescontam.specs.recipe import Recipe

type Step = Callable[[Any, np.random.Generator], Any]
type Row = Mapping[str, Any]
"""A duplicate as it stands in a file."""

PARAPHRASE, SOLUTION, STORY = "paraphrase", "solution", "story"
"""Steps that a language model does."""


class Kind(ABC):
    """A kind of items."""

    steps: ClassVar[tuple[str, ...]]
    """In the order in which a chain has them; those of a language model come last."""
    plain: ClassVar[Mapping[str, Step]] = {}
    """Steps that need no model: what they make of a content."""
    written: ClassVar[frozenset[str]] = frozenset({PARAPHRASE})
    """Steps that need a language model."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.fields = recipe, recipe.fields

    @abstractmethod
    def read(self, record: Row) -> Version:
        """Return an item; a DuplicateError says why a record is none."""

    def apply(self, step: str, version: Version, rng: np.random.Generator) -> Version:
        """Return what a step without a model makes of a version."""
        return self.made(version, self.plain[step](version.content, rng))

    def made(self, version: Version, content: Any) -> Version:
        """Return a version with another content, and the text and answer that go with it."""
        return replace(version, content=content)

    @abstractmethod
    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes; a DuplicateError says which it does not."""

    def check_copy(self, row: Row, earlier: Sequence[Row]) -> None:
        """Raise a DuplicateError unless a row differs from earlier copies, as planted."""
        if planted_of(row) in map(planted_of, earlier):
            raise DuplicateError("it is the same as an earlier copy")

    def names(self, version: Version) -> list[str]:
        """Return what a paraphrase has to hold as it is."""
        return names_in(version.text)

    def text(self, record: Row) -> str:
        """Return a record's text, without reading what it says; nothing if there is none."""
        text = value_of(record, self.fields.text)
        return text if isinstance(text, str) else ""

    def chain(self, name: str) -> tuple[str, ...]:
        """Return the steps of a chain by its name."""
        steps = tuple(part.strip() for part in name.split("+"))
        if steps != tuple(step for step in self.steps if step in steps):
            raise UsageError(
                f"chain: got {printable(name, 60)!r}; allowed are steps joined by '+', each once"
                f" and in this order: {join_list(self.steps)}"
            )
        return steps

    def check_words(self, text: str, before: str, names: Sequence[str]) -> None:
        """Raise a DuplicateError unless a text is in other words than another, names apart."""
        check_paraphrase(text, before, names)
        self.check_other_words(text, before)

    def check_other_words(self, text: str, before: str) -> None:
        """Raise a DuplicateError if a text has the words of another, or nearly."""
        if _words(text) == _words(before):
            raise DuplicateError("its words are those of the text before")
        alike = self.recipe.writing.most_alike
        ours, theirs = _words(self.prose(text)), _words(self.prose(before))
        ratio = SequenceMatcher(None, ours, theirs, autojunk=False).ratio()
        if ratio >= alike and alike < 1:
            raise DuplicateError("its words are nearly those of the text before", f"{ratio:.2f}")

    def prose(self, text: str) -> str:
        """Return the part of a text whose words may change."""
        return text

    def _text(self, record: Row) -> str:
        text = value_of(record, self.fields.text)
        if not isinstance(text, str) or not text.strip():
            raise DuplicateError(
                f"it has no text in the field {self.fields.text!r}", f"fields {join_list(record)}"
            )
        return text

    def _answer(self, record: Row) -> Any:
        if self.fields.answer is None:
            return None
        answer = value_of(record, self.fields.answer)
        if answer is None:
            raise DuplicateError(
                f"it has no answer in the field {self.fields.answer!r}",
                f"fields {join_list(record)}",
            )
        return answer


class Texts(Kind):
    """Any items: a text, and an answer that no step changes."""

    steps = (PARAPHRASE,)

    def read(self, record: Row) -> Version:
        """Return an item."""
        answer = None if self.fields.answer is None else value_of(record, self.fields.answer)
        if self.recipe.text_mode != "input" and answer is None:
            answer = self._answer(record)  # it is to be planted
        return Version(self._text(record), answer)

    def names(self, version: Version) -> list[str]:
        """Return what any text has, and labelled options with their labels."""
        options = labelled_options(version.text)
        return [*dict.fromkeys([*super().names(version), *(each.line for each in options)])]

    def check_words(self, text: str, before: str, names: Sequence[str]) -> None:
        """Raise a DuplicateError unless words differ, and labels stand for the same options."""
        ours, theirs = (
            [(each.label, *each.text.split()) for each in labelled_options(part)]
            for part in (text, before)
        )
        if ours != theirs:
            raise DuplicateError("its labelled options are not those of its item, in their order")
        super().check_words(text, before, names)

    def prose(self, text: str) -> str:
        """Return a text without its labelled options, which stay as they are."""
        for each in labelled_options(text):
            text = text.replace(each.line, "", 1)
        return text

    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes."""
        self.check_words(str(row.get("text")), parent.text, self.names(parent))
        if row.get("answer") != parent.answer:
            raise DuplicateError("its answer is not that of its item")
        return "names", "other words"


class LogicGrids(Kind):
    """Logic grids, as in ZebraLogic."""

    steps = ("shuffle", "substitute", "reword", PARAPHRASE)
    plain: ClassVar[Mapping[str, Step]] = {
        "shuffle": grids.shuffle,
        "substitute": grids.substitute,
        "reword": grids.reword,
    }

    def read(self, record: Row) -> Version:
        """Return an item, solved."""
        text, answer = self._text(record), self._answer(record)
        grid = grid_texts.read_grid(text, _solution(answer))
        grids.refuse_unsolved(grid)
        return Version(text, answer, grid)

    def made(self, version: Version, content: Any) -> Version:
        """Return a grid with its text and solution."""
        return Version(content.text, content.solution, content)

    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes: by its own text, or by that before paraphrasing."""
        text, before = str(row.get("text")), str(row.get("before") or parent.text)
        paraphrased, solution = PARAPHRASE in steps, _solution(row.get("answer"))
        if {*steps} - {PARAPHRASE}:
            grid_texts.check_duplicate(
                parent.content, before if paraphrased else text, solution,
                substituted="substitute" in steps, reworded="reword" in steps,
            )  # fmt: skip
        elif solution != _solution(parent.answer) or before != parent.text:
            raise DuplicateError("its answer is not that of its item")
        if not paraphrased:
            return "unique solution", "clues", "values"
        grid = grid_texts.read_grid(before, solution)
        self.check_words(text, before, self.names(Version(before, solution, grid)))
        if grid_texts.check_paraphrased(grid, text):
            return "unique solution", "clues", "values", "other words"
        return "values", "clues as far as they can be read", "other words"

    def prose(self, text: str) -> str:
        """Return the clues: lists of values stay as they are."""
        return text.partition(grids.CLUES)[2] or text

    def names(self, version: Version) -> list[str]:
        """Return the values."""
        return [value for each in version.content.categories for value in each.values]


class Code(Kind):
    """Programming tasks with tests."""

    steps = ("rename", "reorder", SOLUTION, PARAPHRASE)
    plain: ClassVar[Mapping[str, Step]] = {
        "rename": lambda own, rng: replace(own, code=programs.rename(own.code, rng, own.names)),
        "reorder": lambda own, rng: replace(own, code=programs.reorder(own.code, rng)),
    }
    written = frozenset({SOLUTION, PARAPHRASE})

    def read(self, record: Row) -> Version:
        """Return an item whose own solution passes its tests."""
        text, answer = self._text(record), self._answer(record)
        tests, function, setup = (
            None if name is None else value_of(record, name)
            for name in (self.fields.tests, self.fields.function, self.fields.setup)
        )
        if not isinstance(answer, str) or not isinstance(tests, str | list):
            raise DuplicateError(
                "its solution is no text, or its tests are neither a text nor a list of them"
            )
        program = programs.read_program(
            answer, tests if isinstance(tests, str) else [*map(str, tests)],
            prompt=text if self.fields.begins else "", function=str(function or ""),
            setup="\n".join(map(str, setup)) if isinstance(setup, list) else str(setup or ""),
        )  # fmt: skip
        try:
            programs.check_tests(program)
        except DuplicateError as error:
            raise DuplicateError(
                f"its own solution is faulty: {error.reason}", error.detail
            ) from error
        return Version(text, answer, program)

    def made(self, version: Version, content: Any) -> Version:
        """Return a version with another program, which is whole: it begins as the text does."""
        more = {**version.more, **({"text_mode": "output"} if self.fields.begins else {})}
        return replace(version, answer=content.code, content=content, more=more)

    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes."""
        passed = []
        if PARAPHRASE in steps:
            self.check_words(str(row.get("text")), parent.text, self.names(parent))
            passed += ["names", "other words"]
            if self.fields.begins:  # the solution goes on with the text, also with this one
                programs.check_beginning(str(row.get("text")), parent.text)
                programs.check_tests(parent.content, str(row.get("text")) + str(parent.answer))
        elif row.get("text") != parent.text:
            raise DuplicateError("its text is not that of its item")
        if {*steps} == {PARAPHRASE}:
            if row.get("answer") != parent.answer:
                raise DuplicateError("its answer is not that of its item")
            return (*passed, *(["tests"] * self.fields.begins))
        code = str(row.get("answer"))
        if SOLUTION in steps:
            most = self.recipe.writing.most_similar
            programs.check_different(code, [parent.content.code], most=most)
            programs.check_commented(code)
            passed += ["other code", "comments"]
        else:
            programs.check_same_program(
                code, parent.content.code, renamed="rename" in steps, reordered="reorder" in steps
            )
            passed.append("same program")
        programs.check_tests(parent.content, code)
        return (*passed, "tests")

    def check_copy(self, row: Row, earlier: Sequence[Row]) -> None:
        """Raise a DuplicateError if a row is an earlier copy, or a solution too similar to one."""
        super().check_copy(row, earlier)
        if SOLUTION in str(row["level"]).split("+"):
            known = [str(each["answer"]) for each in earlier]
            most = self.recipe.writing.most_similar
            programs.check_different(str(row["answer"]), known, most=most)

    def prose(self, text: str) -> str:
        """Return the words of a beginning's docstring, without its examples."""
        if not self.fields.begins:
            return text
        lines = programs.last_docstring(text).splitlines()
        return "\n".join(takewhile(lambda line: not line.strip().startswith(">>>"), lines))

    def names(self, version: Version) -> list[str]:
        """Return the function's name, if the text has it, and what any text has."""
        own = [version.content.function] * (version.content.function in version.text)
        return [*dict.fromkeys([*own, *super().names(version)])]


class Stories(Kind):
    """Murder mysteries and team allocation from trees of facts, as in MuSR."""

    steps = ("level-0", "level-1", "level-2", STORY)
    written = frozenset({STORY})

    def read(self, record: Row) -> Version:
        """Return an item whose answer is that of its tree."""
        text = self._text(record)
        story = musr.read_story(record)
        return Version(text, story.choices[story.answer], story)

    def chain(self, name: str) -> tuple[str, ...]:
        """Return the steps of a chain by its name: a level, and who writes."""
        steps = super().chain(name)
        if sum(step != STORY for step in steps) != 1:
            raise UsageError(f"chain: got {printable(name, 60)!r}; allowed is one level of 0 to 2")
        return steps

    def apply(self, step: str, version: Version, rng: np.random.Generator) -> Version:
        """Return a new story, of the same tree or of one with other branches."""
        story = stories.mutate(version.content, int(step[-1]), rng)
        text = story.item_text(stories.narrate(story, rng))
        return Version(text, story.choices[story.answer], story, more={"tree": story.as_json()})

    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes."""
        level = next(int(step[-1]) for step in steps if step != STORY)
        child = stories.Story.from_json(row.get("tree") or {})
        stories.check_duplicate(
            parent.content, child, str(row.get("text")), level, verbatim=STORY not in steps
        )
        if row.get("answer") != child.choices[child.answer]:
            raise DuplicateError("its answer is not that of its tree")
        return "answer by the tree", "branches", "names", *(["facts"] * (STORY not in steps))


class ArcPairs(Kind):
    """Tasks of ARC."""

    steps = ("recolour", "turn", "reorder")
    plain: ClassVar[Mapping[str, Step]] = {
        "recolour": arc.recolour,
        "turn": arc.turn,
        "reorder": arc.reorder,
    }
    written = frozenset()

    def text(self, record: Row) -> str:
        """Return the pairs as digits; nothing if there are none."""
        try:
            return arc.read_task(record).text
        except DuplicateError:
            return ""

    def read(self, record: Row) -> Version:
        """Return an item: its pairs as digits."""
        task = arc.read_task(record)
        return Version(task.text, task.answer, task)

    def made(self, version: Version, content: Any) -> Version:
        """Return a task with its text and answer, and as ARC's files hold it."""
        return Version(content.text, content.answer, content, more={"task": content.as_json()})

    def check(self, parent: Version, steps: Collection[str], row: Row) -> tuple[str, ...]:
        """Return the checks that a row passes."""
        child = arc.read_task(row.get("task") or {})
        arc.check_duplicate(parent.content, child, steps=steps)
        if row.get("text") != child.text or row.get("answer") != child.answer:
            raise DuplicateError("its text or answer is not that of its task")
        return "turn and colours", "answer"


KINDS: Mapping[str, type[Kind]] = {
    "logic-grid": LogicGrids,
    "code": Code,
    "story": Stories,
    "arc": ArcPairs,
    "paraphrase": Texts,
}
"""By the names that recipes have."""


def value_of(record: Row, field: str) -> Any:
    """Return the value of a field, nested where it has dots; None where there is none."""
    if field in record:
        return record[field]
    value: Any = record
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _solution(value: Any) -> Mapping[str, Any]:
    """Return the solution of a grid, which may be JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise DuplicateError("its solution has no header and rows")
    return value


def kind_of(recipe: Recipe) -> Kind:
    """Return the kind of items that a recipe is for."""
    return KINDS[recipe.kind](recipe)
