"""Scans whose embedder is behind an endpoint: as with one that is loaded here."""

import json
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam.errors import DataError, TaskError, UsageError
from bayescontam.scan.find import find_nearest
from bayescontam.scan.run import Scan
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import leftovers, manifest, shard_lines, tables_of
from tests.support.embedding_server import embeddings, hashed, lines_of, served, texts_sent
from tests.support.endpoints import server, short_waits
from tests.support.killed_scans import wait_for
from tests.support.llm_server import Reply, Server, fault, running
from tests.support.small_corpus import SEARCH, SEED, Small, interrupted, scan

__all__ = ["server", "short_waits"]

pytest.importorskip("openai")

KEY = "secret-7"


@pytest.fixture(autouse=True)
def embeds(server: Server) -> None:
    server.behave = hashed


def at(server: Server, small: Small, **settings: Any) -> Manifest:
    """Return the small manifest, with its embedder at the server."""
    lines = lines_of(served(server, request_texts=5, **settings))
    text = small.manifest.text.replace("model = 'hashing'", f"model = 'hashing'\n{lines}")
    return Manifest.parse(text, "made.toml")


def in_process(corpus: Path, made: Manifest, out: Path) -> subprocess.Popen[bytes]:
    """Start a scan of two workers by the command line."""
    path = corpus / "killed.toml"
    path.write_text(made.text, "utf-8")
    options = ["--out", str(out), "--device", "cpu", "--quiet", "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "bayescontam", "scan", str(path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tables_are_those_of_the_embedder_loaded_here(
    server: Server, small: Small, scanned: Scan, tmp_path: Path, jobs: int
) -> None:
    server.behave = lambda request: Reply(hashed(request).body, delay=0.02)
    made = at(server, small, concurrency=2)
    found = scan(made, tmp_path / "out", base=small.folder, jobs=jobs)
    assert tables_of(found.folder) == tables_of(scanned.folder)
    assert leftovers(found.folder) == []
    assert found.record["embedder"]["endpoint"] == server.base_url
    assert found.record["documents"] == scanned.record["documents"]
    # Workers share what is allowed.
    assert server.most_at_once == 2


def test_local_and_served_models_of_one_name_are_two(
    server: Server, small: Small, tmp_path: Path
) -> None:
    made = at(server, small)
    assert made.hash != small.manifest.hash
    scan(made, tmp_path / "out", base=small.folder)
    with pytest.raises(UsageError, match="has changed since: manifest"):
        scan(small.manifest, tmp_path / "out", base=small.folder)


def test_where_and_how_it_is_served_does_not_count(
    server: Server, small: Small, scanned: Scan, tmp_path: Path
) -> None:
    made, out = at(server, small), tmp_path / "out"
    interrupted(made, out, after=5, base=small.folder)
    with running() as other:
        other.behave = hashed
        moved = at(other, small, concurrency=3, timeout=20.0, max_tokens_total=10**6)
        assert moved.hash == made.hash
        found = scan(moved, out, base=small.folder)
        before, after = texts_sent(server), texts_sent(other)
    assert tables_of(found.folder) == tables_of(scanned.folder)
    assert len(shard_lines(out)) == found.record["search"]["shards"]
    assert len(before) + len(after) == sent_in_all(server, small, tmp_path)
    again = scan(made, out, base=small.folder)  # finished: nothing is sent
    assert again.record["created"] == found.record["created"]


def sent_in_all(server: Server, small: Small, folder: Path) -> int:
    """Return how many texts are sent by a scan that nothing interrupts."""
    server.requests.clear()
    scan(at(server, small), folder / "whole", base=small.folder)
    return len(texts_sent(server))


def test_a_failure_within_a_shard_costs_no_text_twice(
    server: Server, small: Small, scanned: Scan, tmp_path: Path
) -> None:
    whole, out = sent_in_all(server, small, tmp_path), tmp_path / "out"
    made = at(server, small, concurrency=1, retries=0)
    answered: list[str] = []
    for turn in range(1, 6):
        server.requests.clear()
        # The fifth request of each run but the last fails, within items or within a shard.
        server.behave = lambda request: (
            hashed(request) if len(server.requests) < 5 or turn == 5 else fault(500, "down")  # noqa: B023
        )
        if turn < 5:
            with pytest.raises(TaskError, match=r"down.*run the same command again"):
                scan(made, out, base=small.folder)
            answered += [t for r in server.requests[:-1] for t in r.body["input"]]
        else:
            found = scan(made, out, base=small.folder)
            answered += texts_sent(server)
    assert tables_of(found.folder) == tables_of(scanned.folder)
    assert len(answered) == whole


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_scan_sends_only_what_is_left(
    server: Server, small: Small, scanned: Scan, tmp_path: Path
) -> None:
    whole, out = sent_in_all(server, small, tmp_path), tmp_path / "out"
    server.requests.clear()
    server.behave = lambda request: Reply(hashed(request).body, delay=0.05)
    made = at(server, small, concurrency=2)
    process = in_process(small.folder, made, out)
    assert wait_for(process, lambda: len(shard_lines(out)) >= 2)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    before = len(texts_sent(server))
    assert 0 < before < whole
    scan(made, out, base=small.folder)
    assert tables_of(out) == tables_of(scanned.folder)
    # Under way at the kill were two requests of five texts at most.
    assert whole <= len(texts_sent(server)) <= whole + 2 * 5
    assert leftovers(out) == []


def refused(made: Manifest, out: Path, base: Path) -> str:
    """Return why a scan ends early; nothing if it does not."""
    try:
        scan(made, out, base=base)
    except TaskError as error:
        return str(error)
    return ""


def test_a_budget_stops_the_scan_and_another_run_goes_on(
    server: Server, small: Small, scanned: Scan, tmp_path: Path
) -> None:
    whole, out, runs = sent_in_all(server, small, tmp_path), tmp_path / "out", 0
    server.requests.clear()
    made = at(server, small, max_tokens_total=1500, concurrency=2)
    before = 0
    while message := refused(made, out, small.folder):
        assert "the 1,500 tokens of embedding.max_tokens_total are used up" in message
        sent = [t for r in server.requests[before:] for t in r.body["input"]]
        assert 1000 < sum(len(text.split()) for text in sent) <= 1500
        before, runs = len(server.requests), runs + 1
    assert runs >= 2
    assert len(texts_sent(server)) == whole
    assert tables_of(out) == tables_of(scanned.folder)


def test_the_key_is_in_no_file_and_no_message(
    server: Server, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    # One request at a time: vectors of chunks are stored before the next request is sent.
    made, out = at(server, small, api_key_env="MY_KEY", concurrency=1), tmp_path / "out"
    server.behave = lambda request: (
        fault(401, f"bad key {KEY}") if any(out.rglob("passage-*")) else hashed(request)
    )
    with pytest.raises(UsageError, match="bad key …") as caught:
        scan(made, out, base=small.folder)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    stopped = [path for path in out.rglob("*") if path.is_file()]
    assert any(path.name.startswith("passage-") for path in stopped)
    server.behave = hashed
    scan(made, out, base=small.folder, keep_work=True, keep_vectors="fp32")
    files = [path for path in out.rglob("*") if path.is_file()]
    assert [path for path in (*stopped, *files) if _holds(path, KEY)] == []
    assert all(r.headers["authorization"] == f"Bearer {KEY}" for r in server.requests)


def _holds(path: Path, key: str) -> bool:
    return path.exists() and key.encode() in path.read_bytes()


def of_stored(vectors: Path, server: Server) -> Manifest:
    """Return the small manifest with stored vectors in place of its sources."""
    return manifest(
        benchmarks=("path = 'items.jsonl'", "path = 'more.csv'\ntext_mode = 'input_output'"),
        top=f"seed = {SEED}\nstored = {json.dumps([str(vectors)])}",
        embedding=lines_of(served(server)),
        chunking="min_tokens = 3",
        search=SEARCH,
    )


def test_vectors_stored_of_a_served_model_are_searched_where_it_is_served_now(
    server: Server, small: Small, scanned: Scan, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    scan(at(server, small), out, base=small.folder, keep_vectors="fp32")
    text = scanned.texts["text"].iloc[3]
    with running() as other:
        other.behave = hashed
        found = find_nearest(out / "vectors", text, 3, device="cpu", endpoint=other.base_url)
        assert found["text"].iloc[0] == text
        assert text in texts_sent(other)
        # Not the address that the folder names: text and key would go anywhere.
        with pytest.raises(UsageError, match=r"'hashing' of the vectors was served at http.*; g"):
            find_nearest(out / "vectors", text, device="cpu")
        with pytest.raises(UsageError, match="--endpoint: an address that begins with http"):
            find_nearest(out / "vectors", text, device="cpu", endpoint="localhost")
        again = scan(of_stored(out / "vectors", other), tmp_path / "again", base=small.folder)
        assert len(texts_sent(other)) < 30
    with running() as other:
        other.behave = lambda _: embeddings([[1.0] * 8])
        with pytest.raises(UsageError, match=r"another embedder.*dims: vectors 256, here 8"):
            find_nearest(out / "vectors", text, device="cpu", endpoint=other.base_url)
    first = Scan.load(out)
    pd.testing.assert_frame_equal(again.matches, first.matches)


def test_a_folder_cannot_name_where_texts_are_sent(
    server: Server, small: Small, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    scan(small.manifest, out, base=small.folder, keep_vectors="fp32")
    with pytest.raises(UsageError, match="'hashing' of the vectors is loaded here, not served: l"):
        find_nearest(out / "vectors", "w1", device="cpu", endpoint=server.base_url)
    record = out / "vectors" / "vectors.json"
    about = json.loads(record.read_text("utf-8"))
    about["embedding"] |= {"endpoint": server.base_url, "max_tokens": 2048}
    record.write_text(json.dumps(about), "utf-8")
    find_nearest(out / "vectors", "w1", device="cpu")
    about["embedding"]["tokenizer"] = "hashing"
    record.write_text(json.dumps(about), "utf-8")
    with pytest.raises(UsageError, match=r"give the address where it is served now \(--endpoint\)"):
        find_nearest(out / "vectors", "w1", device="cpu")
    about["embedding"] |= {"precision": "fp16"}
    record.write_text(json.dumps(about), "utf-8")
    with pytest.raises(DataError, match="its 'embedding' is none that this version knows"):
        find_nearest(out / "vectors", "w1", device="cpu", endpoint=server.base_url)
    assert server.requests == []
