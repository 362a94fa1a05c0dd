"""Which run, item and trial a record belongs to, and which runs are copies.

These rules hold for all importers:

- A **run** is one evaluation of a model on a benchmark. It has the identity that the tool gives
  it (an id, a date), or its file, where a copy by its name is the original. Two files of one run
  are one run.
- An **item** is a name within a benchmark that stands for one text. A name that stands for
  another text in another log names no item.
- A **trial** is one answer to an item in a run, numbered where there are several. The same trial
  in two files counts once; with another answer or score it is a fault.
- Two runs of one model **copy** each other where they have the same answers on every item that
  both have: nothing was random, or one log was written twice. What they share counts once,
  whether one run is a part of the other or not.
"""

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from bayescontam._files import sha256
from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import MARK, LeftOut, Names, as_list
from bayescontam.data.validation import check_choice, format_value
from bayescontam.errors import DataError, Fault, UsageError

type Differing = Literal["error", "pool", "split"]
"""What becomes of runs of one model that differ in their settings."""

_DEFAULT = "default"
_COPY = re.compile(
    r"(?: \(\d+\)| (?:- )?copy(?: \(?\d+\)?)?| \((?:another )?copy(?: \d+)?\))+(?=\.[^ ]*$|$)", re.I
)

type Copies = Literal["leave-out", "count"]
"""What becomes of answers that a run shares with another one."""
type Texts = Literal["refuse", "note"]
"""What becomes of names of items that stand for several texts."""
KEYS = ["model", "benchmark", "item"]
REPEATED = "answers that occur again in the same run"
COPIED = "answers of a run that is there already"
_TRIAL = [*KEYS, "run", "trial"]
_MOST = 40  # notes of one kind that are written out
SUBTASK = "subtask"  # column with the name that a benchmark had before it became a part of a group


@dataclass(frozen=True)
class Run:
    """One evaluation of a model on a benchmark."""

    model: str
    benchmark: str
    file: str  # log file
    # settings that make it another model, or another test, if they differ: a revision, examples
    of_model: Mapping[str, str] = field(default_factory=dict)
    of_benchmark: Mapping[str, str] = field(default_factory=dict)
    id: str = ""  # what the tool identifies the run by, such as its date; default: the file
    # what may name the model where one name was given for all: several may be several models
    folder: str = ""

    @property
    def key(self) -> str:
        """What the tool identifies the run by, or its file without the mark of a copy."""
        folder, name = os.path.split(self.file)
        return self.id or os.path.join(folder, original_name(name))  # noqa: PTH118 (or an address)


def model_names(runs: Sequence[Run], differing: Differing) -> tuple[list[str], list[str]]:
    """Return under which name each run's answers are taken, and notes on it."""
    check_choice("differing", differing, Differing)
    wide = _varying((run.model, run.of_model) for run in runs)
    narrow = _varying(((run.model, run.benchmark), run.of_benchmark) for run in runs)
    folders: dict[str, set[str]] = {}
    for run in runs:
        folders.setdefault(run.model, set()).add(run.folder)
    differences = []
    for run in runs:
        parts = _spelled_settings(run.of_model, wide[run.model])
        parts += _spelled_settings(run.of_benchmark, narrow[run.model, run.benchmark])
        if run.folder and len(folders[run.model]) > 1:
            parts.insert(0, f"folder={printable(run.folder, 60)}")
        differences.append(parts)
    if not any(differences) or differing == "pool":
        changed = sum(map(bool, differences))
        what = sorted({text.split("=")[0] for parts in differences for text in parts})
        note = f"{changed:,} runs of one model differ in {join_list(what)} and were combined"
        notes = [note] if changed else []
        return [run.model for run in runs], [*notes, *_tests_that_differ(runs)]
    if differing == "split":
        names = [
            f"{run.model} [{', '.join(parts)}]" if parts else run.model
            for run, parts in zip(runs, differences, strict=True)
        ]
        split = len({name for name, parts in zip(names, differences, strict=True) if parts})
        return names, [f"models were separated by their settings, which gave {split:,} names"]
    faults = [
        Fault(run.file, f"{printable(run.model)} on {printable(run.benchmark)}: {', '.join(parts)}")
        for run, parts in zip(runs, differences, strict=True)
        if parts
    ]
    advice = (
        "these runs of one model differ in their settings, so that they are no repeats of each "
        "other; give those of one kind, or choose --differing split (different models) or pool "
        "(add them up nevertheless)"
    )
    if any(len(names) > 1 for names in folders.values()):
        advice += "; --model FOLDER=NAME names the model of one folder"
    raise DataError(faults, advice)


def _tests_that_differ(runs: Sequence[Run]) -> list[str]:
    """Note settings of benchmarks that differ between models, which did not do the same test."""
    notes = []
    for benchmark, settings in _varying((run.benchmark, run.of_benchmark) for run in runs).items():
        for name in sorted(settings):
            models: dict[str, set[str]] = {}
            for run in runs:
                if run.benchmark == benchmark and run.of_benchmark:
                    value = printable(run.of_benchmark.get(name, _DEFAULT), 60)
                    models.setdefault(value, set()).add(run.model)
            if len({frozenset(known) for known in models.values()}) > 1:
                listed = "; ".join(
                    f"{value}: {join_list(sorted(known), 4)}" for value, known in models.items()
                )
                notes.append(
                    f"caution: {printable(benchmark, 60)}: models differ in {name} ({listed}), so"
                    " they did not take the same test"
                )
    return notes


class Naming:
    """Names of the models that logs are of: as the logs state, or as the user does."""

    def __init__(self, given: Names, unknown: str) -> None:
        self._given = as_list(given)
        self._unknown = unknown
        self._used: set[str] = set()
        self._nameless: dict[str, str] = {}

    def of(self, file: Path, label: str, stated: str) -> tuple[str, str]:
        """Return the name of a log's model, and the folder that may name it otherwise."""
        own = [text for text in self._given if text.startswith(f"{label}=")]
        general = [text for text in self._given if "=" not in text]
        self._used.update(own)
        if own:
            return own[-1].removeprefix(f"{label}="), ""
        if general:
            return general[-1], label
        if not stated:
            self._nameless.setdefault(label, str(file))
        return stated, ""

    def check(self) -> None:
        """Raise a `UsageError` if logs have no name, or names were given for no log."""
        if self._nameless:
            offered = " ".join(
                f"--model '{printable(label)}={printable(label.replace('__', '/', 1))}'"
                for label in list(self._nameless)[:6]
            )
            more = f" and {len(self._nameless) - 6} more" if len(self._nameless) > 6 else ""
            first = next(iter(self._nameless.values()))
            raise UsageError(
                f"--model: needed, because {self._unknown} (such as {printable(first)}); named "
                f"after the folders it would be: {offered}{more}; or one --model NAME for all"
            )
        if unused := [name for name in self._given if "=" in name and name not in self._used]:
            raise UsageError(f"--model: {join_list(unused)}: there are no logs in such a folder")


def original_name(name: str) -> str:
    """Return a file's name without the mark by which browsers and file managers name copies."""
    return _COPY.sub("", name)


def version_notes(tool: str, versions: Iterable[str], unit: str) -> list[str]:
    """Note that logs are of several versions of a tool, if they are."""
    counts = Counter(versions)
    found = ", ".join(f"{name} ({count} {unit})" for name, count in sorted(counts.items()))
    return [f"logs of several versions of {tool}: {printable(found)}"] if len(counts) > 1 else []


def _varying[Key: Hashable](
    runs: Iterable[tuple[Key, Mapping[str, str]]],
) -> dict[Key, set[str]]:
    """Return the settings that have several values among the runs of a key."""
    groups: dict[Key, list[Mapping[str, str]]] = {}
    for key, settings in runs:
        # Of a run without any, nothing is known; otherwise what is absent is the default.
        groups.setdefault(key, []).extend([settings] if settings else [])
    return {
        key: {
            name
            for name in {name for settings in known for name in settings}
            if len({settings.get(name, _DEFAULT) for settings in known}) > 1
        }
        for key, known in groups.items()
    }


def _spelled_settings(settings: Mapping[str, str], names: set[str]) -> list[str]:
    known = sorted(names) if settings else []
    return [f"{name}={printable(settings.get(name, _DEFAULT), 60)}" for name in known]


def fingerprint(value: Any) -> str:
    """Return a hash that stands for an answer or a text, so that neither is held in memory."""
    return sha256(repr(value).encode())


def alike_note(benchmark: str, count: int) -> str:
    """Note that documents are the same, where an item is named by what it holds."""
    return (
        f"{printable(benchmark)}: {count:,} documents occur again under another number; their "
        "answers count as trials of one item"
    )


def distinct(
    trials: pd.DataFrame, left_out: LeftOut, *, copies: Copies, texts: Texts
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return trials of which no two are the same, `Imported.runs`, and notes on what was merged."""
    notes = _check_texts(trials, texts)
    same_as = pd.Series("", index=trials.index, dtype=object)
    again = trials.duplicated(_TRIAL)
    if again.any():
        _check_repeats(trials)
        first = trials.groupby(_TRIAL, sort=False)["file"].transform("first")
        same_as[again] = first[again]
        left_out.add_rows(trials.loc[again, "benchmark"], REPEATED)
    once = trials[~again]
    several = once.groupby(["model", "benchmark"], sort=True)["run"].transform("nunique") > 1
    for (model, benchmark), own in once[several].groupby(["model", "benchmark"], sort=True):
        copied, alike = _copied(own)
        if copies == "leave-out":
            same_as.update(copied)
            left_out.add(str(benchmark), COPIED, len(copied))
        elif len(copied):
            alike.insert(
                0,
                f"{len(copied):,} answers are the same in another run, and count as further trials",
            )
        notes += [f"{_pair(model, benchmark)}: {text}" for text in alike]
    runs = trials[["model", "benchmark", "file", "run"]].assign(same_as=same_as, n=same_as == "")
    groups = runs.groupby(["benchmark", "model", "file", "run"], sort=True)
    runs = groups.agg(trials=("n", "size"), count=("n", "sum"), same_as=("same_as", "max"))
    runs = runs.reset_index()[["model", "benchmark", "file", "run", "trials", "count", "same_as"]]
    return trials[same_as == ""], runs, notes + _merged_notes(runs)


def _pair(model: Hashable, benchmark: Hashable) -> str:
    return f"{printable(str(model), 80)} on {printable(str(benchmark), 60)}"


def _check_texts(trials: pd.DataFrame, texts: Texts) -> list[str]:
    """Refuse names of items that stand for several texts, or note how many there are."""
    known = trials.loc[trials["content"].notna(), ["benchmark", "item", "content", "file"]]
    known = known.drop_duplicates(["benchmark", "item", "content"])
    twice = known[known.duplicated(["benchmark", "item"], keep=False)].copy()
    if texts == "note":
        counts = twice.drop_duplicates(["benchmark", "item"])["benchmark"].value_counts(sort=False)
        return [
            f"{printable(str(name))}: items with another text in some runs: {count:,}; make sure "
            "that their names stand for the same question"
            for name, count in counts.items()
        ]
    twice["first"] = twice.groupby(["benchmark", "item"], sort=False)["file"].transform("first")
    other = twice[twice.duplicated(["benchmark", "item"])].drop_duplicates("file")
    faults = [
        _item_fault(row, f"has another text than in {printable(str(row['first']))}")
        for _, row in other.iterrows()
    ]
    if faults:
        raise DataError(
            faults,
            "a name must stand for the same item in all logs; give logs of one version of the data "
            "set; if it has no ids of its own and was shuffled, its numbers name no items "
            "(--differing pool takes them nevertheless)",
        )
    return []


def _check_repeats(trials: pd.DataFrame) -> None:
    """Refuse trials that have another answer, text or score where they occur again."""
    # Missing values are equal here: a file may lack what its copy has, but not contradict it.
    again = trials.duplicated(_TRIAL)
    same = trials.duplicated([*_TRIAL, "answer", "content", "correct", "out_of"])
    problem = "occurs again in the same run, with another answer, text or score"
    odd = trials[again & ~same].drop_duplicates("file")
    if faults := [_item_fault(row, problem) for _, row in odd.iterrows()]:
        raise DataError(faults, "give one of the files of this run; repeats need numbers (epochs)")


def _item_fault(row: "pd.Series[Any]", problem: str) -> Fault:
    item, benchmark = format_value(row["item"]), printable(str(row["benchmark"]), 60)
    return Fault(str(row["file"]), f"item {item} of {benchmark} {problem}")


def _copied(trials: pd.DataFrame) -> tuple["pd.Series[str]", list[str]]:
    """Return the trials that another run has too, with its file, and notes on doubtful runs."""
    keys = pd.MultiIndex.from_frame(trials[["item", "trial"]])
    where = pd.Series(pd.factorize(keys)[0], index=trials.index)
    # Larger runs first, so that a part is the copy; ties by name, so that order does not count.
    sizes = trials.groupby("run", sort=True).size()
    order = sorted(sizes.index, key=lambda run: (-int(sizes[run]), str(run)))
    copied: dict[int, str] = {}
    notes: list[str] = []
    compared: list[tuple[str, dict[int, tuple[object, float]]]] = []
    for run in order:
        own = trials[trials["run"] == run]
        file = str(own["file"].iloc[0])
        answers = dict(
            zip(where[own.index], zip(own["answer"], own["correct"], strict=True), strict=True)
        )
        for other, known in compared:
            shared = answers.keys() & known.keys()
            if not shared or any(answers[key][1] != known[key][1] for key in shared):
                continue
            if any(answers[key][0] is None or known[key][0] is None for key in shared):
                notes.append(
                    f"{_file(file)} has the same score as {_file(other)} on all {len(shared):,} "
                    "items that both have, and there are no answers to compare: added up as "
                    "trials; if one is a copy, leave it out"
                )
            elif all(answers[key][0] == known[key][0] for key in shared):
                rows = own.index[where[own.index].isin(shared)]
                copied.update({row: other for row in rows if row not in copied})
        compared.append((file, answers))
    return pd.Series(copied, dtype=object), notes


def _file(path: str) -> str:
    return printable(path, 120)


def _merged_notes(runs: pd.DataFrame) -> list[str]:
    """Name the files that are copies, and those that are added up."""
    copies = []
    for _, row in runs[runs["same_as"] != ""].iterrows():
        left = int(row["trials"] - row["count"])
        share = f"all {left:,}" if row["count"] == 0 else f"{left:,} of its {row['trials']:,}"
        copies.append(
            f"{_pair(row['model'], row['benchmark'])}: {_file(str(row['file']))} is a copy in "
            f"{share} answers, which {_file(str(row['same_as']))} has too; they count once"
        )
    sums = []
    for (benchmark, model), own in runs[runs["count"] > 0].groupby(["benchmark", "model"]):
        if own["run"].nunique() > 1:
            each = own.drop_duplicates("run")["file"].astype(str)
            files = ", ".join(_file(file) for file in each.iloc[:8])
            more = f" and {len(each) - 8} more" if len(each) > 8 else ""
            sums.append(
                f"{_pair(model, benchmark)}: {own['run'].nunique()} runs are combined, and where "
                f"several answered an item these are trials: {files}{more}"
            )
    return _first(copies) + _first(sums)


def _first(notes: Sequence[str]) -> list[str]:
    if len(notes) <= _MOST:
        return list(notes)
    return [*notes[:_MOST], f"… and {len(notes) - _MOST:,} more such; the result's `runs` has all"]


class Groups:
    """Which benchmarks are subtasks of one."""

    def __init__(self, given: Names) -> None:
        self._patterns: dict[str, str] = {}
        self._stated: dict[str, set[str]] = {}
        for text in as_list(given):
            name, sign, pattern = text.partition("=")
            if not name or (sign and not pattern) or name in self._patterns:
                reason = "is given twice" if name in self._patterns else "is no group"
                raise UsageError(
                    f"--group {printable(text)}: {reason}; give NAME, or NAME=PATTERN such as "
                    "mmlu=mmlu_*"
                )
            self._patterns[name] = pattern

    def state(self, name: str, parts: Iterable[str]) -> None:
        """Note which subtasks, or groups of subtasks, the logs of a run have in a group."""
        self._stated.setdefault(name, set()).update(parts)

    def applied(
        self, trials: pd.DataFrame, chosen: Mapping[str, str]
    ) -> tuple[pd.DataFrame, dict[str, str]]:
        """Return trials with subtasks as one benchmark, and what was chosen for it."""
        if not self._patterns:
            return trials, dict(chosen)
        if MARK + SUBTASK in trials:
            raise UsageError(f"--keep: the name '{SUBTASK}' is taken by --group; give NEWNAME=PATH")
        names = sorted(trials["benchmark"].unique())
        of = self._of(names)
        inside = trials["benchmark"].isin(list(of))
        subtask = trials["benchmark"].where(inside, None)
        # Items of several subtasks may have one name.
        item = trials["item"].mask(inside, trials["benchmark"] + "/" + trials["item"])
        benchmark = trials["benchmark"].map(lambda name: of.get(name, name))
        frame = trials.assign(benchmark=benchmark, item=item, **{MARK + SUBTASK: subtask})
        merged: dict[str, dict[str, None]] = {}
        for name, choice in chosen.items():
            merged.setdefault(of.get(name, name), {})[choice] = None
        return frame, {name: " / ".join(choices) for name, choices in merged.items()}

    def _of(self, names: list[str]) -> dict[str, str]:
        """Return the group of each benchmark that is in one."""
        found: dict[str, str] = {}
        for group, pattern in self._patterns.items():
            leaves = set() if pattern else self._leaves(group)
            mine = [name for name in names if name in leaves or fnmatch.fnmatchcase(name, pattern)]
            if not mine:
                raise UsageError(f"--group {self._unfit(group, pattern, names)}")
            if twice := [name for name in mine if name in found]:
                raise UsageError(
                    f"--group: {join_list(twice)} would be in '{printable(found[twice[0]])}' and "
                    f"in '{printable(group)}'; give patterns that do not overlap"
                )
            found.update(dict.fromkeys(mine, group))
        return found

    def _leaves(self, group: str) -> set[str]:
        """Return the subtasks of a group, those of groups inside it included."""
        known: set[str] = set()
        ahead = [group]
        while ahead:
            name = ahead.pop()
            if name not in known:
                known.add(name)
                ahead += self._stated.get(name, ())
        return {name for name in known - {group} if not self._stated.get(name)}

    def _unfit(self, group: str, pattern: str, names: list[str]) -> str:
        """Return why a group has no benchmark, and what to give instead."""
        name, there = printable(group), f"there are {join_list(names)}"
        if pattern:
            return f"{name}: no benchmark fits '{printable(pattern)}'; {there}"
        stated = f"; the logs state the groups {join_list(sorted(self._stated))}"
        return (
            f"{name}: the logs state no subtasks of it{stated if self._stated else ''}; {there}; "
            f"give a pattern, such as --group '{name}={name}_*'"
        )
