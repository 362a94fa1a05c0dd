"""The part of a corpus without what is near items, against its definition."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bayescontam import CleanCorpus, Scan, write_clean
from bayescontam.errors import DataError, UsageError
from bayescontam.scan import rewriting
from bayescontam.scan.chunking import Chunker
from bayescontam.scan.documents import Document
from bayescontam.scan.dropping import DropStage
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.sources import Input
from bayescontam.specs.corpus import Chunking, Embedding, Manifest
from tests.support.corpora import manifest, text, write_items, write_records
from tests.support.small_corpus import Stop, scan

LIMIT, TOP_K, LONGEST, LEAST = 0.65, 5, 40, 3
HERE: dict[str, Any] = {"jobs": 1, "device": "cpu"}
UNREADABLE = [b"no JSON", b'{"id": "bare"}', b'{"id": "void", "body": " "}', b"\xff"]


@dataclass(frozen=True)
class Corpus:
    """A corpus with near texts of all kinds, and its documents."""

    folder: Path
    manifest: Manifest
    documents: pd.DataFrame  # source, file, record, text, and what is copied of it
    items: list[str]


def of_files(top_k: int = TOP_K, web: str = "web/*.jsonl*") -> Manifest:
    return manifest(
        f"paths = ['{web}']\ntext = 'body'",
        "paths = ['table.parquet']\ndocument = 'name'",
        "paths = ['notes']",
        chunking=f"min_tokens = {LEAST}\nmax_tokens = {LONGEST}",
        search=f"top_k = {top_k}\ntail_size = 3\nshard_chunks = 16",
    )


def line_of(rng: random.Random, number: int, body: str) -> bytes:
    """Return a record as no program would write it again."""
    space = " " * rng.randrange(3)
    fields = f'"n" :{space}{number},"body":  {json.dumps(body)}, "more":[1.50, {{"a": null}}]'
    return f"{{{space}{fields}}}{'\r' * (number % 2)}".encode()


def write_corpus(folder: Path) -> Corpus:
    rng = random.Random(2)
    write_items(folder / "items.jsonl", 6)
    items = pd.read_json(folder / "items.jsonl", lines=True, dtype=False)["input"].tolist()
    # Different texts near item 0, more of them than a scan stores; and one near two items.
    near = [f"{items[0]} {text(rng, 2)}" for _ in range(12)]
    both = f"{items[3]} {items[4]}"
    long = ["\n\n".join([text(rng, 30), items[2], text(rng, 30)]) for _ in range(2)]
    known = [*near, *near[:3], *items[:3] * 3, both, *long]
    others = [text(rng) for _ in range(60)] + [text(rng, 2) for _ in range(6)]
    others += ["\n\n".join(text(rng, 30) for _ in range(3)) for _ in range(4)] + [others[0]] * 3
    texts = known + others
    rng.shuffle(texts)
    rows: list[tuple[str, str, int, str, Any]] = []
    (folder / "web").mkdir(parents=True)
    for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
        lines, start = [], len(rows)
        for body in [texts.pop() for _ in range(22)]:
            if rng.random() < 0.2:
                lines.append(rng.choice([*UNREADABLE, b"", b"  "]))
            lines.append(line_of(rng, len(rows), body))
            rows.append(("s0", f"web/{name}", len(lines), body, lines[-1]))
        assert len(rows) > start
        (folder / "web" / name).write_bytes(packed(name, b"\n".join(lines)))
    bodies = [texts.pop() for _ in range(20)]
    table = pa.table(
        {
            "name": [f"row {i}" for i in range(20)],
            "text": bodies,
            "tags": [[i, None] for i in range(20)],
            "meta": [{"site": f"x{i}", "score": i / 3} for i in range(20)],
            "kind": pa.array([f"k{i % 3}" for i in range(20)]).dictionary_encode(),
            "raw": pa.array([bytes([i]) for i in range(20)], pa.large_binary()),
        }
    ).replace_schema_metadata({"about": "one that stays"})
    pq.write_table(table, folder / "table.parquet", compression="zstd", row_group_size=7)
    rows += [("s1", "table.parquet", i + 1, body, i) for i, body in enumerate(bodies)]
    (folder / "notes").mkdir()
    for i, body in enumerate(texts):
        name = f"notes/{i}.txt" + (".gz" if i % 3 == 0 else "")
        data = packed(name, f"{body}\n".encode())
        (folder / name).write_bytes(data)
        rows.append(("s2", name, 1, f"{body}\n", data))
    columns = ["source", "file", "record", "text", "copied"]
    return Corpus(folder, of_files(), pd.DataFrame(rows, columns=columns), items)


def packed(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data, mtime=0)
    return zstandard.ZstdCompressor().compress(data) if name.endswith(".zst") else data


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def cosines_of(corpus: Corpus) -> pd.DataFrame:
    """Return the documents with their cosines by the definition: (chunk, item), or none."""
    embedder = load_embedder(Embedding(model="hashing"))
    chunking = Chunking(min_tokens=LEAST, max_tokens=LONGEST)
    chunker = Chunker(embedder.count, chunking, embedder.max_tokens)
    split = chunker.split([Document("", "", body) for body in corpus.documents["text"]])
    items = embedder.embed(corpus.items, "query").astype(float)
    cosines = [
        embedder.embed([chunk.text for chunk in chunks], "passage").astype(float) @ items.T
        for chunks in split.chunks
    ]
    return corpus.documents.assign(cosines=cosines)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def found(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return scan(corpus.manifest, tmp_path_factory.mktemp("scan") / "out", base=corpus.folder)


@pytest.fixture(scope="module")
def clean(found: Scan, tmp_path_factory: pytest.TempPathFactory) -> CleanCorpus:
    return write_clean(found, tmp_path_factory.mktemp("clean") / "out", above_cosine=LIMIT, **HERE)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_files_are_what_the_definition_leaves(corpus: Corpus, clean: CleanCorpus) -> None:
    documents = cosines_of(corpus)
    near = documents["cosines"].map(lambda scores: scores.max(initial=-1.0) >= LIMIT)
    assert 20 < near.sum() < 40
    assert set(documents.loc[near, "source"]) == {"s0", "s1", "s2"}
    left, files = documents[~near], clean.folder / "files"
    for name, rows in left[left["source"] == "s0"].groupby("file"):
        assert unpacked(files / str(name)) == b"".join(row + b"\n" for row in rows["copied"])
    table, whole = (pq.read_table(f / "table.parquet") for f in (files, corpus.folder))
    assert table.equals(whole.take(left.loc[left["source"] == "s1", "copied"].tolist()))
    assert table.schema.equals(whole.schema, check_metadata=True)
    column = pq.ParquetFile(files / "table.parquet").metadata.row_group(0).column(1)
    assert column.compression == "ZSTD"
    notes = left[left["source"] == "s2"].set_index("file")["copied"].to_dict()
    assert {f"notes/{k}": v for k, v in files_of(files / "notes").items()} == notes
    names = {"web/a.jsonl", "web/b.jsonl.gz", "web/c.jsonl.zst", "table.parquet", *notes}
    assert set(files_of(files)) == names


def test_every_dropped_document_is_listed_with_its_nearest_item(
    corpus: Corpus, clean: CleanCorpus
) -> None:
    documents = cosines_of(corpus).set_index(["source", "file", "record"])
    rows = clean.dropped.set_index(["source", "file", "record"])
    near = documents["cosines"].map(lambda scores: scores.max(initial=-1.0) >= LIMIT)
    assert set(rows.index) == set(documents.index[near])
    for key, row in rows.iterrows():
        scores, body = documents.loc[key, "cosines"], documents.loc[key, "text"]
        assert row["cosine"] == pytest.approx(scores.max(), abs=1e-6)
        assert scores[row["chunk"], int(row["item"])] == pytest.approx(scores.max(), abs=1e-6)
        assert row["items"] == (scores.max(axis=0) >= LIMIT).sum()
        assert body[row["start"] : row["end"]].strip()
        assert not row["judged"]
    assert rows["items"].max() == 2
    assert (rows["chunk"] > 0).any()
    assert "p_duplicate" not in rows


def test_the_counts_are_those_of_the_files(corpus: Corpus, clean: CleanCorpus) -> None:
    documents = cosines_of(corpus)
    short = documents["cosines"].map(len) == 0
    for source, counts in clean.record["counts"].items():
        own = (documents["source"] == source).to_numpy()
        dropped = (clean.dropped["source"] == source).sum()
        assert counts["documents"] == own.sum()
        assert counts["dropped"] == dropped
        assert counts["written"] == own.sum() - dropped
        assert counts["short"] == (own & short).sum()
        assert counts["files"] == documents.loc[own, "file"].nunique()
    assert sum(counts["short"] for counts in clean.record["counts"].values()) == 6
    assert clean.record["counts"]["s0"]["unreadable"] > 0
    assert clean.record["searched_again"] == 1
    notes = " ".join(clean.record["notes"])
    assert "6 documents with fewer than 3 tokens were not searched" in notes
    assert "records that cannot be read were not written" in notes
    assert "1 items may have more near texts than the scan stored (top_k = 5)" in notes


@pytest.mark.parametrize("limit", [LIMIT, 0.3])
def test_scanned_again_nothing_reaches_the_limit(
    corpus: Corpus, found: Scan, limit: float, tmp_path: Path
) -> None:
    clean = write_clean(found, tmp_path / "clean", above_cosine=limit, **HERE)
    assert (found.matches["cosine"] >= limit).any()
    shutil.copy(corpus.folder / "items.jsonl", clean.folder / "files")
    again = scan(of_files(), tmp_path / "again", base=clean.folder / "files")
    assert again.matches["cosine"].max() < limit
    assert again.histogram["cosine"].max() <= limit
    assert again.record["documents"]["unreadable"] == {}
    left = sum(counts["written"] for counts in clean.record["counts"].values())
    assert again.record["documents"]["read"] == left
    twice = write_clean(again, tmp_path / "twice", above_cosine=limit, **HERE)
    assert twice.dropped.empty
    assert files_of(twice.folder / "files") == {
        name: data
        for name, data in files_of(clean.folder / "files").items()
        if name != "items.jsonl"
    }


def test_a_scan_that_stored_all_near_texts_needs_no_second_search(
    corpus: Corpus, clean: CleanCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = scan(of_files(top_k=100), tmp_path / "scan", base=corpus.folder)

    def refuse(*_: object) -> None:
        raise AssertionError("an embedder is loaded")

    monkeypatch.setattr("bayescontam.scan.dropping.shared_embedder", refuse)
    other = write_clean(found, tmp_path / "clean", above_cosine=LIMIT, **HERE)
    assert other.record["searched_again"] == 0
    assert files_of(other.folder / "files") == files_of(clean.folder / "files")
    columns = ["source", "file", "record", "item", "chunk", "items"]
    pd.testing.assert_frame_equal(other.dropped[columns], clean.dropped[columns])


def stopping(monkeypatch: pytest.MonkeyPatch, after: int | None) -> list[str]:
    """Stop after some files; return the list to which those that are begun are added."""
    drop, begun = DropStage.drop, list[str]()

    def counting(self: DropStage, chunker: Any, embedder: Any, number: int, item: Any) -> None:
        if len(begun) == after:
            raise Stop
        begun.append(item.path)
        drop(self, chunker, embedder, number, item)

    monkeypatch.setattr(DropStage, "drop", counting)
    return begun


def test_an_interrupted_call_resumes_by_file(
    found: Scan, clean: CleanCorpus, tmp_path: Path
) -> None:
    out = tmp_path / "clean"
    with pytest.MonkeyPatch.context() as patch:
        first = stopping(patch, 3)
        with pytest.raises(Stop):
            write_clean(found, out, above_cosine=LIMIT, **HERE)
    assert not out.exists()
    # As a worker leaves it that is killed while it writes.
    [files] = (tmp_path / ".clean.part" / "work").glob("clean-*/result/files")
    (files / "web").mkdir(exist_ok=True)
    (files / "web" / ".c.jsonl.zst.abcdefgh.part").write_bytes(b"half")
    with pytest.MonkeyPatch.context() as patch:
        second = stopping(patch, None)
        made = write_clean(found, out, above_cosine=LIMIT, **HERE)
    assert len(first) == 3
    assert not set(first) & set(second)
    assert files_of(out / "files") == files_of(clean.folder / "files")
    pd.testing.assert_frame_equal(made.dropped, clean.dropped)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean"]
    names = ["clean.json", "dropped.parquet", "files"]
    assert sorted(path.name for path in out.iterdir()) == names


def test_a_finished_one_is_returned_and_another_needs_replace(
    found: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "clean"
    first = write_clean(found, out, above_cosine=LIMIT, **HERE)
    before = len(first.dropped)
    begun = stopping(monkeypatch, None)
    again = write_clean(found, out, above_cosine=LIMIT, **HERE)
    assert (again.record, begun) == (first.record, [])
    with pytest.raises(UsageError, match=r"clean: holds a clean corpus of another .*--replace"):
        write_clean(found, out, above_cosine=0.9, **HERE)
    assert CleanCorpus.load(out).record == first.record
    other = write_clean(found, out, above_cosine=0.9, replace=True, **HERE)
    assert len(other.dropped) < before


def test_large_row_groups_are_copied_in_parts(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_GROUP", 1)
    monkeypatch.setattr(rewriting, "BATCH_ROWS", 3)
    item = rewriting.Input("s", "table.parquet", str(corpus.folder / "table.parquet"), "parquet")
    chosen = np.array([1, 2, 7, 8, 9, 20])
    rewriting.copy_records(item, tmp_path / "t.parquet", chosen, 2**20)
    whole = pq.read_table(corpus.folder / "table.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(whole.take(chosen - 1))
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 4


def test_what_stands_behind_damage_is_not_written(tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", 2)
    rng = random.Random(3)
    # Compressed in parts, so that some records can be read.
    lines = [json.dumps({"body": text(rng)}).encode() + b"\n" for _ in range(40)]
    data = gzip.compress(b"".join(lines[:30]), mtime=0) + gzip.compress(b"".join(lines[30:]))[:-200]
    (tmp_path / "cut.jsonl.gz").write_bytes(data)
    made = manifest("paths = ['cut.jsonl.gz']\ntext = 'body'")
    found = scan(made, tmp_path / "scan", skip_unreadable=True)
    clean = write_clean(found, tmp_path / "clean", above_cosine=LIMIT, **HERE)
    written = unpacked(clean.folder / "files" / "cut.jsonl.gz")
    read = found.record["documents"]["read"]
    assert 30 <= read < 40
    assert written == b"".join(lines[:read])


def test_a_damaged_column_that_the_scan_did_not_read_is_an_error(tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", 2)
    rng, mark = random.Random(3), b"spoil these bytes"
    table = pa.table({"text": [text(rng) for _ in range(20)], "more": [mark] * 20})
    path = tmp_path / "t.parquet"
    pq.write_table(
        table, path, compression="none", use_dictionary=False, write_statistics=False,
        write_page_checksum=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes().replace(mark, mark.upper()))
    found = scan(manifest("paths = ['t.parquet']"), tmp_path / "scan")
    with pytest.raises(DataError, match=r"t\.parquet: its records cannot be copied .*\nRepair"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT, **HERE)
    assert not (tmp_path / "clean").exists()


def test_a_corpus_that_the_package_makes(tmp_path: Path) -> None:
    made = Manifest.parse(
        "summary = 'made'\n[generated]\nitems = 10\ndocuments = 60\n[embedding]\n"
        "model = 'hashing'\n",
        "made.toml",
    )
    found = scan(made, tmp_path / "scan")
    clean = write_clean(found, tmp_path / "clean", above_cosine=0.95, **HERE)
    truth = pd.read_csv(tmp_path / "scan" / "generated" / "truth.csv", keep_default_na=False)
    assert len(clean.dropped) > 0
    assert set(clean.dropped["item"]) <= set(truth["item"])
    names = ["books.jsonl", "instruct.jsonl.zst", "web-1.jsonl.gz", "web-2.jsonl.gz"]
    assert sorted(files_of(clean.folder / "files")) == names


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Scan]:
    """Return what scans a small corpus with other fields of its source."""
    write_items(tmp_path / "items.jsonl", 2)
    rng = random.Random(3)
    records = [{"id": str(i), "text": text(rng)} for i in range(20)]
    write_records(tmp_path / "data" / "c.jsonl", records)
    return lambda more="paths = ['data/*.jsonl']": scan(manifest(more), tmp_path / "scan")


def test_a_share_is_refused(plain: Callable[..., Scan], tmp_path: Path) -> None:
    found = plain("paths = ['data']\nshare = 0.5")
    with pytest.raises(UsageError, match=r"source 's0': a share of 0\.5 is scanned.*share = 1"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT)


def test_ready_vectors_are_refused(tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", 2)
    np.save(tmp_path / "v.npy", np.eye(4, dtype=np.float32))
    np.save(tmp_path / "q.npy", np.eye(2, 4, dtype=np.float32))
    made = manifest(
        "paths = ['v.npy']\nformat = 'vectors'",
        benchmarks=["path = 'items.jsonl'\nvectors = 'q.npy'"],
    )
    found = scan(made, tmp_path / "scan")
    with pytest.raises(UsageError, match=r"source 's0': has ready vectors, and no texts"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT)


def test_stored_vectors_are_refused(plain: Callable[..., Scan], tmp_path: Path) -> None:
    shutil.rmtree(plain().folder)
    scan(manifest("paths = ['data']"), tmp_path / "first", keep_vectors="fp32")
    found = scan(manifest(top=f"stored = ['{tmp_path}/first/vectors']"), tmp_path / "scan")
    with pytest.raises(UsageError, match=r"stored vectors come without them; scan the corpus"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT)


def test_data_sets_are_refused(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    write_items(tmp_path / "items.jsonl", 2)
    rng = random.Random(3)
    data = datasets.Dataset.from_list([{"text": text(rng)} for _ in range(20)])
    data.save_to_disk(tmp_path / "saved")
    found = scan(manifest("dataset = 'saved'"), tmp_path / "scan")
    with pytest.raises(UsageError, match=r"source 's0': is a Hugging Face data set.*to_parquet"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT)


PLACES = {
    "in a folder": ("paths = ['data']", "data/clean"),
    "above it": ("paths = ['data']", "."),
    "what a glob matches": ("paths = ['data/*']", "data/clean"),
    "in what a glob matches": ("paths = ['d*']", "data/more/clean"),
    "at any depth": ("paths = ['data/**/*.jsonl']", "data/more/clean"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_in_the_corpus_is_refused(
    plain: Callable[..., Scan], tmp_path: Path, case: str
) -> None:
    paths, place = PLACES[case]
    found = plain(paths)
    problem = r"holds files" if place == "." else r"clean: lies in the corpus \(.*\), and would be"
    with pytest.raises(UsageError, match=problem):
        write_clean(found, tmp_path / place, above_cosine=LIMIT)


@pytest.mark.parametrize("place", ["clean", "data/clean"])
def test_a_place_beside_the_files_of_a_glob_is_none_in_the_corpus(
    plain: Callable[..., Scan], tmp_path: Path, place: str
) -> None:
    clean = write_clean(plain(), tmp_path / place, above_cosine=LIMIT, **HERE)
    assert clean.record["counts"]["s0"]["written"] == 20
    assert scan(manifest("paths = ['data/*.jsonl']"), tmp_path / "scan").folder.is_dir()


def test_other_places_that_cannot_be_used(plain: Callable[..., Scan], tmp_path: Path) -> None:
    found = plain()
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    # Beside a clean corpus lie files of others, and in another a scan.
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "clean.json").write_text('{"key": {}, "limits": {}}')
    (tmp_path / "ours" / "mine.txt").write_text("x")
    (tmp_path / "around").mkdir()
    inside = Scan.load(shutil.copytree(found.folder, tmp_path / "around" / "files"))
    for place, problem in (
        ("file", "file: is a file; --write-clean needs a folder"),
        ("full", "full: holds files; --write-clean needs a folder"),
        ("scan/clean", "clean: lies in the folder of the scan"),
        ("link", "link: is a link; --write-clean needs a folder"),
        ("ours", "ours: holds files; --write-clean needs a folder"),
    ):
        with pytest.raises(UsageError, match=problem):
            write_clean(found, tmp_path / place, above_cosine=LIMIT, replace=True)
    assert (tmp_path / "full" / "mine.txt").read_text() == "x"
    assert (tmp_path / "ours" / "mine.txt").read_text() == "x"
    (tmp_path / "around" / "clean.json").write_text('{"key": {}, "limits": {}}')
    with pytest.raises(UsageError, match="around: the scan lies in it; choose another folder"):
        write_clean(inside, tmp_path / "around", above_cosine=LIMIT, replace=True)


def test_files_without_a_document_are_copied_empty(
    plain: Callable[..., Scan], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "empty.jsonl").write_bytes(b"")
    clean = write_clean(plain(), tmp_path / "out", above_cosine=LIMIT, **HERE)
    assert clean.record["counts"]["s0"]["files"] == 2
    assert list((clean.folder / "files").rglob("empty.jsonl"))


def test_timestamps_that_cannot_be_copied_exactly_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "a.parquet"
    when = pa.array([0, 1], pa.timestamp("ns"))
    table = pa.table({"text": ["a", "b"], "at": when})
    pq.write_table(table, source, use_deprecated_int96_timestamps=True)
    item = Input("web", str(source), str(source), "parquet")
    with pytest.raises(DataError, match="column 'at' has timestamps of type INT96"):
        rewriting.copy_records(item, tmp_path / "b.parquet", np.array([1]), 1000)
    assert not (tmp_path / "b.parquet").exists()


def test_a_clean_corpus_that_was_scanned_itself_is_not_replaced(
    plain: Callable[..., Scan], tmp_path: Path
) -> None:
    first = write_clean(plain(), tmp_path / "clean", above_cosine=LIMIT, **HERE)
    before = files_of(first.folder)
    again = scan(manifest("paths = ['clean/files/data/*.jsonl']"), tmp_path / "again")
    with pytest.raises(UsageError, match=r"clean: files of the corpus lie in it, which would be"):
        write_clean(again, first.folder, above_cosine=0.5, replace=True)
    assert files_of(first.folder) == before


def test_nothing_left_is_an_error(plain: Callable[..., Scan], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"all 20 documents are too near.*a higher limit"):
        write_clean(plain(), tmp_path / "clean", above_cosine=-1, **HERE)
    assert not (tmp_path / "clean").exists()


def test_a_corpus_that_has_changed_is_refused(plain: Callable[..., Scan], tmp_path: Path) -> None:
    found = plain()
    write_records(tmp_path / "data" / "c.jsonl", [{"text": "other words than these"}])
    with pytest.raises(UsageError, match=r"has changed since the scan: files of the corpus; scan"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT)


def test_chunks_that_are_not_those_of_the_scan_are_found_out(
    found: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version of a tokenizer makes them."""
    monkeypatch.setattr("bayescontam.scan.dropping.text_hash", lambda text: len(text))
    with pytest.raises(DataError, match=r"near texts \d+ do not occur as often .*\n.*scan again"):
        write_clean(found, tmp_path / "clean", above_cosine=LIMIT, **HERE)
    assert not (tmp_path / "clean").exists()
    # Nothing of it is used when the right version is there again.
    monkeypatch.undo()
    assert len(write_clean(found, tmp_path / "clean", above_cosine=LIMIT, **HERE).dropped) > 20


def test_one_file_in_two_sources_is_refused(plain: Callable[..., Scan], tmp_path: Path) -> None:
    shutil.rmtree(plain().folder)
    twice = manifest("paths = ['data/c.jsonl']", "paths = ['data/c.jsonl']\ntext = 'id'")
    with pytest.raises(UsageError, match=r"data/c\.jsonl: stands twice in the corpus"):
        write_clean(scan(twice, tmp_path / "scan"), tmp_path / "clean", above_cosine=LIMIT)
