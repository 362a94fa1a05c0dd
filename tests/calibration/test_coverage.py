import numpy as np
import pandas as pd
import pytest

from bayescontam.calibration.coverage import (
    ALL,
    COLUMNS,
    COUNTED,
    MISSED,
    clustered_means,
    coverage_table,
    interval_score,
)
from tests.support.study_rows import NOISE_SD, SIZE, made_rows

SD = (1 + SIZE / NOISE_SD**2) ** -0.5


def at(
    table: pd.DataFrame, level: float = 0.95, counted: str = "all fits", **keys: str
) -> pd.Series:
    chosen = (table["level"] == level) & (table["counted"] == counted)
    for name, value in keys.items():
        chosen &= table[name] == value
    (index,) = table.index[chosen]
    return table.loc[index]


def test_exact_posteriors_cover_at_their_level() -> None:
    table = coverage_table(made_rows(4000, 1))
    assert list(table.columns) == list(COLUMNS)
    assert table["level"].tolist() == [0.5, 0.8, 0.9, 0.95] * 3
    assert (abs(table["coverage"] - table["level"]) < 3.5 * table["mc_se"]).all()
    binomial = np.sqrt(table["coverage"] * (1 - table["coverage"]) / 4000)
    assert table["mc_se"].to_numpy() == pytest.approx(binomial.to_numpy(), rel=1e-3)
    row = at(table)
    assert row["width"] == pytest.approx(2 * 1.959964 * SD)
    assert abs(row["bias"]) < 3.5 * row["bias_se"]
    assert row["bias_se"] == pytest.approx(SD / np.sqrt(4000), rel=0.05)
    assert abs(row["rmse"] - SD) < 3.5 * row["rmse_se"]
    # The expected score of the central Normal interval: 2 sd φ(z) / (α / 2) (1.9600 -> 4.6760 sd).
    assert abs(row["interval_score"] - 4.6760 * SD) < 3.5 * row["interval_score_se"]


def test_posteriors_that_are_too_narrow_or_off_are_reported() -> None:
    narrow = at(coverage_table(made_rows(2000, 2, narrow=1.3)))
    # P(|Z| < 1.96 / 1.3)
    assert abs(narrow["coverage"] - 0.868) < 3.5 * narrow["mc_se"]
    off = at(coverage_table(made_rows(2000, 2, shift=1.0)))
    assert abs(off["bias"] - SD) < 3.5 * off["bias_se"]
    assert off["rmse"] == pytest.approx(np.sqrt(2) * SD, rel=0.05)


def test_intervals_of_one_replicate_are_not_taken_to_be_independent() -> None:
    wheres = ("1", "2", "3", "4")
    copies = at(coverage_table(made_rows(500, 3, where=wheres, alike=True)))
    one = at(coverage_table(made_rows(500, 3, where=("1",), alike=True)))
    assert (copies["n"], copies["replicates"]) == (2000, 500)
    for name in ("coverage", "mc_se", "width", "bias_se", "rmse_se", "interval_score_se"):
        assert copies[name] == pytest.approx(one[name])
    apart = at(coverage_table(made_rows(500, 3, where=wheres)))
    assert apart["mc_se"] == pytest.approx(one["mc_se"] / 2, rel=0.2)


def test_errors_of_clusters_of_unlike_size_are_those_of_many_studies() -> None:
    rng = np.random.default_rng(4)
    means, errors = [], []
    for _ in range(400):
        sizes = rng.integers(1, 6, 80)
        cluster = np.repeat(np.arange(80), sizes)
        values = np.repeat(rng.normal(0, 1, 80), sizes) + rng.normal(0, 1, len(cluster))
        reported = clustered_means(values, np.zeros(len(values), int), cluster, 1)
        means.append(reported.mean[0])
        errors.append(reported.error[0])
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.1)


def test_failed_fits_count_in_three_ways() -> None:
    rows = made_rows(100, 5)
    held = (rows["low_95"] <= rows["truth"]) & (rows["truth"] <= rows["high_95"])
    failed = rows.index < 20
    rows.loc[failed, "status"] = "failed"
    table = coverage_table(rows)
    reported = [at(table, counted=counted) for counted in COUNTED]
    assert [row["coverage"] for row in reported] == pytest.approx(
        [held.mean(), held[~failed].mean(), (held & ~failed).mean()]
    )
    assert [(row["n"], row["n_failed"]) for row in reported] == [(100, 20), (80, 0), (100, 20)]
    assert reported[2]["width"] == reported[0]["width"]


def test_a_fit_without_an_interval_has_missed() -> None:
    rows = made_rows(50, 6)
    rows.loc[:9, [c for c in rows if c.startswith(("low_", "high_"))] + ["mean", "sd"]] = np.nan
    rows.loc[:9, "status"] = "failed"
    row = at(coverage_table(rows))
    expected = at(coverage_table(rows[10:]))
    assert row["coverage"] == pytest.approx(expected["coverage"] * 0.8)
    assert (row["n"], row["width"], row["rmse"]) == (50, expected["width"], expected["rmse"])


def test_second_fits_constants_and_rows_without_truth_do_not_count() -> None:
    rows = made_rows(60, 7)
    audit = rows.assign(audit=True, low_95=9.0, high_95=9.0)
    without = rows.assign(where="x", truth=np.nan)
    still = rows.assign(where="y", truth=0.0, mean=0.0, sd=0.0, low_95=0.0, high_95=0.0)
    table = coverage_table(pd.concat([rows, audit, without, still], ignore_index=True))
    row, expected = at(table), at(coverage_table(rows))
    left_out = ["n_constant", "n_undefined"]
    assert row.drop(left_out).equals(expected.drop(left_out))
    assert (row["n_undefined"], expected["n_undefined"]) == (60, 0)
    assert row["n_constant"] == 60
    clipped = coverage_table(still.assign(engine="bootstrap"))
    assert at(clipped)["coverage"] == 1.0


def test_where_all_agree_the_error_is_not_zero() -> None:
    rows = made_rows(20, 8).assign(low_95=-99.0, high_95=99.0)
    row = at(coverage_table(rows))
    assert row["coverage"] == 1.0
    assert row["mc_se"] == pytest.approx(np.sqrt(21 / 23) / 22)  # sd of Beta(21, 1)


def test_estimators_are_ranked_by_score_on_the_same_data() -> None:
    names = {"exact": 1.0, "narrow": 1.5, "wide": 0.5}
    rows = pd.concat(
        [made_rows(400, 9, narrow=narrow, estimator=name) for name, narrow in names.items()],
        ignore_index=True,
    )
    short = rows[(rows["estimator"] != "wide") | (rows["replicate"] < 300)]
    table = coverage_table(short)
    reported = {name: at(table, estimator=name) for name in names}
    assert [reported[name]["score_rank"] for name in names] == [1, 2, 3]
    assert reported["exact"]["score_behind"] == 0
    score = {
        name: interval_score(*(part[c].to_numpy() for c in ("low_95", "high_95", "truth")), 95)
        for name, part in rows[rows["replicate"] < 300].groupby("estimator")
    }
    behind = score["narrow"] - score["exact"]
    assert reported["narrow"]["score_behind"] == pytest.approx(behind.mean())
    assert reported["narrow"]["score_behind_se"] == pytest.approx(behind.std(ddof=1) / np.sqrt(300))
    assert reported["wide"]["n"] == 300


def test_a_table_with_an_infinite_score_ranks_no_estimator() -> None:
    """Else the means of the estimators would be of different tables."""
    wide = made_rows(300, 6).assign(estimator="wide")
    exact = made_rows(300, 6).assign(estimator="exact")
    wide["high_95"] += 1.0
    exact.loc[exact["replicate"] == 7, ["low_95", "high_95"]] += 1e6  # which alone would decide
    broken = wide.copy()
    broken.loc[broken["replicate"] == 7, "high_95"] = np.inf
    others = [part[part["replicate"] != 7] for part in (exact, wide)]
    found, wanted = (
        coverage_table(pd.concat(parts, ignore_index=True)) for parts in ([exact, broken], others)
    )
    for name in ("exact", "wide"):
        for column in ("score_rank", "score_behind", "score_behind_se"):
            value = at(found, estimator=name)[column]
            assert value == pytest.approx(at(wanted, estimator=name)[column]), (name, column)


def test_one_estimator_is_not_ranked() -> None:
    assert coverage_table(made_rows(30, 1))["score_rank"].isna().all()


def test_cells_and_quantities_stand_apart() -> None:
    parts = [made_rows(30, s, cell=c, quantity=q) for s, (c, q) in enumerate(
        [("slope=0", "mu"), ("slope=0", "nu"), ("slope=1", "mu")])]  # fmt: skip
    table = coverage_table(pd.concat(parts))
    assert len(table) == 3 * 12
    for part in parts:
        alone = at(coverage_table(part))
        cell, quantity = part[["cell", "quantity"]].iloc[0]
        assert at(table, cell=cell, quantity=quantity).equals(alone)


def test_no_rows_give_an_empty_table() -> None:
    table = coverage_table(made_rows(3, 1)[:0])
    assert table.empty
    assert list(table.columns) == list(COLUMNS)


def test_where_all_fits_failed_nothing_is_reported_without_failures() -> None:
    table = coverage_table(made_rows(5, 1).assign(status="failed"))
    assert set(table["counted"]) == {ALL, MISSED}
    assert (table.loc[table["counted"] == MISSED, "coverage"] == 0).all()
