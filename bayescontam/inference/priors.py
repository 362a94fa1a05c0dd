"""Priors of a model spec as PyMC variables, and as SciPy distributions."""

import math
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import LogExpM1
from scipy import stats

from bayescontam.specs.priors import (
    Beta,
    Exponential,
    HalfNormal,
    HalfStudentT,
    Logistic,
    LogNormal,
    Normal,
    Prior,
    StudentT,
)

Tensor = Any
"""A PyTensor variable; its own types say too little to be of use."""


SMALL = 0.1
"""Quantile of a positive prior below which the sampler moves along the logarithm."""


class Straightened(LogExpM1):
    """Coordinate of a positive variable: straight above `scale`, its logarithm far below.

    Along the logarithm alone, which is PyMC's choice, the upper flank of a spread's posterior
    falls as exp(-exp(x)), and trajectories that come from its long lower tail diverge there.
    """

    name = "straightened"

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def backward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the variable from the sampler's coordinate."""
        return self._scale * super().backward(value)

    def forward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the sampler's coordinate from the variable."""
        return super().forward(value / self._scale)

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the log of the derivative of `backward`, element by element."""
        return super().log_jac_det(value) + pt.log(self._scale)


LOCATED = (Normal, Logistic, StudentT)
"""Families that are moved by moving ``mu``."""
_SCALED = frozenset({"mu", "sigma", "s", "scale"})
"""Parameters of families that are multiplied where the variable is."""


def parameters(prior: Prior | LogNormal | Beta, factor: Tensor = 1.0) -> dict[str, Tensor]:
    """Return the parameters of a prior, under PyMC's names, of a variable times a factor."""
    given = prior.parameters()
    if isinstance(factor, float) and factor == 1.0:
        return given
    return {key: value * factor if key in _SCALED else value for key, value in given.items()}


def variable(
    name: str, prior: Prior | LogNormal | Beta, factor: Tensor = 1.0, **options: Any
) -> Tensor:
    """Add a variable with this prior to the current PyMC model."""
    if isinstance(prior, HalfNormal | HalfStudentT | Exponential):
        small = float(distribution(prior).ppf(SMALL))
        options = {"default_transform": Straightened(small)} | options
    return getattr(pm, type(prior).__name__)(name, **parameters(prior, factor), **options)


SMALLEST = 1e-6
"""Added to every spread: a Normal narrower than this is lost in rounding errors."""


def spread(name: str, prior: Prior, factor: Tensor = 1.0, **options: Any) -> Tensor:
    """Add a spread to the current PyMC model, and return it bounded away from zero.

    A millionth of a log-odds changes nothing that could be measured, but without it a
    sampler that strays to spreads below 1e-12 meets rounding noise and stays there.
    """
    return variable(name, prior, factor, **options) + SMALLEST


def distribution(prior: Prior | Beta) -> Any:
    """Return the same distribution as a frozen SciPy one."""
    match prior:
        case Normal(mu=mu, sigma=sigma):
            return stats.norm(mu, sigma)
        case Logistic(mu=mu, s=s):
            return stats.logistic(mu, s)
        case StudentT(nu=nu, mu=mu, sigma=sigma):
            return stats.t(nu, mu, sigma)
        case HalfNormal(sigma=sigma):
            return stats.halfnorm(0, sigma)
        case HalfStudentT(nu=nu, sigma=sigma):
            return _HalfT(nu, sigma)
        case Exponential(scale=scale):
            return stats.expon(0, scale)
        case Beta(alpha=alpha, beta=beta):
            return stats.beta(alpha, beta)
    raise TypeError(f"no distribution for {prior!r}")


class _HalfT:
    """Student's t cut to values >= 0; SciPy has none."""

    def __init__(self, nu: float, sigma: float) -> None:
        self._t = stats.t(nu, 0, sigma)

    def logpdf(self, x: Any) -> Any:
        return self._t.logpdf(x) + math.log(2)

    def ppf(self, q: Any) -> Any:
        return self._t.ppf(0.5 + q / 2)

    def sf(self, x: Any) -> Any:
        return 2 * self._t.sf(x)
