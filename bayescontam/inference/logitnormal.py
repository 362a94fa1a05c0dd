"""Logit-normal: probabilities that are unsure, by their mean and standard deviation."""

import numpy as np
from scipy.special import expit, logit

from bayescontam._types import FloatArray

WIDEST = 0.9
"""Largest standard deviation, as a share of that of a yes-or-no event of the same mean."""
_STEPS = 30
_Z = np.linspace(-6.0, 6.0, 49)
_WEIGHT = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()


def logit_normal(mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return location and scale of logit-normal distributions of given moments.

    By bisection. To first order the scale is ``sd / (mean (1 - mean))``; near 0 and 1, where
    deviations are not small beside that, it is far less.

    >>> location, scale = logit_normal(np.array([0.5]), np.array([0.01]))
    >>> abs(location).round(6).tolist(), scale.round(3).tolist()
    ([0.0], [0.04])
    """
    wanted = np.minimum(sd, WIDEST * np.sqrt(mean * (1 - mean))) ** 2
    low, high = np.zeros(mean.shape), np.full(mean.shape, 40.0)
    for _ in range(_STEPS):
        scale = (low + high) / 2
        p = expit(_location(mean, scale)[..., None] + scale[..., None] * _Z)
        less = (p - mean[..., None]) ** 2 @ _WEIGHT < wanted
        low, high = np.where(less, scale, low), np.where(less, high, scale)
    scale = np.where(sd > 0, (low + high) / 2, 0.0)
    return _location(mean, scale), scale


def _location(mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the location at which distributions of these scales have these means."""
    low, high = logit(mean) - 6 * scale, logit(mean) + 6 * scale
    for _ in range(_STEPS):
        location = (low + high) / 2
        less = expit(location[..., None] + scale[..., None] * _Z) @ _WEIGHT < mean
        low, high = np.where(less, location, low), np.where(less, high, location)
    return (low + high) / 2
