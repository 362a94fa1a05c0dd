"""Total effects where spillover is not identified, by what is assumed of it."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._types import BoolArray, FloatArray
from bayescontam.inference.estimands import Items, Population, Reference, reference_levels
from bayescontam.inference.posterior import Draws, accuracy, log_odds, response_guess
from bayescontam.inference.sensitivity import sign_by_assumption
from bayescontam.model import likelihood
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.predictor import contamination_shift

LOCATIONS = (-1.0, -0.5, 0.0, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
"""Locations of the prior of the coefficient of spillover, log-odds if exposed to all items."""
MOST_DRAWS = 400
GROUP = "spillover_assumed"


class AssumedPrior(NamedTuple):
    """A Normal prior of the coefficient of spillover, with its source."""

    mu: float
    sigma: float
    source: str


PUBLISHED = AssumedPrior(
    0.7,
    1.3,
    "coefficients that printed twins would lead one to expect of another base and benchmark"
    " (finetuning on duplicates of MuSR, ZebraLogic and MBPP, and the ecological experiment;"
    " Spiesberger et al. 2026, fitted by the model spec twins)",
)
"""What a table without twins says nothing of: spillover as published twins have it.

Mean 0.73 and standard deviation 1.29 of the coefficient of a new base, benchmark and kind, in a
joint fit of both printed tables; rounded.
"""


def assumed_spillover(
    draws: Draws,
    built: BuiltModel,
    reference: Reference,
    level: float,
    items: Items = "all",
    rng: np.random.Generator | None = None,
    sampled: bool = False,
) -> xr.Dataset | None:
    """Compute total effects by the location of the prior of spillover, where nothing shows it.

    Of fits without spillover for every pair that was exposed, of fits with lineage for those
    without a twin; None where there are no such pairs. Dims (location, model, benchmark):
    ``mean``, ``low``, ``high`` and ``p_positive`` of the total effect; and of each pair
    ``sign_at``, the location at which its sign becomes uncertain.
    """
    # Data without twins hold no information on the coefficient: its posterior is its prior,
    # independent of the score that was fitted, and each draw gets one of its own.
    design = built.design
    if draws.beta is None or design.additive:
        return None
    alone = _without_twin(design, fitted=draws.spillover is not None)
    if not alone.any():
        return None
    rng = np.random.default_rng(0) if rng is None else rng
    population = Population.of(built, items, sampled)
    seen = population.built
    wanted = reference_levels(reference, design)[seen.design.benchmark]
    shape = len(LOCATIONS), *design.answered.shape
    totals: list[FloatArray] = []
    for part in population.parts(draws.thinned(MOST_DRAWS), rng):
        eta = log_odds(part, seen.design)
        observed = population.means("benchmark", accuracy(part, seen, eta=eta), part)
        clean = eta + contamination_shift(part.effects, seen.design, wanted, spilled=False)
        unmet = wanted * ~seen.design.clean[seen.design.model] - seen.design.cell_contamination
        away = PUBLISHED.sigma * rng.standard_normal(len(part))
        guess = response_guess(part, seen.spec, seen.design)
        found = []
        for location in LOCATIONS:
            lifted = clean + (location + away)[:, None] * unmet
            genuine = likelihood.accuracy(lifted, guess)
            found.append(observed - population.means("benchmark", genuine, part))
        totals.append(np.stack(found, axis=1))
    total = np.concatenate(totals).reshape(-1, *shape)
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(total, tails, axis=0)
    positive = (total > 0).mean(axis=0)
    sign_at = np.full(shape[1:], np.nan)
    signs = np.full(shape[1:], "", dtype=object)
    for cell in np.argwhere(alone):
        at = sign_by_assumption(np.array(LOCATIONS), positive[:, *cell], PUBLISHED.mu, level)
        sign_at[tuple(cell)], signs[tuple(cell)] = at
    dims = ("location", "model", "benchmark")
    data = {
        name: (dims, np.where(alone, values, np.nan))
        for name, values in (
            ("mean", total.mean(axis=0)), ("low", low), ("high", high), ("p_positive", positive),
        )
    }  # fmt: skip
    coords = {"location": list(LOCATIONS)} | {n: design.coords[n] for n in ("model", "benchmark")}
    result = xr.Dataset(data, coords)
    said = {"sign_at": (dims[1:], sign_at), "sign": (dims[1:], signs.astype(str))}
    return result.assign(said | {"prior_sd": PUBLISHED.sigma})


def _without_twin(design: Design, fitted: bool) -> BoolArray:
    """Return which exposed pairs do not show by a twin what spillover adds, (model, benchmark)."""
    if not fitted:
        return design.exposed_pairs
    if design.lineage is None:  # models of other exposure show one coefficient for all
        return np.zeros(design.answered.shape, dtype=bool)
    return design.exposed_pairs & ~design.twinned_pairs


def assumed_table(group: xr.Dataset | None) -> pd.DataFrame:
    """Return one row for each pair and location, as `Fit.assumed_spillover` has them."""
    keys, figures = ["model", "benchmark", "location"], ["mean", "low", "high", "p_positive"]
    names = [*keys, *figures, "sign_at", "sign"]
    if group is None:
        return pd.DataFrame(columns=names)
    table = group.drop_vars("prior_sd").to_dataframe(keys)
    return table.reset_index().dropna(subset="mean")[names].reset_index(drop=True)
