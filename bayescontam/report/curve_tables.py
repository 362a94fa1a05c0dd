"""Tables of a curve: where it crosses one half, its parameters, and its judges."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from bayescontam._types import FloatArray
from bayescontam.evidence.curve_checks import marginal
from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.verdicts import first_runs, is_model
from bayescontam.judgements import PAIR

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve

_DRAWS = 1000
_GRID = np.linspace(0.0, 1.0, 201)
_MEANINGS = {
    "threshold": "cosine at which a match of an open item is a duplicate with probability 0.5",
    "steepness": "log-odds gained for each unit of cosine",
    "threshold_open": "cosine of the best match at which an item is open with probability 0.5",
    "steepness_open": "log-odds of being open gained for each unit of that cosine",
    "source_shift": "by how much the threshold lies higher in a source, in cosine",
    "sigma_item": "spread of items' effects, in log-odds",
    "share_further": "probability that a further chunk of a duplicate is one itself",
}
_JUDGE = ("sensitivity", "specificity")


def halves(curve: "Curve") -> pd.DataFrame:
    """Return at which cosine the best match of an item is a duplicate with probability 0.5."""
    draws, tails = curve.draws(_DRAWS), (1 - curve.level) / 2
    rows = []
    for number, name in enumerate(curve.benchmarks):
        # Infinite ends cannot be interpolated.
        low, median, high = np.quantile(
            half(draws, number), [tails, 0.5, 1 - tails], method="inverted_cdf"
        )
        rows.append({"benchmark": name, "median": median, "low": low, "high": high})
    return pd.DataFrame(rows)


def half(draws: CurveDraws, benchmark: int) -> FloatArray:
    """Return for each draw the cosine in [0, 1] at which the curve crosses 0.5, (draw,)."""
    p = marginal(draws, _GRID, benchmark)
    above = p >= 0.5
    after = above.argmax(axis=1)
    before, rows = np.maximum(after - 1, 0), np.arange(len(p))
    rise = np.where(after > 0, p[rows, after] - p[rows, before], 1.0)
    between = (0.5 - p[rows, before]) / rise
    crossing = _GRID[before] + between * (_GRID[1] - _GRID[0])
    crossing = np.where(after == 0, -np.inf, crossing)
    result: FloatArray = np.where(above.any(axis=1), crossing, np.inf)
    return result


def half_text(row: dict[Any, Any]) -> str:
    """Return a row of `halves` in words.

    >>> half_text({"median": 0.612, "low": 0.55, "high": float("inf")})
    '0.61 [0.55, none]'
    >>> half_text({"median": float("inf"), "low": 0.9, "high": float("inf")})
    'none in [0, 1]'
    """
    if not np.isfinite(row["median"]):
        return "none in [0, 1]"
    low, high = (f"{x:.2f}" if np.isfinite(x) else "none" for x in (row["low"], row["high"]))
    return f"{row['median']:.2f} [{low}, {high}]"


def parameters(curve: "Curve") -> list[dict[Any, Any]]:
    """Return the parameters of the curve with their convergence, judges' left out."""
    table = curve.summary()
    table = table[~table["quantity"].isin(_JUDGE)]
    return [
        {
            **row,
            "kind": "source" if row["quantity"] == "source_shift" else "benchmark",
            "meaning": _MEANINGS.get(str(row["quantity"]), ""),
        }
        for row in table.to_dict("records")
    ]


def judges(curve: "Curve") -> list[dict[str, Any]]:
    """Return what was learnt of each judge, with the prior beside."""
    learnt = {(row["quantity"], row["of"]): dict(row) for row in curve.summary().to_dict("records")}
    count = first_runs(curve.judged).groupby("judge").size()
    rows = []
    for name in curve.judges:
        kind = curve.spec.judges.models if is_model(name) else curve.spec.judges.people
        row: dict[str, Any] = {
            "judge": name,
            "kind": "language model" if is_model(name) else "person",
            "pairs": int(count.get(name, 0)),
        }
        for quantity in _JUDGE:
            prior = getattr(kind, quantity)
            tails = [(1 - curve.level) / 2, (1 + curve.level) / 2]
            low, high = beta.ppf(tails, prior.alpha, prior.beta)
            mean = prior.alpha / (prior.alpha + prior.beta)
            known = {"prior": mean, "prior_low": low, "prior_high": high}
            row[quantity] = learnt[quantity, name] | known
        rows.append(row)
    return rows


def judged_pairs(curve: "Curve") -> pd.DataFrame:
    """Return one row for each judged pair."""
    runs = first_runs(curve.judged)
    pairs = runs.groupby(list(PAIR), sort=False, observed=True)
    table = pairs.agg(
        cosine=("cosine", "first"), best=("best", "first"), share=("is_duplicate", "mean")
    ).reset_index()
    called, first = table["share"] > 0.5, table["cosine"] >= table["best"] - 1e-9
    return table[["benchmark", "cosine"]].assign(called=called, first=first)
