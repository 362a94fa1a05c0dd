"""Large tables are computed in blocks: what is computed of them is what a whole one has."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.inference import blocks, item_fit
from bayescontam.inference.estimands import estimands
from bayescontam.inference.own_slopes import own_slopes
from bayescontam.inference.posterior import accuracy, draw_difficulties, expand_to_items
from bayescontam.inference.predictive import posterior_checks, prior_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.marginal import Difficulties
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate

DRAWS = 40
SMALL = 100
"""Responses of a block, in these tests."""


def table(kind: str = "") -> pd.DataFrame:
    """Return answers of 5 models to 3 benchmarks of 40 items, of which not all are answered."""
    frame = simulate(seed=4, models=5, benchmarks=3, items=40).responses
    rng = np.random.default_rng(5)
    if kind == "repeated":
        frame["n_trials"] = np.where(rng.random(len(frame)) < 0.5, 1, 4)
        frame["n_correct"] = rng.binomial(frame["n_trials"], 0.6)
    if kind == "guessing":
        frame["guess"] = 0.25
    if kind == "uncertain":
        frame["p_duplicate"] = frame["contamination"]
    return frame[rng.random(len(frame)) < 0.8]


def built(
    kind: str = "", spec: str = "hierarchical", difficulties: Difficulties = "sampled"
) -> BuiltModel:
    return build(load_model(spec), Responses.from_frame(table(kind)), difficulties)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have tables cut into blocks from now on."""

    def now() -> None:
        monkeypatch.setattr(blocks, "LARGE", SMALL)
        for module in (blocks, item_fit):
            monkeypatch.setattr(module, "BLOCK", SMALL)

    return now


def test_runs_are_of_whole_items_and_no_longer_than_allowed() -> None:
    sizes = np.array([3, 4, 20, 1, 1, 1, 9])
    starts = np.cumsum(sizes) - sizes
    found = list(blocks.runs(starts, int(sizes.sum()), 8))
    assert [run.tolist() for run in found] == [[0, 1], [2], [3, 4, 5], [6]]


def test_blocks_are_of_whole_items_and_hold_every_response_once(cut: Any) -> None:
    model = built()
    (whole,) = blocks.blocks_of_responses(model)
    cut()
    found = list(blocks.blocks_of_responses(model))
    assert len(found) > 4
    assert np.array_equal(np.sort(np.concatenate(found)), whole)
    assert max(map(len, found)) <= SMALL
    items = [set(model.design.item[rows]) for rows in found]
    assert sum(map(len, items)) == len(model.design.items)


@pytest.mark.parametrize(
    ("kind", "spec"), [("repeated", "hierarchical"), ("uncertain", "latent_duplicate")]
)
def test_responses_that_share_more_are_one_block(kind: str, spec: str, cut: Any) -> None:
    model = built(kind, spec)
    cut()
    assert len(list(blocks.blocks_of_responses(model))) == 1


@pytest.mark.parametrize(
    ("kind", "spec", "difficulties"),
    [
        ("", "hierarchical", "sampled"),
        ("", "hierarchical", "marginalised"),
        ("", "monotone", "sampled"),
        ("", "two_parameter", "sampled"),
        ("", "interaction", "sampled"),
        ("", "spillover", "sampled"),
        ("repeated", "hierarchical", "sampled"),
        ("guessing", "hierarchical", "sampled"),
        ("uncertain", "latent_duplicate", "sampled"),
    ],
)
def test_items_and_slopes_are_the_same_in_blocks(
    kind: str, spec: str, difficulties: Difficulties, cut: Any
) -> None:
    model = built(kind, spec, difficulties)
    draws, _ = prior_draws(model, DRAWS, np.random.default_rng(6))
    spread = np.full(model.design.answered.shape, 0.8)
    items, slopes = item_fit.item_fit(draws, model), own_slopes(draws, model, spread)
    cut()
    again = item_fit.item_fit(draws, model)
    assert items is not None
    assert again is not None
    for name, values in items.data_vars.items():
        np.testing.assert_allclose(again[name], values, rtol=1e-9, atol=1e-9, err_msg=str(name))
    for name, values in vars(own_slopes(draws, model, spread)).items():
        # A block has as many nodes, 9 or 31, as the widest spread of its own responses needs.
        np.testing.assert_allclose(values, getattr(slopes, name), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("difficulties", ["sampled", "marginalised"])
def test_replicated_scores_have_their_moments_in_blocks(
    difficulties: Difficulties, cut: Any
) -> None:
    model = built(difficulties=difficulties)
    rng = np.random.default_rng(7)
    one = prior_draws(model, 1, rng)[0]
    draws = one[np.zeros(400, dtype=np.int64)]
    if model.lattice is not None:
        draws = draw_difficulties(draws, model.lattice, rng, responses=False)
    cut()
    found = posterior_checks(draws, model, rng)
    design = model.design
    cells, size = design.model_benchmark, design.answered.size
    count = np.bincount(cells, minlength=size)
    p = accuracy(expand_to_items(draws, model.lattice), model)
    means = np.array([np.bincount(cells, row, minlength=size) for row in p]) / count
    inner = np.array([np.bincount(cells, row * (1 - row), minlength=size) for row in p]) / count**2
    away = found["score_replicated"].to_numpy().reshape(len(draws), size) - means
    # One false alarm in 10,000 among all pairs would lie at 4.8 standard errors.
    assert np.abs(away.mean(axis=0) / np.sqrt(inner.mean(axis=0) / len(draws))).max() < 4.8
    ratio = away.var(axis=0) / inner.mean(axis=0)
    assert np.abs(ratio - 1).max() < 4.8 * np.sqrt(2 / len(draws))


def test_items_counted_once_give_the_estimands_of_all_items() -> None:
    frame = simulate(seed=10, models=3, benchmarks=1, items=800).responses
    frame["contamination"] = frame["contamination"].round()
    model = build(load_model("hierarchical"), Responses.from_frame(frame), "marginalised")
    draws, _ = prior_draws(model, DRAWS, np.random.default_rng(11))
    lattice, design = model.lattice, model.design
    assert lattice is not None
    assert draws.place is not None
    assert draws.tally is not None  # there are so many items that it takes no more room
    counted = draws.tally.reshape(DRAWS, len(lattice.trials), -1)
    for d in range(DRAWS):
        wanted = np.zeros(counted[d].shape)
        np.add.at(
            wanted, (lattice.level[np.arange(800), lattice.basis.argmax(1)], draws.place[d]), 1
        )
        np.testing.assert_array_equal(counted[d], wanted)
    found = estimands(draws, model, (1, DRAWS), "zero")["estimands"]
    every = expand_to_items(draws, lattice)
    for name, level in (("accuracy", None), ("genuine_ability_direct", np.zeros(len(design)))):
        p = accuracy(every, model, level).reshape(DRAWS, -1)
        means = np.stack([p[:, design.model == m].mean(axis=1) for m in range(3)], axis=1)
        np.testing.assert_allclose(found[name].to_numpy()[0, :, :, 0], means, rtol=1e-9)


def test_the_observed_scores_are_those_of_one_block(cut: Any) -> None:
    model = built()
    draws, _ = prior_draws(model, DRAWS, np.random.default_rng(8))
    whole = posterior_checks(draws, model, np.random.default_rng(9))
    cut()
    parts = posterior_checks(draws, model, np.random.default_rng(9))
    for name in ("score", "score_trials", "binned", "binned_trials", "bin_contamination"):
        np.testing.assert_array_equal(parts[name], whole[name])
