"""Ranks: of the truth among draws, and those of a study as ArviZ takes them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._types import FloatArray
from bayescontam.calibration.sbc import ranked
from bayescontam.errors import UsageError
from bayescontam.names import listed, visible

GROUP = "prior_sbc"
"""Where ``arviz.plot_ecdf_pit`` looks for ranks."""
SAMPLE = ("chain", "draw")
"""Dims that ArviZ takes for those of independent values."""
_TIE = 1e-12
"""Distance, beside their size, at which a draw and the truth are the same but for rounding."""


def rank_of(
    truth: float, draws: FloatArray, ess: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Return the rank of the truth among nearly independent draws, and their number.

    >>> rank_of(0.5, np.arange(-2.0, 4.0), 6, np.random.default_rng(1))
    (3, 6)
    """
    # The same numbers are drawn whatever the draws are.
    lot = rng.random()
    if not np.isfinite(draws).all() or not np.isfinite(truth):
        return -1, 0
    step = 1 if np.isnan(ess) else int(np.ceil(len(draws) / max(ess, 1.0)))
    thinned = draws[::step]
    close = np.abs(thinned - truth) <= _TIE * max(1.0, abs(truth))
    below = int(((thinned < truth) & ~close).sum())
    return below + int(lot * (close.sum() + 1)), len(thinned)


def rank_tree(
    rows: pd.DataFrame,
    estimator: str | None,
    cell: str | None,
    quantities: Sequence[str] | None,
) -> xr.DataTree:
    """Return the ranks of an estimator in one cell of a study."""
    used = ranked(rows)
    if used.empty:
        raise UsageError("the study has no ranks yet: none of its fits with draws has ended")
    for column, given in (("estimator", estimator), ("cell", cell)):
        used = used[used[column] == _only(used[column], column, given)]
    used = used[used["quantity"].isin(_wanted(used["quantity"], quantities))]
    wide = used.pivot(index="replicate", columns=["quantity", "where"], values="u")
    whole = wide.dropna()
    if whole.empty:
        rare = str(wide.count().groupby("quantity").min().idxmin())
        raise UsageError(
            f"no replicate has a rank of every quantity; '{visible(rare)}' has the fewest: choose"
            " others with quantities"
        )
    arrays = {
        str(quantity): _array(str(quantity), whole[[quantity]].droplevel("quantity", axis=1))
        for quantity in wide.columns.unique("quantity")
    }
    # A distribution function has no place for ranks that are missing.
    attributes = {"n_left_out": len(wide) - len(whole)}
    attributes |= {column: used[column].iloc[0] for column in ("estimator", "cell")}
    coords = {"chain": [0], "draw": whole.index.to_numpy()}
    return xr.DataTree.from_dict({GROUP: xr.Dataset(arrays, coords, attributes)})


def _only(names: "pd.Series[str]", column: str, given: str | None) -> str:
    """Return the estimator or cell that is requested."""
    known = list(names.drop_duplicates())
    if given is None and len(known) == 1:
        return str(known[0])
    if given not in known:
        got = "there are several" if given is None else f"got '{visible(given)}'"
        raise UsageError(f"{column}: {got}; with ranks there are {listed(known)}: give one")
    return str(given)


def _wanted(names: "pd.Series[str]", given: Sequence[str] | None) -> list[str]:
    """Return the quantities that are requested, if they can be variables."""
    known = list(names.drop_duplicates())
    if unknown := [name for name in given or () if name not in known]:
        raise UsageError(f"quantities: got {listed(unknown)}; with ranks there are {listed(known)}")
    wanted = known if given is None else list(given)
    if barred := [name for name in wanted if "/" in name or name in SAMPLE]:
        raise UsageError(
            f"quantities: {listed(barred)} cannot be the name of a variable beside {SAMPLE}, or"
            " holds a slash: give the formula another name, or choose other quantities"
        )
    return wanted


def _array(quantity: str, values: pd.DataFrame) -> xr.DataArray:
    """Return the ranks of a quantity, dims (chain, draw[, where])."""
    where = list(values.columns)
    if where == [""]:
        return xr.DataArray(values.to_numpy().T, dims=SAMPLE)
    dim = f"{quantity}_where"
    return xr.DataArray(values.to_numpy()[None], {dim: where}, (*SAMPLE, dim))
