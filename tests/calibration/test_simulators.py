"""Simulated tables: their formulas, their truth, and where each comes from."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2

from bayescontam.calibration.simulators import Simulated, exposures, simulator_of
from bayescontam.calibration.study import plan_of
from bayescontam.data.responses import Responses
from bayescontam.errors import SpecError
from bayescontam.specs.study import Layout
from tests.support.simulated_responses import concept_exposure
from tests.support.small_studies import planned, study


def of(made: Simulated, quantity: str) -> dict[str, float]:
    """Return the true values of a quantity by where."""
    return {where: value for (name, where), value in made.truth.items() if name == quantity}


def test_exposures_are_those_of_the_published_generator() -> None:
    """Against an independent writing of the same formulas, item by item."""
    rng = np.random.default_rng(1)
    ours = np.concatenate([exposures(Layout(items=100), rng)[0] for _ in range(200)])
    theirs = np.stack([concept_exposure(seed, 100)["contamination"] for seed in range(200)])
    for statistic in (np.mean, np.std, np.min, np.max):
        found, wanted = statistic(ours, axis=1), statistic(theirs, axis=1)
        error = np.sqrt((found.var() + wanted.var()) / 200)
        assert abs(found.mean() - wanted.mean()) < 4 * error


def test_published_tables_have_the_truth_of_their_own_accuracies() -> None:
    plan, cell = planned("published", items=50, models=2, trials=4000)
    made = simulator_of(plan, cell)(3)
    frame = made.responses.frame
    p = 0.35 + 0.30 * frame["contamination"]
    assert (abs(frame["n_correct"] / 4000 - p) < 5 * np.sqrt(p * (1 - p) / 4000)).all()
    low, high = frame["contamination"].agg(["min", "max"])
    for model, own in frame.groupby("model"):
        where, mean = f"{model} | bench 1", (0.35 + 0.30 * own["contamination"]).mean()
        assert of(made, "accuracy")[where] == pytest.approx(mean)
        assert of(made, "genuine_ability_direct")[where] == pytest.approx(0.35 + 0.3 * low)
        assert of(made, "overfitting_direct")[where] == pytest.approx(mean - 0.35 - 0.3 * low)
        assert of(made, "novelty_gap")[where] == pytest.approx(0.3 * (high - low))
        assert of(made, "genuine_ability_direct_nominal")[where] == 0.35
        assert of(made, "overfitting_fraction_direct_nominal")[where] == pytest.approx(
            1 - 0.35 / mean
        )


def test_published_tables_are_such_as_a_file_gives() -> None:
    """Rows and columns are in the order, and of the kinds, that validation makes."""
    plan, cell = planned("published", items=4, models=2, benchmarks=2)
    frame = simulator_of(plan, cell)(0).responses.frame
    again = Responses.from_frame(frame.sample(frac=1, random_state=1).sort_values("item"))
    keys = ["benchmark", "model", "item"]
    pd.testing.assert_frame_equal(
        again.frame.sort_values(keys, ignore_index=True), frame.sort_values(keys, ignore_index=True)
    )
    assert frame["benchmark"].tolist() == sorted(frame["benchmark"])
    score = frame.groupby(["model", "benchmark"])["contamination"].mean()
    truth = of(simulator_of(plan, cell)(0), "accuracy")
    for (model, benchmark), mean in score.items():
        assert truth[f"{model} | {benchmark}"] == pytest.approx(0.35 + 0.3 * mean)


def test_published_tables_are_fresh_unless_the_study_says_otherwise() -> None:
    for line, fresh in (("simulator.fresh = true", True), ("simulator.fresh = false", False)):
        plan, cell = planned("published", "single", line, items=20)
        one, other = (simulator_of(plan, cell)(r).responses.frame for r in (0, 1))
        assert (one["contamination"] != other["contamination"]).any() == fresh
        assert (one["n_correct"] != other["n_correct"]).any()


@pytest.mark.parametrize("model", ["single", "latent_duplicate", "noisy_covariate"])
def test_counts_of_a_prior_go_with_its_true_accuracies(model: str) -> None:
    """With very many trials the scores are the true accuracies, hidden contaminations and all."""
    plan, cell = planned("prior", model, items=15, models=2, trials=100_000)
    simulate = simulator_of(plan, cell)
    for replicate in range(3):
        made = simulate(replicate)
        frame = made.responses.frame
        score = (frame["n_correct"] / 100_000).groupby([frame["model"], frame["benchmark"]]).mean()
        for (name, benchmark), value in score.items():
            assert of(made, "accuracy")[f"{name} | {benchmark}"] == pytest.approx(value, abs=3e-3)


def test_parameters_of_a_prior_are_drawn_from_it() -> None:
    """Mean and spread over replicates are those that the priors of the model spec say."""
    plan, cell = planned("prior", "single", items=5)
    simulate = simulator_of(plan, cell)
    made = pd.DataFrame([simulate(r).truth for r in range(400)])
    where = "model 1 | bench 1"
    for name, sd in (("theta", np.pi / np.sqrt(3)), ("beta", 2.0)):
        values = made[(name, where)]
        assert abs(values.mean()) < 4 * sd / 20
        assert values.std() == pytest.approx(sd, rel=0.2)
    assert made[("slope", where)].equals(made[("beta", where)])


def test_a_fixed_truth_is_what_the_study_says() -> None:
    lines = ("simulator.ability = [-0.5, 1.0]", "simulator.slope = 2.0")
    plan, cell = planned("fixed", "single", *lines, items=30, models=2)
    simulate = simulator_of(plan, cell)
    one, other = simulate(0), simulate(1)
    assert one.truth == {**other.truth, ("log_likelihood", ""): one.truth[("log_likelihood", "")]}
    frame = one.responses.frame
    assert (frame["contamination"] == other.responses.frame["contamination"]).all()
    assert (frame["n_correct"] != other.responses.frame["n_correct"]).any()
    d = frame["contamination"].to_numpy()[:30]
    for model, ability in (("model 1", -0.5), ("model 2", 1.0)):
        where = f"{model} | bench 1"
        genuine = expit(ability + 2.0 * (d.min() - d.mean()))
        accuracy = expit(ability + 2.0 * (d - d.mean())).mean()
        assert of(one, "theta")[where] == ability
        assert of(one, "genuine_ability_direct")[where] == pytest.approx(genuine)
        assert of(one, "overfitting_direct")[where] == pytest.approx(accuracy - genuine)


def test_spreads_are_fixed_and_difficulties_are_drawn_anew() -> None:
    lines = (
        "simulator.slope = 1.5", "simulator.slope_sd = 0.4", "simulator.ability = 0.2",
        "simulator.difficulty_sd = 0.7", "grid.contamination_sd = [0.1, 0.2]",
    )  # fmt: skip
    plan, cell = planned("fixed", "hierarchical", *lines, items=10, models=4, benchmarks=2)
    made = [simulator_of(plan, each)(0) for each in plan.cells]
    slopes = np.array([list(of(each, "slope").values()) for each in made])
    np.testing.assert_array_equal(*slopes)  # the cells of a grid differ in nothing else
    assert slopes[0].mean() == pytest.approx(1.5)
    assert slopes[0].std() == pytest.approx(0.4)
    assert set(of(made[0], "sigma_delta").values()) == {0.7}
    again = simulator_of(plan, cell)(1)
    assert of(again, "slope") == of(made[0], "slope")
    assert of(again, "accuracy") != of(made[0], "accuracy")
    # Counts do not depend on what stands above fixed slopes, and it is not reported.
    assert not {"beta_bar", "sigma_bm", "mu"} & {name for name, _ in again.truth}


def test_unsure_probabilities_of_duplicates_shift_together() -> None:
    """With a slope so large that an answer shows whether its item was seen before."""
    plan, cell = planned(
        "fixed", "latent_duplicate", "simulator.slope = 60", "simulator.ability = 0",
        items=200, contamination_mean=0.4, contamination_sd=0.1, p_duplicate_sd=0.2,
    )  # fmt: skip
    simulate = simulator_of(plan, cell)
    shifted, unshifted = [], []
    for replicate in range(40):
        made = simulate(replicate)
        frame, (shift,) = made.responses.frame, of(made, "p_shift").values()
        p = frame["p_duplicate"]
        assert frame["p_duplicate_sd"].to_numpy() == pytest.approx(0.2 * np.sqrt(p * (1 - p)))
        # The sd of log-odds whose probability has this sd, to first order.
        q = expit(logit(p) + shift * 0.2 / np.sqrt(p * (1 - p)))
        for found, wanted in ((shifted, q), (unshifted, p)):
            spread = np.sqrt((wanted * (1 - wanted)).sum())
            found.append((frame["n_correct"].sum() - wanted.sum()) / spread)
    assert chi2.sf(np.square(shifted).sum(), 40) > 0.001
    assert chi2.sf(np.square(unshifted).sum(), 40) < 1e-6


def test_only_latent_duplicates_have_unsure_probabilities() -> None:
    plan, cell = planned("prior", "single", p_duplicate_sd=0.3)
    with pytest.raises(SpecError, match=r"p_duplicate_sd: the model spec 'single' has no latent"):
        simulator_of(plan, cell)


def test_what_the_model_does_not_have_cannot_be_fixed() -> None:
    plan, cell = planned("fixed", "hierarchical", "simulator.eps_sd = 1.0", models=3, items=5)
    with pytest.raises(
        SpecError, match=r"simulator.eps_sd: .*no 'sigma_eps' in this design \(.*eps"
    ):
        simulator_of(plan, cell)
    plan, cell = planned("fixed", "single", "simulator.ability = [1, 2]", models=3, items=5)
    with pytest.raises(SpecError, match=r"simulator\.ability: got 2 abilities for 3 models"):
        simulator_of(plan, cell)


@pytest.mark.parametrize("kind", ["prior", "fixed"])
def test_a_replicate_of_one_cell_is_not_that_of_another(kind: str) -> None:
    # Of designs that are the same but for how often items are answered.
    plan = plan_of(study(kind, "single", "grid.trials = [2, 3]", items=20), Path())
    first, second = (simulator_of(plan, cell)(0) for cell in plan.cells)
    assert first.truth.keys() == second.truth.keys()
    wanted = [key for key in first.truth if key[0] in ("theta", "beta", "genuine_ability_direct")]
    assert len(wanted) >= 3
    assert all(first.truth[key] != second.truth[key] for key in wanted)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["simulator.slope = 1.0", "simulator.parameters.beta = 3.0"],
            r"simulator\.parameters\.beta: simulator\.slope fixes 'beta' already",
        ),
        (
            ["simulator.slope = 1.0", "simulator.parameters.beta_bar = 3.0"],
            r"simulator\.parameters\.beta_bar: counts do not depend on it",
        ),
        (
            ["simulator.difficulty_sd = 1.0", "simulator.parameters.delta = 0.0"],
            r"simulator\.difficulty_sd: counts do not depend on it",
        ),
        (
            ["simulator.parameters.sigma_delta = -3.0"],
            r"simulator\.parameters: nothing can be drawn with these values",
        ),
    ],
)
def test_values_that_cannot_all_hold_are_refused(lines: list[str], message: str) -> None:
    plan, cell = planned("fixed", "hierarchical", *lines, models=3, items=5)
    with pytest.raises(SpecError, match=message):
        simulator_of(plan, cell)(0)


def test_quantities_and_formulas_that_are_not_there_are_refused() -> None:
    for line, message in (
        (
            "quantities = ['slpe']",
            r"quantities: nothing is called 'slpe' here \(did you mean 'slope'",
        ),
        ("expressions.a = 'thet + 1'", r"expressions.a: nothing is called 'thet' here"),
        ("expressions.beta = 'theta + 1'", r"expressions.beta: the model has a quantity of this"),
        ("expressions.a = 'theta + 1'", None),
        ("expressions.a = 'theta[3, 0]'", r"expressions.a: 'theta\[3, 0\]': index 3"),
    ):
        plan, cell = planned("prior", "single", line, items=5)
        if message is None:
            made = simulator_of(plan, cell)(0)
            assert of(made, "a")[""] == of(made, "theta")["model 1 | bench 1"] + 1
        else:
            with pytest.raises(SpecError, match=message):
                simulator_of(plan, cell)(0)


def test_a_replicate_is_the_same_in_whatever_order_it_is_requested() -> None:
    plan, cell = planned("prior", "single", items=10)
    forth, back = simulator_of(plan, cell), simulator_of(plan, cell)
    made = {r: forth(r) for r in (0, 1, 2)}
    for r in (2, 0, 1):
        again = back(r)
        assert again.truth == made[r].truth
        assert again.responses.frame.equals(made[r].responses.frame)
