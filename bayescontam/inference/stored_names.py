"""Names of estimands in fits that earlier versions wrote."""

import json

import xarray as xr

from bayescontam.inference.estimands import QUANTITIES
from bayescontam.model.effect_names import DIRECT, SPILLOVER, TOTAL

OF_EFFECTS = (
    "estimands", "estimands_by_concept", "prior_estimands", "sensitivity", "confounding",
)  # fmt: skip
"""Groups whose variables are named by the effect of contamination that a fit estimates."""
_ENDS = ("", "_low", "_high", "_prior", "_likelihood")
"""Endings of their names."""


def renamed(tree: xr.DataTree) -> xr.DataTree:
    """Return a fit's tree whose estimands have the names of today."""
    # Earlier versions wrote the direct effect of a fit without spillover under the names of the
    # total one, and of a fit with spillover the total and one of its parts.
    record = json.loads(str(tree["record"]["json"].item()))
    spilled = "spillover" in record["entered"]
    groups = dict(tree.to_dict())
    for path in {f"/{name}" for name in OF_EFFECTS} & set(groups):
        groups[path] = _renamed(groups[path], spilled)
    return xr.DataTree.from_dict(groups)


def _renamed(dataset: xr.Dataset, spilled: bool) -> xr.Dataset:
    written = (TOTAL.ability, TOTAL.overfitting, TOTAL.fraction)
    known = {name: DIRECT.meant(name) for name in written}
    if spilled:
        known = {"spillover": SPILLOVER}
    ended = {f"{old}{end}": f"{new}{end}" for old, new in known.items() for end in _ENDS}
    result = dataset.rename({old: new for old, new in ended.items() if old in dataset.data_vars})
    if SPILLOVER not in result or DIRECT.overfitting in result:
        return result
    direct = result[TOTAL.overfitting] - result[SPILLOVER]
    ability = result["accuracy"] - direct
    result = result.assign({DIRECT.ability: ability, DIRECT.overfitting: direct})
    return result[[name for name in QUANTITIES if name in result]]
