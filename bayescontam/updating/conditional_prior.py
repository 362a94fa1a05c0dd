"""Prior of a new model's abilities and slopes given each draw of a fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.priors import SMALLEST, distribution, stretch_of_draws
from bayescontam.updating.new_model import NewModel


@dataclass(frozen=True, eq=False)
class ConditionalPrior:
    """A newcomer's effects given a draw: location + loading × standard Normals, reweighted.

    Effects are the ability in each unit that it answered, then the slope (its logarithm
    where slopes are positive) in each benchmark.
    """

    location: FloatArray  # dims (draw, effect)
    loading: FloatArray  # dims (draw, effect, source)
    # dims (draw,): by how much the mean ability of units falls for each standard Normal of general
    # ability; None where there is none. That is source 0.
    shift: FloatArray | None
    centers: FloatArray  # dims (draw, top): means of abilities that have a prior of their own
    top: Any  # that prior
    factor: FloatArray  # dims (draw, 1): in which units; see `bayescontam.model.priors`
    # sources that are not Normal, with the distribution that they have
    exact: tuple[tuple[int, Any], ...]

    def __getitem__(self, part: slice | IntArray) -> "ConditionalPrior":
        shift = None if self.shift is None else self.shift[part]
        return ConditionalPrior(
            self.location[part], self.loading[part], shift, self.centers[part], self.top,
            self.factor[part], self.exact,
        )  # fmt: skip

    def effects(self, source: FloatArray) -> FloatArray:
        """Return effects, dims (draw, effect), of standard Normals, dims (draw, source)."""
        return self.location + np.einsum("dps,ds->dp", self.loading, source)

    def log_density(self, source: FloatArray) -> FloatArray:
        """Return the log prior density of sources, dims (draw,)."""
        total: FloatArray = stats.norm.logpdf(source).sum(axis=1)
        if self.shift is not None:
            moved = self.centers + (self.shift * source[:, 0])[:, None]
            moved, centers = moved / self.factor, self.centers / self.factor
            total = total + (self.top.logpdf(moved) - self.top.logpdf(centers)).sum(axis=1)
        for column, prior in self.exact:
            middle, width = mean_and_sd(prior)
            value = source[:, column]
            total = total + prior.logpdf(middle + width * value) + np.log(width)
            total = total - stats.norm.logpdf(value)
        return total


def mean_and_sd(prior: Any) -> tuple[float, float]:
    """Return median and half the width of the central 68 % of a distribution."""
    low, middle, high = (float(prior.ppf(q)) for q in (0.1587, 0.5, 0.8413))
    return middle, (high - low) / 2


class _Columns:
    """Location and loadings, collected effect by effect and source by source."""

    def __init__(self, draws: int, effects: int) -> None:
        self.location = np.zeros((draws, effects))
        self.loadings: list[FloatArray] = []
        self.exact: list[tuple[int, Any]] = []

    def add(self, effects: slice, scale: FloatArray | float) -> None:
        """Let effects share one source of this scale."""
        loading = np.zeros(self.location.shape)
        loading[:, effects] = np.reshape(scale, (-1, 1))
        self.loadings.append(loading)

    def add_each(self, effects: slice, scale: FloatArray | float) -> None:
        """Give each effect a source of its own, of this scale."""
        for effect in range(effects.start, effects.stop):
            self.add(slice(effect, effect + 1), scale)

    def add_prior(self, effects: slice, prior: Any, factor: FloatArray) -> None:
        """Give each effect a source of its own with this distribution, times a factor."""
        middle, width = mean_and_sd(prior)
        self.location[:, effects] += middle * factor
        if not (hasattr(prior, "dist") and prior.dist.name == "norm"):
            first = len(self.loadings)
            self.exact += [(first + k, prior) for k in range(effects.stop - effects.start)]
        self.add_each(effects, width * factor)


def expectation(posterior: xr.Dataset, newcomer: NewModel) -> ConditionalPrior:
    """Return what draws of a fit expect of a newcomer.

    General abilities sum to zero over the models of a fit, of which the newcomer becomes
    one. Write ``g`` for its general ability above the mean of the fit's ``M`` models. In a
    joint fit ``g ~ Normal(0, sigma_a sqrt(1 + 1/M))`` given ``sigma_a``, and the means of
    units of the joint fit are those of the fit plus ``g / (M + 1)``, to which their prior
    belongs.
    """
    terms, n_models = newcomer.built.terms, len(newcomer.host.models)
    abilities = slice(0, len(newcomer.units))
    slopes = slice(abilities.stop, abilities.stop + len(newcomer.benchmarks) * ("beta" in terms))
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    columns = _Columns(draws, slopes.stop)
    shift = None
    if "a" in terms:
        general = _spread(posterior, "sigma_a") * np.sqrt(1 + 1 / n_models)
        columns.add(abilities, general)
        shift = general / (n_models + 1)
    # Where model-by-item effects have a spread for each model, a fit identifies no newcomer's.
    factor = np.broadcast_to(stretch_of_draws(posterior).one, draws)[:, None]
    _add_abilities(columns, abilities, posterior, newcomer, factor)
    if "beta" in terms:
        _add_slopes(columns, slopes, posterior, newcomer, factor)
    top, prior = ("mu_bar", "mu_bar") if "sigma_mu" in terms else ("mu", "mu")
    centers = _flat(posterior, top) if shift is not None else np.zeros((draws, 0))
    return ConditionalPrior(
        columns.location,
        np.stack(columns.loadings, axis=-1),
        shift,
        centers,
        distribution(getattr(newcomer.spec.priors, prior)),
        factor,
        tuple(columns.exact),
    )


def _add_abilities(
    columns: _Columns, part: slice, posterior: xr.Dataset, newcomer: NewModel, factor: FloatArray
) -> None:
    spec, terms = newcomer.spec, newcomer.built.terms
    if spec.ability.pooling == "none":
        columns.add_prior(part, distribution(spec.priors.theta), factor)
        return
    hosts = np.argsort(newcomer.unit_of_host)[newcomer.units]
    columns.location[:, part] += _flat(posterior, "mu")[:, hosts]
    if "sigma_theta" in terms:
        columns.add_each(part, _spread(posterior, "sigma_theta"))
    else:
        columns.add_prior(part, distribution(spec.priors.theta), factor)


def _add_slopes(
    columns: _Columns, part: slice, posterior: xr.Dataset, newcomer: NewModel, factor: FloatArray
) -> None:
    spec, terms = newcomer.spec, newcomer.built.terms
    if spec.contamination.pooling == "none":
        columns.add_prior(part, distribution(spec.priors.beta_bar), factor)
        return
    if "v" in terms:
        level = _flat(posterior, "beta_benchmark")[:, newcomer.benchmarks]
    else:
        level = _flat(posterior, "beta_bar")
        level = np.log(level) if spec.contamination.sign == "positive" else level
    columns.location[:, part] += level
    if "u" in terms:
        columns.add(part, _spread(posterior, "sigma_bm"))
    if "w" in terms:
        columns.add_each(part, _spread(posterior, "sigma_bmb"))


def _flat(posterior: xr.Dataset, name: str) -> FloatArray:
    values = posterior[name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1)


def _spread(posterior: xr.Dataset, name: str) -> FloatArray:
    return _flat(posterior, name)[:, 0] + SMALLEST
