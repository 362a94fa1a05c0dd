"""Priors that the data refute are found, and others are left in peace."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.inference.checks import Outcome, conflict_check, extremity
from bayescontam.model.build import build
from bayescontam.specs.priors import Exponential, HalfNormal, HalfStudentT, Normal, StudentT
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate


@pytest.fixture(scope="module")
def built():
    frame = simulate(3, models=4, benchmarks=1, items=6, trials=3).responses
    return build(load_model("hierarchical"), Responses.from_frame(frame))


def posterior(**medians: float) -> xr.Dataset:
    """Return draws close to these medians; those of others are what their priors expect."""
    known = {"mu": 0.0, "sigma_theta": 0.5, "beta_bar": 1.0, "sigma_bm": 0.3,
             "sigma_delta": 0.7, "sigma_eps": 1.0} | medians  # fmt: skip
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 100))
    dims = {"mu": ("benchmark",), "sigma_delta": ("benchmark",)}
    data = {}
    for name, value in known.items():
        own = dims.get(name, ())
        data[name] = ("chain", "draw", *own), (value + noise).reshape(2, 100, *[1] * len(own))
    return xr.Dataset(data, coords={"benchmark": ["bench-0"]})


def test_parameters_where_their_priors_expect_them_pass(built):
    check = conflict_check(posterior(), built)
    assert check.outcome is Outcome.PASSED
    assert check.value > 0.01


def test_a_spread_far_out_is_named_with_a_remedy(built):
    """Exponential of mean 2 exceeds 22 with probability exp(-11)."""
    check = conflict_check(posterior(sigma_eps=22.0), built)
    assert check.outcome is Outcome.CAUTION
    assert check.value == pytest.approx(6 * np.exp(-11), rel=0.1)
    assert "the spread of model-by-item effects is 22.00, of which Exponential(2)" in check.sentence
    assert 'priors.sigma_eps = { family = "exponential", scale = 15 }' in check.sentence
    assert "difficulties" not in check.sentence


def test_log_odds_are_held_against_priors_of_mean_accuracies(built):
    """A spread of difficulties of 7 is far out of HalfNormal(1), unless single items' log-odds
    are three times those of accuracies."""
    alone = conflict_check(posterior(sigma_delta=7.0, sigma_eps=0.01), built)
    assert alone.outcome is Outcome.CAUTION
    assert "spread of difficulties on bench-0 is 7.00" in alone.sentence
    assert (
        conflict_check(posterior(sigma_delta=7.0, sigma_eps=4.7), built).outcome is Outcome.PASSED
    )


def test_right_priors_are_rarely_refuted(built):
    """Of 2,000 sets of parameters drawn from the prior about 1 % are this far out."""
    rng = np.random.default_rng(4)
    caught = 0
    for _ in range(2000):
        eps = rng.exponential(2)
        s = np.sqrt(1 + 0.346 * eps**2)
        draw = {
            "sigma_eps": eps, "mu": rng.normal(0, 1.5 * s), "beta_bar": rng.normal(0, 2 * s),
            "sigma_theta": abs(rng.normal(0, s)), "sigma_delta": abs(rng.normal(0, s)),
            "sigma_bm": abs(rng.normal(0, 0.5 * s)),
        }  # fmt: skip
        one = {name: (("chain", "draw"), [[value]]) for name, value in draw.items()}
        for name in ("mu", "sigma_delta"):
            one[name] = ("chain", "draw", "benchmark"), [[[draw[name]]]]
        caught += conflict_check(xr.Dataset(one), built).outcome is Outcome.CAUTION
    assert stats.binomtest(caught, 2000, 0.01).pvalue > 1e-4


def test_far_out_is_large_or_far_from_the_middle():
    assert extremity(HalfNormal(family="half_normal", sigma=1), 0.0) == 1
    assert extremity(Exponential(family="exponential", scale=2), 2.0) == pytest.approx(np.exp(-1))
    heavy = HalfStudentT(family="half_student_t", nu=3, sigma=1)
    assert extremity(heavy, 4.0) == pytest.approx(2 * stats.t(3).sf(4))
    assert extremity(Normal(family="normal", mu=1, sigma=2), -3.0) == pytest.approx(
        2 * stats.norm.sf(2)
    )
    t = StudentT(family="student_t", nu=4, mu=0, sigma=1)
    assert extremity(t, -2.0) == extremity(t, 2.0) == pytest.approx(2 * stats.t(4).sf(2))
