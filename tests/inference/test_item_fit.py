"""Item fit: wrong keys are found where they were planted, and nothing where none was."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit
from scipy.stats import binom, chi2, kstest

from bayescontam.data.responses import Responses
from bayescontam.errors import FitError
from bayescontam.inference.item_fit import (
    Answers,
    ComparedModels,
    ModelScores,
    item_fit,
    item_sentences,
    item_table,
    score_items,
    stored_item_fit,
)
from bayescontam.inference.posterior import Draws
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.given_fits import changed

DRAWS = 40


def compared(answers: Answers, model: np.ndarray, models: int) -> ModelScores:
    """Return the comparison of models by draws that are added in two parts."""
    added = ComparedModels(model, models)
    half = len(answers.log_odds) // 2
    of_draws = ("log_odds", "ability", "difficulty_sd")
    for part in (slice(half), slice(half, None)):
        some = {name: getattr(answers, name)[part] for name in of_draws}
        added.add(replace(answers, **some))
    return added.scores()


ITEMS, WRONG = 200, 10


def drawn(theta: np.ndarray, items: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws like those of a posterior: as far off the truth as they are spread."""
    error = 1 / np.sqrt(0.2 * items)
    return theta + rng.normal(0, error, len(theta)) + rng.normal(0, error, (DRAWS, len(theta)))


def p_values(
    rng: np.random.Generator, models: int, trials: int = 1, own: float = 0.0, guess: float = 0.0,
    filled: float = 1.0,
) -> np.ndarray:  # fmt: skip
    """Return p-values of a board on which every item fits."""
    theta = rng.normal(0, 1, models)
    chance = guess + (1 - guess) * expit(theta - rng.normal(0, 1, (ITEMS, 1)))
    if own:
        chance = expit(logit(chance) + rng.normal(0, own, chance.shape))
    correct = rng.binomial(trials, chance)
    item, model = np.nonzero(rng.random(chance.shape) < filled)
    starts = np.flatnonzero(np.diff(item, prepend=-1))
    ability = drawn(theta, int(ITEMS * filled), rng)[:, model]
    answers = Answers(
        starts, correct[item, model] * 1.0, np.full(len(item), trials * 1.0), ability, ability,
        np.full(len(item), guess), np.full(ability.shape, own) if own else None,
        np.ones((DRAWS, len(starts))),
    )  # fmt: skip
    share = answers.by_item(answers.correct) / answers.by_item(answers.trials)
    return score_items(answers).p_value.mean(axis=0)[(share > 0) & (share < 1)]


@pytest.mark.parametrize(
    "kind",
    [
        {"models": 40},
        {"models": 40, "filled": 0.5},
        {"models": 40, "guess": 0.25},
        {"models": 12, "trials": 10, "own": 3.0},
    ],
)
def test_p_values_of_items_that_fit_are_uniform(kind: dict) -> None:
    """Of single and repeated answers, with cells missing and with guessing."""
    rng = np.random.default_rng(2)
    p = np.concatenate([p_values(rng, **kind) for _ in range(6)])
    # Items of a board share the error of its abilities, so that no test of independent ones fits.
    assert kstest(p, "uniform").statistic < 0.1
    for size in (0.01, 0.05):
        assert (p <= size).mean() < 1.3 * size + 4 * np.sqrt(size / len(p))


def test_few_models_make_p_values_careful() -> None:
    """Of 5 models few patterns are rare: no p-value claims more than it may."""
    rng = np.random.default_rng(3)
    p = np.concatenate([p_values(rng, models=5) for _ in range(6)])
    for size in (0.001, 0.01, 0.05):
        assert (p <= size).mean() <= size + 3 * np.sqrt(size / len(p))


def board(
    rng: np.random.Generator, wrong: int, memorised: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return responses of 60 models and draws of their abilities.

    With a wrong key an item counts as solved where a model fails in one of three ways. Six
    able models have memorised the keys of these items, if `memorised`.
    """
    theta = rng.normal(0, 1.3, 60)
    chance = expit(theta[:, None] - rng.normal(0, 1, ITEMS))
    chance[:, :wrong] = (1 - chance[:, :wrong]) / 3
    dose = np.zeros(chance.shape)
    if memorised:
        dose[np.ix_(np.argsort(theta)[-6:], np.arange(20))] = 1.0
        chance[dose == 1] = expit(logit(chance[dose == 1]) + 4)
    model, item = (each.ravel() for each in np.indices(chance.shape))
    table = pd.DataFrame(
        {
            "model": [f"m{m}" for m in model],
            "benchmark": "b",
            "item": [f"{'k' if i < wrong else 'q'}{i}" for i in item],
            "correct": (rng.random(chance.shape) < chance).astype(int).ravel(),
            "contamination": dose.ravel(),
        }
    )
    return table, drawn(theta, ITEMS, rng)


def judged(table: pd.DataFrame, theta: np.ndarray, slope: float | None = None) -> xr.Dataset:
    spec = load_model("hierarchical")
    beta = None if slope is None else np.full(theta.shape, slope)
    if slope is None:
        spec = changed(spec, contamination={"form": "none"})
    sd = np.ones((len(theta), 1))
    draws = Draws(theta, beta, np.zeros((len(theta), ITEMS)), None, None, sigma_delta=sd)
    found = item_fit(draws, build(spec, Responses.from_frame(table)))
    assert found is not None
    return found


def test_planted_wrong_keys_are_found() -> None:
    table, theta = board(np.random.default_rng(4), WRONG)
    found = judged(table, theta)
    listed = item_table(found, np.zeros(ITEMS, dtype=int), 0.1)
    suspects = listed[listed["suspect"]]
    assert suspects["item"].str.startswith("k").sum() >= 8
    assert len(suspects) <= 14
    assert (suspects["z"] < 0).all()
    fitting = listed[~listed["suspect"]]
    gain = {
        len(t): (t["solved_by_stronger"] - t["solved_by_weaker"]).mean()
        for t in (suspects, fitting)
    }
    assert gain[len(suspects)] < 0.05 < 0.2 < gain[len(fitting)]
    assert next(item_sentences(found, 0.1)).startswith(f"{len(suspects)} of ")
    row = listed.iloc[0]
    own = table[table["item"] == row["item"]]["correct"].to_numpy()
    assert row["solved"] == pytest.approx(own.mean())
    order = np.argsort(theta.mean(axis=0))
    assert row["solved_by_weaker"] == pytest.approx(own[order[:30]].mean())
    assert row["solved_by_stronger"] == pytest.approx(own[order[30:]].mean())
    assert row["answers"] == 60


def test_wrong_keys_are_found_though_able_models_have_memorised_them() -> None:
    """What contamination lifts is expected; that the others fail is not."""
    table, theta = board(np.random.default_rng(5), WRONG, memorised=True)
    listed = item_table(judged(table, theta, slope=4.0), np.zeros(ITEMS, dtype=int), 0.1)
    suspects = listed[listed["suspect"]]
    assert suspects["item"].str.startswith("k").sum() >= 8
    assert len(suspects) <= 14
    assert suspects["contamination"].head(5).tolist() == pytest.approx([0.1] * 5)


def test_no_wrong_key_is_claimed_where_there_is_none() -> None:
    table, theta = board(np.random.default_rng(6), 0, memorised=True)
    found = judged(table, theta, slope=4.0)
    assert not item_table(found, np.zeros(ITEMS, dtype=int), 0.1)["suspect"].any()
    (sentence,) = item_sentences(found, 0.1)
    assert sentence.startswith("None of 200 items is solved by weak and missed by strong models")


def test_contaminated_items_are_also_judged_together() -> None:
    """Five models say too little of one item, and enough of forty."""
    rng = np.random.default_rng(7)
    theta = np.linspace(-2, 2, 5)
    chance = expit(theta[:, None] - rng.normal(0, 0.5, ITEMS))
    chance[:, :40] = (1 - chance[:, :40]) / 2
    model, item = (each.ravel() for each in np.indices(chance.shape))
    table = pd.DataFrame(
        {"model": [f"m{m}" for m in model], "benchmark": "b", "item": [f"q{i}" for i in item],
         "correct": (rng.random(chance.shape) < chance).astype(int).ravel(),
         "contamination": (item < 40) * 1.0}
    )  # fmt: skip
    # A slope that has taken the misfit for harm of contamination changes nothing.
    found = judged(table, drawn(theta, ITEMS, rng), slope=-2.0)
    assert float(found["contaminated_p"][0]) < 0.001
    sentences = list(item_sentences(found, 0.1))
    assert "The 40 items of b that are contaminated by 0.5 or more do not fit" in sentences[1]


def test_models_are_compared_on_the_items_that_are_counted() -> None:
    """Items that all models solved are neither in the counts nor suspects."""
    rng, theta = np.random.default_rng(11), np.array([-1.0, 0.0, 1.4, 0.4])
    chance = expit(theta[:, None] - rng.normal(0, 1, ITEMS))
    chance[:, :16] = (1 - chance[:, :16]) / 3
    chance[3, :16] = 0.9
    model, item = (each.ravel() for each in np.indices(chance.shape))
    names = np.array(["weak", "mid", "strong", "memoriser"])
    table = pd.DataFrame(
        {"model": names[model], "benchmark": "b", "item": [f"q{i}" for i in item],
         "correct": (rng.random(chance.shape) < chance).astype(int).ravel(),
         "contamination": (item < 16) * 1.0}
    )  # fmt: skip
    table.loc[(item >= 10) & (item < 16), "correct"] = 1
    text = list(item_sentences(judged(table, drawn(theta, ITEMS, rng), slope=0.0), 0.1))[-1]
    solved = table[table["contamination"] == 1].pivot(index="item", columns="model")["correct"]
    some = solved[(solved.mean(axis=1) > 0) & (solved.mean(axis=1) < 1)]
    assert 0 < len(some) <= 10
    assert text.startswith(f"On the {len(some)} items of b that are contaminated by 0.5 or more, ")
    assert f"memoriser solves {some['memoriser'].sum()}, expected" in text
    named = text.partition("Check the keys of ")[2].rstrip(".").split(", ")
    assert set(named) <= set(some.index)


def test_items_that_say_nothing_are_not_judged() -> None:
    table, theta = board(np.random.default_rng(8), 0)
    all_right = table["item"] == "q0"
    table.loc[all_right, "correct"] = 1
    few = (table["item"] == "q1") & ~table["model"].isin(["m0", "m1"])
    found = judged(table[~few], theta)
    listed = item_table(found, np.zeros(ITEMS, dtype=int), 0.1).set_index("item")
    assert listed.loc[["q0", "q1"], "p_value"].isna().all()
    assert not listed.loc[["q0", "q1"], "suspect"].any()
    assert "2 could not be judged" in next(item_sentences(found, 0.1))


def test_two_models_judge_no_item() -> None:
    table, theta = board(np.random.default_rng(8), 0)
    two = table["model"].isin(["m0", "m1"])
    sentence = next(item_sentences(judged(table[two], theta[:2]), 0.1))
    assert sentence.startswith("No item could be judged: of each, fewer than 3 models")


def test_rows_of_different_items_have_no_item_fit() -> None:
    frame = pd.DataFrame(
        {"model": ["a", "b"], "benchmark": "b", "item": "all", "n_correct": [3, 5], "n_trials": 9}
    )
    spec = changed(load_model("aggregated"), contamination={"form": "none"})
    draws = Draws(np.zeros((20, 2)), None, None, None, None)
    assert item_fit(draws, build(spec, Responses.from_frame(frame))) is None


@pytest.mark.parametrize(
    ("spec", "data", "reason"),
    [
        ("aggregated", {}, "its rows count different items together"),
        ("ability", {"participant_of_response": ("response", [0])}, "it has participants, whose"),
        ("ability", {}, "an earlier version made it; make the fit again"),
    ],
)
def test_why_a_fit_has_no_item_fit(spec: str, data: dict[str, Any], reason: str) -> None:
    tree = xr.DataTree.from_dict({"constant_data": xr.Dataset(data)})
    with pytest.raises(FitError, match=f"no estimates of single items: {reason}"):
        stored_item_fit(tree, load_model(spec), 0.1)


def differences(
    rng: np.random.Generator, models: int, items: int, memorised: bool = False, guess: float = 0.0
) -> ModelScores:
    """Compare models on a group of items, with abilities as far off as 60 other items say."""
    theta = rng.normal(0, 1, models)
    chance = guess + (1 - guess) * expit(theta - rng.normal(0, 1, (items, 1)))
    if memorised:  # wrong keys, which the second ablest model has memorised
        chance = (1 - chance) / 3
        chance[:, np.argsort(theta)[-2]] = 0.9
    correct = (rng.random(chance.shape) < chance) * 1.0
    some = (correct.sum(axis=1) > 0) & (correct.sum(axis=1) < models)
    correct = correct[some]
    count = len(correct)
    item, model = (each.ravel() for each in np.indices(correct.shape))
    error = 1 / np.sqrt(0.2 * 60)
    ability = theta + rng.normal(0, error, models) + rng.normal(0, error, (200, models))
    answers = Answers(
        np.arange(count) * models, correct.ravel(), np.ones(len(item)), ability[:, model],
        ability[:, model], np.full(len(item), guess), None, np.ones((200, count)),
    )  # fmt: skip
    return compared(answers, model, models)


@pytest.mark.parametrize("kind", [(4, 10, 0.0), (4, 40, 0.25), (12, 20, 0.0), (40, 10, 0.0)])
def test_models_that_do_not_differ_are_flagged_at_the_nominal_rate(
    kind: tuple[int, int, float],
) -> None:
    """The sentence needs p below 0.01; a higher rate than that has a chance below 1e-4."""
    rng = np.random.default_rng(9)
    models, items, guess = kind
    p = np.array([differences(rng, models, items, guess=guess).p_value for _ in range(300)])
    assert (p <= 0.01).sum() <= binom.isf(1e-4, 300, 0.01)
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.15)


def test_four_models_show_who_has_memorised_wrong_keys() -> None:
    rng = np.random.default_rng(10)
    boards = [differences(rng, 4, 10, memorised=True) for _ in range(50)]
    found = [
        each.p_value < 0.01 and np.nanargmax(each.z) == np.argmax(each.solved) for each in boards
    ]
    assert np.mean(found) >= 0.8


def test_items_of_wrong_keys_are_named_with_the_model_that_solves_them() -> None:
    """Of four models, 60 clean items and ten with wrong keys: none is a suspect by itself."""
    rng = np.random.default_rng(11)
    theta = np.array([-1.0, 0.0, 1.4, 0.4])
    chance = expit(theta[:, None] - rng.normal(0, 1, ITEMS))
    chance[:, :10] = (1 - chance[:, :10]) / 3
    chance[3, :10] = 0.9
    model, item = (each.ravel() for each in np.indices(chance.shape))
    table = pd.DataFrame(
        {"model": [("weak", "mid", "strong", "memoriser")[m] for m in model], "benchmark": "b",
         "item": [f"{'k' if i < 10 else 'q'}{i}" for i in item],
         "correct": (rng.random(chance.shape) < chance).astype(int).ravel(),
         "contamination": (item < 10) * 1.0}
    )  # fmt: skip
    solved = table[table["item"].str.startswith("k")].groupby("item")["correct"].sum()
    found = judged(table, drawn(theta, ITEMS, rng), slope=0.0)
    assert not item_table(found, np.zeros(ITEMS, dtype=int), 0.1)["suspect"].any()
    sentence = list(item_sentences(found, 0.1))[-1]
    assert "models differ by more than their abilities explain" in sentence
    assert "memoriser solves" in sentence.split(";")[0]
    named = sentence.split("Check the keys of ")[1].removesuffix(".").split(", ")
    assert sorted(named) == sorted(solved.index)


def test_models_of_equal_ability_are_compared_by_cochrans_q() -> None:
    """Of equal and certain abilities the statistic is Cochran's Q (1950, doi:10.2307/2332378)."""
    rng = np.random.default_rng(12)
    models, items = 5, 30
    correct = (rng.random((items, models)) < rng.uniform(0.2, 0.9, (items, 1))) * 1.0
    correct = correct[(correct.sum(axis=1) > 0) & (correct.sum(axis=1) < models)]
    item, model = (each.ravel() for each in np.indices(correct.shape))
    ability = np.zeros((3, len(item)))
    answers = Answers(
        np.arange(len(correct)) * models, correct.ravel(), np.ones(len(item)), ability, ability,
        np.zeros(len(item)), None, np.ones((3, len(correct))),
    )  # fmt: skip
    scores = compared(answers, model, models)
    solved, of_item = correct.sum(axis=0), correct.sum(axis=1)
    q = models * (models - 1) * ((solved - solved.mean()) ** 2).sum()
    q /= (of_item * (models - of_item)).sum()
    assert scores.solved == pytest.approx(solved)
    assert scores.expected == pytest.approx(np.full(models, solved.mean()))
    assert scores.p_value == pytest.approx(chi2.sf(q, models - 1), rel=1e-6)
