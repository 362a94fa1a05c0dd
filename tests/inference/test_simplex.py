"""Coordinates of parts of a whole: the distribution of the parts is what it was."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import grad
from scipy import stats

from bayescontam.model.priors import EQUAL, TOTAL_SD, SoftmaxSizes
from tests.support.model_points import PLAIN

ALPHA = 0.5
COUNTS = np.array([0, 3, 40, 1])
"""Of parts; nothing is known of the first but that it is small."""


def test_parts_come_back():
    parts = np.array([[0.2, 0.3, 0.5], [1e-9, 1e-3, 1 - 1e-9 - 1e-3]])
    sizes = SoftmaxSizes(3)
    again = sizes.backward(sizes.forward(parts)).eval(mode=PLAIN)
    np.testing.assert_allclose(again, parts, rtol=1e-7)


@pytest.mark.parametrize("count", [2, 5])
def test_volume_is_that_of_parts_and_sum(count):
    x = pt.dvector("x")
    sizes = SoftmaxSizes(count)
    log_sum = pt.log(pt.sum(pt.softplus(x)))
    parts = sizes.backward(x)
    moved = pt.stack([grad(each, x) for each in (*(parts[i] for i in range(count - 1)), log_sum)])
    evaluate = pytensor.function([x], [moved, log_sum, sizes.log_jac_det(x)], mode=PLAIN)
    slopes, total, found = evaluate(np.random.default_rng(1).normal(1, 2, count))
    volume = np.linalg.slogdet(slopes).logabsdet
    of_sum = stats.norm(np.log(EQUAL * count), TOTAL_SD).logpdf(total)
    assert found == pytest.approx(volume + of_sum - stats.norm(0, TOTAL_SD).logpdf(0))


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_parts_keep_their_distribution(alpha):
    """Of two parts, by a sum over a grid that reaches far into the tails."""
    step, count = 0.1, 2
    axis = np.arange(-36, 12, step)
    x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, count)
    sizes, value = SoftmaxSizes(count), pt.dmatrix("value")
    parts = sizes.backward(value)
    log_density = pm.logp(pm.Dirichlet.dist(np.full(count, alpha)), parts)
    log_density = log_density + sizes.log_jac_det(value)
    first, density = pytensor.function([value], [parts[:, 0], pt.exp(log_density)], mode=PLAIN)(x)
    exact = stats.beta(alpha, alpha)
    total = density.sum() * step**count
    assert total == pytest.approx(np.sqrt(2 * np.pi) * TOTAL_SD, rel=1e-4)
    for power in (1, 2, 5):
        moment = (first**power * density).sum() * step**count / total
        assert moment == pytest.approx(exact.moment(power), rel=1e-4)
    below = density[first < 0.01].sum() * step**count / total
    assert below == pytest.approx(exact.cdf(0.01), rel=0.03)


def test_sampled_parts_are_those_of_the_conjugate_posterior():
    with pm.Model():
        parts = pm.Dirichlet(
            "parts", np.full(COUNTS.size, ALPHA), default_transform=SoftmaxSizes(COUNTS.size)
        )
        pm.Multinomial("counts", COUNTS.sum(), parts, observed=COUNTS)
        fit = pm.sample(
            4000, chains=2, random_seed=3, nuts_sampler="nutpie", target_accept=0.9,
            progressbar=False, quiet=True,
        )  # fmt: skip
    assert not fit.sample_stats["diverging"].any()
    rest = ALPHA * (COUNTS.size - 1) + COUNTS.sum() - COUNTS
    for at in range(COUNTS.size):
        exact = stats.beta(ALPHA + COUNTS[at], rest[at])
        draws = fit.posterior["parts"].isel(parts_dim_0=at)
        for below in (0.005, 0.05, 0.5, 0.95, 0.995):
            hit = draws < exact.ppf(below)
            error = np.sqrt(below * (1 - below) / az.ess(hit.astype(float), method="mean"))
            assert hit.mean() == pytest.approx(below, abs=float(4 * error)), (at, below)
