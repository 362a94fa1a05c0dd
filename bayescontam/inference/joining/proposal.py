"""Proposal: a newcomer's abilities and slopes, drawn close to their density given a draw."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.draws import Draws, predictor
from bayescontam.inference.joining.difficulties import Difficulties, log_answers
from bayescontam.inference.joining.expectation import Expectation
from bayescontam.inference.joining.marginal import Marginal
from bayescontam.inference.joining.newcomer import Newcomer

FREEDOM = 15.0
"""Degrees of freedom of proposals: tails heavier than those of what they stand for."""
_STEP = 0.2
_STEPS = 2


@dataclass(frozen=True, eq=False)
class Effects:
    """From a newcomer's effects to the log-odds of its responses."""

    newcomer: Newcomer
    positive: bool  # whether effects hold the logarithm of slopes

    @property
    def n_abilities(self) -> int:
        """Number of effects that are abilities; slopes follow."""
        return len(self.newcomer.units)

    def placed(self, effects: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return ability in all units and slope in all benchmarks; 0 where not answered."""
        design, slopes = self.newcomer.design, effects[:, self.n_abilities :]
        theta = np.zeros((len(effects), len(design.units)))
        theta[:, self.newcomer.units] = effects[:, : self.n_abilities]
        if "beta" not in self.newcomer.built.terms:
            return theta, None
        beta = np.zeros((len(effects), len(design.benchmarks)))
        beta[:, self.newcomer.benchmarks] = np.exp(slopes) if self.positive else slopes
        return theta, beta

    def log_odds(self, effects: FloatArray) -> FloatArray:
        """Return log-odds of the newcomer's responses to items of average difficulty."""
        theta, beta = self.placed(effects)
        before = len(self.newcomer.host.models)
        wide = [
            None if x is None else np.pad(x, ((0, 0), (before * x.shape[1], 0)))
            for x in (theta, beta)
        ]
        assert wide[0] is not None
        return predictor(
            Draws(wide[0], wide[1], None, None, None), self.newcomer.design.part(self.newcomer.own)
        )

    def slopes_of(self, effects: FloatArray) -> FloatArray:
        """Return what effects move log-odds by, relative to `directions`, (draw, effect)."""
        result = np.ones(effects.shape)
        if self.positive:
            result[:, self.n_abilities :] = np.exp(effects[:, self.n_abilities :])
        return result

    def directions(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return the derivative of log-odds, (own, effect), and its products of pairs."""
        part = self.newcomer.design.part(self.newcomer.own)
        rows = np.arange(len(part))
        columns = [np.searchsorted(self.newcomer.units, part.unit)]
        values: list[FloatArray] = [np.ones(len(part))]
        if "beta" in self.newcomer.built.terms:
            place = np.searchsorted(self.newcomer.benchmarks, part.benchmark)
            columns.append(self.n_abilities + place)
            values.append(part.dose)
        size = self.n_abilities + len(self.newcomer.benchmarks) * (len(columns) - 1)
        pairs = [(i, j) for i in range(len(columns)) for j in range(len(columns))]

        def matrix(parts: list[tuple[IntArray, FloatArray]], width: int) -> sparse.csr_array:
            cells = [sparse.csr_array((v, (rows, c)), (len(rows), width)) for c, v in parts]
            return sum(cells[1:], start=cells[0])

        single = matrix(list(zip(columns, values, strict=True)), size)
        both: list[tuple[IntArray, FloatArray]] = [
            (columns[i] * size + columns[j], values[i] * values[j]) for i, j in pairs
        ]
        return single, matrix(both, size**2)


@dataclass(frozen=True, eq=False)
class Proposed:
    """Draws of a newcomer's effects, dims (draw, effect), and log importance ratios, (draw,)."""

    effects: FloatArray
    log_ratio: FloatArray


def propose(
    start: FloatArray,
    effects: Effects,
    expected: Expectation,
    own: Marginal,
    difficulties: Difficulties | None,
    rng: np.random.Generator,
    steps: int = _STEPS,
) -> Proposed:
    """Draw a newcomer's effects once for each draw of a fit, and weigh them."""
    center, root = _laplace(start, effects, expected, own, difficulties, steps)
    size = center.shape[1]
    stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, len(center)))
    step = rng.standard_normal(center.shape) * stretch[:, None]
    source = center + np.linalg.solve(np.swapaxes(root, 1, 2), step[..., None])[..., 0]
    drawn = expected.effects(source)
    log_q = (
        gammaln((FREEDOM + size) / 2) - gammaln(FREEDOM / 2) - size / 2 * np.log(np.pi * FREEDOM)
        + np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        - (FREEDOM + size) / 2 * np.log1p((step**2).sum(axis=1) / FREEDOM)
    )  # fmt: skip
    answers = log_answers(effects.log_odds(drawn), own, difficulties).sum(axis=1)
    return Proposed(drawn, answers + expected.log_density(source) - log_q)


def mode(
    effects: Effects, expected: Expectation, own: Marginal, difficulties: Difficulties | None
) -> FloatArray:
    """Return the mean over draws of the modes of effects, dims (effect,)."""
    center, _ = _laplace(expected.location, effects, expected, own, difficulties, 8)
    average: FloatArray = expected.effects(center).mean(axis=0)
    return average


def _laplace(
    start: FloatArray,
    effects: Effects,
    expected: Expectation,
    own: Marginal,
    difficulties: Difficulties | None,
    steps: int,
) -> tuple[FloatArray, FloatArray]:
    """Return mode and Cholesky factor of the precision of sources, by Newton steps."""
    single, both = effects.directions()
    at = np.broadcast_to(start, expected.location.shape)
    load = expected.loading
    for _ in range(steps):
        eta = effects.log_odds(at)
        low, middle, high = (log_answers(eta + h, own, difficulties) for h in (-_STEP, 0.0, _STEP))
        first = (single.T @ ((high - low) / (2 * _STEP)).T).T * (scale := effects.slopes_of(at))
        bend = np.maximum(2 * middle - low - high, 0.0) / _STEP**2
        second = (both.T @ bend.T).T.reshape(len(at), *(2 * first.shape[1:]))
        second = second * scale[:, :, None] * scale[:, None, :]
        loaded = np.swapaxes(load, 1, 2) @ second
        precision = np.eye(load.shape[2]) + loaded @ load
        right = (loaded @ (at - expected.location)[..., None])[..., 0]
        right = right + np.einsum("dps,dp->ds", load, first)
        source = np.linalg.solve(precision, right[..., None])[..., 0]
        move = np.clip(expected.effects(source) - at, -2.0, 2.0)
        at = at + move
    return source, np.linalg.cholesky(precision)
