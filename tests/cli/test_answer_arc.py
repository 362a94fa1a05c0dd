"""ARC tasks answered by a language model, from the command line."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, environment
from tests.support.arc_puzzles import input_of, right, write_tasks
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Reply, Server, completion

pytest.importorskip("openai")
__all__ = ["server", "short_waits"]

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_tasks(tmp_path / "tasks")


def options(server: Server, *more: object) -> list[object]:
    """Return the arguments of a run; what is given last counts."""
    given = ["--base-url", server.base_url, "--model", "small", "--out", "small.jsonl"]
    return ["answer", "arc", "tasks", *given, *more]


def test_replies_are_written_and_imported_as_the_last_line_says(run: Run, server: Server) -> None:
    server.behave = right
    done = run(*options(server, "--attempts", 2))
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("3 test inputs: 3 to 6 calls, the first 3 with about ")
    assert lines[0].endswith(" tokens of prompts; replies and further attempts come on top.")
    assert lines[1:-1] == [
        "2 test inputs: 2 right", "1 test inputs of minimal tasks: 1 right",
        "3 calls took 30 tokens", "Wrote 3 replies to small.jsonl. Next:",
    ]  # fmt: skip
    assert done.err.startswith("answering 100 %")
    assert lines[-1] == (
        "bayescontam import arc-predictions small.jsonl --tasks tasks --guesses 2 --out"
        " responses.csv"
    )
    done = run(*lines[-1].split()[1:])
    assert done.status == 0
    assert "small: 3 right" in done.out
    # The same again costs nothing.
    done = run(*options(server, "--attempts", 2))
    assert done.out.startswith(
        "3 test inputs, of which 3 are answered in the cache: no call is needed."
    )
    assert len(server.requests) == 3


def test_the_estimate_of_tokens_counts_two_a_cell(run: Run, server: Server) -> None:
    server.behave = right
    Path("short.md").write_text("Solve.", encoding="utf-8")
    out = run(*options(server, "--prompt", "short.md")).out
    found = re.search(r"about ([\d,]+) tokens of prompts; replies come on top", out)
    assert found
    # Each of the three puzzles has 18 cells and 2 numbers of examples, and some words.
    assert 3 * 2 * 20 < int(found[1].replace(",", "")) < 3 * 2 * 20 + 3 * 50


def test_options_reach_the_endpoint(run: Run, server: Server) -> None:
    server.behave = right
    more = ("--temperature", "default", "--max-output-tokens", 500, "--effort", "low", "--quiet",
            "--name", "mine", "--cache", "replies", "--extra-body", '{"top_p": 0.5}')  # fmt: skip
    assert run(*options(server, *more)) == Done(0, "", "")
    body = server.requests[0].body
    assert "temperature" not in body
    fields = ("max_tokens", "reasoning_effort", "top_p")
    assert [body[each] for each in fields] == [500, "low", 0.5]
    rows = [json.loads(line) for line in Path("small.jsonl").read_text().splitlines()]
    assert {row["model"] for row in rows} == {"mine"}
    assert len(list(Path("replies").rglob("*.reply"))) == 3


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (("--out", "small.csv"), "give a name that ends with .jsonl"),
        (("--attempts", 2, "--no-feedback"), "independent attempts would all be the same reply"),
        (("--temperature", "warm"), "'warm' is neither a number nor 'default'"),
        (("--prompt", "small.jsonl", "--out", "./small.jsonl"), "is what the command reads"),
        (("--out", "tasks/small.jsonl"), "tasks/small.jsonl: lies within what the command reads"),
        (("--cache", "tasks"), "tasks: lies within what the command reads"),
        (("--cache", "tasks/cache"), "tasks/cache: lies within what the command reads"),
        (("--attempts", 0), "attempts 0: allowed is a whole number, 1 or more"),
        (("--base-url", "here"), "begins with neither http"),
    ],
)
def test_wrong_usage_costs_no_call(
    run: Run, server: Server, more: tuple[object, ...], match: str
) -> None:
    if "--prompt" in more:
        Path("small.jsonl").write_text("Solve.", encoding="utf-8")
    done = run(*options(server, *more))
    assert done.status == 2
    assert match in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("tasks", "out"),
    [
        ("all.json", "all.json"), ("tasks", "tasks/new.json"), ("tasks", "tasks/more/new.json"),
        ("arc_challenges.json", "arc_solutions.json"),
    ],
)  # fmt: skip
def test_a_baseline_replaces_no_task(run: Run, tasks: str, out: str) -> None:
    Path("tasks/more").mkdir()
    for name in ("all.json", "arc_challenges.json", "arc_solutions.json"):
        Path(name).write_text("{}", encoding="utf-8")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = run("answer", "arc-baseline", tasks, "--out", out)
    assert done.status == 2
    problem = "lies within what" if tasks == "tasks" else "is what the command reads"
    assert problem in " ".join(done.err.split())
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_run_that_is_stopped_resumes(run: Run, server: Server, tmp_path: Path, how: str) -> None:
    pair = {"input": [[1, 2]], "output": [[2, 1]]}
    for at in range(40):
        task = {"train": [pair], "test": [{"input": [[at % 10, at // 10]], "output": [[9, 9]]}]}
        (tmp_path / "tasks" / f"t{at}.json").write_text(json.dumps(task), encoding="utf-8")
    server.behave = lambda _: Reply(completion("[9 9]").body, delay=0.1)
    command = [*options(server, "--quiet"), "--concurrency", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bayescontam", *map(str, command)], cwd=tmp_path,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while len(server.requests) < 16 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(getattr(signal, how))
    _, err = process.communicate(timeout=60)
    if how == "SIGINT":
        assert process.returncode == 130
        assert err.decode().startswith("replies are stored: run the same command again to resume")
    assert not Path("small.jsonl").exists()
    stored = len(list(Path("judge-cache").rglob("*.reply")))
    assert stored >= 16 - 4
    before = len(server.requests)
    server.behave = lambda _: completion("[9 9]")
    assert run(*command).status == 0
    assert len(server.requests) - before == 43 - stored
    again = [json.dumps(input_of(request)) for request in server.requests]
    # Those that were under way when it was stopped.
    assert len(again) - len(set(again)) <= 4 + 3
    rows = [json.loads(line) for line in Path("small.jsonl").read_text().splitlines()]
    assert len(rows) == len({(row["task"], row["test"]) for row in rows}) == 43
