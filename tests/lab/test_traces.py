"""Traces of a teacher that follows a script: what counts, what is written again, what is stored."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bayescontam.duplicates.sandbox import check_sandbox
from bayescontam.endpoint import Endpoint
from bayescontam.errors import TaskError, UsageError
from bayescontam.lab.traces import Traces, write_traces
from bayescontam.specs.lab import LabSpec
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Reply, Request, Server, completion, fault

pytest.importorskip("openai")
__all__ = ["server", "short_waits"]

SPEC = """
summary = "Sums, solved by a teacher."
texts = 40
halves = "first"
mixes = [
    { name = "clean", kind = "clean" },
    { name = "exact-2", kind = "exact", copies = 2 },
    { name = "semantic-1", kind = "semantic", copies = 1, levels = ["a"] },
]
[files]
background = "<documents>"
benchmark = "sums.jsonl"
duplicates = "made.jsonl"
[answers]
grade = "regex"
pattern = "Answer: (.+)"
"""
ITEMS = [
    {"id": f"s{at}", "input": f"What is {at} plus 3? Think well.", "output": str(at + 3)}
    for at in range(6)
]
MADE = [
    {"item": row["id"], "duplicate": f"{row['id']}/{level}/1", "level": level, "kind": "semantic",
     "parent_sha256": hashlib.sha256(row["input"].encode()).hexdigest(), "checks": ["x"],
     "text": f"In way {level}: add 3 to {row['id'][1]}, please.", "answer": row["output"]}
    for row in ITEMS for level in "ab"
]  # fmt: skip
SOLVED = ["s0", "s1", "s2", "s0/a/1", "s1/a/1", "s2/a/1"]
"""What stands in the texts of the mixes."""


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_lines(tmp_path / "sums.jsonl", ITEMS)
    write_lines(tmp_path / "made.jsonl", MADE)
    return tmp_path


def sent(request: Request) -> str:
    return str(request.body["messages"][-1]["content"])


def number_of(request: Request) -> int:
    found = re.search(r"What is (\d) plus|add 3 to (\d),", sent(request))
    assert found
    return int(found[1] or found[2])


def right(request: Request) -> Reply:
    number = number_of(request)
    return completion(f"<think>hm</think>Of {number} and 3.\nAnswer: {number + 3}.")


def traced(files: Path, server: Server, spec: str = SPEC, **options: Any) -> Traces:
    lab = LabSpec.parse(spec, str(files / "lab.toml"))
    endpoint = Endpoint(server.base_url, "teacher", timeout=20.0, retries=1, concurrency=2)
    return write_traces(lab, endpoint, files / "traces.jsonl", **options)


def test_right_solutions_are_written_as_a_lab_reads_them(files: Path, server: Server) -> None:
    server.behave = right
    made = traced(files, server)
    lines = (files / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == made.rows
    assert [row["duplicate"] or row["item"] for row in made.rows] == SOLVED
    assert made.rows[4] == {
        "benchmark": "sums", "item": "s1", "duplicate": "s1/a/1", "model": "teacher",
        "text": "Of 1 and 3.\nAnswer: 4.",
        "solved_sha256": hashlib.sha256(b"In way a: add 3 to 1, please.\0004").hexdigest(),
    }  # fmt: skip
    assert made.failures.empty
    assert made.left == 0
    assert made.notes == ["6 calls took 60 tokens"]
    prompts = [sent(request) for request in server.requests]
    assert all("regular expression `Answer: (.+)` matches" in prompt for prompt in prompts)
    assert not any("earlier solution" in prompt for prompt in prompts)


@pytest.mark.parametrize(
    ("out", "what"),
    [
        ("made.jsonl", r"files\.duplicates"), ("sums.jsonl", r"files\.benchmark"),
        ("lab.toml", "the spec"), ("texts/new.jsonl", r"files\.background"),
        ("texts/../texts/one.jsonl", r"files\.background"), ("mine.toml", r"files\.recipe"),
        ("near.jsonl", r"files\.near"),
    ],
)  # fmt: skip
def test_traces_replace_nothing_that_a_lab_reads(files: Path, out: str, what: str) -> None:
    spec = SPEC.replace('"<documents>"', '"texts/*"\nnear = "near.jsonl"\nrecipe = "mine.toml"')
    (files / "texts").mkdir()
    for name in ("lab.toml", "texts/one.jsonl", "texts/new.jsonl", "mine.toml", "near.jsonl"):
        (files / name).write_text("{}", encoding="utf-8")
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    endpoint = Endpoint("http://localhost:9/v1", "teacher")
    lab = LabSpec.parse(spec, str(files / "lab.toml"))
    with pytest.raises(UsageError, match=f"is read as {what} .*, and would be lost or read as a"):
        write_traces(lab, endpoint, files / out)
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before


def test_traces_of_before_are_replaced(files: Path, server: Server) -> None:
    server.behave = right
    spec = SPEC.replace('"sums.jsonl"', '"sums.jsonl"\ntraces = "traces.jsonl"')
    (files / "traces.jsonl").write_text("{}", encoding="utf-8")
    assert len(traced(files, server, spec).rows) == len(SOLVED)


def test_wrong_solutions_are_written_again_and_counted(files: Path, server: Server) -> None:
    def behave(request: Request) -> Reply:
        number, again = number_of(request), "# What was wrong" in sent(request)
        if number == 0 and not again:
            return completion("Answer: 99")
        if number == 1:
            return completion("I would rather not state it.")
        if number == 2 and not again:
            return completion("Long and longer and", finish_reason="length")
        return right(request)

    server.behave = behave
    made = traced(files, server, tries=2)
    assert [row["duplicate"] or row["item"] for row in made.rows] == [
        "s0",
        "s2",
        "s0/a/1",
        "s2/a/1",
    ]
    counts = {(row.what, row.reason): row.count for row in made.failures.itertuples(index=False)}
    form = "it has no final answer in the requested form"
    assert counts == {
        ("attempt", form): 4, ("trace", form): 2, ("attempt", "its final answer is wrong"): 2,
        ("attempt", "it was cut off"): 2,
    }  # fmt: skip
    assert made.left == 0
    again = [sent(request) for request in server.requests if "earlier" in sent(request)]
    assert sum("its final answer is wrong" in prompt for prompt in again) == 2


def test_stored_replies_are_used_and_what_is_left_is_done_later(
    files: Path, server: Server
) -> None:
    server.behave = right
    first = traced(files, server, max_calls=3, cache=files / "cache")
    assert (len(first.rows), first.left) == (3, 3)
    second = traced(files, server, cache=files / "cache")
    assert [row["duplicate"] or row["item"] for row in second.rows] == SOLVED
    assert len(server.requests) == 6
    third = traced(files, server, cache=files / "cache")
    assert third.rows == second.rows
    assert len(server.requests) == 6
    assert third.notes == ["0 calls took 0 tokens"]


def test_what_the_endpoint_refuses_is_counted(files: Path, server: Server) -> None:
    server.behave = lambda request: (
        right(request) if number_of(request) else fault(400, "too odd a sum")
    )
    made = traced(files, server, cache=files / "cache")
    assert {row["item"] for row in made.rows} == {"s1", "s2"}
    [row] = made.failures.itertuples(index=False)
    assert (row.what, row.reason, row.count, row.first) == ("trace", "status 400", 2, "s0")
    calls = len(server.requests)
    server.behave = right
    assert len(traced(files, server, cache=files / "cache").rows) == 6
    assert len(server.requests) == calls + 2  # a failure of the endpoint is not stored


def test_numbers_and_own_prompts(files: Path, server: Server) -> None:
    server.behave = lambda request: completion(f"It is {number_of(request) + 3}")
    prompt = files / "own.md"
    prompt.write_text("Solve for $$5: $text\n$ending", encoding="utf-8")
    spec = SPEC.replace('grade = "regex"\npattern = "Answer: (.+)"', 'grade = "number"')
    made = traced(files, server, spec, prompt=prompt)
    assert len(made.rows) == 6
    assert sent(server.requests[0]) == (
        "Solve for $5: What is 0 plus 3? Think well.\n"
        "End with the answer, a number in digits, after which no other number follows."
    )


def test_programs_pass_their_tests(files: Path, server: Server) -> None:
    check_sandbox()
    tasks = [
        {"task_id": f"t{at}", "prompt": f"What is {at} plus 3? Write it as a function of n.",
         "code": f"def plus(n):\n    return n + {at}", "test_list": [f"assert plus(1) == {1 + at}"]}
        for at in range(4)
    ]  # fmt: skip
    write_lines(files / "tasks.jsonl", tasks)
    spec = SPEC.replace('"sums.jsonl"', '"tasks.jsonl"\nrecipe = "mbpp"')
    spec = spec.replace('grade = "regex"\npattern = "Answer: (.+)"', 'grade = "tests"')
    spec = "\n".join(line for line in spec.splitlines() if "semantic" not in line)
    server.behave = lambda request: completion(
        f"So:\n```python\ndef plus(n):\n    return {number_of(request) or 7} + n\n```"
    )
    made = traced(files, server, spec, tries=1)
    assert [row["item"] for row in made.rows] == ["t1"]
    assert "defines the function `plus` under" in sent(server.requests[0])
    assert {*made.failures["reason"]} == {"it does not pass the tests"}


def test_faults_are_named(files: Path, server: Server) -> None:
    server.behave = lambda _: completion("Answer: wrong")
    with pytest.raises(TaskError, match="no solution is right: 'its final answer is wrong'; noth"):
        traced(files, server)
    exact = SPEC.replace('grade = "regex"\npattern = "Answer: (.+)"', "")
    with pytest.raises(UsageError, match=r"answers\.grade: got 'exact', by which no solution is"):
        traced(files, server, exact)
    with pytest.raises(UsageError, match="tries: got 0; allowed is 1 or more"):
        traced(files, server, tries=0)
    (files / "own.md").write_text("Solve $txt", encoding="utf-8")
    with pytest.raises(UsageError, match=r"own\.md: has the placeholders '\$txt'; needed are"):
        traced(files, server, prompt=files / "own.md")
    with pytest.raises(UsageError, match=r"no\.md: cannot be read"):
        traced(files, server, prompt=files / "no.md")
    clean = "\n".join(line for line in SPEC.splitlines() if "copies" not in line)
    with pytest.raises(UsageError, match="no mix holds items or duplicates of them"):
        traced(files, server, clean)
    with pytest.raises(UsageError, match="names no files of its own; give them: --benchmark <b>"):
        traced(files, server, SPEC.replace("sums.jsonl", "<b>"))
    made = "arithmetic = { items = 4, controls = 2 }\n" + SPEC.split("[files]")[0]
    made = "\n".join(line for line in made.splitlines() if "levels" not in line)
    with pytest.raises(UsageError, match=r"spec 'lab': has no \[files\], which traces are of"):
        traced(files, server, made)
    assert not (files / "traces.jsonl").exists()
