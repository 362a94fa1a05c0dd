"""Simulated: tables of the published generator, and what the published method reports of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from bayescontam._types import FloatArray
from bayescontam.calibration.bootstrap import PENALTY, bootstrap_rows, regressions
from bayescontam.calibration.published import Corpus, compositions, contamination_of
from bayescontam.inference.fitted import Fit
from bayescontam.reproduction.study import Study
from bayescontam.responses import Responses

QUANTITIES = ("accuracy", "genuine_ability", "overfitting", "overfitting_fraction", "slope")
PRINTED, METHOD = "published, its own tasks", "published method, our tasks"
"""Names of what is printed, and of the published method anew."""
CHUNK = 25
"""Tables that are stored together."""


@dataclass(frozen=True)
class Generator:
    """The published generator: accuracy = genuine + boost × contamination."""

    # genuine, boost: accuracy at contamination 0, and how much more it is at contamination 1
    genuine: float
    boost: float
    tasks: int

    def contamination(self, corpus: Corpus, rng: np.random.Generator) -> FloatArray:
        """Draw contaminations of tasks from the exposures of their concepts, dims (task,)."""
        exposure = corpus.exposures(rng)
        return contamination_of(compositions(self.tasks, rng) @ exposure)

    def answered(
        self,
        contamination: FloatArray,
        rng: np.random.Generator,
        benchmark: str,
        model: str = "model",
    ) -> pd.DataFrame:
        """Return the table of responses to tasks of these contaminations."""
        accuracy = self.genuine + self.boost * contamination
        return pd.DataFrame(
            {
                "model": model,
                "benchmark": benchmark,
                "item": [f"{benchmark} {k + 1}" for k in range(len(contamination))],
                "correct": rng.binomial(1, accuracy),
                "contamination": contamination,
            }
        )

    def truth(self, contamination: FloatArray) -> dict[str, float]:
        """Return the true estimands, with the smallest contamination as the reference."""
        low = float(contamination.min())
        genuine = self.genuine + self.boost * low
        over = self.boost * (float(contamination.mean()) - low)
        return {
            "accuracy": genuine + over,
            "genuine_ability": genuine,
            "overfitting": over,
            "overfitting_fraction": over / (genuine + over),
        }


def published_method(frame: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Return what the published method reports of a table of single responses."""
    rows = bootstrap_rows(frame, rng, resamples=resamples)
    intervals = rows.set_index(["where", "quantity"])[["low_95", "high_95"]]
    parts = []
    for _, own in frame.groupby(["model", "benchmark"], sort=False):
        where = f"{own['model'].iloc[0]} | {own['benchmark'].iloc[0]}"
        found = intervals.loc[where].reset_index()
        parts.append(found.assign(where=where, mean=found["quantity"].map(_estimates(own))))
    table = pd.concat(parts, ignore_index=True)
    table = table.rename(columns={"low_95": "low", "high_95": "high"})
    return table[["where", "quantity", "mean", "low", "high"]]


def _estimates(own: pd.DataFrame) -> dict[str, float]:
    """Return the estimates from a table, which is one resample that holds each item once."""
    names = ("n_correct", "n_trials", "contamination")
    correct, trials, at = (own[name].to_numpy(dtype=float) for name in names)
    intercept, slope = regressions(correct, trials, at, np.ones((1, len(at))), PENALTY)
    accuracy = float(correct.sum() / trials.sum())
    genuine = float(1 / (1 + np.exp(-(intercept[0] + slope[0] * at.min()))))
    over = max(accuracy - genuine, 0.0)
    values = accuracy, genuine, over, over / accuracy if accuracy else 0.0, float(slope[0])
    return dict(zip(QUANTITIES, values, strict=True))


def over_tables(
    study: Study,
    name: str,
    inputs: Mapping[str, Any],
    make: Callable[[int], pd.DataFrame],
    tables: int,
    chunk: int = CHUNK,
) -> pd.DataFrame:
    """Return what `make` reports of each of many simulated tables, and keep it in the folder."""
    rows = []
    with study.bar(name, tables, "tables") as advance:
        for first in range(0, tables, chunk):
            numbers = range(first, min(first + chunk, tables))
            own = {**inputs, "first": first, "count": len(numbers)}
            rows.append(study.kept(f"{name}-{first}", own, partial(_tables, make, numbers)))
            advance(len(numbers))
    return pd.concat(rows, ignore_index=True)


def _tables(make: Callable[[int], pd.DataFrame], numbers: Iterable[int]) -> pd.DataFrame:
    return pd.concat([make(k).assign(table=k) for k in numbers], ignore_index=True)


def coverage(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the share of intervals that hold their truth, and its Monte Carlo error.

    Where all or none hold it, the error is that of one more that may not: the standard
    deviation of a Beta(n + 1, 1).
    """
    inside = (rows["low"] <= rows["truth"]) & (rows["truth"] <= rows["high"])
    share, count = float(inside.mean()), len(inside)
    if share in (0.0, 1.0):
        return share, float(beta(count + 1, 1).std())
    return share, float(np.sqrt(share * (1 - share) / count))


def fit_rows(fit: Fit, quantities: Iterable[str] = QUANTITIES) -> pd.DataFrame:
    """Return ``model, benchmark, quantity, mean, low, high, verdict`` of a fit's estimands."""
    table = fit.estimands().rename(columns={"ci_low": "low", "ci_high": "high"})
    names = ["model", "benchmark", "quantity", "mean", "low", "high", "verdict"]
    return table.loc[table["quantity"].isin(list(quantities)), names].reset_index(drop=True)


def estimate(rows: pd.DataFrame, quantity: str, **where: str) -> tuple[float, float, float]:
    """Return mean, low and high of a quantity in rows that have it once."""
    chosen = rows[rows["quantity"] == quantity]
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    mean, low, high = chosen[["mean", "low", "high"]].iloc[0]
    return float(mean), float(low), float(high)


def percent(*values: float, unit: str = "%") -> str:
    """Return a share, or a share with its interval, in hundredths.

    >>> percent(0.096), percent(0.14, -0.084, 0.352, unit="points")
    ('9.6 %', '14.0 points [−8.4, 35.2]')
    """
    first, *ends = (f"{100 * value:.1f}".replace("-", "−") for value in values)
    return f"{first} {unit} [{', '.join(ends)}]" if ends else f"{first} {unit}"


def responses_of(frames: Sequence[pd.DataFrame]) -> Responses:
    """Return simulated tables as one table of responses."""
    return Responses.from_frame(pd.concat(frames, ignore_index=True), source="simulated")
