"""How results depend on how hard contaminated items are assumed to be."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescontam._types import FloatArray
from bayescontam.inference.convergence import convergence
from bayescontam.inference.sensitivity import (
    Located,
    ShiftedWeights,
    log_ratios,
    prior_locations,
    reliable_range,
)
from bayescontam.inference.summary import DrawWeights
from bayescontam.model.build import BuiltModel
from bayescontam.model.priors import stretch_of_draws
from bayescontam.specs.priors import Prior

_WORDS = ("negative", "uncertain", "positive")
FEWEST = 200
"""Independent draws that both ends of an interval must be worth. An end is then known to about a
fifth of the posterior standard deviation."""
QUANTITIES = ("genuine_ability", "overfitting", "slope")
"""Estimands that are reported along the locations."""
_ENDS = ("", "_low", "_high")
_KEYS = ("changed", "model", "benchmark")


def sign_by_assumption(
    locations: FloatArray, p_positive: FloatArray, own: float, level: float
) -> tuple[float, str]:
    """Return where the sign becomes certain or uncertain, and say it in words.

    >>> sign_by_assumption(np.array([-1.0, 0.0, 1.0]), np.array([0.5, 0.95, 1.0]), 0.0, 0.95)
    (0.5, 'uncertain below 0.50, positive above')
    """
    tails = (1 - level) / 2, (1 + level) / 2
    changes = sorted(
        (float(at), int(rises))
        for tail in tails
        for at, rises in zip(*_crossings(locations, p_positive - tail), strict=True)
    )
    state = int(np.searchsorted(tails, p_positive[0]))
    if not changes:
        return np.nan, f"{_WORDS[state]} throughout"
    parts = [f"{_WORDS[state]} below {_number(changes[0][0])}"]
    for i, (at, rises) in enumerate(changes, start=1):
        state += rises
        if i == len(changes):
            parts.append(f"{_WORDS[state]} above{'' if i == 1 else f' {_number(at)}'}")
        else:
            parts.append(f"{_WORDS[state]} to {_number(changes[i][0])}")
    nearest = min((at for at, _ in changes), key=lambda at: abs(at - own))
    return nearest, ", ".join(parts)


def _crossings(locations: FloatArray, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where a line through points crosses zero, and 1 where it rises or -1."""
    above = excess > 0
    left = np.flatnonzero(above[1:] != above[:-1])
    part = excess[left] / (excess[left] - excess[left + 1])
    at = locations[left] + part * (locations[left + 1] - locations[left])
    return at, np.where(above[left + 1], 1, -1)


def _number(value: float) -> str:
    """Return a location with two decimals and a true minus; never minus zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def confounding_curves(
    posterior: xr.Dataset, estimands: xr.Dataset, built: BuiltModel, level: float
) -> xr.Dataset:
    """Return estimands as functions of the location of the prior of ``kappa``.

    ``kappa`` is the log-odds by which surely contaminated items of a benchmark are harder
    than clean ones. Where all models share one contamination of each item, nothing but
    its prior distinguishes it from the slope.
    """
    if "kappa" not in posterior:
        return _no_curves("All items of each benchmark have the same contamination.")
    design = built.design
    dose = pd.Series(design.item_dose).groupby(design.benchmark)
    # Elsewhere kappa multiplies zero: it is noise that touches no estimand.
    concerned = (dose.max() - dose.min() > 1e-9).to_numpy()
    prior = built.spec.priors.kappa
    # The prior is one of log-odds of accuracies.
    factor = np.asarray(stretch_of_draws(posterior).benchmarks)
    kappa = posterior["kappa"]
    if factor.ndim:
        kappa = kappa / factor.reshape(*kappa.shape[:2], -1)
    curves = shifted_curves(kappa, estimands, prior, level, concerned)
    if built.spec.contamination.sign == "positive" and "sign" in curves:
        curves["sign"] = curves["sign"].where(curves["sign"] == "", "assumed by the model spec")
    return curves


def shifted_curves(
    kappa: xr.DataArray,
    estimands: xr.Dataset,
    prior: Prior,
    level: float,
    concerned: NDArray[np.bool_],
    locations: FloatArray | None = None,
) -> xr.Dataset:
    """Weigh draws as if the prior of ``kappa`` had other locations.

    A draw's weight is p(kappa | location) / p(kappa | own location), with ``"all"`` the
    product over benchmarks, for which the reach is shorter. Good weights of means are not
    yet good enough for intervals: the tail that they move into holds few draws.
    """
    if not isinstance(prior, Located):
        return _no_curves(f"The prior of kappa, {prior.text()}, has no location to move.")
    locations = prior_locations(prior) if locations is None else locations
    own = int(np.abs(locations - prior.mu).argmin())
    draws = kappa.to_numpy().reshape(-1, kappa.sizes["benchmark"])
    ratios = log_ratios(draws, prior, locations) * concerned[:, None]
    changed = {"all": ShiftedWeights.of(ratios.sum(axis=1, keepdims=True))}
    changed["all"] = changed["all"].repeated(len(concerned))
    if concerned.sum() > 1:
        changed["own"] = ShiftedWeights.of(ratios)
    curves = [_curves(weights, estimands, locations, own, level) for weights in changed.values()]
    label = xr.IndexVariable("changed", np.array(list(changed)))
    result = xr.concat(curves, label, join="exact").assign_coords(location=locations)
    return result.assign(own_location=prior.mu, level=level, reason="")


def confounding_table(curves: xr.Dataset | None) -> pd.DataFrame:
    """Return curves as a table."""
    figures = [f"{name}{end}" for name in QUANTITIES for end in _ENDS]
    spans = ["p_positive", "pareto_k", "ess", "reach_low", "reach_high", "sign_at", "sign"]
    columns = [*_KEYS, "location", *figures, *spans]
    if curves is None or curves["reason"].item():
        return pd.DataFrame(columns=columns)
    each = curves.drop_vars(["own_location", "level", "reason"])
    table = each.to_dataframe([*_KEYS, "location"]).reset_index()
    return table.loc[table["sign"] != "", columns].reset_index(drop=True)


def _no_curves(reason: str) -> xr.Dataset:
    return xr.Dataset({"reason": reason})


def _curves(
    weights: ShiftedWeights, estimands: xr.Dataset, locations: FloatArray, own: int, level: float
) -> xr.Dataset:
    """Return the figures of every cell along the locations, dims (location, model, benchmark)."""
    draws = {name: estimands[name].to_numpy() for name in QUANTITIES}
    cells = draws["overfitting"].shape[2:]
    efficiency = _efficiency(draws["overfitting"])
    names = [f"{name}{end}" for name in QUANTITIES for end in _ENDS]
    along = {name: np.full((len(locations), *cells), np.nan) for name in (*names, "p_positive")}
    ess = np.empty((len(locations), *cells))
    spans = {name: np.full(cells, np.nan) for name in ("reach_low", "reach_high", "sign_at")}
    signs = np.full(cells, "", dtype=object)
    for cell in np.ndindex(*cells):
        b = cell[1]
        found = {
            name: _figures(values[..., *cell], weights.share[:, b], level)
            for name, values in draws.items()
        }
        ess[:, *cell] = found["overfitting"][:, 4] * efficiency[cell]
        overfitting = draws["overfitting"][..., *cell]
        if np.isnan(overfitting).any():  # not answered
            continue
        reached = reliable_range(weights.trusted[:, b] & (ess[:, *cell] >= FEWEST), own)
        for name in QUANTITIES:
            for i, end in enumerate(_ENDS):
                along[f"{name}{end}"][reached, *cell] = found[name][reached, i]
        chance = found["overfitting"][reached, 3]
        along["p_positive"][reached, *cell] = chance
        spans["reach_low"][cell], spans["reach_high"][cell] = locations[reached][[0, -1]]
        if overfitting.any():
            at = sign_by_assumption(locations[reached], chance, locations[own], level)
            spans["sign_at"][cell], signs[cell] = at
        else:
            signs[cell] = "zero by definition"
    dims = ("location", "model", "benchmark")
    pareto_k = np.broadcast_to(weights.pareto_k[:, None, :], ess.shape)
    data: dict[str, Any] = {name: (dims, values) for name, values in along.items()}
    data |= {"pareto_k": (dims, pareto_k), "ess": (dims, ess)}
    data |= {name: (dims[1:], values) for name, values in spans.items()}
    data["sign"] = dims[1:], signs.astype(str)
    return xr.Dataset(data, {dim: estimands[dim].to_numpy() for dim in dims[1:]})


def _figures(values: FloatArray, shares: FloatArray, level: float) -> FloatArray:
    """Return mean, ends of the interval, P(> 0) and what the ends are worth, by location.

    An end is worth as many equal draws as would estimate the weight beyond it as well.
    """
    # Sorted once: intervals sort again, which then costs next to nothing.
    order = np.argsort(values.ravel(), kind="stable")
    ordered, rows = values.ravel()[order], []
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    for share in shares[:, order]:
        weights = DrawWeights(share, order, (values.shape[0], values.shape[1]))
        ends = weights.interval(ordered, level)
        beyond = ordered <= np.array(ends)[:, None]
        error = (share**2 * (beyond - tails[:, None]) ** 2).sum(axis=1)
        worth = (tails * (1 - tails) / error).min() if np.ptp(values) > 0 else weights.ess
        positive = min(1.0, float(share[ordered > 0].sum()))
        rows.append((share @ ordered, *ends, positive, worth))
    return np.array(rows)


def _efficiency(draws: FloatArray) -> FloatArray:
    """Return how many independent draws one of the chains' is worth, dims (model, benchmark).

    In the tails, at most 1, and 1 for a constant.
    """
    cells = draws.reshape(*draws.shape[:2], -1)
    ess = convergence(cells)["ess_tail"] / (cells.shape[0] * cells.shape[1])
    return np.minimum(np.where(np.isnan(ess), 1.0, ess), 1.0).reshape(draws.shape[2:])
