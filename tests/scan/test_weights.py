"""Weights of an embedder that change: what was made by the old ones is not mixed with the new."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam import write_clean
from bayescontam.errors import UsageError
from bayescontam.scan import clean, embedders, run
from bayescontam.scan.embedder_record import check_unchanged, same_weights, weights_mark
from bayescontam.scan.embedders import shared_embedder
from bayescontam.scan.items import WEIGHTS
from bayescontam.scan.run import Scan
from bayescontam.specs.corpus import Embedding, Manifest
from tests.support.corpora import manifest, tables_of, write_records
from tests.support.small_corpus import interrupted, scan
from tests.support.tiny_models import bert

pytest.importorskip("sentence_transformers")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two states of one model."""
    folder = tmp_path_factory.mktemp("models")
    return [bert(folder / f"state {seed}", seed) for seed in (1, 2)]


@pytest.fixture
def made(models: list[Path], tmp_path: Path) -> Manifest:
    """Return the manifest of a scan by a model in a folder, whose items are in the corpus."""
    shutil.copytree(models[0], tmp_path / "model")
    texts = [" ".join(f"w{(7 * i + 3 * j) % 50}" for j in range(12)) for i in range(30)]
    write_records(tmp_path / "a.jsonl", ({"text": text} for text in texts))
    rows = ({"id": str(i), "input": text} for i, text in enumerate(texts[:3]))
    write_records(tmp_path / "items.jsonl", rows)
    shared_embedder.cache_clear()
    return manifest(
        "paths = ['a.jsonl']", model=str(tmp_path / "model"), search="shard_chunks = 16\ntop_k = 2"
    )


def change(folder: Path, models: list[Path]) -> None:
    """Put the other state of the model into its folder, as another process would find it."""
    shutil.copy(models[1] / "model.safetensors", folder)
    shared_embedder.cache_clear()


def best(found: Scan) -> Any:
    return found.matches.query("rank == 1")["cosine"].to_numpy()


def test_an_interrupted_scan_embeds_items_again(
    made: Manifest, models: list[Path], tmp_path: Path
) -> None:
    interrupted(made, tmp_path / "out", 1)
    change(tmp_path / "model", models)
    found = scan(made, tmp_path / "out", keep_vectors="fp32")
    np.testing.assert_allclose(best(found), 1, atol=1e-5)
    assert tables_of(found.folder) == tables_of(scan(made, tmp_path / "fresh").folder)
    stored = json.loads((tmp_path / "out" / "vectors" / "vectors.json").read_text("utf-8"))
    assert same_weights(made.embedding, stored["embedder"])
    assert same_weights(made.embedding, found.record["embedder"])


def test_a_finished_scan_by_other_weights_is_refused(
    made: Manifest, models: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    before = scan(made, out)
    tables = tables_of(out)
    change(tmp_path / "model", models)
    with pytest.raises(UsageError, match=f"has changed since: {WEIGHTS}; .*--replace to lose"):
        scan(made, out)
    assert Scan.load(out).record == before.record
    assert tables_of(out) == tables
    again = scan(made, out, replace=True)
    np.testing.assert_allclose(best(again), 1, atol=1e-5)
    assert tables_of(out) != tables


@pytest.mark.parametrize("case", ["copied", "of an earlier version", "gone"])
def test_a_finished_scan_by_the_same_weights_is_returned(
    made: Manifest, tmp_path: Path, case: str
) -> None:
    out = tmp_path / "out"
    scan(made, out, keep_vectors="fp32")
    if case == "gone":
        shutil.rmtree(tmp_path / "model")
    else:
        os.utime(tmp_path / "model" / "model.safetensors", ns=(0, 0))
    if case == "of an earlier version":
        for path in (out / "scan.json", out / "vectors" / "vectors.json"):
            record = json.loads(path.read_text("utf-8"))
            del record["key"][WEIGHTS]
            path.write_text(json.dumps(record), "utf-8")
    written = (out / "scan.json").stat().st_mtime_ns
    scan(made, out, keep_vectors="fp32")
    assert (out / "scan.json").stat().st_mtime_ns == written


def test_a_change_while_a_scan_runs_is_refused(
    made: Manifest, models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunked(*given: Any) -> Any:
        done = run_chunks(*given)
        change(tmp_path / "model", models)
        return done

    run_chunks: Callable[..., Any] = run.chunk_documents
    with monkeypatch.context() as patch:
        patch.setattr(run, "chunk_documents", chunked)
        with pytest.raises(UsageError, match=r"is no longer the one .*the items .*same"):
            scan(made, tmp_path / "out")
    np.testing.assert_allclose(best(scan(made, tmp_path / "out")), 1, atol=1e-5)


def test_weights_that_were_not_touched_are_read_once(
    made: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunked(*given: Any) -> Any:
        done = run_chunks(*given)
        another_process()
        return done

    def near(*given: Any) -> Any:
        another_process()
        return find_near(*given)

    def another_process() -> None:
        shared_embedder.cache_clear()
        embedders._sha256_of.cache_clear()
        monkeypatch.setattr(embedders, "_sha256_of", None)

    run_chunks: Callable[..., Any] = run.chunk_documents
    find_near: Callable[..., Any] = clean._near
    hashed = embedders._sha256_of
    monkeypatch.setattr(run, "chunk_documents", chunked)
    monkeypatch.setattr(clean, "_near", near)
    found = scan(made, tmp_path / "out")
    monkeypatch.setattr(embedders, "_sha256_of", hashed)
    write_clean(found, tmp_path / "clean", above_cosine=0.999, base=tmp_path, jobs=1, device="cpu")


def test_a_clean_corpus_needs_the_weights_of_the_scan(
    made: Manifest, models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def near(*given: Any) -> Any:
        change(tmp_path / "model", models)
        return find_near(*given)

    find_near: Callable[..., Any] = clean._near
    monkeypatch.setattr(clean, "_near", near)
    found = scan(made, tmp_path / "out")
    here: Any = {"above_cosine": 0.1, "base": tmp_path, "jobs": 1, "device": "cpu"}
    with pytest.raises(UsageError, match="is no longer the one that embedded the items"):
        write_clean(found, tmp_path / "clean", **here)
    # The items that it embedded by the weights of the scan are there already.
    with pytest.raises(UsageError, match=f"has changed since the scan: {WEIGHTS}; scan again"):
        write_clean(found, tmp_path / "clean", **here)


def test_the_commit_in_the_cache_marks_a_model_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    short, whole = Embedding(model="tiny"), Embedding(model="sentence-transformers/tiny")
    assert weights_mark(short) == weights_mark(whole) == ""
    place = tmp_path / "models--sentence-transformers--tiny"
    (place / "snapshots" / COMMIT).mkdir(parents=True)
    (place / "snapshots" / COMMIT / "config.json").write_text("{}")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    assert weights_mark(short) == weights_mark(whole) == COMMIT
    assert same_weights(whole, {"revision": COMMIT})
    assert not same_weights(whole, {"revision": "fedcba"})
    assert same_weights(whole, {"revision": None, "weights_sha256": None})
    assert weights_mark(Embedding(model="a/b/c")) == ""
    assert weights_mark(Embedding()) == weights_mark(Embedding(model="hashing")) == ""


def put_in_cache(model: Path, cache: Path, commit: str) -> None:
    """Put a model into a cache of the hub as 'me/tiny', where `commit` is the newest."""
    place = cache / "models--me--tiny"
    shutil.copytree(model, place / "snapshots" / commit)
    (place / "refs").mkdir(exist_ok=True)
    (place / "refs" / "main").write_text(commit)


@pytest.fixture
def hub(
    made: Manifest, models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return an empty cache, into which a first load of 'me/tiny' downloads the model."""
    cache, load = tmp_path / "cache", embedders._load

    def loaded(spec: Embedding, place: str, device: str | None, *, local_files_only: bool) -> Any:
        if not local_files_only:
            put_in_cache(models[0], cache, COMMIT)
        return load(spec, place, device, local_files_only=True)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(embedders, "_reach_hub", lambda *_: None)
    monkeypatch.setattr(embedders, "_load", loaded)
    return cache


def of_hub(made: Manifest, tmp_path: Path) -> Manifest:
    return Manifest.parse(made.text.replace(str(tmp_path / "model"), "me/tiny"), "made.toml")


def as_before(out: Path, names: tuple[str, ...]) -> None:
    """Change the records of a scan to those of an earlier version, which found no commit."""
    for path in (out / name for name in names):
        record = json.loads(path.read_text("utf-8"))
        record["key"].pop(WEIGHTS, None)
        record["embedder"]["revision"] = None
        path.write_text(json.dumps(record), "utf-8")


@pytest.mark.parametrize("case", ["downloaded by it", "in the cache", "of an earlier version"])
def test_a_finished_scan_by_a_model_of_the_hub_is_returned(
    made: Manifest, hub: Path, models: list[Path], tmp_path: Path, case: str
) -> None:
    made, out = of_hub(made, tmp_path), tmp_path / "out"
    if case == "in the cache":
        put_in_cache(models[0], hub, COMMIT)
    found = scan(made, out, keep_vectors="fp32")
    assert found.record["embedder"]["revision"] == COMMIT
    if case == "of an earlier version":
        as_before(out, ("scan.json", "vectors/vectors.json"))
    shared_embedder.cache_clear()
    written = (out / "scan.json").stat().st_mtime_ns
    found = scan(made, out, keep_vectors="fp32")
    assert (out / "scan.json").stat().st_mtime_ns == written
    write_clean(found, tmp_path / "clean", above_cosine=0.999, base=tmp_path, jobs=1, device="cpu")
    searched = manifest(model="me/tiny", top="stored = ['out/vectors']")
    np.testing.assert_allclose(best(scan(searched, tmp_path / "stored")), 1, atol=1e-5)
    put_in_cache(models[1], hub, "f" * 40)
    if case == "of an earlier version":
        scan(made, out, keep_vectors="fp32")  # nothing is known of its weights
    else:
        with pytest.raises(UsageError, match=f"has changed since: {WEIGHTS}"):
            scan(made, out, keep_vectors="fp32")


def test_the_mark_of_a_scan_stands_for_a_commit_that_its_embedder_lacks(
    made: Manifest, hub: Path, models: list[Path], tmp_path: Path
) -> None:
    made, out = of_hub(made, tmp_path), tmp_path / "out"
    put_in_cache(models[0], hub, COMMIT)
    scan(made, out)
    record = json.loads((out / "scan.json").read_text("utf-8"))
    record["embedder"]["revision"] = None
    (out / "scan.json").write_text(json.dumps(record), "utf-8")
    scan(made, out)
    put_in_cache(models[1], hub, "f" * 40)
    with pytest.raises(UsageError, match=f"has changed since: {WEIGHTS}"):
        scan(made, out)


def test_what_changes_vectors_by_rounding_alone_is_no_difference() -> None:
    one = {"model": "m", "device": "cpu", "dims": 8, "weights_sha256": "a"}
    check_unchanged(one, one | {"device": "cuda (x)"})
    with pytest.raises(UsageError, match=r"embedder 'm': .*weights_sha256: items a, here b"):
        check_unchanged(one, one | {"weights_sha256": "b"})
