"""Leave-one-out: how well each response is predicted from all others."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam.inference.build import Built
from bayescontam.inference.design import Floats
from bayescontam.inference.draws import CHUNK, Draws, log_odds, predictor
from bayescontam.inference.likelihood import accuracy, guessing, log_choose, log_likelihood

MOST_DRAWS = 6000
"""Draws used for importance sampling: Pareto k of fewer is noisy."""
MOST_NUMBERS = 50_000_000
"""Draws times responses; on larger tables fewer draws are used, at least 500."""
NODES = 31
"""Quadrature nodes for the model-by-item effect."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some responses: the arrays that their likelihood needs, dims (response,)."""

    k: Floats
    n: Floats
    guess: Floats

    def log_likelihood(self, eta: Floats) -> Floats:
        return log_likelihood(eta, self.k, self.n, self.guess) + log_choose(self.n, self.k)

    def __getitem__(self, part: slice) -> "_Rows":
        return _Rows(self.k[part], self.n[part], self.guess[part])

    def replicated(self, eta: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return whether replicated counts are below, and at, the observed ones."""
        counts = rng.binomial(self.n.astype(int), accuracy(eta, self.guess))
        return (counts < self.k) * 1.0, (counts == self.k) * 1.0


def leave_one_out(draws: Draws, built: Built, rng: np.random.Generator) -> xr.Dataset:
    """Compute PSIS-LOO of every response.

    The left-out unit is a response: one model's answers to one item. Where responses
    have an effect of their own, it is integrated out by quadrature: given that effect
    a response would hardly depend on the others, and importance sampling would fail.

    Parameters
    ----------
    draws : Draws
    built : Built
    rng : numpy.random.Generator
        Randomises the probability integral transform of discrete counts.

    Returns
    -------
    xarray.Dataset
        Dims (response,): ``elpd`` (log predictive density), ``log_density`` (the same
        without leaving out), ``pareto_k``, and ``pit`` (uniform if the predictive
        distributions are right). ``log_likelihood``, dims (kept_draw,), is the joint
        log likelihood of each draw used.

    References
    ----------
    Vehtari, Gelman & Gabry (2017), doi:10.1007/s11222-016-9696-4; Merkle, Furr &
    Rabe-Hesketh (2019), doi:10.1007/s11336-019-09679-0, on integrating effects out.
    """
    design = built.design
    kept = draws.spaced(max(500, min(MOST_DRAWS, MOST_NUMBERS // len(design))))
    draws = draws[kept]
    center, spread = _predictive_log_odds(draws, built)
    guess = guessing(built.spec, design)[design.benchmark]
    rows = _Rows(design.n_correct * 1.0, design.n_trials * 1.0, guess)
    parts, joint = [], np.zeros(len(draws))
    width = NODES if spread is None or not guess.any() else grid_size(spread, rows.n)
    for part in _parts(len(design), design.n_single, len(draws), width):
        scale = spread if part.start >= design.n_single else None
        if scale is not None and scale.shape[1] > 1:
            scale = scale[:, part.start - design.n_single : part.stop - design.n_single]
        density = _log_density(rows[part], center[:, part], scale)
        joint += density.sum(axis=1)
        effect = 0.0 if scale is None else rng.standard_normal(density.shape) * scale
        replicated = rows[part].replicated(center[:, part] + effect, rng)
        parts.append(_left_out(density, *replicated, rng))
    columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    data = {name: ("response", values) for name, values in columns.items()}
    return xr.Dataset(data | {"log_likelihood": ("kept_draw", joint)}, {"kept_draw": kept})


def _parts(count: int, n_single: int, n_draws: int, nodes: int) -> Iterator[slice]:
    """Cut the responses into parts that hold either single or repeated ones."""
    for first, last, size in ((0, n_single, 1), (n_single, count, nodes)):
        step = max(1, CHUNK // (n_draws * size))
        for start in range(first, last, step):
            yield slice(start, min(start + step, last))


def _predictive_log_odds(draws: Draws, built: Built) -> tuple[Floats, Floats | None]:
    """Return centre and spread of log-odds given all but a response's own effect."""
    if draws.eta is None:
        return log_odds(draws, built.design), None
    assert draws.sigma_eps is not None
    return predictor(draws, built.design), draws.sigma_eps


def _log_density(rows: _Rows, center: Floats, scale: Floats | None) -> Floats:
    """Return the log density of each response, dims (draw, response).

    With a `scale`, integrated over log-odds ~ Normal(center, scale) by quadrature; its
    error is below 0.01, and without guessing largest where all trials went one way.
    """
    if scale is None:
        return rows.log_likelihood(center)
    eta, log_weights = (_grid if rows.guess.any() else _hermite)(rows, center, scale)
    wide = _Rows(rows.k[:, None], rows.n[:, None], rows.guess[:, None])
    density: Floats = logsumexp(wide.log_likelihood(eta) + log_weights, axis=-1)
    return density


def _hermite(rows: _Rows, center: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return nodes of adaptive Gauss-Hermite quadrature, dims (draw, response, node)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    mode, width = _mode(rows, center, scale)
    eta = mode[..., None] + width[..., None] * nodes
    z = (eta - center[..., None]) / scale[..., None]
    # The weights hold exp(-nodes²/2), which the integrand replaces.
    log_weights = np.log(weights / np.sqrt(2 * np.pi)) + nodes**2 / 2 - z**2 / 2
    return eta, log_weights + np.log(width / scale)[..., None]


def _grid(rows: _Rows, center: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return nodes of the trapezoid rule; with guessing the integrand can have two humps."""
    z = np.linspace(-8.5, 8.5, grid_size(scale, rows.n))
    eta = center[..., None] + scale[..., None] * z
    log_weights = np.log((z[1] - z[0]) / np.sqrt(2 * np.pi)) - z**2 / 2
    return eta, np.broadcast_to(log_weights, eta.shape)


def grid_size(scale: Floats, n: Floats) -> int:
    """Return how many nodes resolve a binomial likelihood under a Normal of this spread.

    The step is the likelihood's width, at which the trapezoid rule of a smooth function
    errs by about exp(-19).
    """
    return 33 + int(17 * scale.max() / (2 / np.sqrt(n.max())))


def _mode(rows: _Rows, center: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return mode and curvature width of binomial likelihood times Normal prior."""
    prior = 1 / scale**2
    p = (rows.k + 0.5) / (rows.n + 1)
    own = rows.n * p * (1 - p)
    eta: Floats = (np.log(p / (1 - p)) * own + center * prior) / (own + prior)
    for _ in range(8):  # Newton steps on a strictly concave function, from close by
        q = accuracy(eta, 0.0)
        step = (rows.k - rows.n * q - (eta - center) * prior) / (rows.n * q * (1 - q) + prior)
        eta = eta + np.clip(step, -2.0, 2.0)
    q = accuracy(eta, 0.0)
    return eta, 1 / np.sqrt(rows.n * q * (1 - q) + prior)


def _left_out(
    log_density: Floats, below: Floats, at: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Weigh draws as if each response had been left out."""
    log_weights, pareto_k = array_stats.psislw(log_density.T, r_eff=1, axis=-1)
    log_weights = log_weights - logsumexp(log_weights, axis=1, keepdims=True)
    weights = np.exp(log_weights)
    lower, level = (weights * below.T).sum(axis=1), (weights * at.T).sum(axis=1)
    return {
        "elpd": logsumexp(log_weights + log_density.T, axis=1),
        "log_density": logsumexp(log_density, axis=0) - np.log(len(log_density)),
        "pareto_k": pareto_k,
        "pit": np.clip(lower + rng.random(len(lower)) * level, 0, 1),
    }
