"""What importers share: reading of records, what was left out, choices, columns and scores."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._progress import Advance
from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.jsonl import BrokenListError, json_records, no_object
from bayescontam.data.responses import LOG_FILE, LOG_SAMPLE
from bayescontam.data.validation import format_value
from bayescontam.errors import DataError, Fault, UsageError

ADVICE = (
    "write the logs again, or leave such rows out (skip_broken, --skip-broken), which counts them"
)


_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?")
"""What rows with the same fault do not share: names and numbers."""
type Errors = Literal["leave-out", "incorrect"]  # what becomes of items at which a run failed
type Names = str | Sequence[str]  # one name, or several
type Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]  # one path, or several
_TAKEN = {"model", "benchmark", "item", "correct", "n_correct", "n_trials", LOG_FILE, LOG_SAMPLE}
_NAMED = re.compile(r"(\w+)=(.+)")
MARK = "extra:"
"""Begins extra columns among trials, so that their names never clash with those of an importer."""
_WHOLE = 2**63  # whole numbers from here on are stored as text: no column of a table holds them
_STEP = 1_000_000  # bytes after which progress is shown


@dataclass
class _Broken:
    """Rows of a file that cannot be read for one cause."""

    file: str
    first: str  # place of the first of them, and its problem
    advice: str
    last: str = ""
    count: int = 0


_BROKEN_ROWS = "broken rows"


class LeftOut:
    """Counts of what was not taken."""

    def __init__(self, skip_broken: bool = False) -> None:
        self._skip = skip_broken
        self._counts: Counter[tuple[str, str]] = Counter()
        self._broken: dict[tuple[str, str], _Broken] = {}

    def add(self, where: str, reason: str, count: int = 1) -> None:
        """Count what was left out of a benchmark or file, and why."""
        if count:
            self._counts[where, reason] += count

    def add_rows(self, benchmarks: pd.Series, reason: str) -> None:
        """Count rows that were left out of each benchmark, and why."""
        for benchmark, count in benchmarks.value_counts().items():
            self.add(str(benchmark), reason, int(count))

    def broken(
        self, file: str, place: str, problem: str, *, count: int = 1, advice: str = ADVICE
    ) -> None:
        """Note rows that cannot be read: one fault for those of one problem, or only counted."""
        if self._skip:
            self.add(file, _BROKEN_ROWS, count)
            return
        known = self._broken.setdefault(
            (file, _OWN.sub("#", problem)), _Broken(file, f"{place}: {problem}", advice)
        )
        known.last = place
        known.count += 1

    def has_broken(self, file: str) -> bool:
        """Return whether broken rows of a file were counted."""
        return (file, _BROKEN_ROWS) in self._counts

    def raise_if_broken(self) -> None:
        """Raise one `DataError` with all broken rows, and what to do about them."""
        faults = []
        for found in self._broken.values():
            more = f" (and {found.count - 1:,} more like it, up to {found.last})"
            faults.append(Fault(found.file, found.first + (more if found.count > 1 else "")))
        if faults:
            advice = dict.fromkeys(found.advice for found in self._broken.values())
            raise DataError(faults, "\n".join(advice))

    def frame(self) -> pd.DataFrame:
        """Return columns ``where`` (benchmark or file), ``reason`` and ``left_out``."""
        rows = [(where, reason, count) for (where, reason), count in sorted(self._counts.items())]
        return pd.DataFrame(rows, columns=["where", "reason", "left_out"])


def objects(
    path: Path,
    left_out: LeftOut,
    advance: Advance = lambda size: None,
    *,
    unique: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give place and content of the objects of JSON Lines or of one list; others are broken."""
    file, done = os.fspath(path), 0
    try:
        for place, size, value in json_records(path, unique=unique):
            done += size
            if done > _STEP:
                advance(done / 1e6)
                done = 0
            if isinstance(value, dict):
                yield place, value
            else:
                left_out.broken(file, place, no_object(value))
    except (BrokenListError, UnicodeDecodeError) as error:
        left_out.broken(file, "as a whole", str(error))
    advance(done / 1e6)


def format_counts(counts: Counter[str], unit: str) -> str:
    """Return names with how often each occurs."""
    shown = [
        f"'{printable(name, 60)}' ({count:,} {unit})" for name, count in sorted(counts.items())
    ]
    more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
    return ", ".join(shown[:12]) + more


def error_notes(count: int, unit: str) -> list[str]:
    """Note how many errors count as incorrect, if any do."""
    return [f"{count:,} {unit}s with an error count as incorrect"] if count else []


def scores(
    values: FloatArray, threshold: float | None, *, lower_better: bool = False
) -> tuple[FloatArray, BoolArray]:
    """Return values as 0 and 1 (NaN where missing), and which of them are neither."""
    missing = np.isnan(values)
    if threshold is None:
        return values, ~missing & ~np.isin(values, (0.0, 1.0))
    passed = values <= threshold if lower_better else values >= threshold
    return np.where(missing, np.nan, passed.astype(float)), np.zeros(len(values), dtype=bool)


def check_threshold(threshold: float | None) -> None:
    """Refuse a threshold that no answer, or every answer, would pass."""
    if threshold is not None and not math.isfinite(threshold):
        raise UsageError(
            f"threshold: got {threshold}; allowed is a finite number, from which on an answer is "
            "correct (--threshold)"
        )


def number(value: Any) -> float:
    """Return a number, true or false of a log; NaN for None."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise TypeError(f"is {format_value(value)}, which is no number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_nan(value: Any) -> bool:
    """Return whether a value of a log is NaN, whatever else it may be."""
    return isinstance(value, float) and math.isnan(value)


def as_list[Given: str | os.PathLike[str]](given: Given | Sequence[Given]) -> list[Given]:
    """Return names or paths as a list, of which there may be one that stands alone."""
    return [given] if isinstance(given, str | os.PathLike) else list(given)


def select(
    what: str, given: Names, candidates: Mapping[str, Counter[str]], unit: str = "rows"
) -> dict[str, str]:
    """Return the candidate that was requested, or is the only one, for each benchmark."""
    own: dict[str, list[str]] = {}
    general: list[str] = []
    for text in as_list(given):
        # Names may hold "=": it divides only after the name of a benchmark.
        at = next((name for name in candidates if text.startswith(f"{name}=")), None)
        if at is None:
            general.append(text)
        else:
            own.setdefault(at, []).append(text.removeprefix(f"{at}="))
    problems, result = [], {}
    for benchmark, counts in candidates.items():
        wanted = own.get(benchmark) or [name for name in general if name in counts]
        fitting = [name for name in dict.fromkeys(wanted) if name in counts]
        if len(fitting) == 1:
            result[benchmark] = fitting[0]
        elif len(counts) == 1 and benchmark not in own:
            result[benchmark] = next(iter(counts))
        else:
            problems.append(f"{printable(benchmark, 60)} has {format_counts(counts, unit)}")
    unused = {name for name in general if not any(name in counts for counts in candidates.values())}
    unused |= {name for at, names in own.items() for name in names if name not in candidates[at]}
    if unused:
        have = "; ".join(
            f"{printable(at, 60)} has {format_counts(counts, unit)}"
            for at, counts in candidates.items()
        )
        raise UsageError(f"--{what}: {join_list(sorted(unused))} occurs nowhere; {have}")
    if problems:
        raise UsageError(
            f"--{what}: needed, because there are several: {'; '.join(problems)}; give one with "
            f"--{what} NAME, or for one benchmark with --{what} BENCHMARK=NAME"
        )
    return result


@dataclass(frozen=True)
class ExtraColumns:
    """Columns to keep; make one with `ExtraColumns.of`."""

    paths: dict[str, list[str]]  # name of each column, and its path in a row of the log

    @classmethod
    def of(cls, keep: Names) -> "ExtraColumns":
        """Return the columns that a user wants, such as ``doc.subject`` or ``name=doc.subject``."""
        found: dict[str, list[str]] = {}
        for text in as_list(keep):
            named = _NAMED.fullmatch(text)
            path = (named[2] if named else text).split(".")
            name = named[1] if named else path[-1]
            if name in _TAKEN or name in found or not all(path):
                reason = "is no column path" if not all(path) else f"the name '{name}' is taken"
                raise UsageError(
                    f"--keep {printable(text)}: {reason}; give COLUMN, or NEWNAME=COLUMN to "
                    "rename it"
                )
            found[name] = path
        return cls(found)

    @property
    def columns(self) -> list[str]:
        """Names of the columns among trials."""
        return [MARK + name for name in self.paths]

    def values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of a row: text, a number, true, false, or None for each column."""
        values: list[Any] = []
        for path in self.paths.values():
            value: Any = row
            for part in path:
                value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, list | dict):
                raise UsageError(
                    f"--keep {printable('.'.join(path))}: got {format_value(repr(value))}; only"
                    " text, numbers, true and false are stored: leave it out, or name a part of it"
                )
            values.append(value)
        return tuple(values)

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
                text = printable(".".join(path))
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
        if len(there) < len(column):  # pandas would make whole numbers inexact, and truths objects
            if kinds == {"truth"}:
                return column.astype("boolean")
            if all(isinstance(value, int) for value in there):
                return column.astype("Int64")
        return column.infer_objects()
    return there.map(str).reindex(column.index).astype("str")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int) and abs(value) >= _WHOLE:
        return "huge"
    return "text" if isinstance(value, str) else "number"
