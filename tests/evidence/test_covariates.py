"""The table of covariates: its columns, its sd, and that responses are fitted with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.covariates import Covariates, read_covariates
from bayescontam.evidence.covariates import covariates_table, item_contamination
from bayescontam.scan.results import Scan
from tests.support.made_evidence import judged, make_curve, make_draws, make_scan, match

SOURCES = ("web", "books")
MATCHES = [
    match("q1", 0.9, "a", ngram_2=0.5, jaccard=0.1, rouge_l=np.nan),
    match("q1", 0.6, "b", source="books", ngram_2=0.7, jaccard=0.05, rouge_l=np.nan),
    match("q2", 0.5, "c", ngram_2=0.0, jaccard=0.2, rouge_l=0.3),
]
SAID = [
    judged("q1", "a", 1, kind="exact"),
    judged("q1", "a", 1, "llm:m"),
    judged("q1", "a", 0, "llm:m#2"),
    judged("q1", "b", 0, source="books"),
    judged("q2", "c", 1),
    judged("q2", "c", 0, "llm:m"),
]
JUDGES = {"Ada": (0.9, 0.95), "llm:m": (0.8, 0.9)}


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    shares = {"web": 0.5, "books": 1.0}
    return make_scan(tmp_path, MATCHES, items=[("quiz", "q3")], shares=shares)


def table_of(scan: Scan, *, said: bool = True) -> pd.DataFrame:
    draws = make_draws(20, sources=2, threshold=np.linspace(0.5, 0.8, 20)[:, None])
    curve = make_curve(draws, sources=SOURCES, judged=SAID if said else [], judges=JUDGES)
    weighed = item_contamination(scan, curve, draws=20)
    table = covariates_table(weighed, scan, curve)
    np.testing.assert_allclose(table["contamination"], 1 - weighed.none.mean(axis=0))
    np.testing.assert_allclose(table["p_duplicate_sd"], weighed.none.std(axis=0), atol=1e-12)
    np.testing.assert_allclose(table["p_scanned"], 1 - weighed.none_scanned.mean(axis=0))
    np.testing.assert_allclose(table["expected_duplicates"], weighed.expected.mean(axis=0))
    return table


def test_the_columns_are_those_of_the_documentation(scan: Scan) -> None:
    table = table_of(scan)
    assert table.columns.tolist() == [
        "benchmark", "item", "contamination", "contamination_sd", "p_duplicate",
        "p_duplicate_sd", "p_scanned", "expected_duplicates", "duplicates_low",
        "duplicates_high", "expected_scanned", "expected_rest", "source_web", "source_books",
        "kind_exact", "kind_equivalent",
        "kind_subset", "kind_superset", "kind_related", "top_cosine", "max_ngram_2",
        "max_jaccard", "max_rouge_l", "judged", "judged_duplicates",
    ]  # fmt: skip
    assert table["item"].tolist() == ["q1", "q2", "q3"]


def test_the_sd_is_that_of_a_yes_or_no_fact(scan: Scan) -> None:
    table = table_of(scan)
    p = table["contamination"].to_numpy()
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(table["contamination_sd"], np.sqrt(p * (1 - p)))
    np.testing.assert_array_equal(table["p_duplicate"], p)
    assert (table["p_scanned"] <= p).all()
    assert (table[["source_web", "source_books", "kind_exact"]].max(axis=1) <= p + 1e-12).all()


def test_matches_and_verdicts_stand_beside(scan: Scan) -> None:
    table = table_of(scan).set_index("item")
    np.testing.assert_allclose(table["top_cosine"], [0.9, 0.5, np.nan], rtol=1e-6)
    assert table.loc["q1", "max_ngram_2"] == pytest.approx(0.7)
    assert np.isnan(table.loc["q1", "max_rouge_l"])
    assert table.loc["q2", "max_rouge_l"] == pytest.approx(0.3)
    # A second run of a model does not count, and one of two is not most.
    assert table["judged"].tolist() == [2, 1, 0]
    assert table["judged_duplicates"].tolist() == [1, 0, 0]


def test_without_judgements_no_kinds_are_reported(scan: Scan) -> None:
    table = table_of(scan, said=False)
    assert not [name for name in table.columns if name.startswith("kind_")]
    assert table["judged"].tolist() == [0, 0, 0]


def test_one_source_alone_is_not_distinguished(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q1", 0.7)])
    curve = make_curve(make_draws(2))
    table = covariates_table(item_contamination(scan, curve), scan, curve)
    assert not [name for name in table.columns if name.startswith("source_")]


def test_the_table_is_one_of_covariates(scan: Scan, tmp_path: Path) -> None:
    made = Covariates.from_frame(table_of(scan))
    for name in ("covariates.parquet", "covariates.csv"):
        path = tmp_path / name
        if path.suffix == ".csv":
            made.frame.to_csv(path, index=False)
        else:
            made.frame.to_parquet(path, index=False)
        read = read_covariates(path).frame
        assert read.columns.tolist() == made.frame.columns.tolist()
        # A column with a gap is one of texts, if it comes from a text file.
        whole = [name for name in read if not made.frame[name].isna().any()]
        pd.testing.assert_frame_equal(read[whole], made.frame[whole], check_dtype=False, rtol=1e-12)
