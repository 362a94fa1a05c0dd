"""Check tables: columns, types, names and repeats, every fault with its row."""

import difflib
import numbers
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.errors import DataError, Fault, UsageError

MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
"""Cells that mean "no number here", in any case. Never applied to names."""

MEASURES = {"contamination": 1.0, "contamination_sd": None, "p_duplicate": 1.0}
MEASURES |= {"p_duplicate_sd": None}
"""Number columns about contamination, with their highest value; the lowest is 0."""

_MOST_FAULTS = 100_000
"""Rows with one fault that are listed singly; a large table may be wrong in every row."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Extra columns become numbers only if nothing is lost: 007 and 20-digit ids stay text.
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_AS_FLOAT = re.compile(r"(0|[1-9]\d{0,17})\.0+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?=\.?\d)(0|[1-9]\d{0,17})?(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_WITHOUT = re.compile(r"[+-]?\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,]\d{3})+", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}

type Scale = Literal["share", "percent", "count"]
"""What contamination is given as: see `read_measures`."""
SCALES: tuple[Scale, ...] = ("share", "percent", "count")
_LABEL = re.compile(r"\d+\.\d+", re.ASCII)
_TWINS = {
    False: "got {}, and elsewhere the same without blanks at its ends; write both alike",
    True: "got {}, and elsewhere the same as a whole number; write both alike",
}
_NAMES = ("model", "benchmark", "item")
_COUNTS = ("correct", "n_correct", "n_trials")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


class FaultList:
    """Faults of one table, collected so that all are reported at once."""

    def __init__(self, source: str, rows: IntArray) -> None:
        self.source = source
        self.rows = rows
        self.notes: list[str] = []
        """What was changed on the way in."""
        self._faults: list[Fault] = []
        self._advice: list[str] = []

    def add(self, problem: str, column: str | None = None) -> None:
        """Add a fault of the whole table or of one column."""
        self._faults.append(Fault(self.source, problem, column=column))

    def flag(self, bad: BoolArray, column: str | None, problem: str, cells: Any = None) -> None:
        """Add a fault for each row in `bad`; "{}" in `problem` becomes the row's cell."""
        at = np.flatnonzero(bad)
        if len(at) > _MOST_FAULTS:
            self.advise(f"of {len(at):,} rows with one fault, the first {_MOST_FAULTS:,} count")
            at = at[:_MOST_FAULTS]
        rows = self.rows[at].tolist()
        if cells is None:
            self._faults += [Fault(self.source, problem, row, column) for row in rows]
            return
        values = map(format_value, _taken(cells, at))
        self._faults += [
            Fault(self.source, problem.replace("{}", value, 1), row, column, problem, value)
            for row, value in zip(rows, values, strict=True)
        ]

    def advise(self, advice: str) -> None:
        """Add a line that stands once below all faults."""
        if advice not in self._advice:
            self._advice.append(advice)

    def raise_if_any(self, advice: str = "") -> None:
        """Raise one `DataError` with all faults: those of columns first, then by row."""
        if self._faults:
            advice = "\n".join([*self._advice, *([advice] if advice else [])])
            raise DataError(sorted(self._faults, key=lambda fault: fault.row or 0), advice)


def _taken(cells: Any, at: IntArray) -> Any:
    if isinstance(cells, pd.Series):
        return cells.iloc[at].astype(object)
    return np.asarray(cells, dtype=object)[at]


def format_value(value: Any) -> str:
    """Return a cell as messages show it: text in quotes, "nothing" if missing."""
    if isinstance(value, str):
        return f"'{printable(value, 60)}'"
    return "nothing" if _is_missing(value) else printable(str(value), 60)


def check_headers(labels: Sequence[Any], source: str) -> None:
    """Raise a `DataError` unless column names are text, not blank and not repeated."""
    faults = []
    seen: set[Any] = set()
    for position, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            faults.append(
                f"column {position} is named {printable(repr(label), 60)}; names are text"
            )
        elif not label.strip():
            faults.append(
                f"column {position} has no name; name it, or remove it "
                "(pandas writes such a column unless given index=False)"
            )
        elif label in seen:
            faults.append(f"two columns are named {format_value(label)}; keep one, or rename it")
        seen.add(label)
    if faults:
        raise DataError([Fault(source, problem) for problem in faults])


def to_plain_frame(frame: pd.DataFrame, source: str) -> pd.DataFrame:
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
            faults.add(f"no such column; {hint or advice}", name)
            faults.advise(f"the columns are {join_list(frame.columns, most=12)}")


def _did_you_mean(name: str, unknown: Sequence[str]) -> str:
    other = closest_name(name, unknown)
    return f"did you mean {format_value(other)}? Rename it to '{name}'" if other else ""


def closest_name(name: str, others: Sequence[str]) -> str:
    """Return what `name` may have been meant by, case and outer blanks aside; else ""."""
    by_plain = {other.strip().casefold(): other for other in others}
    close = difflib.get_close_matches(name, by_plain, n=1, cutoff=0.75)
    return by_plain[close[0]] if close else ""


def read_names(
    frame: pd.DataFrame,
    column: str,
    faults: FaultList,
    *,
    blank_ok: bool = False,
    exact: bool = False,
) -> pd.Series:
    """Return a column of names as text, unchanged; NaN (and a fault) where it is no name.

    Whole numbers that were stored as floats, as pandas does where one is missing, are names as
    whole numbers, and noted; in text only if one stands beside its whole number (7.0 and 7), and
    all names are such; never if `exact`. With `blank_ok`, blank cells are no fault and become "".
    """
    cells = frame[column]
    codes, uniques = _distinct(cells)
    names = np.array([*(_name(cell) for cell in uniques), None], dtype=object)
    blank = np.array([*(_is_blank(cell) for cell in uniques), True])[codes]
    if whole := {} if exact else _whole_names(uniques):
        names = np.array([whole.get(name, name) for name in names], dtype=object)
    result = pd.Series(names, dtype="str").take(codes).reset_index(drop=True)
    bad = result.isna().to_numpy()
    if blank_ok:
        result[blank] = ""
    else:
        faults.flag(blank, column, "blank name {}; every row needs one", cells)
    floats = np.array(
        [*(isinstance(cell, float | np.floating | Decimal) for cell in uniques), False]
    )[codes]
    if (floats & ~bad).any():
        example = cells.iloc[int((floats & ~bad).argmax())]
        faults.notes.append(
            f"{faults.source}: {column}: whole numbers stored as floats: {example} was read as "
            f"the name '{int(example)}'"
        )
    for text, name in list(whole.items())[:1]:
        read = f"whole numbers stored as floats beside others: {text} was read as the name '{name}'"
        faults.notes.append(f"{faults.source}: {column}: {read}")
        faults.advise(f"{column}: {read}")
    odd = bad & ~blank
    faults.flag(odd & floats, column, "got {}, a number with decimals, which is no name", cells)
    problem = (
        "got {}, which is no name; allowed is text in valid Unicode that does not end with a null"
        " character, or a whole number"
    )
    faults.flag(odd & ~floats, column, problem, cells)
    return result


def _whole_names(cells: list[Any]) -> dict[str, str]:
    """Return whole numbers for the texts that are such as floats, if both are the same names."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    found = {text: text[: text.index(".")] for text in texts if _AS_FLOAT.fullmatch(text)}
    if not found or set(found.values()).isdisjoint(map(str, cells)):
        return {}
    # Beside other names, such as 1.1, 1.0 may be a label of its own.
    return found if all(text in found or _WHOLE.fullmatch(text) for text in texts) else {}


def _distinct(cells: pd.Series) -> tuple[IntArray, list[Any]]:
    """Return for each cell its place among the distinct ones (-1: missing), and these."""
    if cells.dtype == object:  # where 1 and True, or 7 and 7.0, would be one
        found: dict[Any, int] = {}
        try:
            places = [found.setdefault((type(cell), cell), len(found)) for cell in cells]
        except TypeError:  # lists and objects of JSON have no hash
            return np.arange(len(cells)), list(cells)
        return np.array(places, dtype=np.int64), [cell for _, cell in found]
    codes, uniques = pd.factorize(cells)
    return codes.astype(np.int64), list(uniques.astype(object))


def flag_duplicate_columns(names: pd.Series, column: str, faults: FaultList) -> None:
    """Add a fault for each name that is another one with blanks at its ends, or as a float."""
    known = names.dropna().drop_duplicates()
    floats = {name for name in known if _AS_FLOAT.fullmatch(name)}
    # Beside 1.1, 1.0 is a label of its own.
    if any(_LABEL.fullmatch(name) and name not in floats for name in known):
        floats = set()
    plain = {name: name[: name.index(".")] if name in floats else name.strip() for name in known}
    count = Counter(plain.values())
    for floating, problem in _TWINS.items():
        bad = {
            name
            for name, short in plain.items()
            if count[short] > 1 and name != short and (name in floats) == floating
        }
        faults.flag(names.isin(bad).to_numpy(), column, problem, names.to_numpy())


def _name(cell: Any) -> str | None:
    if isinstance(cell, str):
        if cell.endswith("\0"):  # arrays of text drop it, so that two names would be one
            return None
        return cell if cell.strip() and (cell.isascii() or _is_unicode(cell)) else None
    if isinstance(cell, numbers.Integral) and not isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float | np.floating | Decimal) and _is_whole(float(cell)):
        return str(int(cell))
    return None


def _is_whole(value: float) -> bool:
    # Beyond 2**53, whole numbers have lost digits as floats.
    return value.is_integer() and abs(value) <= 2**53


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


def read_numbers(cells: pd.Series, *, words: bool = False) -> FloatArray:
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


def with_point(cell: Any) -> Any:
    """Return a text such as 0,5 as 0.5, and any other cell as it is."""
    text = cell.strip() if isinstance(cell, str) else ""
    return text.replace(",", ".") if _COMMA.fullmatch(text) else cell


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


def read_measures(
    frame: pd.DataFrame, faults: FaultList, advice: str, scale: Scale = "share"
) -> dict[str, FloatArray]:
    """Return the columns of `MEASURES` that `frame` has, as shares."""
    if scale not in SCALES:
        raise UsageError(f"contamination_scale={scale!r}: allowed are {join_list(SCALES)}")
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
    values = read_numbers(cells.map(_without_sign) if scale == "percent" else cells)
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
    plain = any("." not in text and _NUMBER.fullmatch(text) for text in distinct)
    grouped = {text for text in distinct if _GROUPED.fullmatch(text) and (plain or "," in text)}
    found = dict(values)
    for name, own in texts.items():
        bad = np.array([text in grouped for text in own], dtype=bool)
        problem = "got {}, which may be in thousands; write whole numbers plainly, such as 1000"
        faults.flag(bad, name, problem, columns[name])
        found[name] = np.where(bad, -np.inf, values[name])
    return found


def _without_sign(cell: Any) -> Any:
    return cell.strip().removesuffix("%") if isinstance(cell, str) else cell


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
            f"table['{column}'] = table['{column}'].map({{{texts[0]!r}: 0, …}})"
        )


def _how(scale: str) -> str:
    return f"--contamination-scale {scale} (contamination_scale='{scale}')"


def cast_column(cells: pd.Series) -> pd.Series:
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


def cast_columns(
    frame: pd.DataFrame,
    delimiter: str,
    source: str,
    keep: Collection[str],
    scale: Scale = "share",
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table as it was read from a file with types of its extra columns, and notes."""
    if not delimiter:
        return frame, []
    frame, notes = with_decimal_points(frame, delimiter, source, scale)
    extras = {name: cast_column(frame[name]) for name in frame.columns if name not in keep}
    return frame.assign(**extras), notes


def with_decimal_points(
    frame: pd.DataFrame, delimiter: str, source: str, scale: Scale = "share"
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table read as text with decimal commas turned into points, and notes.

    Numbers about contamination are read so wherever every cell allows it: from 0 to 1, nothing
    else can be meant; counts never are. Columns of other names are, where semicolons or tabs
    separate columns.
    """
    counts = (*_COUNTS, "contamination") if scale == "count" else _COUNTS
    tried = [
        name
        for name in frame.columns
        if name not in counts and (name in MEASURES or (delimiter != "," and name not in _NAMES))
    ]
    commas = {name: found for name in tried if (found := _pointed(frame[name])) is not None}
    if not commas:
        return frame, []
    faults = FaultList(source, np.arange(1, len(frame) + 1))
    for name in counts:
        if name in frame.columns:
            points = frame[name].str.contains(".", regex=False).to_numpy(dtype=bool)
            problem = "got {}, a point in a table with decimal commas; write whole numbers plainly"
            faults.flag(points, name, problem, frame[name])
    faults.raise_if_any()
    note = f"{printable(source)}: decimal commas in {join_list(commas)}: 0,5 was read as 0.5"
    return frame.assign(**commas), [note]


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


def check_level(level: float, name: str = "level") -> None:
    """Refuse a probability that is none of an interval worth reporting."""
    if not 0.5 <= level < 1:
        raise UsageError(f"{name}: got {level}; allowed is 0.5 up to but not 1")


def filter_rows(frame: pd.DataFrame, where: str, numeric: Mapping[str, bool]) -> BoolArray:
    """Return which rows a pandas query expression keeps.

    `numeric` names the columns to compare as numbers, and whether they may hold true and false.
    """
    columns = f"the columns are {join_list(frame.columns, most=20)}"
    said = f"where '{printable(where)}'"
    if "@" in _QUOTED.sub("", where):
        raise UsageError(f"{said}: '@' is not allowed; {columns}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an unknown escape in a pattern
        try:
            view = _queryable(frame, numeric)
            answer = view.eval(where, engine="python", local_dict={}, global_dict={})
        except MemoryError:
            raise
        # An expression may fail in any other way that Python can.
        except Exception as error:
            reason = printable(str(error) or type(error).__name__)
            raise UsageError(f"{said}: {reason}; {columns}") from error
    if not isinstance(answer, pd.Series) or not pd.api.types.is_bool_dtype(answer.dtype):
        raise UsageError(
            f"{said}: does not give true or false for each row; "
            f"write a comparison, such as \"benchmark == 'mmlu'\"; {columns}"
        )
    return answer.to_numpy(dtype=bool, na_value=False)


def _queryable(frame: pd.DataFrame, numeric: Mapping[str, bool]) -> pd.DataFrame:
    view = frame.infer_objects()
    for column in (name for name in numeric if name in frame.columns):
        values = read_numbers(frame[column], words=numeric[column])
        if not np.isinf(values).any():
            view[column] = values
    return view


def first_of_group(frame: pd.DataFrame, keys: list[str], counted: BoolArray) -> IntArray:
    """Return for each row the position of the first one with the same keys.

    Rows outside `counted`, or with a missing key, stand for themselves.
    """
    counted = counted & frame[keys].notna().all(axis=1).to_numpy()
    first = np.arange(len(frame))
    at = np.flatnonzero(counted)
    if len(at):
        group = frame.loc[counted, keys].groupby(keys, sort=False).ngroup().to_numpy()
        first[at] = at[np.unique(group, return_index=True)[1][group]]
    return first


def validate_unique(first: IntArray, keys: list[str], advice: str, faults: FaultList) -> None:
    """Add a fault for each row that is not the first one with its keys."""
    problem = f"same {', '.join(keys)} as row {{}}; {advice}"
    faults.flag(first != np.arange(len(first)), keys[-1], problem, faults.rows[first])


def validate_constant(
    frame: pd.DataFrame, columns: list[str], first: IntArray, faults: FaultList
) -> None:
    """Add a fault for each row whose `columns` differ from those of the first with its keys."""
    at = np.flatnonzero(first != np.arange(len(first)))
    for column in columns:
        codes = _codes(frame[column])
        differs = np.zeros(len(frame), dtype=bool)
        differs[at] = codes[at] != codes[first[at]]
        problem = "differs from row {}, with which it would be summed; make both alike, or "
        faults.flag(differs, column, problem + "remove the column", faults.rows[first])


def _codes(cells: pd.Series) -> IntArray:
    try:
        return pd.factorize(cells)[0]
    except TypeError:  # lists and objects of JSON have no hash
        return pd.factorize(cells.map(repr))[0]


def sum_trials(frame: pd.DataFrame, first: IntArray, counts: list[str]) -> pd.DataFrame:
    """Return one row for each first row, with `counts` summed over its repeats."""
    keep = np.flatnonzero(first == np.arange(len(first)))
    result = frame.iloc[keep].reset_index(drop=True)
    for name in counts:
        totals = np.zeros(len(frame), dtype=np.int64)
        np.add.at(totals, first, frame[name].to_numpy())
        result[name] = totals[keep]
    return result


def in_order(frame: pd.DataFrame) -> IntArray:
    """Return the order by benchmark, model and item, each by its first appearance."""
    benchmark = pd.factorize(frame["benchmark"])[0]
    model = pd.factorize(frame["model"])[0]
    item = frame.groupby(["benchmark", "item"], sort=False).ngroup().to_numpy()
    return np.lexsort((item, model, benchmark))
