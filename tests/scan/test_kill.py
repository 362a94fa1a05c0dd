"""Scans that are killed again and again find, and store, what an uninterrupted one does.

More kills, in every stage, are in ``benchmarks/test_kill.py``.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from bayescontam.errors import DataError
from bayescontam.scan.stored_vectors import StoredVectors
from tests.support.corpora import leftovers, tables_of
from tests.support.forks import forking
from tests.support.killed_scans import assert_killing_changes_nothing, write_corpus
from tests.support.small_corpus import Small, interrupted, scan

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
MOMENTS = [("table", 3), ("vectors", 2), ("log", 3), ("sketch", 2), ("join", 2), ("record", 1)]
"""What is about to happen when the scan is killed, and for the how many-th time."""


@pytest.mark.slow
def test_killed_in_three_stages_while_vectors_are_stored(tmp_path: Path) -> None:
    moments = [("read", 0), ("search", 60), ("write", 0)]
    assert_killing_changes_nothing(write_corpus(tmp_path), moments, keep_vectors=True)
    assert_same_vectors(tmp_path / "killed", tmp_path / "whole")


PROGRAM = """
import os, signal, sys
from types import SimpleNamespace
import torch  # once: that takes seconds
from bayescontam.scan import chunking, shard_search, stored_vectors
from bayescontam.scan.run import run_scan

def killing(module, name, count):
    function, calls = getattr(module, name), 0

    def counted(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(module, name, counted)

embedded = chunking.TextShard.embedded

def run(out, moment, count):
    def listed(self, embedder):
        with open("embedded.txt", "a") as file:
            file.write(os.path.relpath(self.path, out) + "\\n")
        return embedded(self, embedder)

    chunking.TextShard.embedded = listed
    stored_vectors._PART = 60
    # Chunks are written by it, too.
    stored_vectors.pq = SimpleNamespace(**vars(stored_vectors.pq))
    module, name = {
        "table": (stored_vectors.pq, "write_table"),
        "vectors": (stored_vectors, "_write_vectors"),
        "sketch": (shard_search.Sketch, "save"),
        "log": (shard_search, "append_line"),
        "join": (stored_vectors, "_join"),
        "record": (stored_vectors, "write_json"),
        "nothing": (os, "abort"),
    }[moment]
    killing(module, name, int(count))
    run_scan("made.toml", out, base=sys.argv[1], jobs=1, device="cpu", keep_vectors="fp16")
"""
"""Scans, and is killed when something is about to happen for the how many-th time."""


def embedded(here: Path) -> Counter[str]:
    """Return how often each shard was embedded since this was called last."""
    lines = Counter((here / "embedded.txt").read_text("utf-8").splitlines())
    (here / "embedded.txt").unlink()
    return lines


def assert_same_vectors(one: Path, other: Path) -> None:
    """Assert that two scans stored the same vectors, the time aside."""
    folders = [scanned / "vectors" for scanned in (one, other)]
    names = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert names[0] == names[1]
    for name in names[0]:
        contents = [(folder / name).read_bytes() for folder in folders]
        if name == "vectors.json":
            records = [json.loads(content) for content in contents]
            for record in records:
                record.pop("created")
            assert records[0] == records[1]
        else:
            assert contents[0] == contents[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL")
def test_no_shard_is_embedded_twice_and_vectors_are_the_same(small: Small, tmp_path: Path) -> None:
    (tmp_path / "made.toml").write_text(small.manifest.text)
    with forking(PROGRAM, str(small.folder), cwd=tmp_path) as run:
        assert run("whole", "nothing", "1") == 0
        once = embedded(tmp_path)
        assert set(once.values()) == {1}
        for moment, count in MOMENTS:
            assert run("killed", moment, str(count)) == -signal.SIGKILL
            assert not (tmp_path / "killed" / "vectors").exists()
        assert run("killed", "nothing", "1") == 0
    again = embedded(tmp_path)
    assert again.keys() == once.keys()
    # One that was killed before its result was there is embedded again, and no other.
    lost = [moment for moment, _ in MOMENTS if moment in ("table", "vectors", "sketch")]
    assert again.total() == once.total() + len(lost)
    assert tables_of(tmp_path / "killed") == tables_of(tmp_path / "whole")
    assert_same_vectors(tmp_path / "killed", tmp_path / "whole")
    assert leftovers(tmp_path / "killed") == []


@pytest.mark.parametrize("name", ["000002.npy", "000002.parquet"])
def test_a_shard_that_was_cut_short_is_named(small: Small, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    interrupted(small.manifest, out, 5, base=small.folder, keep_vectors="fp16")
    [path] = out.glob(f"work/search-*/vectors/{name}")
    whole = path.read_bytes()
    for content in (whole[:-40], whole[:3], b""):
        path.write_bytes(content)
        message = rf"vectors/{name}: cannot be read \(.*\)\nRemove the folder .*work/search-\w+ and"
        with pytest.raises(DataError, match=message):
            scan(small.manifest, out, base=small.folder, keep_vectors="fp16")
        assert not (out / "vectors").exists()
    path.unlink()
    with pytest.raises(DataError, match=rf"vectors/{name}: cannot be read"):
        scan(small.manifest, out, base=small.folder, keep_vectors="fp16")
    for child in path.parent.iterdir():
        child.unlink()
    path.parent.rmdir()
    for child in path.parent.parent.iterdir():
        child.unlink()
    scan(small.manifest, out, base=small.folder, keep_vectors="fp16")
    assert StoredVectors.load(out / "vectors").sources == ["s0", "s1", "s2"]
