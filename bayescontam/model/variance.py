"""Spreads of effects, and what abilities and slopes are the sums of."""

from collections.abc import Iterator
from dataclasses import dataclass

from bayescontam.model.terms import Terms
from bayescontam.specs.model import ModelSpec

SPREADS = {
    "a": "sigma_a",
    "sigma_theta": "sigma_theta",
    "u": "sigma_bm",
    "v": "sigma_bb",
    "w": "sigma_bmb",
    "delta": "sigma_delta",
    "eps": "sigma_eps",
    "t": "sigma_t",
    "twin": "sigma_twin",
    "walk": "sigma_step",
    "lb": "sigma_lb",
    "lk": "sigma_lk",
    "lambda": "sigma_lambda",
}
"""Spread of each term, as priors name it."""


@dataclass(frozen=True)
class VarianceComponent:
    """Independent effects that abilities, slopes or their confounding are sums of."""

    of: str  # what they add to: `theta`, `beta` or `kappa`
    dims: tuple[str, ...]  # what they differ by; all else shares them
    # name of the prior of their spread around zero; None where `prior` is their own
    scale: str | None = None
    prior: str | None = None
    zero_sum: bool = False  # whether they sum to zero over models


def variance_components(spec: ModelSpec, terms: Terms) -> Iterator[VarianceComponent]:
    """Yield the effects that a model spec adds up, the level of each sum first."""
    pairs = ("model", "unit")
    if spec.ability.pooling == "none":
        yield VarianceComponent("theta", pairs, prior="theta")
    else:
        who = "model" if spec.ability.lineage == "none" else "base"
        yield VarianceComponent("theta", ("unit",), prior="mu")
        if "a" in terms:
            yield VarianceComponent("theta", (who,), SPREADS["a"], zero_sum=True)
        if "sigma_theta" in terms:
            yield VarianceComponent("theta", (who, "unit"), SPREADS["sigma_theta"])
        else:
            yield VarianceComponent("theta", (who, "unit"), prior="theta")
        if "t" in terms:
            yield VarianceComponent("theta", ("model",), SPREADS["t"])
        if "twin" in terms:
            yield VarianceComponent("theta", pairs, SPREADS["twin"])
    pairs = ("model", "benchmark")
    if spec.contamination.pooling == "none":
        yield VarianceComponent("beta", pairs, prior="beta_bar")
    else:
        yield VarianceComponent("beta", (), prior="beta_bar")
        for term, dims in (("u", ("model",)), ("v", ("benchmark",)), ("w", pairs)):
            if term in terms:
                yield VarianceComponent("beta", dims, SPREADS[term])
    if "kappa" in terms:
        yield VarianceComponent("kappa", ("benchmark",), prior="kappa")
