"""An index of stored vectors: building, resuming and searching it, against exact search."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import DataError, SpecError, TaskError, UsageError
from bayescontam.scan import index_build, index_lists, index_texts
from bayescontam.scan.find import find_nearest
from bayescontam.scan.index_build import build_index
from bayescontam.scan.index_lists import nearest_list, trained_centres
from bayescontam.scan.joining import add_vectors
from bayescontam.scan.run import Scan
from bayescontam.scan.stored_vectors import StoredVectors
from bayescontam.scan.vector_index import ABOUT, VectorIndex, units
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import manifest
from tests.support.made_vectors import drawn_vectors, write_vectors
from tests.support.memory import run_and_weigh
from tests.support.near_ties import settled
from tests.support.small_corpus import ATOL, SEARCH, SEED, Small, scan

ITEMS = 60
TEXTS, COPIES = 4000, 300
"""Distinct texts, and how many of them occur again in another part."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with vectors in parts, with copies, and items beside them."""
    folder = tmp_path_factory.mktemp("made")
    write_vectors(folder / "vectors", TEXTS, copies=COPIES, part=1000)
    np.save(folder / "items.npy", drawn_vectors(ITEMS, seed=7))
    lines = [json.dumps({"id": f"q{i}", "input": f"item {i}"}) for i in range(ITEMS)]
    (folder / "items.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def index(made: Path) -> VectorIndex:
    """Return an index by lists, in several blocks, with a sample of one in ten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "_BLOCK", 60_000)
        patch.setattr(index_build, "_SAMPLE", 430)
        patch.setattr(index_texts, "_SORTED", 40_000)  # in four ranges of hashes
        return build_index(made / "vectors", made / "index", kind="ivf-sq8", recall=0.97)


def looking_in(top: str, search: str = "", benchmark: str = "") -> Manifest:
    """Return a manifest that looks for the made items in vectors or their index."""
    given = benchmark or "path = 'items.jsonl'\nvectors = 'items.npy'"
    return manifest(benchmarks=[given], top=f"seed = {SEED}\n{top}", search=SEARCH + search)


@pytest.fixture(scope="module")
def exact(made: Path) -> Scan:
    return scan(looking_in("stored = ['vectors']"), made / "exact", base=made)


@pytest.fixture(scope="module")
def found(made: Path, index: VectorIndex) -> Scan:
    assert index.about["weight"] == 10
    return scan(looking_in("index = 'index'"), made / "found", base=made)


def at_least(table: pd.DataFrame, cosine: float, column: str = "count") -> np.ndarray:
    """Return for each item how many cosines are at least as large."""
    chosen = table[table["cosine"] >= cosine].groupby("item")[column].sum()
    return chosen.reindex([f"q{i}" for i in range(ITEMS)]).fillna(0).to_numpy(float)


def test_the_best_matches_are_found_with_their_exact_cosines(exact: Scan, found: Scan) -> None:
    keys = ["benchmark", "item", "chunk_id"]
    both = exact.matches.merge(found.matches, on=keys, suffixes=("", "_found"))
    assert len(both) > 0.95 * len(exact.matches)
    np.testing.assert_allclose(both["cosine"], both["cosine_found"], atol=ATOL)
    same = ["document", "chunk", "start", "end", "source", "stratum", "copies"]
    for name in same:
        assert both[name].equals(both[f"{name}_found"].rename(name))
    assert (exact.matches["copies"] > 1).any()


def test_the_recall_of_the_items_is_measured(exact: Scan, found: Scan) -> None:
    about = found.record["search"]["index"]
    keys = ["item", "chunk_id"]
    share = len(exact.matches[keys].merge(found.matches[keys])) / len(exact.matches)
    assert about["recall_low"] - 0.01 <= share <= about["recall_high"] + 0.01
    assert any("of the best matches of these items were found" in n for n in found.record["notes"])
    assert any("one in 10 chunks" in note for note in found.record["notes"])


@pytest.mark.parametrize("cosine", [-1.0, -0.1, 0.0, 0.1])
def test_counts_are_estimated_with_the_error_that_is_stated(
    exact: Scan, found: Scan, cosine: float
) -> None:
    truth, count = (at_least(each.histogram, cosine) for each in (exact, found))
    estimated = at_least(found.histogram, cosine, "estimated")
    error = np.sqrt((10 - 1) * estimated)
    # The sample is one for all items: fixed seed, so that nothing is left to chance.
    assert (np.abs(count - truth) <= 4 * error).all()
    assert np.abs((count - truth) / error).mean() < 1.5
    assert (estimated <= count).all()


def test_the_nearest_are_counted_and_not_estimated(exact: Scan, found: Scan) -> None:
    last = exact.matches.groupby("item")["cosine"].min()
    table = found.histogram.set_index("item")
    near = table[table["cosine"] >= last.reindex(table.index) + 0.001]
    assert len(near) > ITEMS
    assert near["estimated"].sum() <= 0.05 * near["count"].sum()
    assert "estimated" not in exact.histogram


def test_strata_add_up_to_the_histogram(exact: Scan, found: Scan) -> None:
    assert found.strata["count"].sum() == found.histogram["count"].sum()
    sizes = [s.strata.groupby(["source", "stratum"])["count"].sum() for s in (exact, found)]
    np.testing.assert_allclose(sizes[1], sizes[0], rtol=0.15)
    listed = [pd.DataFrame(s.record["strata"])["chunks"].tolist() for s in (exact, found)]
    assert listed[0] == listed[1]


def test_tails_are_matches_above_the_threshold(exact: Scan, found: Scan) -> None:
    assert (found.tail["cosine"] >= found.tail["threshold"] - ATOL).all()
    pairs = found.tail[["item", "chunk_id", "cosine"]]
    assert not pairs.duplicated(["item", "chunk_id"]).any()
    # An exact tail of everything holds each of them, with its cosine.
    whole = scan(
        looking_in("stored = ['vectors']").model_copy(
            update={"search": exact_search(tail_size=TEXTS, tail_share=1.0)}
        ),
        found.folder.parent / "whole",
        base=found.folder.parent,
    ).tail
    both = pairs.merge(whole[["item", "chunk_id", "cosine"]], on=["item", "chunk_id"], how="left")
    np.testing.assert_allclose(both["cosine_x"], both["cosine_y"], atol=ATOL)


def exact_search(**options: Any) -> Any:
    return looking_in("stored = ['vectors']").search.model_copy(update=options)


def test_a_search_of_all_of_an_index_is_that_of_its_vectors(
    exact: Scan, made: Path, index: VectorIndex
) -> None:
    assert index.lists > 1
    whole = scan(looking_in("index = 'index'", "exact = true\n"), made / "all", base=made)
    for name in ("matches", "tail", "histogram", "strata", "items"):
        pd.testing.assert_frame_equal(getattr(whole, name), getattr(exact, name))
    assert "index" not in whole.record["search"]


def test_a_flat_index_of_few_texts_finds_what_an_exact_scan_finds(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    stored = scan(small.manifest, tmp_path / "a", base=small.folder, keep_vectors="fp32")
    built = build_index(stored.folder / "vectors", tmp_path / "index", progress=True)
    assert (built.about["kind"], built.weight) == ("flat", 1)
    found = scan(
        Manifest.parse(
            small.manifest.text.split("[[sources]]")[0].replace(
                f"seed = {SEED}", f"seed = {SEED}\nindex = '{tmp_path / 'index'}'"
            )
            + "[chunking]"
            + small.manifest.text.split("[chunking]")[1],
            "made.toml",
        ),
        tmp_path / "b",
        base=small.folder,
    )
    for name in ("matches", "tail", "histogram", "strata"):
        one, other = getattr(found, name), getattr(scanned, name)
        if name in ("histogram", "strata"):
            # A cosine at the edge of a bin may fall into the next.
            assert one["count"].sum() == other["count"].sum()
            assert (one.get("estimated", pd.Series([0])) >= 0).all()
            continue
        keys = ["benchmark", "item", "chunk_id"]
        both = other.merge(one, on=keys, suffixes=("", "_found"))
        assert len(both) >= 0.98 * max(len(one), len(other))
        if name == "matches":
            rows = settled(other, ATOL)
            assert len(rows.merge(both, on=keys)) == len(rows) > 0.6 * len(other)
        np.testing.assert_allclose(both["cosine"], both["cosine_found"], atol=ATOL)
    about = found.record["search"]["index"]
    assert (about["missed"], about["recall"]) == (0, 1.0)


def test_find_reads_an_index(small: Small, tmp_path: Path) -> None:
    stored = scan(small.manifest, tmp_path / "a", base=small.folder, keep_vectors="fp32")
    vectors = stored.folder / "vectors"
    build_index(vectors, tmp_path / "index")
    for text in ("w1 w2 w3", stored.texts["text"].iloc[3]):
        slow, fast = (find_nearest(f, text, 5, device="cpu") for f in (vectors, tmp_path / "index"))
        pd.testing.assert_frame_equal(
            fast.drop(columns="cosine"), slow.drop(columns="cosine"), check_dtype=False
        )
        np.testing.assert_allclose(fast["cosine"], slow["cosine"], atol=ATOL)


def contents(folder: Path) -> dict[str, Any]:
    about = json.loads((folder / ABOUT).read_text("utf-8"))
    return {name: about[name] for name in about if name not in ("stored", "key")}


PROGRAM = """
import sys
from bayescontam.scan import index_build
index_build._BLOCK, index_build._SAMPLE = 60_000, 430
from bayescontam.scan.index_build import build_index
build_index(sys.argv[1], sys.argv[2], kind="ivf-sq8", recall=0.97)
"""


def test_a_killed_build_is_resumed(
    made: Path, index: VectorIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "index"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(made / "vectors"), str(out)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    ) as process:
        while not (out / "000000.faiss").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert not (out / ABOUT).exists()
    with pytest.raises(DataError, match=r"holds no finished index: lacks index\.json"):
        VectorIndex.load(out)
    before = {name: (out / name).stat().st_mtime_ns for name in ("texts.npy", "000000.faiss")}
    monkeypatch.setattr(index_build, "_BLOCK", 60_000)
    monkeypatch.setattr(index_build, "_SAMPLE", 430)
    build_index(made / "vectors", out, kind="ivf-sq8", recall=0.97)
    assert before == {name: (out / name).stat().st_mtime_ns for name in before}
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in index.folder.iterdir())
    assert contents(out) == contents(index.folder)


def test_a_full_disk_loses_nothing(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, calls = tmp_path / "index", 0
    write = index_build._write

    def full(faiss: Any, block: Any, path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # lists first, then blocks
            raise OSError(28, "No space left on device", str(path))
        write(faiss, block, path)

    monkeypatch.setattr(index_build, "_BLOCK", 60_000)
    monkeypatch.setattr(index_build, "_write", full)
    with pytest.raises(TaskError, match="free some space, then run the same command again"):
        build_index(made / "vectors", out, kind="ivf-sq8")
    assert (out / "000000.faiss").exists()
    assert not list(out.glob(".*.part"))
    build_index(made / "vectors", out, kind="ivf-sq8")
    assert calls > 3


def test_the_writer_raises_what_the_disk_raises(index: VectorIndex) -> None:
    faiss = pytest.importorskip("faiss")
    block = faiss.read_index(str(index.folder / "000000.faiss"))
    with pytest.raises(OSError, match="No space left"):
        index_build._write(faiss, block, Path("/dev/full"))


def test_a_finished_index_is_returned_and_another_is_refused(
    made: Path, index: VectorIndex, tmp_path: Path
) -> None:
    before = (index.folder / ABOUT).stat().st_mtime_ns
    again = build_index(made / "vectors", index.folder, kind="ivf-sq8", recall=0.97)
    assert (again.folder / ABOUT).stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="this has changed since: kind"):
        build_index(made / "vectors", index.folder, kind="flat", recall=0.97)
    out = Path(shutil.copytree(index.folder, tmp_path / "index"))
    flat = build_index(made / "vectors", out, kind="flat", recall=0.97, replace=True)
    assert flat.about["kind"] == "flat"
    assert flat.about["recall"]["measured"] == [[1, 1.0]]


def test_files_of_others_are_left_alone(made: Path, index: VectorIndex, tmp_path: Path) -> None:
    for name, text in (("index.json", '{"my": 1}'), (".lock", "")):
        folder = tmp_path / name.strip(".")
        folder.mkdir()
        (folder / name).write_text(text)
        (folder / "mine.npy").write_bytes(b"mine")
        with pytest.raises(UsageError, match="holds files, and no index; --out needs a new"):
            build_index(made / "vectors", folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted([name, "mine.npy"])
    out = Path(shutil.copytree(index.folder, tmp_path / "index"))
    about = json.loads((out / ABOUT).read_text("utf-8"))
    (out / ABOUT).write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(DataError, match="use a newer bayescontam"):
        build_index(made / "vectors", out, kind="ivf-sq8", recall=0.97)
    (out / ABOUT).write_text(json.dumps(about))
    (out / "texts.npy").unlink()
    with pytest.raises(UsageError, match="this has changed since: kind"):
        build_index(made / "vectors", out, kind="flat", recall=0.97)
    (out / "own.npy").write_bytes(b"mine")
    build_index(made / "vectors", out, kind="ivf-sq8", recall=0.97)
    assert (out / "own.npy").exists()


def test_as_many_lists_are_searched_as_hold_what_is_wanted(index: VectorIndex) -> None:
    ids, _ = index.nearest(drawn_vectors(3, seed=5), TEXTS)
    assert ids.shape == (3, TEXTS)
    assert (np.sort(ids, axis=1) == np.arange(TEXTS)).all()


def test_vectors_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "vectors", 200)
    path = tmp_path / "vectors" / "000000.npy"
    vectors = np.load(path)
    vectors[17, 3] = np.nan
    np.save(path, vectors)
    for kind in ("flat", "ivf-sq8"):
        with pytest.raises(DataError, match=r"000000\.npy: row 18: the vector is not finite"):
            build_index(tmp_path / "vectors", tmp_path / kind, kind=kind)  # type: ignore[arg-type]


def test_the_sample_has_the_precision_of_the_vectors(tmp_path: Path) -> None:
    write_vectors(tmp_path / "half", 90)
    write_vectors(tmp_path / "whole", 60, source="more")
    path = tmp_path / "whole" / "000000.npy"
    np.save(path, np.load(path).astype("<f4") * np.float32(1e6))
    about = json.loads((tmp_path / "whole" / "vectors.json").read_text("utf-8"))
    about["parts"][0]["bytes"] = path.stat().st_size
    (tmp_path / "whole" / "vectors.json").write_text(json.dumps(about))
    built = build_index([tmp_path / "half", tmp_path / "whole"], tmp_path / "index")
    assert built.sample.dtype == np.float32
    assert np.isfinite(built.sample).all()


@pytest.mark.parametrize("texts", [1, 2, 99])
def test_few_texts_are_enough_for_a_flat_index(tmp_path: Path, texts: int) -> None:
    write_vectors(tmp_path / "vectors", texts, copies=1)
    built = build_index(tmp_path / "vectors", tmp_path / "index")
    assert built.lists == 1
    ids, _ = built.nearest(drawn_vectors(1, seed=5), 5)
    assert ids.shape == (1, min(5, texts))
    with pytest.raises(UsageError, match=r"'ivf-sq8' cannot be trained on .* it needs 100; choose"):
        build_index(tmp_path / "vectors", tmp_path / "lists", kind="ivf-sq8")


def test_items_of_other_dimensions_are_refused(made: Path, index: VectorIndex) -> None:
    np.save(made / "wide.npy", drawn_vectors(ITEMS, seed=7, dims=48))
    given = "path = 'items.jsonl'\nvectors = 'wide.npy'"
    with pytest.raises(DataError, match="has 32 dimensions, the items have 48"):
        scan(looking_in(f"index = '{index.folder}'", benchmark=given), made / "x", base=made)


@pytest.fixture
def moved(made: Path, index: VectorIndex, tmp_path: Path) -> Path:
    """Return a copy of the index with its vectors, which a test may spoil."""
    shutil.copytree(made / "vectors", tmp_path / "vectors")
    copy = Path(shutil.copytree(index.folder, tmp_path / "index"))
    about = json.loads((copy / ABOUT).read_text("utf-8"))
    about["stored"][0]["folder"] = "/not/there"
    (copy / ABOUT).write_text(json.dumps(about))
    return copy


def test_index_and_vectors_may_be_moved_together(moved: Path) -> None:
    index = VectorIndex.load(moved)
    assert index.stored[0].folder == moved.parent / "vectors"
    # A copy prefers what was copied with it.
    about = json.loads((moved / ABOUT).read_text("utf-8"))
    about["stored"][0]["folder"] = str(moved.parent / "first")
    shutil.copytree(moved.parent / "vectors", moved.parent / "first")
    (moved.parent / "first" / "vectors.json").write_text("{}")
    (moved / ABOUT).write_text(json.dumps(about))
    index = VectorIndex.load(moved)
    assert index.stored[0].folder == moved.parent / "vectors"
    query = drawn_vectors(2, seed=3)
    ids, cosines = index.nearest(query, 5)
    assert (ids >= 0).all()
    unit = units(index.vectors(ids.ravel())).reshape(2, 5, -1)
    np.testing.assert_allclose(cosines, np.einsum("qd,qkd->qk", query, unit), atol=ATOL)


def spoil(folder: Path, what: str) -> None:
    if what == "vectors gone":
        shutil.rmtree(folder.parent / "vectors")
    elif what == "vectors changed":
        record = folder.parent / "vectors" / "vectors.json"
        record.write_text(record.read_text("utf-8") + " ")
    elif what == "a block cut":
        block = folder / "000001.faiss"
        block.write_bytes(block.read_bytes()[:-9])
    elif what == "a block damaged":
        block = folder / "000001.faiss"
        block.write_bytes(b"x" * block.stat().st_size)
    elif what == "a table gone":
        (folder / "texts.npy").unlink()
    elif what == "no JSON":
        (folder / ABOUT).write_text("{")
    else:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        about.pop("probes") if what == "a key gone" else about.update(format=99)
        (folder / ABOUT).write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("vectors gone", "its vectors were in /not/there, and are not there any more"),
        ("vectors changed", "have changed since it was built"),
        ("a block cut", r"000001\.faiss: has [\d,]+ bytes, [\d,]+ were written: cut short"),
        ("a block damaged", "FAISS cannot read it"),
        ("a table gone", r"texts\.npy: is missing"),
        ("no JSON", "is not JSON"),
        ("a key gone", "lacks 'probes'"),
        ("newer", "has format 99; 1 is known"),
    ],
)
def test_what_was_damaged_is_named(moved: Path, made: Path, what: str, message: str) -> None:
    spoil(moved, what)
    with pytest.raises(DataError, match=message):
        scan(looking_in(f"index = '{moved}'"), moved.parent / "out", base=made)


def test_an_index_of_another_embedder_is_refused(made: Path, index: VectorIndex) -> None:
    with pytest.raises(UsageError, match=r"dims: vectors 32, here 256"):
        scan(
            looking_in("index = 'index'", benchmark="path = 'items.jsonl'"),
            made / "other",
            base=made,
        )
    write_vectors(made / "wide", 60, dims=48)
    with pytest.raises(UsageError, match="made by another embedder"):
        build_index([made / "vectors", made / "wide"], made / "both")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "hnsw"}, "kind: got 'hnsw'; allowed: 'auto', 'flat'"),
        ({"recall": 1.0}, r"recall: got 1\.0; allowed: above 0 and below 1"),
        ({"kind": "ivf-pq"}, r"'ivf-pq' cannot be trained on 4,000 texts, it needs 10,000"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    made: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build_index(made / "vectors", tmp_path / "index", **options)


def test_folders_that_cannot_be_used_are_refused(made: Path, tmp_path: Path) -> None:
    vectors, other = made / "vectors", tmp_path / "other"
    write_vectors(other, 30)
    with pytest.raises(UsageError, match="the same vectors stand twice"):
        build_index([vectors, vectors], tmp_path / "index")
    add_vectors([vectors, other], tmp_path / "all", rename={"2:made": "more"})
    with pytest.raises(UsageError, match=r"same vectors stand twice, in .*all and in .*/vectors,"):
        build_index([tmp_path / "all", vectors], tmp_path / "index")
    with pytest.raises(
        UsageError, match=r"source 'made': is in .*vectors add … --rename 2:made=NAME"
    ):
        build_index([vectors, other], tmp_path / "index")
    assert not (tmp_path / "index").exists()
    with pytest.raises(UsageError, match="vectors: is empty"):
        build_index([], tmp_path / "index")
    with pytest.raises(UsageError, match="lies among the vectors"):
        build_index(vectors, vectors / "index")
    assert StoredVectors.load(vectors).about["parts"]


@pytest.mark.parametrize(
    ("top", "search", "message"),
    [
        ("index = 'i'\nstored = ['v']", "", "index: it is searched by itself"),
        ("stored = ['v']", "exact = true\n", r"search\.exact: is of an index"),
    ],
)
def test_manifests_with_an_index_and_more_are_refused(top: str, search: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        looking_in(top, search)


def same_answers(one: VectorIndex, other: VectorIndex) -> None:
    """Compare what two indexes find in a few lists."""
    queries = drawn_vectors(50, seed=9)
    np.testing.assert_array_equal(one.candidates(queries, 30, 4), other.candidates(queries, 30, 4))


def test_lists_chosen_elsewhere_are_those_that_faiss_chooses(
    made: Path, index: VectorIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of GPUs, which choose the lists where there are any.
    monkeypatch.setattr(index_lists, "_on_gpus", lambda faiss, given: faiss.clone_index(given))
    same_answers(build_index(made / "vectors", tmp_path / "index", kind="ivf-sq8"), index)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["ivf-sq8", "ivf-pq"])
def test_an_index_is_made_on_a_gpu(tmp_path: Path, kind: Any) -> None:
    faiss = pytest.importorskip("faiss")
    if not faiss.get_num_gpus():
        pytest.skip("needs a GPU, and faiss-gpu")
    write_vectors(tmp_path / "vectors", 12_000)
    on_gpu = build_index(tmp_path / "vectors", tmp_path / "index", kind=kind)
    assert on_gpu.about["recall"]["measured"][-1][1] >= (0.98 if kind == "ivf-sq8" else 0.5)
    # In all lists there is every text.
    queries = drawn_vectors(50, seed=9)
    assert (on_gpu.candidates(queries, on_gpu.about["texts"], on_gpu.lists) >= 0).all()


def test_lists_are_trained_as_well_as_by_faiss_itself() -> None:
    faiss = pytest.importorskip("faiss")
    unit, rounds, done = drawn_vectors(4000, seed=5), 10, []
    centres = trained_centres(unit, 60, rounds, nearest_list(unit.shape[1]), done.append)
    assert done == [1] * rounds
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    other = faiss.Kmeans(unit.shape[1], 60, niter=rounds, spherical=True, seed=1)
    other.train(unit)
    ours, theirs = ((unit @ c.T).max(axis=1).mean() for c in (centres, other.centroids))
    assert ours > 0.99 * theirs
    # Without training, cosines are lower by more than that.
    assert (unit @ unit[:60].T).max(axis=1).mean() < 0.97 * theirs


NEAREST = """
import numpy as np
from bayescontam.scan.index_lists import nearest_lists
unit = np.random.default_rng(0).standard_normal((int(sys.argv[1]), 8), np.float32)
nearest_lists(unit, unit[:4096], 1)
"""


def test_lists_of_many_vectors_are_found_in_little_memory() -> None:
    few, many = (run_and_weigh(NEAREST, vectors)[1] for vectors in (4096, 65_536))
    assert many - few < 100e6  # products of all would take 1.07 GB


def test_short_and_long_vectors_have_a_direction_too() -> None:
    vectors = drawn_vectors(6, seed=1)
    vectors[5] = 0
    scales = np.array([1e-24, 1e-30, 1e20, 1e30, 1, 1], np.float32)[:, None]
    expected = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(units(vectors * scales), expected, atol=1e-6)
