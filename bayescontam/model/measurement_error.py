"""Uncertain contamination, summed out of the likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescontam._types import FloatArray, IntArray
from bayescontam.model.design import Design
from bayescontam.model.exposure import Exposure
from bayescontam.model.likelihood import log_choose, log_kernel, log_sum
from bayescontam.model.priors import Tensor
from bayescontam.model.transforms import DataInformedTransform, rough_logits


@dataclass(frozen=True, eq=False)
class _MixtureRows:
    """Some responses, and which of them share an unsure contamination."""

    count: int  # how many responses
    rows: IntArray  # positions of those whose contamination is unsure
    group: IntArray  # their groups, counted over unsure groups
    offsets: FloatArray  # dims (unsure group, node): contamination less its mean

    @classmethod
    def of(cls, exposure: Exposure, part: slice) -> "_MixtureRows":
        """Return the responses of a slice."""
        group = exposure.group[part]
        rows = np.flatnonzero(exposure.unsure[group])
        number = np.cumsum(exposure.unsure) - 1
        return cls(len(group), rows, number[group[rows]], exposure.offsets[exposure.unsure])

    def sums(self, values: Tensor) -> Tensor:
        """Sum over the responses of each group, (rows, node) to (unsure group, node)."""
        return pt.zeros(self.offsets.shape)[self.group].inc(values)

    def chosen(self, node: Tensor) -> Tensor:
        """Return each response's offset at its group's node; 0 where it is known."""
        offset = pt.as_tensor(self.offsets)[pt.arange(len(self.offsets)), node]
        return pt.zeros(self.count)[self.rows].set(offset[self.group])

    def log_density(self, term: Any, log_weights: Tensor, *vectors: Any) -> Tensor:
        """Return the joint log density of all responses, their contamination summed out."""
        known = np.setdiff1d(np.arange(self.count), self.rows)
        total = term(0.0, *(vector[known] for vector in vectors)).sum()
        return total + log_sum(log_weights + self.by_node(term, *vectors)).sum()

    def by_node(self, term: Any, *vectors: Any) -> Tensor:
        """Return the log density of each unsure group at each node, (unsure group, node)."""
        columns = (vector[self.rows][:, None] for vector in vectors)
        return self.sums(term(self.offsets[self.group], *columns))


def add_mixture(
    design: Design,
    counts: Tensor,
    predictor: Tensor,
    slope: Tensor,
    guess: FloatArray | Tensor,
    spreads: tuple[Tensor, IntArray] | None,
) -> None:
    """Add ``n_correct``, dims (response,), observed, with unsure contaminations summed out."""
    # Where the probabilities of latent events are unsure it adds `p_shift` (benchmark) or (model,
    # benchmark), and where repeated trials have an effect of their own `eta` (repeated).
    assert design.exposure is not None
    log_weights = unsure_log_weights(design.exposure)
    if spreads is not None:
        single, repeated = slice(design.n_single), slice(design.n_single, None)
        eta, log_weights, part = _add_repeated(
            design, spreads, predictor[repeated], slope[repeated], log_weights
        )
        predictor = pt.concatenate([predictor[single], eta])
        slope = slope * pt.concatenate([np.ones(design.n_single), part])
    rows = _MixtureRows.of(design.exposure, slice(None))
    n, kernel = design.n_trials, log_kernel(design, guess)
    constant = log_choose(n, design.n_correct).sum()

    def term(offset: Any, value: Any, eta: Any, slope: Any, n: Any, guess: Any) -> Any:
        return kernel(value, eta + slope * offset, n, guess)

    def logp(value: Any, eta: Any, slope: Any, log_weights: Any, guess: Any) -> Any:
        return rows.log_density(term, log_weights, value, eta, slope, n, guess) + constant

    def draw(eta: Any, slope: Any, log_weights: Any, guess: Any, size: Any) -> Any:
        node = pm.Categorical.dist(logit_p=log_weights)
        p = guess + (1 - guess) * pt.sigmoid(eta + slope * rows.chosen(node))
        return pm.Binomial.dist(n=n, p=p)

    pm.CustomDist(
        "n_correct", predictor, slope, log_weights, pt.as_tensor(guess), logp=logp, dist=draw,
        signature="(r),(r),(g,k),(r)->(r)", observed=counts, dims="response",
    )  # fmt: skip


def unsure_log_weights(exposure: Exposure) -> Tensor:
    """Return log probabilities of nodes, dims (unsure group, node); maybe add ``p_shift``."""
    unsure, moves = exposure.unsure, exposure.moves
    known = exposure.log_weights[unsure]
    if moves is None:
        return pt.as_tensor(known)
    dims = ("model", "benchmark") if moves.by_model else ("benchmark",)
    shift = pm.Normal("p_shift", 0.0, 1.0, dims=dims).flatten()
    logit = known[:, 1] - known[:, 0] + shift[moves.cell[unsure]] * moves.scale[unsure]
    return pt.stack([-pt.softplus(logit), -pt.softplus(-logit)], axis=1)


class _InformedVector(DataInformedTransform):
    """`DataInformedTransform` for a vector that is one variable of inputs size, mu, sigma."""

    ndim_supp = 1

    def _moments(self, rv_inputs: tuple[Any, ...]) -> tuple[Any, Any]:
        return super()._moments(rv_inputs[1:3])

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        return super().log_jac_det(value, *rv_inputs).sum(axis=-1)


def in_trials(spread: Any, se: FloatArray) -> Any:
    """Return which part of a shift of contamination moves the trials, given ``eta``."""
    # A response's log-odds are predictor + model-by-item effect + shift. `eta` is the sum of the
    # first two and of the other part of the shift. The model is the same with any part; with this
    # one the conditional posterior of `eta` is about the same whatever the contamination, so that
    # it has one mode.
    return se**2 / (se**2 + spread**2)


def _add_repeated(
    design: Design,
    spreads: tuple[Tensor, IntArray],
    mean: Tensor,
    slope: Tensor,
    log_weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Add ``eta``; also return what it shows about the nodes, and its `in_trials`."""
    assert design.exposure is not None
    rows = _MixtureRows.of(design.exposure, slice(design.n_single, None))
    rough = rough_logits(design)
    scale = spreads[0][spreads[1]]
    part = in_trials(scale, rough.se)
    slope = slope * (1 - part)

    def logp(value: Any, mean: Any, scale: Any, slope: Any, log_weights: Any) -> Any:
        return rows.log_density(_normal, log_weights, value, mean, scale, slope)

    def draw(mean: Any, scale: Any, slope: Any, log_weights: Any, size: Any) -> Any:
        node = pm.Categorical.dist(logit_p=log_weights)
        return pm.Normal.dist(mean + slope * rows.chosen(node), scale)

    eta = pm.CustomDist(
        "eta", mean, scale, slope, log_weights,
        logp=logp, dist=draw, signature="(r),(r),(r),(g,k)->(r)", dims="repeated",
        support_point=lambda rv, size, mean, *others: mean,
        default_transform=_InformedVector(rough.estimate, rough.se),
    )  # fmt: skip
    log_joint = log_weights + rows.by_node(_normal, eta, mean, scale, slope)
    return eta, log_joint - log_sum(log_joint)[:, None], part


def _normal(offset: Any, value: Any, mean: Any, scale: Any, slope: Any) -> Any:
    z = (value - mean - slope * offset) / scale
    return -0.5 * z**2 - pt.log(scale) - 0.5 * np.log(2 * np.pi)
