"""Curves: accuracy as a function of contamination, over the whole benchmark."""

import numpy as np
import xarray as xr

from bayescontam.inference.build import Built
from bayescontam.inference.draws import Draws, accuracy_at, log_odds
from bayescontam.inference.guess import response_guess
from bayescontam.inference.predictive import Cells

MOST_DRAWS = 400
POINTS = 13


def dose_response(draws: Draws, built: Built, level: float) -> xr.Dataset:
    """Compute dose-response curves.

    Parameters
    ----------
    draws : Draws
    built : Built
    level : float
        Probability of the pointwise equal-tailed bands.

    Returns
    -------
    xarray.Dataset
        ``mean``, ``low`` and ``high``, dims (model, benchmark, point): mean accuracy
        over the items if all had the ``contamination`` (benchmark, point), which runs
        over the range observed in the benchmark.
    """
    design = built.design
    cells = Cells(design.model_benchmark, design.answered.size, design.weight)
    low, high = design.contamination_range()
    grid = np.linspace(low, high, POINTS, axis=1)
    draws = draws.thinned(MOST_DRAWS)
    points = []
    for k in range(POINTS):
        parts = []
        for part in draws.chunks(design):
            eta, guess = log_odds(part, design), response_guess(part, built.spec, design)
            parts.append(
                cells.means(accuracy_at(part, design, eta, grid[design.benchmark, k], guess))
            )
        points.append(np.concatenate(parts))
    curves = np.stack(points, axis=-1).reshape(-1, *design.answered.shape, POINTS)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(curves, tails, axis=0)
    dims = ("model", "benchmark", "point")
    data = {"mean": (dims, curves.mean(axis=0)), "low": (dims, lower), "high": (dims, upper)}
    coords = {name: design.coords[name] for name in ("model", "benchmark")}
    return xr.Dataset(data | {"contamination": (("benchmark", "point"), grid)}, coords)
