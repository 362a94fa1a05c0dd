"""Numbers of chunks near an item, of which a part was sampled, against the whole."""

from typing import Any

import numpy as np
import pytest

from bayescontam.evidence.sampled_counts import STEPS, SampledCounts

WEIGHT, FOUND, LOWEST, BINS = 30, 100, 350, 101


def counts_of(steps: Any, counted: Any, estimated: Any, found: int, **more: Any) -> SampledCounts:
    counted, estimated = np.asarray(counted, float), np.asarray(estimated, float)
    options = {"lowest": LOWEST, "missed": 0.0, "weight": WEIGHT, "bins": BINS} | more
    whole = np.asarray(steps, np.int64), counted + estimated, estimated
    return SampledCounts.of(*whole, found=found, **options)


def sampled(seed: int, missed: float = 0.0) -> tuple[np.ndarray, SampledCounts]:
    """Return the true numbers in bins, of an item with a tail of its own, and the estimate."""
    rng = np.random.default_rng(seed)
    size, scale = rng.integers(3000, 30_000), rng.uniform(0.02, 0.06)
    cosine = np.minimum(0.2 + rng.exponential(scale, size), 0.999)
    steps = np.sort((cosine * 1000).astype(np.int64))[::-1]
    # The nearest are found but for some, and of all others a sample stands for all.
    lost = rng.random(FOUND) < rng.beta(0.5, 0.5 * FOUND / missed) if missed else np.zeros(FOUND)
    known = np.append(steps[:FOUND][lost == 0], steps[FOUND : FOUND + int(lost.sum())])
    rest = np.append(steps[:FOUND][lost == 1], steps[FOUND + int(lost.sum()) :])
    drawn = rest[rng.random(len(rest)) < 1 / WEIGHT]
    counted, hits = np.bincount(known, minlength=1000), np.bincount(drawn, minlength=1000)
    at = np.flatnonzero((counted + hits > 0) & (np.arange(1000) >= LOWEST))
    found = counts_of(at, counted[at], WEIGHT * hits[at], int(known.min()), missed=missed)
    return np.bincount(steps[steps >= LOWEST] // STEPS, minlength=BINS), found


def weighted(counts: np.ndarray) -> np.ndarray:
    """Return what a curve that rises with the cosine makes of counts in bins."""
    return counts @ (1 / (1 + np.exp(-40 * (np.arange(BINS) / 100 - 0.45))))


@pytest.mark.parametrize("missed", [0.0, 5.0])
def test_draws_cover_the_truth(missed: float) -> None:
    inside, error, spread = [], [], []
    for seed in range(300):
        truth, found = sampled(seed, missed)
        draws = weighted(found.drawn(400, np.random.default_rng(seed)))
        low, high = np.quantile(draws, [0.025, 0.975])
        inside.append(low - 1e-9 <= weighted(truth) <= high + 1e-9)
        error.append(draws.mean() - weighted(truth))
        spread.append(draws.std())
    # Fixed seeds; of 300, 95 % are 285 with a standard deviation of 4.
    assert 270 <= sum(inside) <= 300
    # The mean error is a sum of 300 with these spreads.
    assert abs(np.sum(error)) < 4 * np.sqrt(np.sum(np.square(spread)))


def test_the_mean_is_that_of_the_draws() -> None:
    for seed in range(5):
        _, found = sampled(seed, 5.0)
        draws = found.drawn(20_000, np.random.default_rng(seed))
        error = np.maximum(draws.std(axis=0), 1e-9) / np.sqrt(len(draws))
        assert (abs(draws.mean(axis=0) - found.mean) <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("lowest", [LOWEST, 600, 700])
def test_an_empty_sample_leaves_one_gap_below_what_was_found(lowest: int) -> None:
    steps, counts = np.array([620, 600]), np.array([10.0, 30.0])
    above = steps >= lowest
    each = counts_of(steps[above], counts[above], 0 * counts[above], 600, lowest=lowest)
    counted = counts[above].sum()
    assert each.mean.sum() == pytest.approx(counted + (WEIGHT - 1 if lowest < 600 else 0))
    assert each.mean[: lowest // STEPS].sum() == each.mean[63:].sum() == 0
    # The more chunks, the lower the cosine.
    if lowest < 600:
        assert (np.diff(each.mean[35:60]) < 0).all()


def test_what_the_index_missed_is_expected_where_it_found_others() -> None:
    steps, counted, estimated = [700, 600, 590, 400], [0, 30, 10, 0], [WEIGHT, 0, 0, WEIGHT]
    known, open_ = (counts_of(steps, counted, estimated, 590, missed=m) for m in (0.0, 60.0))
    assert known.fixed[[70, 60, 59, 40]].tolist() == [1, 30, 10, 1]
    assert known.mean.sum() == pytest.approx(42 + 2 * 29)
    # One was sampled, of a rate of 60 on average over items: 1.5 / (0.5 / 60 + 1 / 30) in all.
    further = open_.mean - known.mean
    assert further.sum() == pytest.approx(1.5 / (0.5 / 60 + 1 / 30) * 29 / 30)
    # As many as were found times their ranks: 30 × 30 and 10 × 40.
    assert further[60] == pytest.approx(2.25 * further[59])
