"""Power-scaling of prior and likelihood, and weights under a shifted prior."""

from dataclasses import dataclass

import arviz as az
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.inference.loo import max_pareto_k, psis_weights
from bayescontam.model.build import BuiltModel
from bayescontam.model.effects import guess_priors
from bayescontam.model.priors import distribution, is_stretched, stretch_of_draws
from bayescontam.specs.priors import Beta, Dirichlet, Logistic, Normal, Prior, StudentT

THRESHOLD = 0.05
"""Sensitivity above which it matters, as Kallioinen et al. (2024) propose."""
Located = Normal | Logistic | StudentT
"""Priors with a location that can be moved."""
_STEPS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
STEPS = np.array([*(-step for step in reversed(_STEPS)), 0.0, *_STEPS])
"""Locations that are looked at, in scales of the prior from its own location."""


def log_prior(posterior: xr.Dataset, built: BuiltModel) -> FloatArray:
    """Return the log prior density of the top-level parameters together, dims (draw,)."""
    total = np.zeros(posterior.sizes["chain"] * posterior.sizes["draw"])
    for density in log_priors(posterior, built).values():
        total += density
    return total


def log_priors(posterior: xr.Dataset, built: BuiltModel) -> dict[str, FloatArray]:
    """Return the log prior density of each top-level parameter, dims (draw,), chains joined.

    Effects that the data inform through a spread of their own (items, models) belong
    to the model, not to what the user chose; scaling them too would call every
    hierarchical model sensitive.
    """
    priors, found = built.spec.priors, {}
    stretched = stretch_of_draws(posterior)
    count = posterior.sizes["chain"] * posterior.sizes["draw"]
    for name in type(priors).model_fields:
        variable = variable_of(name, built)
        if variable is None or variable not in posterior:
            continue
        values = posterior[variable].to_numpy().reshape(count, -1)
        factor = np.asarray(stretched.of(name, built.spec, built.design))
        factor = factor.reshape(count, -1) if factor.ndim else factor
        density = _log_density(getattr(priors, name), values / factor)
        if is_stretched(name, built.spec):
            density = density - (np.log(factor) + np.zeros(values.shape)).sum(axis=1)
        found[variable] = density
    if "guess" in posterior:
        guess, total = posterior["guess"].to_numpy().reshape(count, -1), np.zeros(count)
        for b, prior in enumerate(guess_priors(built.spec, built.design)):
            if isinstance(prior, Beta):
                total += _log_density(prior, guess[:, [b]])
        found["guess"] = total
    return found


def _log_density(prior: Prior | Beta | Dirichlet, values: FloatArray) -> FloatArray:
    """Return the log density of a parameter's cells together, dims (draw,)."""
    if isinstance(prior, Dirichlet):
        # The constant is the same for all draws.
        density: FloatArray = (prior.alpha - 1) * np.log(values).sum(axis=1)
        return density
    return distribution(prior).logpdf(values).sum(axis=1)


def variable_of(name: str, built: BuiltModel) -> str | None:
    """Return the variable whose prior a key of the spec is, if it is at the top level."""
    spec, terms = built.spec, built.terms
    if name == "beta_bar" and spec.contamination.pooling == "none":
        return "beta_free" if built.design.clean.any() else "beta"
    if name == "theta":
        return "theta" if spec.ability.pooling == "none" else None
    if name == "mu" and "sigma_mu" in terms:
        return None
    return name


def power_scaling(estimands: xr.Dataset, prior: FloatArray, likelihood: FloatArray) -> xr.Dataset:
    """Return the power-scaling sensitivity of each estimand.

    Kallioinen et al. (2024), doi:10.1007/s11222-023-10366-5.
    """
    result = xr.Dataset(coords={"model": estimands["model"], "benchmark": estimands["benchmark"]})
    for name in estimands.data_vars:
        if name == "rank":
            continue
        cells = estimands[name].to_numpy()
        shape = cells.shape[2:]
        cells = cells.reshape(-1, int(np.prod(shape)))
        # A constant cannot move; NaN says so, where ArviZ would divide by zero.
        moving = np.ptp(cells, axis=0) > 0
        for kind, density in (("prior", prior), ("likelihood", likelihood)):
            change = np.full(cells.shape[1], np.nan)
            if moving.any():
                change[moving] = _change(cells[:, moving], density, kind)
            result[f"{name}_{kind}"] = (("model", "benchmark"), change.reshape(shape))
    return result


def _change(cells: FloatArray, density: FloatArray, kind: str) -> FloatArray:
    draws = xr.Dataset({"x": (("chain", "draw", "cell"), cells[None])})
    joint = density[None] if kind == "prior" else density[None, :, None]
    dims = ("chain", "draw", "part")[: joint.ndim]
    groups = {"posterior": draws, f"log_{kind}": xr.Dataset({"joint": (dims, joint)})}
    values: FloatArray = az.psense(xr.DataTree.from_dict(groups), group=kind)["x"].to_numpy()
    return values


def prior_locations(prior: Located) -> FloatArray:
    """Return the locations to look at: around the prior's own, densest there, and 0."""
    scale = float(distribution(prior).ppf(norm.cdf(1)) - prior.mu)
    locations: FloatArray = prior.mu + scale * STEPS
    if locations[0] < 0 < locations[-1] and np.abs(locations).min() > 1e-6 * scale:
        locations = np.sort([*locations, 0.0])
    return locations


def log_ratios(draws: FloatArray, prior: Located, locations: FloatArray) -> FloatArray:
    """Return the log density of draws at other locations less that at the prior's own.

    Dims (location, parameter, draw).
    """
    density = distribution(prior).logpdf
    # Moving the prior up is moving the draws down; at the own location this is exactly zero.
    moved = draws - (locations - prior.mu)[:, None, None]
    return (density(moved) - density(draws)).transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class ShiftedWeights:
    """Pareto-smoothed weights of draws at each location of a prior."""

    share: FloatArray  # dims (location, parameter, draw): they sum to one over draws
    # dims (location, parameter): shape of the tail of the weights; 0 if all are equal
    pareto_k: FloatArray

    @classmethod
    def of(cls, ratios: FloatArray) -> "ShiftedWeights":
        """Smooth log ratios, dims (location, parameter, draw)."""
        log_weights, pareto_k = psis_weights(ratios)
        return cls(np.exp(log_weights), pareto_k)

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Whether k is at most min(0.7, 1 - 1 / log10(draws)), dims (location, parameter)."""
        return self.pareto_k <= max_pareto_k(self.share.shape[2])

    def repeated(self, times: int) -> "ShiftedWeights":
        """Return the weights of one parameter as those of several."""
        return ShiftedWeights(*(np.repeat(v, times, axis=1) for v in vars(self).values()))


def reliable_range(good: NDArray[np.bool_], own: int) -> NDArray[np.bool_]:
    """Return which locations are good, as are all between them and the prior's own.

    >>> reliable_range(np.array([True, False, True, False, True, True]), 3).tolist()
    [False, False, True, True, True, True]
    """
    good = good.copy()
    good[own] = True
    below = np.logical_and.accumulate(good[own::-1])[::-1]
    return np.concatenate([below[:-1], np.logical_and.accumulate(good[own:])])
