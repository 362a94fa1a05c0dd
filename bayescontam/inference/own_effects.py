"""Own effects: log-odds of responses with several trials, drawn given all else of a draw.

They are as many as responses, and a fit does not store them: given the other parameters each
depends on the counts of its response alone, so that it can be drawn again.
"""

from dataclasses import replace

import numpy as np

from bayescontam.inference.build import Built
from bayescontam.inference.density import Rows
from bayescontam.inference.design import Floats
from bayescontam.inference.draws import Draws, predictor, take_draws
from bayescontam.inference.exposure import draw_nodes
from bayescontam.inference.fitted import Fitted
from bayescontam.inference.joining.nodes import place_nodes
from bayescontam.inference.likelihood import log_likelihood
from bayescontam.seeds import stream

NODES = 9
"""Nodes from which the effect of a response is drawn."""


def joint_draws(fit: Fitted, built: Built) -> Draws:
    """Return the stored draws of a fit with all effects of items and responses.

    Parameters
    ----------
    fit : Fitted
        Of a model spec that takes contamination as known.
    built : Built
        Its model.

    Returns
    -------
    Draws
        The same at every call: effects that are drawn again follow from the fit's seed.
    """
    draws = take_draws(fit.joint_posterior(), built.design)
    return with_own_effects(draws, built, stream(fit.record["seed"], "own effects"))


def with_own_effects(draws: Draws, built: Built, rng: np.random.Generator) -> Draws:
    """Return draws with ``eta``, drawn where it is not there and belongs to the model.

    Parameters
    ----------
    draws : Draws
    built : Built
    rng : numpy.random.Generator
    """
    if draws.eta is not None or draws.sigma_eps is None:
        return draws
    design, parts = built.design, []
    for part in draws.chunks(design):
        rows = Rows.of(built, part)[slice(design.n_single, None)]
        center = predictor(part, design)[:, design.n_single :]
        assert part.sigma_eps is not None
        parts.append(draw_effects(rows, center, part.sigma_eps, rng))
    return replace(draws, eta=np.concatenate(parts))


def draw_effects(rows: Rows, center: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
    """Draw log-odds of responses given their linear predictor, dims (draw, response).

    They are drawn from nodes of quadrature, which have the moments of their density.

    Parameters
    ----------
    rows : Rows
        The responses.
    center : array
        Linear predictors, dims (draw, response).
    scale : array
        Spread around them, dims (draw, response) or (draw, 1).
    rng : numpy.random.Generator
    """
    wide = rows.by_node()
    width = np.broadcast_to(scale, center.shape)
    share = (rows.k + 0.5) / (rows.n + 1)
    known = rows.n * share * (1 - share)
    prior = 1 / width**2
    start = (np.log(share / (1 - share)) * known + center * prior) / (known + prior)

    def log_density(eta: Floats) -> Floats:
        z = (eta - center[..., None]) / width[..., None]
        result: Floats = log_likelihood(eta, wide.k, wide.n, wide.guess) - 0.5 * z**2
        return result

    nodes = place_nodes(log_density, start, 1 / np.sqrt(known + prior), width, NODES)
    chosen = draw_nodes(nodes.log_weight, rng).astype(np.int64)[..., None]
    drawn: Floats = np.take_along_axis(nodes.position, chosen, -1)[..., 0]
    return drawn
