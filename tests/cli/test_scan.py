"""The verb ``scan``: what it prints, how it refuses, and how it stops."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayescontam.scan.results import Scan
from tests.cli.conftest import Done, environment
from tests.support.corpora import (
    leftovers,
    manifest,
    shard_lines,
    tables_of,
    text,
    write_items,
    write_records,
)
from tests.support.full_disk import files_up_to

Run = Callable[..., Done]
HERE = ("--jobs", "1", "--device", "cpu")
QUICK = ("--benchmark", "items.jsonl", "--embedder", "hashing", "--min-tokens", "1", *HERE)
LINE = '{"id": "x", "text": "one two three"}\n'


def records(count: int, seed: int = 1) -> list[dict[str, str]]:
    rng = random.Random(seed)
    return [{"id": f"d{i}", "text": text(rng)} for i in range(count)]


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with items, a corpus and a manifest."""
    monkeypatch.chdir(tmp_path)
    write_items(tmp_path / "items.jsonl", 5)
    write_records(tmp_path / "good.jsonl", records(60))
    made = manifest("paths = ['good.jsonl']", search="shard_chunks = 16\ntop_k = 5")
    (tmp_path / "m.toml").write_text(made.text)
    return tmp_path


def test_a_manifest_gives_a_table_and_a_folder(run: Run, here: Path) -> None:
    done = run("scan", "m.toml", "--out", "out", *HERE)
    assert done.status == 0
    assert re.search(r"^ *b0 +5 +60 ", done.out, re.MULTILINE)
    assert "Wrote the scan to out. Next: bayescontam report out --out scan.html\n" in done.out
    assert "search" in done.err
    assert "search" not in done.out
    record = Scan.load("out").record
    assert record["command"] == "bayescontam scan m.toml --out out --jobs 1 --device cpu"
    assert record["base"] == str(here)
    assert (here / "out" / "manifest.toml").read_text() == (here / "m.toml").read_text()
    assert leftovers(here / "out") == []


def test_options_stand_for_a_manifest(run: Run, here: Path) -> None:
    more = ("--top-k", "2", "--share", "0.5", "--seed", "4", "--text-mode", "input")
    assert run("scan", *QUICK, *more, "--corpus", "good.jsonl", "--out", "out").status == 0
    found = Scan.load("out")
    assert found.record["documents"]["sampled"] == 30
    assert found.matches["rank"].max() == 2
    # What is stored says the same, in any folder.
    again = run("scan", "out/manifest.toml", "--out", "again", *HERE)
    assert again.status == 0
    assert tables_of(here / "again") == tables_of(here / "out")


def test_relative_paths_start_at_the_manifest(run: Run, here: Path) -> None:
    (here / "deep").mkdir()
    for name in ("items.jsonl", "good.jsonl", "m.toml"):
        shutil.move(here / name, here / "deep" / name)
    assert run("scan", "deep/m.toml", "--out", "out", *HERE).status == 0


def test_quiet_says_nothing(run: Run, here: Path) -> None:
    assert run("scan", "m.toml", "--out", "out", "-q", *HERE) == Done(0, "", "")


def test_the_same_command_again_reports_the_same(run: Run, here: Path) -> None:
    first = run("scan", "m.toml", "--out", "out", *HERE)
    before = (here / "out" / "scan.log").read_bytes()
    again = run("scan", "m.toml", "--out", "out", *HERE)
    read = "Read the finished scan in out, nothing was searched again."
    assert (again.status, again.err) == (0, "")
    assert again.out == first.out.replace("Wrote the scan to out.", read)
    assert (here / "out" / "scan.log").read_bytes() == before


def test_another_manifest_needs_another_folder_or_replace(run: Run, here: Path) -> None:
    assert run("scan", "m.toml", "--out", "out", "-q", *HERE).status == 0
    (here / "n.toml").write_text((here / "m.toml").read_text().replace("top_k = 5", "top_k = 6"))
    done = run("scan", "n.toml", "--out", "out", *HERE)
    assert_refused(done, r"out: holds a finished scan.*changed since: manifest; .*--replace")
    assert Scan.load("out").matches["rank"].max() == 5
    assert run("scan", "n.toml", "--out", "out", "--replace", "-q", *HERE).status == 0
    assert Scan.load("out").matches["rank"].max() == 6


def assert_refused(done: Done, message: str) -> None:
    assert done.status == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    assert re.search(message, done.err, re.DOTALL), done.err
    assert done.err.count("error: ") == 1


ARGUMENTS: dict[str, tuple[str, str]] = {
    "unknown manifest": ("offline-dem", r"corpus manifest 'offline-dem': no such .*offline-demo"),
    "missing manifest": ("none.toml", r"none\.toml: cannot be read \(No such file"),
    "nothing": ("", r"give a manifest, or --benchmark FILE and --corpus PATH"),
    "no corpus": ("--benchmark items.jsonl", r"give a manifest, or --benchmark FILE and --corpus"),
    "no benchmark": ("--corpus good.jsonl", r"give a manifest, or --benchmark FILE and --corpus"),
    "both": ("m.toml --benchmark items.jsonl", r"--benchmark: belongs into the manifest; copy"),
    "both, option": ("m.toml --min-tokens 3", r"--min-tokens: belongs into the manifest; copy"),
    "no jobs": ("m.toml --jobs 0", r"jobs is 0; give 1 or more"),
    "address": ("m.toml --address x:1", r"address and gpus are for Ray"),
    "share": ("QUICK --corpus good.jsonl --share 2", r"share: got 2\.0; allowed is 1 or less"),
    "no file": ("QUICK --corpus goood.jsonl", r"goood\.jsonl .*no such file.*mean 'good\.jsonl'"),
    "no items": (
        "--benchmark none.jsonl --corpus good.jsonl --embedder hashing",
        r"none\.jsonl: cannot be read \(No such file or directory\)",
    ),
    "no folder of a model": (
        "--benchmark items.jsonl --corpus good.jsonl --embedder ./model",
        r"embedding\.model: there is no folder .*/model; ",
    ),
    "all too short": (
        "--benchmark items.jsonl --corpus good.jsonl --embedder hashing --min-tokens 500",
        r"nothing to search: 60 documents, 60 of them below 500 tokens\n.*--min-tokens",
    ),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_that_cannot_be_used(run: Run, here: Path, case: str) -> None:
    arguments, message = ARGUMENTS[case]
    words = [w for word in arguments.split() for w in (QUICK if word == "QUICK" else [word])]
    # What is given first is overridden by what is given last.
    assert_refused(run("scan", *HERE, *words, "--out", "out"), message)
    assert not (here / "out" / "scan.json").exists()


FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("c.jsonl", b"", r"source 'corpus': no document in 1 inputs \(all are empty\)"),
    "no field": (
        "c.jsonl",
        b'{"body": "one"}\n' * 3,
        r"c\.jsonl: none of its 3 records is a document \(3 × no field 'text'\)\nfields .*'body'",
    ),
    "no text": ("c.jsonl", b'{"text": 3}\n', r"c\.jsonl: .*\(1 × field 'text' is not text\)"),
    "not gzip": ("c.jsonl.gz", LINE.encode(), r"c\.jsonl\.gz: cannot be read as gzip"),
    "items twice": (
        "items.jsonl",
        b'{"id": "a", "input": "x"}\n' * 2,
        r"items\.jsonl: row 2: id: 'a' is the name of row 1 as well",
    ),
    "items empty": ("items.jsonl", b"", r"items\.jsonl: holds no item"),
    "items blank": ("items.jsonl", b'{"id": "a", "input": " "}\n', r"items\.jsonl: row 1: input: "),
    "items broken": ("items.jsonl", b"no JSON\n", r"items\.jsonl: row 1: not JSON"),
    "items without field": ("items.jsonl", b'{"id": "a", "text": "x"}\n', r"input: no row has thi"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_cannot_be_used(run: Run, here: Path, case: str) -> None:
    name, content, message = FILES[case]
    write_records(here / "c.jsonl", records(3))
    (here / name).write_bytes(content)
    corpus = name if name.startswith("c.") else "c.jsonl"
    assert_refused(run("scan", *QUICK, "--corpus", corpus, "--out", "out"), message)
    assert name.startswith("c.") or not (here / "out").exists()


def test_a_key_that_is_not_known(run: Run, here: Path) -> None:
    (here / "m.toml").write_text((here / "m.toml").read_text().replace("top_k", "topk"))
    done = run("scan", "m.toml", "--out", "out", *HERE)
    assert_refused(done, r"m\.toml: search\.topk: unknown key \(did you mean 'top_k'\?\)")


def test_a_file_is_no_folder(run: Run, here: Path) -> None:
    (here / "out").write_text("kept")
    assert_refused(run("scan", "m.toml", "--out", "out", *HERE), r"out: is a file; --out needs")
    assert (here / "out").read_text() == "kept"


@pytest.mark.parametrize("name", ["cut.jsonl.gz", "cut.jsonl.zst"])
def test_a_file_that_was_cut_off(run: Run, here: Path, name: str) -> None:
    truncated(write_records(here / name, records(3000)))
    arguments = ("scan", *QUICK, "--corpus", "good.jsonl", "--corpus", name, "--out", "out")
    done = run(*arguments)
    assert_refused(done, rf"{re.escape(name)}: damaged after record 1,\d+ \(.*--skip-unreadable")
    done = run(*arguments, "--skip-unreadable")
    assert done.status == 0
    assert f"{name}: damaged after record 1," in done.out
    documents = Scan.load("out").record["documents"]
    assert documents["unreadable"] == {"damaged file": 1}
    assert list(documents["damaged"]) == [name]
    assert 1060 < documents["read"] < 3060
    log = (here / "out" / "scan.log").read_text()
    assert re.search(rf"unreadable: {re.escape(name)}: record 1\d+: damaged file\n", log)


def test_unreadable_records_are_listed_once(run: Run, here: Path) -> None:
    bad = [b'{"id": 1, "text": "\xff"}\n', b'{"id": 2}\n', b"[]\n", LINE.encode()]
    (here / "bad.jsonl").write_bytes(b"".join(bad))
    arguments = ("scan", *QUICK, "--corpus", "bad.jsonl", "--corpus", "good.jsonl", "--out", "out")
    done = run(*arguments, "--keep-work")
    assert done.status == 0
    assert "3 records could not be read (" in done.out
    # Resumed: the tables are made again from what is stored.
    (here / "out" / "scan.json").unlink()
    assert run(*arguments).status == 0
    lines = (here / "out" / "scan.log").read_text().splitlines()
    reported = [line.split("Z ", 1)[1] for line in lines if "unreadable" in line]
    assert reported == [
        "unreadable: bad.jsonl: record 1: not UTF-8",
        "unreadable: bad.jsonl: record 2: no field 'text'",
        "unreadable: bad.jsonl: record 3: not an object",
    ]
    assert len(shard_lines(here / "out")) == 1
    unreadable = Scan.load("out").record["documents"]["unreadable"]
    assert unreadable == {"no field 'text'": 1, "not UTF-8": 1, "not an object": 1}


def test_at_most_1000_unreadable_records_of_a_file_are_listed(run: Run, here: Path) -> None:
    (here / "bad.jsonl").write_text("no JSON\n" * 1500 + LINE)
    assert run("scan", *QUICK, "--corpus", "bad.jsonl", "--out", "out").status == 0
    lines = (here / "out" / "scan.log").read_text().splitlines()
    reported = [line for line in lines if "unreadable" in line]
    assert len(reported) == 1001
    assert reported[-1].endswith("unreadable: bad.jsonl: 500 more records")


def test_files_that_are_passed_over_are_reported(run: Run, here: Path) -> None:
    (here / "corpus").mkdir()
    write_records(here / "corpus" / "a.jsonl", records(20))
    (here / "corpus" / "picture.png").write_bytes(b"\x89PNG")
    done = run("scan", *QUICK, "--corpus", "corpus", "--out", "out")
    assert "source 'corpus': 1 files were passed over because of their names" in done.out


def test_ready_vectors_need_no_embedder(run: Run, here: Path) -> None:
    rng = np.random.default_rng(1)
    np.save(here / "corpus.npy", rng.normal(size=(50, 8)).astype(np.float16))
    np.save(here / "items.npy", rng.normal(size=(5, 8)).astype(np.float32))
    made = manifest(
        "paths = ['corpus.npy']\nformat = 'vectors'",
        benchmarks=["path = 'items.jsonl'\nvectors = 'items.npy'"],
        model="no/such",
    )
    (here / "v.toml").write_text(made.text)
    done = run("scan", "v.toml", "--out", "out", *HERE)
    assert (done.status, "50" in done.out) == (0, True)
    np.save(here / "items.npy", rng.normal(size=(4, 8)))
    done = run("scan", "v.toml", "--out", "other", *HERE)
    assert_refused(done, r"items\.npy: holds 4 vectors, the benchmark has 5 items")


def written(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".log"}


def test_a_full_disk_is_reported_and_the_scan_taken_up(run: Run, here: Path) -> None:
    whole, out = here / "whole", here / "out"
    assert run("scan", "m.toml", "--out", "whole", "-q", "--keep-work", *HERE).status == 0
    sizes = {path.stat().st_size for path in written(whole)} - {0}
    assert len(sizes) > 10
    reported = set()
    for size in sorted(sizes):
        with files_up_to(size - 1):
            done = run("scan", "m.toml", "--out", "out", "--keep-work", *HERE)
        # Sizes of files with times in them differ by a few bytes.
        if done.status == 0:
            break
        assert_refused(done, r"File too large; free some space, then run the same command again")
        reported.add(done.err.split("error: ")[1].split(":")[0])
        # Nothing is half written: each file there is one of the whole scan.
        assert {p.relative_to(out) for p in written(out)} <= {
            p.relative_to(whole) for p in written(whole)
        }
    places = {Path(place).relative_to("out").parts[0] for place in reported}
    assert {"work", "matches.parquet"} <= places
    assert run("scan", "m.toml", "--out", "out", "-q", *HERE).status == 0
    assert tables_of(out) == tables_of(whole)
    assert leftovers(out) == []


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start a scan of many shards in a process group of its own."""
    made = manifest("paths = ['many.jsonl']", search="shard_chunks = 16\ntop_k = 5")
    (folder / "many.toml").write_text(made.text)
    return subprocess.Popen(
        [sys.executable, "-m", "bayescontam", "scan", "many.toml", "--out", "out", *more],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ends(group: int) -> bool:
    """Return whether all processes of a group end within some seconds."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
def test_ctrl_c_leaves_no_process_and_the_scan_is_taken_up(run: Run, here: Path) -> None:
    write_records(here / "many.jsonl", records(3200))
    process = start(here, "--jobs", "2", "--device", "cpu")
    while len(shard_lines(here / "out")) < 20 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers too
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "run the same command again to resume\ninterrupted; no file was left half" in err
    assert "Traceback" not in err
    assert ends(process.pid)
    searched = len(shard_lines(here / "out"))
    assert 20 <= searched < 200
    assert list((here / "out").rglob("*.part")) == []
    assert run("scan", "many.toml", "--out", "out", "-q", *HERE).status == 0
    assert Scan.load(here / "out").record["search"]["chunks"] == 3200
    # The interruption may fall between a shard's result and its line, in both workers.
    assert 198 <= len(shard_lines(here / "out")) <= 202
    assert leftovers(here / "out") == []


@pytest.mark.slow
def test_a_full_disk_under_workers(run: Run, here: Path) -> None:
    write_records(here / "many.jsonl", records(3200))
    with files_up_to(40_000):
        done = start(here, "--jobs", "2", "--device", "cpu", "-q")
        out, err = done.communicate(timeout=120)
    assert_refused(Done(done.returncode, out, err), r"000000\.parquet: File too large; free some")
    assert run("scan", "many.toml", "--out", "out", "-q", *HERE).status == 0


def test_a_second_scan_is_kept_out(run: Run, here: Path) -> None:
    filelock = pytest.importorskip("filelock")
    (here / "out").mkdir()
    with filelock.FileLock(here / "out" / ".lock"):
        done = run("scan", "m.toml", "--out", "out", *HERE)
    assert_refused(done, r"out: another scan works in this folder")


def test_stored_vectors_are_searched_with_their_own_embedder(here: Path, run: Run) -> None:
    write_records(here / "corpus.jsonl", records(40))
    corpus = ("--corpus", "corpus.jsonl", "--keep-vectors", "--vector-precision", "fp32")
    first = run("scan", *QUICK, *corpus, "--out", "a")
    assert first.status == 0, first.err
    assert (
        "storing the vectors of up to 40 texts, 256 dimensions in fp32: 0.0 MB, and about"
        in first.err
    )
    assert "bayescontam scan --benchmark FILE --vectors a/vectors --out FOLDER" in first.out
    stored = ("--benchmark", "items.jsonl", "--vectors", "a/vectors", *HERE)
    second = run("scan", *stored, "--out", "b")
    assert second.status == 0, second.err
    found = [Scan.load(here / name) for name in ("a", "b")]
    assert found[1].record["embedder"]["model"] == "hashing"
    assert found[0].matches.equals(found[1].matches)


def test_a_folder_without_vectors_is_refused(here: Path, run: Run) -> None:
    done = run("scan", "--benchmark", "items.jsonl", "--vectors", ".", "--out", "b", *HERE)
    assert done.status == 2
    assert "holds no stored vectors: lacks vectors.json" in done.err
    assert "--keep-vectors" in done.err


@pytest.mark.parametrize("place", ["--vectors", "--index"])
@pytest.mark.parametrize(("option", "value"), [("--share", "0.5"), ("--min-tokens", "3")])
def test_options_of_texts_need_a_corpus(
    here: Path, run: Run, place: str, option: str, value: str
) -> None:
    stored = ("--benchmark", "items.jsonl", place, ".", *HERE)
    done = run("scan", *stored, option, value, "--out", "b")
    assert done.status == 2
    assert f"{option}: is of the texts of a corpus, and none is given" in done.err


def test_a_precision_of_vectors_that_are_not_stored_is_refused(here: Path, run: Run) -> None:
    done = run("scan", "m.toml", "--vector-precision", "fp16", "--out", "out", *HERE)
    assert done.status == 2
    assert "--vector-precision: is of vectors that are stored; add --keep-vectors" in done.err
    assert not (here / "out").exists()


def test_vectors_belong_into_a_manifest_that_is_given(here: Path, run: Run) -> None:
    done = run("scan", "offline-demo", "--vectors", ".", "--out", "b", *HERE)
    assert "--vectors: belongs into the manifest" in done.err


def test_an_index_is_built_and_searched(here: Path, run: Run) -> None:
    write_records(here / "corpus.jsonl", records(40))
    stored = run("scan", *QUICK, "--corpus", "corpus.jsonl", "--keep-vectors", "--out", "a")
    assert "bayescontam index a/vectors --out INDEX" in stored.out
    built = run("index", "a/vectors", "--out", "index")
    assert built.status == 0, built.err
    assert "40 distinct texts: flat, up to 100,000 texts a search of all is fast" in built.err
    assert "recall@39 with 1 of 1 lists: 1.0000" in built.err
    assert "Wrote the index to index. Next: bayescontam scan --benchmark FILE" in built.out
    refused = run("index", "a/vectors", "--out", "b", "--kind", "flat", "--recall", "0.5")
    assert refused.status == 2
    assert "--recall: decides how many lists are searched, and a flat index has none" in refused.err
    refused = run("find", "a/vectors", "one", "--api-key-env", "KEY", "--device", "cpu")
    assert refused.status == 2
    assert "--api-key-env: is of an endpoint, and the model of " in refused.err
    again = run("index", "a/vectors", "--out", "index")
    assert "Read the finished index in index, nothing was built again. Next: bay" in again.out
    items = ("--benchmark", "items.jsonl", *HERE)
    done = run("scan", *items, "--index", "index", "--out", "b")
    assert done.status == 0, done.err
    assert "searched by an index (flat), not exactly" in done.out
    whole = run("scan", *items, "--index", "index", "--exact", "--out", "c")
    assert whole.status == 0, whole.err
    by_index, exactly, of_vectors = (
        Scan.load(here / name).matches[["item", "chunk_id", "rank"]] for name in ("b", "c", "d")
        if name != "d" or run("scan", *items, "--vectors", "a/vectors", "--out", "d").status == 0
    )  # fmt: skip
    assert exactly.equals(of_vectors)
    assert set(by_index["chunk_id"]) == set(exactly["chunk_id"])
    found = run("find", "index", "one two three", "-k", "2", "--device", "cpu")
    assert found.status == 0, found.err
    assert found.out.count("  corpus, d") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--benchmark", "items.jsonl", "--index", ".", "--vectors", "."), "--index: is searched"),
        (("--benchmark", "items.jsonl", "--vectors", ".", "--exact"), "--exact: is of an --index"),
        (("--benchmark", "items.jsonl", "--index", "."), "holds no finished index: lacks index.js"),
        (("offline-demo", "--index", "."), "--index: belongs into the manifest"),
    ],
)
def test_indexes_that_cannot_be_searched_are_refused(
    here: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    done = run("scan", *options, "--out", "b", *HERE)
    assert done.status == 2
    assert message in done.err
    assert not (here / "b" / "scan.json").exists()


def test_best_matches_alone_are_searched_for(here: Path, run: Run) -> None:
    write_records(here / "corpus.jsonl", records(40))
    quick = (*QUICK, "--corpus", "corpus.jsonl")
    done = run("scan", *quick, "--backend", "faiss", "--out", "a")
    assert done.status == 0, done.err
    assert "searched for the best matches alone (backend 'faiss')" in done.out
    assert run("scan", *quick, "--out", "b").status == 0
    names = ["item", "chunk_id", "copies"]
    # In the order of chunks: equal cosines may be rounded to different ones.
    one, other = (Scan.load(here / name).matches.sort_values(names[:2]) for name in "ab")
    assert one[names].to_numpy().tolist() == other[names].to_numpy().tolist()
    assert (one["cosine"].to_numpy() - other["cosine"].to_numpy()).max() < 1e-6
    refused = run("judge", "export", "a", "--pairs", "5", "--out", "pairs.csv")
    assert refused.status == 2
    assert "a: has best matches alone, since its search.backend is 'faiss'" in refused.err
    page = run("report", "a", "--out", "scan.html")
    assert page.status == 0, page.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--index", "here"), "--backend: faiss compares all vectors, and an --index is searched"),
        (
            ("--corpus", "here", "--write-clean", "c", "--above", "0.5", "--curve", "c.nc"),
            '--curve: needs a scan that counts all cosines, and backend = "faiss" counts none',
        ),
    ],
)
def test_what_does_not_go_with_best_matches_alone_is_refused(
    here: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    (here / "here").mkdir()
    done = run("scan", "--benchmark", "items.jsonl", *options, "--backend", "faiss", "--out", "b")
    assert done.status == 2
    assert message in done.err
    assert not (here / "b").exists()


def test_nearest_chunks_are_listed(here: Path, run: Run) -> None:
    texts = records(30) + [{"id": "twice", "text": "one two\n three"}] * 2
    write_records(here / "corpus.jsonl", texts)
    stored = run("scan", *QUICK, "--corpus", "corpus.jsonl", "--keep-vectors", "--out", "a")
    assert stored.status == 0, stored.err
    done = run("find", "a/vectors", "one two three", "-k", "2", "--device", "cpu")
    assert done.status == 0, done.err
    first = done.out.splitlines()[0]
    assert first == "1.000  corpus, twice, chunk 0, 2 copies: one two three"
    table = run("find", "a/vectors", "one two three", "-k", "2", "-q", "-f", "csv").out
    assert [line.split(",")[1] for line in table.splitlines()[:2]] == ["document", "twice"]
    assert '"copies": 2' in run("find", "a/vectors", "one two three", "-q", "-f", "json").out
    refused = run("find", "a", "one two three")
    assert refused.status == 2
    assert refused.err.endswith(
        "error: a: holds no stored vectors: lacks vectors.json\n"
        "Give the folder 'vectors' of a scan that was run with --keep-vectors.\n"
    )


def test_vectors_of_two_corpora_are_joined(here: Path, run: Run) -> None:
    write_records(here / "corpus.jsonl", records(30))
    write_records(here / "more.jsonl", records(9))
    for out, corpus in (("a", "corpus.jsonl"), ("b", "more.jsonl")):
        done = run("scan", *QUICK, "--corpus", corpus, "--keep-vectors", "--out", out)
        assert done.status == 0, done.err
    refused = run("vectors", "add", "a/vectors", "b/vectors", "--out", "all")
    assert refused.status == 2
    assert "give it another name: --rename 2:corpus=NAME" in refused.err
    wrong = run("vectors", "add", "a/vectors", "b/vectors", "--out", "all", "--rename", "corpus")
    assert "--rename: got 'corpus'; OLD=NEW is needed, such as 2:corpus=chats" in wrong.err
    twice = ("--rename", "corpus=a", "--rename", "corpus=b")
    wrong = run("vectors", "add", "a/vectors", "b/vectors", "--out", "all", *twice)
    assert "--rename: 'corpus' stands twice; give it one name" in wrong.err
    given = ("a/vectors", "b/vectors", "--out", "all", "--rename", "2:corpus=more")
    done = run("vectors", "add", *given)
    assert done.status == 0, done.err
    assert "Wrote the vectors to all. Next: bayescontam scan --benchmark FILE" in done.out
    again = run("vectors", "add", *given)
    assert "Read the joined vectors in all, nothing was joined again. Next: bay" in again.out
    shown = run("vectors", "show", "all")
    assert shown.status == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["Embedder", "hashing"] in rows
    assert ["Vectors", "39", "in", "2", "parts,", "0.0", "MB"] in rows
    assert ["corpus", "1", "30", "30", "30"] in rows
    assert ["more", "1", "9", "9", "9"] in rows
    assert run("vectors", "add", *given, "--quiet").out == ""
    items = ("--benchmark", "items.jsonl", *HERE)
    assert run("scan", *items, "--vectors", "all", "--out", "c").status == 0
    assert set(Scan.load(here / "c").matches["source"]) == {"corpus", "more"}


def test_a_clean_corpus_is_written_after_the_scan(run: Run, here: Path) -> None:
    items = [json.loads(line)["input"] for line in Path("items.jsonl").read_text().splitlines()]
    copies = [{"id": f"c{i}", "text": body} for i, body in enumerate(items)]
    write_records(here / "good.jsonl", records(60) + copies)
    command = ("scan", "m.toml", "--out", "out", *HERE)
    options = ("--write-clean", "clean", "--above-cosine", "0.9")
    done = run(*command, *options)
    assert done.status == 0
    assert re.search(r"^ *s0 +1 +65 +5 +60 +0 +0$", done.out, re.MULTILINE)
    assert "5 of 65 documents (7.69%) were dropped\n" in done.out
    assert "Wrote the clean corpus to clean/files." in done.out
    assert len(Path("clean/files/good.jsonl").read_text().splitlines()) == 60
    # The finished scan and the finished corpus are there: nothing is done again.
    again = run(*command, *options)
    assert (again.status, again.err) == (0, "")
    read = done.out.replace(
        "Wrote the scan to out.", "Read the finished scan in out, nothing was searched again."
    ).replace(
        "Wrote the clean corpus to clean/files.",
        "Read the finished clean corpus in clean/files, nothing was written again.",
    )
    assert again.out == read
    other = run(*command, "--write-clean", "clean", "--above-cosine", "0.8")
    assert_refused(other, r"clean: holds a clean corpus of another scan or other limits")


CLEAN: dict[str, tuple[str, str]] = {
    "no limit": ("--write-clean c", r"--write-clean: needs a limit: give --above P with the --cur"),
    "no folder": ("--above-cosine 0.9", r"--above-cosine: is for --write-clean FOLDER"),
    "no curve": ("--write-clean c --above 0.5", r"--above: a probability needs a curve of P\("),
    "no such curve": (
        "--write-clean c --above 0.5 --curve none.nc",
        r"none\.nc: no such file; make a curve with: bayescontam curve",
    ),
    "in the scan": ("--write-clean out/c --above-cosine 0.9", r"c: lies in the folder of the scan"),
    "a file": ("--write-clean good.jsonl --above-cosine 0.9", r"good\.jsonl: is a file"),
}


@pytest.mark.parametrize("case", CLEAN)
def test_a_clean_corpus_that_cannot_be_written_is_refused_before_the_scan(
    run: Run, here: Path, case: str
) -> None:
    arguments, message = CLEAN[case]
    assert_refused(run("scan", "m.toml", "--out", "out", *HERE, *arguments.split()), message)
    assert not (here / "out").exists()


def test_a_clean_corpus_of_a_share_is_refused_before_the_scan(run: Run, here: Path) -> None:
    options = ("--share", "0.5", "--write-clean", "c", "--above-cosine", "0.9")
    done = run("scan", *QUICK, "--corpus", "good.jsonl", "--out", "out", *options)
    assert_refused(done, r"source 'corpus': a share of 0\.5 is scanned.*scan it whole")
    assert not (here / "out").exists()
