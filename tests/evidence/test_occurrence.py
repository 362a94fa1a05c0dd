"""From a sampled share to the whole corpus, against simulation and against finer sums."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import beta, t

from bayescontam.evidence.occurrence import MEAN, OPEN, SHAPE, Occurrence, draw_occurrence

SPREADS = [(2.0, 0.7, 0.6, 0.1), (40.0, 3.0, 0.9, 0.01), (0.3, 1.0, 1.0, 0.5), (5.0, 0.2, 0.3, 1.0)]


def made(mean: float, shape: float, open_: float, share: float) -> Occurrence:
    return Occurrence(*(np.array([x]) for x in (mean, shape, open_)), share)


def simulated(
    mean: float, shape: float, open_: float, share: float, size: int = 1_000_000
) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of duplicates in the whole corpus and in the sample."""
    rng = np.random.default_rng(3)
    whole = rng.negative_binomial(shape, shape / (shape + mean), size)
    whole *= rng.random(size) < open_
    return whole, rng.binomial(whole, share)


@pytest.mark.parametrize("spread", SPREADS)
def test_none_is_the_frequency_of_zero(spread: tuple[float, ...]) -> None:
    whole, sample = simulated(*spread)
    occurrence = made(*spread)
    assert occurrence.none()[0] == pytest.approx((whole == 0).mean(), abs=3e-3)
    assert occurrence.none(spread[3])[0] == pytest.approx((sample == 0).mean(), abs=3e-3)
    found = (whole[sample == 0] == 0).mean()
    assert occurrence.remainder()[0] == pytest.approx(found, abs=3e-3)


@pytest.mark.parametrize("spread", SPREADS)
def test_thinned_duplicates_are_a_part_of_all(spread: tuple[float, ...]) -> None:
    whole, sample = simulated(*spread)
    rng = np.random.default_rng(4)
    rest = rng.binomial(whole - sample, 0.25)
    kind = rng.binomial(sample, 0.25)
    occurrence = made(*spread)
    none = ((rest + kind) == 0).mean()
    assert occurrence.none(1.0, 0.25)[0] == pytest.approx(none, abs=3e-3)
    found = (rest[kind == 0] == 0).mean()
    assert occurrence.remainder(0.25)[0] == pytest.approx(found, abs=3e-3)


@pytest.mark.parametrize("spread", SPREADS)
def test_total_is_the_mean_given_the_sample(spread: tuple[float, ...]) -> None:
    whole, sample = simulated(*spread)
    occurrence = made(*spread)
    for count in (0, 1, 3):
        same = whole[sample == count]
        if len(same) < 1000:
            continue
        error = same.std() / np.sqrt(len(same))
        total = occurrence.total(np.array([[float(count)]]))[0, 0]
        assert total == pytest.approx(same.mean(), abs=5 * error + 1e-9)


def test_nothing_is_added_to_a_whole_corpus() -> None:
    occurrence = made(3.0, 0.5, 0.4, 1.0)
    assert occurrence.remainder()[0] == pytest.approx(1.0)
    counts = np.array([[0.0, 1.0, 7.0]])
    np.testing.assert_allclose(occurrence.total(counts), counts)


def posterior_means(counts: np.ndarray, share: float) -> tuple[float, float, float]:
    """Return means of log mean, share of open items and remainder, from random prior draws."""
    rng = np.random.default_rng(5)
    size = 400_000
    log_mean = t(4, *MEAN).rvs(2 * size, random_state=rng)
    mean = np.exp(log_mean[abs(log_mean - MEAN[0]) < 3 * MEAN[1]][:size])
    shape = np.exp(rng.normal(*SHAPE, size))
    open_ = rng.beta(*OPEN, size)
    values, tally = np.unique(counts, return_counts=True)
    log_weight = np.zeros(size)
    for n, times in zip(values, tally, strict=True):
        thinned = share * mean
        log_p = (
            gammaln(n + shape) - gammaln(shape) - gammaln(n + 1)
            + shape * np.log(shape / (shape + thinned)) + n * np.log(thinned / (shape + thinned))
        )  # fmt: skip
        p = open_ * np.exp(log_p) + (1 - open_) * (n == 0)
        log_weight += times * np.log(np.maximum(p, 1e-300))
    weight = np.exp(log_weight - logsumexp(log_weight))
    remainder = Occurrence(mean, shape, open_, share).remainder()
    return weight @ np.log(mean), weight @ open_, weight @ remainder


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ([0] * 30 + [1] * 8 + [2, 2, 5], 0.1),
        ([0] * 50, 0.01),
        ([0] * 12 + [3, 8, 1, 2, 1, 4, 11], 1.0),
        ([1, 2, 2, 5, 3, 9], 0.5),
    ],
    ids=["some", "none found", "all scanned", "every item"],
)
def test_draws_have_the_posterior_of_importance_sampling(counts: list[int], share: float) -> None:
    wanted = posterior_means(np.array(counts), share)
    drawn = draw_occurrence(np.tile(counts, (600, 1)), share, np.random.default_rng(6))
    for values, mean in zip(
        (np.log(drawn.mean), drawn.open, drawn.remainder()), wanted, strict=True
    ):
        error = values.std() / np.sqrt(len(values))
        assert values.mean() == pytest.approx(mean, abs=4 * error + 0.01)


def test_large_counts_are_distinguished_by_size_only() -> None:
    counts = np.repeat([[0, 3, 12_345], [0, 3, 12_400]], 200, axis=0)
    drawn = draw_occurrence(counts, 0.5, np.random.default_rng(1))
    first, second = np.log(drawn.mean[:200]), np.log(drawn.mean[200:])
    assert first.mean() == pytest.approx(second.mean(), abs=4 * first.std() / np.sqrt(100))
    assert np.isfinite(drawn.total(counts.astype(float))).all()


def test_the_grid_spans_the_priors() -> None:
    """Where no count says anything, draws are as the priors."""
    drawn = draw_occurrence(np.zeros((1000, 0), dtype=int), 0.5, np.random.default_rng(2))
    tails = t(4).rvs(100_000, random_state=3)
    spread = tails[abs(tails) < 3].std()  # as far as the grid reaches
    for values, (center, scale) in (
        (np.log(drawn.mean), (MEAN[0], MEAN[1] * spread)),
        (np.log(drawn.shape), SHAPE),
    ):
        assert values.mean() == pytest.approx(center, abs=0.12 * scale)
        assert values.std() == pytest.approx(scale, rel=0.1)
    assert drawn.open.mean() == pytest.approx(beta(*OPEN).mean(), abs=0.05)
    assert drawn.open.std() == pytest.approx(beta(*OPEN).std(), rel=0.08)


@pytest.mark.parametrize(("share", "mean"), [(0.001, 3000.0), (0.01, 20_000.0)])
def test_thousands_of_duplicates_are_within_reach(share: float, mean: float) -> None:
    """The grid follows the counts; it does not end where the prior is thin."""
    rng = np.random.default_rng(3)
    whole = rng.poisson(rng.exponential(mean, 188))
    sample = rng.binomial(whole, share)
    drawn = draw_occurrence(np.broadcast_to(sample, (400, 188)), share, rng)
    total = drawn.total(np.broadcast_to(sample, (400, 188)).astype(float)).sum(axis=1)
    # What thinning leaves unsure: a few percent of the total.
    assert total.mean() == pytest.approx(whole.sum(), rel=5 / np.sqrt(sample.sum()))
    # Of items with none in the sample some may be closed; no more than the zeros allow.
    assert drawn.none(1.0).mean() < (sample == 0).mean() + 0.02


@pytest.mark.parametrize(
    ("spread", "seen"),
    [(spread, seen) for spread in SPREADS[:3] for seen in (0, 1)] + [(SPREADS[1], 4)],
)
def test_drawn_rests_are_those_of_simulated_corpora(spread: tuple[float, ...], seen: int) -> None:
    whole, sample = simulated(*spread)
    left = (whole - sample)[sample == seen]
    assert len(left) >= 1000  # else too few to compare with
    size = 200_000
    parts = (np.full(size, x) for x in spread[:3])
    drawn = Occurrence(*parts, spread[3]).draw_rest(
        np.full((size, 1), seen), np.random.default_rng(5)
    )[:, 0]
    error = 5 * np.sqrt(left.var() / len(left) + drawn.var() / size)
    assert abs(drawn.mean() - left.mean()) < error
    for number in np.quantile(left, [0.25, 0.5, 0.9]):
        assert (drawn <= number).mean() == pytest.approx((left <= number).mean(), abs=0.05)
