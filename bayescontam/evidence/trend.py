"""Whether items with a larger number in a column have duplicates more or less often."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit

from bayescontam._random import stream
from bayescontam._types import FloatArray
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.prevalence import benchmarks_of, column_of, is_number, none_of
from bayescontam.inference.summary import LEVEL

PROPOSALS, TAKEN = 100, 20
"""Points at which the posterior of a line is evaluated for each draw, and those then drawn."""
_STEPS, _SMALL, _FREEDOM = 60, 1e-6, 4.0


def prevalence_trend(
    weighed: ItemContamination,
    items: pd.DataFrame,
    column: str,
    *,
    kinds: Sequence[str] = (),
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how the log-odds that an item has a duplicate change with a numeric column.

    Parameters
    ----------
    weighed : ItemContamination
    items : pandas.DataFrame
        ``benchmark, item`` and `column`, such as a difficulty or an Elo rating.
    column : str
        A column of numbers.
    kinds : sequence of str, default ()
        Kinds of duplicates that have a row of their own, beside that of any kind.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, default 0

    Returns
    -------
    pandas.DataFrame
        One row for each benchmark and kind: ``benchmark, by`` (the column), ``kind`` ("" for
        any), ``items``, ``sd`` (of the column), ``median, ci_low, ci_high`` (change of the
        log-odds for one standard deviation of the column), ``per_unit, per_unit_low,
        per_unit_high`` (for one unit of it), ``p_rises`` (probability that they rise with it).
        NaN where all items of a benchmark have the same value.

    Raises
    ------
    UsageError
        If the table has no such column, it holds no numbers, judges gave no such kind, or
        `level` is none that an interval can have.
    DataError
        If the table lacks items of the scan.

    Notes
    -----
    A logistic regression of the whole corpus's duplicates on the column. It is unknown which
    items have one: for each draw of the curve the probabilities of the items enter as evidence
    (their odds over those of the benchmark), and are summed over. If they were drawn and
    regressed as if they were known, a slope would shrink towards zero, the more the less is
    known of the items. The interval is that of a population of items of which those of the
    benchmark are a sample: it answers whether *such* problems have duplicates more often, and
    holds the sampling error of the items beside the uncertainty of the curve. It assumes that
    the column matters for an item's matches only through whether it has a duplicate.

    Intercept and slope have log-F(1, 1) priors, on the scale of one standard deviation: 95 %
    of odds ratios between 1/648 and 648. They give an interval also where the column separates
    the items perfectly.

    References
    ----------
    Greenland & Mansournia (2015), doi:10.1002/sim.6537, on log-F priors. Magder & Hughes
    (1997), doi:10.1093/oxfordjournals.aje.a009251, on logistic regression of an uncertain
    outcome.

    Examples
    --------
    >>> import bayescontam
    >>> items = bayescontam.item_contamination("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    check_level(level)
    values = column_of(weighed, items, column)
    if not is_number(values):
        raise UsageError(f"by: column '{column}' holds words; a trend needs numbers")
    rows = []
    for benchmark, own in benchmarks_of(weighed):
        x = values[own].to_numpy(float)
        for kind in ("", *kinds):
            slope = _slopes(1 - none_of(weighed, kind)[:, own], x, seed)
            rows.append(
                {"benchmark": benchmark, "by": column, "kind": kind, "items": len(x),
                 "sd": float(x.std()), **_figures(slope, float(x.std()), level)}
            )  # fmt: skip
    return pd.DataFrame(rows)


def trend_lines(p: FloatArray, x: FloatArray, at: FloatArray, seed: int) -> FloatArray:
    """Return draws of the share of items with a duplicate at values of a column, (draw, at)."""
    z, middle, sd = _standard(x)
    line = draw_lines(p, z, stream(seed, "trend"))
    shares: FloatArray = expit(line[:, :1] + line[:, 1:] * (at - middle) / sd)
    return shares


def _standard(x: FloatArray) -> tuple[FloatArray, float, float]:
    middle, sd = float(x.mean()), float(x.std())
    return (x - middle) / sd, middle, sd


def _slopes(p: FloatArray, x: FloatArray, seed: int) -> FloatArray:
    """Return draws of the slope for one standard deviation of `x`; none if it has no spread."""
    if not x.std() > 0:
        return np.full(1, np.nan)
    return draw_lines(p, _standard(x)[0], stream(seed, "trend"))[:, 1]


def _figures(slope: FloatArray, sd: float, level: float) -> dict[str, float]:
    tails = [0.5, (1 - level) / 2, (1 + level) / 2]
    median, low, high = np.quantile(slope, tails)
    names = ("median", "ci_low", "ci_high"), ("per_unit", "per_unit_low", "per_unit_high")
    figures = dict(zip(names[0], (median, low, high), strict=True))
    scale = sd if sd > 0 else np.nan
    figures |= dict(zip(names[1], (median / scale, low / scale, high / scale), strict=True))
    rises = float((slope > 0).mean()) if np.isfinite(median) else np.nan
    return {name: float(value) for name, value in figures.items()} | {"p_rises": rises}


def draw_lines(p: FloatArray, z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw intercept and slope of a logistic regression of an outcome of known probabilities.

    `p` has dims (draw, item), `z` (item,) has mean 0 and sd 1; the result has dims
    (draw × `TAKEN`, 2). Each draw's posterior is sampled by importance from a Student t at its
    mode.
    """
    ratio = _ratios(p)
    mode, spread = _modes(ratio, z)
    rows = []
    for s in range(len(p)):
        noise = rng.standard_normal((PROPOSALS, 2))
        noise /= np.sqrt(rng.chisquare(_FREEDOM, (PROPOSALS, 1)) / _FREEDOM)
        points = mode[s] + noise @ spread[s].T
        log_t = -(_FREEDOM / 2 + 1) * np.log1p((noise**2).sum(axis=1) / _FREEDOM)
        log_weight = _log_posterior(points, ratio[:, s], z) - log_t
        weight = np.exp(log_weight - log_weight.max())
        # Systematic resampling: one random number, evenly spaced through the weights.
        even = (np.arange(TAKEN) + rng.random()) / TAKEN
        chosen = np.searchsorted(weight.cumsum() / weight.sum(), even)
        rows.append(points[np.minimum(chosen, PROPOSALS - 1)])
    return np.concatenate(rows)


def _ratios(p: FloatArray) -> FloatArray:
    """Return evidence of each item for and against a duplicate, dims (2, draw, item).

    The probability of an item is that of a random one, times evidence of its own.
    """
    p = p.clip(0.0, 1.0)  # of rounding
    base = p.mean(axis=1, keepdims=True)
    sides = [np.divide(a, b, out=np.zeros_like(p), where=b > 0)
             for a, b in ((p, base), (1 - p, 1 - base))]  # fmt: skip
    return np.stack(sides)


def _log_posterior(points: FloatArray, ratio: FloatArray, z: FloatArray) -> FloatArray:
    """Return the log posterior at points of intercept and slope, dims (point,)."""
    pi = expit(points[:, :1] + points[:, 1:] * z)
    # Off zero: far out a sure item may have no probability in floating point.
    items = np.log(np.maximum(pi * ratio[0] + (1 - pi) * ratio[1], 1e-300)).sum(axis=1)
    # log-F(1, 1): half an item on either side.
    prior = (log_expit(points) + log_expit(-points)).sum(axis=1) / 2
    result: FloatArray = items + prior
    return result


def _modes(ratio: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the modes (draw, 2) of intercept and slope, and roots of their covariances."""
    design = np.stack([np.ones_like(z), z], axis=1)
    both = design[:, :, None] * design[:, None, :]
    line, spread = np.zeros((ratio.shape[1], 2)), np.zeros(0)
    for _ in range(_STEPS):
        pi = expit(line @ design.T)
        true = pi * ratio[0] / np.maximum(pi * ratio[0] + (1 - pi) * ratio[1], 1e-300)
        prior = expit(line)
        gradient = (true - pi) @ design + 0.5 - prior
        prior = prior * (1 - prior)
        known = np.einsum("si,iab->sab", pi * (1 - pi) - true * (1 - true), both)
        values, axes = np.linalg.eigh(known + prior[:, :, None] * np.eye(2))
        # Where evidence is contradictory the posterior may curve up: then by half of the prior.
        values = np.maximum(values, prior.min(axis=1, keepdims=True) / 2)
        spread = axes / np.sqrt(values)[:, None, :]
        move = np.einsum("sab,scb,sc->sa", spread, spread, gradient)
        line = line + np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < _SMALL:
            break
    return line, spread
