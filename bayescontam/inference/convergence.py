"""How far chains have converged: R-hat, effective sample size and Monte Carlo error of columns."""

from collections import deque
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from scipy import fft
from scipy.special import ndtri
from scipy.stats import rankdata

from bayescontam._types import FloatArray, IntArray
from bayescontam.parallel import usable_cores

MIXING = ("ess_bulk", "ess_tail", "r_hat")
"""Figures that checks read."""
FIGURES = (*MIXING, "mcse_mean")
TAILS = (0.05, 0.95)
"""Quantiles whose smaller ESS is the tail ESS, as published."""
_AT_ONCE = 1_000_000
"""Draws of columns that are looked at together: what is made of them needs some 100 MB."""


def convergence(cells: np.ndarray, only: Collection[str] = FIGURES) -> dict[str, FloatArray]:
    """Return ESS, R-hat and MCSE of each cell, from dims (chain, draw, …) to (cell,).

    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), doi:10.1214/20-BA1221.

    >>> draws = np.random.default_rng(1).standard_normal((4, 500, 2))
    >>> draws[:2, :, 1] += 3
    >>> convergence(draws, only=["r_hat"])["r_hat"].round(1)
    array([1. , 1.6])
    """
    # The rank-normalised split-chain statistics, as ArviZ computes them, to rounding. ArviZ goes
    # column by column: for a dozen columns, as of each of many small fits, it takes three times as
    # long, and for thousands nearly twice. Its tail ESS is by default of other quantiles, which
    # depend on its settings.
    cells = cells.reshape(*cells.shape[:2], -1)
    size = cells.shape[0] * cells.shape[1]
    broken = ~np.isfinite(cells).all(axis=(0, 1))
    moving = ~broken & (np.ptp(cells.reshape(size, cells.shape[2]), axis=0) > 0)
    at = np.flatnonzero(moving)
    result = {}
    for name in [name for name in FIGURES if name in only]:
        found = np.full(len(moving), np.nan)
        found[broken] = 0.0 if name.startswith("ess") else np.inf
        result[name] = found

    def fill(part: IntArray) -> None:
        columns = _Columns(cells[..., part])
        for name, found in result.items():
            found[part] = getattr(columns, name)

    parts = np.array_split(at, 1 + len(at) * size // _AT_ONCE)
    if len(parts) == 1:
        fill(at)
    else:  # in threads: nearly all of the time is spent in NumPy and SciPy, which let others run
        with ThreadPoolExecutor(usable_cores()) as pool:
            deque(pool.map(fill, parts), maxlen=0)
    return result


class _Columns:
    """Draws of several quantities, dims (chain, draw, column), and figures of each."""

    def __init__(self, draws: FloatArray) -> None:
        self._draws, self._split = draws, _split(draws)

    @cached_property
    def _scores(self) -> FloatArray:
        return _normal_scores(self._split)

    @property
    def ess_bulk(self) -> FloatArray:
        return _effective_size(self._scores)

    @property
    def ess_tail(self) -> FloatArray:
        quantiles = np.quantile(self._draws, TAILS, axis=(0, 1))
        low, high = (_effective_size((self._split <= each).astype(float)) for each in quantiles)
        return np.minimum(low, high)

    @property
    def r_hat(self) -> FloatArray:
        folded = np.abs(self._split - np.median(self._split, axis=(0, 1)))
        scales = (_potential_scale(each) for each in (self._scores, _normal_scores(folded)))
        worst: FloatArray = np.maximum(*scales)
        return worst

    @property
    def mcse_mean(self) -> FloatArray:
        sd = self._draws.std(axis=(0, 1), ddof=1)
        error: FloatArray = sd / np.sqrt(_effective_size(self._split))
        return error


def _split(draws: FloatArray) -> FloatArray:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Return Normal quantiles of the ranks among all chains of a column."""
    size = draws.shape[0] * draws.shape[1]
    rank = rankdata(draws.reshape(size, -1), axis=0)
    scores: FloatArray = ndtri((rank - 3 / 8) / (size + 1 / 4))
    return scores.reshape(draws.shape)


def _potential_scale(draws: FloatArray) -> FloatArray:
    n = draws.shape[1]
    between = n * draws.mean(axis=1).var(axis=0, ddof=1)
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Half of the draws of a column may share one value; then its folded ranks do not move.
        return np.nan_to_num(np.sqrt((between / within + n - 1) / n), nan=1.0)


def _effective_size(draws: FloatArray) -> FloatArray:
    """Return the ESS of columns by Geyer's initial monotone sequence."""
    chains, n, _ = draws.shape
    size = chains * n
    covariance = _autocovariance(draws)
    mean_variance = covariance[0] * n / (n - 1)
    total = covariance[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (mean_variance - covariance) / total
    rho[0] = 1.0
    # Pairs of an even and an odd lag. The first that is not positive ends the sum, and the
    # last in any case; its even lag still counts, once, unless it and the pair are below 0.
    count = (n - 1) // 2
    even, odd = rho[: 2 * count : 2], rho[1 : 2 * count : 2]
    pairs = even + odd
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    positive[-1] = False
    monotone = np.minimum.accumulate(np.where(positive, pairs, np.inf), axis=0)
    last = positive.sum(axis=0)[None]
    end, pair = (np.take_along_axis(each, last, axis=0)[0] for each in (even, pairs))
    end = np.where(pair < 0, np.maximum(end, 0.0), end)
    tau = -1 + 2 * np.where(positive, monotone, 0.0).sum(axis=0) + end
    still = np.ptp(draws, axis=(0, 1)) < np.finfo(float).resolution  # as many as can be
    return np.where(still, size, size / np.maximum(tau, 1 / np.log10(size)))


def _autocovariance(draws: FloatArray) -> FloatArray:
    """Return the autocovariance at every lag, averaged over chains, dims (lag, column)."""
    n = draws.shape[1]
    centered = np.moveaxis(draws - draws.mean(axis=1, keepdims=True), 1, -1)
    length = fft.next_fast_len(2 * n, real=True)
    spectrum = fft.rfft(centered, length, axis=-1)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    return np.moveaxis(fft.irfft(power, length, axis=-1)[..., :n] / n, -1, 0)
