"""Marginal: densities of responses, their own effects summed out, quick at many log-odds."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.ndimage import spline_filter1d

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.density import Rows, grid_size, log_density
from bayescontam.inference.joining.nodes import log_mean

_STEP, _REACH = 0.25, 24.0
_FINEST = 150
_SCALES = np.linspace(0, 1, 17) ** 1.5  # closer where spreads are small and matter more


@dataclass(frozen=True, eq=False)
class Marginal:
    """Densities of responses given log-odds without their own effects.

    Responses with several trials have an effect of their own, which is summed out. That
    takes many nodes, and the same few pairs of counts come again and again: their densities
    are computed on a grid of log-odds and spreads, and interpolated by cubic splines.
    """

    rows: Rows  # all responses
    pair: IntArray  # dims (response,): which column of the table; -1 without an effect
    # from the spread to spline coefficients, dims (pair, log-odds)
    table: CubicSpline | None = None
    # dims (draw, pair, log-odds): at the spreads of the draws, see `at`
    coefficients: FloatArray | None = None

    @classmethod
    def of(cls, rows: Rows, n_single: int, scale: FloatArray | None) -> "Marginal":
        """Prepare responses, of which those from `n_single` on have effects of this scale."""
        pair = np.full(len(rows.k), -1)
        if scale is None or n_single == len(pair):
            return cls(rows, pair)
        columns = np.stack([rows.k, rows.n, rows.guess])[:, n_single:]
        unique, pair[n_single:] = np.unique(columns, axis=1, return_inverse=True)
        low, high = 0.999 * scale.min(), 1.001 * scale.max()
        scales = low + (high - low) * _SCALES
        values = _integrated(Rows(*unique), scales)
        table = CubicSpline(scales, spline_filter1d(values, axis=-1, mode="mirror"))
        return cls(rows, pair, table)

    @property
    def numbers(self) -> int:
        """How many numbers the table takes for each draw."""
        return 0 if self.table is None else int(np.prod(self.table.c.shape[2:]))

    def at(self, scale: FloatArray | None) -> "Marginal":
        """Return the same for some draws, dims (draw,) of their spreads."""
        if self.table is None or scale is None:
            return self
        return replace(self, coefficients=self.table(scale))

    def __getitem__(self, part: np.ndarray) -> "Marginal":
        return replace(self, rows=self.rows[part], pair=self.pair[part])

    @property
    def are_single(self) -> np.ndarray:
        """Which are single answers without guessing, dims (response,)."""
        guessed = np.atleast_2d(self.rows.guess > 0).any(axis=0)
        return (self.pair < 0) & (self.rows.n == 1) & ~guessed

    def log_density(self, eta: FloatArray) -> FloatArray:
        """Return log densities of all responses, dims (draw, response[, node])."""
        own = self.pair >= 0
        if not own.any() or self.coefficients is None:
            return self._bare(slice(None), eta)
        if own.all():
            return self._interpolated(self.pair, eta)
        result = np.empty(eta.shape)
        result[:, ~own] = self._bare(np.flatnonzero(~own), eta[:, ~own])
        result[:, own] = self._interpolated(self.pair[own], eta[:, own])
        return result

    def _bare(self, part: slice | IntArray, eta: FloatArray) -> FloatArray:
        rows = self.rows[part]
        if eta.ndim > 2:
            rows = rows.by_node()
        return rows.log_likelihood(eta)

    def _interpolated(self, pair: IntArray, eta: FloatArray) -> FloatArray:
        assert self.coefficients is not None
        draws, pairs, size = self.coefficients.shape
        start = (np.arange(draws)[:, None] * pairs + pair) * size
        start = start.reshape(start.shape + (1,) * (eta.ndim - 2))
        place = np.clip((eta + _REACH) / _STEP, 1.0, size - 2.001)
        cell = place.astype(np.int64)
        flat, at, x = self.coefficients.ravel(), start + cell, place - cell
        y = 1 - x
        xx, yy = x * x, y * y  # cubes are products here: powers take several times as long
        result: FloatArray = flat.take(at - 1) * (yy * y)
        result += flat.take(at) * (4 - 3 * xx * (2 - x))
        result += flat.take(at + 1) * (4 - 3 * yy * (2 - y))
        result += flat.take(at + 2) * (xx * x)
        return result / 6


def _integrated(rows: Rows, scales: FloatArray) -> FloatArray:
    """Return log densities on the grid, dims (scale, pair, log-odds).

    By the trapezoid rule, or where that takes many nodes by adaptive ones.
    """
    centers = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    wide = Rows(*(x[:, None, None] for x in (rows.k, rows.n, rows.guess)))
    result = np.empty((len(scales), len(rows.k), len(centers)))
    for row, scale in zip(result, scales, strict=True):
        if (size := grid_size(scale, rows.n)) > _FINEST and not rows.guess.any():
            row[:] = log_density(rows, centers[:, None] + 0 * rows.k, scale[None, None]).T
            continue
        z = np.linspace(-8.5, 8.5, size)
        log_weights = np.log((z[1] - z[0]) / np.sqrt(2 * np.pi)) - z**2 / 2
        eta = centers[:, None] + scale * z
        row[:] = log_mean(wide.log_likelihood(eta) + log_weights)
    return result
