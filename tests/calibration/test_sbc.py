import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, kstest

from bayescontam.calibration.sbc import COLUMNS, holm, ranked, sbc_table
from tests.support.study_rows import made_rows

WHERE = ("1", "2", "3", "4", "5")


def test_ranks_of_exact_posteriors_are_uniform() -> None:
    rows = made_rows(500, 1)
    assert kstest(ranked(rows)["u"], "uniform").pvalue > 0.01
    table = sbc_table(rows)
    assert list(table.columns) == list(COLUMNS)
    row = table.iloc[0]
    assert (row["outcome"], row["sentence"], row["n"]) == (
        "passed",
        "No departure from uniform ranks found.",
        500,
    )
    assert row["spread"] == pytest.approx(1, abs=0.1)


def test_a_right_estimator_is_rarely_blamed() -> None:
    # Each estimator is a family of its own, as if it were another study.
    rows = [made_rows(60, s, where=WHERE, estimator=f"exact-{s}") for s in range(200)]
    least = sbc_table(pd.concat(rows)).groupby("estimator")["p_adjusted"].min()
    assert len(least) == 200
    assert binom.sf((least < 0.05).sum() - 1, 200, 0.05) > 1e-3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"narrow": 1.3}, "Intervals too narrow, by a factor of about 1."),
        ({"narrow": 1 / 1.3}, "Intervals too wide, by a factor of about 1."),
        ({"shift": 0.4}, "Estimates too high, by about 0."),
        ({"shift": -0.4}, "Estimates too low, by about 0."),
    ],
)
def test_wrong_posteriors_are_caught_and_named(wrong: dict[str, float], said: str) -> None:
    right = made_rows(300, 2, where=WHERE, quantity="mu")
    bad = made_rows(300, 3, where=("1",), quantity="nu", **wrong)
    table = sbc_table(pd.concat([right, bad]))
    worst = table.iloc[0]
    assert (worst["quantity"], worst["outcome"]) == ("nu", "failed")
    assert worst["sentence"].startswith(said)
    assert set(table["outcome"][1:]) == {"passed"}


def test_a_pure_shift_is_not_called_narrow() -> None:
    row = sbc_table(made_rows(500, 4, shift=1.0)).iloc[0]
    assert row["shift"] == pytest.approx(-1, abs=0.15)
    assert "narrow" not in row["sentence"]
    assert "wide" not in row["sentence"]


def test_holm_agrees_with_its_definition() -> None:
    p = pd.Series([0.2, 0.001, np.nan, 0.02, 0.9, 0.02])
    order = p.dropna().sort_values()
    expected = pd.Series(np.nan, p.index)
    for place, index in enumerate(order.index):
        steps = [(5 - k) * value for k, value in enumerate(order)][: place + 1]
        expected[index] = min(max(steps), 1)
    pd.testing.assert_series_equal(holm(p), expected)


def test_each_estimator_is_a_family() -> None:
    rows = made_rows(100, 5, where=WHERE)
    alone = sbc_table(rows).set_index("where")["p_adjusted"]
    other = made_rows(100, 6, where=WHERE, estimator="other", narrow=3.0)
    both = sbc_table(pd.concat([rows, other]))
    own = both[both["estimator"] == "exact"].set_index("where")["p_adjusted"]
    pd.testing.assert_series_equal(own.sort_index(), alone.sort_index())


def test_ranks_among_few_and_many_draws_are_uniform_together() -> None:
    rng = np.random.default_rng(7)
    rows = made_rows(2000, 7)
    ranks = rng.integers(1, 40, len(rows))
    rows = rows.assign(ranks=ranks, rank=rng.integers(0, ranks + 1))
    assert kstest(ranked(rows)["u"], "uniform").pvalue > 0.01


def test_rows_without_ranks_second_fits_and_constants_do_not_count() -> None:
    rows = made_rows(50, 8)
    others = [
        rows.assign(estimator="bootstrap", engine="bootstrap", rank=-1, ranks=0),
        rows.assign(audit=True, rank=0),
        rows.assign(where="x", truth=0.0, mean=0.0, sd=0.0, rank=0),
    ]
    pd.testing.assert_frame_equal(sbc_table(pd.concat([rows, *others])), sbc_table(rows))


def test_the_table_does_not_depend_on_the_order_of_rows() -> None:
    rows = made_rows(80, 9, where=WHERE)
    mixed = rows.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(sbc_table(mixed), sbc_table(rows))


def test_failed_fits_count_and_are_named_where_they_are_the_cause() -> None:
    rows = made_rows(300, 10)
    failed = rows.index < 60
    rows.loc[failed, ["rank", "status"]] = 0, "failed"
    row = sbc_table(rows).iloc[0]
    assert (row["n"], row["n_failed"], row["outcome"]) == (300, 60, "failed")
    assert row["p_without_failures"] > 0.05
    assert row["sentence"].endswith("Not so without the 60 failed fits.")


def test_too_few_ranks_are_not_tested() -> None:
    row = sbc_table(made_rows(9, 11)).iloc[0]
    assert np.isnan(row["p_value"])
    assert (row["outcome"], row["sentence"]) == (
        "caution", "Too few ranks to be tested: 9; it needs 10."
    )  # fmt: skip


def test_no_ranks_give_an_empty_table() -> None:
    table = sbc_table(made_rows(3, 1)[:0])
    assert table.empty
    assert list(table.columns) == list(COLUMNS)


def test_fits_without_draws_are_reported_and_keep_a_quantity_from_passing() -> None:
    rows = made_rows(300, 2)
    none = {"rank": -1, "ranks": 0, "mean": np.nan, "sd": np.nan, "status": "failed"}
    for few, outcome in ((3, "passed"), (4, "caution")):
        crashed = rows.assign(
            **{k: rows[k].where(rows["replicate"] >= few, v) for k, v in none.items()}
        )
        row = sbc_table(crashed).iloc[0]
        assert (row["n"], row["n_without"], row["outcome"]) == (300 - few, few, outcome)
    assert row["sentence"] == (
        "4 fits have no rank, since they drew nothing or it is undefined in some draws: ranks of"
        " the others decide little."
    )
