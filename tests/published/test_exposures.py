"""Uncertain exposures become uncertain contaminations."""

from pathlib import Path

import numpy as np
import pytest

from bayescontam.data.importers.arc import read_arc, read_concepts
from studies._tasks import CONCEPTS, CONCEPTS_FILE, TEST, TRAIN, make_tasks
from studies.arc_concepts import covariates_of

DRAWS = 20_000


def test_covariates_are_mean_and_spread_that_a_share_can_have() -> None:
    drawn = np.array([[0.2, 0.0], [0.4, 1.0]])
    table = covariates_of(drawn, "b", ["one", "two"])
    assert table["contamination"].to_list() == pytest.approx([0.3, 0.5])
    assert table["contamination_sd"][0] == pytest.approx(0.1)
    assert 0.49 < table["contamination_sd"][1] < 0.5


def test_made_tasks_are_tasks_that_do_what_their_concepts_say(tmp_path: Path) -> None:
    make_tasks(tmp_path, 60, np.random.default_rng(5))
    tasks = read_arc(tmp_path)
    concepts = read_concepts(tmp_path / CONCEPTS_FILE, tasks)
    assert len(tasks.tasks) == 60
    assert set(concepts["concept"]) == set(CONCEPTS)
    assert concepts.groupby("task").size().between(2, 5).all()
    for task, own in concepts.groupby("task", sort=False)["concept"]:
        pairs = tasks.grids[str(task)]["train"] + tasks.grids[str(task)]["test"]
        assert len(pairs) == TRAIN + TEST
        for pair in pairs:
            grid = np.array(pair["input"])
            for concept in own:
                grid = CONCEPTS[concept](grid)
            assert grid.tolist() == pair["output"]


def test_coloured_cells_fall_to_the_bottom() -> None:
    fallen = CONCEPTS["fall"](np.array([[3, 0], [0, 4], [5, 0]]))
    assert fallen.tolist() == [[0, 0], [3, 0], [5, 4]]


def test_made_tasks_depend_on_the_seed_alone(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_tasks(tmp_path / name, 5, np.random.default_rng(seed))
    a, b, c = (read_arc(tmp_path / name).grids for name in ("a", "b", "c"))
    assert a == b
    assert a != c
