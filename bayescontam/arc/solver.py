"""A baseline for ARC tasks: search over short programs of operations on grids."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescontam._progress import progress_bar
from bayescontam.arc.operations import OPERATIONS, Cells
from bayescontam.data.importers.arc import ArcTasks, Grid, load_tasks
from bayescontam.errors import UsageError
from bayescontam.parallel import run_tasks

STEPS = 2
"""Most operations of a program, before colours are replaced."""
GUESSES = 3
MOST_CELLS = 3 * 900
"""Cells of a state's grids in all from which on no further operation is tried: larger ones took
most of the time and solved nothing."""


@dataclass(frozen=True)
class Program:
    """Operations by name, and the colours that are replaced at the end, if any are."""

    steps: tuple[str, ...]
    colours: tuple[int, ...] | None = None  # the new colour of each

    def __call__(self, grid: Cells) -> Cells | None:
        """Return what the program makes of a grid; None if it cannot be applied."""
        made: Cells | None = grid
        for name in self.steps:
            made = None if made is None else OPERATIONS[name](made)
            if made is None or not made.size:
                return None
        if self.colours is None or made is None:
            return made
        return np.array(self.colours, dtype=np.int8)[made]

    def __str__(self) -> str:
        names = [*self.steps] or ["leave as it is"]
        if self.colours is not None:
            changed = {k: c for k, c in enumerate(self.colours) if c != k}
            names.append("replace " + ", ".join(f"{k} by {c}" for k, c in changed.items()))
        return "; then ".join(names)


def solve_arc(
    tasks: ArcTasks | str | os.PathLike[str],
    *,
    guesses: int = GUESSES,
    jobs: int | None = None,
    progress: bool = False,
) -> dict[str, list[dict[str, Grid]]]:
    """Predict the outputs of ARC tasks by a search over small programs.

    A baseline without a network: all programs of up to two operations (turns and flips, crops,
    objects by size or form, gravity, symmetry, halves, repetition, enlargement), followed by a
    replacement of colours, that give the outputs of all demonstrations. In the spirit of the
    programs of the ARC-Kaggle competition that Moskvichev et al. (2023) compared with people,
    which had 142 and 50 operations and searched deeper.

    Parameters
    ----------
    tasks : ArcTasks, str or path-like
        Tasks, or where they are; see `load_tasks`. Solutions are not looked at.
    guesses : int, default 3
        Most attempts at a test input: different predictions of the programs that were found, the
        shortest first.
    jobs : int, optional
        Tasks at the same time. Default: as many as there are cores.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    dict
        A submission: for each task a list with one ``{"attempt_1": grid, …}`` for each test
        input, empty where no program was found. `import_arc_predictions` scores it.

    Raises
    ------
    UsageError, DataError
        If tasks or options cannot be used.

    References
    ----------
    https://arxiv.org/abs/2305.07141

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import bayescontam
    >>> pair = {"input": [[1, 1, 2]], "output": [[2, 1, 1]]}
    >>> task = {"train": [pair], "test": [{"input": [[3, 0, 0]]}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "turn.json").write_text(json.dumps(task))
    ...     bayescontam.solve_arc(folder, guesses=1, jobs=1)
    {'turn': [{'attempt_1': [[0, 0, 3]]}]}
    """
    if isinstance(guesses, bool) or not isinstance(guesses, int) or guesses < 1:
        raise UsageError(f"guesses={guesses}: allowed is a whole number from 1 on")
    known = tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks)
    found: dict[str, list[dict[str, Grid]]] = {}
    todo = {name: (content, guesses) for name, content in known.grids.items()}
    with (
        progress_bar(progress, "searching for programs", len(todo), "tasks") as advance,
        contextlib.closing(run_tasks(_worker, todo, jobs=jobs)) as results,
    ):
        for name, answer in results:
            found[name] = answer
            advance(1)
    return {name: found[name] for name in known.grids}


def _worker() -> Callable[[tuple[dict[str, Any], int]], list[dict[str, Grid]]]:
    return lambda task: _answers(*task)


def _answers(content: dict[str, Any], guesses: int) -> list[dict[str, Grid]]:
    """Return the attempts at each test input of a task."""
    tests = [pair["input"] for pair in content["test"]]
    programs = list(find_programs(content["train"], tests))
    answers = []
    for pair in content["test"]:
        grid, attempts = np.array(pair["input"], dtype=np.int8), list[Grid]()
        for program in programs:
            made = program(grid)
            if made is not None and (rows := made.tolist()) not in attempts:
                attempts.append(rows)
        numbered = enumerate(attempts[:guesses], start=1)
        answers.append({f"attempt_{number}": rows for number, rows in numbered})
    return answers


def find_programs(
    pairs: Sequence[dict[str, Grid]], others: Sequence[Grid] = (), steps: int = STEPS
) -> Iterator[Program]:
    """Find the programs that give the outputs of all pairs, the shortest first.

    Of those that make the same of all inputs, and of `others`, one is given.
    """
    inputs = [np.array(pair["input"], dtype=np.int8) for pair in pairs]
    outputs = [np.array(pair["output"], dtype=np.int8) for pair in pairs]
    start: list[Cells | None] = [*inputs, *(np.array(grid, dtype=np.int8) for grid in others)]
    states: list[tuple[tuple[str, ...], list[Cells | None]]] = [((), start)]
    seen = {_key(start)}
    for depth in range(steps + 1):
        for names, grids in states:
            own = [grid for grid in grids[: len(pairs)] if grid is not None]
            if (colours := replacement(own, outputs)) is not None:
                yield Program(names, None if colours == tuple(range(10)) else colours)
        if depth == steps:
            return
        following = []
        for names, grids in states:
            if sum(grid.size for grid in grids if grid is not None) > MOST_CELLS and names:
                continue
            for name, operation in OPERATIONS.items():
                made = _applied(operation, grids, len(pairs))
                if made is not None and (key := _key(made)) not in seen:
                    seen.add(key)
                    following.append(((*names, name), made))
        states = following


def _applied(
    operation: Callable[[Cells], Cells | None], grids: list[Cells | None], needed: int
) -> list[Cells | None] | None:
    """Return what an operation makes of grids, None for some; None if of a needed one."""
    made: list[Cells | None] = []
    for number, grid in enumerate(grids):
        result = None if grid is None else operation(grid)
        if result is None or not result.size:
            if number < needed:
                return None
            result = None
        made.append(result)
    return made


def _key(grids: list[Cells | None]) -> bytes:
    return b"".join(b"-" if grid is None else bytes(grid.shape) + grid.tobytes() for grid in grids)


def replacement(grids: list[Cells], outputs: list[Cells]) -> tuple[int, ...] | None:
    """Return the new colour of each by which grids become the outputs; None if there is none.

    Colours that no grid shows stay as they are.
    """
    if any(grid.shape != output.shape for grid, output in zip(grids, outputs, strict=True)):
        return None
    old = np.concatenate([grid.ravel() for grid in grids])
    new = np.concatenate([output.ravel() for output in outputs])
    shown = np.zeros((10, 10), dtype=bool)
    shown[old, new] = True
    if (shown.sum(axis=1) > 1).any():
        return None
    return tuple(int(row.argmax()) if row.any() else k for k, row in enumerate(shown))
