"""Fits of every shipped model spec at three sizes, to data simulated at plausible values."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import xarray as xr

import bayescontam
from bayescontam._random import stream
from bayescontam.errors import DataError
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import Draws, predictor
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.exposure import draw_nodes
from bayescontam.specs.registry import load_model, shipped_models
from benchmarks.specs import Case, Result, answered, below, fared, quantities, with_counts

SIZES: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "1 × 1 × 400": (1, (400,)),
    "8 × 2 × 400": (8, (400, 400)),
    "12 × 11 × 100 to 500": (12, tuple(range(100, 501, 40))),
}
"""Models, and items of each benchmark."""


def size_cases(size: str) -> list[Case]:
    """Return a case for every shipped model spec at a size, and one with repeated trials."""
    models, items = SIZES[size]
    cases = [Case(name, models, items, note=size) for name in shipped_models()]
    if size == "8 × 2 × 400":
        cases.append(Case("hierarchical", models, items, 5, note=f"{size}, 5 trials"))
    return cases


def sized(case: Case) -> Result:
    """Fit one data set of a size at default settings, the truth set to plausible values."""
    spec = load_model(case.spec)
    names = (1, "size", case.name)
    responses = case.table(spec, stream(*names, "table"))
    try:
        built = build(spec, responses)
    except DataError as error:
        return {"refused": str(error)}
    rng = stream(*names, "answers")
    truth = plausible(built, rng)
    simulated = with_counts(responses, answered(truth, built, rng))
    fit = bayescontam.fit(simulated, spec, seed=1, cores=1)
    groups = {name: group.to_dataset() for name, group in fit.data.children.items()}
    reported = quantities(groups, groups["posterior"])
    true = quantities(estimands(truth, built, (1, 1), "min_observed"), xr.Dataset())
    return {
        "below": {name: below(reported[name], values, rng) for name, values in true.items()},
        **fared(reported, groups["sample_stats"]),
        "checks": {c.name: c.outcome.value for c in fit.checks()},
        "values": {c.name: c.to_dict()["value"] for c in fit.checks()},
        "left_out": [symbol for symbol, _ in fit.record["left_out"]],
        "sampling": fit.record["seconds"]["sampling"],
    }


def plausible(built: BuiltModel, rng: np.random.Generator) -> Draws:
    """Return one draw of all effects: their spreads from the middle of the priors.

    Abilities have a standard deviation of 1, slopes are about 1.5, difficulties have a
    standard deviation of 0.8 and model-by-item effects of 1.
    """
    design, terms = built.design, built.terms
    models, units, benchmarks = (len(x) for x in (design.models, design.units, design.benchmarks))
    own = rng.normal(0, 0.8, (models, 1)) + rng.normal(0, 0.3, (models, units))
    slope = rng.normal(1.5, 0.3, (models, benchmarks)) * ~design.clean[:, None]
    rise = np.exp(-0.3 * np.arange(len(design.knots) + 1))
    effects: dict[str, Any] = {
        "theta": own + rng.normal(0, 0.5, units),
        "beta": slope if "beta" in terms else None,
        "delta": rng.normal(0, 0.8, len(design.items)) if "delta" in terms else None,
        "alpha": np.exp(rng.normal(0, 0.3, len(design.items))) if "alpha" in terms else None,
        "increments": rise / rise.sum() if "increments" in terms else None,
        "kappa": rng.normal(-0.5, 0.2, benchmarks) if "kappa" in terms else None,
        "gamma": 0.3 if "gamma" in terms else None,
        "spillover": 1.0 if "spillover" in terms else None,
    }
    empty: dict[str, Any] = {field.name: None for field in fields(Draws)}
    rows = {n: np.reshape(v, (1, -1)) for n, v in effects.items() if v is not None}
    truth = Draws(**(empty | rows))
    if "eps" in terms:
        eta = predictor(truth, design)[:, design.n_single :]
        rows |= {"eta": eta + rng.normal(0, 1, eta.shape), "sigma_eps": np.ones((1, 1))}
    if design.exposure is not None:
        rows["node"] = draw_nodes(design.exposure.log_weights[None], rng)
    return Draws(**(empty | rows))
