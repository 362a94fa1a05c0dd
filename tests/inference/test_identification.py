"""Identification against the conjugate Normal, and every verdict on data that call for it."""

import numpy as np
import pytest
import xarray as xr

from bayescontam.inference.build import build
from bayescontam.inference.identification import identify
from bayescontam.responses import Responses
from bayescontam.specs.catalogue import load_spec
from tests.simulated import simulate

N = 20_000


def judged(mean: float, sd: float, spec="single", contamination=None, sensitivity=0.0, frame=None):
    """Judge a Normal posterior of one slope under the prior Normal(0, 2)."""
    if frame is None:
        frame = simulate(0, models=2, benchmarks=1, items=4).responses.copy()
    if contamination is not None:
        frame["contamination"] = frame["model"].map(contamination).fillna(frame["contamination"])
    b = build(load_spec(spec), Responses.from_frame(frame))
    rng = np.random.default_rng(1)
    dims = ("chain", "draw", "model", "benchmark")
    coords = {"model": list(b.design.models), "benchmark": list(b.design.benchmarks)}
    draws = np.repeat(rng.normal(mean, sd, (1, N, 1, 1)), 2, axis=2)
    prior = np.repeat(rng.normal(0, 2, (1, N, 1, 1)), 2, axis=2)
    sensitive = xr.Dataset({"slope_prior": (dims[2:], np.full((2, 1), sensitivity))}, coords)
    result = identify(
        xr.DataArray(draws, coords, dims), xr.DataArray(prior, coords, dims), sensitive, b, 0.95
    )
    return result.isel(model=0, benchmark=0)


def test_numbers_are_those_of_the_conjugate_normal():
    """Data of standard error s under Normal(0, 2): sd² = 1 / (1/4 + 1/s²)."""
    se = 0.5
    sd = np.sqrt(1 / (1 / 4 + 1 / se**2))
    result = judged(0.3, sd)
    assert float(result["detectable_slope"]) == pytest.approx(2.8 * se, rel=0.03)
    assert float(result["contraction"]) == pytest.approx(1 - sd**2 / 4, abs=0.01)


@pytest.mark.parametrize(
    ("mean", "sd", "verdict"),
    [
        (2.0, 0.5, "found"),
        (-2.0, 0.5, "found"),
        (0.2, 0.5, "not found"),
        (0.2, 1.5, "could not be found"),
        (0.0, 2.0, "could not be found"),
    ],
)
def test_verdicts(mean, sd, verdict):
    assert str(judged(mean, sd)["verdict"].item()) == verdict


def test_not_found_and_could_not_be_found_read_differently():
    not_found = str(judged(0.2, 0.5)["sentence"].item())
    could_not = str(judged(0.2, 1.5)["sentence"].item())
    assert "would have been" in not_found
    assert "no evidence of a clean score" in could_not


def test_slope_of_a_model_without_variation_is_borrowed():
    result = judged(2.0, 0.5, spec="hierarchical", contamination={"model-0": 0.0})
    assert str(result["verdict"].item()) == "borrowed"


def test_what_only_other_models_could_have_shown_was_not_looked_for():
    """Four items cannot show a slope, however narrow pooling makes its interval."""
    assert str(judged(0.2, 0.5, spec="hierarchical")["verdict"].item()) == "borrowed"


def test_constant_contamination_shows_nothing():
    result = judged(0.0, 2.0, contamination={"model-0": 0.3, "model-1": 0.3})
    assert str(result["verdict"].item()) == "no variation"


def test_equal_probabilities_leave_open_which_items_they_are():
    frame = simulate(0, models=2, benchmarks=1, items=4).responses.assign(p_duplicate=0.3)
    result = judged(0.0, 2.0, spec="latent_duplicate", frame=frame)
    assert str(result["verdict"].item()) == "no variation"
    assert "which of them are contaminated" in str(result["sentence"].item())


def test_assumed_sign_is_no_finding():
    assert str(judged(2.0, 0.3, spec="positive")["verdict"].item()) == "sign assumed"


def test_prior_that_matters_is_named():
    assert "The prior still matters" in str(judged(2.0, 0.5, sensitivity=0.2)["sentence"].item())
    assert "prior still matters" not in str(judged(2.0, 0.5)["sentence"].item())
