"""Draws: posterior or prior draws as flat arrays, and what follows for each response."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayescontam._types import FloatArray
from bayescontam.inference.design import Design
from bayescontam.inference.guess import guess_priors
from bayescontam.inference.likelihood import accuracy
from bayescontam.inference.predictor import (
    Effects,
    contamination_shift,
    linear_predictor,
    response_slopes,
)
from bayescontam.specs.model import ModelSpec

CHUNK = 4_000_000
"""Numbers held at once while going through draws: 32 MB each array."""
CACHED = 250_000
"""The same where much is computed of them: 2 MB, which stay in a core's own cache."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of effects, one row for each draw."""

    theta: FloatArray  # dims (draw, model × unit)
    beta: FloatArray | None  # dims (draw, model × benchmark)
    # delta, alpha: dims (draw, item)
    delta: FloatArray | None
    # dims (draw, repeated): log-odds of responses with several trials, where they have an effect of
    # their own; at their mean contamination once `node` is there. Where these effects were
    # integrated out, `with_own_effects` draws them.
    eta: FloatArray | None
    sigma_eps: FloatArray | None  # dims (draw, repeated) or (draw, 1): spread of these effects
    alpha: FloatArray | None = None
    increments: FloatArray | None = None  # dims (draw, segment)
    # kappa, sigma_delta: dims (draw, benchmark)
    kappa: FloatArray | None = None
    # gamma, spillover: dims (draw, 1)
    gamma: FloatArray | None = None
    spillover: FloatArray | None = None
    # dims (draw, benchmark): accuracy of blind guessing, where it is estimated
    guess: FloatArray | None = None
    # dims (draw, benchmark), where the probabilities of latent events are unsure
    p_shift: FloatArray | None = None
    # dims (draw, group): which of its values each group's contamination has, where it is not known;
    # see `locate`
    node: NDArray[np.int8] | None = None
    sigma_delta: FloatArray | None = None
    # place, offset: where difficulties were integrated out: which node each item's difficulty lies
    # at, dims (draw, item), and by how many standard deviations the nodes of a draw are moved,
    # (draw, 1); see `bayescontam.inference.difficulties`
    place: NDArray[np.integer[Any]] | None = None
    offset: FloatArray | None = None
    # dims (draw, item): how many items of the table an item stands for, if not itself
    tally: FloatArray | None = None
    # dims (draw, model × benchmark); see `bayescontam.inference.effects.add_selection`
    psi: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, rows: slice | np.ndarray) -> "Draws":
        given = {name: values for name, values in vars(self).items() if values is not None}
        return replace(self, **{name: values[rows] for name, values in given.items()})

    @property
    def effects(self) -> Effects:
        """The effects that make up the log-odds, as the predictor takes them."""
        return vars(self)

    def spaced(self, most: int) -> np.ndarray:
        """Return the positions of at most `most` draws, evenly spaced."""
        return np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(np.int64))

    def thinned(self, most: int) -> "Draws":
        """Return at most `most` draws, evenly spaced."""
        return self[self.spaced(most)]

    def chunks(self, design: Design, most: int = CHUNK) -> Iterator["Draws"]:
        """Yield the draws in parts small enough to expand to all responses."""
        step = max(1, most // len(design))
        for start in range(0, len(self), step):
            yield self[slice(start, start + step)]


def take_draws(posterior: xr.Dataset, design: Design) -> Draws:
    """Return the draws of a posterior (or prior) group, chains joined."""

    def flat(name: str) -> FloatArray | None:
        if name not in posterior:
            return None
        values = posterior[name].to_numpy()
        return values.reshape(values.shape[0] * values.shape[1], -1)

    theta = flat("theta")
    assert theta is not None
    sigma_eps = flat("sigma_eps")
    if sigma_eps is not None and sigma_eps.shape[1] > 1:
        sigma_eps = sigma_eps[:, design.model_benchmark[design.n_single :]]
    known = ("theta", "sigma_eps", "node", "place", "offset", "tally")
    others: dict[str, Any] = {
        field.name: flat(field.name) for field in fields(Draws) if field.name not in known
    }
    return Draws(theta=theta, sigma_eps=sigma_eps, **others)


def predictor(draws: Draws, design: Design) -> FloatArray:
    """Return the log-odds without model-by-item effects, dims (draw, response)."""
    eta: FloatArray = linear_predictor(draws.effects, design)
    return eta


def log_odds(draws: Draws, design: Design) -> FloatArray:
    """Return the log-odds of each response at `Design.contamination`, (draw, response)."""
    eta = predictor(draws, design)
    if draws.eta is not None:
        eta[:, design.n_single :] = draws.eta
    return eta


def slopes(draws: Draws, design: Design) -> FloatArray:
    """Return the slope that holds for each response, dims (draw, response)."""
    slope: FloatArray = response_slopes(draws.effects, design)
    return slope


def exposed(draws: Draws, design: Design, eta: FloatArray) -> FloatArray:
    """Return log-odds at the true contamination, from those at `Design.contamination`."""
    if draws.node is None or design.exposure is None:
        return eta
    return eta + slopes(draws, design) * design.exposure.shifts(draws.node)


def accuracy_at(
    draws: Draws,
    design: Design,
    eta: FloatArray,
    contamination: FloatArray,
    guess: FloatArray,
    spilled: bool = True,
) -> FloatArray:
    """Return each response's accuracy if contamination were changed, (draw, response)."""
    shift = contamination_shift(draws.effects, design, contamination, spilled)
    return accuracy(eta + shift, guess)


def response_guess(draws: Draws, spec: ModelSpec, design: Design) -> FloatArray:
    """Return the accuracy of blind guessing for each response.

    Dims (response,).
    """
    if draws.guess is not None:
        return draws.guess[:, design.benchmark]
    if design.item_guess is not None:
        return design.item_guess[design.item]
    values: Any = guess_priors(spec, design)
    return np.array(values, dtype=float)[design.benchmark]
