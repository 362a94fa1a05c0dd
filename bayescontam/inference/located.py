"""Located: the true contamination of each draw, given its parameters and the responses."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from bayescontam._types import FloatArray
from bayescontam.inference.build import Built
from bayescontam.inference.coordinates import rough_logits
from bayescontam.inference.draws import Draws, predictor, response_guess, slopes
from bayescontam.inference.exposure import Exposure, draw_nodes
from bayescontam.inference.likelihood import log_likelihood
from bayescontam.inference.mixture import in_trials
from bayescontam.inference.priors import SMALLEST


@dataclass(frozen=True, eq=False)
class Moments:
    """Posterior mean and standard deviation of the true contamination, dims (group,)."""

    mean: FloatArray
    sd: FloatArray


def located(
    draws: Draws, built: Built, rng: np.random.Generator, responses: bool = True
) -> tuple[Draws, Moments | None]:
    """Draw the true contamination of every group for every draw.

    It was summed out for sampling; its distribution given the parameters of a draw is
    known, and estimands need it: what the accuracy of these items is depends on which of
    them are contaminated.
    """
    exposure = built.design.exposure
    if exposure is None:
        return draws, None
    parts, first, second = [], np.zeros(len(exposure)), np.zeros(len(exposure))
    for part in draws.chunks(built.design):
        log_weights = _log_weights(part, built, exposure, responses)
        found = replace(part, node=draw_nodes(log_weights, rng))
        parts.append(_at_mean(found, built, exposure))
        weights = np.exp(log_weights)
        # About the mean, so that a small variance is not lost in rounding.
        first += (weights * exposure.offsets).sum(axis=(0, 2))
        second += (weights * exposure.offsets**2).sum(axis=(0, 2))
    first, second = first / len(draws), second / len(draws)
    moments = Moments(exposure.mean + first, np.sqrt(np.maximum(second - first**2, 0.0)))
    return _joined(draws, parts), moments


def _joined(draws: Draws, parts: list[Draws]) -> Draws:
    node = np.concatenate([part.node for part in parts if part.node is not None])
    eta = [part.eta for part in parts if part.eta is not None]
    return replace(draws, node=node, eta=np.concatenate(eta) if eta else None)


def _log_weights(draws: Draws, built: Built, exposure: Exposure, responses: bool) -> FloatArray:
    """Return log probabilities of nodes given a draw, dims (draw, group, node)."""
    design = built.design
    prior = exposure.weights(draws.p_shift, design.benchmark)
    result = np.empty((len(draws), *exposure.nodes.shape))
    slope, eta = slopes(draws, design), predictor(draws, design)
    for k in range(exposure.nodes.shape[1]):
        shift = slope * exposure.offsets[exposure.group, k]
        density = _log_density(draws, built, eta, shift, responses)
        result[..., k] = prior[..., k] + exposure.sums(density)
    return result - logsumexp(result, axis=-1, keepdims=True)


def _log_density(
    draws: Draws, built: Built, eta: FloatArray, shift: FloatArray, responses: bool
) -> FloatArray:
    """Return the log density of each response, and of its effect, at shifted log-odds."""
    design = built.design
    repeated = slice(design.n_single, None)
    total, effect = eta + shift, np.zeros(eta.shape)
    if draws.eta is not None and draws.sigma_eps is not None:
        scale = draws.sigma_eps + SMALLEST
        part = in_trials(scale, rough_logits(design).se)
        center = eta[:, repeated] + (1 - part) * shift[:, repeated]
        effect[:, repeated] = -0.5 * ((draws.eta - center) / scale) ** 2
        total[:, repeated] = draws.eta + part * shift[:, repeated]
    if not responses:
        return effect
    guess = response_guess(draws, built.spec, design)
    return effect + log_likelihood(total, design.n_correct * 1.0, design.n_trials * 1.0, guess)


def _at_mean(draws: Draws, built: Built, exposure: Exposure) -> Draws:
    """Take out of ``eta`` what is in it of the shift to the true contamination."""
    if draws.eta is None or draws.sigma_eps is None or draws.node is None:
        return draws
    design = built.design
    repeated = slice(design.n_single, None)
    part = in_trials(draws.sigma_eps + SMALLEST, rough_logits(design).se)
    shift = (slopes(draws, design) * exposure.shifts(draws.node))[:, repeated]
    return replace(draws, eta=draws.eta - (1 - part) * shift)
