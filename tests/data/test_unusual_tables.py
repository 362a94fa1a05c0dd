"""Tables as people have them, and what a default fit must not claim of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference.findings import verdict_line
from bayescontam.inference.tables import headline
from bayescontam.model.auto import compose_spec, constant_contamination
from tests.support.made_fit import drawn_as

pytestmark = pytest.mark.slow
QUICK = {"draws": 400, "tune": 400, "chains": 2, "seed": 1}


def table(correct: np.ndarray, contamination: np.ndarray | None = None) -> pd.DataFrame:
    """Return answers, dims (model, item); NaN where a model was not asked."""
    models, items = correct.shape
    m, i = (at.ravel() for at in np.indices((models, items)))
    frame = pd.DataFrame({
        "model": [f"m{k}" for k in m], "benchmark": "quiz", "item": [f"q{k:03d}" for k in i],
        "correct": correct.ravel(),
    })  # fmt: skip
    if contamination is not None:
        frame["contamination"] = np.broadcast_to(contamination, correct.shape).ravel()
    return frame.dropna(subset="correct").astype({"correct": int})


def test_a_model_that_solved_nothing_has_nothing_shown():
    """The other model's clear effect is not lent to it, and its own score is not zero by fiat."""
    rng = np.random.default_rng(4)
    dose = np.tile([0.0, 1.0], 60)
    strong = rng.random(120) < expit(-1.0 + 2.5 * dose)
    fit = bayescontam.fit(table(np.stack([strong, np.zeros(120)]) * 1.0, dose), **QUICK)
    rows = headline(fit).set_index("model")
    assert rows.loc["m0", "overfitting_direct_verdict"] == "shown"
    assert rows.loc["m1", "overfitting_direct_verdict"] == "borrowed"
    assert rows.loc["m1", "slope_verdict"] == "borrowed"
    known = fit.data["identification"]["own_information"].to_dataset().to_dataframe()
    assert known["own_information"].loc["m1"].item() < 1 < known["own_information"].loc["m0"].item()


@pytest.fixture(scope="module")
def constant() -> bayescontam.Fit:
    """Fit three models on items that are all contaminated."""
    rng = np.random.default_rng(2)
    return bayescontam.fit(table((rng.random((3, 60)) < 0.5) * 1.0, np.ones(60)), **QUICK)


@pytest.mark.parametrize("reference", ["min_observed", "zero"])
def test_constant_contamination_claims_no_clean_score(constant, reference):
    assert "does not vary" in constant_contamination(constant.responses())[0]
    with drawn_as(constant):
        fit = bayescontam.fit(constant.responses(), reference=reference, **QUICK)
    rows = headline(fit)
    assert set(rows["overfitting_direct_verdict"]) == {"no variation"}
    assert "For all 3 models all items have the same contamination" in verdict_line(fit)
    assert any("does not vary" in note for note in fit.record["data"]["notes"])
    if reference == "min_observed":
        assert (
            rows[["overfitting_direct", "overfitting_direct_low", "overfitting_direct_high"]]
            .isna()
            .all(axis=None)
        )
        estimands = fit.estimands().query("quantity == 'overfitting_direct'")
        assert estimands[["mean", "ci_low", "ci_high"]].isna().all(axis=None)
    else:
        outside = {c.name: c for c in fit.checks()}["Reference in observed range"]
        assert outside.outcome.value == "caution"
        assert (fit.data["identification"]["extrapolation"] == 1).all()


def test_weak_models_on_easy_items_are_not_ranked_first():
    """Scores on answered items are in the reverse order of abilities; 35 % of cells are filled."""
    rng = np.random.default_rng(8)
    theta, delta = np.linspace(-1.2, 1.2, 7), rng.normal(0, 1.2, 110)
    asked = rng.random((7, 110)) < expit(-0.9 + 1.3 * theta[:, None] * delta)
    right = rng.random((7, 110)) < expit(theta[:, None] - delta)
    frame = table(np.where(asked, right * 1.0, np.nan)[:, asked.any(axis=0)])
    raw = frame.groupby("model")["correct"].mean()
    fit = bayescontam.fit(frame, **QUICK)
    accuracy = headline(fit).set_index("model")["accuracy"]
    assert spearmanr(accuracy.reindex(raw.index), theta)[0] > 0.7
    assert spearmanr(accuracy.reindex(raw.index), theta)[0] > spearmanr(raw, theta)[0] + 0.2
    pairs = bayescontam.rank_models(fit).pairs().query("distinguished")
    better, worse = (pairs[side].str[1:].astype(int) for side in ("model", "other"))
    assert (theta[better] > theta[worse]).all()
    assert headline(fit)["rank_raw"].isna().all()
    met = frame["item"].nunique()
    assert f" of {met} of " in " ".join(bayescontam.rank_models(fit).compared.sentences())


def test_five_items_claim_nothing():
    frame = table(np.array([[1, 1, 1, 0, 1]]) * 1.0, np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    rows = headline(bayescontam.fit(frame, **QUICK))
    assert rows["overfitting_direct_verdict"].tolist() == ["inconclusive"]
    assert (rows["genuine_ability_direct_high"] - rows["genuine_ability_direct_low"] > 0.3).all()


def test_all_right_and_all_wrong_models_keep_their_order():
    rng = np.random.default_rng(5)
    middle = rng.random((2, 60)) < 0.5
    correct = np.stack([np.ones(60), *middle, np.zeros(60)])
    rows = headline(bayescontam.fit(table(correct), **QUICK)).set_index("model")
    accuracy = rows["accuracy"]
    assert accuracy["m0"] > max(accuracy["m1"], accuracy["m2"])
    assert accuracy["m3"] < min(accuracy["m1"], accuracy["m2"])
    assert rows.loc["m0", "accuracy_low"] < 0.995
    assert np.isfinite(rows[["accuracy_low", "accuracy_high"]]).all(axis=None)


COLUMNS = {
    "nothing": ({}, "ability", {"form": "none"}),
    "contamination": ({"contamination": [0.1, 0.9] * 4}, "hierarchical", {"form": "linear"}),
    "clean": (
        {"contamination": [0.0, 0.0, 0.1, 0.9] * 2, "clean": [1, 1, 0, 0] * 2},
        "anchored (column 'clean': 1 of 2 models)", {"confounding": "anchored"},
    ),
    "latent": (
        {"contamination": [0.1, 0.9] * 4, "p_duplicate": [0.1, 0.9] * 4},
        "latent event", {"exposure": "latent"},
    ),
    "noisy": (
        {"contamination": [0.1, 0.9] * 4, "contamination_sd": 0.05},
        "noisy covariate", {"exposure": "noisy"},
    ),
    "options": ({"n_options": 4}, "guessing by item (column 'n_options')", {"form": "none"}),
    "all clean": (
        {"contamination": [0.0] * 8, "clean": 1}, "all models are declared clean", {"form": "none"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_the_spec_follows_the_columns(case):
    columns, said, block = COLUMNS[case]
    frame = pd.DataFrame({
        "model": ["a", "a", "b", "b"] * 2, "benchmark": "quiz",
        "item": [f"i{k}" for k in (0, 1, 0, 1, 2, 3, 2, 3)], "correct": [0, 1] * 4,
    }).assign(**columns)  # fmt: skip
    spec, notes = compose_spec(Responses.from_frame(frame))
    assert said in notes[0]
    assert len(notes) == 2
    content = spec.contamination.model_dump()
    assert {name: content[name] for name in block} == block
    assert (spec.likelihood.guess == "column") is (case == "options")
