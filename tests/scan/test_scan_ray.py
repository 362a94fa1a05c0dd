"""Scans on Ray find what scans in this process do."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from bayescontam.scan.run import run_scan
from bayescontam.scan.sketch import SketchMerger
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import (
    leftovers,
    manifest,
    shard_lines,
    tables_of,
    text,
    write_items,
    write_records,
)
from tests.support.ray_cluster import cluster
from tests.support.workers import actors

__all__ = ["cluster"]

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.usefixtures("cluster")]

SHARDS = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """Write a corpus; return its folder and the manifest of a scan of it."""
    folder, rng = tmp_path_factory.mktemp("ray"), random.Random(1)
    for part in range(3):
        names = range(part, SHARDS * 16, 3)
        write_records(
            folder / f"{part}.jsonl.zst",
            ({"id": f"d{i}", "text": text(rng), "kind": f"k{i % 3}"} for i in names),
        )
    write_items(folder / "items.jsonl", 20)
    search = "top_k = 10\ntail_size = 10\nshard_chunks = 16"
    return folder, manifest("paths = ['*.zst']\nstratum = 'kind'", search=search)


@pytest.fixture(scope="module")
def wanted(made: tuple[Path, Manifest]) -> dict[str, bytes]:
    folder, spec = made
    return tables_of(run_scan(spec, folder / "here", base=folder, jobs=1, device="cpu").folder)


def test_ray_finds_the_same_and_killed_actors_change_nothing(
    made: tuple[Path, Manifest], wanted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, merged, killed = SketchMerger.take, 0, 0

    def killing(self: SketchMerger, key: str) -> None:
        nonlocal merged, killed
        take(self, key)
        merged += 1
        if merged in (3, 16):
            os.kill(actors()[0], signal.SIGKILL)
            killed += 1

    monkeypatch.setattr(SketchMerger, "take", killing)
    folder, spec = made
    options: dict[str, Any] = {"engine": "ray", "jobs": 2, "device": "cpu", "base": folder}
    out = run_scan(spec, folder / "killed", **options).folder
    assert killed == 2
    assert tables_of(out) == wanted
    # A kill may fall between a shard's result and its line; the tables are equal all the same.
    assert SHARDS - killed <= len(shard_lines(out)) <= SHARDS + killed
    assert leftovers(out) == []
