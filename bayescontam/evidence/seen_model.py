"""Scores in levels, and the PyMC model of which items a model has seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from scipy.stats import norm, rankdata

from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.model_scores import ModelScores
from bayescontam.errors import DataError, Fault
from bayescontam.model.priors import Tensor

MOST_LEVELS = 24
"""Distinct shares of trials that are levels of their own; more are put in bins."""
FEWEST_CONTROLS = 20
"""Controls from which on those of a model show its clean scores."""
_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995)
"""Quantiles of the controls between bins: finer where seen items are."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Scores of models, counted by level, from the lowest."""

    models: tuple[str, ...]
    # value: dims (level,): the score of a level, in standard deviations of clean scores
    value: FloatArray
    # spacings: dims (model, level): spacings between ordered controls in each bin; None where
    # levels are shares of trials, which models have in common
    spacings: IntArray | None
    # controls, others: dims (model, level): numbers of items
    controls: IntArray
    others: IntArray
    # model, level: positions of each row of the table
    model: IntArray
    level: IntArray

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of the dims that the model uses."""
        return {"model": list(self.models), "level": np.arange(len(self.value))}


def are_shared(scores: ModelScores) -> bool:
    """Return whether the levels of scores are shares of trials, which models have in common."""
    return scores.counts and scores.frame["score"].nunique() <= MOST_LEVELS


def make_levels(scores: ModelScores, rng: np.random.Generator) -> Levels:
    """Return scores in levels; `rng` breaks ties between scores in bins."""
    frame = scores.frame
    if frame["score"].nunique() < 2:
        problem = "all scores are equal; they show nothing about what was seen"
        raise DataError([Fault(scores.source, problem)])
    codes, names = pd.factorize(frame["model"])
    model = codes.astype(np.int64)
    control: BoolArray = frame["control"].to_numpy()
    if are_shared(scores):
        found, level = np.unique(frame["score"].to_numpy(), return_inverse=True)
        value, spacings = _standardised(found, level[control]), None
    else:
        value, level, spacings = _bins(frame["score"].to_numpy(), model, control, rng)
    level = level.astype(np.int64)
    size = len(names), len(value)
    cell = model * size[1] + level
    controls, others = (
        np.bincount(cell[rows], minlength=size[0] * size[1]).reshape(size)
        for rows in (control, ~control)
    )
    return Levels(tuple(names), value, spacings, controls, others, model, level)


def _standardised(found: FloatArray, clean: IntArray) -> FloatArray:
    """Return the levels' scores in standard deviations of the controls from their mean."""
    known = found[clean]
    # Not by a deviation of 0: that of equal shares may be a rounding error.
    scale = known.std() if np.ptp(known) else found.std()
    value: FloatArray = (found - known.mean()) / scale
    return value


def _bins(
    score: FloatArray, model: IntArray, control: BoolArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return values of bins, each row's bin, and the spacings in them, (model, bin)."""
    fewest = int(np.bincount(model[control], minlength=model.max() + 1).min())
    edges = np.array([q for q in _EDGES if (1 - q) * (fewest + 1) >= 2])
    bins, spacings = np.zeros(len(score), dtype=np.int64), []
    for number in range(model.max() + 1):
        own = model == number
        # Ties are broken at random, so that the law of spacings holds for any clean scores.
        place = rankdata(score[own], method="dense") + rng.random(own.sum())
        clean = np.sort(place[control[own]])
        last = np.round(edges * (len(clean) + 1)).astype(np.int64)
        bins[own] = np.searchsorted(clean[last - 1], place)
        spacings.append(np.diff([0, *last, len(clean) + 1]))
    ends = np.array([0.0, *edges, 1.0])
    value: FloatArray = -np.diff(norm.pdf(norm.ppf(ends))) / np.diff(ends)
    return value, bins, np.array(spacings)


def build_seen(levels: Levels) -> pm.Model:
    """Build the PyMC model of scores in levels.

    A control of model m has level k with probability ``clean[m, k]``, another item with

        (1 - share[m]) * clean[m, k] + share[m] * seen[m, k]
        seen[m, k] ∝ clean[m, k] * exp(shift[m] * value[k]),    shift[m] > 0

    so that the likelihood ratio of seen to clean rises with the score. Nothing is assumed of
    the shape of clean scores: shares of trials have a free distribution each, partially pooled
    over models; of bins between ordered controls the content is Dirichlet distributed with the
    numbers of spacings, whatever the clean distribution (Wilks 1948,
    doi:10.1090/S0002-9904-1948-08936-4). The tilt is that of Anderson (1979),
    doi:10.1093/biomet/66.1.17, and Qin (1999), doi:10.1214/aos/1017938930: for a Normal it is
    a shift of the mean, for a binomial one of the log-odds.
    """
    several = len(levels.models) > 1
    with pm.Model(coords=levels.coords) as model:
        clean = _clean(levels, several)
        center = pm.Normal("share_bar", 0.0, 1.0 if several else 1.5)
        height = pm.HalfNormal("shift_bar", 2.0)
        if several:
            # Never near zero: that one model has seen a benchmark shows little of another, and
            # models whose scores show nothing must not take the share of those that do.
            apart = pm.LogNormal("sigma_share", np.log(1.5), 0.3)
            spread = apart * pm.Normal("share_offset", dims="model")
            more = pm.HalfNormal("sigma_shift", 0.5) * pm.Normal("shift_offset", dims="model")
        else:
            spread = more = pt.zeros(1)
        share = pm.Deterministic("share", pt.sigmoid(center + spread), dims="model")
        shift = pm.Deterministic("shift", height * pt.exp(more), dims="model")
        tilted = clean * pt.exp(shift[:, None] * (levels.value - levels.value.max()))
        seen = tilted / tilted.sum(axis=1, keepdims=True)
        pm.Deterministic("seen", seen, dims=("model", "level"))
        mixed = share[:, None] * seen
        either = (1 - share[:, None]) * clean + mixed
        pm.Deterministic("p_seen", mixed / either, dims=("model", "level"))
        # P(a seen item has a higher score than a clean one), a tie counts half.
        below = pt.cumsum(clean, axis=1) - clean / 2
        pm.Deterministic("separation", (seen * below).sum(axis=1), dims="model")
        counts = pm.Data("other_items", levels.others, dims=("model", "level"))
        pm.Multinomial(
            "others", levels.others.sum(axis=1), either, observed=counts, dims=("model", "level")
        )
    return model


def _clean(levels: Levels, several: bool) -> Tensor:
    """Add the distributions of clean scores, dims (model, level)."""
    dims = "model", "level"
    if levels.spacings is not None:
        return pm.Dirichlet("clean", levels.spacings.astype(float), dims=dims)
    logits = pm.ZeroSumNormal("level_logit", 3.0, dims="level")[None, :]
    if several:
        able = pm.HalfNormal("sigma_able", 0.5) * pm.ZeroSumNormal("able", dims="model")
        rest = pm.HalfNormal("sigma_level", 0.25) * pm.ZeroSumNormal(
            "level_offset", dims=dims, n_zerosum_axes=2
        )
        logits = logits + able[:, None] * levels.value + rest
    clean = pm.Deterministic("clean", pm.math.softmax(logits, axis=1), dims=dims)
    known = levels.controls.sum(axis=1) > 0
    counts = pm.Data("control_items", levels.controls[known])
    pm.Multinomial("controls", levels.controls[known].sum(axis=1), clean[known], observed=counts)
    return clean
