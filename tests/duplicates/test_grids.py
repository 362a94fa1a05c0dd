"""Logic grids: made, worded, read and solved."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.grid_texts import (
    check_duplicate,
    check_paraphrased,
    read_grid,
    same_clues,
)
from bayescontam.duplicates.grids import (
    Clue,
    Grid,
    is_solved,
    known_categories,
    new_grid,
    refuse_unsolved,
    reword,
    shuffle,
    solutions,
    substitute,
)
from bayescontam.duplicates.items import DuplicateError
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


# Wordings of ZebraLogic

LISTS = {
    "Name": ("Each person has a unique name", ["Peter", "Eric", "Arnold"]),
    "Nationality": ("The people are of nationalities", ["swede", "dane", "brit"]),
    "Hobby": ("Each person has a unique hobby", ["photography", "cooking", "gardening"]),
    "Children": ("Each mother is accompanied by their child", ["Bella", "Timothy", "Fred"]),
    "Car": ("People own unique car models", ["ford f150", "tesla model 3", "toyota camry"]),
    "House": ("Each person lives in a unique style of house", ["colonial", "ranch", "victorian"]),
    "Education": ("Each person has a level of education", ["associate", "bachelor", "ma"]),
    "Height": ("People have unique heights", ["very short", "short", "average"]),
    "Animal": ("The people keep unique animals", ["horse", "cat", "bird"]),
}  # fmt: skip
PHRASES = {
    "Eric": (0, 1), "The Swedish person": (1, 0), "the Dane": (1, 1),
    "The photography enthusiast": (2, 0), "the person who loves cooking": (2, 1),
    "The person who enjoys gardening": (2, 2), "The person's child is named Bella": (3, 0),
    "The person who is the mother of Timothy": (3, 1),
    "the person who owns a Ford F-150": (4, 0),
    "The person living in a colonial-style house": (5, 0),
    "the person in a ranch-style home": (5, 1),
    "The person residing in a Victorian house": (5, 2),
    "The person with an associate's degree": (6, 0), "the person who is very short": (7, 0),
    "The person who is short": (7, 1), "The person who has an average height": (7, 2),
    "The person who keeps horses": (8, 0), "the cat lover": (8, 1), "The bird keeper": (8, 2),
}  # fmt: skip


def with_clues(*clues: str) -> str:
    lists = [f" - {intro}: " + ", ".join(f"`{v}`" for v in own) for intro, own in LISTS.values()]
    first = (
        "There are 3 houses, numbered 1 to 3 from left to right, as seen from across the street."
        " Each house is occupied by a different person. Each house has a unique attribute for each"
        " of the following characteristics:"
    )
    numbered = [f"{at}. {clue}" for at, clue in enumerate(clues, 1)]
    return "\n".join([first, *lists, "", "## Clues:", *numbered])


MANY = {
    "header": ["House", *LISTS],
    "rows": [[str(h + 1), *(own[h] for _, own in LISTS.values())] for h in range(3)],
}


@pytest.mark.parametrize("one", PHRASES)
def test_phrases_of_zebralogic_are_read(one: str) -> None:
    two = "Peter" if one != "Peter" else "Arnold"
    first = one[0].upper() + one[1:]
    relations = {
        f"{first} is not in the third house.": ("not in", PHRASES[one], None, 2),
        f"{first} is in the second house.": ("in", PHRASES[one], None, 1),
        f"{first} is directly left of {two}.": ("next left", PHRASES[one], (0, 0), 0),
        f"{first} is somewhere to the right of {two}.": ("left", (0, 0), PHRASES[one], 0),
        f"{two} is somewhere to the left of {one}.": ("left", (0, 0), PHRASES[one], 0),
        f"{first} and {two} are next to each other.": ("beside", PHRASES[one], (0, 0), 0),
        f"There is one house between {one} and {two}.": ("apart", PHRASES[one], (0, 0), 1),
        f"{first} is {two}.": ("same", PHRASES[one], (0, 0), 0),
        f"{two} is {one}.": ("same", (0, 0), PHRASES[one], 0),
    }
    grid = read_grid(with_clues(*relations), MANY)
    assert [(c.relation, c.a, c.b, c.number) for c in grid.clues] == [*relations.values()]
    again = read_grid(reword(grid, np.random.default_rng(1)).text, MANY)
    assert same_clues(again.clues, grid.clues)


@pytest.mark.parametrize(
    "clue",
    [
        "It is not true that the person who loves cooking is directly left of Eric.",
        "It is true that Peter is directly left of Eric.",
        "The person who loves cooking is not to the left of Eric.",
        "The person who loves cooking is never to the left of Eric.",
        "Peter is directly left of Eric, or directly right of him.",
        "Peter is directly left of Eric or Arnold.",
        "Peter is the person who lives opposite the cat lover.",
        "Peter is the person who lives next to the bird keeper.",
        "Peter is the person whose neighbour is the Dane.",
        "Peter is the person who does not love cooking.",
        "Peter is the person who doesn't love cooking.",
        "Peter is in the second house unless he is a cook.",
        "Peter is in the second house if Eric is not.",
        "If the moon is full, Peter is in the second house.",
        "The person who loves cooking or nothing is in the second house.",
        "The non-photography person is in the second house.",
        "Peter is in the fifth house.",
        "Peter is a friend of Eric.",
        "Peter is the person who is older than the Dane.",
        "Peter is probably in the second house.",
    ],
)
def test_clues_with_other_words_are_refused(clue: str) -> None:
    with pytest.raises(DuplicateError, match="a clue has no known relation"):
        read_grid(with_clues("Eric is in the first house.", clue), MANY)


def test_a_name_is_no_word_for_its_bearers_brother() -> None:
    clues = ["Eric is in the first house.", "Arnold is directly left of Eric.",
             "Peter is the person who is the brother of Eric."]  # fmt: skip
    with pytest.raises(DuplicateError, match="a name stands alone in most clues"):
        read_grid(with_clues(*clues), MANY)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "Peter and Arnold.",
            "Peter and Arnold.\nEric is in the first house.",
            "line that is none",
        ),
        ("from left to right", "from right to left", "counts the houses from the right"),
        ("There are 3", "There are 9", "another number of houses"),
        ("There are 3", "There are nine", "another number of houses"),
        ("1 to 3", "1 to 4", "another number of houses"),
        ("\n\n## Clues:", "\nIt is as it is.\n## Clues:", "more than the lists"),
        ("\n\n## Clues:", "\nEric has the second house.\n## Clues:", "more than the lists"),
        (" - People own", "Hm.\n - People own", "more than the lists"),
        ("There are 3", "Eric is first. There are 3", "names values outside"),
        ("`Peter`, `Eric`", "`Peter` before `Eric`", "no lists of values"),
    ],
)
def test_more_than_a_puzzle_is_refused(old: str, new: str, reason: str) -> None:
    assert old in ZEBRA
    with pytest.raises(DuplicateError, match=reason):
        read_grid(ZEBRA.replace(old, new), SOLUTION)


@pytest.mark.parametrize(
    "change",
    [
        {"header": None}, {"header": 3}, {"header": [None, 1, 2, 3]}, {"rows": 5}, {"rows": None},
        {"rows": [1, 2, 3]}, {"rows": [[], [], []]}, {"rows": [[{}], ["2"], ["3"]]},
    ],
)  # fmt: skip
def test_odd_solutions_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DuplicateError, match="its solution"):
        read_grid(ZEBRA, SOLUTION | change)


# Rewording


def test_rewording_keeps_the_words_of_phrases() -> None:
    has = "who has the mother-in-law's Ford F-150"
    text = ZEBRA.replace("who owns a Ford F-150", has)
    grid = read_grid(text, SOLUTION)
    for seed in range(9):
        lines = reword(grid, np.random.default_rng(seed)).text.splitlines()
        first = lines[lines.index("## Clues:") + 1]
        assert first in {
            f"1. The person {has} does not live in the third house.",
            f"1. The third house is not the home of the person {has}.",
        }


@pytest.mark.parametrize("seed", range(4))
def test_reworded_sentences_are_others(seed: int) -> None:
    grid = read_grid(ZEBRA, SOLUTION)
    other = reword(grid, np.random.default_rng(seed))
    plain = [re.sub(r"[^a-z0-9 ]", "", clue.words.lower()) for clue in grid.clues]
    made = [re.sub(r"[^a-z0-9 ]", "", clue.words.lower()) for clue in other.clues]
    assert not {*plain} & {*made}


# Duplicates

STEPS: dict[str, Callable[[Grid, np.random.Generator], Grid]] = {
    "shuffle": shuffle, "substitute": substitute, "reword": reword,
}  # fmt: skip
CHAINS = [names for names in product(*((False, True) for _ in STEPS)) if any(names)]


def duplicate(parent: Grid, chain: tuple[bool, ...], seed: int) -> tuple[Grid, dict[str, bool]]:
    rng = np.random.default_rng(seed)
    made = parent
    for do, use in zip(STEPS.values(), chain, strict=True):
        made = do(made, rng) if use else made
    return made, {"substituted": chain[1], "reworded": chain[2]}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_steps_make_is_accepted_and_no_other_text(chain: tuple[bool, ...]) -> None:
    parents = [new_grid(4, 3, np.random.default_rng(seed)) for seed in range(3)]
    parents = [read_grid(each.text, each.solution) for each in parents]
    for parent in [*parents, read_grid(ZEBRA, SOLUTION)]:
        made, how = duplicate(parent, chain, 1)
        text = made.text
        check_duplicate(parent, text, made.solution, **how)
        lines = text.splitlines()
        clue = lines[-1].partition(". ")[2]
        n, [one, two] = made.houses, [each.values[0] for each in made.categories[:2]]
        faults = [
            text.replace(clue, f"It is not true that {clue[0].lower()}{clue[1:]}"),
            text.replace(clue, clue[:-1] + ", or not."),
            text.replace(clue, clue[:-1]),
            text.replace(clue, clue.upper()),
            text.replace(clue, f"{one} is the person who lives opposite the reader of {two}."),
            f"{text}\n{one} is in the first house.",
            f"{text}\n\n{one} has {two}.",
            text.replace(lines[0], f"{n} houses, numbered 1 to {n} from right to left:"),
            text.replace(lines[0], lines[0].replace(str(n), "9")),
            text.replace(lines[0], f"{lines[0]} Good luck."),
            text.replace("## Clues:", f"{one} has {two}.\n## Clues:"),
            text.replace("## Clues:", f"The solution: {made.solution}\n## Clues:"),
            _swapped_headings(made, text),
            text.replace("1. ", "7. ", 1),
            f"Hello!\n{text}",
        ]
        for fault in faults:
            assert fault != text
            with pytest.raises(DuplicateError):
                check_duplicate(parent, fault, made.solution, **how)
        with pytest.raises(DuplicateError, match="another form"):
            check_duplicate(parent, text, made.solution | {"note": 1}, **how)


def _swapped_headings(made: Grid, text: str) -> str:
    heads = re.findall(r"^ - (.+?): `", text, re.MULTILINE)
    other = {heads[0]: heads[1], heads[1]: heads[0]}
    return re.sub(r"(?m)^ - (.+?): `", lambda m: f" - {other.get(m[1], m[1])}: `", text)


def test_a_label_without_a_step_is_refused() -> None:
    parent = read_grid(ZEBRA, SOLUTION)
    made, _ = duplicate(parent, (False, False, True), 1)
    with pytest.raises(DuplicateError, match="introduction is not one that its steps make"):
        check_duplicate(parent, made.text, made.solution, substituted=False)
    same = replace(made, preamble=parent.preamble)
    with pytest.raises(DuplicateError, match="worded as none of its steps does"):
        check_duplicate(parent, same.text, made.solution, substituted=False)


# Paraphrases


def test_paraphrases_are_read_clue_by_clue() -> None:
    grid = read_grid(ZEBRA, SOLUTION)
    refuse_unsolved(grid)
    text = ZEBRA.replace("There are 3 houses", "Three houses stand there")
    assert check_paraphrased(grid, text.replace("Eric is the person", "Eric is a person"))
    loose = text.replace("is somewhere to the right of Peter", "has Peter further down to the left")
    assert not check_paraphrased(grid, loose)
    lines = loose.splitlines()
    reordered = "\n".join([*lines[:6], *lines[6:][::-1]])
    assert not check_paraphrased(grid, reordered)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("`Peter`, ", "", "lists of values are not those"),
        ("`Peter`, `Eric`, `Arnold`", "Peter, Eric, Arnold", "lists of values are not those"),
        ("`Peter`, `Eric`", "`Petra`, `Eric`", "lists of values are not those"),
        ("## Clues:", "## Hints:", "no lists of values"),
        ("6. There is", "There is", "a line that is none"),
        ("6. There is one house between Peter and Arnold.", "", "another number of clues"),
        ("not in the third", "in the third", "clues are not those"),
        ("not in the third", "not in the second", "clues are not those"),
        ("directly left of", "directly right of", "clues are not those"),
        ("6. There is one house between Peter and Arnold.",
         "6. Eric is the person whose birthday is in September.", "clues are not those"),
        ("Peter and Arnold.", "Eric and Arnold, more or less.", "clues are not those"),
        ("Peter and Arnold.", "Peter and Arnold, or Eric.", "clues are not those"),
        ("There are 3", "Eric is first. There are 3", "names values outside"),
        ("left to right", "right to left", "from the right"),
    ],
)  # fmt: skip
def test_paraphrases_with_other_clues_are_refused(old: str, new: str, reason: str) -> None:
    grid = read_grid(ZEBRA, SOLUTION)
    assert old in ZEBRA
    with pytest.raises(DuplicateError, match=reason):
        check_paraphrased(grid, ZEBRA.replace(old, new))
