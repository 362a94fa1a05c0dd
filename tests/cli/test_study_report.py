import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Done
from tests.support.study_rows import made_rows
from tests.support.study_run import faulty, study_text, write_run

Run = Callable[..., Done]


def test_report_writes_tables_and_a_page_and_says_what_was_found(run: Run, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", faulty(), study_text(names=("exact", "narrow")))
    done = run("study", "report", folder)
    assert (done.status, done.err.strip()) == (0, "")
    assert {"coverage.csv", "sbc.csv", "index.html"} <= {path.name for path in folder.iterdir()}
    coverage = pd.read_csv(folder / "coverage.csv")
    reported = coverage.query("estimator == 'narrow' and level == 0.95 and counted == 'all fits'")
    assert f"{reported['coverage'].iloc[0]:.3f}" in done.out
    for said in ("Ranks are not uniform for 2 of 5 quantities", "too narrow", "index.html"):
        assert said in " ".join(done.out.split())


@pytest.mark.usefixtures("undrawn")
def test_tables_are_readable_in_80_columns(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    grid = "[grid]\nslope = [0, 4]\ncontamination_sd = [0.017, 0.2]\n"
    cells = [f"slope={a}, contamination_sd={b}" for a in ("0", "4") for b in ("0.017", "0.2")]
    rows = {
        f"{name}-{number}": table.assign(cell=cell)
        for number, cell in enumerate(cells)
        for name, table in faulty().items()
    }
    text = study_text("fixed", grid, ("exact", "narrow"))
    out = run("study", "report", write_run(tmp_path / "run", rows, text)).out
    assert re.search("^slope  sd +quantity +estimator +coverage", out, re.M)
    lines = [line for line in out.splitlines() if re.match(r"[04]  +0\.", line)]
    assert len(lines) == 12
    assert max(map(len, lines)) <= 80
    folder = write_run(tmp_path / "one", faulty(), study_text(names=("exact", "narrow")))
    out = run("study", "report", folder).out
    assert "\n'genuine_ability_direct model 2 | bench 1': Intervals too narrow, by" in out


@pytest.mark.usefixtures("undrawn")
def test_the_page_may_lie_elsewhere(run: Run, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", faulty(), study_text(names=("exact", "narrow")))
    page = tmp_path / "page.html"
    done = run("study", "report", folder, "--out", page)
    assert (done.status, done.err.strip()) == (0, "")
    assert f"Wrote {page}." in done.out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not (folder / "index.html").exists()
    assert (folder / "coverage.csv").exists()


@pytest.mark.usefixtures("undrawn")
def test_strict_leaves_with_status_3_where_ranks_are_not_uniform(run: Run, tmp_path: Path) -> None:
    bad = write_run(tmp_path / "bad", faulty(), study_text(names=("exact", "narrow")))
    assert run("study", "report", bad, "--strict", "--quiet") == Done(3, "", "")
    good = write_run(tmp_path / "good", {"a": made_rows(100, 1)}, study_text(), 100)
    assert run("study", "report", good, "--strict", "--quiet") == Done(0, "", "")


def test_report_of_a_run_that_has_only_begun(run: Run, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text())
    done = run("study", "report", folder)
    assert done.status == 0
    assert "Not finished: 0 of 400 simulated tables are fitted" in done.out


def test_a_folder_without_a_run_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("study", "report", tmp_path)
    assert done.status == 2
    assert "holds no run of a study" in done.err
    assert list(tmp_path.iterdir()) == []
