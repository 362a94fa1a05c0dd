"""Accuracy that rises evenly with contamination: P = 0.35 + 0.30 c, the published simulation."""

import numpy as np
import pandas as pd
import pytest

import bayescontam
from tests.support.given_fits import changed

GENUINE, BOOST = 0.35, 0.30


def table(n: int, trials: int, seed: int) -> pd.DataFrame:
    """Return counts of one model; all contaminations from 0 to 1 are there."""
    c = np.linspace(0, 1, n)
    rng = np.random.default_rng(seed)
    counts = rng.binomial(trials, GENUINE + BOOST * c)
    return pd.DataFrame(
        {
            "model": "m",
            "benchmark": "b",
            "item": [f"i{k}" for k in range(n)],
            "n_correct": counts,
            "n_trials": trials,
            "contamination": c,
        }
    )


def fitted(data: pd.DataFrame, name: str) -> bayescontam.Fit:
    """Return a fit of two parameters, of which a thousand draws show enough."""
    spec = changed(bayescontam.load_model(name), likelihood={"trials": "items"})
    few = {"draws": 500, "tune": 400, "chains": 2}
    fit = bayescontam.fit(data, spec, seed=1, reference="zero", **few)
    assert int(fit.data["sample_stats"]["diverging"].sum()) == 0
    return fit


def fits(data: pd.DataFrame) -> dict[str, bayescontam.Fit]:
    return {name: fitted(data, name) for name in ("additive", "single")}


@pytest.mark.slow
def test_genuine_ability_and_boost_are_recovered() -> None:
    """From 200,000 answers, which would show a bias; many small tables: studies/recovery.toml."""
    reported = fitted(table(400, 500, 3), "additive").estimands().set_index("quantity")
    for name, truth in (("genuine_ability_direct", GENUINE), ("novelty_gap", BOOST)):
        assert reported.loc[name, "ci_low"] < truth < reported.loc[name, "ci_high"]
        assert reported.loc[name, "mean"] == pytest.approx(truth, abs=0.01)


@pytest.mark.slow
def test_few_items_do_not_distinguish_the_two_forms_and_many_do() -> None:
    """On these values the forms differ by less than 0.003: 400 answers cannot show it."""
    few = bayescontam.compare(fits(table(400, 1, 1)))
    assert few["elpd_diff"].iloc[1] < 4
    assert few["verdict"].iloc[1].startswith("as good as the best")
    many = bayescontam.compare(fits(table(400, 50_000, 1)))
    assert many["fit"].iloc[0] == "additive"
    assert many["verdict"].iloc[1].startswith("predicts worse than the best")
