"""Rankings across benchmarks: who is compared on what, and what is reported of it."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata

import bayescontam
from bayescontam.errors import UsageError
from bayescontam.inference.ranking import distinguished, rank_models
from tests.support.ranked_fits import ranked_fit
from tests.support.real_data import HOSTILE

MEANS = np.array([[0.8, 0.4], [0.5, 0.6], [0.45, 0.7], [0.3, 0.3]])
"""Of four models on two benchmarks: the first leads on one, the third on average."""
SD = 0.03


def draws_of(means: np.ndarray = MEANS, sd: float = SD, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(means, sd, (4, 2000, *means.shape))


@pytest.fixture(scope="module")
def fit() -> bayescontam.Fit:
    return ranked_fit(draws_of())


def test_every_column_against_the_draws_one_by_one(fit: bayescontam.Fit) -> None:
    ability = (
        fit.data["estimands"]["genuine_ability_direct"].to_numpy().reshape(-1, 4, 2).mean(axis=2)
    )
    ranks = rankdata(-ability, axis=1)
    table = rank_models(fit).table.set_index("model")
    assert list(table.index) == ["m0", "m2", "m1", "m3"]
    for m, name in enumerate(["m0", "m1", "m2", "m3"]):
        row, rank = table.loc[name], np.sort(ranks[:, m])
        assert row["genuine_ability_direct"] == pytest.approx(ability[:, m].mean())
        assert row["genuine_ability_direct_sd"] == pytest.approx(ability[:, m].std(ddof=1))
        ends = np.quantile(ability[:, m], [0.025, 0.975])
        assert [
            row["genuine_ability_direct_low"],
            row["genuine_ability_direct_high"],
        ] == pytest.approx(ends)
        assert row["rank"] == rank[len(rank) // 2 - 1]
        assert row["rank_low"] == rank[int(0.025 * len(rank)) - 1]
        assert row["rank_high"] == rank[int(0.975 * len(rank)) - 1]
        assert row["mean_rank"] == pytest.approx(rank.mean())
        assert row["p_best"] == (rank == 1).mean()
        assert row["rank_joint_low"] <= row["rank_low"] <= row["rank"]
        assert row["rank"] <= row["rank_high"] <= row["rank_joint_high"]


def test_averages_of_normals_are_compared_as_their_integral_says(fit: bayescontam.Fit) -> None:
    ranking = rank_models(fit)
    means, sd = MEANS.mean(axis=1), SD / np.sqrt(2)
    for a in range(4):
        for b in range(4):
            if a == b:
                continue
            expected = norm.cdf((means[a] - means[b]) / (sd * np.sqrt(2)))
            found = ranking.p_better.loc[f"m{a}", f"m{b}"]
            error = np.sqrt(expected * (1 - expected) / 8000)
            assert abs(found - expected) < 4 * error + 1e-9
    pairs = ranking.pairs()
    assert len(pairs) == 6
    alike = pairs.loc[~pairs["distinguished"], ["model", "other"]].to_numpy().tolist()
    assert alike == [["m0", "m2"], ["m2", "m1"]]
    assert ranking.table["groups"].tolist() == ["a", "a b", "b", "c"]
    assert ranking.groups == (("m0", "m2"), ("m2", "m1"), ("m3",))


def test_weights_by_item_are_those_of_the_benchmarks() -> None:
    fit = ranked_fit(draws_of(), items=np.tile([30, 90], (4, 1)))
    table = rank_models(fit, weights="item").table.set_index("model")
    assert rank_models(fit, weights="item").compared.shares.to_dict() == {"b0": 0.25, "b1": 0.75}
    for m in range(4):
        wanted = (MEANS[m] * [0.25, 0.75]).sum()
        assert table.loc[f"m{m}", "genuine_ability_direct"] == pytest.approx(wanted, abs=0.002)
    assert table.index[0] == "m2"
    assert "weights by items, 0.25 to 0.75 each" in rank_models(fit, weights="item").sentences()[1]


def test_rows_that_count_several_items_weigh_by_their_number() -> None:
    fit = ranked_fit(draws_of(), items=np.full((4, 2), 2))
    data = fit.data["constant_data"].to_dataset()
    weight = data["weight"].where(data["benchmark_of_response"] == 0, 5.0)
    fit.data["constant_data"] = fit.data["constant_data"].assign(weight=weight)
    assert rank_models(fit, weights="item").compared.shares.to_list() == pytest.approx(
        [1 / 6, 5 / 6]
    )


@pytest.mark.parametrize("benchmark", ["b0", "b1"])
def test_one_benchmark_is_ranked_by_itself(fit: bayescontam.Fit, benchmark: str) -> None:
    ranking = rank_models(fit, benchmark)
    b = int(benchmark[1])
    assert ranking.table["model"].tolist() == [f"m{m}" for m in np.argsort(-MEANS[:, b])]
    better = fit.p_better().sel(benchmark=benchmark)
    for model in ranking.p_better.index:
        for other in ranking.p_better.index:
            np.testing.assert_equal(
                float(better.sel(model=model, other=other)), ranking.p_better.loc[model, other]
            )
    np.testing.assert_array_equal(
        rank_models(fit, [benchmark]).p_better, rank_models(fit, benchmark).p_better
    )


def test_order_of_models_and_a_shift_of_all_change_nothing(fit: bayescontam.Fit) -> None:
    order = [2, 0, 3, 1]
    names = [f"m{m}" for m in order], ["b0", "b1"]
    shuffled = rank_models(ranked_fit(draws_of()[:, :, order], names=names))
    here = rank_models(fit)
    pd.testing.assert_frame_equal(shuffled.table, here.table)
    pd.testing.assert_frame_equal(shuffled.p_better, here.p_better)
    shift = np.random.default_rng(2).normal(0, 0.2, (4, 2000, 1, 1))
    shifted = rank_models(ranked_fit(draws_of() + shift))
    names = [name for name in here.table if "genuine" not in name and "raw" not in name]
    pd.testing.assert_frame_equal(shifted.table[names], here.table[names])
    pd.testing.assert_frame_equal(shifted.p_better, here.p_better)
    assert (
        shifted.table["genuine_ability_direct_sd"].min()
        > 2 * here.table["genuine_ability_direct_sd"].max()
    )


def test_models_that_are_equal_share_ranks_and_groups() -> None:
    ability = draws_of()
    ability[:, :, 1] = ability[:, :, 0]
    for seed in range(3):  # wherever they stand
        order = np.random.default_rng(seed).permutation(4)
        names = [f"m{m}" for m in order], ["b0", "b1"]
        ranking = rank_models(ranked_fit(ability[:, :, order], names=names))
        table = ranking.table.set_index("model")
        assert ranking.p_better.loc["m0", "m1"] == ranking.p_better.loc["m1", "m0"] == 0.5
        ranks = [name for name in table if "rank" in name or name == "p_best"]
        assert table.loc["m0", ranks].tolist() == table.loc["m1", ranks].tolist()
        assert set(table.loc["m0", "groups"].split()) == set(table.loc["m1", "groups"].split())
        assert table["p_best"].sum() == pytest.approx(1)
        assert table["mean_rank"].sum() == pytest.approx(10)
    alone = rank_models(ranked_fit(ability[:, :, :2]))
    assert alone.table["rank"].tolist() == [1.5, 1.5]
    assert alone.table["p_best"].tolist() == [0.5, 0.5]
    assert alone.sentences()[0] == (
        "None of 1 pair of models can be distinguished with a probability of 0.95."
    )


def test_changes_are_counted_from_all_that_share_a_raw_rank() -> None:
    means = np.array([[0.5], [0.8], [0.6], [0.9]])
    raw = np.array([[0.8], [0.7], [0.7], [0.7]])
    fit = ranked_fit(draws_of(means, 0.01), raw=raw)
    table = rank_models(fit).table.set_index("model")
    assert table["rank"].to_dict() == {"m3": 1, "m1": 2, "m2": 3, "m0": 4}
    assert table["rank_raw"].to_dict() == {"m3": 2, "m1": 2, "m2": 2, "m0": 1}
    assert table["raw_ties"].to_dict() == {"m3": 2, "m1": 2, "m2": 2, "m0": 0}
    assert table["places_gained"].to_dict() == {"m3": 1, "m1": 0, "m2": 0, "m0": -3}
    assert table["p_rank_better"].to_dict() == {"m3": 1, "m1": 0, "m2": 0, "m0": 0}
    assert table["p_rank_worse"].to_dict() == {"m3": 0, "m1": 0, "m2": 0, "m0": 1}


def test_probabilities_of_changes_are_counted(fit: bayescontam.Fit) -> None:
    table = rank_models(fit).table.set_index("model")
    better = rank_models(fit).p_better
    # By raw accuracy m0 is first and m2 second, so that one is below when the other is above.
    assert table.loc["m0", "rank_raw"] == 1
    assert table.loc["m0", "p_rank_worse"] >= better.loc["m2", "m0"]
    assert table.loc["m0", "p_rank_better"] == 0
    assert 0 < table.loc["m2", "p_rank_better"] < 0.5


def missing() -> bayescontam.Fit:
    ability = draws_of()
    ability[:, :, 1, 0] = np.nan
    return ranked_fit(ability)


def test_models_are_compared_on_the_same_benchmarks_only() -> None:
    ranking = rank_models(missing())
    assert ranking.table["model"].tolist() == ["m0", "m2", "m3"]
    assert dict(ranking.compared.left_out) == {"m1": ("b0",)}
    assert ranking.table["rank_raw"].tolist() == [1, 2, 3]
    assert ranking.table["mean_rank"].sum() == pytest.approx(6)
    assert (
        "Left out, because models are compared on the same benchmarks only: 'm1' (did not answer"
        " 'b0')."
    ) in ranking.sentences()
    whole = rank_models(missing(), "b1")
    assert whole.table["model"].tolist() == ["m2", "m1", "m0", "m3"]
    assert dict(whole.compared.left_out) == {}
    assert missing().p_better().sel(benchmark="b0", model="m1").isnull().all()


def test_no_model_with_all_benchmarks_is_refused_with_what_to_do() -> None:
    ability = draws_of()
    ability[:, :, :1, 1] = np.nan
    ability[:, :, 1:, 0] = np.nan
    wanted = r"no model answered all 2 benchmarks \('b0', 'b1'\).*name benchmarks.*such as 'b1'$"
    with pytest.raises(UsageError, match=wanted):
        rank_models(ranked_fit(ability))


def test_models_with_other_items_are_named() -> None:
    items = np.full((4, 2), 6)
    items[3, 1] = 4
    reported = rank_models(ranked_fit(draws_of(), items=items)).sentences()
    assert "Answered: 'm3' 4 of 6 of 'b1'. Raw accuracies are over different items" in reported[-1]
    assert len(rank_models(ranked_fit(draws_of(), items=items), "b0").sentences()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"benchmark": "b00"}, r"got 'b00', which the fit does not have; did you mean 'b"),
        ({"benchmark": []}, "got none; name at least one"),
        ({"benchmark": ["b0", "b0"]}, "'b0' is named twice; name each once"),
        ({"by": "slope"}, "by: got 'slope'; allowed are 'genuine_ability', 'genuine_ability_d"),
        ({"weights": "equal"}, "weights: got 'equal'; allowed are 'benchmark' or 'item'"),
        ({"level": 0.4}, "level: got 0.4; allowed is 0.5 up to but not 1"),
        ({"level": 1.0}, "level: got 1.0; allowed is 0.5 up to but not 1"),
    ],
)
def test_what_cannot_be_used_is_refused(
    fit: bayescontam.Fit, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        rank_models(fit, **options)


def test_without_contamination_accuracy_is_ranked(fit: bayescontam.Fit) -> None:
    plain = ranked_fit(draws_of(), contaminated=False)
    assert rank_models(plain).by == "accuracy"
    assert "accuracy_low" in rank_models(plain).table
    with pytest.raises(UsageError, match="contamination was not modelled in this fit"):
        rank_models(plain, by="genuine_ability")
    # In the made fit accuracies are the other way round.
    assert rank_models(fit, by="accuracy").table["model"].tolist() == ["m3", "m1", "m2", "m0"]


def test_one_model_is_first_of_one() -> None:
    ranking = rank_models(ranked_fit(draws_of()[:, :, :1]))
    row = ranking.table.iloc[0]
    assert [row["rank"], row["rank_high"], row["p_best"], row["rank_raw"]] == [1, 1, 1, 1]
    assert row["groups"] == "a"
    assert ranking.pairs().empty
    assert ranking.to_dict()["p_better"] == []
    assert ranking.sentences() == [
        "Averages are over 2 benchmarks, with equal weights: 'b0', 'b1'."
    ]


def test_a_higher_level_distinguishes_fewer(fit: bayescontam.Fit) -> None:
    counts = [
        rank_models(fit, level=level).pairs()["distinguished"].sum() for level in (0.5, 0.9, 0.99)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 6
    assert counts[-1] < 6


def test_expected_errors_and_joint_probability_are_counted(fit: bayescontam.Fit) -> None:
    ranking = rank_models(fit, level=0.7)
    ability = (
        fit.data["estimands"]["genuine_ability_direct"].to_numpy().reshape(-1, 4, 2).mean(axis=2)
    )
    claimed = ranking.pairs().query("distinguished")
    first, second = ([int(name[1]) for name in claimed[side]] for side in ("model", "other"))
    wrong = ability[:, first] <= ability[:, second]
    assert ranking.p_orders_hold == (~wrong.any(axis=1)).mean()
    assert f"Expected wrong orderings: {wrong.sum(axis=1).mean():.2g}." in ranking.sentences()[0]


def test_everything_is_written_as_json_under_any_names() -> None:
    models = [*HOSTILE[:8], "a'b\n"]
    ability = draws_of(np.linspace(0.2, 0.8, 9)[:, None], 0.05)
    ranking = rank_models(ranked_fit(ability, names=(models, ["quiz\x1b[2J"])))
    content = json.loads(json.dumps(ranking.to_dict(), allow_nan=False))
    assert [row["model"] for row in content["models"]] == models[::-1]
    assert len(content["p_better"]) == 9 * 8
    row = content["p_better"][0]
    assert row["probability"] == ranking.p_better.loc[row["model"], row["other"]]
    assert {name for group in content["groups"].values() for name in group} == set(models)
    assert "\x1b" not in " ".join(content["sentences"])


@pytest.mark.slow
def test_many_models_and_benchmarks_need_little_memory() -> None:
    """All pairs in every draw at once would take 1.2 GB."""
    rng = np.random.default_rng(1)
    ability = rng.normal(np.linspace(0.8, 0.2, 100)[:, None], 0.05, (4, 1000, 100, 30))
    fit = ranked_fit(ability)
    size = ability.nbytes
    for work in (lambda: rank_models(fit), fit.p_better):
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < size / 2, peak


def test_of_many_models_ranks_say_that_most_cannot_be_distinguished() -> None:
    """1,500 models: no letters, and pairs near in rank where all would be a million rows."""
    rng = np.random.default_rng(5)
    ability = rng.normal(0.5, 0.05, 1500)[:, None] + rng.normal(0, 0.05, (1, 300, 1500, 1))
    ranking = rank_models(ranked_fit(ability))
    apart = distinguished(ranking.p_better.to_numpy(), 0.95)
    assert ranking.groups == ()
    assert set(ranking.table["groups"]) == {""}
    assert ranking.table["n_alike"].tolist() == (1499 - apart.sum(axis=1)).tolist()
    text = " ".join(ranking.sentences())
    assert f"{apart.sum() // 2:,} of 1,124,250 pairs of models" in text
    assert "Most pairs cannot be distinguished" in text
    assert "Groups have letters for up to 200 models" in text
    near = ranking.near()
    place = {name: at for at, name in enumerate(ranking.table["model"])}
    gaps = np.abs(near["model"].map(place) - near["other"].map(place))
    assert sorted(gaps.unique()) == list(range(1, 26))
    assert len(near) == 2 * sum(1500 - gap for gap in range(1, 26))
    content = ranking.to_dict()
    assert content["p_better_within"] == 25
    assert len(content["p_better"]) == len(near)
