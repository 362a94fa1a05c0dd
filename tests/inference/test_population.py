"""Reference populations against loops written out, and ranks on common ground."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.design_checks import design_checks
from bayescontam.inference.estimands import Population, comparable, estimands, over_all
from bayescontam.inference.pipeline import Options
from bayescontam.inference.posterior import Draws, difficulty, draw_difficulties
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model

MODELS, ITEMS = 3, 8
DOSE = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.2, 0.8])
ANSWERED = {0: range(8), 1: [0, 1, 4, 6], 2: [2, 3, 4, 5, 7]}


def table(trials: int = 1, by_model: bool = False) -> Responses:
    """Three models on one benchmark of eight items; only the first answered all."""
    rng = np.random.default_rng(5)
    rows = [
        {
            "model": f"m{m}", "benchmark": "b", "item": f"i{i}",
            "n_correct": int(rng.integers(trials + 1)), "n_trials": trials,
            "contamination": float(DOSE[i]) if m or not by_model else 0.0,
        }
        for m, items in ANSWERED.items()
        for i in items
    ]  # fmt: skip
    return Responses.from_frame(pd.DataFrame(rows))


def draws_of(built, size: int = 5) -> Draws:
    rng, design = np.random.default_rng(0), built.design
    repeated = len(design) - design.n_single
    return Draws(
        theta=rng.normal(size=(size, MODELS)),
        beta=rng.normal(1, 1, (size, MODELS)),
        delta=rng.normal(size=(size, ITEMS)),
        eta=rng.normal(size=(size, repeated)) if repeated else None,
        sigma_eps=np.full((size, 1), 0.7) if repeated else None,
    )


@pytest.mark.parametrize("by_model", [False, True])
def test_estimands_average_over_all_items_of_the_table(by_model):
    built = build(load_model("hierarchical"), table(by_model=by_model))
    draws, design = draws_of(built), built.design
    found = estimands(draws, built, (1, 5), 0.4)["estimands"]
    position = {name: i for i, name in enumerate(design.items)}
    place = np.array([position[f"i{i}"] for i in range(ITEMS)])
    for m in range(MODELS):
        # Without a row of its own an item has its mean over models; m0 has one number if by model.
        dose = DOSE.copy()
        if by_model:
            others = {i: [DOSE[i] for k in (1, 2) if i in ANSWERED[k]] for i in range(ITEMS)}
            dose = np.array([np.mean([0.0, *others[i]]) for i in range(ITEMS)])
            dose[list(ANSWERED[m])] = DOSE[list(ANSWERED[m])] if m else 0.0
        for s in range(5):
            eta = (
                draws.theta[s, m]
                - draws.delta[s, place]
                - draws.beta[s, m] * design.centring.responses[0]
            )
            accuracy = expit(eta + draws.beta[s, m] * dose).mean()
            genuine = expit(eta + draws.beta[s, m] * 0.4).mean()
            cell = found.isel(chain=0, draw=s, model=m, benchmark=0)
            assert float(cell["accuracy"]) == pytest.approx(accuracy, abs=1e-12)
            assert float(cell["genuine_ability_direct"]) == pytest.approx(genuine, abs=1e-12)


def test_answered_items_alone_are_averaged_where_that_is_wanted():
    built = build(load_model("hierarchical"), table())
    draws, design = draws_of(built), built.design
    found = estimands(draws, built, (1, 5), 0.4, "answered")["estimands"]
    rows = np.flatnonzero(design.model == 1)
    eta = draws.theta[:, [1]] - draws.delta[:, design.item[rows]]
    eta = eta + draws.beta[:, [1]] * (0.4 - design.centring.responses[0])
    np.testing.assert_allclose(
        found["genuine_ability_direct"].isel(chain=0, model=1, benchmark=0), expit(eta).mean(axis=1)
    )
    assert bool(found["rank"].isnull().all())


def test_effects_of_pairs_that_were_not_observed_have_the_spread_of_the_others():
    """The mean over draws is the logistic-Normal integral; 40,000 draws, five standard errors."""
    built = build(load_model("hierarchical"), table(trials=4))
    one = draws_of(built, 1)
    many = replace(
        one,
        **{
            name: np.repeat(values, 40_000, axis=0)
            for name in ("theta", "beta", "delta", "eta", "sigma_eps")
            if (values := getattr(one, name)) is not None
        },
    )
    population = Population.of(built, "all")
    assert len(population.unobserved) == MODELS * ITEMS - len(built.design)
    rng = np.random.default_rng(1)
    parts = list(population.parts(many, rng))
    eta = np.concatenate([part.eta for part in parts if part.eta is not None])
    added = eta[:, population.unobserved]
    design = population.design
    rows = design.n_single + population.unobserved
    dose = design.contamination[rows] - built.design.centring.responses[0]
    center = one.theta[0, design.model[rows]] - one.delta[0, design.item[rows]]
    center = center + one.beta[0, design.model[rows]] * dose
    np.testing.assert_allclose(added.mean(axis=0), center, atol=5 * 0.7 / 200)
    np.testing.assert_allclose(added.std(axis=0), 0.7, rtol=5 / np.sqrt(80_000))
    # Observed responses keep their own.
    np.testing.assert_array_equal(eta[0, : one.eta.shape[1]], one.eta[0])


def test_population_weights_are_those_of_the_items():
    built = build(load_model("hierarchical"), table(trials=3))
    population = Population.of(built, "all")
    matrix = population.matrices["benchmark"].toarray()
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert (matrix > 0).sum(axis=1).tolist() == [ITEMS] * MODELS
    np.testing.assert_allclose(matrix[matrix > 0], 1 / ITEMS)


def test_a_complete_table_needs_no_other_design():
    frame = table().frame
    built = build(load_model("hierarchical"), Responses.from_frame(frame[frame["model"] == "m0"]))
    assert Population.of(built, "all").design is built.design


@pytest.mark.parametrize(
    ("items", "spec", "over", "ranked"),
    [
        ("all", "hierarchical", True, True),
        ("answered", "hierarchical", False, False),
        ("all", "single", False, False),
    ],
)
def test_ranks_need_common_ground(items, spec, over, ranked):
    built = build(load_model(spec), table())
    assert over_all(built, items).tolist() == [over]
    assert comparable(built, items).tolist() == [ranked]
    check = {c.name: c for c in design_checks(built, np.zeros(1), items)}["Items answered"]
    assert check.outcome.value == ("passed" if ranked else "caution")
    assert ("no ranks are given" in check.sentence) is not ranked


def test_models_that_share_no_item_have_no_ranks():
    frame = pd.DataFrame(
        [
            {"model": f"m{m}", "benchmark": "b", "item": f"i{10 * (m // 2) + i}",
             "n_correct": (m + i) % 2, "n_trials": 1, "contamination": i / 5}
            for m in range(4) for i in range(6)
        ]
    )  # fmt: skip
    built = build(load_model("hierarchical"), Responses.from_frame(frame))
    assert over_all(built, "all").tolist() == [True]
    assert comparable(built, "all").tolist() == [False]
    check = {c.name: c for c in design_checks(built, np.zeros(1))}["Items answered"]
    assert "no item that both answered" in check.sentence
    # One model that answered items of both groups links them.
    bridge = pd.DataFrame(
        [{"model": "m9", "benchmark": "b", "item": name, "n_correct": 1, "n_trials": 1,
          "contamination": frame.set_index("item")["contamination"][name].iloc[0]}
         for name in ("i0", "i10")]
    )  # fmt: skip
    linked = build(load_model("hierarchical"), Responses.from_frame(pd.concat([frame, bridge])))
    assert comparable(linked, "all").tolist() == [True]


def test_too_many_pairs_are_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr("bayescontam.inference.estimands.MOST_PAIRS", 20)
    built = build(load_model("hierarchical"), table())
    with pytest.raises(UsageError, match=r"24 pairs of models and items.*--items answered"):
        Population.of(built, "all")


def test_unknown_items_are_refused():
    with pytest.raises(UsageError, match="items: got 'some'; allowed are 'all' or 'answered'"):
        Options(seed=1, items="some")


@pytest.mark.parametrize("marginalised", [False, True])
def test_a_population_of_items_has_the_error_of_their_sample(marginalised):
    """The Bayesian bootstrap of a mean has variance var(p) / (n + 1); 8,000 draws."""
    frame = table().frame
    built = build(
        load_model("hierarchical"), Responses.from_frame(frame),
        "marginalised" if marginalised else "sampled",
    )  # fmt: skip
    size = 8_000
    one = draws_of(built, 1)
    if marginalised:
        scale = {"sigma_delta": np.full((size, 1), 1.3)}
        draws = Draws(*(np.repeat(v, size, axis=0) for v in (one.theta, one.beta)), None, None,
                      None, **scale)  # fmt: skip
        draws = draw_difficulties(draws[:1], built.lattice, np.random.default_rng(3))
        draws = draws[np.zeros(size, dtype=int)]
        delta = difficulty(draws[:1], built.lattice)
    else:
        draws = one[np.zeros(size, dtype=int)]
        delta = one.delta
    found = estimands(draws, built, (1, size), 0.4, "all", np.random.default_rng(2), True)
    for m in range(MODELS):
        eta = (
            one.theta[0, m] - delta[0] + one.beta[0, m] * (0.4 - built.design.centring.responses[0])
        )
        p = expit(eta)
        values = found["estimands"]["genuine_ability_direct"].isel(chain=0, model=m, benchmark=0)
        sd = p.std() / np.sqrt(ITEMS + 1)
        assert float(values.mean()) == pytest.approx(p.mean(), abs=5 * sd / np.sqrt(size))
        assert float(values.std()) == pytest.approx(sd, rel=5 / np.sqrt(2 * size))


def test_models_share_the_sample_of_items():
    """Two models alike but for a shift have differences that hardly depend on the items."""
    built = build(load_model("hierarchical"), table())
    one = draws_of(built, 1)
    one = replace(one, theta=np.array([[0.0, 0.0, 0.01]]), beta=np.ones((1, 3)))
    many = one[np.zeros(2000, dtype=int)]
    found = estimands(many, built, (1, 2000), 0.4, "all", np.random.default_rng(2), True)
    genuine = found["estimands"]["genuine_ability_direct"].isel(chain=0, benchmark=0)
    np.testing.assert_allclose(genuine.isel(model=0), genuine.isel(model=1), atol=1e-12)
    assert (found["estimands"]["rank"].isel(model=2) == 1).all()
    assert float(genuine.isel(model=0).std()) > 0.02
