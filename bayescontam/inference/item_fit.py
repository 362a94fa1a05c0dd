"""Items that do not fit: solved by weak models and missed by strong ones.

An item whose key is wrong is solved by weak models, and by those that have memorised the key,
and missed by strong ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import false_discovery_control

from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.posterior import Draws, exposed, response_guess
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.likelihood import logistic
from bayescontam.model.predictor import contamination_shift, linear_predictor

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
_AT_ONCE = 500_000
_WIDE = 3.0
"""Spread of difficulties, log-odds, where a fit has none."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def item_table(
    known: xr.Dataset, benchmark_of_item: NDArray[np.integer], fdr: float
) -> pd.DataFrame:
    """Return item fit as a table, the worst first; see `Fit.item_fit`."""
    names = [name for name in known.data_vars if known[name].dims == ("item",)]
    table = pd.DataFrame({str(name): known[name].to_numpy() for name in names})
    labels = known["benchmark"].to_numpy()[benchmark_of_item]
    table.insert(0, "benchmark", pd.Series(labels, dtype="str"))
    table.insert(1, "item", pd.Series(known["item"].to_numpy(), dtype="str"))
    table["answers"] = table["answers"].astype(int)
    table["suspect"] = table["q_value"] <= fdr
    # Monte Carlo error can order equal p-values by nothing.
    return table.sort_values(["p_value", "z"], kind="stable", ignore_index=True)


def item_sentences(known: xr.Dataset, fdr: float) -> Iterator[str]:
    """Say how many items do not fit, and whether contaminated ones together do not."""
    q_value = known["q_value"].to_numpy()
    judged = int(np.isfinite(q_value).sum())
    left = len(q_value) - judged
    unjudged = (
        f" {left:,} could not be judged: fewer than {FEWEST_MODELS} models answered them, or all"
        " or none solved them."
        if left
        else ""
    )
    count = int((q_value <= fdr).sum())
    if count:
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
            shown = "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"
            yield (
                f"The {items:,} items of {printable(str(name), 60)} that are contaminated by"
                f" {CONTAMINATED:g} or more do not fit as a group (p {shown}): weak models solve"
                " them more and strong ones less than expected. Wrong keys that some models have"
                " memorised look like this."
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
        sizes = np.diff(self.starts, append=len(self.correct))
        return np.repeat(values, sizes, axis=-1)


@dataclass(frozen=True, eq=False)
class ItemScores:
    """How far the answers to items rise with ability beside what the model expects."""

    # score, variance: dims (draw, item): derivative of the log likelihood by the item's
    # discrimination, made independent of its difficulty, and its variance. Negative where weak
    # models solve the item and strong ones do not.
    score: FloatArray
    variance: FloatArray
    p_value: FloatArray  # dims (draw, item): probability of a score that is as low or lower


def score_items(answers: Answers) -> ItemScores:
    """Score each item, draw by draw.

    Each item's difficulty is set to its most probable value given its own answers, so that
    a hard item is no misfit. The tail is a saddlepoint approximation of a sum of independent
    answers. An effect of a response's own counts as fewer trials, by the correlation that it
    gives them.

    Score tests of item fit: Glas (1999), doi:10.1007/BF02294296. Tails: Lugannani & Rice
    (1980), doi:10.2307/1426607.
    """
    shift = np.zeros(answers.difficulty_sd.shape)
    precision = 1 / answers.difficulty_sd**2
    for _ in range(8):
        mean, slope, trials = _expected(answers, shift)
        weight = slope / (mean * (1 - mean))
        gain = answers.by_item(trials * weight * (answers.correct / answers.trials - mean))
        known = answers.by_item(trials * weight * slope) + precision
        shift = shift + np.clip((gain - shift * precision) / known, -2.0, 2.0)
    mean, slope, trials = _expected(answers, shift)
    weight = slope / (mean * (1 - mean))
    known = trials * weight * slope
    center = answers.by_item(known * answers.ability) / answers.by_item(known)
    arm = weight * (answers.ability - answers.spread_out(center))
    score = answers.by_item(trials * arm * (answers.correct / answers.trials - mean))
    variance = answers.by_item(trials * arm**2 * mean * (1 - mean))
    return ItemScores(score, variance, _lower_tail(answers, score, variance, arm, mean, trials))


def _expected(answers: Answers, shift: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return expected accuracy, its derivative by the log-odds, and independent trials."""
    eta, guess = answers.log_odds + answers.spread_out(shift), answers.guess
    p = logistic(eta)
    slope = p * (1 - p)
    trials = np.broadcast_to(answers.trials, p.shape)
    if answers.spread is not None:
        rows = np.flatnonzero((answers.spread > 0).any(axis=0))
        z = answers.spread[:, rows, None] * _NODES
        nodes, weights = logistic(eta[:, rows, None] + z), _WEIGHTS / _WEIGHTS.sum()
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


def item_fit(draws: Draws, built: BuiltModel) -> xr.Dataset | None:
    """Judge how every item fits.

    Dims (item,).

    Answers are compared with what a model's ability leads to expect, plus what contamination
    lifts: where a slope is negative it counts as zero, since it may be the misfit itself.
    The false discovery rate is that of Benjamini & Hochberg over all judged items.

    Benjamini & Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.
    """
    design = built.design
    if built.spec.likelihood.trials == "items":
        return None
    draws = draws.thinned(max(20, min(DRAWS, MOST_NUMBERS // len(design))))
    order = np.lexsort((draws.theta.mean(axis=0)[design.model_unit], design.item))
    starts = np.flatnonzero(np.diff(design.item[order], prepend=-1))
    data = _observed(design, order, starts)
    totals, weight, pooled = np.zeros((2, len(starts))), 0, []
    together = _contaminated(design)
    for part in draws.chunks(design, _AT_ONCE):
        scores = score_items(_answers(part, built, order, starts))
        z = scores.score / np.sqrt(np.maximum(scores.variance, 1e-12))
        totals += z.sum(axis=0), scores.p_value.sum(axis=0)
        weight += len(part)
        if together is not None:
            pooled.append(scores.score @ together / np.sqrt(scores.variance @ together + 1e-12))
    solved = data["solved"]
    judged = (data["answers"] >= FEWEST_MODELS) & (solved > 0) & (solved < 1)
    z, p_value = np.where(judged, totals / weight, np.nan)
    q_value = np.full(len(p_value), np.nan)
    if judged.any():
        q_value[judged] = false_discovery_control(p_value[judged])
    data |= {"z": z, "p_value": p_value, "q_value": q_value}
    found: dict[str, Any] = {name: ("item", values) for name, values in data.items()}
    if together is not None:
        each = np.concatenate(pooled)
        found["contaminated_items"] = ("benchmark", (together > 0).sum(axis=0))
        found["contaminated_z"] = ("benchmark", each.mean(axis=0))
        found["contaminated_p"] = ("benchmark", ndtr(each).mean(axis=0))
    coords = {name: design.coords[name] for name in ("benchmark", "item")}
    return xr.Dataset(found, coords)


def _answers(draws: Draws, built: BuiltModel, order: IntArray, starts: IntArray) -> Answers:
    design = built.design
    guess = response_guess(draws, built.spec, design)
    spread = None
    if draws.sigma_eps is not None:
        spread = np.zeros((len(draws), len(design)))
        spread[:, design.n_single :] = draws.sigma_eps
        spread = spread[:, order]
    sd = np.full((len(draws), len(starts)), _WIDE)
    if draws.sigma_delta is not None:
        shared = np.broadcast_to(draws.sigma_delta, (len(draws), len(design.benchmarks)))
        sd = np.maximum(shared[:, design.benchmark_of_item], 0.1)
    return Answers(
        starts,
        design.n_correct[order].astype(float),
        design.n_trials[order].astype(float),
        _log_odds(draws, design)[:, order],
        draws.theta[:, design.model_unit[order]],
        guess[..., order],
        spread,
        sd,
    )


def _log_odds(draws: Draws, design: Design) -> FloatArray:
    """Return log-odds on items of average difficulty, lifted by contamination, never lowered."""
    average = np.zeros((len(draws), len(design.items)))
    draws = replace(draws, delta=average, alpha=None, eta=None)
    eta: FloatArray = linear_predictor(draws.effects, design)
    if draws.beta is None:
        return eta
    least = design.contamination_range()[0][design.benchmark]
    clean = eta + contamination_shift(draws.effects, design, least)
    return np.maximum(exposed(draws, design, eta), clean)


def _observed(design: Design, order: IntArray, starts: IntArray) -> dict[str, FloatArray]:
    """Return what is seen of each item; responses are ordered by item, then by ability."""
    count = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, count)
    size = np.repeat(count, count)
    half = size // 2
    score = (design.n_correct / design.n_trials)[order]
    parts = {
        "solved": np.ones(len(order), dtype=bool),
        "solved_by_weaker": place < half,
        "solved_by_stronger": place >= size - half,
    }
    found: dict[str, FloatArray] = {"answers": count.astype(float)}
    for name, rows in parts.items():
        members = np.add.reduceat(rows * 1.0, starts)
        total = np.add.reduceat(rows * score, starts)
        found[name] = np.divide(total, members, where=members > 0, out=np.full(len(count), np.nan))
    if design.contamination is not None:
        found["contamination"] = np.add.reduceat(design.contamination[order], starts) / count
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
