"""The section of ranks: what it says, and its picture from one model to more than fit in."""

import numpy as np
import pytest

from bayescontam._format import number
from bayescontam._text import printable
from bayescontam.inference.ranking import rank_models
from bayescontam.inference.result import Fit
from bayescontam.report import ability_figures, fit_page
from bayescontam.report.fit_page import render
from tests.report.conftest import BENCHMARKS, MODELS
from tests.support.pages import Parsed, is_drawn
from tests.support.ranked_fits import ranked_fit


def made(models: int, benchmarks: int = 2, seed: int = 1) -> Fit:
    rng = np.random.default_rng(seed)
    means = np.linspace(0.9, 0.2, models)[:, None] + rng.normal(0, 0.03, (models, benchmarks))
    raw = np.round(means + rng.normal(0, 0.05, means.shape), 1)
    return ranked_fit(rng.normal(means, 0.03, (2, 300, models, benchmarks)), raw=raw)


def section(html: str) -> str:
    return html.split('id="ranks"')[1].split("</section>")[0]


@pytest.mark.usefixtures("undrawn")
def test_the_page_ranks_across_and_within_benchmarks(hostile: Fit) -> None:
    part = section(render(hostile))
    text = " ".join(Parsed(part).text.split())
    across, first = rank_models(hostile), rank_models(hostile, BENCHMARKS[0])
    assert set(across.table["model"]) == {MODELS[0], MODELS[2]}  # equal but for chance
    head, _, tail = text.partition("Within each benchmark")
    for said in across.sentences():
        assert said in head
    assert "Left out, because models are compared on the same benchmarks only" in head
    assert number(across.table["genuine_ability_direct"][0]) in head
    for value in first.table["genuine_ability_direct"]:
        assert number(value) in tail
    assert part.count("<table") == 6  # ranks and pairs, across and for each of two benchmarks
    assert "picture-ranking" in part
    assert printable(BENCHMARKS[1]) in text
    assert "nan" not in text.lower().split()


def test_changes_of_rank_are_marked_with_their_probability() -> None:
    means = np.array([[0.5], [0.8], [0.6]])
    fit = ranked_fit(
        np.random.default_rng(1).normal(means, 0.01, (2, 300, 3, 1)),
        raw=np.array([[0.9], [0.7], [0.7]]),
    )
    rows = fit_page._ranks(rank_models(fit))["rows"]
    assert [row["model"] for row in rows] == ["m1", "m2", "m0"]
    assert [row["places_gained"] for row in rows] == [1, 0, -2]
    assert [row["p_moved"] for row in rows][::2] == [1, 1]
    assert np.isnan(rows[1]["p_moved"])


@pytest.mark.usefixtures("undrawn")
def test_one_benchmark_has_one_ranking(by_concept: Fit) -> None:
    reported = fit_page.ranking_section(by_concept)
    assert reported is not None
    assert reported["across"] is None
    assert reported["not_across"] == ""
    assert list(reported["within"]) == ["puzzles"]
    part = section(render(by_concept))
    assert "Across benchmarks" not in part
    assert "Within each benchmark" not in part
    assert "picture-ranking" in part


def test_models_without_a_common_benchmark_are_reported_so() -> None:
    ability = np.random.default_rng(1).normal(0.5, 0.1, (2, 300, 4, 2))
    ability[:, :, :2, 0] = np.nan
    ability[:, :, 2:, 1] = np.nan
    reported = fit_page.ranking_section(ranked_fit(ability))
    assert reported is not None
    assert reported["across"] is None
    assert reported["picture"] is None
    assert reported["not_across"].startswith("no model answered all 2 benchmarks")
    assert [len(one["rows"]) for one in reported["within"].values()] == [2, 2]


def test_one_model_has_no_section() -> None:
    assert fit_page.ranking_section(made(1)) is None


@pytest.mark.parametrize("models", [1, 2, 12, 40, 100, 130])
def test_the_picture_holds_models_up_to_a_hundred(models: int) -> None:
    ranking = rank_models(made(models))
    picture = ability_figures.ranking_picture(ranking)
    assert is_drawn(picture)
    assert picture.alt.startswith(f"Interval plot of the ranks of {min(models, 100)} model")
    assert f"{len(ranking.groups)} group" in picture.alt
    assert ("Only 100 of 130 models are drawn" in picture.caption) is (models == 130)
    drawn = sum(bool(set(group) & set(ranking.table["model"][:100])) for group in ranking.groups)
    cut = f"Only 40 of {len(ranking.groups)} groups are drawn" in picture.caption
    assert cut is (drawn > ability_figures.MOST_GROUPS)
    assert len(picture.alt) + len(picture.caption) < 1500


def test_squares_of_pairs_end_where_they_cannot_be_read() -> None:
    few, many = (
        fit_page.ranking_section(made(n, 1)) for n in (fit_page.MOST_PAIRS, fit_page.MOST_PAIRS + 1)
    )
    assert few is not None
    assert many is not None
    assert len(few["within"]["b0"]["square"]) == fit_page.MOST_PAIRS
    assert many["within"]["b0"]["square"] is None
