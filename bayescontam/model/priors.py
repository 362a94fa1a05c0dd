"""Prior variables, spreads on a straightened scale, and the stretch of log-odds.

Averaging accuracies over an effect of spread sigma draws their log-odds towards zero, by a
factor of about sqrt(1 + 0.346 sigma²) (Zeger, Liang & Albert 1988, doi:10.2307/2531734).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.distributions.transforms import LogExpM1
from pymc.logprob.transforms import Transform
from scipy import stats

from bayescontam._types import FloatArray
from bayescontam.model.design import Design
from bayescontam.specs.model import ModelSpec
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

Tensor = Any  # a PyTensor variable; its own types say too little to be of use


SMALL = 0.1  # quantile of a positive prior below which the sampler moves along the logarithm
LOCATED = (Normal, Logistic, StudentT)  # families that are moved by moving `mu`
_SCALED: dict[type, tuple[str, ...]] = {
    Normal: ("mu", "sigma"), Logistic: ("mu", "s"), StudentT: ("mu", "sigma"),
    HalfNormal: ("sigma",), HalfStudentT: ("sigma",), Exponential: ("scale",),
}  # fmt: skip
"""Parameters of each family that are multiplied where the variable is."""
SMALLEST = 1e-6  # added to every spread: a Normal narrower than this is lost in rounding errors
TOTAL_SD = 0.2  # of the logarithm of the sum of sizes, which says nothing of the parts
EQUAL = 2.0
"""Sizes of equal parts. A size is straight in its coordinate above 1, its logarithm far below."""
LOG_ODDS = frozenset(
    {"mu", "mu_bar", "sigma_mu", "theta", "sigma_a", "sigma_theta", "beta_bar", "kappa",
     "spillover", "lambda_bar", "sigma_lb", "sigma_lk", "sigma_lambda", "sigma_t", "sigma_step",
     "sigma_twin",
     "sigma_delta", "sigma_psi"}
)  # fmt: skip
"""Priors of log-odds of accuracies."""
_OF_SLOPES = frozenset({"sigma_bm", "sigma_bb", "sigma_bmb"})
"""Of differences of slopes: log-odds too, unless slopes are positive."""
RATE = 0.346


class QuantileTransform(LogExpM1):
    """Coordinate of a positive variable: straight above `scale`, its logarithm far below."""

    # Along the logarithm alone, which is PyMC's choice, the upper flank of a spread's posterior
    # falls as exp(-exp(x)), and trajectories that come from its long lower tail diverge there.

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


def parameters(prior: Prior | LogNormal | Beta, factor: Tensor = 1.0) -> dict[str, Tensor]:
    """Return the parameters of a prior, under PyMC's names, of a variable times a factor."""
    given = prior.parameters()
    if isinstance(factor, float) and factor == 1.0:
        return given
    if type(prior) not in _SCALED:
        raise TypeError(f"which parameters of {prior!r} scale with its variable is not stated")
    return given | {name: given[name] * factor for name in _SCALED[type(prior)]}


def variable(
    name: str, prior: Prior | LogNormal | Beta, factor: Tensor = 1.0, **options: Any
) -> Tensor:
    """Add a variable with this prior to the current PyMC model."""
    if isinstance(prior, HalfNormal | HalfStudentT | Exponential):
        small = float(distribution(prior).ppf(SMALL))
        options = {"default_transform": QuantileTransform(small)} | options
    return getattr(pm, type(prior).__name__)(name, **parameters(prior, factor), **options)


def spread(name: str, prior: Prior, factor: Tensor = 1.0, **options: Any) -> Tensor:
    """Add a spread to the current PyMC model, and return it bounded away from zero."""
    # A millionth of a log-odds changes nothing that could be measured, but without it a
    # sampler that strays to spreads below 1e-12 meets rounding noise and stays there.
    return variable(name, prior, factor, **options) + SMALLEST


@cache  # SciPy makes all of a family's functions anew for each, and plans draw from thousands
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


class SoftmaxSizes(Transform):
    """Parts of a whole as positive sizes over their sum, each with a coordinate of its own."""

    # PyMC's choice, the logarithms of the parts less their mean, is one coordinate short and
    # ties all of them together: a part that may be next to nothing, and whose logarithm has
    # a long lower tail, moves the coordinates of all others, however well data identify these.
    # Here the sum is free. It is given a narrow log-normal distribution of its own,
    # independent of the parts, so that neither their prior nor their posterior changes.

    name = "sizes"
    ndim_supp = 1

    def __init__(self, count: int) -> None:
        self._log_sum = math.log(EQUAL * count)

    def backward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the parts from the sampler's coordinates, dims (…, part)."""
        size = transforms.log_exp_m1.backward(value)
        return size / pt.sum(size, axis=-1, keepdims=True)

    def forward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return coordinates of the parts, at the median of the sum."""
        return transforms.log_exp_m1.forward(value * math.exp(self._log_sum))

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the log of the Jacobian of parts and sum, plus the log density of the sum."""
        log_sum = pt.log(pt.sum(transforms.log_exp_m1.backward(value), axis=-1))
        each = transforms.log_exp_m1.log_jac_det(value)
        away = (log_sum - self._log_sum) / TOTAL_SD
        # The density of parts is one of all but one of them, so that the sum counts once.
        return pt.sum(each, axis=-1) - value.shape[-1] * log_sum - 0.5 * pt.square(away)


def stretch(spread: Any) -> Any:
    """Return the ratio of log-odds to log-odds of their mean accuracy.

    >>> round(float(stretch(4.7)), 2)
    2.94
    """
    return (1 + RATE * spread**2) ** 0.5


def is_stretched(name: str, spec: ModelSpec) -> bool:
    """Return whether a prior is one of log-odds of accuracies."""
    return name in LOG_ODDS or (name in _OF_SLOPES and spec.contamination.sign != "positive")


@dataclass(frozen=True, eq=False)
class Stretch:
    """By how much effects are larger than their priors imply for accuracies."""

    # Priors are about accuracies of items in repeated trials; effects are those of a model on one
    # item. Without model-by-item effects the two are the same.

    cells: Any = 1.0  # one number for all, or dims (…, model, benchmark)
    by_cell: bool = False

    @property
    def benchmarks(self) -> Any:
        """One number for all, or dims (…, benchmark)."""
        return self.cells.mean(axis=-2) if self.by_cell else self.cells

    @property
    def one(self) -> Any:
        """One number for all, dims (…)."""
        return self.benchmarks.mean(axis=-1) if self.by_cell else self.cells

    def units(self, design: Design) -> Any:
        """One number for all, or dims (…, model, unit)."""
        return self.cells[..., design.benchmark_of_unit] if self.by_cell else self.cells

    def of(self, name: str, spec: ModelSpec, design: Design) -> Any:
        """Return the factor of a prior of the model spec, as its variable has dims."""
        if not is_stretched(name, spec):
            return 1.0
        if name == "theta":
            return self.units(design)
        if name == "beta_bar" and spec.contamination.pooling == "none":
            return self.cells
        return self.benchmarks if name in ("sigma_delta", "kappa") else self.one


def stretch_of_draws(posterior: Mapping[Any, Any]) -> Stretch:
    """Return that of each draw of a posterior, the first axis; of chains joined."""
    if "sigma_eps" not in posterior:
        return Stretch()
    values = posterior["sigma_eps"].to_numpy()
    flat: FloatArray = values.reshape(-1, *values.shape[2:])
    if flat.ndim == 1:
        return Stretch(stretch(flat))
    return Stretch(np.asarray(stretch(flat)), by_cell=True)
