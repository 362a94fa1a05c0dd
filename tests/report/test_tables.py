import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.fitted import Fitted
from bayescontam.inference.identification import Identification, identify_spillover
from bayescontam.report import tables
from bayescontam.report.verdicts import (
    EXPLAINED,
    Overfitting,
    checks_sentence,
    overfitting_sentence,
    overfitting_verdict,
)
from tests.report.conftest import BENCHMARKS, MODELS, UNANSWERED
from tests.report.made_fit import made_fit


def with_checks(fit: Fitted, *checks: Check) -> Fitted:
    record = fit.record | {"checks": [check.to_dict() for check in checks]}
    tree = fit.tree.copy()
    tree["record"] = xr.DataTree(xr.Dataset({"json": json.dumps(record)}))
    return Fitted(tree)


def a_check(name: str, outcome: Outcome) -> Check:
    return Check(name, outcome, 1.0, "< 1", "A sentence.")


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_headline_holds_the_estimands(hostile: Fitted, level: float) -> None:
    estimands = hostile.estimands(level)
    table = tables.headline(hostile, estimands).set_index(["model", "benchmark"])
    for row in estimands.itertuples():
        if row.quantity in ("genuine_ability", "overfitting"):
            assert table.loc[(row.model, row.benchmark), row.quantity] == row.mean
            assert table.loc[(row.model, row.benchmark), f"{row.quantity}_low"] == row.ci_low
            assert table.loc[(row.model, row.benchmark), f"{row.quantity}_high"] == row.ci_high
        if row.quantity == "p_best":
            assert table.loc[(row.model, row.benchmark), "p_best"] == row.mean
        if row.quantity == "slope":
            assert table.loc[(row.model, row.benchmark), "slope_verdict"] == row.verdict


def test_headline_has_the_answered_pairs_in_the_order_of_the_fit(hostile: Fitted) -> None:
    table = tables.headline(hostile)
    pairs = [(m, b) for m in MODELS for b in BENCHMARKS if (m, b) != UNANSWERED]
    assert list(zip(table["model"], table["benchmark"], strict=True)) == pairs
    assert table.drop(columns=["model", "benchmark"]).notna().all(axis=None)


def test_ranks_are_within_benchmarks(hostile: Fitted) -> None:
    table = tables.headline(hostile)
    for _, part in table.groupby("benchmark"):
        assert sorted(part["rank_genuine"]) == list(range(1, len(part) + 1))
        best = part.loc[part["raw_accuracy"].idxmax()]
        assert best["rank_raw"] == 1
        assert part["p_best"].sum() == pytest.approx(1)


def test_a_clean_model_has_no_overfitting_and_no_nan(hostile: Fitted) -> None:
    table = tables.headline(hostile)
    clean = table[table["model"] == MODELS[2]]
    assert (clean["overfitting"] == 0).all()
    assert (clean["overfitting_verdict"] == Overfitting.NONE).all()
    assert (clean["slope_verdict"] == "borrowed").all()
    assert clean.notna().all(axis=None)


def test_without_contamination_the_headline_says_nothing_of_it(by_concept: Fitted) -> None:
    table = tables.headline(by_concept)
    assert not [name for name in table if "overfitting" in name or "slope" in name]
    assert {"accuracy", "accuracy_low", "rank_accuracy"} <= set(table)
    assert tables.slopes(by_concept).empty
    assert tables.sensitivity(by_concept).empty
    assert "not modelled" in tables.verdict_line(by_concept)


def test_concepts_hold_estimands_and_observed_scores(by_concept: Fitted, hostile: Fitted) -> None:
    table = tables.by_concept(by_concept)
    assert len(table) == 15
    assert (table["items"] == 8).all()
    estimands = by_concept.estimands().query("concept != '' and quantity == 'accuracy'")
    np.testing.assert_array_equal(table["accuracy"], estimands["mean"])
    whole = by_concept.raw_accuracy().sel(benchmark="puzzles").to_series()
    means = table.groupby("model")["raw_accuracy"].mean()
    pd.testing.assert_series_equal(means, whole, check_names=False)
    assert tables.by_concept(hostile).empty


def test_slopes_carry_their_identification(hostile: Fitted) -> None:
    table = tables.slopes(hostile)
    assert len(table) == 5
    assert table["sentence"].str.len().min() > 20
    assert (table["extrapolation"] == 0).all()
    assert set(table["verdict"]) <= {"found", "not found", "could not be found", "borrowed"}


def extrapolated(fit: Fitted, value: float) -> Fitted:
    """Return the fit with the reference that far outside the range of its last model."""
    known = fit.tree["identification"].to_dataset()
    beyond = xr.zeros_like(known["contraction"])
    beyond[{"model": -1}] = value
    tree = fit.tree.copy()
    tree["identification"] = xr.DataTree(known.assign(extrapolation=beyond))
    return Fitted(tree)


def test_slopes_carry_the_figures_behind_them(hostile: Fitted) -> None:
    fit = extrapolated(hostile, 0.25)
    table = tables.slopes(fit).set_index(["model", "benchmark"])
    known = fit.tree["identification"].to_dataset()
    for pair, row in table.iterrows():
        cell = known.sel(model=pair[0], benchmark=pair[1])
        for name in tables.FIGURES:
            np.testing.assert_equal(row[name], float(cell[name]))
    assert table["extrapolation"].groupby("model").max().to_dict() == {
        MODELS[0]: 0, MODELS[1]: 0, MODELS[2]: 0.25,
    }  # fmt: skip


def test_fits_of_earlier_versions_say_nothing_of_extrapolation(hostile: Fitted) -> None:
    tree = hostile.tree.copy()
    known = tree["identification"].to_dataset().drop_vars("extrapolation", errors="ignore")
    tree["identification"] = xr.DataTree(known)
    table = tables.slopes(Fitted(tree))
    assert table["extrapolation"].isna().all()
    pd.testing.assert_series_equal(table["slope"], tables.slopes(hostile)["slope"])


def test_sensitivity_has_no_row_for_what_was_not_answered(hostile: Fitted) -> None:
    table = tables.sensitivity(hostile)
    assert len(table) == 5
    assert table["diagnosis"].str.len().min() > 0


def test_a_failed_check_shows_in_the_verdict_line(hostile: Fitted) -> None:
    failed = with_checks(
        hostile, a_check("divergences", Outcome.FAILED), a_check("E-BFMI", Outcome.PASSED)
    )
    line = tables.verdict_line(failed)
    assert line.startswith("Do not rely on this fit yet: 1 of 2 checks failed (divergences)")
    assert "passed" not in line


def test_cautions_are_named_and_are_no_failures() -> None:
    passed, caution = a_check("a", Outcome.PASSED), a_check("b", Outcome.CAUTION)
    assert checks_sentence((passed, passed)) == "All 2 checks passed"
    assert checks_sentence((passed, caution)) == "No check failed, 1 caution (b), of 2 checks"


def test_checks_hold_every_check(hostile: Fitted) -> None:
    table = tables.checks(hostile)
    assert list(table["name"]) == [check.name for check in hostile.checks()]
    assert list(table) == ["name", "outcome", "value", "threshold", "sentence"]


@pytest.mark.parametrize(
    ("slope", "low", "high", "expected"),
    [
        ("found", 0.01, 0.1, Overfitting.SHOWN),
        ("found", -0.1, -0.01, Overfitting.OPPOSITE),
        ("found", -0.1, 0.1, Overfitting.UNSETTLED),
        ("not found", -0.1, 0.1, Overfitting.NOT_FOUND),
        ("could not be found", -0.1, 0.1, Overfitting.COULD_NOT_BE_FOUND),
        ("no variation", -0.1, 0.1, Overfitting.COULD_NOT_BE_FOUND),
        ("borrowed", 0.1, 0.2, Overfitting.BORROWED),
        ("sign assumed", 0.1, 0.2, Overfitting.SIGN_ASSUMED),
        ("borrowed", 0.0, 0.0, Overfitting.NONE),
        # The sign of slopes is assumed, not that of what depends on difficulty or reference.
        ("sign assumed", -0.2, -0.1, Overfitting.UNSETTLED),
        ("not found", 0.1, 0.2, Overfitting.SHOWN),
    ],
)
def test_overfitting_verdicts(slope: str, low: float, high: float, expected: Overfitting) -> None:
    assert overfitting_verdict(slope, low, high, slope=low + high) is expected


LIFT = {kind.value: kind for kind in Identification}


@pytest.mark.parametrize(
    ("slope", "lift", "low", "high", "expected"),
    [
        ("no variation", "found", 0.08, 0.22, Overfitting.SHOWN),
        ("borrowed", "found", 0.08, 0.22, Overfitting.SHOWN),
        ("could not be found", "found", -0.22, -0.08, Overfitting.OPPOSITE),
        ("found", "could not be found", -0.1, 0.3, Overfitting.UNSETTLED),
        ("found", "could not be found", 0.1, 0.3, Overfitting.SHOWN),
        ("not found", "not found", -0.1, 0.1, Overfitting.NOT_FOUND),
        ("not found", "could not be found", -0.4, 0.4, Overfitting.COULD_NOT_BE_FOUND),
        ("not found", "could not be found", 0.1, 0.4, Overfitting.UNSETTLED),
        ("sign assumed", "found", -0.1, 0.3, Overfitting.UNSETTLED),
        ("assumed clean", "found", 0.0, 0.0, Overfitting.CLEAN),
    ],
)
def test_with_spillover_the_slope_alone_does_not_decide(slope, lift, low, high, expected):
    said = overfitting_verdict(slope, low, high, slope=low + high, lift=LIFT[lift])
    assert said is expected


@pytest.mark.parametrize(
    ("mean", "sd", "apart", "expected"),
    [
        (0.0, 1.0, True, "could not be found"),
        (0.0, 0.3, True, "not found"),  # 2.8 × 0.3 / sqrt(1 - 0.09) is below the prior's 1
        (0.0, 0.4, True, "could not be found"),
        (-1.0, 0.3, True, "found"),
        (1.0, 0.3, False, "could not be found"),
    ],
)
def test_spillover_is_judged_as_slopes_are(mean, sd, apart, expected):
    even = norm.ppf((np.arange(4000) + 0.5) / 4000)
    posterior, prior = (xr.DataArray(values) for values in (mean + sd * even, even))
    assert identify_spillover(posterior, prior, apart, 0.95).value == expected


def test_draws_of_the_prior_tell_no_overfitting_by_spillover():
    fit = made_fit([f"m{i}" for i in range(11)], ["one", "two"], 6, 200, "spillover")
    assert "spillover" in fit.record["entered"]
    said = set(tables.headline(fit)["overfitting_verdict"])
    assert said <= {"could not be found", "borrowed", "zero by definition", "unsettled"}


def test_equally_contaminated_items_are_no_clean_score() -> None:
    assert overfitting_verdict("borrowed", 0.0, 0.0, 0.3) is Overfitting.COULD_NOT_BE_FOUND
    assert overfitting_verdict("no variation", 0.0, 0.0, 0.0) is Overfitting.NONE


def test_what_was_not_found_and_what_could_not_be_found_are_counted_apart() -> None:
    kinds = [Overfitting.SHOWN, Overfitting.NOT_FOUND, *[Overfitting.COULD_NOT_BE_FOUND] * 2]
    text = overfitting_sentence(pd.DataFrame({"overfitting_verdict": kinds}))
    assert "of 4 pairs" in text
    assert "is shown in 1" in text
    assert "was not found in 1 (" in text
    assert "could not have been found in 2" in text
    one = overfitting_sentence(pd.DataFrame({"overfitting_verdict": kinds[2:3]}))
    assert one.endswith("overfitting could not have been found")


def test_every_verdict_is_explained_in_its_own_words() -> None:
    assert set(EXPLAINED) == set(Overfitting)
    assert len(set(EXPLAINED.values())) == len(Overfitting)


def test_a_reference_above_the_items_turns_no_slope_around():
    """A positive slope and a negative overfitting do not say that scores fall."""
    assert overfitting_verdict("found", -0.3, -0.1, 1.0, slope=3.0).value == "unsettled"
    assert overfitting_verdict("found", 0.1, 0.3, 1.0, slope=-3.0).value == "unsettled"
    assert overfitting_verdict("found", -0.3, -0.1, 0.0, slope=-3.0).value == "opposite sign"
