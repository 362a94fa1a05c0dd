"""Items that do not fit: solved by weak models and missed by strong ones, as with a wrong key."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr
from scipy.stats import chi2, false_discovery_control

from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.blocks import BLOCK, runs
from bayescontam.inference.posterior import Draws, response_guess, slopes
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.likelihood import logistic
from bayescontam.model.predictor import contamination_shift, linear_predictor
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.specs.model import ModelSpec

FDR = 0.1
"""False discovery rate at which items are suspects."""
FEWEST_MODELS = 3
"""Models that must have answered an item for it to be judged."""
CONTAMINATED = 0.5
"""Contamination from which the items of a benchmark are also judged together."""
DRAWS = 200
"""Draws that are looked at, at most."""
MOST_NUMBERS = 10_000_000
"""Draws times responses; of larger tables fewer draws are looked at, but at least 20."""
DIFFERENT = 2.0
"""Standard deviations from which a model is named that differs on contaminated items."""
MOST_NAMED, MOST_ITEMS = 3, 20
"""Models and items that a sentence names, at most."""
_AT_ONCE = 100_000
"""Draws times responses that are scored together, if items are scored by blocks."""
_WIDE = 3.0
"""Spread of difficulties, log-odds, where a fit has none."""
_NODES, _WEIGHTS = normal_gauss_hermite(15)


def item_table(
    known: xr.Dataset, benchmark_of_item: NDArray[np.integer], fdr: float
) -> pd.DataFrame:
    """Return item fit as a table, the worst first; see `Fit.item_fit`."""
    names = [name for name in known.data_vars if known[name].dims == ("item",) and name != "group"]
    table = pd.DataFrame({str(name): known[name].to_numpy() for name in names})
    labels = known["benchmark"].to_numpy()[benchmark_of_item]
    table.insert(0, "benchmark", pd.Series(labels, dtype="str"))
    table.insert(1, "item", pd.Series(known["item"].to_numpy(), dtype="str"))
    table["answers"] = table["answers"].astype(int)
    table["suspect"] = table["q_value"] <= fdr
    # Monte Carlo error can order equal p-values by nothing.
    return table.sort_values(["p_value", "z"], kind="stable", ignore_index=True)


def stored_item_fit(tree: xr.DataTree, spec: ModelSpec, fdr: float) -> xr.Dataset:
    """Return what a fit stores of how items fit, or raise an error that says why nothing."""
    if not 0 < fdr < 1:
        raise UsageError(f"fdr: got {fdr:g}; allowed is a number between 0 and 1")
    if "item_fit" not in tree:
        if spec.likelihood.trials == "items":
            reason = "its rows count different items together"
        elif "participant_of_response" in tree["constant_data"]:
            reason = "it has participants, whose answers to an item go together"
        else:
            reason = "an earlier version made it; make the fit again"
        raise FitError(f"this fit has no estimates of single items: {reason}")
    return tree["item_fit"].to_dataset()


def item_sentences(known: xr.Dataset, fdr: float) -> Iterator[str]:
    """Yield how many items do not fit, and whether contaminated ones together do not."""
    q_value = known["q_value"].to_numpy()
    judged, unjudged = int(np.isfinite(q_value).sum()), ""
    if left := len(q_value) - judged:
        unjudged = (
            f" {left:,} could not be judged: fewer than {FEWEST_MODELS} models answered them, or"
            " all or none solved them."
        )
    count = int((q_value <= fdr).sum())
    if not judged:
        yield (
            f"No item could be judged: of each, fewer than {FEWEST_MODELS} models answered it, or"
            " all or none solved it."
        )
    elif count:
        yield (
            f"{count:,} of {judged:,} items do not fit, at a false discovery rate of {fdr:g}: given"
            " how hard they are, weak models solve them more and strong ones less than their"
            f" abilities lead to expect. Look at their answer keys first.{unjudged}"
        )
    else:
        yield (
            f"None of {judged:,} items is solved by weak and missed by strong models beyond chance,"
            f" at a false discovery rate of {fdr:g}.{unjudged}"
        )
    if "contaminated_p" not in known:
        return
    for name in known["benchmark"].to_numpy():
        one = known.sel(benchmark=name)
        p_value, items = float(one["contaminated_p"]), int(one["contaminated_items"])
        if items >= 2 and p_value < 0.01 / known.sizes["benchmark"]:
            yield (
                f"The {items:,} items of {printable(str(name), 60)} that are contaminated by"
                f" {CONTAMINATED:g} or more do not fit as a group (p {_shown(p_value)}): weak"
                " models solve them more and strong ones less than expected. Wrong keys that some"
                " models have memorised look like this."
            )
        yield from _difference(known, name, 0.01 / known.sizes["benchmark"])


def _solved_by_some(solved: FloatArray) -> NDArray[np.bool_]:
    """Return which items some models solved and others did not; the others compare no models."""
    return (solved > 0) & (solved < 1)


def _shown(p_value: float) -> str:
    return "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _difference(known: xr.Dataset, benchmark: str, level: float) -> Iterator[str]:
    """Report models that differ on contaminated items, where less able ones do better."""
    if "difference_p" not in known or not known["difference_p"].sel(benchmark=benchmark) < level:
        return
    data = known.sel(benchmark=benchmark)
    z, ability = data["difference_z"].to_numpy(), data["clean_ability"].to_numpy()
    order = np.argsort(-np.nan_to_num(z))
    more = [m for m in order if z[m] > DIFFERENT]
    less = [m for m in order[::-1] if z[m] < -DIFFERENT]
    if not more or not less or min(ability[more]) >= max(ability[less]):
        return
    models, solved, expected = (
        data[x].to_numpy() for x in ("model", "solved_contaminated", "expected_contaminated")
    )
    shown = "; ".join(
        f"{printable(str(models[m]), 60)} solves {solved[m]:,.0f}, expected {expected[m]:,.1f}"
        for m in more[:MOST_NAMED] + less[:MOST_NAMED]
    )
    chosen = known["group"].to_numpy() == known.get_index("benchmark").get_loc(benchmark)
    chosen &= _solved_by_some(known["solved"].to_numpy())
    names = known["item"].to_numpy()[chosen][np.argsort(known["z"].to_numpy()[chosen])]
    listed = ", ".join(printable(str(name), 30) for name in names[:MOST_ITEMS])
    rest = f" and {len(names) - MOST_ITEMS:,} more" if len(names) > MOST_ITEMS else ""
    yield (
        f"On the {len(names):,} items of {printable(benchmark, 60)} that are contaminated by"
        f" {CONTAMINATED:g} or more, and that some models solved and others did not, models differ"
        f" by more than their abilities explain (p"
        f" {_shown(float(data['difference_p']))}): {shown}. A model that has memorised the keys of"
        " these items gives this pattern; since abler models miss them, the keys may be wrong."
        f" Check the keys of {listed}{rest}."
    )


@dataclass(frozen=True, eq=False)
class Answers:
    """Responses, item by item, and what is expected of them."""

    # dims (item,): first response to each item; responses to an item follow each other
    starts: IntArray
    # correct, trials: dims (response,)
    correct: FloatArray
    trials: FloatArray
    log_odds: FloatArray  # dims (draw, response), on an item of average difficulty
    ability: FloatArray  # dims (draw, response), of the model that answered, log-odds
    guess: FloatArray  # accuracy of blind guessing, ([draw,] response)
    # dims (draw, response): standard deviation of a response's own log-odds, 0 where it has one
    # trial; None where none has any
    spread: FloatArray | None
    difficulty_sd: FloatArray  # dims (draw, item)

    def by_item(self, values: FloatArray) -> FloatArray:
        """Return sums over the responses to each item, dims (…, item)."""
        total: FloatArray = np.add.reduceat(values, self.starts, axis=-1)
        return total

    def spread_out(self, values: FloatArray) -> FloatArray:
        """Return values of items for each of their responses, dims (…, response)."""
        return np.repeat(values, self.sizes, axis=-1)

    @property
    def sizes(self) -> IntArray:
        """Number of responses to each item, dims (item,)."""
        return np.diff(self.starts, append=len(self.correct))


class ItemScores(NamedTuple):
    """How far the answers to items rise with ability beside what the model expects."""

    # score, variance: dims (draw, item): derivative of the log likelihood by the item's
    # discrimination, made independent of its difficulty, and its variance. Negative where weak
    # models solve the item and strong ones do not.
    score: FloatArray
    variance: FloatArray
    p_value: FloatArray  # dims (draw, item): probability of a score that is as low or lower


def score_items(answers: Answers) -> ItemScores:
    """Score each item, draw by draw."""
    # Each item's difficulty is set to its most probable value given its own answers, so that a hard
    # item is no misfit. The tail is a saddlepoint approximation of a sum of independent answers. An
    # effect of a response's own counts as fewer trials, by the correlation that it gives them.
    # Score tests of item fit: Glas (1999), doi:10.1007/BF02294296. Tails: Lugannani & Rice (1980),
    # doi:10.2307/1426607.
    shift = np.zeros(answers.difficulty_sd.shape)
    precision = 1 / answers.difficulty_sd**2
    for _ in range(8):
        gain, known, _, _ = _slope_of(answers, shift)
        shift = shift + np.clip((gain - shift * precision) / (known + precision), -2.0, 2.0)
    mean, slope, trials = _expected(answers, shift)
    weight = slope / (mean * (1 - mean))
    known = trials * weight * slope
    center = answers.by_item(known * answers.ability) / answers.by_item(known)
    arm = weight * (answers.ability - answers.spread_out(center))
    score = answers.by_item(trials * arm * (answers.correct / answers.trials - mean))
    variance = answers.by_item(trials * arm**2 * mean * (1 - mean))
    return ItemScores(score, variance, _lower_tail(answers, score, variance, arm, mean, trials))


def _slope_of(answers: Answers, shift: FloatArray) -> tuple[FloatArray, ...]:
    """Return slope and information of items' difficulties, expected accuracy, and trials."""
    mean, slope, trials = _expected(answers, shift)
    weight = slope / (mean * (1 - mean))
    gain = answers.by_item(trials * weight * (answers.correct / answers.trials - mean))
    return gain, answers.by_item(trials * weight * slope), mean, trials


def _expected(answers: Answers, shift: FloatArray) -> tuple[FloatArray, ...]:
    """Return expected accuracy, its derivative by the log-odds, and independent trials."""
    eta, guess = answers.log_odds + answers.spread_out(shift), answers.guess
    p = logistic(eta)
    slope = p * (1 - p)
    trials = np.broadcast_to(answers.trials, p.shape)
    if answers.spread is not None:
        rows = np.flatnonzero((answers.spread > 0).any(axis=0))
        z = answers.spread[:, rows, None] * _NODES
        nodes, weights = logistic(eta[:, rows, None] + z), _WEIGHTS
        p[:, rows] = nodes @ weights
        slope[:, rows] = (nodes * (1 - nodes)) @ weights
        alike = (nodes**2) @ weights - p[:, rows] ** 2  # variance that an own effect gives
        wide = np.broadcast_to(guess, eta.shape)[:, rows]
        mean = wide + (1 - wide) * p[:, rows]
        alike = (1 - wide) ** 2 * alike / np.clip(mean * (1 - mean), 1e-12, None)
        trials = trials.copy()
        trials[:, rows] = trials[:, rows] / (1 + (trials[:, rows] - 1) * alike)
    mean = np.clip(guess + (1 - guess) * p, 1e-9, 1 - 1e-9)
    return mean, np.maximum((1 - guess) * slope, 1e-12), trials


def _lower_tail(
    answers: Answers,
    score: FloatArray,
    variance: FloatArray,
    arm: FloatArray,
    mean: FloatArray,
    trials: FloatArray,
) -> FloatArray:
    """Return the probability of a score as low or lower, dims (draw, item)."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    arm = arm / answers.spread_out(sd)
    target = score / sd
    tilt = np.zeros(score.shape)
    for step in range(9):
        lean = arm * answers.spread_out(tilt)
        odds = mean / (1 - mean) * np.exp(np.clip(lean, -40.0, 40.0))
        tilted = odds / (1 + odds)
        rise = answers.by_item(trials * arm**2 * tilted * (1 - tilted))
        if step < 8:
            gap = answers.by_item(trials * arm * (tilted - mean)) - target
            move = gap / np.maximum(rise, 1e-3)
            tilt = np.clip(tilt - np.clip(move, -2.0, 2.0), -12.0, 12.0)
    grown = np.log1p(mean * np.expm1(np.clip(lean, -40.0, 40.0))) - mean * lean
    height = np.maximum(tilt * target - answers.by_item(trials * grown), 0.0)
    root = np.sign(tilt) * np.sqrt(2 * height)
    other = tilt * np.sqrt(np.maximum(rise, 1e-12))
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = 1 / root - 1 / other
    # Both are near zero in the middle, where the Normal is exact enough.
    gap = np.where(np.abs(root) > 0.02, gap, 0.0)
    density = np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi)
    tail = ndtr(root) + density * gap
    # No tail is larger than its Chernoff bound, which the last pattern of all attains.
    bound = np.exp(-height)
    return np.clip(tail, np.where(tilt > 0, 1 - bound, 0.0), np.where(tilt < 0, bound, 1.0))


class ModelScores(NamedTuple):
    """Answers of models to a group of items, beside what abilities lead to expect, (model,)."""

    solved: FloatArray  # correct trials
    expected: FloatArray
    z: FloatArray  # their difference in standard deviations; NaN without answers
    p_value: float  # of a difference between models as large; NaN where nothing can be compared


class ComparedModels:
    """Models on items that some answers solve, by draws of log-odds as on clean items.

    Of each item as many answers are expected to be correct as are. What is left are differences
    between models, with the variance of answers given that number, plus that of the abilities over
    draws. Difficulties are spread around the mean of the group, which is free.
    """

    def __init__(self, model: IntArray, n_models: int) -> None:
        self._model, self._n_models = model, n_models  # model: of each response
        self._each: list[FloatArray] = []  # correct answers expected of models, draw by draw
        self._own = np.zeros(len(model))
        self._last: Answers | None = None  # of which what is the same for all draws is used

    def add(self, answers: Answers) -> None:
        """Add some draws of the answers to the items."""
        mean, trials = _given_solved(answers)
        self._each += [
            np.bincount(self._model, row, self._n_models) for row in answers.trials * mean
        ]
        self._own += (answers.trials**2 * mean * (1 - mean) / trials).sum(axis=0)
        self._last = answers

    def scores(self) -> ModelScores:
        """Compare the models."""
        answers, model, n_models = self._last, self._model, self._n_models
        assert answers is not None
        # Given their sum, k answers of equal probability vary by k / (k - 1) of what the
        # projection of independent ones leaves.
        own = self._own * answers.spread_out(answers.sizes / np.maximum(answers.sizes - 1, 1))
        own = own / len(self._each)
        item = np.repeat(np.arange(len(answers.starts)), answers.sizes)
        share = csr_array((own, (item, model)), shape=(len(answers.starts), n_models))
        given = (share.T @ (share.multiply(1 / answers.by_item(own)[:, None]))).toarray()
        solved = np.bincount(model, answers.correct, n_models)
        expected = np.mean(self._each, axis=0)
        variance = np.diag(np.bincount(model, own, n_models)) - given
        variance = variance + np.cov(np.transpose(self._each))
        answered = np.bincount(model, minlength=n_models) > 0
        gap = np.where(answered, solved - expected, np.nan)
        z = gap / np.sqrt(np.maximum(np.diag(variance), 1e-12))
        if answered.sum() < FEWEST_MODELS or len(answers.starts) < 2:
            return ModelScores(solved, expected, z, np.nan)
        inner = variance[np.ix_(answered, answered)]
        distance = gap[answered] @ np.linalg.pinv(inner, hermitian=True) @ gap[answered]
        freedom = np.linalg.matrix_rank(inner, hermitian=True)
        return ModelScores(solved, expected, z, float(chi2.sf(distance, freedom)))


def _given_solved(answers: Answers) -> tuple[FloatArray, FloatArray]:
    """Return expected accuracy given how many answers solve each item, and independent trials."""
    shift = np.zeros(answers.difficulty_sd.shape)
    precision = 1 / answers.difficulty_sd**2
    for _ in range(20):
        gain, known, mean, trials = _slope_of(answers, shift)
        far = shift - shift.mean(axis=-1, keepdims=True)
        shift = shift + np.clip((gain - far * precision) / (known + precision), -2.0, 2.0)
    # Independent answers, given their sum, have these odds times one factor.
    odds, tilt = mean / (1 - mean), np.zeros(shift.shape)
    for _ in range(12):
        tilted = odds * np.exp(answers.spread_out(tilt))
        mean = tilted / (1 + tilted)
        gap = answers.by_item(answers.correct - answers.trials * mean)
        slope = answers.by_item(answers.trials * mean * (1 - mean))
        tilt = np.clip(tilt + np.clip(gap / np.maximum(slope, 1e-12), -2.0, 2.0), -20.0, 20.0)
    return mean, trials


def item_fit(draws: Draws, built: BuiltModel) -> xr.Dataset | None:
    """Judge how every item fits, dims (item,); None where rows count different items.

    None where people of one model answered, too: their answers to an item go together, which what
    is expected here does not take into account.
    """
    # Answers are compared with what a model's ability leads to expect, plus what contamination
    # lifts: where a slope is negative it counts as zero, since it may be the misfit itself. The
    # false discovery rate is over all judged items: Benjamini & Hochberg (1995),
    # doi:10.1111/j.2517-6161.1995.tb02031.x.
    design = built.design
    if built.spec.likelihood.trials == "items" or design.people is not None:
        return None
    draws = draws.thinned(max(20, min(DRAWS, MOST_NUMBERS // len(design))))
    order = np.lexsort((draws.theta.mean(axis=0)[design.model_unit], design.item))
    starts = np.flatnonzero(np.diff(design.item[order], prepend=-1))
    together = _contaminated(design)
    totals = np.zeros((2, len(starts)))
    pooled = np.zeros((2, len(draws), len(design.benchmarks)))
    observed = []
    for items in runs(starts, len(order), BLOCK):
        own, done = _ItemRows.of(built, order, starts, items), 0
        observed.append(_observed(own.design, own.starts))
        for part in draws.chunks(own.design, _AT_ONCE):
            scores = score_items(own.answers(part))
            z = scores.score / np.sqrt(np.maximum(scores.variance, 1e-12))
            totals[:, items] += z.sum(axis=0), scores.p_value.sum(axis=0)
            if together is not None:
                each = pooled[:, done : done + len(part)]
                each += scores.score @ together[items], scores.variance @ together[items]
            done += len(part)
    data = {name: np.concatenate([each[name] for each in observed]) for name in observed[0]}
    solved = data["solved"]
    judged = (data["answers"] >= FEWEST_MODELS) & (solved > 0) & (solved < 1)
    z, p_value = np.where(judged, totals / len(draws), np.nan)
    q_value = np.full(len(p_value), np.nan)
    if judged.any():
        q_value[judged] = false_discovery_control(p_value[judged])
    data |= {"z": z, "p_value": p_value, "q_value": q_value}
    found: dict[str, Any] = {name: ("item", values) for name, values in data.items()}
    if together is not None:
        each = pooled[0] / np.sqrt(pooled[1] + 1e-12)
        found["contaminated_items"] = ("benchmark", (together > 0).sum(axis=0))
        found["contaminated_z"] = ("benchmark", each.mean(axis=0))
        found["contaminated_p"] = ("benchmark", ndtr(each).mean(axis=0))
        if draws.beta is not None:
            found |= _differences(draws, built, together > 0, order, starts, solved)
    names = ("benchmark", "item", "model") if "difference_z" in found else ("benchmark", "item")
    return xr.Dataset(found, {name: design.coords[name] for name in names})


def _differences(
    draws: Draws,
    built: BuiltModel,
    together: NDArray[np.bool_],
    order: IntArray,
    starts: IntArray,
    solved: FloatArray,
) -> dict[str, Any]:
    """Compare models on the contaminated items of each benchmark, with abilities on clean ones."""
    design = built.design
    shape, dims = (len(design.models), len(design.benchmarks)), ("model", "benchmark")
    cell = design.model * shape[1] + design.benchmark
    clean = np.zeros(len(design))
    for items in runs(starts, len(order), BLOCK):
        own = _ItemRows.of(built, order, starts, items)
        for part in draws.chunks(own.design, _AT_ONCE):
            clean[own.rows] += own.log_odds(part, lifted=False).sum(axis=0) / len(draws)
    count, total = (np.bincount(cell, each, np.prod(shape)) for each in (None, clean))
    ability = np.divide(total, count, where=count > 0, out=np.full(len(count), np.nan))
    scores = np.full((3, *shape), np.nan)
    p_value = np.full(shape[1], np.nan)
    for b in range(shape[1]):
        items = np.flatnonzero(together[:, b] & _solved_by_some(solved))
        if not len(items):
            continue
        own = _ItemRows.of(built, order, starts, items)
        comparison = ComparedModels(own.design.model, shape[0])
        for part in draws.chunks(own.design, _AT_ONCE):
            comparison.add(own.answers(part, lifted=False))
        found = comparison.scores()
        scores[:, :, b], p_value[b] = found[:3], found.p_value
    names = ("solved_contaminated", "expected_contaminated", "difference_z")
    return {
        **{name: (dims, values) for name, values in zip(names, scores, strict=True)},
        "clean_ability": (dims, ability.reshape(shape)),
        "difference_p": ("benchmark", p_value),
        # Benchmark in whose group an item is; -1: none.
        "group": ("item", np.where(together.any(axis=1), together.argmax(axis=1), -1)),
    }


@dataclass(frozen=True, eq=False)
class _ItemRows:
    """The responses to some items, which follow each other item by item."""

    built: BuiltModel
    design: Design  # of these responses and items
    rows: IntArray  # positions of these responses in the table
    starts: IntArray  # dims (item,): first of these responses to each of these items

    @classmethod
    def of(
        cls, built: BuiltModel, order: IntArray, starts: IntArray, items: IntArray
    ) -> "_ItemRows":
        """Take items out of the responses in an order in which items start at `starts`."""
        sizes = np.diff(starts, append=len(order))[items]
        own = np.cumsum(sizes) - sizes
        rows = order[np.repeat(starts[items] - own, sizes) + np.arange(sizes.sum())]
        item = np.repeat(np.arange(len(items)), sizes)
        return cls(built, built.design.subset(rows, item), rows, own)

    def answers(self, draws: Draws, lifted: bool = True) -> Answers:
        """Return the answers, and what some draws lead to expect of them."""
        design, spread = self.design, None
        if draws.sigma_eps is not None:
            spread = np.zeros((len(draws), len(design)))
            place = self.rows - self.built.design.n_single
            wide = draws.sigma_eps.shape[1] > 1
            own = draws.sigma_eps[:, place[place >= 0]] if wide else draws.sigma_eps
            spread[:, place >= 0] = own
        sd = np.full((len(draws), len(self.starts)), _WIDE)
        if draws.sigma_delta is not None:
            shared = np.broadcast_to(draws.sigma_delta, (len(draws), len(design.benchmarks)))
            sd = np.maximum(shared[:, design.benchmark_of_item], 0.1)
        return Answers(
            self.starts,
            design.n_correct.astype(float),
            design.n_trials.astype(float),
            self.log_odds(draws, lifted),
            draws.theta[:, design.model_unit],
            response_guess(draws, self.built.spec, design),
            spread,
            sd,
        )

    def log_odds(self, draws: Draws, lifted: bool = True) -> FloatArray:
        """Return log-odds on clean items of average difficulty, never lowered by contamination."""
        design, exposure = self.design, self.built.design.exposure
        average = np.zeros((len(draws), len(design.items)))
        draws = replace(draws, delta=average, alpha=None, eta=None)
        eta: FloatArray = linear_predictor(draws.effects, design)
        if draws.beta is None:
            return eta
        least = design.contamination_range()[0][design.benchmark]
        clean = eta + contamination_shift(draws.effects, design, least)
        if not lifted:
            return clean
        if draws.node is not None and exposure is not None:
            eta = eta + slopes(draws, design) * exposure.shifts(draws.node, self.rows)
        return np.maximum(eta, clean)


def _observed(design: Design, starts: IntArray) -> dict[str, FloatArray]:
    """Return what is seen of each item; responses are ordered by item, then by ability."""
    count = np.diff(starts, append=len(design))
    place = np.arange(len(design)) - np.repeat(starts, count)
    size = np.repeat(count, count)
    half = size // 2
    score = design.n_correct / design.n_trials
    parts = {
        "solved": np.ones(len(design), dtype=bool),
        "solved_by_weaker": place < half,
        "solved_by_stronger": place >= size - half,
    }
    found: dict[str, FloatArray] = {"answers": count.astype(float)}
    for name, rows in parts.items():
        members = np.add.reduceat(rows * 1.0, starts)
        total = np.add.reduceat(rows * score, starts)
        found[name] = np.divide(total, members, where=members > 0, out=np.full(len(count), np.nan))
    if design.contamination is not None:
        found["contamination"] = np.add.reduceat(design.contamination, starts) / count
    return found


def _contaminated(design: Design) -> FloatArray | None:
    """Return which items are contaminated, dims (item, benchmark); None without any."""
    if design.contamination is None:
        return None
    total = np.bincount(design.item, design.contamination, minlength=len(design.items))
    mean = total / np.bincount(design.item, minlength=len(design.items))
    chosen = np.zeros((len(design.items), len(design.benchmarks)))
    rows = np.flatnonzero(mean >= CONTAMINATED)
    chosen[rows, design.benchmark_of_item[rows]] = 1.0
    return chosen
