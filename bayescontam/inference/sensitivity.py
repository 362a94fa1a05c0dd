"""How results depend on priors: power-scaling, and the assumed difficulty of contaminated items."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.inference.convergence import convergence
from bayescontam.inference.psis import max_pareto_k, psis_weights
from bayescontam.inference.summary import DrawWeights
from bayescontam.model.build import BuiltModel
from bayescontam.model.effect_names import DIRECT, EffectNames
from bayescontam.model.guessing import guess_priors
from bayescontam.model.priors import distribution, is_stretched, stretch_of_draws
from bayescontam.specs.priors import Beta, Dirichlet, Logistic, Normal, Prior, StudentT

THRESHOLD = 0.05
"""Sensitivity above which it matters, as Kallioinen et al. (2024) propose."""
Located = Normal | Logistic | StudentT
"""Priors with a location that can be moved."""
_STEPS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
STEPS = np.array([*(-step for step in reversed(_STEPS)), 0.0, *_STEPS])
"""Locations that are looked at, in scales of the prior from its own location."""
FEWEST = 200
"""Independent draws that both ends of an interval must be worth. An end is then known to about a
fifth of the posterior standard deviation."""
_POWERS = 0.99, 1.01
"""Powers of a density between which sensitivity is measured: those of ArviZ."""
_WORDS = ("negative", "uncertain", "positive")
_ENDS = ("", "_low", "_high")
_KEYS = ("changed", "model", "benchmark")


def top_level(
    posterior: xr.Dataset, built: BuiltModel
) -> Iterator[tuple[str, str, FloatArray, FloatArray]]:
    """Yield key, variable, draws and their factor, (draw, cell), of what has a prior of the spec.

    Effects that the data inform through a spread of their own (items, models) belong to the model,
    not to what the user chose.
    """
    stretched, spec = stretch_of_draws(posterior), built.spec
    count = posterior.sizes["chain"] * posterior.sizes["draw"]
    variables: dict[str, str] = {name: name for name in type(spec.priors).model_fields}
    if spec.contamination.pooling == "none":
        variables["beta_bar"] = "beta_free" if built.design.clean.any() else "beta"
    if spec.ability.pooling != "none":
        del variables["theta"]
    if "sigma_mu" in built.terms:
        del variables["mu"]
    for key, variable in variables.items():
        if variable not in posterior:
            continue
        factor = np.asarray(stretched.of(key, spec, built.design))
        factor = factor.reshape(count, -1) if factor.ndim else factor
        yield key, variable, posterior[variable].to_numpy().reshape(count, -1), factor


def log_prior(posterior: xr.Dataset, built: BuiltModel) -> FloatArray:
    """Return the log prior density of the top-level parameters together, dims (draw,)."""
    total = np.zeros(posterior.sizes["chain"] * posterior.sizes["draw"])
    for density in log_priors(posterior, built).values():
        total += density
    return total


def log_priors(posterior: xr.Dataset, built: BuiltModel) -> dict[str, FloatArray]:
    """Return the log prior density of each top-level parameter, dims (draw,), chains joined."""
    found = {}
    for key, variable, values, factor in top_level(posterior, built):
        density = _log_density(getattr(built.spec.priors, key), values / factor)
        if is_stretched(key, built.spec):
            density = density - (np.log(factor) + np.zeros(values.shape)).sum(axis=1)
        found[variable] = density
    if "guess" in posterior:
        guess = posterior["guess"].to_numpy()
        guess = guess.reshape(guess.shape[0] * guess.shape[1], -1)
        found["guess"] = np.zeros(len(guess))
        for b, prior in enumerate(guess_priors(built.spec, built.design)):
            if isinstance(prior, Beta):
                found["guess"] += _log_density(prior, guess[:, [b]])
    return found


def _log_density(prior: Prior | Beta | Dirichlet, values: FloatArray) -> FloatArray:
    """Return the log density of a parameter's cells together, dims (draw,)."""
    if isinstance(prior, Dirichlet):
        # The constant is the same for all draws.
        density: FloatArray = (prior.alpha - 1) * np.log(values).sum(axis=1)
        return density
    return distribution(prior).logpdf(values).sum(axis=1)


def power_scaling(estimands: xr.Dataset, prior: FloatArray, likelihood: FloatArray) -> xr.Dataset:
    """Return the power-scaling sensitivity of each estimand (doi:10.1007/s11222-023-10366-5)."""
    result = xr.Dataset(coords={"model": estimands["model"], "benchmark": estimands["benchmark"]})
    weights = {"prior": _scaled_weights(prior), "likelihood": _scaled_weights(likelihood)}
    for name in (name for name in estimands.data_vars if name != "rank"):
        cells = estimands[name].to_numpy()
        shape, cells = cells.shape[2:], cells.reshape(prior.size, -1).T
        # A constant cannot move; NaN says so, where ArviZ would divide by zero.
        moving = np.ptp(cells, axis=1) > 0
        for kind, ends in weights.items():
            change = np.full(len(moving), np.nan)
            if moving.any():
                known = cells[moving]
                low, high = (np.broadcast_to(weight, known.shape) for weight in ends)
                change[moving] = array_stats.power_scale_sense(
                    known, low, high, *_POWERS, chain_axis=None
                )
            result[f"{name}_{kind}"] = (("model", "benchmark"), change.reshape(shape))
    return result


def _scaled_weights(density: FloatArray) -> list[FloatArray]:
    """Return smoothed weights of draws, (draw,), under a weaker and a stronger log density.

    ArviZ's `psense` works them out again for every estimand.
    """
    found = (np.exp(array_stats.power_scale_lw(density, power)) for power in _POWERS)
    return [weights / weights.sum() for weights in found]


def prior_locations(prior: Located) -> FloatArray:
    """Return the locations to look at: around the prior's own, densest there, and 0."""
    scale = float(distribution(prior).ppf(norm.cdf(1)) - prior.mu)
    locations: FloatArray = prior.mu + scale * STEPS
    if locations[0] < 0 < locations[-1] and np.abs(locations).min() > 1e-6 * scale:
        locations = np.sort([*locations, 0.0])
    return locations


def log_ratios(draws: FloatArray, prior: Located, locations: FloatArray) -> FloatArray:
    """Return log densities at other locations less those at the own, by location."""
    density = distribution(prior).logpdf
    # Moving the prior up is moving the draws down; at the own location this is exactly zero.
    moved = draws - (locations - prior.mu)[:, None, None]
    return (density(moved) - density(draws)).transpose(0, 2, 1)


def reliable_range(good: NDArray[np.bool_], own: int) -> NDArray[np.bool_]:
    """Return which locations are good, as are all between them and the prior's own.

    >>> reliable_range(np.array([True, False, True, False, True, True]), 3).tolist()
    [False, False, True, True, True, True]
    """
    good = good.copy()
    good[own] = True
    below = np.logical_and.accumulate(good[own::-1])[::-1]
    return np.concatenate([below[:-1], np.logical_and.accumulate(good[own:])])


def sign_by_assumption(
    locations: FloatArray, p_positive: FloatArray, own: float, level: float
) -> tuple[float, str]:
    """Return the nearest location where the sign becomes certain or uncertain, and all in words.

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
    ends = [f"{round(at, 2) + 0.0:.2f}".replace("-", "−") for at, _ in changes]
    parts: list[str] = []
    for end, (_, rises) in zip(ends, changes, strict=True):
        parts.append(f"{_WORDS[state]} {'to' if parts else 'below'} {end}")
        state += rises
    parts.append(f"{_WORDS[state]} above{f' {ends[-1]}' if len(ends) > 1 else ''}")
    nearest = min((at for at, _ in changes), key=lambda at: abs(at - own))
    return nearest, ", ".join(parts)


def _crossings(locations: FloatArray, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where a line through points crosses zero, and 1 where it rises or -1."""
    above = excess > 0
    left = np.flatnonzero(above[1:] != above[:-1])
    part = excess[left] / (excess[left] - excess[left + 1])
    at = locations[left] + part * (locations[left + 1] - locations[left])
    return at, np.where(above[left + 1], 1, -1)


def confounding_curves(
    posterior: xr.Dataset, estimands: xr.Dataset, built: BuiltModel, level: float
) -> xr.Dataset:
    """Return estimands as functions of the location of the prior of ``kappa``."""
    # kappa is the log-odds by which surely contaminated items of a benchmark are harder than clean
    # ones. Where all models share one contamination of each item, nothing but its prior
    # distinguishes it from the slope.
    if "kappa" not in posterior:
        reason = "All items of each benchmark have the same contamination."
        return xr.Dataset({"reason": reason})
    design = built.design
    dose = pd.Series(design.item_dose).groupby(design.benchmark)
    # Elsewhere kappa multiplies zero: it is noise that touches no estimand.
    concerned = (dose.max() - dose.min() > 1e-9).to_numpy()
    # The prior is one of log-odds of accuracies.
    factor = np.asarray(stretch_of_draws(posterior).benchmarks)
    kappa = posterior["kappa"]
    if factor.ndim:
        kappa = kappa / factor.reshape(*kappa.shape[:2], -1)
    curves = shifted_curves(kappa, estimands, built.spec.priors.kappa, level, concerned)
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
    """Weigh draws as if the prior of ``kappa`` had other locations."""
    # A draw's weight is p(kappa | location) / p(kappa | own location), with "all" the product over
    # benchmarks, for which the reach is shorter. Good weights of means are not yet good enough for
    # intervals: the tail that they move into holds few draws.
    if not isinstance(prior, Located):
        reason = f"The prior of kappa, {prior.text()}, has no location to move."
        return xr.Dataset({"reason": reason})
    locations = prior_locations(prior) if locations is None else locations
    own = int(np.abs(locations - prior.mu).argmin())
    draws = kappa.to_numpy().reshape(-1, kappa.sizes["benchmark"])
    ratios = log_ratios(draws, prior, locations) * concerned[:, None]
    changed = {"all": psis_weights(ratios.sum(axis=1, keepdims=True))}
    if concerned.sum() > 1:
        changed["own"] = psis_weights(ratios)
    curves = [
        _curves(
            np.broadcast_to(np.exp(log_weights), ratios.shape),
            np.broadcast_to(pareto_k, ratios.shape[:2]),
            estimands, locations, own, level,
        )
        for log_weights, pareto_k in changed.values()
    ]  # fmt: skip
    label = xr.IndexVariable("changed", np.array(list(changed)))
    result = xr.concat(curves, label, join="exact").assign_coords(location=locations)
    return result.assign(own_location=prior.mu, level=level, reason="")


def reported(names: EffectNames) -> tuple[str, ...]:
    """Return the estimands whose dependence on priors is reported."""
    return names.ability, names.overfitting, "slope"


def confounding_table(curves: xr.Dataset | None, names: EffectNames = DIRECT) -> pd.DataFrame:
    """Return curves as a table."""
    figures = [f"{name}{end}" for name in reported(names) for end in _ENDS]
    spans = ["p_positive", "pareto_k", "ess", "reach_low", "reach_high", "sign_at", "sign"]
    columns = [*_KEYS, "location", *figures, *spans]
    if curves is None or curves["reason"].item():
        return pd.DataFrame(columns=columns)
    each = curves.drop_vars(["own_location", "level", "reason"])
    table = each.to_dataframe([*_KEYS, "location"]).reset_index()
    return table.loc[table["sign"] != "", columns].reset_index(drop=True)


def _curves(
    share: FloatArray,
    pareto_k: FloatArray,
    estimands: xr.Dataset,
    locations: FloatArray,
    own: int,
    level: float,
) -> xr.Dataset:
    """Return the figures of every cell by weights, dims (location, benchmark[, draw])."""
    effect = EffectNames.among(estimands)
    assert effect is not None
    quantities = reported(effect)
    draws = {name: estimands[name].to_numpy() for name in quantities}
    cells, dims = draws[effect.overfitting].shape[2:], ("location", "model", "benchmark")
    efficiency = _efficiency(draws[effect.overfitting])
    trusted = pareto_k <= max_pareto_k(share.shape[2])
    names = [f"{name}{end}" for name in quantities for end in _ENDS]
    along = {name: np.full((len(locations), *cells), np.nan) for name in (*names, "p_positive")}
    ess = np.empty((len(locations), *cells))
    spans = {name: np.full(cells, np.nan) for name in ("reach_low", "reach_high", "sign_at")}
    signs = np.full(cells, "", dtype=object)
    for cell in np.ndindex(*cells):
        b = cell[1]
        found = {
            name: _figures(values[..., *cell], share[:, b], level) for name, values in draws.items()
        }
        ess[:, *cell] = found[effect.overfitting][:, 4] * efficiency[cell]
        overfitting = draws[effect.overfitting][..., *cell]
        if np.isnan(overfitting).any():  # not answered
            continue
        reached = reliable_range(trusted[:, b] & (ess[:, *cell] >= FEWEST), own)
        for name in quantities:
            for i, end in enumerate(_ENDS):
                along[f"{name}{end}"][reached, *cell] = found[name][reached, i]
        chance = found[effect.overfitting][reached, 3]
        along["p_positive"][reached, *cell] = chance
        spans["reach_low"][cell], spans["reach_high"][cell] = locations[reached][[0, -1]]
        signs[cell] = "zero by definition"
        if overfitting.any():
            at = sign_by_assumption(locations[reached], chance, locations[own], level)
            spans["sign_at"][cell], signs[cell] = at
    along |= {"ess": ess, "pareto_k": np.broadcast_to(pareto_k[:, None, :], ess.shape)}
    data: dict[str, Any] = {name: (dims, values) for name, values in along.items()}
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
    """Return how many independent draws one is worth in the tails, dims (model, benchmark)."""
    ess = convergence(draws, ["ess_tail"])["ess_tail"] / (draws.shape[0] * draws.shape[1])
    # 1 for a constant.
    return np.minimum(np.where(np.isnan(ess), 1.0, ess), 1.0).reshape(draws.shape[2:])
