import numpy as np
import pytest
from arviz_stats.ecdf_utils import get_pointwise_confidence_band, simulate_confidence_bands
from scipy.stats import binom, kstest, norm

from bayescontam.calibration.sbc import detectable, envelope_probability, points, uniformity


def p_values(values: np.ndarray) -> np.ndarray:
    return np.array([uniformity(row).p_value for row in values])


@pytest.mark.parametrize(("n", "draws"), [(20, 2000), (200, 2000), (200, 100), (60, 20)])
def test_what_is_said_to_be_found_is_found_as_often(n: int, draws: int) -> None:
    """By the very tests, on ranks among draws of posteriors that are off by as much."""
    level, rng = 0.002, np.random.default_rng(n)
    shift, factor = detectable(n, draws, level)
    scores = rng.standard_normal((2000, n))
    error = 4 * np.sqrt(0.8 * 0.2 / 2000)
    for off, test in ((scores + shift, "p_shift"), (scores * factor, "p_spread")):
        ranks = rng.binomial(draws, norm.cdf(off))
        u = (ranks + rng.random(ranks.shape)) / (draws + 1)
        found = [getattr(uniformity(row), test) < level for row in u]
        # Draws cut off what is far out: sums of squares scatter less than those of Normals.
        assert 0.8 - error < np.mean(found) < 0.85 + error


def test_what_few_ranks_cannot_show_is_infinite() -> None:
    shift, factor = detectable(10, 20, 0.0005)
    assert 1 < shift < 2
    assert factor == np.inf
    assert detectable(4, 10, 1e-6) == (np.inf, np.inf)


@pytest.mark.parametrize("n", [10, 60, 500])
def test_uniform_numbers_are_called_so_at_the_stated_rate(n: int) -> None:
    p = p_values(np.random.default_rng(n).random((800, n)))
    # Bonferroni's correction keeps below the level; by more than half it would waste power.
    for level in (0.05, 0.2):
        called = int((p <= level).sum())
        assert binom.sf(called - 1, 800, level) > 1e-3
        assert called > 0.4 * level * 800


def test_p_values_of_the_envelope_are_uniform() -> None:
    values = np.random.default_rng(1).random((600, 300))
    p = [uniformity(row).p_ecdf for row in values]
    # The statistic takes few values near 1, where p-values are ties; small ones matter.
    assert kstest(p, "uniform", alternative="greater").pvalue > 1e-3
    assert np.mean(np.array(p) < 0.3) > 0.2


@pytest.mark.parametrize(
    ("shift", "factor", "n", "power"),
    [(0.2, 1.0, 500, 0.8), (0.0, 1.3, 200, 0.8), (0.0, 1 / 1.3, 200, 0.8), (0.0, 1.1, 1000, 0.6)],
)
def test_common_faults_are_found(shift: float, factor: float, n: int, power: float) -> None:
    z = shift + factor * np.random.default_rng(2).standard_normal((60, n))
    assert (p_values(norm.cdf(z)) <= 0.01).mean() >= power


def test_a_fault_that_moves_neither_mean_nor_spread_is_found_by_the_envelope() -> None:
    rng = np.random.default_rng(3)
    z = rng.choice([-1.0, 1.0], 500) * np.sqrt(1 - 0.3**2) + rng.normal(0, 0.3, 500)
    reported = uniformity(norm.cdf(z))
    assert min(reported.p_shift, reported.p_spread) > 0.05
    assert reported.p_ecdf < 1e-3
    assert reported.p_value < 1e-2


def test_shift_and_spread_are_in_units_of_the_posterior() -> None:
    z = 0.5 + 1.4 * np.random.default_rng(4).standard_normal(20_000)
    reported = uniformity(norm.cdf(z))
    assert (reported.shift, reported.spread) == pytest.approx((0.5, 1.4), abs=0.04)


def test_p_values_beyond_what_is_simulated_stay_small() -> None:
    assert uniformity(np.full(400, 0.25)).p_ecdf < 1e-30


@pytest.mark.parametrize("n", [20, 90])
def test_the_envelope_is_that_of_arviz(n: int) -> None:
    """Which simulates it anew for each picture, and fewer times."""
    z = points(n)
    theirs = simulate_confidence_bands(n, 1, z, 0.95, 4000, np.random.default_rng(1))
    assert envelope_probability(n, 0.95) == pytest.approx(theirs, abs=0.001)
    bands = [
        get_pointwise_confidence_band(probability, n, z)
        for probability in (envelope_probability(n, 0.95), theirs)
    ]
    np.testing.assert_allclose(*bands, atol=1.5 / n)  # by one number at most


def test_the_envelope_holds_uniform_numbers_as_often_as_it_says() -> None:
    n = 150
    z, probability = points(n), envelope_probability(n, 0.95)
    values = np.sort(np.random.default_rng(5).random((2000, n)), axis=1)
    counts = np.stack([np.searchsorted(row, z, side="right") for row in values])
    tails = np.minimum(binom.cdf(counts, n, z), binom.sf(counts - 1, n, z))
    inside = (2 * tails >= 1 - probability).all(axis=1).mean()
    assert inside == pytest.approx(0.95, abs=0.02)
