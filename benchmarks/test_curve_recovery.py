"""Recovery of the curve and of judges' errors from simulated judgements.

Run by ``make bench-all``, and with few data sets by the tests of ``evidence``. Parameters are
drawn from the prior and judgements from the model that is fitted, compiled once.
"""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit

from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.kinds import FIRST
from bayescontam.evidence.verdicts import Reported, Verdicts
from bayescontam.specs.registry import load_curve

DATA_SETS = 200
LEVELS = (0.5, 0.8, 0.95)
KEPT = (
    "threshold", "steepness", "threshold_open", "steepness_open", "source_shift", "relative",
    "sigma_item", "sigma_threshold", "sigma_shape", "sensitivity", "specificity",
    "threshold_exact", "steepness_exact", "chosen", "chosen_slope", "naming",
    "log_odds_ratio", "log_odds_ratio_slope", "log_odds_ratio_open",
)  # fmt: skip


def design(
    rng: np.random.Generator, kinds: tuple[str, ...] = (), predictor: bool = False
) -> Verdicts:
    """Return 60 items of 2 benchmarks with 5 pairs each, judged by a model, 80 by a person.

    With chosen kinds these two name kinds, and a rule judges all pairs. With a predictor a trained
    judge judged all pairs, whose verdicts are given, and not drawn.
    """
    items, each = 60, 5
    best = rng.uniform(0.45, 0.95, items)
    fall = np.sort(rng.uniform(0.0, 0.25, (items, each - 1)), axis=1)
    cosine = np.column_stack([best, best[:, None] - fall]).ravel()
    item = np.repeat(np.arange(items), each)
    by_person = rng.choice(items * each, 80, replace=False)
    every = np.arange(items * each)
    parts = [every, by_person, every][: 3 if kinds else 2]
    pair = np.concatenate(parts)
    judge = np.repeat([1, 0, 2][: len(parts)], [len(part) for part in parts])
    benchmark_of_item = np.arange(items) % 2
    reported = None
    if predictor:
        share = expit(12 * (cosine - 0.75))
        sign = np.where(rng.random(len(cosine)) < share, 1.0, -1.0)
        share = np.where(sign > 0, share, 1 - share)
        reported = Reported(sign, share, sign[::each], share[::each])
    return Verdicts(
        benchmarks=("one", "two"),
        sources=("web", "code"),
        judges=("Ada", "llm:judge", "rule:verbatim")[: len(parts)],
        items=tuple(f"item {i}" for i in range(items)),
        benchmark=benchmark_of_item[item],
        source=rng.integers(0, 2, items * each),
        item=item,
        cosine=cosine,
        place=np.tile(np.arange(1.0, each + 1), items),
        best=best,
        benchmark_of_item=benchmark_of_item,
        pair=pair,
        judge=judge,
        called=np.where(judge < 2, FIRST, 0) if kinds else np.zeros(len(pair), dtype=np.int64),
        further=np.zeros(len(pair), dtype=bool),
        kinds=kinds,
        reported=reported,
    )


def recover(
    data_sets: int, seed: int = 1, kinds: tuple[str, ...] = (), predictor: bool = False
) -> pd.DataFrame:
    """Return for each data set and quantity the share of draws below the truth."""
    import nutpie

    rng = np.random.default_rng(seed)
    model = build_curve(load_curve("monotone"), design(rng, kinds, predictor)).model
    prior = pm.sample_prior_predictive(
        data_sets, model=model, random_seed=rng, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    compiled = nutpie.compile_pymc_model(model)
    rows = []
    for k in range(data_sets):
        called = prior["prior_predictive"]["called"].to_numpy()[0, k].astype(np.int64)
        tree = nutpie.sample(
            compiled.with_data(verdicts=called), draws=500, tune=500, chains=1, cores=1,
            seed=seed + k, progress_bar=False, target_accept=0.95,
        )  # fmt: skip
        divergences = int(tree["sample_stats"]["diverging"].sum())
        for name in KEPT:
            if name not in tree["posterior"]:
                continue
            drawn = tree["posterior"][name].to_numpy()
            true = np.atleast_1d(prior["prior"][name].to_numpy()[0, k])
            below = (drawn.reshape(len(drawn) * drawn.shape[1], -1) < true.ravel()).mean(axis=0)
            rows += [
                {"data_set": k, "quantity": f"{name}[{i}]", "below": b, "divergences": divergences}
                for i, b in enumerate(below)
            ]
    return pd.DataFrame(rows)


def coverage(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return coverage of central intervals, and the p-value of uniform ranks, by quantity."""
    rows = {}
    for name, below in ranks.groupby("quantity", sort=False)["below"]:
        within = {level: (abs(below - 0.5) <= level / 2).mean() for level in LEVELS}
        rows[name] = within | {"p uniform": stats.kstest(below, "uniform").pvalue}
    return pd.DataFrame(rows).T


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("kinds", "predictor"),
    [((), False), ((), True), (("equivalent", "subset"), False)],
    ids=["any", "predictor", "two kinds"],
)
def test_curve_and_judges_are_recovered(kinds: tuple[str, ...], predictor: bool) -> None:
    ranks = recover(DATA_SETS, kinds=kinds, predictor=predictor)
    table = coverage(ranks)
    diverged = ranks.groupby("data_set")["divergences"].first()
    print("\n" + table.round(3).to_string())
    print(f"{(diverged > 0).sum()} of {DATA_SETS} fits had divergences, {diverged.sum()} in all")
    # 4 standard errors of a coverage of 0.95 over 200 data sets, for some twenty quantities.
    assert (abs(table[0.95] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / DATA_SETS)).all()
    assert (table["p uniform"] > 0.01 / len(table)).all()
