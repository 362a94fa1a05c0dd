"""Information: a Normal approximation to what crossed responses show about the estimands."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.inference.plan.components import Component
from bayescontam.inference.plan.crossed import Crossed
from bayescontam.inference.plan.kernels import (
    Kernel,
    Moments,
    Plain,
    Repeated,
    normal_grid,
    posterior_weights,
)

QUANTITIES = ("accuracy", "genuine_ability", "overfitting", "slope")
"""Estimands that are approximated, in the order of the results."""
_CHUNK = 1_000_000
"""Numbers held at once in each array."""
_NEWTON = 12
"""Most Newton steps."""
_NEAR = 0.01
"""Length of a Newton step, in prior standard deviations, below which the mode is found."""


class Approximate(NamedTuple):
    """Posterior means and standard deviations, dims (quantity, model, benchmark)."""

    mean: FloatArray
    sd: FloatArray


class Approximation:
    """Normal approximation to the posterior of crossed responses, given the spreads.

    Effects of items and of responses are integrated out by quadrature. What is left,
    abilities and slopes, has a Normal prior; its posterior is taken as Normal at its mode.
    """

    def __init__(
        self,
        crossed: Crossed,
        parts: list[Component],
        spreads: Mapping[str, float],
        others: Sequence[Mapping[str, float]] = (),
    ) -> None:
        self.crossed = crossed
        self._spreads = spreads
        self._features, self._shifts = crossed.features(), crossed.shifts()
        cells = crossed.shape[0] * crossed.shape[1]
        kinds = len(crossed.kinds)
        means = [np.full(part.matrix.shape[-1], part.location(spreads)) for part in parts]
        matrix = np.concatenate([part.matrix for part in parts], axis=-1)
        matrix = matrix.reshape(kinds * cells, -1)
        self._center = matrix @ np.concatenate(means)
        # Effects in units of their prior: no spread is too small to be divided by.
        self._loadings = np.stack([matrix * _scales(parts, one) for one in (spreads, *others)])

    def posterior(self, counts: FloatArray, start: FloatArray) -> Approximate:
        """Approximate the posterior of the estimands."""
        k = self.crossed.by_item(counts)
        kernel = self._kernel(self.crossed.log_odds(start))
        score, information, point = self._mode(k, start, kernel)
        pull = score + information @ point.ravel()
        true = information @ start.ravel()
        pull = true + (pull - true) / np.sqrt(self.crossed.weight)
        point, covariance = self._averaged(pull, information)
        return self._estimands(k, point, covariance, kernel)

    def given(self, counts: FloatArray, effects: FloatArray) -> FloatArray:
        """Return the posterior means of the estimands, were the effects known."""
        kernel = self._kernel(self.crossed.log_odds(effects))
        certain = np.zeros((effects.size, effects.size))
        return self._estimands(self.crossed.by_item(counts), effects, certain, kernel).mean

    def _kernel(self, log_odds: FloatArray) -> Kernel:
        n, guess = self.crossed.generations, self.crossed.guess
        sigma = self._spreads.get("sigma_eps")
        if sigma is None:
            return Plain(n, guess)
        reach = 3.0 + 5.0 * self._spreads.get("sigma_delta", 0.0)
        return Repeated(
            n, guess, sigma, float(log_odds.min() - reach), float(log_odds.max() + reach)
        )

    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Return values of an item's difficulty with log weights."""
        sigma = self._spreads.get("sigma_delta")
        if sigma is None:
            return np.zeros(1), np.zeros(1)
        information = self.crossed.generations / 4
        if "sigma_eps" in self._spreads:  # each response is a blurred look at its item
            information = 1 / (1 / information + self._spreads["sigma_eps"] ** 2)
        z, log_weight = normal_grid(sigma**2 * self.crossed.shape[1] * information)
        return sigma * z, log_weight

    def _mode(
        self, k: FloatArray, start: FloatArray, kernel: Kernel
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return score and information at the mode of the effects, and the mode."""
        loadings = self._loadings[0]
        point = np.linalg.lstsq(loadings, start.ravel() - self._center, rcond=None)[0]
        for _ in range(_NEWTON):
            effects = (self._center + loadings @ point).reshape(start.shape)
            score, information = self._slopes_of(k, effects, kernel)
            values, vectors = np.linalg.eigh(information)
            # By chance a few answers can seem to say less than nothing.
            information = (vectors * np.maximum(values, 0.0)) @ vectors.T
            precision = np.eye(len(point)) + loadings.T @ information @ loadings
            step = np.linalg.solve(precision, loadings.T @ score - point)
            length = float(np.abs(step).max())
            if length < _NEAR:
                break
            point = point + step * min(1.0, 2.0 / length)
        return score, information, effects

    def _averaged(self, pull: FloatArray, information: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the effects, averaged over the spreads.

        The log-likelihood is ``pull @ effects - effects @ information @ effects / 2``, a
        parabola, so that each draw of the spreads has its evidence in closed form.
        """
        loadings = self._loadings if len(self._loadings) == 1 else self._loadings[1:]
        turned = loadings.swapaxes(1, 2)
        inverse = np.linalg.inv(np.eye(loadings.shape[2]) + turned @ information @ loadings)
        pulls = turned @ (pull - information @ self._center)
        centers = (inverse @ pulls[..., None])[..., 0]
        evidence = np.linalg.slogdet(inverse)[1] / 2 + (pulls * centers).sum(axis=-1) / 2
        weight = posterior_weights(evidence)
        effects = self._center + (loadings @ centers[..., None])[..., 0]
        mean = weight @ effects
        away = effects - mean
        each = np.einsum("s,sij->ij", weight, loadings @ inverse @ turned)
        covariance = each + (weight[:, None] * away).T @ away
        return mean.reshape(len(self.crossed.kinds), -1), covariance

    def _pieces(
        self, effects: FloatArray, inner: int = 1
    ) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield benchmark, items and log-odds at the nodes, (item, model, node)."""
        benchmarks, models, items = self.crossed.shape
        values, _ = self._nodes()
        centers = self.crossed.log_odds(effects)
        step = max(1, _CHUNK // (len(values) * models * inner))
        for b in range(benchmarks):
            for first in range(0, items, step):
                part = slice(first, first + step)
                yield b, part, centers[b, part, :, None] - values

    def _slopes_of(
        self, k: FloatArray, effects: FloatArray, kernel: Kernel
    ) -> tuple[FloatArray, FloatArray]:
        """Return gradient and information of the log-likelihood by abilities and slopes."""
        benchmarks, models, _ = self.crossed.shape
        shape = len(self.crossed.kinds), models, benchmarks
        score, information = np.zeros(shape), np.zeros((*shape, *shape))
        log_weight = self._nodes()[1]
        for b, part, center in self._pieces(effects):
            x = self._features[:, b, part]
            one = kernel.curvature(k[b, part, :, None], center)
            weight = posterior_weights(one.value.sum(axis=1) + log_weight)[:, None]
            mean = (weight * one.score).sum(axis=-1)
            score[:, :, b] += (x * mean).sum(axis=1)
            away = (one.score - mean[..., None]) * np.sqrt(weight)
            missing = away @ away.swapaxes(1, 2)
            full = (weight * one.information).sum(axis=-1)
            net = full[:, :, None] * np.eye(models) - missing
            information[:, :, b, :, :, b] += np.einsum("fim,gin,imn->fmgn", x, x, net)
        size, times = score.size, self.crossed.weight
        return times * score.ravel(), times * information.reshape(size, size)

    def _estimands(
        self, k: FloatArray, effects: FloatArray, covariance: FloatArray, kernel: Kernel
    ) -> Approximate:
        """Carry the posterior of abilities and slopes over to the estimands."""
        benchmarks, models, items = self.crossed.shape
        mean = np.zeros((2, models, benchmarks))
        gradient = np.zeros((2, models, benchmarks, len(effects), models, benchmarks))
        variance, at = np.zeros((3, models, benchmarks)), np.arange(models)
        slope = effects[1].reshape(models, benchmarks)
        for b, part, center in self._pieces(effects, kernel.size):
            x, step = self._features[:, b, part], self._shifts[b, part]
            one = self._levels(k[b, part, :, None], center, slope[:, b] * step, kernel)
            mean[:, :, b] += one.mean.sum(axis=1)
            variance[:, :, b] += one.variance.sum(axis=1)
            gradient[:, :, b, :, :, b] += np.einsum("fin,timn->tmfn", x, one.by_center)
            gradient[1, at, b, 1, at, b] += (one.by_shift * step).sum(axis=0)
        variance /= items**2 * self.crossed.weight
        return self._approximation(mean / items, gradient / items, variance, effects, covariance)

    def _levels(
        self, k: FloatArray, center: FloatArray, shift: FloatArray, kernel: Kernel
    ) -> Moments:
        """Return accuracies of responses given the answers to their items.

        Dims (…, item, model); ``by_center`` has another (model,), that of the centre.
        """
        moved = np.broadcast_to(shift[..., None], center.shape)
        moments = kernel.moments(np.broadcast_to(k, center.shape), center, moved)
        one = kernel.curvature(k, center)
        weight = posterior_weights(one.value.sum(axis=1) + self._nodes()[1])[:, None]
        mean = (weight * moments.mean).sum(axis=-1)
        away = moments.mean - mean[..., None]
        score = one.score - (weight * one.score).sum(axis=-1, keepdims=True)
        # A change of one model's centre also changes what its answer shows about the item.
        joint = (weight * away) @ score.swapaxes(1, 2)
        own = (weight * moments.by_center).sum(axis=-1)[..., None] * np.eye(k.shape[1])
        three = np.concatenate([away, away[:1] - away[1:]])
        variance = (weight * (three**2 + moments.variance)).sum(axis=-1)
        return Moments(mean, own + joint, (weight * moments.by_shift).sum(axis=-1), variance)

    def _approximation(
        self,
        mean: FloatArray,
        gradient: FloatArray,
        variance: FloatArray,
        effects: FloatArray,
        covariance: FloatArray,
    ) -> Approximate:
        size = covariance.shape[0]
        shape = mean.shape[1:]
        three = np.concatenate([gradient, gradient[:1] - gradient[1:]]).reshape(-1, size)
        carried = np.einsum("ci,ij,cj->c", three, covariance, three).reshape(3, *shape)
        slope_variance = np.diag(covariance).reshape(len(effects), *shape)[1]
        means = np.stack([*mean, mean[0] - mean[1], effects[1].reshape(shape)])
        squares = np.concatenate([carried + variance, slope_variance[None]])
        return Approximate(means, np.sqrt(squares))


def _scales(parts: list[Component], spreads: Mapping[str, float]) -> FloatArray:
    """Return the standard deviation of each effect."""
    return np.concatenate([np.full(p.matrix.shape[-1], p.scale(spreads)) for p in parts])
