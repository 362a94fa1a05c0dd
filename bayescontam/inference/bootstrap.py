"""The published bootstrap: penalised logistic regressions on contamination, of resampled items.

"Quantifying Knowledge-Dependent Overfitting on ARC-AGI", sections 2.2 and 2.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from bayescontam._progress import progress_bar
from bayescontam._types import FloatArray
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, Fault, FitError, UsageError
from bayescontam.inference.summary import describe
from bayescontam.model.effect_names import DIRECT
from bayescontam.model.likelihood import logistic, softplus
from bayescontam.specs.model import ModelSpec

QUANTITIES = ("accuracy", DIRECT.ability, DIRECT.overfitting, DIRECT.fraction, "slope")
"""What the bootstrap estimates for each model and benchmark: the direct effect."""
RESAMPLES = 1000
PENALTY = 1.0
MOST_STORED, FEWEST_STORED = 10_000_000, 200
"""Numbers of all resamples that a fit stores, and the resamples of large ones at least."""
_BLOCK = 40_000
"""Most weights (resamples × items) that are held at once: few enough for a core's cache."""
_STEPS, _HALVINGS, _TOLERANCE = 60, 30, 1e-10
_ROUNDING = 1e-9  # of counts of right trials, beside their size
_SURE = 1.79
"""Change of log-odds up to which Newton's step cannot raise the loss.

If no log-odds change by more than c, curvature along the step grows at most by exp(c), since
the third derivative of log(1 + exp(z)) is no larger than the second (Bach 2010,
doi:10.1214/09-EJS521). The loss falls then by at least 1 − (exp(c) − 1 − c) / c² times what
the step promises at its start, which is positive for c < 1.793.
"""


def resample(
    frame: pd.DataFrame,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    penalty: float = PENALTY,
    levels: Mapping[str, float] | None = None,
    progress: bool = False,
) -> dict[tuple[str, str, str], FloatArray]:
    """Return each (quantity, model, benchmark) of every resample, dims (resample,)."""
    # Items of a benchmark are drawn with replacement, all trials of an item together; where their
    # numbers of trials differ, as if each had the mean number. To each
    # resample a logistic regression of correct answers on contamination is fitted, with the
    # penalty `penalty / 2 * slope**2` and none on the intercept (scikit-learn: C = 1 / penalty).
    # Genuine ability is the predicted accuracy at the smallest contamination of the resample, or
    # at the level that is given for its benchmark; overfitting and its fraction of accuracy are 0
    # where negative.
    if resamples < 2 or not 0 < penalty < np.inf:
        raise UsageError(
            f"bootstrap: got {resamples} resamples and a penalty of {penalty:g}; it needs two"
            " resamples or more and a finite penalty above 0: without one, some slopes are infinite"
        )
    if "contamination" not in frame:
        problem = "no column 'contamination': the bootstrap regresses on it; give one"
        raise DataError([Fault("responses", problem)])
    found: dict[tuple[str, str, str], FloatArray] = {}
    groups = frame.groupby(["model", "benchmark"], sort=False, observed=True)
    with progress_bar(progress, "bootstrap", len(groups), "pairs") as advance:
        for (model, benchmark), own in groups:
            correct, trials, contamination = (
                own[name].to_numpy(dtype=float)
                for name in ("n_correct", "n_trials", "contamination")
            )
            level = None if levels is None else levels[str(benchmark)]
            values = _resampled(correct, trials, contamination, rng, resamples, penalty, level)
            pair = str(model), str(benchmark)
            found |= {(name, *pair): values[i] for i, name in enumerate(QUANTITIES)}
            advance(1)
    return found


def _resampled(
    correct: FloatArray,
    trials: FloatArray,
    contamination: FloatArray,
    rng: np.random.Generator,
    resamples: int,
    penalty: float,
    level: float | None,
) -> FloatArray:
    """Return `QUANTITIES` of a model on a benchmark, dims (quantity, resample)."""
    items = len(correct)
    if np.ptp(trials) > 0:  # items count alike, as in accuracies, however many trials they have
        correct, trials = correct / trials * trials.mean(), np.full(items, trials.mean())
    block, chance, parts = max(_BLOCK // items, 1), np.full(items, 1 / items), []
    for first in range(0, resamples, block):
        size = min(block, resamples - first)
        weights = rng.multinomial(items, chance, size=size).astype(float)
        parts.append(_quantities(correct, trials, contamination, weights, penalty, level))
    return np.concatenate(parts, axis=1)


def stored_bootstrap(
    frame: pd.DataFrame,
    coords: Mapping[str, Sequence[str]],
    levels: FloatArray,
    rng: np.random.Generator,
    progress: bool = False,
) -> xr.Dataset:
    """Return the resamples for a fit, dims (resample, model, benchmark); of large fits a part."""
    # `levels`, dims (benchmark,): contamination at which the fit evaluates genuine ability.
    models, benchmarks = coords["model"], coords["benchmark"]
    known = dict(zip(benchmarks, map(float, levels), strict=True))
    found = resample(frame, rng, levels=known, progress=progress)
    pairs = len(models) * len(benchmarks)
    most = min(RESAMPLES, max(FEWEST_STORED, MOST_STORED // (len(QUANTITIES) * pairs)))
    data = {name: np.full((most, len(models), len(benchmarks)), np.nan) for name in QUANTITIES}
    for name, values in data.items():
        for m, model in enumerate(models):
            for b, benchmark in enumerate(benchmarks):
                own = found.get((name, model, benchmark))
                if own is not None:
                    values[:, m, b] = own[:most]
    dims = ("resample", "model", "benchmark")
    return xr.Dataset(
        {name: (dims, values) for name, values in data.items()},
        {"model": list(models), "benchmark": list(benchmarks)},
    )


def check_bootstrap(responses: Responses, spec: ModelSpec) -> None:
    """Refuse what the bootstrap has no meaning for, before anything long is started."""
    advice = "leave the bootstrap out (bootstrap, --bootstrap)"
    if spec.contamination.form == "none":
        raise UsageError(
            f"bootstrap: the model spec '{spec.name}' does not model contamination, on which the"
            f" published bootstrap regresses; choose one that does, or {advice}"
        )
    if spec.likelihood.trials == "items":
        raise UsageError(
            "bootstrap: rows of the table count different items together, and the published"
            f" bootstrap resamples single items; give one row for each item, or {advice}"
        )
    if "contamination" not in responses.frame:
        raise UsageError(
            "bootstrap: the table has no column 'contamination', on which the published bootstrap"
            f" regresses; add one (the expected contamination of each item), or {advice}"
        )


def lacks(known: xr.Dataset) -> str:
    """Return what the bootstrap of a fit is, and what it lacks."""
    count = known.sizes["resample"]
    return (
        "Published bootstrap: for each model and benchmark a logistic regression on contamination"
        f" with an L2 penalty of {PENALTY:g} on the slope, {count:,} resamples of the items that"
        " the model answered, percentile intervals, at the fit's reference. It lacks what the fit"
        " has: the penalty shrinks slopes towards 0 as a narrow prior would, but its uncertainty is"
        " not in the intervals; items' difficulties and other models inform nothing; and"
        " overfitting below 0 is set to 0, so that its interval cannot show that there is none. In"
        " the published simulations, where the reference is the smallest contamination of each"
        f" resample and resamples are {RESAMPLES:,}, 95 % intervals held genuine ability in 78 %"
        " and the overfitting fraction in 65 %."
    )


def bootstrap_table(known: xr.Dataset | None, level: float) -> pd.DataFrame:
    """Return the bootstrap of a fit as a table; see `Fit.bootstrap`."""
    columns = ["model", "benchmark", "quantity", "mean", "sd", "ci_low", "ci_high"]
    if known is None:
        return pd.DataFrame(columns=columns)
    rows = []
    for model in known["model"].to_numpy():
        for benchmark in known["benchmark"].to_numpy():
            cell = known.sel(model=model, benchmark=benchmark)
            for name in QUANTITIES:
                values = cell[name].to_numpy()
                if not np.isnan(values).all():
                    figures = {k: float(v[0]) for k, v in describe(values[:, None], level).items()}
                    labels = {"model": model, "benchmark": benchmark, "quantity": name}
                    rows.append(labels | figures)
    return pd.DataFrame(rows, columns=columns)


def _quantities(
    correct: FloatArray,
    trials: FloatArray,
    contamination: FloatArray,
    weights: FloatArray,
    penalty: float,
    level: float | None = None,
) -> FloatArray:
    """Return `QUANTITIES` of resamples, by how often each item is in each, (quantity, resample)."""
    accuracy = (weights @ correct) / (weights @ trials)
    at = np.where(weights > 0, contamination, np.inf).min(axis=1) if level is None else level
    intercept, slope = regressions(correct, trials, contamination, weights, penalty)
    genuine = logistic(intercept + slope * at)
    overfitting = np.maximum(accuracy - genuine, 0.0)
    fraction = np.divide(overfitting, accuracy, out=np.zeros_like(accuracy), where=accuracy > 0)
    return np.stack([accuracy, genuine, overfitting, fraction, slope])


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
    # Shares of unequal trials are rounded sums: they may differ from 1 where all were solved.
    some = weights @ (correct > 0) > 0
    inside = some & (weights @ (correct < trials * (1 - _ROUNDING)) > 0)
    middle = contamination.mean()
    x = contamination - middle
    right = (weights @ np.stack([correct, correct * x], axis=1))[inside]
    problem = _NewtonLogistic(right, n[inside], x, penalty)
    found = problem.solve(np.stack([logit(share[inside]), np.zeros(inside.sum())], axis=1))
    slope = np.zeros(len(share))
    slope[inside] = found[:, 1]
    intercept = np.where(some, np.inf, -np.inf)
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
