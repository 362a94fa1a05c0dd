"""Check tables: columns, types, names, repeats, and why names of two tables do not match."""

import difflib
import numbers
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAliasType, get_args

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.errors import DataError, Fault, UsageError

MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
"""Cells that mean "nothing here", in any case; never applied to models, benchmarks and items."""

_MOST_FAULTS = 100_000
"""Rows with one fault that are listed singly; a large table may be wrong in every row."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
YES_OR_NO = "0, 1, true, false, yes or no"
"""What `read_numbers` takes for 1 and 0 with `words`."""
_AS_FLOAT = re.compile(r"(0|[1-9]\d{0,17})\.0+", re.ASCII)
_LABEL = re.compile(r"\d+\.\d+", re.ASCII)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_TWINS = {
    False: "got {}, and elsewhere the same without blanks at its ends; write both alike",
    True: "got {}, and elsewhere the same as a whole number; write both alike",
}


class FaultList:
    """Faults of one table, collected so that all are reported at once."""

    def __init__(self, source: str, rows: IntArray) -> None:
        self.source = source
        self.rows = rows
        self.notes: list[str] = []  # what was changed on the way in
        self._faults: list[Fault] = []
        self._advice: list[str] = []

    def add(self, problem: str, column: str | None = None) -> None:
        """Add a fault of the whole table or of one column."""
        self._faults.append(Fault(self.source, problem, column=column))

    def flag(self, bad: BoolArray, column: str | None, problem: str, cells: Any = None) -> None:
        """Add a fault for each row in `bad`; "{}" in `problem` becomes the row's cell."""
        at = np.flatnonzero(bad)
        if not len(at):
            return
        if len(at) > _MOST_FAULTS:
            self.advise(f"of {len(at):,} rows with one fault, the first {_MOST_FAULTS:,} count")
            at = at[:_MOST_FAULTS]
        rows = self.rows[at].tolist()
        if cells is None:
            self._faults += [Fault(self.source, problem, row, column) for row in rows]
            return
        values = map(format_value, pd.Series(cells).iloc[at].astype(object))
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


def renamed_columns(
    table: pd.DataFrame, columns: Mapping[str, str], source: str, allowed: Collection[str] = ()
) -> pd.DataFrame:
    """Return a table in which the columns `columns` (name to column) have the names given."""
    if not columns:
        return table  # not a copy
    for name, column in columns.items():
        if allowed and name not in allowed:
            raise UsageError(f"columns: got {format_value(name)}; allowed are {join_list(allowed)}")
        if column not in table.columns:
            raise UsageError(
                f"{printable(source)}: no column {format_value(column)} for '{name}'; the columns"
                f" are {join_list(table.columns, most=12)}"
            )
    own = {name: table[column] for name, column in columns.items()}
    rest = [name for name in table.columns if name not in {*own, *columns.values()}]
    return table[rest].assign(**own)


_OTHER_NAMES = {
    "model": ("llm", "system", "model name", "model_name", "solver"),
    "benchmark": ("task", "dataset", "suite", "test"),
    "item": ("question", "question_id", "item_id", "item id", "problem", "doc_id", "id"),
    "correct": ("is_correct", "solved", "passed", "acc", "accuracy", "score"),
}
"""What columns are called elsewhere, the most certain first."""


def need_columns(
    frame: pd.DataFrame,
    needed: dict[str, str],
    known: Collection[str],
    faults: FaultList,
    *,
    renamed: bool = False,
) -> None:
    """Add a fault for each column of `needed` (name to advice) that `frame` lacks."""
    # With `renamed`, the table's reader has an option for columns of other names.
    unknown = [name for name in frame.columns if name not in known]
    for name, advice in needed.items():
        if name not in frame.columns:
            others = {other.strip().casefold(): other for other in unknown}
            alike = next((others[own] for own in _OTHER_NAMES.get(name, ()) if own in others), "")
            if other := closest_name(name, unknown) or alike:
                advice = f"did you mean {format_value(other)}? Rename it to '{name}'"
                if renamed:
                    advice += f", or give --column {name}={other} (columns)"
            faults.add(f"no such column; {advice}", name)
            faults.advise(f"the columns are {join_list(frame.columns, most=12)}")


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
    """Return a column of names as text, unchanged; NaN (and a fault) where it is no name."""
    # Whole numbers that were stored as floats, as pandas does where one is missing, are names as
    # whole numbers; in text only if one stands beside its whole number (7.0 and 7), and all names
    # are such; never if `exact`.
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
    if whole:
        text, name = next(iter(whole.items()))
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
    return found if all(text in found or WHOLE.fullmatch(text) for text in texts) else {}


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


def flag_near_duplicates(names: pd.Series, column: str, faults: FaultList) -> None:
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
        faults.flag(names.isin(bad).to_numpy(), column, problem, names)


def read_labels(cells: pd.Series, models: Collection[str] = ()) -> pd.Series:
    """Return an optional column as text without outer blanks, "" where there is none.

    Words for missing values, such as NA of R, are none, except names of `models`.
    """
    labels = cells.astype(object).where(cells.notna(), "").map(str).str.strip()
    return labels.where(~labels.str.casefold().isin(MISSING) | labels.isin([*models]), "")


def read_clean(cells: pd.Series, source: str) -> BoolArray:
    """Return in which rows a model is known to be clean, by a column of 1 and 0 or yes and no."""
    values, column = read_numbers(cells, words=True), str(cells.name)
    odd = ~np.isin(values, (0, 1))
    if odd.any():
        problem = (
            f"got {format_value(cells[odd].iloc[0])}, allowed is 1 (the model is known to be clean)"
            f" or 0, in every row ({odd.sum():,} of {len(cells):,} rows have neither)"
        )
        advice = f"If '{printable(column, 60)}' means something else, rename the column."
        raise DataError([Fault(source, problem, column=column)], advice)
    return values == 1


def names_apart_by_blanks(names: Iterable[str]) -> list[str]:
    """Return the names that differ from another one only by blanks at their ends."""
    distinct = list(dict.fromkeys(names))
    count = Counter(name.strip() for name in distinct)
    return [name for name in distinct if count[name.strip()] > 1]


def _name(cell: Any) -> str | None:
    if isinstance(cell, str):
        if cell.endswith("\0"):  # arrays of text drop it, so that two names would be one
            return None
        # JSON can spell half a surrogate pair, which no file or hash can hold.
        half = not cell.isascii() and cell.encode(errors="ignore").decode() != cell
        return cell if cell.strip() and not half else None
    if isinstance(cell, numbers.Integral) and not isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float | np.floating | Decimal):
        # Beyond 2**53, whole numbers have lost digits as floats.
        return str(int(cell)) if float(cell).is_integer() and abs(float(cell)) <= 2**53 else None
    return None


def _is_blank(cell: Any) -> bool:
    return not cell.strip() if isinstance(cell, str) else _is_missing(cell)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, numbers.Real | Decimal):
        return bool(cell != cell)
    return cell is None or cell is pd.NA or cell is pd.NaT


def read_numbers(cells: pd.Series, *, words: bool = False) -> FloatArray:
    """Return a column as numbers: NaN where missing, infinity where it is no finite number."""
    # With `words`, true, false, yes and no count as 1 and 0; otherwise they are no numbers.
    kind = cells.dtype
    if pd.api.types.is_bool_dtype(kind) and not words:
        return np.full(len(cells), np.inf)
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.inf, values)
    codes, uniques = _distinct(cells)
    return np.array([*(_number(cell, words) for cell in uniques), np.nan])[codes]


def _number(cell: Any, words: bool) -> float:
    if isinstance(cell, str):
        text = cell.strip().casefold()
        if text in MISSING:
            return np.nan
        if words and text in WORDS:
            return WORDS[text]
        value = float(text) if NUMBER.fullmatch(text) else np.inf
    elif _is_missing(cell):
        return np.nan
    elif isinstance(cell, bool | np.bool_):
        return float(cell) if words else np.inf
    elif isinstance(cell, numbers.Real | Decimal):
        try:
            value = float(cell)
        except (OverflowError, ValueError):
            return np.inf
    else:
        return np.inf
    return np.inf if np.isinf(value) else value


def check_choice(name: str, value: object, kind: TypeAliasType) -> None:
    """Refuse a value of a parameter that is none of those of its `Literal`."""
    allowed = get_args(kind.__value__)
    if value not in allowed:
        raise UsageError(f"{name}={value!r}: allowed are {join_list(allowed)}")


def check_level(level: float, name: str = "level") -> None:
    """Refuse a probability that is none of an interval worth reporting."""
    if not 0.5 <= level < 1:
        raise UsageError(f"{name}: got {level}; allowed is 0.5 up to but not 1")


def filter_rows(frame: pd.DataFrame, where: str, numeric: Mapping[str, bool]) -> BoolArray:
    """Return which rows a pandas query expression keeps."""
    # `numeric`: columns to compare as numbers, and whether they may hold true and false.
    columns = f"the columns are {join_list(frame.columns, most=20)}"
    said = f"where '{printable(where)}'"
    if "@" in _QUOTED.sub("", where):
        raise UsageError(f"{said}: '@' is not allowed; {columns}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an unknown escape in a pattern
        try:
            view = frame.infer_objects()
            for column in (name for name in numeric if name in frame.columns):
                values = read_numbers(frame[column], words=numeric[column])
                if not np.isinf(values).any():
                    view[column] = values
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


def first_of_group(
    frame: pd.DataFrame, keys: list[str], counted: BoolArray | Literal[True] = True
) -> IntArray:
    """Return for each row the position of the first one with the same keys."""
    # Rows outside `counted`, or with a missing key, stand for themselves.
    counted = counted & frame[keys].notna().all(axis=1).to_numpy()
    first = np.arange(len(frame))
    at = np.flatnonzero(counted)
    if len(at):
        group = frame.loc[counted, keys].groupby(keys, sort=False).ngroup().to_numpy()
        first[at] = at[np.unique(group, return_index=True)[1][group]]
    return first


def validate_unique(
    frame: pd.DataFrame,
    keys: list[str],
    faults: FaultList,
    advice: str = "keep one",
    counted: BoolArray | Literal[True] = True,
) -> IntArray:
    """Return `first_of_group`, with a fault for each row that is not the first one."""
    first = first_of_group(frame, keys, counted)
    problem = f"same {', '.join(keys)} as row {{}}; {advice}"
    faults.flag(first != np.arange(len(first)), keys[-1], problem, faults.rows[first])
    return first


def validate_constant(
    frame: pd.DataFrame, columns: list[str], first: IntArray, faults: FaultList
) -> None:
    """Add a fault for each row whose `columns` differ from those of the first with its keys."""
    at = np.flatnonzero(first != np.arange(len(first)))
    for column in columns:
        try:
            codes, _ = pd.factorize(frame[column])
        except TypeError:  # lists and objects of JSON have no hash
            codes, _ = pd.factorize(frame[column].map(repr))
        differs = np.zeros(len(frame), dtype=bool)
        differs[at] = codes[at] != codes[first[at]]
        problem = "differs from row {}, with which it would be summed; make both alike, or "
        faults.flag(differs, column, problem + "remove the column", faults.rows[first])


type Change = Callable[[str], str]

_NOT_IN_R = re.compile(r"[^\w.]")
_NEEDS_X = re.compile(r"[^\W\d_]|\.(?!\d)")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
    rf"\d{{1,2}}[-/. ]({_MONTHS})[a-z]*([-/. ]\d{{2,4}})?|({_MONTHS})[a-z]*[-/. ]\d{{1,4}}"
    r"|\d{4}-\d{2}-\d{2}([ T]00:00(:00)?)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}",
    re.IGNORECASE,
)
_FLOAT = re.compile(r"([+-]?\d+)\.0+")
_POWER = re.compile(r"\d(\.\d+)?E\+?\d+", re.IGNORECASE)


class Mismatch(NamedTuple):
    """A likely reason why names are not found."""

    explained: int  # names that it explains
    total: int  # names that were not found
    sentence: str  # what differs and what to do, after "n of m names"
    # a name that was not found, and the one that is likely meant ("" if that is not known)
    example: tuple[str, str]

    def __str__(self) -> str:
        names = f"all {self.total:,}" if self.explained == self.total else f"{self.explained:,}"
        of = "" if self.explained == self.total else f" of {self.total:,}"
        here, there = self.example
        meant = f" ('{here}' here, '{there}' there)" if there else f" ('{here}')"
        return f"{names}{of} unmatched names {self.sentence}{meant}"


def likely_mismatch(lost: Iterable[str], known: Iterable[str]) -> Mismatch | None:
    """Return why names are not among the known ones; None if nothing explains half of them."""
    lost, known = list(dict.fromkeys(lost)), list(dict.fromkeys(known))
    found = [_by_change(lost, known, change, sentence) for change, sentence in _CHANGES]
    found += [_by_dates(lost, known), _by_prefix(lost, known)]
    likely = [reason for reason in found if reason and 2 * reason.explained >= len(lost)]
    return max(likely, key=lambda reason: reason.explained, default=None)


def mismatch_reasons(
    what: str, missed: Iterable[str], others: Iterable[str], source: str
) -> list[str]:
    """Return why names of responses and of another table miss each other, if the names show it."""
    missed, others = sorted(missed), sorted(others)
    if reason := likely_mismatch(missed, others):
        return [f"{what}: {reason}"]
    # Of a table of few names, such as a list of what was found, most names must be explained.
    if reason := likely_mismatch(others, missed):
        return [f"{what}, of {printable(source)}: {reason}"]
    return []


def without_partner(
    what: str, missed: Iterable[str], others: Iterable[str], source: str
) -> list[str]:
    """Return a sentence if names match nothing on both sides; see `mismatch_reasons`."""
    missed, others = sorted(missed), sorted(others)
    if not missed or not others:
        return []
    return [
        f"{what}: no response matches {join_list(others)} of {printable(source)}, and no row "
        f"matches {join_list(missed)}; if some are the same, write both alike"
    ]


def _by_change(lost: list[str], known: list[str], change: Change, sentence: str) -> Mismatch | None:
    changed: dict[str, str] = {}
    for name in known:
        changed.setdefault(change(name), name)
    matches = [(name, changed[change(name)]) for name in lost if change(name) in changed]
    return Mismatch(len(matches), len(lost), sentence, matches[0]) if matches else None


def _of_r(name: str) -> str:
    """Return a name as R writes it at the top of a column."""
    name = _NOT_IN_R.sub(".", name)
    return name if _NEEDS_X.match(name) else f"X{name}"


def _of_number(name: str) -> str:
    if whole := _FLOAT.fullmatch(name.strip()):
        return whole[1]
    return f"{float(name):.0f}" if _POWER.fullmatch(name.strip()) else name.strip()


_CHANGES: tuple[tuple[Change, str], ...] = (
    (str.strip, "differ by blanks at their ends; write both alike"),
    (str.casefold, "differ by upper and lower case; write both alike"),
    (lambda name: name.lstrip("0"), "differ by leading zeros, which spreadsheets drop; keep the "
     "column as text"),
    (_of_number, "are whole numbers stored as floats or powers in one table; store them as whole "
     "numbers or text"),
    (_of_r, "differ by an 'X' or dots that R puts into names of columns; in R: "
     "read.csv(…, check.names = FALSE), or rename one side"),
    (lambda name: re.sub(r"[\W_]+", "", name).casefold(), "differ by case, blanks or punctuation;"
     " write both alike"),
)  # fmt: skip


def _by_dates(lost: list[str], known: list[str]) -> Mismatch | None:
    """Find names that a spreadsheet has taken for dates, such as 2-3 or MARCH1, on either side."""
    sentence = (
        "look like dates that a spreadsheet made of names such as 2-3 or MAR1; format the column "
        "as text before the names go in"
    )
    here, there = ([n for n in names if _DATE.fullmatch(n.strip())] for names in (lost, known))
    if here and not there:
        return Mismatch(len(here), len(lost), sentence, (here[0], ""))
    if there and not here and len(there) >= len(lost) / 2:
        sentence = f"may be among {len(there):,} names there that {sentence}"
        count = min(len(there), len(lost))
        return Mismatch(count, len(lost), sentence, (lost[0], there[0]))
    return None


def _by_prefix(lost: list[str], known: list[str]) -> Mismatch | None:
    """Find one text that stands before all names of one side."""
    best = None
    for names, others, where in ((lost, known, "here"), (known, lost, "there")):
        among = set(others)
        for name in names[:20]:
            ends = [name[at:] for at in range(1, len(name)) if _is_seam(name, at, among)]
            for end in ends:
                prefix = name[: len(name) - len(end)]
                matches = [n for n in names if n.startswith(prefix) and n[len(prefix) :] in among]
                pair = (matches[0], matches[0][len(prefix) :])
                example = pair if where == "here" else pair[::-1]
                sentence = (
                    f"differ by {join_list([prefix])} before the names {where}; rename one side"
                )
                if best is None or len(matches) > best.explained:
                    best = Mismatch(min(len(matches), len(lost)), len(lost), sentence, example)
    return best


def _is_seam(name: str, at: int, among: set[str]) -> bool:
    # 7 is no end of 17, and ale none of scale.
    before, after = name[at - 1], name[at]
    within = (before.isdigit() and after.isdigit()) or (before.isalpha() and after.isalpha())
    return name[at:] in among and not within
