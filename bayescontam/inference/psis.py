"""PSIS: draws weighed as if a response had been left out."""

from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam.inference.design import Floats

LEAST_DRAWS = 30
"""Pareto k is estimated from the largest fifth of few draws, and of five none can be."""


def weigh(density: Floats) -> tuple[Floats, Floats]:
    """Return Pareto-smoothed importance weights of draws.

    Vehtari et al. (2024), arXiv:1507.02646.
    """
    log_weights, pareto_k = array_stats.psislw(density.T, r_eff=1, axis=-1)
    return log_weights - logsumexp(log_weights, axis=1, keepdims=True), pareto_k


def predicted(density: Floats, log_weights: Floats) -> Floats:
    """Return log predictive densities of responses that are left out, dims (response,)."""
    result: Floats = logsumexp(log_weights + density.T, axis=1)
    return result
