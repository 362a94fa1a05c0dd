"""Model specs and tables to ask what priors imply, and how closely it must be estimated."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd

from bayescontam.inference.prior_predictive import Implied
from bayescontam.specs.model import ModelSpec

DRAWS = 2000


def spec_of(text: str) -> ModelSpec:
    return ModelSpec.parse(f'summary = "test"\n{text}', "test")


def row(found: Implied, quantity: str) -> dict[str, float]:
    table: Mapping = found.table().set_index("quantity").loc[quantity].to_dict()
    return dict(table)


def within(probability: float, wanted: float, independent: int) -> None:
    """Assert that a simulated probability is the wanted one, up to 4.5 standard errors."""
    error = np.sqrt(max(wanted * (1 - wanted), 1e-4) / independent)
    assert abs(probability - wanted) < 4.5 * error, (probability, wanted, error)


# The default model spec, against a simulation written out in NumPy


@cache
def table(models: int, benchmarks: int, items: int) -> pd.DataFrame:
    rng = np.random.default_rng(10)
    m, b, i = np.indices((models, benchmarks, items)).reshape(3, -1)
    d = rng.beta(0.6, 1.4, (benchmarks, items))
    names = {"model": m, "benchmark": b, "item": i}
    frame = pd.DataFrame({name: [f"{name}{k}" for k in code] for name, code in names.items()})
    frame["contamination"] = d[b, i]
    frame["contamination_sd"] = 0.6 * np.sqrt(d * (1 - d))[b, i]
    frame["p_duplicate"] = d[b, i]
    frame["correct"] = rng.integers(0, 2, len(frame))
    return frame
