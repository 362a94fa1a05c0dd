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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from bayescontam.names import visible

SHOWN_FAULTS = 12
"""Faults printed in a message; the exception's ``faults`` holds all of them."""


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
    """One thing wrong with a file.

    Parameters
    ----------
    file : str
        File (or other source) in which the fault lies.
    problem : str
        What arrived and what is allowed.
    row : int, optional
        Data row, counted from 1; the header is not counted.
    column : str, optional
        Column, or dotted key of a spec.
    """

    file: str
    problem: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        place = [visible(self.file)]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(visible(self.column))
        return ": ".join([*place, self.problem])


class _FaultyFile(BayescontamError):
    """A file with one or more faults."""

    def __init__(self, faults: Sequence[Fault], advice: str = "") -> None:
        self.faults = tuple(faults)
        self.advice = advice
        lines = [str(fault) for fault in self.faults[:SHOWN_FAULTS]]
        hidden = len(self.faults) - len(lines)
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
