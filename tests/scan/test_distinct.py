"""Stored vectors of the same files: refused where documents would count twice, and only there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.errors import UsageError
from bayescontam.scan.joining import add_vectors
from bayescontam.scan.stored_vectors import StoredVectors
from bayescontam.specs.corpus import Manifest
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


def stored(folder: Path, source: str, *paths: str) -> Path:
    """Return the vectors of a scan of the corpus by some lines of its source."""
    out = folder / f"out{len(list(folder.iterdir()))}"
    listed = json.dumps(paths or ["docs.jsonl"])
    scan(manifest(f"paths = {listed}\n{source}"), out, keep_vectors="fp32")
    return out / "vectors"


def notes(folder: Path) -> None:
    """Write text files, and records beside them."""
    (folder / "notes").mkdir()
    for number in range(3):
        (folder / "notes" / f"{number}.txt").write_text(f"note {number} on towns and rivers")
    with (folder / "docs.jsonl").open() as lines:
        records = [json.loads(line) for line in lines]
    write_records(folder / "notes" / "records.jsonl", records)


def beside(vectors: Path, paths: str) -> Manifest:
    """Return the manifest of a scan of stored vectors and of a source of some paths."""
    text = manifest(f"paths = {paths}\ntext = 'title'", top=f"stored = ['{vectors}']").text
    return Manifest.parse(text.replace("name = 's0'", "name = 'own'"), "made.toml")


def at_once(vectors: Path) -> None:
    """Change a record to that of an earlier version, which does not list files one by one."""
    path = vectors / "vectors.json"
    about = json.loads(path.read_text("utf-8"))
    about["files"] = {name: own["all"] for name, own in about["files"].items()}
    path.write_text(json.dumps(about), "utf-8")


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


@pytest.mark.parametrize("before", [(), (earlier,) * 2, (at_once,), (at_once,) * 2])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("text = 'text'", "text = 'title'"),
        ("text = 'turns'\nroles = ['user']", "text = 'turns'\nroles = ['system']"),
    ],
)
def test_text_files_are_not_kept_apart_by_fields_or_roles(
    folder: Path, one: str, other: str, before: tuple[Callable[[Path], None], ...]
) -> None:
    notes(folder)
    parts = [stored(folder, each, "notes") for each in (one, other)]
    for each, change in zip(parts, before, strict=False):
        change(each)
    with pytest.raises(UsageError, match="are of the same files of a corpus, or have some in"):
        joined(folder, parts)


def test_text_files_are_kept_apart_by_conditions(folder: Path) -> None:
    notes(folder)
    parts = [stored(folder, f"where = {{lang = '{each}'}}", "notes") for each in ("de", "en")]
    assert joined(folder, parts).sources == ["s0", "other"]


def test_files_that_two_scans_have_in_common_are_found_one_by_one(folder: Path) -> None:
    notes(folder)
    parts = [stored(folder, "", "notes"), stored(folder, "", "notes/1.txt", "docs.jsonl")]
    with pytest.raises(UsageError, match="have some in common, whose documents would count twice"):
        joined(folder, parts)
    titles = stored(folder, "text = 'title'", "notes/records.jsonl", "docs.jsonl")
    texts = stored(folder, "", "notes/1.txt", "notes/records.jsonl")
    assert joined(folder, [titles, texts]).sources == ["s0", "other"]


def test_files_of_sources_beside_stored_vectors_do_not_count_twice(folder: Path) -> None:
    notes(folder)
    whole, records = stored(folder, "", "notes"), stored(folder, "", "notes/records.jsonl")
    for paths in (["notes"], ["notes/1.txt", "docs.jsonl"]):
        with pytest.raises(UsageError, match="and the sources of the manifest are of the same"):
            scan(beside(whole, str(paths)), folder / "out")
    found = scan(beside(records, "['notes/records.jsonl', 'notes/1.txt']"), folder / "out")
    assert not [note for note in found.record["notes"] if "could not be checked" in note]


@pytest.mark.parametrize("before", [earlier, at_once])
def test_what_earlier_versions_did_not_record_is_noted(
    folder: Path, before: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    notes(folder)
    parts = [stored(folder, "", "notes"), stored(folder, "", "notes/1.txt")]
    before(parts[0])
    found = scan(beside(parts[0], "['docs.jsonl', 'notes/1.txt']"), folder / "out")
    noted = [note for note in found.record["notes"] if "could not be checked" in note]
    assert len(noted) == 1
    assert noted[0].startswith(f"vectors: {parts[0]}: stored by an earlier version, which did")
    add_vectors(parts, folder / "all", rename={"2:s0": "other"}, progress=True)
    assert "could not be checked" in " ".join(capsys.readouterr().err.split())


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
