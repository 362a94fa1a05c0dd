"""Curves over the prior location of kappa against refits there. Run by ``make bench-all``."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.inference.summary import summarise
from bayescontam.model.build import build
from bayescontam.specs.model import ModelSpec
from tests.support.simulated_responses import simulate

QUANTITIES = ("genuine_ability_direct", "overfitting_direct", "slope")
SAMPLING = Sampling(draws=1500, tune=700, chains=4, cores=2)
KEYS = ["model", "benchmark", "quantity"]


def spec(location: float) -> ModelSpec:
    prior = f"kappa = {{ family = 'normal', mu = {location}, sigma = 1.0 }}"
    text = f"summary = 'x'\n[contamination]\nconfounding = 'sensitivity'\n[priors]\n{prior}"
    return ModelSpec.parse(text, "moved")


def table(benchmarks: int) -> pd.DataFrame:
    return simulate(2, models=4, benchmarks=benchmarks, items=200, slope=1.5).responses


@cache
def fitted(benchmarks: int, location: float) -> bayescontam.Fit:
    return bayescontam.fit(table(benchmarks), spec(location), seed=5)


def long(curves: pd.DataFrame, location: float, changed: str) -> pd.DataFrame:
    """Return what the curves say at a location, a row for each quantity."""
    rows = curves[np.isclose(curves["location"], location) & (curves["changed"] == changed)]
    parts = [
        rows[["model", "benchmark", "ess", "pareto_k"]].assign(
            quantity=name, mean=rows[name], ci_low=rows[f"{name}_low"], ci_high=rows[f"{name}_high"]
        )
        for name in QUANTITIES
    ]
    return pd.concat(parts).set_index(KEYS)


def compared(reported: pd.DataFrame, refit: pd.DataFrame) -> pd.DataFrame:
    """Return differences in posterior standard deviations of the refit, and their errors."""
    both = reported.join(refit.set_index(KEYS), suffixes=("", "_refit"), how="inner")
    assert len(both) == len(reported)
    result = both[["ess", "pareto_k"]].copy()
    for name in ("mean", "ci_low", "ci_high"):
        result[name] = (both[name] - both[f"{name}_refit"]) / both["sd"]
    # An end of an interval from n independent draws: sqrt(0.025 * 0.975 / n) / 0.0584 sd.
    result["error"] = 2.67 * np.sqrt(1 / both["ess"] + 1 / both["ess_tail"])
    return result


def agrees(result: pd.DataFrame, text: str) -> None:
    ends = result[["ci_low", "ci_high"]].abs().max(axis=1)
    print(
        f"{text}: k {result['pareto_k'].max():.2f}, ess {result['ess'].min():.0f}; in sd of the"
        f" refit: means {result['mean'].abs().max():.3f}, ends {ends.max():.3f}; ends in errors"
        f" {(ends / result['error']).max():.2f}"
    )
    assert (result["mean"].abs() < 3 * result["error"]).all()
    assert (ends < 4 * result["error"]).all()


@pytest.fixture(scope="module", params=[1, 3])
def base(request: pytest.FixtureRequest) -> tuple[int, bayescontam.Fit]:
    return request.param, fitted(request.param, 0.0)


@pytest.mark.parametrize("sign", [-1, 1])
def test_all_priors_moved_agrees_with_a_refit_there(
    base: tuple[int, bayescontam.Fit], sign: int
) -> None:
    benchmarks, fit = base
    curves = fit.confounding()
    location = sign * (1.0 if benchmarks == 1 else 0.3)
    refit = fitted(benchmarks, location).estimands()
    print()
    print(curves.query("changed == 'all'")[["reach_low", "reach_high"]].drop_duplicates())
    result = compared(long(curves, location, "all"), refit)
    agrees(result, f"{benchmarks} benchmarks, all at {location}")
    plain = long(curves, 0.0, "all").xs("slope", level="quantity")["mean"]
    there = refit[refit["quantity"] == "slope"].set_index(KEYS[:2])["mean"]
    assert ((there - plain) * sign > 0).all()  # there was something to follow


def test_one_prior_moved_agrees_with_a_refit_there() -> None:
    location, fit = 0.8, fitted(3, 0.0)
    built = build(spec(0.0), Responses.from_frame(table(3)))
    with built.model as model:
        first = model["kappa"][0]
        ends = pm.Normal.dist(location, 1.0), pm.Normal.dist(0.0, 1.0)
        pm.Potential("moved", pm.logp(ends[0], first) - pm.logp(ends[1], first))
    posterior, _ = sample_model(model, SAMPLING, 7, False)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    groups = estimands(stack_draws(posterior, built.design), built, shape, "min_observed")
    refit = summarise(groups["estimands"])
    first_only = long(fit.confounding(), location, "own").xs(
        "bench-0", level="benchmark", drop_level=False
    )
    agrees(compared(first_only, refit), f"bench-0 alone at {location}")
