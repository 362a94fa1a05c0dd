"""The log-odds of a correct answer from effects and design, for PyMC and for NumPy alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy.special import expit

from bayescontam._types import FloatArray
from bayescontam.model.design import Design
from bayescontam.model.products import taken, weighted_sums

Effects = Mapping[str, Any]
"""Effects under their names, each (…, one position for each level); None where left out.

``theta`` (model × unit), ``beta``, ``psi`` and ``alpha_pair`` (model × benchmark), ``delta`` and
``alpha`` (item), ``kappa`` (benchmark), ``increments`` (segment), ``gamma`` (one), ``shared``
(factor), ``spillover`` (one, or model × benchmark), ``zeta`` (participant) and ``xi`` (pair of a
group of people and an item). Leading axes, such as draws, stay.
"""
Data = Mapping[str, Any]  # doses of a design, under their names, that are data of a PyMC model
NO_DATA: Data = {}


def linear_predictor(effects: Effects, design: Design, data: Data = NO_DATA) -> Any:
    """Return the log-odds of each response without its model-by-item effect."""
    eta = _without_slope(effects, design, data)
    if not _has(effects, "beta"):
        return eta
    slope, dose = response_slopes(effects, design), _dose(effects, design, data)
    if not design.additive:
        return eta + slope * (dose + _deviation(effects, design))
    reached = _rise(effects, design, dose_of(design, "contamination", data))
    return _between(eta + slope * (dose - reached), slope, reached)


def _deviation(effects: Effects, design: Design) -> Any:
    """Return by how much each response's contamination differs from what was expected of it."""
    if design.shared is None or not _has(effects, "shared"):
        return 0.0
    return taken(design.shared.offsets(effects["shared"]), design.item)


def dose_of(design: Design, name: str, data: Data) -> Any:
    """Return doses of a design, as data of the model where they vary."""
    return data[name] if name in data else getattr(design, name)


def _without_slope(effects: Effects, design: Design, data: Data = NO_DATA) -> Any:
    """Return the log-odds without the part that the slope has in them."""
    eta = taken(effects["theta"], design.model_unit)
    if _has(effects, "psi"):
        harder = weighted_sums(design.selection, taken(effects["psi"], design.partial))
        eta = eta - taken(harder, design.item)
    if _has(effects, "delta"):
        eta = eta - taken(effects["delta"], design.item)
    if _has(effects, "alpha"):
        eta = eta * taken(effects["alpha"], design.item)
    if _has(effects, "alpha_pair"):
        eta = eta * taken(effects["alpha_pair"], design.model_benchmark)
    if _has(effects, "kappa"):
        eta = eta - taken(effects["kappa"], design.benchmark) * dose_of(design, "item_dose", data)
    if _has(effects, "spillover"):
        eta = eta + _spillover(effects, design) * dose_of(design, "cell_dose", data)
    for name, level in (("zeta", design.participant), ("xi", design.pair)):
        if _has(effects, name) and level is not None:
            eta = eta + taken(_with_zero(effects[name]), level)
    return eta


def _with_zero(values: Any) -> Any:
    """Return effects with a last one that is zero, for responses that have none."""
    if isinstance(values, np.ndarray):
        return np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
    return pt.concatenate([values, np.zeros(1)])


def _spillover(effects: Effects, design: Design) -> Any:
    """Return the coefficient of spillover that holds for each response, or the one for all."""
    known = effects["spillover"]
    if design.lineage is None:
        return known
    return taken(known, design.model_benchmark)


def response_slopes(effects: Effects, design: Design) -> Any:
    """Return the slope that holds for each response, (…, response)."""
    # Log-odds from surely clean to surely contaminated; 0 of models known to be clean.
    slope = taken(effects["beta"], design.model_benchmark)
    if _has(effects, "gamma"):
        own = effects["gamma"] * taken(effects["delta"], design.item)
        slope = slope + (own * ~design.clean[design.model] if design.clean.any() else own)
    return slope


def contamination_shift(
    effects: Effects, design: Design, contamination: FloatArray, spilled: bool = True
) -> Any:
    """Return by how much the log-odds change if all items had another contamination."""
    assert design.contamination is not None
    aside: Any = 0.0
    if spilled and _has(effects, "spillover"):
        exposure = contamination * ~design.clean[design.model]
        aside = _spillover(effects, design) * (exposure - design.cell_contamination)
    slope = response_slopes(effects, design)
    reached, observed = (_rise(effects, design, d) for d in (contamination, design.contamination))
    if not design.additive:
        return slope * (reached - observed - _deviation(effects, design)) + aside
    clean = _without_slope(effects, design) + slope * (_dose(effects, design) - observed)
    return _between(clean + aside, slope, reached) - _between(clean, slope, observed)


def _between(clean: Any, slope: Any, reached: Any) -> Any:
    """Return the log-odds of an accuracy part of the way from clean to surely contaminated."""
    log, logistic = (np.log, expit) if isinstance(clean, np.ndarray) else (pt.log, pt.sigmoid)
    ends = (1 - reached, clean), (reached, clean + slope)
    right = sum(part * logistic(eta) for part, eta in ends)
    wrong = sum(part * logistic(-eta) for part, eta in ends)
    return log(right) - log(wrong)


def _has(effects: Effects, name: str) -> bool:
    return effects.get(name) is not None


def _dose(effects: Effects, design: Design, data: Data = NO_DATA) -> Any:
    """Return how far each response's contamination lies above its benchmark's mean."""
    if not _has(effects, "increments"):
        return dose_of(design, "dose", data)
    return weighted_sums(dose_of(design, "reach_dose", data), effects["increments"])


def _rise(effects: Effects, design: Design, contamination: FloatArray) -> Any:
    """Return the part of the slope that is reached at a contamination, 0 to 1."""
    if not _has(effects, "increments"):
        return contamination
    return weighted_sums(design.reach(contamination), effects["increments"])
