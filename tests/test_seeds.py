"""Named streams: the same each time, and strangers to each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam._random import fresh_seed, stream


def draws(seed: int, *names: str | int) -> list[float]:
    return stream(seed, *names).random(4).tolist()


def test_a_stream_is_the_same_each_time() -> None:
    assert draws(1, "a", 2) == draws(1, "a", 2)
    rng = stream(1, "a")
    rng.random(1000)  # using one moves no other
    assert draws(1, "b") == draws(1, "b")


STREAMS = [
    (1,), (2,), (1, "a"), (2, "a"), (1, "b"), (1, "a", "b"), (1, "b", "a"), (1, "ab"), (1, ""),
    (1, "", ""), (1, 1), (1, "1"), (1, 11), (1, 1, 1), (0,), (2**40,),
]  # fmt: skip


def test_every_name_and_seed_has_a_stream_of_its_own() -> None:
    assert len({tuple(draws(*case)) for case in STREAMS}) == len(STREAMS)


@given(st.integers(0, 2**31), st.text(max_size=5), st.text(max_size=5))
def test_streams_differ_where_names_do(seed: int, one: str, other: str) -> None:
    assert (draws(seed, one) == draws(seed, other)) is (one == other)


def test_streams_are_uncorrelated() -> None:
    table = np.array([stream(3, "replicate", i).normal(size=4000) for i in range(30)])
    off = np.corrcoef(table)[np.triu_indices(30, k=1)]
    assert np.abs(off).max() < 5 / np.sqrt(4000)
    assert abs(table.mean()) < 5 / np.sqrt(table.size)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        stream(-1)


def test_fresh_seeds_are_short_and_differ() -> None:
    seeds = [fresh_seed() for _ in range(50)]
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) > 45
