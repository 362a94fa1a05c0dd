"""Whole scans against a plain computation of what they are defined to find."""

import math
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.scan.chunk import Chunker, occurrence_hash, text_hash
from bayescontam.scan.embed import load_embedder
from bayescontam.scan.items import Item
from bayescontam.scan.lexical import lexical_scores
from bayescontam.scan.merging import Merging
from bayescontam.scanning import Scan, run_scan
from bayescontam.specs.corpus import (
    Chunking,
    Embedding,
    Generated,
    Lexical,
    Manifest,
    Search,
    parse_manifest,
)
from tests.data import shared
from tests.scan.corpora import (
    leftovers,
    manifest,
    shard_lines,
    tables_of,
    text,
    write_items,
    write_records,
)

ATOL = 1e-6
"""Cosines may differ by this much, through rounding."""
SEED, TOP_K, TAIL_SIZE, TAIL_SHARE = 3, 7, 9, 0.05
SEARCH = f"top_k = {TOP_K}\ntail_size = {TAIL_SIZE}\ntail_share = {TAIL_SHARE}\n"
LONGEST = 40


def scan(made: Manifest, out: Path, **options: Any) -> Scan:
    """Scan in this process."""
    given = {"jobs": 1, "device": "cpu", "base": out.parent}
    return run_scan(made, out, **given | options)


@dataclass(frozen=True)
class Small:
    """A corpus on disk, the manifest of its scan, and what its documents are."""

    folder: Path
    manifest: Manifest
    documents: pd.DataFrame  # source, stratum, document, text


def small_manifest(rows: int = 16, web: str = "web/*.jsonl*") -> Manifest:
    return manifest(
        f"paths = ['{web}']\nstratum = 'kind'\ntext = 'body'",
        "paths = ['table.parquet']\ndocument = 'name'",
        "paths = ['notes']",
        benchmarks=["path = 'items.jsonl'", "path = 'more.csv'\ntext_mode = 'input_output'"],
        top=f"seed = {SEED}",
        chunking=f"min_tokens = 3\nmax_tokens = {LONGEST}",
        search=SEARCH + f"shard_chunks = {rows}",
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Write a corpus of all formats, with copies, long and short texts, and two benchmarks."""
    folder, rng = tmp_path_factory.mktemp("small"), random.Random(4)
    write_items(folder / "items.jsonl", 12)
    rows = "".join(f"q{i},{text(rng, 9)},{text(rng, 4)}\n" for i in range(5))
    (folder / "more.csv").write_text("id,input,output\n" + rows)
    items = pd.read_json(folder / "items.jsonl", lines=True, dtype=False)["input"].tolist()
    common = [text(rng) for _ in range(6)] + items[:4]
    documents: list[tuple[str, str, str, str]] = []

    def fresh() -> str:
        lot = rng.random()
        return rng.choice(common) if lot < 0.3 else text(rng, 2 if lot < 0.35 else 20)

    for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
        new = [("s0", f"k/{i % 3}", f"{name[0]}{i}", fresh()) for i in range(40)]
        write_records(
            folder / "web" / name,
            ({"id": d, "kind": stratum, "body": body} for _, stratum, d, body in new),
        )
        documents += new
    new = [("s1", "", f"row {i}", fresh()) for i in range(30)]
    write_records(folder / "table.parquet", ({"name": d, "text": t} for _, _, d, t in new))
    documents += new
    (folder / "notes").mkdir()
    for i in range(8):
        note = "\n\n".join(f"  {text(rng, 30)}. {fresh()}\n" for _ in range(1 + i % 4))
        (folder / "notes" / f"{i}.txt").write_text(note)
        documents.append(("s2", "", f"notes/{i}.txt#1", note))
    columns = ["source", "stratum", "document", "text"]
    return Small(folder, small_manifest(), pd.DataFrame(documents, columns=columns))


@dataclass(frozen=True)
class Truth:
    """Occurrences of chunks, different texts, items, and the cosines of the last two."""

    occurrences: pd.DataFrame
    texts: pd.DataFrame
    items: pd.DataFrame
    cosines: np.ndarray


@pytest.fixture(scope="module")
def truth(small: Small) -> Truth:
    """Compute from the definition, in double precision."""
    embedder = load_embedder(Embedding(model="hashing"))
    spec = Chunking(min_tokens=3, max_tokens=LONGEST)
    chunker = Chunker(embedder.count, spec, embedder.max_tokens)
    rows: list[dict[str, Any]] = []
    for document in small.documents.itertuples(index=False):
        [chunks] = chunker.split([document]).chunks  # type: ignore[list-item]
        rows += [
            {**document._asdict(), "chunk": c.chunk, "start": c.start, "end": c.end, "text": c.text}
            for c in chunks
        ]
    occurrences = pd.DataFrame(rows)
    occurrences["first"] = [
        occurrence_hash(*key)
        for key in occurrences[["source", "document", "chunk"]].itertuples(index=False)
    ]
    ordered = occurrences.sort_values("first").groupby("text", sort=False)
    texts = ordered.first().assign(copies=ordered.size()).reset_index()
    texts["chunk_id"] = np.array([text_hash(t) for t in texts["text"]], np.uint64)
    plain = pd.read_json(small.folder / "items.jsonl", lines=True, dtype=False).assign(
        benchmark="b0"
    )
    more = pd.read_csv(small.folder / "more.csv").assign(benchmark="b1")
    more["input"] = more["input"] + "\n" + more["output"]
    items = pd.concat([plain, more])[["benchmark", "id", "input"]].reset_index(drop=True)
    items.columns = pd.Index(["benchmark", "item", "text"])
    one, other = (
        embedder.embed(t.tolist(), "query").astype(float) for t in (items["text"], texts["text"])
    )
    return Truth(occurrences, texts, items, one @ other.T)


@pytest.fixture(scope="module")
def scanned(small: Small) -> Scan:
    return scan(small.manifest, small.folder / "scan")


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
        told = table.set_index("chunk_id")[columns]
        pd.testing.assert_frame_equal(told, wanted.loc[told.index], check_dtype=False)
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


def test_items_are_told(truth: Truth, scanned: Scan) -> None:
    told = scanned.items
    pd.testing.assert_frame_equal(told[["benchmark", "item", "text"]], truth.items)
    assert told["tokens"].tolist() == [len(t.split()) for t in truth.items["text"]]
    assert not told["cut"].any()


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
    told = {(row["source"], row["stratum"]): row for row in record["strata"]}
    for name, rows in small.documents.groupby(["source", "stratum"]):
        assert told[name]["documents"] == told[name]["sampled"] == len(rows)
    for name, rows in truth.occurrences.groupby(["source", "stratum"]):
        assert told[name]["chunks"] == len(rows)
    modes = [(b["benchmark"], b["items"], b["text_mode"]) for b in record["benchmarks"]]
    assert modes == [("b0", 12, "input"), ("b1", 5, "input_output")]
    assert leftovers(scanned.folder) == []


@pytest.mark.parametrize("jobs", [2, 3])
def test_jobs_do_not_matter(small: Small, scanned: Scan, tmp_path: Path, jobs: int) -> None:
    again = scan(small.manifest, tmp_path / "out", base=small.folder, jobs=jobs)
    assert tables_of(again.folder) == tables_of(scanned.folder)


def test_the_order_of_files_does_not_matter(small: Small, scanned: Scan, tmp_path: Path) -> None:
    other = small_manifest(web="web/c*', 'web/b*', 'web/a*', 'web/b.jsonl.gz")
    again = scan(other, tmp_path / "out", base=small.folder)
    assert tables_of(again.folder) == tables_of(scanned.folder)


def assert_alike(one: Scan, other: Scan) -> None:
    """Assert that two scans find the same, but for swaps of cosines that are as good as equal."""
    items = ["benchmark", "item"]
    for name in ("matches", "tail"):
        a, b = (getattr(s, name).set_index([*items, "chunk_id"]) for s in (one, other))
        both = a.index.intersection(b.index)
        np.testing.assert_allclose(a.loc[both, "cosine"], b.loc[both, "cosine"], atol=ATOL)
        told = ["document", "chunk", "start", "end", "source", "stratum", "copies"]
        pd.testing.assert_frame_equal(a.loc[both, told], b.loc[both, told])
        assert len(both) >= 0.99 * len(a)
    cosines = [s.matches.sort_values([*items, "rank"])["cosine"] for s in (one, other)]
    np.testing.assert_allclose(*cosines, atol=ATOL)
    for name in ("histogram", "strata"):
        a, b = (getattr(s, name) for s in (one, other))
        keys = [column for column in a.columns if column not in ("cosine", "count")]
        counts = [t.groupby([*keys, "cosine"])["count"].sum() for t in (a, b)]
        # A cosine on an edge may fall to either side.
        assert counts[0].sub(counts[1], fill_value=0).abs().sum() <= 0.001 * counts[0].sum()
        assert counts[0].groupby(keys).sum().equals(counts[1].groupby(keys).sum())


@pytest.mark.parametrize("rows", [17, 64, 4096])
def test_the_size_of_shards_does_not_matter(
    small: Small, scanned: Scan, tmp_path: Path, rows: int
) -> None:
    assert_alike(scanned, scan(small_manifest(rows), tmp_path / "out", base=small.folder))


def test_the_files_that_documents_stand_in_do_not_matter(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    for name in ("items.jsonl", "more.csv", "table.parquet", "notes"):
        (tmp_path / name).symlink_to(small.folder / name)
    rows = small.documents[small.documents["source"] == "s0"].sample(frac=1, random_state=1)
    records = [
        {"id": row.document, "kind": row.stratum, "body": row.text} for row in rows.itertuples()
    ]
    for part in range(7):
        write_records(tmp_path / "web" / f"{part}.jsonl", records[part::7])
    assert_alike(scanned, scan(small.manifest, tmp_path / "out", base=tmp_path))


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_share_of_every_stratum_is_searched(small: Small, tmp_path: Path, share: float) -> None:
    made = manifest(
        f"paths = ['web']\nstratum = 'kind'\ntext = 'body'\nshare = {share}", search=SEARCH
    )
    found = scan(made, tmp_path / "out", base=small.folder)
    web = small.documents[small.documents["source"] == "s0"]
    told = {row["stratum"]: row for row in found.record["strata"]}
    for stratum, rows in web.groupby("stratum"):
        assert told[stratum]["documents"] == len(rows)
        assert told[stratum]["sampled"] == math.ceil(share * len(rows))
        assert told[stratum]["chunks"] == told[stratum]["sampled"]
    assert found.record["search"]["chunks"] == sum(row["sampled"] for row in told.values())
    assert any("were sampled" in note for note in found.record["notes"])


class Stop(BaseException):
    """What interrupts a scan in these tests."""


def interrupted(made: Manifest, out: Path, after: int, **options: Any) -> None:
    """Scan, and stop when some shards are merged."""
    take, count = Merging.take, 0

    def counting(self: Merging, key: str) -> None:
        nonlocal count
        take(self, key)
        count += 1
        if count == after:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Merging, "take", counting)
        with pytest.raises(Stop):
            scan(made, out, **options)


def test_an_interrupted_scan_is_taken_up(small: Small, scanned: Scan, tmp_path: Path) -> None:
    out = tmp_path / "out"
    interrupted(small.manifest, out, 4, base=small.folder)
    assert len(shard_lines(out)) == 4
    with pytest.raises(bayescontam.DataError, match=r"holds no finished scan: lacks scan\.json"):
        Scan.load(out)
    scan(small.manifest, out, base=small.folder)
    assert len(shard_lines(out)) == scanned.record["search"]["shards"]
    assert tables_of(out) == tables_of(scanned.folder)
    assert leftovers(out) == []


def test_a_finished_scan_is_returned_at_once(
    small: Small, scanned: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("something is computed")

    before = (scanned.folder / "scan.json").stat().st_mtime_ns
    monkeypatch.setattr("bayescontam.scan.execution.run_tasks", forbidden)
    monkeypatch.setattr("bayescontam.scan.run.write_tables", forbidden)
    again = scan(small.manifest, scanned.folder, base=small.folder)
    assert again.record == scanned.record
    assert (scanned.folder / "scan.json").stat().st_mtime_ns == before


@pytest.fixture
def copied(small: Small, tmp_path: Path) -> Path:
    """Return a copy of the small corpus that a test may change."""
    shutil.copytree(small.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("scan"))
    return tmp_path / "copy"


def change(path: Path) -> None:
    """Put another document of the same size into a file, at another time."""
    path.write_text(path.read_text().replace('"body": "w', '"body": "v', 1))
    times = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(times, times))


def rename_item(path: Path) -> None:
    path.write_text(path.read_text().replace('"id": "7"', '"id": "77"'))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "file of the corpus": (lambda folder: change(folder / "web" / "a.jsonl"), "files of"),
    "new file": (
        lambda folder: (folder / "notes" / "new.txt").write_text("one two three"),
        "files",
    ),
    "item": (lambda folder: rename_item(folder / "items.jsonl"), "items"),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_change_after_a_finished_scan_is_noticed(copied: Path, changed: str) -> None:
    make, named = CHANGES[changed]
    out = copied / "scan"
    first = scan(small_manifest(), out)
    before = tables_of(out)
    make(copied)
    with pytest.raises(
        bayescontam.UsageError, match=f"has changed since: {named}.*--replace to lose"
    ):
        scan(small_manifest(), out)
    assert tables_of(out) == before
    again = scan(small_manifest(), out, replace=True)
    assert again.record["key"] != first.record["key"]
    assert tables_of(out) != before
    assert scan(small_manifest(), copied / "fresh").folder.name == "fresh"
    assert tables_of(out) == tables_of(copied / "fresh")


def test_a_change_while_a_scan_is_interrupted_is_noticed(copied: Path) -> None:
    out = copied / "scan"
    interrupted(small_manifest(), out, 4)
    change(copied / "web" / "a.jsonl")
    scan(small_manifest(), out)
    scan(small_manifest(), copied / "fresh")
    assert tables_of(out) == tables_of(copied / "fresh")


def test_a_scan_is_replaced_only_once_the_new_one_is_searched(copied: Path) -> None:
    out = copied / "scan"
    scan(small_manifest(), out)
    before = tables_of(out)
    interrupted(small_manifest(17), out, 2, replace=True)
    assert tables_of(out) == before
    Scan.load(out)
    scan(small_manifest(17), out, replace=True)
    assert "shard_chunks = 17" in (out / "manifest.toml").read_text()


def test_a_generated_corpus_is_made_once_and_taken_up(tmp_path: Path) -> None:
    made = Manifest(
        summary="x",
        generated=Generated(items=10, documents=60),
        embedding=Embedding(model="hashing"),
        search=Search(shard_chunks=16),
    )
    interrupted(made, tmp_path / "out", 2)
    done = scan(made, tmp_path / "out")
    lines = shard_lines(tmp_path / "out")
    assert len(lines) == len({line.split(":")[0] for line in lines})
    assert scan(made, tmp_path / "out").record == done.record
    truth = (tmp_path / "out" / "generated" / "truth.csv").read_bytes()
    other = made.model_copy(update={"seed": 1})
    with pytest.raises(bayescontam.UsageError, match="has changed since: manifest; choose another"):
        scan(other, tmp_path / "out")
    assert (tmp_path / "out" / "generated" / "truth.csv").read_bytes() == truth


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


def test_a_corpus_that_holds_the_scan_is_scanned_without_it(tmp_path: Path) -> None:
    rng = random.Random(3)
    (tmp_path / "corpus").mkdir()
    write_records(
        tmp_path / "corpus" / "a.jsonl", ({"id": f"d{i}", "text": text(rng)} for i in range(40))
    )
    write_items(tmp_path / "items.jsonl", 5)
    out, spec = tmp_path / "corpus" / "scan", manifest("paths = ['corpus']")
    first = run_scan(spec, out, base=tmp_path, jobs=1, device="cpu", keep_work=True)
    assert first.record["documents"]["read"] == 40
    again = run_scan(spec, out, base=tmp_path, jobs=1, device="cpu")
    assert again.record == first.record


def test_another_generated_corpus_is_made_and_scanned(tmp_path: Path) -> None:
    made = 'summary = "made"\n[embedding]\nmodel = "hashing"\n[generated]\nitems = 10\n'
    for documents in (60, 200):
        spec = parse_manifest(f"{made}documents = {documents}\n", "made.toml")
        scan = run_scan(spec, tmp_path / "out", jobs=1, device="cpu", keep_work=True, replace=True)
        assert scan.record["documents"]["read"] == documents


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
