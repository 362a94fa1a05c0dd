"""Duplicates planted in a corpus, and their recall."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.metrics import roc_auc_score

from bayescontam.duplicates.planting import _area, plant_duplicates, recall
from bayescontam.errors import DataError, UsageError
from bayescontam.scan.results import Scan
from tests.support.json_lines import write_rows

HOST = "First sentence. Second one.\n\nA paragraph of its own.\nWith a second line."


@pytest.fixture
def made(tmp_path: Path) -> Path:
    rows = [
        {"benchmark": "quiz", "item": f"i{i}", "duplicate": f"i{i}/{level}", "kind": "semantic",
         "level": level, "text": f"What is the {level} answer to question {i}?"}
        for i in range(8) for level in ("plain", "bent")
    ]  # fmt: skip
    return write_rows(tmp_path / "made.jsonl", rows)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "c.jsonl", [{"id": f"d{k}", "text": HOST} for k in range(40)])


def read(folder: Path) -> tuple[dict[str, str], pd.DataFrame]:
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    texts = {record["id"]: record["text"] for record in map(json.loads, lines)}
    assert len(texts) == len(lines)
    return texts, pd.read_csv(folder / "truth.csv")


@pytest.mark.parametrize("inside", [0.0, 0.5, 1.0])
def test_the_truth_is_what_stands_there(made: Path, corpus: Path, inside: float) -> None:
    out = corpus.parent / "planted"
    plant_duplicates(corpus, made, out, share=0.5, copies=2, inside=inside, seed=3)
    texts, truth = read(out)
    placed = truth[truth["place"] != "absent"]
    assert len(placed) == 4 * 2 * 2
    assert placed["item"].nunique() == (truth["place"] == "absent").sum() == 4
    assert not {*placed["item"]} & {*truth.loc[truth["place"] == "absent", "item"]}
    known = {
        row["duplicate"]: row["text"] for row in map(json.loads, made.read_text().splitlines())
    }
    for row in placed.itertuples():
        text = texts[row.document]
        assert text[int(row.start) : int(row.end)] == known[row.duplicate]
        rest = text[: int(row.start)] + text[int(row.end) :]
        assert rest.split() == ([] if row.place == "alone" else HOST.split())
    if inside in (0.0, 1.0):
        assert {*placed["place"]} == {"inside" if inside else "alone"}
    # Nothing else of the corpus is changed, and all of it is there.
    untouched = set(texts) - {*placed["document"]}
    assert all(texts[name] == HOST for name in untouched)
    assert {f"d{k}" for k in range(40)} <= set(texts)


def test_the_same_seed_plants_the_same(made: Path, corpus: Path) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        plant_duplicates(corpus, made, corpus.parent / name, seed=seed)
        found.append((corpus.parent / name / "corpus.jsonl").read_bytes())
    assert found[0] == found[1] != found[2]


def test_documents_without_a_name_have_one(made: Path, tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "nameless.jsonl", [{"text": HOST}] * 20)
    plant_duplicates(corpus, made, tmp_path / "out")
    texts, _ = read(tmp_path / "out")
    assert sum(name.startswith("document-") for name in texts) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0.0}, "share: got 0.0"),
        ({"share": 1.5}, "share: got 1.5"),
        ({"inside": -0.1}, "inside: got -0.1"),
        ({"copies": 0}, "copies: got 0"),
    ],
)
def test_numbers_that_are_not_allowed(
    made: Path, corpus: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plant_duplicates(corpus, made, corpus.parent / "out", **options)
    assert not (corpus.parent / "out").exists()


def test_files_that_cannot_be_used(made: Path, corpus: Path, tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", [{"text": HOST}])
    with pytest.raises(DataError, match="has 1 documents; 8 are to hold a duplicate"):
        plant_duplicates(few, made, tmp_path / "out", share=0.5, inside=1.0)
    with pytest.raises(DataError, match="has 0 documents"):
        plant_duplicates(corpus, made, tmp_path / "out", text_field="body")
    with pytest.raises(DataError, match="has no 'benchmark', 'item'"):
        plant_duplicates(corpus, corpus, tmp_path / "out")
    with pytest.raises(DataError, match="0 documents"):
        plant_duplicates(
            write_rows(tmp_path / "none.jsonl", []), made, tmp_path / "out", inside=0.0
        )


def test_records_that_are_no_documents_are_left_out_and_counted(made: Path, corpus: Path) -> None:
    with corpus.open("a") as file:
        file.write('{"id": "cut", "text": "The\n{"id": "bare"}\n[1]\n{"id": "void", "text": 3}\n')
    truth = plant_duplicates(corpus, made, corpus.parent / "out")
    assert sorted(truth.attrs["left_out"].values()) == [1, 1, 2]
    texts, _ = read(corpus.parent / "out")
    assert not {"cut", "bare", "void"} & {*texts}


def test_a_corpus_is_not_written_over(made: Path, corpus: Path) -> None:
    own = corpus.rename(corpus.with_name("corpus.jsonl"))
    before = own.read_bytes()
    with pytest.raises(UsageError, match="is what is read, and would be lost"):
        plant_duplicates(own, made, own.parent)
    assert own.read_bytes() == before


def scan_of(rows: list[tuple[str, str, int, float, int, int]]) -> Scan:
    """Return what stands for a scan with these matches."""
    names = ["item", "document", "rank", "cosine", "start", "end"]
    table = pd.DataFrame(rows, columns=names).assign(benchmark="quiz", jaccard=0.5)
    scan = Scan(Path("nowhere"), {})
    scan.__dict__["matches"] = table
    items = table.drop_duplicates("item")[["benchmark", "item"]]
    scan.__dict__["histogram"] = items.assign(cosine=0.1, count=500)
    return scan


def truth_of(rows: list[tuple[str, str, str, float, float]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["item", "document", "place", "start", "end"])
    return table.assign(benchmark="quiz", duplicate="x", kind="semantic", level="plain", copy=1)


def test_recall_counts_chunks_that_overlap_what_was_planted() -> None:
    truth = truth_of([
        ("i0", "d0", "alone", 0, 50), ("i1", "d1", "inside", 100, 150),
        ("i2", "d2", "inside", 100, 150), ("i3", "d3", "alone", 0, 50), ("i4", "", "absent", 0, 0),
    ])  # fmt: skip
    scan = scan_of([
        ("i0", "d0", 1, 0.95, 0, 50), ("i0", "d9", 2, 0.4, 0, 50),
        ("i1", "d9", 1, 0.8, 0, 50), ("i1", "d1", 2, 0.65, 90, 110), ("i1", "d1", 3, 0.6, 110, 200),
        ("i2", "d2", 1, 0.9, 0, 100),  # ends where the duplicate begins
        ("i3", "d8", 1, 0.3, 0, 50), ("i4", "d7", 1, 0.7, 0, 9),
    ])  # fmt: skip
    found = recall(scan, truth)
    own = found.duplicates.set_index("item")
    assert own["rank"].fillna(0).to_dict() == {"i0": 1, "i1": 2, "i2": 0, "i3": 0}
    assert own["cosine"].fillna(0).to_dict() == {"i0": 0.95, "i1": 0.65, "i2": 0, "i3": 0}
    table = found.table.set_index("place")
    assert table["planted"].to_dict() == {"alone": 2, "inside": 2}
    assert table["recall@1"].to_dict() == {"alone": 0.5, "inside": 0.0}
    assert table["recall@10"].to_dict() == {"alone": 0.5, "inside": 0.5}
    assert found.chunks == 500
    # Half of them are not stored, so that no more is known of the middle than that it is lower.
    assert table["median_cosine"].isna().all()
    assert table["cosine ≥ 0.6"].to_dict() == {"alone": 0.5, "inside": 0.5}
    assert table["cosine ≥ 0.7"].to_dict() == {"alone": 0.5, "inside": 0.0}
    low, high = beta.ppf([0.025, 0.975], 1.5, 1.5)
    assert table.loc["alone", ["recall@1_low", "recall@1_high"]].tolist() == pytest.approx(
        [low, high]
    )
    assert table.loc["inside", "recall@1_low"] == 0.0


def test_what_is_not_stored_counts_as_lower_than_what_is() -> None:
    truth = truth_of([(f"i{k}", f"d{k}", "alone", 0, 9) for k in range(5)])
    cosines = (0.9, 0.8, 0.7)
    scan = scan_of([(f"i{k}", f"d{k}", 1, cosine, 0, 9) for k, cosine in enumerate(cosines)])
    [row] = recall(scan, truth).table.to_dict("records")
    assert row["median_cosine"] == 0.7  # the middle of 0.9, 0.8, 0.7 and two lower ones


def test_areas_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    yes, no = rng.normal(1, 1, 30).round(1), rng.normal(0, 1, 50).round(1)
    wanted = roc_auc_score([1] * 30 + [0] * 50, np.concatenate([yes, no]))
    assert _area(yes, no) == pytest.approx(wanted)
    items = [(f"i{k}", f"d{k}", 1, float(score), 0, 9) for k, score in enumerate([*yes, *no])]
    truth = truth_of([
        (f"i{k}", f"d{k}" if k < 30 else "", "alone" if k < 30 else "absent", 0, 9)
        for k in range(80)
    ])  # fmt: skip
    scores = recall(scan_of(items), truth).scores.set_index("score")
    assert scores.loc["cosine", "auc"] == pytest.approx(wanted)
    assert scores.loc["cosine", "auc_low"] < wanted < scores.loc["cosine", "auc_high"]
    assert scores.loc["jaccard", "auc"] == 0.5  # all are equal


def test_truths_of_other_items_are_refused(tmp_path: Path) -> None:
    scan = scan_of([("i0", "d0", 1, 0.9, 0, 9)])
    other = truth_of([("j0", "d0", "alone", 0, 9)])
    with pytest.raises(DataError, match="is about items of"):
        recall(scan, other)
    with pytest.raises(DataError, match="has no column 'document'"):
        recall(scan, other.drop(columns="document"))
    with pytest.raises(DataError, match="cannot be read"):
        recall(scan, tmp_path / "none.csv")
    with pytest.raises(UsageError, match="level: got 2"):
        recall(scan, other, level=2)
