"""Completion: difficulties and responses' own effects, drawn given the newcomer's responses."""

from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.inference.density import Rows
from bayescontam.inference.draws import Draws, predictor
from bayescontam.inference.exposure import draw_nodes
from bayescontam.inference.joining.difficulties import Difficulties
from bayescontam.inference.joining.newcomer import Newcomer
from bayescontam.inference.own_effects import draw_effects


@dataclass(frozen=True, eq=False)
class Completion:
    """What turns draws of a fit into draws of the joint model."""

    newcomer: Newcomer
    rows: Rows  # all responses of the joint design
    rng: np.random.Generator

    def whole(self, draws: Draws, theta: FloatArray, beta: FloatArray | None) -> Draws:
        """Return draws of the joint design with the newcomer's values put last."""
        host, design = self.newcomer.host, self.newcomer.design
        old = draws.theta.reshape(len(draws), len(host.models), -1)
        moved = np.empty_like(old)
        moved[:, :, self.newcomer.unit_of_host] = old
        wide = np.concatenate([moved.reshape(len(draws), -1), theta], axis=1)
        slopes = None
        if draws.beta is not None and beta is not None:
            slopes = np.concatenate([draws.beta, beta], axis=1)
        delta = None
        if draws.delta is not None:
            delta = np.zeros((len(draws), len(design.items)))
            delta[:, self.newcomer.item_of_host] = draws.delta
        return Draws(wide, slopes, delta, None, None)

    def drawn(
        self,
        joint: Draws,
        draws: Draws,
        difficulties: Difficulties | None,
        eta: FloatArray,
    ) -> Draws:
        """Draw difficulties of the items that the newcomer met, and effects of responses."""
        delta = joint.delta
        if difficulties is not None and delta is not None:
            delta = delta.copy()
            items, nodes = difficulties.items, difficulties.nodes
            log_weight = nodes.log_weight.copy()
            gained = difficulties.log_weights(eta) - nodes.log_weight[:, items.of_own]
            log_weight[:, items.of_own] += gained  # one response to an item, so none is lost
            chosen = draw_nodes(log_weight, self.rng).astype(np.int64)[..., None]
            delta[:, items.label] = np.take_along_axis(nodes.position, chosen, -1)[..., 0]
        joint = Draws(joint.theta, joint.beta, delta, None, None)
        return joint if draws.sigma_eps is None else self._with_effects(joint, draws.sigma_eps)

    def _with_effects(self, joint: Draws, scale: FloatArray) -> Draws:
        """Draw the effects of all responses of several trials, old and new."""
        design = self.newcomer.design
        repeated = np.arange(design.n_single, len(design))
        center = predictor(joint, design.part(repeated))
        eta = draw_effects(self.rows[repeated], center, scale, self.rng)
        return Draws(joint.theta, joint.beta, joint.delta, eta, scale)
