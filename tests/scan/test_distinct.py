"""Stored vectors of the same files: refused where documents would count twice, and only there."""

import json
from pathlib import Path

import pytest

from bayescontam.errors import UsageError
from bayescontam.scan.joining import add_vectors
from bayescontam.scan.stored_vectors import StoredVectors
from tests.support.corpora import manifest, write_items, write_records
from tests.support.small_corpus import scan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a corpus in two languages."""
    write_items(tmp_path / "items.jsonl", 3)
    records = (
        {
            "id": str(i),
            "text": f"document {i} of rivers and towns",
            "title": f"title {i} of a book about stars",
            "lang": "en" if i % 2 else "de",
            "turns": [{"role": role, "content": f"{role} {i}"} for role in ("user", "system")],
        }
        for i in range(10)
    )
    write_records(tmp_path / "docs.jsonl", records)
    return tmp_path


def stored(folder: Path, source: str) -> Path:
    """Return the vectors of a scan of the corpus by some lines of its source."""
    out = folder / f"out{len(list(folder.iterdir()))}"
    scan(manifest(f"paths = ['docs.jsonl']\n{source}"), out, keep_vectors="fp32")
    return out / "vectors"


def joined(folder: Path, parts: list[Path]) -> StoredVectors:
    return add_vectors(parts, folder / "all", rename={"2:s0": "other"})


def earlier(vectors: Path) -> None:
    """Change a record to that of an earlier version, which lists no files by source."""
    path = vectors / "vectors.json"
    about = json.loads(path.read_text("utf-8"))
    del about["files"]
    path.write_text(json.dumps(about), "utf-8")


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("where = {lang = 'en'}", "where = {lang = ['de', 'fr']}"),
        ("text = 'title'", "text = 'text'"),
        ("text = 'turns'\nroles = ['user']", "text = 'turns'\nroles = {system = 'x'}"),
    ],
)
def test_disjoint_parts_of_the_same_files_are_joined(
    folder: Path, one: str, other: str, before: int
) -> None:
    parts = [stored(folder, one), stored(folder, other)]
    for each in parts[:before]:
        earlier(each)
    assert joined(folder, parts).sources == ["s0", "other"]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", "share = 0.5"),
        ("", "where = {lang = 'en'}"),
        ("where = {lang = 'en'}", "where = {lang = ['de', 'en']}"),
        ("text = 'title'", "text = '{title}: {text}'"),
        ("text = 'turns'", "text = 'turns'\nroles = ['user']"),
    ],
)
def test_parts_with_documents_in_common_are_refused(
    folder: Path, one: str, other: str, before: int
) -> None:
    parts = [stored(folder, one), stored(folder, other)]
    for each in parts[:before]:
        earlier(each)
    with pytest.raises(UsageError, match=r"same files of a corpus, .* count twice; .*'where'"):
        joined(folder, parts)


def test_the_same_files_are_recognised_under_another_name_and_beside_others(folder: Path) -> None:
    write_records(folder / "more.jsonl", [{"id": "a", "text": "one more document"}])
    text = manifest("paths = ['more.jsonl']", "paths = ['docs.jsonl']")
    scan(text, folder / "both", keep_vectors="fp32")
    with pytest.raises(UsageError, match="are of the same files of a corpus"):
        joined(folder, [folder / "both" / "vectors", stored(folder, "")])


def test_a_record_that_shows_no_sources_counts_as_the_same(folder: Path) -> None:
    parts = [stored(folder, "where = {lang = 'en'}"), stored(folder, "where = {lang = 'de'}")]
    path = parts[0] / "vectors.json"
    about = json.loads(path.read_text("utf-8"))
    about["manifest"]["text"] = "no TOML"
    path.write_text(json.dumps(about), "utf-8")
    for each in ([], parts):
        for part in each:
            earlier(part)
        with pytest.raises(UsageError, match="are of the same files of a corpus"):
            joined(folder, parts)
