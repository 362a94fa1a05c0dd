from typing import Any

import pandas as pd
import pytest

from bayescontam.report import matches
from bayescontam.report import scan_page as scope
from tests.support.made_scan import CHUNKS, MadeScan, make_scan


@pytest.fixture(scope="module")
def scan() -> MadeScan:
    return make_scan()


def headline(*rows: tuple[str, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["benchmark", "items", "at_least_0.8", "at_least_0.9"])


def test_the_verdict_counts_items_of_each_benchmark(scan: MadeScan) -> None:
    text = scope.verdict(scan, headline(("one", 120, 30, 12), ("tw\no", 2500, 0, 0)))
    assert text.startswith(
        "Items with a match at a cosine of 0.8 or more: 30 of 120 of 'one' (12 at 0.9 or more);"
        " 0 of 2,500 of 'tw\\no' (0 at 0.9 or more). This is likeness, not yet duplication"
    )
    assert "only 9.9 % of the documents were searched" in text


def test_the_verdict_sums_what_it_does_not_name(scan: MadeScan) -> None:
    rows = [(f"b{i}", 10, i, 1) for i in range(7)]
    text = scope.verdict(scan, headline(*rows))
    assert "3 of 10 of 'b3'" in text
    assert "; 15 of 30 of 3 more benchmarks (3 at 0.9 or more)." in text


@pytest.mark.parametrize("documents", [{"read": 9, "sampled": 9}, {}, {"read": 0, "sampled": 0}])
def test_the_verdict_claims_no_sample_where_there_was_none(
    scan: MadeScan, documents: dict[str, int]
) -> None:
    text = scope.verdict(scan.with_record(documents=documents), headline(("b", 1, 1, 1)))
    assert "only" not in text
    assert text.endswith("a duplicate in other words may have a lower cosine.")


def test_counts_add_up(scan: MadeScan) -> None:
    rows = {what: (count, note) for what, count, note in scope.counts(scan)}
    assert rows["Documents read"] == ("19,900", "12.3 MB of files")
    assert rows["Unreadable records"][0] == "15"
    assert rows["Documents sampled"] == ("1,990", "10.0 % of those read")
    assert rows["Copies"][0] == "100"  # 2,100 less 2,000
    assert rows["Distinct chunks"][0] == f"{CHUNKS:,}"
    assert rows["Cosines"][0] == "120,000"
    assert rows["Matches stored"] == ("1,200", "the 20 best of each item")
    assert "1 % with the highest cosines" in rows["Tail sample"][1]


def test_the_most_frequent_reason_comes_first(scan: MadeScan) -> None:
    assert scope.unreadable(scan) == [("no field '<text>'\\x07", 12), ("not JSON", 3)]


def test_assumptions_say_what_was_done(scan: MadeScan) -> None:
    text = " ".join(scope.assumptions(scan))
    assert "the question only ('quiz')" in text
    assert "question and answer together ('<b>bench" in text
    assert "(seed 11)" in text
    assert "6 of 60 items are longer than the embedder's limit of 256 tokens" in text
    assert "21 documents and 5 pieces" in text
    assert "computed in fp16" in text
    assert "\n" not in text


def test_assumptions_of_a_whole_corpus(scan: MadeScan) -> None:
    whole = scan.with_record(
        documents={"read": 5, "sampled": 5}, embedder={"model": "m", "precision": "fp32"}
    )
    text = " ".join(scope.assumptions(whole))
    assert "Every readable document was taken" in text
    assert "seed" not in text
    assert "rounding" not in text


def test_ready_vectors_have_no_documents_and_no_texts(scan: MadeScan) -> None:
    bare = scan.with_record(
        documents={"read": 0, "sampled": 0, "short": 0, "unreadable": {}, "bytes": 0},
        chunks={"made": 50, "distinct": 0, "short_pieces": 0},
        strata=[{"source": "vectors", "stratum": "", "share": 1.0, "chunks": 50}],
    )
    rows = {what: count for what, count, _ in scope.counts(bare)}
    assert rows["Chunks"] == "50"
    assert not {"Copies", "Distinct chunks", "Documents sampled"} & set(rows)
    table = matches.strata(bare)
    assert table["documents"].isna().tolist() == [True]
    assert table["best"].tolist() == [0]


@pytest.mark.parametrize("value", [None, {}])
def test_what_was_not_recorded_is_left_out(scan: MadeScan, value: Any) -> None:
    bare = scan.with_record(**dict.fromkeys(scan.record, value))
    counted = [what for what, _, _ in scope.counts(bare)]
    assert counted == ["Items", "Matches stored", "Tail sample"]
    assert scope.unreadable(bare) == []
    assert scope.sampled_share(bare) is None
    assert list(scope.assumptions(bare))
    assert matches.strata(bare).empty
    names = [name for name, _ in scope.provenance(bare)]
    assert {"Manifest", "Command", "Folder"} <= set(names)


def test_provenance_says_how_to_repeat_the_scan(scan: MadeScan) -> None:
    rows = dict(scope.provenance(scan))
    assert rows["Manifest"] == f"mine<b> (SHA-256 {'ab' * 32})"
    assert rows["Command"] == "bayescontam scan '<script>.toml' --out \\x1b[31mscan"
    assert rows["Seed"] == "11"
    assert rows["Time"] == "read 1.2 s, chunk 3.0 s, search 4,568 s"
    assert "model minilm" in rows["Embedder"]
    assert rows["Folder"] == "scan of <things>"
