import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.report.html import SHOWN, UNFOLDED, excerpt
from tests.support.made_scan import HOSTILE_TEXTS

TEXTS = st.text(st.characters(), max_size=200) | st.sampled_from([*HOSTILE_TEXTS, "\ud800\udfff"])
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def seen(markup: str) -> str:
    """Return what a browser shows of an excerpt."""
    return html.unescape(re.sub("</?i>", "", markup))


@given(TEXTS)
def test_nothing_hidden_and_no_markup_gets_through(text: str) -> None:
    cut = excerpt(text)
    whole = cut.head + cut.rest
    assert set(re.findall(r"<[^>]*>", whole)) <= {"<i>", "</i>"}
    kinds = {unicodedata.category(char) for char in set(whole) - {"\n", "\t"}}
    assert not kinds & HIDDEN


@given(TEXTS)
def test_every_character_is_accounted_for(text: str) -> None:
    cut = excerpt(text)
    length = len(text.replace("\r\n", "\n"))
    first = length - cut.more - cut.left_out
    assert min(first, cut.more, cut.left_out) >= 0
    assert bool(cut.more) == bool(cut.rest)
    assert len(seen(cut.head)) <= SHOWN * 7 / 6
    assert len(seen(cut.head + cut.rest)) <= UNFOLDED


@given(
    st.text(
        st.characters(categories=["L", "N", "P", "S"]) | st.sampled_from(" \n\t"), max_size=2000
    )
)
def test_what_can_be_seen_is_shown_as_it_is(text: str) -> None:
    cut = excerpt(text, shown=100, unfolded=1000)
    shown = seen(cut.head + cut.rest)
    assert text.startswith(shown)
    assert len(shown) == len(text) - cut.left_out
    assert cut.left_out == 0 or len(shown) == 1000 or shown.count("\n") == 1000 // 25 - 1


def test_escapes_are_distinguished_from_texts_that_spell_them_out() -> None:
    assert excerpt("\\u202e\u202e").head == "\\u202e<i>\\u202e</i>"
    assert excerpt("a\x00\x07b").head == "a<i>\\x00\\x07</i>b"


def test_line_breaks_stay_and_lone_carriage_returns_are_seen() -> None:
    assert excerpt("a\r\n\tb\rc").head == "a\n\tb<i>\\r</i>c"


def test_cuts_fall_between_words_and_are_counted() -> None:
    cut = excerpt("word " * 2000)
    assert cut.head == "word " * (SHOWN // 5)
    assert len(cut.rest) == UNFOLDED - SHOWN == cut.more
    assert cut.left_out == 10_000 - UNFOLDED


def test_a_text_that_fits_is_whole() -> None:
    for length in (SHOWN, SHOWN + 100):
        cut = excerpt("w" * length)
        assert (cut.head, cut.rest, cut.more, cut.left_out) == ("w" * length, "", 0, 0)
    assert excerpt("w" * (SHOWN + 101)).more == 101


def test_empty_lines_do_not_fill_the_page() -> None:
    cut = excerpt("\n" * 50_000)
    assert cut.head.count("\n") < 30
    assert (cut.head + cut.rest).count("\n") < 250


def test_without_an_unfolded_part_the_rest_is_left_out() -> None:
    cut = excerpt("word " * 400, unfolded=SHOWN)
    assert (cut.rest, cut.more) == ("", 0)
    assert cut.left_out == 2000 - SHOWN


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_an_excerpt_is_small(text: str) -> None:
    cut = excerpt(text)
    assert len((cut.head + cut.rest).encode()) <= 5 * UNFOLDED
