"""Runs of studies that an earlier version stored: finished ones are read, others go on."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bayescontam
from tests.golden.expected import check_numbers

NUMBERS = Path(__file__).parent / "numbers"
KEY = ["cell", "estimator", "replicate", "quantity", "where", "audit"]
STUDIES = ("bootstrap", "sampled")


def table_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table; what is missing is null."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return found


def shards(folder: Path) -> dict[str, bytes]:
    """Return the stored rows of a run, by the name of the file."""
    return {path.name: path.read_bytes() for path in (folder / "rows").glob("*.parquet")}


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_results_are_what_they_were(stored: Path, name: str, state: str) -> None:
    results = bayescontam.StudyResults.load(stored / "study" / name / state)
    found = {
        "spec": results.spec.hash,
        "run": results.record["hash"],
        "planned": results.planned,
        "done": results.done,
        "columns": list(results.rows.columns),
        "coverage": table_rows(results.coverage),
        "sbc": table_rows(results.sbc),
        "fits": table_rows(results.fits.drop(columns="seconds")),
        "audits": table_rows(results.audits),
    }
    if name == "sampled":
        ranks = results.ranks(quantities=["theta", "beta"])["prior_sbc"].to_dataset()
        found["ranks"] = {key: ranks[key].to_numpy().ravel().tolist() for key in ("theta", "beta")}
    check_numbers(NUMBERS / f"{name} {state}.json", found)


@pytest.mark.parametrize("name", STUDIES)
def test_a_stopped_study_goes_on_where_it_stopped(
    there: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir("study")
    out, whole = Path(name, "stopped"), Path(name, "finished")
    before = shards(out)
    run = bayescontam.run_study(f"{name}.toml", out, jobs=1, block=1)
    after = shards(out)
    assert after.keys() == shards(whole).keys()
    assert {key: after[key] for key in before} == before
    assert len(run.record["runs"]) == 2
    rows, wanted = (
        bayescontam.StudyResults.load(folder).rows.sort_values(KEY, ignore_index=True)
        for folder in (out, whole)
    )
    # Draws of a sampler depend on how a processor rounds, and times on everything.
    same = [*KEY, "truth"] if name == "sampled" else list(wanted.columns.drop("seconds"))
    pd.testing.assert_frame_equal(rows[same], wanted[same], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", STUDIES)
def test_a_finished_study_fits_nothing_again(
    there: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir("study")
    before = shards(Path(name, "finished"))
    bayescontam.run_study(f"{name}.toml", Path(name, "finished"), jobs=1)
    assert shards(Path(name, "finished")) == before


def test_a_run_of_another_study_is_refused(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("study")
    changed = Path("bootstrap.toml").read_text(encoding="utf-8").replace("items = 12", "items = 13")
    Path("other.toml").write_text(changed, encoding="utf-8")
    with pytest.raises(bayescontam.UsageError, match="the study or a model spec that"):
        bayescontam.run_study("other.toml", Path("bootstrap", "stopped"), jobs=1)
