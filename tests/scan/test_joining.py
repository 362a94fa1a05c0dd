"""Folders of stored vectors joined to one: the same matches, and nothing half or lost."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import filelock
import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import DataError, TaskError, UsageError
from bayescontam.scan import joining, stored_vectors
from bayescontam.scan.find import find_nearest
from bayescontam.scan.index_build import build_index
from bayescontam.scan.joining import add_vectors
from bayescontam.scan.run import Scan
from bayescontam.scan.stored_vectors import StoredVectors
from bayescontam.scan.vector_index import VectorIndex
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import manifest, tables_of
from tests.support.made_vectors import write_vectors
from tests.support.small_corpus import LONGEST, SEARCH, SEED, Small, scan

SOURCES = {
    "web": "paths = ['web/*.jsonl*']\nstratum = 'kind'\ntext = 'body'",
    "table": "paths = ['table.parquet']\ndocument = 'name'",
    "notes": "paths = ['notes']",
}


def corpus(*names: str, **renamed: str) -> Manifest:
    """Return the manifest of a scan of some sources of the small corpus, by these names."""
    made = manifest(
        *(SOURCES[name] for name in names),
        benchmarks=["path = 'items.jsonl'"],
        top=f"seed = {SEED}",
        chunking=f"min_tokens = 3\nmax_tokens = {LONGEST}",
        search=SEARCH + "shard_chunks = 16",
    )
    text = made.text
    for number, name in enumerate(names):
        text = text.replace(f"name = 's{number}'", f"name = '{renamed.get(name, name)}'")
    return Manifest.parse(text, "made.toml")


def looking_in(*folders: Path, index: Path | None = None, search: str = SEARCH) -> Manifest:
    """Return a manifest that looks for items in stored vectors, or in an index of them."""
    listed = json.dumps([str(folder) for folder in folders])
    top = f"stored = {listed}" if index is None else f"index = '{index}'"
    return manifest(
        benchmarks=["path = 'items.jsonl'"],
        top=f"seed = {SEED}\n{top}",
        chunking=f"min_tokens = 3\nmax_tokens = {LONGEST}",
        search=search,
    )


@pytest.fixture(scope="module")
def folders(small: Small, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return vectors of two scans, in several parts."""
    out = tmp_path_factory.mktemp("folders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_vectors, "_PART", 60)
        for name, made in (("a", corpus("web")), ("b", corpus("table", "notes"))):
            scan(made, out / name, base=small.folder, keep_vectors="fp32")
    return [out / name / "vectors" for name in ("a", "b")]


@pytest.fixture(scope="module")
def joined(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("joined") / "all"
    add_vectors(folders, out)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same_scan(one: Scan, other: Scan) -> None:
    assert tables_of(one.folder) == tables_of(other.folder)
    for name in ("documents", "chunks", "short", "strata", "benchmarks", "search"):
        assert one.record[name] == other.record[name]


def test_a_scan_of_all_is_that_of_the_folders_together(
    folders: list[Path], joined: Path, small: Small, tmp_path: Path
) -> None:
    one = scan(looking_in(joined), tmp_path / "one", base=small.folder)
    both = scan(looking_in(*folders), tmp_path / "both", base=small.folder)
    assert_same_scan(one, both)
    assert one.record["notes"] == both.record["notes"]


def test_an_index_and_find_take_what_was_joined(
    folders: list[Path], joined: Path, small: Small, tmp_path: Path
) -> None:
    build_index(joined, tmp_path / "one")
    build_index(folders, tmp_path / "both")
    for name in ("texts", "occurrences", "sample", "sample_rows"):
        made = [(tmp_path / each / f"{name}.npy").read_bytes() for each in ("one", "both")]
        assert made[0] == made[1]
    scans = [
        scan(looking_in(index=tmp_path / each), tmp_path / f"scan {each}", base=small.folder)
        for each in ("one", "both")
    ]
    assert tables_of(scans[0].folder) == tables_of(scans[1].folder)
    found = [find_nearest(f, "w1 w2 w3", 5, device="cpu") for f in (joined, tmp_path / "both")]
    pd.testing.assert_frame_equal(
        found[0].drop(columns="cosine"), found[1].drop(columns="cosine"), check_dtype=False
    )


def test_files_are_links_and_the_folders_stay_as_they_were(
    folders: list[Path], joined: Path, tmp_path: Path
) -> None:
    before = [contents(folder) for folder in folders]
    parts = [path for f in folders for path in sorted(f.glob("*.npy")) + sorted(f.glob("*.parq*"))]
    made = {path.stat().st_ino for path in joined.iterdir() if path.name != "vectors.json"}
    assert made == {path.stat().st_ino for path in parts}
    shutil.rmtree(shutil.copytree(joined, tmp_path / "all"))
    assert [contents(folder) for folder in folders] == before
    assert sorted(path.name for path in joined.parent.iterdir()) == ["all"]


def test_a_renamed_source_is_that_of_a_scan_by_this_name(
    folders: list[Path], small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_vectors, "_PART", 60)
    named = corpus("table", "notes", table="rows")
    fresh = scan(named, tmp_path / "fresh", base=small.folder, keep_vectors="fp32")
    stored = add_vectors(folders, tmp_path / "all", rename={"2:table": "rows"})
    assert stored.sources == ["web", "rows", "notes"]
    one = scan(looking_in(stored.folder), tmp_path / "one", base=small.folder)
    both = scan(
        looking_in(folders[0], fresh.folder / "vectors"), tmp_path / "both", base=small.folder
    )
    assert_same_scan(one, both)
    for number, part in enumerate(StoredVectors.load(fresh.folder / "vectors").about["parts"]):
        at = number + len(StoredVectors.load(folders[0]).about["parts"])
        tables = [
            pd.read_parquet(tmp_path / "all" / f"{at:06d}.parquet"),
            pd.read_parquet(fresh.folder / "vectors" / f"{part['name']}.parquet"),
        ]
        # Rows of vectors are in another order, as that of texts goes by these hashes too.
        pd.testing.assert_frame_equal(*(table.drop(columns="vector") for table in tables))


def test_what_was_joined_is_joined_again(folders: list[Path], small: Small, tmp_path: Path) -> None:
    other = shutil.copytree(small.folder, tmp_path / "other")
    scan(corpus("notes", notes="web"), tmp_path / "c", base=other, keep_vectors="fp32")
    first = add_vectors(folders, tmp_path / "first")
    stored = add_vectors(
        [first.folder, tmp_path / "c" / "vectors"], tmp_path / "second", rename={"2:web": "more"}
    )
    assert stored.sources == ["web", "table", "notes", "more"]
    assert [entry["sources"] for entry in stored.about["added"]] == [
        ["web"], ["table", "notes"], ["more"],
    ]  # fmt: skip
    with pytest.raises(UsageError, match="the same vectors stand twice"):
        add_vectors([first.folder, folders[0]], tmp_path / "x", rename={"2:web": "other"})


def test_a_folder_beside_one_that_it_was_joined_to_is_not_searched(
    folders: list[Path], small: Small, tmp_path: Path
) -> None:
    renamed = add_vectors(folders, tmp_path / "all", rename={"web": "x", "table": "y"}).folder
    for made in (looking_in(renamed, folders[0]), looking_in(folders[1], renamed)):
        with pytest.raises(UsageError, match=r"same vectors stand twice, in .* and in .*beside"):
            scan(made, tmp_path / "out", base=small.folder)


def test_the_same_files_stored_by_two_scans_are_not_joined(
    folders: list[Path], small: Small, tmp_path: Path
) -> None:
    again = tmp_path / "c" / "vectors"
    text = corpus("web").text.replace("seed = 3", "seed = 4")
    scan(Manifest.parse(text, "made.toml"), again.parent, base=small.folder, keep_vectors="fp32")
    message = "and .* are of the same files of a corpus, .* count twice; give one of them"
    with pytest.raises(UsageError, match=message) as refused:
        add_vectors([folders[0], again], tmp_path / "all")
    assert "--rename" not in str(refused.value)
    for index in (folders[0], add_vectors(folders, tmp_path / "all").folder):
        with pytest.raises(UsageError, match=message):
            build_index([index, again], tmp_path / "index")
    renamed = add_vectors(again, tmp_path / "renamed", rename={"web": "other"}).folder
    with pytest.raises(UsageError, match=message):
        scan(looking_in(folders[0], renamed), tmp_path / "out", base=small.folder)


def test_shortest_texts_of_each_scan_are_noted(
    folders: list[Path], small: Small, tmp_path: Path
) -> None:
    text = corpus("notes", notes="long").text.replace("min_tokens = 3", "min_tokens = 9")
    made = Manifest.parse(text, "made.toml")
    scan(made, tmp_path / "c", base=small.folder, keep_vectors="fp32")
    both = [folders[0], tmp_path / "c" / "vectors"]
    stored = add_vectors(both, tmp_path / "all")
    assert stored.about["min_tokens"] == 9
    one = scan(looking_in(stored.folder), tmp_path / "one", base=small.folder)
    apart = scan(looking_in(*both), tmp_path / "both", base=small.folder)
    assert_same_scan(one, apart)
    [note] = [note for note in one.record["notes"] if "were left out when" in note]
    assert note.startswith(f"{stored.folder} (long): texts below 9 tokens were left out")
    assert len(one.record["notes"]) == len(apart.record["notes"])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Path]]:
    """Give two folders of made vectors, which both have the source 'made'."""
    for name, texts in (("a", 50), ("b", 30)):
        write_vectors(tmp_path / name, texts, part=20)
    folders = [tmp_path / name for name in ("a", "b")]
    before = [contents(folder) for folder in folders]
    yield folders
    assert [contents(folder) for folder in folders] == before


NAMES = {"2:made": "other"}


def test_a_finished_folder_is_returned_and_another_is_refused(
    pair: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "all"
    add_vectors(pair, out, rename=NAMES)
    before = contents(out), (out / "vectors.json").stat().st_mtime_ns
    add_vectors(pair, out, rename=NAMES)
    assert (contents(out), (out / "vectors.json").stat().st_mtime_ns) == before
    with pytest.raises(UsageError, match="holds other vectors, or other names of sources; choose"):
        add_vectors(pair, out, rename={"2:made": "third"})
    with pytest.raises(UsageError, match="holds other vectors"):
        add_vectors(pair[0], out)
    (out / "000001.npy").unlink()
    add_vectors(pair, out, rename=NAMES)  # made again
    assert contents(out).keys() == before[0].keys()
    stored = add_vectors(pair, out, rename={"2:made": "third"}, replace=True)
    assert stored.sources == ["made", "third"]


def test_files_of_others_are_left_alone(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds files, and no vectors that 'vectors add' joined"):
        add_vectors(pair, out, rename=NAMES, replace=True)
    (out / "thesis.txt").rename(tmp_path / "thesis.txt")
    with pytest.raises(UsageError, match=r"thesis\.txt: is a file; --out needs a new folder"):
        add_vectors(pair, tmp_path / "thesis.txt", rename=NAMES)
    (tmp_path / ".all.part").mkdir()
    (tmp_path / ".all.part" / "mine").write_text("mine")
    with pytest.raises(UsageError, match=r"\.all\.part: holds files, and is where vectors are"):
        add_vectors(pair, out, rename=NAMES)
    shutil.rmtree(tmp_path / ".all.part")
    assert add_vectors(pair, out, rename=NAMES).sources == ["made", "other"]  # it was empty
    for place in (pair[0], pair[0] / "all", tmp_path):
        with pytest.raises(UsageError, match="is among the vectors that are joined, or holds"):
            add_vectors(pair, place, rename=NAMES, replace=True)


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({}, r"source 'made': is in .*a and in .*b, .*give it another name: --rename 2:made=NAME"),
        ({"made": "x"}, r"source 'x': is in .*--rename 2:made=NAME"),
        ({"2:mad": "x"}, "no source is called '2:mad'; allowed are 'made', alone or after"),
        ({"3:made": "x"}, "no source is called '3:made'"),
        ({"2:made": ""}, r"rename: '2:made' gets a name of 0 characters; allowed are 1 to 4,096"),
    ],
)
def test_names_that_stand_twice_or_nowhere_are_refused(
    pair: list[Path], tmp_path: Path, rename: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        add_vectors(pair, tmp_path / "all", rename=rename)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def change(folder: Path, **values: Any) -> None:
    path = folder / "vectors.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def test_vectors_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "a", 50)
    write_vectors(tmp_path / "wide", 30, dims=48)
    folders, out = [tmp_path / "a", tmp_path / "wide"], tmp_path / "all"
    with pytest.raises(UsageError, match=r"another embedder than .*dims: the first folder 32, her"):
        add_vectors(folders, out, rename=NAMES)
    change(tmp_path / "wide", embedder=StoredVectors.load(folders[0]).about["embedder"])
    with pytest.raises(DataError, match=r"000000\.npy: has vectors of 48 dimensions, .* of 32"):
        add_vectors(folders, out, rename=NAMES)
    change(tmp_path / "wide", precision="fp32")
    with pytest.raises(UsageError, match=r"wide: holds vectors in fp32, .*a in fp16; store one"):
        add_vectors(folders, out, rename=NAMES)
    with pytest.raises(UsageError, match="the same vectors stand twice"):
        add_vectors([folders[0], folders[0]], out)
    with pytest.raises(UsageError, match="vectors: is empty"):
        add_vectors([], out)
    path = folders[0] / "000000.npy"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"000000\.npy: has [\d,]+ bytes, [\d,]+ were written: cut"):
        add_vectors(folders[0], out)
    assert not out.exists()


def test_a_record_of_joined_vectors_that_was_changed_is_refused(
    pair: list[Path], tmp_path: Path
) -> None:
    out = add_vectors(pair, tmp_path / "all", rename=NAMES).folder
    change(out, added=[{"sources": ["made"]}])
    with pytest.raises(DataError, match=r"vectors\.json: lacks 'added': it was changed"):
        StoredVectors.load(out)


def test_a_damaged_table_of_renamed_sources_is_named(tmp_path: Path) -> None:
    write_vectors(tmp_path / "a", 50)
    path = tmp_path / "a" / "000000.parquet"
    whole = path.read_bytes()
    for content in (whole[:-30], b"PAR1 nothing PAR1"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a/000000\.parquet: cannot be read"):
            add_vectors(tmp_path / "a", tmp_path / "all", rename={"made": "x"})
    path.write_bytes(whole)
    assert add_vectors(tmp_path / "a", tmp_path / "all", rename={"made": "x"}).sources == ["x"]


def test_where_there_are_no_links_files_are_copied(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = contents(add_vectors(pair, tmp_path / "linked", rename=NAMES).folder)

    def refused(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(joining.os, "link", refused)
    usage = joining.shutil.disk_usage
    monkeypatch.setattr(joining.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(UsageError, match=r"cannot be linked take .* MB, 0\.0 MB are free"):
        add_vectors(pair, tmp_path / "all", rename=NAMES)
    monkeypatch.setattr(joining.shutil, "disk_usage", usage)
    out = add_vectors(pair, tmp_path / "all", rename=NAMES).folder
    copied = contents(out)
    linked.pop("vectors.json")
    copied.pop("vectors.json")
    assert copied == linked
    assert all(path.stat().st_nlink == 1 for path in out.iterdir())


def test_a_full_disk_loses_nothing(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, make = [], joining._make

    def full(file: Any, target: Path) -> None:
        calls.append(target.name)
        if len(calls) == 6:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        make(file, target)

    monkeypatch.setattr(joining, "_make", full)
    with pytest.raises(TaskError, match="free some space, then run the same command again"):
        add_vectors(pair, tmp_path / "all", rename=NAMES)
    assert not (tmp_path / "all").exists()
    add_vectors(pair, tmp_path / "all", rename=NAMES)
    assert len(calls) == 11  # five parts of two files, one of them twice
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all", "b"]


PROGRAM = """
import os, signal, sys
from bayescontam.scan import joining
make, calls = joining._make, 0

def killed(file, target):
    global calls
    calls += 1
    if calls == int(sys.argv[4]):
        with joining.atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    make(file, target)

joining._make = killed
joining.add_vectors(sys.argv[1:3], sys.argv[3], rename={"2:made": "other"})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_leaves_nothing_half(pair: list[Path], tmp_path: Path) -> None:
    whole, out, part = tmp_path / "whole", tmp_path / "all", tmp_path / ".all.part"
    add_vectors(pair, whole, rename=NAMES)
    before: dict[str, int] = {}
    for moment in (3, 4):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, pair), str(out), str(moment)],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        assert not out.exists()
        assert any(part.glob(".*.part"))  # half a file, under a name of its own
        made = {path.name: path.stat().st_mtime_ns for path in part.glob("[0-9]*")}
        assert before.items() <= made.items()
        before = made
    assert len(before) == 5
    add_vectors(pair, out, rename=NAMES)
    assert before == {name: (out / name).stat().st_mtime_ns for name in before}
    names = [path.name for path in whole.iterdir() if path.name != "vectors.json"]
    for name in names:
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    records = [json.loads((f / "vectors.json").read_text("utf-8")) for f in (out, whole)]
    for record in records:
        record.pop("created")
    assert records[0] == records[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all", "b", "whole"]


def test_a_kill_while_an_old_folder_is_replaced_loses_nothing(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, rename = tmp_path / "all", Path.rename
    add_vectors(pair[:1], out)

    def stop(self: Path, target: Path) -> Path:
        if self == tmp_path / ".all.part":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            add_vectors(pair, out, rename=NAMES, replace=True)
    # The old one is aside, whole, until the new one is there.
    assert not out.exists()
    StoredVectors.load(tmp_path / ".all.old.part")
    add_vectors(pair, out, rename=NAMES, replace=True)
    assert len(StoredVectors.load(out).about["added"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all", "b"]


def test_what_else_a_replaced_folder_holds_is_not_lost(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    add_vectors(pair[:1], out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(
        UsageError, match=r"would be replaced, and holds 'notes\.txt' too; move that"
    ):
        add_vectors(pair, out, rename=NAMES, replace=True)
    (out / "000000.npy").unlink()
    with pytest.raises(UsageError, match="would be replaced, and holds 'notes"):
        add_vectors(pair[:1], out)
    assert (out / "notes.txt").read_text() == "mine"


def test_folders_behind_links_are_joined_by_links(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(pair[0].parent)
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "empty")
    monkeypatch.setattr(joining.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    folders = [tmp_path / "link" / pair[0].name]
    add_vectors(folders, tmp_path / "out")
    assert (tmp_path / "empty" / "vectors.json").is_file()


@pytest.mark.parametrize("name", ["x\udcff", 5])
def test_names_that_are_no_text_are_refused(pair: list[Path], tmp_path: Path, name: Any) -> None:
    with pytest.raises(UsageError, match=r"rename: '2:made' gets the name .*; a text is needed"):
        add_vectors(pair, tmp_path / "all", rename={"2:made": name})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_two_runs_do_not_join_in_one_place(pair: list[Path], tmp_path: Path) -> None:
    part = tmp_path / ".all.part"
    part.mkdir()
    refused = pytest.raises(UsageError, match="another run joins vectors there; wait for it")
    with filelock.FileLock(part / ".lock"), refused:
        add_vectors(pair, tmp_path / "all", rename=NAMES)
    add_vectors(pair, tmp_path / "all", rename=NAMES)


def test_an_index_of_joined_vectors_is_moved_with_them(pair: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "place"
    add_vectors(pair, place / "all", rename=NAMES)
    build_index(place / "all", place / "index")
    for folder in pair:
        shutil.move(folder, tmp_path / f"gone {folder.name}")
    shutil.move(place, tmp_path / "moved")
    index = VectorIndex.load(tmp_path / "moved" / "index")
    assert index.stored[0].sources == ["made", "other"]
    assert np.isfinite(index.vectors(np.arange(5))).all()
    for folder in pair:
        shutil.move(tmp_path / f"gone {folder.name}", folder)
