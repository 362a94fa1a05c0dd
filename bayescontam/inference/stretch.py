"""Stretch: log-odds of single items under a model-by-item effect, in units of their average.

Averaging accuracies over an effect of spread sigma draws their log-odds towards zero, by a
factor of about sqrt(1 + 0.346 sigma²) (Zeger, Liang & Albert 1988, doi:10.2307/2531734).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.inference.design import Design
from bayescontam.specs.model import ModelSpec

LOG_ODDS = frozenset(
    {"mu", "mu_bar", "sigma_mu", "theta", "sigma_a", "sigma_theta", "beta_bar", "kappa",
     "spillover", "sigma_delta", "sigma_psi"}
)  # fmt: skip
"""Priors of log-odds of accuracies."""
_OF_SLOPES = frozenset({"sigma_bm", "sigma_bb", "sigma_bmb"})
"""Of differences of slopes: log-odds too, unless slopes are positive."""
RATE = 0.346


def stretch(spread: Any) -> Any:
    """Return the ratio of log-odds to log-odds of their mean accuracy.

    >>> round(float(stretch(4.7)), 2)
    2.94
    """
    return (1 + RATE * spread**2) ** 0.5


def is_stretched(name: str, spec: ModelSpec) -> bool:
    """Return whether a prior is one of log-odds of accuracies."""
    return name in LOG_ODDS or (name in _OF_SLOPES and spec.contamination.sign != "positive")


@dataclass(frozen=True, eq=False)
class Stretch:
    """By how much effects are larger than their priors imply for accuracies.

    Priors are about accuracies of items in repeated trials; effects are those of a model on
    one item. Without model-by-item effects the two are the same.
    """

    cells: Any = 1.0  # one number for all, or dims (…, model, benchmark)
    by_cell: bool = False

    @property
    def benchmarks(self) -> Any:
        """One number for all, or dims (…, benchmark)."""
        return self.cells.mean(axis=-2) if self.by_cell else self.cells

    @property
    def one(self) -> Any:
        """One number for all, dims (…)."""
        return self.benchmarks.mean(axis=-1) if self.by_cell else self.cells

    def units(self, design: Design) -> Any:
        """One number for all, or dims (…, model, unit)."""
        return self.cells[..., design.benchmark_of_unit] if self.by_cell else self.cells

    def of(self, name: str, spec: ModelSpec, design: Design) -> Any:
        """Return the factor of a prior of the model spec, as its variable has dims."""
        if not is_stretched(name, spec):
            return 1.0
        if name == "theta":
            return self.units(design)
        if name == "beta_bar" and spec.contamination.pooling == "none":
            return self.cells
        return self.benchmarks if name in ("sigma_delta", "kappa") else self.one


def stretch_of_draws(posterior: Mapping[Any, Any]) -> Stretch:
    """Return that of each draw of a posterior, the first axis; of chains joined."""
    if "sigma_eps" not in posterior:
        return Stretch()
    values = posterior["sigma_eps"].to_numpy()
    flat: FloatArray = values.reshape(-1, *values.shape[2:])
    if flat.ndim == 1:
        return Stretch(stretch(flat))
    return Stretch(np.asarray(stretch(flat)), by_cell=True)
