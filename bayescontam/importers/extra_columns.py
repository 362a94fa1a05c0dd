"""ExtraColumns: further columns of logs, stored with the responses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayescontam.columns import shown
from bayescontam.errors import UsageError
from bayescontam.importers.choices import Names, several
from bayescontam.names import visible

_TAKEN = {"model", "benchmark", "item", "correct", "n_correct", "n_trials"}
_NAMED = re.compile(r"(\w+)=(.+)")
MARK = "extra:"
"""Begins extra columns among trials, so that their names never clash with those of an importer."""
_WHOLE = 2**63
"""Whole numbers from here on are stored as text: no column of a table holds them."""


@dataclass(frozen=True)
class ExtraColumns:
    """Columns to keep; make one with `ExtraColumns.of`."""

    paths: dict[str, list[str]]  # name of each column, and its path in a row of the log

    @classmethod
    def of(cls, keep: Names) -> "ExtraColumns":
        """Return the columns that a user wants.

        >>> ExtraColumns.of(["doc.subject", "level=doc.meta.level"]).paths
        {'subject': ['doc', 'subject'], 'level': ['doc', 'meta', 'level']}
        """
        found: dict[str, list[str]] = {}
        for text in several(keep):
            named = _NAMED.fullmatch(text)
            path = (named[2] if named else text).split(".")
            name = named[1] if named else path[-1]
            if name in _TAKEN or name in found or not all(path):
                reason = "is no column path" if not all(path) else f"the name '{name}' is taken"
                raise UsageError(
                    f"--keep {visible(text)}: {reason}; give COLUMN, or NEWNAME=COLUMN to rename it"
                )
            found[name] = path
        return cls(found)

    @property
    def columns(self) -> list[str]:
        """Names of the columns among trials."""
        return [MARK + name for name in self.paths]

    def values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of a row: text, a number, true, false, or None for each column."""
        return tuple(_value(row, path) for path in self.paths.values())

    def added_to(self, frame: pd.DataFrame, rows: Sequence[Any]) -> pd.DataFrame:
        """Return trials with columns of what `values` gave for the row of each."""
        own = {
            column: pd.Series([row[place] for row in rows], index=frame.index, dtype=object)
            for place, column in enumerate(self.columns)
        }
        return frame.assign(**own) if own else frame

    def check(self, trials: pd.DataFrame, unit: str, hint: str) -> None:
        """Refuse a column that is in none of the trials, if there are any."""
        for column, path in zip(self.columns, self.paths.values(), strict=True):
            if len(trials) and trials[column].isna().all():
                text = visible(".".join(path))
                raise UsageError(f"--keep {text}: no {unit} has it; {hint}")


def extra_names(trials: pd.DataFrame) -> dict[str, str]:
    """Return which columns of trials are extra, with the names that the user gave."""
    names = [str(name) for name in trials.columns]
    return {name: name.removeprefix(MARK) for name in names if name.startswith(MARK)}


def of_one_kind(column: pd.Series) -> pd.Series:
    """Return a column as it is, or as text if no one kind of number or truth holds it."""
    there = column.dropna()
    kinds = {_kind(value) for value in there}
    if len(kinds) < 2 and "huge" not in kinds:
        return column.infer_objects()
    return there.map(str).reindex(column.index).astype("str")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int) and abs(value) >= _WHOLE:
        return "huge"
    return "text" if isinstance(value, str) else "number"


def _value(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = row
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, list | dict):
        raise TypeError(f"is {shown(repr(value))}; only text, numbers, true and false are stored")
    return value
