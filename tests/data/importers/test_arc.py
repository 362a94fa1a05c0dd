"""Folders of ARC tasks are read whole, and every fault in them is reported."""

import json
from pathlib import Path

import pytest

from bayescontam.data.importers.arc import ArcTasks, membership, read_arc, read_concepts
from bayescontam.errors import DataError, UsageError

GOOD = {"input": [[0, 1], [2, 3], [4, 5]], "output": [[9]]}


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def tasks(tmp_path: Path) -> ArcTasks:
    two = [{"input": [[7, 7]]}, GOOD]
    write(tmp_path, "Copy/Copy1.json", {"train": [GOOD, GOOD], "test": two})
    write(tmp_path, "Order/Order1.json", {"train": [GOOD], "test": [GOOD]})
    return read_arc(tmp_path)


def test_each_test_input_is_an_item(tasks: ArcTasks) -> None:
    rows = tasks.items.to_dict("records")
    assert [row["item"] for row in rows] == ["Copy1-0", "Copy1-1", "Order1-0"]
    assert rows[0] == {
        "task": "Copy1", "item": "Copy1-0", "folder": "Copy", "train_pairs": 2,
        "rows": 1, "columns": 2, "colours": 1,
    }  # fmt: skip
    assert (rows[2]["rows"], rows[2]["columns"], rows[2]["colours"]) == (3, 2, 6)
    assert tasks.grids["Copy1"]["test"][1] == GOOD


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("{", "is no JSON"),
        ([], "is no ARC task"),
        ({"train": [GOOD]}, "needs the keys 'train' and 'test'"),
        ({"train": [], "test": [GOOD]}, "train: holds no pair"),
        ({"train": [{"input": [[1]]}], "test": [GOOD]}, r"train\[0\]: is no pair"),
        ({"train": [GOOD], "test": [{"output": [[1]]}]}, r"test\[0\]: is no pair"),
        ({"train": [GOOD], "test": [{"input": []}]}, r"test\[0\].input: has no row"),
        ({"train": [GOOD], "test": [{"input": [[1], [1, 2]]}]}, "rows of 2 lengths"),
        ({"train": [GOOD], "test": [{"input": [[]]}]}, "is 1 × 0; allowed are 1 to 30"),
        ({"train": [GOOD], "test": [{"input": [[0] * 31]}]}, "is 1 × 31"),
        ({"train": [GOOD], "test": [{"input": [[10]]}]}, "whole numbers 0 to 9"),
        ({"train": [GOOD], "test": [{"input": [[True]]}]}, "whole numbers 0 to 9"),
        ({"train": [GOOD], "test": [{"input": [[1.0]]}]}, "whole numbers 0 to 9"),
        ({"train": [GOOD], "test": [{"input": "grid"}]}, "is no grid"),
    ],
)
def test_a_file_that_is_no_task_is_refused(tmp_path: Path, content: object, reported: str) -> None:
    write(tmp_path, "bad.json", content)
    with pytest.raises(DataError, match=reported):
        read_arc(tmp_path)


def test_all_faulty_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.json", "{")
    write(tmp_path, "b.json", {"train": [GOOD], "test": [GOOD]})
    write(tmp_path, "below/b.json", {"train": [GOOD], "test": [GOOD]})
    with pytest.raises(DataError) as caught:
        read_arc(tmp_path)
    assert [fault.file for fault in caught.value.faults] == ["a.json", "below/b.json"]
    assert "another task has this name" in caught.value.faults[1].problem


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.json file"):
        read_arc(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        read_arc(tmp_path / "none")


def test_concepts_of_tasks_are_shares_of_them(tasks: ArcTasks, tmp_path: Path) -> None:
    path = write(tmp_path, "c.csv", "task,concept\nOrder1,b\nCopy1,a\nOrder1,a\nOrder1,c\n")
    table = membership(read_concepts(path, tasks), tasks.tasks)
    assert table.index.to_list() == ["Copy1", "Order1"]
    assert table.loc["Copy1"].to_dict() == {"a": 1, "b": 0, "c": 0}
    assert table.loc["Order1"].to_list() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("task\nCopy1\n", "no column 'concept'"),
        ("task,concept\nCopy1,a\nOrder2,a\nOrder1,b\n", "row 2: task: no task 'Order2'"),
        ("task,concept\nCopy1,a\nOrder1, \n", "row 2: concept: blank"),
        ("task,concept\nCopy1,a\nCopy1,a\nOrder1,b\n", "row 2: this task and concept"),
        ("task,concept\nCopy1,a\n", "tasks without a concept: .Order1"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(
    tasks: ArcTasks, tmp_path: Path, text: str, reported: str
) -> None:
    with pytest.raises(DataError, match=reported):
        read_concepts(write(tmp_path, "c.csv", text), tasks)


def test_a_concept_that_is_not_there_is_blank(tasks: ArcTasks, tmp_path: Path) -> None:
    lines = ['{"task": "Copy1", "concept": "a"}', '{"task": "Order1"}', '{"concept": null}']
    path = write(tmp_path, "c.jsonl", "\n".join(lines[:2]))
    with pytest.raises(DataError, match="row 2: concept: blank"):
        read_concepts(path, tasks)
    path = write(tmp_path, "d.jsonl", "\n".join(lines))
    with pytest.raises(DataError, match="rows 2, 3: concept: blank"):
        read_concepts(path, tasks)
