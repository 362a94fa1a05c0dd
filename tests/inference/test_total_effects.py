"""What twins show by themselves, verdicts on total effects, and totals under assumed spillover."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.data.responses import Responses
from bayescontam.inference import assumed_spillover as assuming
from bayescontam.inference.design_checks import CONTROLS, SPILLOVER, design_checks
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.posterior import log_odds, stack_draws
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.total_effects import (
    own_totals,
    stored_totals,
    total_verdicts,
)
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior
from tests.support.marginal_likelihoods import spec_of
from tests.support.simulated_responses import logistic

ITEMS = 40


def table(
    right: dict[tuple[str, str], int], met: dict[tuple[str, str], int], bases: dict[str, str]
) -> Responses:
    """Return answers: of each model and benchmark how many are right, and how many items it met."""
    rows = []
    for (model, benchmark), count in right.items():
        for i in range(ITEMS):
            row = {"model": model, "benchmark": benchmark, "item": f"{benchmark}{i}"}
            row |= {"correct": int(i * count // ITEMS != (i + 1) * count // ITEMS)}
            dose = float(i < met.get((model, benchmark), 0))
            rows.append(row | {"contamination": dose, "base": bases[model]})
    return Responses.from_frame(pd.DataFrame(rows))


RIGHT = {("clean", "exam"): 20, ("met", "exam"): 30, ("clean", "quiz"): 10, ("met", "quiz"): 16}
MET = {("met", "exam"): 16}
BASES = {"clean": "recipe", "met": "recipe"}


def built(right=RIGHT, met=MET, bases=BASES, **blocks) -> BuiltModel:
    spec = spec_of("twins", difficulty={"form": "none"}, **blocks)
    return build(spec, table(right, met, bases))


def spreads(model: BuiltModel, twin: float, training: float) -> tuple[xr.Dataset, xr.Dataset]:
    """Return a posterior with these spreads, and a prior of spillover with variance 4."""
    shape = (1, 2, *model.design.answered.shape)
    dims = ("chain", "draw", "model", "benchmark")
    values = np.stack([np.full(shape[2:], -2.0), np.full(shape[2:], 2.0)])[None]
    prior = xr.Dataset({"spillover": (dims, values)})
    posterior = {"sigma_twin": (("chain", "draw"), [[twin, twin]])}
    posterior["sigma_t"] = (("chain", "draw"), [[training, training]])
    return xr.Dataset(posterior), prior


def logit(count: int) -> tuple[float, float]:
    """Return rough log-odds of so many right answers, and their variance."""
    p = (count + 0.5) / (ITEMS + 1)
    return float(np.log(p / (1 - p))), 1 / (ITEMS * p * (1 - p))


@pytest.mark.parametrize("training", [0.0, 0.4])
def test_twins_show_the_difference_of_their_accuracies_less_what_controls_explain(training):
    model, twin = built(), 0.1
    found = own_totals(*spreads(model, twin, training), model)
    at = [list(model.design.models).index(name) for name in ("clean", "met")]
    exam = list(model.design.benchmarks).index("exam")
    (low, low_var), (high, high_var) = logit(20), logit(30)
    # The control shows the difference of what training did to both, drawn towards zero.
    (first, first_var), (second, second_var) = logit(10), logit(16)
    noise, before = first_var + second_var + 2 * twin**2, 2 * training**2
    wanted = (high - low) - (second - first) * before / (before + noise)
    variance = low_var + high_var + 2 * twin**2 + before * noise / (before + noise)
    assert found.effect[at[1], exam] == pytest.approx(wanted, rel=1e-6)
    assert found.sd[at[1], exam] ** 2 == pytest.approx(variance, rel=1e-6)
    # The prior of a dose of 1 has variance 4, the dose is 16 of 40.
    assert found.information[at[1], exam] == pytest.approx(4 * 0.4**2 / variance, rel=1e-6)
    assert np.isnan(found.effect[at[0], exam])


def test_items_count_alike_however_many_trials_each_model_has():
    """A model with more trials on hard items than its twin is no weaker for that."""
    rows = [
        {"model": model, "benchmark": "exam", "item": f"i{i:02d}", "n_trials": n,
         "n_correct": n // 2 if easy else n // 5, "contamination": float(model == "met" and i % 2),
         "base": "recipe"}
        for model in ("clean", "met") for i in range(ITEMS)
        for easy in (i < ITEMS // 2,) for n in (50 if model == "clean" and not easy else 10,)
    ]  # fmt: skip
    spec = spec_of("twins", difficulty={"form": "none"})
    model = build(spec, Responses.from_frame(pd.DataFrame(rows)))
    found = own_totals(*spreads(model, 0.1, 0.1), model)
    m = list(model.design.models).index("met")
    # Accuracies over items are 0.35 in both, by pooled trials 0.25 and 0.35. What is left is
    # half an answer of either kind that each has more, of 400 and of 1,200.
    assert abs(found.effect[m, 0]) < 0.005
    # Variances of log-odds of each item add up; the spread of log-odds is 0 in such counts.
    p = 0.35
    least = (1 / 10 + (1 / 50 + 1 / 10) / 2) / (p * (1 - p) * ITEMS)
    assert found.sd[m, 0] ** 2 > 0.9 * least


def test_without_a_relative_of_other_exposure_there_is_no_information():
    right = {("a", "exam"): 20, ("b", "exam"): 30, ("c", "exam"): 25, ("d", "exam"): 22}
    met = {("a", "exam"): 16, ("b", "exam"): 16, ("c", "exam"): 16}
    model = built(right, met, {"a": "one", "b": "one", "c": "two", "d": "two"})
    found = own_totals(*spreads(model, 0.1, 0.1), model)
    at = {name: k for k, name in enumerate(model.design.models)}
    assert found.information[at["a"], 0] == 0
    assert found.information[at["c"], 0] > 0.1
    assert model.design.twinned_pairs[:, 0].tolist() == [
        name == "c" for name in model.design.models
    ]


def test_other_kinds_of_duplicates_do_not_count_as_the_same_exposure():
    right = {("clean", "exam"): 20, ("met", "exam"): 30, ("other", "exam"): 35}
    met = {("met", "exam"): 16, ("other", "exam"): 16}
    responses = table(right, met, dict.fromkeys(("clean", "met", "other"), "recipe"))
    responses.frame["kind"] = np.where(responses.frame["model"] == "other", "semantic", "exact")
    spec = spec_of("twins", difficulty={"form": "none"}, contamination={"kinds": "kind"})
    model = build(spec, responses)
    found = own_totals(*spreads(model, 0.1, 0.0), model)
    at = list(model.design.models).index("met")
    assert found.effect[at, 0] == pytest.approx(logit(30)[0] - logit(20)[0], rel=1e-6)


VERDICTS = {
    Overfitting.SHOWN: (0.05, 0.2),
    Overfitting.AT_MOST_SMALL: (-0.01, 0.015),
    Overfitting.INCONCLUSIVE: (-0.05, 0.2),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_verdicts_follow_the_interval_of_the_total(verdict):
    model = built({**RIGHT, ("clean", "exam"): 10, ("met", "exam"): 36})
    found = verdict_of(model, VERDICTS[verdict], (0.1, 0.1))
    assert found["met", "exam"] == verdict
    assert found["clean", "exam"] == Overfitting.NONE
    assert found["met", "quiz"] == Overfitting.NONE


def test_a_score_that_contamination_lowered_is_called_so():
    model = built({**RIGHT, ("clean", "exam"): 36, ("met", "exam"): 10})
    assert verdict_of(model, (-0.3, -0.1), (0.1, 0.1))["met", "exam"] == Overfitting.LOWERED


def test_what_twins_do_not_show_by_themselves_is_borrowed():
    model = built({**RIGHT, ("clean", "exam"): 20, ("met", "exam"): 22})
    assert verdict_of(model, (0.05, 0.2), (0.1, 0.1))["met", "exam"] == Overfitting.BORROWED
    # Twins that differ by much for other reasons show little of contamination.
    model = built({**RIGHT, ("clean", "exam"): 10, ("met", "exam"): 36})
    assert verdict_of(model, (0.05, 0.2), (3.0, 3.0))["met", "exam"] == Overfitting.BORROWED


def verdict_of(
    model: BuiltModel,
    ends: tuple[float, float],
    spread: tuple[float, float],
    reference: float = 0.0,
):
    own = own_totals(*spreads(model, *spread), model)
    index = pd.MultiIndex.from_product(
        [model.design.models, model.design.benchmarks], names=["model", "benchmark"]
    )
    # Pairs without a dose have no effect, unless the reference is above it.
    some = (model.design.pair_dose.ravel() > 0) | (reference > 0)
    intervals = pd.DataFrame({"ci_low": ends[0] * some, "ci_high": ends[1] * some}, index=index)
    stored = stored_totals(own, model, np.full(len(model.design.benchmarks), reference))
    return total_verdicts(stored, (), intervals, 0.95, 0.02)


def test_a_reference_above_the_dose_turns_the_sign():
    model = built({**RIGHT, ("clean", "exam"): 10, ("met", "exam"): 36})
    for ends in ((-0.3, -0.1), (0.1, 0.3)):
        found = verdict_of(model, ends, (0.1, 0.1), reference=0.9)
        assert found["met", "exam"] == Overfitting.BY_REFERENCE
        assert found["clean", "exam"] == Overfitting.BY_REFERENCE
    # The dose is 0.4: below it the sign is that of the effect.
    assert verdict_of(model, (0.1, 0.3), (0.1, 0.1), 0.2)["met", "exam"] == Overfitting.SHOWN


def test_without_a_control_no_total_is_shown():
    """What training changes anyway is then set apart by its prior alone, unless twins have none."""
    right = {**RIGHT, ("clean", "exam"): 10, ("met", "exam"): 36}
    alone = {pair: count for pair, count in right.items() if pair[1] == "exam"}
    unanswered = {pair: count for pair, count in right.items() if pair != ("met", "quiz")}
    for table_of, identical, wanted in (
        (right, False, Overfitting.SHOWN),
        (alone, False, Overfitting.BORROWED),
        (unanswered, False, Overfitting.BORROWED),
        (alone, True, Overfitting.SHOWN),
    ):
        blocks = {"ability": {"lineage": "base", "twins": "identical"}} if identical else {}
        model = built(table_of, **blocks)
        assert verdict_of(model, (0.1, 0.3), (0.1, 0.1))["met", "exam"] == wanted
        # An interval that holds zero is as inconclusive as ever.
        assert verdict_of(model, (-0.1, 0.3), (0.1, 0.1))["met", "exam"] == Overfitting.INCONCLUSIVE


def test_the_dose_may_be_a_function_of_copies_and_epochs():
    frame = table(RIGHT, MET, BASES).frame.drop(columns=["n_correct", "n_trials"])
    copies, epochs = np.where(frame.index % 2, 4, 1), 3
    counts = (frame["contamination"] > 0) * copies * epochs
    counted = Responses.from_frame(
        frame.assign(contamination=counts, correct=1), contamination_scale="count"
    )
    design = build(spec_of("twins", difficulty={"form": "none"}), counted).design
    at = [list(names).index(name) for names, name in
          ((design.models, "met"), (design.benchmarks, "exam"))]  # fmt: skip
    own = counts[(frame["model"] == "met") & (frame["benchmark"] == "exam")]
    assert set(own) == {0, 3, 12}
    wanted = (np.log1p(own) / np.log1p(12)).mean()
    assert design.pair_dose[*at] == pytest.approx(wanted)


def test_controls_are_benchmarks_that_none_of_a_base_met():
    model = built()
    [(base, found)] = model.design.controls.items()
    assert (base, [model.design.benchmarks[b] for b in found]) == ("recipe", ["quiz"])
    reference = np.zeros(2)
    found = {check.name: check for check in design_checks(model, reference)}
    assert found[SPILLOVER].outcome.value == "passed"
    assert "('quiz')" in found[CONTROLS].sentence
    only = {pair: count for pair, count in RIGHT.items() if pair[1] == "exam"}
    found = {check.name: check for check in design_checks(built(only), np.zeros(1))}
    assert found[CONTROLS].outcome.value == "caution"
    assert "by its prior alone" in found[CONTROLS].sentence


def test_an_exposed_model_without_a_twin_is_named_by_the_check():
    right = {**RIGHT, ("alone", "exam"): 30}
    model = built(right, {**MET, ("alone", "exam"): 16}, {**BASES, "alone": ""})
    found = {check.name: check for check in design_checks(model, np.zeros(2))}[SPILLOVER]
    assert found.outcome.value == "caution"
    assert found.value == 1
    assert "'alone on exam'" in found.sentence


def test_assumed_spillover_is_removed_from_every_item(monkeypatch):
    """Against the definition, written out: mean of p(d) less mean of p without both effects."""
    monkeypatch.setattr(assuming, "PUBLISHED", assuming.AssumedPrior(0.7, 0.0, "a test"))
    spec = spec_of("hierarchical", difficulty={"form": "none"})
    responses = table(RIGHT, {**MET, ("clean", "exam"): 8}, BASES)
    model = build(spec, responses)
    _, posterior = prior_draws(model, 30, np.random.default_rng(1))
    draws = stack_draws(posterior, model.design)
    found = assuming.assumed_spillover(draws, model, "zero", 0.95)
    design = model.design
    dose = design.pair_dose
    for m, b in np.argwhere(dose > 0):
        rows = (design.model == m) & (design.benchmark == b)
        d = design.contamination[rows]
        cell = m * len(design.benchmarks) + b
        theta, beta = draws.theta[:, cell, None], draws.beta[:, cell, None]
        mean = design.centring.responses[b]
        observed = logistic(theta + beta * (d - mean)).mean(axis=1)
        for location in assuming.LOCATIONS:
            lifted = theta + beta * (0 - mean) - location * dose[m, b] + 0 * d
            total = observed - logistic(lifted).mean(axis=1)
            at = found.sel(location=location).isel(model=m, benchmark=b)
            assert float(at["mean"]) == pytest.approx(total.mean(), abs=1e-9)
            assert float(at["low"]) == pytest.approx(np.quantile(total, 0.025), abs=1e-9)
            assert float(at["p_positive"]) == (total > 0).mean()


def test_where_twins_show_spillover_none_is_assumed():
    shared = build(load_model("spillover"), table(RIGHT, MET, BASES))
    for model in (built(), shared):
        _, posterior = prior_draws(model, 20, np.random.default_rng(1))
        draws = stack_draws(posterior, model.design)
        assert draws.spillover is not None
        assert assuming.assumed_spillover(draws, model, "zero", 0.95) is None


def test_of_an_exposed_model_without_a_twin_spillover_is_assumed_too(monkeypatch):
    """Against the definition: its fitted log-odds less both effects, whatever others gained."""
    monkeypatch.setattr(assuming, "PUBLISHED", assuming.AssumedPrior(0.7, 0.0, "a test"))
    right = {**RIGHT, ("alone", "exam"): 30}
    model = built(right, {**MET, ("alone", "exam"): 16}, {**BASES, "alone": ""})
    _, posterior = prior_draws(model, 30, np.random.default_rng(1))
    draws, design = stack_draws(posterior, model.design), model.design
    found = assuming.assumed_spillover(draws, model, "zero", 0.95)
    m, b = design.models.index("alone"), design.benchmarks.index("exam")
    assert [tuple(cell) for cell in np.argwhere(found["sign"].to_numpy() != "")] == [(m, b)]
    rows = (design.model == m) & (design.benchmark == b)
    eta, d = log_odds(draws, design)[:, rows], design.contamination[rows]
    beta = draws.beta[:, m * len(design.benchmarks) + b, None]
    for location in assuming.LOCATIONS:
        clean = eta - beta * d - location * design.pair_dose[m, b]
        total = (logistic(eta) - logistic(clean)).mean(axis=1)
        at = found.sel(location=location).isel(model=m, benchmark=b)
        assert float(at["mean"]) == pytest.approx(total.mean(), abs=1e-9)
        assert float(at["high"]) == pytest.approx(np.quantile(total, 0.975), abs=1e-9)


def test_fits_store_what_they_report_of_totals(tmp_path):
    import bayescontam as bc

    with drawn_from_prior():
        twins = bc.fit(table(RIGHT, MET, BASES), "twins", seed=1, draws=60, chains=2)
        direct = bc.fit(table(RIGHT, MET, BASES), "hierarchical", seed=1, draws=60, chains=2)
    for name, fit in {"twins": twins, "direct": direct}.items():
        fit.to_netcdf(tmp_path / f"{name}.nc")
        read = bc.Fit.from_netcdf(tmp_path / f"{name}.nc")
        pd.testing.assert_frame_equal(read.assumed_spillover(), fit.assumed_spillover(), rtol=1e-4)
        verdicts = read.estimands()["verdict"].tolist()
        assert verdicts == fit.estimands()["verdict"].tolist()
        again = read.responses().frame
        assert list(again["contamination"]) == list(fit.responses().frame["contamination"])
    checks = {name: {c.name for c in fit.checks()} for name, fit in
              (("twins", twins), ("direct", direct))}  # fmt: skip
    assert "Related models of other exposure" in checks["direct"] - checks["twins"]
    assert twins.assumed_spillover().empty
    assert len(direct.assumed_spillover()) == len(assuming.LOCATIONS)
    assert set(twins.responses().frame["base"]) == {"recipe"}


def test_models_are_compared_on_the_items_that_both_answered():
    """A twin that answered only hard items is no evidence of contamination."""
    hard = ITEMS // 2
    rows = []
    for model, items in (("clean", range(hard)), ("met", range(ITEMS))):
        for i in items:
            right = i % 4 == 0 if i < hard else i % 10 != 0
            rows.append(
                {"model": model, "benchmark": "exam", "item": i, "correct": int(right),
                 "contamination": float(model == "met" and i % 2), "base": "recipe"}
            )  # fmt: skip
    model = build(spec_of("twins"), Responses.from_frame(pd.DataFrame(rows)))
    assert "delta" in model.terms
    found = own_totals(*spreads(model, 0.1, 0.1), model)
    at = list(model.design.models).index("met")
    assert found.effect[at, 0] == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(found.sd[at, 0])


def test_without_items_in_common_there_is_no_information():
    rows = [
        {"model": model, "benchmark": "exam", "item": i, "correct": i % 2, "base": base,
         "contamination": float(model == "met")}
        for model, base, items in (
            ("clean", "recipe", range(10)), ("met", "recipe", range(8, 20)),
            ("other", "", range(20)),
        )
        for i in items
    ]  # fmt: skip
    model = build(spec_of("twins"), Responses.from_frame(pd.DataFrame(rows)))
    found = own_totals(*spreads(model, 0.1, 0.1), model)
    assert found.information[list(model.design.models).index("met"), 0] == 0


def test_an_exposure_to_another_kind_is_no_twin():
    right = {("one", "exam"): 20, ("other", "exam"): 30}
    met = {("one", "exam"): 16, ("other", "exam"): 8}
    responses = table(right, met, dict.fromkeys(("one", "other"), "recipe"))
    responses.frame["kind"] = np.where(responses.frame["model"] == "one", "exact", "semantic")
    kinds = {"kinds": "kind"}
    design = build(spec_of("twins", difficulty={"form": "none"}, contamination=kinds), responses)
    assert not design.design.twinned_pairs.any()
    same = build(spec_of("twins", difficulty={"form": "none"}), responses)
    assert same.design.twinned_pairs.all()
