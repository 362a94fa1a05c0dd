"""Where the texts and items of a lab come from: the small world of arithmetic, or files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab import arithmetic
from bayescontam.lab.grading import grade_replies
from bayescontam.lab.near import nearest_texts, pool_size
from bayescontam.specs.corpus import Embedding
from bayescontam.specs.lab import Answers, Arithmetic, LabSpec, Mix

Half = Literal["seen", "unseen", "control"]
"""Items with duplicates in some mix, others of the benchmark, and those of the controls."""


@dataclass(frozen=True, eq=False)
class LabItem:
    """An item with its place in the design."""

    benchmark: str
    name: str
    text: str  # the question, up to its answer
    answer: str
    half: Half
    between: str = " "  # what stands between question and answer in the training texts
    more: Mapping[str, Any] = field(default_factory=dict)  # further fields of its row


class Source(Protocol):
    """What a lab is made of."""

    @property
    def items(self) -> Sequence[LabItem]:
        """Items of the benchmark, then those of the controls."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What of files is stored: their hashes and counts; empty without files."""

    @property
    def notes(self) -> Sequence[str]:
        """What else is worth knowing."""

    def clean(self, base: int, which: int) -> list[str]:
        """Return the texts of one of a base's clean mixes, which are about no item."""

    def pretraining(self, base: int) -> list[str]:
        """Return the texts that a base is trained on before all mixes; none without pretraining."""

    def duplicate(self, mix: Mix, at: int, copy: int) -> str:
        """Return what a mix has of the exposed item number `at`, for one of its copies."""


def halves(spec: LabSpec, count: int) -> list[Half]:
    """Return which of so many items of the benchmark are exposed."""
    try:
        exposed = spec.count_exposed(count)
    except ValueError as error:
        raise UsageError(f"{spec.source}: {error}") from error
    order = range(count)
    if spec.halves == "random":
        order = stream(spec.seed, "lab exposed").permutation(count).tolist()
    seen = {*order[:exposed]}
    return ["seen" if at in seen else "unseen" for at in range(count)]


def seen_items(items: Sequence[LabItem]) -> list[LabItem]:
    """Return the items that have duplicates in some mix, in the order of their numbers."""
    return [item for item in items if item.half == "seen"]


def check_answers(items: Sequence[LabItem], answers: Answers, file: str) -> None:
    """Refuse items that cannot be graded, or whose own answers are graded wrong."""
    if answers.grade == "exact":
        return  # an answer is itself
    names = [f"item '{printable(item.name, 60)}'" for item in items]
    graded = [{"answer": item.answer, **item.more} for item in items]
    try:
        right = grade_replies([[item.answer] for item in items], graded, answers).right
    except DataError as error:
        faults = [
            Fault(file, f"{names[fault.row - 1]}: {fault.problem}" if fault.row else fault.problem)
            for fault in error.faults
        ]
        raise DataError(faults, error.advice) from error
    problem = f"answers.grade = '{answers.grade}' takes its own answer for wrong: "
    faults = [
        Fault(file, f"{name}: {problem}'{printable(item.answer, 60)}'")
        for name, item, count in zip(names, items, right, strict=True)
        if not count
    ]
    if faults:
        advice = "Give answers the form that is right (files.answer), or change grade or pattern."
        raise DataError(faults, advice)


class MadeSource:
    """Texts and items of the small world of arithmetic."""

    record: Mapping[str, Any] = {}
    notes: Sequence[str] = ()

    def __init__(self, spec: LabSpec, world: Arithmetic) -> None:
        self._spec, self._world = spec, world
        own = arithmetic.items(world.items, stream(spec.seed, "lab items"))
        control = arithmetic.control(world.controls, stream(spec.seed, "lab controls"))
        placed = [
            *zip(own, halves(spec, world.items), strict=True),
            *((row, "control") for row in control),
        ]
        self.items: Sequence[LabItem] = [
            LabItem(
                arithmetic.BENCHMARKS[row["problem"]["kind"]], row["id"], row["text"],
                row["answer"], half,
            )
            for row, half in placed
        ]  # fmt: skip
        check_answers(self.items, spec.answers, spec.source)
        problems = [arithmetic.problem_of(row) for row, _ in placed]
        self._keys = {problem.key for problem in problems}
        self._seen = [
            p for p, item in zip(problems, self.items, strict=True) if item.half == "seen"
        ]

    def clean(self, base: int, which: int) -> list[str]:
        """Return the texts of one of a base's clean mixes, drawn anew for each."""
        seed = self._spec.seed
        if which:
            return self._draw(self._spec.texts, stream(seed, "lab background", base, which))
        return self._draw(self._spec.texts, stream(seed, "lab background", base))

    def pretraining(self, base: int) -> list[str]:
        """Return the texts of a base's pretraining, drawn anew."""
        count = self._spec.pretraining.texts if self._spec.pretraining else 0
        return self._draw(count, stream(self._spec.seed, "lab pretraining", base))

    def duplicate(self, mix: Mix, at: int, copy: int) -> str:
        """Return a duplicate of an exposed item, or a text near it."""
        if mix.kind == "near":
            return self._near[at][copy]
        if mix.kind == "exact":
            return arithmetic.own_form(self._seen[at])
        # Items begin with different wordings, and go through all of them.
        return arithmetic.paraphrase(self._seen[at], (at + copy) % arithmetic.PARAPHRASES)

    @cached_property
    def _near(self) -> list[list[str]]:
        """Texts of a background of its own that are most like each exposed item."""
        copies = max(mix.copies for mix in self._spec.mixes if mix.kind == "near")
        size = pool_size(len(self._seen) * copies)
        pool = self._draw(size, stream(self._spec.seed, "lab near"))
        questions = [item.text for item in seen_items(self.items)]
        return nearest_texts(questions, pool, copies, Embedding(model="hashing"))

    def _draw(self, count: int, rng: Any) -> list[str]:
        world = self._world
        shares = (world.own_share, world.question_share, world.control_share)
        return arithmetic.background(count, rng, self._keys, *shares)
