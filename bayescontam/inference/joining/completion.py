"""Completion: difficulties and responses' own effects, drawn given the newcomer's responses."""

from dataclasses import dataclass

import numpy as np

from bayescontam.inference.density import Rows
from bayescontam.inference.design import Floats, Integers
from bayescontam.inference.draws import Draws, predictor
from bayescontam.inference.exposure import draw_nodes
from bayescontam.inference.joining.difficulties import Difficulties
from bayescontam.inference.joining.newcomer import Newcomer
from bayescontam.inference.joining.nodes import place_nodes
from bayescontam.inference.likelihood import log_likelihood

NODES = 9
"""Nodes from which the effect of a response is drawn."""


@dataclass(frozen=True, eq=False)
class Completion:
    """What turns draws of a fit into draws of the joint model.

    Attributes
    ----------
    newcomer : Newcomer
    rows : Rows
        All responses of the joint design.
    rng : numpy.random.Generator
    """

    newcomer: Newcomer
    rows: Rows
    rng: np.random.Generator

    def whole(self, draws: Draws, theta: Floats, beta: Floats | None) -> Draws:
        """Return draws of the joint design with the newcomer's values put last.

        Parameters
        ----------
        draws : Draws
            Of the fit.
        theta, beta : array
            Dims (draw, unit) and (draw, benchmark), of the newcomer.
        """
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
        eta: Floats,
    ) -> Draws:
        """Draw difficulties of the items that the newcomer met, and effects of responses.

        Parameters
        ----------
        joint : Draws
            As `whole` returns them.
        draws : Draws
            Of the fit; items that the newcomer did not meet keep their values.
        difficulties : Difficulties or None
        eta : array
            Dims (draw, own): log-odds of the newcomer's responses on items of average difficulty.

        Returns
        -------
        Draws
            With ``delta`` and ``eta`` of the joint posterior. They are drawn from the nodes
            of quadrature, which have the moments of their density.
        """
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
        if draws.eta is None or draws.sigma_eps is None:
            return joint
        return self._with_effects(joint, draws)

    def _with_effects(self, joint: Draws, draws: Draws) -> Draws:
        design = self.newcomer.design
        assert draws.eta is not None
        assert draws.sigma_eps is not None
        eta = np.empty((len(draws), len(design) - design.n_single))
        repeated = np.arange(design.n_single, len(design))
        eta[:, design.model[repeated] < len(self.newcomer.host.models)] = draws.eta
        changed = np.union1d(self.newcomer.own, self.newcomer.met)
        rows = changed[changed >= design.n_single]
        if len(rows):
            center = predictor(joint, design.part(rows))
            eta[:, rows - design.n_single] = self._effects(rows, center, draws.sigma_eps)
        return Draws(joint.theta, joint.beta, joint.delta, eta, draws.sigma_eps)

    def _effects(self, rows: Integers, center: Floats, scale: Floats) -> Floats:
        """Draw log-odds of responses given their linear predictor, (draw, rows)."""
        part = self.rows[rows]
        wide = part.by_node()
        width = np.broadcast_to(scale, center.shape)
        share = (part.k + 0.5) / (part.n + 1)
        known = part.n * share * (1 - share)
        prior = 1 / width**2
        start = (np.log(share / (1 - share)) * known + center * prior) / (known + prior)

        def log_density(eta: Floats) -> Floats:
            z = (eta - center[..., None]) / width[..., None]
            result: Floats = log_likelihood(eta, wide.k, wide.n, wide.guess) - 0.5 * z**2
            return result

        nodes = place_nodes(log_density, start, 1 / np.sqrt(known + prior), width, NODES)
        chosen = draw_nodes(nodes.log_weight, self.rng).astype(np.int64)[..., None]
        drawn: Floats = np.take_along_axis(nodes.position, chosen, -1)[..., 0]
        return drawn
