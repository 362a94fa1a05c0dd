"""Verdicts on slopes and effects, filled into the table of a fit's estimands."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.design_checks import SPILLOVER
from bayescontam.inference.identification import (
    Identification,
    Overfitting,
    identify_spillover,
    overfitting_verdicts,
)
from bayescontam.inference.total_effects import total_verdicts
from bayescontam.model.effect_names import DIRECT, EFFECTS, EffectNames

_ZERO = (*EFFECTS, "novelty_gap")
"""Estimands that are zero by definition where contamination is what the reference is."""
_PAIR = ["model", "benchmark"]


def judged(
    table: pd.DataFrame,
    data: xr.DataTree,
    record: Mapping[str, Any],
    checks: Sequence[Check],
    smallest: float,
) -> pd.DataFrame:
    """Fill in verdicts, and take intervals from effects that are zero by definition."""
    whole = table["concept"] == "" if "concept" in table else True
    slopes = (table["quantity"] == "slope") & whole
    keys = pd.MultiIndex.from_frame(table.loc[slopes, _PAIR])
    verdicts = data["identification"]["verdict"].to_series()
    table.loc[slopes, "verdict"] = verdicts.reindex(keys).to_numpy()
    names = EffectNames.among(data["estimands"])
    assert names is not None
    rows = (table["quantity"] == names.overfitting) & whole
    own, level = table[rows].set_index(_PAIR), float(record["level"])
    if "total_effects" in data:
        known = data["total_effects"].to_dataset()
        found = total_verdicts(known, record["clean"], own, level, smallest)
    else:
        spilled = _spilled(data, record, checks, level)
        found = overfitting_verdicts(data, spilled, own, smallest)
    table.loc[rows, "verdict"] = found.to_numpy()
    if names.total:
        parts = (table["quantity"] == DIRECT.overfitting) & whole
        direct = overfitting_verdicts(data, None, table[parts].set_index(_PAIR), smallest)
        table.loc[parts, "verdict"] = direct.to_numpy()
    fixed = table["quantity"].isin(_ZERO) & (table["sd"] == 0)
    table.loc[fixed, ["ci_low", "ci_high", "p_positive"]] = np.nan
    pairs = pd.MultiIndex.from_frame(table[_PAIR])
    unknown = (found.reindex(pairs) == Overfitting.NO_VARIATION).to_numpy()
    table.loc[fixed & unknown, "mean"] = np.nan
    return table


def _spilled(
    data: xr.DataTree, record: Mapping[str, Any], checks: Sequence[Check], level: float
) -> Identification | None:
    """Return the verdict on spillover; None where the fit has none."""
    if "spillover" not in record["entered"]:
        return None
    distinguished = all(
        check.outcome is Outcome.PASSED for check in checks if check.name == SPILLOVER
    )
    spillover = data["posterior"]["spillover"].to_numpy()
    return identify_spillover(spillover, distinguished, level)
