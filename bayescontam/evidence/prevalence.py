"""Share of a benchmark's items that the corpus holds duplicates of."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.data.validation import check_level
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.covariates import ItemContamination, count_interval
from bayescontam.inference.summary import LEVEL
from bayescontam.specs.base import suggest

GROUPS = 5
"""Groups that a numeric item column is cut into, of equally many items."""


def prevalence(weighed: ItemContamination, *, level: float = LEVEL, seed: int = 0) -> pd.DataFrame:
    """Return the share of items with at least one duplicate, by benchmark.

    Parameters
    ----------
    weighed : ItemContamination
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, default 0
        Seed of the draws of which items have duplicates.

    Returns
    -------
    pandas.DataFrame
        ``benchmark, by, group, items, mean, ci_low, ci_high, n_mean, n_low, n_high, sd``:
        share and number of items, and the standard deviation of the share. ``by`` is
        ``"corpus"`` (whole), ``"scanned"`` (the scanned part), ``"source"`` (in `group`; the
        whole of it), ``"kind"``, ``"matches"`` (among the `group` best matches of the scanned
        part; of a scan by source, of all sources together), or ``"tail"`` (among the texts that
        the scan drew at random from the highest cosines of the item, `group` of them at most).
        With a curve of chosen kinds, ``of_kinds`` names them.

    Raises
    ------
    UsageError
        If `level` is none that an interval can have.

    Notes
    -----
    Of every draw of the curve one draw of each item is taken, so that intervals hold both
    what is unsure of the curve and what is unsure of single items.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.prevalence(bayescontam.item_contamination("no-such-folder", "curve.nc"))
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    check_level(level)
    rows = []
    for benchmark, of_benchmark in benchmarks_of(weighed):
        for by, group, none in _views(weighed):
            figures = _share(none[:, of_benchmark], level, np.random.default_rng(seed))
            rows.append({"benchmark": benchmark, "by": by, "group": group} | figures)
    return _of_kinds(rows, weighed)


def duplicate_numbers(weighed: ItemContamination, *, level: float = LEVEL) -> pd.DataFrame:
    """Return how many documents hold a duplicate, by benchmark.

    Of every draw of the curve one draw of each item's number is taken and summed over items.
    """
    check_level(level)
    rows = []
    for benchmark, own in benchmarks_of(weighed):
        for by, number in (("corpus", weighed.number), ("scanned", weighed.number_scanned)):
            rows.append({"benchmark": benchmark, "by": by} | _number(number[:, own], level))
    return _of_kinds(rows, weighed)


def _of_kinds(rows: list[dict[str, Any]], weighed: ItemContamination) -> pd.DataFrame:
    """Return rows as a table, with ``of_kinds`` where only duplicates of some kinds count."""
    table = pd.DataFrame(rows)
    return table.assign(of_kinds=", ".join(weighed.chosen)) if weighed.chosen else table


def _number(numbers: NDArray[np.int64], level: float) -> dict[str, float]:
    """Return the sum over items, with its interval."""
    total = numbers.sum(axis=1)
    low, high = count_interval(total, level)
    figures = {"median": np.median(total), "mean": total.mean(), "ci_low": low, "ci_high": high}
    return {name: float(value) for name, value in figures.items()}


def prevalence_by(
    weighed: ItemContamination,
    items: pd.DataFrame,
    column: str,
    *,
    kinds: Sequence[str] = (),
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of items with at least one duplicate, by an item column.

    Parameters
    ----------
    weighed : ItemContamination
    items : pandas.DataFrame
        ``benchmark, item`` and `column`, such as a difficulty or an Elo rating.
    column : str
        Numbers of more than 5 values are cut into 5 groups of equally many items.
    kinds : sequence of str, default ()
        Kinds of duplicates that have rows of their own, beside those of any kind; such as
        ``weighed.kinds``, all that judges can name.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, default 0

    Returns
    -------
    pandas.DataFrame
        As of `prevalence`, with ``by`` the column, ``kind`` ("" for any), and ``at``: mean of a
        numeric column in the group, else NaN.

    Raises
    ------
    UsageError
        If the table has no such column, judges gave no such kind, or `level` is none that an
        interval can have.
    DataError
        If it lacks items of the scan.

    Examples
    --------
    >>> import bayescontam
    >>> items = bayescontam.item_contamination("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    check_level(level)
    values = column_of(weighed, items, column)
    views = {kind: none_of(weighed, kind) for kind in ("", *kinds)}
    rows = []
    for benchmark, of_benchmark in benchmarks_of(weighed):
        own = values[of_benchmark]
        labels, at = _groups(own)
        for kind, none in views.items():
            for label in labels.cat.categories:
                chosen = np.flatnonzero(of_benchmark)[(labels == label).to_numpy()]
                figures = _share(none[:, chosen], level, np.random.default_rng(seed))
                rows.append(
                    {"benchmark": benchmark, "by": column, "kind": kind, "group": label}
                    | figures | {"at": float(at[labels == label].mean())}
                )  # fmt: skip
    return _of_kinds(rows, weighed)


def none_of(weighed: ItemContamination, kind: str) -> FloatArray:
    """Return P(no duplicate of a kind in the whole corpus), dims (draw, item); "": of any kind."""
    if not kind:
        return weighed.none
    if kind not in weighed.kinds:
        known = f"allowed are {join_list(weighed.kinds)}" if weighed.kinds else "judges gave none"
        raise UsageError(f"kinds: no kind '{kind}'; {known}")
    return weighed.none_by_kind[..., weighed.kinds.index(kind)]


def benchmarks_of(weighed: ItemContamination) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each benchmark with the mask of its items."""
    for name in weighed.items["benchmark"].unique():
        yield str(name), (weighed.items["benchmark"] == name).to_numpy()


def _views(weighed: ItemContamination) -> Iterator[tuple[str, str, FloatArray]]:
    yield "corpus", "", weighed.none
    yield "scanned", "", weighed.none_scanned
    for by, names, none in (
        ("source", weighed.sources, weighed.none_by_source),
        ("kind", weighed.kinds, weighed.none_by_kind),
        ("matches", weighed.ranks, weighed.none_by_rank),
    ):
        for k, name in enumerate(names):
            yield by, str(name), none[..., k]
    if weighed.tail.sampled.any():
        yield "tail", str(int(weighed.tail.sampled.max(initial=0))), weighed.tail.none


def _share(none: FloatArray, level: float, rng: np.random.Generator) -> dict[str, float]:
    """Return mean and interval of the share and of the number of items with a duplicate."""
    # One set of numbers for all views: nested views give nested counts.
    found = (rng.random(none.shape) >= none).sum(axis=1)
    items = none.shape[1]
    low, high = count_interval(found, level)
    mean = max(0.0, float((1 - none).sum(axis=1).mean()))
    numbers = {"n_mean": mean, "n_low": float(low), "n_high": float(high)}
    shares = {"mean": mean / items, "ci_low": low / items, "ci_high": high / items}
    shares = {k: float(v) for k, v in shares.items()} | numbers
    return {"items": items, **shares, "sd": float((found / items).std())}


def column_of(weighed: ItemContamination, items: pd.DataFrame, column: str) -> pd.Series:
    """Return the values of an item column, in the order of the items."""
    keys = ["benchmark", "item"]
    if missing := [name for name in (*keys, column) if name not in items.columns]:
        hint = suggest(missing[0], map(str, items.columns))
        raise UsageError(f"items: no column '{missing[0]}' ({hint})")
    if column in keys:
        raise UsageError(f"by: '{column}' names items; give a column that groups them")
    named = items[keys].astype(str).assign(**{column: items[column]})
    # Rows that repeat an item are harmless, unless they contradict each other.
    named = named.drop_duplicates()
    if (twice := named.duplicated(keys)).any():
        several = join_list(named.loc[twice, "item"].unique())
        problem = f"has different values for one item: {several}"
        raise DataError([Fault("items", problem, column=column)], "Give each item one value.")
    if is_number(named[column]) and (endless := np.isinf(named[column].astype(float))).any():
        problem = f"is infinite for items: {join_list(named.loc[endless, 'item'])}"
        raise DataError([Fault("items", problem, column=column)], "Give finite numbers.")
    known = named.set_index(keys)[column]
    values = weighed.items.join(known, on=keys)[column]
    if values.isna().any():
        lost = weighed.items[values.isna()]["item"]
        problem = f"has no value for items of the scan: {join_list(lost)}"
        raise DataError([Fault("items", problem, column=column)], "Add them.")
    return values


def is_number(values: "pd.Series[Any]") -> bool:
    """Return whether a column of items holds numbers, of which a trend can be estimated."""
    kind = values.dtype
    return pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)


def _groups(values: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the group of each item, in order, and its value where that is a number."""
    values = values.reset_index(drop=True)
    if not pd.api.types.is_numeric_dtype(values):
        return values.astype(str).astype("category"), pd.Series(np.nan, index=values.index)
    if values.nunique() <= GROUPS:
        return values.astype("category"), values.astype(float)
    # Where values repeat, several quantiles are one, and none of the values may lie between two.
    cut = pd.qcut(values, GROUPS, duplicates="drop").cat.remove_unused_categories()
    ends = values.groupby(cut, observed=True).agg(["min", "max"]).itertuples(name=None)
    names = {
        part: f"{low:.12g}" if low == high else f"{low:.12g} to {high:.12g}"
        for part, low, high in ends
    }
    return cut.cat.rename_categories(names), values.astype(float)
