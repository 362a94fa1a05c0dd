"""Grids in ugly replies: the right one, or unreadable with a reason; never another one."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescontam.data.importers.arc import Grid
from bayescontam.data.importers.arc_replies import read_reply

GRID = [[2, 1, 0], [0, 0, 7]]
OTHER = [[1, 1], [1, 4]]
FORMS: dict[str, Callable[[Grid], str]] = {
    "JSON": json.dumps,
    "JSON in lines": lambda g: json.dumps(g, indent=1),
    "lists without commas": lambda g: "[" + "\n ".join("[" + spaced(row) + "]" for row in g) + "]",
    "tuples": lambda g: repr(tuple(map(tuple, g))),
    "NumPy": lambda g: repr(np.array(g)),
    "NumPy as text": lambda g: str(np.array(g)),
    "trailing commas": lambda g: "[\n" + "".join(f"  {row},\n" for row in g) + "]",
    "an object": lambda g: json.dumps({"output": g}),
    "as published": lambda g: "\n".join(f"[{spaced(row)}]" for row in g),
    "spaces": lambda g: "\n".join(map(spaced, g)),
    "two spaces": lambda g: "\n".join("  ".join(map(str, row)) + "  " for row in g),
    "tabs": lambda g: "\n".join("\t".join(map(str, row)) for row in g),
    "commas": lambda g: "\n".join(", ".join(map(str, row)) for row in g),
    "quotes": lambda g: "\n".join(", ".join(f"'{x}'" for x in row) for row in g),
    "bars": lambda g: "\n".join("| " + " | ".join(map(str, row)) + " |" for row in g),
    "blank lines": lambda g: "\n\n".join(map(spaced, g)),
    "Windows lines": lambda g: "\r\n".join(map(spaced, g)),
    "labels": lambda g: "\n".join(f"Row {k}: {spaced(row)}" for k, row in enumerate(g, 1)),
    "numbers": lambda g: "\n".join(f"{k}. {spaced(row)}" for k, row in enumerate(g)),
    "semicolons": lambda g: "[" + "; ".join(map(spaced, g)) + "]",
    "wide digits": lambda g: "\n".join(map(spaced, g)).translate(
        {ord(str(k)): chr(0xFF10 + k) for k in range(10)}
    ),
    "a list of one grid": lambda g: json.dumps([g]),
}
"""Ways of writing a grid."""
DENSE: dict[str, Callable[[Grid], str]] = {
    "digits": lambda g: "\n".join(map(dense, g)),
    "bars of old submissions": lambda g: "|" + "|".join(map(dense, g)) + "|",
    "lists of digits": lambda g: "[" + ",".join(f"[{dense(row)}]" for row in g) + "]",
}
"""Ways that need more than one column."""
AROUND = {
    "nothing": "{}",
    "blank lines": "\n\n  \n{}\n\n",
    "a fence": "```\n{}\n```",
    "a fence with a language": "Here it is.\n```json\n{}\n```\nThat is all.",
    "wide fence": "~~~\n{}\n~~~",
    "prose": "The shape moves 2 to the right.\n\n{}\n\nI used 3 of 10 colours, for 2 reasons.",
    "a label": "**Output:**\n{}\n",
    "size": "The output is a 2x3 grid:\n{}",
    "long label": "The output is a 2 x 3 grid with the colors 0, 1, 2 and 7:\n{}\nDone.",
    "thinking": "<think>First\n1 1\n1 1\nor [[3, 3]]?</think>\n{}",
    "the input before": "Input:\n1 1\n1 4\n\nOutput:\n{}",
    "input and its list": "The test input is [[1, 1], [1, 4]].\nThe answer is\n{}",
    "examples before": "Example 1\nInput:\n1 1\nOutput:\n5 5\n\nTest output:\n{}",
    "said twice": "I think\n{0}\nis right. So the final answer is:\n{0}",
    "changed": "My first output was\n1 1\n1 4\nwhich is wrong. Final answer:\n{}",
    "bullet points": "- rotate\n- recolour\n\nResult:\n\n{}\n",
}
"""What stands around it."""


def spaced(row: list[int]) -> str:
    return " ".join(map(str, row))


def dense(row: list[int]) -> str:
    return "".join(map(str, row))


GRIDS = st.integers(2, 30).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 9), min_size=width, max_size=width), min_size=2, max_size=30
    )
)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("form", FORMS | DENSE)
def test_a_grid_is_read_in_all_forms(form: str, around: str) -> None:
    text = AROUND[around].format((FORMS | DENSE)[form](GRID))
    if form == "blank lines" and around == "said twice":
        assert read_reply(text).grid in (GRID, None)
        return
    reply = read_reply(text)
    assert reply.grid == GRID, f"{reply.reason}:\n{text}"


@pytest.mark.parametrize(
    "label",
    [
        "The output for the test input is:", "Output (for test input 1):",
        "Here is the output for the given input:", "Predicted output for test input 1:",
        "The output has the same size as the input:", "Applying the rule to the input gives:",
        "The answer is", "So the grid is:",
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["spaces", "JSON", "as published"])
def test_labels_may_mention_the_input(label: str, form: str) -> None:
    text = FORMS[form](GRID)
    for around in (f"{label}\n\n{text}", f"{label}\n```\n{text}\n```\nDone."):
        reply = read_reply(around)
        if "rule" in label and around.endswith("Done."):
            assert reply.grid is None
        else:
            assert reply.grid == GRID, reply.reason


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("[1,2],[3,4]", [[1, 2], [3, 4]]),
        ("```\n[1,2] [3,4]\n```", [[1, 2], [3, 4]]),
        ("{1,2},{3,4}", [[1, 2], [3, 4]]),
        ("1 2\x0b3 4", [[1, 2], [3, 4]]),
        ("1 2\u20283 4", [[1, 2], [3, 4]]),
        ("\ufeff2 1", [[2, 1]]),
        ("Output:\n5", [[5]]),
        ("Output:\n123", [[1, 2, 3]]),
        ("Output: 5", [[5]]),
        ("Output: [2 1 0]", [[2, 1, 0]]),
        ("**Output:** 2 1 0", [[2, 1, 0]]),
        ("All cells move.\n\nSo the final answer is: [2, 1, 0].", [[2, 1, 0]]),
        ("```\nOutput: 2 1 0\n```", [[2, 1, 0]]),
        ("Test input: [0 1 2]\nOutput: [2 1 0]", [[2, 1, 0]]),
    ],
)
def test_rows_end_where_they_end(text: str, grid: Grid) -> None:
    assert read_reply(text).grid == grid


@pytest.mark.parametrize(
    "text",
    [
        "Input      Output\n1 2        2 1\n3 4        4 3",
        "1 2 | 2 1\n3 4 | 4 3",
        "[[0,0,0]]*3",
        "[[0, 0]] + [[1, 1]]",
        "Output:\n? ? ?\n4 5 6\n7 8 9",
        "Output:\n4 5 6\na b c",
        "Output:\n1 1 1\n2 2 2\nremaining rows are the same",
        "1 1 1\netc.",
        "1 1 1\n[rest the same]",
        "I recoloured the cells [(0,1),(2,3)].",
        "I recoloured the cells [[0,1],[2,3]].",
        "1 2 3\n7 8 9\nand the third row: 4 5 6",
        "Final answer:\n[[1,2],[3,4]]\n\nThis matches the output of example 1: [[5,6],[7,8]]",
        "[" * 5000 + "1" + "]" * 5000,
        "([" * 50_000 + "1",
        # An answer that begins beside its label.
        "Output: 5\n3\n2",
        "0 2: 3 4\n0 3: 4 5",
        " " * 50_000 + "1 x",
        "Output: 5\n3",
        "Output: 12\n34\n56",
        "Output: [5]\n[3]\n[2]",
        "Output: [2 1 0",
        "Output: [2 1 0], [0 0 7]",
        "Output: 2 1 0; 0 0 7",
        "Output: 3x3",
        "Result: 3 objects",
        "Output: 3\nOutput: 4",
        "Output: 3\nThat is the colour of the frame.",
        "Example 2\nInput: 1\nOutput: 2",
        "Input: 1\nOutput: 2",
        "Output:" + " " * 50_000 + "x",
        # The input may be repeated below such a label.
        "Applying the rule to the test input:\n2 1 0\n0 0 7\nI see no rule.",
        "Test input:\n2 1 0\n0 0 7\nApplying the rule to the test input:\n2 1 0\n0 0 7",
        "Now apply the rule to the test input:\n2 1 0\n0 0 7",
        "The rule is applied to the following input:\n2 1 0\n0 0 7",
        "Applying the rule to the input of example 1:\n2 1 0\n0 0 7",
        "applying to input " * 5000 + ":\n2 1\n0 7",
    ],
)
def test_what_could_be_read_wrongly_is_not_read(text: str) -> None:
    reply = read_reply(text)
    assert reply.grid is None
    assert reply.reason


@pytest.mark.parametrize(
    "before",
    ["", "Test input:\n1 1\n1 4\n\n", "The output swaps colours. ", "The input is\n1 1\n1 4\n"],
)
def test_a_grid_below_the_rule_applied_ends_the_reply(before: str) -> None:
    label = "Applying the rule to the test input:"
    assert read_reply(f"{before}{label}\n\n2 1 0\n0 0 7\n").grid == GRID
    # Another grid that may be the answer counts alone.
    answer = "The final answer is\n1 1\n1 4\n\nI found it by this."
    assert read_reply(f"{before}{answer} {label}\n2 1 0\n0 0 7").grid == OTHER


def test_thoughts_may_lack_the_mark_that_opens_them() -> None:
    assert read_reply("The output is\n1 1\n1 4\n</think>\n2 1 0\n0 0 7").grid == GRID
    assert read_reply("The output is\n1 1\n1 4\n</think>\nI see no rule.").grid is None


def test_lines_that_are_escaped_are_lines() -> None:
    assert read_reply("2 1 0\\n0 0 7").grid == GRID


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no grid"),
        ("I cannot solve this task.", "no grid"),
        ("The answer is 42.", "no grid"),
        ("1. rotate the grid\n2. recolour it", "no grid"),
        ("3", ""),
        ("Step\n3\nis hard", "no grid"),
        ("2 1 0\n0 0", "2 lengths"),
        ("210\n00", "2 lengths"),
        ("[[2, 1, 0], [0, 0]]", "2 lengths"),
        ("2 1 0\n0 0 x", "none"),
        ("2 1 0\n0 0 7 <- changed", "none"),
        ("2 1 0\nred red 7", "none"),
        ("2 1 0\n...\n0 0 7", "2 grids"),
        ("2 1 0\n0 0 7\n...", "none"),
        ("```\n2 1 0\n0 0 7\nand so on\n```", "none"),
        ("2 1 0\n-1 0 7", "none"),
        ("Output: 2 1 0\n0 0 7", "none"),
        ("[[2, 1, 0], [0, 0", "ends within"),
        ("```\n2 1 0\n0 0 7", "ends within"),
        ("<think>2 1 0\n0 0 7", "ends within"),
        ("[[2, 1, 0], [0, -1, 7]]", "is no grid"),
        ("[[2, 1, 0], [0, None, 7]]", "is no grid"),
        ("[[2.5, 1], [0, 7]]", "is no grid"),
        ("[[2, 1, 0], [0, 10, 7]]", "colours"),
        ("2 1 0\n0 12 7", "colours"),
        ("2 1 0\n0 0 7\n\n1 1\n1 4", "2 grids"),
        ("1 1\n1 1\n\n1 1\n1 1", "2 grids"),
        ("Output 1:\n2 1\n0 7\nOutput 2:\n3 3\n3 3\nOne of these.", ""),
        ("[[[2, 1], [0, 7]], [[3, 3], [3, 3]]]", "list of 2 grids"),
        ("| 0 | 1 | 2 |\n|---|---|---|\n| 2 | 1 | 0 |", "number its columns"),
        ("Row 1: 2 1 0\n0 0 7", "numbered"),
        ("\n".join(["0 0"] * 31), "31 × 2"),
        ("\n".join(["0" * 31] * 2), "2 × 31"),
        ("Input:\n2 1 0\n0 0 7", "no grid"),
    ],
)  # fmt: skip
def test_what_is_unclear_is_unreadable(text: str, reason: str) -> None:
    reply = read_reply(text)
    if not reason:
        assert reply.grid in ([[3]], [[3, 3], [3, 3]])
        return
    assert reply.grid is None
    assert reason in reply.reason


@settings(max_examples=60, deadline=None)
@given(GRIDS, st.sampled_from(sorted(FORMS | DENSE)), st.sampled_from(sorted(AROUND)))
def test_any_grid_is_read(grid: Grid, form: str, around: str) -> None:
    reply = read_reply(AROUND[around].format((FORMS | DENSE)[form](grid)))
    # A grid that is written like its neighbours may be unreadable, but is never another one.
    assert reply.grid in (grid, None)
    if around in ("nothing", "a fence", "prose", "a label") and form not in ("labels", "numbers"):
        assert reply.grid == grid, reply.reason


@settings(max_examples=150, deadline=None)
@given(
    GRIDS,
    st.sampled_from(sorted(FORMS | DENSE)),
    st.sampled_from(["a fence", "prose", "a label", "the input before"]),
    st.sampled_from(["?", "x", "", "10", "-1", "...", "\n"]),
    st.data(),
)
def test_a_spoilt_grid_is_never_another_one(
    grid: Grid, form: str, around: str, noise: str, data: st.DataObject
) -> None:
    """One digit is replaced: by no digit, by none at all, or by a line of its own."""
    text = (FORMS | DENSE)[form](grid)
    digits = [k for k, letter in enumerate(text) if letter.isdigit()]
    at = data.draw(st.sampled_from(digits))
    reply = read_reply(AROUND[around].format(text[:at] + noise + text[at + 1 :]))
    spoilt = reply.grid
    if spoilt is not None:
        # Only a grid of as many rows and columns may come out, of which that digit is another.
        assert np.shape(spoilt) == np.shape(grid)
        assert (np.array(spoilt) != np.array(grid)).sum() <= 1


@settings(max_examples=100, deadline=None)
@given(GRIDS, st.sampled_from(["JSON", "as published", "lists without commas", "NumPy"]), st.data())
def test_a_reply_that_is_cut_off_is_unreadable(grid: Grid, form: str, data: st.DataObject) -> None:
    text = "```\n" + FORMS[form](grid) + "\n```"
    end = data.draw(st.integers(0, len(text) - 4))
    assert read_reply(text[:end]).grid is None


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="0123 [](),|\n;:.`xab", max_size=80))
def test_any_text_has_a_grid_or_a_reason(text: str) -> None:
    reply = read_reply(text)
    assert (reply.grid is None) == bool(reply.reason)
    if reply.grid is not None:
        assert 1 <= len(reply.grid) <= 30
        assert len({len(row) for row in reply.grid}) == 1


@pytest.mark.parametrize(
    ("reply", "grid"),
    [
        ("[[1,2],[3,4]]\n\nNote: I left out the </think> tag.", [[1, 2], [3, 4]]),
        ("[[5,5]] perhaps\n</think>\n[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("perhaps [[5,5]]</think>\n[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("Final answer: (1, 2)\n(3, 4)", None),
        ("My final answer: 1, 2,\n3, 4", None),
        ("Colours 1 and 2.\nFinal result: 2024", None),
    ],
)
def test_marks_of_thoughts_and_rows_beside_labels_are_not_guessed(reply, grid) -> None:
    assert read_reply(reply).grid == grid
