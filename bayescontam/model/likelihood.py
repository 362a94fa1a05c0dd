"""From log-odds to responses, for PyMC and for NumPy alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy.special import gammaln

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.priors import Tensor, spread
from bayescontam.model.transforms import rough_logits
from bayescontam.specs.model import ModelSpec

Kernel = Callable[[Any, Any, Any, Any], Any]
"""Log density of (counts, log-odds, trials, guessing)."""


def add_model_by_item(
    design: Design, predictor: Tensor, spreads: tuple[Tensor, IntArray] | None
) -> Tensor:
    """Add ``eta``, dims (repeated,), log-odds around the predictor, and return those of all."""
    if spreads is None:
        return predictor
    transform, mean = rough_logits(design).transform(), predictor[design.n_single :]
    scale = spreads[0][spreads[1]]
    eta = pm.Normal("eta", mean, scale, dims="repeated", default_transform=transform)
    return pt.concatenate([predictor[: design.n_single], eta]) if design.n_single else eta


def spreads_of_repeats(spec: ModelSpec, design: Design) -> tuple[Tensor, IntArray]:
    """Add ``sigma_eps``; return its values, and which is that of each repeated response."""
    repeated = design.model_benchmark[design.n_single :]
    if spec.ability.pooling != "none":
        return spread("sigma_eps", spec.priors.sigma_eps)[None], np.zeros_like(repeated)
    scale = spread("sigma_eps", spec.priors.sigma_eps, dims=("model", "benchmark"))
    return scale.ravel(), repeated


def add_responses(
    design: Design, counts: Tensor, eta: Tensor, guess: FloatArray | Tensor
) -> Tensor:
    """Add ``n_correct``, dims (response,), observed."""
    # On the logit scale, which is several times faster than a Binomial of a probability,
    # and as a distribution with a random method, so that predictive draws work.
    options: dict[str, Any] = {
        "observed": counts, "dims": "response", "dist": _binomial,
    }  # fmt: skip
    kernel = log_kernel(design, guess)
    if (design.n_trials == 1).all():
        return pm.CustomDist("n_correct", eta, 1, guess, logp=kernel, **options)
    constant = log_choose(design.n_trials, design.n_correct)

    def logp(value: Any, eta: Any, n: Any, guess: Any) -> Any:
        return kernel(value, eta, n, guess) + constant

    return pm.CustomDist("n_correct", eta, design.n_trials, guess, logp=logp, **options)


def log_kernel(design: Design, guess: FloatArray | Tensor) -> Kernel:
    """Return the log density of counts without the binomial coefficient, at its cheapest."""
    if not isinstance(guess, np.ndarray) or guess.any():
        return _guessed
    return _bernoulli if (design.n_trials == 1).all() else _logit


def _bernoulli(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    return value * eta - pt.softplus(eta)


def _logit(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    return value * eta - n * pt.softplus(eta)


def _guessed(value: Any, eta: Any, n: Any, guess: Any) -> Any:
    right = pt.log(guess + (1 - guess) * pt.sigmoid(eta))
    wrong = pt.log1p(-guess) - pt.softplus(eta)
    return value * right + (n - value) * wrong


def _binomial(eta: Any, n: Any, guess: Any, size: Any) -> Any:
    return pm.Binomial.dist(n=n, p=guess + (1 - guess) * pt.sigmoid(eta), size=size)


def log_sum(values: Tensor) -> Tensor:
    """Return log(sum(exp)) over the last axis, with a gradient that cannot overflow."""
    top = disconnected_grad(values.max(axis=-1, keepdims=True))
    return pt.log(pt.exp(values - top).sum(axis=-1)) + top[..., 0]


def accuracy(eta: FloatArray, guess: FloatArray | float) -> FloatArray:
    """Return the probability of a correct answer, of the shape of `eta`."""
    p = logistic(eta)
    return guess + (1 - guess) * p if np.any(guess) else p


def log_likelihood(eta: FloatArray, k: FloatArray, n: FloatArray, guess: FloatArray) -> FloatArray:
    """Return log P(k of n correct | eta) without the binomial coefficient."""
    if not np.any(guess):
        # Single trials are many, and their product with 1 need not be made.
        shared = softplus(eta) if np.all(n == 1) else n * softplus(eta)
        return k * eta - shared
    right = np.log(guess + (1 - guess) * logistic(eta))
    return k * right + (n - k) * (np.log1p(-guess) - softplus(eta))


def logistic(eta: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(−eta)), of the shape of `eta`."""
    # As exact as `scipy.special.expit`, which takes three times as long.
    with np.errstate(over="ignore"):  # where the result is 0
        result: FloatArray = 1 / (1 + np.exp(-eta))
    return result


def softplus(eta: FloatArray) -> FloatArray:
    """Return log(1 + exp(eta)), of the shape of `eta`."""
    # As exact as `numpy.logaddexp(0, eta)`, which takes three times as long.
    result: FloatArray = np.log1p(np.exp(-np.abs(eta)))
    return result + np.maximum(eta, 0.0)


def log_choose(n: Any, k: Any) -> FloatArray:
    """Return the log of the binomial coefficient."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
