"""Contamination of items whose uncertainty items share, as factors that move its log-odds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
from scipy.special import expit

from bayescontam._text import join_list
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.measures import shared_columns
from bayescontam.data.responses import Responses
from bayescontam.data.validation import read_numbers
from bayescontam.errors import DataError, Fault
from bayescontam.model.products import weighted_sums
from bayescontam.model.quadrature import logit_location
from bayescontam.specs.model import ModelSpec


@dataclass(frozen=True, eq=False)
class SharedDoses:
    """True contamination of items, logistic(location + loadings · factors)."""

    # Factors are independent standard Normal variables, which all items share. An item's expected
    # contamination, over the factors, is what the design has of it.
    items: IntArray  # positions of items whose contamination is unsure, dims (unsure,)
    count: int  # number of all items
    mean: FloatArray  # expected contamination, dims (unsure,)
    location: FloatArray  # log-odds where all factors are 0, dims (unsure,)
    loadings: FloatArray  # log-odds for one unit of a factor, dims (unsure, factor)

    def offsets(self, factors: Any) -> Any:
        """Return contamination less its mean, (…, factor) to (…, item), for PyMC or NumPy."""
        if isinstance(factors, np.ndarray):
            offsets = np.zeros((*factors.shape[:-1], self.count))
            offsets[..., self.items] = expit(self.location + factors @ self.loadings.T) - self.mean
            return offsets
        own = pt.sigmoid(self.location + weighted_sums(self.loadings, factors)) - self.mean
        return pt.zeros(self.count)[self.items].set(own)

    def moments(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of contamination over draws, dims (unsure,)."""
        drawn = expit(self.location + factors @ self.loadings.T)
        return drawn.mean(axis=0), drawn.std(axis=0)

    def taken(self, like: IntArray) -> "SharedDoses":
        """Return the same of items that are like these."""
        place = np.full(self.count, -1)
        place[self.items] = np.arange(len(self.items))
        at = place[like]
        items = np.flatnonzero(at >= 0)
        at = at[items]
        return SharedDoses(items, len(like), self.mean[at], self.location[at], self.loadings[at])


def make_shared(
    spec: ModelSpec, responses: Responses, frame: pd.DataFrame, item: IntArray
) -> SharedDoses | None:
    """Return what a table has of contaminations that items share; None where all is known."""
    if spec.contamination.exposure != "shared":
        return None
    source = responses.source
    names = shared_columns(frame.columns)
    if not names or "contamination" not in frame:
        absent = "contamination" if names else "shared_1"
        problem = f"the model spec '{spec.name}' needs a column '{absent}', which is not there"
        advice = (
            "Give imputations (--imputations, or covariates that read_imputations made), or choose"
            " a model spec that takes contamination as known, such as hierarchical."
        )
        raise DataError([Fault(source, problem)], advice)
    columns = [frame["contamination"].to_numpy(np.float64)]
    columns += [read_numbers(frame[name]) for name in names]
    values = np.stack(columns, axis=1)
    _, first, group = np.unique(item, return_index=True, return_inverse=True)
    _refuse(values, first[group], names, frame, source)
    mean, loadings = values[first, 0], values[first, 1:]
    spread = np.linalg.norm(loadings, axis=1)
    unsure = np.flatnonzero(spread > 0)
    if not len(unsure):
        return None
    location = logit_location(mean[unsure], spread[unsure])
    return SharedDoses(unsure, len(first), mean[unsure], location, loadings[unsure])


def _refuse(
    values: FloatArray, like: IntArray, names: list[str], frame: pd.DataFrame, source: str
) -> None:
    """Refuse factors that are no numbers, that differ between models, or move what is certain."""
    rows = frame[["benchmark", "item"]].to_numpy()
    finite = np.isfinite(values)
    moved = (values[:, 1:] != 0).any(axis=1) & ~((values[:, 0] > 0) & (values[:, 0] < 1))
    problems = {
        "every row needs a number, and these have none": ~finite[:, 1:].all(axis=1),
        "imputations are of items, and these differ between models": (
            finite.all(axis=1) & (values != values[like]).any(axis=1)
        ),
        "a contamination of 0 or 1 is certain, and cannot move; give 0 for these items": moved,
    }
    for problem, bad in problems.items():
        if bad.any():
            items = dict.fromkeys(f"{item} of {benchmark}" for benchmark, item in rows[bad])
            where = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
            raise DataError([Fault(source, f"{problem}: {join_list(items, 5)}", column=where)])
