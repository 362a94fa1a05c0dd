"""Rows of a table: chosen by an expression, repeated, summed and ordered."""

import re
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayescontam._types import BoolArray, IntArray
from bayescontam.columns import FaultList, read_numbers
from bayescontam.errors import UsageError
from bayescontam.names import listed, visible

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def chosen(frame: pd.DataFrame, where: str, numeric: Mapping[str, bool]) -> BoolArray:
    """Return which rows a pandas query expression keeps.

    `numeric` names the columns to compare as numbers, and whether they may hold true and false.
    """
    columns = f"the columns are {listed(frame.columns, most=20)}"
    said = f"where '{visible(where)}'"
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
            reason = visible(str(error) or type(error).__name__)
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


def first_rows(frame: pd.DataFrame, keys: list[str], counted: BoolArray) -> IntArray:
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


def refuse_repeats(first: IntArray, keys: list[str], advice: str, faults: FaultList) -> None:
    """Add a fault for each row that is not the first one with its keys."""
    problem = f"same {', '.join(keys)} as row {{}}; {advice}"
    faults.flag(first != np.arange(len(first)), keys[-1], problem, faults.rows[first])


def refuse_differing(
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


def summed(frame: pd.DataFrame, first: IntArray, counts: list[str]) -> pd.DataFrame:
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
