"""Tables with known truth for model specs that change one thing of the default."""

import numpy as np
import pandas as pd

import bayescontam
from bayescontam.specs.model import ModelSpec

MODELS, ITEMS = 6, 250


def responses(p: np.ndarray, d: np.ndarray, seed: int, **columns: object) -> pd.DataFrame:
    """Draw one answer for each accuracy, dims (model, item); `d` broadcasts to it."""
    rng = np.random.default_rng([seed, 1])
    m, i = np.indices(p.shape)
    table = pd.DataFrame(
        {
            "model": [f"m{k}" for k in m.ravel()],
            "benchmark": "b",
            "item": [f"i{k}" for k in i.ravel()],
            "correct": (rng.random(p.shape) < p).astype(int).ravel(),
            "contamination": np.broadcast_to(d, p.shape).ravel(),
        }
    )
    return table.assign(**columns)


def fitted(table: pd.DataFrame, model: str | ModelSpec) -> bayescontam.Fit:
    fit = bayescontam.fit(table, model, seed=1, draws=500, chains=2, reference="zero")
    assert int(fit.data["sample_stats"]["diverging"].sum()) == 0
    return fit


def quantity(fit: bayescontam.Fit, name: str) -> pd.DataFrame:
    table = fit.estimands()
    return table[table["quantity"] == name].set_index("model").loc[[f"m{k}" for k in range(MODELS)]]


def inside(rows: pd.DataFrame, truth: np.ndarray) -> int:
    # What is zero by definition has no interval: the number itself must be right.
    low, high = (rows[end].fillna(rows["mean"]) for end in ("ci_low", "ci_high"))
    return int(((low <= truth) & (truth <= high)).sum())
