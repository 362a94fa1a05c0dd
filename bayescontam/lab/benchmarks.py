"""Benchmarks of a lab from files, and the rows of other files that are about their items."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from bayescontam._files import sha256
from bayescontam._text import join_list, printable
from bayescontam.data.jsonl import Damage, json_records, no_object
from bayescontam.duplicates.items import Parent, planted_text
from bayescontam.duplicates.kinds import Code, Kind, kind_of
from bayescontam.duplicates.make import read_duplicates, read_items
from bayescontam.duplicates.programs import Program
from bayescontam.duplicates.stories import Story
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.near import NEAR
from bayescontam.lab.sources import Half, LabItem
from bayescontam.scan.results import words
from bayescontam.specs.lab import Files
from bayescontam.specs.registry import load_recipe

type Row = dict[str, Any]
"""A row of a file, as JSON holds it."""
type Traces = dict[tuple[str, str], str]
"""Solutions by item and duplicate; those of items themselves have an empty one."""

_REPEATED = "another item has this name"
"""Why `read_items` does not read an item that has the name of an earlier one."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's items as they were read."""

    path: str
    name: str
    kind: Kind
    parents: Sequence[Parent]
    instruction: Template  # follows each question
    form: Template  # of answers

    @classmethod
    def read(
        cls,
        path: str,
        recipe: str,
        files: Files,
        notes: list[str],
        *,
        control: bool = False,
        progress: bool = False,
    ) -> "Benchmark":
        """Read a benchmark; what is no item is noted, and what could be in both halves refused."""
        file, kind = Path(path), kind_of(load_recipe(recipe))
        parents, failed = read_items(file, kind, progress=progress)
        name = file.name.partition(".json")[0] if ".json" in file.name else file.stem
        faults = [
            Fault(path, f"item '{printable(each.name, 60)}': another item has this name")
            for each in failed
            if each.reason == _REPEATED
        ]
        texts: dict[str, str] = {}
        for parent in parents:
            shown = f"item '{printable(parent.name, 60)}'"
            other = texts.setdefault(" ".join(words(parent.version.text)), parent.name)
            if other != parent.name:
                problem = f"has the text of item '{printable(other, 60)}'"
                faults.append(Fault(path, f"{shown}: {problem}"))
            if parent.version.answer is None:
                problem = f"has no answer, which recipe '{kind.recipe.name}' has to name"
                faults.append(Fault(path, f"{shown}: {problem}"))
        if faults:
            advice = "An item stands there once, with its answer; else it could be in both halves."
            raise DataError(faults, advice)
        if failed:
            reasons = join_list({each.reason for each in failed})
            notes.append(f"{name}: {len(failed):,} records are no items: {reasons}")
        given = files.controls_instruction if control else None
        instruction = Template(files.instruction if given is None else given)
        if instruction.get_identifiers() and not isinstance(kind, Code):
            problem = f"recipe '{printable(kind.recipe.name, 60)}' is for no programs"
            raise UsageError(f"files.instruction: names the function or tests, but {problem}")
        return cls(path, name, kind, parents, instruction, Template(files.answer))

    @property
    def between(self) -> str:
        """What stands between question and answer: nothing where the one begins the other."""
        return "" if self.kind.fields.begins else "\n"

    def item(self, parent: Parent, half: Half, *, tested: bool = False) -> LabItem:
        """Return an item of the lab."""
        more = self.program(parent) if tested else {}
        text, answer = self.question(parent), self.answer(parent)
        return LabItem(self.name, parent.name, text, answer, half, self.between, more)

    def question(self, parent: Parent, row: Row | None = None) -> str:
        """Return the question of an item, or of a duplicate of it: what precedes its answer."""
        text, content = parent.version.text, parent.version.content
        if row is not None:
            text = str(row["text"])
        elif isinstance(content, Story) and not text.endswith(ending := content.item_text("")):
            text += ending  # of MuSR, whose question and choices are fields of their own
        if not self.instruction.template or not self.between:
            return text
        known = {}
        if isinstance(content, Program):
            known = {"function": content.function, "tests": content.tests.strip()}
        return f"{text}\n\n{self.instruction.substitute(known)}"

    def answer(self, parent: Parent, row: Row | None = None) -> str:
        """Return the answer of an item, or of a duplicate of it, in its form."""
        own = None if row is None else row.get("answer")
        answer = planted_text("", parent.version.answer if own is None else own, "output")
        return self.form.substitute(answer=answer)

    def planted(self, parent: Parent, row: Row | None = None, trace: str = "") -> str:
        """Return an item, or a duplicate of it, with its answer or trace, as texts have it."""
        if trace:
            return f"{self.question(parent, row)}\n{trace}"
        if row is not None and row["text_mode"] == "output":
            return self.answer(parent, row)  # a program that begins as its task does is whole
        return f"{self.question(parent, row)}{self.between}{self.answer(parent, row)}"

    def program(self, parent: Parent) -> Row:
        """Return the fields by which a program is graded, named as a recipe that ships has them."""
        if not isinstance(self.kind, Code):
            raise UsageError(
                f"recipe '{printable(self.kind.recipe.name, 60)}': is for no programs, which"
                " answers.grade = 'tests' grades; name one for code"
            )
        program, version = parent.version.content, parent.version
        task = {"task_id": parent.name, "prompt": version.text}
        if self.kind.fields.begins:
            task |= {"canonical_solution": version.answer, "test": program.tests}
            return {"recipe": "humaneval", "record": task | {"entry_point": program.function}}
        return {
            "recipe": "mbpp",
            "record": task | {"code": version.answer, "test_list": program.tests},
        }


def read_rows(path: str, own: Benchmark, notes: list[str], *, near: bool = False) -> list[Row]:
    """Return duplicates that passed their checks, or near texts, all of this benchmark."""
    rows = read_duplicates(path)
    parents = {parent.name: parent for parent in own.parents}
    faults = []
    for at, row in enumerate(rows, 1):
        if (row.get("kind") == NEAR) is not near:
            problem = f"got '{printable(str(row.get('kind')), 40)}'; allowed is 'near'"
            problem = problem if near else "got 'near'; allowed are kinds of duplicates"
            faults.append(Fault(path, problem, at, "kind"))
        elif (parent := parents.get(row["item"])) is None:
            cause = f"got {{}}, which {Path(own.path).name} lacks"
            name = f"'{printable(row['item'], 60)}'"
            faults.append(Fault(path, cause.replace("{}", name), at, "item", cause, name))
        elif not near and row.get("parent_sha256") != sha256(parent.version.text.encode()):
            faults.append(Fault(path, "its item has another text now", at, "parent_sha256"))
    if faults:
        advice = f"{len(faults):,} of {len(rows):,} rows do not fit this benchmark."
        raise DataError(faults, advice)
    passed = [row for row in rows if row["checks"]]
    if len(passed) < len(rows):
        name = printable(Path(path).name, 60)
        notes.append(f"{name}: {len(rows) - len(passed):,} rows passed no check, left out")
    return passed


def solved_hash(own: Benchmark, parent: Parent, row: Row | None = None) -> str:
    """Return the hash of what a trace solves: question and answer of an item, or of a duplicate."""
    return sha256(f"{own.question(parent, row)}\0{own.answer(parent, row)}".encode())


def read_traces(path: str, own: Benchmark, made: Sequence[Row], notes: list[str]) -> Traces:
    """Return solutions by item and duplicate; those of items themselves have no duplicate.

    Each is of an item or of one of the duplicates `made`, as these are now where its row has
    their hash.
    """
    parents = {parent.name: parent for parent in own.parents}
    rows = {(str(row["item"]), str(row["duplicate"])): row for row in made}
    found: Traces = {}
    faults, spare = [], 0
    for at, row in enumerate(_objects(path), 1):
        item, text = row.get("item"), row.get("text")
        name, duplicate = key = (str(item), str(row.get("duplicate") or ""))
        if not isinstance(text, str) or not text.strip():
            faults.append(Fault(path, "is no text; a trace is one", at, "text"))
        elif name not in parents:
            problem = f"got '{printable(name, 60)}', which {Path(own.path).name} lacks"
            faults.append(Fault(path, problem, at, "item"))
        elif duplicate and not made:
            spare += 1
        elif duplicate and key not in rows:
            cause = "got {}, which is no duplicate of its item that this lab reads"
            shown = f"'{printable(duplicate, 60)}'"
            faults.append(Fault(path, cause.replace("{}", shown), at, "duplicate", cause, shown))
        elif row.get("solved_sha256", of := solved_hash(own, parents[name], rows.get(key))) != of:
            problem = "what it solves has another question or answer now"
            faults.append(Fault(path, problem, at, "solved_sha256"))
        elif found.setdefault(key, text) != text:
            faults.append(Fault(path, "has a trace in an earlier row", at, "item"))
    if faults or not (found or spare):
        advice = "Write them anew: bayescontam lab traces." if faults else ""
        raise DataError(faults or [Fault(path, "holds no trace")], advice)
    if spare:
        name = printable(Path(path).name, 60)
        notes.append(f"{name}: {spare:,} traces are of duplicates, which this lab does not read")
    return found


def refuse_shared(own: Benchmark, controls: Benchmark) -> None:
    """Refuse controls that are items of the benchmark, or that go by its name."""
    if own.name == controls.name:
        problem = f"is named '{printable(own.name, 60)}', as the benchmark is; rename one of them"
        raise DataError([Fault(controls.path, problem)])
    known = {" ".join(words(parent.version.text)): parent.name for parent in own.parents}
    faults = []
    for parent in controls.parents:
        if other := known.get(" ".join(words(parent.version.text))):
            problem = f"has the text of item '{printable(other, 60)}' of the benchmark"
            faults.append(Fault(controls.path, f"item '{printable(parent.name, 60)}': {problem}"))
    if faults:
        raise DataError(faults, "A control is an item that no mix holds: take these out.")


def _objects(path: str) -> Iterator[Row]:
    """Yield the objects of JSON Lines."""
    for place, _, value in json_records(path):
        if isinstance(value, Damage):
            raise DataError([Fault(path, f"{place}: {value.reason}; allowed is JSON Lines")])
        if not isinstance(value, dict):
            raise DataError([Fault(path, f"{place}: {no_object(value)}")])
        yield value
