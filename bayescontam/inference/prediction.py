"""Prediction: how probable responses are given draws, their own effects not looked at."""

from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.density import NODES, Rows, grid_size, log_density
from bayescontam.inference.design import Design
from bayescontam.inference.difficulties import spelt_out
from bayescontam.inference.draws import CHUNK, Draws, predictor, slopes
from bayescontam.inference.part import part_of

MOST_DRAWS = 6000
"""Draws that predictive densities are averaged over: Pareto k of fewer is noisy."""
MOST_NUMBERS = 50_000_000
"""Draws times responses; on larger tables fewer draws are used, at least 500."""


def predictive_draws(draws: Draws, numbers: int) -> IntArray:
    """Return the positions of the draws that predict, evenly spaced."""
    return draws.spaced(max(500, min(MOST_DRAWS, MOST_NUMBERS // numbers)))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of responses from draws, their own effects not looked at."""

    draws: Draws
    built: Built
    rows: Rows  # all responses
    spread: FloatArray | None  # dims (draw, repeated or 1): of these effects

    @classmethod
    def of(cls, draws: Draws, built: Built) -> "Prediction":
        """Return the predictions of all responses that a model was built for."""
        spread = draws.sigma_eps
        return cls(draws, built, Rows.of(built, draws), spread)

    def center(self, rows: IntArray) -> FloatArray:
        """Return log-odds without model-by-item effects, dims (draw, rows)."""
        return predictor(*self._seen(rows))

    def slope(self, rows: IntArray) -> FloatArray:
        """Return the slope that holds for each response, dims (draw, rows)."""
        return slopes(*self._seen(rows))

    def _seen(self, rows: IntArray) -> tuple[Draws, Design]:
        """Return draws and design of some responses: those of all would not fit in memory."""
        design, lattice = self.built.design, self.built.lattice
        if lattice is None:
            return self.draws, part_of(design, rows, design.item[rows])
        items, own = np.unique(design.item[rows], return_inverse=True)
        return spelt_out(self.draws, lattice, items), part_of(design, rows, own)

    def density(self, rows: IntArray, center: FloatArray) -> FloatArray:
        """Return log densities given log-odds as `center` has them, dims (draw, rows).

        Effects of single responses are integrated out by quadrature.
        """
        if self.spread is None:
            return log_density(self.rows[rows], center, None)
        single = rows < self.built.design.n_single
        result = np.empty(center.shape)
        result[:, single] = log_density(self.rows[rows[single]], center[:, single], None)
        guess = self.rows.guess.any()
        width = grid_size(self.spread, self.rows.n) if guess else NODES
        repeated, step = np.flatnonzero(~single), max(1, CHUNK // (len(center) * width))
        for part in np.split(repeated, range(step, len(repeated), step)):
            scale = self._scale(rows[part])
            result[:, part] = log_density(self.rows[rows[part]], center[:, part], scale)
        return result

    def _scale(self, rows: IntArray) -> FloatArray:
        assert self.spread is not None
        wide = self.spread.shape[1] > 1
        return self.spread[:, rows - self.built.design.n_single] if wide else self.spread

    def replicated(
        self, rows: IntArray, center: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Replicate counts; return whether they are below, and at, the observed ones."""
        eta = center.copy()
        repeated = rows >= self.built.design.n_single
        if self.spread is not None and repeated.any():
            noise = rng.standard_normal((len(eta), int(repeated.sum())))
            eta[:, repeated] += noise * self._scale(rows[repeated])
        return self.rows[rows].replicated(eta, rng)
