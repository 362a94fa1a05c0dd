"""Logic grids: made, worded, read and solved."""

from itertools import permutations, product

import numpy as np
import pytest

from bayescontam.duplicates.grids import (
    Clue,
    DuplicateError,
    Grid,
    is_solved,
    known_categories,
    new_grid,
    read_grid,
    same_clues,
    solutions,
)
from bayescontam.errors import UsageError
from tests.support.zebra_puzzles import SOLUTION, ZEBRA


def holds(clue: Clue, house: np.ndarray) -> bool:
    """Return whether a clue is true of houses, dims (category, value)."""
    at = house[clue.a]
    if clue.b is None:
        return bool((at == clue.number) == (clue.relation == "in"))
    apart = house[clue.b] - at
    return {
        "same": apart == 0, "next left": apart == 1, "left": apart > 0,
        "beside": abs(apart) == 1, "apart": abs(apart) == clue.number + 1,
    }[clue.relation]  # fmt: skip


def every_solution(grid: Grid, clues: tuple[Clue, ...]) -> list[np.ndarray]:
    """Return all solutions, by trying every arrangement."""
    rows = [*permutations(range(grid.houses))]
    found = map(np.array, product(rows, repeat=len(grid.categories)))
    return [house for house in found if all(holds(clue, house) for clue in clues)]


@pytest.mark.parametrize(("houses", "count"), [(2, 3), (3, 3), (4, 2)])
def test_clues_leave_the_solution_alone_and_none_can_be_spared(houses: int, count: int) -> None:
    for seed in range(8):
        grid = new_grid(houses, count, np.random.default_rng(seed))
        [only] = every_solution(grid, grid.clues)
        np.testing.assert_array_equal(only, grid.house)
        for clue in grid.clues:
            rest = tuple(each for each in grid.clues if each is not clue)
            assert len(every_solution(grid, rest)) > 1


def test_the_solver_agrees_with_trying_everything() -> None:
    rng = np.random.default_rng(1)
    grid = new_grid(3, 3, rng)
    for _ in range(20):
        some = [clue for clue in grid.clues if rng.random() < 0.8]
        found = solutions(3, 3, some, most=1000)
        wanted = every_solution(grid, tuple(some))
        assert {each.tobytes() for each in found} == {
            each.astype(found[0].dtype).tobytes() for each in wanted
        }
        assert len(solutions(3, 3, some)) == min(2, len(wanted))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_worded_is_read_again(seed: int) -> None:
    grid = new_grid(5, 4, np.random.default_rng(seed))
    again = read_grid(grid.text, grid.solution)
    assert same_clues(again.clues, grid.clues)
    np.testing.assert_array_equal(again.house, grid.house)
    assert again.text == grid.text
    assert is_solved(again)


def test_wording_of_others_is_read() -> None:
    grid = read_grid(ZEBRA, SOLUTION)
    assert [(clue.relation, clue.a, clue.b, clue.number) for clue in grid.clues] == [
        ("not in", (2, 0), None, 2),
        ("same", (0, 1), (1, 1), 0),
        ("left", (0, 0), (1, 0), 0),
        ("beside", (1, 0), (0, 1), 0),
        ("next left", (2, 1), (2, 2), 0),
        ("apart", (0, 0), (0, 2), 1),
    ]
    assert is_solved(grid)
    assert grid.text == ZEBRA.rstrip()
    assert grid.solution["rows"] == SOLUTION["rows"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("next to each other", "good friends of one another", "no known relation"),
        ("and Eric are", "and Erica are", "no known relation"),
        ("Eric is the person", "Eric is not the person", "no known relation"),
        ("Eric is the person", "Eric is a friend of the person", "no known relation"),
        ("third house", "ninth house", "no known relation"),
        ("`sept`", "`april`", "occurs twice"),
        ("`april`, `sept`, `jan`", "`april`, `sept`", "no lists of values"),
        ("## Clues:", "Hints", "no lists of values"),
    ],
)
def test_what_cannot_be_read_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        read_grid(ZEBRA.replace(old, new), SOLUTION)


def test_a_solution_places_each_value_once() -> None:
    rows = [*SOLUTION["rows"][:2], ["3", "Eric", "april", "toyota camry"]]
    with pytest.raises(DuplicateError, match="each value in one house"):
        read_grid(ZEBRA, SOLUTION | {"rows": rows})


def test_values_of_all_categories_differ() -> None:
    values = [value.lower() for each in known_categories() for value in each.values]
    assert len({*values}) == len(values)
    assert all(len(each.values) == 8 for each in known_categories())
    # No value is a word of another category's phrases, or clues would name it by chance.
    phrases = " ".join(each.who.lower() for each in known_categories()).split()
    assert not {*phrases} & {*values}


@pytest.mark.parametrize("size", [(1, 3), (9, 3), (3, 0), (3, 14)])
def test_sizes_without_values_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="allowed are 2 to 8 houses and 1 to 13 categories"):
        new_grid(*size, np.random.default_rng(1))
