"""Run: settings, records and data folders of a reproduction, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest

from bayescontam.calibration.runner import run_study
from bayescontam.data import published_tables as printed
from bayescontam.errors import DataError, SpecError, UsageError
from bayescontam.published.findings import Findings, Record
from bayescontam.published.study import DATA, Study, run_reproduction
from tests.support.made_findings import TEXT, findings, spec, with_analysis


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    """Collect the studies that an analysis is given."""
    given: list[Study] = []

    def analyse(study: Study) -> Findings:
        given.append(study)
        return findings()

    with_analysis(monkeypatch, analyse)
    monkeypatch.delenv(DATA, raising=False)
    return given


def test_the_analysis_is_given_settings_numbers_and_folders(
    seen: list[Study], tmp_path: Path
) -> None:
    run_reproduction(spec(), tmp_path / "out", command="a command")
    run_reproduction(spec(), tmp_path / "out", full=True, data=tmp_path)
    first, second = seen
    assert (first.settings, second.settings) == ({"tables": 3}, {"tables": 7})
    assert (first.data, second.data) == (None, tmp_path)
    assert first.folder == tmp_path / "out"
    row = first.printed("slope")
    assert (row["value"], row["low"], row["high"]) == (0.79, -0.153, 1.729)
    assert row["source"].endswith("Table 1")
    record = Record.load(tmp_path / "out")
    assert [run["full"] for run in record.runs] == [False, True]
    assert [run["command"] for run in record.runs] == ["a command", ""]
    assert record.text == TEXT


def test_the_environment_names_the_data_folder(
    seen: list[Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path))
    (tmp_path / "there.csv").write_text("a\n")
    run_reproduction(spec(), tmp_path / "out")
    assert seen[0].shared("there.csv") == tmp_path / "there.csv"
    assert seen[0].shared("absent.csv") is None
    monkeypatch.setenv(DATA, str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"BAYESCONTAM_DATA: .*none is no folder"):
        run_reproduction(spec(), tmp_path / "out")
    with pytest.raises(UsageError, match=r"--data: .* is no folder"):
        run_reproduction(spec(), tmp_path / "new", data=tmp_path / "no")
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_study_is_refused(seen: list[Study], tmp_path: Path) -> None:
    run_reproduction(spec(name="one"), tmp_path / "out")
    with pytest.raises(UsageError, match="holds the study 'one', and this one is 'two'"):
        run_reproduction(spec(name="two"), tmp_path / "out")
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "study.json").write_text("{}")
    with pytest.raises(UsageError, match="holds a simulation study, and this one is 'two'"):
        run_reproduction(spec(name="two"), tmp_path / "sim")
    assert len(seen) == 1


def test_the_two_kinds_of_study_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recovery: is a simulation study"):
        run_reproduction("recovery", tmp_path / "out")
    with pytest.raises(SpecError, match="is the reproduction of a published study"):
        run_study("arc-decomposition", tmp_path / "out")


def test_printed_numbers_that_are_not_there_are_reported(seen: list[Study], tmp_path: Path) -> None:
    run_reproduction(spec(), tmp_path / "out")
    with pytest.raises(UsageError, match=r"0 printed numbers are called 'slop' \(''\)"):
        seen[0].printed("slop")
    text = TEXT.replace("arc_decomposition", "arc_decompositio")
    with pytest.raises(UsageError, match=r"no table .* \(did you mean 'arc_decomposition'\?\)"):
        run_reproduction(spec(text), tmp_path / "out")


def test_a_number_without_a_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ["quantity", "where", "value", "low", "high", "source"]
    rows = [["a", None, 1.0, None, None, "Title, Table 1"], ["b", "x", "one", None, None, None]]
    table = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr(printed, "read_printed", lambda name: table)
    with pytest.raises(DataError) as caught:
        printed.read_published("t")
    faults = [(fault.row, fault.column) for fault in caught.value.faults]
    assert faults == [(2, None), (2, "value")]
    monkeypatch.setattr(printed, "read_printed", lambda name: table.drop(columns="low"))
    with pytest.raises(DataError, match="has no column 'low'"):
        printed.read_published("t")
