"""What tables identify before a fit."""

import numpy as np
import pandas as pd
import pytest

import bayescontam as bc
from bayescontam.errors import DataError, UsageError
from bayescontam.inference.checks import Outcome
from bayescontam.inference.design_checks import CONTROLS, design_checks
from bayescontam.model.build import build
from bayescontam.power.advice import advice_lines
from bayescontam.power.totals import Pairs, _spread_draws, expected_widths
from bayescontam.specs.registry import load_model
from tests.support.marginal_likelihoods import spec_of


def table(
    exposures: dict[str, dict[str, float]], bases: dict[str, str] | None = None, items: int = 60
) -> pd.DataFrame:
    """Return answers of models to benchmarks of which they met these shares of the items."""
    rng = np.random.default_rng(1)
    rows = []
    for model, met in exposures.items():
        for benchmark, share in met.items():
            count = round(share * items)
            for i in range(items):
                row = {"model": model, "benchmark": benchmark, "item": f"{benchmark}{i}"}
                row |= {"correct": int(rng.random() < 0.6), "contamination": float(i < count)}
                rows.append(row | ({} if bases is None else {"base": bases.get(model, "")}))
    return pd.DataFrame(rows)


TWINS = {"clean": {"exam": 0.0, "quiz": 0.0}, "met": {"exam": 0.5, "quiz": 0.0}}
BASES = {"clean": "recipe", "met": "recipe"}


def advised(*given: object, **options: object) -> pd.DataFrame:
    return bc.advise(table(*given), **options).table.set_index("effect")


def test_without_contamination_nothing_is_identified_and_the_columns_are_named():
    found = bc.advise(table(TWINS).drop(columns="contamination")).table
    assert (found["identified"] == "no").all()
    assert found["width"].isna().all()
    assert found["missing"].iloc[0].startswith("contamination of the items: a column")


def test_unrelated_models_show_the_direct_effect_alone():
    found = advised(TWINS)
    assert found.loc["direct effect", "identified"] == "yes"
    assert found.loc["spillover", "identified"] == "no"
    assert found.loc["total effect", "identified"] == "no"
    assert "identify the direct effect only" in found.loc["spillover", "missing"]
    assert np.isnan(found.loc["total effect", "width"])


def test_twins_with_a_control_show_the_total():
    found = advised(TWINS, BASES)
    assert found["identified"].tolist() == ["yes", "yes", "yes", "assumed"]
    assert (
        "1 control benchmark to which no model of a base was exposed ('quiz')"
        in found.loc["spillover", "by"]
    )
    assert "'clean' was not exposed to anything here" in found.loc["confounding", "missing"]
    assert found.loc["total effect", "width"] > found.loc["direct effect", "width"]


def test_a_base_without_a_control_is_named():
    exposures = TWINS | {"old": {"exam": 0.0}, "new": {"exam": 0.5}}
    found = advised(exposures, BASES | {"old": "other", "new": "other"})
    assert found.loc["spillover", "identified"] == "in part"
    wanted = "control benchmarks, to which no model of 'other' was exposed"
    assert found.loc["spillover", "missing"].startswith(wanted)


@pytest.mark.parametrize("answered", [True, False])
def test_an_exposed_model_must_have_answered_a_control_itself(answered):
    twins = {"y": {"exam": 0.0, "quiz": 0.0}, "z": {"exam": 0.0, "quiz": 0.0}}
    exposed = {"exam": 0.5} | ({"quiz": 0.0} if answered else {})
    frame = table(twins | {"x": exposed}, dict.fromkeys("xyz", "recipe"))
    found = bc.advise(frame).table.set_index("effect")
    assert found.loc["spillover", "identified"] == ("yes" if answered else "in part")
    assert found.loc["spillover", "missing"] == (
        "" if answered else "answers of 'x' to control benchmarks"
    )
    built = build(load_model("twins"), bc.Responses.from_frame(frame))
    (check,) = [check for check in design_checks(built, np.zeros(2)) if check.name == CONTROLS]
    assert (check.outcome is Outcome.PASSED) is answered
    assert ("'x' answered none of the benchmarks" in check.sentence) is not answered


@pytest.mark.parametrize(("first", "wanted"), [(0, "yes"), (30, "no")])
def test_clean_models_must_have_answered_contaminated_items(first, wanted):
    """Answers to refreshed items alone do not show how difficult the old ones are."""
    frame = table({"a": {"exam": 0.5}, "b": {"exam": 0.5}, "old": {"exam": 0.0}})
    number = frame["item"].str.removeprefix("exam").astype(int)
    frame = frame[(frame["model"] != "old") | (number >= first)]
    found = bc.advise(frame.assign(clean=(frame["model"] == "old").astype(int)))
    rows = found.table.set_index("effect")
    assert rows.loc["confounding", "identified"] == wanted
    caveat = "if these are as difficult otherwise"
    assert (caveat in rows.loc["direct effect", "by"]) is (wanted == "no")
    assert ("items of different contamination" in rows.loc["confounding", "missing"]) is (
        wanted == "no"
    )


def test_clean_models_must_have_answered_what_others_were_exposed_to():
    exposures = {"a": {"exam": 0.5, "quiz": 0.5}, "b": {"exam": 0.5, "quiz": 0.5}}
    for answered, wanted in (("exam", "in part"), ("else", "no")):
        frame = table(exposures | {"clean": {answered: 0.0}})
        frame["clean"] = (frame["model"] == "clean").astype(int)
        found = bc.advise(frame).table.set_index("effect")
        assert found.loc["confounding", "identified"] == wanted
        assert "answers of clean models to" in found.loc["confounding", "missing"]
        assert "'quiz'" in found.loc["confounding", "missing"]


def test_related_models_of_one_exposure_identify_no_total():
    exposures = {"one": {"exam": 0.5, "quiz": 0.0}, "two": {"exam": 0.5, "quiz": 0.0}}
    bases = dict.fromkeys(exposures, "recipe")
    for changed, phrase in (({}, "no models of one base differ in exposure"), (
        {"one": {"exam": 0.0, "quiz": 0.0}}, "models of one base show by their different exposure",
    )):  # fmt: skip
        notes = bc.advise(table(exposures | changed, bases)).notes
        assert any(phrase in note for note in notes)


def test_a_model_spec_that_leaves_bases_aside_is_what_is_missing():
    found = bc.advise(table(TWINS, BASES), "hierarchical").table.set_index("effect")
    assert found.loc["total effect", "identified"] == "no"
    assert found.loc["spillover", "missing"].startswith("a model spec with lineage")


def test_without_controls_they_are_what_is_missing():
    frame = table({"clean": {"exam": 0.0}, "met": {"exam": 0.5}}, BASES)
    found = bc.advise(frame).table.set_index("effect")
    assert found.loc["spillover", "identified"] == "in part"
    assert found.loc["spillover", "missing"].startswith("control benchmarks")
    # Twins that are taken for identical have no training of their own to show.
    found = bc.advise(frame, spec_of("twins", ability={"twins": "identical"})).table
    known = found.set_index("effect").loc["spillover", ["identified", "missing"]]
    assert known.tolist() == ["yes", ""]


def test_a_model_without_a_twin_is_named():
    exposures = TWINS | {"other": {"exam": 0.5, "quiz": 0.0}}
    found = advised(exposures, BASES)
    assert found.loc["total effect", "identified"] == "in part"
    assert "less exposed (a twin), for 'other on exam'" in found.loc["spillover", "missing"]


def test_items_that_are_all_contaminated_show_no_direct_effect():
    found = advised({"clean": {"exam": 0.0}, "met": {"exam": 1.0}}, BASES)
    assert found.loc["direct effect", "identified"] == "no"
    assert "items that were not contaminated" in found.loc["direct effect", "missing"]
    assert found.loc["total effect", "identified"] == "in part"


def test_clean_models_identify_confounding():
    found = advised(TWINS, BASES, clean=["clean"])
    assert found.loc["confounding", "identified"] == "yes"
    assert "1 model known to be clean" in found.loc["confounding", "by"]


def test_controls_narrow_the_total():
    alone = advised({"clean": {"exam": 0.0}, "met": {"exam": 0.5}}, BASES)
    many = {name: met | {f"c{k}": 0.0 for k in range(6)} for name, met in TWINS.items()}
    controlled = advised(many, BASES)
    assert controlled.loc["total effect", "width"] < 0.95 * alone.loc["total effect", "width"]


def test_a_wrong_base_is_refused_before_any_advice():
    with pytest.raises(DataError, match="neither a model of this table"):
        bc.advise(table(TWINS, {"clean": "recipe", "met": "recepi"}))


def test_sentences_name_width_and_what_is_missing():
    lines = advice_lines(bc.advise(table(TWINS, BASES), level=0.9))
    assert lines[0] == (
        "Read: 2 models of 1 base, 2 benchmarks, 120 items. Exposed: 1 of 4 scores (a model on a"
        " benchmark), mean contamination 0.5: 'met on exam'."
    )
    assert lines[1].startswith(
        "Direct effect (what an item gains by its own contamination): identified, by items of"
        " different contamination (1 of 1 exposed score)"
    )
    assert "The 90 % interval is expected to be ±" in lines[3]
    assert "anyway): assumed: contaminated items are as difficult" in lines[4]
    assert len(lines) == 5  # nothing is missing for spillover


def test_the_widest_interval_is_printed_where_it_is_wider():
    exposures = {"one": {"exam": 0.1, "quiz": 0.1, "test": 0.6}}
    advice = bc.advise(table(exposures))
    row = advice.table.set_index("effect").loc["direct effect"]
    assert row["widest"] > 1.1 * row["width"]
    assert f"±{row['widest'] / 2:.2g} the widest" in advice_lines(advice)[1]
    assert "bayescontam plan" in advice_lines(advice)[-1]


def test_widths_are_those_of_the_normal_posterior_written_out():
    """Two twins on one benchmark, all items met: the total is the difference of two accuracies."""
    spec = spec_of("twins", difficulty={"form": "none"}, ability={"twins": "identical"})
    responses = bc.Responses.from_frame(
        table({"clean": {"exam": 0.0}, "met": {"exam": 1.0}}, BASES, items=100)
    )
    pairs = Pairs.of(build(spec, responses).design)
    found = expected_widths(pairs, spec, accuracy=0.5, spillover=True)
    # Prior of slope and spillover together, and a difference known with variance 2 / (n p (1 - p)).
    widths = []
    for spreads in _spread_draws(spec, False):
        prior = 2.0**2 + spreads["sigma_bm"] ** 2 + spreads["sigma_bb"] ** 2
        prior += spreads["sigma_bmb"] ** 2 + 1.5**2
        ability = 1.5**2 + spreads["sigma_a"] ** 2 + spreads["sigma_theta"] ** 2
        covariance = np.array([[ability + 0.04, ability], [ability, ability + prior + 0.04]])
        cross = np.array([0.0, prior])
        variance = prior - cross @ np.linalg.solve(covariance, cross)
        widths.append(2 * 1.959964 * 0.25 * np.sqrt(variance))
    assert found["overfitting"].item() == pytest.approx(np.median(widths), rel=1e-6)


@pytest.mark.parametrize("name", ["hierarchical", "spillover", "twins"])
def test_the_spec_that_is_named_is_the_one_advised_on(name):
    assert bc.advise(table(TWINS, BASES), name).spec == load_model(name)


def test_what_is_assumed_of_difficulty_widens_the_direct_effect():
    """With the prior of kappa alone, the slope is no better known than kappa."""
    plain, sensitive = (
        bc.advise(table(TWINS), spec_of("hierarchical", contamination={"confounding": kind}))
        for kind in ("none", "sensitivity")
    )
    widths = [
        each.table.set_index("effect").loc["direct effect", "width"] for each in (plain, sensitive)
    ]
    # kappa has a standard deviation of 1, and half of the items are contaminated.
    least = 2 * 1.96 * 1.0 * 0.5 * 0.1
    assert widths[1] > max(1.2 * widths[0], least)


def test_kinds_of_their_own_are_no_twins():
    frame = table({"one": {"exam": 0.5}, "other": {"exam": 0.3}}, {"one": "r", "other": "r"})
    frame["duplicate_kind"] = np.where(frame["model"] == "one", "exact", "semantic")
    found = bc.advise(frame).table.set_index("effect")
    assert found.loc["total effect", "identified"] == "no"
    assert "'one on exam', 'other on exam'" in found.loc["spillover", "missing"]


def test_of_large_tables_and_specs_that_are_not_covered_no_width_is_given():
    many = {f"m{k}": {"exam": 0.5} for k in range(600)}
    assert bc.advise(table(many, items=4)).table["width"].isna().all()
    spec = spec_of("hierarchical", contamination={"pooling": "none"})
    assert bc.advise(table(TWINS), spec).table["width"].isna().all()
    with pytest.raises(UsageError, match=r"accuracy: got 1\.5"):
        bc.advise(table(TWINS), accuracy=1.5)
