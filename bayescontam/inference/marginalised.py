"""Marginalised: responses whose item difficulties are integrated out, in PyMC."""

from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.design import Design
from bayescontam.inference.guess import can_guess
from bayescontam.inference.lattice import Lattice, item_levels, log_weights, make_lattice
from bayescontam.inference.likelihood import log_choose
from bayescontam.inference.predictor import Effects, linear_predictor
from bayescontam.inference.priors import Tensor, spread
from bayescontam.inference.terms import Terms, shared_benchmarks
from bayescontam.specs.model import ModelSpec

Difficulties = Literal["auto", "sampled", "marginalised"]
"""What is done about item difficulties while sampling."""
LARGE = 50_000
"""Responses from which ``"auto"`` integrates difficulties out."""


def why_sampled(spec: ModelSpec, design: Design, terms: Terms) -> str | None:
    """Say why item difficulties cannot be integrated out; None where they can."""
    reasons = {
        "the fit has no item difficulties": "delta" not in terms,
        "items differ in discrimination": "alpha" in terms,
        "repeated trials have an effect of their own": "eps" in terms,
        "contamination is not known exactly": design.exposure is not None,
        "contamination adds to accuracy, not to its log-odds": design.additive,
        "answers can be guessed": can_guess(spec, design),
        "rows count different items": spec.likelihood.trials == "items",
        "slopes depend on difficulty, and clean models have none": (
            "gamma" in terms and bool(design.clean.any())
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            return reason
    level = item_levels(design)
    if level is not None and np.isnan(level).any():
        return "an item's contamination differs between models"
    return None


def plan_lattice(
    spec: ModelSpec, design: Design, terms: Terms, difficulties: Difficulties
) -> Lattice | None:
    """Return what stands in for the items; None where their difficulties are sampled."""
    if difficulties == "sampled" or (difficulties == "auto" and len(design) < LARGE):
        return None
    reason = why_sampled(spec, design, terms)
    if reason is None:
        lattice = make_lattice(design)
        if difficulties == "marginalised" or 5 * len(lattice.design) <= len(design):
            return lattice
    elif difficulties == "marginalised":
        raise UsageError(
            f"difficulties: got 'marginalised', but {reason}; use 'sampled', or 'auto', which"
            " chooses what is possible"
        )
    return None


def add_marginalised(spec: ModelSpec, design: Design, effects: Effects, lattice: Lattice) -> None:
    """Add responses whose item difficulties are integrated out.

    Adds ``sigma_delta``, dims (benchmark,), and ``n_correct``, dims (response,), observed.
    """
    scale = spread("sigma_delta", spec.priors.sigma_delta, dims="benchmark")
    made = lattice.design
    scale = (scale * shared_benchmarks(design))[made.benchmark_of_item]
    level, step = at_levels(effects, lattice, pt.zeros, pt.ones)
    constant = log_choose(design.n_trials, design.n_correct).sum()

    def logp(value: Any, level: Any, step: Any) -> Any:
        return log_density(level, step, lattice, lattice.nodes) + constant

    def draw(level: Any, step: Any, size: Any) -> Any:
        own, weights = lattice.level, lattice.basis
        item = (weights[:, :, None] * level[own]).sum(axis=1)
        item = item + ((weights * step[own]).sum(axis=1) * pm.Normal.dist(shape=len(own)))[:, None]
        return pm.Binomial.dist(n=design.n_trials, logit_p=item[design.item, design.model])

    pm.CustomDist(
        "n_correct", level, step * scale, logp=logp, dist=draw,
        signature="(l,m),(l)->(r)", observed=design.n_correct, dims="response",
    )  # fmt: skip


def at_levels(effects: Effects, lattice: Lattice, zeros: Any, ones: Any) -> tuple[Any, Any]:
    """Return log-odds of an item of no difficulty, and what one unit of difficulty adds."""
    made = lattice.design
    count = len(made.items)
    easy = linear_predictor({**effects, "delta": zeros(count)}, made)
    hard = linear_predictor({**effects, "delta": ones(count)}, made)
    shape = *easy.shape[:-1], count, len(made.models)
    level = easy.reshape(shape)
    return level, (hard.reshape(shape) - level)[..., 0]


def log_density(level: Tensor, step: Tensor, lattice: Lattice, at: FloatArray) -> Tensor:
    """Return the log density of all responses, difficulties integrated out."""
    added = step[:, None] * at
    normaliser = (
        lattice.trials[:, :, None] * pt.softplus(level[:, :, None] + added[:, None, :])
    ).sum(axis=1)
    own, total, count = lattice.classes
    each = total[:, None] * added[own] - normaliser[own] + log_weights(at)
    top = disconnected_grad(each.max(axis=-1, keepdims=True))
    integrals = pt.log(pt.exp(each - top).sum(axis=-1)) + top[:, 0]
    return (lattice.correct * level).sum() + (count * integrals).sum()
