"""Held-out responses: no weight in the likelihood, and nothing in the coordinates."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.model.build import BuiltModel, build_design
from bayescontam.model.design import make_design
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN
from tests.support.simulated_responses import simulate

ROWS = np.array([0, 3, *range(20, 40), 55, 111])
"""All of one model on one benchmark, and some others."""


def table(trials: int) -> pd.DataFrame:
    made = simulate(1, models=3, benchmarks=2, items=20, trials=trials, sigma_eps=0.5).responses
    return made.assign(p_duplicate=made["contamination"])


def built(name: str, frame: pd.DataFrame, rows: np.ndarray) -> BuiltModel:
    spec = load_model(name)
    return build_design(spec, make_design(spec, Responses.from_frame(frame)).hold_out(rows))


def flipped(frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return a table in which the counts of some rows are others."""
    order = Responses.from_frame(frame).frame
    places = order.iloc[rows].index
    return order.assign(
        n_correct=order["n_correct"].where(
            ~order.index.isin(places), order["n_trials"] - order["n_correct"]
        )
    )


def some_point(model: BuiltModel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    point = model.model.initial_point()
    return {name: rng.normal(0, 0.5, np.shape(value)) for name, value in point.items()}


def log_density(model: BuiltModel) -> float:
    fn = model.model.compile_logp(mode=PLAIN)
    return float(fn(some_point(model)))


@pytest.mark.parametrize(
    ("name", "trials"),
    [("hierarchical", 1), ("hierarchical", 5), ("positive", 5), ("latent_duplicate", 5)],
)
def test_nothing_depends_on_held_out_counts(name: str, trials: int) -> None:
    frame = table(trials)
    first = log_density(built(name, frame, ROWS))
    assert np.isfinite(first)
    other = flipped(frame, ROWS)
    assert log_density(built(name, other, ROWS)) == first


@pytest.mark.parametrize("trials", [1, 5])
def test_the_likelihood_is_that_of_the_other_responses(trials: int) -> None:
    model = built("hierarchical", table(trials), ROWS)
    design = model.design
    names = ["theta", "beta", "delta", *(["sigma_eps"] if trials > 1 else [])]
    wanted = [model.model[name] for name in names]
    graphs = model.model.replace_rvs_by_values(wanted)
    value = model.model.logp(vars=[model.model["n_correct"]])
    fn = model.model.compile_fn([value, *graphs], mode=PLAIN)
    log_likelihood, *effects = fn(some_point(model))
    theta, beta, delta = effects[:3]
    d = design.contamination
    mean = np.array([d[design.benchmark == b].mean() for b in range(2)])[design.benchmark]
    cell = design.model, design.benchmark
    eta = theta[cell] + beta[cell] * (d - mean) - delta[design.item]
    whole = make_design(load_model("hierarchical"), Responses.from_frame(table(trials)))
    kept = np.setdiff1d(np.arange(len(design)), ROWS)
    # Model-by-item effects are integrated out, by a table that is right to 2e-4 a response.
    nodes, weights = np.polynomial.hermite_e.hermegauss(99)
    spread = effects[3] if trials > 1 else 0.0
    p = expit(eta[:, None] + spread * nodes)
    counts = stats.binom(whole.n_trials[:, None], p).pmf(whole.n_correct[:, None])
    density = np.log(counts @ (weights / weights.sum()))
    error = 2e-4 * len(kept) if trials > 1 else 1e-8
    assert float(log_likelihood) == pytest.approx(density[kept].sum(), abs=error)


def test_all_parameters_of_the_whole_table_stay() -> None:
    frame = table(5)
    spec = load_model("hierarchical")
    design = make_design(spec, Responses.from_frame(frame))
    whole = build_design(spec, design)
    part = build_design(spec, design.hold_out(np.arange(100)))
    shapes = [{n: np.shape(v) for n, v in b.model.initial_point().items()} for b in (whole, part)]
    assert shapes[0] == shapes[1]
    assert whole.terms == part.terms
