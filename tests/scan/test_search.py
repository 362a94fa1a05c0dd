"""Exact search: top-k, histogram and sketch against FAISS, NumPy and plain Python."""

from itertools import pairwise

import numpy as np
import pytest

from bayescontam.scan.search import PIECE, Searcher
from bayescontam.scan.sketch import Sketch
from tests.support.searches import (
    ATOL,
    BINS,
    assert_same,
    bins_by_formula,
    cosines_of,
    exact_vectors,
    hashes,
    histogram,
    kept_of,
    make_chunks,
    make_queries,
    priority,
    search,
)

torch = pytest.importorskip("torch")


def normal(n, dims, seed=0):
    return np.random.default_rng(seed).standard_normal((n, dims)).astype(np.float32)


def awkward(name):
    """Return queries and vectors that are awkward in one way."""
    q, x = normal(7, 24), normal(900, 24, 1)
    zeros = [0, 5, 300]
    cases = {
        "random": (q, x),
        "one query": (q[:1], x),
        "one chunk": (q, x[:1]),
        "one dimension": (q[:, :1], x[:, :1]),
        "many dimensions": (normal(5, 1500), normal(60, 1500, 1)),
        "more than two groups of queries": (normal(600, 8), normal(1100, 8, 1)),
        "all equal": (q, np.repeat(x[:1], 900, axis=0)),
        "tied": (q, x[np.arange(900) % 7]),
        "equal and opposite": (q, np.concatenate([q, -q, 3 * q, x])),
        "zeros": (np.where(np.arange(7)[:, None] == 2, 0, q), x.copy()),
        "narrow": (q + 30, x + 30),
        "huge": (q * np.float32(1e30), x * np.float32(2e37)),
        "tiny": (q * np.float32(1e-30), x * np.float32(1e-38)),
        "of all magnitudes": (q, x * np.logspace(-37, 37, 900, dtype=np.float32)[:, None]),
        "double": (q.astype(np.float64), x.astype(np.float64) * 1e300),
        "tiny double": (q.astype(np.float64) * 1e-300, x.astype(np.float64) * 1e-300),
        "half": (q, x.astype(np.float16)),
        "tiny half": (q, (x * 1e-6).astype(np.float16)),
        "big-endian": (q.astype(">f4"), x.astype(">f4")),
        "in the order of Fortran": (np.asfortranarray(q), np.asfortranarray(x)),
        "every other": (q[::2], np.repeat(x, 2, axis=0)[::2]),
    }
    if name == "zeros":
        cases[name][1][zeros] = 0
    return cases[name]


AWKWARD = [
    "random", "one query", "one chunk", "one dimension", "many dimensions",
    "more than two groups of queries", "all equal", "tied", "equal and opposite", "zeros",
    "narrow", "huge", "tiny", "of all magnitudes", "double", "tiny double", "half", "tiny half",
    "big-endian", "in the order of Fortran", "every other",
]  # fmt: skip


def assert_tops(sketch: Sketch, cosines: np.ndarray, ids: np.ndarray, k: int) -> None:
    """Assert that a sketch's top-k are those of all `cosines`, up to swaps within `ATOL`."""
    column_of = {int(chunk): i for i, chunk in enumerate(ids)}
    for row, expected in enumerate(cosines):
        top = sketch.top(row, k)
        columns = [column_of[int(chunk)] for chunk in top["chunk"]]
        best = -np.sort(-expected)[:k]
        np.testing.assert_allclose(top["cosine"], best, atol=ATOL, rtol=0)
        np.testing.assert_allclose(top["cosine"], expected[columns], atol=ATOL, rtol=0)
        assert len(set(columns)) == len(columns) == min(k, len(ids))
        pairs = list(zip(-top["cosine"], top["chunk"], strict=True))
        assert pairs == sorted(pairs)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", AWKWARD)
def test_top_k_is_that_of_all_cosines(name, compiled):
    q, x = awkward(name)
    sketch = search(make_queries(q), [make_chunks(x)], 20, compiled=compiled)
    cosines = cosines_of(q, x)
    assert np.abs(sketch.matches["cosine"]).max() <= 1
    for k in (1, 7, 20):
        assert_tops(sketch, cosines, hashes(len(x)), k)


@pytest.mark.parametrize("name", ["random", "tied", "equal and opposite", "narrow", "half"])
def test_top_k_is_that_of_faiss(name):
    faiss = pytest.importorskip("faiss")
    q, x = (np.ascontiguousarray(rows, np.float32) for rows in awkward(name))
    sketch = search(make_queries(q), [make_chunks(x)], 50)
    faiss.normalize_L2(q)
    faiss.normalize_L2(x)
    index = faiss.IndexFlatIP(q.shape[1])
    index.add(x)
    values, columns = index.search(q, 50)
    ids = hashes(len(x))
    for row in range(len(q)):
        top = sketch.top(row, 50)
        np.testing.assert_allclose(top["cosine"], values[row], atol=ATOL, rtol=0)
        swapped = set(top["chunk"].tolist()) ^ set(ids[columns[row]].tolist())
        known = dict(zip(ids.tolist(), x @ q[row], strict=True))
        assert all(abs(known[chunk] - values[row, -1]) <= ATOL for chunk in swapped)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", AWKWARD)
def test_histogram_is_that_of_all_cosines(name, compiled):
    q, x = awkward(name)
    copies = np.arange(len(x)) % 3 + 1
    part = make_chunks(x, copies=copies)
    counts = search(make_queries(q), [part], 5, compiled=compiled).counts
    cosines = cosines_of(q, x)
    low, high = bins_by_formula(cosines - ATOL), bins_by_formula(cosines + ATOL)
    assert (counts.sum(axis=1) == copies.sum()).all()
    for row in range(len(q)):
        sure, near = low[row] == high[row], low[row] != high[row]
        least = np.bincount(low[row][sure], copies[sure], BINS)
        most = least + sum(np.bincount(b[row][near], copies[near], BINS) for b in (low, high))
        assert (least <= counts[row]).all()
        assert (counts[row] <= most).all()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("keep", [1, 3, 40])
def test_sketch_without_rounding_is_that_of_the_definition(keep, compiled):
    rng = np.random.default_rng(5)
    q, x = exact_vectors(rng, 6), exact_vectors(rng, 9000)
    q[3], x[100:110] = 0, 0
    copies, ids = rng.integers(1, 2**40, len(x)), hashes(len(x))
    queries = make_queries(q)
    part = make_chunks(x, copies=copies, places=np.arange(len(x)) + 7)
    sketch = search(queries, [part], keep, compiled=compiled)
    cosines = q.astype(np.float64) @ x.T.astype(np.float64)
    for row, key in enumerate(queries.keys.tolist()):
        kept = kept_of(cosines[row], ids, key, keep)
        matches = sketch.of(row)
        np.testing.assert_array_equal(matches["chunk"], ids[kept])
        np.testing.assert_array_equal(matches["first"], ids[kept])
        np.testing.assert_array_equal(matches["cosine"], cosines[row, kept])
        np.testing.assert_array_equal(matches["copies"], copies[kept])
        np.testing.assert_array_equal(matches["where"], np.array(kept) + 7)
        assert matches["priority"].tolist() == [priority(int(i), key) for i in ids[kept]]
    # Sums beyond 2**53 are exact too.
    for row, bins in zip(sketch.counts, bins_by_formula(cosines), strict=True):
        expected = [sum(copies[bins == b].tolist()) for b in np.unique(bins)]
        assert row[np.unique(bins)].tolist() == expected
        assert sum(row.tolist()) == sum(copies.tolist())


def test_sketch_of_random_vectors_is_that_of_the_definition():
    queries, part = make_queries(normal(4, 24)), make_chunks(normal(6000, 24, 1))
    everything = search(queries, [part], len(part.hashes))
    sketch = search(queries, [part], 10)
    for row, key in enumerate(queries.keys.tolist()):
        matches = everything.of(row)
        assert len(matches) == len(part.hashes)
        kept = kept_of(matches["cosine"], matches["chunk"], key, 10)
        np.testing.assert_array_equal(sketch.of(row), matches[kept])


def test_sketch_with_equal_priorities_is_that_of_the_definition():
    # Priorities are made of the low halves of hashes alone.
    rng = np.random.default_rng(6)
    ids = rng.permutation(np.arange(1200)).astype(np.uint64)
    ids = (ids << np.uint64(32)) | (ids % np.uint64(40))
    queries, x = make_queries(exact_vectors(rng, 5)), exact_vectors(rng, 1200)
    sketch = search(queries, [make_chunks(x, ids)], 4)
    cosines = queries.vectors.astype(np.float64) @ x.T
    for row, key in enumerate(queries.keys.tolist()):
        kept = kept_of(cosines[row], ids, key, 4)
        np.testing.assert_array_equal(sketch.of(row)["chunk"], ids[kept])


def test_highest_priority_is_one_like_any_other():
    key, top = 12345, 2**32 - 1
    chunk = undone(top) ^ key
    assert priority(chunk, key) == top
    ids = np.array([chunk], np.uint64)
    sketch = search(make_queries(normal(1, 4), [key]), [make_chunks(normal(1, 4), ids)], 1)
    assert sketch.top(0, 1)["chunk"].tolist() == [chunk]
    assert sketch.tail(0, 0, 1)["priority"].tolist() == [top]


def undone(h: int) -> int:
    """Return what MurmurHash3's finalizer, which is a bijection, makes `h` of."""
    h ^= h >> 16
    h = h * pow(0xC2B2AE35, -1, 2**32) % 2**32
    h ^= h >> 13 ^ h >> 26
    h = h * pow(0x85EBCA6B, -1, 2**32) % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize("compiled", [True, False])
def test_threads_change_nothing(compiled):
    queries = make_queries(normal(700, 40))
    parts = [make_chunks(normal(1700, 40, 1)), make_chunks(normal(90, 40, 1), stratum=("b", ""))]
    one = search(queries, parts, 5, compiled=compiled)
    for threads in (2, 3, 8):
        assert_same(one, search(queries, parts, 5, threads=threads, compiled=compiled))


def test_threads_of_torch_are_put_back():
    before = torch.get_num_threads()
    searcher = Searcher(make_queries(normal(2, 4)), 3)
    with pytest.raises(ValueError, match="not finite"):
        searcher.add(make_chunks(np.full((1, 4), np.nan, np.float32)))
    assert torch.get_num_threads() == before


def assert_close(one: Sketch, other: Sketch, atol: float) -> None:
    """Assert that two sketches of the same chunks differ by rounding alone."""
    assert one.chunks == other.chunks
    assert (one.counts.sum(axis=1) == other.counts.sum(axis=1)).all()
    below, other_below = (np.cumsum(sketch.counts, axis=1) for sketch in (one, other))
    # No cosine moves by more than one bin.
    assert (below[:, :-1] <= other_below[:, 1:]).all()
    assert (other_below[:, :-1] <= below[:, 1:]).all()
    for row in range(len(one.counts)):
        tops = [sketch.top(row, one.keep) for sketch in (one, other)]
        np.testing.assert_allclose(tops[0]["cosine"], tops[1]["cosine"], atol=atol, rtol=0)
        swapped = set(tops[0]["chunk"].tolist()) ^ set(tops[1]["chunk"].tolist())
        for top in tops:
            mine = np.isin(top["chunk"], list(swapped))
            assert (top["cosine"][mine] <= top["cosine"][-1] + 2 * atol).all()


@pytest.mark.parametrize("name", AWKWARD)
def test_compiled_and_torch_agree(name):
    q, x = awkward(name)
    one, other = (
        search(make_queries(q), [make_chunks(x)], 20, compiled=compiled)
        for compiled in (True, False)
    )
    assert_close(one, other, ATOL)


def test_compiled_and_torch_are_equal_without_rounding(monkeypatch):
    # Small blocks of Torch, so that there are several, and more candidates than fit at once.
    monkeypatch.setattr("bayescontam.scan.scores.SCORES", 2000 * 9)
    rng = np.random.default_rng(2)
    queries = make_queries(exact_vectors(rng, 9))
    parts = [make_chunks(exact_vectors(rng, n), hashes(n), (str(n), "")) for n in (9000, 9500)]
    assert_same(search(queries, parts, 30), search(queries, parts, 30, compiled=False))


@pytest.mark.gpu
@pytest.mark.parametrize("name", AWKWARD)
def test_gpu_and_cpu_agree(name):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    q, x = awkward(name)
    one, other = (
        search(make_queries(q), [make_chunks(x)], 20, device=device) for device in ("cpu", "cuda")
    )
    assert_close(one, other, ATOL)


def test_strata_sum_to_the_whole():
    queries = make_queries(normal(6, 12), benchmarks=[0, 0, 1, 1, 2, 0])
    sizes = {("web", "a"): 400, ("web", "b"): 1, ("books", ""): 30, ("empty", ""): 0}
    parts = [
        make_chunks(normal(n, 12, n), hashes(n, str(name)), name, copies=np.full(n, 2))
        for name, n in sizes.items()
    ]
    sketch = search(queries, parts)
    assert sketch.chunks == {name: 2 * n for name, n in sizes.items()}
    assert sketch.total == 2 * sum(sizes.values())
    assert sketch.tallies == {"texts": sum(sizes.values())}
    assert all(table.shape == (3, BINS) for table in sketch.strata.values())
    whole = sum(sketch.strata.values())
    for benchmark in range(3):
        mine = queries.benchmarks == benchmark
        np.testing.assert_array_equal(whole[benchmark], sketch.counts[mine].sum(axis=0))
    for part in parts:
        alone = search(queries, [part])
        np.testing.assert_array_equal(sketch.strata[part.stratum], alone.strata[part.stratum])


def test_text_in_several_strata_is_one_match():
    q, x = normal(3, 8), normal(4, 8, 1)
    ids = np.array([10, 11, 12, 13], np.uint64)

    def part(stratum, rows, firsts, copies):
        return make_chunks(
            x[rows], ids[rows], stratum,
            firsts=np.array(firsts, np.uint64), places=np.array(firsts, np.int64) * 2,
            copies=np.array(copies),
        )  # fmt: skip

    parts = [
        part(("a", ""), [0, 1], [50, 51], [1, 2]),
        part(("b", "x"), [1, 2, 0], [30, 31, 90], [4, 8, 16]),
        part(("b", "y"), [2, 3], [99, 20], [32, 64]),
    ]
    sketch = search(make_queries(q), parts)
    expected = {10: (50, 17), 11: (30, 6), 12: (31, 40), 13: (20, 64)}
    for row in range(3):
        found = sketch.of(row)
        assert sorted(found["chunk"].tolist()) == list(expected)
        for match in found:
            first, copies = expected[int(match["chunk"])]
            assert (match["first"], match["where"], match["copies"]) == (first, 2 * first, copies)
    assert sketch.chunks == {("a", ""): 3, ("b", "x"): 28, ("b", "y"): 96}
    copies = np.array([17, 6, 40, 64])
    np.testing.assert_array_equal(sketch.counts, histogram(cosines_of(q, x), copies))
    # The order in which strata come is of no account.
    assert_same(sketch, search(make_queries(q), parts[::-1]))


def test_many_small_parts_make_the_sketch_of_one():
    queries, x, ids = make_queries(normal(3, 8)), normal(5000, 8, 1), hashes(5000)
    cuts = [0, 1, 2, 700, 1024, 1025, 2048, 5000]
    parts = [make_chunks(x[a:b], ids[a:b], places=np.arange(a, b)) for a, b in pairwise(cuts)]
    assert_same(search(queries, parts), search(queries, [make_chunks(x)]))


def test_search_is_repeatable():
    queries, part = make_queries(normal(20, 48)), make_chunks(normal(3000, 48, 1))
    assert_same(search(queries, [part]), search(queries, [part]))


def test_no_chunks_and_no_queries():
    none = search(make_queries(normal(3, 8)), [])
    assert none.total == 0
    assert len(none.top(0, 5)) == len(none.tail(0, 0, 5)) == none.threshold(0, 0.5) == 0
    part = make_chunks(normal(30, 8))
    nobody = search(make_queries(normal(0, 8)), [part])
    assert nobody.counts.shape == (0, BINS)
    assert nobody.total == 30
    merged = nobody.merge(search(make_queries(normal(0, 8)), [part], shard=1))
    assert merged.chunks == {("web", ""): 60}


def test_read_only_vectors_are_searched_and_left_as_they_are():
    q, x = normal(2, 8) * np.float32(1e20), normal(40, 8, 1) * np.float32(1e20)
    before = q.copy(), x.copy()
    q.setflags(write=False)
    x.setflags(write=False)
    assert_tops(search(make_queries(q), [make_chunks(x)]), cosines_of(q, x), hashes(40), 10)
    np.testing.assert_array_equal(q, before[0])
    np.testing.assert_array_equal(x, before[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_that_are_not_finite_are_named(bad, dtype):
    x = normal(PIECE + 60, 4).astype(dtype)
    x[0] = 0
    x[[PIECE + 40, PIECE + 50], 2] = bad
    searcher = Searcher(make_queries(normal(2, 4)), 3)
    with pytest.raises(ValueError, match=f"vector {PIECE + 40} is not finite"):
        searcher.add(make_chunks(x))
    # Chunks that are known are scored after those that are new.
    ids = hashes(PIECE + 60)
    searcher = Searcher(make_queries(normal(2, 4)), 3)
    searcher.add(make_chunks(np.ones((PIECE + 50, 4)), ids[: PIECE + 50]))
    with pytest.raises(ValueError, match=f"vector {PIECE + 50} is not finite"):
        searcher.add(make_chunks(x, ids))


def test_queries_that_are_not_finite_are_named():
    q = normal(5, 4)
    q[3, 1] = np.nan
    with pytest.raises(ValueError, match="query 3 is not finite"):
        Searcher(make_queries(q), 3)
