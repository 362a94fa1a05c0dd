"""Scans in processes of their own that are killed, and what they find in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bayescontam.scan.run import run_scan
from tests.support.corpora import (
    leftovers,
    manifest,
    shard_lines,
    tables_of,
    text,
    write_items,
    write_records,
)

SHARDS, ROWS, JOBS = 100, 16, 2
SEARCH = "top_k = 10\ntail_size = 10\nshard_chunks = 16"


def write_corpus(folder: Path) -> Path:
    """Write a corpus of `SHARDS` × `ROWS` chunks, 20 items and a manifest."""
    rng = random.Random(1)
    for part in range(4):
        names = range(part, SHARDS * ROWS, 4)
        write_records(
            folder / f"part-{part}.jsonl.gz",
            ({"id": f"d{i}", "text": text(rng), "kind": f"k{i % 3}"} for i in names),
        )
    write_items(folder / "items.jsonl", 20)
    made = manifest("paths = ['part-*']\nstratum = 'kind'", search=SEARCH)
    (folder / "m.toml").write_text(made.text)
    return folder


def start(corpus: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    """Start a scan in a process group of its own."""
    options = ["--out", out, "--device", "cpu", "--quiet", "--jobs", str(JOBS), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "bayescontam", "scan", "m.toml", *options],
        cwd=corpus,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def reached(out: Path, stage: str, shards: int) -> bool:
    """Return whether a scan has come to a stage."""
    if stage == "write":
        return any(out.glob(".*.parquet.*.part"))
    return any((out / "work").glob(f"{stage}-*")) and len(shard_lines(out)) >= shards


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> bool:
    """Wait; say whether the process still runs when the condition holds."""
    while process.poll() is None:
        if condition():
            return True
        time.sleep(0.002)
    return False


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes of a scan's group but the first."""
    reported = subprocess.run(
        ["ps", "-eo", "pid=,pgid="], capture_output=True, text=True, check=True
    )
    pairs = [tuple(map(int, line.split())) for line in reported.stdout.splitlines()]
    return [pid for pid, group in pairs if group == process.pid != pid]


def wait_for_none(process: subprocess.Popen[bytes]) -> bool:
    """Return whether all workers end, within some seconds."""
    for _ in range(100):
        if not children(process):
            return True
        time.sleep(0.1)
    return False


def assert_killing_changes_nothing(
    corpus: Path, moments: Sequence[tuple[str, int]], keep_vectors: bool = False
) -> None:
    """Kill a scan at each of the `moments`, end it, and hold it against one that was not killed.

    This process ends it, and makes the other: workers would take seconds to start.

    A moment is the stage that the kill falls into, and the shards that are searched by then.
    At every second moment the workers are killed with the scan.
    """

    def finish(name: str) -> None:
        kept = "fp16" if keep_vectors else None
        run_scan(corpus / "m.toml", corpus / name, jobs=1, device="cpu", keep_vectors=kept)

    finish("whole")
    assert len(shard_lines(corpus / "whole")) == SHARDS
    rng, out, kills = random.Random(2), corpus / "killed", 0
    for turn, (stage, shards) in enumerate(moments):
        process = start(corpus, "killed", *["--keep-vectors"] * keep_vectors)
        came = wait_for(process, lambda: reached(out, stage, shards))  # noqa: B023
        time.sleep(rng.uniform(0, 0.3 if stage != "write" else 0.05))
        workers = children(process) if turn % 2 else []
        for pid in (process.pid, *workers):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.communicate(timeout=60)
        assert came, f"the scan ended before {stage} at {shards} shards"
        kills += process.returncode == -signal.SIGKILL
        assert wait_for_none(process), "workers outlive the scan"
    assert kills >= len(moments) - 1  # the last one may come too late
    finish("killed")
    assert tables_of(out) == tables_of(corpus / "whole")
    lines = shard_lines(out)
    reported = {line.split(":")[0] for line in lines}
    unlisted = {f"shard {i}" for i in range(SHARDS)} - reported
    # A kill may fall between a shard's result and its line.
    assert len(reported) + len(unlisted) == SHARDS
    assert len(unlisted) <= kills * JOBS
    assert len(lines) <= SHARDS + kills * JOBS
    assert leftovers(out) == []
