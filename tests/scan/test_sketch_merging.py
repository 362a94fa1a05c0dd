"""Merging of sketches: each shard once, whatever is interrupted."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from bayescontam.errors import TaskError
from bayescontam.scan import sketch as merging
from bayescontam.scan.sketch import Sketch, SketchMerger
from tests.support.searches import hashes, make_chunks, make_queries, search

QUERIES, SHARDS, KEEP = 6, 8, 5


@pytest.fixture(scope="module")
def sketches() -> list[Sketch]:
    """Return the sketches of some shards with random vectors; some chunks stand in two."""
    rng = np.random.default_rng(1)
    queries = make_queries(rng.normal(size=(QUERIES, 4)).astype(np.float32))
    vectors = rng.normal(size=(40 + 20 * SHARDS, 4)).astype(np.float32)
    ids = hashes(len(vectors))
    rows = [np.arange(20 * shard, 20 * shard + 40) for shard in range(SHARDS)]
    return [
        search(
            queries,
            [make_chunks(vectors[r], ids[r], firsts=hashes(40, f"occurrence in {shard}"))],
            KEEP,
            shard=shard,
        )
        for shard, r in enumerate(rows)
    ]


def save(folder: Path, sketches: list[Sketch], *shards: int) -> None:
    for shard in shards:
        sketches[shard].save(folder / f"{shard:06d}.npz")


def start(folder: Path) -> SketchMerger:
    return SketchMerger.resume(folder, Sketch.empty(QUERIES, KEEP))


def assert_is_of(sketch: Sketch, sketches: list[Sketch], *shards: int) -> None:
    """Assert that a sketch is that of some shards, each counted once."""
    assert sketch.shards == set(shards)
    wanted = sum(sketches[shard].counts for shard in shards)
    np.testing.assert_array_equal(sketch.counts, wanted)
    assert sketch.total == 40 * len(shards)


def test_nothing_is_empty(tmp_path: Path) -> None:
    assert start(tmp_path).sketch.total == 0


@pytest.mark.parametrize("order", [range(SHARDS), [3, 1, 4, 0, 7, 2, 6, 5]])
def test_the_order_does_not_matter(
    tmp_path: Path, sketches: list[Sketch], order: list[int]
) -> None:
    made = start(tmp_path)
    for shard in order:
        save(tmp_path, sketches, shard)
        made.take(f"{shard:06d}")
    made.save()
    assert_is_of(made.sketch, sketches, *range(SHARDS))
    whole = sketches[0]
    for other in sketches[1:]:
        whole = whole.merge(other)
    np.testing.assert_array_equal(made.sketch.matches, whole.matches)
    assert [path.name for path in tmp_path.iterdir()] == ["merged.npz"]


def test_what_is_there_is_taken_up(tmp_path: Path, sketches: list[Sketch]) -> None:
    save(tmp_path, sketches, 5, 2)
    (tmp_path / ".000003.npz.abc.part").write_bytes(b"half")
    assert_is_of(start(tmp_path).sketch, sketches, 2, 5)


@pytest.mark.parametrize("removed", list(itertools.product([True, False], repeat=3)))
def test_a_kill_between_saving_and_removing_counts_nothing_twice(
    tmp_path: Path, sketches: list[Sketch], removed: tuple[bool, ...]
) -> None:
    save(tmp_path, sketches, 0, 1, 2)
    start(tmp_path).save()
    # What a kill leaves: some of the files that are merged already.
    save(tmp_path, sketches, *(shard for shard in range(3) if not removed[shard]))
    save(tmp_path, sketches, 3)
    made = start(tmp_path)
    assert_is_of(made.sketch, sketches, 0, 1, 2, 3)
    made.save()
    assert [path.name for path in tmp_path.iterdir()] == ["merged.npz"]
    assert_is_of(start(tmp_path).sketch, sketches, 0, 1, 2, 3)


def test_it_is_saved_now_and_then(
    tmp_path: Path, sketches: list[Sketch], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(merging.time, "monotonic", lambda: now)
    saved = []
    save_sketch = Sketch.save

    def slow(self: Sketch, path: Path) -> None:
        nonlocal now
        saved.append(len(self.shards))
        save_sketch(self, path)
        now += 3

    made = start(tmp_path)
    save(tmp_path, sketches, *range(SHARDS))
    monkeypatch.setattr(Sketch, "save", slow)
    for shard in range(SHARDS):
        now += 19
        made.take(f"{shard:06d}")
    # At first after 20 seconds; then, as it takes 3, after 60, that it stay below a twentieth.
    assert saved == [2, 6]


def test_a_full_disk_is_reported(
    tmp_path: Path, sketches: list[Sketch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    save(tmp_path, sketches, 0)
    made = start(tmp_path)
    monkeypatch.setattr(Sketch, "save", full)
    with pytest.raises(TaskError, match=r"merged\.npz: No space left on device; free some space"):
        made.save()
    monkeypatch.undo()
    assert_is_of(start(tmp_path).sketch, sketches, 0)
