"""Draws of the log-odds of responses given their counts, by rejection below tangents."""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, boundscheck=False, nogil=True)
def draw_log_odds(
    rng: np.random.Generator,
    center: NDArray[np.floating[Any]],
    spread: NDArray[np.floating[Any]],
    k: NDArray[np.floating[Any]],
    n: NDArray[np.floating[Any]],
    guess: NDArray[np.floating[Any]],
) -> NDArray[np.floating[Any]]:
    """Draw the log-odds of responses given their counts, each from its own density."""
    # The density is Normal(center, spread) times a binomial likelihood. Without guessing its
    # logarithm is concave: tangents on both sides of its top bound it from above (Gilks & Wild
    # 1992, doi:10.2307/2347565), and a draw from these bounds is accepted nine times of ten. With
    # guessing it may have two humps, and a node of a grid is chosen, which is moved by a random
    # part of a step.
    result = np.empty(len(center))
    for i in range(len(center)):
        tau = 1 / spread[i] ** 2
        if not (math.isfinite(center[i]) and math.isfinite(tau)):
            result[i] = math.nan  # of a chain that broke off; a draw would never be accepted
        elif guess[i] > 0:
            result[i] = _on_grid(rng, center[i], tau, k[i], n[i], guess[i])
        else:
            result[i] = _below_tangents(rng, center[i], tau, k[i], n[i])
    return result


@numba.njit(cache=True, boundscheck=False, nogil=True)
def _height(x: float, c: float, tau: float, k: float, n: float) -> tuple[float, float]:
    """Return the log density without guessing, and its slope."""
    e = math.exp(-abs(x))
    p = 1 / (1 + e) if x > 0 else e / (1 + e)
    away = x - c
    return k * x - n * (math.log1p(e) + max(x, 0.0)) - tau * away**2 / 2, k - n * p - tau * away


@numba.njit(cache=True, boundscheck=False, nogil=True)
def _top(c: float, tau: float, k: float, n: float) -> float:
    """Return where the log density without guessing is largest, by Newton's steps."""
    p = (k + 0.5) / (n + 1)
    own = n * p * (1 - p)
    x = (math.log(p / (1 - p)) * own + c * tau) / (own + tau)
    for _ in range(100):
        e = math.exp(-abs(x))
        curvature = n * e / (1 + e) ** 2 + tau
        step = _height(x, c, tau, k, n)[1] / curvature
        x += min(max(step, -2.0), 2.0)
        if step**2 * curvature < 1e-10:
            break
    return x


@numba.njit(cache=True, boundscheck=False, nogil=True)
def _flank(x: float, side: float, c: float, tau: float, k: float, n: float) -> tuple[float, float]:
    """Return the slope of a tangent about 1 below the top, and where it reaches the top."""
    top = _height(x, c, tau, k, n)[0]
    e = math.exp(-abs(x))
    away = 1.4 / math.sqrt(n * e / (1 + e) ** 2 + tau)
    height, slope = _height(x + side * away, c, tau, k, n)
    for _ in range(2):
        if abs(top - height - 1) < 0.5:
            break
        wanted = away + (1 - top + height) / abs(slope)
        away = max(0.3 * away, min(3 * away, wanted))
        height, slope = _height(x + side * away, c, tau, k, n)
    return abs(slope), x + side * (away - (top - height) / abs(slope))


@numba.njit(cache=True, boundscheck=False, nogil=True)
def _below_tangents(rng: np.random.Generator, c: float, tau: float, k: float, n: float) -> float:
    """Draw from the density without guessing, by rejection."""
    x = _top(c, tau, k, n)
    top = _height(x, c, tau, k, n)[0]
    rise, low = _flank(x, -1.0, c, tau, k, n)
    fall, high = _flank(x, 1.0, c, tau, k, n)
    total = 1 / rise + (high - low) + 1 / fall
    while True:
        u, bound = rng.random() * total, top
        if u < 1 / rise:
            away = math.log(max(u * rise, 1e-300)) / rise
            x, bound = low + away, top + rise * away
        elif u < 1 / rise + high - low:
            x = low + u - 1 / rise
        else:
            away = -math.log(max((total - u) * fall, 1e-300)) / fall
            x, bound = high + away, top - fall * away
        if rng.standard_exponential() >= bound - _height(x, c, tau, k, n)[0]:
            return x


@numba.njit(cache=True, boundscheck=False, nogil=True)
def _on_grid(
    rng: np.random.Generator, c: float, tau: float, k: float, n: float, guess: float
) -> float:
    """Draw from the density with guessing, at the nodes of a grid that lies at random."""
    step = 1.2 / math.sqrt(tau + n / 4)
    count = int(17 / (math.sqrt(tau) * step)) + 2
    start = c - (count / 2 + rng.random()) * step
    weights = np.empty(count)
    for j in range(count):
        x = start + j * step
        e = math.exp(-abs(x))
        wrong = e / (1 + e) if x > 0 else 1 / (1 + e)
        p = guess + (1 - guess) * (1 - wrong)
        weights[j] = k * math.log(p) + (n - k) * math.log((1 - guess) * wrong)
        weights[j] -= tau * (x - c) ** 2 / 2
    weights = np.exp(weights - weights.max())
    left = rng.random() * weights.sum()
    for j in range(count):
        left -= weights[j]
        if left < 0:
            return start + j * step
    return start + (count - 1) * step
