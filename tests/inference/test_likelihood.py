"""The likelihood of counts, where numbers are extreme."""

import numpy as np
from scipy.special import expit, logsumexp

from bayescontam.model.likelihood import log_likelihood, log_sum_exp, logistic, softplus


def test_softplus_is_exact_everywhere():
    near = np.linspace(-40, 40, 2001)
    far = np.array([-np.inf, -1e4, -745.2, 709.8, 1e4, np.inf])
    for eta in (near, far):
        np.testing.assert_allclose(softplus(eta), np.logaddexp(0.0, eta), rtol=1e-15, atol=0)
    assert np.isnan(softplus(np.array([np.nan])))


def test_logistic_is_exact_everywhere():
    far = np.array([-np.inf, -1e4, 1e4, np.inf])
    for eta in (np.linspace(-700, 700, 2001), far, np.float64(3)):
        np.testing.assert_allclose(logistic(eta), expit(eta), rtol=1e-15, atol=0)
    assert np.isnan(logistic(np.array([np.nan])))


def test_hopeless_and_certain_answers():
    one, zero = np.ones(1), np.zeros(1)
    assert log_likelihood(np.array([-1e4]), one, one, zero) == [-1e4]
    assert log_likelihood(np.array([1e4]), one, one, zero) == [0.0]
    assert log_likelihood(np.array([1e4]), zero, one, zero) == [-1e4]


def test_sums_of_exponentials_are_those_of_scipy() -> None:
    values = np.random.default_rng(2).normal(0, 400, (7, 50))
    values[0], values[1, :-1], values[2, 3] = -np.inf, -np.inf, -np.inf
    for axis in (0, 1, -1):
        np.testing.assert_allclose(
            log_sum_exp(values, axis), logsumexp(values, axis=axis), rtol=1e-14
        )
