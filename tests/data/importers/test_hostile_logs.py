"""Logs as they should not be: nothing is dropped in silence, and nothing ends in a traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayescontam.data.importers.every_eval_ever import import_every_eval_ever
from bayescontam.data.importers.inspect_ai import Scoring
from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.data.importers.matrix import import_matrix
from bayescontam.data.tables import write_table
from bayescontam.errors import DataError, UsageError
from tests.support.write_logs import lm_eval, row, sample, trials, write

HUGE = 10**400


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), -float("inf")])
def test_a_threshold_that_means_nothing_is_refused(tmp_path: Path, threshold: float) -> None:
    (tmp_path / "m.csv").write_text("model,q1,q2\nA,0.1,0.9\n")
    logs = lm_eval(tmp_path / "logs", sample(0), sample(1))
    rows = write(tmp_path, "a", [row(0, 1.0)])
    calls: list[Callable[[], Any]] = [
        lambda: import_lm_eval([logs], threshold=threshold),
        lambda: import_every_eval_ever([rows], threshold=threshold),
        lambda: import_matrix(tmp_path / "m.csv", benchmark="quiz", threshold=threshold),
        lambda: Scoring(threshold=threshold),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=r"threshold: got .*allowed is a finite number"):
            call()


@pytest.mark.parametrize(
    "results",
    [{"configs": 3}, {"higher_is_better": [1]}, {"higher_is_better": {"quiz": 1}},
     {"versions": "1"}, {"n-shot": [0]}],
)  # fmt: skip
def test_results_of_another_form_are_as_if_absent(tmp_path: Path, results: Any) -> None:
    found = import_lm_eval([lm_eval(tmp_path, sample(0), sample(1), **results)])
    assert trials(found) == [["org/a", "hash 0", 0, 1], ["org/a", "hash 1", 1, 1]]


@pytest.mark.parametrize("config", ["text", [1], {"model_args": ["pretrained=org/a"]}])
def test_a_model_that_results_name_in_no_known_way_is_requested(
    tmp_path: Path, config: Any
) -> None:
    with pytest.raises(UsageError, match=r"--model: needed, because no results file"):
        import_lm_eval([lm_eval(tmp_path, sample(0), config=config)])


@pytest.mark.parametrize("value", [[1], {"a": 1}, 5])
def test_hashes_that_are_no_text_are_named_by_line(tmp_path: Path, value: Any) -> None:
    logs = lm_eval(tmp_path, sample(0), sample(1, doc_hash=value))
    with pytest.raises(DataError, match="line 2: 'doc_hash' is "):
        import_lm_eval([logs])
    found = import_lm_eval([logs], skip_broken=True)
    assert trials(found) == [["org/a", "hash 0", 0, 1]]
    assert found.left_out["left_out"].tolist() == [1]


@pytest.mark.parametrize("value", [HUGE, float("inf"), -HUGE])
def test_numbers_beyond_all_bounds_are_no_verdicts(tmp_path: Path, value: float) -> None:
    with pytest.raises(DataError, match=r"acc is not 0 or 1 in 1 rows, such as -?inf"):
        import_lm_eval([lm_eval(tmp_path, sample(0), sample(1, acc=value))])
    evaluation = {"score": value, "is_correct": True}
    rows = write(tmp_path, "a", [row(0, 1.0), row(1, 1.0, evaluation=evaluation)])
    with pytest.raises(DataError, match="neither 0 nor 1"):
        import_every_eval_ever([rows])
    with pytest.raises(ValueError, match=r"is -?inf, neither 0 nor 1"):
        Scoring().read(value)


def test_true_and_false_are_verdicts_and_text_is_none(tmp_path: Path) -> None:
    logs = lm_eval(tmp_path / "truth", sample(0, acc=True), sample(1, acc=False))
    assert trials(import_lm_eval([logs])) == [["org/a", "hash 0", 1, 1], ["org/a", "hash 1", 0, 1]]
    with pytest.raises(DataError, match="metric acc is '1', which is no number"):
        import_lm_eval([lm_eval(tmp_path / "text", sample(0, acc="1"))])


@pytest.mark.parametrize("differing", ["error", "split", "pool"])
def test_another_model_that_answers_alike_is_no_copy(tmp_path: Path, differing: Any) -> None:
    for number in (1, 2):
        config = {"model": "hf", "model_args": f"pretrained=org/a,revision=step{number}"}
        lm_eval(tmp_path / str(number), sample(0), sample(1), second=number, config=config)
    if differing == "error":
        with pytest.raises(DataError, match=r"revision=step1(?s:.*)revision=step2"):
            import_lm_eval([tmp_path])
        return
    found = import_lm_eval([tmp_path], differing=differing)
    if differing == "split":
        assert set(found.frame["model"]) == {"org/a [revision=step1]", "org/a [revision=step2]"}
        assert found.left_out.empty
    else:
        assert set(found.frame["n_trials"]) == {1}
        assert found.left_out["left_out"].tolist() == [2]
        assert found.notes[0] == "2 runs of one model differ in 'revision' and were combined"
        assert "is a copy in all 2 answers" in found.notes[1]


@pytest.mark.parametrize(
    ("keep", "name", "kept"),
    [
        ("doc.run", "run", ["r0", "r1"]),
        ("doc.value", "value", [0, 1]),
        ("file=doc.run", "file", ["r0", "r1"]),
    ],
)
def test_kept_columns_may_have_any_free_name(
    tmp_path: Path, keep: str, name: str, kept: list[Any]
) -> None:
    found = import_lm_eval([lm_eval(tmp_path, sample(0), sample(1))], keep=[keep])
    assert found.frame[name].tolist() == kept
    assert found.read["runs"].tolist() == [1]


def test_kept_columns_of_every_eval_ever_may_be_called_as_its_fields(tmp_path: Path) -> None:
    rows = write(tmp_path, "a", [row(k, float(k)) for k in (0, 1)])
    found = import_every_eval_ever([rows], keep=["evaluation.score", "hash=sample_hash"])
    assert found.frame["score"].tolist() == [0, 1]
    assert found.frame["hash"].tolist() == ["hash 0", "hash 1"]


def test_kept_columns_of_several_kinds_are_text(tmp_path: Path) -> None:
    values = [1, "hard", True, None, 10**30]
    rows = [sample(k, doc={"level": value}) for k, value in enumerate(values)]
    found = import_lm_eval([lm_eval(tmp_path, *rows)], keep=["doc.level"])
    texts = found.frame.set_index("item")["level"]
    assert texts.dropna().to_dict() == {
        "hash 0": "1", "hash 1": "hard", "hash 2": "True", "hash 4": str(10**30),
    }  # fmt: skip
    for ending in ("csv", "parquet"):
        write_table(tmp_path / f"r.{ending}", found.frame)


def test_rows_without_any_score_left_say_so_first(tmp_path: Path) -> None:
    logs = lm_eval(tmp_path, sample(0, acc=None), sample(1, acc=None))
    with pytest.raises(DataError, match=r"no scored trial is left; left out: quiz: no value.*2"):
        import_lm_eval([logs], keep=["doc.level"])


@pytest.mark.parametrize("score", [None, float("nan")])
@pytest.mark.parametrize("verdict", [False, True])
def test_missing_scores_of_every_eval_ever_are_counted(
    tmp_path: Path, score: float | None, verdict: bool
) -> None:
    none = {"score": score, "is_correct": None}
    rows = write(tmp_path, "a", [row(0, 1.0), row(1, 1.0, evaluation=none)])
    found = import_every_eval_ever([rows], verdict=verdict)
    assert found.frame["item"].tolist() == ["0"]
    reason = "no is_correct" if verdict else "no score"
    assert found.left_out.to_numpy().tolist() == [["quiz", reason, 1]]


@pytest.mark.parametrize(
    "changes", [{"sample_hash": "another"}, {"output": {"raw": ["another answer"]}}]
)
def test_another_answer_in_the_same_run_is_no_copy(tmp_path: Path, changes: dict[str, Any]) -> None:
    rows = write(tmp_path, "a", [row(0, 1.0), row(0, 1.0, **changes)])
    with pytest.raises(DataError, match="occurs again in the same run, with another answer"):
        import_every_eval_ever([rows])


@pytest.mark.parametrize(
    "changes",
    [{"evaluation_result_id": {"a": 1}}, {"sample_hash": [1]},
     {"evaluation": {"score": 1.0, "is_correct": "yes"}}],
)  # fmt: skip
def test_fields_of_every_eval_ever_of_another_kind_are_named_by_line(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    rows = write(tmp_path, "a", [row(0, 1.0), row(1, 1.0, **changes)])
    with pytest.raises(DataError, match=r"line 2: '(evaluation_result_id|is_correct)"):
        import_every_eval_ever([rows])


def test_what_stands_beside_may_be_of_any_form(tmp_path: Path) -> None:
    rows = write(tmp_path, "a", [row(0, 1.0, metadata="text")])
    for content in ({"evaluation_results": ["text"]}, {"evaluation_results": 3}):
        (tmp_path / "a.json").write_text(json.dumps(content))
        assert import_every_eval_ever([rows]).frame["n_correct"].tolist() == [1]


def test_items_of_several_benchmarks_may_share_names(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("item,task,A\n0,x,1\n0,y,0\n1,y,1\n")
    given: dict[str, Any] = {
        "benchmark": "task", "benchmark_in_column": True, "items": "rows",
    }  # fmt: skip
    found = import_matrix(path, **given)
    columns = ["benchmark", "item", "n_correct"]
    assert found.frame[columns].to_numpy().tolist() == [["x", "0", 1], ["y", "0", 0], ["y", "1", 1]]
    path.write_text("item,task,A\n0,x,1\n0,x,0\n")
    with pytest.raises(DataError, match="row 2: item: '0' stands in another row too"):
        import_matrix(path, **given)
