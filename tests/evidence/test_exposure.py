"""What the matches of one item amount to, against sums over all states of all matches."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Matched
from bayescontam.evidence.sampled_counts import SampledCounts
from tests.support.made_evidence import given_verdict, line, make_draws

SIGMAS = [0.0, 0.7, 1.8]
COSINE = np.array([0.83, 0.71, 0.66, 0.52, 0.62])
"""Four listed matches and one of the tail."""
SOURCE = np.array([0, 1, 0, 1, 1])
COPIES = np.array([1, 3, 2, 1, 5])
CALLED = np.array([[0.95, 0.03, 0.11], [0.02, 0.98, 0.9]])
"""Likelihoods of verdicts of three matches if they are duplicates, and if not."""
JUDGED = {"none": [], "best": [0], "three": [0, 2, 4]}


def draws(sigma: float, count: int = 2) -> CurveDraws:
    """Return two draws of a bent curve."""
    return make_draws(
        count,
        sources=2,
        threshold=np.array([[0.68], [0.6]] * (count // 2)),
        source_shift=[0.02, -0.02],
        relative=[0.5, 0.8, 1.0, 1.5, 1.2, 0.9, 1.1],
        sigma_item=sigma,
    )


def item(judged: list[int], *, rest: bool = True) -> Matched:
    mask = np.isin(np.arange(5), judged)
    log_called = np.log(CALLED[:, : mask.sum()])
    return Matched(
        benchmark=0,
        listed=4,
        cosine=COSINE,
        source=SOURCE,
        copies=np.eye(2, dtype=np.int64)[SOURCE[: len(COPIES)]] * COPIES[:, None],
        best=0.83,
        judged=mask,
        called=np.repeat(log_called[:, None], 2, axis=1),
        kind=np.full(5, -1),
        rest_cosine=np.array([0.425, 0.475, 0.475])[: 3 * rest],
        rest_source=np.array([0, 0, 1])[: 3 * rest],
        rest_count=np.array([20.0, 3.0, 6.0])[: 3 * rest],
        place=np.arange(1.0, 6.0),
        rest_place=np.array([25.0, 10.0, 10.0])[: 3 * rest],
    )


REPORTED = np.array([1.0, -1.0, 0.0, 1.0, -1.0]), np.array([0.6, 0.7, 0.5, 0.2, 0.9])
"""What a trained judge reported of each match, and on what share of such pairs it does."""
RATIOS = {
    "log_odds_ratio": np.array([[2.0], [5.0]]),
    "log_odds_ratio_slope": np.array([[3.0], [-4.0]]),
    "log_odds_ratio_open": np.array([[0.5], [3.0]]),
}


def informed(of: Matched, row: int, p: np.ndarray, opened: float) -> tuple[np.ndarray, float]:
    """Return P(duplicate) and P(open) given what the trained judge reported, dims (match, node)."""
    assert of.sign is not None
    assert of.share is not None
    level, slope, of_open = (values[row, 0] for values in RATIOS.values())
    called = of.sign > 0
    share = np.where(called, of.share, 1 - of.share)
    found = given_verdict(opened, np.exp(of_open), share[0], called[0]).item()
    # The first match is the nearest: of open items this is reported of it more often.
    own = of.share[0] * found / opened
    share[0] = own if called[0] else 1 - own
    ratio = np.exp(level + slope * (of.cosine - 0.7))
    table = [
        given_verdict(p[m], ratio[m], share[m], called[m]) if of.sign[m] else p[m] for m in range(5)
    ]
    return np.stack(table), found


def states(curve: CurveDraws, of: Matched, row: int) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Return probability, states of all matches, and rates of the rest, for every case."""
    sigma = curve.sigma_item[row, 0]
    z = np.linspace(-8, 8, 201) if sigma else np.zeros(1)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()

    def log_odds(cosine: float, source: int) -> float:
        middle = curve.threshold[row] + curve.source_shift[row, source]
        one = curve[[row]]
        return float(line(one, cosine, middle, curve.steepness[row])[0])

    pairs = zip(of.cosine, of.source, strict=True)
    p = expit(np.array([log_odds(c, s) for c, s in pairs])[:, None] + sigma * z)
    rest = zip(of.rest_cosine, of.rest_source, strict=True)
    odds = np.array([log_odds(c, s) for c, s in rest]).reshape(-1, 1)
    rate = of.rest_count[:, None] * expit(odds + sigma * z)
    opened = expit(
        line(curve[[row]], of.best, curve.threshold_open[row], curve.steepness_open[row])
    )
    if of.sign is not None:
        p, opened[0] = informed(of, row, p, opened[0])
    likelihood = np.ones((2, 5))
    likelihood[:, of.judged] = np.exp(of.called[:, row])
    found = [((1 - opened[0]) * likelihood[1].prod(), np.zeros(5, int), np.zeros(len(rate)))]
    for k in range(len(z)):
        for state in product([0, 1], repeat=5):
            true = np.array(state)
            prior = np.where(true, p[:, k], 1 - p[:, k]).prod()
            said = np.where(true, likelihood[0], likelihood[1]).prod()
            found.append((opened[0] * weight[k] * prior * said, true, rate[:, k]))
    total = sum(probability for probability, _, _ in found)
    return [(probability / total, true, rate) for probability, true, rate in found]


@pytest.fixture(
    scope="module",
    params=[*[(s, j, False) for s in SIGMAS for j in JUDGED], (0.7, "best", True)],
    ids=str,
)
def case(request: pytest.FixtureRequest) -> tuple[ItemExposure, Matched, list[list[Any]]]:
    sigma, name, reported = request.param
    curve, of = draws(sigma), item(JUDGED[name])
    if reported:
        curve = replace(curve, **RATIOS)
        of = replace(of, sign=REPORTED[0], share=REPORTED[1])
    return ItemExposure(curve, of), of, [states(curve, of, row) for row in range(2)]


Case = tuple[ItemExposure, Matched, list[Any]]


def test_none_is_the_probability_of_no_duplicate(case: Case) -> None:
    exposure, _, every = case
    for listed, rest in (
        (np.ones(5, bool), np.ones(3, bool)),
        (SOURCE == 1, np.array([False, False, True])),
        (np.zeros(5, bool), np.zeros(3, bool)),
    ):
        wanted = [
            sum(p * np.exp(-rate[rest].sum()) for p, true, rate in row if not true[listed].any())
            for row in every
        ]
        np.testing.assert_allclose(exposure.none(listed, rest), wanted, atol=2e-4)


def test_thinned_duplicates_count_in_part(case: Case) -> None:
    exposure, _, every = case
    thin = np.array([[0.3, 1.0, 0.0, 0.2, 0.7, 0.25], [1.0, 0.1, 0.5, 0.0, 0.9, 0.6]])
    listed, rest = np.array([True, True, True, True, False]), np.ones(3, bool)
    wanted = [
        sum(
            p * np.prod(1 - true * share[:5] * listed) * np.exp(-share[5] * rate.sum())
            for p, true, rate in row
        )
        for row, share in zip(every, thin, strict=True)
    ]
    np.testing.assert_allclose(exposure.none(listed, rest, thin), wanted, atol=2e-4)


def test_ranks_count_listed_matches_only(case: Case) -> None:
    exposure, _, every = case
    wanted = [
        [sum(p for p, true, _ in row if not true[: min(rank, 4)].any()) for rank in (1, 2, 4, 9)]
        for row in every
    ]
    np.testing.assert_allclose(exposure.none_among_first([1, 2, 4, 9]), wanted, atol=2e-4)


def test_expected_numbers_are_means(case: Case) -> None:
    exposure, of, every = case
    for source in (0, 1):
        wanted = [
            sum(
                p * ((true * COPIES)[source == SOURCE].sum() + rate[of.rest_source == source].sum())
                for p, true, rate in row
            )
            for row in every
        ]
        np.testing.assert_allclose(exposure.expected(source), wanted, rtol=5e-4, atol=2e-4)
    rest = [sum(p * rate.sum() for p, _, rate in row) for row in every]
    np.testing.assert_allclose(exposure.expected_rest(), rest, rtol=5e-3, atol=2e-4)


@pytest.mark.parametrize("judged", JUDGED.values(), ids=JUDGED)
def test_drawn_numbers_have_these_probabilities(judged: list[int]) -> None:
    count = 40_000
    few, many = draws(0.7), draws(0.7, count)
    small = item(judged)
    exposure = ItemExposure(few, small)
    called = np.repeat(small.called[:, :1], count, axis=1)
    drawn = ItemExposure(many, Matched(**vars(small) | {"called": called})).drawn(
        2, np.random.default_rng(8)
    )
    for row in range(2):
        counts = drawn[row::2]
        for source in (0, 1):
            none = exposure.none(source == SOURCE, small.rest_source == source)[row]
            assert (counts[:, source] == 0).mean() == pytest.approx(none, abs=0.012)
            error = counts[:, source].std() / np.sqrt(len(counts))
            expected = exposure.expected(source)[row]
            assert counts[:, source].mean() == pytest.approx(expected, abs=4.5 * error)
        none = exposure.none(np.ones(5, bool), np.ones(3, bool))[row]
        assert (counts.sum(axis=1) == 0).mean() == pytest.approx(none, abs=0.012)


def test_a_sure_verdict_settles_it() -> None:
    of = item([0], rest=False)
    yes, no = (
        Matched(**vars(of) | {"called": np.log(np.full((2, 2, 1), 1e-12)) * [[[a]], [[1 - a]]]})
        for a in (0, 1)
    )
    every = np.ones(5, bool), np.zeros(0, bool)
    assert ItemExposure(draws(0.7), yes).none(*every).max() < 1e-9
    clean = ItemExposure(draws(0.7), no)
    assert clean.none_among_first([1]).min() > 1 - 1e-9
    # What is no duplicate is evidence against the others.
    assert (clean.none(*every) > ItemExposure(draws(0.7), item([], rest=False)).none(*every)).all()


def test_an_item_without_matches_has_no_duplicates() -> None:
    empty = np.zeros(0)
    whole = empty.astype(int)
    of = Matched(
        0, 0, empty, whole, np.zeros((0, 2), int), 0.0, empty.astype(bool),
        np.zeros((2, 2, 0)), whole, empty, empty, whole, empty, empty,
    )  # fmt: skip
    exposure = ItemExposure(draws(0.7), of)
    np.testing.assert_allclose(exposure.none(empty.astype(bool), empty.astype(bool)), 1.0)
    np.testing.assert_allclose(exposure.none_among_first([1, 5]), 1.0)
    np.testing.assert_allclose(exposure.expected(0), 0.0)
    assert (exposure.drawn(2, np.random.default_rng(0)) == 0).all()


def test_crowding_takes_the_log_of_the_place() -> None:
    curve, of = draws(0.7), item([0])
    crowded = ItemExposure(replace(curve, crowding=1.0), of)
    lifted = replace(of, cosine=of.cosine, place=np.ones(5), rest_place=np.ones(3))
    plain = ItemExposure(replace(curve, crowding=1.0), lifted)
    odds, place = (x._odds for x in (plain, crowded)), np.log(of.place)
    one, other = odds
    np.testing.assert_allclose(one - other, np.broadcast_to(place, one.shape))
    one, other = (x.rest_rate / (of.rest_count - x.rest_rate) for x in (plain, crowded))
    np.testing.assert_allclose(one / other, np.broadcast_to(of.rest_place, one.shape))


def test_counts_of_a_sample_are_drawn() -> None:
    curve, of = draws(0.0, 4000), replace(item([]), called=np.zeros((2, 4000, 0)))
    bins = (of.rest_cosine / 0.01).astype(int)
    assert bins[1] == bins[2] != bins[0]  # of two sources
    fixed, whole, parts = np.zeros(101), np.zeros(101, int), np.zeros((1, 101))
    fixed[bins[0]], whole[bins[1]], parts[0, bins[1]] = 5, 3, 0.5
    sample = SampledCounts(fixed, whole, parts, 11, (1.0, 0.0), fixed)
    np.testing.assert_allclose(sample.mean[bins], [5, 35, 35])
    exact = ItemExposure(curve, of, np.random.default_rng(1)).rest_rate[:, 0]
    sampled = replace(of, rest_sample=sample)
    drawn = ItemExposure(curve, sampled, np.random.default_rng(1)).rest_rate[:, 0]
    ratio = drawn / exact
    # Means of 4,000 draws with a fixed seed; a geometric number has the variance 10 × 11.
    np.testing.assert_allclose(ratio.mean(axis=0), 1, atol=0.06)
    variances = np.array([0, 1, 1]) * (3 + 0.25) * 110 / 35**2
    np.testing.assert_allclose(ratio.var(axis=0), variances, rtol=0.12, atol=1e-9)
