"""Logic grids: houses in a row, who lives in each, and clues that leave one solution.

Items of this kind are those of ZebraLogic (Lin et al. 2025, arXiv:2502.01100). New ones are worded
by ``grids.toml``; any text with lists of values in backticks and the same relations is read.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayescontam._optional import require
from bayescontam._types import IntArray
from bayescontam.duplicates.items import DuplicateError
from bayescontam.errors import UsageError

type Relation = Literal["in", "not in", "same", "next left", "left", "beside", "apart"]
type Attribute = tuple[int, int]
"""Positions of a category and of one of its values."""

MOST_HOUSES, FEWEST_HOUSES = 8, 2
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
COUNTS = ("no", "one", "two", "three", "four", "five", "six")
_HOUSE, CLUES = "House", "## Clues:"
_TEXT: dict[Relation, tuple[str, ...]] = {
    "in": (
        "{a} is in the {ordinal} house.",
        "{a} lives in the {ordinal} house.",
        "The {ordinal} house is the home of {a}.",
    ),
    "not in": (
        "{a} is not in the {ordinal} house.",
        "{a} does not live in the {ordinal} house.",
        "The {ordinal} house is not the home of {a}.",
    ),
    "same": (
        "{a} is {b}.",
        "{a} and {b} are the same person.",
        "{a} lives in the same house as {b}.",
    ),
    "next left": (
        "{a} is directly left of {b}.",
        "{b} is directly right of {a}.",
        "{a} lives immediately to the left of {b}.",
        "{b} lives immediately to the right of {a}.",
    ),
    "left": (
        "{a} is somewhere to the left of {b}.",
        "{b} is somewhere to the right of {a}.",
        "{b} lives somewhere to the right of {a}.",
    ),
    "beside": (
        "{a} and {b} are next to each other.",
        "{a} and {b} are neighbours.",
        "{a} lives next door to {b}.",
    ),
    "apart": (
        "There {are} {count} {houses} between {a} and {b}.",
        "Between {a} and {b} {are} {count} {houses}.",
    ),
}
"""How clues are worded; the first is that of new grids, the others those of rewording."""
_PREAMBLES = (
    "{n} houses stand in a row, numbered 1 to {n} from left to right. One person lives in each,"
    " and no two of them share any of the following:",
    "In a street there are {n} houses side by side; the one on the far left has number 1, the one"
    " on the far right number {n}. Each is the home of one person. These differ from house to"
    " house:",
    "{n} neighbours live in {n} houses, which are counted from left to right, beginning with 1. In"
    " each of these respects, all of them differ:",
    "A row of {n} houses, counted from the left: every house has one inhabitant, and what follows"
    " is never the same for two of them:",
)


@dataclass(frozen=True)
class Category:
    """What the houses differ by."""

    name: str
    intro: str  # how the list of its values is introduced
    who: str  # how clues speak of the person whose value is ``{}``
    values: tuple[str, ...]


@dataclass(frozen=True)
class Clue:
    """A relation between two attributes, or between one and a house."""

    relation: Relation
    a: Attribute
    b: Attribute | None = None
    # the house of `in` and `not in`, from 0 on; how many houses lie between those of `apart`
    number: int = 0
    words: str = field(default="", compare=False)  # as it was read; empty: the package's own
    # how it speaks of `a` and of `b`, as it was read; empty: as their categories do
    phrases: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, eq=False)
class Grid:
    """A puzzle with its solution."""

    categories: tuple[Category, ...]
    clues: tuple[Clue, ...]
    house: IntArray  # of each value, from 0 on, dims (category, value)
    preamble: str = ""  # what stands before the clues, as it was read; empty: the package's own

    @property
    def houses(self) -> int:
        """Number of houses."""
        return len(self.categories[0].values)

    @property
    def text(self) -> str:
        """The puzzle as models read it."""
        numbered = (f"{at}. {self.sentence(clue)}" for at, clue in enumerate(self.clues, 1))
        return "\n".join([self.preamble or self.introduction(), *numbered])

    def introduction(self, form: int = 0) -> str:
        """Return what stands before the clues, in one of several forms."""
        lines = [_PREAMBLES[form].format(n=self.houses)]
        for each in self.categories:
            lines.append(f" - {each.intro}: " + ", ".join(f"`{value}`" for value in each.values))
        return "\n".join([*lines, CLUES])

    def sentence(self, clue: Clue, form: int = 0) -> str:
        """Return a clue in words: its own, or one of several forms."""
        if clue.words:
            return clue.words
        a, b = clue.phrases or (
            None if at is None else self.categories[at[0]].who.format(self._value(at))
            for at in (clue.a, clue.b)
        )
        few = clue.number == 1
        words = _TEXT[clue.relation][form].format(
            a=a, b=b, ordinal=ORDINALS[clue.number], count=COUNTS[min(clue.number, 6)],
            are="is" if few else "are", houses="house" if few else "houses",
        )  # fmt: skip
        return words[0].upper() + words[1:]

    @property
    def solution(self) -> dict[str, Any]:
        """The solution as ZebraLogic has it: a header, and a row for each house."""
        rows = [
            [str(h + 1), *(c.values[int(np.argmax(self.house[k] == h))]
                           for k, c in enumerate(self.categories))]
            for h in range(self.houses)
        ]  # fmt: skip
        return {"header": [_HOUSE, *(c.name for c in self.categories)], "rows": rows}

    def _value(self, at: Attribute) -> str:
        return self.categories[at[0]].values[at[1]]


@cache
def known_categories() -> tuple[Category, ...]:
    """Return the categories that new grids, and substitutions, are made of."""
    known = tomllib.loads(Path(__file__).with_name("grids.toml").read_text(encoding="utf-8"))
    return tuple(Category(**each | {"values": tuple(each["values"])}) for each in known["category"])


def solutions(houses: int, count: int, clues: Sequence[Clue], most: int = 2) -> list[IntArray]:
    """Return up to `most` solutions, each the houses of values, dims (category, value).

    Parameters
    ----------
    houses, count : int
        Houses, and categories.
    clues : sequence of Clue
        What has to hold.
    most : int, default 2
        Solutions after which the search ends: two are enough to know that there are several.

    Raises
    ------
    MissingExtraError
        Without the extra ``duplicates``.
    """
    # python-constraint2 takes ten times as long for grids of 6 x 5 (benchmarks/test_making.py), and
    # a new grid is solved some sixty times.
    cp = require("ortools.sat.python.cp_model", "duplicates")
    model = cp.CpModel()
    house = [[model.new_int_var(0, houses - 1, "") for _ in range(houses)] for _ in range(count)]
    for row in house:
        model.add_all_different(row)
    for clue in clues:
        a = house[clue.a[0]][clue.a[1]]
        if clue.b is None:
            model.add(a == clue.number if clue.relation == "in" else a != clue.number)
            continue
        b = house[clue.b[0]][clue.b[1]]
        match clue.relation:
            case "same":
                model.add(a == b)
            case "next left":
                model.add(b == a + 1)
            case "left":
                model.add(a < b)
            case _:
                apart = 1 if clue.relation == "beside" else clue.number + 1
                domain = cp.Domain.from_values([-apart, apart])
                model.add_linear_expression_in_domain(b - a, domain)
    found: list[IntArray] = []

    class Collected(cp.CpSolverSolutionCallback):  # type: ignore[name-defined]
        def on_solution_callback(self) -> None:
            found.append(np.array([[self.value(v) for v in row] for row in house]))
            if len(found) >= most:
                self.stop_search()

    solver = cp.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.solve(model, Collected())
    return found


def is_solved(grid: Grid) -> bool:
    """Return whether the clues of a grid leave its solution and no other."""
    found = solutions(grid.houses, len(grid.categories), grid.clues)
    return len(found) == 1 and np.array_equal(found[0], grid.house)


def refuse_unsolved(grid: Grid) -> None:
    """Raise a DuplicateError unless the clues of a grid leave its solution and no other."""
    if not is_solved(grid):
        raise DuplicateError("its clues leave another solution, or several")


def check_sizes(houses: int, count: int) -> None:
    """Refuse sizes that there are no categories or values for."""
    most = len(known_categories()) - 1  # of the two lists of names, one is used
    if not FEWEST_HOUSES <= houses <= MOST_HOUSES or not 1 <= count <= most:
        raise UsageError(
            f"grid: got {houses} houses and {count} categories; allowed are"
            f" {FEWEST_HOUSES} to {MOST_HOUSES} houses and 1 to {most} categories"
        )


def new_grid(houses: int, count: int, rng: np.random.Generator) -> Grid:
    """Return a new grid with a unique solution, of which no clue can be spared.

    Parameters
    ----------
    houses : int
        Houses, 2 to 8.
    count : int
        Categories; the first are names.
    rng : numpy.random.Generator
        What it depends on.

    Raises
    ------
    UsageError
        For sizes that there are no categories for.
    """
    check_sizes(houses, count)
    known = known_categories()
    others = rng.permutation(np.arange(2, len(known)))[: count - 1]
    chosen = [_with_values(known[int(k)], houses, rng) for k in (0, *others)]
    house = np.array([rng.permutation(houses) for _ in range(count)])
    clues = list(_true_clues(house))
    rng.shuffle(clues)
    # Clues that relate two values come first; houses by number would make it easy.
    clues.sort(key=lambda clue: clue.b is None)
    kept = _fewest(clues, houses, count)
    rng.shuffle(kept)
    return Grid(tuple(chosen), tuple(kept), house)


def _with_values(category: Category, houses: int, rng: np.random.Generator) -> Category:
    """Return a category with as many of its values, at random."""
    chosen = rng.choice(len(category.values), houses, replace=False)
    return replace(category, values=tuple(category.values[int(at)] for at in chosen))


def _true_clues(house: IntArray) -> Iterator[Clue]:
    """Yield all clues that hold, each once."""
    places = [(c, v) for c in range(len(house)) for v in range(house.shape[1])]
    for a in places:
        for h in range(house.shape[1]):
            yield Clue("in" if house[a] == h else "not in", a, None, h)
    for a, b in combinations(places, 2):
        apart = int(house[b] - house[a])
        if apart == 0:
            yield Clue("same", a, b)
            continue
        first, second = (a, b) if apart > 0 else (b, a)
        yield Clue("left", first, second)
        if abs(apart) == 1:
            yield from (Clue("next left", first, second), Clue("beside", a, b))
        else:
            yield Clue("apart", a, b, abs(apart) - 1)


def _fewest(clues: Sequence[Clue], houses: int, count: int) -> list[Clue]:
    """Return clues that leave one solution, none of which can be spared."""
    # The shortest beginning of the list that does, by halving; then one after the other is tried
    # to be left out.
    low, high = 0, len(clues)
    while low < high:
        middle = (low + high) // 2
        if len(solutions(houses, count, clues[:middle])) == 1:
            high = middle
        else:
            low = middle + 1
    kept = list(clues[:high])
    for clue in list(kept):
        rest = [each for each in kept if each is not clue]
        if len(solutions(houses, count, rest)) == 1:
            kept = rest
    return kept


def plain(text: str) -> str:
    """Return a text as values are compared: without case, and without hyphens in words."""
    return text.lower().replace("-", "")


def shuffle(grid: Grid, rng: np.random.Generator) -> Grid:
    """Return a grid with its clues in another order, numbered anew."""
    order = rng.permutation(len(grid.clues))
    if len(order) > 1 and (order == np.arange(len(order))).all():
        order = np.roll(order, 1)
    return replace(grid, clues=tuple(grid.clues[int(at)] for at in order))


def substitute(grid: Grid, rng: np.random.Generator) -> Grid:
    """Return a grid with other categories and values, one to one, worded anew."""
    if grid.houses > MOST_HOUSES:
        raise DuplicateError("it has more houses than there are values for", str(grid.houses))
    taken = {value.lower() for each in grid.categories for value in each.values}
    names = {each.name.lower() for each in grid.categories}
    free = [
        each for each in known_categories()
        if each.name.lower() not in names and not taken & {value.lower() for value in each.values}
    ]  # fmt: skip
    if len(free) < len(grid.categories):
        raise DuplicateError(
            "it has more categories than there are others", f"{len(grid.categories)}"
        )
    chosen = rng.permutation(len(free))[: len(grid.categories)]
    new = tuple(_with_values(free[int(at)], grid.houses, rng) for at in chosen)
    clues = tuple(replace(clue, words="", phrases=()) for clue in grid.clues)
    return Grid(new, clues, grid.house)


def reword(grid: Grid, rng: np.random.Generator) -> Grid:
    """Return a grid with its introduction and its clues in other sentences."""
    preambles = other_introductions(grid)
    clues = []
    for clue in grid.clues:
        others = other_sentences(grid, clue)
        clues.append(replace(clue, words=others[int(rng.integers(len(others)))]))
    preamble = preambles[int(rng.integers(len(preambles)))]
    return replace(grid, clues=tuple(clues), preamble=preamble)


def other_introductions(grid: Grid) -> list[str]:
    """Return the introductions in words that a grid does not have."""
    first = (grid.preamble or grid.introduction()).partition("\n")[0]
    forms = [form for form, words in enumerate(_PREAMBLES) if words.format(n=grid.houses) != first]
    return [grid.introduction(form) for form in forms]


def other_sentences(grid: Grid, clue: Clue) -> list[str]:
    """Return the sentences for a clue that are not the one it has."""
    bare, now = replace(clue, words=""), plain(grid.sentence(clue))
    worded = [grid.sentence(bare, form) for form in range(len(_TEXT[clue.relation]))]
    return [words for words in worded if plain(words) != now]
