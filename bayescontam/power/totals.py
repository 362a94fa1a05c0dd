"""Expected precision of direct effects, spillover and total effects, before any fit."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, qmc

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.responses import Path
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.inference.summary import LEVEL
from bayescontam.model.design import Design
from bayescontam.model.priors import distribution, stretch
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal
from bayescontam.specs.registry import given_spec

EFFECTS = ("overfitting_direct", "overfitting_spillover", "overfitting")
SPREAD_DRAWS = 128
"""Draws of the spreads, which are not known before a fit, that widths are the median over."""
MOST_EFFECTS = 2_000
"""Unknown effects of the largest design."""
_SPREADS = (
    "sigma_a", "sigma_theta", "sigma_t", "sigma_twin", "sigma_lb", "sigma_lk", "sigma_lambda",
    "sigma_bm", "sigma_bb", "sigma_bmb", "sigma_delta", "sigma_eps",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Pairs:
    """What a design has on each pair of model and benchmark, dims (model, benchmark)."""

    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    base: IntArray  # dims (model,)
    items: FloatArray  # answered; 0 where the model did not answer the benchmark
    trials: float  # of each item
    dose: FloatArray  # mean contamination
    # sum over items of squared contamination less its mean; of a pair that was not exposed, of what
    # other models' contamination of its items is
    contrast: FloatArray
    item_contrast: FloatArray  # the same over all items of a benchmark, dims (benchmark,)
    # part of each pair's dose that is of each group of exposures, which have a base, a benchmark
    # and a kind, dims (model × benchmark, group) and (group,)
    share: FloatArray
    group_benchmark: IntArray
    group_kind: IntArray
    related: bool = True  # whether models of one base share what they can do

    @classmethod
    def of(cls, design: Design) -> "Pairs":
        """Return those of a table."""
        shape, cell = design.answered.shape, design.model_benchmark
        count = np.bincount(cell, design.weight, minlength=design.answered.size)
        assert design.contamination is not None
        dose = design.pair_dose
        exposed = dose.ravel()[cell] > 0
        known = np.where(exposed, design.contamination, design.item_contamination[design.item])
        away = known - design.means(known, cell, count.size)[cell]
        contrast = np.bincount(cell, design.weight * away**2, minlength=count.size)
        of_items = np.bincount(
            design.benchmark_of_item, design.item_weight * design.dose_of_item**2,
            minlength=shape[1],
        )  # fmt: skip
        trials = 1.0 if (design.weight > 1).any() else float(design.n_trials.mean())
        base, lineage = np.arange(len(design.models)), design.lineage
        share: FloatArray = np.zeros((count.size, 0))
        groups = (np.zeros(0, dtype=np.int64),) * 2
        if lineage is not None:
            base, share = lineage.base, lineage.share
            groups = lineage.group_benchmark, lineage.group_kind
        return cls(
            design.models, design.benchmarks, base, count.reshape(shape), trials,
            dose, contrast.reshape(shape), of_items, share, *groups, lineage is not None,
        )  # fmt: skip


@dataclass(frozen=True)
class TwinSizes:
    """Size of a design of models of several bases, of which some were exposed to the benchmarks.

    Attributes
    ----------
    items : int
        Items of each benchmark, at least 2.
    bases : int, default 1
        Models or training recipes that the others descend from.
    exposed : int, default 1
        Models of each base that were exposed to the benchmarks.
    twins : int, default 1
        Models of each base that are alike but were exposed to none of them.
    benchmarks : int, default 1
        Benchmarks that some were exposed to.
    controls : int, default 0
        Benchmarks beside them that no model was exposed to.
    generations : int, default 1
        Trials of each response.
    share : float, default 0.3
        Share of the items of each benchmark that the exposed models were exposed to.
    """

    items: int
    bases: int = 1
    exposed: int = 1
    twins: int = 1
    benchmarks: int = 1
    controls: int = 0
    generations: int = 1
    share: float = 0.3

    def __post_init__(self) -> None:
        """Validate the sizes."""
        least = {"items": 2, "twins": 0, "controls": 0}
        for name in ("items", "bases", "exposed", "twins", "benchmarks", "controls", "generations"):
            value, fewest = getattr(self, name), least.get(name, 1)
            if not isinstance(value, Integral) or value < fewest:
                raise UsageError(f"{name}: got {value!r}; allowed is {fewest} or more")
        if not 0 < self.share <= 1:
            raise UsageError(
                f"contamination: got {self.share}; allowed is a share above 0, up to 1"
            )

    def pairs(self) -> Pairs:
        """Return the pairs of model and benchmark."""
        each, benchmarks = self.exposed + self.twins, self.benchmarks + self.controls
        base = np.repeat(np.arange(self.bases), each)
        met = np.tile(np.arange(each) < self.exposed, self.bases)
        exposed = met[:, None] & (np.arange(benchmarks) < self.benchmarks)
        dose = np.where(exposed, self.share, 0.0)
        spread = self.items * self.share * (1 - self.share)
        of_items = np.where(np.arange(benchmarks) < self.benchmarks, spread, 0.0)
        base_of, benchmark_of = np.divmod(np.arange(self.bases * self.benchmarks), self.benchmarks)
        cells = np.repeat(base, benchmarks), np.tile(np.arange(benchmarks), len(base))
        share = (cells[0][:, None] == base_of) & (cells[1][:, None] == benchmark_of)
        return Pairs(
            tuple(f"model {k + 1}" for k in range(len(base))),
            tuple(f"benchmark {k + 1}" for k in range(benchmarks)),
            base,
            np.full(dose.shape, float(self.items)),
            float(self.generations),
            dose,
            np.broadcast_to(of_items, dose.shape),
            of_items,
            share.astype(float),
            benchmark_of,
            np.zeros_like(benchmark_of),
        )


def twin_power_analysis(
    spec: ModelSpec | Path,
    sizes: TwinSizes | Sequence[TwinSizes],
    *,
    accuracy: float = 0.6,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return how wide intervals of direct effect, spillover and total effect will be.

    Accuracies of models on benchmarks are taken as Normal on the log-odds scale, and so are all
    effects, given their spreads; these are drawn from their priors. Nothing is simulated.

    Parameters
    ----------
    spec : ModelSpec, str or path-like
        Model spec with lineage and spillover, such as ``"twins"``.
    sizes : TwinSizes or sequence of TwinSizes
        Designs.
    accuracy : float, default 0.6
        Expected accuracy of an average model.
    level : float, default 0.95
        Probability of the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        One row for each design: its sizes, and the median width over exposed models of the
        intervals of ``overfitting_direct``, ``overfitting_spillover`` and ``overfitting`` (the
        total), all differences of accuracies.

    Raises
    ------
    UsageError
        If the model spec has no lineage, or a size cannot be planned.

    Examples
    --------
    >>> import bayescontam as bc
    >>> designs = [bc.TwinSizes(items=200, twins=3), bc.TwinSizes(items=200, controls=4)]
    >>> widths = bc.twin_power_analysis("twins", designs)["overfitting"]
    >>> bool((widths < 1).all())
    True
    """
    spec = given_spec(spec)
    if spec.ability.lineage == "none" or not spec.contamination.spillover:
        raise UsageError(
            "plan: twins and controls need a model spec with lineage and spillover, such as"
            f" 'twins'; '{spec.name}' has not both"
        )
    check_level(level)
    rows = []
    for one in [sizes] if isinstance(sizes, TwinSizes) else sizes:
        pairs = one.pairs()
        if effects_of(pairs) > MOST_EFFECTS:
            raise UsageError(
                f"plan: got {pairs.items.size:,} pairs of model and benchmark; at most about"
                f" {MOST_EFFECTS // 4:,} can be planned"
            )
        widths = expected_widths(pairs, spec, accuracy=accuracy, level=level, spillover=True)
        median = widths.drop(columns=["model", "benchmark"]).median()
        rows.append(asdict(one) | {str(name): value for name, value in median.items()})
    return pd.DataFrame(rows)


def effects_of(pairs: Pairs) -> int:
    """Return about how many unknown effects a design has."""
    return 4 * pairs.items.size + 2 * len(pairs.models) + 4 * len(pairs.benchmarks)


def expected_widths(
    pairs: Pairs, spec: ModelSpec, *, accuracy: float = 0.6, level: float = LEVEL, spillover: bool
) -> pd.DataFrame:
    """Return the expected width of the interval of each effect, of exposed pairs.

    Columns ``model, benchmark`` and `EFFECTS`; without `spillover` the direct effect alone.
    """
    # Accuracies of pairs, on the log-odds scale, are Normal around sums of Normal effects: their
    # posterior is known in closed form, given the spreads. These are drawn from their priors.
    if not 0 < accuracy < 1:
        raise UsageError(f"accuracy: got {accuracy}; allowed is between 0 and 1")
    met = np.argwhere((pairs.items > 0) & (pairs.dose > 0))
    widths = []
    for spreads in _spread_draws(spec, pairs.trials > 1):
        widths.append(_standard_errors(pairs, spec, spreads, met, accuracy, spillover))
    reach = 2 * norm.ppf((1 + level) / 2)
    table = pd.DataFrame(
        {
            "model": [pairs.models[m] for m, _ in met],
            "benchmark": [pairs.benchmarks[b] for _, b in met],
        }
    )
    median = reach * np.median(np.array(widths), axis=0) if len(met) else np.zeros((0, 3))
    for name, column in zip(EFFECTS if spillover else EFFECTS[:1], median.T, strict=False):
        # An interval of a difference of accuracies cannot be wider than all of them.
        table[name] = np.minimum(column, 2.0)
    return table


def _spread_draws(spec: ModelSpec, repeated: bool) -> Iterator[dict[str, float]]:
    """Yield spreads from their priors, evenly over these."""
    # Scrambled: in this many dims plain points are correlated.
    points = qmc.Sobol(len(_SPREADS), rng=0).random(SPREAD_DRAWS)
    for point in points:
        drawn = {
            name: float(distribution(getattr(spec.priors, name)).ppf(u))
            for name, u in zip(_SPREADS, point, strict=True)
        }
        if spec.difficulty.form == "none":
            drawn["sigma_delta"] = 0.0
        if not (repeated and spec.likelihood.has_model_by_item):
            drawn["sigma_eps"] = 0.0
        if spec.ability.twins == "identical":
            drawn["sigma_t"] = drawn["sigma_twin"] = 0.0
        yield drawn


def _standard_errors(
    pairs: Pairs,
    spec: ModelSpec,
    spreads: dict[str, float],
    met: IntArray,
    accuracy: float,
    spillover: bool,
) -> FloatArray:
    """Return standard deviations of the effects, dims (exposed pair, effect)."""
    blocks = list(_blocks(pairs, spec, spreads, spillover))
    sd = np.concatenate([np.broadcast_to(each[4], each[0].shape[1]) for each in blocks])
    theta, beta, rise, hard = (np.hstack([each[k] for each in blocks]) * sd for k in range(4))
    # What one response informs on its log-odds: items differ, and so do repeated trials.
    between = float(np.hypot(spreads["sigma_delta"], spreads["sigma_eps"]))
    steep = accuracy * (1 - accuracy) / float(stretch(between))
    p = accuracy * (1 - accuracy)
    each = pairs.trials * p / (1 + pairs.trials * p * spreads["sigma_eps"] ** 2)
    cells = np.flatnonzero(pairs.items.ravel() > 0)
    dose = pairs.dose.ravel()[:, None]
    level = (theta + (beta + rise) * dose)[cells] * np.sqrt(each * pairs.items.ravel()[cells, None])
    # Within a pair the slope is seen together with how much harder contaminated items are.
    along = beta * (dose > 0) - hard
    within = along * np.sqrt(each * pairs.contrast.ravel()[:, None])
    precision = np.eye(len(sd)) + level.T @ level + within.T @ within
    at = np.ravel_multi_index(met.T, pairs.items.shape)
    effects = [beta[at] * dose[at]]
    if spillover:
        effects += [rise[at] * dose[at], (beta + rise)[at] * dose[at]]
    found = [np.sqrt((e * np.linalg.solve(precision, e.T).T).sum(axis=1)) for e in effects]
    return steep * np.stack(found, axis=1)


def _blocks(
    pairs: Pairs, spec: ModelSpec, spreads: dict[str, float], spillover: bool
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, FloatArray, Any]]:
    """Yield independent effects: how they add to ability, slope, spillover and difficulty; sd."""
    # dims of the four (model × benchmark, effect). Difficulty is that of contaminated items.
    models, benchmarks = pairs.items.shape
    cell = np.arange(models * benchmarks)
    m, b = np.divmod(cell, benchmarks)
    base = pairs.base[m]

    def dummies(labels: IntArray) -> FloatArray:
        return (labels[:, None] == np.unique(labels)).astype(float)

    def block(of: int, matrix: FloatArray, sd: Any) -> tuple[Any, ...]:
        parts = [matrix if k == of else 0.0 * matrix for k in range(4)]
        return *parts, sd

    one = np.ones((len(cell), 1))
    yield block(0, dummies(b), _sd(spec.priors.mu))
    yield block(0, dummies(base), spreads["sigma_a"])
    yield block(0, dummies(base * benchmarks + b), spreads["sigma_theta"])
    if pairs.related:
        yield block(0, dummies(m), spreads["sigma_t"])
        yield block(0, dummies(cell), spreads["sigma_twin"])
    yield block(1, one, _sd(spec.priors.beta_bar))
    for labels, name in ((m, "sigma_bm"), (b, "sigma_bb"), (cell, "sigma_bmb")):
        yield block(1, dummies(labels), spreads[name])
    if spillover and pairs.related:
        share = pairs.share

        def of_groups(labels: IntArray) -> FloatArray:
            return share @ dummies(labels)

        yield block(2, one, _sd(spec.priors.lambda_bar))
        # A spread over what there is one of does not enter; see `bayescontam.model.terms`.
        levels = [len(np.unique(known)) for known in (pairs.group_benchmark, pairs.group_kind)]
        if levels[0] > 1:
            yield block(2, of_groups(pairs.group_benchmark), spreads["sigma_lb"])
        if levels[1] > 1:
            yield block(2, of_groups(pairs.group_kind), spreads["sigma_lk"])
        if share.shape[1] > max(levels):
            yield block(2, share, spreads["sigma_lambda"])
    elif spillover:
        yield block(2, one, _sd(spec.priors.spillover))
    # Items differ in difficulty, and by chance along contamination, too; contaminated items may be
    # harder or easier anyway.
    chance = spreads["sigma_delta"] ** 2 / np.maximum(pairs.item_contrast, 1e-12)
    kappa = 0.0 if spec.contamination.confounding == "none" else _sd(spec.priors.kappa)
    concerned = pairs.item_contrast > 0
    yield block(3, dummies(b)[:, concerned], np.sqrt(chance + kappa**2)[concerned])


def _sd(prior: Any) -> float:
    """Return the standard deviation of a Normal prior, or of the Normal of another's quartiles."""
    if isinstance(prior, Normal):
        return prior.sigma
    low, high = (float(distribution(prior).ppf(q)) for q in (0.25, 0.75))
    return (high - low) / 1.349
