"""Blind guessing: how often an answer is correct without any ability."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.errors import Fault, SpecError
from bayescontam.model.design import Design
from bayescontam.model.priors import Tensor
from bayescontam.model.products import taken
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta


def guess_priors(spec: ModelSpec, design: Design) -> list[float | Beta]:
    """Return what the spec states of each benchmark's guessing: a number, or a prior."""
    # Of a spec by which every item has its own, as the table says, zeros.
    guess = spec.likelihood.guess
    if guess == "column":
        return [0.0] * len(design.benchmarks)
    if not isinstance(guess, dict):
        return [guess] * len(design.benchmarks)
    unknown = [name for name in guess if name not in design.benchmarks]
    if unknown:
        known = join_list(design.benchmarks)
        problem = f"no such benchmark: {join_list(unknown)}; the responses have {known}"
        raise SpecError([Fault(f"model spec '{spec.name}'", problem, column="likelihood.guess")])
    return [guess.get(name, 0.0) for name in design.benchmarks]


def can_guess(spec: ModelSpec, design: Design) -> bool:
    """Return whether blind guessing succeeds on any item."""
    if design.item_guess is not None:
        return bool(design.item_guess.any())
    return any(guess != 0 for guess in guess_priors(spec, design))


def add_guess(spec: ModelSpec, design: Design) -> FloatArray | Tensor:
    """Return the accuracy of blind guessing for each response, dims (response,)."""
    # Where that of any benchmark has a prior, adds `guess`, dims (benchmark,), to the current PyMC
    # model.
    if design.item_guess is not None:
        return design.item_guess[design.item]
    values = guess_priors(spec, design)
    priors = {b: prior for b, prior in enumerate(values) if isinstance(prior, Beta)}
    if not priors:
        return np.array(values, dtype=float)[design.benchmark]
    alpha, beta = (np.array([getattr(p, k) for p in priors.values()]) for k in ("alpha", "beta"))
    if len(priors) == len(values):
        return taken(pm.Beta("guess", alpha, beta, dims="benchmark"), design.benchmark)
    free = pm.Beta("guess_free", alpha, beta, shape=len(priors))
    fixed = np.array([0.0 if isinstance(prior, Beta) else prior for prior in values])
    whole = pt.as_tensor(fixed)[np.array([*priors])].set(free)
    return taken(pm.Deterministic("guess", whole, dims="benchmark"), design.benchmark)
