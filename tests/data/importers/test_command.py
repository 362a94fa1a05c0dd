"""The verb ``import``: what it prints and writes, and that ``fit`` takes it."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.cli import importers
from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.data.importers.matrix import import_matrix
from bayescontam.data.tools import COMMANDS
from tests.cli.conftest import FEW_DRAWS, Done, command, restored, run, unhurried
from tests.support.made_fit import drawn_from_prior

__all__ = ["restored", "run", "unhurried"]

Run = Callable[..., Done]
CHOICES = ("--filter", "flexible", "--metric", "acc")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_logs_to_a_fit(lm_eval_logs: Path, run: Run, tmp_path: Path) -> None:
    done = command("import", "lm-eval", lm_eval_logs, "--out", "r.parquet", *CHOICES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(tmp_path / "r.parquet")
    wanted = import_lm_eval([lm_eval_logs], filter=["flexible"], metric=["acc"]).frame
    pd.testing.assert_frame_equal(table, wanted)
    items = table[["benchmark", "item"]].drop_duplicates()
    items.assign(contamination=[i % 2 for i in range(len(items))]).to_csv(
        tmp_path / "c.csv", index=False
    )
    with drawn_from_prior():
        fitted = run(
            "fit", "r.parquet", "--covariates", "c.csv", "-m", "single", "--out", "fit.nc",
            "--seed", "1", *FEW_DRAWS,
        )  # fmt: skip
    assert fitted.status == 0, fitted.err
    found = pd.read_csv(io.StringIO(run("summary", "fit.nc", "--format", "csv").out))
    found = found.query("quantity == 'accuracy'")
    assert set(found["model"]) == {"org/small", "org/large"}
    assert set(found["benchmark"]) == {"choice", "digits", "words"}


def test_it_reports_what_it_read_and_what_it_left_out(
    inspect_logs: Path, run: Run, tmp_path: Path
) -> None:
    arguments = (
        "import", "inspect", inspect_logs, "--out", "r.csv", "--scorer", "graded", "--scorer",
        "graded.right", "--partial", "incorrect", "--threshold", "0.5",
    )  # fmt: skip
    done = run(*arguments)
    assert done.status == 0, done.err
    table = pd.read_csv(tmp_path / "r.csv")
    assert f"Wrote {len(table)} responses of 2 models to r.csv\n" in done.out
    for words in ("letters +graded ", "rubric +graded.right ", "error in the sample +", "unscored"):
        assert re.search(words, done.out)
    assert "count as incorrect\n" in done.out
    (tmp_path / "r.csv").unlink()
    assert run(*arguments, "--quiet") == Done(0, "", "")
    assert pd.read_csv(tmp_path / "r.csv").equals(table)


def test_a_matrix_is_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("model,q1,q2\nA,1,0\nB,1,1\n")
    done = run("import", "matrix", "m.csv", "--benchmark", "quiz", "-o", "r.csv")
    assert "Nothing was left out.\nWrote 4 responses of 2 models to r.csv\n" in done.out
    wanted = import_matrix(tmp_path / "m.csv", benchmark="quiz").frame
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "r.csv"), wanted)
    done = run("import", "matrix", "m.csv", "-o", "r.csv")
    assert done.status == 2
    assert done.err == "error: --benchmark and --benchmark-column: give one of the two\n"


def test_a_fault_leaves_the_table_as_it_was(lm_eval_logs: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("before")
    done = run("import", "lm-eval", lm_eval_logs, "--out", "r.csv")
    assert done.status == 2
    assert done.err.startswith("error: --filter: needed")
    assert (tmp_path / "r.csv").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize("out", ["r.xlsx", "none/r.csv"])
def test_a_file_that_cannot_be_written_is_refused_first(
    lm_eval_logs: Path, run: Run, out: str
) -> None:
    done = run("import", "lm-eval", lm_eval_logs, "--out", out)
    assert done.status == 2
    assert out in done.err
    assert "--filter" not in done.err


def test_messages_on_tables_name_every_command() -> None:
    assert [command.name for command in importers.app.registered_commands] == list(COMMANDS)
