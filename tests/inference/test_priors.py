"""Priors as PyMC variables, and the coordinate that positive ones are sampled in."""

import numpy as np
import pymc as pm
import pytest
from scipy import integrate

from bayescontam.model.priors import QuantileTransform, distribution, parameters, variable
from bayescontam.specs.priors import (
    Exponential,
    HalfNormal,
    HalfStudentT,
    Logistic,
    LogNormal,
    Normal,
    PositivePrior,
    Prior,
    StudentT,
)
from tests.support.model_points import PLAIN

PRIORS = [
    HalfNormal(family="half_normal", sigma=0.5),
    HalfStudentT(family="half_student_t", nu=3, sigma=2.0),
    Exponential(family="exponential", scale=0.7),
]
NAMES = [prior.family for prior in PRIORS]


def test_a_straightened_coordinate_can_be_taken_back() -> None:
    coordinate = QuantileTransform(0.2)
    values = np.array([1e-9, 1e-3, 0.2, 1.0, 30.0])
    at = coordinate.forward(values).eval(mode=PLAIN)
    assert coordinate.backward(at).eval(mode=PLAIN) == pytest.approx(values, rel=1e-6)
    step = 1e-4
    rise = coordinate.backward(at + step) - coordinate.backward(at - step)
    slope = rise.eval(mode=PLAIN) / (2 * step)
    assert np.exp(coordinate.log_jac_det(at).eval(mode=PLAIN)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
def test_a_positive_variable_has_its_prior_in_every_coordinate(prior: PositivePrior) -> None:
    """The density of the sampler's coordinate, integrated, is the distribution of the prior."""
    with pm.Model() as model:
        variable("sigma", prior)
    (coordinate,) = model.rvs_to_transforms.values()
    (name,) = model.initial_point()
    density = model.compile_logp(mode=PLAIN)
    for quantile in (0.01, 0.3, 0.9):
        end = distribution(prior).ppf(quantile)
        at = float(coordinate.forward(np.array(end)).eval(mode=PLAIN))
        below, _ = integrate.quad(lambda x: np.exp(density({name: np.array(x)})), -60.0, at)
        assert below == pytest.approx(quantile, abs=1e-6)


@pytest.mark.parametrize(
    "prior",
    [
        *PRIORS,
        Normal(family="normal", mu=0.3, sigma=0.5),
        Logistic(family="logistic", mu=0.3, s=0.5),
        StudentT(family="student_t", nu=4, mu=0.3, sigma=0.5),
    ],
    ids=lambda prior: prior.family,
)
def test_a_prior_of_a_variable_times_a_factor_has_its_quantiles_times_it(prior: Prior) -> None:
    """Which parameters these are must be stated for each family: a rate would be divided."""
    scaled = type(prior)(family=prior.family, **parameters(prior, 3.0))  # type: ignore[arg-type]
    for quantile in (0.1, 0.5, 0.9):
        wanted = 3 * distribution(prior).ppf(quantile)
        assert distribution(scaled).ppf(quantile) == pytest.approx(wanted)


def test_a_family_of_which_it_is_not_stated_is_refused() -> None:
    with pytest.raises(TypeError, match=r"which parameters of LogNormal.* is not stated"):
        parameters(LogNormal(family="log_normal", sigma=1.0), 2.0)
