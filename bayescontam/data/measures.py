"""Numbers as users write them: contamination and its scales, guessing, commas, thousands."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.tables import load_table
from bayescontam.data.validation import (
    MISSING,
    NUMBER,
    WHOLE,
    FaultList,
    check_choice,
    read_numbers,
    renamed_columns,
)
from bayescontam.errors import DataError, Fault, UsageError

MEASURES = {"contamination": 1.0, "contamination_sd": None, "p_duplicate": 1.0}
MEASURES |= {"p_duplicate_sd": None}
"""Number columns about contamination, with their highest value; the lowest is 0."""

_SHARED = re.compile(r"shared_[1-9]\d*")
"""Names of columns by which uncertain contaminations move together, see `read_imputations`."""

type Scale = Literal["share", "percent", "count"]
"""What contamination is given as: see `read_measures`."""
# Extra columns become numbers only if nothing is lost: 007 and 20-digit ids stay text.
_DECIMAL = re.compile(r"[+-]?(?=\.?\d)(0|[1-9]\d{0,17})?(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_WITHOUT = re.compile(r"[+-]?\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,]\d{3})+", re.ASCII)
_NAMES = ("model", "benchmark", "item")
_COUNTS = ("correct", "n_correct", "n_trials")
_MOST_WORDS = 4  # words that a message gives numbers to


def shared_columns(names: Iterable[Any]) -> list[str]:
    """Return the columns by which uncertain contaminations move together.

    >>> shared_columns(["item", "shared_1", "shared", "shared_2"])
    ['shared_1', 'shared_2']
    """
    return [name for name in map(str, names) if _SHARED.fullmatch(name)]


def with_point(cell: Any) -> Any:
    """Return a text such as 0,5 as 0.5, and any other cell as it is."""
    text = cell.strip() if isinstance(cell, str) else ""
    return text.replace(",", ".") if _COMMA.fullmatch(text) else cell


def read_measures(
    frame: pd.DataFrame, faults: FaultList, advice: str, scale: Scale = "share"
) -> dict[str, FloatArray]:
    """Return the columns of `MEASURES` that `frame` has, as shares."""
    check_choice("contamination_scale", scale, Scale)
    if scale != "share" and "contamination" not in frame.columns:
        raise UsageError(
            f"contamination_scale={scale!r}: {printable(faults.source)} has no column "
            f"'contamination'; the columns are {join_list(frame.columns)}"
        )
    found = {}
    for column in (name for name in MEASURES if name in frame.columns):
        own = scale if column.startswith("contamination") else "share"
        found[column] = _read_measure(frame[column], MEASURES[column], own, advice, faults)
    if scale == "percent":
        for column in found.keys() & {"contamination", "contamination_sd"}:
            found[column] = found[column] / 100
        faults.notes.append("contamination is per cent: divided by 100")
    elif scale == "count":
        if "contamination_sd" in found:
            faults.add("is of no use beside counts; remove it", "contamination_sd")
        largest = np.nanmax(found["contamination"], initial=0)
        found["contamination"] = np.log1p(found["contamination"]) / (np.log1p(largest) or 1.0)
        faults.notes.append(
            f"contamination is a count n: read as log(1 + n) / log(1 + {largest:g}), where "
            f"{largest:g} is the largest of {faults.source}"
        )
    return found


def _read_measure(
    cells: pd.Series, highest: float | None, scale: Scale, advice: str, faults: FaultList
) -> FloatArray:
    """Return a column of numbers as they are given, NaN where one is faulty."""
    column = str(cells.name)
    plain = cells
    if scale == "percent":
        plain = cells.map(lambda c: c.strip().removesuffix("%") if isinstance(c, str) else c)
    values = read_numbers(plain)
    if scale == "count":
        values = refuse_grouped({column: cells}, {column: values}, faults)[column]
    absent = np.isnan(values)
    faults.flag(absent, column, f"missing value; {advice}")
    if scale == "count":
        fits = (values >= 0) & (values == np.floor(values)) & np.isfinite(values)
        allowed = "a whole number, 0 or more"
    elif highest is None:
        fits, allowed = (values >= 0) & np.isfinite(values), "a number 0 or more"
    else:
        highest = 100 * highest if scale == "percent" else highest
        fits, allowed = (values >= 0) & (values <= highest), f"a number from 0 to {highest:g}"
    bad = ~fits & ~absent
    faults.flag(bad & (values != -np.inf), column, f"got {{}}, allowed is {allowed}", cells)
    if bad.any() and scale == "share" and highest is not None:
        _advise(column, cells[bad], values[bad], faults)
    return np.where(bad, np.nan, values)


def refuse_grouped(
    columns: Mapping[str, pd.Series], values: Mapping[str, FloatArray], faults: FaultList
) -> dict[str, FloatArray]:
    """Return counts with -infinity, and a fault, where digits are grouped in thousands."""
    texts = {
        name: [cell.strip() if isinstance(cell, str) else "" for cell in cells.astype(object)]
        for name, cells in columns.items()
        if not pd.api.types.is_numeric_dtype(cells.dtype)
    }
    distinct = set().union(*texts.values())
    # 1.000 is a thousand beside 3, but may be 1 beside 3.000.
    plain = any("." not in text and NUMBER.fullmatch(text) for text in distinct)
    grouped = {text for text in distinct if _GROUPED.fullmatch(text) and (plain or "," in text)}
    found = dict(values)
    for name, own in texts.items():
        bad = np.array([text in grouped for text in own], dtype=bool)
        problem = "got {}, which may be in thousands; write whole numbers plainly, such as 1000"
        faults.flag(bad, name, problem, columns[name])
        found[name] = np.where(bad, -np.inf, values[name])
    return found


def _advise(column: str, cells: pd.Series, values: FloatArray, faults: FaultList) -> None:
    """Say what the values outside of the scale look like, and what to do about them."""
    texts = [str(cell).strip() for cell in cells.drop_duplicates().iloc[:1000]]
    finite = values[np.isfinite(values)]
    if any(_COMMA.fullmatch(text) for text in texts):
        faults.advise(f"{column}: 0,9 is a decimal comma among other numbers: write 0.9")
    scaled = column == "contamination"  # no other column has scales
    if any(text.endswith("%") for text in texts):
        choice = f"{_how('percent')}, or " if scaled else ""
        faults.advise(f"{column}: per cent: {choice}divide by 100")
    elif (finite < 0).any():
        faults.advise(
            f"{column}: negative values, such as log ratios or weights, are no dose: turn them into"
            " numbers from 0 (surely clean) to 1 (surely contaminated) first"
        )
    elif (finite > 1).any() and not scaled:
        faults.advise(f"{column}: where numbers are per cent, divide by 100")
    elif (finite > 1).any():
        faults.advise(
            f"{column}: counts need a scale: {_how('count')} for log(1 + n) / log(1 + largest), "
            f"or 1 wherever n is above 0; per cent: {_how('percent')}"
        )
    if any(text[:1].isalpha() for text in texts):
        faults.advise(
            f"{column}: words need numbers of your choice, from 0 (surely clean) to 1 (surely "
            "contaminated); in pandas: "
            f"table['{column}'] = table['{column}'].map({_numbered(texts)}), with your numbers"
        )


def _numbered(texts: Sequence[str]) -> str:
    """Return a dict of words, from 0 to 1, as Python spells it; the first alone of many words.

    >>> _numbered(["clean", "leaked", "0.5"])
    "{'clean': 0, 'leaked': 1}"
    """
    words = [text for text in texts if text[:1].isalpha()]
    if len(words) > _MOST_WORDS:
        return f"{{{words[0]!r}: 0, …}}"
    steps = max(len(words) - 1, 1)
    return "{" + ", ".join(f"{word!r}: {k / steps:.3g}" for k, word in enumerate(words)) + "}"


def _how(scale: str) -> str:
    return f"--contamination-scale {scale} (contamination_scale='{scale}')"


def cast_column(cells: pd.Series) -> pd.Series:
    """Return a column of text as true/false or numbers if every cell allows it, else as is."""
    codes, uniques = pd.factorize(cells)
    texts = [str(text) for text in uniques]
    if all(text.casefold() in {"true", "false"} for text in texts):
        values: Any = np.array([text.casefold() == "true" for text in texts])
    elif all(WHOLE.fullmatch(text) for text in texts):
        values = np.array([int(text) for text in texts], dtype=np.int64)
    elif all(_DECIMAL.fullmatch(text) for text in texts):
        values = np.array([float(text) for text in texts])
        if not np.isfinite(values).all():
            return cells
    else:
        return cells
    if len(np.unique(values)) < len(texts):
        return cells  # "1.1" and "1.10" are two labels, though one number
    return pd.Series(values[codes], index=cells.index, name=cells.name)


def load_measured(
    path: str | os.PathLike[str],
    keep: Collection[str],
    scale: Scale,
    columns: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, str, list[str]]:
    """Return a table of a file, whose extra columns have types, its name, and notes."""
    table, source = load_table(path), os.fspath(path)
    frame = renamed_columns(table.frame, columns or {}, source)
    delimiter, notes = table.delimiter, list(table.notes)
    if not delimiter:
        return frame, source, notes
    counts = (*_COUNTS, "contamination") if scale == "count" else _COUNTS
    # About contamination a comma is a decimal one wherever every cell allows it: from 0 to 1,
    # nothing else can be meant. Elsewhere it is where semicolons or tabs separate columns.
    tried = [
        name
        for name in frame.columns
        if name not in counts and (name in MEASURES or (delimiter != "," and name not in _NAMES))
    ]
    commas = {name: found for name in tried if (found := _pointed(frame[name])) is not None}
    if commas:
        faults = FaultList(source, np.arange(1, len(frame) + 1))
        for name in (name for name in counts if name in frame.columns):
            points = frame[name].str.contains(".", regex=False).to_numpy(dtype=bool)
            problem = "got {}, a point in a table with decimal commas; write whole numbers plainly"
            faults.flag(points, name, problem, frame[name])
        faults.raise_if_any()
        read = f"decimal commas in {join_list(commas)}: 0,5 was read as 0.5"
        notes.append(f"{printable(source)}: {read}")
        frame = frame.assign(**commas)
    extras = {name: cast_column(frame[name]) for name in frame.columns if name not in keep}
    return frame.assign(**extras), source, notes


def _pointed(cells: pd.Series) -> pd.Series | None:
    """Return a column with points for decimal commas; None if it has none, or anything else."""
    codes, uniques = pd.factorize(cells)
    texts = [str(text).strip() for text in uniques]
    given = [text for text in texts if text.casefold() not in MISSING]
    some = [text for text in given if _COMMA.fullmatch(text)]
    if not some or not all(_COMMA.fullmatch(text) or _WITHOUT.fullmatch(text) for text in given):
        return None
    if cells.name not in MEASURES and all(_THOUSANDS.fullmatch(text) for text in some):
        return None  # 1,234 may be a thousand
    pointed = pd.Series([text.replace(",", ".") for text in texts], dtype="str")
    return pointed.take(codes).set_axis(cells.index)


GUESS_COLUMNS = ("guess", "n_options")
"""Where the accuracy of blind guessing may be, the first that is there counts."""
_GUESSES = {
    "guess": "from 0 up to, but not, 1",
    "n_options": "2 or more, or 0 where an item has no options to choose from",
}
"""Numbers that each may hold."""


def guess_column(frame: pd.DataFrame) -> str | None:
    """Return which column of responses holds the accuracy of blind guessing, if any does."""
    return next((name for name in GUESS_COLUMNS if name in frame), None)


def unused_note(frame: pd.DataFrame, guess: object) -> list[str]:
    """Return a note where a model spec, whose ``likelihood.guess`` is given, ignores the column."""
    column = guess_column(frame)
    if column is None or guess != 0:
        return []
    return [
        f"the table's column '{column}' is not used: the model spec takes blind guessing as"
        ' impossible; for guessing by item set likelihood.guess = "column" in a copy of it'
    ]


def read_guess(frame: pd.DataFrame, source: str) -> FloatArray:
    """Return the accuracy of blind guessing of each row's item; dims (row,)."""
    column = guess_column(frame)
    if column is None:
        problem = "the model spec takes guessing from a column 'guess', which is not there"
        advice = (
            "Add it (accuracy of blind guessing of the row's item, 0 where it cannot be guessed),"
            " or a column 'n_options' (between how many an answer is chosen), or set"
            " likelihood.guess in a copy of the model spec."
        )
        raise DataError([Fault(source, problem)], advice)
    values = read_numbers(frame[column])
    absent = np.isnan(values)
    if column == "guess":
        allowed = (values >= 0) & (values < 1)
    else:
        allowed = (values == 0) | (
            (values >= 2) & np.isfinite(values) & (np.floor(values) == values)
        )
    spread = pd.Series(np.where(allowed, values, np.nan)).groupby(
        [frame["benchmark"].to_numpy(), frame["item"].to_numpy()], sort=False
    )
    mixed = (spread.transform("max") != spread.transform("min")).to_numpy() & allowed
    problems = {
        f"items without a value: {{}}; a number {_GUESSES[column]} is needed": absent,
        f"items with a value that is not allowed: {{}}; allowed is a number {_GUESSES[column]}": (
            ~allowed & ~absent
        ),
        "items with more than one value: {}; an item has the same for all models": mixed,
    }
    faults = [
        Fault(source, problem.format(_guessed_items(frame, rows, column)), column=column)
        for problem, rows in problems.items()
        if rows.any()
    ]
    if faults:
        raise DataError(faults)
    if column == "guess":
        return values
    return np.divide(1.0, values, out=np.zeros(len(values)), where=values > 0)


def _guessed_items(frame: pd.DataFrame, rows: BoolArray, column: str) -> str:
    """Name the items of some rows, each once, with what their cells hold."""
    several = frame["benchmark"].nunique() > 1
    names: dict[str, None] = {}
    for benchmark, item, cell in frame.loc[rows, ["benchmark", "item", column]].to_numpy():
        shown = "" if pd.isna(cell) or not str(cell).strip() else f" ({cell})"
        names[f"{benchmark}/{item}{shown}" if several else f"{item}{shown}"] = None
    return join_list(names)
