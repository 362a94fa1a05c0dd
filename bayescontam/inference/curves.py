"""Curves: accuracy as a function of contamination, over the whole benchmark."""

import numpy as np
import xarray as xr

from bayescontam.inference.build import Built
from bayescontam.inference.draws import Draws, accuracy_at, log_odds, response_guess
from bayescontam.inference.population import Items, Population

MOST_DRAWS = 400
POINTS = 13


def dose_response(
    draws: Draws,
    built: Built,
    level: float,
    items: Items = "all",
    rng: np.random.Generator | None = None,
    sampled: bool = False,
) -> xr.Dataset:
    """Compute dose-response curves.

    Dims (model, benchmark, point).
    """
    design = built.design
    population = Population.of(built, items, sampled)
    seen = population.built
    low, high = design.contamination_range()
    grid = np.linspace(low, high, POINTS, axis=1)
    parts = []
    rng = np.random.default_rng(0) if rng is None else rng
    for part in population.parts(draws.thinned(MOST_DRAWS), rng):
        eta, guess = log_odds(part, seen.design), response_guess(part, built.spec, seen.design)
        accuracies = (
            accuracy_at(part, seen.design, eta, at[seen.design.benchmark], guess) for at in grid.T
        )
        points = [population.means("benchmark", p, part) for p in accuracies]
        parts.append(np.stack(points, axis=-1))
    curves = np.concatenate(parts).reshape(-1, *design.answered.shape, POINTS)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(curves, tails, axis=0)
    dims = ("model", "benchmark", "point")
    data = {"mean": (dims, curves.mean(axis=0)), "low": (dims, lower), "high": (dims, upper)}
    coords = {name: design.coords[name] for name in ("model", "benchmark")}
    return xr.Dataset(data | {"contamination": (("benchmark", "point"), grid)}, coords)
