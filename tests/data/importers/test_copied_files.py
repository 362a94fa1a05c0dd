"""Files as browsers and file managers name copies: of the same run, and counted once."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import bayescontam
from bayescontam.data.importers.logs import Imported
from bayescontam.data.importers.runs import original_name
from bayescontam.errors import DataError
from tests.support.write_logs import (
    HARNESS,
    details,
    dump,
    lighteval,
    lm_eval,
    rows,
    sample,
    solved,
    trials,
)

MARKS = [" (1)", " copy", " copy 2", " - Copy", " - Copy (2)", " (copy)", " (another copy)"]


@pytest.mark.parametrize("mark", [*MARKS, " (1) (2)"])
def test_marks_of_copies_are_no_part_of_a_name(mark: str) -> None:
    for name in ("a_2025-01-01T10-00-00.000000{}.jsonl", "m-1.5.run{}.json.gz", "a.jsonl{}.gz"):
        assert original_name(name.format(mark)) == name.format("")
    for name in ("a copy of it.json", "a(1).json", "copy.json", "a (1) b.json"):
        assert original_name(name) == name


@pytest.mark.parametrize("mark", [*MARKS, "_fixed", ".part"])
def test_lm_eval_copies_are_of_the_same_run(tmp_path: Path, mark: str) -> None:
    folder = lm_eval(tmp_path / "org__a", sample(0), sample(1))
    once = trials(bayescontam.import_lm_eval(folder))
    file = next(folder.glob("samples_*"))
    copy = file.with_name(f"{file.stem}{mark}.jsonl")
    shutil.copy(file, copy)
    found = bayescontam.import_lm_eval(folder)
    assert trials(found) == once
    assert found.read[["benchmark", "trials"]].to_numpy().tolist() == [["quiz", 2]]
    assert found.left_out["left_out"].tolist() == [2]
    others = mark.startswith(("_", "."))  # unknown marks, sorted by name
    assert others or re.search(rf"{re.escape(mark)}\.jsonl is a copy in all 2", found.notes[0])
    copy.write_text(json.dumps(sample(0, acc=1.0)))
    with pytest.raises(DataError, match="occurs again in the same run, with another answer"):
        bayescontam.import_lm_eval(folder)


def test_lm_eval_results_that_are_copies_name_the_model(tmp_path: Path) -> None:
    folder = lm_eval(tmp_path, sample(0), sample(1))
    for file in list(folder.iterdir()):
        file.rename(file.with_name(f"{file.stem} (1){file.suffix}"))
    found = bayescontam.import_lm_eval(folder)
    assert trials(found) == [["org/a", "hash 0", 0, 1], ["org/a", "hash 1", 1, 1]]
    assert found.read["benchmark"].tolist() == ["quiz"]


@pytest.mark.parametrize("name", ["samples_quiz (1).jsonl", "20260131_1200_samples_quiz (1).jsonl"])
def test_lm_eval_copies_without_date_or_of_lmms_eval(tmp_path: Path, name: str) -> None:
    text = json.dumps(sample(0)) + "\n" + json.dumps(sample(1))
    for own in (name, name.replace(" (1)", "")):
        (tmp_path / own).write_text(text)
    found = bayescontam.import_lm_eval(tmp_path, model="m")
    assert found.read[["benchmark", "trials"]].to_numpy().tolist() == [["quiz", 2]]


def _opencompass(folder: Path) -> Path:
    return dump(folder / "results" / "m" / "quiz.json", details(True, False))


def _lighteval(folder: Path) -> Path:
    metrics = [{"em": 1.0}, {"em": 0.0}]
    return lighteval(folder / "details" / "org" / "m", ["q0", "q1"], metrics)


def _swe_bench(folder: Path) -> Path:
    return dump(folder / "org__m.run1.json", HARNESS)


def _evalplus(folder: Path) -> Path:
    tasks = {"Mbpp/1": [solved("pass", None)]}
    return dump(folder / "m_temp_0.0_eval_results.json", {"eval": tasks})


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (bayescontam.import_opencompass, _opencompass),
        (bayescontam.import_lighteval, _lighteval),
        (bayescontam.import_swe_bench, _swe_bench),
        (bayescontam.import_evalplus, _evalplus),
    ],
)
def test_copies_make_no_other_benchmark_and_no_other_model(
    tmp_path: Path, read: Callable[..., Imported], write: Callable[[Path], Path]
) -> None:
    file = write(tmp_path)
    once = rows(read(file))
    copy = file.with_name(f"{file.stem} (1){file.suffix}")
    shutil.copy(file, copy)
    assert rows(read(copy)) == once
    found = rows(read([file, copy]))
    assert [row[:3] for row in found] == [row[:3] for row in once]


@pytest.mark.parametrize("mark", MARKS)
def test_copies_without_answers_to_compare_are_of_the_same_run(tmp_path: Path, mark: str) -> None:
    """Of py-irt there are scores alone: the name is all that shows a copy."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"subject_id": "m", "responses": {"q1": 1, "q2": 0}}')
    shutil.copy(file, tmp_path / f"a{mark}.jsonl")
    found = bayescontam.import_py_irt(tmp_path, benchmark="b")
    assert trials(found) == [["m", "q1", 1, 1], ["m", "q2", 0, 1]]
    (tmp_path / f"a{mark}.jsonl").write_text('{"subject_id": "m", "responses": {"q1": 0}}')
    with pytest.raises(DataError, match="occurs again in the same run, with another answer"):
        bayescontam.import_py_irt(tmp_path, benchmark="b")
