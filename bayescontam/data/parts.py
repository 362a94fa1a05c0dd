"""A table of responses split by a column: one table for each of its values."""

import os
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.responses import Path, Responses, load_responses, rows_where
from bayescontam.data.validation import to_plain_frame
from bayescontam.errors import DataError, Fault, UsageError

_OF_RESPONSES = ("model", "benchmark", "item", "correct", "n_correct", "n_trials")
_ROWS = 5  # rows that a message names


def split_responses(
    responses: pd.DataFrame | Path, each: str, **reading: Any
) -> dict[str, Responses]:
    """Read a table of responses in parts, by the values of one of its columns.

    Parameters
    ----------
    responses : pandas.DataFrame or path-like
        A table or file, as for `read_responses`, with the column `each`. One model may answer an
        item in each part.
    each : str
        Name of the column, such as a date or a prompt. The parts do not have it.
    **reading
        Options of `read_responses`, which hold for every part; `where` may use the column `each`,
        and parts of which it leaves nothing are left out.

    Returns
    -------
    dict of str to Responses
        Parts by value, in order of first appearance. Messages name a part as its source, and count
        its own rows.

    Raises
    ------
    UsageError, DataError
        If the table has no such column, if it is part of each response or blank somewhere, or if
        a part cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "week": ["1", "2"], "model": "m", "benchmark": "b", "item": "i", "correct": [1, 0],
    ... })
    >>> parts = split_responses(table, "week")
    >>> list(parts), parts["2"].frame["n_correct"].tolist()
    (['1', '2'], [0])
    """
    scale = reading.get("contamination_scale", "share")
    frame, source, notes = load_responses(responses, scale, reading.pop("columns", None))
    name = printable(source)
    if each not in frame.columns:
        columns = join_list([str(column) for column in frame.columns])
        raise UsageError(f"{name}: has no column {each!r} to split it by; it has {columns}")
    if each in _OF_RESPONSES:
        raise UsageError(
            f"{name}: column {each!r} is part of each response; split the table by another, such as"
            " a date or a prompt"
        )
    where = reading.pop("where", None)
    if where is not None:  # of the whole table, so that it may leave out parts
        frame = to_plain_frame(frame, source)
        keep, note = rows_where(frame, where, source)
        frame, notes = frame[keep], [*notes, note]
    values = frame[each].astype("string").str.strip().fillna("").to_numpy(dtype=object)
    blank = np.flatnonzero(values == "")
    if len(blank):
        rows = ", ".join(f"{row + 1}" for row in blank[:_ROWS])
        more = f" and {len(blank) - _ROWS:,} more" if len(blank) > _ROWS else ""
        problem = f"blank in rows {rows}{more}; name the part of each row, or remove the rows"
        raise DataError([Fault(source, problem, column=each)])
    found = {}
    for value, part in frame.drop(columns=each).groupby(values, sort=False):
        own = f"{os.fspath(source)}[{each} = {value}]"
        read = Responses.from_frame(part.reset_index(drop=True), source=own, **reading)
        found[str(value)] = read.with_notes(notes)
    return found
