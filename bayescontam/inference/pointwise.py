"""Pointwise: how well a fit predicts each response, or each item, that is left out."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.fitted import Fit

GOOD_K = 0.7
"""Pareto k up to which importance sampling can be trusted."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """How fits that were made again without some responses went."""

    # fits, failed: how many were made, and how many missed what the fit's checks require in R-hat
    # and divergences
    fits: int
    failed: int
    r_hat: float  # largest of any parameter of any of them
    divergences: int  # in all


@dataclass(frozen=True, eq=False)
class Pointwise:
    """Log predictive densities of what was left out, in the order of names."""

    elpd: FloatArray  # of each unit: a response, or all responses to an item
    group: IntArray  # what was left out together with it: itself, or the model
    parameters: float  # effective number of parameters; NaN where more than a response was left out
    bad: int  # units whose figure cannot be trusted
    sampled: Sampled | None = None  # none where nothing was fitted again

    @property
    def groups(self) -> int:
        """How many groups were left out."""
        return len(np.unique(self.group))

    def sum_se(self, values: FloatArray) -> float:
        """Return the standard error of a sum over units; those of a group depend on another."""
        sums = np.bincount(self.group, values)
        return float(np.sqrt(len(sums) * np.var(sums, ddof=1)))


def stored_loo(fit: Fit) -> xr.Dataset:
    """Return the pointwise PSIS-LOO of a fit in the order of (model, benchmark, item)."""
    data = fit.tree["constant_data"].to_dataset()
    names = (("model", "model"), ("benchmark", "benchmark"), ("item", "item"))
    keys = [data[dim].to_numpy()[data[f"{of}_of_response"].to_numpy()] for dim, of in names]
    order = pd.MultiIndex.from_arrays(keys).argsort()
    return fit.tree["loo"].to_dataset().isel(response=order)


def from_loo(loo: xr.Dataset) -> Pointwise:
    """Return the figures of PSIS-LOO, as `stored_loo` orders them."""
    elpd = loo["elpd"].to_numpy()
    parameters = float((loo["log_density"] - loo["elpd"]).sum())
    bad = int((~(loo["pareto_k"] <= GOOD_K)).sum())
    return Pointwise(elpd, np.arange(len(elpd)), parameters, bad)
