"""Commands of the laboratory, from a spec to the truth."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.judgements import PAIR, Judgements, write_judgements
from bayescontam.lab.truth import lab_truth
from bayescontam.specs.registry import load_lab, shipped_labs
from tests.cli.conftest import Done
from tests.support.json_lines import write_rows
from tests.support.llm_server import Reply, Request, Server, completion
from tests.support.small_corpus import scan, write_small
from tests.support.small_lab import (
    BASES,
    BENCHMARKS,
    CONTROLS,
    ITEMS,
    MIXES,
    SEEN,
    SPEC,
    answered_lab,
    checkpointed_lab,
    trained_lab,
    write_spec,
)

Run = Callable[..., Done]
__all__ = ["answered_lab", "checkpointed_lab", "trained_lab"]


@pytest.fixture
def lab(answered_lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work beside a copy of a lab whose models have answered."""
    shutil.copytree(answered_lab, tmp_path / "lab")
    monkeypatch.chdir(tmp_path)
    return Path("lab")


def next_of(done: Done) -> list[str]:
    """Return the command that a command names last."""
    return shlex.split(done.out.rpartition("Next: bayescontam ")[2])


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_from_a_spec_to_the_page_by_the_commands_that_each_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered_lab: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_spec(tmp_path)
    done = run("lab", "mix", "small.toml", "--out", "lab")
    assert done.status == 0
    assert f"{ITEMS} items, of which {SEEN} are exposed, and {CONTROLS} controls" in done.out
    assert f"texts of {BASES * len(MIXES)} models in lab" in done.out
    assert [line.split() for line in done.out.splitlines() if line.startswith("exact-4")] == [
        ["exact-4", "exact", "60", "48", "0"]
    ]
    done = run(*next_of(done), "--jobs", "1")
    assert done.status == 0
    assert f"{BASES * (len(MIXES) + 1)} trainings are in lab/models." in done.out
    done = run(*next_of(done), "--jobs", "1")
    assert done.status == 0
    assert "sd between bases" in done.out
    done = run(*next_of(done))
    assert done.status == 0
    assert "Training on items of '" in done.out
    done = run(*next_of(done))
    assert (done.status, done.out.splitlines()[-1]) == (0, "Wrote lab.html.")
    assert Path("lab.html").read_text().startswith("<!DOCTYPE html>")
    for name in ("responses.csv", "covariates.csv", "items.jsonl"):
        assert Path("lab", name).read_bytes() == (answered_lab / name).read_bytes()


def test_the_truth_is_a_table_csv_or_json(run: Run, lab: Path) -> None:
    expected = lab_truth(lab, level=0.9)
    done = run("lab", "truth", lab, "--level", "0.9", "--format", "csv")
    pd.testing.assert_frame_equal(pd.read_csv(StringIO(done.out)), expected, rtol=1e-12)
    done = run("lab", "truth", lab, "--level", "0.9", "--format", "json")
    found = json.loads(done.out)
    assert [row["estimate"] for row in found["effects"]] == pytest.approx(
        expected["estimate"].tolist()
    )
    assert len(found["clean"]) == len(BENCHMARKS) * BASES
    done = run("lab", "truth", lab)
    assert done.status == 0
    rows = [line for line in done.out.splitlines() if line.startswith("exact-4")]
    assert len(rows) == 7
    assert "Accuracy of the clean twins (mix clean):" in done.out
    by_replies = run("lab", "truth", lab, "--accuracy", "replies", "--format", "csv")
    assert by_replies.out != done.out


def test_the_truth_names_the_file_of_effects_by_epoch(
    run: Run, lab: Path, checkpointed_lab: Path
) -> None:
    shutil.copytree(checkpointed_lab, "epochs")
    assert "Effects at each epoch: epochs/curve.csv" in run("lab", "truth", "epochs").out
    done = run("lab", "answer", "epochs", "--jobs", "1")
    assert "360 responses of 12 models are in epochs/responses.csv." in done.out
    assert "each epoch" not in run("lab", "truth", lab).out


def test_models_that_are_not_trained_are_counted(run: Run, lab: Path) -> None:
    (lab / "responses.csv").unlink()
    (lab / "models" / "base-1" / "clean" / "model.safetensors").unlink()
    done = run("lab", "answer", lab, "--jobs", "1", "--quiet")
    assert done.status == 0
    assert "14 models have answered; 1 are not trained yet" in done.out
    done = run("lab", "truth", lab)
    assert done.status == 2
    assert "not all models have answered; run: bayescontam lab answer lab" in done.err


def test_labs_are_listed_shown_and_explained(run: Run) -> None:
    done = run("lab", "list")
    assert done.status == 0
    assert {*shipped_labs()} <= {line.split()[0] for line in done.out.splitlines() if line}
    assert run("lab", "show", "smoke", "--toml").out == load_lab("smoke").text
    done = run("lab", "show", "arithmetic")
    assert load_lab("arithmetic").text.strip() in done.out
    assert "exact duplicates of each exposed item (50 % of all)." in done.out
    done = run("lab", "show", "smok")
    assert done.status == 2
    assert "no such lab (did you mean 'smoke'?)" in done.err
    assert "bayescontam lab list" in done.err
    done = run("lab", "keys")
    assert "[training.lora]" in done.out
    assert run("lab", "keys", "--format", "markdown").out.startswith("# Keys of a lab's file\n")


def test_tasks_are_written_with_the_command_that_runs_them(run: Run, lab: Path) -> None:
    done = run("lab", "task", lab, "--out", "tasks")
    assert done.status == 0
    assert "Tasks: sums, changes, clock." in done.out
    assert "pretrained=lab/models/base-0/clean --include_path tasks" in done.out
    assert {path.name for path in Path("tasks").iterdir()} == {
        f"{name}.{ending}" for name in BENCHMARKS for ending in ("yaml", "jsonl")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mix", "small.toml", "--out", "mine"], "holds files, and no lab; --out needs a new"),
        (
            ["mix", "none.toml", "--out", "new"],
            "none.toml: cannot be read (No such file or directory)",
        ),
        (
            ["mix", "small.toml", "--out", "new", "--benchmark", "x"],
            "no files: leave out 'benchmark'",
        ),
        (["train", "mine"], "mine: holds no texts of a lab"),
        (["train", "lab", "--device", "abacus"], "device: got 'abacus', which torch cannot use"),
        (["answer", "mine"], "mine: holds no texts of a lab"),
        (["answer", "lab", "--jobs", "0"], "jobs is 0; give 1 or more"),
        (["truth", "lab", "--level", "95"], "level: got 95.0; allowed is 0.5 up to but not 1"),
        (["report", "lab", "--out", "mine"], "mine: is a folder; give the name of a file"),
        (
            ["report", "lab", "--out", "lab/items.jsonl"],
            "lab/items.jsonl: is what the command reads",
        ),
        (["report", "mine", "--out", "page.html"], "mine: holds no texts of a lab"),
        (["task", "mine", "--out", "tasks"], "mine: holds no texts of a lab"),
        (["task", "lab", "--out", "lab"], "lab: holds files of a lab, which tasks might replace"),
    ],
)
def test_what_cannot_be_used_is_refused(
    run: Run, lab: Path, arguments: list[str], message: str
) -> None:
    write_spec(Path())
    Path("mine").mkdir()
    Path("mine", "thesis.txt").write_text("thesis")
    done = run("lab", *arguments)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert Path("mine", "thesis.txt").read_text() == "thesis"


def test_another_spec_does_not_replace_a_lab(run: Run, lab: Path) -> None:
    before = {path: path.read_bytes() for path in lab.rglob("*.jsonl")}
    Path("other.toml").write_text(SPEC.replace("seed = 3", "seed = 4"))
    done = run("lab", "mix", "other.toml", "--out", lab)
    assert done.status == 2
    assert "holds the texts of another spec" in done.err
    assert before == {path: path.read_bytes() for path in lab.rglob("*.jsonl")}


def test_a_teacher_solves_what_a_lab_holds(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    Path("sums.toml").write_text(
        """
        summary = "Sums."
        texts = 20
        halves = "first"
        mixes = [{ name = "clean", kind = "clean" }, { name = "e", kind = "exact", copies = 1 }]
        files = { background = "<documents>", benchmark = "<sums>", recipe = "paraphrase" }
        answers = { grade = "number" }
        """
    )
    items = [{"id": f"s{k}", "input": f"Add {k} to 3 .", "output": str(k + 3)} for k in range(4)]
    write_rows(tmp_path / "items.jsonl", items)

    def solve(request: Request) -> Reply:
        found = re.search(r"Add (\d) to 3", str(request.body["messages"][-1]["content"]))
        assert found
        wrong = found[1] == "1"
        return completion(f"It is {int(found[1]) + 3 + wrong}.")

    server.behave = solve
    options = ["--base-url", server.base_url, "--model", "teacher", "--benchmark", "items.jsonl"]
    settings = ["--tries", "1", "--effort", "low"]
    done = run("lab", "traces", "sums.toml", *options, "--out", "traces.jsonl", *settings)
    assert (done.status, done.out.splitlines()[0]) == (0, "1 solutions in traces.jsonl.")
    assert "its final answer is wrong" in done.out
    assert {request.body["max_tokens"] for request in server.requests} == {4096}
    assert {request.body["reasoning_effort"] for request in server.requests} == {"low"}
    assert "temperature" not in server.requests[0].body
    [row] = [json.loads(line) for line in Path("traces.jsonl").read_text().splitlines()]
    assert (row["item"], row["text"]) == ("s0", "It is 3.")
    done = run("lab", "traces", "sums.toml", *options, "--out", "items.jsonl")
    assert done.status == 2
    assert "items.jsonl: is what the command reads, and would be lost" in done.err


def test_near_texts_come_from_a_judged_scan(run: Run, tmp_path: Path) -> None:
    made = write_small(tmp_path)
    found = scan(made.manifest, tmp_path / "scan")
    own = found.matches.drop_duplicates([*PAIR])
    verdicts = (own["cosine"] >= 0.8).astype(int)
    table = own[[*PAIR]].assign(judge="Ada", is_duplicate=verdicts)
    write_judgements(tmp_path / "judged.csv", Judgements.from_frame(table))
    name, out = str(own["benchmark"].iloc[0]), tmp_path / "near.jsonl"
    options = ["--judgements", tmp_path / "judged.csv", "--out", out]
    done = run("lab", "near", tmp_path / "scan", *options, "--benchmark", name)
    assert done.status == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert done.out == f"{len(rows):,} texts near {len(rows):,} items in {out}.\n"
    done = run("lab", "near", tmp_path / "scan", *options, "--benchmark", "none")
    assert done.status == 2
    assert "benchmark: got 'none'; the scan has" in done.err
