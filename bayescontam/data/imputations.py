"""Imputations: tables of contamination that might be the true one, and how they move together."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from bayescontam._text import join_list
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.covariates import Covariates
from bayescontam.data.measures import MEASURES, Scale, load_measured, read_measures
from bayescontam.data.validation import (
    FaultList,
    flag_near_duplicates,
    need_columns,
    read_names,
    to_plain_frame,
    validate_unique,
)
from bayescontam.errors import DataError, Fault

IMPUTATION = "imputation"
"""Column that numbers imputations."""
FEWEST = 20
"""Imputations below which how items move together cannot be estimated."""
SHARE = 0.999
"""Share of the variance of log-odds that factors have at least."""
_KEYS = (IMPUTATION, "benchmark", "item")
_NEEDED = {
    IMPUTATION: "add one: the number of the imputation that a row belongs to",
    "benchmark": "add one: the benchmark that each item belongs to",
    "item": "add one: the item's name as in the responses",
    "contamination": "add one: numbers from 0 (surely clean) to 1 (surely contaminated)",
}
_KNOWN = (*_KEYS, *MEASURES)


def read_imputations(
    imputations: str | os.PathLike[str] | pd.DataFrame, *, contamination_scale: Scale = "share"
) -> Covariates:
    """Read imputations of contamination, and make covariates of what they share.

    Each imputation is a whole table of contamination that might be the true one, drawn from all
    that is known of it but the responses. Over imputations the log-odds of items' contaminations
    have means, variances and covariances; their principal components are factors, independent
    and of variance 1, by which a fit moves all contaminations at once. It estimates the factors
    from the responses. To fit each imputation by itself and to pool the draws, as for missing
    data, would shrink slopes towards 0: such imputations would have to be drawn given the
    responses (Rubin 1987, doi:10.1002/9780470316696, chapter 4.2).

    Parameters
    ----------
    imputations : path-like or pandas.DataFrame
        CSV, TSV, JSON Lines or Parquet file, or a table, with the columns ``imputation`` (a
        number or name), ``benchmark``, ``item`` and ``contamination`` in [0, 1]; each item once
        in each of at least 20 imputations. An item whose contamination varies must lie strictly
        between 0 and 1 in all of them.
    contamination_scale : {"share", "percent"}, default "share"
        What contamination is given as.

    Returns
    -------
    Covariates
        ``benchmark``, ``item``, ``contamination`` (mean over imputations) and ``shared_1``,
        ``shared_2``, … (log-odds for one unit of a factor; the strongest first, as many as have
        99.9 % of the variance, so that there may be none). For `fit` with the model spec ``auto``
        or ``imputed_covariate``.

    Raises
    ------
    UsageError, DataError
        If there is no such file, or it cannot be used; every fault is listed.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> error = np.random.default_rng(1).normal(size=100)
    >>> imputations = pd.concat(
    ...     pd.DataFrame({
    ...         "imputation": k, "benchmark": "quiz", "item": ["q1", "q2", "q3"],
    ...         "contamination": 1 / (1 + np.exp([-shift, 1 - shift, 50])),
    ...     })
    ...     for k, shift in enumerate(error)
    ... )
    >>> covariates = read_imputations(imputations)
    >>> covariates.frame.round(2).columns.tolist(), len(covariates.frame)
    (['benchmark', 'item', 'contamination', 'shared_1'], 3)
    """
    if isinstance(imputations, pd.DataFrame):
        return _collapsed(imputations, "DataFrame", contamination_scale)
    frame, source, notes = load_measured(imputations, _KNOWN, contamination_scale)
    found = _collapsed(frame, source, contamination_scale)
    return replace(found, notes=(*notes, *found.notes))


def _collapsed(frame: pd.DataFrame, source: str, scale: Scale) -> Covariates:
    table = to_plain_frame(frame, source)
    faults = FaultList(source, np.arange(1, len(table) + 1))
    need_columns(table, _NEEDED, _KNOWN, faults)
    for name in ("model", "contamination_sd", "p_duplicate", "p_duplicate_sd"):
        if name in table.columns:
            faults.add("is of no use beside imputations, which are of items; remove it", name)
    keys = {name: read_names(table, name, faults) for name in _KEYS if name in table.columns}
    for name in ("benchmark", "item"):
        if name in keys:
            flag_near_duplicates(keys[name], name, faults)
    measures = read_measures(table, faults, "give it, or remove the imputation", scale)
    if set(_NEEDED) <= set(table.columns):
        validate_unique(pd.DataFrame(keys), list(_KEYS), faults)
    faults.raise_if_any()
    values = pd.Series(
        measures["contamination"], pd.MultiIndex.from_frame(pd.DataFrame(keys, dtype=object))
    )
    # Items in the order in which they first stand.
    order = pd.MultiIndex.from_frame(pd.DataFrame(keys)[["benchmark", "item"]].drop_duplicates())
    wide = values.unstack(IMPUTATION).reindex(order)
    _refuse_unusable(wide, source)
    matrix = wide.to_numpy()
    columns: dict[str, Any] = {name: order.get_level_values(name) for name in ("benchmark", "item")}
    columns["contamination"] = matrix.mean(axis=1)
    loadings, whole = _factors(matrix)
    columns |= {f"shared_{k}": part for k, part in enumerate(loadings.T, start=1)}
    count, factors = matrix.shape[1], loadings.shape[1]
    notes = [
        f"{count:,} imputations of {len(matrix):,} items: their contaminations move by {factors:,}"
        f" factor{'' if factors == 1 else 's'}"
    ]
    if factors > max(2, 0.8 * whole):
        notes.append(
            "caution: imputations share little between items; where what is unsure of each item is"
            " its own, give contamination_sd (noisy_covariate) instead of imputations"
        )
    found = Covariates.from_frame(pd.DataFrame(columns), source=source)
    return replace(found, notes=(*faults.notes, *found.notes, *notes))


def _refuse_unusable(wide: pd.DataFrame, source: str) -> None:
    """Refuse too few imputations, items that some lack, and certainty that others contradict."""
    count = wide.shape[1]
    if count < FEWEST:
        problem = f"holds {count} imputation{'' if count == 1 else 's'}"
        advice = f"Give at least {FEWEST}; 100 or more are better."
        raise DataError([Fault(source, problem, column=IMPUTATION)], advice)
    faults = []
    incomplete = wide.isna().any(axis=1).to_numpy()
    if incomplete.any():
        names = _named(wide, incomplete)
        problem = (
            f"{int(incomplete.sum()):,} of {len(wide):,} items are not in all {count:,}"
            f" imputations: {names}; give each item once in each"
        )
        faults.append(Fault(source, problem, column="item"))
    low, high = wide.min(axis=1), wide.max(axis=1)
    certain = ((low < high) & ((low <= 0) | (high >= 1))).to_numpy()
    if certain.any():
        names = _named(wide, certain)
        problem = (
            f"is 0 or 1 in some imputations and not in others: {names}; give numbers between 0 and"
            " 1 for such items, or their probability of being contaminated as p_duplicate in"
            " --covariates"
        )
        faults.append(Fault(source, problem, column="contamination"))
    if faults:
        raise DataError(faults)


def _named(wide: pd.DataFrame, chosen: BoolArray) -> str:
    return join_list((f"{item} of {benchmark}" for benchmark, item in wide.index[chosen]), 5)


def _factors(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Return loadings, dims (item, factor), and the most factors that there might be."""
    unsure = np.ptp(matrix, axis=1) > 0
    if not unsure.any():
        return np.zeros((len(matrix), 0)), 0
    logits = logit(matrix[unsure])
    centred = logits - logits.mean(axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(centred / np.sqrt(matrix.shape[1] - 1), full_matrices=False)
    reached = np.cumsum(size**2) / (size**2).sum()
    count = int(np.searchsorted(reached, SHARE) + 1)
    own = left[:, :count] * size[:count]
    # A factor has no sign of its own: that of its largest loading is positive.
    largest = np.abs(own).argmax(axis=0)
    own = own * np.sign(own[largest, np.arange(count)])
    loadings = np.zeros((len(matrix), count))
    loadings[unsure] = own
    return loadings, min(int(unsure.sum()), matrix.shape[1] - 1)
