"""Ranks: those of a study as ArviZ takes them."""

import pandas as pd
import xarray as xr

from bayescontam.calibration.sbc import ranked
from bayescontam.errors import UsageError
from bayescontam.names import listed, visible

GROUP = "prior_sbc"
"""Where ``arviz.plot_ecdf_pit`` looks for ranks."""


def rank_tree(rows: pd.DataFrame, estimator: str | None, cell: str | None) -> xr.DataTree:
    """Return the ranks of an estimator in one cell of a study.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `bayescontam.calibration.rows.read_rows`, of a study whose truths are drawn.
    estimator, cell : str or None
        None: the only one.

    Returns
    -------
    xarray.DataTree
        See `bayescontam.calibration.results.StudyResults.ranks`.

    Raises
    ------
    UsageError
        If there are no such ranks, or several estimators or cells to choose from.
    """
    used = ranked(rows)
    if used.empty:
        raise UsageError("the study has no ranks yet: none of its fits with draws has ended")
    for column, given in (("estimator", estimator), ("cell", cell)):
        used = used[used[column] == _only(used[column], column, given)]
    wide = used.pivot(index="replicate", columns=["quantity", "where"], values="u")
    whole = wide.dropna()
    arrays = {
        str(quantity): _array(str(quantity), whole[[quantity]].droplevel("quantity", axis=1))
        for quantity in wide.columns.unique("quantity")
    }
    # A distribution function has no place for ranks that are missing.
    told = {"n_left_out": len(wide) - len(whole)}
    told |= {column: used[column].iloc[0] for column in ("estimator", "cell")}
    coords = {"chain": [0], "draw": whole.index.to_numpy()}
    return xr.DataTree.from_dict({GROUP: xr.Dataset(arrays, coords, told)})


def _only(names: "pd.Series[str]", column: str, given: str | None) -> str:
    """Return the estimator or cell that is asked for."""
    known = list(names.drop_duplicates())
    if given is None and len(known) == 1:
        return str(known[0])
    if given not in known:
        got = "there are several" if given is None else f"got '{visible(given)}'"
        raise UsageError(f"{column}: {got}; with ranks there are {listed(known)}: give one")
    return str(given)


def _array(quantity: str, values: pd.DataFrame) -> xr.DataArray:
    """Return the ranks of a quantity, dims (chain, draw[, where])."""
    where = list(values.columns)
    if where == [""]:
        return xr.DataArray(values.to_numpy().T, dims=("chain", "draw"))
    dim = f"{quantity}_where"
    return xr.DataArray(values.to_numpy()[None], {dim: where}, ("chain", "draw", dim))
