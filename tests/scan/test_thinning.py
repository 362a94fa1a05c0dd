"""Thinning: priorities are fair, and what is thinned out is not in the sample."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from bayescontam.scan.documents import HIGHEST, SURE, BottomKFilter, priority


def test_the_priority_is_the_published_hash() -> None:
    # printf '7\x1fweb\x1fd1' | b2sum -l 64
    assert priority(7, "web", "d1").to_bytes(8, "little").hex() == "c77d9402d74344a2"
    assert 0 <= priority(0, "", "\ud800") <= HIGHEST


@pytest.mark.parametrize("share", [0.001, 0.01, 0.02, 0.2, 0.5, 0.65, 0.7])
@pytest.mark.parametrize("inputs", [1, 3, 40])
def test_thinning_loses_nothing_of_the_sample(share: float, inputs: int) -> None:
    rng = np.random.default_rng(inputs)
    strata = {"large": 150_000, "middle": 20_000, "small": 300, "tiny": 1}
    thinners = [BottomKFilter(share) for _ in range(inputs)]
    kept: dict[str, list[int]] = {stratum: [] for stratum in strata}
    for stratum, count in strata.items():
        ranks = rng.integers(0, 2**64, count, dtype=np.uint64).tolist()
        for place, rank in zip(rng.integers(inputs, size=count).tolist(), ranks, strict=True):
            if thinners[place].keeps(stratum, rank):
                kept[stratum].append(rank)
        size = math.ceil(Fraction(str(share)) * count)
        lowest = sorted(ranks)[:size]
        assert sorted(kept[stratum])[:size] == lowest
        assert min(thinner.complete_to(stratum) for thinner in thinners) >= lowest[-1]
    if share <= 0.02 and inputs == 1:
        # 1.5 × share below the bound, and of the first documents those that were lowest so far.
        most = 1.5 * share * 150_000 + SURE * (1 + math.log(150_000 / SURE))
        assert len(kept["large"]) < most + 6 * math.sqrt(most)


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
@pytest.mark.parametrize("values", [3, 500])
def test_what_is_said_to_be_complete_is(share: float, count: int, values: int) -> None:
    rng = np.random.default_rng(count)
    ranks = (rng.integers(1, values + 1, count, dtype=np.uint64) << np.uint64(55)).tolist()
    thinner = BottomKFilter(share)
    kept = Counter(rank for rank in ranks if thinner.keeps("a", rank))
    limit = thinner.complete_to("a")
    assert min(ranks) <= limit
    for rank, times in Counter(ranks).items():
        assert kept[rank] == times or rank > limit


def test_every_document_is_as_likely_as_any_other() -> None:
    # Over seeds, each of 40 documents is in a sample of 10; so is each pair as often as others.
    names = [f"d{i}" for i in range(40)]
    ranks = np.array([[priority(seed, "s", name) for name in names] for seed in range(4000)])
    chosen = ranks <= np.sort(ranks, axis=1)[:, 9:10]
    assert (chosen.sum(axis=1) == 10).all()
    counts = chosen.sum(axis=0)
    # Of n draws of 10 of N = 40, counts have covariance n p (1 - p) N/(N - 1) (I - 1/N).
    statistic = ((counts - 1000) ** 2 / (4000 * 0.25 * 0.75)).sum() * 39 / 40
    assert 0.001 < stats.chi2(39).cdf(statistic) < 0.999
    pairs = (chosen.T.astype(float) @ chosen)[np.triu_indices(40, 1)]
    assert abs(pairs.mean() - 4000 * 10 * 9 / (40 * 39)) < 1e-6
    assert np.abs(pairs - pairs.mean()).max() < 5 * math.sqrt(pairs.mean())


def test_priorities_are_uniform() -> None:
    ranks = np.array([priority(1, "s", f"d{i}") for i in range(20_000)], float) / 2**64
    assert stats.kstest(ranks, "uniform").pvalue > 0.001


def test_sources_and_seeds_have_samples_of_their_own() -> None:
    names = [f"d{i}" for i in range(2000)]

    def lowest(seed: int, name: str) -> set[str]:
        return set(sorted(names, key=lambda d: priority(seed, name, d))[:200])

    first = lowest(0, "a")
    for other in (lowest(1, "a"), lowest(0, "b")):
        assert len(first & other) < 50  # 20 by chance
    assert first == lowest(0, "a")
