"""Names that miss each other by what R, spreadsheets and people do to them are recognised."""

import re

import pytest

from bayescontam.data.validation import likely_mismatch


@pytest.mark.parametrize(
    ("lost", "known", "words"),
    [
        (["X1", "X12", "X5"], ["1", "12", "5", "7"], "all 3 .* R puts .*'X1' here, '1' there"),
        (["1", "12"], ["X1", "X12"], "R puts .*'1' here, 'X1' there"),
        (["X2.3", "a.b"], ["2/3", "a b"], "R puts"),
        (["7", "12"], ["007", "012"], "leading zeros"),
        (["0007"], ["7"], "leading zeros"),
        (["7.0", "12.0"], ["7", "12"], "stored as floats"),
        (["7"], ["7.00"], "stored as floats"),
        (["1E+05"], ["100000"], "stored as floats or powers"),
        (["Anatomy 1"], ["anatomy 1"], "upper and lower case"),
        (["q1 "], ["q1"], "blanks at their ends"),
        (["world_history"], ["World-History"], "punctuation"),
        (["2-Mar", "Mar-5", "q9"], ["2-3", "3-5", "q8"], "2 of 3 .* look like dates"),
        (["2026-03-02 00:00:00"], ["3-2"], "look like dates"),
        (["2-3", "3-5"], ["2-Mar", "5-Mar"], "may be among 2 names there that look like dates"),
        (["mmlu/1", "mmlu/2"], ["1", "2"], "differ by 'mmlu/' before the names here"),
        (["1", "2"], ["item_1", "item_2"], "differ by 'item_' before the names there"),
    ],
)
def test_what_happened_to_names_is_recognised(
    lost: list[str], known: list[str], words: str
) -> None:
    found = likely_mismatch(lost, known)
    assert found is not None
    assert re.search(words, str(found)), str(found)


@pytest.mark.parametrize(
    ("lost", "known"),
    [
        (["q5", "q6"], ["q1", "q2"]),
        (["a"], []),
        ([], ["a"]),
        (["X1", "y", "z"], ["1"]),
        (["17"], ["7"]),
        (["ale"], ["scale"]),
    ],
)
def test_other_names_are_not_explained(lost: list[str], known: list[str]) -> None:
    assert likely_mismatch(lost, known) is None
