"""Coordinates in which the sampler moves: chosen from the data, changing no model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform

from bayescontam.inference.design import Design, Floats


class Informed(Transform):  # type: ignore[misc]
    """Standardise a Normal variable by its rough conditional posterior.

    Where data alone would put the variable at `estimate` with standard error `se`,
    and its prior is Normal(mu, sigma), the conditional posterior is close to a Normal
    of precision 1/sigma² + 1/se². The sampler sees the variable in units of that
    Normal: nearly independent of mu and sigma, whichever of data and prior is the
    stronger. Centred and non-centred parametrisation are its two limits, se → 0 and
    se → ∞. Only the geometry depends on `estimate` and `se`: the model, its prior and
    its posterior are the same whatever they are.

    Parameters
    ----------
    estimate, se : array
        Of the shape of the variable. ``se`` may be infinite: no data.

    References
    ----------
    Papaspiliopoulos, Roberts & Sköld (2007), doi:10.1214/088342307000000014, on
    partially non-centred parametrisation.
    """

    name = "informed"
    ndim_supp = 0

    def __init__(self, estimate: Floats, se: Floats) -> None:
        self.estimate = np.asarray(estimate, dtype=float)
        self.precision = 1.0 / np.asarray(se, dtype=float) ** 2

    def _moments(self, rv_inputs: tuple[Any, ...]) -> tuple[Any, Any]:
        mu, sigma = rv_inputs[-2:]
        prior_precision = 1.0 / pt.square(sigma)
        precision = prior_precision + self.precision
        mean = (mu * prior_precision + self.estimate * self.precision) / precision
        return mean, 1.0 / pt.sqrt(precision)

    def backward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the variable from the sampler's coordinate."""
        mean, sd = self._moments(rv_inputs)
        return mean + sd * value

    def forward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the sampler's coordinate from the variable."""
        mean, sd = self._moments(rv_inputs)
        return (value - mean) / sd

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the log of the derivative of `backward`, element by element."""
        _, sd = self._moments(rv_inputs)
        return pt.log(sd) + pt.zeros_like(value)


@dataclass(frozen=True)
class Rough:
    """Rough estimates of one kind of effect, with rough standard errors."""

    estimate: Floats
    se: Floats

    def transform(self) -> Informed:
        """Return the coordinates that these estimates give."""
        return Informed(self.estimate, self.se)

    def reshape(self, *shape: int) -> "Rough":
        """Return the same in another shape."""
        return Rough(self.estimate.reshape(shape), self.se.reshape(shape))


def rough_abilities(design: Design) -> Rough:
    """Estimate each ability by the log-odds of its accuracy, dims (model, unit)."""
    shape = len(design.models), len(design.units)
    k = np.bincount(design.model_unit, design.n_correct, minlength=np.prod(shape))
    n = np.bincount(design.model_unit, design.n_trials, minlength=np.prod(shape))
    p = (k + 0.5) / (n + 1.0)
    with np.errstate(divide="ignore"):
        return Rough(np.log(p / (1 - p)), 1 / np.sqrt(n * p * (1 - p))).reshape(*shape)


def rough_slopes(design: Design) -> Rough:
    """Estimate each slope by one step of logistic regression, dims (model, benchmark)."""
    shape = len(design.models), len(design.benchmarks)
    residual, variance = _scores(design)
    cell = design.model_benchmark
    score = np.bincount(cell, residual * design.dose, minlength=np.prod(shape))
    information = np.bincount(cell, variance * design.dose**2, minlength=np.prod(shape))
    return _one_step(score, information).reshape(*shape)


def rough_difficulties(design: Design) -> Rough:
    """Estimate each item's difficulty by one step from the abilities, dims (item,)."""
    residual, variance = _scores(design)
    score = np.bincount(design.item, residual, minlength=len(design.items))
    return _one_step(-score, np.bincount(design.item, variance, minlength=len(design.items)))


def rough_logits(design: Design) -> Rough:
    """Estimate each repeated response's log-odds from its own trials."""
    k, n = design.n_correct[design.n_single :], design.n_trials[design.n_single :]
    p = (k + 0.5) / (n + 1.0)
    return Rough(np.log(p / (1 - p)), 1 / np.sqrt(n * p * (1 - p)))


def _scores(design: Design) -> tuple[Floats, Floats]:
    """Return each response's residual from its cell's accuracy, and its variance."""
    p = 1 / (1 + np.exp(-rough_abilities(design).estimate.ravel()[design.model_unit]))
    return design.n_correct - design.n_trials * p, design.n_trials * p * (1 - p)


def _one_step(score: Floats, information: Floats) -> Rough:
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(information > 0, score / information, 0.0)
        return Rough(estimate, 1 / np.sqrt(information))
