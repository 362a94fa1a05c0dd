"""The rule of verbatim copies: what counts as the same text, and what it leaves unjudged."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescontam.data.judgements import Judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.verbatim import JUDGE, normalised, verbatim_judgements
from bayescontam.scan.results import words
from tests.support.zebra_puzzles import ZEBRA

QUESTION = "A farmer has 20 sheep and sells 3 of them; how many sheep are left on the farm?"
CHOICE = "Which of these planets is the largest one?\nA) Mars\nB) Jupiter\nC) Venus\nD) Saturn"
PASSAGE = " ".join(f"word{k}" for k in range(100))


def judged(item: str, *chunks: str, **options: Any) -> Judgements:
    table = pd.DataFrame({"chunk_text": chunks, "document": [f"d{k}" for k in range(len(chunks))]})
    table = table.assign(benchmark="quiz", item="i", source="web", chunk=0, text=item)
    return verbatim_judgements(table, **options)


def verdict(item: str, chunk: str, **options: Any) -> Any:
    """Return 1, 0, or None where the pair is unjudged."""
    found = judged(item, chunk, **options).frame["is_duplicate"].iloc[0]
    return None if pd.isna(found) else int(found)


def shuffled(text: str, start: str) -> str:
    """Return a text with its lines after one that starts like this turned round and renumbered."""
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith(start)) + 1
    entries = [line.split(". ", 1)[1] for line in lines[at:]][::-1]
    return "\n".join([*lines[:at], *(f"{k}. {entry}" for k, entry in enumerate(entries, 1))])


@pytest.mark.parametrize(
    "chunk",
    [
        QUESTION,
        f"Homework, page 3.\n\n{QUESTION}\n\nAnswer: 17",
        QUESTION.upper().replace(";", " –").replace("?", " ?!"),
        "1. **A farmer** has 20 sheep,\n> and sells 3 of them:\n- how many sheep\tare left on "
        "the farm?",
        QUESTION.replace("fa", "\uff46\uff41").replace(" ", "\u00a0"),
    ],
)
def test_layout_case_and_punctuation_do_not_count(chunk: str) -> None:
    assert verdict(QUESTION, chunk) == 1


@pytest.mark.parametrize(
    "chunk",
    [
        QUESTION.replace("20", "21"),
        QUESTION.replace("20", "20.5"),
        QUESTION.replace("sells", "buys"),
        QUESTION.replace("farm?", "farmhouse?"),
        QUESTION.replace("has 20 sheep and", "has 20 sheep, a dog and"),
        "How many sheep are left on the farm? " + QUESTION.split(";")[0],
        "",
    ],
)
def test_other_words_and_numbers_do(chunk: str) -> None:
    assert verdict(QUESTION, chunk) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 - 5", "3 + 5"), ("2 * 3", "2 3"), ("x = -5", "x = 5"), ("x < y", "x > y"),
        ("10⁶", "106"), ("x²", "x2"), ("1½", "11/2"), ("3.14", "3 14"), ("1,000", "1 000"),
        ("a == b", "a = b"), ("2**3", "2 3"), ("12 × 4", "12 ÷ 4"), ("x ≤ 5", "x ≥ 5"),
        ("A ∪ B", "A ∩ B"), ("a & b", "a | b"), ("x -y", "x y"), ("राम की कार", "राम का कोर"),
    ],
)  # fmt: skip
def test_formulas_that_differ_stay_different(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x² + 1", "x^2+1"), ("$x^{2}$", "x^2"), ("well-known", "well known"), ("**bold**", "bold"),
        ("3–5", "3-5"), ("2*3 = 6", "2 * 3 = 6"), ("don’t", "don't"), ("_so_", "so"),
        ("STRASSE", "straße"), ("- one\n- two", "1) one\n2) two"), ("## Clues:", "Clues"),
        ("½ cup", "1/2 cup"), ("(−5)", "(-5)"),
    ],
)  # fmt: skip
def test_texts_that_mean_the_same_become_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_marks_are_parts_of_words() -> None:
    text = "भारत की राजधानी क्या है?"
    assert normalised(text).split() == words(text) == ["भारत", "की", "राजधानी", "क्या", "है"]


@settings(max_examples=30)
@given(st.text(max_size=80))
def test_any_text_is_normalised_and_contains_itself(text: str) -> None:
    assert "  " not in normalised(text)
    assert verdict(text, f"Before\n{text}\nafter", min_words=1) in (1, None)


def test_the_verdict_has_a_judge_and_a_kind_only_where_it_holds() -> None:
    made = judged(QUESTION, QUESTION, "Another text about sheep.")
    assert set(made.frame["judge"]) == {JUDGE}
    assert made.frame["kind"].tolist() == ["exact", ""]
    assert made.frame["is_duplicate"].tolist() == [1, 0]
    assert made.frame["document"].tolist() == ["d0", "d1"]
    assert made.notes == ()


def test_clues_in_another_order_are_the_same_puzzle() -> None:
    assert verdict(ZEBRA, shuffled(ZEBRA, "## Clues")) == 1
    text = shuffled(ZEBRA, "## Clues")
    assert verdict(ZEBRA, f"Solve this:\n{text}\nSolution: Peter lives in house 1.") == 1
    # One clue is another, is absent, or is there twice.
    assert verdict(ZEBRA, text.replace("not in the third", "in the third")) == 0
    assert verdict(ZEBRA, text.rpartition("\n")[0]) == 0
    assert verdict(ZEBRA, f"{text}\n7. Eric is the person whose birthday is in September.") == 0
    assert verdict(ZEBRA, text.replace("There are 3 houses", "There are 4 houses")) == 0


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ("Which of these planets is the largest one? (A) Venus (B) Saturn (C) Jupiter (D) Mars", 1),
        ("Which of these planets is the largest one?\n- Saturn\n- Mars\n- Jupiter\n- Venus", 1),
        ("Which of these planets is the largest one?\n- Saturn\n- Mars\n- Jupiter\n- Earth", 0),
        ("Which of these planets is the largest one?\n- Saturn\n- Mars\n- Jupiter", 0),
        ("Which of these planets is the smallest?\n- Saturn\n- Mars\n- Jupiter\n- Venus", 0),
    ],
)
def test_options_in_another_order_are_the_same_question(chunk: str, expected: int) -> None:
    assert verdict(CHOICE, chunk) == expected
    inline = CHOICE.replace("\n", " ")
    assert verdict(inline, chunk) == expected


def test_an_initial_is_no_option() -> None:
    text = "The poem that A. Smith wrote to B. Jones is about a river near the town."
    assert verdict(text, text.replace("A. Smith", "B. Jones", 1)) == 0


def test_what_an_edge_of_the_chunk_cuts() -> None:
    words = PASSAGE.split()
    beginning, end = " ".join(words[:85]), " ".join(words[15:])
    assert verdict(PASSAGE, f"Something before. {beginning}") == 1
    assert verdict(PASSAGE, f"{end} something after.") == 1
    assert verdict(PASSAGE, beginning) == 1
    # It continues in another way, as a second question on one passage does.
    assert verdict(PASSAGE, f"{beginning} and another end") == 0
    assert verdict(PASSAGE, f"another start {end}") == 0
    assert verdict(PASSAGE, f"Something before. {' '.join(words[:75])}") == 0
    assert verdict(PASSAGE, f"Something before. {beginning}", share=0.9) == 0
    assert verdict(PASSAGE, " ".join(words[5:90])) == 1


def test_a_chunk_inside_an_item_is_unjudged() -> None:
    """The item is longer than a chunk can be: nothing follows from what is not there."""
    made = judged(PASSAGE, " ".join(PASSAGE.split()[10:60]), "word3 word4")
    assert made.frame["is_duplicate"].isna().tolist() == [True, False]
    reason = "unjudged: the chunk lies inside the item and holds less than 80% of it"
    assert made.frame["comment"].tolist() == [reason, ""]
    assert made.notes == (f"1 pairs are {reason}",)


def test_short_items_are_unjudged_and_counted() -> None:
    short = "What is the capital of France?"
    made = judged(short, short, "Paris", "London")
    assert made.frame["is_duplicate"].isna().all()
    assert made.notes == ("3 pairs are unjudged: the item has fewer than 8 words",)
    assert verdict(short, f"Quiz: {short} Paris", min_words=6) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_words": 0}, "min_words: got 0; allowed is 1 or more"),
        ({"share": 0.5}, "share: got 0.5; allowed is above 0.5, up to 1"),
        ({"share": float("nan")}, "share: got nan; allowed is above 0.5, up to 1"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        judged(QUESTION, QUESTION, **options)
    assert str(caught.value) == message


def test_tables_that_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="pairs: lacks source, text"):
        verbatim_judgements(
            pd.DataFrame(columns=["benchmark", "item", "document", "chunk", "chunk_text"])
        )
    with pytest.raises(DataError, match="no rows; give at least one pair"):
        judged(QUESTION)
