"""Identification against the conjugate Normal, and every verdict on data that call for it."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.data.responses import Responses
from bayescontam.inference.design_checks import design_checks
from bayescontam.inference.estimands import reference_levels
from bayescontam.inference.identification import extrapolation, identify
from bayescontam.inference.own_slopes import OwnSlopes
from bayescontam.model.build import build
from bayescontam.model.design import make_design
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate

N = 20_000


def own_of(slope: np.ndarray, sd: np.ndarray, information: np.ndarray) -> OwnSlopes:
    """Return slopes of which the Normals, which `identify` does not use, are flat."""
    return OwnSlopes(
        slope, sd, information, np.zeros((*slope.shape, 2, 2)), np.zeros((*slope.shape, 2)),
        np.ones(slope.shape), 1.0,
    )  # fmt: skip


def judged(
    mean: float, sd: float, spec="single", contamination=None, sensitivity=0.0, frame=None,
    own=None, information=50.0,
):  # fmt: skip
    """Judge a Normal posterior of one slope under the prior Normal(0, 2).

    The pair's own responses give `own` (mean and sd; default: the same as the posterior).
    """
    if frame is None:
        frame = simulate(0, models=2, benchmarks=1, items=4).responses.copy()
    if contamination is not None:
        frame["contamination"] = frame["model"].map(contamination).fillna(frame["contamination"])
    b = build(load_model(spec), Responses.from_frame(frame))
    rng = np.random.default_rng(1)
    dims = ("chain", "draw", "model", "benchmark")
    coords = {"model": list(b.design.models), "benchmark": list(b.design.benchmarks)}
    draws = np.repeat(rng.normal(mean, sd, (1, N, 1, 1)), 2, axis=2)
    prior = np.repeat(rng.normal(0, 2, (1, N, 1, 1)), 2, axis=2)
    sensitive = xr.Dataset({"slope_prior": (dims[2:], np.full((2, 1), sensitivity))}, coords)
    known = own_of(*(np.full((2, 1), v) for v in (*(own or (mean, sd)), information)))
    slopes = xr.DataArray(draws, coords, dims), xr.DataArray(prior, coords, dims)
    result = identify(*slopes, sensitive, b, known, 0.95)
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
        (2.0, 0.5, "shown"),
        (-2.0, 0.5, "shown"),
        (0.2, 0.5, "inconclusive"),
        (0.2, 1.5, "inconclusive"),
        (0.0, 2.0, "inconclusive"),
    ],
)
def test_verdicts(mean, sd, verdict):
    assert str(judged(mean, sd)["verdict"].item()) == verdict


def test_an_inconclusive_slope_has_the_size_that_would_have_been_shown():
    sentence = str(judged(0.2, 0.5)["sentence"].item())
    assert re.search(r"Slopes from 1\.4\d on would be shown", sentence), sentence
    # A posterior as wide as the prior, up to the chance of draws.
    nothing = str(judged(0.2, 2.1)["sentence"].item())
    assert "no information on this slope" in nothing
    assert "from inf" not in nothing


def test_a_model_without_contaminated_items_has_none():
    result = judged(2.0, 0.5, spec="hierarchical", contamination={"model-0": 0.0})
    assert str(result["verdict"].item()) == "no contamination"


def test_pooling_alone_shows_nothing():
    """Own responses that hold zero, or say less than the prior, leave the slope borrowed."""
    held = judged(2.0, 0.3, spec="hierarchical", own=(0.5, 0.8))
    assert str(held["verdict"].item()) == "borrowed"
    assert "this model's own responses give [-1.07, 2.07]" in str(held["sentence"].item())
    little = judged(2.0, 0.3, spec="hierarchical", own=(2.0, 0.1), information=0.5)
    assert str(little["verdict"].item()) == "borrowed"
    assert "0.5 of what the prior holds" in str(little["sentence"].item())
    opposite = judged(2.0, 0.3, spec="hierarchical", own=(-2.0, 0.3))
    assert str(opposite["verdict"].item()) == "borrowed"
    both = judged(2.0, 0.3, spec="hierarchical", own=(1.5, 0.5))
    assert str(both["verdict"].item()) == "shown"


def test_a_slope_at_the_border_does_not_hold_zero():
    """Where nothing is pooled, the posterior and the Normal approximation may lie on two sides."""
    result = judged(2.0, 0.9, own=(1.5, 0.9))
    assert str(result["verdict"].item()) == "inconclusive"
    sentence = str(result["sentence"].item())
    assert (
        "excludes zero, but that of this model's own responses does not ([-0.26, 3.26])" in sentence
    )
    assert "holds zero" not in sentence


def test_own_responses_may_exclude_zero_on_the_other_side():
    result = judged(2.0, 0.9, own=(-1.55, 0.74))
    assert str(result["verdict"].item()) == "inconclusive"
    sentence = str(result["sentence"].item())
    assert "but on the other side ([-3.00, -0.10])" in sentence
    assert "does not" not in sentence


def test_a_slope_without_others_is_never_borrowed():
    frame = simulate(0, models=2, benchmarks=1, items=4).responses.copy()
    contamination = {"model-1": 0.3}
    alone = judged(0.2, 1.5, "hierarchical", contamination, frame=frame, information=0.2)
    assert str(alone["verdict"].item()) == "inconclusive"


def test_constant_contamination_shows_nothing():
    result = judged(0.0, 2.0, contamination={"model-0": 0.3, "model-1": 0.3})
    assert str(result["verdict"].item()) == "no variation"


def test_equal_probabilities_leave_open_which_items_they_are():
    frame = simulate(0, models=2, benchmarks=1, items=4).responses.assign(p_duplicate=0.3)
    result = judged(0.0, 2.0, spec="latent_duplicate", frame=frame)
    assert str(result["verdict"].item()) == "no variation"
    assert "which of them are contaminated" in str(result["sentence"].item())


def test_an_assumed_sign_is_no_finding_unless_own_responses_show_it():
    doubtful = judged(2.0, 0.3, spec="positive", own=(0.5, 0.8))
    assert str(doubtful["verdict"].item()) == "sign assumed"
    assert str(judged(2.0, 0.3, spec="positive")["verdict"].item()) == "shown"


def test_prior_that_matters_is_named():
    assert "The prior still matters" in str(judged(2.0, 0.5, sensitivity=0.2)["sentence"].item())
    assert "prior still matters" not in str(judged(2.0, 0.5)["sentence"].item())


def gaps() -> Responses:
    """B left out the cleanest item of the quiz, and the whole exam, whose items are alike."""
    rows = [
        *(("A", "quiz", f"q{d}", d) for d in (0.1, 0.4, 0.8)),
        *(("B", "quiz", f"q{d}", d) for d in (0.4, 0.8)),
        *(("A", "exam", f"e{k}", 0.2) for k in range(2)),
    ]
    frame = pd.DataFrame(rows, columns=["model", "benchmark", "item", "contamination"])
    return Responses.from_frame(frame.assign(correct=[1, 0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("reference", "quiz_a", "quiz_b", "exam_a"),
    [
        ("min_observed", 0.0, 0.3, 0.0),
        ("zero", 0.1, 0.4, 0.2),
        (0.5, 0.0, 0.0, 0.3),
        (0.9, 0.1, 0.1, 0.7),
        (1.0, 0.2, 0.2, 0.8),
    ],
)
def test_extrapolation_is_the_distance_to_the_range_of_the_model(reference, quiz_a, quiz_b, exam_a):
    b = build(load_model("single"), gaps())
    shape, dims = (1, 50, 2, 2), ("chain", "draw", "model", "benchmark")
    coords = {"model": ["A", "B"], "benchmark": ["quiz", "exam"]}
    draws = xr.DataArray(np.random.default_rng(2).normal(size=shape), coords, dims)
    sensitive = xr.Dataset({"slope_prior": (dims[2:], np.zeros((2, 2)))}, coords)
    own = own_of(*(np.ones((2, 2)) for _ in range(3)))
    judged = identify(draws, 2 * draws, sensitive, b, own, 0.95, reference)
    wanted = [[quiz_a, exam_a], [quiz_b, np.nan]]
    np.testing.assert_allclose(judged["extrapolation"], wanted, atol=1e-12)
    assert judged["extrapolation"].dims == ("model", "benchmark")
    assert judged["extrapolation"].sel(model="A", benchmark="quiz") == pytest.approx(quiz_a)
    # Without a reference nothing is reported of it.
    assert identify(draws, 2 * draws, sensitive, b, own, 0.95)["extrapolation"].isnull().all()
    checks = {
        check.name: check for check in design_checks(b, reference_levels(reference, b.design))
    }
    outside = sum(x > 0 for x in (quiz_a, quiz_b, exam_a))
    assert checks["Reference in observed range"].value == outside


def test_rounding_is_no_extrapolation():
    frame = gaps().frame.assign(contamination=0.1 + 0.2)
    design = make_design(load_model("single"), Responses.from_frame(frame))
    assert extrapolation(design, np.array([0.3, 0.3]))[0].tolist() == [0, 0]


def test_every_dose_of_an_event_counts_as_observed():
    frame = gaps().frame.assign(p_duplicate=[0.2, 0.5, 0.9, 0.5, 0.9, 0.0, 0.0])
    design = make_design(load_model("latent_duplicate"), Responses.from_frame(frame))
    found = extrapolation(design, np.array([0.9, 0.9]))
    # The exam's items are known to be clean.
    np.testing.assert_allclose(found, [[0, 0.9], [0, np.nan]])
