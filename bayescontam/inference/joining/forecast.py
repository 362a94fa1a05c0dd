"""Forecast: the log weights of all draws of a fit, from those of a few."""

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.priors import SMALLEST

_WIDEST = 200
"""Parameters of more values than this, such as item difficulties, are left out."""


def features(posterior: xr.Dataset) -> FloatArray:
    """Return what weights may depend on, dims (draw, feature), standardised."""
    columns = []
    for name, values in posterior.data_vars.items():
        flat = values.to_numpy().reshape(values.shape[0] * values.shape[1], -1)
        if flat.shape[1] <= _WIDEST and "item" not in values.dims:
            columns.append(np.log(flat + SMALLEST) if str(name).startswith("sigma") else flat)
    table = np.concatenate(columns, axis=1)
    spread = table.std(axis=0)
    varying = spread > 0
    standard: FloatArray = (table[:, varying] - table[:, varying].mean(axis=0)) / spread[varying]
    return standard


def forecast(table: FloatArray, known: IntArray, log_weights: FloatArray) -> FloatArray:
    """Return predicted log weights of all draws by ridge regression.

    Dims (draw,).

    Golub, Heath & Wahba (1979), doi:10.1080/00401706.1979.10489751.
    """
    middle = log_weights.mean()
    left, singular, right = np.linalg.svd(table[known], full_matrices=False)
    along = left.T @ (log_weights - middle)
    best, chosen = np.inf, np.zeros(len(singular))
    for ridge in np.geomspace(0.01, 1000, 16) * len(known) / 10:
        shrunk = singular**2 / (singular**2 + ridge)
        error = log_weights - middle - left @ (shrunk * along)
        score = (error**2).sum() / (len(known) - shrunk.sum()) ** 2
        if score < best:
            best, chosen = score, singular / (singular**2 + ridge)
    predicted: FloatArray = middle + table @ (right.T @ (chosen * along))
    return predicted
