"""Rows of Every Eval Ever, laid out as schema 0.3.0 says and its converters write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayescontam.data.importers.every_eval_ever import import_every_eval_ever as load
from bayescontam.errors import DataError, UsageError
from tests.support.write_logs import ITEMS, quiz, row, write


def test_rows_become_responses(tmp_path: Path) -> None:
    write(tmp_path, "a", quiz())
    other = {"model_id": "org/b", "evaluation_id": "quiz/org/b/1700000000"}
    broken = row(9, 0.0, error="timeout", **other)
    write(tmp_path, "b", [row(0, 1.0, **other), broken])
    found = load([tmp_path], keep=["metadata.topic"])
    assert found.frame.to_numpy().tolist() == [
        *(["org/a", "quiz", str(item), item % 2, 1, f"t{item % 2}"] for item in range(ITEMS)),
        ["org/b", "quiz", "0", 1, 1, "t0"],
    ]
    assert found.left_out.to_numpy().tolist() == [["quiz", "error in the sample", 1]]


def test_runs_and_epochs_are_trials_and_copies_are_not(tmp_path: Path) -> None:
    runs = [f"quiz/org/a/{run}" for run in (1, 2)]
    epochs = [
        row(0, float(epoch == 1), evaluation_id=runs[0], metadata={"epoch": str(epoch)})
        for epoch in (1, 2, 3)
    ]
    write(tmp_path, "a", epochs)
    write(tmp_path, "b", [row(0, 1.0, evaluation_id=runs[1])])
    write(tmp_path, "copy", [row(0, 1.0, evaluation_id=runs[1])])
    alike = row(0, 1.0, evaluation_id="quiz/org/a/3", output={"raw": [f"answer 0 {runs[1]}"]})
    write(tmp_path, "alike", [alike])
    found = load([tmp_path])
    assert found.frame[["n_correct", "n_trials"]].to_numpy().tolist() == [[2, 4]]
    assert found.left_out.to_numpy().tolist() == [
        ["quiz", "answers of a run that is there already", 1],
        ["quiz", "answers that occur again in the same run", 1],
    ]


def test_choices_are_requested_and_never_guessed(tmp_path: Path) -> None:
    file = write(tmp_path, "a", quiz() + quiz(evaluation_result_id="f1"))
    with pytest.raises(UsageError, match=r"quiz has 'exact_match' \(6 rows\), 'f1' \(6 rows\)"):
        load([file])
    assert len(load([file], metric=["f1"]).frame) == ITEMS
    file = write(tmp_path, "b", quiz(evaluation_name="quiz/strict") + quiz())
    with pytest.raises(UsageError, match="'quiz', 'quiz/strict' are of the same questions"):
        load([file])
    found = load([file], only=["quiz/strict"])
    assert found.left_out.to_numpy().tolist() == [
        ["quiz", "rows of an evaluation not requested", ITEMS]
    ]
    with pytest.raises(UsageError, match="--only: 'exam' occurs nowhere; there are 'quiz/strict'"):
        load([file], only=["exam"])


@pytest.mark.parametrize(
    "evaluation",
    [{"score": 0.5, "is_correct": False}, {"score": 0.0, "is_correct": True},
     {"score": 100.0, "is_correct": True}],
)  # fmt: skip
def test_scores_that_are_no_verdicts_are_refused(
    tmp_path: Path, evaluation: dict[str, Any]
) -> None:
    file = write(tmp_path, "a", [*quiz(), row(9, 0.0, evaluation=evaluation)])
    with pytest.raises(DataError, match=r"1 scores are neither 0 nor 1, contradict.*sample '9'"):
        load([file])
    frames = [load([file], threshold=0.5).frame, load([file], verdict=True).frame]
    last = [int(frame.set_index("item")["n_correct"]["9"]) for frame in frames]
    assert last == [int(evaluation["score"] >= 0.5), int(evaluation["is_correct"])]
    with pytest.raises(UsageError, match="threshold and verdict: give one"):
        load([file], threshold=0.5, verdict=True)


def test_lower_is_better_is_reported_by_the_file_beside(tmp_path: Path) -> None:
    file = write(tmp_path, "a", quiz())
    config = {"lower_is_better": True}
    result = {"evaluation_result_id": "exact_match", "metric_config": config}
    (tmp_path / "a.json").write_text(json.dumps({"evaluation_results": [result]}))
    with pytest.raises(DataError, match="better the lower they are"):
        load([file])
    found = load([file], threshold=0.0)
    assert found.frame["n_correct"].tolist() == [1, 0] * (ITEMS // 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_id": 5}, "line 1: no text in 'sample_id'"),
        ({"evaluation": {"score": 1.0}}, "no 'evaluation' with 'score' and 'is_correct'"),
        ({"evaluation": {"score": "1", "is_correct": True}}, "'score' is '1', which is no number"),
    ],
)
def test_rows_of_another_form_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = write(tmp_path, "a", [row(0, 1.0, **changes), row(1, 1.0)])
    with pytest.raises(DataError, match=message):
        load([file])
    found = load([file], skip_broken=True)
    assert found.left_out.to_numpy().tolist() == [[str(file), "broken rows", 1]]


def test_one_sample_scored_in_two_ways_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "a", [row(0, 1.0), row(0, 0.0)])
    with pytest.raises(DataError, match="item '0' of quiz occurs again in the same run"):
        load([file])


def test_other_inputs_under_one_id_are_noted(tmp_path: Path) -> None:
    other = {"model_id": "org/b", "evaluation_id": "quiz/org/b/1", "sample_hash": "else"}
    file = write(tmp_path, "a", [row(0, 1.0), row(0, 1.0, **other)])
    assert "quiz: items with another text in some runs: 1;" in load([file]).notes[0]


def test_folders_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \*_samples\.jsonl"):
        load([tmp_path])
    with pytest.raises(UsageError, match="no such file or folder"):
        load([tmp_path / "none"])


def test_errors_count_as_incorrect_by_choice(tmp_path: Path) -> None:
    write(tmp_path, "a", [*quiz(), row(9, 0.0, error="timeout")])
    assert len(load([tmp_path]).frame) == ITEMS
    found = load([tmp_path], errors="incorrect")
    assert found.frame.set_index("item").loc["9", ["n_correct", "n_trials"]].tolist() == [0, 1]
    assert found.left_out.empty
    assert "1 rows with an error count as incorrect" in found.notes
    with pytest.raises(UsageError, match="errors='zero': allowed are"):
        load([tmp_path], errors="zero")  # type: ignore[arg-type]


def test_evaluations_become_one_benchmark_with_a_column(tmp_path: Path) -> None:
    for name in ("quiz_a", "quiz_b"):
        rows = [row(k, 1.0, evaluation_name=name, sample_hash=f"{name} {k}") for k in range(2)]
        write(tmp_path, name, rows)
    frame = load([tmp_path], group="quiz=quiz_*").frame
    assert frame["item"].tolist() == ["quiz_a/0", "quiz_a/1", "quiz_b/0", "quiz_b/1"]
    assert set(frame["benchmark"]) == {"quiz"}
    assert frame["subtask"].tolist() == ["quiz_a", "quiz_a", "quiz_b", "quiz_b"]
