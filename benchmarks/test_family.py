"""Recovery by the model specs whose fits take longest: bends, discriminations, spillover.

Run by ``make bench-all``.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import bayescontam
from tests.support.given_fits import changed
from tests.support.real_data import shared
from tests.support.spec_tables import ITEMS, MODELS, fitted, inside, responses

SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    # Between knots. On a knot, either segment beside it is half wrong.
    "step": lambda d: (d >= 0.45) * 1.0,
    "linear": lambda d: d,
    "saturating": lambda d: (1 - np.exp(-6 * d)) / (1 - np.exp(-6)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_bent_curves_lie_in_their_bands(shape: str) -> None:
    rng = np.random.default_rng(5)
    d, delta = rng.random(ITEMS), rng.normal(0, 0.7, ITEMS)
    ability, slope = rng.normal(-0.5, 0.5, (MODELS, 1)), rng.normal(2.5, 0.3, (MODELS, 1))
    rise = SHAPES[shape]
    fit = fitted(responses(expit(ability - delta + slope * rise(d)), d, 5), "monotone")
    curves = fit.data["curves"].to_dataset().isel(benchmark=0)
    at = curves["contamination"].to_numpy()
    held = []
    for m in range(MODELS):
        curve = curves.sel(model=f"m{m}")
        eta = ability[m] - delta + slope[m] * rise(at[:, None])
        truth = expit(eta).mean(axis=1)
        held.append((curve["low"].to_numpy() <= truth) & (truth <= curve["high"].to_numpy()))
    assert np.mean(held) >= 0.9
    if shape == "step":  # its parts are 0 and 1, which no interval of the parts reaches
        return
    reached = fit.data["posterior"]["increments"].cumsum("segment").isel(segment=slice(9))
    low, high = reached.quantile([0.025, 0.975], ("chain", "draw")).to_numpy()
    knots = rise(np.arange(1, 10) / 10)
    assert ((low <= knots) & (knots <= high)).sum() >= 8


def test_discriminations_are_reported() -> None:
    rng = np.random.default_rng(9)
    items, models = 100, 20
    alpha, delta = np.exp(rng.normal(0, 0.6, items)), rng.normal(0, 1.0, items)
    ability, d = rng.normal(0, 1.2, (models, 1)), rng.random(items)
    p = expit(alpha * (ability - delta) + 1.0 * (d - 0.5))
    fit = fitted(responses(p, d, 9), "two_parameter")
    reported = fit.data["item_effects"]["alpha"].mean(("chain", "draw")).to_series()
    reported = reported.loc[[f"i{k}" for k in range(items)]].to_numpy()
    assert np.corrcoef(np.log(reported), np.log(alpha))[0, 1] > 0.6
    spread = fit.data["posterior"]["sigma_alpha"]
    assert float(spread.quantile(0.005)) < 0.6 < float(spread.quantile(0.995))
    ranks = fit.estimands().query("quantity == 'accuracy'").set_index("model")["mean"]
    truth = pd.Series(p.mean(axis=1), [f"m{k}" for k in range(models)])
    assert ranks.corr(truth.reindex(ranks.index), method="spearman") > 0.97


def test_spillover_is_distinguished_from_the_items_own_part() -> None:
    """Eight models of different exposure on one benchmark, none on another (a control)."""
    rng = np.random.default_rng(11)
    share = np.linspace(0, 0.9, MODELS)
    ability = rng.normal(0, 0.4, (MODELS, 1))
    parts, truth = [], {}
    for benchmark, exposed in (("b", 1.0), ("control", 0.0)):
        d = (rng.random((MODELS, ITEMS)) < exposed * share[:, None]).astype(float)
        level = ability + rng.normal(0, 0.15, (MODELS, 1)) - rng.normal(0, 0.7, ITEMS)
        mean = d.mean(axis=1, keepdims=True)
        p = expit(level + 0.8 * d + 1.5 * mean)
        parts.append(responses(p, d, 11).assign(benchmark=benchmark))
        parts[-1]["item"] += benchmark
        truth[benchmark] = (expit(level + 1.5 * mean) - expit(level)).mean(axis=1)
        total = (p - expit(level)).mean(axis=1)
        truth[f"{benchmark} total"] = total
    fit = fitted(pd.concat(parts), "spillover")
    table = fit.estimands().query("benchmark == 'b'")
    for name, true in (
        ("overfitting_spillover", truth["b"]), ("overfitting", truth["b total"]),
    ):  # fmt: skip
        rows = table[table["quantity"] == name].set_index("model")
        assert inside(rows.loc[[f"m{k}" for k in range(MODELS)]], true) >= MODELS - 1
    lift = fit.data["posterior"]["spillover"]
    assert float(lift.quantile(0.025)) < 1.5 < float(lift.quantile(0.975))
    assert float(lift.quantile(0.05)) > 0
    assert (
        fit.estimands().query("benchmark == 'control' and quantity == 'overfitting_spillover'")[
            "mean"
        ]
        == 0
    ).all()


@pytest.mark.timeout(3600)
def test_discriminations_of_real_benchmarks_survive_a_model_that_solves_all() -> None:
    """Twelve language models on GPQA Diamond and a part of MMLU, all of which one solved."""
    table = pd.read_parquet(shared("llm_benchmarks.parquet"))
    table = table[table["benchmark"].isin(["GPQA Diamond", "MMLU"])]
    mmlu = table.loc[table["benchmark"] == "MMLU", "item"].unique()
    left = np.random.default_rng(1).choice(mmlu, len(mmlu) - 400, replace=False)
    table = table[~table["item"].isin(left)]
    perfect = table.groupby(["benchmark", "model"])["correct"].mean()
    assert (perfect == 1).sum() == 1
    spec = changed(bayescontam.load_model("two_parameter"), contamination={"form": "none"})
    fit = bayescontam.fit(table, spec, seed=1, draws=1000, chains=4)
    sampling = [c for c in fit.checks() if c.name.startswith(("R-hat", "Bulk", "Tail", "Diverg"))]
    assert len(sampling) >= 5
    assert [c.name for c in sampling if c.outcome.name == "FAILED"] == []
    theta = fit.data["posterior"]["theta"].mean(("chain", "draw"))
    for benchmark in ("GPQA Diamond", "MMLU"):
        raw = perfect.loc[benchmark].reindex(theta["model"].to_numpy())
        reported = theta.sel(benchmark=benchmark).to_series()
        assert reported.corr(raw, method="spearman") > 0.95
