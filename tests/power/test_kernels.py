"""What one response shows about its log-odds, against integrals taken by SciPy."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from bayescontam.power.laplace import BernoulliKernel, RepeatedKernel, mix_moments, normal_grid


def p_of(eta: float, guess: float) -> float:
    return guess + (1 - guess) * float(expit(eta))


def integral(f: object, k: int, n: int, guess: float, center: float, sigma: float) -> float:
    """Integrate a function of log-odds times P(k | log-odds) times their Normal density."""

    def integrand(eta: float) -> float:
        chance = stats.binom.pmf(k, n, p_of(eta, guess)) * stats.norm.pdf(eta, center, sigma)
        return float(f(eta) * chance)  # type: ignore[operator]

    edges = np.linspace(center - 9 * sigma, center + 9 * sigma, 13)
    parts = pairwise(edges)
    return sum(integrate.quad(integrand, a, b)[0] for a, b in parts)


@pytest.mark.parametrize("guess", [0.0, 0.25])
def test_plain_score_is_the_derivative_and_information_its_mean_square(guess: float) -> None:
    kernel, n, step = BernoulliKernel(5, guess), 5, 1e-5
    k, center = np.arange(6.0), np.array(0.7)
    above, below = (kernel.curvature(k, center + s).value for s in (step, -step))
    score = kernel.curvature(k, center).score
    assert score == pytest.approx((above - below) / (2 * step), abs=1e-6)
    chance = stats.binom.pmf(k, n, p_of(0.7, guess))
    assert kernel.curvature(k, center).information == pytest.approx(chance @ score**2)


def test_plain_score_is_finite_at_certain_answers() -> None:
    for center in (-800.0, 800.0):
        one = BernoulliKernel(1, 0.0).curvature(np.array([0.0, 1.0]), np.array(center))
        assert np.isfinite(one.score).all()
        assert np.isfinite(one.information).all()


@pytest.mark.parametrize(
    ("sigma", "guess", "k"), [(0.5, 0.0, 3), (3.0, 0.0, 10), (3.0, 0.0, 6), (2.0, 0.25, 2)]
)
def test_repeated_curvature_is_that_of_the_integral(sigma: float, guess: float, k: int) -> None:
    kernel = RepeatedKernel(10, guess, sigma, -4.0, 4.0)
    wide = 1e-2
    log = [
        np.log(integral(lambda eta: 1.0, k, 10, guess, 0.8 + s, sigma)) for s in (-wide, 0, wide)
    ]
    one = kernel.curvature(np.array([float(k)]), np.array([0.8]))
    constant = stats.binom.logpmf(k, 10, 0.5) - 10 * np.log(0.5)
    assert one.value[0] + constant == pytest.approx(log[1], abs=1e-3)
    assert one.score[0] == pytest.approx((log[2] - log[0]) / (2 * wide), abs=2e-3)
    if guess == 0:  # with guessing the information is the expected one
        second = -(log[2] - 2 * log[1] + log[0]) / wide**2
        assert one.information[0] == pytest.approx(second, rel=0.02, abs=1e-3)


@pytest.mark.parametrize(("sigma", "k"), [(0.7, 4), (3.0, 10)])
def test_repeated_moments_are_those_of_the_integral(sigma: float, k: int) -> None:
    kernel, center, shift = RepeatedKernel(10, 0.0, sigma, -4.0, 4.0), 0.4, -0.9

    def moment(f: object, at: float = center) -> float:
        total = integral(lambda eta: 1.0, k, 10, 0.0, at, sigma)
        return integral(f, k, 10, 0.0, at, sigma) / total

    def levels(eta: float) -> tuple[float, float]:
        return p_of(eta, 0.0), p_of(eta + shift, 0.0)

    one = kernel.moments(np.array([float(k)]), np.array([center]), np.array([shift]))
    observed, moved = moment(lambda e: levels(e)[0]), moment(lambda e: levels(e)[1])
    assert one.mean[:, 0] == pytest.approx([observed, moved], abs=1e-5)
    gap = observed - moved
    variances = [
        moment(lambda e: levels(e)[0] ** 2) - observed**2,
        moment(lambda e: levels(e)[1] ** 2) - moved**2,
        moment(lambda e: (levels(e)[0] - levels(e)[1]) ** 2) - gap**2,
    ]
    assert one.variance[:, 0] == pytest.approx(variances, abs=1e-5)
    step = 1e-3
    for place in (0, 1):
        ends = [moment(lambda e, at=place: levels(e)[at], center + s) for s in (-step, step)]
        slope = (ends[1] - ends[0]) / (2 * step)
        assert one.by_center[place, 0] == pytest.approx(slope, abs=1e-4)


def test_mixture_of_one_is_itself() -> None:
    plain = BernoulliKernel(3, 0.0).curvature(np.array([[2.0]]), np.array([[0.3]]))
    one = mix_moments(plain, np.zeros(1))
    assert np.array(one).ravel() == pytest.approx(np.array(plain).ravel())


@pytest.mark.parametrize("information", [0.1, 5.0, 400.0])
def test_grid_integrates_a_likelihood_under_the_normal(information: float) -> None:
    z, log_weight = normal_grid(information)
    likelihood = np.exp(-information * (z - 1.0) ** 2 / 2)
    spread = 1 + 1 / information
    exact = np.exp(-1 / (2 * spread)) / np.sqrt(1 + information)
    assert likelihood @ np.exp(log_weight) == pytest.approx(exact, rel=1e-5)
