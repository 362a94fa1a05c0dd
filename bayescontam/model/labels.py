"""Labels of items and of what groups them, and of tables that cross models with items."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list
from bayescontam._types import IntArray
from bayescontam.data.responses import Responses
from bayescontam.data.validation import names_apart_by_blanks
from bayescontam.errors import DataError, Fault
from bayescontam.specs.base import suggest


def crossed_labels(
    models: Sequence[str], benchmarks: Sequence[str], items: int
) -> tuple[dict[str, NDArray[np.object_]], IntArray]:
    """Return columns of a table of all models × all items, and each row's positions in them."""
    # Dims (row,) and (benchmark-model-item, row); rows are in the order of `Responses`.
    labels = benchmarks, models, [f"item {k + 1}" for k in range(items)]
    positions = np.indices([len(names) for names in labels]).reshape(3, -1)
    pairs = zip(("benchmark", "model", "item"), labels, positions, strict=True)
    columns = {name: np.array(known, dtype=object)[at] for name, known, at in pairs}
    return columns, positions


def positions_among(names: pd.Series, order: Sequence[str]) -> IntArray:
    """Return the position of each name among those in an order."""
    codes, distinct = pd.factorize(names)
    return pd.Index(order).get_indexer(pd.Index(distinct)).astype(np.int64)[codes]


def numbered(benchmark: IntArray, names: pd.Series) -> tuple[IntArray, IntArray, list[str]]:
    """Return the number of each row's (benchmark, name) pair, and benchmark and name of each."""
    # By numbers: hashing pairs of texts takes five times as long, which large tables feel.
    codes, distinct = pd.factorize(names.astype(str))
    number, pairs = pd.factorize(benchmark * len(distinct) + codes)
    of_pair, name = np.divmod(pairs, len(distinct))
    return number.astype(np.int64), of_pair, distinct.take(name).tolist()


def labelled(
    benchmarks: Sequence[str], names: pd.Series, benchmark: IntArray
) -> tuple[IntArray, tuple[str, ...], IntArray]:
    """Give each (benchmark, name) pair a number and a label: the name where it is unique."""
    number, of_pair, labels = numbered(benchmark, names)
    if len(set(labels)) < len(labels):
        # Two benchmarks use one name. Its length keeps the joint label unambiguous.
        pairs = [(benchmarks[b], name) for b, name in zip(of_pair, labels, strict=True)]
        labels = [f"{b}/{name}" for b, name in pairs]
        if len(set(labels)) < len(labels):
            labels = [f"{len(b)}:{b}/{name}" for b, name in pairs]
    return number, tuple(labels), of_pair


def item_column(responses: Responses, by: str, frame: pd.DataFrame) -> pd.Series:
    """Return the column that groups items, if each item has one value of it."""
    standard = ("model", "benchmark", "item", "n_correct", "n_trials", "contamination")
    columns = [name for name in frame.columns if name not in standard]
    if by not in columns:
        problem = f"the model spec groups items by a column '{by}', which is not there"
        others = suggest(by, columns) if columns else "the table has no other columns"
        advice = f"Add it, or set ability.by in a copy of the model spec; {others}"
        raise DataError([Fault(responses.source, problem)], advice)
    if frame[by].isna().any() or (frame[by].astype(str).str.strip() == "").any():
        raise DataError(
            [Fault(responses.source, "has empty cells; every item needs a value", column=by)]
        )
    if alike := names_apart_by_blanks(frame[by].astype(str)):
        problem = f"values that differ only by blanks at their ends: {join_list(alike)}"
        raise DataError([Fault(responses.source, problem, column=by)], "Write them alike.")
    distinct = frame.groupby(["benchmark", "item"], sort=False)[by].nunique()
    mixed = distinct[distinct > 1]
    if len(mixed):
        problem = f"items with more than one value: {join_list(item for _, item in mixed.index)}"
        raise DataError([Fault(responses.source, problem, column=by)])
    return frame[by]
