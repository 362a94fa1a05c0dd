"""Runs: the same rows whatever the workers, blocks and interruptions; nothing lost or redone."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import filelock
import pandas as pd
import pytest

from bayescontam.calibration.audit import audits
from bayescontam.calibration.run import run_study
from bayescontam.calibration.shards import blocks_of
from bayescontam.errors import UsageError
from bayescontam.specs.study import StudySpec, parse_study
from tests.calibration.studies import BOOTSTRAP, SINGLE, planned

STUDY = parse_study(BOOTSTRAP, "small.toml")


def rows(folder: Path, study: StudySpec = STUDY, **options: object) -> pd.DataFrame:
    """Run a study and return its rows without what a clock says."""
    return run_study(study, folder, **options).rows().drop(columns="seconds")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Return the rows of an uninterrupted run in one process."""
    return rows(tmp_path_factory.mktemp("runs") / "whole", jobs=1)


def shards(folder: Path) -> dict[str, int]:
    """Return the shards of a run with the times of their last change."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "rows").glob("*.parquet")}


def test_every_planned_fit_is_there_once(whole: pd.DataFrame) -> None:
    keys = whole[["cell", "replicate"]].drop_duplicates()
    assert len(keys) == 24
    assert set(keys["cell"]) == {"boost=0", "boost=0.3"}
    assert not whole.duplicated(["cell", "replicate", "estimator", "quantity", "where"]).any()
    truth = whole[whole["quantity"] == "novelty_gap"]
    assert truth.empty  # the bootstrap does not tell it
    assert (whole.query("quantity == 'overfitting' and cell == 'boost=0'")["truth"] == 0).all()


@pytest.mark.parametrize("block", [1, 5])
def test_blocks_change_nothing(whole: pd.DataFrame, tmp_path: Path, block: int) -> None:
    assert rows(tmp_path / "out", jobs=1, block=block).equals(whole)
    assert len(shards(tmp_path / "out")) == {1: 24, 5: 6}[block]


def test_two_workers_change_nothing(whole: pd.DataFrame, tmp_path: Path) -> None:
    assert rows(tmp_path / "out", jobs=2, block=4).equals(whole)


def test_compiled_fits_are_the_same_from_one_worker_and_two(tmp_path: Path) -> None:
    """Each worker compiles for itself; audits come from the other engine."""
    study = parse_study(SINGLE.replace("audit = 0.0", "audit = 0.4"), "small.toml")
    one = rows(tmp_path / "one", study, jobs=1)
    assert 0 < one["audit"].sum() < len(one) / 2
    assert set(one.loc[one["audit"], "engine"]) == {"pymc"}
    assert rows(tmp_path / "two", study, jobs=2, block=1).equals(one)
    compared = audits(one)
    assert compared["fits"][0] == one.loc[one["audit"], "replicate"].nunique()
    assert compared["far"][0] == 0
    assert 0.3 < compared["rms"][0] < 2
    record = json.loads((tmp_path / "two" / "study.json").read_text())
    assert record["audits"][0]["engines"] == "nutpie, pymc"
    assert sum(record["fits"].values()) == 4


def test_more_replicates_leave_the_first_alone(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = rows(out, jobs=1, replicates=5, block=3)
    assert few.equals(whole[whole["replicate"] < 5].reset_index(drop=True))
    before = shards(out)
    assert rows(out, jobs=1).equals(whole)
    assert before.items() <= shards(out).items()
    settled = shards(out)
    assert rows(out, jobs=1, replicates=2).equals(whole)  # fewer than there are: nothing to do
    assert shards(out) == settled
    assert len(json.loads((out / "study.json").read_text())["runs"]) == 3


def test_a_missing_shard_alone_is_made_anew(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows(out, jobs=1, block=4)
    before = shards(out)
    victim = sorted(before)[2]
    (out / "rows" / victim).unlink()
    assert rows(out, jobs=1, block=3).equals(whole)
    after = shards(out)
    assert {name for name in after if after[name] != before.get(name)} >= {victim}
    assert {name: after[name] for name in before if name != victim} == {
        name: at for name, at in before.items() if name != victim
    }


def start(folder: Path, study: Path) -> subprocess.Popen[bytes]:
    """Start a run on the command line, in a process group of its own."""
    words = ["study", "run", str(study), "--out", str(folder), "--jobs", "2", "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-m", "bayescontam", *words, "--replicates", "150"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_rows(tmp_path: Path) -> None:
    """The main process at random moments, and every other time its workers too."""
    path, out, rng = tmp_path / "small.toml", tmp_path / "killed", random.Random(1)
    path.write_text(BOOTSTRAP)
    for turn in range(3):
        wanted = 2 + len(shards(out))
        process = start(out, path)
        while process.poll() is None and len(shards(out)) < wanted:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        assert process.poll() is None, "it ended before it could be killed"
        if turn % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate(timeout=60)
    process = start(out, path)
    told, _ = process.communicate(timeout=300)
    assert (process.returncode, told) == (0, b"")
    assert list(out.rglob("*.part")) == []
    killed = run_study(path, out, replicates=150).rows().drop(columns="seconds")
    assert killed.equals(rows(tmp_path / "whole", replicates=150, jobs=1))


@pytest.mark.ray
@pytest.mark.slow
def test_ray_changes_nothing(whole: pd.DataFrame, tmp_path: Path) -> None:
    assert rows(tmp_path / "out", engine="ray", jobs=2, block=4).equals(whole)


def test_another_study_is_kept_out_of_the_folder(whole: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows(out, jobs=1, replicates=2)
    before = (out / "study.json").read_bytes()
    other = parse_study(BOOTSTRAP.replace("= 30", "= 31"), "other.toml")
    with pytest.raises(UsageError, match=r"holds a run of the study 'small' .*'other'"):
        run_study(other, out, jobs=1)
    assert (out / "study.json").read_bytes() == before
    more = parse_study(BOOTSTRAP.replace("= 12", "= 3").replace("Nothing", "None"), "renamed.toml")
    assert rows(out, more, jobs=1).equals(whole[whole["replicate"] < 3].reset_index(drop=True))


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds files, and no run of a study"):
        run_study(STUDY, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_runs_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    lock = filelock.FileLock(tmp_path / ".lock")
    with lock, pytest.raises(UsageError, match="another run works in this folder"):
        run_study(STUDY, tmp_path)


@pytest.mark.parametrize("name", ["replicates", "block"])
def test_numbers_out_of_range_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: got 0; allowed is 1 to 1,000,000"):
        run_study(STUDY, tmp_path / "out", **{name: 0})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_damaged_shard_is_told_by_name(tmp_path: Path) -> None:
    rows(tmp_path, jobs=1, replicates=1)
    victim = sorted((tmp_path / "rows").glob("*.parquet"))[0]
    victim.write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=f"{victim.name}: cannot be read .*; remove it and run"):
        run_study(STUDY, tmp_path, jobs=1, replicates=1)


def test_blocks_leave_each_worker_several_tasks() -> None:
    plan, _ = planned("published", "single", "grid.boost = [0.1, 0.2]")
    done = {("boost=0.1", r) for r in range(0, 90, 2)}
    blocks = blocks_of(plan, 100, done, jobs=2)
    left = {(plan.cells[b.cell].name, r) for b in blocks.values() for r in b.replicates}
    every = {(name, r) for name in ("boost=0.1", "boost=0.2") for r in range(100)}
    assert left == every - done
    assert sum(len(block.replicates) for block in blocks.values()) == len(left)
    assert len(blocks) >= 16
    assert max(len(b.replicates) for b in blocks_of(plan, 100_000, set(), jobs=2).values()) == 25


def test_audits_are_counted_in_monte_carlo_errors() -> None:
    """Means that differ by a known number of errors."""
    first = pd.DataFrame(
        {
            "cell": "", "replicate": [0, 0, 1], "estimator": "a", "quantity": ["x", "y", "x"],
            "where": "", "mean": [1.0, 2.0, 3.0], "sd": [2.0, 0.0, 2.0], "ess": 100.0,
            "engine": "nutpie", "audit": False,
        }
    )  # fmt: skip
    error = (2**2 / 100 + 2**2 / 100) ** 0.5
    second = first.assign(mean=[1.0 + 5 * error, 2.0, 3.0 - error], engine="pymc", audit=True)
    found = audits(pd.concat([first, second])).iloc[0]
    assert (found["fits"], found["quantities"], found["of"]) == (2, 2, "x")
    assert found["engines"] == "nutpie, pymc"
    assert (found["far"], found["largest"]) == (0.5, pytest.approx(5))
    assert found["rms"] == pytest.approx(13**0.5)
    assert audits(first).empty
