"""How many items have duplicates: known probabilities, nested views, and item columns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson

from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.prevalence import duplicate_numbers, prevalence, prevalence_by
from tests.support.made_weighed import make_tail

DRAWS = 4000


def made(p: Any, benchmarks: Any = "quiz", draws: int = DRAWS) -> ItemContamination:
    """Return items of these probabilities of a duplicate in the corpus, the same in all draws.

    Half of the duplicates are in the scanned part; of two best matches, the first has half
    of those.
    """
    p = np.broadcast_to(np.asarray(p, dtype=float), (draws, np.shape(p)[-1]))
    names = np.broadcast_to(np.asarray(benchmarks, dtype=object), p.shape[1:])
    items = pd.DataFrame({"benchmark": names, "item": [f"i{k}" for k in range(p.shape[1])]})
    halves = np.stack([1 - p / 4, 1 - p / 2], axis=-1)
    return ItemContamination(
        items=items, sources=("web", "books"), shares=np.array([0.5, 0.5]), kinds=("exact",),
        ranks=(1, 2), none=1 - p, none_by_source=halves, none_by_kind=1 - p[..., None] / 8,
        none_scanned=1 - p / 2, none_by_rank=halves, expected=p, expected_scanned=p / 2,
        expected_rest=p / 4, number=np.rint(2 * p).astype(int),
        number_scanned=np.rint(p).astype(int), tail=make_tail(np.rint(p)),
    )  # fmt: skip


def poisson_binomial(p: np.ndarray) -> np.ndarray:
    """Return the distribution of the number of successes."""
    masses = np.ones(1)
    for each in p:
        masses = np.convolve(masses, [1 - each, each])
    return masses


def test_some_of_the_items_are_reported_as_if_no_others_were_there() -> None:
    p = np.array([0.1, 0.9, 0.4, 0.7])
    kept = np.array([True, False, True, False])
    part = made(p, ["quiz", "maze", "maze", "quiz"]).of(kept)
    assert part.items["item"].to_list() == ["i0", "i2"]
    table = prevalence(part)
    shares = table[table["by"] == "corpus"].set_index("benchmark")["mean"]
    assert shares.to_dict() == {"quiz": pytest.approx(0.1), "maze": pytest.approx(0.4)}
    reported = table.select_dtypes("number").columns
    assert table[reported].equals(prevalence(made(p[kept], ["quiz", "maze"]))[reported])


def row(table: pd.DataFrame, by: str, group: Any = "") -> pd.Series:
    found = table[(table["by"] == by) & (table["group"] == group)]
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_those_of_a_poisson_binomial(level: float) -> None:
    p = np.random.default_rng(1).beta(0.5, 0.8, 60)
    reported = row(prevalence(made(p), level=level), "corpus")
    below = np.cumsum(poisson_binomial(p))
    assert reported["n_mean"] == pytest.approx(p.sum())
    assert reported["mean"] == pytest.approx(p.mean())
    assert reported["sd"] == pytest.approx(np.sqrt((p * (1 - p)).sum()) / 60, rel=0.06)
    for name, tail in (("n_low", (1 - level) / 2), ("n_high", (1 + level) / 2)):
        assert abs(reported[name] - np.searchsorted(below, tail)) <= 1
    assert reported["ci_low"] == pytest.approx(reported["n_low"] / 60)
    assert reported["n_low"].is_integer()
    assert reported["n_high"].is_integer()
    assert reported["ci_high"] == pytest.approx(reported["n_high"] / 60)
    assert reported["items"] == 60


def test_what_the_curve_leaves_open_widens_intervals() -> None:
    """In half of the draws all items have duplicates, in the others none."""
    p = np.repeat([0.0, 1.0], DRAWS // 2)[:, None] * np.ones(50)
    reported = row(prevalence(made(p)), "corpus")
    assert (reported["n_mean"], reported["n_low"], reported["n_high"]) == (25.0, 0.0, 50.0)


def test_sure_items_are_counted() -> None:
    reported = row(prevalence(made([1.0, 1.0, 0.0, 1.0])), "corpus")
    assert (reported["n_low"], reported["n_mean"], reported["n_high"]) == (3.0, 3.0, 3.0)


def test_a_part_never_holds_more_than_the_whole() -> None:
    table = prevalence(made(np.linspace(0, 1, 30)))
    whole, scanned = row(table, "corpus"), row(table, "scanned")
    first, second = row(table, "matches", "1"), row(table, "matches", "2")
    assert row(table, "tail", "100")["mean"] == np.mean(np.rint(np.linspace(0, 1, 30)))
    for name in ("mean", "ci_low", "ci_high", "n_mean", "n_low", "n_high"):
        assert first[name] <= second[name] <= whole[name]
        assert second[name] == scanned[name]
    assert row(table, "kind", "exact")["mean"] == pytest.approx(whole["mean"] / 8)
    assert row(table, "source", "books")["mean"] == pytest.approx(whole["mean"] / 2)


def test_nested_views_are_nested_draw_by_draw() -> None:
    """One draw: if counts were drawn anew for each view, some part would exceed its whole."""
    for seed in range(30):
        table = prevalence(made(np.full(40, 0.6), draws=1), seed=seed)
        counts = [
            row(table, *view)["n_low"] for view in (("matches", "1"), ("scanned",), ("corpus",))
        ]
        assert counts == sorted(counts)


def test_benchmarks_are_distinguished() -> None:
    table = prevalence(made([1.0, 0.0, 1.0], benchmarks=["a", "b", "a"]))
    assert table["benchmark"].unique().tolist() == ["a", "b"]
    corpus = table[table["by"] == "corpus"].set_index("benchmark")
    assert corpus["items"].to_dict() == {"a": 2, "b": 1}
    assert corpus["mean"].to_dict() == {"a": 1.0, "b": 0.0}


def test_a_seed_repeats_it() -> None:
    weighed = made(np.full(30, 0.5), draws=50)
    pd.testing.assert_frame_equal(prevalence(weighed, seed=1), prevalence(weighed, seed=1))
    assert not prevalence(weighed, seed=1).equals(prevalence(weighed, seed=2))


def test_numbers_are_cut_into_groups_of_equally_many() -> None:
    weighed = made(np.repeat([0.0, 0.25, 0.5, 0.75, 1.0], 20))
    items = weighed.items.assign(elo=np.arange(100) + 1_700_000_000)
    table = prevalence_by(weighed, items.sample(frac=1, random_state=1), "elo")
    assert table["items"].tolist() == [20] * 5
    np.testing.assert_allclose(table["mean"], [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(table["at"] - 1_700_000_000, [9.5, 29.5, 49.5, 69.5, 89.5])
    assert table["group"].is_unique  # not so, if cut to six digits
    assert set(table["by"]) == {"elo"}


def test_numbers_that_repeat_make_fewer_groups() -> None:
    """Quantiles may be equal, and some lie where no value does."""
    weighed = made([0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.0])
    items = weighed.items.assign(elo=[0, 1, 1, 5, 6, 7, 8])
    table = prevalence_by(weighed, items, "elo")
    assert table["group"].to_list() == ["0 to 1", "5", "6", "7 to 8"]
    assert table["items"].to_list() == [3, 1, 1, 2]
    np.testing.assert_allclose(table["mean"], [0.2, 0.6, 0.8, 0.5], atol=0.02)


def test_few_values_and_words_are_groups_of_their_own() -> None:
    weighed = made([0.0, 1.0, 1.0, 0.0])
    items = weighed.items.assign(level=[1, 2, 2, 1], topic=["a", "b", "a", "b"])
    by_level = prevalence_by(weighed, items, "level")
    assert by_level["group"].tolist() == [1, 2]
    assert by_level["mean"].tolist() == [0.0, 1.0]
    assert by_level["at"].tolist() == [1.0, 2.0]
    by_topic = prevalence_by(weighed, items, "topic")
    assert by_topic["group"].tolist() == ["a", "b"]
    assert by_topic["mean"].tolist() == [0.5, 0.5]
    assert by_topic["at"].isna().all()


def test_kinds_have_groups_of_their_own() -> None:
    weighed = made(np.repeat([0.0, 0.4, 0.8], 4))
    items = weighed.items.assign(grid=np.repeat(["2*2", "3*3", "4*4"], 4))
    table = prevalence_by(weighed, items, "grid", kinds=weighed.kinds)
    assert table["kind"].tolist() == [""] * 3 + ["exact"] * 3
    assert table["group"].tolist() == ["2*2", "3*3", "4*4"] * 2
    np.testing.assert_allclose(table["mean"], [0.0, 0.4, 0.8, 0.0, 0.05, 0.1])
    assert (table.loc[3:, "n_high"].to_numpy() <= table.loc[:2, "n_high"].to_numpy()).all()
    pd.testing.assert_frame_equal(table[:3], prevalence_by(weighed, items, "grid"))
    with pytest.raises(UsageError, match=r"^kinds: no kind 'same'; allowed are 'exact'$"):
        prevalence_by(weighed, items, "grid", kinds=["same"])
    with pytest.raises(UsageError, match=r"^kinds: no kind 'exact'; judges gave none$"):
        prevalence_by(replace(weighed, kinds=()), items, "grid", kinds=["exact"])


def test_columns_that_cannot_be_used_are_refused() -> None:
    weighed = made([0.5, 0.5])
    items = weighed.items.assign(elo=[1.0, np.nan])
    with pytest.raises(UsageError, match=r"^items: no column 'ello' \(did you mean 'elo'\?\)$"):
        prevalence_by(weighed, items, "ello")
    with pytest.raises(DataError, match=r"has no value for items of the scan: 'i1'"):
        prevalence_by(weighed, items, "elo")
    with pytest.raises(DataError, match=r"has no value for items of the scan: 'i0'"):
        prevalence_by(weighed, items.tail(1).fillna(1.0), "elo")


@pytest.mark.parametrize("level", [0.3, 1.0])
def test_levels_of_no_interval_are_refused(level: float) -> None:
    weighed = made([0.5])
    with pytest.raises(UsageError, match=r"^level: got .*; allowed is 0\.5 up to but not 1$"):
        prevalence(weighed, level=level)
    with pytest.raises(UsageError, match=r"^level: got"):
        prevalence_by(weighed, weighed.items, "item", level=level)


def test_numbers_are_sums_over_the_items_of_a_benchmark() -> None:
    number = np.random.default_rng(1).poisson(3.0, (DRAWS, 4))
    weighed = replace(
        made(np.full(4, 0.5), ["quiz", "exam", "quiz", "quiz"]),
        number=3 * number, number_scanned=number,
    )  # fmt: skip
    table = duplicate_numbers(weighed, level=0.9).set_index(["benchmark", "by"])
    assert len(table) == 4
    for name, items in (("quiz", [0, 2, 3]), ("exam", [1])):
        found = table.loc[(name, "scanned")]
        assert found["mean"] == number[:, items].sum(axis=1).mean()
        # Sums of Poisson numbers are Poisson: known quantiles, of which draws may miss one.
        wanted = poisson.ppf([0.05, 0.5, 0.95], 3 * len(items))
        assert (abs(found[["ci_low", "median", "ci_high"]] - wanted) <= 1).all()
        assert table.loc[(name, "corpus"), "median"] == 3 * found["median"]
