"""Letters against all subsets of models."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.inference.ranking import compact_letters, indistinguishable_groups, letters_of


@st.composite
def pairs_apart(draw: st.DrawFn) -> np.ndarray:
    """Give which pairs of up to 7 models can be distinguished."""
    size = draw(st.integers(1, 7))
    count = size * (size - 1) // 2
    apart = np.zeros((size, size), dtype=bool)
    apart[np.triu_indices(size, 1)] = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return apart | apart.T


def largest_sets(apart: np.ndarray) -> set[tuple[int, ...]]:
    """Return all sets without a pair that can be distinguished that no model can join."""
    size = len(apart)
    alike = [
        set(members)
        for count in range(1, size + 1)
        for members in combinations(range(size), count)
        if not apart[np.ix_(members, members)].any()
    ]
    return {tuple(sorted(one)) for one in alike if not any(one < other for other in alike)}


@given(pairs_apart())
def test_pairs_share_a_letter_if_and_only_if_not_distinguished(
    apart: np.ndarray,
) -> None:
    groups = indistinguishable_groups(apart)
    assert set(groups) <= largest_sets(apart)
    assert len(set(groups)) == len(groups)
    shown = [set(text.split()) for text in letters_of(groups, len(apart))]
    assert all(shown)
    for a, b in combinations(range(len(apart)), 2):
        assert bool(shown[a] & shown[b]) is not bool(apart[a, b])


@given(pairs_apart())
def test_no_group_can_be_done_without(apart: np.ndarray) -> None:
    groups = indistinguishable_groups(apart)
    for i in range(len(groups)):
        rest = groups[:i] + groups[i + 1 :]
        shown = [{k for k, group in enumerate(rest) if m in group} for m in range(len(apart))]
        pairs = combinations(range(len(apart)), 2)
        lost = any(not apart[a, b] and not shown[a] & shown[b] for a, b in pairs)
        assert lost or not all(shown)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.05, 0.5))
def test_models_apart_by_a_distance_have_all_largest_sets(means: list[float], far: float) -> None:
    """Where means decide alone, every largest set is needed."""
    at = np.sort(means)[::-1]
    apart = np.abs(at[:, None] - at) >= far
    assert set(indistinguishable_groups(apart)) == largest_sets(apart)
    assert all(np.ptp(group) == len(group) - 1 for group in indistinguishable_groups(apart))


def test_groups_are_in_the_order_of_the_models() -> None:
    apart = np.ones((5, 5), dtype=bool)
    for a, b in [(0, 1), (1, 2), (0, 4)]:
        apart[a, b] = apart[b, a] = False
    assert indistinguishable_groups(apart) == [(0, 1), (0, 4), (1, 2), (3,)]


def test_the_given_pairs_are_left_as_they_are() -> None:
    apart = np.array([[False, True], [True, False]])
    indistinguishable_groups(apart)
    assert apart.tolist() == [[False, True], [True, False]]


def test_the_published_example() -> None:
    """Gramm et al. 2007, figure 2: five treatments, of which four pairs differ."""
    apart = np.zeros((5, 5), dtype=bool)
    for a, b in [(1, 5), (2, 3), (2, 5), (3, 5)]:
        apart[a - 1, b - 1] = apart[b - 1, a - 1] = True
    assert indistinguishable_groups(apart) == [(0, 1, 3), (0, 2, 3), (3, 4)]


def test_letters_go_on_after_z() -> None:
    names = compact_letters(800)
    assert names[:2] + names[25:28] + names[701:703] == ["a", "b", "z", "aa", "ab", "zz", "aaa"]
    assert len(set(names)) == 800


def test_a_thousand_models_are_grouped_in_seconds() -> None:
    """By intervals of one length, so that every run of models within it is a group."""
    at = np.arange(1000)
    groups = indistinguishable_groups(np.abs(at[:, None] - at) > 300)
    assert groups == [tuple(range(first, first + 301)) for first in range(700)]
