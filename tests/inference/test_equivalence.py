"""Statements against a base and a margin: what they rest on, and how often they are wrong."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import foldnorm, norm

import bayescontam
from bayescontam import MarginVerdict, compare_against, margin_verdict
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.equivalence import smallest_margin
from bayescontam.inference.result import Fit
from bayescontam.specs.registry import load_model
from tests.support.given_fits import counts_spec, given_fit
from tests.support.margins import Design, pooled_rates, rates, wrong_on_average

ITEMS = 1000


def responses_of(shares: dict[str, tuple[float, float]], items: int = ITEMS) -> pd.DataFrame:
    """Return answers of models to two benchmarks; the first items are the solved ones."""
    return pd.DataFrame(
        {
            "model": model, "benchmark": name, "item": f"{name}-{i}",
            "correct": int(i < round(share * items)),
        }
        for model, own in shares.items()
        for name, share in zip(("a", "b"), own, strict=True)
        for i in range(items)
    )  # fmt: skip


def held(
    frame: pd.DataFrame, means: dict[str, tuple[float, float]], sd: float, adjusted: bool = False
) -> Fit:
    """Return a fit of a table whose draws of accuracy are given, dims (draw, model, benchmark)."""
    table = Responses.from_frame(frame)
    fit = given_fit(counts_spec() if "n_trials" in frame else load_model("ability"), table)
    units = fit.data["constant_data"].to_dataset()
    names = [str(name) for name in units["model"].to_numpy()]
    center = np.array([means[name] for name in names])[:, : units.sizes["benchmark"]]
    draws = np.random.default_rng(1).normal(center, sd, (2, 4000, *center.shape))
    dims = ("chain", "draw", "model", "benchmark")
    coords = {name: units[name].to_numpy() for name in ("model", "benchmark")}
    estimands = {"accuracy": (dims, draws), "rank": (dims, np.zeros_like(draws))}
    if adjusted:
        estimands["genuine_ability_direct"] = (dims, draws - 0.05)
    record = fit.record | {"level": 0.95, "items": "answered"}
    groups = {
        "estimands": xr.Dataset(estimands, coords),
        "predictive": xr.Dataset({"score": (dims[2:], center)}, coords),
        "record": xr.Dataset({"json": json.dumps(record)}),
    }
    known = {name: fit.data[name].to_dataset() for name in ("constant_data", "observed_data")}
    return Fit(xr.DataTree.from_dict(known | groups))


SHARES = {
    "base": (0.6, 0.7), "equal": (0.602, 0.699), "lower": (0.5, 0.6), "higher": (0.7, 0.8),
    "near": (0.57, 0.67),
}  # fmt: skip


@pytest.fixture(scope="module")
def fit() -> Fit:
    return held(responses_of(SHARES), SHARES, 0.01)


def test_each_verdict_is_what_the_normal_distribution_says() -> None:
    rng = np.random.default_rng(1)
    for mean, sd, two_sided, expected in (
        (0.0, 0.01, False, "no worse"), (0.0, 0.01, True, "within"),
        (-0.05, 0.01, False, "worse"), (-0.05, 0.01, True, "worse"),
        (0.05, 0.01, True, "better"), (0.05, 0.01, False, "no worse"),
        (0.0, 0.02, False, "undecided"), (0.0, 0.02, True, "undecided"),
        # One-sided 0.96, in both tails together 0.92.
        (0.0, 0.0114, False, "no worse"), (0.0, 0.0114, True, "undecided"),
    ):  # fmt: skip
        draws = rng.normal(mean, sd, size=(4, 20_000))
        assert margin_verdict(draws, 0.02, two_sided=two_sided) == expected


def test_the_smallest_margin_is_where_the_statement_begins() -> None:
    draws = np.random.default_rng(1).normal(-0.004, 0.01, 10_000)
    for two_sided, stated in ((False, "no worse"), (True, "within")):
        least = smallest_margin(draws, 0.95, two_sided=two_sided)
        above, below = (
            margin_verdict(draws, least * by, two_sided=two_sided) for by in (1.01, 0.99)
        )
        assert (above, below) == (stated, MarginVerdict.UNDECIDED)
    assert smallest_margin(draws + 1, 0.95) == 0


def test_the_table_holds_models_against_the_base(fit: Fit) -> None:
    table = compare_against(fit, "base", 0.04).table.set_index("model")
    assert table["verdict"].to_dict() == {
        "higher": "no worse", "equal": "no worse", "near": "undecided", "lower": "worse",
    }  # fmt: skip
    assert list(table.index) == ["higher", "equal", "near", "lower"]
    sd = 0.01 * np.sqrt(2) / np.sqrt(2)  # of a difference, averaged over two benchmarks
    row = table.loc["near"]
    assert row["difference"] == pytest.approx(-0.03, abs=0.001)
    ends = norm.ppf([0.05, 0.95], -0.03, sd)
    assert [row["difference_low"], row["difference_high"]] == pytest.approx(ends, abs=0.002)
    assert row["p_no_worse"] == pytest.approx(norm.sf(-0.04, -0.03, sd), abs=0.02)
    assert row["p_worse"] == pytest.approx(1 - row["p_no_worse"])


def test_own_differences_are_those_of_the_items_that_both_answered(fit: Fit) -> None:
    table = compare_against(fit, "base", 0.04).table.set_index("model")
    for name, own in SHARES.items():
        if name == "base":
            continue
        apart = np.subtract(own, SHARES["base"])
        # All items that differ do so in one direction; half an answer of each kind more.
        n = ITEMS + 2
        mean = apart * ITEMS / n
        variance = ((np.abs(apart) * ITEMS + 1) / n - mean**2) / n
        assert table.loc[name, "own_difference"] == pytest.approx(mean.mean())
        assert table.loc[name, "own_se"] == pytest.approx(np.sqrt(variance.sum()) / 2)


def test_two_sided_states_within_and_its_smallest_margin(fit: Fit) -> None:
    found = compare_against(fit, "base", 0.05, two_sided=True)
    table = found.table.set_index("model")
    assert table["verdict"].to_dict() == {
        "higher": "better", "equal": "within", "near": "within", "lower": "worse",
    }  # fmt: skip
    total = table[["p_within", "p_worse", "p_better"]].sum(axis=1)
    assert total.to_numpy() == pytest.approx(1.0)
    least = foldnorm.ppf(0.95, 3.0, scale=0.01)
    assert table.loc["near", "smallest_margin"] == pytest.approx(least, abs=0.002)


def test_what_pooling_alone_states_is_borrowed() -> None:
    frame = responses_of({"base": (0.6, 0.7), "sparse": (0.6, 0.7)})
    few = (frame["model"] == "base") | frame["item"].str.endswith("7")
    means = {"base": (0.6, 0.7), "sparse": (0.6, 0.7)}
    table = compare_against(held(frame, means, 0.005), "base", 0.05).table
    assert table["verdict"].to_list() == ["no worse"]
    scarce = frame[few & ((frame["model"] == "base") | frame["item"].str.contains("0"))]
    found = compare_against(held(scarce, means, 0.005), "base", 0.02)
    assert found.table["verdict"].to_list() == ["borrowed"]
    assert "the responses of the two models alone do not" in " ".join(found.sentences())


def test_models_without_an_item_in_common_give_no_statement() -> None:
    frame = responses_of({"base": (0.6, 0.7), "other": (0.6, 0.7)})
    odd = frame["item"].str.endswith(("1", "3", "5", "7", "9"))
    apart = frame[odd == (frame["model"] == "base")]
    fit = held(apart, {"base": (0.6, 0.7), "other": (0.6, 0.7)}, 0.001)
    table = compare_against(fit, "base", 0.1).table
    assert table["verdict"].to_list() == ["borrowed"]
    assert table["own_se"].item() == pytest.approx(np.sqrt(0.25 / 2))


def test_counts_of_different_items_are_compared_as_two_shares() -> None:
    counts = {"base": (600, 1000), "other": (1210, 2000)}
    frame = pd.DataFrame(
        [("b", "all", name, k, n) for name, (k, n) in counts.items()],
        columns=["benchmark", "item", "model", "n_correct", "n_trials"],
    )
    means = {"base": (0.6, 0.6), "other": (0.605, 0.605)}
    row = compare_against(held(frame, means, 0.002), "base", 0.05).table.iloc[0]
    p, q = 601 / 1002, 1211 / 2002
    assert row["own_difference"] == pytest.approx(q - p)
    assert row["own_se"] == pytest.approx(np.sqrt(p * (1 - p) / 1002 + q * (1 - q) / 2002))
    assert row["verdict"] == "no worse"


def test_a_borrowed_adjustment_gives_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = held(responses_of(SHARES), SHARES, 0.005, adjusted=True)
    verdicts = pd.DataFrame(
        {
            "model": ["equal", "higher", "base"], "benchmark": "a",
            "quantity": "overfitting_direct", "verdict": ["borrowed", "shown", "inconclusive"],
        }
    )  # fmt: skip
    monkeypatch.setattr(Fit, "estimands", lambda self: verdicts)
    table = compare_against(fit, "base", 0.04).table.set_index("model")
    assert table.loc["equal", "verdict"] == "borrowed"
    assert np.isinf(table.loc["equal", "smallest_margin"])
    assert table.loc["higher", "verdict"] == "no worse"
    by_accuracy = compare_against(fit, "base", 0.04, by="accuracy").table.set_index("model")
    assert by_accuracy.loc["equal", "verdict"] == "no worse"
    on_b = compare_against(fit, "base", 0.04, benchmark="b").table.set_index("model")
    assert on_b.loc["equal", "verdict"] == "no worse"
    verdicts.loc[2, "verdict"] = "no variation"
    assert set(compare_against(fit, "base", 0.04).table["verdict"]) == {"borrowed"}


def test_sentences_and_json_hold_the_same(fit: Fit) -> None:
    found = compare_against(fit, "base", 0.04)
    text = found.sentences()
    assert text[0].startswith(
        "Stated of 2 of 4 models ('higher', 'equal'): no worse than 'base' by more than 0.04."
    )
    assert text[1].startswith("Stated of 1 of 4 models ('lower'): worse than 'base'")
    assert text[2].startswith("Undecided, 1 of 4 models ('near'): neither")
    assert "expected wrong statements" in text[3]
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    models = pd.DataFrame(content["models"]).set_index("model")
    pd.testing.assert_frame_equal(models, found.table.set_index("model"), check_dtype=False)
    assert content["sentences"] == text
    assert content["margin"] == 0.04


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"margin": 0.0}, r"margin: got 0; allowed is a number above 0 and below 1"),
        ({"margin": 2}, r"margin: got 2; .*0\.02 is two points"),
        ({"margin": float("nan")}, r"margin: got nan"),
        (
            {"base": "bace"},
            r"got 'bace', which the fit does not have; did you mean 'base'",
        ),
        ({"level": 0.2}, r"level: got 0.2"),
        ({"weights": "model"}, r"weights: got 'model'"),
        ({"by": "genuine_ability"}, r"rank by 'accuracy'"),
        ({"benchmark": "c"}, r"benchmark: got 'c'"),
    ],
)
def test_what_cannot_be_compared_is_refused(fit: Fit, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare_against(fit, **{"base": "base", "margin": 0.02, **given})


def test_a_base_alone_or_without_a_benchmark_is_refused() -> None:
    frame = responses_of({"base": (0.6, 0.7), "other": (0.6, 0.7)}, items=20)
    means = {"base": (0.6, 0.7), "other": (0.6, 0.7)}
    alone = held(frame[frame["model"] == "base"], means, 0.01)
    with pytest.raises(UsageError, match="'base' is the only model"):
        compare_against(alone, "base", 0.02)
    with pytest.raises(UsageError, match="change: got no draws"):
        margin_verdict([], 0.02)
    with pytest.raises(UsageError, match="some that are NaN"):
        bayescontam.margin_verdict([0.1, np.nan], 0.02)


@pytest.mark.parametrize("two_sided", [False, True])
def test_at_the_margin_the_statement_is_wrong_at_most_as_often_as_stated(two_sided: bool) -> None:
    """A share of 0.05 of 1,500 data sets has a standard error of 0.0056: five of them above."""
    stated = "within" if two_sided else "no worse"
    for items, accuracy in ((400, 0.6), (2000, 0.85)):
        design = Design(items, accuracy, 0.06, two_sided)
        found = rates(design, 1500, seed=items, draws=400, truths=(-1.0, 0.0, 1.0))
        table = found.set_index("truth")
        assert table.loc[-1.0, stated] < 0.05 + 0.028
        assert table.loc[-1.0, "worse"] < 0.05 + 0.028
        assert table.loc[0.0, "worse"] < 0.01
        if two_sided:
            assert table.loc[1.0, stated] < 0.05 + 0.028
    # With enough items the equal model is found out as such.
    assert table.loc[0.0, stated] > 0.95


def test_of_statements_at_most_the_stated_share_is_wrong_on_average() -> None:
    # Far fewer than 5 % are wrong, since most truths are far from the margin.
    assert wrong_on_average(Design(200, 0.5, 0.05), 1500, seed=1, draws=400) < 0.05


def test_pooling_alone_would_miss_the_one_model_that_is_worse() -> None:
    """Nine equal models draw the tenth towards them, which its own responses do not allow."""
    found = pooled_rates(models=10, error=0.02, margin=0.04, data_sets=800, seed=1)
    assert found["both"] < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 800)
    assert found["pooled"] > 2 * 0.05
