"""Contamination of tasks whose duplicates are known, with and without judgements.

Run by ``make bench-all``, on the shared texts; takes some minutes.
"""

import pandas as pd
import pytest

import bayescontam
from bayescontam.evidence.choice import top_pairs
from bayescontam.scan.results import Scan
from tests.support.planted_texts import assert_found, contaminated, scan_texts, verdicts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return scan_texts(tmp_path_factory.mktemp("texts"))


def test_planted_duplicates_are_found_without_a_judge(texts: Scan) -> None:
    assert_found(texts, bayescontam.fit_curve(texts, seed=1), 0.97)


def test_judgements_settle_which_items_are_contaminated(texts: Scan) -> None:
    by_model = verdicts(top_pairs(texts, 5), texts, "llm:simulated", 0.05)
    # A person looks at what the model called a duplicate.
    called = by_model[by_model["is_duplicate"] == 1].sample(100, random_state=3)
    by_person = verdicts(called, texts, "Ada", 0.0)
    said = pd.concat([by_model, by_person])
    curve = bayescontam.fit_curve(texts, said, seed=2, draws=500)
    p = assert_found(texts, curve, 0.97)
    error = ((p - contaminated(texts)) ** 2).mean()
    assert error <= 1.25**2 * (p * (1 - p)).mean()
    table = curve.summary().set_index(["quantity", "of"])
    for name in ("sensitivity", "specificity"):
        row = table.loc[(name, "llm:simulated")]
        assert row["ci_low"] < 0.95 < row["ci_high"] or abs(row["mean"] - 0.95) < 0.03
