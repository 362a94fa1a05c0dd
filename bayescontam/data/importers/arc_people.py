"""Attempts of people at ARC tasks, with rules of exclusion, to responses."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.importers.arc import ArcTasks, concept_of, grid_problem, load_tasks
from bayescontam.data.importers.arc_predictions import GUESSES, PIPED, outcome_of, unpiped
from bayescontam.data.importers.base import MARK, Paths
from bayescontam.data.importers.exclusion import (
    ExclusionRules,
    accuracy_by_rule,
    count_excluded,
)
from bayescontam.data.importers.logs import Imported, Importing, LogOptions
from bayescontam.data.tables import read_table
from bayescontam.data.validation import (
    YES_OR_NO,
    FaultList,
    check_choice,
    need_columns,
    read_labels,
    read_names,
    read_numbers,
    validate_unique,
)
from bayescontam.errors import DataError, Fault, UsageError

type ByPeople = Literal["people", "item"]  # what a row of the responses is
type Minimal = Literal["leave-out", "count"]  # what becomes of responses to minimal tasks
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
_KNOWN = (
    "participant", "item", "task", "test", "attempt", "correct", "grid", "minimal", "training",
    "concept", "explanation", "nonsense",
)  # fmt: skip
_OF_ITEM = ("task", "concept", "minimal", "training")
_KEYS = ["participant", "item"]
_TEST = r"-\d+$"  # of an item that is a test input of a task


@dataclass(frozen=True, eq=False)
class ImportedPeople(Imported):
    """Responses of people, and what each rule of exclusion removes and changes.

    Attributes
    ----------
    responses, read, left_out, runs, notes
        As of `Imported`.
    rules : pandas.DataFrame
        A row for each rule, in the order in which they apply: ``rule``, how many ``participants``
        and ``responses`` it removes alone, and ``further_participants`` and
        ``further_responses``, which it removes after the rules before it.
    by_rule : pandas.DataFrame
        Accuracies under no rule ("none"), under each rule alone, and under all of them ("all"):
        ``rule``, ``concept`` ("" for all items), numbers of ``participants``, ``responses`` and
        ``items``, ``accuracy`` (mean over items of the share of participants who solved it),
        ``low`` and ``high`` (95 % interval over participants; NaN where nothing varies), and
        ``change`` from the accuracy under no rule.
    """

    rules: pd.DataFrame = field(default_factory=pd.DataFrame)
    by_rule: pd.DataFrame = field(default_factory=pd.DataFrame)


def import_arc_people(
    paths: Paths,
    *,
    tasks: ArcTasks | str | os.PathLike[str] | None = None,
    benchmark: str = "arc",
    model: str = "humans",
    guesses: int = GUESSES,
    by: ByPeople = "people",
    minimal: Minimal = "leave-out",
    exclude_minimal: int = 2,
    exclude_explanations: int = 0,
    at_least: int = 0,
    **options: Unpack[LogOptions],
) -> ImportedPeople:
    """Score attempts of people at ARC tasks, exclude participants by rules, and make responses.

    A participant solves an item if one of the first `guesses` attempts is right. Training tasks do
    not count at all; minimal tasks, which check attention, count for the rules, and for the
    responses only with ``minimal="count"``.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Tables (CSV, TSV, JSON Lines, Parquet) with a row for each attempt, or folders that hold
        them. Columns: ``participant``; ``item``, or ``task`` and ``test`` (from 0), which give
        the item ``TASK-TEST``; ``attempt`` (from 1), where there are several; and ``correct`` (0
        or 1), or ``grid`` (as ``[[0, 1], [2, 3]]`` or ``|01|23|``), which is held against the
        solution in `tasks`. They may have ``concept``, ``minimal`` and ``training`` (0 or 1) of
        the item, ``explanation``, and ``nonsense`` (1 where raters found the explanation
        nonsensical; that is a judgement which is not made here).
    tasks : ArcTasks, str or path-like, optional
        Tasks with solutions; see `load_tasks`. Where the table has no ``concept`` or ``minimal``,
        folder and name of a task give them, as in ConceptARC. Default: the table has all.
    benchmark : str, default "arc"
    model : str, default "humans"
        Name of the people as a model.
    guesses : int, default 3
        Attempts that count, from the first on. A minimal task is failed if no attempt at all is
        right, so that the same people are excluded whatever this is.
    by : {"people", "item"}, default "people"
        Whether a row of the responses is one participant's response to an item (with the column
        ``participant``, which fits take for levels within the model), or all of an item:
        ``n_correct`` of ``n_trials`` participants.
    minimal : {"leave-out", "count"}, default "leave-out"
        Whether minimal tasks are left out of the responses, as published, or count.
    exclude_minimal : int, default 2
        Fewest minimal tasks failed that exclude a participant, as published; 0 for no such rule.
    exclude_explanations : int, default 0
        Fewest explanations that exclude a participant, of those marked in the column
        ``nonsense``, or blank although the item was solved. 0 for no such rule. The study
        excluded people for them, and does not state how many were needed.
    at_least : int, default 0
        Fewest items answered, of those that count for the responses, of a participant who is
        included; 0 for no such rule.
    **options
        See `LogOptions`; there are no columns to keep.

    Returns
    -------
    ImportedPeople
        With columns ``participant``, ``attempts`` (up to the one that is right) and ``outcome``
        (of the first attempt, where grids are given and none is right) by people; ``task``,
        ``concept`` and ``minimal`` where they are known.

    Raises
    ------
    UsageError, DataError
        If files or tasks are missing, an option cannot be used, rows cannot be read, or nobody is
        left.

    References
    ----------
    https://arxiv.org/abs/2305.07141, sections 5.1 to 5.3

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "participant,item,attempt,correct\\nann,t1,1,0\\nann,t1,2,1\\nbob,t1,1,1\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "attempts.csv")
    ...     _ = file.write_text(text)
    ...     found = import_arc_people(file, exclude_minimal=0)
    ...     one = import_arc_people(file, exclude_minimal=0, guesses=1, by="item")
    >>> found.frame[["participant", "n_correct", "attempts"]].to_numpy().tolist()
    [['ann', 1, 2], ['bob', 1, 1]]
    >>> one.frame[["item", "n_correct", "n_trials"]].to_numpy().tolist()
    [['t1', 1, 2]]
    """
    check_choice("by", by, ByPeople)
    check_choice("minimal", minimal, Minimal)
    if isinstance(guesses, bool) or not isinstance(guesses, int) or guesses < 1:
        raise UsageError(f"guesses={guesses}: allowed is a whole number from 1 on")
    rules = ExclusionRules(exclude_explanations, exclude_minimal, at_least)
    importing = Importing(paths, options)
    if importing.extra.paths:
        raise UsageError("--keep: attempts of people have no columns to keep")
    known = load_tasks(tasks) if tasks is not None and not isinstance(tasks, ArcTasks) else tasks
    files = importing.files(
        lambda folder: (
            f for f in folder.rglob("*") if f.suffix.lower() in _ENDINGS and f.is_file()
        ),
        f"holds no table of attempts ({', '.join(_ENDINGS)}); check the folder",
    )
    read = [_read(file, known) for file in importing.each(files)]
    attempts = pd.concat(read, ignore_index=True)
    _check_files(attempts)
    notes = _check_rules(rules, attempts)
    training = attempts["training"] == 1
    importing.left_out.add(benchmark, "attempts at training tasks", int(training.sum()))
    if training.all():
        raise DataError([Fault(importing.source, "holds attempts at training tasks only")])
    scored = _scored(attempts[~training], guesses)
    counted = scored[scored["minimal"] == 0] if minimal == "leave-out" else scored
    people = _people(scored, counted)
    removed, gone = count_excluded(rules, people)
    left = counted[~counted["participant"].isin(people.index[gone])]
    if left.empty:
        raise DataError(
            [Fault(importing.source, f"no response is left of {len(people):,} participants")],
            "\n".join(_sentences(removed, people) or ["All responses are to minimal tasks."]),
        )
    for _, rule in removed.iterrows():
        reason = f"responses of participants with {rule['rule']}"
        importing.left_out.add(benchmark, reason, int(rule["further_responses"]))
    importing.left_out.add(benchmark, "responses to minimal tasks", len(scored) - len(counted))
    notes = [*_sentences(removed, people), *notes, *_unable(rules, people)]
    trials = _trials(left, by).assign(benchmark=benchmark, model=model, run=model)
    chosen = {benchmark: f"{guesses} guesses" if guesses > 1 else "one guess"}
    found = importing.table(trials, chosen, notes)
    by_rule = accuracy_by_rule(rules, people, counted)
    return ImportedPeople(**vars(found), rules=removed, by_rule=by_rule)


def _read(file: Path, tasks: ArcTasks | None) -> pd.DataFrame:
    """Return the attempts of one file in columns of their own, each validated."""
    table, source = read_table(file), str(file)
    faults = FaultList(source, np.arange(1, len(table) + 1))
    needed = {"participant": "the person who answered"}
    if "item" not in table:
        needed["task"] = "give 'item', or 'task' and 'test' (the number of the test input, from 0)"
        if "task" in table:
            needed["test"] = "the number of the test input, from 0; or give 'item'"
    if ("correct" in table) == ("grid" in table):
        if "grid" in table:
            faults.add("stands beside 'grid'; give one of the two", "correct")
        else:
            needed["correct"] = "0 or 1; or give 'grid' and the tasks (tasks, --tasks)"
    need_columns(table, needed, _KNOWN, faults)
    faults.raise_if_any()
    if "grid" in table and tasks is None:
        raise UsageError(
            f"{printable(source)}: has grids, which are held against the solutions; give the tasks"
            " (tasks, --tasks), or a column 'correct'"
        )
    found = pd.DataFrame({"participant": read_names(table, "participant", faults)})
    found["file"] = source
    if "item" in table:
        found["item"] = read_names(table, "item", faults)
    else:
        test = _whole(table["test"], "test", 0, faults)
        names = read_names(table, "task", faults)
        found["task"] = names
        found["item"] = names.astype(object) + "-" + pd.Series(test).map("{:.0f}".format)
    if "item" in table and "task" in table:
        found["task"] = read_names(table, "task", faults)
    for name in ("training", "minimal", "nonsense"):
        found[name] = _switch(table, name, faults) if name in table else 0
        found[f"has_{name}"] = name in table
    if "concept" in table:
        found["concept"] = read_names(table, "concept", faults, blank_ok=True)
    found["has_explanation"] = "explanation" in table
    found["explained"] = True
    if "explanation" in table:
        found["explained"] = (read_labels(table["explanation"]) != "").to_numpy()
    found["attempt"] = 1.0
    if "attempt" in table:
        found["attempt"] = _whole(table["attempt"], "attempt", 1, faults)
    advice = "give each attempt once, numbered from 1 in a column 'attempt'"
    validate_unique(found, [*_KEYS, "attempt"], faults, advice)
    faults.raise_if_any()
    if tasks is not None:
        found = _of_tasks(found, tasks, faults)
    if "task" not in found:
        found["task"] = ""
    if "concept" not in found:
        found["concept"] = ""
    _read_answers(found, table, tasks, faults)
    _check_attempts(found, faults)
    faults.raise_if_any()
    return found


def _whole(cells: pd.Series, column: str, least: int, faults: FaultList) -> FloatArray:
    values = read_numbers(cells)
    bad = ~((values >= least) & (np.floor(values) == values) & np.isfinite(values))
    faults.flag(bad, column, f"got {{}}, allowed is a whole number from {least} on", cells)
    return np.where(bad, np.nan, values)


def _switch(table: pd.DataFrame, column: str, faults: FaultList) -> FloatArray:
    values = read_numbers(table[column], words=True)
    blank = np.isnan(values)
    # Raters mark what is nonsense; of an item it must be known what it is.
    odd = ~np.isin(values, (0, 1)) & (~blank if column == "nonsense" else True)
    faults.flag(odd, column, f"got {{}}, allowed is {YES_OR_NO}", table[column])
    return np.where(blank, 0.0, values)


def _of_tasks(found: pd.DataFrame, tasks: ArcTasks, faults: FaultList) -> pd.DataFrame:
    """Return attempts with the task of each item, and what its folder and name state of it."""
    known = tasks.items.set_index("item")[["task", "folder"]]
    strange = ~found["item"].isin(known.index) & (found["training"] == 0)
    problem = "{} is no test input of these tasks (tasks, --tasks); they are like "
    faults.flag(strange.to_numpy(), "item", problem + join_list(known.index, 2), found["item"])
    faults.raise_if_any()
    task = found["item"].map(known["task"])
    folder = found["item"].map(known["folder"])
    stated = [
        concept_of(str(name), str(place)) if isinstance(name, str) else ("", False)
        for name, place in zip(task, folder, strict=True)
    ]
    if "task" in found:
        other = task.notna() & (task != found["task"])
        problem = "{} is not the task of its item by the tasks (tasks, --tasks)"
        faults.flag(other.to_numpy(), "task", problem, found["task"])
    found = found.assign(task=task.fillna(found.get("task", "")))
    if not found["has_minimal"].any():
        found = found.assign(minimal=[float(minimal) for _, minimal in stated], has_minimal=True)
    if "concept" not in found:
        found = found.assign(concept=[concept for concept, _ in stated])
    return found


def _read_answers(
    found: pd.DataFrame, table: pd.DataFrame, tasks: ArcTasks | None, faults: FaultList
) -> None:
    """Add ``correct``, and ``outcome`` where grids are given ("" elsewhere)."""
    found["outcome"] = ""
    if "correct" in table:
        correct = read_numbers(table["correct"], words=True)
        odd = ~np.isin(correct, (0, 1)) & (found["training"] == 0).to_numpy()
        faults.flag(odd, "correct", f"got {{}}, allowed is {YES_OR_NO}", table["correct"])
        found["correct"] = np.where(odd, 0, np.nan_to_num(correct, posinf=0.0))
        return
    assert tasks is not None
    outcomes, problems = [], []
    rows = zip(table["grid"], found["item"], found["task"], found["training"], strict=True)
    for cell, item, task, training in rows:
        if training:
            outcomes.append("")
            problems.append("")
            continue
        grid, problem = _grid(cell)
        problems.append(problem)
        pair = tasks.grids[task]["test"][int(item.rsplit("-", 1)[1])]
        if "output" not in pair:
            raise UsageError(f"tasks: '{printable(task, 60)}' has no solution ('output')")
        outcomes.append("" if problem else outcome_of(grid, pair)[0])
    for problem in dict.fromkeys(filter(None, problems)):
        bad = np.array([each == problem for each in problems])
        faults.flag(bad, "grid", f"got {{}}, which {problem}", table["grid"])
    found["outcome"] = outcomes
    found["correct"] = (found["outcome"] == "right").astype(float)


def _grid(cell: Any) -> tuple[Any, str]:
    """Return the grid of a cell, and what is wrong with it."""
    if isinstance(cell, str):
        text = cell.strip()
        try:
            cell = unpiped(text) if PIPED.fullmatch(text) else json.loads(text)
        except (ValueError, RecursionError):
            return None, "is no grid, such as [[0, 1], [2, 3]] or |01|23|"
    elif hasattr(cell, "tolist"):  # as Parquet has lists
        cell = [row.tolist() if hasattr(row, "tolist") else row for row in cell]
    return cell, grid_problem(cell)


def _check_attempts(found: pd.DataFrame, faults: FaultList) -> None:
    """Refuse attempts whose numbers have a gap."""
    last = found.groupby(_KEYS)["attempt"].transform("max")
    count = found.groupby(_KEYS)["attempt"].transform("size")
    gap = (last != count) & (found["attempt"] == last) & (found["training"] == 0)
    problem = "got {}, but not all attempts before it are there; give each one, numbered from 1 on"
    faults.flag(gap.to_numpy(), "attempt", problem, found["attempt"].map("{:.0f}".format))


def _check_files(attempts: pd.DataFrame) -> None:
    """Refuse items of which rows state different things, and attempts that two files have."""
    faults = []
    twice = attempts.duplicated([*_KEYS, "attempt"])
    for file, part in attempts[twice].groupby("file"):
        person, item = part[_KEYS].iloc[0]
        text = f"'{printable(person, 60)}' on {printable(item, 60)} stands in another file too"
        faults.append(Fault(str(file), f"{text} ({len(part):,} such attempts)"))
    for column in _OF_ITEM:
        values = attempts.groupby("item", sort=False)[column].nunique()
        if len(mixed := values[values > 1]):
            text = f"differs between rows of one item: {join_list(mixed.index, 3)}"
            first = str(attempts.loc[attempts["item"] == mixed.index[0], "file"].iloc[0])
            faults.append(Fault(first, text, column=column))
    if faults:
        raise DataError(faults, "Give each attempt once, and of an item the same in all rows.")


def _check_rules(rules: ExclusionRules, attempts: pd.DataFrame) -> list[str]:
    """Refuse a rule for which columns are missing; note one that cannot exclude anybody."""
    rated = attempts[["has_nonsense", "has_explanation"]].any().any()
    if rules.explanations and not rated:
        raise UsageError(
            "--exclude-explanations (exclude_explanations): needs a column 'explanation', or"
            " 'nonsense' with what raters found (0 or 1), and there is none"
        )
    if rated and not rules.explanations:
        return [
            "explanations excluded nobody: no rule for them was chosen (exclude_explanations,"
            " --exclude-explanations)"
        ]
    return []


def _unable(rules: ExclusionRules, people: pd.DataFrame) -> Iterator[str]:
    """Note how many participants saw too few minimal tasks to fail as many as exclude."""
    few = int((people["minimal"] < rules.minimal).sum())
    if few:
        count = f"all {few:,}" if few == len(people) else f"{few:,} of {len(people):,}"
        yield (
            f"{count} participants were given fewer than {rules.minimal} minimal tasks, so that the"
            " rule on these cannot exclude them"
        )


def _scored(attempts: pd.DataFrame, guesses: int) -> pd.DataFrame:
    """Return one row for each participant and item."""
    ordered = attempts.sort_values([*_KEYS, "attempt"], kind="stable")
    right = ordered["correct"] == 1
    ordered = ordered.assign(
        right_at=ordered["attempt"].where(right), within=ordered["attempt"] <= guesses,
    )  # fmt: skip
    grouped = ordered.groupby(_KEYS, sort=False)
    scored = grouped.agg(
        right_at=("right_at", "min"), made=("within", "sum"), nonsense=("nonsense", "max"),
        explained=("explained", "max"), has_explanation=("has_explanation", "max"),
        task=("task", "first"), concept=("concept", "first"), minimal=("minimal", "first"),
        outcome=("outcome", "first"), file=("file", "first"),
    ).reset_index()  # fmt: skip
    solved = scored["right_at"].notna()
    correct = scored["right_at"] <= guesses
    # People explain what they have solved, and nothing else.
    blank = scored["has_explanation"] & solved & ~scored["explained"]
    graded = scored["outcome"] != ""
    return scored.assign(
        correct=correct.astype(int),
        solved=solved,
        attempts=np.where(correct, scored["right_at"], scored["made"]).astype(int),
        outcome=np.where(graded & correct, "right", scored["outcome"]),
        inadequate=(blank | (scored["nonsense"] == 1)).astype(int),
        minimal=scored["minimal"].astype(int),
    )


def _people(scored: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each participant, indexed by name: what the rules are about."""
    grouped = scored.groupby("participant", sort=False)
    # Each test input of a minimal task is a chance to fail this task once.
    # An item without a task is TASK-TEST, as where tasks are given, or a task by itself.
    own = scored["item"].str.replace(_TEST, "", regex=True)
    name = scored["task"].where(scored["task"] != "", own)
    seen = scored.assign(name=name)[scored["minimal"] == 1]
    solved = seen.groupby(["participant", "name"])["solved"].all()
    failed = (~solved).groupby("participant").sum()
    people = pd.DataFrame(
        {
            "inadequate": grouped["inadequate"].sum(),
            "failed": failed, "minimal": solved.groupby("participant").size(),
            "items": counted.groupby("participant").size(),
        }
    )  # fmt: skip
    return people.fillna(0).astype(int)


def _sentences(removed: pd.DataFrame, people: pd.DataFrame) -> list[str]:
    """Return what each rule removes as sentences."""
    return [
        f"{row['rule']}: excludes {row['participants']:,} of {len(people):,} participants"
        f" ({row['responses']:,} responses) alone, {row['further_participants']:,}"
        f" ({row['further_responses']:,}) after the rules before it"
        for _, row in removed.iterrows()
    ]


def _trials(left: pd.DataFrame, by: ByPeople) -> pd.DataFrame:
    trials = left[["item", "correct", "file"]].assign(trial=left["participant"])
    # What is known of items; by people also of the response.
    own = ["task", "concept", "minimal"]
    if by == "people":
        trials["participant"] = left["participant"]
        own += ["attempts", "outcome"]
    for name in own:
        present: BoolArray = (left[name].astype(str) != "").to_numpy()
        if present.any():
            trials[MARK + name] = left[name].astype(object)
    return trials
