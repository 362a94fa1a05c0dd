"""Simulated: the published generator and method, against formulas written out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from bayescontam.calibration import simulators
from bayescontam.inference.bootstrap import regressions, resample
from studies import _common, decomposition, eight_models, novelty, versions
from studies._common import (
    Generator,
    coverage,
    draw_exposures,
    estimate,
    penalised_regression,
    published_method,
    simulated,
)
from tests.support.made_findings import study

GENERATOR, EXPOSURES = Generator(0.35, 0.30, 400), (0.2, 0.7, 3, 2)


def test_contaminations_lie_between_those_of_the_least_and_the_most_exposed_concept() -> None:
    exposure = draw_exposures(EXPOSURES, np.random.default_rng(3))
    found = GENERATOR.contamination(EXPOSURES, np.random.default_rng(3))
    ends = 1 / (1 + (0.7 / 0.3) * np.exp(-5 * (np.sort(exposure)[[0, -1]] - 0.5)))
    assert ends[0] < found.min() < found.max() < ends[1]
    assert len(found) == 400
    # The mean exposure of a task is that of the concepts, give or take chance.
    back = 0.5 + np.log(found / (1 - found) * 0.7 / 0.3) / 5
    assert back.mean() == pytest.approx(exposure.mean(), abs=4 * back.std() / 20)


def test_the_truth_is_the_mean_accuracy_with_and_without_contamination() -> None:
    at = np.array([0.2, 0.5, 0.8])
    truth = GENERATOR.truth(at)
    accuracy, genuine = np.mean(0.35 + 0.3 * at), 0.35 + 0.3 * 0.2
    assert truth["accuracy"] == pytest.approx(accuracy)
    assert truth["genuine_ability_direct"] == pytest.approx(genuine)
    assert truth["overfitting_fraction_direct"] == pytest.approx((accuracy - genuine) / accuracy)


def test_the_published_estimate_is_that_of_a_penalised_regression() -> None:
    rng = np.random.default_rng(5)
    at = GENERATOR.contamination(EXPOSURES, rng)
    responses = simulated(GENERATOR.answered(at, rng, "b"))
    frame, found = responses.frame, published_method(responses, rng, 200)
    y, d = frame["n_correct"].to_numpy(float), frame["contamination"].to_numpy()

    def loss(x: np.ndarray) -> float:
        eta = x[0] + x[1] * d
        return float((np.logaddexp(0, eta) - y * eta).sum() + x[1] ** 2 / 2)

    intercept, slope = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-6}).x
    genuine = 1 / (1 + np.exp(-(intercept + slope * d.min())))
    assert estimate(found, "slope")[0] == pytest.approx(slope, abs=1e-4)
    assert estimate(found, "genuine_ability_direct")[0] == pytest.approx(genuine, abs=1e-5)
    assert estimate(found, "accuracy")[0] == y.mean()
    over = max(y.mean() - genuine, 0)
    assert estimate(found, "overfitting_fraction_direct")[0] == pytest.approx(
        over / y.mean(), abs=1e-4
    )
    for _, row in found.iterrows():
        assert row["low"] <= row["mean"] <= row["high"]


def test_generator_and_method_are_those_of_the_simulation_studies() -> None:
    printed = simulators.PRINTED
    assert printed["concepts"] == _common.CONCEPTS
    assert (
        tuple(printed[f"exposure_{name}"] for name in ("floor", "span", "a", "b"))
        == _common.EXPOSURES
    )
    exposure = np.linspace(0, 1, 11)
    assert np.array_equal(_common.contamination_of(exposure), simulators.contamination_of(exposure))
    one, other = (
        module.compositions(30, np.random.default_rng(4)) for module in (_common, simulators)
    )
    assert np.array_equal(one, other)
    rng = np.random.default_rng(6)
    frames = [
        GENERATOR.answered(GENERATOR.contamination(EXPOSURES, rng), rng, name)[:60]
        for name in ("a", "b")
    ]
    responses = simulated(*frames)
    found = published_method(responses, np.random.default_rng(7), 1500)
    drawn = resample(responses.frame, np.random.default_rng(7), resamples=1500)
    assert found["quantity"].tolist() == [quantity for quantity, *_ in drawn]
    for end, probability in (("low", 0.025), ("high", 0.975)):
        wanted = [np.quantile(values, probability) for values in drawn.values()]
        assert found[end].to_numpy() == pytest.approx(wanted, abs=1e-9)


def test_answers_that_are_all_alike_have_no_slope() -> None:
    at, weights = np.array([0.1, 0.4, 0.8]), np.array([[1, 1, 1], [2, 0, 1], [0, 3, 0]])
    for correct in (np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])):
        found = penalised_regression(correct, at, weights)
        wanted = regressions(correct, np.ones(3), at, weights.astype(float), 1.0)
        for one, other in zip(found, wanted, strict=True):
            assert one == pytest.approx(other, abs=1e-9)


def test_coverage_counts_the_intervals_that_hold_their_truth() -> None:
    rows = pd.DataFrame({"low": [0, 0, 0, 1.0], "high": [1, 1, 1, 2.0], "truth": [0, 0.5, 1, 0.9]})
    assert coverage(rows) == (0.75, pytest.approx(np.sqrt(0.75 * 0.25 / 4)))
    # Of draws from a Beta(4, 1), whose mean is 4 / 5 and mean square 4 / 6.
    assert coverage(rows[:3]) == (1.0, pytest.approx(np.sqrt(4 / 6 - (4 / 5) ** 2)))


def test_many_tables_are_taken_up_where_they_ended(tmp_path: Path) -> None:
    made, calls = study(tmp_path, {}), []

    def make(table: int) -> pd.DataFrame:
        calls.append(table)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return pd.DataFrame({"value": [10 * table]})

    with pytest.raises(KeyboardInterrupt):
        made.over_tables("t", {}, make, 5, chunk=2)
    rows = made.over_tables("t", {}, make, 5, chunk=2)
    assert calls == [0, 1, 2, 3, 4, 4]
    assert rows["value"].tolist() == [0, 10, 20, 30, 40]
    assert rows["table"].tolist() == [0, 1, 2, 3, 4]


SETTINGS = {"tasks": 60, "genuine": 0.35, "boost": 0.3, "exposures": [0.2, 0.7, 3, 2],
            "resamples": 50, "tables": 3}  # fmt: skip


def test_the_decomposition_holds_each_table_against_its_own_truth(tmp_path: Path) -> None:
    made = study(tmp_path, SETTINGS)
    many = decomposition._many(made, Generator(0.35, 0.3, 60))
    assert many["table"].nunique() == 3
    for _, own in many.groupby("table"):
        value = own.set_index("quantity")["mean"]
        truth = own.set_index("quantity")["truth"]
        low, mean = value["contamination_min"], value["contamination_mean"]
        assert truth["genuine_ability_direct"] == pytest.approx(0.35 + 0.3 * low)
        assert truth["overfitting_direct"] == pytest.approx(0.3 * (mean - low))
        assert value["contamination_max"] > mean > low


def test_versions_are_the_same_tasks_with_and_without_a_boost(tmp_path: Path) -> None:
    settings = {**SETTINGS, "exposures_1": [0.2, 0.7, 3, 2], "exposures_2": [0, 0.5, 2, 3]}
    made = study(tmp_path, settings)
    many = versions._many(made)
    for _, pair in many.groupby(["table", "benchmark"]):
        assert pair["sd"].nunique() == 1
        assert sorted(pair["boost"]) == [0.0, 0.3]
        assert (pair.loc[pair["boost"] == 0, "truth"] == 0).all()
        assert (pair.loc[pair["boost"] > 0, "truth"] > 0).all()
    means = many.groupby("benchmark")[["exposure", "sd"]].mean()
    assert (means.loc["version 1"] > 2 * means.loc["version 2"]).all()


def test_novel_tasks_have_the_share_of_rare_concepts_that_their_level_says() -> None:
    exposure = np.repeat([0.2, 0.8], 25)  # rare and common concepts
    rng = np.random.default_rng(7)
    for share in (0.0, 0.3, 1.0):
        mean = novelty._mean_exposures(exposure, share, 4000, rng)
        rare = (0.8 - mean) / 0.6
        assert rare.mean() == pytest.approx(share, abs=0.01)
        assert 0 - 1e-9 <= rare.min() <= rare.max() <= 1 + 1e-9


def test_each_of_eight_models_has_its_own_true_fraction() -> None:
    settings = {**SETTINGS, "genuine": [0.3, 0.5], "boost": [0.4, 0.0], "tasks": 500}
    responses, truth = eight_models._table(settings, np.random.default_rng(2))
    frame = responses.frame
    least = frame["contamination"].min()
    for name, genuine, boost in (("model 1", 0.3, 0.4), ("model 2", 0.5, 0.0)):
        at = frame.loc[frame["model"] == name, "contamination"]
        accuracy = genuine + boost * at.mean()
        assert truth.common[name] == pytest.approx(boost * (at.mean() - least) / accuracy)
        assert truth.own[name] == pytest.approx(boost * (at.mean() - at.min()) / accuracy)
        share = frame.loc[frame["model"] == name, "n_correct"].mean()
        assert share == pytest.approx(accuracy, abs=4 * np.sqrt(0.25 / 500))


def test_scores_are_error_coverage_width_and_rank_agreement() -> None:
    many = pd.DataFrame(
        {
            "table": 0, "estimator": "e", "mean": [0.1, 0.2, 0.3], "truth": [0.1, 0.3, 0.2],
            "low": [0.0, 0.1, 0.0], "high": [0.2, 0.25, 0.4],
        }
    )  # fmt: skip
    (row,) = eight_models._scores(many).to_dict("records")
    assert row["error"] == pytest.approx(np.sqrt(0.02 / 3))
    assert row["bias"] == pytest.approx(0)
    assert row["coverage"] == pytest.approx(2 / 3)
    assert row["width"] == pytest.approx((0.2 + 0.15 + 0.4) / 3)
    assert row["rank agreement"] == pytest.approx(1 / 3)  # two of three pairs in order


def test_only_posteriors_can_fail_to_converge() -> None:
    names = [eight_models.METHOD, eight_models.ALONE, eight_models.POOLED]
    many = pd.DataFrame(
        [
            {"table": table, "estimator": name, "faults": "few draws" * (table == 0 and k == 2)}
            for table in range(4)
            for k, name in enumerate(names)
            for _ in range(2)
        ]
    )
    reported = "1 of 8 posteriors of the many tables did not converge in full."
    assert eight_models._unconverged(many) == [reported]
    assert eight_models._unconverged(many[many["table"] > 0]) == []


def test_how_often_a_boost_is_distinguished_is_counted_in_pairs() -> None:
    rng = np.random.default_rng(1)
    one, other = (pd.Series(rng.integers(0, 4, size)) for size in (7, 5))
    pairs = [(a > b) + 0.5 * (a == b) for a in one for b in other]
    assert versions.larger(one, other) == pytest.approx(np.mean(pairs))


def test_the_caption_says_on_which_side_of_the_truth_estimates_lie() -> None:
    many = pd.DataFrame({"quantity": "slope", "mean": [0.1, 0.2], "truth": [0.2, 0.3]})
    assert decomposition.off(many, "slope") == "10.0 points lower"
    assert decomposition.off(many.assign(truth=0.0), "slope") == "15.0 points higher"
