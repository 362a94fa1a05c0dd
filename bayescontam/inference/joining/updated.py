"""Update: the posterior of a model that was not in a fit, by importance sampling."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam._types import FloatArray
from bayescontam.inference.estimands import Reference, estimands
from bayescontam.inference.fitted import Fit
from bayescontam.inference.joining.admission import admit
from bayescontam.inference.joining.newcomer import Newcomer
from bayescontam.inference.joining.weighted import Weights
from bayescontam.inference.population import Items

DRAWS = 1000
"""Draws that are completed and weighed, unless requested otherwise."""
FEWEST = 100
"""Equally weighted draws below which means and intervals are too rough."""


@dataclass(frozen=True, eq=False)
class Updated:
    """Draws of the joint posterior of a fit and a newcomer, with their weights."""

    newcomer: Newcomer
    # estimands of all models, as `estimands` returns them with one chain; the newcomer is the last
    # model
    groups: dict[str, xr.Dataset]
    weights: Weights  # pareto-smoothed
    # shape of the tail of the weights: how far they can be trusted. The larger of that of the draws
    # weighed, and of the predicted weights of all draws of the fit.
    pareto_k: float
    log_evidence: float  # log probability of the newcomer's responses given those of the fit

    @property
    def most_k(self) -> float:
        """Largest `pareto_k` that this number of draws can be trusted with."""
        return float(min(1 - 1 / np.log10(len(self.weights.share)), 0.7))

    @property
    def doubt(self) -> str | None:
        """Why the weights cannot be trusted; None where they can."""
        if not self.pareto_k <= self.most_k:
            return (
                "the new responses move the fit's parameters too far for its draws (Pareto k"
                f" {self.pareto_k:.2f}, at most {self.most_k:.2f})"
            )
        if self.weights.ess < FEWEST:
            worth = f"{self.weights.ess:.0f} after weighing, {FEWEST} are needed"
            return f"the fit's draws are worth {worth}"
        return None

    def p_better(self) -> pd.DataFrame:
        """Return how probably the newcomer is better than each model of the fit."""
        group = self.groups["estimands"].isel(chain=0)
        answered = group["accuracy"].notnull().all("draw").to_numpy()
        ranks = group["rank"].transpose("draw", "model", "benchmark").to_numpy()
        better = (ranks[:, -1:] < ranks) + (ranks[:, -1:] == ranks) / 2
        share = np.einsum("d,dmb->mb", self.weights.share, better)
        models, benchmarks = group["model"].to_numpy(), group["benchmark"].to_numpy()
        rows = [
            {"benchmark": benchmark, "other": model, "probability": float(share[m, b])}
            for b, benchmark in enumerate(benchmarks)
            for m, model in enumerate(models[:-1])
            if answered[m, b] and answered[-1, b]
        ]
        return pd.DataFrame(rows)


def update_draws(
    fit: Fit,
    newcomer: Newcomer,
    reference: Reference,
    rng: np.random.Generator,
    most: int = DRAWS,
    items: Items = "all",
    sampled: bool = False,
) -> Updated:
    """Take a newcomer into draws of a fit.

    Draws of the fit's parameters are weighed by the probability of the newcomer's responses
    given them. Difficulties and effects of single responses are summed out by quadrature,
    in the fit's responses too. The newcomer's abilities and slopes are proposed once for
    each draw, near their mode.

    Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling,
    Journal of Machine Learning Research 25(72), arXiv:1507.02646.
    """
    posterior = fit.joint_posterior()
    admitted = admit(posterior, newcomer, most, rng)
    log_share, pareto_k = _smoothed(admitted.log_ratio)
    pareto_k = max(pareto_k, _smoothed(admitted.forecast)[1])
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    count = len(admitted.log_ratio)
    return Updated(
        newcomer,
        estimands(admitted.draws, newcomer.built, (1, count), reference, items, rng, sampled),
        Weights(np.exp(log_share), admitted.origin, shape),
        pareto_k,
        float(logsumexp(admitted.log_ratio) - np.log(count)),
    )


def _smoothed(log_ratio: FloatArray) -> tuple[FloatArray, float]:
    """Return normalised log weights with a smoothed tail, and its shape.

    Equal weights have no tail. A shape that is not a number is one of no use.
    """
    if np.ptp(log_ratio) < 1e-9:
        return np.full(len(log_ratio), -np.log(len(log_ratio))), -np.inf
    log_weights, pareto_k = array_stats.psislw(-log_ratio, r_eff=1)
    shape = float(pareto_k) if np.isfinite(pareto_k) else np.inf
    return log_weights - logsumexp(log_weights), shape
