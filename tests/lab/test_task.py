"""Tasks that lm-evaluation-harness runs itself, held against the answers of this package."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.errors import UsageError
from bayescontam.lab.answer import generate
from bayescontam.lab.grading import grade_replies
from bayescontam.lab.items import questions_of, read_items
from bayescontam.lab.mix import make_mixes
from bayescontam.lab.task import write_tasks
from bayescontam.specs.lab import LabSpec
from tests.support import run_lm_eval
from tests.support.small_lab import BENCHMARKS, CONTROLS, ITEMS, SPEC, trained_lab

__all__ = ["trained_lab"]

GRADES = {
    "exact": 'grade = "exact"',
    "number": 'grade = "number"',
    "regex": """grade = "regex", pattern = '^\\s*([0-9]+)'""",
}


def mixed(folder: Path, answers: str) -> Path:
    """Return the folder of a lab without models, whose answers are as stated."""
    text = SPEC.replace("answers = { k = 4, temperature = 0.8 }", f"answers = {{ {answers} }}")
    assert text != SPEC
    return make_mixes(LabSpec.parse(text, "small.toml"), folder).folder


def change_items(lab: Path, answers: dict[int, str]) -> list[dict[str, Any]]:
    """Change some of a lab's answers."""
    items = read_items(lab)
    for row, answer in answers.items():
        items[row]["answer"] = answer
    (lab / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return items


@pytest.mark.slow
def test_the_tool_grades_as_this_package_does(trained_lab: Path, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    model, tasks = trained_lab / "models" / "base-0" / "exact-4", tmp_path / "tasks"
    expected: dict[str, dict[str, int]] = {}
    for grade, block in GRADES.items():
        lab = mixed(tmp_path / grade, f"temperature = 0, {block}")
        replies = generate(model, questions_of(read_items(lab)), temperature=0)
        # Of every second item the reply is right, in another form.
        said = {row: re.findall(r"\d+", replies[row][0]) for row in range(0, len(replies), 2)}
        items = change_items(lab, {row: f" {own[0]} ." for row, own in said.items() if own})
        for name in write_tasks(lab, tmp_path / f"{grade}-tasks"):
            path = tmp_path / f"{grade}-tasks" / f"{name}.yaml"
            task = json.loads(path.read_text()) | {"task": f"{grade}-{name}"}
            tasks.mkdir(exist_ok=True)
            (tasks / f"{grade}-{name}.yaml").write_text(json.dumps(task))
        right = grade_replies(replies, items, LabSpec.parse(
            (lab / "lab.toml").read_text(), "lab.toml").answers).right.tolist()  # fmt: skip
        assert 8 < sum(right) < 22
        for item, count in zip(items, right, strict=True):
            own = expected.setdefault(f"{grade}-{item['benchmark']}", {})
            own[item["item"]] = count
    done = subprocess.run(
        [sys.executable, run_lm_eval.__file__, str(tasks), str(model), str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    options: dict[str, Any] = {"keep": ["name=doc.item"]}
    table = import_lm_eval(tmp_path / "logs", **options).responses.frame
    found = {
        str(name): dict(zip(own["name"], own["n_correct"], strict=True))
        for name, own in table.groupby("benchmark", sort=False)
    }  # fmt: skip
    assert found == expected


def test_a_task_has_the_settings_of_the_lab(tmp_path: Path) -> None:
    lab = mixed(tmp_path / "lab", "temperature = 0.5, longest = 5")
    assert write_tasks(lab, tmp_path / "tasks") == [*BENCHMARKS]
    task = json.loads((tmp_path / "tasks" / "clock.yaml").read_text())
    draws = {"do_sample": True, "temperature": 0.5, "top_k": 0, "top_p": 1.0}
    assert task["generation_kwargs"] == {"until": [], "max_gen_toks": 5, **draws}
    assert task["dataset_kwargs"]["data_files"]["test"] == str(tmp_path / "tasks" / "clock.jsonl")
    rows = [
        json.loads(line) for line in (tmp_path / "tasks" / "clock.jsonl").read_text().splitlines()
    ]
    own = read_items(lab)[ITEMS:]
    assert len(rows) == CONTROLS
    assert [row["question"] for row in rows] == questions_of(own)
    assert [(row["item"], row["answer"]) for row in rows] == [
        (item["item"], item["answer"]) for item in own
    ]


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("it is -2 .", "-2"),
        ("10-7", "7"),
        ("5 m2", "5"),
        ("1,000.5!", "1,000.5"),
        ("so 1/2", "1/2"),
    ],
)
def test_the_pattern_of_a_task_finds_the_last_number(
    tmp_path: Path, reply: str, number: str
) -> None:
    lab = mixed(tmp_path / "lab", 'grade = "number"')
    write_tasks(lab, tmp_path / "tasks")
    task = json.loads((tmp_path / "tasks" / "clock.yaml").read_text())
    [found, _] = task["filter_list"][0]["filter"]
    assert re.findall(found["regex_pattern"], reply)[found["group_select"]] == number


@pytest.mark.parametrize("place", ["", "texts/base-0", "models", "more/../answers"])
def test_tasks_replace_no_files_of_a_lab(tmp_path: Path, place: str) -> None:
    lab = mixed(tmp_path / "lab", "k = 1")
    with pytest.raises(UsageError, match="holds files of a lab, which tasks might replace; give a"):
        write_tasks(lab, lab / place)
    assert {path.name for path in lab.iterdir()} == {
        ".lock", "covariates.csv", "items.jsonl", "lab.json", "lab.toml", "texts",
    }  # fmt: skip
    assert write_tasks(lab, lab / "tasks") == [*BENCHMARKS]


def test_what_is_no_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="holds no texts of a lab"):
        write_tasks(tmp_path, tmp_path / "tasks")
    lab = mixed(tmp_path / "lab", "k = 1")
    spec = LabSpec.parse((lab / "lab.toml").read_text(), "lab.toml")
    programs = spec.model_copy(
        update={"answers": spec.answers.model_copy(update={"grade": "tests"})}
    )
    monkeypatch.setattr("bayescontam.lab.task.read_lab", lambda _: programs)
    with pytest.raises(UsageError, match="its items are graded by tests, which the tool runs wit"):
        write_tasks(lab, tmp_path / "tasks")
