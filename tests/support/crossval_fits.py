"""Fits for tests of cross-validation, made without sampling."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.data.responses import Responses
from bayescontam.inference.result import Fit
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.given_fits import changed, given_fit

KEYS = ["model", "benchmark", "item"]


def table(models: int = 3, items: int = 8, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    m, i = np.indices((models, items)).reshape(2, -1)
    return pd.DataFrame(
        {
            "model": [f"m{k}" for k in m],
            "benchmark": np.where(i < 5, "a", "b"),
            "item": [f"i{k}" for k in i],
            "n_correct": rng.integers(0, 2, m.size),
            "n_trials": 1,
        }
    )


def plain_spec() -> ModelSpec:
    """Return a spec of abilities alone, none of them pooled."""
    return changed(load_model("single"), contamination={"form": "none"})


def plain_fit(frame: pd.DataFrame, pareto_k: Any = 0.0, elpd: Any = -5.0) -> Fit:
    """Return a fit without draws of its own; its PSIS-LOO, by response, is made up."""
    shape = (1, frame["model"].nunique(), frame["benchmark"].nunique())
    fit = given_fit(plain_spec(), Responses.from_frame(frame), theta=np.zeros(shape))
    size = len(frame)
    figures = {
        "elpd": np.broadcast_to(elpd, size),
        "log_density": np.full(size, -4.0),
        "pareto_k": np.broadcast_to(pareto_k, size),
    }
    loo = {name: ("response", values) for name, values in figures.items()}
    fit.data["loo"] = xr.DataTree(xr.Dataset(loo, {"kept_draw": np.arange(4000)}))
    return fit
