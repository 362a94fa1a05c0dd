"""Own effects: log-odds of responses with several trials, drawn given all else of a draw.

They are integrated out of the likelihood while sampling. Given the other parameters each
depends on the counts of its response alone, so that it can be drawn afterwards.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.inference.build import Built
from bayescontam.inference.choosing import draw_log_odds
from bayescontam.inference.density import Rows
from bayescontam.inference.draws import Draws, predictor
from bayescontam.inference.priors import SMALLEST


def with_own_effects(
    draws: Draws, built: Built, rng: np.random.Generator, responses: bool = True, cores: int = 1
) -> Draws:
    """Return draws with ``eta``, drawn where it is not there and belongs to the model."""
    if draws.eta is not None or draws.sigma_eps is None:
        return draws
    design, parts = built.design, []
    for part in draws.chunks(design):
        center = predictor(part, design)[:, design.n_single :]
        assert part.sigma_eps is not None
        if responses:
            rows = Rows.of(built, part)[slice(design.n_single, None)]
            parts.append(draw_effects(rows, center, part.sigma_eps, rng, cores))
        else:
            parts.append(center + part.sigma_eps * rng.standard_normal(center.shape))
    return replace(draws, eta=np.concatenate(parts))


def draw_effects(
    rows: Rows, center: FloatArray, scale: FloatArray, rng: np.random.Generator, cores: int = 1
) -> FloatArray:
    """Draw log-odds of responses given their linear predictor, dims (draw, response)."""
    spread, guess = (np.broadcast_to(x, center.shape) for x in (scale + SMALLEST, rows.guess))
    result, streams = np.empty(center.shape), rng.spawn(len(center))

    def one(d: int) -> None:
        own, floor = np.ascontiguousarray(spread[d]), np.ascontiguousarray(guess[d])
        result[d] = draw_log_odds(streams[d], center[d], own, rows.k, rows.n, floor)

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(one, range(len(center))))
    return result
