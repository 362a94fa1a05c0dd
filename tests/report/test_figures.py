import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base.array import array_stats
from scipy import stats

from bayescontam.inference import tables
from bayescontam.inference.result import Fit
from bayescontam.report import ability_figures, check_figures, effect_figures
from bayescontam.report.plots import (
    Picture,
    drawable,
    finish,
    new_figure,
    numbers,
    plain_labels,
    style,
)
from tests.report.conftest import BENCHMARKS, MODELS, UNANSWERED
from tests.support.pages import is_drawn
from tests.support.real_data import HOSTILE


def pictures(fit: Fit) -> list[Picture]:
    headline, slopes = tables.headline(fit), tables.slopes(fit)
    made = [
        ability_figures.raw_against_genuine(fit, headline),
        effect_figures.slopes(fit, slopes),
        ability_figures.ranks(fit, headline),
        ability_figures.concepts(fit, tables.by_concept(fit)),
        effect_figures.dose_response(fit, headline),
        effect_figures.prior_posterior(fit, slopes),
        *check_figures.predictive_pictures(fit),
        *check_figures.sampling_pictures(fit, *check_figures.convergence_table(fit)),
    ]
    return [picture for picture in made if picture is not None]


@pytest.mark.parametrize(
    ("fixture", "names"),
    [
        (
            "hostile",
            "raw-genuine slopes ranks dose-response prior-posterior predicted-scores"
            " predicted-bins loo-pit pareto-k trace rank-plot ess energy pair",
        ),
        (
            "by_concept",
            "raw-genuine ranks concepts predicted-scores loo-pit pareto-k trace rank-plot ess"
            " energy pair",
        ),
    ],
)
def test_every_picture_is_drawn_and_described(
    fixture: str, names: str, request: pytest.FixtureRequest
) -> None:
    fit = request.getfixturevalue(fixture)
    before = plt.get_fignums()
    made = pictures(fit)
    assert [picture.name for picture in made] == names.split()
    assert plt.get_fignums() == before
    for picture in made:
        assert is_drawn(picture), picture.name
        assert any(c.isdigit() for c in picture.alt), picture.name
        assert picture.caption.endswith((".", ")")), picture.name
        assert "nan" not in picture.alt, picture.name
        assert len(picture.alt) + len(picture.caption) < 1500, picture.name


def test_a_pair_that_was_not_answered_is_not_drawn(hostile: Fit) -> None:
    observed = effect_figures.observed_scores(hostile)
    assert UNANSWERED not in observed.index
    picture = effect_figures.dose_response(hostile, tables.headline(hostile))
    assert picture is not None
    assert picture.alt.startswith("Dose-response curves of 3 pairs")  # without the clean model


def test_observed_scores_are_means_of_the_data(hostile: Fit) -> None:
    observed = effect_figures.observed_scores(hostile)
    for pair, part in observed.groupby(level=[0, 1]):
        model, benchmark = pair
        raw = float(hostile.raw_accuracy().sel(model=model, benchmark=benchmark))
        assert np.average(part["score"], weights=part["items"]) == pytest.approx(raw)
    assert len(observed.loc[[(MODELS[0], BENCHMARKS[0])]]) == effect_figures.BINS
    assert len(observed.loc[[(MODELS[2], BENCHMARKS[0])]]) == 1  # contamination is 0 everywhere


def test_whiskers_of_scores_stay_within_possible_accuracies() -> None:
    """Wilson's intervals, which have a width where all answers are alike."""
    right, count = np.array([12, 1, 19, 2, 0, 1]), np.array([24, 10, 20, 2, 12, 1])
    score = right / count
    error = np.sqrt(score * (1 - score) / count)
    error[-1] = np.nan  # one item
    points = pd.DataFrame({"score": score, "error": error, "items": count})
    down, up = effect_figures.whiskers(points)
    for k, n, low, high in zip(right, count, score - down, score + up, strict=True):
        known = stats.binomtest(int(k), int(n)).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((known.low, known.high), abs=1e-4)


def test_many_models_and_benchmarks_are_cut_and_said_so() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        [(f"m{m}", f"b{b}") for m in range(40) for b in range(15)], columns=["model", "benchmark"]
    )
    table["raw_accuracy"] = rng.random(len(table))
    table["overfitting_direct"] = rng.normal(size=len(table))
    shown, note = ability_figures.part(table, "overfitting_direct", "headline")
    assert shown["model"].nunique() == ability_figures.MOST_MODELS
    assert shown["benchmark"].nunique() == 3
    assert "Only 3 of 15 benchmarks are drawn (largest overfitting (direct))." in note
    assert "Only 24 of 40 models are drawn (largest overfitting (direct))." in note
    assert note.endswith("All: headline.csv of 'bayescontam report --tables'.")
    largest = table.loc[table["overfitting_direct"].abs().idxmax()]
    assert largest["model"] in set(shown["model"])
    assert ability_figures.part(table.head(3), "overfitting_direct", "headline")[1] == ""
    few = table[table["model"].isin(["m0", "m1", "m2", "m3"])]  # leave room for more panels
    assert (
        ability_figures.part(few, "overfitting_direct", "headline")[0]["benchmark"].nunique() == 12
    )


NAMES = [*HOSTILE, "$x_1$", "\\alpha^2", "中文", "\U0001f600", "مرحبا", "$"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_any_name_is_drawn_literally_and_without_warnings(name: str, weight: str) -> None:
    with style(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = new_figure(3, 1)
        text = figure.text(0.1, 0.5, plain_labels([name])[0], weight=weight)
        picture = finish(figure, "name", "Name", "one name", "A name.")
    assert picture.image
    assert not text.get_parse_math()


def test_labels_are_distinct_and_drawable() -> None:
    labels = plain_labels(["a" * 50 + "1" + "b" * 50, "a" * 50 + "2" + "b" * 50, "case", "Case"])
    assert len(set(labels)) == 4
    assert all(len(label) <= 26 for label in labels)
    assert drawable("plain_$\\^") == "plain_$\\^"
    assert drawable("\ue000x") == "\\ue000x"


def test_pictures_repeat_to_the_byte(hostile: Fit) -> None:
    headline = tables.headline(hostile)
    first, second = (ability_figures.raw_against_genuine(hostile, headline) for _ in range(2))
    assert first.image == second.image


def test_ranges_in_words() -> None:
    assert numbers([0.123, 0.987]) == "0.12 to 0.99"
    assert numbers([0.5, np.nan]) == "0.50"
    assert numbers([np.nan]) == "no value"


def test_the_settings_of_others_are_left_alone() -> None:
    before = plt.rcParams["text.parse_math"], plt.rcParams["font.size"]
    with style():
        assert plt.rcParams["text.parse_math"] is False
    assert (plt.rcParams["text.parse_math"], plt.rcParams["font.size"]) == before


def test_the_worst_mixing_comes_first_and_repeats_are_left_out(hostile: Fit) -> None:
    table, draws = check_figures.convergence_table(hostile)
    assert draws.sizes["quantity"] == check_figures.WORST < len(table)
    assert table["quantity"].is_unique
    least = table[["ess_bulk", "ess_tail"]].min(axis=1)
    good = table["r_hat"] <= 1.01
    assert least[good].is_monotonic_increasing
    cells = draws.to_numpy().reshape(-1, check_figures.WORST)
    assert len(np.unique(cells, axis=1).T) == check_figures.WORST
    assert not table["quantity"].str.contains("^delta|^rank|^eta").any()


@pytest.mark.parametrize("change", ["divergent", "stuck"])
def test_pictures_of_a_bad_fit(hostile: Fit, change: str) -> None:
    tree = hostile.data.copy()
    if change == "divergent":
        diverging = xr.zeros_like(tree["sample_stats"]["diverging"])
        diverging[0, :5] = True
        tree["sample_stats"] = tree["sample_stats"].assign(diverging=diverging)
    else:
        slope = tree["posterior"]["beta_bar"].copy()
        slope[0] = 3.0  # one chain never moved
        tree["posterior"] = tree["posterior"].assign(beta_bar=slope)
    bad = Fit(tree)
    table, draws = check_figures.convergence_table(bad)
    made = check_figures.sampling_pictures(bad, table, draws)
    assert all(is_drawn(picture) for picture in made)
    if change == "stuck":
        assert table["quantity"][0] == "beta_bar"
    else:
        assert "5 divergent" in made[0].alt


def test_one_model_has_no_ranks(hostile: Fit) -> None:
    def first_model(data: xr.Dataset) -> xr.Dataset:
        return data.isel(model=[0]) if "model" in data.dims else data

    fit = Fit(hostile.data.map_over_datasets(first_model))
    assert ability_figures.ranks(fit, tables.headline(fit)) is None


def test_mixing_is_that_of_the_draws_whoever_computed_it(hostile: Fit) -> None:
    reported, draws = check_figures.convergence_table(hostile, hostile.estimands())
    for place, row in enumerate(reported.head(check_figures.WORST).itertuples()):
        cells = draws.isel(quantity=place).to_numpy()
        assert row.ess_bulk == pytest.approx(float(array_stats.ess(cells, method="bulk")))
        tail = array_stats.ess(cells, method="tail", prob=(0.05, 0.95))
        assert row.ess_tail == pytest.approx(float(tail))
        assert row.r_hat == pytest.approx(float(array_stats.rhat(cells)))
    for quantity in ("accuracy", "genuine_ability_direct", "overfitting_fraction_direct"):
        estimands = hostile.data["estimands"][quantity].sel(model=MODELS[0], benchmark="Quiz")
        wanted = float(array_stats.ess(estimands.to_numpy(), method="bulk"))
        rows = reported[reported["quantity"].str.startswith(f"{quantity}[<")]
        assert np.isclose(rows["ess_bulk"], wanted).sum() == 1


def test_a_parameter_that_only_repeats_another_has_no_row(hostile: Fit) -> None:
    tree = hostile.data.copy()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(posterior.assign(beta_bar_again=posterior["beta_bar"]))
    table, _ = check_figures.convergence_table(Fit(tree))
    assert not table["quantity"].str.startswith("beta_bar_again").any()
    pd.testing.assert_frame_equal(table, check_figures.convergence_table(hostile)[0])


def test_ranks_that_models_share_count_for_both():
    ranks = np.array([[[1.5, 1.5, 3.0], [1.0, 2.0, 3.0]]])
    chances = ability_figures._chances(ranks, 3)
    np.testing.assert_allclose(chances, [[0.75, 0.25, 0], [0.25, 0.75, 0], [0, 0, 1]])


def test_a_map_marks_effects_whose_sign_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their colour is no finding."""
    named: list[str] = []
    monkeypatch.setattr(
        effect_figures, "legend", lambda _, marks: named.extend(m.get_label() for m in marks)
    )
    rows = [(f"m{m}", f"b{b}", 0.1) for m in range(2) for b in range(2)]
    table = pd.DataFrame(rows, columns=["model", "benchmark", "slope"])
    for kind in ("sign assumed", "depends on reference"):
        table["verdict"] = [kind, "shown", "at most small", "at most small"]
        picture = effect_figures.effect_map(table, "slope", "verdict", "slopes")
        assert picture is not None
        assert "A square: the model spec or the reference decides its sign." in picture.caption
    assert named == ["slope shown", "sign assumed, or by the reference"] * 2
