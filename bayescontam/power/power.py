"""Expected precision and power of designs, and the smallest design that suffices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import norm

from bayescontam._progress import Advance, progress_bar
from bayescontam._random import check_seed, fresh_seed
from bayescontam._types import FloatArray
from bayescontam.data.responses import Path
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Reference
from bayescontam.inference.identification import POWER
from bayescontam.inference.summary import LEVEL
from bayescontam.model.effect_names import DIRECT
from bayescontam.power.laplace import QUANTITIES
from bayescontam.power.scenario import MOST_PAIRS, Assumptions, SampleSizes, Scenario
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import given_spec

Quantity = Literal[
    "genuine_ability_direct", "overfitting_direct", "slope", "accuracy", "genuine_ability",
    "overfitting",
]  # fmt: skip
Unknown = Literal["items", "models", "generations"]
MOST: dict[Unknown, int] = {"items": 100_000, "models": 32, "generations": 100}
"""Largest size that is tried."""
ASSURANCE = 0.8
"""Probability with which an interval should be as narrow as wished, unless another is given."""
_CLOSE = 1.05  # ratio of two sizes, one too small and one large enough, at which the search ends
TRUE = f"true_{DIRECT.overfitting}"
SPARE = ("p_width_mcse", "power_mcse", TRUE)
"""Columns of a plan that a narrow terminal leaves out."""
_SIZES = ("models", "benchmarks", "generations")
_WHY = {
    "items": "the width falls with the square root of the number of items",
    "models": (
        "the rest is due to the number of items: a model's interval rests on its own answers,"
        " and other models inform only on what they share with it"
    ),
    "generations": (
        "the rest is due to the number of items: generations show how each item is answered,"
        " but not what other items would have shown"
    ),
}


@dataclass(frozen=True)
class PowerRequest:
    """What a design should give."""

    # estimand whose interval is planned, of each contaminated model on each benchmark
    quantity: Quantity = "genuine_ability_direct"
    # wanted width of its interval: on the probability scale, of a slope in log-odds
    width: float | None = None
    assurance: float = ASSURANCE  # probability with which an interval should be that narrow
    level: float = LEVEL  # probability of the interval
    data_sets: int = 100  # data sets simulated of each design

    def __post_init__(self) -> None:
        """Validate the request."""
        if self.quantity not in get_args(Quantity):
            hint = suggest(str(self.quantity), get_args(Quantity))
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
        if not isinstance(self.data_sets, Integral) or not 10 <= self.data_sets <= 100_000:
            raise UsageError(f"data_sets: got {self.data_sets!r}; allowed is 10 to 100,000")

    @property
    def estimand(self) -> str:
        """The estimand that is planned, by its own name."""
        return DIRECT.meant(self.quantity)


@dataclass(frozen=True, eq=False)
class Expected:
    """What intervals of a design will be like, over simulated data sets."""

    # of the wished interval, dims (data set, cell); cells are pairs of a model that may be
    # contaminated and a benchmark
    widths: FloatArray
    shown: np.ndarray  # whether the interval of overfitting excludes zero, same dims
    detectable: FloatArray  # slope that is found with probability 0.8, same dims
    overfitting: FloatArray  # true overfitting, same dims


def expected_precision(
    scene: Scenario, wish: PowerRequest, seed: int, advance: Advance = lambda _: None
) -> Expected:
    """Simulate data sets of a design and approximate the intervals of each."""
    means, sds, true = [], [], []
    for replicate in range(wish.data_sets):
        one = scene.simulate(seed, replicate)
        mean, sd = scene.fitted(one)
        means.append(mean[:, scene.reported].reshape(len(QUANTITIES), -1))
        sds.append(sd[:, scene.reported].reshape(len(QUANTITIES), -1))
        true.append(scene.true(one)[2, scene.reported].ravel())
        advance(1)
    mean, sd = np.stack(means), np.stack(sds)
    z = norm.ppf((1 + wish.level) / 2)
    benchmarks = scene.crossed.shape[0]
    prior = scene.slope_variance().reshape(-1, benchmarks)[scene.reported].ravel()
    with np.errstate(divide="ignore"):
        precision = np.maximum(1 / sd[:, 3] ** 2 - 1 / prior, 0.0)
        detectable = (z + norm.ppf(POWER)) / np.sqrt(precision)
    widths = 2 * z * sd[:, QUANTITIES.index(wish.estimand)]
    shown = np.abs(mean[:, 2]) > z * sd[:, 2]
    return Expected(widths, shown, detectable, np.stack(true))


def plan(
    designs: Sequence[SampleSizes],
    truth: Assumptions,
    spec: ModelSpec,
    wish: PowerRequest,
    *,
    seed: int,
    reference: Reference = "min_observed",
    progress: bool = False,
) -> pd.DataFrame:
    """Return what to expect of designs, one row for each."""
    scenes = [Scenario(sizes, truth, spec, reference) for sizes in designs]
    with progress_bar(progress, "plan", len(scenes) * wish.data_sets, "data sets") as advance:
        rows = [
            expected_row(scene, wish, expected_precision(scene, wish, seed, advance))
            for scene in scenes
        ]
    return pd.DataFrame(rows)


def expected_row(scene: Scenario, wish: PowerRequest, expected: Expected) -> dict[str, object]:
    """Return what to expect of a design as a row of the table that `plan` returns."""
    low, middle, high = np.quantile(expected.widths, [0.1, 0.5, 0.9])
    sizes = scene.sizes
    row: dict[str, object] = {
        "items": sizes.items,
        "models": sizes.models,
        "benchmarks": sizes.benchmarks,
        "generations": sizes.generations,
        "quantity": wish.estimand,
        "width": middle,
        "width_low": low,
        "width_high": high,
    }
    if wish.width is not None:
        row["p_width"], row["p_width_mcse"] = _share(expected.widths <= wish.width)
    row["power"], row["power_mcse"] = _share(expected.shown)
    row["detectable_slope"] = float(np.median(expected.detectable))
    row[TRUE] = float(expected.overfitting.mean())
    return row


def _share(happened: np.ndarray) -> tuple[float, float]:
    """Return a probability with its Monte Carlo error; cells of one data set are alike."""
    # Where data sets do not differ, the error is that of a share with one more of each kind.
    shares, count = happened.mean(axis=1), len(happened)
    error = float(shares.std(ddof=1) / np.sqrt(count))
    if error == 0:
        smoothed = (shares.sum() + 1) / (count + 2)
        error = float(np.sqrt(smoothed * (1 - smoothed) / count))
    return float(shares.mean()), error


@dataclass(frozen=True, eq=False)
class PowerAnalysis:
    """What to expect of designs.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each design: ``items, models, benchmarks, generations, quantity, width``
        (median of the interval's width over data sets, with ``width_low`` and ``width_high``,
        its 10 % and 90 % quantiles), ``p_width`` (probability of the wanted width), ``power``
        (probability that overfitting is shown), both with a Monte Carlo error ``_mcse``,
        ``detectable_slope`` (log-odds), ``true_overfitting_direct``.
    sizes : SampleSizes or None
        The smallest design that suffices, where one was solved for and found.
    sentence : str
        What was found, where one was solved for.
    request : PowerRequest
        What was wanted of the designs.
    seed : int
    """

    table: pd.DataFrame
    sizes: SampleSizes | None
    sentence: str
    request: PowerRequest
    seed: int


class _Search:
    """The widths that are reached, with the wished assurance, by designs that were tried."""

    def __init__(
        self,
        unknown: Unknown,
        make: Callable[[int], Scenario],
        wish: PowerRequest,
        width: float,
        seed: int,
        progress: bool,
    ) -> None:
        self.unknown, self.make, self.wish, self.width = unknown, make, wish, width
        self.seed, self.progress = seed, progress
        self.widths: dict[int, float] = {}
        self.rows: dict[int, dict[str, object]] = {}

    def reached(self, size: int) -> bool:
        """Return whether intervals are narrow enough at this size."""
        if size not in self.widths:
            scene, title = self.make(size), f"{size:,} {self.unknown}"
            with progress_bar(self.progress, title, self.wish.data_sets, "data sets") as advance:
                expected = expected_precision(scene, self.wish, self.seed, advance)
            # The smallest width that holds for at least the wished share of the intervals.
            self.widths[size] = float(
                np.quantile(expected.widths, self.wish.assurance, method="inverted_cdf")
            )
            self.rows[size] = expected_row(scene, self.wish, expected)
        return self.widths[size] <= self.width

    def guess(self, size: int) -> int:
        """Return the size at which the wished width would be reached, judging by this one."""
        return int(np.ceil(size * min((self.widths[size] / self.width) ** 2, 1e6)))

    def smallest(self, least: int, most: int) -> int | None:
        """Return the smallest size that is large enough, to within 5 %."""
        low = high = least
        while not self.reached(high):
            if high == most:
                return None
            low = high
            high = min(most, max(2 * low, min(self.guess(low), 30 * low)))
        while high > low + 1 and high > _CLOSE * low:
            narrow = (max(low + 1, int(low * 1.03)), min(high - 1, int(high / 1.03)))
            middle = min(max(self.guess(high), narrow[0]), max(narrow))
            if self.unknown != "items":  # these follow no law that is known beforehand
                middle = (low + high) // 2
            low, high = (low, middle) if self.reached(middle) else (middle, high)
        return high

    def sentence(self, found: int | None, most: int) -> str:
        """Return what was found, in words."""
        unknown = self.unknown
        wanted = f"a width of {self.width:g} with probability {self.wish.assurance:g}"
        tried = f"Tried: {min(self.rows):,} to {max(self.rows):,}."
        if found is None:
            law = ""
            if unknown == "items":
                law = f", so that about {self.guess(most):,} would be needed"
            return (
                f"Not reached with {most:,} {unknown}: {wanted} (there it is"
                f" {self.widths[most]:.3g}). As to why: {_WHY[unknown]}{law}. {tried}"
            )
        count = f"{found:,} {unknown.removesuffix('s') if found == 1 else unknown}"
        benchmarks = int(str(self.rows[found]["benchmarks"]))
        if unknown == "items" and benchmarks > 1:
            count += f" of each of {benchmarks} benchmarks ({found * benchmarks:,} in all)"
        if found == min(self.rows):
            return f"{count}, the fewest tried, give {wanted} already."
        return f"{count} give {wanted}. {tried}"


def smallest_design(
    unknown: Unknown,
    sizes: SampleSizes,
    truth: Assumptions,
    spec: ModelSpec,
    wish: PowerRequest,
    *,
    seed: int,
    most: int | None = None,
    reference: Reference = "min_observed",
    progress: bool = False,
) -> PowerAnalysis:
    """Find the smallest number of items, models or generations that fulfils a wish."""
    if unknown not in get_args(Unknown):
        raise UsageError(f"solve: got {unknown!r}; {suggest(str(unknown), get_args(Unknown))}")
    if wish.width is None:
        raise UsageError("solve: needs the wanted width of the interval (width=, --width)")
    least = sizes.clean + 1 if unknown == "models" else 1
    if unknown == "items":  # they must differ in contamination
        share = truth.contamination
        rare = min(share, 1 - share) if isinstance(share, float | int) else 1.0
        least = max(20, int(np.ceil(2 / rare)))
    if most is None:
        most = MOST[unknown]
        most = min(most, MOST_PAIRS // sizes.benchmarks) if unknown == "models" else most
    if most < least:
        raise UsageError(f"most: got {most}; at least {least} {unknown} are needed here")

    def at(size: int) -> SampleSizes:
        return replace(sizes, **{unknown: size})

    def make(size: int) -> Scenario:
        return Scenario(at(size), truth, spec, reference)

    make(most)  # what cannot be planned is refused before anything is tried
    search = _Search(unknown, make, wish, wish.width, seed, progress)
    found = search.smallest(least, most)
    table = pd.DataFrame([search.rows[size] for size in sorted(search.rows)])
    smallest = None if found is None else at(found)
    return PowerAnalysis(table, smallest, search.sentence(found, most), wish, seed)


def power_analysis(
    spec: ModelSpec | Path,
    sizes: SampleSizes | Sequence[SampleSizes],
    assumptions: Assumptions | None = None,
    *,
    quantity: Quantity = "genuine_ability_direct",
    width: float | None = None,
    assurance: float = ASSURANCE,
    level: float = LEVEL,
    data_sets: int = 100,
    solve: Unknown | None = None,
    most: int | None = None,
    reference: Reference = "min_observed",
    seed: int | None = None,
    progress: bool = False,
) -> PowerAnalysis:
    """Estimate how wide intervals will be and whether overfitting would show, before any data.

    The posterior of each simulated data set is approximated: effects of items and responses are
    integrated out by quadrature, abilities and slopes are Normal at their mode, and the spreads
    are taken as known.

    Parameters
    ----------
    spec : ModelSpec, str or path-like
        Model spec, the name of a shipped one, or the path of a TOML file.
    sizes : SampleSizes or sequence of SampleSizes
        Designs; one, where `solve` is given.
    assumptions : Assumptions, optional
        What is supposed to be true. Default: ``Assumptions()``.
    quantity : {"genuine_ability_direct", "accuracy", "overfitting_direct", "slope"}
        Estimand whose interval is planned. Plans are for fits without spillover:
        ``"genuine_ability"`` and ``"overfitting"`` stand for those of the direct effect.
    width : float, optional
        Wanted width of its interval: probability scale, of a slope log-odds.
    assurance : float, default 0.8
        Probability with which an interval should be that narrow.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    data_sets : int, default 100
        Data sets simulated of each design.
    solve : {"items", "models", "generations"}, optional
        Size whose smallest sufficient value is searched for; needs `width`.
    most : int, optional
        Largest value that is tried. Default: 100,000 items, 32 models, 100 generations.
    reference : default "min_observed"
        Contamination at which genuine ability is defined.
    seed : int, optional
        Default: a fresh one.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    PowerAnalysis

    Raises
    ------
    UsageError
        If a design or an option cannot be used.

    Examples
    --------
    >>> import bayescontam
    >>> found = bayescontam.power_analysis(
    ...     "single", bayescontam.SampleSizes(items=200), data_sets=10, seed=1
    ... )
    >>> bool(0.05 < found.table["width"][0] < 0.5)
    True
    """
    spec = given_spec(spec)
    truth = Assumptions() if assumptions is None else assumptions
    wish = PowerRequest(quantity, width, assurance, level, data_sets)
    seed = fresh_seed() if seed is None else seed
    check_seed(seed)
    designs = [sizes] if isinstance(sizes, SampleSizes) else list(sizes)
    if not designs:
        raise UsageError("sizes: got no design; give one or more")
    common: dict[str, Any] = {"seed": seed, "reference": reference, "progress": progress}
    if solve is None:
        return PowerAnalysis(plan(designs, truth, spec, wish, **common), None, "", wish, seed)
    if len(designs) != 1:
        raise UsageError(f"sizes: got {len(designs)} designs; with solve give one")
    return smallest_design(solve, designs[0], truth, spec, wish, most=most, **common)


def varying_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for people: without sizes that are the same in every row."""
    return table.drop(columns=["quantity", *_alike(table)])


def plan_notes(table: pd.DataFrame, truth: Assumptions, wish: PowerRequest, seed: int) -> list[str]:
    """Return what a reader must know beside the table, one sentence or two each."""
    sizes = ", ".join(f"{name} = {table[name].iloc[0]}" for name in _alike(table))
    known = "".join(f", {name} = {value:g}" for name, value in truth.spreads.items())
    return [
        *([f"Everywhere: {sizes}."] if sizes else []),
        f"width: of the {100 * wish.level:g} % interval of {wish.estimand}; median and central"
        f" 80 % over {wish.data_sets} simulated data sets, by a fast approximation.",
        f"power: probability that the interval of {DIRECT.overfitting} excludes zero. Monte Carlo"
        f" error of probabilities: at most {table.filter(like='_mcse').to_numpy().max():.2g}.",
        f"Assumed: accuracy {truth.accuracy:g}, mean slope {truth.slope:g}{known};"
        f" other spreads drawn from their priors. Seed {seed}.",
    ]


def _alike(table: pd.DataFrame) -> list[str]:
    return [name for name in _SIZES if table[name].nunique() == 1]
