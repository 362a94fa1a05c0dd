"""Item difficulties integrated out, against long runs in which they are sampled.

Run by ``make bench-all``. Five tables: two parts of the real responses and three simulated, two of
these with contamination that is not known. Means of all estimands must agree
within 0.1 posterior standard deviations beyond what the Monte Carlo errors of both runs explain,
and standard deviations within 10 %.
"""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference.compiling import compile_model
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.compiled_model import density_of
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


# Numba does not cache what holds half a million positions, as the model with sampled ones does.
@pytest.mark.filterwarnings("ignore:.*Cannot cache compiled function")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("spec", ["latent_duplicate", "noisy_covariate"])
def test_a_gradient_where_contamination_is_uncertain(spec: str) -> None:
    """Half a million real responses, with probabilities and deviations drawn for each item."""
    table = pd.read_parquet(shared("llm_benchmarks.parquet")).astype(
        {"model": str, "benchmark": str, "item": str}
    )
    items = table[["benchmark", "item"]].drop_duplicates()
    p = np.random.default_rng(0).beta(0.5, 1.0, len(items))
    items = items.assign(
        p_duplicate=p, contamination=p, contamination_sd=0.5 * np.sqrt(p * (1 - p))
    )
    responses, found = Responses.from_frame(table.merge(items)), {}
    for way in ("marginalised", "sampled"):
        compiled = compile_model(build(load_model(spec), responses, way).model)
        n_dim, density = compiled.density.n_dim, density_of(compiled)
        at = np.random.default_rng(1).normal(0, 0.1, n_dim)
        times = []
        for _ in range(31):
            start = time.perf_counter()
            density(at)
            times.append(time.perf_counter() - start)
        found[way] = n_dim, float(np.median(times[1:]))
    ratio = found["sampled"][1] / found["marginalised"][1]
    print(f"\n{spec}, {len(responses.frame):,} responses:", end=" ")
    print(", ".join(f"{way} {n:,} parameters, {s * 1e3:.1f} ms" for way, (n, s) in found.items()))
    print(f"a gradient with sampled difficulties takes {ratio:.1f} times as long")
    assert ratio > 1
