"""Logit-normal distributions against numeric integrals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from bayescontam.model.quadrature import WIDEST, logit_normal


def moments(location: float, scale: float) -> tuple[float, float]:
    """Return mean and standard deviation by adaptive integration."""
    middle = -location / scale if scale else 0.0
    points = sorted({float(np.clip(middle, -9, 9)), 0.0})

    def integral(power: int) -> float:
        value, _ = quad(
            lambda z: expit(location + scale * z) ** power * norm.pdf(z),
            -10, 10, points=points, limit=400,
        )  # fmt: skip
        return float(value)

    mean = integral(1)
    return mean, float(np.sqrt(max(integral(2) - mean**2, 0.0)))


@pytest.mark.parametrize(
    ("mean", "sd"), [(0.5, 0.01), (0.5, 0.3), (0.02, 0.03), (0.98, 0.05), (1e-4, 3e-4), (0.3, 0.4)]
)
def test_moments_are_those_requested(mean: float, sd: float) -> None:
    location, scale = logit_normal(np.array([mean]), np.array([sd]))
    found = moments(float(location[0]), float(scale[0]))
    assert found == pytest.approx((mean, sd), rel=0.02)


def test_first_order_holds_for_small_deviations_only() -> None:
    p, sd = np.array([0.3, 0.999999]), np.array([1e-3, 1e-3 * 0.5])
    location, scale = logit_normal(p, sd)
    assert scale[0] == pytest.approx(sd[0] / (p[0] * (1 - p[0])), rel=1e-3)
    assert scale[1] < 10 < sd[1] / (p[1] * (1 - p[1]))
    assert np.isfinite(location).all()


def test_known_and_impossible_deviations() -> None:
    p = np.array([0.2, 0.2])
    location, scale = logit_normal(p, np.array([0.0, 0.9]))
    assert scale[0] == 0
    assert location[0] == pytest.approx(np.log(0.25))
    widest = WIDEST * np.sqrt(0.2 * 0.8)
    assert moments(float(location[1]), float(scale[1])) == pytest.approx((0.2, widest), rel=0.02)
