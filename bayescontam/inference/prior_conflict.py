"""Prior conflict: priors of a model spec that the data refute."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray
from bayescontam.inference.build import Built
from bayescontam.inference.checks import Check, Outcome, outcome
from bayescontam.inference.parameter_names import in_words
from bayescontam.inference.priors import LOCATED, distribution
from bayescontam.inference.sensitivity import variable_of
from bayescontam.inference.stretch import is_stretched, stretch_of_draws
from bayescontam.specs.priors import Dirichlet, Prior

NAME = "Priors against data"
IMPROBABLE = 0.01
"""Probability below which, after Bonferroni's correction, a prior is refuted."""
_MOST = 3


@dataclass(frozen=True)
class _Conflict:
    """A parameter that lies far out in its prior."""

    key: str
    words: str
    value: float
    tail: float
    prior: Prior
    stretched: bool


def conflict_check(posterior: xr.Dataset, built: Built) -> Check:
    """Check that no parameter lies where its prior says that it hardly can be.

    Box (1980), doi:10.2307/2982063, and Evans & Moshonov (2006), doi:10.1214/06-BA129, on
    checking a prior against data.
    """
    found = [*_conflicts(posterior, built)]
    least = min((each.tail * len(found) for each in found), default=1.0)
    refuted = sorted((c for c in found if c.tail * len(found) < IMPROBABLE), key=lambda c: c.tail)
    return Check(
        NAME,
        outcome(not refuted, Outcome.CAUTION),
        min(least, 1.0),
        f"p ≥ {IMPROBABLE:g}",
        _sentence(refuted) if refuted else "Every parameter lies where its prior allows it.",
    )


def _conflicts(posterior: xr.Dataset, built: Built) -> Any:
    stretched, priors = stretch_of_draws(posterior), built.spec.priors
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    for key in type(priors).model_fields:
        prior, name = getattr(priors, key), variable_of(key, built)
        if name is None or name not in posterior or isinstance(prior, Dirichlet):
            continue
        values = posterior[name]
        factor = np.asarray(stretched.of(key, built.spec, built.design))
        factor = factor.reshape(total, -1) if factor.ndim else factor
        cells: FloatArray = np.median(values.to_numpy().reshape(total, -1) / factor, axis=0)
        dims = [str(dim) for dim in values.dims[2:]]
        shape = tuple(values.sizes[dim] for dim in dims)
        for place, value in zip(np.ndindex(shape), cells, strict=True):
            labels = {d: values[d].to_numpy()[i] for d, i in zip(dims, place, strict=True)}
            tail = extremity(prior, float(value))
            scaled = is_stretched(key, built.spec) and "eps" in built.terms
            yield _Conflict(key, in_words(name, labels), float(value), tail, prior, scaled)


def extremity(prior: Prior, value: float) -> float:
    """Return the probability of values at least as far out: large ones of a positive prior."""
    known = distribution(prior)
    if not isinstance(prior, LOCATED):
        return float(known.sf(value))
    return float(2 * min(known.cdf(value), known.sf(value)))


def _sentence(refuted: list[_Conflict]) -> str:
    parts = []
    for each in refuted[:_MOST]:
        unit = ", in log-odds of mean accuracies" if each.stretched else ""
        parts.append(
            f"the {each.words} is {each.value:.2f}{unit}, of which {each.prior.text()} holds"
            f" values as extreme for {_probability(each.tail)} probable"
        )
    more = f" ({len(refuted) - _MOST} more)" if len(refuted) > _MOST else ""
    worst = refuted[0]
    return (
        f"The data refute a prior: {'; '.join(parts)}{more}. Estimates are drawn towards it."
        f" Widen it in a copy of the model spec, such as priors.{worst.key} ="
        f" {_wider(worst)}, and see whether conclusions stay."
    )


def _wider(conflict: _Conflict) -> str:
    """Return a prior of about the same kind that holds the value, as a spec writes it."""
    if isinstance(conflict.prior, LOCATED):
        away = abs(conflict.value - conflict.prior.mu)
        return (
            f'{{ family = "normal", mu = {conflict.prior.mu:g}, sigma = {_rounded(away / 1.5)} }}'
        )
    return f'{{ family = "exponential", scale = {_rounded(conflict.value / 1.5)} }}'


def _rounded(value: float) -> str:
    """Return a number rounded up to one significant digit, or two where that is a half."""
    power = 10 ** np.floor(np.log10(value))
    return f"{np.ceil(2 * value / power) / 2 * power:g}"


def _probability(tail: float) -> str:
    return "less than 1e-12" if tail < 1e-12 else f"{tail:.1g}"
