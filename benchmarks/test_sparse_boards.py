"""Boards on which models answered different items: ranks and intervals, before and after.

Run by ``make bench-all``; 400 fits, about half an hour on two cores.
"""

import os
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.inference.summary import p_superior
from bayescontam.model.build import build
from bayescontam.parallel import usable_cores
from bayescontam.specs.model import ModelSpec, restored_spec
from bayescontam.specs.registry import load_model

BOARDS = int(os.environ.get("BAYESCONTAM_BOARDS", "200"))
STRENGTH = 0.8
"""How many log-odds of being answered one standard deviation of difficulty is worth."""
SAMPLING = Sampling(draws=600, tune=500, chains=2, cores=1)


def board(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return answers, 20 to 60 % of all, and each model's mean accuracy over all items.

    How much a model prefers hard items has a correlation of −0.6 to 0.6 with its ability.
    """
    rng = np.random.default_rng([20, seed])
    models, items = int(rng.integers(6, 13)), int(rng.integers(60, 141))
    fill, correlation = rng.uniform(0.2, 0.6), rng.uniform(-0.6, 0.6)
    theta = rng.normal(rng.normal(0, 0.7), rng.uniform(0.5, 1.2), models)
    delta = rng.normal(0, rng.uniform(0.6, 1.4), items)
    able = (theta - theta.mean()) / theta.std()
    hard = (delta - delta.mean()) / delta.std()
    prefers = correlation * able + np.sqrt(1 - correlation**2) * rng.standard_normal(models)
    rows = []
    for m in range(models):
        count = max(5, round(items * fill * rng.uniform(0.8, 1.2)))
        key = STRENGTH * prefers[m] * hard + rng.gumbel(size=items)
        for i in np.sort(np.argsort(-key)[:count]):
            correct = int(rng.random() < expit(theta[m] - delta[i]))
            rows.append({"model": f"m{m:02d}", "item": f"i{i:03d}", "correct": correct})
    frame = pd.DataFrame(rows).assign(benchmark="board")
    met = sorted({int(name[1:]) for name in frame["item"]})
    return frame, expit(theta[:, None] - delta[met]).mean(axis=1)


def without_selection() -> ModelSpec:
    content = load_model("ability").model_dump()
    content["difficulty"]["selection"] = "ignored"
    return restored_spec(content, "before", "")


def judged(seed: int) -> list[dict[str, float]]:
    frame, truth = board(seed)
    found = []
    for name, spec, items in (
        ("before", without_selection(), "answered"),
        ("all items", without_selection(), "all"),
        ("after", load_model("ability"), "all"),
    ):
        if name != "all items":  # the same fit, averaged otherwise
            built = build(spec, Responses.from_frame(frame))
            posterior, _ = sample_model(built.model, SAMPLING, seed, False)
        shape = posterior.sizes["chain"], posterior.sizes["draw"]
        cells = estimands(stack_draws(posterior, built.design), built, shape, "zero", items)
        order = [built.design.models.index(f"m{m:02d}") for m in range(len(truth))]
        accuracy = cells["estimands"]["accuracy"].to_numpy()[..., 0].reshape(-1, len(truth))
        accuracy = accuracy[:, order]
        low, high = np.quantile(accuracy, [0.025, 0.975], axis=0)
        better = p_superior(accuracy)
        claimed = better >= 0.95
        wrong = truth[:, None] < truth[None, :]
        raw = frame.groupby("model")["correct"].mean().sort_index().to_numpy()
        found.append({
            "board": seed, "way": name,
            "coverage": ((low <= truth) & (truth <= high)).mean(),
            "width": (high - low).mean(),
            "rank correlation": spearmanr(accuracy.mean(axis=0), truth)[0],
            "raw": spearmanr(raw, truth)[0],
            "claimed": claimed.sum(), "wrong": (claimed & wrong).sum(),
            "expected wrong": (1 - better[claimed]).sum(),
        })  # fmt: skip
    return found


def summary(rows: list[dict[str, float]]) -> pd.DataFrame:
    groups = pd.DataFrame(rows).groupby("way", sort=False)
    means = groups[["coverage", "width", "rank correlation", "raw"]].mean()
    errors = groups["coverage"].sem().rename("± coverage")
    sums = groups[["claimed", "wrong", "expected wrong"]].sum()
    return pd.concat([means, errors, sums], axis=1)


@pytest.mark.timeout(4 * 3600)
def test_sparse_boards() -> None:
    # Compiled models stay in the memory of a process, so that each makes a few boards only.
    # Not by concurrent.futures, which waits for ever once its processes are renewed
    # (python/cpython issue 115634).
    pool = get_context("spawn").Pool(usable_cores(), maxtasksperchild=10)
    rows = []
    with pool:
        for done, part in enumerate(pool.imap(judged, range(BOARDS)), start=1):
            rows += part
            if done % 20 == 0 or done == BOARDS:
                table = summary(rows)
                print(f"\n{done} boards\n{table.round(3).to_string()}", flush=True)
    after, before = table.loc["after"], table.loc["before"]
    assert 0.93 <= after["coverage"] <= 0.97
    assert after["wrong"] <= 1.5 * after["expected wrong"] + 3
    assert after["rank correlation"] > before["rank correlation"]
