"""Commands that make duplicates and new items."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.duplicates.make import make_duplicates
from bayescontam.duplicates.new import new_items
from bayescontam.specs.registry import load_recipe, shipped_recipes
from tests.cli.conftest import Done
from tests.support.json_lines import write_rows
from tests.support.llm_server import Server, completion, fault, verdict

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
    assert "its answer is not that of its" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--copies", "0"], "copies: got 0; allowed is 1 or more"),
        (["--chain", "mix"], "chain: got 'mix'"),
        (["--recipe", "story"], "no item can be read by the recipe 'story'"),
        (["--recipe", "cod"], "no such recipe (did you mean 'code'?)"),
        (["--chain", "paraphrase"], "name its address"),
        (["--model", "m"], "--base-url and --model: give both"),
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


def test_items_in_a_folder_are_not_written_over(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "items"
    folder.mkdir()
    for at, item in enumerate(new_items(2, houses=3, categories=3, seed=1)):
        (folder / f"{at}.json").write_text(json.dumps(item))
    before = (folder / "0.json").read_bytes()
    done = run("duplicates", "make", folder, "--chain", "shuffle", "--out", folder / "0.json")
    assert done.status == 2
    assert "lies within what the command reads" in done.err
    assert (folder / "0.json").read_bytes() == before


def test_the_file_of_a_run_replaces_nothing_else(run: Run, grids: Path, tmp_path: Path) -> None:
    part = grids.rename(tmp_path / "d.jsonl.part")
    before = part.read_bytes()
    out = tmp_path / "d.jsonl"
    done = run("duplicates", "make", part, "--chain", "shuffle", "--out", out)
    assert done.status == 2
    assert "d.jsonl.part: is what the command reads" in done.err
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(before)
    for content in (before, b'{"a": 1}', b"\xff\n", b"notes\n"):
        part.write_bytes(content)
        done = run("duplicates", "make", copy, "--chain", "shuffle", "--out", out)
        assert done.status == 2
        assert "d.jsonl.part: is no file of an interrupted run, and would be lost" in done.err
        assert part.read_bytes() == content
    assert not out.exists()
    part.write_bytes(b"")
    assert run("duplicates", "make", copy, "--chain", "shuffle", "--out", out).status == 0
    assert {path.name for path in tmp_path.iterdir()} == {"copy.jsonl", "d.jsonl"}


def test_duplicates_are_not_replaced_by_fewer_where_the_endpoint_fails(
    run: Run, server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("openai")
    texts = ["Ada has many pears and eats a few of them, how?", "A train goes far away, why so?"]
    rows = [{"id": f"q{at}", "input": text, "output": "7"} for at, text in enumerate(texts)]
    items = write_rows(tmp_path / "quiz.jsonl", rows)
    out = tmp_path / "d.jsonl"
    out.write_text("earlier\n")
    server.behave = lambda request: (
        fault(500) if rows[1]["input"] in str(request.body)
        else verdict() if "<item" in str(request.body)
        else completion(json.dumps({"paraphrases": ["Few fruits are eaten: in what way?"]}))
    )  # fmt: skip
    options = ["duplicates", "make", items, "--recipe", "paraphrase", "--copies", "1", "--out", out]
    options += ["--base-url", server.base_url, "--model", "small", "--retries", "0"]
    done = run(*options)
    assert done.status == 2
    assert "d.jsonl: left as it was: 1 duplicates have no reply of the endpoint, 1 are" in done.err
    assert out.read_text() == "earlier\n"
    assert out.with_name("d.jsonl.part").exists()
    server.behave = lambda request: (
        verdict() if "<item" in str(request.body)
        else completion(json.dumps({"paraphrases": ["For what reason do railways lead afar?"]}))
    )  # fmt: skip
    done = run(*options)
    assert (done.status, len(out.read_text().splitlines())) == (0, 2)
    assert not out.with_name("d.jsonl.part").exists()


def test_no_rows_replace_no_file(run: Run, tmp_path: Path) -> None:
    items = write_rows(tmp_path / "code.jsonl", new_items(1, "program", seed=1))
    out = tmp_path / "d.jsonl"
    out.write_text("earlier\n")
    done = run("duplicates", "make", items, "--recipe", "code", "--chain", "reorder", "--out", out)
    assert done.status == 2
    assert "d.jsonl: left as it was: no duplicate passed" in done.err
    assert "it has no functions to reorder" in done.out
    assert out.read_text() == "earlier\n"


def test_recipes_are_listed_and_printed(run: Run) -> None:
    done = run("duplicates", "recipes")
    assert done.status == 0
    assert all(name in done.out for name in shipped_recipes())
    assert run("duplicates", "recipes", "mbpp").out == load_recipe("mbpp").text
    done = run("duplicates", "recipes", "mbp")
    assert done.status == 2
    assert "did you mean 'mbpp'?" in done.err


def test_show_counts_levels_and_writes_a_page(run: Run, grids: Path) -> None:
    folder = grids.parent
    write_rows(folder / "d.jsonl", make_duplicates(grids, chains=["shuffle", "substitute"]).rows)
    done = run("duplicates", "show", folder / "d.jsonl", "--benchmark", grids, "--format", "csv")
    table = pd.read_csv(StringIO(done.out))
    assert table["level"].tolist() == ["shuffle", "substitute"]
    assert table["duplicates"].tolist() == table["items"].tolist() == [6, 6]
    assert table["same_words"][0] > table["same_words"][1]
    page = folder / "page.html"
    done = run("duplicates", "show", folder / "d.jsonl", "--benchmark", grids, "--out", page)
    assert done.status == 0
    text = page.read_text()
    assert "12 duplicates of 6 items" in text
    assert text.count('<article class="card">') == 2 * 3
    assert "<mark>" in text
    done = run("duplicates", "show", grids)
    assert done.status == 2
    assert "Give the file that 'duplicates make' wrote" in " ".join(done.err.split())


def test_texts_on_the_page_cannot_close_its_tags(run: Run, tmp_path: Path) -> None:
    row = {
        "recipe": "logic-grid", "item": "<b>",
        "duplicate": "<b>/1", "level": "<script>", "checks": ["<i>"],
        "text": "</div><script>alert(1)</script>", "answer": "<img src=x>",
    }  # fmt: skip
    write_rows(tmp_path / "d.jsonl", [row])
    write_rows(tmp_path / "b.jsonl", [{"id": "<b>", "puzzle": "<script>x</script>"}])
    done = run("duplicates", "show", tmp_path / "d.jsonl", "--benchmark", tmp_path / "b.jsonl",
               "--out", tmp_path / "p.html")  # fmt: skip
    assert done.status == 0
    text = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "<script>x" not in text


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(run: Run, tmp_path: Path) -> None:
    """Killed while it makes duplicates, twice; the file is that of a run in one go."""
    path = write_rows(tmp_path / "g.jsonl", new_items(20, houses=4, categories=4, seed=1))
    command = ["duplicates", "make", str(path), "--copies", "4"]
    assert run(*command, "--out", tmp_path / "whole.jsonl", "-q").status == 0
    words = [sys.executable, "-m", "bayescontam", *command]
    out, part = tmp_path / "cut.jsonl", tmp_path / "cut.jsonl.part"
    for least in (30, 60):
        process = subprocess.Popen([*words, "--out", str(out), "-q"])
        while not part.exists() or part.read_bytes().count(b"\n") < least:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not out.exists()
    done = run(*command, "--out", out)
    assert done.status == 0
    assert "of 140 were finished before" in done.out + done.err
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not part.exists()
