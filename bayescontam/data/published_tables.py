"""Figures of published studies, as they stand in ``studies/data``."""

from collections.abc import Iterator

import pandas as pd

from bayescontam._text import printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.specs.base import suggest
from bayescontam.specs.registry import shipped_folder

COLUMNS = ("quantity", "where", "value", "low", "high", "source")
_NUMBERS = ("value", "low", "high")


def read_printed(name: str) -> pd.DataFrame:
    """Return a table of ``studies/data`` as it stands there.

    Parameters
    ----------
    name : str
        Of the file, without ``.csv``.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    UsageError
        If there is none.
    """
    folder = shipped_folder("studies") / "data"
    names = sorted(path.stem for path in folder.glob("*.csv"))
    if name not in names:
        shown = printable(name, 60)
        raise UsageError(f"published: no table '{shown}' in studies/data ({suggest(name, names)})")
    return pd.read_csv(folder / f"{name}.csv")


def read_published(name: str) -> pd.DataFrame:
    """Return printed numbers with their sources.

    Parameters
    ----------
    name : str
        Of a table of ``studies/data`` with these columns; ``""`` is one without rows.

    Returns
    -------
    pandas.DataFrame
        ``quantity, where, value, low, high, source``; ``where`` is ``""`` where it is empty,
        numbers are NaN.

    Raises
    ------
    UsageError
        If there is none.
    DataError
        If a column is absent, a number is none, a row has no source or no number, or ends of
        an interval do not go with its value.
    """
    if not name:
        return pd.DataFrame(columns=list(COLUMNS))
    table = read_printed(name)
    file = f"studies/data/{name}.csv"
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        problem = f"has no column '{missing[0]}'; it needs {', '.join(COLUMNS)}"
        raise DataError([Fault(file, problem)])
    # A column without any text is one of numbers.
    words = {name: table[name].astype(object).fillna("").astype(str) for name in COLUMNS[:2]}
    table = table[list(COLUMNS)].assign(**words)
    faults = [
        Fault(file, "has no source; say title, and table or section", row=int(row) + 1)
        for row in table.index[table["source"].isna()]
    ]
    for column in _NUMBERS:
        numbers = pd.to_numeric(table[column], errors="coerce")
        wrong = table.index[numbers.isna() & table[column].notna()]
        faults += [Fault(file, "is no number", row=int(row) + 1, column=column) for row in wrong]
        table = table.assign(**{column: numbers.astype(float)})
    faults = faults or list(_impossible(table, file))
    if faults:
        raise DataError(faults)
    return table


def _impossible(table: pd.DataFrame, file: str) -> Iterator[Fault]:
    """Give the rows whose numbers show nothing, or do not go together."""
    value, low, high = (table[name] for name in _NUMBERS)
    ends = low.notna() & high.notna()
    problems = {
        "has no number; give a value, or both ends of an interval": value.isna() & ~ends,
        "has one end of an interval; give both or none": low.notna() ^ high.notna(),
        "must be low ≤ value ≤ high": (low > high) | (value < low) | (value > high),
    }
    for problem, wrong in problems.items():
        yield from (Fault(file, problem, row=int(row) + 1) for row in table.index[wrong])
