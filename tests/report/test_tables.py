import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm, rankdata

from bayescontam._format import interval
from bayescontam.inference import tables
from bayescontam.inference.checks import Outcome, checks_sentence
from bayescontam.inference.findings import level_of_verdicts, verdict_line
from bayescontam.inference.identification import (
    EXPLAINED,
    EXPLAINED_TOTAL,
    Identification,
    Overfitting,
    identify_spillover,
    overfitting_verdict,
)
from bayescontam.inference.result import Fit
from tests.report.conftest import BENCHMARKS, MODELS, UNANSWERED
from tests.support.made_fit import a_check, extrapolated, made_fit, with_checks


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_headline_holds_the_estimands(hostile: Fit, level: float) -> None:
    estimands = hostile.estimands(level)
    table = tables.headline(hostile, estimands).set_index(["model", "benchmark"])
    for row in estimands.itertuples():
        if row.quantity in ("genuine_ability_direct", "overfitting_direct"):
            assert table.loc[(row.model, row.benchmark), row.quantity] == row.mean
            ends = [f"{row.quantity}_low", f"{row.quantity}_high"]
            found = table.loc[(row.model, row.benchmark), ends].astype(float)
            np.testing.assert_array_equal(found, [row.ci_low, row.ci_high])
        if row.quantity == "p_best":
            assert table.loc[(row.model, row.benchmark), "p_best"] == row.mean
        if row.quantity == "slope":
            assert table.loc[(row.model, row.benchmark), "slope_verdict"] == row.verdict


def test_headline_has_the_answered_pairs_in_the_order_of_the_fit(hostile: Fit) -> None:
    table = tables.headline(hostile)
    pairs = [(m, b) for m in MODELS for b in BENCHMARKS if (m, b) != UNANSWERED]
    assert list(zip(table["model"], table["benchmark"], strict=True)) == pairs
    filled = table[table["model"] != MODELS[2]].drop(columns=["model", "benchmark"])
    assert filled.notna().all(axis=None)


def test_ranks_are_within_benchmarks(hostile: Fit) -> None:
    table = tables.headline(hostile)
    ability = hostile.data["estimands"]["genuine_ability_direct"].stack(sample=("chain", "draw"))
    for benchmark, part in table.groupby("benchmark"):
        draws = ability.sel(benchmark=benchmark, model=part["model"].tolist())
        ranks = rankdata(-draws.transpose("model", "sample").to_numpy(), axis=0)
        np.testing.assert_array_equal(part["rank"], np.median(ranks, axis=1))
        best = part.loc[part["raw_accuracy"].idxmax()]
        assert best["rank_raw"] == 1
        assert part["p_best"].sum() == pytest.approx(1)


def test_a_clean_model_has_no_overfitting_and_no_nan(hostile: Fit) -> None:
    table = tables.headline(hostile)
    clean = table[table["model"] == MODELS[2]]
    assert (clean["overfitting_direct"] == 0).all()
    assert (clean["overfitting_direct_verdict"] == Overfitting.NONE).all()
    assert (clean["slope_verdict"] == "no contamination").all()
    # An effect that is zero by definition has no interval.
    ends = ["overfitting_direct_low", "overfitting_direct_high"]
    assert clean[ends].isna().all(axis=None)
    assert clean.drop(columns=ends).notna().all(axis=None)


def test_without_contamination_the_headline_says_nothing_of_it(by_concept: Fit) -> None:
    table = tables.headline(by_concept)
    assert not [name for name in table if "overfitting_direct" in name or "slope" in name]
    assert {"accuracy", "accuracy_low", "rank"} <= set(table)
    assert tables.slopes(by_concept).empty
    assert tables.sensitivity(by_concept).empty
    line = verdict_line(by_concept)
    assert "ranks first of 3 models" in line
    assert "contamination" not in line
    assert "Verdicts are based" not in verdict_line(by_concept, 0.5)
    assert not level_of_verdicts({"a": by_concept, "b": by_concept}, 0.5)


def test_concepts_hold_estimands_and_observed_scores(by_concept: Fit, hostile: Fit) -> None:
    table = tables.by_concept(by_concept)
    assert len(table) == 15
    assert (table["items"] == 8).all()
    estimands = by_concept.estimands().query("concept != '' and quantity == 'accuracy'")
    np.testing.assert_array_equal(table["accuracy"], estimands["mean"])
    whole = by_concept.raw_accuracy().sel(benchmark="puzzles").to_series()
    means = table.groupby("model")["raw_accuracy"].mean()
    pd.testing.assert_series_equal(means, whole, check_names=False)
    assert tables.by_concept(hostile).empty


def test_slopes_carry_their_identification(hostile: Fit) -> None:
    table = tables.slopes(hostile)
    assert len(table) == 5
    assert table["sentence"].str.len().min() > 20
    assert (table["extrapolation"] == 0).all()
    assert set(table["verdict"]) <= {
        "shown", "inconclusive", "borrowed", "no contamination",
    }  # fmt: skip


def test_slopes_carry_the_figures_behind_them(hostile: Fit) -> None:
    fit = extrapolated(hostile, 0.25)
    table = tables.slopes(fit).set_index(["model", "benchmark"])
    known = fit.data["identification"].to_dataset()
    for pair, row in table.iterrows():
        cell = known.sel(model=pair[0], benchmark=pair[1])
        for name in tables.FIGURES:
            np.testing.assert_equal(row[name], float(cell[name]))
    assert table["extrapolation"].groupby("model").max().to_dict() == {
        MODELS[0]: 0, MODELS[1]: 0, MODELS[2]: 0.25,
    }  # fmt: skip


def test_fits_of_earlier_versions_say_nothing_of_extrapolation(hostile: Fit) -> None:
    tree = hostile.data.copy()
    known = tree["identification"].to_dataset().drop_vars("extrapolation", errors="ignore")
    tree["identification"] = xr.DataTree(known)
    table = tables.slopes(Fit(tree))
    assert table["extrapolation"].isna().all()
    pd.testing.assert_series_equal(table["slope"], tables.slopes(hostile)["slope"])


def test_sensitivity_has_no_row_for_what_was_not_answered(hostile: Fit) -> None:
    table = tables.sensitivity(hostile)
    assert len(table) == 5
    assert table["diagnosis"].str.len().min() > 0


def test_a_failed_check_shows_in_the_verdict_line(hostile: Fit) -> None:
    failed = with_checks(
        hostile, a_check("divergences", Outcome.FAILED), a_check("E-BFMI", Outcome.PASSED)
    )
    line = verdict_line(failed)
    assert line.startswith("Do not rely on this fit yet: 1 of 2 checks failed (divergences)")
    assert "passed" not in line


def test_cautions_are_named_and_are_no_failures() -> None:
    passed, caution = a_check("a", Outcome.PASSED), a_check("b", Outcome.CAUTION)
    assert checks_sentence((passed, passed)) == "All 2 checks passed"
    assert checks_sentence((passed, caution)) == "No check failed, 1 caution (b), of 2 checks"


def test_checks_hold_every_check(hostile: Fit) -> None:
    table = tables.checks(hostile)
    assert list(table["name"]) == [check.name for check in hostile.checks()]
    assert list(table) == ["name", "outcome", "value", "threshold", "sentence"]


@pytest.mark.parametrize(
    ("slope", "low", "high", "expected"),
    [
        ("shown", 0.01, 0.1, Overfitting.SHOWN),
        ("shown", -0.1, -0.01, Overfitting.OPPOSITE),
        ("shown", 0.001, 0.015, Overfitting.AT_MOST_SMALL),
        ("inconclusive", -0.1, 0.12, Overfitting.INCONCLUSIVE),
        ("inconclusive", -0.001, 0.149, Overfitting.INCONCLUSIVE),
        ("inconclusive", -0.013, 0.009, Overfitting.AT_MOST_SMALL),
        ("inconclusive", -0.021, 0.009, Overfitting.INCONCLUSIVE),
        ("no variation", -0.1, 0.12, Overfitting.NO_VARIATION),
        ("no contamination", 0.0, 0.0, Overfitting.NONE),
        ("borrowed", 0.1, 0.2, Overfitting.BORROWED),
        ("sign assumed", 0.1, 0.2, Overfitting.SIGN_ASSUMED),
        ("sign assumed", 0.001, 0.01, Overfitting.AT_MOST_SMALL),
        ("assumed clean", 0.0, 0.0, Overfitting.CLEAN),
    ],
)
def test_overfitting_verdicts(slope: str, low: float, high: float, expected: Overfitting) -> None:
    rises = low + high > 0
    assert overfitting_verdict(Identification(slope), low, high, rises=rises) is expected


def test_the_smallest_effect_of_interest_decides_what_is_small() -> None:
    for smallest, expected in ((0.05, "at most small"), (0.02, "inconclusive")):
        verdict = overfitting_verdict(Identification.INCONCLUSIVE, -0.03, 0.04, smallest)
        assert verdict.value == expected


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.3), (-0.01, 0.01), (-0.2, 0.2)])
def test_without_own_information_nothing_is_shown_or_ruled_out(low: float, high: float) -> None:
    slope = Identification.BORROWED
    assert overfitting_verdict(slope, low, high, informed=False) is Overfitting.BORROWED
    # Without others there is nobody to borrow from.
    alone = overfitting_verdict(Identification.INCONCLUSIVE, low, high, informed=False)
    assert alone is Overfitting.INCONCLUSIVE


@pytest.mark.parametrize(
    ("slope", "lift", "low", "high", "expected"),
    [
        ("no variation", "shown", 0.08, 0.22, Overfitting.SHOWN),
        ("borrowed", "shown", 0.08, 0.22, Overfitting.SHOWN),
        ("inconclusive", "shown", -0.22, -0.08, Overfitting.OPPOSITE),
        ("shown", "inconclusive", -0.1, 0.3, Overfitting.INCONCLUSIVE),
        ("shown", "inconclusive", 0.1, 0.3, Overfitting.SHOWN),
        # Spillover that is not known rules nothing out.
        ("inconclusive", "inconclusive", -0.01, 0.01, Overfitting.INCONCLUSIVE),
        ("inconclusive", "inconclusive", 0.1, 0.4, Overfitting.INCONCLUSIVE),
        ("sign assumed", "shown", -0.1, 0.3, Overfitting.INCONCLUSIVE),
        ("assumed clean", "shown", 0.0, 0.0, Overfitting.CLEAN),
    ],
)
def test_with_spillover_the_slope_alone_does_not_decide(slope, lift, low, high, expected):
    known = {"rises": low + high > 0, "lift": Identification(lift)}
    assert overfitting_verdict(Identification(slope), low, high, **known) is expected


@pytest.mark.parametrize(
    ("mean", "sd", "apart", "expected"),
    [
        (0.0, 1.0, True, "inconclusive"),
        (0.0, 0.3, True, "inconclusive"),
        (-1.0, 0.3, True, "shown"),
        (1.0, 0.3, False, "inconclusive"),
    ],
)
def test_spillover_must_be_distinguished_from_ability(mean, sd, apart, expected):
    even = norm.ppf((np.arange(4000) + 0.5) / 4000)
    assert identify_spillover(mean + sd * even, apart, 0.95).value == expected


def test_draws_of_the_prior_show_no_overfitting_by_spillover():
    fit = made_fit([f"m{i}" for i in range(11)], ["one", "two"], 6, 200, "spillover")
    assert "spillover" in fit.record["entered"]
    said = set(tables.headline(fit)["overfitting_verdict"])
    assert said <= {"inconclusive", "borrowed", "no contamination"}


def test_every_verdict_is_explained_in_its_own_words() -> None:
    assert set(EXPLAINED) == set(Overfitting)
    assert len(set(EXPLAINED.values())) == len(Overfitting)
    assert set(EXPLAINED_TOTAL) == set(Overfitting)
    assert "same base" in EXPLAINED_TOTAL[Overfitting.SHOWN]


def test_an_interval_in_a_sentence_is_the_one_in_the_table() -> None:
    fit = made_fit(["a", "b"], ["quiz"], 60, 50)
    effect = fit.data["estimands"]["overfitting_direct"]
    rng = np.random.default_rng(1)
    effect[:] = np.abs(effect) + rng.uniform(0.1, 0.3, effect.shape)
    known = fit.data["identification"]["verdict"]
    fit.data["identification"]["verdict"] = xr.full_like(known, "shown")
    ends = []
    for level in (0.5, 0.95):
        table = tables.headline(fit, fit.estimands(level))
        worst = table.loc[table["overfitting_direct"].idxmax()]
        ability = worst[["genuine_ability_direct_low", "genuine_ability_direct_high"]]
        ends.append(interval(*ability))
        assert ends[-1] in verdict_line(fit, level)
    assert ends[0] != ends[1]
    assert verdict_line(fit, 0.5).endswith("Verdicts are based on 95 % intervals.")
    assert verdict_line(fit).endswith(verdict_line(fit, 0.95)[-40:])


def test_what_explains_a_verdict_holds_wherever_it_is_given() -> None:
    # Own responses need not show what the interval of the effect excludes, be it large or small.
    excludes = overfitting_verdict(Identification.INCONCLUSIVE, 0.03, 0.12)
    small = overfitting_verdict(Identification.INCONCLUSIVE, -0.01, 0.01, informed=False)
    assert excludes is small is Overfitting.INCONCLUSIVE
    assert "or this model's own responses" in EXPLAINED[Overfitting.INCONCLUSIVE]
    assert "do not confirm what it excludes" in EXPLAINED[Overfitting.INCONCLUSIVE]
    assert "inform the slope at least as much" in EXPLAINED[Overfitting.AT_MOST_SMALL]
    assert "models of the same base" in EXPLAINED_TOTAL[Overfitting.AT_MOST_SMALL]
    # With lineage an interval that excludes zero is never inconclusive.
    assert "confirm" not in EXPLAINED_TOTAL[Overfitting.INCONCLUSIVE]
    for explained in (EXPLAINED, EXPLAINED_TOTAL):
        assert "lies on its other side" in explained[Overfitting.BORROWED]


def test_a_reference_above_the_items_turns_no_slope_around():
    """A positive slope and a negative overfitting do not say that scores fall."""
    shown = Identification.SHOWN
    assert overfitting_verdict(shown, -0.3, -0.1, rises=True) is Overfitting.BY_REFERENCE
    assert overfitting_verdict(shown, 0.1, 0.3, rises=False) is Overfitting.BY_REFERENCE
    assert overfitting_verdict(shown, -0.3, -0.1, rises=False) is Overfitting.OPPOSITE
