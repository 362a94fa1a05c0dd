"""Percentile intervals of a bootstrapped penalised logistic regression, as published."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from bayescontam._types import FloatArray
from bayescontam.calibration.storage import COLUMNS, FIGURES, intervals
from bayescontam.errors import DataError, Fault, FitError, UsageError
from bayescontam.model.likelihood import logistic, softplus

QUANTITIES = ("accuracy", "genuine_ability", "overfitting", "overfitting_fraction", "slope")
"""What the bootstrap estimates for each model and benchmark."""
RESAMPLES = 1000
PENALTY = 1.0
_BLOCK = 40_000
"""Most weights (resamples × items) that are held at once: few enough for a core's cache."""
_STEPS, _HALVINGS, _TOLERANCE = 60, 30, 1e-10
_SURE = 1.79
"""Change of log-odds up to which Newton's step cannot raise the loss.

If no log-odds change by more than c, curvature along the step grows at most by exp(c), since
the third derivative of log(1 + exp(z)) is no larger than the second (Bach 2010,
doi:10.1214/09-EJS521). The loss falls then by at least 1 − (exp(c) − 1 − c) / c² times what
the step promises at its start, which is positive for c < 1.793.
"""


def bootstrap_rows(
    frame: pd.DataFrame,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    penalty: float = PENALTY,
) -> pd.DataFrame:
    """Return percentile intervals of the published baseline for every model and benchmark.

    Items of a benchmark are drawn with replacement, all trials of an item together. To each
    resample a logistic regression of correct answers on contamination is fitted, with the
    penalty ``penalty / 2 * slope**2`` and none on the intercept (scikit-learn:
    ``C = 1 / penalty``). Genuine ability is the predicted accuracy at the smallest contamination
    of the resample; overfitting and its fraction of accuracy are 0 where negative.
    """
    if resamples < 2 or not 0 < penalty < np.inf:
        raise UsageError(
            f"bootstrap: got {resamples} resamples and a penalty of {penalty:g}; it needs two"
            " resamples or more and a finite penalty above 0: without one, some slopes are infinite"
        )
    if "contamination" not in frame:
        problem = "no column 'contamination': the bootstrap regresses on it; give one"
        raise DataError([Fault("responses", problem)])
    rows = []
    for (model, benchmark), own in frame.groupby(["model", "benchmark"], sort=False, observed=True):
        found = _resampled(_ResponseMatrix.of(own), rng, resamples, penalty)
        for name in QUANTITIES:
            rows.append(_row(name, f"{model} | {benchmark}", found[name]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


@dataclass(frozen=True)
class _ResponseMatrix:
    """Answers of one model to one benchmark, dims (item,)."""

    correct: FloatArray
    trials: FloatArray
    contamination: FloatArray

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "_ResponseMatrix":
        names = ("n_correct", "n_trials", "contamination")
        return cls(*(frame[name].to_numpy(dtype=float) for name in names))


def _row(quantity: str, where: str, values: FloatArray) -> dict[str, Any]:
    return {
        **dict.fromkeys(FIGURES, np.nan),
        **{"cell": "", "replicate": -1, "estimator": "", "quantity": quantity, "where": where},
        **{"mean": float(values.mean()), "sd": float(values.std(ddof=1)), "rank": -1, "ranks": 0},
        **intervals(values),
        **{"status": "passed", "reason": "", "engine": "bootstrap", "seconds": np.nan},
        "audit": False,
    }


def _resampled(
    answers: _ResponseMatrix, rng: np.random.Generator, resamples: int, penalty: float
) -> dict[str, FloatArray]:
    """Return each quantity of each resample, dims (resample,)."""
    parts = [_quantities(answers, w, penalty) for w in _weights(answers, rng, resamples)]
    return {name: np.concatenate([part[name] for part in parts]) for name in QUANTITIES}


def _weights(
    answers: _ResponseMatrix, rng: np.random.Generator, resamples: int
) -> Iterator[FloatArray]:
    """Yield how often each item is in each resample, dims (resample, item), in blocks."""
    items = len(answers.correct)
    block = max(_BLOCK // items, 1)
    for first in range(0, resamples, block):
        size = min(block, resamples - first)
        yield rng.multinomial(items, np.full(items, 1 / items), size=size).astype(float)


def _quantities(
    answers: _ResponseMatrix, weights: FloatArray, penalty: float
) -> dict[str, FloatArray]:
    accuracy = (weights @ answers.correct) / (weights @ answers.trials)
    smallest = np.where(weights > 0, answers.contamination, np.inf).min(axis=1)
    intercept, slope = regressions(
        answers.correct, answers.trials, answers.contamination, weights, penalty
    )
    genuine = logistic(intercept + slope * smallest)
    overfitting = np.maximum(accuracy - genuine, 0.0)
    fraction = np.divide(overfitting, accuracy, out=np.zeros_like(accuracy), where=accuracy > 0)
    return {
        "accuracy": accuracy,
        "genuine_ability": genuine,
        "overfitting": overfitting,
        "overfitting_fraction": fraction,
        "slope": slope,
    }


def regressions(
    correct: FloatArray,
    trials: FloatArray,
    contamination: FloatArray,
    weights: FloatArray,
    penalty: float,
) -> tuple[FloatArray, FloatArray]:
    """Return intercepts and penalised slopes of all resamples' regressions, dims (resample,)."""
    n = weights * trials
    share = (weights @ correct) / n.sum(axis=1)
    inside = (share > 0) & (share < 1)
    middle = contamination.mean()
    x = contamination - middle
    right = (weights @ np.stack([correct, correct * x], axis=1))[inside]
    problem = _NewtonLogistic(right, n[inside], x, penalty)
    found = problem.solve(np.stack([logit(share[inside]), np.zeros(inside.sum())], axis=1))
    slope = np.zeros(len(share))
    slope[inside] = found[:, 1]
    intercept = np.where(share > 0, np.inf, -np.inf)
    intercept[inside] = found[:, 0] - found[:, 1] * middle
    return intercept, slope


@dataclass(frozen=True)
class _NewtonLogistic:
    """Many logistic regressions on one predictor, to be minimised together."""

    # (resample, 2): weighted sums of correct trials, and of these times the predictor
    right: FloatArray
    trials: FloatArray  # (resample, item): weighted trials
    # (item,): predictor, near its mean, so that intercept and slope hardly depend on each other
    x: FloatArray
    penalty: float

    def loss(self, at: FloatArray) -> FloatArray:
        """Return the penalised negative log-likelihood of each, dims (resample,)."""
        either = (self.trials * softplus(self._log_odds(at))).sum(axis=1)
        return either - (self.right * at).sum(axis=1) + self.penalty / 2 * at[:, 1] ** 2

    def step(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Newton's step and half the fall in loss that it promises."""
        p = logistic(self._log_odds(at))
        expected = self.trials * p
        spread = expected * (1 - p)
        g0 = self.right[:, 0] - expected.sum(axis=1)
        g1 = self.right[:, 1] - expected @ self.x - self.penalty * at[:, 1]
        h00, h01 = spread.sum(axis=1), spread @ self.x
        h11 = spread @ self.x**2 + self.penalty
        step = np.stack([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0], axis=1)
        step /= (h00 * h11 - h01**2)[:, None]
        return step, (step[:, 0] * g0 + step[:, 1] * g1) / 2

    def _log_odds(self, at: FloatArray) -> FloatArray:
        return at[:, :1] + at[:, 1:] * self.x

    def solve(self, at: FloatArray) -> FloatArray:
        """Return intercept and slope of each, dims (resample, 2)."""
        for _ in range(_STEPS):
            step, fall = self.step(at)
            if (fall <= _TOLERANCE).all():
                return at + step
            at = at + self._length(at, step)[:, None] * step
        raise FitError(
            f"bootstrap: {int((fall > _TOLERANCE).sum())} of {len(at)} regressions did not"
            f" converge in {_STEPS} Newton steps; a larger penalty makes them easier"
        )

    def _length(self, at: FloatArray, step: FloatArray) -> FloatArray:
        """Return how much of the step to take: all, halved as often as it raises the loss."""
        length = np.ones(len(at))
        ends = np.array([self.x.min(), self.x.max()])
        if (np.abs(step[:, :1] + step[:, 1:] * ends) <= _SURE).all():
            return length
        loss = self.loss(at)
        slack = _TOLERANCE * (1 + np.abs(loss))
        for _ in range(_HALVINGS):
            worse = self.loss(at + length[:, None] * step) > loss + slack
            if not worse.any():
                break
            length[worse] /= 2
        return length
