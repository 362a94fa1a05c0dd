"""Commands that make duplicates and new items."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.duplicates.make import make_duplicates, new_items
from tests.cli.conftest import Done
from tests.support.json_lines import write_rows

Run = Callable[..., Done]


@pytest.fixture
def grids(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "grids.jsonl", new_items(6, houses=3, categories=3, seed=1))


def test_from_new_items_to_checked_duplicates(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("duplicates", "new", "--items", "3", "--houses", "3", "--out", "g.jsonl")
    assert (done.status, done.out) == (0, "3 items in g.jsonl\n")
    done = run("duplicates", "make", "g.jsonl", "--out", "d.jsonl", "--chain", "shuffle")
    assert (done.status, done.out) == (0, "3 duplicates in d.jsonl: 'shuffle'\n")
    done = run("duplicates", "check", "d.jsonl", "--benchmark", "g.jsonl")
    assert done.status == 0
    assert "3 of 3 passed" in done.out


def test_failures_are_printed_and_a_check_reports_them(run: Run, grids: Path) -> None:
    rows = make_duplicates(grids, chains=["shuffle"]).rows
    rows[2]["answer"]["rows"].reverse()
    write_rows(grids.with_name("d.jsonl"), rows)
    folder = grids.parent
    done = run("duplicates", "check", folder / "d.jsonl", "--benchmark", grids)
    assert done.status == 3
    assert "5 of 6 passed" in done.out
    assert "1 failed" in done.out
    assert "its answer is not that of its item" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--copies", "0"], "copies: got 0; allowed is 1 or more"),
        (["--chain", "mix"], "chain: got 'mix'"),
        (["--text-field", "text"], "no item can be read as a logic grid"),
    ],
)
def test_what_cannot_be_used_is_refused(
    run: Run, grids: Path, options: list[str], message: str
) -> None:
    done = run("duplicates", "make", grids, "--out", grids.with_name("d.jsonl"), *options)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert not grids.with_name("d.jsonl").exists()


def test_the_benchmark_is_not_written_over(run: Run, grids: Path) -> None:
    before = grids.read_bytes()
    done = run("duplicates", "make", grids, "--out", grids)
    assert done.status == 2
    assert grids.read_bytes() == before
