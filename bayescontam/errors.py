"""Error types: everything this package raises on purpose.

::

    BayescontamError
    ├── UsageError           an option or argument that cannot be used
    ├── DataError            a table that cannot be used; carries every fault found
    ├── SpecError            a spec that cannot be used; carries every fault found
    ├── FitError             a fit that cannot be made, read, or compared
    ├── TaskError            a task of a long computation that failed
    └── MissingExtraError    an optional dependency that is not installed

Each message says where, what arrived, what is allowed and what to do.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from bayescontam._text import printable

SHOWN_FAULTS = 12
"""Lines of faults in a message; the exception's ``faults`` holds all of them."""
_SHOWN_ROWS = 5
"""Rows, and values, that a line names of those that have the same fault."""


class BayescontamError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(BayescontamError):
    """An option or argument that cannot be used."""


class FitError(BayescontamError):
    """A fit that cannot be made, read, or compared with another."""


class TaskError(BayescontamError):
    """A task of a long computation that failed."""


class MissingExtraError(BayescontamError, ImportError):
    """An optional dependency that is not installed."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a file."""

    file: str  # file (or other source) in which the fault lies
    problem: str  # what arrived and what is allowed
    row: int | None = None  # data row, counted from 1; the header is not counted
    column: str | None = None  # column, or dotted key of a spec
    # the problem with `{}` where it shows a value. Rows with the same cause share one line of a
    # message. Default: the problem.
    cause: str = field(default="", compare=False)
    value: str = field(default="", compare=False)  # the value that the problem shows

    def __str__(self) -> str:
        return _line([self])


def _line(faults: Sequence[Fault]) -> str:
    """Return the line that faults of one cause share."""
    first = faults[0]
    place = [printable(first.file)]
    problem = first.problem
    if len(faults) > 1:
        rows = [f"{fault.row}" for fault in faults[:_SHOWN_ROWS]]
        hidden = len(faults) - len(rows)
        place.append("rows " + ", ".join(rows) + (f" and {hidden:,} more" if hidden else ""))
        if first.cause:
            problem = first.cause.replace("{}", _values(faults), 1)
    elif first.row is not None:
        place.append(f"row {first.row}")
    if first.column is not None:
        place.append(printable(first.column))
    return ": ".join([*place, problem])


def _values(faults: Sequence[Fault]) -> str:
    """Return the values of faults, the most frequent first, with their numbers if they differ."""
    counts = Counter(fault.value for fault in faults)
    repeated = 1 < len(counts) < len(faults)
    texts = [
        f"{value} ({count:,} rows)" if repeated else value
        for value, count in counts.most_common(_SHOWN_ROWS)
    ]
    hidden = len(counts) - len(texts)
    return ", ".join(texts) + (f" and {hidden:,} other values" if hidden else "")


def _by_cause(faults: Sequence[Fault]) -> list[list[Fault]]:
    """Return faults of rows grouped by file, column and cause, in order of first appearance."""
    groups: dict[object, list[Fault]] = {}
    for number, fault in enumerate(faults):
        alone = number if fault.row is None else None
        key = fault.file, fault.column, fault.cause or fault.problem, alone
        groups.setdefault(key, []).append(fault)
    return list(groups.values())


class _FaultyFile(BayescontamError):
    """A file with one or more faults; its message has one line for each cause."""

    def __init__(self, faults: Sequence[Fault], advice: str = "") -> None:
        self.faults = tuple(faults)
        self.advice = advice
        groups = _by_cause(self.faults)
        lines = [_line(group) for group in groups[:SHOWN_FAULTS]]
        hidden = sum(len(group) for group in groups[SHOWN_FAULTS:])
        if hidden > 0:
            lines.append(f"… and {hidden:,} more faults of {len(self.faults):,}")
        if advice:
            lines.append(advice)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        # Exceptions are pickled by their message, from which this one is not made again.
        return type(self), (self.faults, self.advice)


class DataError(_FaultyFile):
    """A table that cannot be used."""


class SpecError(_FaultyFile):
    """A spec (a declarative TOML file) that cannot be used."""
