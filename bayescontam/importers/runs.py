"""Runs: evaluations of one model on one benchmark, and whether they are repeats of each other."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.names import visible

type Differing = Literal["error", "pool", "split"]
"""What becomes of runs of one model that differ in their settings."""

_DEFAULT = "default"


@dataclass(frozen=True)
class Run:
    """One evaluation of a model on a benchmark.

    Parameters
    ----------
    model, benchmark : str
        Names.
    file : str
        Log file.
    of_model : mapping of str to str
        Settings that make it another model if they differ, such as a revision.
    of_benchmark : mapping of str to str
        Settings that make it another test if they differ, such as the number of examples shown.
    """

    model: str
    benchmark: str
    file: str
    of_model: Mapping[str, str] = field(default_factory=dict)
    of_benchmark: Mapping[str, str] = field(default_factory=dict)


def model_names(runs: Sequence[Run], differing: Differing) -> tuple[list[str], list[str]]:
    """Return under which name each run's answers are taken, and notes on it.

    Parameters
    ----------
    runs : sequence of Run
    differing : {"error", "pool", "split"}
        Runs of one model with other settings are no repeats of each other. Refuse them, add
        them up even so, or take them for different models, named with what differs.

    Raises
    ------
    DataError
        If runs differ and that is refused.
    """
    if differing not in ("error", "pool", "split"):
        raise UsageError(f"differing={differing!r}: allowed are 'error', 'pool' and 'split'")
    wide = _varying((run.model, run.of_model) for run in runs)
    narrow = _varying(((run.model, run.benchmark), run.of_benchmark) for run in runs)
    apart = [
        _spelled(run.of_model, wide[run.model])
        + _spelled(run.of_benchmark, narrow[run.model, run.benchmark])
        for run in runs
    ]
    if not any(apart) or differing == "pool":
        changed = sum(map(bool, apart))
        note = f"{changed:,} runs of one model differ in their settings and were added up"
        return [run.model for run in runs], [note] if changed else []
    if differing == "split":
        names = [
            f"{run.model} [{', '.join(parts)}]" if parts else run.model
            for run, parts in zip(runs, apart, strict=True)
        ]
        split = len({name for name, parts in zip(names, apart, strict=True) if parts})
        return names, [f"models were told apart by their settings, which gave {split:,} names"]
    faults = [
        Fault(run.file, f"{visible(run.model)} on {visible(run.benchmark)}: {', '.join(parts)}")
        for run, parts in zip(runs, apart, strict=True)
        if parts
    ]
    raise DataError(
        faults,
        "these runs of one model differ in their settings, so that they are no repeats of each "
        "other; give those of one kind, or choose --differing split (different models) or pool "
        "(add them up even so)",
    )


def version_notes(tool: str, versions: Iterable[str], unit: str) -> list[str]:
    """Say that logs are of several versions of a tool, if they are.

    Parameters
    ----------
    tool : str
    versions : iterable of str
        One for each log.
    unit : str
        What a log is called.

    Examples
    --------
    >>> version_notes("Inspect", ["0.3.1", "0.3.2", "0.3.1"], "logs")
    ['logs of several versions of Inspect: 0.3.1 (2 logs), 0.3.2 (1 logs)']
    """
    counts = Counter(versions)
    told = ", ".join(f"{name} ({count} {unit})" for name, count in sorted(counts.items()))
    return [f"logs of several versions of {tool}: {visible(told)}"] if len(counts) > 1 else []


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


def _spelled(settings: Mapping[str, str], names: set[str]) -> list[str]:
    known = sorted(names) if settings else []
    return [f"{name}={visible(settings.get(name, _DEFAULT), 60)}" for name in known]
