"""Observed: the contamination of a table's items, to plan with."""

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.covariates import Covariates
from bayescontam.errors import DataError, Fault
from bayescontam.names import listed
from bayescontam.responses import Responses


def observed_contamination(table: Responses | Covariates) -> list[FloatArray]:
    """Return the contamination of the items of each benchmark of a table."""
    frame = table.frame
    if "contamination" not in frame:
        problem = "has no column 'contamination', which a plan needs"
        raise DataError([Fault(table.source, problem)], "Add it, or give --covariates.")
    if "model" in frame and isinstance(table, Covariates):
        frame = frame[frame["model"] == ""] if (frame["model"] == "").any() else frame
    grouped = frame.groupby(["benchmark", "item"], sort=False)["contamination"]
    _refuse_differing(grouped.nunique(), table.source)
    of_items = grouped.first()
    names = of_items.index.get_level_values("benchmark")
    return [of_items[names == name].to_numpy(np.float64) for name in names.unique()]


def _refuse_differing(distinct: "pd.Series[int]", source: str) -> None:
    mixed = distinct[distinct > 1]
    if len(mixed):
        problem = (
            f"items whose contamination differs between models:"
            f" {listed(item for _, item in mixed.index)}; a plan has one value for each item"
        )
        advice = "Give a table of one model, or a share (--contamination) instead."
        raise DataError([Fault(source, problem, column="contamination")], advice)
