"""Item difficulties integrated out, against long runs in which they are sampled.

Run by ``make bench-all``. Five tables: two parts of the real responses and three simulated, two of
these with contamination that is not known. Means of
all estimands must agree within 0.1 posterior standard deviations beyond what the Monte Carlo
errors of both runs explain, and standard deviations within 10 %.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import bayescontam
from tests.support.latent_responses import simulated
from tests.support.real_data import shared
from tests.support.simulated_responses import simulate

LONG = {"chains": 4, "draws": 4000, "tune": 1000, "seed": 1}


def real(benchmarks: list[str], models: int, items: int) -> pd.DataFrame:
    """Return a part of the real responses, with contamination drawn for each item."""
    table = pd.read_parquet(shared("llm_benchmarks.parquet")).astype(
        {"model": str, "benchmark": str, "item": str}
    )
    chosen = sorted(table["model"].unique())[-models:]
    table = table[table["benchmark"].isin(benchmarks) & table["model"].isin(chosen)]
    kept = table[["benchmark", "item"]].drop_duplicates().groupby("benchmark").head(items)
    kept["contamination"] = np.random.default_rng(0).beta(0.5, 1.5, len(kept))
    return table.merge(kept)


TABLES: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "GSM8K and MATH": ("hierarchical", lambda: real(["GSM8K", "MATH"], 6, 200)),
    "three benchmarks": (
        "hierarchical",
        lambda: real(["BBH", "HumanEval", "TheoremQA"], 5, 150),
    ),
    "simulated": ("hierarchical", lambda: simulate(seed=3, models=6, items=200).responses),
    "duplicated or not": (
        "latent_duplicate",
        lambda: simulated(3, "latent_duplicate", items=120).table,
    ),
    "contamination within a deviation": (
        "noisy_covariate",
        lambda: simulated(3, "noisy_covariate", items=120).table,
    ),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TABLES)
def test_estimands_are_those_of_long_runs(name: str) -> None:
    spec, make = TABLES[name]
    table = make()
    index = ["model", "benchmark", "quantity"]
    reported = {
        way: bayescontam.fit(table, spec, difficulties=way, **LONG)
        for way in ("marginalised", "sampled")
    }
    ours, long = (fit.estimands().set_index(index) for fit in reported.values())
    rows = ours.index[(long["sd"] > 0) & ~long.index.isin(["rank", "p_best"], level="quantity")]
    ours, long = ours.loc[rows], long.loc[rows]
    noise = np.hypot(ours["mcse_mean"], long["mcse_mean"]) / long["sd"]
    shift = (ours["mean"] - long["mean"]).abs() / long["sd"]
    ratio = ours["sd"] / long["sd"]
    print(
        f"\n{name}: {len(table):,} responses, {len(rows)} estimands: largest shift"
        f" {shift.max():.3f} sd (Monte Carlo error {noise[shift.idxmax()]:.3f}),"
        f" root mean square {np.sqrt((shift**2).mean()):.3f}; sd ratio {ratio.min():.3f} to"
        f" {ratio.max():.3f}; smallest ESS {ours['ess_bulk'].min():.0f} and"
        f" {long['ess_bulk'].min():.0f}"
    )
    assert (shift < 0.1 + 3 * noise).all()
    assert ratio.between(0.9, 1.1).all()
