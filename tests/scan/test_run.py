"""Whole scans against a plain computation of what they are defined to find."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence.covariates import scanned_shares
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.items import Item
from bayescontam.scan.results import lexical_scores
from bayescontam.scan.run import Scan, run_scan
from bayescontam.specs.corpus import Embedding, Lexical
from tests.support.corpora import leftovers, manifest, text, write_items, write_records
from tests.support.real_data import shared
from tests.support.small_corpus import (
    ATOL,
    SEARCH,
    SEED,
    TAIL_SHARE,
    TAIL_SIZE,
    TOP_K,
    Small,
    Truth,
    scan,
)


def test_the_corpus_has_what_is_tested(truth: Truth) -> None:
    assert truth.texts["copies"].max() > 5
    assert truth.occurrences["chunk"].max() > 1
    sources = truth.occurrences.groupby("text")["source"].nunique()
    assert sources.max() > 1
    assert len(truth.occurrences) > 150


def each_item(truth: Truth, table: pd.DataFrame) -> Any:
    """Give, for every item, its cosines and its rows of a table of matches."""
    groups = dict(iter(table.groupby(["benchmark", "item"])))
    for number, item in truth.items.iterrows():
        yield truth.cosines[number], groups[item["benchmark"], item["item"]]


def test_matches_are_the_best(truth: Truth, scanned: Scan) -> None:
    for cosines, rows in each_item(truth, scanned.matches):
        assert rows["rank"].tolist() == list(range(1, TOP_K + 1))
        best = np.sort(cosines)[::-1][:TOP_K]
        np.testing.assert_allclose(rows["cosine"], best, atol=ATOL)
        assert rows["chunk_id"].is_unique
        own = pd.Series(cosines, truth.texts["chunk_id"]).loc[rows["chunk_id"]]
        np.testing.assert_allclose(rows["cosine"], own, atol=ATOL)


def test_items_that_stand_in_the_corpus_are_found(truth: Truth, scanned: Scan) -> None:
    best = scanned.matches[scanned.matches["rank"] == 1].set_index(["benchmark", "item"])
    for item in ("0", "1", "2", "3"):
        row = best.loc[("b0", item)]
        assert row["cosine"] == pytest.approx(1, abs=ATOL)
        wanted = truth.items.set_index(["benchmark", "item"]).loc[("b0", item), "text"]
        assert row["copies"] == (truth.occurrences["text"] == wanted).sum() > 0
        assert row[["ngram_2", "jaccard", "rouge_l"]].tolist() == [1, 1, 1]


def test_matches_say_where_they_stand(small: Small, truth: Truth, scanned: Scan) -> None:
    columns = ["document", "chunk", "start", "end", "source", "stratum", "copies"]
    wanted = truth.texts.set_index("chunk_id")[columns]
    sources = small.documents.set_index(["source", "document"])["text"]
    texts = scanned.texts.set_index("chunk_id")["text"]
    assert texts.index.is_unique
    for table in (scanned.matches, scanned.tail):
        reported = table.set_index("chunk_id")[columns]
        pd.testing.assert_frame_equal(reported, wanted.loc[reported.index], check_dtype=False)
        for row in table.itertuples():
            whole = sources[row.source, row.document]
            assert whole[row.start : row.end] == texts[row.chunk_id]
    assert set(texts.index) == {*scanned.matches["chunk_id"], *scanned.tail["chunk_id"]}


def at_least(cosines: np.ndarray, copies: Any, edge: float) -> tuple[int, int]:
    """Return between which numbers the count of cosines from an edge on must lie."""
    sure, perhaps = cosines >= edge + ATOL, cosines >= edge - ATOL
    return int(copies[sure].sum()), int(copies[perhaps].sum())


def assert_counts(table: pd.DataFrame, cosines: np.ndarray, copies: np.ndarray) -> None:
    """Assert that a histogram counts cosines, each some times."""
    assert table["count"].sum() == copies.sum()
    for edge in np.arange(-1000, 1001, 7) / 1000:
        low, high = at_least(cosines, copies, edge)
        assert low <= table.loc[table["cosine"] > edge - 1e-9, "count"].sum() <= high


def test_histograms_count_every_occurrence(truth: Truth, scanned: Scan) -> None:
    copies = truth.texts["copies"].to_numpy()
    for cosines, rows in each_item(truth, scanned.histogram):
        assert_counts(rows, cosines, copies)


def test_strata_count_their_occurrences(truth: Truth, scanned: Scan) -> None:
    strata = dict(iter(scanned.strata.groupby(["benchmark", "source", "stratum"])))
    number = {t: place for place, t in enumerate(truth.texts["text"])}
    own = truth.occurrences.groupby(["source", "stratum"])
    assert len(strata) == 2 * len(own)
    for benchmark in ("b0", "b1"):
        items = (truth.items["benchmark"] == benchmark).to_numpy()
        for name, rows in own:
            columns = [number[t] for t in rows["text"]]
            cosines = truth.cosines[items][:, columns].ravel()
            assert_counts(strata[benchmark, *name], cosines, np.ones(len(cosines), int))


def priority(chunk: int, benchmark: str, item: str) -> int:
    """Return what decides the sample: MurmurHash3's finalizer of chunk and item."""
    key = Item(benchmark, item, "").key(SEED)
    x = (chunk ^ key) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


def test_tails_are_random_matches_above_their_threshold(truth: Truth, scanned: Scan) -> None:
    copies, ids = truth.texts["copies"].to_numpy(), truth.texts["chunk_id"].to_numpy()
    checked = 0
    for cosines, rows in each_item(truth, scanned.tail):
        [threshold] = rows["threshold"].unique()
        [above] = rows["tail_matches"].unique()
        low, high = at_least(cosines, copies, threshold)
        assert low <= above <= high
        assert above >= TAIL_SHARE * copies.sum()
        assert at_least(cosines, copies, threshold + 0.001)[0] < TAIL_SHARE * copies.sum()
        if not (np.abs(cosines - threshold) < ATOL).any():
            item = rows.iloc[0]
            order = sorted(
                ids[cosines >= threshold].tolist(),
                key=lambda chunk: priority(chunk, item["benchmark"], item["item"]),
            )
            assert rows["chunk_id"].tolist() == order[:TAIL_SIZE]
            checked += 1
    assert checked > 10


def test_items_are_reported(truth: Truth, scanned: Scan) -> None:
    reported = scanned.items
    pd.testing.assert_frame_equal(reported[["benchmark", "item", "text"]], truth.items)
    assert reported["tokens"].tolist() == [len(t.split()) for t in truth.items["text"]]
    assert not reported["cut"].any()


def test_lexical_scores_belong_to_their_match(scanned: Scan) -> None:
    items = scanned.items.set_index(["benchmark", "item"])["text"]
    texts = scanned.texts.set_index("chunk_id")["text"]
    rows = scanned.matches
    pairs = [(items[r.benchmark, r.item], texts[r.chunk_id]) for r in rows.itertuples()]
    wanted = lexical_scores(pairs, Lexical())
    pd.testing.assert_frame_equal(rows[wanted.columns], wanted)


def test_the_record_counts(small: Small, truth: Truth, scanned: Scan) -> None:
    record = scanned.record
    words = small.documents["text"].str.split().str.len()
    assert record["documents"]["read"] == record["documents"]["sampled"] == len(small.documents)
    assert record["documents"]["short"] == (words < 3).sum() > 0
    assert record["chunks"]["made"] == record["search"]["chunks"] == len(truth.occurrences)
    assert record["search"]["pairs"] == len(truth.occurrences) * len(truth.items)
    assert record["search"]["shards"] == math.ceil(len(truth.occurrences) / 16)
    reported = {(row["source"], row["stratum"]): row for row in record["strata"]}
    for name, rows in small.documents.groupby(["source", "stratum"]):
        assert reported[name]["documents"] == reported[name]["sampled"] == len(rows)
    for name, rows in truth.occurrences.groupby(["source", "stratum"]):
        assert reported[name]["chunks"] == len(rows)
    modes = [(b["benchmark"], b["items"], b["text_mode"]) for b in record["benchmarks"]]
    assert modes == [("b0", 12, "input"), ("b1", 5, "input_output")]
    assert leftovers(scanned.folder) == []


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_share_of_every_stratum_is_searched(small: Small, tmp_path: Path, share: float) -> None:
    made = manifest(
        f"paths = ['web']\nstratum = 'kind'\ntext = 'body'\nshare = {share}", search=SEARCH
    )
    found = scan(made, tmp_path / "out", base=small.folder)
    web = small.documents[small.documents["source"] == "s0"]
    reported = {row["stratum"]: row for row in found.record["strata"]}
    for stratum, rows in web.groupby("stratum"):
        assert reported[stratum]["documents"] == len(rows)
        assert reported[stratum]["sampled"] == math.ceil(share * len(rows))
        assert reported[stratum]["chunks"] == reported[stratum]["sampled"]
    assert found.record["search"]["chunks"] == sum(row["sampled"] for row in reported.values())
    assert any("were sampled" in note for note in found.record["notes"])


def test_duplicates_of_real_texts_are_found(tmp_path: Path) -> None:
    corpus, items = shared("texts/corpus.jsonl"), shared("texts/benchmark.jsonl")
    made = manifest(
        f"paths = ['{corpus}']\nstratum = 'source'",
        benchmarks=[f"path = '{items}'\ntext_mode = 'input_output'"],
    )
    found = scan(made, tmp_path / "out")
    documents = pd.read_json(corpus, lines=True, dtype=False)
    record = found.record
    assert record["documents"]["read"] == len(documents)
    assert found.histogram.groupby("item")["count"].sum().eq(record["search"]["chunks"]).all()
    texts = found.texts.set_index("chunk_id")["text"]
    whole = documents.set_index("id")["text"]
    for row in found.matches[found.matches["rank"] <= 3].itertuples():
        assert whole[row.document][row.start : row.end] == texts[row.chunk_id]
    embedder = load_embedder(Embedding(model="hashing"))
    one = embedder.embed(found.items["text"].tolist(), "query").astype(float)
    other = embedder.embed(documents["text"].str.strip().tolist(), "passage").astype(float)
    best = found.matches[found.matches["rank"] == 1].set_index("item")["cosine"]
    np.testing.assert_allclose(best[found.items["item"]], (one @ other.T).max(axis=1), atol=ATOL)
    # Items with planted duplicates tend to have better matches than items without.
    planted = pd.read_csv(shared("texts/truth.csv")).set_index("item")["n_duplicates"] > 0
    with_them, without = (
        best[planted[planted == there].index].to_numpy() for there in (True, False)
    )
    assert (with_them[:, None] > without).mean() > 0.8


def test_lists_in_lists_are_no_text(tmp_path: Path) -> None:
    rng = random.Random(4)
    write_records(tmp_path / "a.jsonl", ({"id": f"d{i}", "text": text(rng)} for i in range(20)))
    deep = "[" * 900 + "]" * 900
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(f'{{"id": "deep", "text": {deep}, "x": "\\ud800"}}\n')
    write_items(tmp_path / "items.jsonl", 5)
    scan = run_scan(
        manifest("paths = ['a.jsonl']"), tmp_path / "out", base=tmp_path, jobs=1, device="cpu"
    )
    assert sum(scan.record["documents"]["unreadable"].values()) == 1


WORDS = [f"word{i}" for i in range(400)]


def short_corpus(folder: Path) -> pd.DataFrame:
    """Write five questions of 20 to 24 words, and a corpus in which short texts copy some.

    Question 0 is a document of its own, wrapped to eight words a line; question 1 stands in
    the middle of a long document; question 2 lacks its last words; the others are not there.
    """
    rng = random.Random(8)
    items = [" ".join(rng.sample(WORDS, 20 + i)) for i in range(5)]
    words = items[0].split()
    wrapped = "\n".join(" ".join(words[i : i + 8]) for i in range(0, len(words), 8))
    inside = f"{' '.join(rng.sample(WORDS, 30))}\n\n{items[1]}\n\n{' '.join(rng.sample(WORDS, 30))}"
    rows = [("wrapped", wrapped), ("inside", inside), ("begun", items[2].rsplit(" ", 6)[0])]
    rows += [(f"other {i}", " ".join(rng.sample(WORDS, 30))) for i in range(20)]
    rows += [(f"tiny {i}", " ".join(rng.sample(WORDS, 4))) for i in range(5)]
    write_records(folder / "corpus.jsonl", ({"id": name, "text": t} for name, t in rows))
    write_records(
        folder / "items.jsonl", ({"id": f"q{i}", "input": t} for i, t in enumerate(items))
    )
    return pd.DataFrame(rows, columns=["document", "text"])


def test_the_shortest_chunk_follows_the_items(tmp_path: Path) -> None:
    documents = short_corpus(tmp_path)
    words = documents["text"].str.split().str.len()
    found = scan(manifest("paths = ['corpus.jsonl']", chunking=""), tmp_path / "out")
    # Half of the 5 % quantile of 20, 21, 22, 23 and 24.
    assert found.record["chunks"]["min_tokens"] == 10
    best = found.matches[found.matches["rank"] == 1].set_index("item")
    assert best.loc[["q0", "q1", "q2"], "document"].tolist() == ["wrapped", "inside", "begun"]
    assert best.loc["q0", "cosine"] == pytest.approx(1, abs=ATOL)
    assert best.loc["q3", "cosine"] < best.loc[["q0", "q1", "q2"], "cosine"].min() - 0.1
    assert found.record["short"] == {
        "s0": {
            "documents": 28, "short": 5, "short_pieces": 0, "tokens": words.sum(),
            "short_tokens": 20,
        }
    }  # fmt: skip
    [note] = found.record["notes"]
    assert note.startswith("5 of 28 documents (17.86%, with ")
    assert note.endswith(" have fewer than 10 tokens and were not searched")


def test_a_stated_shortest_chunk_is_kept(tmp_path: Path) -> None:
    short_corpus(tmp_path)
    made = manifest("paths = ['corpus.jsonl']", chunking="min_tokens = 25")
    found = scan(made, tmp_path / "out")
    assert found.record["chunks"]["min_tokens"] == 25
    assert found.record["short"]["s0"]["short"] == 7
    assert not set(found.matches["document"]) & {"wrapped", "begun"}
    # What is not searched belongs to the unscanned share.
    assert scanned_shares(found, ("s0",)).tolist() == [21 / 28]


def test_the_benchmark_with_the_shortest_items_decides(tmp_path: Path) -> None:
    short_corpus(tmp_path)
    few = [{"id": str(i), "input": " ".join(WORDS[:8])} for i in range(3)]
    write_records(tmp_path / "few.jsonl", few)
    benchmarks = ["path = 'items.jsonl'", "path = 'few.jsonl'"]
    made = manifest("paths = ['corpus.jsonl']", chunking="", benchmarks=benchmarks)
    found = scan(made, tmp_path / "out")
    assert found.record["chunks"]["min_tokens"] == 4
    assert found.record["short"]["s0"]["short"] == 0
