"""Estimands: what users read, by standardisation over items, draw by draw."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.build import Built
from bayescontam.inference.design import Design
from bayescontam.inference.draws import Draws, accuracy_at, exposed, log_odds, response_guess
from bayescontam.inference.likelihood import accuracy
from bayescontam.inference.population import Items, Population, comparable

Reference = str | float
"""``"min_observed"``, ``"zero"`` or a number in [0, 1]."""
QUANTITIES = (
    "accuracy",
    "genuine_ability",
    "overfitting",
    "overfitting_fraction",
    "spillover",
    "slope",
    "novelty_gap",
    "rank",
)
"""Estimands of a fit with contamination, in the order in which they are shown."""


def reference_levels(reference: Reference, design: Design) -> FloatArray:
    """Return the reference contamination of each benchmark, dims (benchmark,)."""
    level = reference_level(reference)
    if level is None:
        return design.contamination_range()[0]
    return np.full(len(design.benchmarks), level)


def reference_level(reference: Reference) -> float | None:
    """Return the reference as a number; None stands for the smallest observed."""
    if reference == "min_observed":
        return None
    try:
        level = 0.0 if reference == "zero" else float(reference)
    except ValueError:
        level = float("nan")
    if not 0 <= level <= 1:
        raise UsageError(
            f"reference: got {reference!r}; allowed are 'min_observed', 'zero' or a number"
            " in [0, 1]"
        )
    return level


def estimands(
    draws: Draws,
    built: Built,
    shape: tuple[int, int],
    reference: Reference,
    items: Items = "all",
    rng: np.random.Generator | None = None,
    sampled: bool = False,
) -> dict[str, xr.Dataset]:
    """Compute the estimands of every draw.

    Dims (chain, draw, model, benchmark).
    """
    design = built.design
    population = Population.of(built, items, sampled)
    rng = np.random.default_rng(0) if rng is None else rng
    parts: dict[str, list[dict[str, FloatArray]]] = {kind: [] for kind in population.matrices}
    for part in population.parts(draws, rng):
        levels = _accuracies(part, population.built, reference)
        for kind in parts:
            means = {name: population.means(kind, p, part) for name, p in levels.items()}
            parts[kind].append(means)
    ranked = comparable(built, items)
    result = {}
    for dim, found in parts.items():
        of_cell = design.benchmark_of_unit if dim != "benchmark" else np.arange(len(ranked))
        cells = {
            name: np.concatenate([p[name] for p in found]).reshape(
                *shape, len(design.models), len(of_cell)
            )
            for name in found[0]
        }
        slope = None
        if draws.beta is not None and dim == "benchmark":
            slope = draws.beta.reshape(cells["observed"].shape)
        group = "estimands" if dim == "benchmark" else "estimands_by_concept"
        quantities = _quantities(cells, slope)
        quantities["rank"] = np.where(ranked[of_cell], quantities["rank"], np.nan)
        result[group] = _dataset(quantities, design, dim)
    return result


def _accuracies(draws: Draws, built: Built, reference: Reference) -> dict[str, FloatArray]:
    """Return the accuracy of each response at the levels that estimands compare."""
    design = built.design
    guess = response_guess(draws, built.spec, design)
    eta = log_odds(draws, design)
    levels = {"observed": accuracy(exposed(draws, design, eta), guess)}
    if draws.beta is not None:
        low, high = design.contamination_range()
        wanted = {"reference": reference_levels(reference, design), "low": low, "high": high}
        for name, level in wanted.items():
            # The usual reference is the lowest contamination itself, and this is the slow part.
            if name == "low" and np.array_equal(level, wanted["reference"]):
                levels[name] = levels["reference"]
                continue
            levels[name] = accuracy_at(draws, design, eta, level[design.benchmark], guess)
        if draws.spillover is not None:
            # Items at the reference, in a benchmark whose mean contamination stays what it is.
            at = wanted["reference"][design.benchmark]
            levels["lifted"] = accuracy_at(draws, design, eta, at, guess, spilled=False)
    return levels


def _quantities(cells: dict[str, FloatArray], slope: FloatArray | None) -> dict[str, FloatArray]:
    observed = cells["observed"]
    if "reference" not in cells:
        return {"accuracy": observed, "rank": ranks(observed)}
    genuine = cells["reference"]
    quantities: dict[str, FloatArray | None]
    with np.errstate(invalid="ignore", divide="ignore"):
        quantities = {
            "accuracy": observed,
            "genuine_ability": genuine,
            "overfitting": observed - genuine,
            "overfitting_fraction": (observed - genuine) / observed,
            "spillover": cells["lifted"] - genuine if "lifted" in cells else None,
            "novelty_gap": cells["high"] - cells["low"],
            "rank": ranks(genuine),
        }
    if slope is not None:
        quantities["slope"] = slope
    return {name: found for name in QUANTITIES if (found := quantities.get(name)) is not None}


def ranks(ability: FloatArray) -> FloatArray:
    """Return ranks along the second-last axis (models), 1 for the largest.

    Equal models share their mean rank. Models that answered nothing stand at 0 and so
    behind all others.
    """
    result: FloatArray = rankdata(-ability, method="average", axis=-2)
    return result


def _dataset(quantities: dict[str, FloatArray], design: Design, dim: str) -> xr.Dataset:
    dims = ("chain", "draw", "model", dim)
    if dim == "benchmark":
        answered = design.answered
    else:
        size = len(design.models) * len(design.units)
        count = np.bincount(design.model_unit, minlength=size)
        answered = count.reshape(len(design.models), len(design.units)) > 0
    data: dict[str, Any] = {
        name: (dims, np.where(answered, values, np.nan)) for name, values in quantities.items()
    }
    coords = {name: design.coords[name] for name in ("model", dim)}
    return xr.Dataset(data, coords)
