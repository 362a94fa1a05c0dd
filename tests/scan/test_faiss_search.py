"""Search for best matches alone, by FAISS: those of the search that counts all cosines."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import SpecError, UsageError
from bayescontam.evidence.choice import choose_pairs, top_pairs
from bayescontam.evidence.curve import fit_curve
from bayescontam.scan import faiss_search
from bayescontam.scan.faiss_search import FaissSearcher
from bayescontam.scan.run import Scan
from bayescontam.scan.sketch import Chunks, Sketch
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import leftovers, shard_lines, tables_of
from tests.support.near_ties import settled
from tests.support.searches import (
    ATOL,
    assert_same,
    cosines_of,
    exact_vectors,
    hashes,
    make_chunks,
    make_queries,
    search,
)
from tests.support.small_corpus import Small, interrupted, scan, small_manifest

KEEP = 10


def by_faiss(queries: Any, parts: list[Chunks], keep: int = KEEP, shard: int = 0) -> Sketch:
    searcher = FaissSearcher(queries, keep)
    for part in parts:
        searcher.add(part)
    return searcher.sketch(shard)


def assert_same_top(found: Sketch, wanted: Sketch, keep: int = KEEP) -> None:
    """Assert that best matches are equal, cosines up to rounding."""
    for query in range(len(wanted.counts)):
        one, other = found.top(query, keep), wanted.top(query, keep)
        for name in ("chunk", "first", "where", "copies"):
            np.testing.assert_array_equal(one[name], other[name])
        np.testing.assert_allclose(one["cosine"], other["cosine"], atol=ATOL)
    assert found.chunks == wanted.chunks
    assert found.tallies == wanted.tallies


def divided(n: int, *vectors: np.ndarray, copies: int = 0) -> list[Chunks]:
    """Return chunks in two strata; the last ones of the first occur again in the second."""
    [x] = vectors
    ids, half = hashes(n), n // 2
    rows = [np.arange(half), np.arange(half - copies, n)]
    return [
        make_chunks(
            x[own], ids[own], stratum=(name, ""), places=own, copies=1 + own % 3,
            firsts=hashes(n, name)[own],
        )
        for name, own in zip(("web", "chats"), rows, strict=True)
    ]  # fmt: skip


@pytest.fixture(params=[2**29, 1])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare all at once, or 40 at a time."""
    monkeypatch.setattr(faiss_search, "_BYTES", request.param)
    monkeypatch.setattr(faiss_search, "_LEAST", 40)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("dtype", ["<f4", "<f2", ">f4", "<f8"])
def test_best_matches_are_those_of_the_search_that_counts(dtype: str) -> None:
    rng = np.random.default_rng(1)
    q, x = (rng.standard_normal((n, 24)).astype(np.float32) for n in (30, 600))
    x *= rng.uniform(0.01, 100, (600, 1)).astype(np.float32)
    x[::50] = 0
    q[3] = 0  # all cosines are equal
    parts = divided(600, x.astype(dtype), copies=70)
    queries = make_queries(q)
    assert_same_top(by_faiss(queries, parts), search(queries, parts, KEEP))


@pytest.mark.usefixtures("pieces")
def test_ties_are_in_the_order_of_hashes() -> None:
    rng = np.random.default_rng(2)
    queries, x = make_queries(exact_vectors(rng, 20)), exact_vectors(rng, 900)
    x[200:500] = x[0]  # far more equal cosines than are found at once
    q = np.concatenate([queries.vectors[1:], x[:1]])
    queries = make_queries(q)
    parts = divided(900, x, copies=50)
    found = by_faiss(queries, parts)
    assert_same_top(found, search(queries, parts, KEEP))
    cosines = cosines_of(q, x)
    for row in range(len(q)):
        order = np.lexsort((hashes(900), -cosines[row]))[:KEEP]
        np.testing.assert_array_equal(found.top(row, KEEP)["chunk"], hashes(900)[order])


@pytest.mark.parametrize("n", [1, 5, KEEP, KEEP + 1, KEEP + faiss_search._SPARE])
def test_few_chunks_are_enough(n: int) -> None:
    rng = np.random.default_rng(3)
    queries, x = make_queries(rng.standard_normal((3, 8))), rng.standard_normal((n, 8))
    assert_same_top(by_faiss(queries, [make_chunks(x)]), search(queries, [make_chunks(x)], KEEP))


def test_sketches_merge_in_any_order_and_split(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    queries, x = make_queries(rng.standard_normal((9, 12))), rng.standard_normal((400, 12))
    parts = divided(400, x, copies=60)
    whole = by_faiss(queries, parts)
    one, other = (by_faiss(queries, [part], shard=i) for i, part in enumerate(parts))
    other.save(tmp_path / "other.npz")
    other = Sketch.load(tmp_path / "other.npz")
    empty = Sketch.empty(9, KEEP, FaissSearcher.bins)
    assert_same(one.merge(other), other.merge(one))
    assert_same(empty.merge(one), one)
    both = one.merge(other)
    # To the last bit: a cosine depends on nothing but its pair.
    np.testing.assert_array_equal(both.matches, whole.matches)
    assert both.chunks == whole.chunks


def test_vectors_that_are_not_finite_are_named() -> None:
    x = np.ones((5, 4), np.float32)
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="vector 3 is not finite"):
        by_faiss(make_queries(np.ones((2, 4), np.float32)), [make_chunks(x)])


@pytest.mark.parametrize(("device", "number"), [("cuda", -1), ("cuda:1", 1)])
def test_the_faiss_of_gpus_searches_there(
    monkeypatch: pytest.MonkeyPatch, device: str, number: int
) -> None:
    """As far as that can be seen without a GPU."""
    faiss, calls = pytest.importorskip("faiss"), []

    def knn_gpu(resources: str, *arguments: Any, metric: int, device: int) -> Any:
        calls.append((resources, device))
        return faiss.knn(*arguments, metric=metric)

    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: "resources", raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "knn_gpu", knn_gpu)
    rng = np.random.default_rng(5)
    queries, x = make_queries(rng.standard_normal((4, 8))), rng.standard_normal((90, 8))
    faiss_search._gpu_memory.cache_clear()
    searcher = FaissSearcher(queries, KEEP, device)
    searcher.add(make_chunks(x))
    assert calls == [("resources", number)]
    faiss_search._gpu_memory.cache_clear()
    assert_same(searcher.sketch(), by_faiss(queries, [make_chunks(x)]))
    with pytest.raises(UsageError, match=r"search\.top_k: got 2,033; FAISS finds at most 2,032 on"):
        FaissSearcher(queries, 2033, device)


def of_faiss(made: Manifest) -> Manifest:
    text = made.text.replace("shard_chunks", "backend = 'faiss'\nshard_chunks")
    return Manifest.parse(text, "made.toml")


@pytest.fixture(scope="module")
def best(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    out = tmp_path_factory.mktemp("best") / "out"
    return scan(of_faiss(small.manifest), out, base=small.folder)


def test_a_scan_has_the_same_matches_and_nothing_else(scanned: Scan, best: Scan) -> None:
    rows = settled(scanned.matches, ATOL).index
    assert len(rows) > 0.6 * len(scanned.matches)
    pd.testing.assert_frame_equal(
        *(each.matches.loc[rows].drop(columns="cosine") for each in (best, scanned))
    )
    np.testing.assert_allclose(best.matches["cosine"], scanned.matches["cosine"], atol=ATOL)
    assert (best.matches["copies"] > 1).any()
    for name in ("tail", "histogram", "strata"):
        empty, full = getattr(best, name), getattr(scanned, name)
        assert len(empty) == 0
        assert empty.dtypes.to_dict() == full.dtypes.to_dict()
    pd.testing.assert_frame_equal(best.items, scanned.items)
    assert set(best.texts["chunk_id"]) == set(best.matches["chunk_id"])


def test_the_record_says_what_there_is(scanned: Scan, best: Scan) -> None:
    for name in ("documents", "chunks", "short", "strata", "benchmarks"):
        assert best.record[name] == scanned.record[name]
    assert best.record["search"]["backend"] == "faiss"
    lost = {"tail_share", "tail_size"}
    assert scanned.record["search"].keys() - best.record["search"].keys() == lost
    assert any("searched for the best matches alone" in note for note in best.record["notes"])
    assert not any("alone" in note for note in scanned.record["notes"])


def test_workers_shards_and_interruptions_change_nothing(
    small: Small, best: Scan, tmp_path: Path
) -> None:
    two = scan(of_faiss(small.manifest), tmp_path / "two", base=small.folder, jobs=2)
    assert tables_of(two.folder) == tables_of(best.folder)
    interrupted(of_faiss(small.manifest), tmp_path / "out", 4, base=small.folder)
    again = scan(of_faiss(small.manifest), tmp_path / "out", base=small.folder)
    assert tables_of(again.folder) == tables_of(best.folder)
    assert len(shard_lines(again.folder)) == best.record["search"]["shards"]
    assert leftovers(again.folder) == []
    larger = scan(of_faiss(small_manifest(rows=64)), tmp_path / "larger", base=small.folder)
    assert larger.record["search"]["shards"] < best.record["search"]["shards"]
    columns = ["benchmark", "item", "rank", "chunk_id", "copies", "document"]
    pd.testing.assert_frame_equal(larger.matches[columns], best.matches[columns])


def test_stored_vectors_are_searched(small: Small, best: Scan, tmp_path: Path) -> None:
    stored = scan(
        of_faiss(small.manifest), tmp_path / "a", base=small.folder, keep_vectors="fp32"
    ).folder / "vectors"  # fmt: skip
    head, tail = small.manifest.text.split("[[sources]]", 1)
    rest = tail[tail.index("[chunking]") :]
    text = f"stored = ['{stored}']\n{head}{rest}"
    found = scan(of_faiss(Manifest.parse(text, "made.toml")), tmp_path / "b", base=small.folder)
    assert tables_of(found.folder)["matches"] == tables_of(best.folder)["matches"]


def test_what_needs_all_cosines_is_refused(best: Scan) -> None:
    message = r"out: has best matches alone, since its search\.backend is 'faiss'; .*--backend tor"
    for refused in (
        lambda: choose_pairs(best, 5, 1),
        lambda: top_pairs(best, 2),
        lambda: fit_curve(best),
    ):
        with pytest.raises(UsageError, match=message):
            refused()


def test_the_page_leaves_out_what_was_not_counted(best: Scan, tmp_path: Path) -> None:
    best.report(tmp_path / "scan.html")
    page = (tmp_path / "scan.html").read_text("utf-8")
    assert "This scan searched for best matches alone" in page
    assert 'scan again with <code>backend = "torch"</code>' in page
    for lost in ("Tail starts at", "Tail sample", "where high cosines come from"):
        assert lost not in page
    assert 'id="picture-tops"' in page


def test_a_manifest_without_the_key_has_the_hash_that_it_had(small: Small) -> None:
    said = Manifest.parse(small.manifest.text.replace("shard_", "backend = 'torch'\nshard_"), "m")
    assert said.hash == small.manifest.hash
    assert of_faiss(small.manifest).hash != small.manifest.hash


def test_an_index_is_not_searched_by_a_backend() -> None:
    text = (
        "summary = 'x'\nindex = 'i'\n[[benchmarks]]\nname = 'b'\npath = 'b.jsonl'\n[search]\n"
        "backend = 'faiss'\n"
    )
    with pytest.raises(SpecError, match=r"search\.backend: 'faiss' compares all vectors, and an"):
        Manifest.parse(text, "m.toml")
    wrong = text.replace("index = 'i'", "stored = ['v']").replace("faiss", "fais")
    with pytest.raises(SpecError, match=r"search\.backend: got 'fais'; did you mean 'faiss'"):
        Manifest.parse(wrong, "m.toml")


def test_a_gpu_needs_the_faiss_of_gpus(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pytest.importorskip("faiss"), "StandardGpuResources", raising=False)
    message = "finds no GPU: pip uninstall faiss-cpu, then install the extra 'gpu'; or choose"
    with pytest.raises(UsageError, match=message):
        faiss_search.check_faiss("cuda", 100)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(UsageError, match=message):
        scan(of_faiss(small.manifest), tmp_path / "out", base=small.folder, device="auto")
