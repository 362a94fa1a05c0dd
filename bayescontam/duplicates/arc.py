"""Tasks of ARC: pairs of coloured grids, and the rule that leads from one to the other.

The same task in other colours, turned or mirrored, is solved by the same idea: what ARC solvers
train on as augmentation is a semantic duplicate (Chollet 2019, arXiv:1911.01547).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescontam._types import IntArray
from bayescontam.data.importers.arc import COLOURS, SIDE
from bayescontam.duplicates.items import DuplicateError

TURNS = 8
"""Ways to turn and mirror a square."""
STEPS = ("recolour", "turn", "reorder")
_UNCHANGED = "it is its item, unchanged"
_DRAWS = 200  # of colours; less than one in eight leaves a task with any colour as it is


@dataclass(frozen=True, eq=False)
class Task:
    """Training pairs, and test pairs: each an input and an output, dims (row, column)."""

    train: tuple[tuple[IntArray, IntArray], ...]
    test: tuple[tuple[IntArray, IntArray], ...]

    @property
    def text(self) -> str:
        """The task as language models read it: digits, a row a line."""
        parts = []
        for at, (given, wanted) in enumerate(self.train, 1):
            parts.append(f"Pair {at}, input:\n{_digits(given)}")
            parts.append(f"Pair {at}, output:\n{_digits(wanted)}")
        parts += [f"Test input:\n{_digits(given)}" for given, _ in self.test]
        return "\n\n".join(parts)

    @property
    def answer(self) -> list[list[list[int]]]:
        """Outputs of the test pairs."""
        return [wanted.tolist() for _, wanted in self.test]

    def as_json(self) -> dict[str, Any]:
        """Return the task as ARC's files hold it."""
        return {
            name: [{"input": a.tolist(), "output": b.tolist()} for a, b in pairs]
            for name, pairs in (("train", self.train), ("test", self.test))
        }

    def mapped(self, turn: int, colours: IntArray) -> "Task":
        """Return the task turned, with other colours, dims (colour,)."""
        return Task(
            *(
                tuple((_turned(colours[a], turn), _turned(colours[b], turn)) for a, b in pairs)
                for pairs in (self.train, self.test)
            )
        )


def read_task(record: Mapping[str, Any]) -> Task:
    """Read a task with its ``train`` and ``test`` pairs, as in ARC's files."""
    return Task(*(tuple(_pairs(record.get(name), name)) for name in ("train", "test")))


def recolour(task: Task, rng: np.random.Generator) -> Task:
    """Return a task with other colours, one to one; 0, as a rule the background, stays."""
    orders = (rng.permutation(np.arange(1, COLOURS)) for _ in range(_DRAWS))
    made = (task.mapped(0, np.concatenate([[0], order])) for order in orders)
    # Colours that do what a turn does are avoided: the next step could undo them.
    turns = {_content(task.mapped(way, np.arange(COLOURS))) for way in range(TURNS)}
    return _first_changed(task, made, turns)


def turn(task: Task, rng: np.random.Generator) -> Task:
    """Return a task turned or mirrored, all its grids alike."""
    ways = 1 + rng.permutation(TURNS - 1)
    made = (task.mapped(int(way), np.arange(COLOURS)) for way in ways)
    return _first_changed(task, made, {_content(task)})


def reorder(task: Task, rng: np.random.Generator) -> Task:
    """Return a task with its training pairs in another order."""
    if len(task.train) < 2:
        raise DuplicateError("it has no training pairs to reorder")
    places = np.arange(len(task.train))
    # Where a draw leaves it as it is, moving all on by one changes it, unless all pairs are equal.
    orders = (rng.permutation(places), np.roll(places, 1))
    made = (replace(task, train=tuple(task.train[int(at)] for at in order)) for order in orders)
    return _first_changed(task, made, set())


def _first_changed(task: Task, made: Iterator[Task], avoided: Collection[tuple[str, ...]]) -> Task:
    """Return the first that is not avoided, else the first with another text than the task."""
    changed = None
    for new in made:
        if new.text == task.text:
            continue
        if _content(new) not in avoided:
            return new
        changed = changed or new
    if changed is None:
        raise DuplicateError(_UNCHANGED)
    return changed


def _content(task: Task) -> tuple[str, ...]:
    """Return what a task shows, whatever the order of its training pairs."""
    train = sorted(f"{_digits(a)}\n\n{_digits(b)}" for a, b in task.train)
    return *train, *(_digits(given) for given, _ in task.test)


def check_duplicate(parent: Task, child: Task, *, steps: Collection[str] = STEPS) -> None:
    """Raise a DuplicateError unless a task is another, changed by no other steps than these.

    Parameters
    ----------
    parent, child : Task
        The item, and what is said to be its duplicate.
    steps : collection of {"recolour", "turn", "reorder"}, default all
        What may have been done. Without ``recolour`` every colour stays; with it, 0 does.
    """
    if child.text == parent.text:
        raise DuplicateError(_UNCHANGED)
    for way in range(TURNS if "turn" in steps else 1):
        turned = parent.mapped(way, np.arange(COLOURS))
        if _joins(turned, child, "recolour" in steps, "reorder" in steps):
            return
    allowed = {"turn": "turn", "recolour": "change of colours", "reorder": "other order"}
    named = " and ".join(f"no {what}" for step, what in allowed.items() if step in steps)
    raise DuplicateError(f"{named or 'nothing'} leads from its item to it")


def _joins(one: Task, other: Task, recoloured: bool, reordered: bool) -> bool:
    """Return whether other colours, or another order, lead from one task to another."""
    if len(one.test) != len(other.test) or len(one.train) != len(other.train):
        return False
    colours = {colour: colour for colour in range(1 if recoloured else COLOURS)}
    tests, pairs = (
        [*zip(one.test, other.test, strict=True)],
        [*zip(one.train, other.train, strict=True)],
    )
    if not reordered:
        return _extend([], [], tests + pairs, colours)
    # Each training pair is looked for among those that are left.
    return _extend([*one.train], [*other.train], tests, colours)


def _extend(
    left: list[tuple[IntArray, IntArray]],
    right: list[tuple[IntArray, IntArray]],
    fixed: Sequence[tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]],
    colours: Mapping[int, int],
) -> bool:
    """Return whether what is left of both can be joined under the colours known so far."""
    if fixed:
        (ours, theirs), *rest = fixed
        known = _joined(ours, theirs, colours)
        return known is not None and _extend(left, right, rest, known)
    if not left or not right:
        return not left and not right
    for at, theirs in enumerate(right):
        known = _joined(left[0], theirs, colours)
        if known is not None and _extend(left[1:], right[:at] + right[at + 1 :], (), known):
            return True
    return False


def _joined(
    ours: tuple[IntArray, IntArray],
    theirs: tuple[IntArray, IntArray],
    colours: Mapping[int, int],
) -> dict[int, int] | None:
    """Return the colours with those of two pairs, or None where they do not fit."""
    known = dict(colours)
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return None
        for old, new in {*zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)}:
            if known.setdefault(old, new) != new:
                return None
    return known if len({*known.values()}) == len(known) else None


def _turned(grid: IntArray, way: int) -> IntArray:
    return np.rot90(grid.T if way >= TURNS // 2 else grid, way % (TURNS // 2))


def _digits(grid: IntArray) -> str:
    return "\n".join(" ".join(map(str, row)) for row in grid.tolist())


def _pairs(value: Any, name: str) -> Iterator[tuple[IntArray, IntArray]]:
    if not isinstance(value, list) or not value:
        raise DuplicateError(f"it has no list of pairs {name!r}")
    for pair in value:
        if not isinstance(pair, Mapping) or not {"input", "output"} <= {*pair}:
            raise DuplicateError(f"a pair of {name!r} has no input and output")
        yield _grid(pair["input"]), _grid(pair["output"])


def _grid(value: Any) -> IntArray:
    """Read a grid: rows of equal length, of whole numbers from 0 to 9."""
    try:
        grid = np.array(value)
    except ValueError as error:
        raise DuplicateError("a grid has rows of different lengths") from error
    sizes = grid.ndim == 2 and min(grid.shape) >= 1 and max(grid.shape) <= SIDE
    if not sizes or not np.issubdtype(grid.dtype, np.integer):
        raise DuplicateError("a grid has no rows of numbers, or more than 30 rows or columns")
    if grid.min() < 0 or grid.max() >= COLOURS:
        raise DuplicateError("a grid has a colour that is not one of 0 to 9")
    return grid
