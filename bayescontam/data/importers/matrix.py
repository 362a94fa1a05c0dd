"""Matrices of models by items, and the input of py-irt (JSON Lines of subjects), to responses."""

import os
import re
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import Names, Paths, check_threshold, number, objects, scores
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Run
from bayescontam.data.tables import read_table
from bayescontam.data.tools import import_advice, tool_of
from bayescontam.data.validation import (
    YES_OR_NO,
    FaultList,
    check_choice,
    flag_near_duplicates,
    names_apart_by_blanks,
    read_names,
    read_numbers,
)
from bayescontam.errors import UsageError

_ODD = "give the value from which a response is correct (threshold, --threshold)"
_INDEX = re.compile(r"__index_level_\d+__")  # columns of pandas' indices in Parquet
_ENDINGS = (".jsonlines", ".jsonl", ".jsonlines.gz", ".jsonl.gz")
type Items = Literal["columns", "rows"]  # where the items of a matrix stand


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

    Cells are 0, 1, true, false, yes or no; blank ones (or NA, null, none) are missing, and counted.

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
    if index := [name for name in cells if _INDEX.fullmatch(name)]:
        raise UsageError(
            f"{printable(source)}: {join_list(index)} is an index that pandas stored, no item;"
            " store the table without it (index=False), or name it by --names"
        )
    faults = FaultList(source, np.arange(1, len(table) + 1))
    given = read_names(table, label, faults, exact=True)
    flag_near_duplicates(given, label, faults)
    own = read_names(table, benchmark, faults, exact=True) if benchmark_in_column else None
    # Items of other benchmarks may have the same names.
    twice = given.duplicated() if own is None else pd.DataFrame([given, own]).T.duplicated()
    faults.flag(twice.to_numpy(), label, "{} stands in another row too", given)
    allowed = YES_OR_NO if threshold is None else "a number"
    values = np.empty((len(table), len(cells)))  # 0, 1, NaN where missing
    for position, name in enumerate(cells):
        numbers = read_numbers(table[name], words=True)
        values[:, position], odd = scores(numbers, threshold)
        problem = f"got {{}}, allowed is {allowed}, or nothing"
        faults.flag(odd | np.isinf(numbers), name, problem, table[name])
    if alike := names_apart_by_blanks(cells):
        faults.add(f"columns that differ only by blanks at their ends: {join_list(alike)}")
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


def import_py_irt(
    paths: Paths,
    *,
    benchmark: str,
    threshold: float | None = None,
    **options: Unpack[LogOptions],
) -> Imported:
    """Read the input of py-irt into a table of responses.

    Each line is a subject (the model) with its responses by item. Items that a subject lacks are
    missing, not incorrect.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``*.jsonlines`` or ``*.jsonl``, or folders that hold them.
    benchmark : str
        Name of the benchmark.
    threshold, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or lines cannot be used.

    References
    ----------
    https://github.com/nd-ball/py-irt

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "r.jsonlines")
    ...     _ = file.write_text('{"subject_id": "a", "responses": {"q1": 1, "q3": 0}}')
    ...     found = import_py_irt(file, benchmark="quiz")
    >>> found.frame[["item", "n_correct"]].to_numpy().tolist()
    [['q1', 1], ['q3', 0]]
    """
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: (f for f in folder.rglob("*.json*") if f.name.endswith(_ENDINGS)),
        "holds no *.jsonlines or *.jsonl; check the folder",
    )
    logs = [log for file in importing.each(files) for log in _logs(file, benchmark, importing)]
    return importing.table_of(logs, "py-irt", threshold=threshold, unit="response", odd=_ODD)


def _logs(file: Path, benchmark: str, importing: Importing) -> list[Log]:
    left_out, source = importing.left_out, str(file)
    logs: dict[str, Log] = {}
    for place, row in objects(file, left_out, unique=True):
        with importing.row(file, place):
            subject, responses = row.get("subject_id"), row.get("responses")
            if not isinstance(subject, str) or not isinstance(responses, dict):
                raise TypeError(
                    "has no text 'subject_id' and no object 'responses'; is this of py-irt?"
                )
            if subject in logs:
                raise ValueError(f"subject '{printable(subject, 60)}' again; give one line")
            extra = importing.extra.values(row)
            trials = []
            for item, value in responses.items():
                try:
                    trials.append(Trial(item, {"response": number(value)}, extra=extra))
                except TypeError as error:
                    where = f"{place}, item '{printable(item, 60)}'"
                    problem = f"the response {error}; allowed are 0, 1, true, false and null"
                    left_out.broken(source, where, problem)
            logs[subject] = Log(Run(subject, benchmark, source), trials)
    return list(logs.values())
