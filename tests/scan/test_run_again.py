"""Scans run again: interrupted, finished, or of something that has changed since."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import bayescontam
from bayescontam.scan.run import Scan, run_scan
from bayescontam.specs.corpus import Embedding, Generated, Manifest, Search
from tests.support.corpora import (
    leftovers,
    manifest,
    shard_lines,
    tables_of,
    text,
    write_items,
    write_records,
)
from tests.support.small_corpus import Small, interrupted, scan, small_manifest


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


def test_a_copy_without_its_hidden_lock_is_resumed(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    interrupted(small.manifest, tmp_path / "out", 4, base=small.folder)
    out = tmp_path / "copy"
    shutil.copytree(tmp_path / "out", out, ignore=shutil.ignore_patterns(".lock"))
    scan(small.manifest, out, base=small.folder)
    # What was searched is not searched again.
    assert len(shard_lines(out)) == scanned.record["search"]["shards"]
    assert tables_of(out) == tables_of(scanned.folder)
    assert leftovers(out) == []


def test_a_folder_named_as_that_of_work_is_left_alone(small: Small, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("mine")
    with pytest.raises(bayescontam.UsageError, match="holds files, and no scan"):
        scan(small.manifest, tmp_path, base=small.folder)
    assert (tmp_path / "work" / "thesis.txt").read_text() == "mine"


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
        spec = Manifest.parse(f"{made}documents = {documents}\n", "made.toml")
        scan = run_scan(spec, tmp_path / "out", jobs=1, device="cpu", keep_work=True, replace=True)
        assert scan.record["documents"]["read"] == documents


def test_counts_that_an_earlier_version_did_not_make_are_made_again(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    interrupted(small.manifest, out, 4, base=small.folder)
    reports = list(out.glob("work/chunk-*/*.json"))
    assert reports
    for path in reports:
        report = json.loads(path.read_text())
        del report["by_source"]
        path.write_text(json.dumps(report))
    found = scan(small.manifest, out, base=small.folder)
    # The chunks are the same, so that what was searched is not searched again.
    assert len(shard_lines(out)) == scanned.record["search"]["shards"]
    assert tables_of(out) == tables_of(scanned.folder)
    assert found.record["short"] == scanned.record["short"]
