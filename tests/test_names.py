"""Names as people may see them: one line, no control characters, never too long."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam._text import join_list, printable, short_labels
from tests.support.real_data import names

ANY = st.text(max_size=80) | names()
WIDTHS = st.integers(min_value=3, max_value=60)


def hidden(text: str) -> list[str]:
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return [char for char in text if unicodedata.category(char) in kinds]


@given(ANY, WIDTHS)
def test_visible_is_short_and_hides_nothing(name: str, width: int) -> None:
    text = printable(name, width)
    assert hidden(text) == []
    assert len(text) <= width
    assert len(text.splitlines()) == (1 if text else 0)
    assert printable(name, width) == text


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_plain_names_stay_as_they_are(name: str) -> None:
    assert printable(name, 40) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", ""),
        ("a b", "a b"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\0", "\\x00"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("é😀", "é😀"),
        ("[bold]<b>$x$", "[bold]<b>$x$"),
    ],
)
def test_what_visible_escapes(name: str, text: str) -> None:
    assert printable(name) == text


def test_the_middle_of_a_long_name_goes() -> None:
    text = printable("start" + "x" * 10_000_000 + "end")
    assert len(text) == 160
    assert text.startswith("startx")
    assert text.endswith("xend")
    assert text.count("…") == 1


@given(st.lists(ANY, min_size=1, max_size=30, unique=True), st.integers(8, 40))
def test_short_labels_are_short_distinct_and_the_same_each_time(
    given_names: list[str], width: int
) -> None:
    labels = short_labels(given_names, width)
    assert len(labels) == len(given_names)
    assert all(len(label) <= width for label in labels)
    assert len(set(labels)) == len(labels)
    assert short_labels(given_names, width) == labels
    assert hidden("".join(labels)) == []


def test_a_name_that_looks_like_a_shortened_one_stays_distinct() -> None:
    given_names = ["alpha-one-beta", "alpha-two-beta", "alph…#1"]
    labels = short_labels(given_names, width=9)
    assert len(set(labels)) == 3


@pytest.mark.parametrize(
    ("given_names", "text"),
    [
        ([], ""),
        (["a"], "'a'"),
        (["a", "b"], "'a', 'b'"),
        (["a", "b", "c", "d"], "'a', 'b', 'c' and 1 more"),
        (["a\nb"], "'a\\nb'"),
    ],
)
def test_listed(given_names: list[str], text: str) -> None:
    assert join_list(given_names, most=3) == text


def test_listed_shortens_each_name() -> None:
    assert len(join_list(["x" * 10_000] * 8)) == 8 * 62 + 7 * 2
