"""Matrices of models by items to responses."""

import os
from typing import Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import Names, check_threshold, scores
from bayescontam.data.importers.logs import Imported, Importing
from bayescontam.data.importers.py_irt import import_py_irt
from bayescontam.data.tables import read_table
from bayescontam.data.tools import import_advice, tool_of
from bayescontam.data.validation import FaultList, check_choice, read_names, read_numbers
from bayescontam.errors import UsageError

type Items = Literal["columns", "rows"]
"""Where the items of a matrix stand."""


def import_matrix(
    path: str | os.PathLike[str],
    *,
    benchmark: str,
    items: Items = "columns",
    names: str | None = None,
    benchmark_in_column: bool = False,
    threshold: float | None = None,
    keep: Names = (),
) -> Imported:
    """Read a matrix with a row for each model and a column for each item, or the reverse.

    Cells are 0, 1, true or false; blank ones (or NA, null, none) are missing, and counted.

    Parameters
    ----------
    path : path-like
        CSV, TSV, JSON Lines or Parquet file; or JSON Lines of py-irt, see `import_py_irt`.
    benchmark : str
        Name of the benchmark; or, with `benchmark_in_column`, of the column that has it.
    items : {"columns", "rows"}, default "columns"
        Where the items stand.
    names : str, optional
        Column with the names of what stands in rows. Default: the first.
    benchmark_in_column : bool, default False
        Take the benchmark from a column; only where items stand in rows.
    threshold : float, optional
        Value from which on an answer is correct. Default: values must be 0 or 1.
    keep : str or sequence of str, optional
        Columns of items to keep, or ``name=column`` to rename one; only where items stand in
        rows.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError
        If there is no such file or column, or an option cannot be used.
    DataError
        If the matrix cannot be used; all faulty cells are listed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "scores.csv")
    ...     _ = file.write_text("model,q0,q1\\na,1,\\nb,0,1\\n")
    ...     found = import_matrix(file, benchmark="quiz")
    >>> found.frame["item"].tolist(), found.left_out["reason"].tolist()
    (['q0', 'q0', 'q1'], ['blank cell'])
    """
    check_choice("items", items, Items)
    if items == "columns" and (keep or benchmark_in_column):
        raise UsageError("items stand in columns, so that no column can be one of items' own")
    check_threshold(threshold)
    importing = Importing(path, {"keep": keep})
    extra = importing.extra
    # Column names are whole here: they may hold dots.
    columns = [".".join(parts) for parts in extra.paths.values()]
    tool = tool_of(path)
    if tool == "py-irt" and items == "columns" and names is None:
        return import_py_irt(path, benchmark=benchmark, threshold=threshold)
    if tool is not None:
        raise UsageError(f"{printable(os.fspath(path))}: is no matrix; {import_advice(path)}")
    table, source = read_table(path), os.fspath(path)
    label = names or table.columns[0]
    aside = [label, *columns, *([benchmark] if benchmark_in_column else [])]
    if absent := [name for name in aside if name not in table.columns]:
        raise UsageError(
            f"{source}: no column {join_list(absent)}; found {join_list(table.columns)}"
        )
    cells = [name for name in table.columns if name not in aside]
    faults = FaultList(source, np.arange(1, len(table) + 1))
    given = read_names(table, label, faults, exact=True)
    own = read_names(table, benchmark, faults, exact=True) if benchmark_in_column else None
    # Items of other benchmarks may have the same names.
    twice = given.duplicated() if own is None else pd.DataFrame([given, own]).T.duplicated()
    faults.flag(twice.to_numpy(), label, "{} stands in another row too", given)
    values = _values(table, cells, threshold, faults)
    faults.raise_if_any()
    down = np.repeat(np.arange(len(table)), len(cells))
    across = np.tile(np.array(cells, dtype=object), len(table))
    rows = given.to_numpy()[down]
    trials = pd.DataFrame(
        {
            "model": rows if items == "columns" else across,
            "benchmark": benchmark if own is None else own.to_numpy()[down],
            "item": across if items == "columns" else rows,
            "correct": values.ravel(),
            "run": source,
            "file": source,
        }
    )
    trials = extra.added_to(trials, table[columns].iloc[down].to_numpy(dtype=object).tolist())
    missing = trials["correct"].isna()
    importing.left_out.add_rows(trials.loc[missing, "benchmark"], "blank cell")
    return importing.table(trials[~missing], {})


def _values(
    table: pd.DataFrame, cells: list[str], threshold: float | None, faults: FaultList
) -> np.ndarray:
    """Return 0 and 1, NaN where missing, by row and column of the matrix."""
    allowed = "0, 1, true or false" if threshold is None else "a number"
    values = np.empty((len(table), len(cells)))
    for position, name in enumerate(cells):
        numbers = read_numbers(table[name], words=True)
        correct, odd = scores(numbers, threshold)
        odd |= np.isinf(numbers)
        faults.flag(odd, name, f"got {{}}, allowed is {allowed}, or nothing", table[name])
        values[:, position] = correct
    return values
