"""Verb study: its list, a run from the command line, and what it refuses."""

import json
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.calibration import runner as running
from bayescontam.specs.registry import load_study, shipped_studies
from bayescontam.specs.study import study_keys_page
from tests.cli.conftest import Done
from tests.support.small_studies import BOOTSTRAP, SINGLE

Run = Callable[..., Done]


def test_list_has_every_shipped_study(run: Run) -> None:
    done = run("study", "list")
    printed = " ".join(done.out.split())  # long lines are wrapped
    for name in shipped_studies():
        assert f"{name} {load_study(name).summary}" in printed
    assert done.status == 0


def test_show_prints_the_file_and_what_it_does(run: Run, tmp_path: Path) -> None:
    done = run("study", "show", "coverage")
    assert done.status == 0
    assert load_study("coverage").text.rstrip() in done.out
    account = done.out.split("# In words\n")[1]
    assert "slope varies from cell to cell: 0, 0.5, 1, 2, 4." in account
    assert "Estimator 'bootstrap': 1,000 resamples of items" in account
    assert "Cells: 15. Tables: 500 in each, 7,500 in all." in account
    copied = run("study", "show", "coverage", "--toml")
    (tmp_path / "mine.toml").write_text(copied.out)
    assert load_study(str(tmp_path / "mine.toml")).hash == load_study("coverage").hash
    assert run("study", "show", str(tmp_path / "mine.toml")).status == 0
    assert "A published study, repeated" in run("study", "show", "conceptarc").out
    assert run("study", "show", "recovry").err.startswith("error: study 'recovry': no such study")


@pytest.mark.parametrize("name", shipped_studies())
def test_every_shipped_study_can_be_shown(run: Run, name: str) -> None:
    assert run("study", "show", name).status == 0


def test_keys_are_a_reference_in_the_terminal_and_as_a_page(run: Run) -> None:
    text = run("study", "keys").out
    assert "\n[[estimators]]\n  name: text, not empty, at most 60 characters; required\n" in text
    assert "\n  replicates: whole number, at least 1, at most 1,000,000; required\n" in text
    page = run("study", "keys", "--format", "markdown").out
    assert page == study_keys_page()
    assert "| `items` | whole number, at least 2, at most 1,000,000 | 200 | Items of each" in page


def test_a_run_says_what_it_did_and_what_comes_next(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(BOOTSTRAP)
    arguments = (
        "study",
        "run",
        tmp_path / "mine.toml",
        "--out",
        tmp_path / "a b",
        "-n",
        "3",
        "-j",
        "1",
    )
    done = run(*arguments)
    assert done.status == 0
    assert "6 fits: 0 were run longer to pass their gates, 0 failed." in done.out
    assert f"Next: bayescontam study report {shlex.quote(str(tmp_path / 'a b'))}" in done.out
    assert "100 %" in done.err
    assert "fits/s" in done.err
    assert "0 failed, 0 run longer" in done.err
    record = json.loads((tmp_path / "a b" / "study.json").read_text())
    assert record["runs"][0]["command"] == shlex.join(["bayescontam", *map(str, arguments)])
    assert (record["replicates"], record["cells"]) == (3, ["boost=0", "boost=0.3"])
    assert (tmp_path / "a b" / "study.toml").read_text() == BOOTSTRAP
    assert run(*arguments, "--quiet") == Done(0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("recovry", "--out", "x"), "no such study (did you mean 'recovery'?)"),
        (("recovery", "--out", "x", "-n", "0"), "replicates: got 0; allowed is 1 to 1,000,000"),
        (("none.toml", "--out", "x"), "none.toml: cannot be read"),
        (("recovery", "--out", "x", "--address", "auto"), "address and gpus are for Ray"),
        (("recovery", "--out", "x", "--jobs", "0"), "jobs is 0; give 1 or more"),
        (("recovery", "--out", "x", "--jobs", "-1"), "jobs is -1; give 1 or more"),
        (("recovery", "--out", "x", "--jobs", "x"), "Invalid value for '--jobs'"),
        (("recovery", "--out", "file"), "file: is a file; --out needs a folder"),
        (("recovery", "--out", "file/x"), "file/x: cannot be used (Not a directory)"),
    ],
)
def test_what_cannot_be_used_is_reported(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    done = run("study", "run", *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in " ".join(done.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("missing", "sampling", "arguments"),
    [
        ("jax", 'sampling.engine = "jax"', ()),
        ("blackjax", 'sampling.engine = "jax"', ()),
        ("ray", "", ("--engine", "ray")),
    ],
)
def test_a_missing_extra_is_reported_before_anything_is_made(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    sampling: str,
    arguments: tuple[str, ...],
) -> None:
    study = tmp_path / "mine.toml"
    study.write_text(SINGLE.replace("sampling = { draws = 200, tune = 200 }", sampling))
    monkeypatch.setitem(sys.modules, missing, None)
    done = run("study", "run", study, "--out", tmp_path / "out", "--jobs", "2", *arguments)
    extra = "ray" if missing == "ray" else "jax"
    assert (done.status, done.out) == (2, "")
    assert f"the package '{missing}', which is not installed" in done.err
    assert f"pip install 'bayescontam[{extra}]'" in done.err
    assert list(tmp_path.iterdir()) == [study]


def test_a_study_without_model_specs_needs_no_engine(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(f'sampling.engine = "jax"\n{BOOTSTRAP}')
    monkeypatch.setitem(sys.modules, "jax", None)
    done = run("study", "run", tmp_path / "mine.toml", "--out", tmp_path / "out", "-n", "1", "-j1")
    assert done.status == 0


def test_a_cluster_that_does_not_answer_is_reported_before_anything_is_made(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        arguments = ("--out", tmp_path / "out", "--engine", "ray", "--address", address)
        done = run("study", "run", "recovery", *arguments)
    assert done.status == 2
    assert f"Ray at '{address}' cannot be used" in " ".join(done.err.split())
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_says_how_to_go_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_study", interrupted)
    done = run("study", "run", "recovery", "--out", tmp_path / "out")
    assert done.status == 130
    assert "finished fits are stored: run the same command again to resume" in done.err
