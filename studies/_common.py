"""The published generator and method, and summaries that several studies share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta

import bayescontam as bc
from bayescontam.arc.exposures import contamination_of
from bayescontam.model.effect_names import DIRECT

QUANTITIES = ("accuracy", DIRECT.ability, DIRECT.overfitting, DIRECT.fraction, "slope")
"""What is reported: tasks of the generator gain from their own contamination alone."""
PRINTED, METHOD = "published, its own tasks", "published method, our tasks"
"""Names of what is printed, and of the published method on our tables."""
CONCEPTS = 50
"""Simulated concepts, as printed (studies/data/arc_generator.csv)."""
FEWEST, MOST = 3, 8
"""Concepts of a task; not printed, chosen so that contaminations spread as printed."""
EXPOSURES = (0.2, 0.7, 3.0, 2.0)
"""Exposures as printed: floor + span × Beta(a, b)."""
TAILS = (0.025, 0.975)
"""Tail probabilities of 95 % equal-tailed intervals."""
_STEPS = 50


def draw_exposures(
    shape: Sequence[float], rng: np.random.Generator, concepts: int = CONCEPTS
) -> np.ndarray:
    """Draw the exposure of each concept in a corpus: floor + span × Beta(a, b)."""
    floor, span, a, b = shape
    return floor + span * rng.beta(a, b, size=concepts)


def compositions(tasks: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the share of each concept in each task, dims (task, concept)."""
    order = rng.random((tasks, CONCEPTS)).argsort(axis=1)
    count = rng.integers(FEWEST, MOST + 1, size=(tasks, 1))
    return (order < count) / count


@dataclass(frozen=True)
class Generator:
    """The published generator: accuracy = genuine + boost × contamination."""

    genuine: float  # accuracy at contamination 0
    boost: float  # how much more it is at contamination 1
    tasks: int

    def contamination(self, exposures: Sequence[float], rng: np.random.Generator) -> np.ndarray:
        """Draw contaminations of tasks from the exposures of their concepts, dims (task,)."""
        exposure = draw_exposures(exposures, rng)
        return contamination_of(compositions(self.tasks, rng) @ exposure)

    def answered(
        self, contamination: np.ndarray, rng: np.random.Generator, benchmark: str
    ) -> pd.DataFrame:
        """Return one model's responses to tasks of these contaminations."""
        accuracy = self.genuine + self.boost * contamination
        return pd.DataFrame(
            {
                "model": "model",
                "benchmark": benchmark,
                "item": [f"{benchmark} {k + 1}" for k in range(len(contamination))],
                "correct": rng.binomial(1, accuracy),
                "contamination": contamination,
            }
        )

    def truth(self, contamination: np.ndarray, reference: float | None = None) -> dict[str, float]:
        """Return the true estimands; the reference is the smallest contamination by default."""
        low = float(contamination.min()) if reference is None else reference
        genuine = self.genuine + self.boost * low
        over = self.boost * (float(contamination.mean()) - low)
        return {
            "accuracy": genuine + over,
            DIRECT.ability: genuine,
            DIRECT.overfitting: over,
            DIRECT.fraction: over / (genuine + over),
        }


def simulated(*frames: pd.DataFrame) -> bc.Responses:
    """Return simulated tables as one table of responses."""
    return bc.Responses.from_frame(pd.concat(frames, ignore_index=True), source="simulated")


def published_method(
    responses: bc.Responses, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Return ``model, benchmark, quantity, mean, low, high`` by the published method.

    A logistic regression of single answers on contamination with an L2 penalty of 1 on the
    slope; intervals are the 95 % range over resamples of the items.
    """
    parts = []
    for (model, benchmark), own in responses.frame.groupby(["model", "benchmark"], sort=False):
        correct, at = (own[name].to_numpy(dtype=float) for name in ("n_correct", "contamination"))
        n = len(own)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
        names = {"model": model, "benchmark": benchmark, "quantity": QUANTITIES}
        mean = _decomposed(correct, at, np.ones((1, n)))[:, 0]
        low, high = np.quantile(_decomposed(correct, at, weights), TAILS, axis=1)
        parts.append(pd.DataFrame({**names, "mean": mean, "low": low, "high": high}))
    return pd.concat(parts, ignore_index=True)


def _decomposed(correct: np.ndarray, at: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the quantities of each resample, whose weights say how often it has each item."""
    accuracy = weights @ correct / weights.sum(axis=1)
    intercept, slope = penalised_regression(correct, at, weights)
    smallest = np.where(weights > 0, at, np.inf).min(axis=1)
    genuine = expit(intercept + slope * smallest)
    over = np.maximum(accuracy - genuine, 0.0)
    fraction = np.divide(over, accuracy, out=np.zeros_like(over), where=accuracy > 0)
    return np.stack([accuracy, genuine, over, fraction, slope])


def penalised_regression(
    correct: np.ndarray, at: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return intercepts and slopes of logistic regressions with slope² / 2 added to the loss.

    One for each row of weights, dims (row, item), by Newton's method.
    """
    x = at - at.mean()
    a = logit(weights @ correct / weights.sum(axis=1))  # infinite where all answers are alike
    b = np.zeros_like(a)
    for _ in range(_STEPS):
        p = expit(a[:, None] + b[:, None] * x)
        error, spread = weights * (correct - p), weights * p * (1 - p)
        g0, g1 = error.sum(axis=1), error @ x - b
        h00, h01, h11 = spread.sum(axis=1), spread @ x, spread @ x**2 + 1
        steps = np.stack([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0])
        size = h00 * h11 - h01**2
        steps = np.divide(steps, size, out=np.zeros_like(steps), where=size > 0)
        a, b = a + steps[0], b + steps[1]
        if np.abs(steps).max() < 1e-9:
            return a - b * at.mean(), b
    raise bc.FitError(f"published method: no convergence in {_STEPS} Newton steps; give more tasks")


def coverage(rows: pd.DataFrame, together: Sequence[str] = ()) -> tuple[float, float]:
    """Return the share of intervals that hold their truth, and its Monte Carlo error.

    Rows that agree in the columns `together` share their error and count as one for it. Where all
    or none hold it, the error is that of one more that may not: the standard deviation of a
    Beta(n + 1, 1).
    """
    inside = (rows["low"] <= rows["truth"]) & (rows["truth"] <= rows["high"])
    share = float(inside.mean())
    parts = inside.groupby([rows[name] for name in together]).mean() if together else inside
    count = len(parts)
    if share in (0.0, 1.0):
        return share, float(beta(count + 1, 1).std())
    spread = float(parts.std(ddof=1)) if together else float(np.sqrt(share * (1 - share)))
    return share, spread / float(np.sqrt(count))


def fit_rows(fit: bc.Fit, quantities: Iterable[str] = QUANTITIES) -> pd.DataFrame:
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


def mean_and_interval(draws: Any) -> tuple[float, float, float]:
    """Return the mean of draws with their 95 % equal-tailed interval.

    >>> [round(number, 3) for number in mean_and_interval(np.array([[0.0, 1.0], [2.0, 3.0]]))]
    [1.5, 0.075, 2.925]
    """
    values = np.asarray(draws, dtype=float).ravel()
    low, high = np.quantile(values, TAILS)
    return float(values.mean()), float(low), float(high)


def row_of(draws: Any) -> dict[str, float]:
    """Return mean, low and high of draws as columns of a table."""
    return dict(zip(("mean", "low", "high"), mean_and_interval(draws), strict=True))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a table as tuples with the columns' names."""
    yield from table.itertuples(index=False)


def percent(*values: float, unit: str = "%") -> str:
    """Return a share, or a share with its interval, in hundredths.

    >>> percent(0.096), percent(0.14, -0.084, 0.352, unit="points")
    ('9.6 %', '14.0 points [−8.4, 35.2]')
    """
    first, *ends = (f"{100 * value:.1f}".replace("-", "−") for value in values)
    return f"{first} {unit} [{', '.join(ends)}]" if ends else f"{first} {unit}"
