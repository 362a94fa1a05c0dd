"""What all tables share: how names and numbers are read, and faults collected."""

import difflib
import numbers
import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.names import listed, visible

type Mask = NDArray[np.bool_]
type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
"""Cells that mean "no number here", in any case. Never applied to names."""

MEASURES = {"contamination": 1.0, "contamination_sd": None, "p_duplicate": 1.0}
MEASURES |= {"p_duplicate_sd": None}
"""Number columns about contamination, with their highest value; the lowest is 0."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Extra columns become numbers only if nothing is lost: 007 and 20-digit ids stay text.
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?=\.?\d)(0|[1-9]\d{0,17})?(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}


class FaultList:
    """Faults of one table, collected so that all are reported at once.

    Parameters
    ----------
    source : str
        File, or other name of the table.
    rows : array of int
        Data row, counted from 1, of every row of the table under test.
    """

    def __init__(self, source: str, rows: Ints) -> None:
        self.source = source
        self.rows = rows
        self._faults: list[Fault] = []

    def add(self, problem: str, column: str | None = None) -> None:
        """Add a fault of the whole table or of one column."""
        self._faults.append(Fault(self.source, problem, column=column))

    def flag(self, bad: Mask, column: str | None, problem: str, cells: Any = None) -> None:
        """Add a fault for each row in `bad`; "{}" in `problem` becomes the row's cell."""
        at = np.flatnonzero(bad)
        if cells is None:
            texts: Iterable[str] = [problem] * len(at)
        else:
            values = np.asarray(cells, dtype=object)[at]
            texts = [problem.replace("{}", shown(value), 1) for value in values]
        self._faults += [
            Fault(self.source, text, row, column)
            for row, text in zip(self.rows[at].tolist(), texts, strict=True)
        ]

    def raise_if_any(self, advice: str = "") -> None:
        """Raise one `DataError` with all faults: those of columns first, then by row."""
        if self._faults:
            raise DataError(sorted(self._faults, key=lambda fault: fault.row or 0), advice)


def shown(value: Any) -> str:
    """Return a cell as messages show it: text in quotes, "nothing" if missing."""
    if isinstance(value, str):
        return f"'{visible(value, 60)}'"
    return "nothing" if _is_missing(value) else visible(str(value), 60)


def check_headers(labels: Sequence[Any], source: str) -> None:
    """Raise a `DataError` unless column names are text, not blank and not repeated."""
    faults = []
    seen: set[Any] = set()
    for position, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            faults.append(f"column {position} is named {visible(repr(label), 60)}; names are text")
        elif not label.strip():
            faults.append(
                f"column {position} has no name; name it, or remove it "
                "(pandas writes such a column unless told index=False)"
            )
        elif label in seen:
            faults.append(f"two columns are named {shown(label)}; keep one, or rename it")
        seen.add(label)
    if faults:
        raise DataError([Fault(source, problem) for problem in faults])


def plain_frame(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return `frame` with rows numbered from 0, or say why it is no table."""
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{source}: got {type(frame).__name__}, need a pandas DataFrame")
    check_headers(list(frame.columns), source)
    if frame.empty:
        raise DataError([Fault(source, "no rows; a table needs at least one")])
    return frame.reset_index(drop=True)


def need_columns(
    frame: pd.DataFrame,
    needed: dict[str, str],
    known: Collection[str],
    faults: FaultList,
) -> None:
    """Add a fault for each column of `needed` (name to advice) that `frame` lacks."""
    unknown = [name for name in frame.columns if name not in known]
    for name, advice in needed.items():
        if name not in frame.columns:
            hint = _did_you_mean(name, unknown)
            faults.add(f"no such column; {hint or advice}; found {listed(frame.columns)}", name)


def _did_you_mean(name: str, unknown: Sequence[str]) -> str:
    other = near_name(name, unknown)
    return f"did you mean {shown(other)}? Rename it to '{name}'" if other else ""


def near_name(name: str, others: Sequence[str]) -> str:
    """Return what `name` may have been meant by, case and outer blanks aside; else ""."""
    by_plain = {other.strip().casefold(): other for other in others}
    close = difflib.get_close_matches(name, by_plain, n=1, cutoff=0.75)
    return by_plain[close[0]] if close else ""


def read_names(
    frame: pd.DataFrame, column: str, faults: FaultList, *, blank_ok: bool = False
) -> pd.Series:
    """Return a column of names as text, unchanged; NaN (and a fault) where it is no name.

    With `blank_ok`, blank cells are no fault and become "".
    """
    cells = frame[column].astype(object).to_numpy()
    names = [_name(cell) for cell in cells]
    bad = np.array([name is None for name in names])
    blank = np.array([_is_blank(cells[i]) if bad[i] else False for i in range(len(cells))])
    result = pd.Series(names, dtype="str")
    if blank_ok:
        result[blank] = ""
    else:
        faults.flag(blank, column, "blank name {}; every row needs one", cells)
    odd = (
        "got {}, which is no name; allowed is text in valid Unicode that does not end with a null"
        " character, or a whole number"
    )
    faults.flag(bad & ~blank, column, odd, cells)
    return result


def flag_twins(names: pd.Series, column: str, faults: FaultList) -> None:
    """Add a fault for each name that is another one with blanks at its ends."""
    plain = names.str.strip()
    known = names.dropna().drop_duplicates().str.strip()
    twins = plain.isin(known[known.duplicated()]) & (names != plain)
    problem = "got {}, and elsewhere the same without blanks at its ends; write both alike"
    faults.flag(twins.to_numpy(), column, problem, names.to_numpy())


def _name(cell: Any) -> str | None:
    if isinstance(cell, str):
        if cell.endswith("\0"):  # arrays of text drop it, so that two names would be one
            return None
        return cell if cell.strip() and (cell.isascii() or _is_unicode(cell)) else None
    if isinstance(cell, numbers.Integral) and not isinstance(cell, bool):
        return str(int(cell))
    return None


def _is_unicode(text: str) -> bool:
    # JSON can spell half a surrogate pair, which no file or hash can hold.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_blank(cell: Any) -> bool:
    return not cell.strip() if isinstance(cell, str) else _is_missing(cell)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, numbers.Real | Decimal):
        return bool(cell != cell)
    return cell is None or cell is pd.NA or cell is pd.NaT


def read_numbers(cells: pd.Series, *, words: bool = False) -> Floats:
    """Return a column as numbers: NaN where missing, infinity where it is no finite number.

    With `words`, true and false count as 1 and 0; otherwise they are no numbers.
    """
    kind = cells.dtype
    if pd.api.types.is_bool_dtype(kind) and not words:
        return np.full(len(cells), np.inf)
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.inf, values)
    known: dict[str, float] = {}
    objects = cells.astype(object).to_numpy()
    return np.array([_number(cell, words, known) for cell in objects], dtype=np.float64)


def _number(cell: Any, words: bool, known: dict[str, float]) -> float:
    if isinstance(cell, str):
        if cell not in known:
            known[cell] = _number_in(cell.strip(), words)
        return known[cell]
    if _is_missing(cell):
        return np.nan
    if isinstance(cell, bool | np.bool_):
        return float(cell) if words else np.inf
    if not isinstance(cell, numbers.Real | Decimal):
        return np.inf
    try:
        return _finite(float(cell))
    except (OverflowError, ValueError):
        return np.inf


def _number_in(text: str, words: bool) -> float:
    if text.casefold() in MISSING:
        return np.nan
    if words and text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    return _finite(float(text)) if _NUMBER.fullmatch(text) else np.inf


def _finite(value: float) -> float:
    return np.inf if np.isinf(value) else value


def read_measures(frame: pd.DataFrame, faults: FaultList, advice: str) -> dict[str, Floats]:
    """Return the columns of `MEASURES` that `frame` has; `advice` is for missing values."""
    found = {}
    for column in (name for name in MEASURES if name in frame.columns):
        highest = MEASURES[column]
        allowed = "0 or more" if highest is None else f"from 0 to {highest:g}"
        values = found[column] = read_numbers(frame[column])
        absent = np.isnan(values)
        faults.flag(absent, column, f"missing value; {advice}")
        fits = (values >= 0) & (values <= (np.finfo(float).max if highest is None else highest))
        problem = f"got {{}}, allowed is a number {allowed}"
        faults.flag(~fits & ~absent, column, problem, frame[column])
    return found


def typed(cells: pd.Series) -> pd.Series:
    """Return a column of text as true/false or numbers if every cell allows it, else as is."""
    codes, uniques = pd.factorize(cells)
    texts = [str(text) for text in uniques]
    if all(text.casefold() in _WORDS for text in texts):
        values: Any = np.array([text.casefold() == "true" for text in texts])
    elif all(_WHOLE.fullmatch(text) for text in texts):
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


def with_types(frame: pd.DataFrame, keep: Collection[str]) -> pd.DataFrame:
    """Return a table read as text with all columns but `keep` passed through `typed`."""
    extras = {name: typed(frame[name]) for name in frame.columns if name not in keep}
    return frame.assign(**extras)
