"""Compare: fits of the same data by how well they predict responses left out."""

from collections.abc import Mapping

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.utils import ELPDDataLOO

from bayescontam.errors import FitError, UsageError
from bayescontam.inference.design import Floats
from bayescontam.inference.fitted import Fitted
from bayescontam.names import listed, visible

GOOD_K = 0.7


def compare_fits(fits: Mapping[str, Fitted]) -> pd.DataFrame:
    """Compare fits by PSIS-LOO, with stacking weights.

    Parameters
    ----------
    fits : mapping of str to Fitted
        At least two, under the names to show. All must be of the same responses.

    Returns
    -------
    pandas.DataFrame
        One row for each fit, best first: ``fit``, ``elpd`` (sum of log predictive
        densities of left-out responses), ``se``, ``p_loo`` (effective number of
        parameters), ``elpd_diff`` and ``diff_se`` (behind the best), ``weight``
        (stacking), ``bad_k`` (responses whose Pareto k exceeds 0.7) and ``verdict``.

    Raises
    ------
    UsageError
        If there are fewer than two fits.
    FitError
        If they are not of the same responses.

    References
    ----------
    Yao, Vehtari, Simpson & Gelman (2018), doi:10.1214/17-BA1091, on stacking; Sivula,
    Magnusson, Matamoros & Vehtari (2025), doi:10.1214/25-BA1569, on when differences
    are too small to tell.
    """
    if len(fits) < 2:
        raise UsageError("compare: give at least two fits")
    _refuse_different_data(fits)
    pointwise = {name: _in_one_order(fit) for name, fit in fits.items()}
    compared = az.compare({name: _elpd(loo) for name, loo in pointwise.items()}, round_to="none")
    best = str(compared.index[0])
    rows = [
        _row(name, pointwise, best, float(compared.loc[name, "weight"])) for name in compared.index
    ]
    return pd.DataFrame(rows)


def _row(
    name: str, pointwise: dict[str, xr.Dataset], best: str, weight: float
) -> dict[str, object]:
    loo = pointwise[name]
    elpd = loo["elpd"].to_numpy()
    behind = pointwise[best]["elpd"].to_numpy() - elpd
    bad = int((loo["pareto_k"] > GOOD_K).sum())
    difference, error = float(behind.sum()), _sum_se(behind)
    return {
        "fit": name,
        "elpd": float(elpd.sum()),
        "se": _sum_se(elpd),
        "p_loo": float((loo["log_density"] - loo["elpd"]).sum()),
        "elpd_diff": difference,
        "diff_se": error,
        "weight": weight,
        "bad_k": bad,
        "verdict": _verdict(name == best, difference, error, bad),
    }


def _verdict(best: bool, difference: float, error: float, bad: int) -> str:
    unreliable = f" {bad} responses have Pareto k > {GOOD_K:g}: unreliable there." if bad else ""
    if best:
        return "best" + (";" + unreliable if bad else "")
    if difference < 4:
        text = "as good as the best: a difference below 4 is too small to tell."
    elif difference < 2 * error:
        text = "not told apart from the best: the difference is below 2 standard errors."
    else:
        text = "predicts worse than the best."
    return text + unreliable


def _sum_se(values: Floats) -> float:
    return float(np.sqrt(len(values) * np.var(values, ddof=1)))


def _refuse_different_data(fits: Mapping[str, Fitted]) -> None:
    hashes = {name: fit.record["data"]["hash"] for name, fit in fits.items()}
    first = next(iter(hashes))
    others = [name for name, value in hashes.items() if value != hashes[first]]
    if others:
        raise FitError(
            f"compare: {listed(others)} and '{visible(first, 60)}' are fits of different responses;"
            " only fits of the same responses can be compared: fit the same table, with the same"
            " --where, with each model spec"
        )


def _in_one_order(fit: Fitted) -> xr.Dataset:
    """Return the pointwise figures ordered by (model, benchmark, item), not by file."""
    data = fit.tree["constant_data"].to_dataset()
    names = (("model", "model"), ("benchmark", "benchmark"), ("item", "item"))
    keys = [data[dim].to_numpy()[data[f"{of}_of_response"].to_numpy()] for dim, of in names]
    order = pd.MultiIndex.from_arrays(keys).argsort()
    return fit.tree["loo"].to_dataset().isel(response=order)


def _elpd(loo: xr.Dataset) -> ELPDDataLOO:
    elpd = loo["elpd"].to_numpy()
    return ELPDDataLOO(
        elpd=float(elpd.sum()),
        se=_sum_se(elpd),
        p=float((loo["log_density"] - loo["elpd"]).sum()),
        n_samples=loo.sizes["kept_draw"],
        n_data_points=len(elpd),
        scale="log",
        warning=False,
        good_k=GOOD_K,
        elpd_i=xr.DataArray(elpd, dims="response"),
        pareto_k=xr.DataArray(loo["pareto_k"].to_numpy(), dims="response"),
    )
