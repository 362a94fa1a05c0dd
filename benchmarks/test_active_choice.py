"""Pairs that inform most against pairs chosen at random: width of the interval of prevalence.

By ``make bench-all``, and with few scans by the tests of ``evidence``. Curves are drawn from the
prior, scans and verdicts from the curve. Posteriors are populations of draws that are weighted,
resampled and moved whenever verdicts arrive (Chopin 2002, doi:10.1093/biomet/89.3.539), with a
likelihood written here anew: nothing is compiled.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_expit
from scipy.stats import beta, norm

from bayescontam.evidence.active import VerdictGains
from bayescontam.evidence.covariates import count_interval
from bayescontam.evidence.curve import CurveDraws
from bayescontam.evidence.curve_model import effects, segments
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Matched
from bayescontam.specs.registry import load_curve

SCANS = 50
ITEMS, NEAR = 40, 10
"""Items of a scan, and documents near each."""
FIRST, BATCH, LAST = 30, 15, 120
"""Verdicts at random before anything is chosen, of a batch, and in all."""
PARTICLES, MOVES = 250, 12
BINS = 10
SPEC = load_curve("monotone")
SEGMENTS = len(SPEC.shape.knots) + 1
COORDINATES = 8 + SEGMENTS
"""All standard Normal in the prior: four of the lines, two spreads, two errors, and bends."""


def curves(z: np.ndarray) -> tuple[CurveDraws, np.ndarray, np.ndarray]:
    """Return curves, sensitivities and specificities at standard Normal coordinates."""
    priors: Any = SPEC.priors  # the shipped families: Normal, log-Normal, half-Normal
    people = SPEC.judges.people
    lines = {}
    for k, (suffix, line) in enumerate((("", priors.matches), ("_open", priors.items))):
        threshold, steepness = line.threshold, line.steepness
        lines[f"threshold{suffix}"] = threshold.mu + threshold.sigma * z[:, [2 * k]]
        log = steepness.mu + steepness.sigma * z[:, [2 * k + 1]]
        lines[f"steepness{suffix}"] = np.exp(log)
    bend = z[:, 8:] - z[:, 8:].mean(axis=1, keepdims=True)
    draws = CurveDraws(
        **lines,
        source_shift=np.zeros((len(z), 1)),
        relative=np.exp(priors.sigma_shape.sigma * abs(z[:, [4]]) * bend),
        sigma_item=priors.sigma_item.sigma * abs(z[:, [5]]),
        edges=segments(SPEC),
        crowding=SPEC.shape.crowding,
    )
    hit, clear = (
        beta.ppf(norm.cdf(z[:, k]), prior.alpha, prior.beta)
        for k, prior in ((6, people.sensitivity), (7, people.specificity))
    )
    return draws, hit, clear


@dataclass
class MadeScan:
    """Items with documents near them, which documents are duplicates, and all verdicts."""

    cosine: np.ndarray  # (item, place)
    duplicate: np.ndarray
    called: np.ndarray
    order: np.ndarray = field(repr=False)  # pairs as `choose_pairs` takes them


def make_scan(rng: np.random.Generator) -> MadeScan:
    best = rng.uniform(0.45, 0.95, ITEMS)
    fall = np.sort(rng.uniform(0.0, 0.25, (ITEMS, NEAR - 1)), axis=1)
    cosine = np.column_stack([best, best[:, None] - fall])
    draws, hit, clear = curves(rng.standard_normal((1, COORDINATES)))
    opened = rng.random(ITEMS) < expit(draws.log_odds_open(best, 0)[0])
    own = draws.sigma_item[0, 0] * rng.standard_normal(ITEMS)
    place = np.arange(1.0, NEAR + 1)
    level = np.stack([draws.log_odds(row, 0, 0, place)[0] for row in cosine])
    duplicate = (rng.random(cosine.shape) < expit(level + own[:, None])) & opened[:, None]
    called = rng.random(cosine.shape) < np.where(duplicate, hit[0], 1 - clear[0])
    # In turn from bins of equal width, those of nearest documents apart, in each at random.
    flat = cosine.ravel()
    share = (flat - flat.min()) / np.ptp(flat)
    bins = np.minimum((share * BINS).astype(int), BINS - 1)
    nearest = np.arange(len(flat)) % NEAR == 0
    rows = pd.DataFrame({"bin": bins, "nearest": nearest, "draw": rng.random(len(flat))})
    rows = rows.sort_values("draw")
    rows["turn"] = rows.groupby(["bin", "nearest"]).cumcount()
    return MadeScan(cosine, duplicate, called, rows.sort_values(["turn", "draw"]).index.to_numpy())


def log_likelihood(z: np.ndarray, scan: MadeScan, judged: np.ndarray) -> np.ndarray:
    """Return the log likelihood of the verdicts on judged pairs, dims (particle,)."""
    draws, hit, clear = curves(z)
    judged = np.sort(judged)
    item, place = np.divmod(judged, NEAR)
    level = draws.log_odds(scan.cosine.ravel()[judged], 0, 0, place + 1.0)
    called = scan.called.ravel()[judged]
    if_one, if_none = (np.where(called, p[:, None], 1 - p[:, None]) for p in (hit, 1 - clear))
    effect, log_weight = effects(NEAR)
    own = (draws.sigma_item * effect)[:, :, None]
    p = expit(level[:, None, :] + own)
    joint = np.log(p * if_one[:, None] + (1 - p) * if_none[:, None])
    items, first = np.unique(item, return_index=True)
    either = np.add.reduceat(joint, first, axis=2) + log_weight[:, None]
    most = either.max(axis=1)
    either = most + np.log(np.exp(either - most[:, None]).sum(axis=1))
    closed = np.add.reduceat(np.log(if_none), first, axis=1)
    open_ = draws.log_odds_open(scan.cosine[items, 0], 0)
    total: np.ndarray = np.logaddexp(log_expit(open_) + either, log_expit(-open_) + closed).sum(1)
    return total


class Population:
    """Equally weighted draws from the posterior given the verdicts so far."""

    def __init__(self, scan: MadeScan, rng: np.random.Generator) -> None:
        self.scan, self.rng = scan, rng
        self.z = rng.standard_normal((PARTICLES, COORDINATES))
        self.judged = np.array([], dtype=int)
        self._scale = 0.5

    def learn(self, pairs: np.ndarray) -> None:
        """Add verdicts, in steps that each leave half of the draws effective."""
        before = self._log(self.z, self.judged)
        earlier, self.judged = self.judged, np.concatenate([self.judged, pairs])
        power, now = 0.0, self._log(self.z, self.judged)
        while power < 1:
            step = self._step(now - before, 1 - power)
            power = min(power + step, 1.0)
            weight = np.exp(step * (now - before - (now - before).max()))
            at = self.rng.choice(PARTICLES, PARTICLES, p=weight / weight.sum())
            self.z, before, now = self.z[at], before[at], now[at]
            for _ in range(MOVES):
                before, now = self._move(earlier, power, before, now)

    def _step(self, gain: np.ndarray, most: float) -> float:
        def effective(step: float) -> float:
            weight = np.exp(step * (gain - gain.max()))
            return float(weight.sum() ** 2 / (weight**2).sum())

        low, high = 0.0, most
        if effective(high) >= PARTICLES / 2:
            return high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if effective(middle) >= PARTICLES / 2 else (low, middle)
        return low

    def _log(self, z: np.ndarray, judged: np.ndarray) -> np.ndarray:
        return log_likelihood(z, self.scan, judged) if len(judged) else np.zeros(len(z))

    def _move(
        self, earlier: np.ndarray, power: float, before: np.ndarray, now: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        root = np.linalg.cholesky(np.cov(self.z.T) + 1e-6 * np.eye(self.z.shape[1]))
        step = self._scale * self.rng.standard_normal(self.z.shape) @ root.T
        moved = self.z + step
        there = self._log(moved, self.judged)
        there_before = self._log(moved, earlier) if power < 1 else there
        target = power * now + (1 - power) * before - (self.z**2).sum(axis=1) / 2
        new = power * there + (1 - power) * there_before - (moved**2).sum(axis=1) / 2
        taken = np.log(self.rng.random(PARTICLES)) < new - target
        self._scale *= np.exp(0.3 * (taken.mean() - 0.25))
        self.z = np.where(taken[:, None], moved, self.z)
        return np.where(taken, there_before, before), np.where(taken, there, now)

    def matched(self) -> tuple[CurveDraws, list[Matched]]:
        """Return the curves, and the matches of every item with their verdicts."""
        draws, hit, clear = curves(self.z)
        blank = np.array([])
        rows = []
        for i, cosine in enumerate(self.scan.cosine):
            judged = np.isin(i * NEAR + np.arange(NEAR), self.judged)
            called = self.scan.called[i, judged]
            likely = [np.where(called, p[:, None], 1 - p[:, None]) for p in (hit, 1 - clear)]
            rows.append(
                Matched(
                    0, NEAR, cosine, np.zeros(NEAR, int), np.ones((NEAR, 1), int), cosine[0],
                    judged, np.log(np.stack(likely)), np.full(NEAR, -1),
                    np.arange(1.0, NEAR + 1), blank, blank.astype(int), blank, blank,
                )
            )  # fmt: skip
        return draws, rows

    def exposures(self) -> list[ItemExposure]:
        draws, rows = self.matched()
        return [ItemExposure(draws, row) for row in rows]

    def none(self, exposures: list[ItemExposure]) -> np.ndarray:
        every, rest = np.ones(NEAR, bool), np.ones(0, bool)
        return np.stack([exposure.none(every, rest) for exposure in exposures], axis=1)

    def informative(self, count: int) -> np.ndarray:
        """Return the pairs that inform most on prevalence."""
        exposures = self.exposures()
        chances = [(each.weight, each.probability) for each in exposures]
        duplicate = np.concatenate([np.einsum("sh,shm->sm", w, p) for w, p in chances], axis=1)
        offered = np.setdiff1d(np.arange(ITEMS * NEAR), self.judged)

        def both(candidate: int) -> tuple[np.ndarray, np.ndarray]:
            item, place = divmod(int(offered[candidate]), NEAR)
            others = np.flatnonzero(offered // NEAR == item)
            weight, p = chances[item]
            own = weight * p[:, :, place]
            return others, np.einsum("sh,shm->sm", own, p[:, :, offered[others] % NEAR])

        _, hit, clear = curves(self.z)
        gains = VerdictGains(
            self.none(exposures), np.full((1, ITEMS), 1 / ITEMS), offered // NEAR,
            duplicate[:, offered], (hit, clear), both,
        )  # fmt: skip
        return offered[gains.choose(count)]

    def interval(self) -> dict[str, float]:
        """Return the share of items with a duplicate: interval, width, whether it holds it."""
        none = np.repeat(self.none(self.exposures()), 20, axis=0)
        found = (self.rng.random(none.shape) >= none).sum(axis=1)
        low, high = count_interval(found, 0.95) / ITEMS
        true = self.scan.duplicate.any(axis=1).mean()
        return {
            "verdicts": len(self.judged), "width": high - low, "sd": found.std() / ITEMS,
            "covered": low - 1e-9 <= true <= high + 1e-9, "error": found.mean() / ITEMS - true,
        }  # fmt: skip


def compare(scans: Iterable[int], seed: int = 1, last: int = LAST) -> pd.DataFrame:
    """Return one row for each scan, way of choosing and number of verdicts."""
    rows = []
    for k in scans:
        rng = np.random.default_rng([seed, k])
        scan = make_scan(rng)
        first = Population(scan, rng)
        first.learn(scan.order[:FIRST])
        for way in ("random", "active"):
            population = copy(first)
            rows.append({"scan": k, "way": way} | population.interval())
            while len(population.judged) < last:
                left = scan.order[~np.isin(scan.order, population.judged)]
                more = left[:BATCH] if way == "random" else population.informative(BATCH)
                population.learn(more)
                rows.append({"scan": k, "way": way} | population.interval())
    return pd.DataFrame(rows)


def needed(table: pd.DataFrame, way: str, width: float) -> float:
    """Return how many verdicts make intervals that narrow on average, interpolated."""
    widths = table[table["way"] == way].groupby("verdicts")["width"].mean()
    fallen = np.minimum.accumulate(widths.to_numpy())
    return float(np.interp(-width, -fallen, widths.index.to_numpy(float)))


@pytest.mark.timeout(14_400)
def test_active_choice_needs_fewer_verdicts() -> None:
    table = compare(range(SCANS))
    means = table.groupby(["verdicts", "way"])[["width", "sd", "covered", "error"]].mean()
    print("\n" + means.unstack("way").round(3).to_string())
    random = table[(table["way"] == "random") & (table["verdicts"] == LAST)]["width"].mean()
    verdicts = needed(table, "active", random)
    print(f"{verdicts:.0f} chosen verdicts narrow intervals as far as {LAST} at random")
    assert verdicts <= 0.7 * LAST
    # Intervals of one scan are alike: as many of them count as there are scans.
    covered = table.groupby("way")["covered"].mean()
    assert (covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / SCANS)).all()
