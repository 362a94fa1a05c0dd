"""Curves: accuracy as a function of contamination, over the whole benchmark."""

import numpy as np
import xarray as xr

from bayescontam.inference.averages import Averages
from bayescontam.inference.build import Built
from bayescontam.inference.difficulties import counted, stand_ins
from bayescontam.inference.draws import CACHED, Draws, accuracy_at, log_odds
from bayescontam.inference.guess import response_guess

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
    seen = stand_ins(built)
    average = Averages.over(seen.design, "model_benchmark", design.answered.size)
    low, high = design.contamination_range()
    grid = np.linspace(low, high, POINTS, axis=1)
    draws = draws.thinned(MOST_DRAWS)
    parts = []
    for some in draws.chunks(seen.design, CACHED):
        part = counted(some, built.lattice)
        eta, guess = log_odds(part, seen.design), response_guess(part, built.spec, seen.design)
        points = [
            average.of(accuracy_at(part, seen.design, eta, at[seen.design.benchmark], guess), part)
            for at in grid.T
        ]
        parts.append(np.stack(points, axis=-1))
    curves = np.concatenate(parts).reshape(-1, *design.answered.shape, POINTS)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(curves, tails, axis=0)
    dims = ("model", "benchmark", "point")
    data = {"mean": (dims, curves.mean(axis=0)), "low": (dims, lower), "high": (dims, upper)}
    coords = {name: design.coords[name] for name in ("model", "benchmark")}
    return xr.Dataset(data | {"contamination": (("benchmark", "point"), grid)}, coords)
