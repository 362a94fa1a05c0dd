"""Accuracy of blind guessing, read from the responses."""

import pandas as pd
import pytest

from bayescontam.data.measures import guess_column, read_guess, unused_note
from bayescontam.errors import DataError


def table(**columns: list[object]) -> pd.DataFrame:
    frame = pd.DataFrame({"model": ["A", "A", "B", "B"], "item": ["p", "q", "p", "q"]})
    return frame.assign(benchmark="quiz", correct=1, **columns)


def test_options_are_inverted_and_an_item_without_any_has_none() -> None:
    assert read_guess(table(n_options=["4", "0", "4", "0.0"]), "t").tolist() == [0.25, 0, 0.25, 0]
    assert read_guess(table(guess=[0.2, 0, 0.2, 0]), "t").tolist() == [0.2, 0, 0.2, 0]


def test_guess_counts_where_both_columns_are_there() -> None:
    frame = table(n_options=[4] * 4, guess=[0.5, 0.4, 0.5, 0.4])
    assert guess_column(frame) == "guess"
    assert read_guess(frame, "t").tolist() == [0.5, 0.4, 0.5, 0.4]
    assert guess_column(table()) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, r"t\.csv: .*takes guessing from a column 'guess', which is not there"),
        ({"guess": [0.2, None, 0.2, ""]}, r"guess: items without a value: 'q'; .*from 0 up to"),
        (
            {"guess": [0.2, 1, 0.2, 1]},
            r"guess: items with a value that is not allowed: 'q \(1\.?0?",
        ),
        ({"guess": [0.2, 0.1, 0.3, 0.1]}, r"more than one value: 'p \(0\.2\)', 'p \(0\.3\)'; an i"),
        ({"n_options": [4, 1, 4, 1]}, r"'q \(1\)'; allowed is a number 2 or more, or 0"),
        ({"n_options": [4, 2.5, 4, 2.5]}, r"'q \(2\.5\)'"),
        ({"n_options": ["four", 2, "four", 2]}, r"'p \(four\)'"),
        ({"n_options": [True, 2, True, 2]}, r"'p \(True\)'"),
    ],
)
def test_what_is_no_guessing_is_refused_in_one_line(columns: dict, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_guess(table(**columns), "t.csv")
    assert len(caught.value.faults) == 1


def test_items_of_several_benchmarks_are_named_with_theirs() -> None:
    frame = table(guess=[2, 0, 2, 0]).assign(benchmark=["a", "b", "a", "b"])
    with pytest.raises(DataError, match=r"'a/p \(2\)'"):
        read_guess(frame, "t")
    # One name in two benchmarks is two items, which may be guessed differently.
    frame = table(guess=[0.5, 0.5, 0.2, 0.2]).assign(benchmark=["a", "a", "b", "b"])
    assert read_guess(frame, "t").tolist() == [0.5, 0.5, 0.2, 0.2]


def test_a_column_that_a_spec_ignores_is_named() -> None:
    assert unused_note(table(), 0.0) == []
    assert unused_note(table(n_options=[4] * 4), "column") == []
    assert unused_note(table(n_options=[4] * 4), 0.25) == []
    (note,) = unused_note(table(n_options=[4] * 4), 0.0)
    assert note.startswith("the table's column 'n_options' is not used")
