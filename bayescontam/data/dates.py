"""Contamination from release dates of items and training cutoffs of models."""

import calendar
import datetime
import os
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.tables import load_table
from bayescontam.data.validation import (
    MISSING,
    FaultList,
    format_value,
    mismatch_reasons,
    need_columns,
    read_clean,
    read_names,
    to_plain_frame,
    validate_unique,
    without_partner,
)
from bayescontam.errors import DataError, Fault, UsageError

type Days = NDArray[np.datetime64]
type Given = str | os.PathLike[str] | pd.DataFrame
"""A column of the responses, or a table or file of its own."""
type Unknown = Literal["error", "drop", "impute"]

_UNKNOWN = MISSING | {"unknown", "undisclosed", "?"}
_MONTHS = {
    name.casefold(): number
    for names in (calendar.month_name, calendar.month_abbr, [""] * 9 + ["sept"])
    for number, name in enumerate(names)
    if name
}
_ISO = re.compile(r"(?P<y>\d{4})(?:([-/])(?P<m>\d{1,2})(?:\2(?P<d>\d{1,2})(?:[T ](?P<t>\S.*))?)?)?")
_TIME = re.compile(
    r"(?P<h>[01]\d|2[0-3])(?::?(?P<m>[0-5]\d)(?::?[0-5]\d(?:[.,]\d+)?)?)? ?"
    r"(?:Z|UTC|GMT|(?P<sign>[-+])(?P<zh>[01]\d)(?::?(?P<zm>[0-5]\d))?)?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})?")
_QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])|Q([1-4])[- ]?(\d{4})", re.IGNORECASE)
_WORDS = re.compile(r"(?:(\d{1,2})\.? )?([A-Za-z]+)\.?(?: (\d{1,2})(?:st|nd|rd|th)?,)? (\d{4})")
_MONTH = 31  # days that release dates of one item may be apart
_ALLOWED = "YYYY-MM-DD, YYYY-MM or YYYY"
_KEYS = {"released": ("benchmark", "item"), "cutoff": ("model",)}


@dataclass(frozen=True)
class Dates:
    """Where the dates are, and how far apart they must be.

    Parameters
    ----------
    released : str, path-like or pandas.DataFrame, default "released"
        When items were released: a column of the responses, or a table or file with the
        column ``released`` and ``benchmark``, ``item`` or both.
    cutoff : str, path-like or pandas.DataFrame, default "cutoff"
        Up to when models' training data go: a column of the responses, or a table or file
        with the columns ``model`` and ``cutoff``.
    margin : int, default 0
        Days by which a cutoff must precede all items for its model to be clean.
    """

    released: Given = "released"
    cutoff: Given = "cutoff"
    margin: int = 0


def dated(
    frame: pd.DataFrame,
    source: str,
    dates: Dates,
    *,
    unknown: Unknown = "error",
    clean: tuple[str, ...] = (),
) -> tuple[pd.DataFrame, list[str]]:
    """Return responses with ``contamination`` and ``clean`` from dates, and notes."""
    if unknown not in ("error", "drop", "impute"):
        raise UsageError(
            f"missing={unknown!r}: unknown dates are missing, not clean; allowed are 'error', "
            "'drop' and 'impute'"
        )
    if dates.margin < 0:
        raise UsageError(f"margin: got {dates.margin}; allowed is a number of days, 0 or more")
    released = _by_key(frame, source, dates.released, "released")
    cutoff = _by_key(frame, source, dates.cutoff, "cutoff")
    first, latest = released.first, cutoff.last
    known = ~np.isnat(first) & ~np.isnat(latest)
    values = np.where(known, first <= latest, np.nan)
    declared = frame["model"].isin(clean).to_numpy()
    if "clean" in frame.columns:
        declared = declared | read_clean(frame["clean"], source)
    _refuse_contradicted(frame, source, declared & (values == 1), first, latest)
    values[~known & declared] = 0.0
    if "contamination" in frame.columns:
        _compare(frame, source, values, released, cutoff)
        values = frame["contamination"].to_numpy(dtype=np.float64)
    lost: BoolArray = np.isnan(values)
    if lost.any() and (unknown == "error" or lost.all()):
        advice = "unknown dates are missing, not clean: give them"
        if not lost.all():
            advice += ", or choose --missing-contamination drop or impute"
        faults = [Fault(source, text) for text in _without_dates(frame, released, cutoff, lost)]
        raise DataError(faults, "\n".join([*released.advice, *cutoff.advice, advice]))
    notes = [*released.notes, *cutoff.notes]
    unsure = (released.last > cutoff.first) & (first <= latest)
    if unsure.any():
        notes.append(
            f"{unsure.sum():,} of {len(frame):,} responses have contamination 1 because dates "
            "without a day, such as 2023-09, may mean so: items count from its first day, models "
            "up to its last"
        )
    keep = ~lost if unknown == "drop" else np.ones(len(frame), dtype=bool)
    if lost.any():
        notes += [f"caution: {reason}" for reason in (*released.advice, *cutoff.advice)]
        notes += _without_dates(frame, released, cutoff, lost)
        mean = "imputed the mean contamination of the benchmark for"
        done = "dropped" if unknown == "drop" else mean
        notes.append(f"{done} {lost.sum():,} of {len(frame):,} responses with unknown dates")
    if unknown == "impute":
        means = pd.Series(values).groupby(frame["benchmark"].to_numpy()).transform("mean")
        values = np.where(lost, means.fillna(np.nanmean(values)), values)
    found = frame.assign(contamination=values)[keep]
    margin = np.timedelta64(dates.margin, "D")
    clean_models = _preceding(found, first[keep], latest[keep], margin)
    is_clean = found["model"].isin(clean_models).to_numpy() | declared[keep]
    others = set(found["model"][declared[keep]]) - clean_models
    days = f" by more than {_days_of(dates.margin)}" if dates.margin else ""
    notes.append(
        f"contamination from dates: 1 in {(found['contamination'] == 1).sum():,} of {len(found):,} "
        "responses (released on or before the model's cutoff); "
        f"{len(clean_models):,} of {found['model'].nunique():,} models are clean (the cutoff "
        f"precedes all items{days})" + (f"; {len(others):,} more declared clean" if others else "")
    )
    order = [*found.columns[:5], "contamination", "clean"]
    result = found.assign(clean=is_clean.astype(np.int64))
    order += [name for name in result.columns if name not in order]
    return result[order].reset_index(drop=True), notes


def _refuse_contradicted(
    frame: pd.DataFrame, source: str, bad: BoolArray, first: Days, latest: Days
) -> None:
    """Refuse models that are declared clean and whose own cutoff says that they were exposed."""
    if not bad.any():
        return
    faults = []
    for name in frame["model"][bad].unique():
        own = (frame["model"] == name).to_numpy()
        at = int((own & bad).argmax())
        problem = (
            f"model {format_value(name)} is declared clean, but contamination is above 0 in "
            f"{(own & bad).sum():,} of its {own.sum():,} responses: item "
            f"{format_value(frame['item'].iloc[at])} was released {first[at]}, its cutoff is "
            f"{latest[at]}"
        )
        faults.append(Fault(source, problem))
    advice = (
        "a model is clean or was exposed to items: do not declare it clean, or correct its dates"
    )
    raise DataError(faults, advice)


def _preceding(frame: pd.DataFrame, first: Days, latest: Days, margin: np.timedelta64) -> set[str]:
    """Return the models whose cutoff precedes all items of the benchmarks that they answered."""
    # Items that a model did not answer count too: it may have been exposed to the benchmark.
    benchmark = frame["benchmark"].to_numpy()
    days = pd.DataFrame({"first": first, "unknown": np.isnat(first)})
    begins = days.groupby(benchmark).agg({"first": "min", "unknown": "any"})
    pairs = frame[["model", "benchmark"]].assign(latest=latest)
    pairs = pairs.drop_duplicates(["model", "benchmark"]).join(begins, on="benchmark")
    start, end = (pairs[name].to_numpy().astype("datetime64[D]") for name in ("first", "latest"))
    ahead = (start > end + margin) & ~pairs["unknown"].to_numpy(dtype=bool)
    every = pd.Series(ahead).groupby(pairs["model"].to_numpy()).agg("all")
    return set(every.index[every])


class _FoundColumn(NamedTuple):
    """Dates of the responses: the earliest and the latest day that each may mean."""

    first: Days
    last: Days
    advice: list[str]  # why others are unknown
    notes: list[str]


def _by_key(frame: pd.DataFrame, source: str, given: Given, kind: str) -> _FoundColumn:
    """Return the dates of the responses from a column or another table."""
    if isinstance(given, str) and given in frame.columns:
        keys = list(_KEYS[kind])
        faults = FaultList(source, np.arange(1, len(frame) + 1))
        first, last = read_days(frame[given], given, faults)
        faults.raise_if_any(_how_to_write(frame[given]))
        notes = _on_several(frame, source, keys, given, first)
        group = frame.groupby(keys, sort=False).ngroup()
        first = pd.Series(first).groupby(group).transform("min").to_numpy()
        last = pd.Series(last).groupby(group).transform("max").to_numpy()
        return _FoundColumn(first.astype("datetime64[D]"), last.astype("datetime64[D]"), [], notes)
    if isinstance(given, pd.DataFrame):
        table, name, notes = to_plain_frame(given, kind), kind, []
    elif isinstance(given, str) and not os.path.exists(given):  # noqa: PTH110 (may be any text)
        raise UsageError(
            f"{kind}: '{printable(given, 60)}' is no column of {printable(source)} and no file; "
            f"its columns are {join_list(frame.columns, most=20)}"
        )
    else:
        raw, name = load_table(given), os.fspath(given)
        table, notes = raw.frame, list(raw.notes)
    names = [key for key in _KEYS[kind] if key in table.columns]
    faults = FaultList(name, np.arange(1, len(table) + 1))
    need = {kind: "add one: dates, " + _ALLOWED}
    need |= {"model": "add one: the model's name as in the responses"} if kind == "cutoff" else {}
    need_columns(table, need, (*_KEYS[kind], kind), faults)
    if kind == "released" and not names:
        faults.add("needs a column 'item', 'benchmark' or both")
    faults.raise_if_any()
    first, last = read_days(table[kind], kind, faults)
    cells = {key: read_names(table, key, faults) for key in names}
    keyed = pd.DataFrame(cells)
    validate_unique(keyed, names, faults)
    faults.raise_if_any(_how_to_write(table[kind]))
    index = pd.MultiIndex.from_frame(keyed)
    at = index.get_indexer(pd.MultiIndex.from_frame(frame[names]))
    advice = []
    for key in names:
        lost = set(frame[key][at < 0]) - set(keyed[key])
        others = set(keyed[key]) - set(frame[key])
        reasons = mismatch_reasons(key, lost, others, name)
        advice += reasons or without_partner(key, lost, others, name)
    notes = [*notes, *(f"{printable(name)}: {note}" for note in faults.notes)]
    if (at < 0).any() and (unused := len(keyed) - len(np.unique(at[at >= 0]))):
        notes.append(f"{unused:,} of {len(keyed):,} rows of {printable(name)} match no response")
    nothing = np.datetime64("NaT", "D")
    days = [np.where(at >= 0, ends[at], nothing) for ends in (first, last)]
    return _FoundColumn(days[0], days[1], advice, notes)


def read_days(cells: pd.Series, column: str, faults: FaultList) -> tuple[Days, Days]:
    """Return the first and the last day that each cell may mean; NaT where it is unknown."""
    codes, uniques = pd.factorize(cells.astype(object))
    spans = [_span(value) for value in uniques]
    bad = np.array([*(span is None for span in spans), False])[codes]
    faults.flag(bad, column, f"got {{}}, allowed is a date: {_ALLOWED}, or nothing", cells)
    nothing = (None, None)
    days = np.array([*(span or nothing for span in spans), nothing], dtype="datetime64[D]")
    return days[codes, 0], days[codes, 1]


def _span(value: Any) -> tuple[datetime.date | None, datetime.date | None] | None:
    """Return the days that a date may mean; None if it is no date, Nones if it is unknown."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None, None
    if isinstance(value, datetime.datetime):
        # Midnight of a zone is a day that got one.
        if value.tzinfo is not None and value.time() != datetime.time():
            value = value.astimezone(datetime.UTC)
        return value.date(), value.date()
    if isinstance(value, datetime.date):
        return value, value
    if isinstance(value, np.datetime64):
        return _span(pd.Timestamp(value))
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return None, None
        value = int(value) if float(value).is_integer() else str(value)
    text = str(value).strip()
    if text.casefold() in _UNKNOWN:
        return None, None
    try:
        return _span_of(text)
    except ValueError:  # no such day, month or year
        return None


def _span_of(text: str) -> tuple[datetime.date, datetime.date] | None:
    """Return the first and the last day that text may mean; None or a ValueError if it is none."""
    day: str | None = None
    if found := _QUARTER.fullmatch(text):
        year, last = int(found[1] or found[4]), 3 * int(found[2] or found[3])
        first = last - 2
    elif found := _WORDS.fullmatch(text):
        if found[1] and found[3]:
            return None
        year, day = int(found[4]), found[1] or found[3]
        first = last = _MONTHS.get(found[2].casefold(), 0)
    elif found := _ISO.fullmatch(text) or _PLAIN.fullmatch(text):
        year, day = int(found["y"]), found["d"]
        first, last = int(found["m"] or 1), int(found["m"] or 12)
    else:
        return None
    if not 1900 <= year <= 2199:
        return None
    begin = datetime.date(year, first, int(day or 1))
    if day:
        if found.groupdict().get("t"):
            if (time := _TIME.fullmatch(found["t"])) is None:
                return None
            begin += datetime.timedelta(days=_days_to_utc(time))
        return begin, begin
    return begin, datetime.date(year, last, calendar.monthrange(year, last)[1])


def _days_to_utc(time: re.Match[str]) -> int:
    """Return by how many days the day of a time and zone differs from that in UTC."""
    if time["sign"] is None:
        return 0
    minutes = 60 * int(time["h"]) + int(time["m"] or 0)
    if minutes == 0:  # a day that got a zone
        return 0
    ahead = 60 * int(time["zh"]) + int(time["zm"] or 0)
    return (minutes - (ahead if time["sign"] == "+" else -ahead)) // (24 * 60)


def _how_to_write(cells: pd.Series) -> str:
    texts = cells.astype(str)
    if texts.str.fullmatch(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}").any():
        return "day and month may be meant either way round: write the year first, 2023-09-30"
    if texts.str.fullmatch(r"[45]\d{4}(\.0)?").any():
        return "days counted from 1900 by a spreadsheet: format the column as dates, 2023-09-30"
    return ""


def _on_several(
    frame: pd.DataFrame, source: str, keys: list[str], column: str, first: Days
) -> list[str]:
    """Refuse several cutoffs of a model, and note release dates of an item that differ little."""
    days = pd.Series(first).groupby([frame[key].to_numpy() for key in keys]).agg(["min", "max"])
    gap = (days["max"] - days["min"]).dt.days
    several = gap[gap > 0]
    if several.empty:
        return []
    named = join_list([name[-1] if isinstance(name, tuple) else name for name in several.index], 5)
    what = "item" if "item" in keys else "model"
    if what == "model" or several.max() > _MONTH:
        problem = f"several dates of one {what}: {named}; give one in all of its rows"
        raise DataError([Fault(source, problem, column=column)])
    return [
        f"{len(several):,} of {len(days):,} items have several release dates, up to "
        f"{_days_of(int(several.max()))} apart: {named}; the earliest counts"
    ]


def _days_of(number: int) -> str:
    return f"{number} day" if number == 1 else f"{number} days"


def _without_dates(
    frame: pd.DataFrame, released: _FoundColumn, cutoff: _FoundColumn, lost: BoolArray
) -> list[str]:
    """Return of which models and items a date is unknown, by name."""
    problems = []
    no_cutoff = np.isnat(cutoff.last) & lost
    if no_cutoff.any():
        models = frame["model"][no_cutoff].unique()
        problem = f"no cutoff of {len(models):,} of {frame['model'].nunique():,} models"
        problems.append(f"{problem}: {join_list(models)}")
    undated = np.isnat(released.first) & lost
    for name, rows in frame[undated].groupby("benchmark", sort=False):
        items = rows["item"].unique()
        total = frame.loc[frame["benchmark"] == name, "item"].nunique()
        problem = f"no release date of {len(items):,} of {total:,} items of {format_value(name)}"
        problems.append(f"{problem}: {join_list(items, 5)}")
    return problems


def _compare(
    frame: pd.DataFrame,
    source: str,
    values: FloatArray,
    released: _FoundColumn,
    cutoff: _FoundColumn,
) -> None:
    """Refuse a contamination that is given and differs from that of the dates."""
    given = frame["contamination"].to_numpy()
    differs = ~np.isnan(values) & (given != values)
    if not differs.any():
        return
    at = int(differs.argmax())
    row = frame.iloc[at]
    problem = (
        f"differs from the dates in {differs.sum():,} of {len(frame):,} responses, such as "
        f"{format_value(row['item'])} of {format_value(row['model'])}: {given[at]:g} is given, "
        f"released {released.first[at]}, cutoff {cutoff.last[at]}"
    )
    advice = "remove the column, or leave the dates away"
    raise DataError([Fault(source, problem, column="contamination")], advice)
