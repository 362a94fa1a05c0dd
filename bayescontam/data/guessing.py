"""Accuracy of blind guessing on each item, from a column or its number of options."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.data.validation import read_numbers
from bayescontam.errors import DataError, Fault

COLUMNS = ("guess", "n_options")
"""Where the accuracy of blind guessing may be, the first that is there counts."""
_ALLOWED = {
    "guess": "from 0 up to, but not, 1",
    "n_options": "2 or more, or 0 where an item has no options to choose from",
}
"""Numbers that each may hold."""


def guess_column(frame: pd.DataFrame) -> str | None:
    """Return which column of responses holds the accuracy of blind guessing, if any does."""
    return next((name for name in COLUMNS if name in frame), None)


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
    """Return the accuracy of blind guessing of each row's item.

    Dims (row,).

    >>> frame = pd.DataFrame({"benchmark": "quiz", "item": ["a", "b"], "n_options": [4, 0]})
    >>> read_guess(frame, "quiz.csv").tolist()
    [0.25, 0.0]
    """
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
        f"items without a value: {{}}; a number {_ALLOWED[column]} is needed": absent,
        f"items with a value that is not allowed: {{}}; allowed is a number {_ALLOWED[column]}": (
            ~allowed & ~absent
        ),
        "items with more than one value: {}; an item has the same for all models": mixed,
    }
    faults = [
        Fault(source, problem.format(_shown(frame, rows, column)), column=column)
        for problem, rows in problems.items()
        if rows.any()
    ]
    if faults:
        raise DataError(faults)
    if column == "guess":
        return values
    return np.divide(1.0, values, out=np.zeros(len(values)), where=values > 0)


def _shown(frame: pd.DataFrame, rows: NDArray[np.bool_], column: str) -> str:
    """Name the items of some rows, each once, with what their cells hold."""
    several = frame["benchmark"].nunique() > 1
    names = [
        (f"{row[0]}/" if several else "")
        + str(row[1])
        + ("" if pd.isna(row[2]) or not str(row[2]).strip() else f" ({row[2]})")
        for row in frame.loc[rows, ["benchmark", "item", column]].itertuples(index=False)
    ]
    return join_list(dict.fromkeys(names))
