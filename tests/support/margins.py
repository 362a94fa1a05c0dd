"""How often statements against a margin are wrong, in simulated responses."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from bayescontam.inference.equivalence import MarginVerdict, margin_verdict, verdict_of

TRUTHS = (-2.0, -1.0, -0.5, 0.0, 1.0)
"""True changes, in margins."""


@dataclass(frozen=True)
class Design:
    """Two models with so many answers each, and what is stated of them."""

    items: int
    accuracy: float  # of the base
    margin: float
    two_sided: bool = False
    level: float = 0.95


def rates(
    design: Design,
    data_sets: int,
    seed: int,
    draws: int = 1000,
    truths: tuple[float, ...] = TRUTHS,
) -> pd.DataFrame:
    """Return ``truth`` (in margins) and the share of each verdict, by posteriors of counts."""
    rng = np.random.default_rng(seed)
    rows = []
    for truth in truths:
        change = _beta_changes(design, truth * design.margin, data_sets, draws, rng)
        found = [
            margin_verdict(own, design.margin, two_sided=design.two_sided, level=design.level)
            for own in change
        ]
        rows.append({"truth": truth} | {str(k): found.count(k) / data_sets for k in MarginVerdict})
    return pd.DataFrame(rows)


def wrong_on_average(design: Design, data_sets: int, seed: int, draws: int = 1000) -> float:
    """Return the share of wrong ones among statements, where truths are drawn from the prior."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, size=(2, data_sets))
    change = _posterior(p, design.items, draws, rng)
    wrong = stated = 0
    for own, true in zip(change, p[1] - p[0], strict=True):
        verdict = margin_verdict(own, design.margin, level=design.level)
        stated += verdict is not MarginVerdict.UNDECIDED
        wrong += verdict is MarginVerdict.NO_WORSE and true < -design.margin
        wrong += verdict is MarginVerdict.WORSE and true > -design.margin
    return wrong / stated


def _beta_changes(
    design: Design, change: float, data_sets: int, draws: int, rng: np.random.Generator
) -> np.ndarray:
    p = np.array([[design.accuracy], [design.accuracy + change]]).repeat(data_sets, axis=1)
    return _posterior(p, design.items, draws, rng)


def _posterior(p: np.ndarray, items: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws of the second accuracy minus the first, dims (data set, draw)."""
    k = rng.binomial(items, p)[..., None]
    base, other = rng.beta(k + 0.5, items - k + 0.5, size=(*p.shape, draws))
    return other - base


def pooled_rates(
    models: int, error: float, margin: float, data_sets: int, seed: int, draws: int = 500
) -> dict[str, float]:
    """Return how often the one model that is worse by the margin is called no worse.

    All others equal the base. ``pooled``: by a hierarchical posterior alone, whose changes are
    Normal with an unknown mean and spread; ``both``: by it and by the model's own responses.
    """
    rng = np.random.default_rng(seed)
    truth = np.zeros(models)
    truth[0] = -margin
    count = {"pooled": 0, "both": 0}
    for _ in range(data_sets):
        observed = rng.normal(truth, error)
        change = _pooled(observed, error, draws, rng)[:, 0]
        alone = (float(observed[0]), error)
        count["pooled"] += margin_verdict(change, margin) is MarginVerdict.NO_WORSE
        both, _ = verdict_of(change, margin, alone=lambda at, of=alone: float(norm.sf(at, *of)))
        count["both"] += both is MarginVerdict.NO_WORSE
    return {name: number / data_sets for name, number in count.items()}


def _pooled(observed: np.ndarray, error: float, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw changes given Normal observations, with a flat mean and a HalfNormal(error) spread."""
    spread = np.linspace(0.01, 4, 80) * error
    total = spread**2 + error**2
    n, scatter = len(observed), ((observed - observed.mean()) ** 2).sum()
    log_p = -(n - 1) / 2 * np.log(total) - scatter / (2 * total) - (spread / error) ** 2 / 2
    p = np.exp(log_p - log_p.max())
    tau = rng.choice(spread, size=draws, p=p / p.sum())[:, None]
    mean = rng.normal(observed.mean(), np.sqrt((tau**2 + error**2) / n))
    weight = tau**2 / (tau**2 + error**2)
    center = weight * observed + (1 - weight) * mean
    return rng.normal(center, np.sqrt(weight) * error)
