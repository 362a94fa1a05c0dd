"""What judges, a curve and covariates make of planted duplicates."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import beta
from sklearn.metrics import roc_auc_score

from bayescontam.data.judgements import Judgements
from bayescontam.duplicates.recall import recall
from bayescontam.duplicates.recall_scores import newcombe_interval
from bayescontam.errors import DataError, UsageError
from bayescontam.scan.results import Scan
from tests.support.made_evidence import judged, make_curve, make_draws, make_scan, match
from tests.support.planted_scans import truth_of

ITEMS, BESIDE = 40, 6


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """40 items, of which every second has two duplicates planted, beside six other matches."""
    rng = np.random.default_rng(2)
    rows = []
    for k in range(ITEMS):
        rows += [match(f"i{k}", 0.2 + 0.6 * rng.random(), f"o{k}-{n}") for n in range(BESIDE)]
        if k % 2:
            rows.append(match(f"i{k}", 0.9, f"plain-{k}"))
            rows.append(match(f"i{k}", 0.5 + k / 1000, f"bent-{k}"))
    return make_scan(tmp_path_factory.mktemp("planted") / "scan", rows)


@pytest.fixture(scope="module")
def truth() -> pd.DataFrame:
    rows, levels = [], []
    for k in range(ITEMS):
        if k % 2:
            rows += [(f"i{k}", f"{level}-{k}", "alone", 0, 9) for level in ("plain", "bent")]
        else:
            rows.append((f"i{k}", "", "absent", 0, 0))
        levels += ["plain", "bent"] if k % 2 else [""]
    return truth_of(rows, level=levels, duplicate=levels)


def judgements() -> pd.DataFrame:
    """Return verdicts of Ada, who never errs, and of a model that errs at random."""
    rng = np.random.default_rng(5)
    rows = []
    for k in range(ITEMS):
        documents = [f"o{k}-{n}" for n in range(3)]
        documents += [f"plain-{k}", f"bent-{k}"] if k % 2 else []
        for name in documents:
            holds = not name.startswith("o")
            rows.append(judged(f"i{k}", name, int(holds)))
            missed = 0.5 if name.startswith("bent") else 0.1
            called = rng.random() >= missed if holds else rng.random() < 0.2
            rows.append(judged(f"i{k}", name, int(called), "llm:small"))
    return pd.DataFrame(rows)


def test_judges_are_counted_one_by_one(scan: Scan, truth: pd.DataFrame) -> None:
    table = judgements()
    found = recall(scan, truth, judgements=table).judges.set_index(["judge", "level"])
    assert found.index.tolist() == [
        ("Ada", "bent"), ("Ada", "plain"), ("llm:small", "bent"), ("llm:small", "plain"),
    ]  # fmt: skip
    for (judge, level), row in found.iterrows():
        own = table[table["judge"] == judge]
        called = own.loc[own["document"].str.startswith(level), "is_duplicate"]
        alarms = own.loc[own["document"].str.startswith("o"), "is_duplicate"]
        assert (row["planted"], row["judged"], row["judged_others"]) == (20, 20, 120)
        assert row["recall"] == pytest.approx(called.mean())
        assert row["false_alarms"] == pytest.approx(alarms.mean())
        k, n = called.sum(), len(called)
        low, high = beta.ppf([0.025, 0.975], k + 0.5, n - k + 0.5)
        assert row["recall_low"] == pytest.approx(low)
        assert row["recall_high"] == pytest.approx(1.0 if k == n else high)
    assert found.loc[("Ada", "plain"), ["recall", "false_alarms"]].tolist() == [1.0, 0.0]
    # A planted fault: a judge whose verdicts are exchanged finds nothing.
    table["is_duplicate"] = 1 - table["is_duplicate"]
    found = recall(scan, truth, judgements=table).judges.set_index(["judge", "level"])
    assert found.loc[("Ada", "plain"), ["recall", "false_alarms"]].tolist() == [0.0, 1.0]


def test_what_is_not_judged_counts_for_nothing(scan: Scan, truth: pd.DataFrame) -> None:
    rows = [judged("i1", "plain-1", 1), judged("i3", "plain-3", 0), judged("i5", "plain-5", 0)]
    table = pd.DataFrame(rows).astype({"is_duplicate": "Int8"})
    table.loc[2, "is_duplicate"] = pd.NA
    found = recall(scan, truth, judgements=table).judges.set_index("level")
    assert found.loc["plain", ["judged", "recall", "judged_others"]].tolist() == [2, 0.5, 0]
    assert found["false_alarms"].isna().all()
    assert found.loc["bent", "judged"] == 0
    assert np.isnan(found.loc["bent", "recall"])


def test_the_nearest_judged_chunk_stands_for_a_duplicate(tmp_path: Path) -> None:
    rows = [
        match("i1", 0.9, "d1"), match("i1", 0.8, "d1", chunk=1), match("i2", 0.3),
        match("i1", 0.7, "d1", chunk=2),
    ]  # fmt: skip
    scan = make_scan(tmp_path / "scan", rows)
    truth = truth_of([("i1", "d1", "inside", 0, 9), ("i2", "", "absent", 0, 0)])
    table = pd.DataFrame([judged("i1", "d1", 1, chunk=1), judged("i1", "d1", 0, chunk=2)])
    [row] = recall(scan, truth, judgements=table).judges.to_dict("records")
    # Both hold a part of it, so that neither is a pair of something else.
    assert (row["judged"], row["recall"], row["judged_others"]) == (1, 1.0, 0)


def test_a_curve_is_held_against_what_was_planted(scan: Scan, truth: pd.DataFrame) -> None:
    threshold = np.linspace(0.45, 0.6, 7)[:, None]
    draws = make_draws(7, threshold=threshold, steepness=30.0, threshold_open=0.5, sigma_item=0.0)
    found = recall(scan, truth, curve=make_curve(draws, crowding=1.0), level=0.8)
    pairs = scan.matches.assign(cosine=scan.matches["cosine"].astype(float))
    best = pairs.groupby("item")["cosine"].transform("max")
    level = 30.0 * (pairs["cosine"].to_numpy() - threshold) - np.log(pairs["rank"].to_numpy())
    p = expit(level) * expit(12.0 * (best.to_numpy() - 0.5))
    rows = found.curve.set_index("level")
    for name in ("plain", "bent"):
        mean = p[:, pairs["document"].str.startswith(name)].mean(axis=1)
        row = rows.loc[name]
        assert (row["planted"], row["matched"], row["share"]) == (20, 20, 1.0)
        assert row["expected"] == pytest.approx(mean.mean())
        ends = np.quantile(mean, [0.1, 0.9])
        assert row[["expected_low", "expected_high"]].tolist() == pytest.approx(ends.tolist())
    holds = ~pairs["document"].str.startswith("o").to_numpy()
    bins = np.minimum((p.mean(axis=0) * 5).astype(int), 4)
    assert found.calibration["matches"].sum() == len(pairs)
    for b, row in enumerate(found.calibration.to_dict("records")):
        own = bins == b
        assert row["matches"] == own.sum() > 0
        assert row["expected"] == pytest.approx(p[:, own].mean())
        assert row["observed"] == pytest.approx(holds[own].mean())
        assert row["observed_low"] <= row["observed"] <= row["observed_high"]


def test_a_document_counts_once_by_its_nearest_chunk(tmp_path: Path) -> None:
    rows = [match("i1", 0.9, "d1"), match("i1", 0.8, "d1", chunk=1), match("i1", 0.7, "d2")]
    scan = make_scan(tmp_path / "scan", [*rows, match("i2", 0.3)])
    truth = truth_of([("i1", "d1", "inside", 0, 9), ("i2", "", "absent", 0, 0)])
    curve = make_curve(make_draws(2, threshold=0.0, steepness=300.0, threshold_open=-9.0))
    found = recall(scan, truth, curve=curve).calibration
    assert found["matches"].tolist() == [0, 0, 0, 0, 3]
    assert found["observed"].iloc[-1] == pytest.approx(1 / 3)
    assert found["observed"].head(4).isna().all()


def test_effects_of_items_are_summed_over(scan: Scan, truth: pd.DataFrame) -> None:
    draws = make_draws(3, threshold=0.9, steepness=20.0, threshold_open=-9.0, sigma_item=2.0)
    found = recall(scan, truth, curve=make_curve(draws)).curve.set_index("level")
    effects = 2.0 * np.random.default_rng(1).standard_normal(200_000)
    assert found.loc["plain", "expected"] == pytest.approx(expit(effects).mean(), abs=0.005)
    bent = expit(20.0 * (0.5 + np.arange(1, ITEMS, 2) / 1000 - 0.9)[:, None] + effects[:20_000])
    assert found.loc["bent", "expected"] == pytest.approx(bent.mean(), abs=0.003)


def test_a_curve_that_is_too_low_is_seen(scan: Scan, truth: pd.DataFrame) -> None:
    """A planted fault: at a threshold of 0.3 nearly every match would be a duplicate."""
    right, wrong = (
        recall(scan, truth, curve=make_curve(make_draws(2, threshold=at, steepness=300.0)))
        for at in (0.85, 0.3)
    )
    for found, observed in ((right, 1.0), (wrong, 40 / 280)):
        last = found.calibration.iloc[-1]
        assert last["expected"] > 0.9
        # Observed are the planted ones, of all that the curve takes for duplicates.
        assert last["observed"] == pytest.approx(observed, abs=0.1)


def test_curves_and_judgements_of_other_scans_are_refused(scan: Scan, truth: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="curve: does not cover benchmark 'quiz'"):
        recall(scan, truth, curve=make_curve(make_draws(), benchmarks=("other",)))
    with pytest.raises(DataError, match="is no pair of this scan"):
        recall(scan, truth, judgements=pd.DataFrame([judged("i1", "nowhere", 1)]))


def covariates(rng: np.random.Generator) -> pd.DataFrame:
    planted = np.arange(ITEMS) % 2
    table = pd.DataFrame({"benchmark": "quiz", "item": [f"i{k}" for k in range(ITEMS)]})
    noisy = planted + rng.normal(0, 1, ITEMS)
    return table.assign(
        contamination=planted * 0.9, p_duplicate=expit(noisy), p_duplicate_sd=0.1,
        expected_duplicates=2.0 * planted, max_ngram_8=np.where(planted, 0.5, np.nan),
        top_cosine=0.7, judged=7,
    )  # fmt: skip


def test_covariates_are_held_against_what_was_planted(
    scan: Scan, truth: pd.DataFrame, tmp_path: Path
) -> None:
    table = covariates(np.random.default_rng(4))
    found = recall(scan, truth, covariates=table, seed=3).covariates.set_index("column")
    assert found.index.tolist() == [
        "contamination", "p_duplicate", "expected_duplicates", "max_ngram_8", "top_cosine",
    ]  # fmt: skip
    planted = (np.arange(ITEMS) % 2).astype(bool)
    exact = found.loc["contamination"]
    assert exact["mean_planted"] == pytest.approx(0.9)
    assert exact[["mean_others", "auc"]].tolist() == [0.0, 1.0]
    # All are in order, and so are those of every bootstrap sample: 20 against 20 show no more.
    ends = [*newcombe_interval(1.0, 20, 20, 0.95)]
    assert exact[["auc_low", "auc_high"]].tolist() == pytest.approx(ends)
    assert 0.8 < exact["auc_low"] < 0.95
    assert exact[["correlation", "reliability"]].tolist() == pytest.approx([1.0, 1.0])
    row, value = found.loc["p_duplicate"], table["p_duplicate"].to_numpy()
    assert row["mean_planted"] == pytest.approx(value[planted].mean())
    assert row["mean_others"] == pytest.approx(value[~planted].mean())
    assert row["auc"] == pytest.approx(roc_auc_score(planted, value))
    correlation = np.corrcoef(value, 2.0 * planted)[0, 1]
    assert row["correlation"] == pytest.approx(correlation)
    assert row["reliability"] == pytest.approx(correlation**2)
    # Items of either sort drawn anew by themselves, by another generator.
    rng, drawn = np.random.default_rng(0), []
    for _ in range(600):
        at = [rng.choice(np.flatnonzero(sort), 20) for sort in (planted, ~planted)]
        values = value[np.concatenate(at)]
        drawn.append((
            values[:20].mean(), values[20:].mean(), roc_auc_score([1] * 20 + [0] * 20, values),
            np.corrcoef(values, [1] * 20 + [0] * 20)[0, 1],
        ))  # fmt: skip
    names = ("mean_planted", "mean_others", "auc", "correlation")
    for name, ends in zip(names, np.quantile(drawn, [0.025, 0.975], axis=0).T, strict=True):
        assert row[[f"{name}_low", f"{name}_high"]].tolist() == pytest.approx(ends, abs=0.03)
    # Items without an n-gram are left out; what is the same of all items orders none.
    assert found.loc["max_ngram_8", ["planted_items", "other_items"]].tolist() == [20, 0]
    assert np.isnan(found.loc["max_ngram_8", "auc"])
    assert found.loc["top_cosine", "auc"] == 0.5
    assert np.isnan(found.loc["top_cosine", "reliability"])
    table.to_csv(tmp_path / "c.csv", index=False)
    read = recall(scan, truth, covariates=tmp_path / "c.csv", seed=3).covariates
    pd.testing.assert_frame_equal(read.set_index("column"), found)


def test_copies_are_counted_in_the_correlation(scan: Scan, truth: pd.DataFrame) -> None:
    more = pd.concat([truth, truth[(truth["item"] == "i1") & (truth["level"] == "plain")]])
    table = covariates(np.random.default_rng(4))
    row = recall(scan, more, covariates=table).covariates.set_index("column").loc["p_duplicate"]
    counts = 2.0 * (np.arange(ITEMS) % 2) + (np.arange(ITEMS) == 1)
    assert row["correlation"] == pytest.approx(np.corrcoef(counts, table["p_duplicate"])[0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[3:], "covariates: has no row for 3 items of the truth: 'i0', 'i1'"),
        (lambda table: table.assign(model="a"), "covariates: model: is by model and item"),
        (lambda table: table.drop(columns="contamination"), "contamination"),
    ],
)
def test_covariates_that_cannot_be_used_are_refused(
    scan: Scan, truth: pd.DataFrame, change: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        recall(scan, truth, covariates=change(covariates(np.random.default_rng(4))))


def test_validated_tables_are_taken_too(scan: Scan, truth: pd.DataFrame) -> None:
    table = judgements()
    one = recall(scan, truth, judgements=table).judges
    other = recall(scan, truth, judgements=Judgements.from_frame(table)).judges
    pd.testing.assert_frame_equal(one, other)
