"""Verb study on the reproduction of a published study."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.published.study import DATA, Study
from bayescontam.specs.registry import shipped_folder
from tests.cli.conftest import Done
from tests.support.made_findings import TEXT, findings, with_analysis

Run = Callable[..., Done]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_analysis(monkeypatch, lambda study: findings())
    monkeypatch.delenv(DATA, raising=False)
    path = tmp_path / "made.toml"
    path.write_text(TEXT)
    return path


def test_a_run_shows_the_numbers_and_where_the_page_lies(
    run: Run, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run("study", "run", file, "--out", out)
    assert done.status == 0
    assert "0.790" in done.out
    assert "A headline" in done.out
    assert "A note." in done.out
    assert done.out.endswith(f"Wrote {out / 'index.html'}.\n")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "bayescontam study run" in page
    (out / "index.html").unlink()
    again = run("study", "report", out)
    assert (again.status, again.out) == (0, done.out)
    assert (out / "index.html").read_text(encoding="utf-8") == page
    assert run("study", "run", file, "--out", out, "-q", "--full") == Done(0, "", "")


def test_compare_prints_one_markdown_table(run: Run, file: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("study", "run", file, "--out", tmp_path / name, "--quiet")
    done = run("study", "compare", tmp_path / "one", tmp_path / "two")
    lines = done.out.splitlines()
    assert lines[0] == (
        "| study | quantity | published | ours | agreement | reason for difference |"
    )
    assert len(lines) == 2 + 2 * 3
    assert all(line.startswith("| `made` | ") for line in lines[2:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--replicates", "3"), "--replicates: is for simulation studies, which 'made' is not"),
        (("--jobs", "2"), "--jobs: is for simulation studies"),
        (("--engine", "ray"), "--engine: is for simulation studies"),
        (("--data", "nowhere"), "--data: nowhere is no folder"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(
    run: Run, file: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("study", "run", file, "--out", tmp_path / "out", *options)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wrong", "--full"), "full: 'wrong' has no other size than 500 replicates"),
        (("recovery", "--full", "-n", "3"), "full and replicates both say how many"),
        (("recovery", "--data", "."), "--data: is for reproductions of published studies"),
    ],
)
def test_sizes_that_a_simulation_does_not_have_are_refused(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run("study", "run", *arguments, "--out", tmp_path / "out")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "out").exists()


def test_compare_refuses_what_is_no_reproduction(run: Run, tmp_path: Path) -> None:
    done = run("study", "compare", tmp_path)
    assert done.status == 2
    assert "holds no finished reproduction" in done.err


def test_an_interrupted_run_says_how_to_go_on(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(study: Study) -> None:
        raise KeyboardInterrupt

    with_analysis(monkeypatch, interrupted)
    done = run("study", "run", file, "--out", tmp_path / "out")
    assert done.status == 130
    assert "finished fits are stored: run the same command again to resume" in done.err


def test_options_and_tables_that_do_not_fit_are_refused_first(
    run: Run, file: Path, tmp_path: Path
) -> None:
    run("study", "run", file, "--out", tmp_path / "out", "--quiet")
    done = run("study", "report", tmp_path / "out", "--strict")
    assert (done.status, done.err) == (
        2, "error: --strict: is for simulation studies; leave it out\n"
    )  # fmt: skip
    other = tmp_path / "other.toml"
    other.write_text(
        (shipped_folder("studies") / "recovery.toml")
        .read_text()
        .replace('published = "arc_recovery"', 'published = "arc_recover"')
    )
    done = run("study", "run", other, "--out", tmp_path / "none")
    assert done.status == 2
    assert "no table 'arc_recover' in studies/data (did you mean 'arc_recovery'?)" in done.err
    assert not (tmp_path / "none").exists()
