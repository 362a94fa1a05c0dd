"""Simulated responses with known truth, made without the package's own code."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import bayescontam

QUANTITIES = (
    "accuracy", "genuine_ability_direct", "overfitting_direct", "overfitting_fraction_direct",
    "novelty_gap", "slope",
)  # fmt: skip


def logistic(x: np.ndarray) -> np.ndarray:
    """Return the logistic function, the short way."""
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class Simulated:
    """A table of responses with the true accuracy of each row at three contaminations."""

    table: pd.DataFrame

    def truth(self, quantity: str) -> pd.Series:
        """Return the true estimand of each (model, benchmark)."""
        means = self.table.groupby(["model", "benchmark"])[["p", "p_low", "p_high"]].mean()
        gap = means["p"] - means["p_low"]
        return {
            "accuracy": means["p"],
            "genuine_ability_direct": means["p_low"],
            "overfitting_direct": gap,
            "overfitting_fraction_direct": gap / means["p"],
            "novelty_gap": means["p_high"] - means["p_low"],
            "slope": self.table.groupby(["model", "benchmark"])["beta"].first(),
        }[quantity]

    @property
    def responses(self) -> pd.DataFrame:
        """The columns that a user would have."""
        columns = ["model", "benchmark", "item", "n_correct", "n_trials", "contamination"]
        return self.table[columns]


def simulate(
    seed: int,
    models: int = 8,
    benchmarks: int = 2,
    items: int = 400,
    trials: int = 1,
    slope: float = 1.0,
    sigma_eps: float = 0.0,
) -> Simulated:
    """Draw responses from the default model with fixed spreads."""
    rng = np.random.default_rng(seed)
    mu, a = rng.normal(0, 0.7, benchmarks), rng.normal(0, 0.6, models)
    theta = mu + a[:, None] + rng.normal(0, 0.3, (models, benchmarks))
    beta = slope + rng.normal(0, 0.3, (models, 1)) + rng.normal(0, 0.2, (models, benchmarks))
    d = rng.beta(1, 2, (benchmarks, items)).round(6)
    delta = rng.normal(0, 1, (benchmarks, items))
    eps = rng.normal(0, 1, (models, benchmarks, items)) * sigma_eps
    slope_of, level = beta[..., None], theta[..., None] - delta + eps
    center = d.mean(axis=1, keepdims=True)

    def p(dose: np.ndarray) -> np.ndarray:
        return logistic(level + slope_of * (dose - center))

    observed = np.broadcast_to(p(d), (models, benchmarks, items))
    n_correct = rng.binomial(trials, observed)
    m, b, i = np.indices(observed.shape)
    table = pd.DataFrame(
        {
            "model": [f"model-{k}" for k in m.ravel()],
            "benchmark": [f"bench-{k}" for k in b.ravel()],
            "item": [f"item-{j}-{k}" for j, k in zip(b.ravel(), i.ravel(), strict=True)],
            "n_correct": n_correct.ravel(),
            "n_trials": trials,
            "contamination": np.broadcast_to(d, observed.shape).ravel(),
            "p": observed.ravel(),
            "p_low": p(d.min(axis=1, keepdims=True)).ravel(),
            "p_high": p(d.max(axis=1, keepdims=True)).ravel(),
            "beta": np.broadcast_to(slope_of, observed.shape).ravel(),
        }
    )
    return Simulated(table)


def coverage(fit: bayescontam.Fit, simulated: Simulated) -> pd.Series:
    """Return whether each interval holds the truth."""
    table = fit.estimands().set_index(["model", "benchmark"])
    held = {}
    for quantity in QUANTITIES:
        rows = table[table["quantity"] == quantity]
        truth = simulated.truth(quantity).reindex(rows.index)
        held[quantity] = (rows["ci_low"] <= truth) & (truth <= rows["ci_high"])
    return pd.DataFrame(held).stack()


def concept_exposure(seed: int, items: int = 400) -> pd.DataFrame:
    """Draw one model's responses from the published concept-exposure generator.

    50 concepts, exposures 0.2 + 0.7 Beta(3, 2), 3 to 8 concepts an item, contamination =
    logistic(logit 0.3 + 5 (mean exposure - 0.5)), accuracy = 0.35 + 0.30 contamination.
    """
    rng = np.random.default_rng(seed)
    exposure = 0.2 + 0.7 * rng.beta(3, 2, 50)
    means = [
        exposure[rng.choice(50, rng.integers(3, 9), replace=False)].mean() for _ in range(items)
    ]
    contamination = logistic(np.log(0.3 / 0.7) + 5 * (np.array(means) - 0.5))
    correct = rng.random(items) < 0.35 + 0.30 * contamination
    return pd.DataFrame(
        {
            "model": "model",
            "benchmark": "tasks",
            "item": [f"task-{i}" for i in range(items)],
            "correct": correct.astype(int),
            "contamination": contamination,
        }
    )
