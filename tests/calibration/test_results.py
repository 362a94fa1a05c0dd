import json
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.calibration.coverage import COLUMNS as COVERAGE_COLUMNS
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import COLUMNS as SBC_COLUMNS
from bayescontam.calibration.storage import COLUMNS, read_rows, start_record
from bayescontam.calibration.study import plan_of
from bayescontam.errors import UsageError
from bayescontam.specs.study import StudySpec
from tests.support.study_rows import made_rows
from tests.support.study_run import faulty, study_text, write_run

RECORD = {"name": "s", "hash": "h", "replicates": 1, "cells": [""], "study": {}, "runs": []}


def test_tables_are_those_of_all_shards(tmp_path: Path) -> None:
    rows = made_rows(60, 1)
    folder = write_run(tmp_path / "run", {"b": rows[:25], "a": rows[25:]}, study_text(), 100)
    results = StudyResults.load(folder)
    pd.testing.assert_frame_equal(results.rows, rows, check_dtype=False)
    assert (results.planned, results.done) == (100, 60)
    results.write_tables(folder)
    coverage = pd.read_csv(folder / "coverage.csv", keep_default_na=False, na_values="nan")
    assert list(coverage.columns) == list(COVERAGE_COLUMNS)
    assert len(coverage) == 12
    ranks = pd.read_csv(folder / "sbc.csv")
    assert list(ranks.columns) == list(SBC_COLUMNS)
    assert ranks["p_value"][0] == pytest.approx(results.sbc["p_value"][0])


def test_ranks_of_fixed_truths_are_not_tested(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"a": made_rows(60, 1)}, study_text("fixed"))
    results = StudyResults.load(folder)
    assert results.sbc.empty
    assert not results.coverage.empty


def test_a_run_that_has_only_begun_is_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text())
    results = StudyResults.load(folder)
    assert list(results.rows.columns) == list(COLUMNS)
    assert (results.done, len(results.coverage), len(results.fits)) == (0, 0, 0)
    results.write_tables(folder)
    assert (folder / "coverage.csv").read_text() == ",".join(COVERAGE_COLUMNS) + "\n"
    assert (folder / "sbc.csv").read_text() == ",".join(SBC_COLUMNS) + "\n"


def test_fits_are_counted_once_whatever_their_quantities(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", faulty(40), study_text(names=("exact", "narrow")))
    fits = StudyResults.load(folder).fits
    assert fits.groupby(["estimator", "audit"]).size().to_dict() == {
        ("exact", False): 40, ("exact", True): 2, ("narrow", False): 40,
    }  # fmt: skip


def test_a_half_written_shard_is_not_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"a": made_rows(5, 1)}, study_text())
    (folder / "rows" / ".b.parquet.x7.part").write_bytes(b"PAR1")
    assert len(read_rows(folder)) == 5


def test_a_study_given_by_python_is_read_from_its_record(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text())
    plain = StudySpec.parse(study_text(), "made").model_dump(mode="json", exclude_unset=True)
    study = StudySpec.model_validate_json(json.dumps(plain))
    start_record(folder, plan_of(study, Path()), 5, "")
    assert StudyResults.load(folder).spec == study


def test_a_study_changed_in_python_is_not_reported_as_it_was_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text())
    written = StudySpec.parse(study_text(), "made")
    same = written.model_copy(update={"replicates": 9})
    changed = written.model_copy(update={"reference": "zero"})
    start_record(folder, plan_of(same, Path()), 9, "")
    assert (folder / "study.toml").read_text() == study_text()
    start_record(folder, plan_of(changed, Path()), 9, "")
    assert StudyResults.load(folder).spec.reference == "zero"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("study.json", "{", r"study\.json: is no record .*Invalid JSON.*in another folder"),
        ("study.json", "[]", r"study\.json: is no record of a run \(Input should be an object"),
        ("study.json", "{}", r"study\.json: is no record of a run \(name: Field required\)"),
        ("study.json", RECORD | {"replicates": "x"}, r"replicates: Input should be a valid int"),
        ("study.json", RECORD | {"runs": 7}, r"runs: Input should be a valid array"),
        ("study.json", RECORD | {"runs": [7]}, r"runs\.0: Input should be an object"),
        ("study.json", None, r"study\.json: cannot be read"),
        ("study.toml", "nonsense", r"its study cannot be read"),
        ("rows/a.parquet", "text", r"a\.parquet: cannot be read .*remove it"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, file: str, content: str | dict | None, said: str
) -> None:
    folder = write_run(tmp_path / "run", {"a": made_rows(5, 1)}, study_text())
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UsageError, match=said):
        StudyResults.load(folder)


def test_a_table_of_something_else_is_no_shard(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text())
    pd.DataFrame({"cell": ["a"]}).to_parquet(folder / "rows" / "a.parquet")
    with pytest.raises(UsageError, match=r"is no shard of a study, it lacks replicate"):
        read_rows(folder)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run of a study"):
        StudyResults.load(tmp_path)
