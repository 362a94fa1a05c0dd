"""Which effects enter, for tables that can and cannot carry them."""

import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.model.design import make_design
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate


def table(models=1, benchmarks=1, items=6, trials=1, concepts=2) -> pd.DataFrame:
    frame = simulate(0, models, benchmarks, items, trials).responses.copy()
    frame["concept"] = "c" + (frame["item"].str[-1].astype(int) % concepts).astype(str)
    return frame


def plan(frame: pd.DataFrame, spec: str = "hierarchical"):
    model_spec = load_model(spec)
    return plan_terms(model_spec, make_design(model_spec, Responses.from_frame(frame)))


ALL = {"a", "sigma_theta", "beta", "u", "v", "w", "delta", "eps"}


@pytest.mark.parametrize(
    ("shape", "entered"),
    [
        ({"models": 1, "benchmarks": 1}, {"beta"}),
        ({"models": 1, "benchmarks": 1, "trials": 4}, {"beta", "eps"}),
        ({"models": 2, "benchmarks": 1}, {"beta", "delta"}),
        ({"models": 2, "benchmarks": 1, "trials": 4}, {"beta", "delta", "eps"}),
        ({"models": 3, "benchmarks": 1}, {"beta", "u", "sigma_theta", "delta"}),
        ({"models": 1, "benchmarks": 3}, {"beta", "v", "sigma_theta"}),
        ({"models": 2, "benchmarks": 2}, {"beta", "w", "sigma_theta", "delta"}),
        ({"models": 3, "benchmarks": 2}, ALL - {"v", "eps"}),
        ({"models": 3, "benchmarks": 3, "trials": 2}, ALL),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_hierarchical(shape, entered):
    terms = plan(table(**shape))
    assert terms.entered == entered
    assert {symbol for symbol, _ in terms.left_out} == ALL - entered


def test_every_omission_has_a_reason_with_numbers():
    reasons = dict(plan(table()).left_out)
    assert reasons["a"] == (
        "a general ability needs at least 3 models that answered 2 benchmarks (here 0)"
    )
    assert reasons["delta"] == "difficulty needs items that at least 2 models answered (here none)"


def test_slopes_count_only_where_contamination_varies():
    frame = table(models=3, benchmarks=1)
    clean = frame["model"].isin(["model-0", "model-1"])
    frame.loc[clean, "contamination"] = 0.0
    assert "u" not in plan(frame).entered


def test_effects_that_only_one_benchmark_could_distinguish_are_not_named_twice():
    """Nine models that each met one benchmark, and one that met both: a printed table."""
    frame = table(models=10, benchmarks=2)
    met = (frame["model"].str[-1].astype(int) % 2).astype(str) == frame["benchmark"].str[-1]
    terms = plan(frame[met | (frame["model"] == "model-0")])
    assert terms.entered == {"beta", "sigma_theta", "u", "delta"}
    reasons = dict(terms.left_out)
    assert reasons["w"].endswith("benchmarks to distinguish it from the spreads above")
    assert reasons["a"].endswith("(here 1)")


def test_single_pools_nothing():
    assert plan(table(models=3, benchmarks=3, trials=2), "single").entered == {"beta", "eps"}


def test_concepts_of_several_models():
    terms = plan(table(models=3, concepts=3), "concepts")
    assert terms.entered == {"a", "sigma_theta", "sigma_mu", "delta"}


def test_one_row_for_each_cell_has_no_effects_of_its_own():
    """Counts of a printed table: difficulty and model-by-item effect would be the ability."""
    frame = table(models=3, items=1, trials=30)
    reasons = dict(plan(frame).left_out)
    assert reasons["delta"] == "each benchmark has one item, whose difficulty is the benchmark's"
    assert reasons["eps"] == (
        "each pair of model and benchmark has one row, whose effect is the ability's"
    )


def test_models_that_are_known_to_be_clean_report_no_spread_of_slopes():
    spec = ModelSpec.parse(
        "summary = 's'\n[contamination]\nconfounding = 'anchored'\n"
        "clean = ['model-0', 'model-1']\n",
        "mine.toml",
    )
    for models, entered in ((3, set()), (4, {"w"}), (5, {"u"})):
        frame = table(models=models, benchmarks=2 if models == 4 else 1)
        terms = plan_terms(spec, make_design(spec, Responses.from_frame(frame)))
        assert terms.entered & {"u", "v", "w"} == entered
    assert dict(terms.left_out)["v"].endswith("(here 1)")
