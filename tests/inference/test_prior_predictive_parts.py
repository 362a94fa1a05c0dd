"""What priors imply of every shipped spec and part of one, of made-up tables, and refusals."""

import logging

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError, DataError, SpecError, UsageError
from bayescontam.inference.prior_predictive import (
    QUANTILES,
    ExampleLayout,
    fitting,
    implied,
    make_example,
    names_of,
)
from bayescontam.specs.registry import load_model, shipped_models
from tests.support.prior_cases import DRAWS, spec_of, table, within


@pytest.fixture(autouse=True)
def calm() -> None:
    logging.getLogger("pymc").setLevel(logging.WARNING)


# Made-up tables


@pytest.mark.parametrize("name", shipped_models())
@pytest.mark.parametrize("trials", [1, 4])
def test_every_shipped_spec_has_an_answer(name, trials):
    found = implied(load_model(name), models=4, benchmarks=3, items=12, trials=trials, draws=100)
    reported = found.table()
    assert reported["quantity"].tolist() == [each.name for each in found.quantities]
    ends = reported[list(QUANTILES)].to_numpy()
    assert np.isfinite(ends).all()
    assert (np.diff(ends, axis=1) >= 0).all()
    assert (reported["lost"] == 0).all()
    has_slope = load_model(name).contamination.form != "none"
    assert ("slope" in found.values) is has_slope
    assert ("unit_accuracy" in found.values) is (load_model(name).ability.by != "benchmark")
    repeats = load_model(name).likelihood.has_model_by_item
    assert ("eps" in dict(found.left_out)) is (repeats and trials == 1)


def test_positive_slopes_never_lower_an_accuracy():
    found = implied(load_model("positive"), models=3, items=30, draws=300)
    for quantity in ("overfitting_direct", "slope", "novelty_gap", "overfitting_fraction_direct"):
        assert found.values[quantity].min() >= 0


def test_one_model_on_one_benchmark_has_no_differences():
    found = implied(load_model("single"), models=1, benchmarks=1, items=10, draws=100)
    assert not [name for name in found.values if "difference" in name]


def test_a_pair_that_was_not_answered_has_no_part():
    """The third model answers nothing of the second benchmark, of which it has no accuracy."""
    frame = table(3, 2, 5)
    absent = (frame["model"] == "model2") & (frame["benchmark"] == "benchmark1")
    found = implied(load_model("single"), responses=Responses.from_frame(frame[~absent]), draws=200)
    assert found.values["accuracy"].size == 5 * 200
    assert found.values["item_spread"].size == 5 * 200
    assert found.values["benchmark_difference"].size == 2 * 2 * 200
    # Neighbours in a circle of three: all three pairs of the first benchmark, one of the second.
    assert found.values["model_difference"].size == 4 * 200


def test_a_made_up_table_is_as_it_says():
    spec = spec_of('ability.by = "topic"\nlikelihood.guess = { quiz = 0.2, exam = 0.1 }')
    layout = ExampleLayout(models=3, benchmarks=3, items=400, trials=5, contamination=(2.0, 6.0))
    frame = make_example(spec, layout, np.random.default_rng(1)).frame
    assert frame.groupby("benchmark", sort=False)["model"].nunique().to_dict() == {
        "quiz": 3, "exam": 3, "bench 1": 3,
    }  # fmt: skip
    assert (frame.groupby(["model", "benchmark"])["item"].nunique() == 400).all()
    assert (frame["n_trials"] == 5).all()
    by_item = frame.groupby(["benchmark", "item"])
    assert (by_item["contamination"].nunique() == 1).all()
    assert (by_item["topic"].nunique() == 1).all()
    assert frame.groupby("benchmark")["topic"].nunique().tolist() == [10, 10, 10]
    d = by_item["contamination"].first()
    assert stats.kstest(d, stats.beta(2, 6).cdf).pvalue > 1e-4
    assert (frame["contamination_sd"] ** 2).to_numpy() == pytest.approx(
        0.25 * frame["contamination"] * (1 - frame["contamination"])
    )


def test_names_that_a_spec_gives_all_come():
    spec = spec_of(
        """
        likelihood.guess = { "bench 1" = 0.2, exam = 0.1 }
        contamination.confounding = "anchored"
        contamination.clean = ["human", "model 2"]
        """
    )
    assert names_of(["bench 1", "exam"], "bench", 3) == ["bench 1", "exam", "bench 2"]
    layout = fitting(spec, ExampleLayout(models=1, benchmarks=1, items=4))
    assert (layout.models, layout.benchmarks) == (3, 2)
    responses = make_example(spec, layout, np.random.default_rng(1))
    assert responses.models == ("human", "model 2", "model 1")
    assert responses.benchmarks == ("bench 1", "exam")


@pytest.mark.parametrize("said", ['clean = ["human"]', 'clean_column = "is_clean"'])
def test_clean_models_have_no_overfitting(said):
    spec = spec_of(
        f"""
        ability.pooling = "none"
        contamination.pooling = "none"
        contamination.confounding = "anchored"
        contamination.{said}
        """
    )
    found = implied(spec, models=4, benchmarks=2, items=10, draws=DRAWS, seed=5)
    assert len(found.clean) == 1
    assert f"their slopes are 0: '{found.clean[0]}'" in found.notes()[-1]
    # One of four models is clean; slopes of the others are Normal(0, 2).
    for quantity in ("slope", "overfitting_direct", "novelty_gap"):
        assert (found.values[quantity] == 0).mean() == pytest.approx(0.25)
    slopes = found.values["slope"]
    within(float((slopes > 4).mean()) / 0.75, float(stats.norm(0, 2).sf(4)), 6 * DRAWS)


def test_pairs_whose_contamination_does_not_vary_have_no_effects_to_count():
    given = table(3, 3, 10)
    for benchmark, same in (("benchmark1", 0.5), ("benchmark2", 0.0)):
        given.loc[given["benchmark"] == benchmark, "contamination"] = same
    given = given.drop(columns=["contamination_sd", "p_duplicate"])
    spec = load_model("single")
    found = implied(spec, draws=200, seed=5, responses=Responses.from_frame(given))
    for quantity in ("overfitting_direct", "overfitting_fraction_direct", "novelty_gap"):
        # Those of three pairs that vary, and zeros of three without contamination.
        assert found.values[quantity].size == 200 * 6
        assert (found.values[quantity] == 0).mean() == pytest.approx(0.5)
    assert found.values["accuracy"].size == 200 * 9
    same, none = found.notes()[-2:]
    assert same.startswith("In 3 of 9 pairs of model and benchmark all items have the same")
    assert none.startswith("In 3 of 9 pairs of model and benchmark no item is contaminated")
    alone = given[given["benchmark"] == "benchmark1"]
    nothing = implied(spec, draws=200, seed=5, responses=Responses.from_frame(alone))
    assert "overfitting_direct" not in nothing.values
    assert "accuracy" in nothing.table()["quantity"].tolist()


def test_spillover_lifts_by_the_mean_contamination_of_a_model():
    """Without slopes of items the whole overfitting is spillover, on the log-odds."""
    spec = spec_of(
        """
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        contamination.spillover = true
        priors.theta = { family = "normal", sigma = 1e-9 }
        priors.beta_bar = { family = "normal", sigma = 1e-9 }
        priors.spillover = { family = "normal", mu = 3.0, sigma = 1e-9 }
        """
    )
    layout = ExampleLayout(models=4, benchmarks=2, items=30)
    frame = make_example(spec, layout, np.random.default_rng(2)).frame
    found = implied(spec, responses=Responses.from_frame(frame), draws=100, reference="zero")
    by_cell = frame.groupby(["model", "benchmark"], sort=False)["contamination"].mean()
    center = frame.groupby("benchmark")["contamination"].mean()
    lift = 3 * (by_cell - by_cell.index.get_level_values("benchmark").map(center).to_numpy())
    wanted = np.sort(expit(lift) - expit(lift - 3 * by_cell))
    overfitting = np.sort(found.values["overfitting"].reshape(100, -1), axis=1)
    assert found.values["overfitting_direct"] == pytest.approx(0.0, abs=1e-6)
    assert overfitting == pytest.approx(np.tile(wanted, (100, 1)), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ('contamination.form = "monotone"', "increments"),
        ('contamination.interaction = "difficulty"', "gamma"),
        ('contamination.confounding = "sensitivity"', "kappa"),
        ("contamination.spillover = true", "spillover"),
        ('difficulty.discrimination = "random"', "alpha"),
    ],
)
def test_every_part_of_a_spec_enters(text, symbol):
    found = implied(spec_of(text), models=3, benchmarks=3, items=10, draws=100)
    assert symbol not in dict(found.left_out)
    assert np.isfinite(found.table()["median"]).all()


def test_a_seed_gives_the_same_numbers():
    spec = load_model("single")
    first, again, other = (implied(spec, items=10, draws=100, seed=k).table() for k in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert (first["median"] != other["median"]).any()


# Priors far too wide, and what is refused


def test_what_overflows_is_not_reported():
    spec = spec_of(
        """
        contamination.sign = "positive"
        priors.beta_bar = { family = "half_normal", sigma = 1.0 }
        priors.sigma_bm = { family = "half_student_t", nu = 0.2, sigma = 5.0 }
        """
    )
    found = implied(spec, items=10, draws=100)
    reported = found.table().set_index("quantity")
    assert reported.loc["slope", "lost"] > 0.05
    numbers = [*QUANTILES, "p_below", "p_above"]
    assert reported.loc["slope", numbers].isna().all()
    assert reported.loc["accuracy", numbers].notna().all()
    assert "No values for" in found.notes()[-1]
    assert "'slope'" in found.notes()[-1]
    assert "'accuracy'" not in found.notes()[-1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"models": 0}, UsageError, "models: got 0; allowed is 1 to 1,000,000"),
        ({"items": 1}, UsageError, "items: got 1; allowed is 2"),
        ({"trials": 0}, UsageError, "trials: got 0"),
        ({"items": 1_000_000}, UsageError, "models × benchmarks × items: got 16,000,000"),
        ({"draws": 99}, UsageError, "draws: got 99; allowed is 100"),
        ({"seed": -1}, UsageError, "seed: got -1"),
        ({"contamination": (0.0, 1.0)}, UsageError, "contamination: got"),
        ({"reference": 2.0}, UsageError, "reference: got 2.0"),
    ],
)
def test_refusals(options: dict, error: type[BayescontamError], message: str):
    with pytest.raises(error, match=message):
        implied(load_model("single"), **{"items": 5, "draws": 100, **options})


def test_a_table_that_lacks_what_the_spec_needs():
    frame = table(2, 1, 5).drop(columns="contamination")
    with pytest.raises(DataError, match="needs a column 'contamination'"):
        implied(load_model("single"), responses=Responses.from_frame(frame))


def test_a_spec_that_names_a_benchmark_the_table_has_not():
    spec = spec_of("likelihood.guess = { quiz = 0.25 }")
    with pytest.raises(SpecError, match="no such benchmark: 'quiz'"):
        implied(spec, responses=Responses.from_frame(table(2, 1, 5)), draws=100)
