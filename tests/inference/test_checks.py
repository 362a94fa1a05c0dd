"""Every check fails when there is something to find, and passes when there is not."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.inference.checks import (
    Check,
    Outcome,
    Thresholds,
    _surprise,
    loo_checks,
    predictive_checks,
    sampling_checks,
)
from bayescontam.inference.design_checks import SPILLOVER, design_checks
from bayescontam.model.auto import choose_spec
from bayescontam.model.build import build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate

RNG = np.random.default_rng(0)


def summary(**changes: float) -> pd.DataFrame:
    row = {
        "model": "m", "benchmark": "b", "quantity": "accuracy",
        "ess_bulk": 900.0, "ess_tail": 900.0, "r_hat": 1.001,
    }  # fmt: skip
    return pd.DataFrame([row | changes])


def by_concept() -> pd.DataFrame:
    """Return a row of a benchmark, and one of a concept that has none."""
    own = summary(r_hat=1.02).drop(columns="benchmark")
    own.insert(1, "concept", "same")
    found = pd.concat([summary(), own], ignore_index=True)
    return found[["model", "benchmark", "concept", *found.columns.difference(
        ["model", "benchmark", "concept"], sort=False)]]  # fmt: skip


def sampling(
    posterior=None,
    limits=Thresholds(),  # noqa: B008
    rows=None,
    parameters=None,
    **statistics,
) -> dict[str, Check]:
    good = {
        "diverging": np.zeros((4, 500), bool),
        "energy": RNG.normal(size=(4, 500)),
        "reached_max_treedepth": np.zeros((4, 500), bool),
    }
    data = {k: (("chain", "draw"), v) for k, v in (good | statistics).items()}
    draws = RNG.normal(size=(4, 500, 2)) if posterior is None else posterior
    if parameters is None:
        parameters = xr.Dataset(
            {"delta": (("chain", "draw", "item"), draws)}, coords={"item": ["a", "b"]}
        )
    found = sampling_checks(
        parameters, xr.Dataset(data), summary() if rows is None else rows, limits
    )
    return {check.name: check for check in found}


def test_good_draws_pass_all():
    assert {c.name for c in sampling().values() if c.outcome is not Outcome.PASSED} == set()
    assert len(sampling()) == 9


def drifting() -> np.ndarray:
    draws = RNG.normal(size=(4, 500, 2))
    draws[0, :, 1] += 3
    return draws


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("divergences", {"diverging": np.eye(4, 500, dtype=bool)}, "4 of 2,000 transitions"),
        ("R-hat of estimands", {"rows": summary(r_hat=1.02)}, r"the accuracy of m on b \(R-hat"),
        ("R-hat of estimands", {"rows": by_concept()}, r"accuracy of m on same \(R-hat"),
        ("Bulk ESS of estimands", {"rows": summary(ess_bulk=399)}, r"Too few.*\(ESS 399\)"),
        ("Tail ESS of estimands", {"rows": summary(ess_tail=399)}, "Too few"),
        ("E-BFMI", {"energy": RNG.normal(size=(4, 500)).cumsum(axis=1)}, "hardly mix"),
    ],
)
def test_planted_fault_is_found(name, given, said):
    check = sampling(**given)[name]
    assert check.outcome is Outcome.FAILED
    assert pd.Series([check.sentence]).str.contains(said).all()


def slow_energy(part: float) -> np.ndarray:
    """Return energies whose changes have this part of the variance that independent ones have."""
    steps = np.random.default_rng(1).normal(size=(4, 4000)) * np.sqrt(part)
    energy, correlation = np.zeros((4, 4000)), np.sqrt(1 - part)
    for i in range(1, 4000):
        energy[:, i] = correlation * energy[:, i - 1] + steps[:, i]
    return energy


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("R-hat of parameters", {"posterior": drifting()}, r"on the difficulty of item b \(R-hat"),
        ("Bulk ESS of parameters", {"posterior": drifting()}, "Too few independent draws"),
        ("tree depth", {"reached_max_treedepth": np.eye(4, 500, dtype=bool)}, "4 of 2,000"),
    ],
)
def test_what_estimands_hardly_depend_on_is_a_caution(name, given, said):
    """With the figures that show that they mix well; not where they do not."""
    check = sampling(**given)[name]
    assert check.outcome is Outcome.CAUTION
    assert pd.Series([check.sentence]).str.contains(said).all()
    assert "Estimands mix well (R-hat 1.001, ESS 900)." in check.sentence
    badly = sampling(**given, rows=summary(r_hat=1.2))[name]
    assert badly.outcome is Outcome.CAUTION
    assert "mix well" not in badly.sentence


def test_energies_that_nearly_mix_are_a_caution():
    """1 − correlation of successive energies is half of E-BFMI: 0.25 is a near miss of 0.3."""
    statistics = {
        "diverging": np.zeros((4, 4000), bool), "energy": slow_energy(0.235),
        "reached_max_treedepth": np.zeros((4, 4000), bool),
    }  # fmt: skip
    check = sampling(**statistics)["E-BFMI"]
    assert 0.2 < check.value < 0.3
    assert check.outcome is Outcome.CAUTION
    assert "More draws" in check.sentence
    assert "prior" not in check.sentence


def test_coordinates_of_the_sampler_are_not_checked():
    draws = xr.Dataset({"theta_level": (("chain", "draw", "model"), drifting()),
                        "mu": (("chain", "draw", "benchmark"), drifting()[:, :, :1])})  # fmt: skip
    good = sampling(parameters=draws)
    assert good["R-hat of parameters"].outcome is Outcome.PASSED


def test_raw_values_are_compared_not_rounded_ones():
    assert sampling(rows=summary(r_hat=1.00999))["R-hat of estimands"].outcome is Outcome.PASSED
    assert sampling(rows=summary(r_hat=1.01001))["R-hat of estimands"].outcome is Outcome.FAILED


def test_thresholds_can_be_set():
    strict = sampling(limits=Thresholds(ess=1000))
    assert strict["Bulk ESS of estimands"].outcome is Outcome.FAILED
    assert strict["Bulk ESS of estimands"].threshold == "≥ 1000"


def test_constants_do_not_fail():
    rows = summary(r_hat=np.nan, ess_bulk=np.nan, ess_tail=np.nan)
    assert sampling(rows=rows)["R-hat of estimands"].outcome is Outcome.PASSED


def loo(pareto_k=0.3, pit=None, draws=4000) -> dict[str, Check]:
    uniform = np.linspace(0.005, 0.995, 100) if pit is None else pit
    data = {"pareto_k": ("response", np.full(100, pareto_k)), "pit": ("response", uniform)}
    known = xr.Dataset(data, {"kept_draw": np.arange(draws)})
    return {check.name: check for check in loo_checks(known, Thresholds())}


def test_leave_one_out():
    assert {c.outcome for c in loo().values()} == {Outcome.PASSED}
    assert loo(pareto_k=0.8)["Pareto k"].outcome is Outcome.CAUTION
    assert "100 of 100 responses" in loo(pareto_k=0.8)["Pareto k"].sentence
    # Weights of fewer draws are trusted up to a smaller k (arXiv:1507.02646).
    assert loo(pareto_k=0.65)["Pareto k"].outcome is Outcome.PASSED
    few = loo(pareto_k=0.65, draws=500)["Pareto k"]
    assert few.outcome is Outcome.CAUTION
    assert few.threshold == "≤ 0.629"
    crowded = loo(pit=RNG.beta(5, 5, 100))
    assert crowded["LOO-PIT"].outcome is Outcome.CAUTION


def predictive(observed: float, prior_mean: float = 0.5) -> dict[str, Check]:
    replicated = RNG.normal(0.5, 0.02, (500, 1, 1))
    data = xr.Dataset(
        {
            "score": (("model", "benchmark"), [[observed]]),
            "score_replicated": (("replicate", "model", "benchmark"), replicated),
            "score_prior": (
                ("prior_replicate", "model", "benchmark"),
                RNG.normal(prior_mean, 0.05, (500, 1, 1)),
            ),
        }
    )
    found = predictive_checks(data, Thresholds())
    return {check.name: check for check in found}


def test_observed_scores_are_held_against_replicated_ones():
    assert predictive(0.52)["Predicted scores"].outcome is Outcome.PASSED
    assert predictive(0.60)["Predicted scores"].outcome is Outcome.FAILED


def test_observed_scores_are_held_against_the_prior():
    assert predictive(0.52)["Prior predictive accuracy"].outcome is Outcome.PASSED
    assert predictive(0.52, 0.1)["Prior predictive accuracy"].outcome is Outcome.CAUTION
    sentence = predictive(0.52, 0.1)["Prior predictive accuracy"].sentence
    assert sentence.startswith("1 of the observed scores lies outside the central 99 %")


def test_a_skewed_prior_may_hold_what_is_farther_than_its_own_scores():
    # Of a Beta(9, 1) 0.7 % lie below 0.58, and none lies as far from the mean above it.
    prior = ((np.arange(1000) + 0.5) / 1000) ** (1 / 9)
    low, high = np.quantile(prior, [0.005, 0.995])
    assert low < 0.58 < high
    data = xr.Dataset(
        {
            "score": (("model", "benchmark"), [[0.58]]),
            "score_prior": (("prior_replicate", "model", "benchmark"), prior[:, None, None]),
        }
    )
    [check] = predictive_checks(data, Thresholds())
    assert check.outcome is Outcome.CAUTION
    assert check.sentence.startswith("One of the observed scores is farther from what the prior")
    assert "99 %" not in check.sentence


@pytest.mark.parametrize("p", [0.003, 0.03, 0.3, 0.99])
def test_scores_that_the_fit_predicts_rarely_fail(p):
    """6 groups of 67 items at the true accuracy: failures at about the nominal rate of 1 %."""
    rng = np.random.default_rng(7)
    failed = 0
    for _ in range(300):
        observed = rng.binomial(67, p, 6) / 67
        replicated = rng.binomial(67, p, (500, 6)) / 67
        failed += _surprise(observed, replicated, np.full(6, 67)) < 0.01
    assert failed / 300 < 0.03


@pytest.mark.parametrize(("trials", "p"), [(7, 0.2), (40, 0.5), (164, 0.97), (500, 0.003)])
def test_surprise_is_the_exact_binomial_tail(trials, p):
    """Replicates with a Binomial's mean and variance, and every score that it can have."""
    away = np.sqrt(p * (1 - p) / trials)
    replicated = np.array([[p - away], [p + away]])
    right = np.arange(trials + 1)
    below, above = stats.binom.cdf(right, trials, p), stats.binom.sf(right - 1, trials, p)
    exact = np.minimum(1, 2 * np.minimum(below, above))
    count = np.full(2, trials)
    found = [_surprise(np.array([k / trials]), replicated, count[:1]) for k in right]
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    both = _surprise(np.array([0.0, p]), np.hstack([replicated, replicated]), count)
    assert both == pytest.approx(min(1, 2 * exact[0]))  # Bonferroni, over two groups


def test_scores_far_below_what_replicates_hold_are_found():
    """Replicates with hardly a wrong answer say most of all that many wrong ones are odd."""
    rng = np.random.default_rng(3)
    replicated = rng.binomial(30, 0.97, (500, 4)) / 30
    count = np.full(4, 30)
    assert _surprise(np.array([0.97, 0.97, 0.97, 0.23]), replicated, count) < 1e-6
    assert _surprise(np.array([0.97, 0.93, 1.0, 0.97]), replicated, count) > 0.05
    never = np.ones((500, 2))
    assert _surprise(np.array([1.0, 1.0]), never, count[:2]) == 1
    once = 2 * 2 * stats.binom.sf(0, 10, 1 / 5001)
    assert _surprise(np.array([1.0, 0.9]), never, np.full(2, 10)) == pytest.approx(once)


@pytest.mark.parametrize("groups", [2, 6, 60])
def test_scores_that_no_replicate_has_are_found_among_any_number(groups):
    """Of 20 answers all are right in every replicate, and in one group none is."""
    observed, count = np.r_[0.0, np.ones(groups - 1)], np.full(groups, 20)
    for right in (0.0, 1.0):
        replicated = np.full((200, groups), right)
        shown = observed if right else 1 - observed
        assert _surprise(shown, replicated, count) < 1e-6
        assert _surprise(np.full(groups, right), replicated, count) == 1


def prior_check(scores: np.ndarray, prior: xr.DataArray) -> Check:
    data = xr.Dataset({"score": (("model", "benchmark"), scores), "score_prior": prior})
    (check,) = predictive_checks(data, Thresholds())
    return check


def test_scores_that_a_replicate_has_are_as_far_out():
    """Replicates are stored in single precision: 1 of 12 is another number there."""
    rng, dims = np.random.default_rng(2), ("prior_replicate", "model", "benchmark")
    for _ in range(40):
        right = rng.binomial(12, rng.beta(1, 1, (200, 2, 1)))
        prior = xr.DataArray((right / 12).astype(np.float32), dims=dims)
        center, spread = right.mean(axis=0), right.std(axis=0)
        farthest = (np.abs(right - center) / spread).max(axis=(1, 2))
        ties = int(np.isclose(farthest, farthest.max()).sum())
        check = prior_check(right[farthest.argmax()] / 12, prior)
        assert check.value == pytest.approx((ties + 1) / 201)


def test_scores_of_the_prior_are_rarely_outside_it():
    """20 models on 10 benchmarks: cautions in about 1 % of the tables that the prior predicts."""
    rng = np.random.default_rng(5)

    def tables(count: int) -> np.ndarray:
        mu = rng.normal(0, 1.5, (count, 1, 10)) + rng.normal(0, 1, (count, 20, 1))
        return rng.binomial(200, expit(mu + rng.normal(0, 0.5, (count, 20, 10)))) / 200

    prior = xr.DataArray(tables(1000), dims=("prior_replicate", "model", "benchmark"))
    low, high = prior.quantile([0.005, 0.995], "prior_replicate").to_numpy()
    cautions, outside = 0, 0
    for scores in tables(200):
        check = prior_check(scores, prior)
        cautions += check.outcome is Outcome.CAUTION
        outside += bool(((scores < low) | (scores > high)).any())
    assert cautions <= 12  # P(more | 0.01 a table) < 1e-6
    assert outside > 20
    narrow = prior_check(np.zeros((20, 10)), 0.4 + 0.2 * prior)
    assert narrow.outcome is Outcome.CAUTION
    assert "200 of the observed scores lie outside" in narrow.sentence


def test_repeats_without_their_effect_are_reported(tmp_path):
    text = "summary = 'x'\n[likelihood]\nmodel_by_item = false"
    frame = simulate(0, models=2, items=6, trials=4).responses
    b = build(ModelSpec.parse(text, "mine.toml"), Responses.from_frame(frame))
    check = {c.name: c for c in design_checks(b, None)}["Trials of responses"]
    assert check.outcome is Outcome.CAUTION
    assert "taken for independent items" in check.sentence


def trials_reported(models: int, items: int, trials: int) -> tuple[Check, str]:
    """Return the check of trials by a fit of a simulated table, and all notes before it."""
    frame = simulate(0, models=models, items=items, trials=trials).responses
    responses = Responses.from_frame(frame)
    checks = design_checks(build(load_model("hierarchical"), responses), None)
    check = {c.name: c for c in checks}["Trials of responses"]
    return check, " ".join(choose_spec("auto", responses)[1].notes)


def test_rows_that_may_count_different_items_are_reported():
    """Printed results by half: two rows a benchmark, of a hundred items each."""
    check, notes = trials_reported(models=2, items=2, trials=100)
    assert check.outcome is Outcome.CAUTION
    assert "likelihood.trials = 'items'" in check.sentence
    assert "likelihood.trials" in notes
    # Ten generations of many items are repeats, and so are a hundred of many.
    for trials, items in ((100, 20), (10, 2)):
        check, notes = trials_reported(models=2, items=items, trials=trials)
        assert check.outcome is Outcome.PASSED
        assert "likelihood" not in notes


def design(frame: pd.DataFrame, reference: float) -> dict[str, Check]:
    b = build(load_model("hierarchical"), Responses.from_frame(frame))
    levels = np.full(len(b.design.benchmarks), reference)
    return {check.name: check for check in design_checks(b, levels)}


def test_reference_outside_the_observed_range_is_reported():
    frame = simulate(0, models=2, items=6).responses.copy()
    frame["contamination"] = np.tile(np.linspace(0.2, 0.6, 6), len(frame) // 6)
    inside, outside = design(frame, 0.2), design(frame, 0.0)
    assert inside["Reference in observed range"].outcome is Outcome.PASSED
    assert outside["Reference in observed range"].outcome is Outcome.CAUTION
    assert "'model-0', 'model-1'" in outside["Reference in observed range"].sentence


def test_partly_answered_benchmarks_are_reported():
    frame = simulate(0, models=2, benchmarks=1, items=6).responses
    assert design(frame, 0.3)["Items answered"].outcome is Outcome.PASSED
    some = design(frame.iloc[:-2], 0.3)["Items answered"]
    assert some.outcome is Outcome.PASSED
    assert "model-1: 4 of 6 of bench-0" in some.sentence
    few = design(frame.iloc[:-4], 0.3)["Items answered"]
    assert few.outcome is Outcome.CAUTION
    assert "less than half of a benchmark ('model-1: 2 of 6 of bench-0')" in few.sentence


@pytest.mark.parametrize(
    ("models", "exposures", "left"),
    [
        # Cells less models and benchmarks, of which one mean is counted twice, less exposure.
        (2, [[0.5], [0.0]], 0),
        (2, [[0.5, 0.0], [0.0, 0.0]], 0),
        (4, [[0.5, 0.0], [0.2, 0.0], [0.0, 0.0], [0.0, 0.0]], 2),
        # Exposure is the same on both benchmarks: a property of the model, like ability.
        (4, [[0.5, 0.5], [0.2, 0.2], [0.0, 0.0], [0.1, 0.1]], 0),
    ],
)
def test_spillover_that_ability_could_be_is_reported(models, exposures, left):
    frame = simulate(0, models=models, benchmarks=len(exposures[0]), items=4).responses.copy()
    of_model, of_benchmark = (frame[c].str[-1].astype(int) for c in ("model", "benchmark"))
    frame["contamination"] = np.array(exposures)[of_model, of_benchmark]
    b = build(load_model("spillover"), Responses.from_frame(frame))
    check = {c.name: c for c in design_checks(b, np.zeros(len(exposures[0])))}[SPILLOVER]
    assert check.value == left
    assert check.outcome is (Outcome.PASSED if left >= 2 else Outcome.CAUTION)


@pytest.mark.parametrize(("apart", "left"), [(0.02, 0), (0.2, 6)])
def test_small_differences_of_exposure_report_no_spillover(apart, left):
    """Nor do they bring it nearer to the reference, which no model's exposure reaches."""
    frame = simulate(0, models=8, benchmarks=2, items=4).responses.copy()
    of_model, of_benchmark = (frame[c].str[-1].astype(int) for c in ("model", "benchmark"))
    frame["contamination"] = 0.5 + apart * (of_model % 2) * of_benchmark
    b = build(load_model("spillover"), Responses.from_frame(frame))
    checks = {c.name: c for c in design_checks(b, np.array([0.3, 0.3]))}
    assert checks[SPILLOVER].value == left
    assert checks["Reference in range of exposure"].outcome is Outcome.CAUTION
    near = {c.name: c for c in design_checks(b, np.array([0.5, 0.5]))}
    assert near["Reference in range of exposure"].outcome is Outcome.PASSED


def test_spillover_is_left_out_where_a_missing_answer_is_all_that_differs():
    frame = simulate(0, models=8, benchmarks=2, items=40).responses.copy()
    frame["contamination"] = frame["item"].str[-1].astype(int) / 20
    b = build(load_model("spillover"), Responses.from_frame(frame.iloc[1:]))
    assert "differ by less than 0.01" in dict(b.terms.left_out)["spillover"]
