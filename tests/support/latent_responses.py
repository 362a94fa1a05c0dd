"""Responses whose contamination is hidden, simulated without the package's own code."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import bayescontam


@dataclass(frozen=True)
class World:
    """Responses with the truth behind them."""

    table: pd.DataFrame
    truth: pd.DataFrame


def simulated(seed: int, kind: str, trials: int = 1, items: int = 150) -> World:
    """Six models, or with repeated trials three, on two benchmarks."""
    rng = np.random.default_rng(seed)
    size = models, _, _ = (6 if trials == 1 else 3, 2, items)
    theta = rng.normal(0, 0.6, (models, 1)) + rng.normal(0, 0.6, 2)
    theta = theta + rng.normal(0, 0.3, (models, 2))
    slope = 2.0 + rng.normal(0, 0.3, (models, 1)) + rng.normal(0, 0.2, (models, 2))
    mean = rng.beta(0.5, 0.5, size[1:]).clip(0.001, 0.999)
    if kind == "latent_duplicate":
        sd, true, lowest = 0.0, (rng.random(mean.shape) < mean) * 1.0, np.zeros((2, 1))
    else:
        sd = 0.6 * np.sqrt(mean * (1 - mean))
        a_and_b = 1 / 0.6**2 - 1
        true = rng.beta(a_and_b * mean, a_and_b * (1 - mean))
        lowest = mean.min(axis=1, keepdims=True)
    level = theta[..., None] - rng.normal(0, 1, size[1:])
    level = level + (rng.normal(0, 1.0, size) if trials > 1 else 0.0)
    center = mean.mean(axis=1, keepdims=True)
    p = expit(level + slope[..., None] * (true - center))
    clean = expit(level + slope[..., None] * (lowest - center))
    m, b, i = (x.ravel() for x in np.indices(size))
    table = pd.DataFrame(
        {
            "model": [f"m{x}" for x in m], "benchmark": [f"b{x}" for x in b],
            "item": [f"i{x}" for x in i], "n_trials": trials,
            "n_correct": rng.binomial(trials, p).ravel(), "contamination": mean[b, i],
            "p_duplicate": mean[b, i],
            "contamination_sd": np.broadcast_to(sd, mean.shape)[b, i],
        }
    )  # fmt: skip
    known = {"accuracy": p.ravel(), "genuine_ability_direct": clean.ravel()}
    truth = table[["model", "benchmark"]].assign(**known)
    truth = truth.groupby(["model", "benchmark"]).mean()
    truth["overfitting_direct"] = truth["accuracy"] - truth["genuine_ability_direct"]
    truth["slope"] = slope.ravel()
    return World(table, truth)


def assert_recovered(world: World, spec: str, **options: Any) -> None:
    """Check that a fit, by default of default settings, is sound and holds most of the truth."""
    held = []
    fit = bayescontam.fit(world.table, spec, seed=0, **options)
    assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []
    rows = fit.estimands().set_index(["quantity", "model", "benchmark"])
    for quantity, truth in world.truth.items():
        reported = rows.loc[quantity].reindex(truth.index)
        held.append((reported["ci_low"] <= truth) & (truth <= reported["ci_high"]))
    shares = np.array(held).mean(axis=1)
    # Pairs of one data set share abilities and slopes: it shows no more than that.
    assert shares.min() >= 0.8
    assert shares.mean() >= 0.88
