"""Pages, tables and sentences where effects are not estimated, or answers are not of all items."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference import pipeline
from bayescontam.inference.findings import finding, which_items
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.summary import ranks
from bayescontam.inference.tables import by_concept, headline
from bayescontam.report import ability_figures, effect_figures
from bayescontam.report.fit_page import render
from bayescontam.report.paper import as_paper, scores
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior

COLUMNS = ["model", "benchmark", "item", "correct", "contamination"]
QUANTITY = "overfitting_direct"


def made(table: pd.DataFrame, spec: str = "hierarchical", draws: int = 40) -> Fit:
    """Return a fit of a table whose draws are those of the prior."""
    options = pipeline.Options(seed=1, sampling=Sampling(draws=draws, chains=2))
    with drawn_from_prior():
        return pipeline.fit_responses(
            Responses.from_frame(table, source="made.csv"), load_model(spec), options
        )


def crossed(models: list[str], doses: dict[str, Any], items: int, seed: int = 0) -> pd.DataFrame:
    """Return answers of all models to the items of benchmarks, with a dose for each item."""
    rng = np.random.default_rng(seed)
    rows = [
        (model, name, f"{name}{i}", int(rng.random() < 0.5), dose(i))
        for model in models
        for name, dose in doses.items()
        for i in range(items)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.usefixtures("undrawn")
def test_a_large_fit_without_variation_has_a_page_without_a_map() -> None:
    constant = {"x": lambda _: 0.3, "y": lambda _: 0.3}
    fit = made(crossed([f"m{k:02d}" for k in range(26)], constant, 4), draws=20)
    table = headline(fit)
    assert set(table[f"{QUANTITY}_verdict"]) == {Overfitting.NO_VARIATION}
    assert effect_figures.effect_map(table, QUANTITY, f"{QUANTITY}_verdict", "headline") is None
    assert "Every pair: overfitting" not in render(fit)


def test_pairs_without_an_estimate_are_not_the_largest() -> None:
    size = [0.02 * b if b < 10 else np.nan for b in range(14)]
    table = pd.DataFrame(
        {
            "model": [f"m{m:02d}" for m in range(30) for _ in size],
            "benchmark": [f"b{b:02d}" for _ in range(30) for b in range(14)],
            QUANTITY: size * 30,
        }
    )
    drawn, note = ability_figures.part(table, QUANTITY, "headline")
    assert sorted(drawn["benchmark"].unique()) == ["b07", "b08", "b09"]
    assert "Only 3 of 14 benchmarks" in note


@pytest.fixture(scope="module")
def partly() -> Fit:
    """A fit of a benchmark of one contamination, and one of two; one model is not exposed."""
    doses = {"const": lambda _: 0.3, "vary": lambda i: i % 2}
    table = crossed(["a", "c", "clean"], doses, 12)
    own = (table["model"] == "clean") & (table["benchmark"] == "vary")
    return made(table.assign(contamination=table["contamination"].where(~own, 0.0)))


def test_the_largest_gap_is_one_that_was_estimated(partly: Fit) -> None:
    table = headline(partly)
    alt = ability_figures._ability_alt(table, "genuine_ability_direct", "genuine ability")
    largest = table.loc[table[QUANTITY].idxmax()]
    assert f"Largest overfitting (direct): {largest['model']} on vary" in alt
    none = table.assign(**{QUANTITY: np.nan})
    assert "Largest" not in ability_figures._ability_alt(none, "genuine_ability_direct", "g")


@pytest.mark.parametrize("kind", ["markdown", "latex"])
def test_papers_have_no_interval_where_there_is_none(partly: Fit, kind: Any) -> None:
    table = scores(partly, partly.estimands())
    effects = table["overfitting (direct)"]
    assert effects[table["benchmark"] == "const"].tolist() == ["–"] * 3
    assert effects[(table["benchmark"] == "vary") & (table["model"] == "clean")].item() == "0.000"
    assert effects.str.fullmatch(r"–|0\.000|-?\d\.\d{3} \[-?\d\.\d{3}, -?\d\.\d{3}\]").all()
    text = as_paper(table, kind, [])
    assert "[, ]" not in text.replace("\\", "")


def test_a_lowered_score_is_an_effect_and_has_its_own_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [Overfitting.SHOWN, Overfitting.LOWERED, Overfitting.OPPOSITE, Overfitting.SIGN_ASSUMED]
    rows = [
        (f"m{m}", f"b{b}", [0.05, -0.05, -0.05, 0.05][(m + b) % 4], str(kinds[(m + b) % 4]))
        for m in range(4)
        for b in range(4)
    ]
    table = pd.DataFrame(rows, columns=["model", "benchmark", "overfitting", "verdict"])
    axes: list[Any] = []
    cells = effect_figures._cells
    monkeypatch.setattr(
        effect_figures, "_cells", lambda f, axis, *rest: (axes.append(axis), cells(f, axis, *rest))
    )
    picture = effect_figures.effect_map(table, "overfitting", "verdict", "headline")
    assert picture is not None
    models, benchmarks, _ = effect_figures._axes(table, "overfitting")
    wide = table.pivot(index="model", columns="benchmark", values="verdict").loc[models, benchmarks]
    marked = {
        line.get_marker(): {
            wide.iloc[int(y), int(x)] for x, y in zip(*line.get_data(), strict=True)
        }
        for line in axes[0].lines
        if len(line.get_data()[0])
    }
    assert marked == {
        "o": {"shown"}, "v": {"lowered"}, "x": {"opposite sign"}, "s": {"sign assumed"}
    }  # fmt: skip
    row = {
        "model": "m", "benchmark": "b", "raw_accuracy": 0.5, "genuine_ability": 0.56, "rank": 1.0,
        "rank_raw": 1.0, "overfitting": -0.06, "overfitting_low": -0.09, "overfitting_high": -0.03,
        "overfitting_verdict": Overfitting.LOWERED,
    }  # fmt: skip
    (text,) = finding(pd.DataFrame([row]), 0.02)
    assert (
        text == "For this model contamination lowered the score: the total effect is \u22120.060."
    )


def test_averages_over_answered_items_are_reported_so() -> None:
    table = crossed(["m1", "m2"], {"x": lambda i: i % 2, "y": lambda i: i % 2}, 12)
    number = table["item"].str[1:].astype(int)
    half = ((table["model"] == "m1") == (number < 6)) | (table["benchmark"] == "y")
    whole = made(table, "single")
    assert which_items(whole).startswith("Estimates average over the 24 items in the table, by be")
    text = which_items(made(table[half], "single"))
    assert "the 24 items in the table by benchmark, on 'x' those that each model answered." in text
    alone = table[half & (table["benchmark"] == "x")]
    assert "over those of the 12 items that each model answered" in which_items(
        made(alone, "single")
    )
    # Models with an item in common, and difficulties: all items count.
    linked = pd.concat([alone, table[(table["item"] == "x0") & (table["model"] == "m2")]])
    assert "over the 12 items in the table." in which_items(made(linked, "ability"))


@pytest.mark.parametrize("few", [False, True])
def test_items_that_several_people_answered_count_once(few: bool) -> None:
    items = [f"i{k}" for k in range(8)]
    shown = [items[:4]] * 2 if few else [items[k : k + 5] for k in range(4)]
    rows = [("humans", item, 1, f"p{k}") for k, own in enumerate(shown) for item in own]
    rows += [("one", item, k % 2, "") for k, item in enumerate(items)]
    rows += [("two", item, int(k % 3 == 0), "") for k, item in enumerate(items)]
    table = pd.DataFrame(rows, columns=["model", "item", "correct", "participant"])
    table = table.assign(benchmark="b", concept=table["item"].map(lambda i: f"c{int(i[1]) % 2}"))
    fit = made(table, "ability")
    ranking = bayescontam.rank_models(fit)
    assert ranking.compared.items["b"].to_dict() == {"humans": 4 if few else 8, "one": 8, "two": 8}
    assert ranking.compared.same_items is not few
    assert fit.same_items()["b"] == (not few)
    assert ranking.table["rank_raw"].isna().all() == few
    assert any("different items" in line for line in ranking.sentences()) == few
    counted = by_concept(made(table, "concepts")).set_index(["model", "concept"])["items"]
    distinct = table.groupby(["model", "concept"])["item"].nunique()
    assert counted.to_dict() == distinct.to_dict()


def test_abilities_that_differ_by_rounding_share_a_place() -> None:
    ability = np.array([[0.3, 0.1 + 0.2, 0.1]])
    assert ability[0, 0] != ability[0, 1]
    assert ranks(ability, axis=1).tolist() == [[1.5, 1.5, 3.0]]
