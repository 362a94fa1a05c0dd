"""The public update: what it refuses, what it falls back to, and what it says."""

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, FitError, UsageError
from bayescontam.inference.result import Fit
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from bayescontam.updating.update import differing_tables, join, raw_scores, update
from tests.support.given_fits import changed, counts_spec, counts_table, given_fit, rough_fit
from tests.support.made_fit import drawn_as, drawn_from_prior
from tests.support.model_points import PLAIN
from tests.support.simulated_responses import simulate

NEW = counts_table([(33, 40)], "N")


@pytest.fixture(scope="module")
def fit() -> Fit:
    return rough_fit()


def test_each_new_model_is_taken_in_alone(fit):
    two = update(fit, counts_table([(33, 40), (2, 40)], "NM"), seed=5)
    one = update(fit, NEW, seed=5)
    table = two.estimands().set_index(["model", "quantity"])["mean"]
    assert [entry.method for entry in two.entries] == ["update", "update"]
    alone = one.estimands().set_index(["model", "quantity"])["mean"]
    pd.testing.assert_series_equal(table["N"], alone["N"])
    assert table["N", "accuracy"] > 0.7 > 0.2 > table["M", "accuracy"]
    assert table["M", "rank"] > 5
    assert set(two.p_better()["other"]) == set("ABCDE")


def test_a_table_without_a_new_model_is_refused(fit):
    with pytest.raises(UsageError, match="has no new model: 'B' is in the fit already"):
        update(fit, counts_table([(33, 40)], "B"))


def test_models_of_the_fit_are_passed_over(fit):
    alone = update(fit, NEW, seed=5)
    both = update(fit, counts_table([(20, 40), (33, 40), (30, 40)], "BNC"), seed=5)
    pd.testing.assert_frame_equal(both.estimands(), alone.estimands())
    (note,) = both.notes
    assert note == (
        "passed over the rows of 2 models in the fit already: 'B', 'C'; in this table the responses"
        " of 'C' differ from those of the fit: to use them, fit the whole table again"
    )


def test_the_observed_score_comes_along(fit):
    assert update(fit, NEW, seed=5).entries[0].raw == {"b": 33 / 40}
    plain = changed(counts_spec(), likelihood={"trials": "repeats"})
    rows = [("b", "i", 3, 4), ("b", "j", 0, 1), ("b", "k", 1, 1)]
    table = pd.DataFrame(rows, columns=["benchmark", "item", "n_correct", "n_trials"])
    scores = raw_scores(plain, Responses.from_frame(table.assign(model="N")))
    assert scores == {"b": pytest.approx((0.75 + 0 + 1) / 3)}


@pytest.mark.slow
def test_a_joint_fit_is_a_fit_like_any_other(tmp_path):
    frame = simulate(11, models=4, benchmarks=1, items=60).responses
    few = {"draws": 150, "tune": 150, "chains": 2, "seed": 3}
    whole = bayescontam.fit(frame, "hierarchical", **few)
    with drawn_from_prior():
        old = bayescontam.fit(frame[frame["model"] != "model-3"], "hierarchical", **few)
    with drawn_as(whole):  # they are draws of this model's posterior if the two models are one
        joint = join(old, frame, seed=3, command="a command")  # with rows of models of the fit
    numbers = ["model", "benchmark", "quantity", "mean", "sd", "ci_low", "ci_high", "verdict"]
    tables = (fit.estimands()[numbers] for fit in (joint, whole))
    pd.testing.assert_frame_equal(*tables, rtol=1e-3)  # draws are stored to five digits
    models = [build(fit.spec, fit.responses()).model for fit in (joint, whole)]
    point = models[0].initial_point(1)
    first, second = (model.compile_logp(mode=PLAIN)(point) for model in models)
    assert first == pytest.approx(second)
    assert joint.record["data"]["hash"] == whole.record["data"]["hash"]
    assert joint.record["command"] == "a command"
    joint.to_netcdf(tmp_path / "joint.nc")
    again = Fit.from_netcdf(tmp_path / "joint.nc")
    assert set(bayescontam.rank_models(again).table["model"]) == set(frame["model"])
    more = update(again, frame[frame["model"] == "model-0"].assign(model="new"), seed=3)
    assert set(more.p_better()["other"]) == set(frame["model"])


def test_a_new_benchmark_is_refused(fit):
    with pytest.raises(DataError, match="not in the fit: 'other'; the fit has 'b'"):
        update(fit, NEW.assign(benchmark="other"))


def test_a_missing_column_is_reported():
    table = counts_table([(12, 40), (20, 40), (30, 40)], "ABC").assign(contamination=[0, 0.5, 1])
    old = given_fit(
        load_model("aggregated"), Responses.from_frame(table), theta=np.zeros((1, 3, 1))
    )
    with pytest.raises(DataError, match="uses a column that is not there: 'contamination'"):
        update(old, NEW)


def test_options_are_checked(fit):
    with pytest.raises(UsageError, match="draws: got 10; allowed is 100 or more"):
        update(fit, NEW, draws=10)
    with pytest.raises(UsageError, match="refit: got 'maybe'"):
        update(fit, NEW, refit="maybe")
    with pytest.raises(UsageError, match=r"level: got 1\.5"):
        update(fit, NEW, level=1.5)
    with pytest.raises(UsageError, match="these are not the responses of the fit"):
        update(fit, NEW, old_responses=NEW)


def test_unsure_contamination_asks_for_the_old_responses():
    table = counts_table([(12, 40), (20, 40), (30, 40)], "ABC")
    table = table.assign(contamination=0.4, contamination_sd=0.1)
    spec = changed(load_model("noisy_covariate"), likelihood={"trials": "items"})
    old = given_fit(spec, Responses.from_frame(table), theta=np.zeros((1, 3, 1)))
    with pytest.raises(FitError, match="give the old responses with their contamination"):
        update(old, NEW.assign(contamination=0.4, contamination_sd=0.1))


def test_parts_that_are_not_known_need_a_refit(fit):
    strange = Fit(fit.data.copy())
    strange.data["posterior"] = strange.data["posterior"].assign(
        alpha=fit.data["posterior"]["sigma_theta"]
    )
    with pytest.raises(FitError, match="parts that an update does not know"):
        update(strange, NEW, refit="never")


def test_a_newcomer_far_from_all_draws_is_fitted_with_the_others():
    """Draws of a spread that is far too small cannot be fixed by weights."""
    counts = [(20, 40)] * 4
    rng = np.random.default_rng(2)
    fit = given_fit(
        counts_spec(),
        Responses.from_frame(counts_table(counts, "ABCD")),
        mu=rng.normal(0, 0.1, (2000, 1)),
        sigma_theta=np.abs(rng.normal(0, 0.15, 2000)),
        theta=rng.normal(0, 0.1, (2000, 4, 1)),
    )
    with pytest.raises(FitError, match=r"needs a joint fit: the .* draws"):
        update(fit, counts_table([(395, 400)], "N"), seed=1, refit="never")
    (entry,) = update(fit, counts_table([(395, 400)], "N"), seed=1).entries
    assert entry.method == "refit"
    assert "draws" in entry.verdict
    table = entry.estimands.set_index("quantity")
    assert table.loc["accuracy", "ci_low"] < 395 / 400 < table.loc["accuracy", "ci_high"]
    # The spread of abilities, as that of the old draws could never be.
    assert entry.fit.data["posterior"]["sigma_theta"].mean() > 1.0


def test_clean_models_of_a_column_are_fitted_again():
    """From the fit's file and the new table alone."""
    counts = [(12, 40), (20, 40), (30, 40), (25, 40)]
    old = counts_table(counts, "ABCD").assign(contamination=[0, 0.5, 1, 0.5], clean=[1, 0, 0, 0])
    anchored = {"confounding": "anchored", "clean_column": "clean"}
    spec = changed(load_model("aggregated"), contamination=anchored)
    fit = given_fit(spec, Responses.from_frame(old), theta=np.zeros((1, 4, 1)))
    new = NEW.assign(contamination=0.5)
    with pytest.raises(DataError, match="uses a column that is not there: 'clean'"):
        update(fit, new)
    with pytest.raises(DataError, match="is declared clean, but contamination is above 0"):
        update(fit, new.assign(clean=1), seed=1)
    (entry,) = update(fit, new.assign(clean=1, contamination=0.0), seed=1).entries
    assert entry.method == "refit"
    slopes = entry.fit.data["posterior"]["beta"].to_numpy()
    assert (slopes == 0).all(axis=(0, 1)).ravel().tolist() == [True, False, False, False, True]


def test_what_is_unlike_the_fit_is_reported(fit):
    notes = update(fit, counts_table([(2, 4)], "N"), seed=5).notes
    assert notes == ()
    table = simulate(1, models=2, benchmarks=1, items=10).responses
    old = Responses.from_frame(table[table["model"] == "model-0"])
    new = table[table["model"] == "model-1"].iloc[:6].copy()
    new["item"] = [*new["item"].iloc[:4], "new-1", "new-2"]
    both = Responses.from_frame(pd.concat([old.frame, new]))
    first, second = differing_tables(old, both, 0.0)
    assert "2 of its 6 items of bench-0 are not in the fit" in first
    assert "answered 4 of the fit's 10 items of bench-0" in second
    assert len(differing_tables(old, both, "min_observed")) == 2
    below = both.frame.assign(contamination=both.frame["contamination"].where(
        both.frame["model"] == "model-0", 0.0
    ))  # fmt: skip
    both = Responses.from_frame(below)
    assert "genuine ability is reported at 0 here" in differing_tables(old, both, "min_observed")[2]
    assert len(differing_tables(old, both, "zero")) == 2


def test_a_refit_answers_in_the_same_form(fit):
    weighed = update(fit, NEW, seed=5)
    again = update(fit, NEW, seed=5, refit="always")
    (entry,) = again.entries
    assert entry.method == "refit"
    assert entry.fit is not None
    assert set(entry.fit.data["estimands"]["model"].values) == set("ABCDEN")
    tables = [each.estimands() for each in (weighed, again)]
    assert list(tables[0]) == list(tables[1])
    assert sorted(tables[0]["quantity"]) == sorted(tables[1]["quantity"])
    accuracy = [t.set_index("quantity").loc["accuracy", "mean"] for t in tables]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.03)
    assert list(again.p_better()) == list(weighed.p_better())
    assert "requested" in entry.verdict
