"""Sketches: merging, the random tail and files, against brute force and probability."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bayescontam.scan.search import Chunks, Searcher
from bayescontam.scan.sketch import Sketch, bins_of, priority_of
from tests.support.searches import (
    ATOL,
    BINS,
    assert_same,
    bins_by_formula,
    cosines_of,
    exact_vectors,
    hashed,
    hashes,
    histogram,
    kept_of,
    make_chunks,
    make_queries,
    priority,
    search,
)

pytest.importorskip("torch")

TEXTS, QUERIES, KEEP = 60, 4, 5
STRATA = [("web", "a"), ("web", "b"), ("books", "")]


# Priorities


def test_priorities_are_murmurs():
    # The hash of no bytes is the finalizer of the seed: values published with MurmurHash3.
    published = {0: 0, 1: 0x514E28B7, 0xFFFFFFFF: 0x81F16F39}
    for seed, value in published.items():
        assert priority_of(np.uint64(0), np.uint32(seed)) == priority(0, seed) == value
        assert priority_of(np.uint64(seed), np.uint32(0)) == value


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_priorities_are_those_of_plain_python(chunk, key):
    assert priority_of(np.uint64(chunk), np.uint32(key)) == priority(chunk, key)


def test_priorities_are_uniform_over_chunks_and_over_keys():
    some = hashes(20_000)
    for values in (
        [priority_of(chunk, np.uint32(7)) for chunk in some],
        [priority_of(np.uint64(7), np.uint32(key % 2**32)) for key in some],
        [priority_of(np.uint64(i), np.uint32(7)) for i in range(20_000)],
    ):
        assert stats.kstest(np.array(values) / 2**32, "uniform").pvalue > 1e-4


# Bins


def test_bins_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    edges = np.arange(-1000, 1001, dtype=np.float32) / np.float32(1000)
    near = [np.nextafter(edges, np.float32(to)) for to in (-2, 2)]
    some = rng.uniform(-1, 1, 100_000).astype(np.float32)
    cosines = np.clip(np.concatenate([edges, *near, some]), -1, 1)
    np.testing.assert_array_equal(bins_of(cosines), bins_by_formula(cosines))
    assert bins_of(np.array([-1, 0, 0.9995, 1], np.float32)).tolist() == [0, 1000, 1999, 2000]


# Merging


def corpus(seed: int, occurrences: int) -> dict[str, np.ndarray]:
    """Return occurrences of `TEXTS` texts, whose vectors have cosines without rounding."""
    rng = np.random.default_rng(seed)
    return {
        "query": exact_vectors(rng, QUERIES),
        "vector": exact_vectors(rng, TEXTS),
        "text": rng.integers(0, TEXTS, occurrences),
        "stratum": rng.integers(0, len(STRATA), occurrences),
        "first": np.array([hashed(seed, i) for i in range(occurrences)], np.uint64),
    }


def shard_of(made, rows, number):
    """Return the sketch of some occurrences, each stratum's texts once with their copies."""
    rows = rows[np.argsort(made["first"][rows])]
    parts = []
    for stratum in range(len(STRATA)):
        mine = rows[made["stratum"][rows] == stratum]
        texts, lowest, copies = np.unique(made["text"][mine], return_index=True, return_counts=True)
        parts.append(
            make_chunks(
                made["vector"][texts], hashes(TEXTS)[texts], STRATA[stratum],
                firsts=made["first"][mine[lowest]], places=mine[lowest], copies=copies,
            )
        )  # fmt: skip
    return search(make_queries(made["query"]), parts, KEEP, shard=number)


def assert_right(sketch, made):
    """Assert that a sketch is what its definition says, from all occurrences."""
    copies = np.bincount(made["text"], minlength=TEXTS)
    met = np.flatnonzero(copies)
    cosines = cosines_of(made["query"], made["vector"])[:, met]
    np.testing.assert_array_equal(sketch.counts, histogram(cosines, copies[met]))
    for number, stratum in enumerate(STRATA):
        mine = np.bincount(made["text"][made["stratum"] == number], minlength=TEXTS)[met]
        assert sketch.chunks[stratum] == mine.sum()
        table = histogram(cosines, mine)
        np.testing.assert_array_equal(
            sketch.strata[stratum], [table[::2].sum(0), table[1::2].sum(0)]
        )
    for row, key in enumerate(make_queries(made["query"]).keys.tolist()):
        ids = hashes(TEXTS)[met]
        kept = kept_of(cosines[row], ids, key, KEEP)
        matches = sketch.of(row)
        np.testing.assert_array_equal(matches["chunk"], ids[kept])
        np.testing.assert_array_equal(matches["cosine"], cosines[row, kept])
        np.testing.assert_array_equal(matches["copies"], copies[met][kept])
        for match, text in zip(matches, met[kept], strict=True):
            occurrences = np.flatnonzero(made["text"] == text)
            lowest = occurrences[np.argmin(made["first"][occurrences])]
            assert match["where"] == lowest
            assert match["first"] == made["first"][lowest]


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 5), st.randoms())
def test_any_split_and_order_of_shards_gives_the_sketch_of_all(seed, occurrences, shards, random):
    made = corpus(seed, occurrences)
    number = np.random.default_rng(seed + 1).integers(0, shards, occurrences)
    sketches = [shard_of(made, np.flatnonzero(number == i), i) for i in range(shards)]
    merged = reduce(Sketch.merge, sketches)
    assert_right(merged, made)
    # Any order, and any bracketing.
    while len(sketches) > 1:
        one = sketches.pop(random.randrange(len(sketches)))
        other = sketches.pop(random.randrange(len(sketches)))
        sketches.insert(random.randrange(len(sketches) + 1), one.merge(other))
    assert_same(sketches[0], merged)


@pytest.mark.parametrize("dims", [3, 384])
def test_split_into_shards_moves_cosines_by_rounding_at_most(dims):
    rng = np.random.default_rng(3)
    q, x = (rng.standard_normal((n, dims)).astype(np.float32) for n in (5, 4000))
    ids, queries = hashes(4000), make_queries(q)
    whole = search(queries, [make_chunks(x)], 50)
    for cuts in ([0, 1, 4000], [0, 700, 701, 1999, 4000], range(0, 4001, 400)):
        parts = [
            search(queries, [make_chunks(x[a:b], ids[a:b])], 50, shard=a) for a, b in pairwise(cuts)
        ]
        merged = reduce(Sketch.merge, parts)
        assert merged.total == whole.total
        for row in range(5):
            ours, theirs = merged.top(row, 50), whole.top(row, 50)
            np.testing.assert_allclose(ours["cosine"], theirs["cosine"], atol=ATOL, rtol=0)
            swapped = np.setxor1d(ours["chunk"], theirs["chunk"])
            cosine_of = dict(zip(ids.tolist(), cosines_of(q[[row]], x)[0], strict=True))
            for chunk in swapped.tolist():
                assert cosine_of[chunk] == pytest.approx(theirs["cosine"][-1], abs=2 * ATOL)


def test_cosines_that_rounding_moved_merge_to_the_larger_one():
    one = search(make_queries(np.ones((1, 2))), [make_chunks(np.array([[1.0, 1.1]]))])
    other = search(make_queries(np.ones((1, 2))), [make_chunks(np.array([[1.0, 1.2]]))], shard=1)
    for merged in (one.merge(other), other.merge(one)):
        assert len(merged.of(0)) == 1
        assert merged.of(0)["cosine"] == max(one.of(0)["cosine"], other.of(0)["cosine"])
        assert merged.of(0)["copies"] == 2


def test_occurrences_of_one_name_merge_to_the_lower_place_in_any_order():
    # A source may hold two documents of one name: then their occurrences share a hash.
    queries = make_queries(exact_vectors(np.random.default_rng(0), QUERIES))
    parts = []
    for place in (7, 3):
        searcher = Searcher(queries, KEEP)
        one = np.ones(1, np.int64)
        vectors = np.ones((1, 16), np.float32)
        same = np.array([11], np.uint64)
        searcher.add(Chunks(("web", ""), same, same, place * one, one, vectors))
        parts.append(searcher.sketch(place))
    for merged in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        assert merged.matches["where"].tolist() == [3] * QUERIES
        assert merged.matches["copies"].tolist() == [2] * QUERIES


def test_merging_leaves_both_as_they_were():
    made = corpus(1, 200)
    one, other = (shard_of(made, np.arange(i, 200, 2), i) for i in range(2))
    again = [shard_of(made, np.arange(i, 200, 2), i) for i in range(2)]
    one.merge(other)
    assert_same(one, again[0])
    assert_same(other, again[1])


def test_empty_sketch_changes_nothing():
    some = shard_of(corpus(1, 100), np.arange(100), 3)
    empty = Sketch.empty(QUERIES, KEEP)
    assert_same(some, some.merge(empty))
    assert_same(some, empty.merge(some))


def test_sketches_that_do_not_belong_together_are_refused():
    some = shard_of(corpus(1, 100), np.arange(100), 3)
    for other in (Sketch.empty(QUERIES + 1, KEEP), Sketch.empty(QUERIES, KEEP + 1)):
        with pytest.raises(ValueError, match="different searches"):
            some.merge(other)
    with pytest.raises(ValueError, match=r"count twice: \[3\]"):
        some.merge(shard_of(corpus(2, 100), np.arange(100), 3))


# The tail

SEEDS, SIZE, TAIL = 2000, 10, 40


@pytest.fixture(scope="module")
def drawn():
    """Return which of `TAIL` chunks are drawn under each seed, (SEEDS, TAIL).

    Their hashes are as alike as can be: consecutive numbers. There are as many chunks below
    the threshold, and every cosine is the one of a single direction.
    """
    keys = [hashed("seed", seed, "item") for seed in range(SEEDS)]
    queries = make_queries(np.tile(np.float32([1, 0]), (SEEDS, 1)), np.array(keys) % 2**32)
    angles = np.linspace(0, 1, TAIL, endpoint=False)
    near = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    x = np.concatenate([near, near[:, ::-1] * [0.1, 1]])
    sketch = search(queries, [make_chunks(x, np.arange(2 * TAIL).astype(np.uint64))], SIZE)
    lowest = int(bins_by_formula(np.cos(angles)).min())
    assert sketch.counts[:, lowest:].sum(axis=1).tolist() == [TAIL] * SEEDS
    table = np.zeros((SEEDS, TAIL), bool)
    for query in range(SEEDS):
        table[query, sketch.tail(query, lowest, SIZE)["chunk"].astype(int)] = True
    return table


def test_every_chunk_of_the_tail_is_drawn_equally_often(drawn):
    assert (drawn.sum(axis=1) == SIZE).all()
    share = SIZE / TAIL
    # Chi-square with the covariance of draws without replacement.
    distance = ((drawn.sum(axis=0) - SEEDS * share) ** 2).sum() / (SEEDS * share * (1 - share))
    p = stats.chi2.sf(distance * (TAIL - 1) / TAIL, TAIL - 1)
    assert 1e-4 < p < 1 - 1e-4


def test_every_pair_of_chunks_is_drawn_equally_often(drawn):
    share = SIZE * (SIZE - 1) / (TAIL * (TAIL - 1))
    for one, other in [(0, 1), (0, 16), (0, 32), (2, 3), (7, 8), (13, 29), (31, 32), (38, 39)]:
        both = int((drawn[:, one] & drawn[:, other]).sum())
        assert stats.binomtest(both, SEEDS, share).pvalue > 1e-4


def test_draws_of_different_queries_are_independent(drawn):
    common = (drawn[::2] & drawn[1::2]).sum(axis=1)
    expected = len(common) * stats.hypergeom(TAIL, SIZE, SIZE).pmf(np.arange(SIZE + 1))
    few = expected < 5
    observed = np.bincount(common, minlength=SIZE + 1)
    observed = [*observed[~few], observed[few].sum()]
    assert stats.chisquare(observed, [*expected[~few], expected[few].sum()]).pvalue > 1e-4


def test_draw_does_not_favour_high_cosines(drawn):
    # Chunk 0 has the highest cosine.
    ranks = np.nonzero(drawn)[1]
    error = np.sqrt((TAIL**2 - 1) / 12 * (TAIL - SIZE) / (TAIL - 1) / len(ranks))
    assert abs(ranks.mean() - (TAIL - 1) / 2) < 4 * error


@pytest.fixture(scope="module")
def searched():
    """Return a sketch that keeps 30, with all cosines, hashes and keys behind it."""
    rng = np.random.default_rng(8)
    q, x = (rng.standard_normal((n, 6)).astype(np.float32) for n in (6, 3000))
    queries, part = make_queries(q), make_chunks(x)
    everything = search(queries, [part], len(x))
    return search(queries, [part], 30), everything, queries.keys.tolist()


@pytest.mark.parametrize("size", [1, 7, 30])
@pytest.mark.parametrize("lowest", [0, 600, 1000, 1500, 1900, 1990, 2000])
def test_tail_is_the_lowest_priorities_above_the_threshold(searched, lowest, size):
    sketch, everything, keys = searched
    for row, key in enumerate(keys):
        matches = everything.of(row)
        above = matches["chunk"][bins_by_formula(matches["cosine"]) >= lowest].tolist()
        expected = sorted(above, key=lambda chunk: priority(chunk, key))[:size]
        assert sketch.tail(row, lowest, size)["chunk"].tolist() == expected


@pytest.mark.parametrize("share", [1e-9, 0.0001, 0.001, 0.07, 0.29, 0.5, 0.999, 1.0])
def test_threshold_is_the_highest_bin_with_the_share_above(searched, share):
    sketch, everything, _ = searched
    for row in range(6):
        bins = bins_by_formula(everything.of(row)["cosine"])
        enough = [
            b for b in range(BINS) if (bins >= b).sum() * 10**9 >= round(share * 10**9) * 3000
        ]
        assert sketch.threshold(row, share) == max(enough)


def test_threshold_of_a_share_that_floating_point_misses():
    # 7 of 100, but 0.07 * 100 = 7.000000000000001.
    counts = np.zeros((1, BINS), np.int64)
    counts[0, [1900, 1000]] = 7, 93
    sketch = Sketch(1, counts, np.zeros(2, np.int64), Sketch.empty(1, 1).matches)
    assert sketch.threshold(0, 0.07) == 1900
    assert sketch.threshold(0, 0.0701) == 1000


def test_no_more_is_given_than_is_exact(searched):
    sketch = searched[0]
    assert len(sketch.top(0, 30)) == len(sketch.tail(0, 0, 30)) == 30
    with pytest.raises(ValueError, match="31 matches requested, but only 30 are exact"):
        sketch.top(0, 31)
    with pytest.raises(ValueError, match="31 matches requested, but only 30 are exact"):
        sketch.tail(0, 0, 31)


# Files


@pytest.mark.parametrize(
    "names",
    [
        [],
        [("", "")],
        [("web", ""), ("web", "\x00"), ("web", "\x00\x00"), ("web ", " ")],
        [("bücher/一", "😀\n\r\u2028"), ("\ud800", "\udfff"), ("a\x1fb", "x" * 5000)],
    ],
)
def test_sketch_comes_back_from_its_file(tmp_path, names):
    rng = np.random.default_rng(1)
    parts = [
        make_chunks(exact_vectors(rng, 20 + i), hashes(20 + i, str(i)), name)
        for i, name in enumerate(names)
    ]
    sketch = search(make_queries(exact_vectors(rng, 3)), parts, shard=2**40)
    sketch.save(tmp_path / "a.npz")
    assert_same(Sketch.load(tmp_path / "a.npz"), sketch)
    # A sketch from a file is one like any other.
    more = search(make_queries(exact_vectors(rng, 3)), parts, shard=1)
    assert_same(Sketch.load(tmp_path / "a.npz").merge(more), sketch.merge(more))


def test_equal_sketches_become_equal_files(tmp_path):
    made = corpus(1, 200)
    one, other = (shard_of(made, np.arange(i, 200, 2), i) for i in range(2))
    one.merge(other).save(tmp_path / "a.npz")
    other.merge(one).save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
