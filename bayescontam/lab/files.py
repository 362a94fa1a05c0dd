"""Texts and items of a lab from files, checked against each other."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bayescontam._files import sha256
from bayescontam._text import join_list, printable
from bayescontam.duplicates.items import Parent
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.background import Drawn, ItemFinder, Wanted, draw_documents
from bayescontam.lab.benchmarks import (
    Benchmark,
    Row,
    Traces,
    read_rows,
    read_traces,
    refuse_shared,
)
from bayescontam.lab.near import NEAR, nearest_texts, pool_size
from bayescontam.lab.sources import LabItem, check_answers, halves, seen_items
from bayescontam.scan.sources import expanded
from bayescontam.specs.corpus import Embedding
from bayescontam.specs.lab import Files, LabSpec, Mix

PATHS = ("background", "benchmark", "duplicates", "controls", "traces", "near")
"""Keys that name files, and may be given in place of the spec's."""
type Given = Mapping[str, str | os.PathLike[str] | None]


@dataclass(frozen=True)
class Paths:
    """Files of a lab by their keys; empty where there is none."""

    places: Mapping[str, str]
    folder: Path  # where the background's path starts

    @classmethod
    def of(
        cls, spec: LabSpec, files: Files, given: Given, needed: Sequence[str] = PATHS
    ) -> "Paths":
        """Return the files of some keys: those that are given, else those of the spec."""
        base = Path(spec.source).parent
        own = {name: str(getattr(files, name)) for name in needed if given.get(name) is None}
        named = {name: os.fspath(path) for name, path in given.items() if path is not None}
        lacking = [name for name, path in own.items() if path[:1] == "<" and path[-1:] == ">"]
        if lacking:
            options = ", ".join(f"--{name} {own[name]}" for name in lacking)
            problem = "names no files of its own; give them"
            raise UsageError(f"spec '{printable(spec.name, 60)}': {problem}: {options}")
        places = named | {
            name: str(expanded(base, path)) if path and name != "background" else path
            for name, path in own.items()
        }
        for name, path in places.items():
            if path and name != "background" and not Path(path).exists():
                where = "" if name in named else "; paths start from the folder of the lab's file"
                raise UsageError(f"files.{name}: there is no {printable(path)}{where}")
        return cls(places, Path() if "background" in named else base)

    def __getitem__(self, name: str) -> str:
        return self.places[name]

    def hashes(self) -> dict[str, dict[str, str]]:
        """Return the hash of each file but the background."""
        found = {}
        for name, path in self.places.items():
            if path and name != "background":
                files = sorted(Path(path).rglob("*.json")) if Path(path).is_dir() else [Path(path)]
                content = b"\0".join(file.read_bytes() for file in files)
                found[name] = {"sha256": sha256(content)}
        return found


class FileSource:
    """Texts and items from files."""

    def __init__(
        self, spec: LabSpec, files: Files, paths: Paths, *, progress: bool = False
    ) -> None:
        self.paths = paths
        self._spec, self.notes = spec, list[str]()
        read = partial(Benchmark.read, files=files, notes=self.notes, progress=progress)
        self._own = read(paths["benchmark"], recipe_path(spec, files.recipe))
        controls = None
        if paths["controls"]:
            recipe = recipe_path(spec, files.controls_recipe or files.recipe)
            controls = read(paths["controls"], recipe, control=True)
            refuse_shared(self._own, controls)
        self.items: Sequence[LabItem] = self._place(controls)
        seen = {item.name for item in seen_items(self.items)}
        self._seen = [parent for parent in self._own.parents if parent.name in seen]
        read_own = partial(read_rows, own=self._own, notes=self.notes)
        made = read_own(paths["duplicates"]) if paths["duplicates"] else []
        self._traces: Traces = {}
        if paths["traces"]:
            self._traces = read_traces(paths["traces"], self._own, made, self.notes)
        near = read_own(paths["near"], near=True) if paths["near"] else []
        copies = max((mix.copies for mix in spec.mixes if mix.kind == NEAR), default=0)
        finder = ItemFinder(self._wordings(controls, made))
        drawn = self._draw(files, finder, 0 if near else copies * len(seen), progress)
        self._background, self.notes = drawn.texts, [*self.notes, *drawn.notes]
        self._exact = [[self._planted(parent)] for parent in self._seen]
        for mix in spec.mixes:
            if mix.kind == "exact":
                self._note_lacking(mix.name, [(parent.name, "") for parent in self._seen])
        self._semantic = {
            mix.name: self._of_mix(mix, made) for mix in spec.mixes if mix.kind == "semantic"
        }
        self._near: list[list[str]] = []
        if copies and near:
            _refuse_found(paths["near"], near, finder)
            used = self._in_turn(NEAR, paths["near"], near, copies)
            self._near = [[row["text"] for row in own] for own in used]
        elif copies:
            questions, embedding = (
                [*map(self._own.question, self._seen)],
                Embedding(model=files.embedder),
            )
            self._near = nearest_texts(questions, drawn.pool, copies, embedding)
        background = {"documents": drawn.documents, "sha256": drawn.sha256}
        self.record: Mapping[str, Any] = {"files": {"background": background, **paths.hashes()}}

    def clean(self, base: int, which: int) -> list[str]:
        """Return the texts of one of a base's clean mixes."""
        texts = self._spec.texts
        return self._background[base][which * texts : (which + 1) * texts]

    def pretraining(self, base: int) -> list[str]:
        """Return the texts of a base's pretraining, which no clean mix of it has."""
        count, drawn = _pretraining(self._spec), self._background[base]
        return drawn[len(drawn) - count :]

    def duplicate(self, mix: Mix, at: int, copy: int) -> str:
        """Return a duplicate of an exposed item, or a text near it: all there are, in turn."""
        texts = {"exact": self._exact, NEAR: self._near}
        own = (texts[mix.kind] if mix.kind in texts else self._semantic[mix.name])[at]
        return own[copy % len(own)]

    def _place(self, controls: Benchmark | None) -> list[LabItem]:
        """Return all items with their halves."""
        tested = self._spec.answers.grade == "tests"
        parents = self._own.parents
        placed = zip(parents, halves(self._spec, len(parents)), strict=True)
        items = [self._own.item(parent, half, tested=tested) for parent, half in placed]
        self._check_answers(items, self._own)
        if controls:
            more = [controls.item(each, "control", tested=tested) for each in controls.parents]
            self._check_answers(more, controls)
            items += more
        return items

    def _check_answers(self, items: Sequence[LabItem], benchmark: Benchmark) -> None:
        """Refuse answers that are graded wrong; where there are traces, these have their form."""
        answers = self._spec.answers
        if answers.grade != "regex" or not self.paths["traces"]:
            check_answers(items, answers, benchmark.path)

    def _draw(self, files: Files, finder: ItemFinder, near: int, progress: bool) -> Drawn:
        """Return the background of each base, and the pool of near texts."""
        spec = self._spec
        clean = sum(mix.kind == "clean" for mix in spec.mixes)
        count = spec.texts * clean + _pretraining(spec)
        wanted = Wanted(spec.training.bases, count, near, pool_size(near) if near else 0)
        return draw_documents(
            self.paths["background"], self.paths.folder, files.text, spec.seed, wanted, finder,
            progress=progress,
        )  # fmt: skip

    def _planted(self, parent: Parent, row: Row | None = None) -> str:
        """Return an item, or a duplicate of it, as the training texts have it."""
        trace = self._traces.get((parent.name, str(row["duplicate"]) if row else ""), "")
        return self._own.planted(parent, row, trace)

    def _note_lacking(self, mix: str, held: Sequence[tuple[str, str]]) -> None:
        """Note what a mix holds, by item and duplicate, that has no trace though others have."""
        lacking = [duplicate or item for item, duplicate in held
                   if (item, duplicate) not in self._traces]  # fmt: skip
        if self._traces and lacking:
            self.notes.append(
                f"mix '{mix}': {len(lacking):,} of {len(held):,} texts have no trace, and stand"
                f" there with their own answers: {join_list(lacking, 3)}"
            )

    def _of_mix(self, mix: Mix, made: Sequence[Row]) -> list[list[str]]:
        """Return the duplicates of each exposed item of some levels, one level after the other."""
        levels = dict.fromkeys(str(row["level"]) for row in made)
        if unknown := [level for level in mix.levels if level not in levels]:
            raise UsageError(
                f"mixes: '{mix.name}' has levels {join_list(unknown)}; there are"
                f" {join_list(levels)}"
            )
        wanted = [*(mix.levels or levels)]
        counts: Counter[tuple[str, str]] = Counter()
        ordered = []
        for row in made:
            if row["level"] in wanted:
                counts[key := (row["item"], row["level"])] += 1
                ordered.append((counts[key], wanted.index(row["level"]), row))
        rows = [row for *_, row in sorted(ordered, key=lambda entry: entry[:2])]
        used = self._in_turn(mix.name, self.paths["duplicates"], rows, mix.copies)
        held = [(row["item"], str(row["duplicate"])) for own in used for row in own]
        self._note_lacking(mix.name, held)
        pairs = zip(self._seen, used, strict=True)
        return [[self._planted(parent, row) for row in own] for parent, own in pairs]

    def _in_turn(self, mix: str, path: str, rows: Sequence[Row], copies: int) -> list[list[Row]]:
        """Return the rows of each exposed item, at least one and at most as many as its copies."""
        by_item: dict[str, list[Row]] = {parent.name: [] for parent in self._seen}
        for row in rows:
            if row["item"] in by_item:
                by_item[row["item"]].append(row)
        if lacking := [name for name, own in by_item.items() if not own]:
            problem = f"mix '{mix}' exposes {join_list(lacking)}, of which there is no text here"
            advice = "Make more, or expose the first items of the benchmark: halves = 'first'."
            raise DataError([Fault(path, problem)], advice)
        if few := [name for name, own in by_item.items() if len(own) < copies]:
            self.notes.append(
                f"mix '{mix}': {len(few):,} of {len(by_item):,} exposed items have fewer than"
                f" {copies:,} texts, which stand there repeatedly: {join_list(few, 3)}"
            )
        return [own[:copies] for own in by_item.values()]

    def _wordings(self, controls: Benchmark | None, made: Sequence[Row]) -> dict[str, str]:
        """Return what no document may hold, by what messages call it."""
        found = {
            f"item '{printable(parent.name, 60)}' of {benchmark.name}": parent.version.text
            for benchmark in (self._own, controls)
            if benchmark
            for parent in benchmark.parents
        }
        return found | {
            f"duplicate '{printable(row['duplicate'], 60)}'": row["text"] for row in made
        }


def recipe_path(spec: LabSpec, name: str) -> str:
    """Return the name of a recipe that ships, or the path of another."""
    is_path = name.endswith(".toml") or os.sep in name
    return str(expanded(Path(spec.source).parent, name)) if is_path else name


def _pretraining(spec: LabSpec) -> int:
    """Return the number of texts of a base's pretraining."""
    return spec.pretraining.texts if spec.pretraining else 0


def _refuse_found(path: str, rows: Sequence[Row], finder: ItemFinder) -> None:
    """Refuse near texts that hold items or duplicates."""
    faults = [
        Fault(path, f"has the text of {', '.join(found[:3])}", at, "text")
        for at, row in enumerate(rows, 1)
        if (found := finder.find(row["text"]))
    ]
    if faults:
        raise DataError(faults, "A near text is no duplicate: take these out.")
