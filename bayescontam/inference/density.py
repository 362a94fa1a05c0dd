"""Density: how probable each response is given parameters, its own effect summed out."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from bayescontam._types import FloatArray
from bayescontam.inference.build import Built
from bayescontam.inference.draws import Draws, response_guess
from bayescontam.inference.likelihood import accuracy, log_choose, log_likelihood

NODES = 31
"""Quadrature nodes for the model-by-item effect."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some responses: the arrays that their likelihood needs."""

    # k, n: correct answers and trials, dims (response,)
    k: FloatArray
    n: FloatArray
    guess: FloatArray  # accuracy of blind guessing, dims (response,), or (draw, response)

    @classmethod
    def of(cls, built: Built, draws: Draws) -> "Rows":
        """Return all responses that a model was built for, for some draws of it."""
        design = built.design
        guess = response_guess(draws, built.spec, design)
        return cls(design.n_correct * 1.0, design.n_trials * 1.0, guess)

    def log_likelihood(self, eta: FloatArray) -> FloatArray:
        """Return the log probability of the counts, (…, response)."""
        result = log_likelihood(eta, self.k, self.n, self.guess)
        return result if np.all(self.n == 1) else result + log_choose(self.n, self.k)

    def __getitem__(self, part: slice | np.ndarray) -> "Rows":
        return Rows(self.k[part], self.n[part], self.guess[..., part])

    def by_node(self) -> "Rows":
        """Return the same with an axis more at the end, for nodes of quadrature."""
        return Rows(self.k[:, None], self.n[:, None], self.guess[..., None])

    def replicated(
        self, eta: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Return whether replicated counts are below, and at, the observed ones."""
        counts = rng.binomial(self.n.astype(int), accuracy(eta, self.guess))
        return (counts < self.k) * 1.0, (counts == self.k) * 1.0


def log_density(rows: Rows, center: FloatArray, scale: FloatArray | None) -> FloatArray:
    """Return the log density of each response, dims (draw, response).

    With a `scale`, integrated over log-odds ~ Normal(center, scale) by quadrature; its
    error is below 0.01, and without guessing largest where all trials went one way.
    """
    if scale is None:
        return rows.log_likelihood(center)
    eta, log_weights = (_grid if rows.guess.any() else _hermite)(rows, center, scale)
    density: FloatArray = logsumexp(rows.by_node().log_likelihood(eta) + log_weights, axis=-1)
    return density


def _hermite(rows: Rows, center: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes of adaptive Gauss-Hermite quadrature, dims (draw, response, node)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    mode, width = _mode(rows, center, scale)
    eta = mode[..., None] + width[..., None] * nodes
    z = (eta - center[..., None]) / scale[..., None]
    # The weights hold exp(-nodes²/2), which the integrand replaces.
    log_weights = np.log(weights / np.sqrt(2 * np.pi)) + nodes**2 / 2 - z**2 / 2
    return eta, log_weights + np.log(width / scale)[..., None]


def _grid(rows: Rows, center: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes of the trapezoid rule; with guessing the integrand can have two humps."""
    z = np.linspace(-8.5, 8.5, grid_size(scale, rows.n))
    eta = center[..., None] + scale[..., None] * z
    log_weights = np.log((z[1] - z[0]) / np.sqrt(2 * np.pi)) - z**2 / 2
    return eta, np.broadcast_to(log_weights, eta.shape)


def grid_size(scale: FloatArray, n: FloatArray) -> int:
    """Return how many nodes resolve a binomial likelihood under a Normal of this spread.

    The step is the likelihood's width, at which the trapezoid rule of a smooth function
    errs by about exp(-19).
    """
    return 33 + int(17 * scale.max() / (2 / np.sqrt(n.max())))


def _mode(rows: Rows, center: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mode and curvature width of binomial likelihood times Normal prior."""
    prior = 1 / scale**2
    p = (rows.k + 0.5) / (rows.n + 1)
    own = rows.n * p * (1 - p)
    eta: FloatArray = (np.log(p / (1 - p)) * own + center * prior) / (own + prior)
    for _ in range(8):  # Newton steps on a strictly concave function, from close by
        q = accuracy(eta, 0.0)
        step = (rows.k - rows.n * q - (eta - center) * prior) / (rows.n * q * (1 - q) + prior)
        eta = eta + np.clip(step, -2.0, 2.0)
    q = accuracy(eta, 0.0)
    return eta, 1 / np.sqrt(rows.n * q * (1 - q) + prior)
