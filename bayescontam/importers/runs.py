"""Runs: evaluations of one model on one benchmark, and whether they are repeats of each other."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.importers.choices import Names, several
from bayescontam.names import listed, visible

type Differing = Literal["error", "pool", "split"]
"""What becomes of runs of one model that differ in their settings."""

_DEFAULT = "default"
_COPY = re.compile(
    r"(?: \(\d+\)| (?:- )?copy(?: \(?\d+\)?)?| \((?:another )?copy(?: \d+)?\))+(?=\.[^ ]*$|$)", re.I
)


@dataclass(frozen=True)
class Run:
    """One evaluation of a model on a benchmark."""

    # model, benchmark: names
    model: str
    benchmark: str
    file: str  # log file
    # settings that make it another model if they differ, such as a revision
    of_model: Mapping[str, str] = field(default_factory=dict)
    # settings that make it another test if they differ, such as the number of examples shown
    of_benchmark: Mapping[str, str] = field(default_factory=dict)
    id: str = ""  # what the tool identifies the run by, such as its date. Default: the file.
    # folder, or part of a file's name, that may name the model, where one name was given for all:
    # several of them under one name may be several models
    folder: str = ""

    @property
    def key(self) -> str:
        """What the tool identifies the run by, or its file."""
        return self.id or self.file


def model_names(runs: Sequence[Run], differing: Differing) -> tuple[list[str], list[str]]:
    """Return under which name each run's answers are taken, and notes on it."""
    if differing not in ("error", "pool", "split"):
        raise UsageError(f"differing={differing!r}: allowed are 'error', 'pool' and 'split'")
    wide = _varying((run.model, run.of_model) for run in runs)
    narrow = _varying(((run.model, run.benchmark), run.of_benchmark) for run in runs)
    folders: dict[str, set[str]] = {}
    for run in runs:
        folders.setdefault(run.model, set()).add(run.folder)
    differences = [
        _folder(run, folders[run.model])
        + _spelled(run.of_model, wide[run.model])
        + _spelled(run.of_benchmark, narrow[run.model, run.benchmark])
        for run in runs
    ]
    if not any(differences) or differing == "pool":
        changed = sum(map(bool, differences))
        what = sorted({text.split("=")[0] for parts in differences for text in parts})
        note = f"{changed:,} runs of one model differ in {listed(what)} and were combined"
        return [run.model for run in runs], [note] if changed else []
    if differing == "split":
        names = [
            f"{run.model} [{', '.join(parts)}]" if parts else run.model
            for run, parts in zip(runs, differences, strict=True)
        ]
        split = len({name for name, parts in zip(names, differences, strict=True) if parts})
        return names, [f"models were separated by their settings, which gave {split:,} names"]
    faults = [
        Fault(run.file, f"{visible(run.model)} on {visible(run.benchmark)}: {', '.join(parts)}")
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


class Naming:
    """Names of the models that logs are of: as the logs state, or as the user does."""

    def __init__(self, given: Names, unknown: str) -> None:
        self._given = several(given)
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
                f"--model '{visible(label)}={visible(label.replace('__', '/', 1))}'"
                for label in list(self._nameless)[:6]
            )
            more = f" and {len(self._nameless) - 6} more" if len(self._nameless) > 6 else ""
            first = next(iter(self._nameless.values()))
            raise UsageError(
                f"--model: needed, because {self._unknown} (such as {visible(first)}); named after "
                f"the folders it would be: {offered}{more}; or one --model NAME for all"
            )
        if unused := [name for name in self._given if "=" in name and name not in self._used]:
            raise UsageError(f"--model: {listed(unused)}: there are no logs in such a folder")


def original_name(name: str) -> str:
    """Return a file's name without the mark by which browsers and file managers name copies.

    What a file is of is in its name, and a copy is of the same.

    >>> original_name("samples_quiz (1).jsonl"), original_name("quiz - Copy (2).json")
    ('samples_quiz.jsonl', 'quiz.json')
    """
    return _COPY.sub("", name)


def version_notes(tool: str, versions: Iterable[str], unit: str) -> list[str]:
    """Say that logs are of several versions of a tool, if they are.

    >>> version_notes("Inspect", ["0.3.1", "0.3.2", "0.3.1"], "logs")
    ['logs of several versions of Inspect: 0.3.1 (2 logs), 0.3.2 (1 logs)']
    """
    counts = Counter(versions)
    found = ", ".join(f"{name} ({count} {unit})" for name, count in sorted(counts.items()))
    return [f"logs of several versions of {tool}: {visible(found)}"] if len(counts) > 1 else []


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


def _folder(run: Run, folders: set[str]) -> list[str]:
    return [f"folder={visible(run.folder, 60)}"] if len(folders) > 1 and run.folder else []


def _spelled(settings: Mapping[str, str], names: set[str]) -> list[str]:
    known = sorted(names) if settings else []
    return [f"{name}={visible(settings.get(name, _DEFAULT), 60)}" for name in known]
