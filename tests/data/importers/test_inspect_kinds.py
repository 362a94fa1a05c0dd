"""Logs of Inspect of other kinds: without samples, with errors, with scores of mixed shapes."""

from pathlib import Path
from typing import Any

import pytest

from bayescontam.data.importers.inspect_ai import import_inspect
from bayescontam.errors import DataError, UsageError
from tests.support.inspect_logs import log, sample

pytest.importorskip("inspect_ai")
NAN = float("nan")


def rows(found: Any) -> list[list[Any]]:
    return found.frame[["item", "n_correct", "n_trials"]].to_numpy().tolist()


def test_a_log_without_samples_says_so(tmp_path: Path) -> None:
    header = log(tmp_path / "h", None)
    with pytest.raises(DataError) as caught:
        import_inspect(header)
    assert "holds no samples (it is a header only, or log_samples was false)" in str(caught.value)
    assert "skip" not in str(caught.value)
    assert "cannot be read" not in str(caught.value)
    empty = log(tmp_path / "e", [], run="b")
    with pytest.raises(DataError, match="holds no samples"):
        import_inspect(empty)
    whole = log(tmp_path / "w", [sample(1, "C")], run="c")
    found = import_inspect([header, whole], skip_broken=True)
    assert rows(found) == [["1", 1, 1]]
    assert found.left_out.to_numpy().tolist() == [[str(header), "broken rows", 1]]


def test_errors_are_missing_or_incorrect_by_choice(tmp_path: Path) -> None:
    error = {"message": "no connection", "traceback": "", "traceback_ansi": ""}
    samples = [sample(k, "C" if k < 2 else "I") for k in range(6)]
    samples += [sample(k, None, scores={}, error=error) for k in (6, 7)]
    logs = log(tmp_path, samples)
    found = import_inspect(logs)
    assert (found.frame["n_correct"].sum(), len(found.frame)) == (2, 6)
    assert found.left_out.to_numpy().tolist() == [["quiz", "error in the sample", 2]]
    found = import_inspect(logs, errors="incorrect")
    assert (found.frame["n_correct"].sum(), len(found.frame)) == (2, 8)
    assert found.left_out.empty
    assert "2 samples with an error count as incorrect" in found.notes
    with pytest.raises(UsageError, match="errors='zero': allowed are 'leave-out', 'incorrect'"):
        import_inspect(logs, errors="zero")  # type: ignore[arg-type]


def rubric(right: float, item: str, epoch: int) -> dict[str, Any]:
    return sample(item, {"right": right, "polite": 1.0}, epoch=epoch)


def test_scores_of_mixed_shapes_are_counted_or_refused_by_name(tmp_path: Path) -> None:
    samples = [rubric(float(epoch == 1), item, epoch) for item in "abc" for epoch in (1, 2, 3)]
    samples[4] = sample("b", NAN, epoch=2)
    found = import_inspect(log(tmp_path / "n", samples), scorer="match.right")
    assert rows(found) == [["a", 1, 3], ["b", 1, 2], ["c", 1, 3]]
    assert found.left_out["left_out"].tolist() == [1]
    samples[4] = sample("b", [1, 0], epoch=2)
    with pytest.raises(DataError, match=r"sample 'b': match\.right is '\[1, 0\]'"):
        import_inspect(log(tmp_path / "l", samples), scorer="match.right")


def answered(item: int, answer: str, value: str) -> dict[str, Any]:
    return sample(item, {"match": {"value": value, "answer": answer}})


def test_a_run_repeated_with_the_same_answers_is_a_copy(tmp_path: Path) -> None:
    log(tmp_path, [answered(k, f"answer {k}", "CI"[k % 2]) for k in range(4)], run="a")
    log(tmp_path, [answered(k, f"answer {k}", "CI"[k % 2]) for k in range(2)], run="b")
    found = import_inspect(tmp_path)
    assert set(found.frame["n_trials"]) == {1}
    assert "quiz_b.json is a copy in all 2 answers" in found.notes[0]
    log(tmp_path, [answered(k, f"other {k}", "CI"[k % 2]) for k in range(2)], run="b")
    found = import_inspect(tmp_path)
    assert found.frame["n_trials"].tolist() == [2, 2, 1, 1]
    assert "2 runs are combined" in found.notes[0]
