"""Tables of scores of models on items' texts: what is read, and what is refused."""

from typing import Any

import pandas as pd
import pytest

from bayescontam.data.model_scores import ModelScores, read_scores
from bayescontam.errors import DataError, UsageError

KEYS = {"model": ["a", "a"], "benchmark": ["quiz", "new"], "item": ["1", "1"]}


def made(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(KEYS | {"control": [0, 1]} | columns)


def test_counts_are_shares() -> None:
    scores = ModelScores.from_frame(made(n_correct=[2, 0], n_trials=[5, 5], fluency=[1.0, 2.0]))
    assert scores.counts
    assert scores.frame["score"].tolist() == [0.4, 0.0]
    assert scores.frame["control"].tolist() == [False, True]
    assert scores.notes == ("left out columns that scores do not have: 'fluency'",)


def test_low_numbers_may_be_those_of_seen_items() -> None:
    scores = ModelScores.from_frame(made(score=[0.5, 2.5]), lower_is_seen=True)
    assert not scores.counts
    assert scores.frame["score"].tolist() == [-0.5, -2.5]
    with pytest.raises(UsageError, match="lower_is_seen: is for a number"):
        ModelScores.from_frame(made(n_correct=[2, 0], n_trials=[5, 5]), lower_is_seen=True)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_of_other_names_are_read_from_files(tmp_path: Any, ending: str) -> None:
    table = pd.DataFrame(KEYS | {"rewritten": [False, True], "mink": [-3.5, -5.0], "score": [1, 2]})
    path = tmp_path / f"scores.{ending}"
    match ending:
        case "csv":
            table.to_csv(path, index=False)
        case "jsonl":
            table.to_json(path, orient="records", lines=True)
        case _:
            table.to_parquet(path)
    scores = read_scores(path, columns={"control": "rewritten", "score": "mink"})
    assert scores.frame["score"].tolist() == [-3.5, -5.0]
    assert scores.frame["control"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"scores": "mink"}, "columns: got 'scores'; allowed are"),
        ({"score": "minc"}, "no column 'minc' for 'score'; the columns are"),
    ],
)
def test_columns_that_are_none_are_refused(columns: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ModelScores.from_frame(made(mink=[1.0, 2.0]), columns=columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"score": [1.0, None]}, "row 2: score: missing value"),
        ({"score": ["high", "2"]}, "row 1: score: got 'high', allowed is a finite number"),
        ({"score": [float("inf"), 2.0]}, "row 1: score: got inf"),
        ({"score": [1, 2], "control": [0, 2]}, "row 2: control: got 2, allowed is 1"),
        ({"score": [1, 2], "control": [0, None]}, "row 2: control: got nothing"),
        ({"score": [1, 2], "n_correct": [1, 2]}, "score: stands beside 'n_correct'"),
        ({"n_correct": [1, 2]}, "n_trials: no such column"),
        ({"n_correct": [6, 2], "n_trials": [5, 5]}, "row 1: n_correct: got 6"),
        ({"n_correct": [0.5, 2], "n_trials": [5, 5]}, "row 1: n_correct: got 0.5"),
        ({"n_correct": [0, 2], "n_trials": [0, 5]}, "row 1: n_trials: got 0"),
        ({"n_correct": [1, 2], "n_trials": [4, 5]}, "n_trials: differs between items of 'a'"),
        ({"score": [1, 2], "benchmark": "quiz"}, "item: same model, benchmark, item as row 1"),
        ({"score": [1, 2], "model": ["a", " "]}, "row 2: model: blank name"),
        ({"score": [1, 2], "model": ["a", "a "]}, "row 2: model: got 'a '"),
        ({}, "score: no such column"),
    ],
)
def test_what_cannot_be_used_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ModelScores.from_frame(made(**columns))


def test_a_table_without_controls_column_is_refused() -> None:
    with pytest.raises(DataError, match="control: no such column; add one: 1 where the model"):
        ModelScores.from_frame(made(score=[1, 2]).drop(columns="control"))
