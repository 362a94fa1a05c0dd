"""ConceptARC beyond its accuracies: minimal tasks, kinds of errors, one to three guesses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from bayescontam.data.importers.arc import ArcTasks, load_tasks
from bayescontam.data.published_tables import read_published
from bayescontam.published.study import Study
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies import _baseline
from studies._concept_answers import accuracy_over_tasks, baseline_parts, on_minimal_tasks
from tests.support.real_data import shared

INPUT, OUTPUT = [[1, 2]], [[2, 1]]
RIGHT, COPIED, WRONG, LARGER = OUTPUT, INPUT, [[3, 3]], [[2, 1, 1]]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    text = (shipped_folder("studies") / "conceptarc.toml").read_text(encoding="utf-8")
    spec = ReproductionSpec.parse(text, "conceptarc")
    folder = tmp_path / "run"
    folder.mkdir()
    return Study(spec, spec.at_size(), read_published(spec.published), folder)


@pytest.fixture
def tasks(tmp_path: Path) -> ArcTasks:
    """One task of two concepts each, with three test inputs, and one minimal task."""
    pair = {"input": INPUT, "output": OUTPUT}
    for name in ("corpus/Copy/Copy1", "corpus/Order/Order1", "MinimalTasks/CopyMinimal"):
        path = tmp_path / "tasks" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"train": [pair], "test": [pair] * 3}))
    return load_tasks(tmp_path / "tasks")


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[list[Any]]]) -> None:
    """Let the solver give these attempts."""

    def solve(tasks: ArcTasks, **_: Any) -> dict[str, list[dict[str, Any]]]:
        return {
            task: [
                {f"attempt_{k}": grid for k, grid in enumerate(attempts, start=1)}
                for attempts in answers[task]
            ]
            for task in tasks.tasks
        }

    monkeypatch.setattr(_baseline.bc, "solve_arc", solve)


def test_answers_are_counted_by_concept_and_by_guesses(
    study: Study, tasks: ArcTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "Copy1": [[RIGHT], [WRONG, RIGHT], [COPIED]],
        "Order1": [[LARGER, WRONG, RIGHT], [LARGER], []],
        "CopyMinimal": [[RIGHT], [RIGHT], [WRONG]],
    }
    answering(monkeypatch, answers)
    (picture,), (counts, guesses), (note,) = baseline_parts(study, tasks, {"Order": "By Order"})
    by_concept = counts.table.set_index("concept")
    names = ["right", "copied the input", "wrong grid", "wrong shape", "no answer"]
    assert by_concept.loc["Copy", names].to_list() == [2, 1, 0, 0, 0]
    assert by_concept.loc["By Order", names].to_list() == [1, 0, 0, 1, 1]
    solved = guesses.table.set_index("guesses")
    assert solved["solved, other tasks"].to_list() == [1, 2, 3]
    assert solved["solved, minimal tasks"].to_list() == [2, 2, 2]
    assert solved["test inputs, other tasks"].to_list() == [6] * 3
    shares = picture.table.groupby("row")["value"].sum()
    assert shares.to_list() == pytest.approx([1, 1])
    assert "answers 5 of 6 test inputs" in note
    assert "3 right, 1 copied the input" in note


def test_accuracies_over_tasks_have_the_posterior_of_the_bayesian_bootstrap() -> None:
    """All test inputs of a task alike: the mean of n tasks, k of them solved, is Beta(k, n − k)."""
    share = np.repeat([1.0] * 7 + [0.0] * 9, 3)
    task = np.repeat([f"t{k}" for k in range(16)], 3).astype(object)
    draws = accuracy_over_tasks(share, task, np.random.default_rng(1))
    for level in (0.025, 0.5, 0.975):
        assert np.quantile(draws, level) == pytest.approx(beta.ppf(level, 7, 9), abs=0.015)


def test_minimal_tasks_stand_beside_the_others(study: Study, tmp_path: Path) -> None:
    rows = [
        ("m", f"a{k}-{i}", right, 2, minimal, f"a{k}")
        for k, (minimal, right) in enumerate([(True, 2), (True, 1), (False, 0), (False, 2)])
        for i in range(3)
    ]
    columns = ["model", "item", "n_correct", "n_trials", "minimal", "task"]
    path = tmp_path / "items.csv"
    pd.DataFrame(rows, columns=columns).assign(benchmark="c").to_csv(path, index=False)
    table = on_minimal_tasks(study, path, {"m": "mine", "absent": "another"}).set_index("tasks")
    assert table["solver"].to_list() == ["mine", "mine"]
    assert table["right"].to_dict() == {"minimal tasks": 9, "other tasks": 6}
    assert table["answers"].to_list() == [12, 12]
    assert table["mean"].to_list() == pytest.approx([0.75, 0.5])
    assert (table["low"] < table["mean"]).all()
    assert (table["mean"] < table["high"]).all()


def test_real_minimal_tasks_as_published(study: Study) -> None:
    names = {name: name for name in study.settings["solvers"]}
    table = on_minimal_tasks(study, shared("conceptarc.csv"), names)
    own = table[table["tasks"] == "minimal tasks"].set_index("solver")
    assert own["right"].to_dict() == {
        "humans": 1022, "kaggle-first": 39, "kaggle-second": 23, "gpt-4-t0": 20,
    }  # fmt: skip
    assert own["answers"].to_list() == [1056, 48, 48, 48]
    others = table[table["tasks"] == "other tasks"].set_index("solver")
    # Every solver is better on the simplest tasks.
    assert (own["mean"] > others["mean"]).all()
