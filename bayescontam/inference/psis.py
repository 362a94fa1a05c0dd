"""PSIS: draws weighed as if a response had been left out."""

from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam._types import FloatArray

LEAST_DRAWS = 30
"""Pareto k is estimated from the largest fifth of few draws, and of five none can be."""


def weigh(density: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Pareto-smoothed importance weights of draws.

    Vehtari et al. (2024), arXiv:1507.02646.
    """
    log_weights, pareto_k = array_stats.psislw(density.T, r_eff=1, axis=-1)
    return log_weights - logsumexp(log_weights, axis=1, keepdims=True), pareto_k


def predicted(density: FloatArray, log_weights: FloatArray) -> FloatArray:
    """Return log predictive densities of responses that are left out, dims (response,)."""
    result: FloatArray = logsumexp(log_weights + density.T, axis=1)
    return result
