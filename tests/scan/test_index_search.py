"""Parts of a search of an index, each against the plain computation of what it returns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError
from bayescontam.scan import index_build, index_lists, index_search, vector_index
from bayescontam.scan.index_build import build_index
from bayescontam.scan.index_lists import nearest_lists
from bayescontam.scan.index_search import SampledSketch, search_index
from bayescontam.scan.search import Queries
from bayescontam.scan.sketch import BINS, bins_of, compare_halves
from bayescontam.scan.vector_index import VectorIndex, candidates, units
from bayescontam.specs.corpus import Search
from tests.support.made_vectors import drawn_vectors, write_vectors
from tests.support.small_corpus import ATOL

TEXTS, COPIES, ITEMS, DIMS = 3000, 200, 50, 32
CANDIDATES = 60
"""Texts that are found for each item."""
SEARCH = Search(top_k=20, tail_size=30, tail_share=0.02)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    """Return an index by lists in several blocks, with a sample of one in eight."""
    folder = tmp_path_factory.mktemp("made")
    write_vectors(folder / "vectors", TEXTS, copies=COPIES, part=1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "_BLOCK", 40_000)
        patch.setattr(index_build, "_SAMPLE", 400)
        built = build_index(folder / "vectors", folder / "index", kind="ivf-sq8", recall=0.9)
    assert len(built.about["blocks"]) > 2
    assert built.weight == 8
    assert candidates(SEARCH.tail_size, built.weight) == CANDIDATES
    return built


@pytest.fixture(scope="module")
def queries() -> Queries:
    keys = np.random.default_rng(4).integers(0, 2**32, ITEMS, dtype=np.uint32)
    return Queries(drawn_vectors(ITEMS, seed=7), keys, np.arange(ITEMS) % 2)


def stored(index: VectorIndex) -> Any:
    """Return the vectors of all texts, of length one."""
    vectors = index.vectors(np.arange(TEXTS)).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_cosines_of_halves_are_those_of_their_numbers() -> None:
    rng = np.random.default_rng(0)
    halves = rng.standard_normal((40, 24)).astype("<f2")
    halves[3] *= np.float16(1e-6)  # below the least normal number
    halves[4] = np.float16(-65_504)
    halves[5] = 0
    wide = rng.standard_normal((5, 24))
    query = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    rows, owners = rng.permutation(40), rng.integers(5, size=40)
    cosines = np.empty(40, np.float32)
    compare_halves(halves.view("<u2"), rows, query, owners, cosines)
    exact = halves[rows].astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    assert (halves[3] != 0).any()
    expected = (exact * query[owners]).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(cosines, expected, atol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_halves_that_are_not_finite_have_no_cosine(value: float) -> None:
    halves = np.ones((3, 9), "<f2")
    halves[1, 7] = value
    query, cosines = np.full((1, 9), 1 / 3, np.float32), np.empty(3, np.float32)
    compare_halves(halves.view("<u2"), np.arange(3), query, np.zeros(3, np.int64), cosines)
    np.testing.assert_array_equal(np.isnan(cosines), [False, True, False])


def test_lists_are_those_with_the_largest_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_lists, "COMPARED", 4 * 30 * 7)  # seven vectors at once
    vectors, centres = drawn_vectors(40, seed=1), drawn_vectors(30, seed=2)
    cosines, lists = nearest_lists(vectors, centres, 3)
    products = vectors @ centres.T
    np.testing.assert_array_equal(lists, np.argsort(-products, axis=1)[:, :3])
    np.testing.assert_allclose(cosines, -np.sort(-products, axis=1)[:, :3], atol=1e-6)


def test_stacked_blocks_find_what_each_finds_by_itself(index: VectorIndex) -> None:
    faiss = pytest.importorskip("faiss")
    query, probes = drawn_vectors(ITEMS, seed=9), 3
    shards = faiss.IndexShards(DIMS, False, False)
    blocks = [faiss.read_index(str(index.folder / name)) for name in index.about["blocks"]]
    for block in blocks:
        block.nprobe = probes
        shards.add_shard(block)
    # All that these lists hold, as products of FAISS and Torch may put near ties in other orders.
    expected = shards.search(query, TEXTS)[1]
    found = index.candidates(query, TEXTS, probes)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(expected, axis=1))
    assert (found >= 0).sum() < 0.5 * found.size


def test_cosines_do_not_depend_on_how_queries_are_grouped(
    index: VectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = units(drawn_vectors(ITEMS, seed=9))
    ids, cosines = index.nearest(query, 40)
    exact = query @ stored(index).T
    np.testing.assert_allclose(cosines, np.take_along_axis(exact, ids, 1), atol=ATOL)
    assert (np.diff(cosines, axis=1) <= 0).all()
    monkeypatch.setattr(vector_index, "_QUERIES", 7)
    other, again = index.nearest(query, 40)
    np.testing.assert_array_equal(ids, other)
    np.testing.assert_array_equal(cosines, again)


def test_more_lists_are_searched_for_those_that_lack_candidates(index: VectorIndex) -> None:
    query, advanced = units(drawn_vectors(ITEMS, seed=9)), []
    size = int(TEXTS / index.lists * index.about["probes"])
    few = (index.candidates(query, size) < 0).any(axis=1)
    assert 0 < few.sum() < ITEMS
    ids, cosines = index.nearest(query, size, advance=advanced.append)
    assert (ids >= 0).all()
    assert sum(advanced) == ITEMS
    # The others are searched no further.
    np.testing.assert_array_equal(
        np.sort(ids[~few], axis=1), np.sort(index.candidates(query[~few], size), axis=1)
    )
    exact = np.take_along_axis(query @ stored(index).T, ids, 1)
    np.testing.assert_allclose(cosines, exact, atol=ATOL)


@pytest.fixture(params=[10**6, 37], ids=["at once", "piece by piece"])
def found(
    index: VectorIndex, queries: Queries, request: Any, monkeypatch: pytest.MonkeyPatch
) -> SampledSketch:
    """Return what is found, with a sample that is taken in pieces of some size."""
    monkeypatch.setattr(index_search, "_PIECE", request.param)
    monkeypatch.setattr(index_search, "usable_cores", lambda: 3)
    return search_index(index, queries, SEARCH, progress=False)


def test_all_cosines_of_the_sample_are_counted_but_those_found(
    index: VectorIndex, queries: Queries, found: SampledSketch
) -> None:
    rows = np.asarray(index.sample_rows)
    cosines = units(queries.vectors) @ stored(index)[rows["text"]].T
    ids, _ = index.nearest(units(queries.vectors), CANDIDATES)
    others = ~np.array([np.isin(rows["text"], own) for own in ids])
    for cosine in (-1.0, -0.2, 0.0, 0.2):
        # Cosines at the edge of a bin may fall to either side.
        least, most = (
            index.weight * ((cosines >= cosine + edge) & others) @ rows["copies"]
            for edge in (ATOL, -ATOL)
        )
        bin_at = int(bins_of(np.array([cosine + ATOL], np.float32))[0])
        estimated = found.estimated[:, bin_at:].sum(axis=1)
        assert (least <= estimated).all()
        assert (estimated <= most).all()
    np.testing.assert_array_equal(
        sum(found.strata.values()).sum(axis=1),  # type: ignore[union-attr]
        [found.counts[queries.benchmarks == number].sum() for number in (0, 1)],
    )


def test_tails_have_all_of_the_sample_above_the_threshold(
    index: VectorIndex, queries: Queries, found: SampledSketch
) -> None:
    text = np.unique(np.asarray(index.sample_rows["text"]))
    cosines = units(queries.vectors) @ stored(index)[text].T
    single = index.texts["copies"][text] == 1  # of such a text, each sampled one stays
    chunk, drawn = index.texts["chunk"][text], 0
    for query in range(ITEMS):
        threshold = found.threshold(query, SEARCH.tail_share)
        lowest = (threshold - BINS // 2) / (BINS // 2)
        tail = found.tails[query]
        assert (tail["cosine"] >= lowest - ATOL).all()
        assert len(np.unique(tail["chunk"])) == len(tail)
        surely = chunk[single & (cosines[query] >= lowest + ATOL)]
        assert np.isin(surely, tail["chunk"]).all()
        column = np.searchsorted(chunk, tail["chunk"])
        np.testing.assert_array_equal(chunk[column], tail["chunk"])
        np.testing.assert_allclose(tail["cosine"], cosines[query, column], atol=ATOL)
        drawn += len(surely)
    assert drawn > 3 * ITEMS


def test_what_was_missed_is_nearer_than_the_last_match(
    index: VectorIndex, queries: Queries, found: SampledSketch
) -> None:
    text = np.unique(np.asarray(index.sample_rows["text"]))
    ids, near = index.nearest(units(queries.vectors), CANDIDATES)
    cosines = units(queries.vectors) @ stored(index)[text].T
    others = ~np.array([np.isin(text, own) for own in ids])
    least = near[:, [SEARCH.top_k - 1]]
    low, high = (int(((cosines > least + edge) & others).sum()) for edge in (ATOL, -ATOL))
    assert low <= found.missed <= high
    best = ids[:, : SEARCH.top_k]
    assert found.found == np.isin(best, text).sum() > 0


def test_a_vector_that_was_damaged_since_is_named(tmp_path: Path) -> None:
    write_vectors(tmp_path / "vectors", 150)
    index = build_index(tmp_path / "vectors", tmp_path / "index")
    vectors = np.load(tmp_path / "vectors" / "000000.npy", mmap_mode="r+")
    vectors[41, 3] = np.nan
    vectors.flush()
    with pytest.raises(DataError, match=r"000000\.npy: row 42: the vector is not finite"):
        index.nearest(drawn_vectors(3, seed=5), 150)
