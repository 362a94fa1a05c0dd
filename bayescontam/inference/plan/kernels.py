"""Kernels: what one response shows about its log-odds, its own effect integrated out."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from bayescontam._types import FloatArray
from bayescontam.inference.likelihood import accuracy, log_likelihood

_STEP = 0.05
"""Distance in log-odds between tabulated centres; between them values are nearly straight."""


class Curvature(NamedTuple):
    """Log-likelihood of responses and its derivatives by the centre of their log-odds."""

    value: FloatArray
    score: FloatArray
    information: FloatArray


class Moments(NamedTuple):
    """Accuracy of responses given their counts, at two contaminations.

    ``mean`` and ``by_center`` (its derivative by the centre) have a first axis of two:
    observed and reference. ``by_shift`` is the derivative of the second by the shift of the
    log-odds. ``variance`` has a first axis of three: observed, reference, and their
    difference.
    """

    mean: FloatArray
    by_center: FloatArray
    by_shift: FloatArray
    variance: FloatArray


class Kernel(Protocol):
    """What responses of `n` trials say."""

    @property
    def size(self) -> int:
        """Number of nodes of the effect that is integrated out."""
        ...

    def curvature(self, k: FloatArray, center: FloatArray) -> Curvature:
        """Return the log-likelihood of counts `k` at these centres, and its derivatives."""
        ...

    def moments(self, k: FloatArray, center: FloatArray, shift: FloatArray) -> Moments:
        """Return accuracies at the observed contamination and `shift` log-odds away."""
        ...


@dataclass(frozen=True)
class Plain:
    """Responses without an effect of their own."""

    n: int  # trials of each response
    guess: float  # accuracy of blind guessing

    @property
    def size(self) -> int:
        """One: nothing is integrated out."""
        return 1

    def curvature(self, k: FloatArray, center: FloatArray) -> Curvature:
        """Return log-likelihood, score and expected information; arguments broadcast."""
        p, slope = _accuracy(center, self.guess)
        # slope / (p (1 - p)), without 0 / 0
        ratio = expit(center) / p if self.guess else np.ones_like(p)
        value = log_likelihood(center, k, np.asarray(float(self.n)), np.asarray(self.guess))
        return Curvature(value, (k - self.n * p) * ratio, self.n * slope * ratio)

    def moments(self, k: FloatArray, center: FloatArray, shift: FloatArray) -> Moments:
        """Return accuracies; they are certain given the log-odds."""
        p, slope = _accuracy(center, self.guess)
        moved, moved_slope = _accuracy(center + shift, self.guess)
        nothing = np.zeros((3, 1, 1, 1))
        return Moments(np.stack([p, moved]), np.stack([slope, moved_slope]), moved_slope, nothing)


@dataclass(frozen=True)
class Repeated:
    """Responses of several trials that have log-odds of their own around a centre."""

    n: int
    guess: float
    sigma: float  # standard deviation of log-odds around their centres
    # low, high: range of centres to tabulate; beyond it the nearest end stands
    low: float
    high: float

    @property
    def size(self) -> int:
        """Number of nodes of the effect that is integrated out."""
        return len(self.nodes[0])

    @cached_property
    def nodes(self) -> tuple[FloatArray, FloatArray]:
        """Standard Normal nodes and log weights that resolve the likelihood."""
        return normal_grid(self.sigma**2 * self.n / 4)

    @cached_property
    def _table(self) -> FloatArray:
        """Value, score and information, dims (3, centre, count)."""
        z, log_weight = self.nodes
        count = max(2, int(np.ceil((self.high - self.low) / _STEP)) + 1)
        centers = np.linspace(self.low, self.high, count)
        eta = centers[:, None, None] + self.sigma * z
        k = np.arange(self.n + 1.0)[:, None]
        inner = Plain(self.n, self.guess).curvature(k, eta)
        return np.stack(mixed(inner, log_weight))

    def curvature(self, k: FloatArray, center: FloatArray) -> Curvature:
        """Return what the table has, straight between its centres."""
        table = self._table
        last = table.shape[1] - 1
        place = np.clip((center - self.low) / (self.high - self.low) * last, 0, last - 1e-9)
        at = place.astype(np.int64)
        part = place - at
        count = np.broadcast_to(k, center.shape).astype(np.int64)
        below, above = table[:, at, count], table[:, at + 1, count]
        return Curvature(*(below + part * (above - below)))

    def moments(self, k: FloatArray, center: FloatArray, shift: FloatArray) -> Moments:
        """Return accuracies, averaged over log-odds given the counts."""
        z, log_weight = self.nodes
        eta = center[..., None] + self.sigma * z
        inner = Plain(self.n, self.guess).curvature(k[..., None], eta)
        weight = posterior_weights(inner.value + log_weight)
        p, slope = _accuracy(eta, self.guess)
        moved, moved_slope = _accuracy(eta + shift[..., None], self.guess)
        means, by_center = [], []
        score = _mean(weight, inner.score)
        for level, steepness in ((p, slope), (moved, moved_slope)):
            means.append(_mean(weight, level))
            covariance = _mean(weight, level * inner.score) - means[-1] * score
            by_center.append(_mean(weight, steepness) + covariance)
        mean = np.stack([*means, means[0] - means[1]])
        square = np.stack([_mean(weight, x**2) for x in (p, moved, p - moved)])
        return Moments(mean[:2], np.stack(by_center), _mean(weight, moved_slope), square - mean**2)


def normal_grid(information: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights of the trapezoid rule under a standard Normal.

    Nodes are one standard deviation apart of a Normal likelihood of this information times
    that prior, for which the rule errs by about exp(-20).
    """
    half = int(np.ceil(5.0 * np.sqrt(1 + information)))
    z = np.linspace(-5.0, 5.0, 2 * half + 1)
    log_weight = -(z**2) / 2
    return z, log_weight - np.log(np.exp(log_weight).sum())


def posterior_weights(log_density: FloatArray) -> FloatArray:
    """Return weights along the last axis that sum to one."""
    weight = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    return weight


def mixed(inner: Curvature, log_weight: FloatArray) -> Curvature:
    """Return value and derivatives of the log of a weighted sum over the last axis.

    The information is that of the complete data less what is missing of it (Louis 1982,
    doi:10.1111/j.2517-6161.1982.tb01203.x).
    """
    log_density = inner.value + log_weight
    top = log_density.max(axis=-1, keepdims=True)
    weight = np.exp(log_density - top)
    total = weight.sum(axis=-1, keepdims=True)
    weight /= total
    score = _mean(weight, inner.score)
    missing = _mean(weight, inner.score**2) - score**2
    information = _mean(weight, inner.information) - missing
    return Curvature((top + np.log(total))[..., 0], score, information)


def _accuracy(eta: FloatArray, guess: float) -> tuple[FloatArray, FloatArray]:
    """Return accuracies and their derivatives by the log-odds."""
    p = expit(eta)
    return accuracy(eta, guess), (1 - guess) * p * (1 - p)


def _mean(weight: FloatArray, values: FloatArray) -> FloatArray:
    mean: FloatArray = (weight * values).sum(axis=-1)
    return mean
