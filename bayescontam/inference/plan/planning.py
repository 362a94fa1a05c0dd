"""Planning: how wide intervals will be, and whether an effect will be distinguished from zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Reference
from bayescontam.inference.identification import POWER
from bayescontam.inference.plan.components import slope_variance
from bayescontam.inference.plan.information import QUANTITIES
from bayescontam.inference.plan.scenes import Scene
from bayescontam.inference.plan.truth import Sizes, Truth
from bayescontam.inference.summary import LEVEL
from bayescontam.levels import check_level
from bayescontam.progress import Advance, progress_bar
from bayescontam.specs.base import closest
from bayescontam.specs.model import ModelSpec

Quantity = Literal["accuracy", "genuine_ability", "overfitting", "slope"]


@dataclass(frozen=True)
class Wish:
    """What a design should give."""

    # estimand whose interval is planned, of each contaminated model on each benchmark
    quantity: Quantity = "genuine_ability"
    # wanted width of its interval: on the probability scale, of a slope in log-odds
    width: float | None = None
    assurance: float = 0.8  # probability with which an interval should be that narrow
    level: float = LEVEL  # probability of the interval
    data_sets: int = 100  # data sets simulated of each design

    def __post_init__(self) -> None:
        """Refuse what cannot be had."""
        if self.quantity not in get_args(Quantity):
            hint = closest(str(self.quantity), get_args(Quantity))
            raise UsageError(f"quantity: got {self.quantity!r}; {hint}")
        most = 100.0 if self.quantity == "slope" else 1.0
        if self.width is not None and not 0 < self.width < most:
            raise UsageError(
                f"width: got {self.width:g}; allowed is more than 0 and less than {most:g}: no"
                " finite design gives an interval without width"
            )
        if not 0 < self.assurance < 1:
            raise UsageError(f"assurance: got {self.assurance}; allowed is between 0 and 1")
        check_level(self.level)
        if not 10 <= self.data_sets <= 100_000:
            raise UsageError(f"data_sets: got {self.data_sets}; allowed is 10 to 100,000")


@dataclass(frozen=True, eq=False)
class Expected:
    """What intervals of a design will be like, over simulated data sets."""

    # of the wished interval, dims (data set, cell); cells are pairs of a model that may be
    # contaminated and a benchmark
    widths: FloatArray
    shown: np.ndarray  # whether the interval of overfitting excludes zero, same dims
    detectable: FloatArray  # slope that is found with probability 0.8, same dims
    overfitting: FloatArray  # true overfitting, same dims


def expect(scene: Scene, wish: Wish, seed: int, advance: Advance = lambda _: None) -> Expected:
    """Simulate data sets of a design and approximate the intervals of each."""
    means, sds, true = [], [], []
    for replicate in range(wish.data_sets):
        one = scene.simulate(seed, replicate)
        mean, sd = scene.fitted(one)
        means.append(mean[:, scene.told].reshape(len(QUANTITIES), -1))
        sds.append(sd[:, scene.told].reshape(len(QUANTITIES), -1))
        true.append(scene.true(one)[2, scene.told].ravel())
        advance(1)
    mean, sd = np.stack(means), np.stack(sds)
    z = norm.ppf((1 + wish.level) / 2)
    benchmarks = scene.crossed.shape[0]
    prior = slope_variance(scene.spec, scene.terms, scene.parts, scene.truth.spreads)
    prior = prior.reshape(-1, benchmarks)[scene.told].ravel()
    with np.errstate(divide="ignore"):
        precision = np.maximum(1 / sd[:, 3] ** 2 - 1 / prior, 0.0)
        detectable = (z + norm.ppf(POWER)) / np.sqrt(precision)
    widths = 2 * z * sd[:, QUANTITIES.index(wish.quantity)]
    shown = np.abs(mean[:, 2]) > z * sd[:, 2]
    return Expected(widths, shown, detectable, np.stack(true))


def plan(
    designs: Sequence[Sizes],
    truth: Truth,
    spec: ModelSpec,
    wish: Wish,
    *,
    seed: int,
    reference: Reference = "min_observed",
    progress: bool = False,
) -> pd.DataFrame:
    """Say what to expect of designs.

    The posterior of each simulated data set is approximated: effects of items and
    responses are integrated out by quadrature, abilities and slopes are Normal at their
    mode, and the spreads are taken as known.
    """
    scenes = [Scene(sizes, truth, spec, reference) for sizes in designs]
    with progress_bar(progress, "plan", len(scenes) * wish.data_sets, "data sets") as advance:
        rows = [expected_row(scene, wish, expect(scene, wish, seed, advance)) for scene in scenes]
    return pd.DataFrame(rows)


def expected_row(scene: Scene, wish: Wish, expected: Expected) -> dict[str, object]:
    """Return what to expect of a design as a row of the table that `plan` returns."""
    low, middle, high = np.quantile(expected.widths, [0.1, 0.5, 0.9])
    sizes = scene.sizes
    row: dict[str, object] = {
        "items": sizes.items,
        "models": sizes.models,
        "benchmarks": sizes.benchmarks,
        "generations": sizes.generations,
        "quantity": wish.quantity,
        "width": middle,
        "width_low": low,
        "width_high": high,
    }
    if wish.width is not None:
        row["p_width"], row["p_width_mcse"] = _share(expected.widths <= wish.width)
    row["power"], row["power_mcse"] = _share(expected.shown)
    row["detectable_slope"] = float(np.median(expected.detectable))
    row["true_overfitting"] = float(expected.overfitting.mean())
    return row


def _share(happened: np.ndarray) -> tuple[float, float]:
    """Return a probability with its Monte Carlo error; cells of one data set are alike.

    Where data sets do not differ, the error is that of a share with one more of each kind.
    """
    shares, count = happened.mean(axis=1), len(happened)
    error = float(shares.std(ddof=1) / np.sqrt(count))
    if error == 0:
        smoothed = (shares.sum() + 1) / (count + 2)
        error = float(np.sqrt(smoothed * (1 - smoothed) / count))
    return float(shares.mean()), error
