"""Lines wrapped anew, and options as a table."""

import random
from itertools import pairwise

import pytest

from bayescontam.duplicates.forms import with_table, wrap_anew

LONG = "A sentence that is longer than forty characters, by a little."
STAYS = {
    "code": f"```python\nprint({LONG!r})\n\n# {LONG}\n```",
    "unclosed code": f"~~~\n{LONG}\n```\n{LONG}",
    "indented": f"    {LONG}\n\t{LONG}",
    "list": f"- {LONG}\n* {LONG}\n12. {LONG}\n(b) {LONG}\niv) {LONG}\n1 - {LONG}",
    "table": f"| {LONG} | {LONG} |\n| --- | --- |\n{LONG} | {LONG}",
    "heading": f"## {LONG}",
    "quotation": f"> {LONG}",
    "formula": f"$$ {LONG} $$\n\\[ {LONG} \\]",
    "markup": f"<div> {LONG} </div>",
    "short": "Short lines.\nOf their own.",
    "one word": "x" * 300,
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_no_prose_stays(name: str) -> None:
    for width in (40, 55):
        assert wrap_anew(STAYS[name], width) == STAYS[name]
        around = f"{LONG}\n\n{STAYS[name]}\n\nEnd."
        if not name.startswith("unclosed"):
            # The prose around it is wrapped.
            assert STAYS[name] in wrap_anew(around, width)
            assert wrap_anew(around, width) != around


@pytest.mark.parametrize("width", [40, 61, 77, 100])
def test_prose_is_filled_at_its_width(width: int) -> None:
    rng = random.Random(width)
    words = ["a", "word", "sentences", "and", "others,", "longer", "still"]
    text = " ".join(rng.choice(words) for _ in range(200)) + "."
    lines = wrap_anew(text, width).split("\n")
    assert " ".join(lines) == text
    assert max(map(len, lines)) <= width
    for line, after in pairwise(lines):
        assert len(line) + 1 + len(after.split()[0]) > width


def test_what_was_filled_is_joined_before_it_is_filled_again() -> None:
    rng = random.Random(1)
    text = " ".join(rng.choice(["alpha", "be", "gamma,", "epsilon"]) for _ in range(80))
    once = wrap_anew(text, 55)
    assert wrap_anew(once, 90) == wrap_anew(text, 90)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}\nB{LONG}\nC{LONG}",  # a statement on each line
        "Roses grow in the gardens of the old castle\nViolets by the river that runs around it",
        f"name of the field: {LONG}\nanother field of it: short",
        "the first phrase of three, which is rather long\nsecond of them\nlast of all, longer yet",
    ],
)
def test_lines_of_their_own_are_not_joined(text: str) -> None:
    starts = [line.split()[0] for line in text.split("\n")]
    wrapped = wrap_anew(text, 40).split("\n")
    assert [line.split()[0] for line in wrapped if line.split()[0] in starts] == starts
    assert " ".join(wrapped).split() == text.split()


def test_no_line_begins_like_one_of_a_list() -> None:
    text = "They counted up to 1. and then 2. and so on, - or nearly - until # was all that is 3. "
    for width in range(40, 101):
        lines = wrap_anew(text * 4, width).split("\n")
        assert not [line for line in lines if line.startswith(("1. ", "2. ", "3. ", "- ", "# "))]


TABLE = "| Option | Text |\n| --- | --- |\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Why?\nA. So.\nB. No.", f"Why?\n\n{TABLE}| A | So. |\n| B | No. |"),
        ("Why?\n\n(a) So\n(b) No\nDone.", f"Why?\n\n{TABLE}| a | So |\n| b | No |\n\nDone."),
        ("Answer Choices:\n1) x|y\n2) z", f"Answer Choices:\n\n{TABLE}| 1 | x\\|y |\n| 2 | z |"),
        ("Choose:\n1 - Ana\n2 - Bo", f"Choose:\n\n{TABLE}| 1 | Ana |\n| 2 | Bo |"),
        ("What is 2+2?\n1. 3\n2. 4", f"What is 2+2?\n\n{TABLE}| 1 | 3 |\n| 2 | 4 |"),
    ],
)
def test_options_become_a_table(text: str, wanted: str) -> None:
    assert with_table(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "## Clues:\n1. Ana has a cat.\n2. Bo has none.",
        "Who owns the fish?\n1. Ana has a cat.\n2. Bo has none.",
        "Use these hints.\nA. Ana has a cat.\nB. Bo has none.",
        "Steps:\n1. Mix.\n2. Bake.",
        "Why?\nA. The only one.",
        "Why?\nB. So.\nC. No.",
        "Why?\nA. So.\nC. No.",
        "```\nA. So.\nB. No.\n```",
        "Plain text.",
    ],
)
def test_what_has_no_options_stays(text: str) -> None:
    assert with_table(text) == text


def test_clues_stay_beside_options() -> None:
    clues = "## Clues:\n1. Ana has a cat.\n2. Bo has none.\n\n"
    made = with_table(clues + "Who has a cat?\nA. Ana\nB. Bo")
    assert made == f"{clues}Who has a cat?\n\n{TABLE}| A | Ana |\n| B | Bo |"


def test_choices_stand_in_the_text_or_follow_it() -> None:
    rows = "| A | red |\n| B | blue |"
    assert with_table("Which?\n- red\n- blue\nSay!", ["red", "blue"]) == (
        f"Which?\n\n{TABLE}{rows}\n\nSay!"
    )
    assert with_table("Which?\n", ["red", "blue"]) == f"Which?\n\n{TABLE}{rows}"
    labelled = "Which?\nA. red\nB. blue"
    assert with_table(labelled, ["red", "blue"]) == f"Which?\n\n{TABLE}{rows}"
