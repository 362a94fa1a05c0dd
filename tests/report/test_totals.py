"""What the page of a fit reports of total effects: fitted, assumed, or both."""

import numpy as np
import pandas as pd
import pytest

import bayescontam as bc
from bayescontam.report.fit_page import render
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import Parsed

pytestmark = pytest.mark.usefixtures("undrawn")
MODELS = {"clean": ("recipe", 0.0), "exposed": ("recipe", 0.5), "alone": ("", 0.5)}
"""Base and dose of each model: one has a clean twin, the other none."""


@pytest.fixture(scope="module")
def responses() -> bc.Responses:
    rng = np.random.default_rng(4)
    rows = [
        (name, "exam", f"q{i}", rng.integers(2), float(i % 2) * (dose > 0), base)
        for name, (base, dose) in MODELS.items()
        for i in range(30)
    ]
    columns = ["model", "benchmark", "item", "correct", "contamination", "base"]
    return bc.Responses.from_frame(pd.DataFrame(rows, columns=columns), source="made.csv")


def page_of(responses: bc.Responses, spec: str) -> tuple[str, bc.Fit]:
    with drawn_from_prior():
        fit = bc.fit(responses, spec, seed=1, draws=60, chains=2)
    return " ".join(Parsed(render(fit)).text.split()), fit


def test_without_spillover_every_total_is_assumed(responses: bc.Responses) -> None:
    text, fit = page_of(responses, "hierarchical")
    assert "The total effect, if spillover is assumed" in text
    assert "This table does not show what items gain from the contamination of others" in text
    assert "Total effect of all 2 pairs of model and benchmark" in text
    assert set(fit.assumed_spillover()["model"]) == {"exposed", "alone"}


def test_with_lineage_only_that_of_a_model_without_a_twin(responses: bc.Responses) -> None:
    text, fit = page_of(responses, "twins")
    assert "No model of the same base with another exposure shows what these scores gained" in text
    assert "Total effect of the one pair of model and benchmark" in text
    assert set(fit.assumed_spillover()["model"]) == {"alone"}


def test_where_all_have_twins_nothing_is_assumed(responses: bc.Responses) -> None:
    related = bc.Responses.from_frame(responses.frame.query("model != 'alone'"), source="made.csv")
    assert "if spillover is assumed" not in page_of(related, "twins")[0]
